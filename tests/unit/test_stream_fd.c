// tier: check
/* A descriptor in front of a stream: bytes both ways, who waits for whom, and every way to end. */
#include "control/kube/exec/stream_fd.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

/* A fake exec stream: takes what `room` allows, and remembers it. */
struct fake {
	uv_loop_t loop;
	struct stream_fd *f;
	int fd; /* the hub's end */
	uint8_t *got;
	size_t len, room;
	uint64_t window;
	bool broken, destroy_in_closed;
	int closed;
};

static ssize_t fake_input(void *arg, const uint8_t *p, size_t n)
{
	struct fake *k = arg;
	size_t take = n < k->room ? n : k->room;

	if (k->broken)
		return ERR_ENDED;
	k->got = realloc(k->got, k->len + take + 1);
	memcpy(k->got + k->len, p, take);
	k->len += take;
	k->room -= take;
	return (ssize_t)take;
}

static void fake_window(void *arg, uint64_t until)
{
	struct fake *k = arg;

	assert_true(until > k->window);
	k->window = until;
}

static void fake_closed(void *arg)
{
	struct fake *k = arg;

	k->closed++;
	if (k->destroy_in_closed) {
		stream_fd_destroy(k->f);
		k->f = NULL;
	}
}

static const struct stream_fd_ops fake_ops = {fake_input, fake_window, fake_closed};

static struct fake *fresh(uint64_t received)
{
	struct fake *k = calloc(1, sizeof(*k));

	assert_int_equal(uv_loop_init(&k->loop), 0);
	k->room = SIZE_MAX;
	assert_int_equal(stream_fd_create(&k->loop, &fake_ops, k, received, &k->f, &k->fd), 0);
	assert_int_equal(k->window, received + STREAM_FD_WINDOW);
	return k;
}

static void turn(struct fake *k)
{
	for (int i = 0; i < 20; i++)
		uv_run(&k->loop, UV_RUN_NOWAIT);
}

static void done(struct fake *k)
{
	stream_fd_destroy(k->f);
	if (k->fd >= 0)
		close(k->fd);
	uv_run(&k->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&k->loop), 0);
	free(k->got);
	free(k);
}

static size_t read_all(struct fake *k, uint8_t *p, size_t size)
{
	size_t n = 0;
	ssize_t got;

	while (n < size && (got = recv(k->fd, p + n, size - n, MSG_DONTWAIT)) > 0)
		n += (size_t)got;
	return n;
}

static void bytes_go_both_ways(void **state)
{
	struct fake *k = fresh(100);
	uint8_t p[16];

	(void)state;
	assert_int_equal(send(k->fd, "to muxlet", 9, 0), 9);
	turn(k);
	assert_int_equal(k->len, 9);
	assert_memory_equal(k->got, "to muxlet", 9);
	assert_int_equal(stream_fd_output(k->f, (const uint8_t *)"to hub", 6), 0);
	assert_int_equal(read_all(k, p, sizeof(p)), 6); /* without a turn of the loop */
	assert_memory_equal(p, "to hub", 6);
	done(k);
}

/* A hub that does not read: the window stays where it is, nothing is lost, and it opens again afterwards. */
static void the_window_waits_for_the_hub(void **state)
{
	struct fake *k = fresh(0);
	uint8_t *out = malloc(STREAM_FD_WINDOW), *in = malloc(STREAM_FD_WINDOW + 1);
	uint64_t before = k->window;
	size_t sent = 0, got = 0;

	(void)state;
	for (size_t i = 0; i < STREAM_FD_WINDOW; i++)
		out[i] = (uint8_t)(i * 7 + i / 251);
	while (sent < STREAM_FD_WINDOW) { /* as far as the first window allows, in the server's pieces */
		size_t n = STREAM_FD_WINDOW - sent < 32769 ? STREAM_FD_WINDOW - sent : 32769;

		assert_int_equal(stream_fd_output(k->f, out + sent, n), 0);
		sent += n;
	}
	turn(k);
	assert_true(k->window < before + STREAM_FD_WINDOW); /* the socket took a part, not all */
	while (got < STREAM_FD_WINDOW) {
		size_t n = read_all(k, in + got, STREAM_FD_WINDOW + 1 - got);

		got += n;
		turn(k);
	}
	assert_int_equal(got, STREAM_FD_WINDOW);
	assert_memory_equal(in, out, STREAM_FD_WINDOW);
	assert_true(k->window > before + STREAM_FD_WINDOW / 2);
	free(out);
	free(in);
	done(k);
}

static void a_stream_that_sends_past_its_window_is_told(void **state)
{
	struct fake *k = fresh(0);
	uint8_t *out = calloc(1, STREAM_FD_WINDOW);
	int rc = 0;

	(void)state;
	for (int i = 0; i < 8 && !rc; i++)
		rc = stream_fd_output(k->f, out, STREAM_FD_WINDOW);
	assert_int_equal(rc, ERR_TOO_LARGE);
	free(out);
	done(k);
}

