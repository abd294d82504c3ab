// tier: check
/* The body of POST /v1/agents/{agent}/rounds: what becomes an exec_spec, and what is refused by name. */
#include "base/clock.h"
#include "base/err.h"
#include "muxd/doors/https/body.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct round_limits limits = {
    .body_max = 4096,
    .argv_max = 200,
    .timeout_max_ns = 60 * NS_PER_SEC,
    .wait_default_ns = 10 * NS_PER_SEC,
    .wait_max_ns = 30 * NS_PER_SEC,
};

static int parse(const char *text, struct round_body *b, struct err *e)
{
	return round_body_parse(text, strlen(text), &limits, b, e);
}

static void test_everything(void **state)
{
	struct round_body b;
	struct err e = {0};

	(void)state;
	assert_int_equal(
	    parse("{\"task_id\":\"t-1\",\"exec_id\":\"e/1\",\"argv\":[\"sh\",\"-c\",\"true\"],\"cwd\":\"/workspace\","
		  "\"env\":{\"A\":\"1\",\"_b2\":\"x=y\"},\"stdin\":\"in\",\"timeout_ms\":1500,\"wait_ms\":250,"
		  "\"limits\":{\"head_bytes\":10,\"tail_bytes\":0},\"stdin_open\":true}",
		  &b, &e),
	    0);
	assert_int_equal(b.spec.kind, SESSION_ROUND);
	assert_string_equal(b.spec.task, "t-1");
	assert_string_equal(b.spec.exec_id, "e/1");
	assert_string_equal(b.spec.argv[0], "sh");
	assert_string_equal(b.spec.argv[2], "true");
	assert_null(b.spec.argv[3]);
	assert_null(b.spec.command);
	assert_string_equal(b.spec.cwd, "/workspace");
	assert_string_equal(b.spec.env[0], "A=1");
	assert_string_equal(b.spec.env[1], "_b2=x=y");
	assert_null(b.spec.env[2]);
	assert_int_equal(b.spec.stdin_len, 2);
	assert_memory_equal(b.spec.stdin_data, "in", 2);
	assert_true(b.spec.stdin_open);
	assert_int_equal(b.spec.timeout_ns, 1500 * NS_PER_MS);
	assert_int_equal(b.wait_ns, 250 * NS_PER_MS);
	assert_int_equal(b.spec.head, 10);
	assert_int_equal(b.spec.tail, 0);
	round_body_finish(&b);
}

static void test_defaults(void **state)
{
	struct round_body b;
	struct err e = {0};

	(void)state;
	assert_int_equal(parse("{\"command\":\"ls | wc\",\"env\":null}", &b, &e), 0);
	assert_string_equal(b.spec.command, "ls | wc");
	assert_null(b.spec.argv);
	assert_null(b.spec.env);
	assert_null(b.spec.task);
	assert_null(b.spec.stdin_data);
	assert_false(b.spec.stdin_open);
	assert_int_equal(b.spec.timeout_ns, 0);
	assert_int_equal(b.wait_ns, 10 * NS_PER_SEC);
	assert_true(b.spec.head == UINT64_MAX && b.spec.tail == UINT64_MAX);
	round_body_finish(&b);
}

static void test_wait_is_clamped(void **state)
{
	struct round_body b;
	struct err e = {0};

	(void)state;
	assert_int_equal(parse("{\"command\":\"x\",\"wait_ms\":999999}", &b, &e), 0);
	assert_int_equal(b.wait_ns, 30 * NS_PER_SEC);
	round_body_finish(&b);
	assert_int_equal(parse("{\"command\":\"x\",\"wait_ms\":0}", &b, &e), 0);
	assert_int_equal(b.wait_ns, 0);
	assert_int_equal(b.spec.idle_ns, 0);
	round_body_finish(&b);
	assert_int_equal(parse("{\"command\":\"x\",\"yield_ms\":7,\"idle_timeout_ms\":1500}", &b, &e), 0);
	assert_int_equal(b.wait_ns, 7 * NS_PER_MS);
	assert_int_equal(b.spec.idle_ns, 1500 * NS_PER_MS);
	round_body_finish(&b);
	assert_int_equal(parse("{\"command\":\"x\",\"pty\":{\"cols\":99,\"term\":\"vt100\"}}", &b, &e), 0);
	assert_int_equal(b.spec.kind, SESSION_ROUND);
	assert_true(b.spec.pty && b.spec.stdin_open);
	assert_int_equal(b.spec.cols, 99);
	assert_int_equal(b.spec.rows, 24);
	assert_string_equal(b.spec.term, "vt100");
	round_body_finish(&b);
}

