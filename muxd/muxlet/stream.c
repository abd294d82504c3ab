#include "muxd/muxlet/stream.h"

#include "muxd/muxlet/muxlet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define IN_CAP   (FRAME_MAX)
#define CTRL_CAP 4096
#define IOV_MAX_ (2 * STREAM_BATCH + 3)

/* One DATA or EXIT on its way into a writev. */
struct item {
	uint8_t head[STREAM_HEAD];
	size_t head_len;
	const uint8_t *data;
	size_t data_len;
	struct channel *channel;
	struct output *output; /* NULL: EXIT */
};

struct batch {
	struct item items[STREAM_BATCH];
	size_t n, bytes;
	struct iovec iov[IOV_MAX_];
	int iovs;
};

static void stream_ready(struct source *src, uint32_t events);

static void write_ready(struct source *src, uint32_t events)
{
	struct stream *s = container_of(src, struct stream, w);

	(void)events;
	s->blocked = false; /* the end of the turn writes */
}

/* Handshake over time; or nothing but a wake-up for frames that waited for company. */
static void stream_timer(struct timer *t)
{
	struct stream *s = container_of(t, struct stream, timer);

	if (s->state == STREAM_UP)
		return;
	stream_goodbye(s, CODE_AUTH, "the handshake took too long");
	s->broken = true;
}

struct stream *stream_create(struct muxlet *m, int rfd, int wfd)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		goto failed;
	s->m = m;
	s->in_cap = IN_CAP;
	s->in = malloc(s->in_cap);
	s->r.fd = rfd;
	s->r.ready = stream_ready;
	s->w.fd = rfd == wfd ? -1 : wfd;
	s->w.ready = write_ready;
	s->timer.fire = stream_timer;
	if (!s->in || fcntl(rfd, F_SETFL, O_NONBLOCK | (rfd == wfd ? O_RDWR : O_RDONLY)) ||
	    fcntl(wfd, F_SETFL, O_NONBLOCK | (rfd == wfd ? O_RDWR : O_WRONLY)) ||
	    source_watch(&m->loop, &s->r, EPOLLIN))
		goto failed;
	timer_arm(&m->loop, &s->timer, monotonic_ns() + STREAM_HELLO_MS * MS_NS);
	return s;
failed:
	free(s ? s->in : NULL);
	free(s);
	close(rfd);
	if (wfd != rfd)
		close(wfd);
	return NULL;
}

void stream_destroy(struct stream *s)
{
	if (!s)
		return;
	timer_cancel(&s->m->loop, &s->timer);
	source_close(&s->m->loop, &s->r);
	source_close(&s->m->loop, &s->w);
	free(s->in);
	free(s->ctrl);
	free(s->rest.copy);
	free(s);
}

static int ctrl_room(struct stream *s, size_t n)
{
	uint8_t *bigger;
	size_t cap = s->ctrl_cap ? s->ctrl_cap : CTRL_CAP;

	if (s->ctrl_at && s->ctrl_at + s->ctrl_len + n > s->ctrl_cap) {
		memmove(s->ctrl, s->ctrl + s->ctrl_at, s->ctrl_len);
		s->ctrl_at = 0;
	}
	while (cap < s->ctrl_len + n)
		cap *= 2;
	if (cap > STREAM_CTRL_MAX)
		return -1;
	if (cap == s->ctrl_cap)
		return 0;
	bigger = realloc(s->ctrl, cap);
	if (!bigger)
		return -1;
	s->ctrl = bigger;
	s->ctrl_cap = cap;
	return 0;
}

void stream_put(struct stream *s, const struct frame *f)
{
	uint8_t text[FRAME_HEADER + 16 + FRAME_BEGUN_MAX];
	size_t n = frame_encode(f, text, sizeof(text));

	if (s->broken || s->parting)
		return;
	if (n == 0 || ctrl_room(s, n)) {
		s->broken = true;
		return;
	}
	memcpy(s->ctrl + s->ctrl_at + s->ctrl_len, text, n);
	s->ctrl_len += n;
}

