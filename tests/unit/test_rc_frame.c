/* The pure parts of an exec stream: channel messages, statuses, requests, and answers that are no 101. */
#include "control/kube/endpoint.h"
#include "control/kube/rc_frame.h"
#include "control/kube/rc_refusal.h"
#include "control/kube/rc_status.h"
#include "control/kube/rc_target.h"
#include "control/kube/remotecommand.h"
#include "muxd/base/buf.h"
#include "muxd/base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- messages */

struct seen {
	char text[256]; /* "1:abc 1. 3:{..} 3." : bytes by channel; a dot ends a message */
};

static void see(struct seen *s, const struct rc_piece *p)
{
	size_t at = strlen(s->text);

	if (p->n)
		at += (size_t)snprintf(s->text + at, sizeof(s->text) - at, "%d:%.*s ", p->channel, (int)p->n, p->p);
	if (p->end)
		snprintf(s->text + at, sizeof(s->text) - at, "%d. ", p->channel);
}

/* Two messages, whole and in pieces of one, two, three bytes: the same bytes come out. */
static void test_pieces(void **state)
{
	static const char *const messages[] = {"\1hello", "\2no", "\3{}", "", "\1", "\377\1"};
	static const char *const want[] = {"1:hello 1. ", "2:no 2. ", "3:{} 3. ", "", "1. ", "255:\1 255. "};

	(void)state;
	for (size_t m = 0; m < sizeof(messages) / sizeof(messages[0]); m++) {
		struct rc_decoder d = {0};
		struct seen s = {0};
		struct rc_piece p;

		if (rc_decode(&d, (const uint8_t *)messages[m], strlen(messages[m]), true, &p))
			see(&s, &p);
		assert_string_equal(s.text, want[m]);
		assert_false(d.inside);
	}
}

static void test_every_cut(void **state)
{
	static const char message[] = "\1hello world";
	size_t n = strlen(message);

	(void)state;
	for (size_t step = 1; step <= n; step++) {
		struct rc_decoder d = {0};
		char got[64] = "";
		struct rc_piece p;
		bool ended = false;

		for (size_t i = 0; i < n; i += step) {
			size_t have = n - i < step ? n - i : step;

			/* an empty fragment changes nothing, wherever it comes */
			assert_false(rc_decode(&d, NULL, 0, false, &p));
			if (!rc_decode(&d, (const uint8_t *)message + i, have, i + have == n, &p))
				continue;
			assert_int_equal(p.channel, RC_CH_STDOUT);
			strncat(got, (const char *)p.p, p.n);
			ended = p.end;
		}
		assert_string_equal(got, "hello world");
		assert_true(ended);
	}
}

static void test_encode(void **state)
{
	uint8_t text[RC_RESIZE_MAX] = {0}, end[RC_CLOSE_LEN];

	(void)state;
	assert_int_equal(rc_encode_resize(80, 24, text), strlen("\4{\"Width\":80,\"Height\":24}"));
	assert_string_equal(text, "\4{\"Width\":80,\"Height\":24}");
	assert_in_range(rc_encode_resize(65535, 65535, text), 1, RC_RESIZE_MAX - 1);
	/* one of these, and a server resizes no more */
	assert_int_equal(rc_encode_resize(0, 24, text), 0);
	assert_int_equal(rc_encode_resize(80, 0, text), 0);
	rc_encode_close(RC_CH_STDIN, end);
	assert_memory_equal(end, "\377\0", 2);
	assert_int_equal(rc_protocol_version("v5.channel.k8s.io"), 5);
	assert_int_equal(rc_protocol_version("v4.channel.k8s.io"), 4);
	assert_int_equal(rc_protocol_version("channel.k8s.io"), 0);
	assert_int_equal(rc_protocol_version(NULL), 0);
}

/* --- statuses */

#define NONZERO                                                                                                        \
	"{\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\",\"message\":\"command terminated\",\"details\":{"
#define INTERNAL(words) "{\"status\":\"Failure\",\"reason\":\"InternalError\",\"code\":500,\"message\":\"" words "\"}"

