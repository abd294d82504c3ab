/*
 * proc.h - a supervised child: started, told, restarted, stopped.
 *
 * Embedded in its owner (the monitor); lives on its loop. A child that ends by
 * itself is started again after 100 ms, doubled each time up to 5 s, and from
 * the beginning once it has lived for 60 s.
 *
 *   down -> starting (spawned, `hello` sent) -> ready (it said so)
 *   starting, ready -> backoff (it ended) -> starting
 *   starting, ready -> stopping (told to stop) -> down
 */
#ifndef MUXD_MONITOR_PROC_H
#define MUXD_MONITOR_PROC_H

#include "muxd/monitor/channel.h"
#include "muxd/monitor/child.h"

#include <stdbool.h>
#include <stdint.h>

#define PROC_PAUSE_MAX_MS 5000 /* between an end and the next start */

enum proc_state { PROC_DOWN, PROC_STARTING, PROC_READY, PROC_STOPPING, PROC_BACKOFF };

struct proc;
struct proc_ops {
	const char *name; /* "net" */
	/* Fill what child_spawn() needs but ipc_fd. */
	void (*spec)(void *arg, struct child_spec *out);
	/* Send the first packet. */
	int (*hello)(void *arg, struct channel *c, struct err *e);
	void (*packet)(void *arg, const json_t *msg);
	/*
	 * 0: now. ERR_AGAIN: something must be there first; it stays down until proc_start() is called again. Another
	 * ERR_*: what it needs could not be had; that counts as an end, and is tried again like one.
	 */
	int (*may_start)(void *arg, struct err *e);
	/* The process has ended, or could not be started. was_ready: it had come up. In state stopping the end was
	 * wanted. */
	void (*ended)(void *arg, bool was_ready, const struct err *how);
};

struct proc {
	const struct proc_ops *ops;
	void *arg;
	uv_loop_t *loop;
	enum proc_state state;
	pid_t pid; /* 0: none */
	struct channel *channel;
	uv_timer_t timer; /* ready deadline, back-off, kill deadline: never two at once */
	uint64_t started_ns;
	uint64_t delay_ms;   /* the next back-off */
	uint64_t ready_ms;   /* it may be silent for so long while it starts, and is killed then: 120,000 */
	uint64_t generation; /* grows with every start: answers to an earlier one are dropped */
	unsigned restarts;
};

int proc_init(struct proc *p, uv_loop_t *loop, const struct proc_ops *ops, void *arg);
void proc_finish(struct proc *p); /* kills what is left, without waiting for the loop */
/* From down or backoff. A failure goes to `ended`, and to backoff. */
void proc_start(struct proc *p);
void proc_set_ready(struct proc *p); /* the child said so */
void proc_progress(struct proc *p);  /* it said that its start takes longer, and gets on */
/* {"op":"stop"}, then SIGKILL after grace_ms. `ended` is called in any case, at once when it was down. */
void proc_stop(struct proc *p, uint64_t grace_ms);
void proc_kill(struct proc *p); /* it does not answer: SIGKILL, and the usual restart */
void proc_reap(struct proc *p); /* after SIGCHLD */
/* ERR_UNAVAILABLE when it is not up. */
int proc_send(struct proc *p, const json_t *msg, const int *fds, size_t nfds);
const char *proc_state_name(enum proc_state s);

#endif