void stream_put_begun(struct stream *s, struct channel *c)
{
	c->begun_pending = false;
	if (c->begun && s->ctrl_len < STREAM_CTRL_MAX / 2)
		stream_put(s, &(struct frame){.type = FRAME_BEGUN,
					      .channel = c->number,
					      .p = (const uint8_t *)c->begun,
					      .n = c->begun_len});
}

void stream_goodbye(struct stream *s, uint16_t code, const char *text)
{
	muxlet_note(s->m, "stream ends: %s", text);
	stream_put(s, &(struct frame){
			  .type = FRAME_GOODBYE, .p = (const uint8_t *)text, .n = strlen(text), .u.opened.code = code});
	s->parting = true;
	stream_flush(s); /* what the socket does not take now is lost, as is the stream */
}

void stream_let_go(struct stream *s, struct output *o)
{
	struct rest *r = &s->rest;

	if (r->output != o)
		return;
	r->output = NULL;
	if (!r->data_len)
		return;
	r->copy = malloc(r->data_len);
	if (!r->copy) {
		s->broken = true; /* half a frame cannot be taken back */
		r->data_len = 0;
		return;
	}
	memcpy(r->copy, r->data, r->data_len);
	r->data = r->copy;
}

size_t stream_on_the_way(const struct stream *s, const struct output *o)
{
	return s->rest.output == o ? s->rest.frame_len : 0;
}

/* ---- frames out */

static void put_lazy(struct stream *s)
{
	struct muxlet *m = s->m;
	struct channel *c;

	while ((c = TAILQ_FIRST(&m->lazy))) {
		TAILQ_REMOVE(&m->lazy, c, lazy);
		c->in_lazy = false;
		if (c->begun_pending)
			stream_put_begun(s, c);
		if (c->opened_pending) {
			const char *text = c->opened_code ? strerror(c->exit.error) : c->spare ? "spare" : "";

			c->opened_pending = false;
			stream_put(s, &(struct frame){.type = FRAME_OPENED,
						      .channel = c->number,
						      .p = (const uint8_t *)text,
						      .n = strlen(text),
						      .u.opened = {c->opened_code, (uint32_t)c->session_pid}});
		}
		if (c->consumed > c->reported) {
			c->reported = c->consumed;
			stream_put(
			    s, &(struct frame){.type = FRAME_CONSUMED, .channel = c->number, .offset = c->consumed});
		}
	}
	s->lazy_ns = 0;
	timer_cancel(&m->loop, &s->timer);
}

static struct item *new_item(struct batch *b, struct channel *c)
{
	struct item *it = &b->items[b->n++];

	it->channel = c;
	it->output = NULL;
	it->data_len = 0;
	return it;
}

static size_t sendable(const struct output *o)
{
	uint64_t until = o->window < o->spool.end ? o->window : o->spool.end;

	return until > o->spool.sent ? (size_t)(until - o->spool.sent) : 0;
}

/* Up to a quantum of one output; its spool moves on, and back again if the writev does not get there. */
static void add_data(struct batch *b, struct output *o)
{
	size_t left = sendable(o), quantum = STREAM_QUANTUM;

	while (left && quantum && b->n < STREAM_BATCH && b->bytes < STREAM_BATCH_MAX) {
		size_t max = left < quantum ? left : quantum;
		struct item *it = new_item(b, o->channel);

		it->output = o;
		it->data_len = spool_peek(&o->spool, max < FRAME_DATA_MAX ? max : FRAME_DATA_MAX, &it->data);
		frame_data_header(it->head, o->channel->number, o->stream, o->spool.sent, it->data_len);
		it->head_len = FRAME_DATA_HEADER;
		spool_advance(&o->spool, it->data_len);
		b->bytes += it->data_len;
		left -= it->data_len;
		quantum -= it->data_len;
	}
}

#define STUCK "a program held its pipe: its last output may be missing"

static void add_exit(struct batch *b, struct channel *c)
{
	struct frame f = {.type = FRAME_EXIT, .channel = c->number, .u.exit = c->exit};
	struct item *it;

	if (!c->exit_pending || channel_has_unsent(c) || b->n == STREAM_BATCH)
		return;
	if (c->stuck) {
		f.p = (const uint8_t *)STUCK;
		f.n = strlen(STUCK);
	}
	it = new_item(b, c);
	it->head_len = frame_encode(&f, it->head, sizeof(it->head));
	c->exit_pending = false;
}

