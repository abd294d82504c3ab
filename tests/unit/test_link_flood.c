// tier: check
/* A muxlet that talks without end: the log holds a few of its words, much is read at a time, and the link goes on. */
#include "base/err.h"
#include "base/log.h"
#include "muxd/link/frame.h"
#include "muxd/link/link.h"
#include "muxd/link/link_state.h"

#include <openssl/hmac.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#define WORDS 100000

struct hub {
	uv_loop_t loop;
	struct link *link;
	int peer; /* muxlet's end, which is the test's */
	int ups, downs;
};

static void on_up(void *arg, const struct link_channel_info *list, size_t n)
{
	struct hub *h = arg;

	(void)list, (void)n;
	h->ups++;
}

static void on_down(void *arg, int rc, const char *why)
{
	struct hub *h = arg;

	(void)rc, (void)why;
	h->downs++;
}

static const struct link_ops ops = {.up = on_up, .down = on_down};

static void turn(struct hub *h)
{
	for (int i = 0; i < 3; i++)
		uv_run(&h->loop, UV_RUN_NOWAIT);
}

static void say(struct hub *h, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t done = send(h->peer, p, n < 8192 ? n : 8192, MSG_NOSIGNAL);

		assert_true(done > 0);
		p += done;
		n -= (size_t)done;
		turn(h);
		assert_int_equal(h->downs, 0);
	}
}

static void say_frame(struct hub *h, const struct frame *f)
{
	uint8_t text[512];
	size_t n = frame_encode(f, text, sizeof(text));

	assert_true(n > 0);
	say(h, text, n);
}

/* The next frame of this type. */
static struct frame hear(struct hub *h, uint8_t type)
{
	static uint8_t in[4096];
	struct frame f = {0};
	const char *why;
	size_t len = 0, size;

	while (f.type != type) {
		int rc = frame_decode(in, len, 'H', &f, &size, &why);

		assert_true(rc >= 0);
		if (rc > 0) {
			len -= size;
			memmove(in, in + size, len);
			continue;
		}
		turn(h);
		assert_true((size = (size_t)recv(h->peer, in + len, sizeof(in) - len, 0)) <= sizeof(in) - len);
		len += size;
	}
	return f;
}

/* As muxlet would: the hub's HELLO is answered with the right proof. */
static void shake_hands(struct hub *h, const uint8_t secret[LINK_SECRET_LEN])
{
	struct frame answer = {.type = FRAME_HELLO, .u.hello.major = FRAME_MAJOR}, f = hear(h, FRAME_HELLO);
	uint8_t text[FRAME_TRANSCRIPT];
	unsigned n = 0;

	frame_transcript("muxd-let", &f.u.hello, &answer.u.hello, text);
	assert_non_null(HMAC(EVP_sha256(), secret, LINK_SECRET_LEN, text, sizeof(text), answer.u.hello.proof, &n));
	say_frame(h, &answer);
	say_frame(h, &(struct frame){.type = FRAME_LISTED});
	assert_int_equal(link_state(h->link), LINK_UP);
	assert_int_equal(h->ups, 1);
}

static size_t one_error(uint8_t *to, size_t room)
{
	static const char words[] = "something is wrong here";
	struct frame f = {.type = FRAME_ERROR, .p = (const uint8_t *)words, .n = sizeof(words) - 1};

	f.u.opened.code = CODE_PROTOCOL;
	return frame_encode(&f, to, room);
}

static void say_errors(struct hub *h, int n)
{
	uint8_t one[128];
	size_t size = one_error(one, sizeof(one));
	uint8_t *all = malloc(size * (size_t)n);

	assert_non_null(all);
	for (int i = 0; i < n; i++)
		memcpy(all + size * (size_t)i, one, size);
	say(h, all, size * (size_t)n);
	free(all);
}

static int lines_of(FILE *f)
{
	int n = 0;

	rewind(f);
	for (int c; (c = fgetc(f)) != EOF;)
		n += c == '\n';
	return n;
}

static void flood_open(struct hub *h)
{
	struct link_params p = {.name = "flood", .secret = {1, 2, 3}};
	int fds[2];

	*h = (struct hub){.peer = -1};
	assert_int_equal(uv_loop_init(&h->loop), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	h->peer = fds[1];
	assert_int_equal(link_create(&h->loop, &p, &ops, h, &h->link), 0);
	assert_int_equal(link_attach(h->link, fds[0], 1), 0);
	shake_hands(h, p.secret);
}

static void flood_close(struct hub *h)
{
	link_destroy(h->link);
	uv_run(&h->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&h->loop), 0);
	close(h->peer);
}

static void a_flood_of_words_is_not_a_flood_of_lines(void **state)
{
	FILE *log = tmpfile();
	struct hub h;

	(void)state;
	assert_non_null(log);
	assert_int_equal(log_setup("test", "info", LOG_TEXT, fileno(log), NULL), 0);
	flood_open(&h);
	say_errors(&h, WORDS);
	/* It answers as if nothing had been. */
	say_frame(&h, &(struct frame){.type = FRAME_PING, .offset = 77});
	assert_int_equal(hear(&h, FRAME_PONG).offset, 77);
	assert_int_equal(link_state(h.link), LINK_UP);
	assert_in_range(lines_of(log), 1, 10);
	flood_close(&h);
	assert_int_equal(log_setup("test", "error", LOG_TEXT, 2, NULL), 0);
	fclose(log);
}

/* So much at once that a turn of reading is full: nothing of it is read in between. */
static void flood(struct hub *h)
{
	static uint8_t text[LINK_TURN + 1024];
	size_t n = 0, at = 0, size = one_error(text, sizeof(text));
	int room = 4 * LINK_TURN;

	assert_int_equal(setsockopt(h->peer, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) &
			     setsockopt(h->peer, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)),
			 0);
	while (n + size <= sizeof(text)) {
		memcpy(text + n, text, size);
		n += size;
	}
	while (at < n) {
		ssize_t done = send(h->peer, text + at, n - at, MSG_NOSIGNAL | MSG_DONTWAIT);

		assert_true(done > 0);
		at += (size_t)done;
	}
	turn(h);
	assert_int_equal(h->downs, 0);
}

/* The timer of pings makes the buffer small again; the test does that without ten seconds of waiting. */
static void tick(struct hub *h)
{
	h->link->timer.timer_cb(&h->link->timer);
}

static void memory_of_a_flood_goes(void **state)
{
	struct frame ping = {.type = FRAME_PING, .offset = 78}, pong = {0};
	uint8_t text[64];
	size_t n = frame_encode(&ping, text, sizeof(text));
	struct hub h;

	(void)state;
	flood_open(&h);
	assert_int_equal(h.link->turn, LINK_TURN);
	flood(&h);
	assert_int_equal(h.link->turn, LINK_TURN_BULK);
	tick(&h);
	assert_int_equal(h.link->turn, LINK_TURN_BULK);
	say(&h, text, n / 2); /* a frame in part stays */
	tick(&h);
	assert_int_equal(h.link->turn, LINK_TURN);
	say(&h, text + n / 2, n - n / 2);
	while (pong.offset != 78)
		pong = hear(&h, FRAME_PONG);
	assert_int_equal(link_state(h.link), LINK_UP);
	flood_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_flood_of_words_is_not_a_flood_of_lines),
	    cmocka_unit_test(memory_of_a_flood_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
