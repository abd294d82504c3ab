// tier: check, slice BULK_MB=2 TRIES=4, whole BULK_MB=100 TRIES=50
/*
 * The bytes of exec streams against a fake API server: bulk both ways, windows, input, and who does not answer any
 * more. Real kubelets are in tests/e2e/k8s.
 */
#include "tests/lib/exec_rig.h"

/* --- bulk, both ways, byte by byte */

/* BULK_MB: of 1,000,000 bytes each (100). */
static uint64_t bulk(void)
{
	const char *text = getenv("BULK_MB");

	return (text ? strtoull(text, NULL, 10) : 100) * 1000000 + 12345;
}

static const char *of_bulk(const char *verb)
{
	static char script[64];

	snprintf(script, sizeof(script), "%s %llu", verb, (unsigned long long)bulk());
	return script;
}

static void check_bulk_out(const char *by, const char *script, uint64_t total)
{
	char want[65], got[65];
	struct run r;

	pattern_digest(total, want);
	assert_true(run_script(&r, endpoint(by), script));
	check_exit(&r, RC_EXITED, 0);
	assert_int_equal(r.total[1], total);
	digest_text(r.digest, got);
	assert_string_equal(got, want);
	run_finish(&r);
}

static void test_bulk_out(void **state)
{
	(void)state;
	check_bulk_out("tls", of_bulk("bytes"), bulk());
	check_bulk_out("plain", of_bulk("bytes"), bulk());
	check_bulk_out("tls", "bytes 200000 1", 200000);
	check_bulk_out("tls", "bytes 10000000 65536", 10000000);
	check_bulk_out("plain", "fragment bytes 20000 3000", 20000);
	check_bulk_out("tls", "drip bytes 20000 3000", 20000);
}

static void check_bulk_in(const char *by, const char *script, uint64_t total, bool eof)
{
	char want[65], text[128];
	struct run r;
	struct err e = {0};

	pattern_digest(total, want);
	snprintf(text, sizeof(text), "%llu %s", (unsigned long long)total, want);
	run_init(&r, script);
	r.to_send = total;
	r.eof_after = eof;
	assert_int_equal(run_open(&r, endpoint(by), &e), 0);
	run_feed(&r); /* before it is open: waits */
	assert_true(until(r.exits));
	check_exit(&r, RC_EXITED, 0);
	assert_string_equal(r.text[1], text);
	run_finish(&r);
}

static void test_bulk_in(void **state)
{
	(void)state;
	check_bulk_in("tls", "sink", bulk(), true);
	check_bulk_in("plain", "sink", bulk(), true);
	check_bulk_in("tls", of_bulk("v4 sink"), bulk(), false);
	check_bulk_in("tls", "sink", 0, true);
	check_bulk_in("plain", "sink", 1, true);
}

static void test_echo(void **state)
{
	const char *const by[] = {"plain", "tls"};
	char want[65], got[65];
	uint64_t total = bulk() < 30000000 ? bulk() : 30000000;

	(void)state;
	pattern_digest(total, want);
	for (int i = 0; i < 2; i++) {
		struct run r;
		struct err e = {0};

		run_init(&r, "echo");
		r.to_send = total;
		r.eof_after = true;
		assert_int_equal(run_open(&r, endpoint(by[i]), &e), 0);
		run_feed(&r);
		assert_true(until(r.exits));
		check_exit(&r, RC_EXITED, 0);
		digest_text(r.digest, got);
		assert_string_equal(got, want);
		run_finish(&r);
	}
}

/* The server ends with stdin unread: a reset follows its last words, which count all the same, whatever we are writing.
 */
static void check_unread(const char *by, const char *script, uint64_t input)
{
	struct run r;
	struct err e = {0};

	run_init(&r, script);
	r.to_send = input;
	assert_int_equal(run_open(&r, endpoint(by), &e), 0);
	run_feed(&r);
	assert_true(until(r.exits));
	check_exit(&r, RC_EXITED, 7);
	assert_string_equal(r.text[1], "last words");
	run_finish(&r);
}

static void test_unread_stdin(void **state)
{
	const char *tries = getenv("TRIES");

	(void)state;
	for (int i = tries ? atoi(tries) : 50; i > 0; i--) {
		check_unread("tls", "unread 0", 10000000);
		check_unread("tls", "unread 2", 10000000);
		check_unread("tls", "unread 20", 40000);
		check_unread("plain", "unread 0", 10000000);
		check_unread("plain", "unread 20", 1000);
	}
}

/* --- the window */

