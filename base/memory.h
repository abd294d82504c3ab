/*
 * memory.h - what a crowd needed goes back to the system when it is quiet.
 *
 * The allocator keeps what is freed between what is not, so that a process stays as large as it ever was: a session
 * that begins leaves what its beginning needed, one that ends all it had. Its owner says when something came or went (a
 * session), and asks now and then; once enough did and it is quiet, or a minute later at the latest, it is time to give
 * back what is free. A value, its owner's; one thread at a time.
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct memory_rest {
	unsigned moved;
	uint64_t since_ns, last_ns; /* when the first and the last of them came or went */
};

void memory_moved(struct memory_rest *m, uint64_t now_ns);
/* Is it time? Pure, but that it begins anew with true. */
bool memory_due(struct memory_rest *m, uint64_t now_ns);
/* Gives back what is free. */
void memory_give(void);

#endif
