/*
 * found.h - a process that may be found again by another program run: pid, start time, boot.
 *
 * A pid alone is reused; with the start time (clock ticks since boot) and the
 * boot id it names one process for ever. Signals go through a pidfd that was
 * opened before the start time was compared, so never to a stranger.
 */
#ifndef CONTROL_LOCAL_FOUND_H
#define CONTROL_LOCAL_FOUND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct found {
	pid_t pid; /* 0 = none */
	uint64_t start;
};

/* ERR_NOT_FOUND when it does not exist or is a zombie. */
int found_take(pid_t pid, struct found *out);
/* A pidfd of exactly this process; ERR_NOT_FOUND when it has ended. */
int found_open(const struct found *f, int *out_pidfd);
bool found_alive(const struct found *f);
/* KILL, then waits until it is gone or CLOCK_BOOTTIME passes deadline_ns: ERR_TIMEOUT. Gone already is 0. */
int found_kill(const struct found *f, uint64_t deadline_ns);
/*
 * The same of process 1 of a pid namespace with all that is in there. The kernel ends the others when process 1 is
 * gone, but a thread of process 1 may wait for a lock that one of them holds (a pipe's, muxd/muxlet/pipes.h), and then
 * neither goes: those that are left after FOUND_FIRST_NS are killed as well.
 */
int found_kill_world(const struct found *first, uint64_t deadline_ns);
#define FOUND_FIRST_NS (UINT64_C(200) * 1000 * 1000)
/* Waits for the end without a signal; pidfd from found_open. ERR_TIMEOUT. */
int found_wait(int pidfd, uint64_t deadline_ns);
/* Milliseconds until the deadline for poll(2), rounded up, 0 when past. */
int deadline_ms(uint64_t deadline_ns);

#endif
