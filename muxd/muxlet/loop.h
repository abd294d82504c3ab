/*
 * loop.h - epoll, timers and the end of a turn; one thread.
 *
 * A source is a descriptor with a callback, embedded in its owner. It may be
 * removed from inside any callback: events of this turn that were still due for
 * it are dropped. Timers are embedded too; their order is a heap. Level
 * triggered throughout, one bounded piece of work per callback.
 */
#ifndef MUXD_MUXLET_LOOP_H
#define MUXD_MUXLET_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#define LOOP_EVENTS 64

struct source {
	int fd;          /* -1: none */
	uint32_t events; /* what epoll watches; 0: not in epoll at all (a hang-up is not reported then) */
	void (*ready)(struct source *s, uint32_t events);
};

struct timer {
	uint64_t due_ns;
	size_t at; /* place in the heap, from 1; 0: not armed */
	void (*fire)(struct timer *t);
};

struct loop {
	int epoll_fd;
	uint64_t now_ns; /* CLOCK_MONOTONIC at the start of the turn */
	struct timer **heap;
	size_t timers, heap_cap;
	struct epoll_event events[LOOP_EVENTS];
	int next, count; /* of the events of this turn */
	bool again;      /* somebody has more to do: do not wait in the next turn */
};

int loop_init(struct loop *l); /* 0 or -errno */
void loop_finish(struct loop *l);
/* 0 or -errno; events 0 takes it out. */
int source_watch(struct loop *l, struct source *s, uint32_t events);
/* Out of epoll and out of this turn; the descriptor stays open. */
void source_remove(struct loop *l, struct source *s);
void source_close(struct loop *l, struct source *s);
/* Room for one more timer is reserved per owner, so that arming cannot fail later. */
int timer_reserve(struct loop *l, size_t owners);
void timer_arm(struct loop *l, struct timer *t, uint64_t due_ns);
void timer_cancel(struct loop *l, struct timer *t);
/* Waits, calls what is ready, fires what is due. 0 or -errno of epoll_wait. */
int loop_turn(struct loop *l);
uint64_t monotonic_ns(void);

#define MS_NS                         UINT64_C(1000000)
#define container_of(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))

#endif