static void test_stdin_bytes(void **state)
{
	struct round_body b;
	struct err e = {0};

	(void)state;
	assert_int_equal(parse("{\"command\":\"x\",\"stdin\":{\"data\":\"AP8=\",\"encoding\":\"base64\"}}", &b, &e), 0);
	assert_int_equal(b.spec.stdin_len, 2);
	assert_memory_equal(b.spec.stdin_data, "\0\xff", 2);
	round_body_finish(&b);
	assert_int_equal(parse("{\"command\":\"x\",\"stdin\":{\"data\":\"\xc3\xbc\",\"encoding\":\"utf-8\"}}", &b, &e),
			 0);
	assert_memory_equal(b.spec.stdin_data, "\xc3\xbc", 2);
	round_body_finish(&b);
	assert_int_equal(parse("{\"command\":\"x\",\"stdin\":\"\"}", &b, &e), 0);
	assert_int_equal(b.spec.stdin_len, 0);
	round_body_finish(&b);
}

/* Each is refused, and the message names what was wrong. */
static const struct {
	const char *body;
	int rc;
	const char *names;
} refused[] = {
    {"", ERR_INVAL, "empty"},
    {"[]", ERR_INVAL, "object"},
    {"{", ERR_INVAL, "JSON"},
    {"{} {}", ERR_INVAL, "JSON"},
    {"{}", ERR_INVAL, "argv"},
    {"{\"argv\":[\"a\"],\"command\":\"b\"}", ERR_INVAL, "one of argv"},
    {"{\"argv\":[]}", ERR_INVAL, "argv"},
    {"{\"argv\":\"ls\"}", ERR_INVAL, "argv"},
    {"{\"argv\":[1]}", ERR_INVAL, "/argv/0"},
    {"{\"argv\":[\"a\",null]}", ERR_INVAL, "/argv/1"},
    {"{\"argv\":[\"\"]}", ERR_INVAL, "/argv/0"},
    {"{\"argv\":[\"a\\u0000b\"]}", ERR_INVAL, "NUL"},
    {"{\"command\":\"\"}", ERR_INVAL, "command"},
    {"{\"command\":7}", ERR_INVAL, "command"},
    {"{\"command\":\"x\",\"comand\":\"y\"}", ERR_INVAL, "comand"},
    {"{\"command\":\"x\",\"command\":\"y\"}", ERR_INVAL, "twice"},
    {"{\"command\":\"x\",\"task_id\":\"a b\"}", ERR_INVAL, "task_id"},
    {"{\"command\":\"x\",\"exec_id\":\"\"}", ERR_INVAL, "exec_id"},
    {"{\"command\":\"x\",\"exec_id\":4}", ERR_INVAL, "exec_id"},
    {"{\"command\":\"x\",\"cwd\":\"\"}", ERR_INVAL, "cwd"},
    {"{\"command\":\"x\",\"env\":[]}", ERR_INVAL, "env"},
    {"{\"command\":\"x\",\"env\":{\"1A\":\"\"}}", ERR_INVAL, "1A"},
    {"{\"command\":\"x\",\"env\":{\"A=B\":\"\"}}", ERR_INVAL, "A=B"},
    {"{\"command\":\"x\",\"env\":{\"\":\"\"}}", ERR_INVAL, "env"},
    {"{\"command\":\"x\",\"env\":{\"A\":1}}", ERR_INVAL, "/env/A"},
    {"{\"command\":\"x\",\"stdin\":5}", ERR_INVAL, "stdin"},
    {"{\"command\":\"x\",\"stdin\":{}}", ERR_INVAL, "stdin"},
    {"{\"command\":\"x\",\"stdin\":{\"data\":\"a\",\"x\":1}}", ERR_INVAL, "x"},
    {"{\"command\":\"x\",\"stdin\":{\"data\":\"*\",\"encoding\":\"base64\"}}", ERR_INVAL, "base64"},
    {"{\"command\":\"x\",\"stdin\":{\"data\":\"a\",\"encoding\":\"latin1\"}}", ERR_INVAL, "encoding"},
    {"{\"command\":\"x\",\"timeout_ms\":0}", ERR_INVAL, "timeout_ms"},
    {"{\"command\":\"x\",\"timeout_ms\":1.5}", ERR_INVAL, "timeout_ms"},
    {"{\"command\":\"x\",\"timeout_ms\":60001}", ERR_INVAL, "rounds.timeout_max"},
    {"{\"command\":\"x\",\"wait_ms\":-1}", ERR_INVAL, "wait_ms"},
    {"{\"command\":\"x\",\"yield_ms\":-1}", ERR_INVAL, "/yield_ms"},
    {"{\"command\":\"x\",\"wait_ms\":1,\"yield_ms\":1}", ERR_INVAL, "/yield_ms"},
    {"{\"command\":\"x\",\"idle_timeout_ms\":0}", ERR_INVAL, "/idle_timeout_ms"},
    {"{\"command\":\"x\",\"idle_timeout_ms\":60001}", ERR_INVAL, "/idle_timeout_ms"},
    {"{\"pty\":{}}", ERR_INVAL, "one of argv"},
    {"{\"command\":\"x\",\"pty\":true}", ERR_INVAL, "/pty"},
    {"{\"command\":\"x\",\"pty\":{\"cols\":4097}}", ERR_INVAL, "/pty/cols"},
    {"{\"command\":\"x\",\"file\":{}}", ERR_INVAL, "/file"},
    {"{\"command\":\"x\",\"limits\":5}", ERR_INVAL, "limits"},
    {"{\"command\":\"x\",\"limits\":{\"head\":5}}", ERR_INVAL, "head"},
    {"{\"command\":\"x\",\"limits\":{\"head_bytes\":1048577}}", ERR_INVAL, "head_bytes"},
    {"{\"command\":\"x\",\"limits\":{\"tail_bytes\":-1}}", ERR_INVAL, "tail_bytes"},
    {"{\"command\":\"x\",\"stdin_open\":1}", ERR_INVAL, "stdin_open"},
};

