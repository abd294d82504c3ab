/* Output from a program into its spool. */
#include "muxd/muxlet/muxlet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#define READ_PIPE  (64 * 1024)
#define READ_PTY   (16 * 1024) /* of a terminal in one turn */
#define FLOW       4000 /* a terminal gives 4,095 bytes at a time while it has more, and less when that was all */
#define READ_AHEAD (256 * 1024) /* unsent bytes at which reading waits for the stream */
#define REST_READS 64           /* reads of a program that has just ended, in one go */
#define PIPE_BULK  (256 * 1024)

static bool attached(const struct output *o)
{
	return o->channel->resumed && o->channel->m->stream;
}

/* How much may be read now; 0 stops reading. */
static size_t read_room(const struct output *o)
{
	size_t room = spool_room(&o->spool);
	uint64_t credit;

	if (!attached(o))
		return room;
	if (o->spool.end - o->spool.sent >= READ_AHEAD)
		return 0;
	credit = o->window > o->spool.end ? o->window - o->spool.end : 0;
	return credit < room ? (size_t)credit : room;
}

void output_update(struct output *o)
{
	struct channel *c = o->channel;
	uint32_t want = 0;

	if (o->src.fd < 0 || c->state == CHANNEL_STARTING) /* nothing comes before OPENED */
		return;
	if (read_room(o) && !o->job && !o->gathers)
		want |= EPOLLIN;
	if (c->pty && (c->queue_len || c->eof_pending) && !c->frozen && !c->in_closed)
		want |= EPOLLOUT;
	if (source_watch(&c->m->loop, &o->src, want))
		output_close(o); /* no memory in the kernel: better an end than silence */
}

bool channel_is_held_back(const struct channel *c)
{
	for (int i = 0; i < 2; i++)
		if (c->out[i].src.fd >= 0 && !c->out[i].job && !read_room(&c->out[i]))
			return true;
	return false;
}

bool channel_is_drained(const struct channel *c)
{
	return c->state == CHANNEL_DRAINING && c->out[0].src.fd < 0 && c->out[1].src.fd < 0 && !c->in_job;
}

enum pipes_lane channel_lane(const struct channel *c)
{
	return c->staff ? PIPES_LANE_STAFF : PIPES_LANE_COMMON;
}

void channel_give_up(struct channel *c, const int *fds, size_t n)
{
	if (!c->pty)
		pipes_close_all(&c->m->pipes, channel_lane(c), c, fds, n);
	else
		for (size_t i = 0; i < n; i++)
			close(fds[i]);
}

void output_let_go(struct output *o)
{
	struct channel *c = o->channel;
	int fd = o->src.fd;

	if (fd < 0)
		return;
	if (c->pty) {
		source_close(&c->m->loop, &o->src);
		return;
	}
	source_remove(&c->m->loop, &o->src);
	o->src.fd = -1;
	pipes_close(&c->m->pipes, channel_lane(c), c, o->job, fd);
	o->job = NULL;
}

int output_sink(struct output *o)
{
	struct channel *c = o->channel;

	source_remove(&c->m->loop, &o->src);
	if (sink_add(&c->m->sinks, channel_lane(c), o->src.fd, o->job))
		return -1;
	o->src.fd = -1;
	o->job = NULL;
	return 0;
}

void output_close(struct output *o)
{
	struct channel *c = o->channel;

	output_let_go(o);
	if (c->pty)
		channel_input_close(c);
	if (channel_is_drained(c))
		channel_finish(c);
}

/* Bytes read; 0 for "not now"; -1 at the end. */
static ssize_t read_once(struct output *o, size_t want)
{
	struct iovec iov[2];
	size_t room = read_room(o), asked = 0;
	ssize_t n;
	int pieces;

	pieces = spool_reserve(&o->spool, room < want ? room : want, iov);
	if (pieces == 0)
		return 0;
	for (int i = 0; i < pieces; i++)
		asked += iov[i].iov_len;
	do
		n = readv(o->src.fd, iov, pieces);
	while (n < 0 && errno == EINTR);
	spool_commit(&o->spool, n > 0 ? (size_t)n : 0);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		return -1; /* end of the pipe; EIO: nobody holds the terminal any more */
	if (n == (ssize_t)asked && asked >= READ_PIPE && !o->bulk) {
		o->bulk = true; /* a pipe of 64 KiB makes writer and reader take turns */
		(void)fcntl(o->src.fd, F_SETPIPE_SZ, PIPE_BULK);
	}
	return n > 0 ? n : 0;
}

/* Had this lane its reads of little? */
static bool gather_is_full(const struct output *o)
{
	const struct channel *c = o->channel;
	struct gather *g = &c->m->gather[channel_lane(c)];

	if (c->m->loop.now_ns - g->since_ns >= GATHER_MS * MS_NS)
		*g = (struct gather){.since_ns = c->m->loop.now_ns};
	return g->reads >= GATHER_READS;
}

static void output_gather(struct output *o)
{
	struct muxlet *m = o->channel->m;

	o->gathers = true;
	o->bulk = true; /* there will be more than little */
	if (!m->gather_timer.at)
		timer_arm(&m->loop, &m->gather_timer, m->gather[channel_lane(o->channel)].since_ns + GATHER_MS * MS_NS);
}

