/* The hub's end of a link: its stream, when it reads and writes, how it lives and ends. */
#define LOG_SUBSYS "link"
#include "muxd/link/link.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/sock.h"
#include "base/text.h"
#include "muxd/link/link_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const state_names[] = {"idle", "hello", "list", "up", "cut"};

void link_set_state(struct link *l, enum link_state s)
{
	log_debug(&(struct log_ids){.agent = l->name}, "%s -> %s", state_names[l->state], state_names[s]);
	l->state = s;
}

enum link_state link_state(const struct link *l)
{
	return l->state;
}

bool link_has_files(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_FILES;
}

bool link_has_sync(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_SYNC;
}

bool link_has_freeze(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_FREEZE;
}

bool link_has_clear(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_CLEAR;
}

bool link_has_ports(const struct link *l)
{
	return l->state == LINK_UP && l->features & FEATURE_PORTS;
}

/* ---- channels */

struct link_channel *link_channel_find(const struct link *l, uint32_t channel)
{
	struct link_channel *c = NULL;

	HASH_FIND(hh, l->channels, &channel, sizeof(channel), c);
	return c;
}

struct link_channel *link_channel_add(struct link *l, uint32_t channel)
{
	struct link_channel *c = calloc(1, sizeof(*c));

	if (c) {
		c->channel = channel;
		HASH_ADD(hh, l->channels, channel, sizeof(channel), c);
		l->highest = channel > l->highest ? channel : l->highest;
	}
	return c;
}

void link_channel_remove(struct link *l, struct link_channel *c)
{
	HASH_DELETE(hh, l->channels, c);
	free(c);
}

void link_channels_clear(struct link *l)
{
	struct link_channel *c, *next;

	HASH_ITER(hh, l->channels, c, next)
	link_channel_remove(l, c);
	l->highest = 0;
}

/* ---- the stream */

static void on_poll(uv_poll_t *p, int status, int events);
static void on_prepare(uv_prepare_t *p);
static void free_handle(uv_handle_t *h)
{
	free(h);
}

static void watch(struct link *l)
{
	uv_poll_start(l->poll, UV_READABLE | (l->writing ? UV_WRITABLE : 0), on_poll);
}

static void drop_stream(struct link *l)
{
	if (!l->poll)
		return;
	uv_poll_stop(l->poll);
	uv_close((uv_handle_t *)l->poll, free_handle);
	l->poll = NULL;
	close(l->fd);
	l->fd = -1;
	uv_timer_stop(&l->timer);
	uv_prepare_stop(&l->prepare);
	buf_finish_secret(&l->out); /* frames that never went may hold secrets; the next stream begins with none */
	l->wipe_out = false;
	free(l->in);
	l->in = NULL;
	free(l->list);
	l->list = NULL;
	l->nlist = l->list_cap = 0;
	link_channels_clear(l);
}

void link_down(struct link *l, int rc, const char *why)
{
	if (!l->poll)
		return;
	log_debug(&(struct log_ids){.agent = l->name}, "down: %s", why);
	drop_stream(l);
	link_set_state(l, rc == ERR_PROTOCOL ? LINK_CUT : LINK_IDLE);
	if (!l->dead)
		l->ops->down(l->arg, rc, why);
}

static void flush(struct link *l)
{
	while (buf_len(&l->out)) {
		ssize_t n = send(l->fd, buf_ptr(&l->out), buf_len(&l->out), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			link_down(l, ERR_LINK_LOST, strerror(errno));
			return;
		}
		if (n < 0)
			break;
		buf_consume(&l->out, (size_t)n);
	}
	if (l->wipe_out && !buf_len(&l->out)) {
		buf_finish_secret(&l->out);
		l->wipe_out = false;
	}
	uv_prepare_stop(&l->prepare);
	if (l->writing != (buf_len(&l->out) > 0)) {
		l->writing = buf_len(&l->out) > 0;
		watch(l);
	}
}

/* Once a turn, before the loop sleeps: everything that was said in it goes out in one write. */
static void on_prepare(uv_prepare_t *p)
{
	flush(p->data);
}

int link_put(struct link *l, const struct frame *f)
{
	size_t cap = f->type == FRAME_OPEN ? FRAME_OPEN_MAX : f->type == FRAME_SECRET ? FRAME_MAX : 512, n;
	uint8_t *p;
	int rc;

	if (f->type == FRAME_DATA)
		cap = FRAME_DATA_HEADER + f->n;
	rc = buf_reserve(&l->out, cap, &p);
	if (rc)
		return rc;
	n = frame_encode(f, p, cap);
	if (!n)
		return ERR_TOO_LARGE;
	buf_commit(&l->out, n);
	if (!l->writing)
		uv_prepare_start(&l->prepare, on_prepare);
	return 0;
}