static void test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct round_body b;
		struct err e = {0};
		int rc = parse(refused[i].body, &b, &e);

		if (rc != refused[i].rc || !strstr(e.message, refused[i].names))
			fail_msg("%s: %s: %s", refused[i].body, err_name(rc), e.message);
	}
}

static void test_too_large(void **state)
{
	char body[5000];
	struct round_body b;
	struct err e = {0};

	(void)state;
	snprintf(body, sizeof(body), "{\"argv\":[\"%0200d\"]}", 0);
	assert_int_equal(parse(body, &b, &e), ERR_TOO_LARGE);
	assert_non_null(strstr(e.message, "rounds.argv_max"));
	snprintf(body, sizeof(body), "{\"argv\":[\"%0198d\"]}", 0);
	assert_int_equal(parse(body, &b, &e), 0);
	round_body_finish(&b);
	snprintf(body, sizeof(body), "{\"argv\":[\"a\"],\"env\":{\"A\":\"%0196d\"}}", 0);
	assert_int_equal(parse(body, &b, &e), ERR_TOO_LARGE);
	snprintf(body, sizeof(body), "{\"command\":\"a\",\"stdin\":\"%04096d\"}", 0);
	assert_int_equal(parse(body, &b, &e), ERR_TOO_LARGE);
	round_body_finish(NULL);
}