/* A stream that takes little: the socket fills, and what the hub said goes on in order. */
static void the_hub_waits_for_the_stream(void **state)
{
	enum { ALL = 2 * 1024 * 1024 };
	struct fake *k = fresh(0);
	uint8_t *text = malloc(ALL);
	size_t sent = 0;

	(void)state;
	for (size_t i = 0; i < ALL; i++)
		text[i] = (uint8_t)(i * 13 + i / 509);
	k->room = 1000;
	fcntl(k->fd, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < 50; i++) {
		ssize_t n = send(k->fd, text + sent, ALL - sent, MSG_NOSIGNAL);

		sent += n > 0 ? (size_t)n : 0;
		turn(k);
	}
	assert_true(sent < ALL);
	assert_int_equal(k->len, 1000);
	while (k->len < ALL) {
		ssize_t n = sent < ALL ? send(k->fd, text + sent, ALL - sent, MSG_NOSIGNAL) : 0;

		sent += n > 0 ? (size_t)n : 0;
		k->room = 30000;
		stream_fd_writable(k->f);
		turn(k);
	}
	assert_memory_equal(k->got, text, ALL);
	free(text);
	done(k);
}

static void what_was_said_last_arrives_before_the_end(void **state)
{
	struct fake *k = fresh(0);
	uint8_t *out = calloc(1, STREAM_FD_WINDOW), *in = malloc(STREAM_FD_WINDOW);
	size_t got = 0;

	(void)state;
	assert_int_equal(stream_fd_output(k->f, out, STREAM_FD_WINDOW), 0);
	stream_fd_end(k->f);
	turn(k);
	assert_int_equal(k->closed, 0);
	while (got < STREAM_FD_WINDOW) {
		got += read_all(k, in + got, STREAM_FD_WINDOW - got);
		turn(k);
	}
	assert_int_equal(k->closed, 1);
	assert_int_equal(recv(k->fd, in, 1, MSG_DONTWAIT), -1); /* it is the owner who closes */
	assert_int_equal(errno, EAGAIN);
	stream_fd_destroy(k->f);
	k->f = NULL;
	assert_int_equal(recv(k->fd, in, 1, 0), 0);
	free(in);
	free(out);
	done(k);
}

static void ends(void **state)
{
	struct fake *k = fresh(0);

	(void)state;
	k->destroy_in_closed = true;
	stream_fd_end(k->f); /* nothing waits: over at once, and gone from inside */
	assert_int_equal(k->closed, 1);
	done(k);

	k = fresh(0);
	k->destroy_in_closed = true;
	assert_int_equal(send(k->fd, "last", 4, 0), 4);
	close(k->fd);
	k->fd = -1;
	turn(k);
	assert_int_equal(k->closed, 1);
	assert_memory_equal(k->got, "last", 4);
	done(k);

	k = fresh(0);
	k->broken = true;
	k->destroy_in_closed = true;
	assert_int_equal(send(k->fd, "x", 1, 0), 1);
	turn(k);
	assert_int_equal(k->closed, 1);
	done(k);

	k = fresh(0); /* the hub goes while the stream is stalled and its input is full */
	k->room = 0;
	k->destroy_in_closed = true;
	assert_int_equal(send(k->fd, "x", 1, 0), 1);
	turn(k);
	close(k->fd);
	k->fd = -1;
	turn(k);
	assert_int_equal(k->closed, 1);
	done(k);

	k = fresh(0); /* output for a hub that is gone */
	close(k->fd);
	k->fd = -1;
	assert_int_equal(stream_fd_output(k->f, (const uint8_t *)"x", 1), 0);
	turn(k);
	assert_int_equal(k->closed, 1);
	assert_int_equal(stream_fd_output(k->f, (const uint8_t *)"x", 1), 0);
	stream_fd_end(k->f);
	stream_fd_writable(k->f);
	assert_int_equal(k->closed, 1);
	done(k);
	stream_fd_destroy(NULL);
}

static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void nothing_is_left(void **state)
{
	int before = descriptors();

	(void)state;
	for (int i = 0; i < 100; i++)
		done(fresh(0));
	assert_int_equal(descriptors(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_go_both_ways),
	    cmocka_unit_test(the_window_waits_for_the_hub),
	    cmocka_unit_test(a_stream_that_sends_past_its_window_is_told),
	    cmocka_unit_test(the_hub_waits_for_the_stream),
	    cmocka_unit_test(what_was_said_last_arrives_before_the_end),
	    cmocka_unit_test(ends),
	    cmocka_unit_test(nothing_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
