// tier: check
#include "base/err.h"
#include "base/err_json.h"
#include "base/sock.h"
#include "muxd/monitor/channel.h"
#include "muxd/monitor/issue.h"
#include "muxd/monitor/listen.h"
#include "muxd/monitor/request.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define QUEUE 50

struct fixture {
	uv_loop_t loop;
	struct channel *channel;
	int peer;
	int got, closed;
	int64_t last;
	bool destroy_in_callback;
	struct err why;
};

static void on_packet(void *arg, const json_t *msg)
{
	struct fixture *f = arg;

	f->got++;
	f->last = json_integer_value(json_object_get(msg, "n"));
	if (f->destroy_in_callback) {
		channel_destroy(f->channel);
		f->channel = NULL;
	}
}

static void on_closed(void *arg, const struct err *why)
{
	struct fixture *f = arg;

	f->closed++;
	f->why = *why;
	if (f->destroy_in_callback) {
		channel_destroy(f->channel);
		f->channel = NULL;
	}
}

static const struct channel_ops ops = {.packet = on_packet, .closed = on_closed, .queue_max = QUEUE};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	int fds[2];

	uv_loop_init(&f->loop);
	if (sock_pair(SOCK_SEQPACKET, fds) || channel_create(&f->loop, fds[0], &ops, f, &f->channel, NULL))
		return -1;
	f->peer = fds[1];
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	channel_destroy(f->channel);
	if (f->peer >= 0)
		close(f->peer);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	int rc = uv_loop_close(&f->loop);
	free(f);
	return rc;
}

static void turn(struct fixture *f)
{
	for (int i = 0; i < 5; i++)
		uv_run(&f->loop, UV_RUN_NOWAIT);
}

static int send_number(struct fixture *f, int64_t n, const int *fds, size_t nfds)
{
	json_t *o = json_pack("{s:I, s:s}", "n", (json_int_t)n, "padding",
			      "................................................................................");
	int rc = channel_send(f->channel, o, fds, nfds);

	json_decref(o);
	return rc;
}

static void packets_arrive_in_order(void **state)
{
	struct fixture *f = *state;

	for (int i = 1; i <= 100; i++) {
		json_t *o = json_pack("{s:i}", "n", i);
		assert_int_equal(sock_send_packet(f->peer, o, NULL, 0, NULL), 0);
		json_decref(o);
	}
	turn(f);
	assert_int_equal(f->got, 100);
	assert_int_equal(f->last, 100);
	assert_int_equal(f->closed, 0);
}

/* A peer that does not read: packets wait, with their descriptors, then the queue is full. */
static void what_cannot_be_sent_waits_and_the_queue_ends(void **state)
{
	struct fixture *f = *state;
	int fds[2], rc = 0, sent = 0, received = 0;

	assert_int_equal(pipe(fds), 0);
	while ((rc = send_number(f, sent, &fds[0], 1)) == 0)
		sent++;
	assert_int_equal(rc, ERR_LIMIT);
	assert_true(sent > QUEUE);
	close(fds[0]); /* ours; the copies in the queue live on */
	for (int idle = 0; idle < 3;) {
		json_t *msg = NULL;
		size_t n = 1;
		int got;

		if (recv(f->peer, NULL, 0, MSG_PEEK | MSG_DONTWAIT) < 0) {
			turn(f);
			idle++;
			continue;
		}
		idle = 0;
		assert_int_equal(sock_recv_packet(f->peer, &msg, &got, &n, NULL), 0);
		assert_int_equal(n, 1);
		assert_int_equal(json_integer_value(json_object_get(msg, "n")), received++);
		assert_true(fcntl(got, F_GETFD) >= 0);
		close(got);
		json_decref(msg);
	}
	assert_int_equal(received, sent); /* none lost, none twice, in order */
	assert_int_equal(send_number(f, 0, NULL, 0), 0);
	close(fds[1]);
}