static bool has_more(const struct channel *c)
{
	return sendable(&c->out[0]) || sendable(&c->out[1]) || (c->exit_pending && !channel_has_unsent(c));
}

/* Small ones first, all of theirs; then a quantum of each big one in turn. */
static void fill_batch(struct stream *s, struct batch *b)
{
	struct muxlet *m = s->m;
	struct channel *c;

	while (b->n < STREAM_BATCH && b->bytes < STREAM_BATCH_MAX) {
		c = TAILQ_FIRST(&m->urgent);
		if (!c)
			c = TAILQ_FIRST(&m->bulk);
		if (!c)
			return;
		TAILQ_REMOVE(c->queued, c, to_send);
		c->queued = NULL;
		add_data(b, &c->out[0]);
		add_data(b, &c->out[1]);
		add_exit(b, c);
		if (has_more(c)) {
			c->queued = &m->bulk;
			TAILQ_INSERT_TAIL(&m->bulk, c, to_send);
		}
	}
}

static void add_iov(struct batch *b, const void *p, size_t n)
{
	if (n)
		b->iov[b->iovs++] = (struct iovec){(void *)(uintptr_t)p, n};
}

static void build_iov(struct stream *s, struct batch *b)
{
	add_iov(b, s->rest.head + s->rest.head_at, s->rest.head_len - s->rest.head_at);
	add_iov(b, s->rest.data, s->rest.data_len);
	add_iov(b, s->ctrl + s->ctrl_at, s->ctrl_len);
	for (size_t i = 0; i < b->n; i++) {
		add_iov(b, b->items[i].head, b->items[i].head_len);
		add_iov(b, b->items[i].data, b->items[i].data_len);
	}
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t settle_rest(struct stream *s, size_t done)
{
	struct rest *r = &s->rest;
	size_t head = least(done, r->head_len - r->head_at), data = least(done - head, r->data_len);

	r->head_at += head;
	r->data += data;
	r->data_len -= data;
	if (r->head_at == r->head_len && r->data_len == 0) {
		free(r->copy);
		memset(r, 0, sizeof(*r));
	}
	return done - head - data;
}

/* The frame in which the writev stopped becomes the rest; those it never reached go back. */
static void settle_items(struct stream *s, struct batch *b, size_t done)
{
	for (size_t i = 0; i < b->n; i++) {
		struct item *it = &b->items[i];
		size_t size = it->head_len + it->data_len, wrote = least(done, size);
		struct rest *r = &s->rest;

		done -= wrote;
		if (wrote == size) {
			if (it->output)
				output_update(it->output);
			continue;
		}
		if (wrote == 0) {
			if (it->output)
				it->output->spool.sent -= it->data_len, it->output->spool.at = NULL;
			else
				it->channel->exit_pending = true;
			muxlet_want_send(it->channel);
			continue;
		}
		memcpy(r->head, it->head, it->head_len);
		r->head_len = it->head_len;
		r->head_at = least(wrote, it->head_len);
		r->data = it->data + (wrote - r->head_at);
		r->data_len = it->data_len - (wrote - r->head_at);
		r->frame_len = it->data_len;
		r->output = it->output;
	}
}

static void stream_settle(struct stream *s, struct batch *b, size_t done)
{
	size_t ctrl;

	done = settle_rest(s, done);
	ctrl = least(done, s->ctrl_len);
	s->ctrl_at += ctrl;
	s->ctrl_len -= ctrl;
	if (!s->ctrl_len)
		s->ctrl_at = 0;
	settle_items(s, b, done - ctrl);
}

static bool has_output(const struct stream *s)
{
	const struct muxlet *m = s->m;

	return s->ctrl_len || s->rest.head_len ||
	       (s == m->stream && (!TAILQ_EMPTY(&m->urgent) || !TAILQ_EMPTY(&m->bulk)));
}

static void watch_write(struct stream *s)
{
	struct source *src = s->w.fd >= 0 ? &s->w : &s->r;
	uint32_t want = (src == &s->r ? (uint32_t)EPOLLIN : 0) | (s->blocked ? (uint32_t)EPOLLOUT : 0);

	if (source_watch(&s->m->loop, src, want))
		s->broken = true;
}

/* True when all that waits is of terminals in full flow: nobody misses it while the next read is made. */
static bool only_flows(struct muxlet *m)
{
	struct channel_queue *lists[] = {&m->urgent, &m->bulk};
	struct channel *c;
	bool only = true;

	for (size_t i = 0; i < 2; i++)
		TAILQ_FOREACH(c, lists[i], to_send)
		{
			only = only && c->flowing;
			c->flowing = false;
		}
	return only;
}

static bool stream_hold(struct stream *s)
{
	if (s->ctrl_len || s->rest.head_len || !only_flows(s->m) || s->held == STREAM_HOLD) {
		s->held = 0;
		return false;
	}
	s->held++;
	s->m->loop.again = true;
	return true;
}

void stream_flush(struct stream *s)
{
	struct batch b = {.n = 0, .bytes = 0, .iovs = 0};
	bool proven = s == s->m->stream && !s->parting;
	size_t total = 0;
	ssize_t done;

	if (s->broken || s->blocked)
		return;
	if (proven && !TAILQ_EMPTY(&s->m->lazy) && (has_output(s) || s->lazy_ns <= s->m->loop.now_ns))
		put_lazy(s);
	if (has_output(s) && !(proven && stream_hold(s))) {
		if (proven)
			fill_batch(s, &b);
		build_iov(s, &b);
		for (int i = 0; i < b.iovs; i++)
			total += b.iov[i].iov_len;
		do
			done = total ? writev(s->w.fd >= 0 ? s->w.fd : s->r.fd, b.iov, b.iovs) : 0;
		while (done < 0 && errno == EINTR);
		if (done < 0 && errno != EAGAIN) {
			s->broken = true;
			done = 0;
		}
		s->blocked = (done < 0 ? 0 : (size_t)done) < total;
		stream_settle(s, &b, done < 0 ? 0 : (size_t)done);
		if (!s->blocked && has_output(s))
			s->m->loop.again = true; /* input first, then the next batch */
	}
	if (!s->broken)
		watch_write(s);
}

/* ---- frames in */

static int room_for(struct stream *s, size_t size)
{
	uint8_t *bigger;

	if (size <= s->in_cap)
		return 0;
	if (s->state != STREAM_UP)
		return -1;
	bigger = realloc(s->in, size);
	if (!bigger)
		return -1;
	s->in = bigger;
	s->in_cap = size;
	return 0;
}

static int handle(struct stream *s, const struct frame *f)
{
	uint16_t code;
	const char *why;

	if (s->state != STREAM_UP)
		return handshake_frame(s, f);
	if (request_handle(s->m, f, &code, &why) == 0)
		return 0;
	if (code != CODE_OK)
		stream_goodbye(s, code, why);
	return -1;
}

static int decode_all(struct stream *s)
{
	size_t at = 0, size = 0;
	const char *why;
	struct frame f;
	int rc;

	while ((rc = frame_decode(s->in + at, s->in_len - at, 'H', &f, &size, &why)) > 0) {
		if (handle(s, &f) || s->broken)
			return -1;
		at += size;
	}
	if (rc < 0) {
		stream_goodbye(s, CODE_PROTOCOL, why);
		return -1;
	}
	s->in_len -= at;
	memmove(s->in, s->in + at, s->in_len);
	if (s->in_len == 0 && s->in_cap > IN_CAP) {
		explicit_bzero(s->in, s->in_cap);
		s->in_cap = IN_CAP;
		s->in = realloc(s->in, IN_CAP); /* smaller: glibc does it in place */
		if (!s->in)
			return -1;
	}
	return room_for(s, size);
}

static void stream_ready(struct source *src, uint32_t events)
{
	struct stream *s = container_of(src, struct stream, r);
	ssize_t n;

	if (events & EPOLLOUT)
		s->blocked = false;
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || s->broken)
		return;
	n = read(src->fd, s->in + s->in_len, s->in_cap - s->in_len);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		s->broken = true;
		return;
	}
	s->heard_ns = s->m->loop.now_ns;
	s->in_len += (size_t)n;
	if (decode_all(s))
		s->broken = true;
}