/* Nothing passes the window; the rest waits, then the exit; meanwhile input, pings and the server's pings go on. */
static void check_window(const char *by)
{
	char want[65], got[65];
	struct run r;
	struct err e = {0};

	pattern_digest(3000000, want);
	run_init(&r, "bytes 3000000");
	r.grant = 0;
	r.params.window = 10;
	assert_int_equal(run_open(&r, endpoint(by), &e), 0);
	assert_true(until(r.total[1] == 10));
	nap(50);
	assert_int_equal(r.total[1], 10);
	for (uint64_t w = 11; w < 3000000; w += w < 1000 ? 100 : 77777) {
		rc_window(r.stream, w);
		assert_int_not_equal(r.total[1], w); /* never from inside the call */
		assert_true(until(r.total[1] == w));
	}
	rc_window(r.stream, 2999999);
	assert_true(until(r.total[1] == 2999999));
	nap(50);
	assert_int_equal(r.exits, 0);
	rc_window(r.stream, UINT64_MAX);
	assert_true(until(r.exits));
	check_exit(&r, RC_EXITED, 0);
	assert_int_equal(r.total[1], 3000000);
	digest_text(r.digest, got);
	assert_string_equal(got, want);
	run_finish(&r);
}

static void test_window(void **state)
{
	(void)state;
	check_window("plain");
	check_window("tls");
}

/* A consumer that takes nothing at all stops the server, and nothing grows here; input still goes out. */
static void test_closed_window(void **state)
{
	struct run r;
	struct err e = {0};

	(void)state;
	run_init(&r, "echo");
	r.grant = 0;
	r.params.window = 0;
	r.params.keepalive_ms = 20;
	r.params.dead_ms = 1000;
	r.to_send = 50000;
	assert_int_equal(run_open(&r, endpoint("tls"), &e), 0);
	run_feed(&r);
	assert_true(until(r.opened && rc_input_queued(r.stream) == 0));
	nap(2500); /* far longer than dead_ms: we do not listen, so nobody is dead */
	assert_int_equal(r.exits, 0);
	assert_int_equal(r.total[1], 0);
	assert_int_equal(rc_input(r.stream, "x", 1), 1);
	assert_int_equal(rc_input_eof(r.stream), 0);
	assert_true(until(rc_input_queued(r.stream) == 0));
	rc_window(r.stream, UINT64_MAX);
	assert_true(until(r.exits));
	check_exit(&r, RC_EXITED, 0);
	assert_int_equal(r.total[1], 50001);
	run_finish(&r);
}

/* --- input */

static void test_input_is_bounded(void **state)
{
	static uint8_t much[RC_INPUT_MAX + 1];
	struct run r;
	struct err e = {0};

	(void)state;
	run_init(&r, "sink");
	assert_int_equal(run_open(&r, endpoint("tls"), &e), 0);
	assert_int_equal(rc_input(r.stream, much, sizeof(much)), RC_INPUT_MAX);
	assert_int_equal(rc_input(r.stream, much, 1), 0);
	assert_int_equal(rc_input_room(r.stream), 0);
	assert_int_equal(rc_input_queued(r.stream), RC_INPUT_MAX);
	assert_int_equal(rc_input_eof(r.stream), 0);
	assert_int_equal(rc_input(r.stream, much, 1), ERR_BAD_STATE);
	assert_true(until(r.exits));
	check_exit(&r, RC_EXITED, 0);
	assert_int_equal(strncmp(r.text[1], "262144 ", 7), 0);
	assert_int_equal(rc_input(r.stream, much, 1), ERR_ENDED);
	assert_int_equal(rc_input_eof(r.stream), ERR_ENDED);
	assert_int_equal(rc_resize(r.stream, 80, 24), ERR_ENDED);
	run_finish(&r);
}

static void test_v4_has_no_eof(void **state)
{
	struct run r;
	struct err e = {0};

	(void)state;
	run_init(&r, "v4 echo");
	assert_int_equal(run_open(&r, endpoint("tls"), &e), 0);
	assert_int_equal(rc_input_eof(r.stream), 0); /* nobody knows yet */
	assert_true(until(r.opened));
	assert_int_equal(r.opened, 4);
	assert_int_equal(rc_version(r.stream), 4);
	assert_int_equal(rc_input_eof(r.stream), ERR_UNSUPPORTED);
	assert_int_equal(rc_input(r.stream, "still", 5), 5); /* what was asked too early was dropped */
	assert_true(until(r.total[1] == 5));
	assert_string_equal(r.text[1], "still");
	run_finish(&r);
}

