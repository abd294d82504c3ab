/* The tables: which channels there are, who has something to send, what is kept of ended ones. */
#include "muxd/muxlet/muxlet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define URGENT_MAX 4096

void muxlet_note(const struct muxlet *m, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	int n;

	if (!m->verbose)
		return;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n > 0)
		dprintf(2, "muxlet: %s\n", text);
}

struct channel *muxlet_find(struct muxlet *m, uint32_t number)
{
	struct channel *c;

	LIST_FOREACH(c, &m->by_number[number % BUCKETS], by_number)
	if (c->number == number && !c->forgotten)
		return c;
	return NULL;
}

struct channel *muxlet_find_pid(struct muxlet *m, pid_t pid)
{
	struct channel *c;

	LIST_FOREACH(c, &m->by_pid[(unsigned)pid % BUCKETS], by_pid)
	if (c->pid == pid)
		return c;
	return NULL;
}

void muxlet_adopt(struct muxlet *m, struct channel *c)
{
	LIST_INSERT_HEAD(&m->by_number[c->number % BUCKETS], c, by_number);
	TAILQ_INSERT_TAIL(&m->alive, c, place);
	m->living++;
}

bool muxlet_is_frozen(const struct muxlet *m)
{
	const struct channel *c;

	TAILQ_FOREACH(c, &m->alive, place)
	if (c->freezes && (c->state == CHANNEL_STARTING || c->pid))
		return true;
	return false;
}

void muxlet_want_send(struct channel *c)
{
	struct muxlet *m = c->m;
	size_t unsent =
	    (size_t)(c->out[0].spool.end - c->out[0].spool.sent + c->out[1].spool.end - c->out[1].spool.sent);

	if (!c->resumed || !m->stream || c->forgotten || c->queued)
		return;
	c->queued = unsent <= URGENT_MAX ? &m->urgent : &m->bulk;
	TAILQ_INSERT_TAIL(c->queued, c, to_send);
}

void muxlet_lazy(struct channel *c, unsigned ms)
{
	struct stream *s = c->m->stream;
	uint64_t due = c->m->loop.now_ns + ms * MS_NS;

	if (!c->resumed || !s || c->forgotten || (c->state == CHANNEL_ENDED && !c->exit_pending))
		return; /* nothing follows EXIT */
	if (!c->in_lazy) {
		c->in_lazy = true;
		TAILQ_INSERT_TAIL(&c->m->lazy, c, lazy);
	}
	if (s->lazy_ns && s->lazy_ns <= due)
		return;
	s->lazy_ns = due;
	timer_arm(&c->m->loop, &s->timer, due);
}

static void unspool(struct channel *c)
{
	if (!c->spooled)
		return;
	c->spooled = false;
	c->m->spooled--;
	for (int i = 0; i < 2; i++) {
		if (c->m->stream)
			stream_let_go(c->m->stream, &c->out[i]);
		spool_drop(&c->out[i].spool);
	}
}

/* An ended channel costs its output until it is acknowledged; without a hub that adds up, so the oldest pay. */
void muxlet_ended(struct channel *c)
{
	struct muxlet *m = c->m;
	struct channel *old;

	TAILQ_REMOVE(&m->alive, c, place);
	TAILQ_INSERT_TAIL(&m->ended, c, place);
	m->living--;
	m->finished++;
	m->spooled++;
	c->spooled = true;
	m->doomed = m->doomed || c->forgotten;
	TAILQ_FOREACH(old, &m->ended, place)
	{
		if (m->spooled <= FINISHED_SPOOLED)
			break;
		if (!old->resumed || !m->stream) /* one that is being sent keeps its bytes */
			unspool(old);
	}
	old = TAILQ_FIRST(&m->ended);
	if (m->finished > FINISHED_MAX && old != c) {
		old->forgotten = true;
		m->doomed = true;
	}
}

void muxlet_sweep(struct muxlet *m)
{
	struct channel *c, *next;

	if (!m->doomed)
		return;
	m->doomed = false;
	for (c = TAILQ_FIRST(&m->ended); c; c = next) {
		next = TAILQ_NEXT(c, place);
		if (c->forgotten)
			channel_destroy(c);
	}
	muxlet_room(m);
}

void muxlet_room(struct muxlet *m)
{
	struct channel *c, *next;

	for (c = TAILQ_FIRST(&m->alive); c; c = next) {
		next = TAILQ_NEXT(c, place);
		output_update(&c->out[0]);
		output_update(&c->out[1]);
	}
}

/* No hub: programs run on into their spools, and what was frozen for the hub's answer goes its way. */
void muxlet_detached(struct muxlet *m)
{
	struct channel *c, *next;

	m->stream = NULL;
	while ((c = TAILQ_FIRST(&m->urgent)) || (c = TAILQ_FIRST(&m->bulk))) {
		TAILQ_REMOVE(c->queued, c, to_send);
		c->queued = NULL;
	}
	while ((c = TAILQ_FIRST(&m->lazy))) {
		TAILQ_REMOVE(&m->lazy, c, lazy);
		c->in_lazy = false;
	}
	TAILQ_FOREACH(c, &m->ended, place)
	c->resumed = false;
	for (c = TAILQ_FIRST(&m->alive); c; c = next) {
		next = TAILQ_NEXT(c, place);
		c->resumed = c->frozen = false;
		channel_input_flush(c);
		output_update(&c->out[0]);
		output_update(&c->out[1]);
	}
	secrets_wipe(m, 0);
}