static const struct {
	const char *text;
	bool had_output;
	enum rc_cause cause;
	int code, error;
} statuses[] = {
    {"{\"metadata\":{},\"status\":\"Success\"}", false, RC_EXITED, 0, 0},
    {"{\"status\":\"Success\"}\n", true, RC_EXITED, 0, 0},
    {NONZERO "\"causes\":[{\"reason\":\"ExitCode\",\"message\":\"7\"}]}}", true, RC_EXITED, 7, 0},
    {NONZERO "\"causes\":[{\"reason\":\"Other\",\"message\":\"9\"},{\"reason\":\"ExitCode\",\"message\":\"137\"}]}}",
     true, RC_EXITED, 137, 0},
    /* a code that is none: it ran, and how it ended is not known */
    {NONZERO "\"causes\":[{\"reason\":\"ExitCode\",\"message\":\"0\"}]}}", false, RC_UNKNOWN, -1, ERR_K8S},
    {NONZERO "\"causes\":[{\"reason\":\"ExitCode\",\"message\":\"-1\"}]}}", false, RC_UNKNOWN, -1, ERR_K8S},
    {NONZERO "\"causes\":[{\"reason\":\"ExitCode\",\"message\":\"7 \"}]}}", false, RC_UNKNOWN, -1, ERR_K8S},
    {NONZERO "\"causes\":[{\"reason\":\"ExitCode\",\"message\":\"99999999999\"}]}}", false, RC_UNKNOWN, -1, ERR_K8S},
    {NONZERO "\"causes\":[{\"reason\":\"ExitCode\",\"message\":7}]}}", false, RC_UNKNOWN, -1, ERR_K8S},
    {NONZERO "\"causes\":[{\"reason\":\"OOM\",\"message\":\"7\"}]}}", false, RC_UNKNOWN, -1, ERR_K8S},
    {NONZERO "\"causes\":\"none\"}}", false, RC_UNKNOWN, -1, ERR_K8S},
    {"{\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\",\"message\":\"command terminated with exit code 7\"}",
     false, RC_UNKNOWN, -1, ERR_K8S},
    /* the runtime's words: containerd with runc, CRI-O */
    {INTERNAL("error executing command in container: failed to exec in container: failed to start exec \\\"ab\\\": OCI "
	      "runtime exec failed: exec failed: container_linux.go:380: starting container process caused: exec: "
	      "\\\"nosuch\\\": executable file not found in $PATH: unknown"),
     false, RC_NOT_STARTED, -1, ERR_NO_PROGRAM},
    {INTERNAL(
	 "failed to start exec \\\"ab\\\": OCI runtime exec failed: exec failed: unable to start container process: "
	 "exec: \\\"/etc/passwd\\\": permission denied: unknown"),
     false, RC_NOT_STARTED, -1, ERR_NOT_EXECUTABLE},
    {INTERNAL("error executing command in container: container is in CONTAINER_EXITED state"), false, RC_NOT_STARTED,
     -1, ERR_BAD_STATE},
    {INTERNAL("container not found (\\\"main\\\")"), false, RC_NOT_STARTED, -1, ERR_NOT_FOUND},
    /* it had said something already: whatever the words, it did start */
    {INTERNAL("failed to start exec: executable file not found"), true, RC_UNKNOWN, -1, ERR_K8S},
    /* words that leave it open */
    {INTERNAL("error executing command in container: command terminated with exit code 7"), false, RC_UNKNOWN, -1,
     ERR_K8S},
    {INTERNAL("error executing command in container: transport is closing"), false, RC_UNKNOWN, -1, ERR_K8S},
    {INTERNAL("failed to exec in container: timeout 5s exceeded: context deadline exceeded"), false, RC_UNKNOWN, -1,
     ERR_K8S},
    {"{\"status\":\"Failure\"}", false, RC_UNKNOWN, -1, ERR_K8S},
    {"{\"status\":\"Failure\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"no\"}", false, RC_NOT_STARTED, -1,
     ERR_K8S_FORBIDDEN},
    {"{\"status\":\"Failure\",\"reason\":\"NotFound\",\"code\":404,\"message\":\"no\"}", false, RC_NOT_STARTED, -1,
     ERR_NOT_FOUND},
    {"{\"status\":\"Failure\",\"reason\":\"NotFound\",\"code\":404,\"message\":\"no\"}", true, RC_UNKNOWN, -1,
     ERR_NOT_FOUND},
};

static void test_statuses(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		struct rc_exit x = {0};
		struct err e = {0};

		if (rc_status_parse(statuses[i].text, strlen(statuses[i].text), statuses[i].had_output, &x, &e))
			fail_msg("%s: %s", statuses[i].text, e.message);
		if (x.cause != statuses[i].cause || x.code != statuses[i].code || x.err.code != statuses[i].error)
			fail_msg("%s: %s, code %d, %s", statuses[i].text, rc_cause_name(x.cause), x.code,
				 err_name(x.err.code));
	}
}