static void the_end_of_the_peer_is_told_once(void **state)
{
	struct fixture *f = *state;

	close(f->peer);
	f->peer = -1;
	turn(f);
	turn(f);
	assert_int_equal(f->closed, 1);
	assert_int_equal(f->why.code, ERR_EOF);
	assert_int_equal(send_number(f, 1, NULL, 0), ERR_EOF);
}

static void a_bad_packet_ends_the_conversation(void **state)
{
	static const char *const bad[] = {"{", "[1]", "\"text\"", "{\"a\":1,\"a\":2}", "{}{}"};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct fixture *f;

		if (i > 0) {
			teardown(state);
			setup(state);
		}
		f = *state;
		assert_true(send(f->peer, bad[i], strlen(bad[i]), 0) > 0);
		turn(f);
		assert_int_equal(f->got, 0);
		assert_int_equal(f->closed, 1);
		assert_true(f->why.code != ERR_EOF);
	}
}

static void a_callback_may_destroy_its_channel(void **state)
{
	struct fixture *f = *state;

	f->destroy_in_callback = true;
	for (int i = 0; i < 3; i++)
		assert_int_equal(send(f->peer, "{}", 2, 0), 2);
	turn(f);
	assert_int_equal(f->got, 1);
	assert_null(f->channel);
}

static void also_the_one_that_tells_its_end(void **state)
{
	struct fixture *f = *state;

	f->destroy_in_callback = true;
	close(f->peer);
	f->peer = -1;
	turn(f);
	assert_int_equal(f->closed, 1);
	assert_null(f->channel);
}

static void descriptors_that_come_along_are_closed(void **state)
{
	struct fixture *f = *state;
	json_t *o = json_object();
	int fds[2];
	char byte;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(sock_send_packet(f->peer, o, &fds[1], 1, NULL), 0);
	close(fds[1]);
	turn(f);
	assert_int_equal(f->got, 1);
	assert_int_equal(read(fds[0], &byte, 1), 0); /* no writer is left */
	close(fds[0]);
	json_decref(o);
}

static json_t *parse(const char *text)
{
	json_t *o = NULL;

	assert_int_equal(json_parse(text, strlen(text), 65536, &o, NULL), 0);
	return o;
}

static void wishes(void **state)
{
	static const struct {
		const char *text;
		int want;
		const char *named;
	} cases[] = {
	    {"{\"principal\":\"a\",\"kind\":\"staff\",\"agent\":\"d\",\"reason\":\"r\"}", 0, ""},
	    {"{\"principal\":\"a\",\"kind\":\"staff\",\"agent\":\"d\"}", ERR_REASON_REQUIRED, "reason"},
	    {"{\"kind\":\"staff\",\"agent\":\"d\",\"reason\":\"r\"}", ERR_INVAL, "principal"},
	    {"{\"principal\":\"a\",\"kind\":\"king\",\"agent\":\"d\",\"reason\":\"r\"}", ERR_INVAL, "king"},
	    {"{\"principal\":\"a\",\"kind\":\"staff\",\"agent\":7,\"reason\":\"r\"}", ERR_INVAL, "agent"},
	    {"{\"principal\":\"a\",\"kind\":\"staff\",\"agent\":\"d\",\"reason\":\"r\",\"ttl_ns\":0}", ERR_INVAL,
	     "ttl"},
	    {"{\"principal\":\"a\",\"kind\":\"staff\",\"agent\":\"d\",\"reason\":\"r\",\"ttl_ns\":-1}", ERR_INVAL,
	     "ttl"},
	    {"{\"principal\":\"a\",\"kind\":\"staff\",\"agent\":\"d\",\"reason\":\"r\",\"scopes\":\"fly\"}", ERR_INVAL,
	     "fly"},
	    {"{\"principal\":\"a\",\"kind\":\"staff\",\"agent\":\"d\",\"reason\":\"r\",\"scopes\":[\"fly\"]}",
	     ERR_INVAL, "fly"},
	    {"{\"principal\":\"a\",\"kind\":\"staff\",\"agent\":\"d\",\"reason\":\"r\",\"scopes\":5}", ERR_INVAL,
	     "scopes"},
	};
	struct wish w = {0};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		json_t *o = parse(cases[i].text);
		struct err e = {0};

		if (request_wish(o, &w, &e) != cases[i].want || !strstr(e.message, cases[i].named))
			fail_msg("%s: %s", cases[i].text, e.message);
		json_decref(o);
	}
	json_t *o = parse("{\"principal\":\"a\",\"kind\":\"agent\",\"agent\":\"d\",\"reason\":\"r\",\"task\":\"\","
			  "\"scopes\":[\"rounds\",\"files\"],\"ttl_ns\":5}");
	assert_int_equal(request_wish(o, &w, NULL), 0);
	assert_int_equal(w.scopes, SCOPE_ROUNDS | SCOPE_FILES);
	assert_null(w.task);
	assert_int_equal(w.ttl_ns, 5);
	json_decref(o);
}

