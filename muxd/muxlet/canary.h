/*
 * canary.h - processes that the kernel ends before muxlet, where a pod's memory is full.
 *
 * A group that is full loses its largest process, whoever asked for the last page; among a crowd of small ones that may
 * be muxlet, and with it everybody's terminal. So while memory is short a few processes wait that do nothing but be
 * larger than muxlet, and go first where the kernel is asked. Their memory is back at once, since they run at muxlet's
 * priority and not at that of a thousand programs; and their end tells muxlet that it was full, whatever the last look
 * said (memory.h).
 *
 * Owned by struct memory. Any program of the same user may end one: muxlet looks at its memory then, and makes another.
 * States: NONE -> WAITING (made) -> NONE (reaped).
 */
#ifndef MUXD_MUXLET_CANARY_H
#define MUXD_MUXLET_CANARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CANARIES 4

struct canaries {
	pid_t pid[CANARIES]; /* 0: none */
	uint64_t tried_ns;
};

/*
 * As many as there are to be, each of `bytes`; one at most a call, and none for a moment after one that could not be
 * made. null_fd: their standard descriptors.
 */
void canaries_keep(struct canaries *c, uint64_t bytes, int null_fd, uint64_t now_ns);
/* All are ended; they are reaped as any child. */
void canaries_let_go(struct canaries *c);
/* A process was reaped: was it one of them? */
bool canaries_reaped(struct canaries *c, pid_t pid);
bool canaries_have(const struct canaries *c, pid_t pid);
size_t canaries_count(const struct canaries *c);

/* `muxlet --canary BYTES`: the process itself. Its exit code. */
int canary_run(uint64_t bytes);

#endif
