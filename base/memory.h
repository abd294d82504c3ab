/*
 * memory.h - what a crowd needed goes back to the system when the crowd has gone.
 *
 * The allocator keeps what is freed between what is not, so that a process stays as large as it ever was. Its owner
 * says when something went (a session), and asks now and then; once enough went and it is quiet, or a minute later at
 * the latest, what is free is given back. A value, its owner's; one thread at a time.
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct memory_rest {
	unsigned went;
	uint64_t since_ns, last_ns; /* when the first and the last of them went */
};

void memory_went(struct memory_rest *m, uint64_t now_ns);
/* Is it time? Pure, but that it begins anew with true. */
bool memory_due(struct memory_rest *m, uint64_t now_ns);
/* Gives back what is free when it is time. */
void memory_rest(struct memory_rest *m, uint64_t now_ns);

#endif
