#include "muxd/muxlet/sink.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define SINK_READ (32 * 1024) /* less than what a pipe holds: a read of all of that makes it larger (pipes.c) */

enum sink_state { SINK_LISTENS, SINK_READS, SINK_RESTS };

struct sink {
	struct sinks *of;
	enum sink_state state;
	enum pipes_lane lane;
	struct source src;
	struct pipe_job *job;
	TAILQ_ENTRY(sink) entry, rest;
};

static void sink_leave(struct sink *s)
{
	if (s->state == SINK_RESTS)
		TAILQ_REMOVE(&s->of->rests, s, rest);
}

static void sink_close(struct sink *s)
{
	struct sinks *ss = s->of;

	sink_leave(s);
	TAILQ_REMOVE(&ss->all, s, entry);
	ss->n--;
	source_remove(ss->loop, &s->src);
	pipes_close(ss->pipes, s->lane, s, s->job, s->src.fd);
	free(s);
}

static int sink_listen(struct sink *s)
{
	sink_leave(s);
	s->state = SINK_LISTENS;
	return source_watch(s->of->loop, &s->src, EPOLLIN);
}

static void sink_rest(struct sink *s)
{
	struct sinks *ss = s->of;

	(void)source_watch(ss->loop, &s->src, 0);
	s->state = SINK_RESTS;
	TAILQ_INSERT_TAIL(&ss->rests, s, rest);
	if (!ss->rested.at)
		timer_arm(ss->loop, &ss->rested, ss->loop->now_ns + SINK_REST_MS * MS_NS);
}

static void sinks_rested(struct timer *t)
{
	struct sinks *ss = container_of(t, struct sinks, rested);
	struct sink *s;

	for (int i = 0; i < SINKS_AT_ONCE && (s = TAILQ_FIRST(&ss->rests)); i++)
		if (sink_listen(s))
			sink_close(s);
	if (!TAILQ_EMPTY(&ss->rests))
		timer_arm(ss->loop, t, ss->loop->now_ns + SINK_REST_MS * MS_NS);
}

static void sink_took(struct sink *s, ssize_t n, int error)
{
	if (n == 0 || (n < 0 && error != EAGAIN && error != EINTR))
		sink_close(s);
	else
		sink_rest(s);
}

static void sink_read(struct pipe_job *j)
{
	struct sink *s = j->arg;

	s->job = NULL;
	sink_took(s, j->n, j->error);
}

static void sink_ready(struct source *src, uint32_t events)
{
	struct sink *s = container_of(src, struct sink, src);
	uint8_t scratch[SINK_READ];
	ssize_t n;

	(void)events;
	if (!s->of->pipes->threads) {
		n = read(src->fd, scratch, sizeof(scratch));
		sink_took(s, n, n < 0 ? errno : 0);
		return;
	}
	(void)source_watch(s->of->loop, src, 0);
	s->state = SINK_READS;
	s->job = pipes_read(s->of->pipes, s->lane, src->fd, SINK_READ, sink_read, s);
	if (!s->job)
		sink_close(s);
}

int sink_add(struct sinks *ss, enum pipes_lane lane, int fd, struct pipe_job *under_way)
{
	struct sink *s = calloc(1, sizeof(*s));

	if (!s)
		return -1;
	s->of = ss;
	s->lane = lane;
	s->src.fd = fd;
	s->src.ready = sink_ready;
	if (under_way) {
		s->state = SINK_READS;
		s->job = under_way;
		s->job->done = sink_read;
		s->job->arg = s;
	} else if (sink_listen(s)) {
		free(s);
		return -1;
	}
	TAILQ_INSERT_TAIL(&ss->all, s, entry);
	if (++ss->n > SINKS_MAX)
		sink_close(TAILQ_FIRST(&ss->all));
	return 0;
}

void sinks_open(struct sinks *ss, struct loop *l, struct pipes *p)
{
	*ss = (struct sinks){.loop = l, .pipes = p, .rested.fire = sinks_rested};
	TAILQ_INIT(&ss->all);
	TAILQ_INIT(&ss->rests);
}

void sinks_close(struct sinks *ss)
{
	struct sink *s;

	while ((s = TAILQ_FIRST(&ss->all)))
		sink_close(s);
	timer_cancel(ss->loop, &ss->rested);
}