static void test_no_status(void **state)
{
	static const char *const none[] = {"",
					   "{",
					   "7",
					   "null",
					   "[]",
					   "{}",
					   "{\"status\":\"Maybe\"}",
					   "{\"status\":0}",
					   "{\"status\":\"Success\"} trailing",
					   "success"};

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		struct rc_exit x = {.code = 42};
		struct err e = {0};

		assert_int_equal(rc_status_parse(none[i], strlen(none[i]), false, &x, &e), ERR_INVAL);
		assert_int_equal(x.code, 42); /* untouched */
		assert_int_not_equal(e.message[0], 0);
	}
}

/* The API's own words and reason are kept; what is too long is cut, not refused. */
static void test_words(void **state)
{
	struct rc_exit x;
	char *text = malloc(20000);

	(void)state;
	assert_int_equal(rc_status_parse(INTERNAL("the words"), strlen(INTERNAL("the words")), false, &x, NULL), 0);
	assert_string_equal(x.reason, "InternalError");
	assert_string_equal(x.err.message, "the words");
	snprintf(text, 20000, INTERNAL("%010000d"), 7);
	assert_int_equal(rc_status_parse(text, strlen(text), false, &x, NULL), 0);
	assert_int_equal(strlen(x.err.message), ERR_MESSAGE_MAX - 1);
	free(text);
}

/* --- requests */

static void test_target(void **state)
{
	const char *argv[] = {"sh", "-c", "echo a&b=c #% \xc3\xa9+", "", NULL};
	struct rc_params p = {.ns = "ns", .pod = "web-0", .argv = argv, .in = true, .out = true, .err = true};
	struct buf b;
	struct err e = {0};

	(void)state;
	buf_init(&b, RC_TARGET_MAX);
	assert_int_equal(rc_target("/base", &p, &b, &e), 0);
	assert_string_equal(buf_cstr(&b),
			    "/base/api/v1/namespaces/ns/pods/web-0/exec?command=sh&command=-c&command="
			    "echo%20a%26b%3Dc%20%23%25%20%C3%A9%2B&command=&stdin=true&stdout=true&stderr=true");
	buf_clear(&b);
	p = (struct rc_params){.ns = "n", .pod = "p", .container = "c", .argv = argv + 3, .out = true, .tty = true};
	assert_int_equal(rc_target("", &p, &b, &e), 0);
	assert_string_equal(buf_cstr(&b), "/api/v1/namespaces/n/pods/p/exec?command=&container=c&stdout=true&tty=true");
	buf_finish(&b);
}

static void refuse_target(struct rc_params p, int code, const char *says)
{
	struct buf b;
	struct err e = {0};

	buf_init(&b, 4096);
	assert_int_equal(rc_target("", &p, &b, &e), code);
	if (!strstr(e.message, says))
		fail_msg("\"%s\" does not say \"%s\"", e.message, says);
	buf_finish(&b);
}

static void test_bad_target(void **state)
{
	const char *argv[] = {"sh", NULL}, *none[] = {NULL};
	char *big = malloc(5000);
	const char *long_argv[] = {big, NULL};

	(void)state;
	memset(big, 'x', 4999);
	big[4999] = '\0';
	refuse_target((struct rc_params){.pod = "p", .argv = argv, .out = true}, ERR_INVAL, "namespace is missing");
	refuse_target((struct rc_params){.ns = "n", .pod = "", .argv = argv, .out = true}, ERR_INVAL, "pod is missing");
	refuse_target((struct rc_params){.ns = "..", .pod = "p", .argv = argv, .out = true}, ERR_INVAL, "namespace");
	refuse_target((struct rc_params){.ns = "n", .pod = "p/../q", .argv = argv, .out = true}, ERR_INVAL, "pod");
	refuse_target((struct rc_params){.ns = "n", .pod = "p?x", .argv = argv, .out = true}, ERR_INVAL, "pod");
	refuse_target((struct rc_params){.ns = "n", .pod = "p", .container = "A", .argv = argv, .out = true}, ERR_INVAL,
		      "container");
	refuse_target((struct rc_params){.ns = "n", .pod = "p", .argv = none, .out = true}, ERR_INVAL, "command");
	refuse_target((struct rc_params){.ns = "n", .pod = "p", .argv = argv}, ERR_INVAL, "none of");
	refuse_target((struct rc_params){.ns = "n", .pod = "p", .argv = argv, .out = true, .err = true, .tty = true},
		      ERR_INVAL, "stderr");
	refuse_target((struct rc_params){.ns = "n", .pod = "p", .argv = long_argv, .out = true}, ERR_TOO_LARGE, "4096");
	free(big);
}