/* Whole frames in the buffer, one after the other, until one is not whole or the link is no more. */
static void take_frames(struct link *l)
{
	const char *why = "a frame breaks its form";

	while (!l->dead && l->poll) {
		struct frame f;
		size_t size = 0;
		int got = frame_decode(l->in + l->in_at, l->in_len - l->in_at, 'M', &f, &size, &why), rc;

		if (got == 0)
			return;
		rc = got < 0 ? ERR_PROTOCOL : f.type == 0 ? 0 : link_handle(l, &f, &why);
		if (rc) {
			if (!l->dead)
				link_down(l, rc, why);
			return;
		}
		if (l->poll)
			l->in_at += size;
	}
}

static ssize_t fill(struct link *l)
{
	ssize_t n;

	if (l->in_at) {
		memmove(l->in, l->in + l->in_at, l->in_len - l->in_at);
		l->in_len -= l->in_at;
		l->in_at = 0;
	}
	n = recv(l->fd, l->in + l->in_len, LINK_TURN_MAX, MSG_DONTWAIT); /* less than a frame waits: there is room */
	if (n > 0)
		l->in_len += (size_t)n;
	return n;
}

static void on_poll(uv_poll_t *p, int status, int events)
{
	struct link *l = p->data;
	ssize_t n;

	if (status < 0) {
		link_down(l, ERR_LINK_LOST, uv_strerror(status));
		return;
	}
	if (events & UV_READABLE) {
		n = fill(l);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			link_down(l, ERR_LINK_LOST, n ? strerror(errno) : "the stream was closed");
			return;
		}
		if (n > 0) {
			l->heard_ns = clock_boot_ns();
			take_frames(l);
		}
	}
	if (!l->dead && l->poll && events & UV_WRITABLE)
		flush(l);
}

static void on_timer(uv_timer_t *t)
{
	struct link *l = t->data;
	uint64_t now = clock_boot_ns();
	struct frame f = {.type = FRAME_PING};

	if (l->state != LINK_UP) {
		link_down(l, ERR_TIMEOUT, "no handshake within 10 s");
		return;
	}
	if (now - l->heard_ns > LINK_SILENT_NS) {
		link_down(l, ERR_TIMEOUT, "silent for 20 s and more");
		return;
	}
	if (l->ping_ns)
		return;
	f.offset = ++l->ping_token;
	l->ping_ns = now;
	(void)link_put(l, &f); /* when so much is queued that it has no room, silence is noticed all the same */
}

int link_attach(struct link *l, int fd, uint64_t epoch)
{
	int rc = ERR_NOMEM;

	if (l->poll || l->state == LINK_CUT || l->dead) {
		close(fd);
		return ERR_BAD_STATE;
	}
	l->in = malloc(LINK_IN_CAP);
	l->poll = malloc(sizeof(*l->poll));
	if (!l->in || !l->poll || sock_set_nonblock(fd, 1) || uv_poll_init(l->loop, l->poll, fd))
		goto fail;
	l->fd = fd;
	l->poll->data = l;
	l->in_at = l->in_len = 0;
	l->writing = false;
	l->p.epoch = epoch > l->epoch_taken ? epoch : l->epoch_taken + 1; /* a clock that was set back */
	l->heard_ns = clock_boot_ns();
	l->ping_ns = 0;
	l->clearing = false;
	link_set_state(l, LINK_HELLO);
	rc = link_hello_start(l);
	watch(l);
	uv_timer_start(&l->timer, on_timer, LINK_HANDSHAKE_MS, LINK_PING_MS);
	if (rc) {
		drop_stream(l);
		link_set_state(l, LINK_IDLE);
	}
	return rc;
fail:
	free(l->in);
	free(l->poll);
	l->in = NULL;
	l->poll = NULL;
	close(fd);
	return rc;
}

int link_create(struct uv_loop_s *loop, const struct link_params *p, const struct link_ops *ops, void *arg,
		struct link **out)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l)
		return ERR_NOMEM;
	l->loop = loop;
	l->ops = ops;
	l->arg = arg;
	l->p = *p;
	text_put(l->name, sizeof(l->name), p->name ? p->name : "");
	l->p.name = l->name;
	l->fd = -1;
	buf_init(&l->out, LINK_OUT_MAX);
	uv_prepare_init(loop, &l->prepare);
	uv_timer_init(loop, &l->timer);
	l->prepare.data = l->timer.data = l;
	l->handles = 2;
	*out = l;
	return 0;
}

static void on_handle_closed(uv_handle_t *h)
{
	struct link *l = h->data;

	if (--l->handles)
		return;
	buf_finish(&l->out);
	explicit_bzero(l, sizeof(*l));
	free(l);
}

void link_destroy(struct link *l)
{
	if (!l || l->dead)
		return;
	l->dead = true;
	if (l->poll && buf_len(&l->out)) /* what was said last may still go: an ACK, a KILL */
		(void)!send(l->fd, buf_ptr(&l->out), buf_len(&l->out), MSG_NOSIGNAL | MSG_DONTWAIT);
	drop_stream(l);
	uv_close((uv_handle_t *)&l->prepare, on_handle_closed);
	uv_close((uv_handle_t *)&l->timer, on_handle_closed);
}

size_t link_queued(const struct link *l)
{
	return buf_len(&l->out);
}
