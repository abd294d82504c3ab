/*
 * said_let.h - a muxlet that the test plays: one terminal, which keeps what it is told and in which order.
 *
 * Its terminal takes what comes and, unless `lazy`, says so. Everything static: a test is one file.
 */
#ifndef TESTS_LIB_SAID_LET_H
#define TESTS_LIB_SAID_LET_H

#include "tests/lib/hub_rig.h"

#include "muxd/link/frame.h"

#include <openssl/hmac.h>
#include <poll.h>

#define SAID_MARKS 65536

struct said_let {
	int fd; /* -1: nobody dials */
	uint8_t in[4 * FRAME_MAX];
	size_t len;
	const uint8_t *secret;
	uint8_t session[16];
	uint32_t channel;    /* 0: none yet */
	bool live;           /* it was opened or resumed on this stream */
	bool lazy;           /* what came is not reported as taken */
	const char *refuses; /* a start: `where` of its EXIT; NULL: it begins */
	bool mute;           /* it does not say after a resume how its terminal reads */
	struct buf got;
	uint64_t ends[SAID_MARKS], signals[SAID_MARKS]; /* behind so many bytes */
	size_t nends, nsignals;
	bool killed;
};

static void said_put(struct said_let *l, const struct frame *f)
{
	static uint8_t text[FRAME_MAX];
	size_t n = frame_encode(f, text, sizeof(text));

	assert_true(n > 0);
	if (l->fd >= 0 && send(l->fd, text, n, MSG_NOSIGNAL) != (ssize_t)n) { /* the hub is gone */
		close(l->fd);
		l->fd = -1;
	}
}

static int said_dial(void *arg)
{
	struct said_let *l = arg;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = fd[1];
	l->len = 0;
	l->live = false;
	return fd[0];
}

static void said_hello(struct said_let *l, const struct frame_hello *hub)
{
	struct frame f = {.type = FRAME_HELLO};
	uint8_t text[FRAME_TRANSCRIPT];
	unsigned n = FRAME_PROOF_LEN;

	f.u.hello = (struct frame_hello){.major = FRAME_MAJOR, .epoch = hub->epoch};
	random_bytes(f.u.hello.nonce, sizeof(f.u.hello.nonce));
	frame_transcript("muxd-let", hub, &f.u.hello, text);
	assert_non_null(HMAC(EVP_sha256(), l->secret, LINK_SECRET_LEN, text, sizeof(text), f.u.hello.proof, &n));
	said_put(l, &f);
}

static uint64_t said_next(const struct said_let *l)
{
	return buf_len(&l->got);
}

static void said_consumed(struct said_let *l)
{
	if (l->live && !l->lazy)
		said_put(l, &(struct frame){.type = FRAME_CONSUMED, .channel = l->channel, .offset = said_next(l)});
}

static void said_list(struct said_let *l)
{
	struct frame f = {.type = FRAME_LIST, .channel = l->channel};

	if (l->channel) {
		f.u.list = (struct frame_list){.flags = LIST_PTY, .consumed = said_next(l)};
		memcpy(f.u.list.session, l->session, sizeof(l->session));
		said_put(l, &f);
	}
	said_put(l, &(struct frame){.type = FRAME_LISTED, .offset = l->channel ? 1 : 0});
}

static void said_mark(uint64_t marks[SAID_MARKS], size_t *n, uint64_t at)
{
	assert_true(*n < SAID_MARKS);
	marks[(*n)++] = at;
}

static void said_echo(struct said_let *l, unsigned flags)
{
	said_put(l, &(struct frame){.type = FRAME_ECHO, .channel = l->channel, .u.number = flags});
}

static void said_refuse(struct said_let *l)
{
	struct frame f = {.type = FRAME_EXIT,
			  .channel = l->channel,
			  .u.exit = {.cause = CAUSE_NOT_STARTED, .code = -1, .error = EIO}};

	snprintf(f.u.exit.at, sizeof(f.u.exit.at), "%s", l->refuses);
	said_put(l, &(struct frame){.type = FRAME_OPENED, .channel = l->channel, .u.number = CODE_SYSTEM});
	said_put(l, &f);
}

static void said_frame(struct said_let *l, const struct frame *f)
{
	if (f->type == FRAME_HELLO) {
		said_hello(l, &f->u.hello);
	} else if (f->type == FRAME_PROOF) {
		said_list(l);
	} else if (f->type == FRAME_OPEN) {
		l->channel = f->channel;
		l->live = true;
		memcpy(l->session, f->u.open.session, sizeof(l->session));
		if (l->refuses) {
			said_refuse(l);
			return;
		}
		said_put(l, &(struct frame){.type = FRAME_OPENED, .channel = f->channel});
	} else if (f->type == FRAME_RESUME) {
		l->live = true;
		assert_int_equal(f->u.resume.have[0], said_next(l)); /* nothing was lost, so nothing is left out */
		if (!l->mute)
			said_echo(l, ECHO_CANONICAL);
	} else if (f->type == FRAME_DATA) {
		assert_int_equal(f->offset, said_next(l)); /* no gap, nothing twice */
		assert_int_equal(buf_append(&l->got, f->p, f->n), 0);
		said_consumed(l);
	} else if (f->type == FRAME_EOF) {
		said_mark(l->ends, &l->nends, buf_len(&l->got));
	} else if (f->type == FRAME_SIGNAL && f->u.number != SIGWINCH) { /* which the hub sends by itself */
		said_mark(l->signals, &l->nsignals, buf_len(&l->got));
	} else if (f->type == FRAME_PING) {
		said_put(l, &(struct frame){.type = FRAME_PONG, .offset = f->offset});
	} else if (f->type == FRAME_KILL) {
		l->killed = true;
		said_put(l, &(struct frame){.type = FRAME_EXIT,
					    .channel = f->channel,
					    .u.exit = {.cause = CAUSE_KILLED, .signal = 9, .code = -1}});
	}
}

/* All that has come. */
static void said_turn(struct said_let *l)
{
	struct pollfd w = {.fd = l->fd, .events = POLLIN};
	struct frame f;
	const char *why;
	size_t size;
	int rc;

	while (l->fd >= 0 && poll(&w, 1, 0) > 0) {
		ssize_t n = read(l->fd, l->in + l->len, sizeof(l->in) - l->len);

		if (n <= 0)
			break;
		l->len += (size_t)n;
		while ((rc = frame_decode(l->in, l->len, 'H', &f, &size, &why)) > 0) {
			said_frame(l, &f);
			l->len -= size;
			memmove(l->in, l->in + size, l->len);
		}
		assert_int_equal(rc, 0);
	}
}

static struct said_let *said_create(struct hub_rig *r)
{
	struct said_let *l = calloc(1, sizeof(*l));

	assert_non_null(l);
	l->fd = -1;
	l->secret = r->info.secret;
	buf_init(&l->got, 64 << 20);
	r->dial = said_dial;
	r->dial_arg = l;
	return l;
}

static void said_destroy(struct said_let *l)
{
	if (l->fd >= 0)
		close(l->fd);
	buf_finish(&l->got);
	free(l);
}

#endif