static void test_without_stdin(void **state)
{
	struct run r;
	struct err e = {0};

	(void)state;
	run_init(&r, "exit 0");
	r.params.in = false;
	assert_int_equal(run_open(&r, endpoint("tls"), &e), 0);
	assert_int_equal(rc_input(r.stream, "x", 1), ERR_BAD_STATE);
	assert_int_equal(rc_input_eof(r.stream), ERR_BAD_STATE);
	assert_int_equal(rc_resize(r.stream, 80, 24), ERR_INVAL); /* no tty */
	assert_true(until(r.exits));
	check_exit(&r, RC_EXITED, 0);
	run_finish(&r);
}

static void test_resize(void **state)
{
	struct run r;
	struct err e = {0};

	(void)state;
	run_init(&r, "resizes 2");
	r.params.err = false;
	r.params.tty = true;
	r.params.cols = 80;
	r.params.rows = 24;
	assert_int_equal(run_open(&r, endpoint("tls"), &e), 0);
	assert_int_equal(rc_resize(r.stream, 0, 24), ERR_INVAL);
	assert_int_equal(rc_resize(r.stream, 80, 0), ERR_INVAL);
	assert_true(until(r.opened));
	nap(20);
	assert_int_equal(rc_resize(r.stream, 1, 1), 0);
	assert_int_equal(rc_resize(r.stream, 132, 43), 0); /* the newest wins */
	assert_true(until(r.exits));
	check_exit(&r, RC_EXITED, 0);
	assert_string_equal(r.text[1], "[{\"Width\": 80, \"Height\": 24}, {\"Width\": 132, \"Height\": 43}]");
	run_finish(&r);
}

/* --- staying, and noticing who does not */

/* Pings for load balancers, and empty messages, which is what a server's idle limit counts. */
static void test_keepalive(void **state)
{
	struct run r;
	struct err e = {0};

	(void)state;
	run_init(&r, "kept 5");
	r.params.keepalive_ms = 20;
	r.params.dead_ms = 30000;
	assert_int_equal(run_open(&r, endpoint("tls"), &e), 0);
	assert_true(until(r.exits));
	check_exit(&r, RC_EXITED, 0);
	run_finish(&r);
}

static void test_silent_peer(void **state)
{
	struct run r;
	struct err e = {0};

	(void)state;
	run_init(&r, "silent deaf");
	r.params.keepalive_ms = 100;
	assert_int_equal(run_open(&r, endpoint("tls"), &e), 0);
	assert_true(until(r.exits));
	check_exit(&r, RC_LOST, -1);
	assert_int_equal(r.exit.err.code, ERR_TIMEOUT);
	assert_non_null(strstr(r.exit.err.message, "nothing was heard"));
	run_finish(&r);
}

/* Quiet, but there: pongs are enough. */
static void test_quiet_peer(void **state)
{
	struct run r;
	struct err e = {0};

	(void)state;
	run_init(&r, "silent pongs");
	r.params.keepalive_ms = 50;
	r.params.dead_ms = 2000;
	assert_int_equal(run_open(&r, endpoint("tls"), &e), 0);
	assert_true(until(r.opened));
	nap(4000);
	if (r.exits)
		fail_msg("%s", r.exit.err.message);
	run_finish(&r);
}

/* A program that does not read its stdin holds up the server's pongs, with much input and with little. */
static void test_stalled_stdin(void **state)
{
	static const uint64_t input[] = {10, 20000000};
	char want[65], text[128];
	struct run r[2];
	struct err e = {0};

	(void)state;
	for (int i = 0; i < 2; i++) {
		run_init(&r[i], "stall 4000");
		r[i].params.keepalive_ms = 50;
		r[i].params.dead_ms = 1000;
		r[i].to_send = input[i];
		r[i].eof_after = true;
		assert_int_equal(run_open(&r[i], endpoint("tls"), &e), 0);
		run_feed(&r[i]);
	}
	for (int i = 0; i < 2; i++) {
		assert_true(until(r[i].exits));
		check_exit(&r[i], RC_EXITED, 0);
		pattern_digest(input[i], want);
		snprintf(text, sizeof(text), "%llu %s", (unsigned long long)input[i], want);
		assert_string_equal(r[i].text[1], text);
		run_finish(&r[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_bulk_out),
	    cmocka_unit_test(test_bulk_in),
	    cmocka_unit_test(test_echo),
	    cmocka_unit_test(test_unread_stdin),
	    cmocka_unit_test(test_window),
	    cmocka_unit_test(test_closed_window),
	    cmocka_unit_test(test_input_is_bounded),
	    cmocka_unit_test(test_v4_has_no_eof),
	    cmocka_unit_test(test_without_stdin),
	    cmocka_unit_test(test_resize),
	    cmocka_unit_test(test_keepalive),
	    cmocka_unit_test(test_silent_peer),
	    cmocka_unit_test(test_quiet_peer),
	    cmocka_unit_test(test_stalled_stdin),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, start, stop);
}
