/*
 * precedence.h - net's loop has its turn ahead of ordinary programs, where it waits for it and has little to do.
 *
 * A niceness is a share of the processor and no turn: the kernel lets whoever runs finish a slice, and counts a sandbox
 * that forks all it can as one. With a niceness of -10 net waited up to 14 ms beside such a one, for each of a round's
 * two or three turns. SCHED_RR (sched(7)) has its turn at once.
 *
 * States: PRECEDENCE_USUAL  its niceness: it waits for nobody, or it used more than half of a processor, and ahead it
 *                           would take the turn of recorder, muxlets and clients, whose work it passes on
 *         PRECEDENCE_ASKED  it waited for a fiftieth of the time; the monitor was asked, which alone may do it
 *         PRECEDENCE_AHEAD  SCHED_RR, priority 1; for ten seconds, then it is looked whether it waits still
 *         PRECEDENCE_NONE   the system does not let it, or does not say who waits: the monitor is not root,
 *                           say; a turn that comes late is taken all the same
 *
 * Nobody is starved: a loop that does not sleep for PRECEDENCE_SPIN_MS is sent back by the kernel (RLIMIT_RTTIME,
 * SIGXCPU), and the kernel keeps a twentieth of each processor for ordinary programs (sched_rt_runtime_us). Threads
 * other than the loop's are never ahead.
 */
#ifndef MUXD_NET_PRECEDENCE_H
#define MUXD_NET_PRECEDENCE_H

#include <stdint.h>
#include <uv.h>

#define PRECEDENCE_LOOK_MS 100
#define PRECEDENCE_SPIN_MS 200
#define PRECEDENCE_WAIT_MS 5000 /* for the monitor */

#define PRECEDENCE_HOLD_MS 10000

enum precedence_state { PRECEDENCE_USUAL, PRECEDENCE_ASKED, PRECEDENCE_AHEAD, PRECEDENCE_NONE };

/* Of a thread since it began: /proc/self/task/N/schedstat (Documentation/scheduler/sched-stats.rst). */
struct precedence_times {
	uint64_t used_ns, waited_ns; /* ran; was to run, and another did */
};

typedef void precedence_ask(void *arg); /* niceness_ahead() of this process, by who may; no answer */

struct precedence {
	enum precedence_state state;
	precedence_ask *ask;
	void *arg;
	uv_check_t turn;
	uv_work_t first;
	int schedstat_fd;
	uint64_t looked_ns, since_ns; /* the last look; when the state was entered */
	struct precedence_times then; /* at that look */
};

/* The calling thread runs the loop, and is the process's first. Best effort. */
void precedence_begin(struct precedence *p, uv_loop_t *loop, precedence_ask *ask, void *arg);
void precedence_end(struct precedence *p); /* the handle closes in the next turn of the loop */
/* The result of a look: what the loop used and waited within passed_ns, in that state for held_ns. */
enum precedence_state precedence_next(enum precedence_state now, const struct precedence_times *spent,
				      uint64_t passed_ns, uint64_t held_ns);

#endif