static void doors_are_written_as_clients_type_them(void **state)
{
	static const struct {
		const char *https, *ssh, *agent, *url, *command;
	} cases[] = {
	    {"127.0.0.1:8443", "127.0.0.1:2222", "demo", "https://127.0.0.1:8443/#T", "ssh -p 2222 demo@127.0.0.1"},
	    {"0.0.0.0:443", "0.0.0.0:22", "demo", "https://127.0.0.1:443/#T", "ssh -p 22 demo@127.0.0.1"},
	    {"[::]:8443", "[::1]:2222", "demo", "https://[::1]:8443/#T", "ssh -p 2222 demo@::1"},
	    {"10.0.0.5:1", "10.0.0.5:2", "*", "https://10.0.0.5:1/#T", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		json_t *o = json_object();
		const char *command;

		assert_int_equal(request_add_doors(o, cases[i].agent, "T", cases[i].https, cases[i].ssh), 0);
		assert_string_equal(json_string_value(json_object_get(o, "web_url")), cases[i].url);
		command = json_string_value(json_object_get(o, "ssh_command"));
		if (cases[i].command)
			assert_string_equal(command, cases[i].command);
		else
			assert_null(command);
		json_decref(o);
	}
}

static void an_error_says_code_message_and_hint(void **state)
{
	struct err e = {0}, there = {0};
	json_t *o;

	(void)state;
	err_set(&e, ERR_NOT_FOUND, "no grant");
	o = request_error(e.code, &e);
	assert_int_equal(json_integer_value(json_object_get(o, "rc")), ERR_NOT_FOUND);
	const json_t *error = json_object_get(o, "error");
	assert_string_equal(json_string_value(json_object_get(error, "code")), "not_found");
	assert_string_equal(json_string_value(json_object_get(error, "message")), "no grant");
	assert_true(strlen(json_string_value(json_object_get(error, "hint"))) > 0);
	assert_null(json_object_get(error, "limit"));
	json_decref(o);
	/* A limit goes along, so that whoever asks net hears of it as if net had it. */
	err_limit(&e, ERR_LIMIT, &(struct err_share){"fixed.grants", "daemon", 7, 8, 60}, "8 grants are alive already");
	o = request_error(e.code, &e);
	err_share_take(json_object_get(o, "error"), &there);
	assert_string_equal(there.share.limit, "fixed.grants");
	assert_string_equal(there.share.of, "daemon");
	assert_true(there.share.value == 7 && there.share.in_use == 8 && there.share.retry_s == 60);
	json_decref(o);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(packets_arrive_in_order),
	    TEST(what_cannot_be_sent_waits_and_the_queue_ends),
	    TEST(the_end_of_the_peer_is_told_once),
	    TEST(a_bad_packet_ends_the_conversation),
	    TEST(a_callback_may_destroy_its_channel),
	    TEST(also_the_one_that_tells_its_end),
	    TEST(descriptors_that_come_along_are_closed),
	    cmocka_unit_test(wishes),
	    cmocka_unit_test(doors_are_written_as_clients_type_them),
	    cmocka_unit_test(an_error_says_code_message_and_hint),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("monitor_channel", tests, NULL, NULL);
}
