/*
 * memory.h - some of a pod's memory is kept free, for muxlet and for staff.
 *
 * A container is one group of memory, and what runs in it can make none of its own. A group that is full is slow for
 * everybody in it: each page has to be found by dropping another or by ending somebody, in whoever's name it is asked
 * for, and the container's first process may be the one who is ended. So muxlet looks how much is used that the kernel
 * cannot drop, the more often the less is left, and ends the largest programs it started before the last part is taken:
 * as the kernel would, with the same cause, but before it is late. Programs of staff come last. Whoever takes memory
 * quicker than muxlet can look costs a canary (canary.h), and all that are not staff's at once.
 *
 * Only in pods of muxd's own (elsewhere memory is whose pod it is), and where the group can be read.
 */
#ifndef MUXD_MUXLET_MEMORY_H
#define MUXD_MUXLET_MEMORY_H

#include "muxd/muxlet/canary.h"
#include "muxd/muxlet/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MEMORY_PAST 64
#define MEMORY_RATE UINT64_C(1000000000) /* bytes a second */

struct muxlet;
struct tree_proc;

struct memory {
	struct timer timer;
	bool v2;
	int stat_fd, limit_fd, kernel_fd, pids_fd; /* files of the group; -1: not there */
	uint64_t held;                             /* at the last of these */
	pid_t past[MEMORY_PAST];                   /* groups of programs that ended: a ring, its next place */
	size_t at;
	unsigned again; /* looks in a row at which too much was used */
	struct canaries canaries;
	uint64_t calm_ns; /* since when memory is not short; 0: it is */
};

/* What a group says of itself; held: what the kernel cannot drop. */
struct memory_use {
	uint64_t limit, held, processes; /* with threads */
};

/*
 * stat: memory.stat. Version 1 has its limit there, and kernel: all of the kernel's memory for it, much of which can be
 * dropped; what processes need for themselves is taken from their number. Version 2 tells these apart. ERANGE: no
 * limit.
 */
int memory_read(bool v2, const char *stat, const char *limit, const char *kernel, const char *pids,
		struct memory_use *out);
/* How much of a limit is kept free; and of that, what each canary holds, 0: the limit is too small for any. */
uint64_t memory_kept(uint64_t limit);
uint64_t memory_canary(uint64_t limit);
/* Until the next look: memory cannot be taken faster than MEMORY_RATE, and room is what is left of it before the part
 * kept free. */
uint64_t memory_next_ns(uint64_t room);
/*
 * The largest first, those that are ours (of staff) behind all others, and these only where `staff` says so: sorts v,
 * and says how many from its start have to end to give back `need` bytes; 0: it cannot be had.
 */
size_t memory_choose(struct tree_proc *v, size_t n, uint64_t need, bool staff);
/* Once, at the start: opens what is in dir (/sys/fs/cgroup), and looks from then on. Without a limit it does nothing.
 */
void memory_open(struct muxlet *m, const char *dir);
/* A program of an agent has ended: its group may be left. */
void memory_past(struct muxlet *m, pid_t group);
/* A process was reaped: if it was a canary, the group was full. */
void memory_reaped(struct muxlet *m, pid_t pid);
void memory_close(struct muxlet *m);
/* muxlet's own code and data stay in memory, as far as that is allowed: who waits for a page there waits for all. */
void memory_lock(void);

#endif