static int start(const char *body, struct round_body *b, struct err *e)
{
	return start_body_parse(body, strlen(body), &limits, b, e);
}

/* START of a WebSocket: the program of a round, a terminal, a transfer. */
static void test_start(void **state)
{
	struct round_body b;
	struct err e = {0};

	(void)state;
	assert_int_equal(start("{\"argv\":[\"cat\"],\"stdin_open\":true}", &b, &e), 0);
	assert_true(b.spec.kind == SESSION_ROUND && b.spec.stdin_open && !b.spec.pty);
	round_body_finish(&b);
	assert_int_equal(start("{\"pty\":{\"cols\":90,\"term\":\"vt100\"}}", &b, &e), 0);
	assert_true(b.spec.kind == SESSION_TERMINAL && b.spec.pty && b.spec.cols == 90 && b.spec.rows == 24);
	assert_string_equal(b.spec.term, "vt100");
	round_body_finish(&b);
	assert_int_equal(start("{\"pty\":{},\"command\":\"ls\"}", &b, &e), 0);
	assert_true(b.spec.kind == SESSION_EXEC);
	round_body_finish(&b);
	assert_int_equal(start("{\"file\":{\"op\":\"put\",\"path\":{\"base64\":\"bv8=\"},\"mode\":416}}", &b, &e), 0);
	assert_true(b.spec.kind == SESSION_FILE && b.spec.stdin_open && b.spec.file->mode == 0640);
	assert_string_equal(b.spec.file->path, "n\xff");
	assert_true(b.spec.file->size == UINT64_MAX);
	round_body_finish(&b);
}

static const struct {
	const char *body, *names;
} not_starts[] = {
    {"{}", "one of argv"},
    {"{\"argv\":[\"a\"],\"command\":\"b\",\"pty\":{}}", "one of argv"},
    {"{\"argv\":[\"a\"],\"wait_ms\":1}", "/wait_ms"},
    {"{\"argv\":[\"a\"],\"yield_ms\":1}", "/yield_ms"},
    {"{\"argv\":[\"a\"],\"stdin\":\"\"}", "/stdin"},
    {"{\"pty\":{\"cols\":0}}", "/pty/cols"},
    {"{\"pty\":{\"rows\":4097}}", "/pty/rows"},
    {"{\"pty\":1}", "/pty"},
    {"{\"pty\":{\"colour\":1}}", "/pty/colour"},
    {"{\"file\":{\"op\":\"put\"}}", "/file/path"},
    {"{\"file\":{\"op\":\"rm\",\"path\":\"a\"}}", "/file/op"},
    {"{\"file\":{\"op\":\"get\",\"path\":1}}", "/file/path"},
    {"{\"file\":{\"op\":\"get\",\"path\":{\"base64\":\"AGE=\"}}}", "/file/path"},
    {"{\"file\":{\"op\":\"get\",\"path\":\"a\\u0000b\"}}", "NUL"},
    {"{\"file\":{\"op\":\"put\",\"path\":\"a\",\"mode\":4096}}", "/file/mode"},
    {"{\"file\":{\"op\":\"get\",\"path\":\"a\"},\"argv\":[\"x\"]}", "transfer"},
};

static void test_no_start(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(not_starts) / sizeof(not_starts[0]); i++) {
		struct round_body b;
		struct err e = {0};

		if (start(not_starts[i].body, &b, &e) != ERR_INVAL || !strstr(e.message, not_starts[i].names))
			fail_msg("%s: %s", not_starts[i].body, e.message);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_everything),  cmocka_unit_test(test_defaults), cmocka_unit_test(test_wait_is_clamped),
	    cmocka_unit_test(test_stdin_bytes), cmocka_unit_test(test_refused),  cmocka_unit_test(test_too_large),
	    cmocka_unit_test(test_start),       cmocka_unit_test(test_no_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
