// tier: check
#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/json.h"
#include "base/msg.h"
#include "base/sock.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void messages_come_out_as_they_went_in(void **state)
{
	(void)state;
	struct buf b;
	struct msg m;
	size_t size = 0;
	json_t *o = json_pack("{s:s}", "op", "exec");
	buf_init(&b, 1000);
	assert_int_equal(msg_put_json(&b, o), 0);
	assert_int_equal(msg_put_bytes(&b, 1, "abc", 3), 0);
	assert_int_equal(msg_put_bytes(&b, 0, NULL, 0), 0);
	assert_int_equal(msg_next(&b, &m, &size), 1);
	assert_int_equal(m.kind, 'J');
	assert_int_equal(m.len, strlen("{\"op\":\"exec\"}"));
	assert_memory_equal(m.payload, "{\"op\":\"exec\"}", m.len);
	buf_consume(&b, size);
	assert_int_equal(msg_next(&b, &m, &size), 1);
	assert_int_equal(m.kind, 'B');
	assert_memory_equal(m.payload, "\1abc", 4);
	buf_consume(&b, size);
	assert_int_equal(msg_next(&b, &m, &size), 1);
	assert_int_equal(m.len, 1);
	buf_consume(&b, size);
	assert_int_equal(msg_next(&b, &m, &size), 0);
	json_decref(o);
	buf_finish(&b);
}

/* Whatever part of a message is there, the rest is waited for. */
static void a_part_is_no_message(void **state)
{
	(void)state;
	struct buf whole, part;
	struct msg m;
	size_t size;
	buf_init(&whole, 100);
	buf_init(&part, 100);
	assert_int_equal(msg_put_bytes(&whole, 2, "data", 4), 0);
	for (size_t n = 0; n < buf_len(&whole); n++) {
		buf_clear(&part);
		assert_int_equal(buf_append(&part, buf_ptr(&whole), n), 0);
		assert_int_equal(msg_next(&part, &m, &size), 0);
	}
	buf_finish(&whole);
	buf_finish(&part);
}

static void impossible_headers_are_refused(void **state)
{
	(void)state;
	static const struct {
		uint32_t len;
		const char *kind;
	} rows[] = {{0, ""}, {0, "J"}, {MSG_MAX + 1, ""}, {0xffffffff, "B"}, {5, "X"}, {1, "B"}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t head[4];
		struct buf b;
		struct msg m;
		size_t size;
		buf_init(&b, 100);
		put_u32(head, rows[i].len);
		assert_int_equal(buf_append(&b, head, 4), 0);
		assert_int_equal(buf_append_str(&b, rows[i].kind), 0);
		assert_int_equal(msg_next(&b, &m, &size), ERR_PROTOCOL);
		buf_finish(&b);
	}
}

static void too_large_is_refused_by_the_sender(void **state)
{
	(void)state;
	char *big = calloc(1, MSG_MAX);
	struct buf b;
	buf_init(&b, MSG_MAX * 2);
	assert_int_equal(msg_put_bytes(&b, 0, big, MSG_MAX - 1), ERR_TOO_LARGE);
	assert_int_equal(buf_len(&b), 0);
	assert_int_equal(msg_put_bytes(&b, 0, big, MSG_MAX - 2), 0);
	buf_finish(&b);
	free(big);
}

struct sender {
	int fd;
	const char *data;
};

static void *send_many(void *arg)
{
	struct sender *s = arg;
	struct buf b;

	buf_init(&b, MSG_MAX * 2);
	for (int i = 0; i < 8; i++) {
		if (msg_put_bytes(&b, (uint8_t)i, s->data, MSG_MAX - 2) < 0)
			return NULL;
		while (buf_len(&b)) {
			struct pollfd room = {.fd = s->fd, .events = POLLOUT};
			poll(&room, 1, -1);
			ssize_t n = write(s->fd, buf_ptr(&b), buf_len(&b));
			if (n < 0)
				return NULL;
			buf_consume(&b, (size_t)n);
		}
	}
	buf_finish(&b);
	json_t *o = json_pack("{s:b}", "end", 1);
	msg_send_json(s->fd, o, NULL);
	json_decref(o);
	close(s->fd);
	return s;
}

/* Larger than any socket buffer, from a descriptor that does not block, into one that does. */
static void large_messages_pass_a_small_pipe(void **state)
{
	(void)state;
	int fds[2];
	char *data = malloc(MSG_MAX);
	struct buf in;
	struct msg m;
	size_t size;
	pthread_t t;
	void *result;
	memset(data, 'q', MSG_MAX);
	assert_int_equal(sock_pair(SOCK_STREAM, fds), 0);
	assert_int_equal(sock_set_nonblock(fds[0], 1), 0);
	struct sender s = {fds[0], data};
	assert_int_equal(pthread_create(&t, NULL, send_many, &s), 0);
	buf_init(&in, MSG_MAX + MSG_HEADER);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(msg_recv(fds[1], &in, &m, &size, NULL), 0);
		assert_int_equal(m.len, MSG_MAX - 1);
		assert_int_equal(m.payload[0], i);
		assert_memory_equal(m.payload + 1, data, m.len - 1);
		buf_consume(&in, size);
	}
	assert_int_equal(msg_recv(fds[1], &in, &m, &size, NULL), 0);
	assert_int_equal(m.kind, 'J');
	buf_consume(&in, size);
	struct err e = {0};
	assert_int_equal(msg_recv(fds[1], &in, &m, &size, &e), ERR_EOF);
	pthread_join(t, &result);
	assert_ptr_equal(result, &s);
	close(fds[1]);
	buf_finish(&in);
	free(data);
}

static void an_end_within_a_message_is_said(void **state)
{
	(void)state;
	int fds[2];
	struct buf in;
	struct msg m;
	size_t size;
	struct err e = {0};
	assert_int_equal(sock_pair(SOCK_STREAM, fds), 0);
	assert_int_equal(write(fds[0], "\5\0\0\0J{", 6), 6);
	close(fds[0]);
	buf_init(&in, 100);
	assert_int_equal(msg_recv(fds[1], &in, &m, &size, &e), ERR_EOF);
	assert_non_null(strstr(e.message, "within a message"));
	close(fds[1]);
	buf_finish(&in);
}

static void a_gone_reader_is_an_error_not_a_signal(void **state)
{
	(void)state;
	int fds[2];
	assert_int_equal(sock_pair(SOCK_STREAM, fds), 0);
	close(fds[1]);
	json_t *o = json_pack("{s:b}", "end", 1);
	assert_int_equal(msg_send_json(fds[0], o, NULL), ERR_EOF);
	json_decref(o);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(messages_come_out_as_they_went_in),
	    cmocka_unit_test(a_part_is_no_message),
	    cmocka_unit_test(impossible_headers_are_refused),
	    cmocka_unit_test(too_large_is_refused_by_the_sender),
	    cmocka_unit_test(large_messages_pass_a_small_pipe),
	    cmocka_unit_test(an_end_within_a_message_is_said),
	    cmocka_unit_test(a_gone_reader_is_an_error_not_a_signal),
	};
	return cmocka_run_group_tests_name("msg", tests, NULL, NULL);
}