void output_gathered(struct timer *t)
{
	struct muxlet *m = container_of(t, struct muxlet, gather_timer);
	struct channel *c, *next;

	for (c = TAILQ_FIRST(&m->alive); c; c = next) {
		next = TAILQ_NEXT(c, place);
		for (int i = 0; i < 2; i++)
			if (c->out[i].gathers) {
				c->out[i].gathers = false;
				output_update(&c->out[i]);
			}
	}
}

static void output_read(struct pipe_job *j);

static void ask_threads(struct output *o)
{
	size_t room = read_room(o), most = o->bulk ? PIPES_BULK : PIPES_SMALL;

	if (o->job || !room)
		return;
	o->gathers = false;
	o->job = pipes_read(&o->channel->m->pipes, channel_lane(o->channel), o->src.fd, room < most ? room : most,
			    output_read, o);
	if (!o->job)
		output_close(o); /* no memory: better an end than silence */
}

static void output_read(struct pipe_job *j)
{
	struct output *o = j->arg;
	struct channel *c = o->channel;
	bool over = j->n == 0 || (j->n < 0 && j->error != EAGAIN);

	o->job = NULL;
	if (j->n > 0) {
		o->bulk = o->bulk || j->n >= PIPES_SMALL;
		if (j->n < GATHER_LITTLE)
			c->m->gather[channel_lane(c)].reads++;
		over = spool_append(&o->spool, j->bytes, (size_t)j->n) != 0;
		c->read_at_ns = c->m->loop.now_ns;
		muxlet_want_send(c);
	}
	if (!over && j->n > 0 && (size_t)j->n == j->want)
		ask_threads(o); /* there is more, most likely */
	if (over)
		output_close(o);
	else
		output_update(o);
}

/*
 * A terminal in full flow is read until the turn's budget is used, and asked once how it echoes; the keys of others get
 * in between two turns. A read that brought less took all there was: the next one would wait for a worker of the
 * kernel's, and come back with nothing. At the end of a program whatever is there.
 */
static bool read_turn(struct output *o, size_t budget, bool rest)
{
	struct channel *c = o->channel;
	size_t total = 0;
	ssize_t n = 0;

	while (total + FLOW <= budget && read_room(o)) {
		n = read_once(o, budget - total);
		if (n <= 0)
			break;
		total += (size_t)n;
		if (!c->pty || (!rest && n < FLOW))
			break;
	}
	if (total) {
		c->flowing = c->pty && !rest && n >= FLOW;
		c->read_at_ns = c->m->loop.now_ns;
		if (c->pty)
			channel_check_echo(c); /* before the bytes go: a prompt never overtakes it */
		muxlet_want_send(c);
	}
	if (n < 0) {
		output_close(o);
		return false;
	}
	return total > 0;
}

static bool by_threads(const struct output *o)
{
	return !o->channel->pty && o->channel->m->pipes.threads;
}

/*
 * A pipe without bytes and without a writer is known as such without a read. The kernel looks at bytes first and at
 * writers then: a writer that wrote its last and closed in between leaves bytes behind an answer that tells of none. A
 * second look, when no writer is left, cannot be wrong.
 */
static bool pipe_is_over(const struct output *o)
{
	struct pollfd p = {.fd = o->src.fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0 && !(p.revents & POLLIN) && p.revents & (POLLHUP | POLLERR);
}

static void look_at_pipe(struct output *o, uint32_t events)
{
	if (events & EPOLLIN)
		ask_threads(o);
	else if (events & (EPOLLHUP | EPOLLERR) && pipe_is_over(o))
		output_close(o);
}

void output_ready(struct source *s, uint32_t events)
{
	struct output *o = container_of(s, struct output, src);
	struct channel *c = o->channel;

	if (by_threads(o)) {
		if (events & EPOLLIN && c->state != CHANNEL_DRAINING && gather_is_full(o))
			output_gather(o);
		else
			look_at_pipe(o, events);
		output_update(o);
		return;
	}
	if (c->pty && (events & EPOLLOUT))
		channel_input_flush(c);
	if (o->src.fd >= 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
		if (read_room(o))
			(void)read_turn(o, c->pty ? READ_PTY : READ_PIPE, false);
		else if (c->pty && (events & EPOLLHUP))
			channel_input_close(c); /* else the hang-up would wake us until there is room to read */
	}
	output_update(o);
}

/* The bytes of a pipe come from the threads, later; that it has nothing and no writer is known at once. */
static void pipe_rest(struct output *o)
{
	struct pollfd p = {.fd = o->src.fd, .events = POLLIN};

	if (o->src.fd >= 0 && !o->job && poll(&p, 1, 0) > 0)
		look_at_pipe(o, (p.revents & POLLIN ? EPOLLIN : 0u) | (p.revents & POLLHUP ? EPOLLHUP : 0u));
	output_update(o);
}

void channel_read_rest(struct channel *c)
{
	for (int i = 0; i < 2; i++) {
		struct output *o = &c->out[i];

		if (by_threads(o)) {
			pipe_rest(o);
			continue;
		}
		for (int n = 0; n < REST_READS && o->src.fd >= 0 && read_room(o); n++)
			if (!read_turn(o, READ_PIPE, true))
				break;
	}
}

bool channel_has_unsent(const struct channel *c)
{
	return c->out[0].spool.sent < c->out[0].spool.end || c->out[1].spool.sent < c->out[1].spool.end;
}
