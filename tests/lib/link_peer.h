/*
 * link_peer.h - a hub that says what it likes: raw frames to a real muxlet, for tests.
 * Everything static: a test is one file.
 */
#ifndef TESTS_LIB_LINK_PEER_H
#define TESTS_LIB_LINK_PEER_H

#include "tests/lib/link_rig.h"

#include "muxd/link/frame.h"

#include <openssl/hmac.h>
#include <poll.h>

struct peer {
	int in, out;
	uint8_t buf[4 * FRAME_MAX];
	size_t len, used;
	struct frame_hello ours, theirs;
};

static struct peer *peer_of(int in, int out)
{
	struct peer *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->in = in;
	p->out = out;
	return p;
}

RIG_UNUSED static void peer_close(struct peer *p)
{
	close(p->in);
	if (p->out != p->in)
		close(p->out);
	free(p);
}

/*
 * muxlet may say GOODBYE and close before a frame, or in the middle of one: the rest of the frame has no reader then,
 * and hear() reads why. A signal would end the test without a word.
 */
static void say(struct peer *p, const struct frame *f)
{
	uint8_t *text = malloc(FRAME_OPEN_MAX);
	size_t n = frame_encode(f, text, FRAME_OPEN_MAX), done = 0;
	ssize_t said;

	assert_true(n > 0);
	do {
		said = send(p->out, text + done, n - done, MSG_NOSIGNAL);
		if (said < 0 && errno == ENOTSOCK)
			said = write(p->out, text + done, n - done);
		done += said > 0 ? (size_t)said : 0;
	} while (said > 0 && done < n);
	if (done < n)
		assert_true(errno == EPIPE || errno == ECONNRESET);
	free(text);
}

/* The next frame; type 0 at the end of the stream or after ms. */
static struct frame hear(struct peer *p, int ms)
{
	struct frame f = {.type = 0};
	const char *why;
	size_t size;

	memmove(p->buf, p->buf + p->used, p->len - p->used);
	p->len -= p->used;
	p->used = 0;
	for (;;) {
		int rc = frame_decode(p->buf, p->len, 'M', &f, &size, &why);
		struct pollfd w = {.fd = p->in, .events = POLLIN};
		ssize_t n;

		assert_true(rc >= 0);
		if (rc > 0) {
			p->used = size;
			return f;
		}
		if (poll(&w, 1, ms) <= 0 || (n = read(p->in, p->buf + p->len, sizeof(p->buf) - p->len)) <= 0)
			return (struct frame){.type = 0};
		p->len += (size_t)n;
	}
}

static struct frame hear_of(struct peer *p, uint8_t type)
{
	struct frame f;

	do
		f = hear(p, 5000);
	while (f.type && f.type != type);
	assert_int_equal(f.type, type);
	return f;
}

RIG_UNUSED static void goodbye_with(struct peer *p, uint16_t code)
{
	struct frame f = hear_of(p, FRAME_GOODBYE);

	assert_int_equal(f.u.opened.code, code);
	assert_int_equal(hear(p, 5000).type, 0);
}

static void hello(struct peer *p, uint64_t epoch)
{
	struct frame f = {.type = FRAME_HELLO};

	p->ours = (struct frame_hello){.major = FRAME_MAJOR, .epoch = epoch};
	random_bytes(p->ours.nonce, sizeof(p->ours.nonce));
	f.u.hello = p->ours;
	say(p, &f);
	p->theirs = hear_of(p, FRAME_HELLO).u.hello;
}

static void mac(const struct peer *p, const uint8_t *secret, const char who[9], uint8_t out[FRAME_PROOF_LEN])
{
	uint8_t text[FRAME_TRANSCRIPT];
	unsigned n = FRAME_PROOF_LEN;

	frame_transcript(who, &p->ours, &p->theirs, text);
	assert_non_null(HMAC(EVP_sha256(), secret, LINK_SECRET_LEN, text, sizeof(text), out, &n));
}

static void prove(struct peer *p, const uint8_t *secret)
{
	struct frame f = {.type = FRAME_PROOF};

	mac(p, secret, "muxd-hub", f.u.proof);
	say(p, &f);
}

RIG_UNUSED static struct peer *up(int in, int out, const uint8_t *secret, uint64_t epoch)
{
	struct peer *p = peer_of(in, out);
	uint8_t want[FRAME_PROOF_LEN];

	hello(p, epoch);
	mac(p, secret, "muxd-let", want);
	assert_memory_equal(want, p->theirs.proof, sizeof(want));
	prove(p, secret);
	return p;
}

RIG_UNUSED static struct peer *dialed(struct rig *r)
{
	int fd = rig_dial(r);

	return up(fd, fd, r->secret, ++r->epoch);
}

RIG_UNUSED static void say_open(struct peer *p, uint32_t channel, const char *script, uint16_t flags)
{
	const char *argv[] = {"/bin/sh", "-c", script};
	struct frame f = {.type = FRAME_OPEN, .channel = channel};

	f.u.open = (struct frame_open){.flags = flags,
				       .cols = 80,
				       .rows = 24,
				       .grace_ms = 500,
				       .window = 100000,
				       .argc = 3,
				       .cwd = "/tmp",
				       .argv = argv};
	random_bytes(f.u.open.session, sizeof(f.u.open.session));
	say(p, &f);
}

#endif