static void test_head(void **state)
{
	struct kube_endpoint ep = {.tls = true, .host_header = "api:6443", .token = "t0ken"};
	struct buf b;
	struct err e = {0};

	(void)state;
	buf_init(&b, 4096);
	assert_int_equal(rc_request_head(&ep, "/x", "v5, v4", &b, &e), 0);
	assert_non_null(strstr(buf_cstr(&b), "GET /x HTTP/1.1\r\nHost: api:6443\r\n"));
	assert_non_null(strstr(buf_cstr(&b), "\r\nSec-WebSocket-Protocol: v5, v4\r\n"));
	assert_non_null(strstr(buf_cstr(&b), "\r\nAuthorization: Bearer t0ken\r\nSec-WebSocket-Key: "));
	/* a token is for TLS alone */
	ep.tls = false;
	buf_clear(&b);
	assert_int_equal(rc_request_head(&ep, "/x", "v5, v4", &b, &e), 0);
	assert_null(strstr(buf_cstr(&b), "t0ken"));
	/* and it begins no line of its own */
	ep.tls = true;
	ep.token = "t0ken\r\nX: y";
	assert_int_equal(rc_request_head(&ep, "/x", "v5, v4", &b, &e), ERR_INVAL);
	assert_null(strstr(e.message, "t0ken"));
	buf_finish(&b);
}

/* --- answers that are no 101 */

static const struct {
	const char *wire;
	bool eof;
	int rc, status;
	const char *body;
} answers[] = {
    {"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", false, 1, 403, "no"},
    {"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno more", false, 1, 403, "no"},
    {"HTTP/1.1 403 Forbidden\r\ncontent-length:0\r\n\r\n", false, 1, 403, ""},
    {"HTTP/1.0 404 Not Found\r\nX: y\r\n\r\ngone", false, 0, 0, NULL},
    {"HTTP/1.0 404 Not Found\r\nX: y\r\n\r\ngone", true, 1, 404, "gone"},
    {"HTTP/1.1 403 Forbidden\r\nContent-Length: 20\r\n\r\nno", false, 0, 0, NULL},
    {"HTTP/1.1 403 Forbidden\r\nContent-Length: 20\r\n\r\nno", true, 1, 403, "no"},
    {"HTTP/1.1 403 Forbidden\r\nContent-Length: x\r\n\r\nno", true, 1, 403, "no"},
    {"HTTP/1.1 403 Forbidden\r\nX-Content-Length: 1\r\nContent-Length: 2\r\n\r\nno", false, 1, 403, "no"},
    {"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", false, 1, 500,
     "abcde"},
    {"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nd", false, 0, 0, NULL},
    {"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nd", true, 1, 500, "abcd"},
    {"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false, ERR_PROTOCOL, 0, NULL},
    {"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", false, ERR_PROTOCOL, 0, NULL},
    {"HTTP/1.1 403", true, 1, 403, ""},
    {"HTTP/1.1 403 Forbidden\r\nCont", false, 0, 0, NULL},
    {"HTTP/1.1 4", false, 0, 0, NULL},
    {"", false, 0, 0, NULL},
    {"", true, ERR_PROTOCOL, 0, NULL},
    {"HTTP/1.1 4x3 X\r\n\r\n", false, ERR_PROTOCOL, 0, NULL},
    {"HTTP/2.0 403 X\r\n\r\n", false, ERR_PROTOCOL, 0, NULL},
    {"SSH-2.0-OpenSSH\r\n", false, ERR_PROTOCOL, 0, NULL},
};

static void test_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		size_t n = strlen(answers[i].wire);
		uint8_t *copy = malloc(n + 1);
		struct rc_refusal r = {0};
		int rc;

		memcpy(copy, answers[i].wire, n);
		rc = rc_refusal_parse(copy, n, answers[i].eof, &r);
		if (rc != answers[i].rc || r.status != answers[i].status)
			fail_msg("%s: %d, status %d", answers[i].wire, rc, r.status);
		if (answers[i].body &&
		    (r.body_len != strlen(answers[i].body) || memcmp(r.body, answers[i].body, r.body_len) != 0))
			fail_msg("%s: body \"%.*s\"", answers[i].wire, (int)r.body_len, r.body);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_pieces),   cmocka_unit_test(test_every_cut),  cmocka_unit_test(test_encode),
	    cmocka_unit_test(test_statuses), cmocka_unit_test(test_no_status),  cmocka_unit_test(test_words),
	    cmocka_unit_test(test_target),   cmocka_unit_test(test_bad_target), cmocka_unit_test(test_head),
	    cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
