#include "muxd/muxlet/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MAX_MS 3600000

uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int loop_init(struct loop *l)
{
	memset(l, 0, sizeof(*l));
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	l->now_ns = monotonic_ns();
	return l->epoll_fd < 0 ? -errno : 0;
}

void loop_finish(struct loop *l)
{
	if (l->epoll_fd >= 0)
		close(l->epoll_fd);
	free(l->heap);
	l->heap = NULL;
	l->epoll_fd = -1;
}

int source_watch(struct loop *l, struct source *s, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = s};
	int op = !s->events ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;

	if (s->events == events || s->fd < 0)
		return 0;
	if (epoll_ctl(l->epoll_fd, op, s->fd, &ev))
		return -errno;
	s->events = events;
	return 0;
}

void source_remove(struct loop *l, struct source *s)
{
	(void)source_watch(l, s, 0);
	for (int i = l->next; i < l->count; i++)
		if (l->events[i].data.ptr == s)
			l->events[i].data.ptr = NULL;
}

void source_close(struct loop *l, struct source *s)
{
	if (s->fd < 0)
		return;
	source_remove(l, s);
	close(s->fd);
	s->fd = -1;
	s->events = 0;
}

static void heap_put(struct loop *l, size_t at, struct timer *t)
{
	l->heap[at - 1] = t;
	t->at = at;
}

static void heap_settle(struct loop *l, struct timer *t)
{
	size_t at = t->at, child;

	while (at > 1 && l->heap[at / 2 - 1]->due_ns > t->due_ns) {
		heap_put(l, at, l->heap[at / 2 - 1]);
		at /= 2;
	}
	while ((child = 2 * at) <= l->timers) {
		if (child < l->timers && l->heap[child]->due_ns < l->heap[child - 1]->due_ns)
			child++;
		if (l->heap[child - 1]->due_ns >= t->due_ns)
			break;
		heap_put(l, at, l->heap[child - 1]);
		at = child;
	}
	heap_put(l, at, t);
}

int timer_reserve(struct loop *l, size_t owners)
{
	struct timer **bigger;

	if (owners <= l->heap_cap)
		return 0;
	owners += owners / 2 + 16;
	bigger = realloc(l->heap, owners * sizeof(struct timer *));
	if (!bigger)
		return -ENOMEM;
	l->heap = bigger;
	l->heap_cap = owners;
	return 0;
}

void timer_arm(struct loop *l, struct timer *t, uint64_t due_ns)
{
	t->due_ns = due_ns;
	if (!t->at) {
		if (l->timers == l->heap_cap)
			abort(); /* the owner did not reserve: a defect, not a condition */
		heap_put(l, ++l->timers, t);
	}
	heap_settle(l, t);
}

void timer_cancel(struct loop *l, struct timer *t)
{
	struct timer *last;
	size_t at = t->at;

	if (!at)
		return;
	t->at = 0;
	last = l->heap[--l->timers];
	if (last == t)
		return;
	heap_put(l, at, last);
	heap_settle(l, last);
}

static int wait_ms(const struct loop *l)
{
	uint64_t now, ms;

	if (l->again)
		return 0;
	if (!l->timers)
		return -1;
	now = monotonic_ns();
	if (l->heap[0]->due_ns <= now)
		return 0;
	ms = (l->heap[0]->due_ns - now + MS_NS - 1) / MS_NS;
	return ms < WAIT_MAX_MS ? (int)ms : WAIT_MAX_MS;
}

int loop_turn(struct loop *l)
{
	int n = epoll_wait(l->epoll_fd, l->events, LOOP_EVENTS, wait_ms(l));

	l->now_ns = monotonic_ns();
	l->again = false;
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	l->count = n;
	for (l->next = 0; l->next < l->count;) {
		struct epoll_event ev = l->events[l->next++];
		struct source *s = ev.data.ptr;

		if (s)
			s->ready(s, ev.events);
	}
	l->count = 0;
	while (l->timers && l->heap[0]->due_ns <= l->now_ns) {
		struct timer *t = l->heap[0];

		timer_cancel(l, t);
		t->fire(t);
	}
	return 0;
}
