// tier: check
/* The pure parts of an exec stream: WebSocket frames, channel messages, statuses, requests and answers. */
#include "base/buf.h"
#include "base/err.h"
#include "base/wsframe.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/exec/rc_answer.h"
#include "control/kube/exec/rc_frame.h"
#include "control/kube/exec/rc_status.h"
#include "control/kube/exec/rc_target.h"
#include "control/kube/exec/remotecommand.h"

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

/* --- WebSocket frames */

struct heard {
	char text[512]; /* "data ", "+data " when more of the message follows, "ping:x ", "close:1000:why " */
};

static void hear(struct heard *h, const struct wsframe_event *ev)
{
	static char data[256];
	size_t at = strlen(h->text), room = sizeof(h->text) - at, had = strlen(data);

	if (ev->kind == WSFRAME_DATA) {
		snprintf(data + had, sizeof(data) - had, "%.*s", (int)ev->n, ev->n ? (const char *)ev->p : "");
		if (ev->last) {
			snprintf(h->text + at, room, "%s ", data);
			data[0] = '\0';
		}
	} else if (ev->kind == WSFRAME_PING || ev->kind == WSFRAME_PONG) {
		snprintf(h->text + at, room, "%s:%.*s ", ev->kind == WSFRAME_PING ? "ping" : "pong", (int)ev->n, ev->p);
	} else if (ev->kind == WSFRAME_CLOSE) {
		snprintf(h->text + at, room, "close:%d:%.*s ", ev->n >= 2 ? ev->p[0] << 8 | ev->p[1] : 0,
			 ev->n > 2 ? (int)ev->n - 2 : 0, ev->p + 2);
	}
}

/* In pieces of step bytes. 0, or ERR_PROTOCOL with the reason in e. */
static int listen_to(const char *wire, size_t n, size_t step, struct heard *h, struct err *e)
{
	struct wsframe w = {0};
	struct wsframe_event ev;

	for (size_t i = 0; i < n; i += step) {
		size_t have = n - i < step ? n - i : step;
		const uint8_t *p = (const uint8_t *)wire + i;

		while (have > 0) {
			ssize_t took = wsframe_decode(&w, (uint8_t *)(uintptr_t)p, have, &ev, e);

			if (took < 0)
				return (int)took;
			assert_in_range(took, 1, have);
			p += took;
			have -= (size_t)took;
			hear(h, &ev);
		}
	}
	return 0;
}

#define WIRE(text) text, sizeof(text) - 1

static const struct {
	const char *wire;
	size_t n;
	const char *heard; /* or, with broken, the reason */
	bool broken;
} wires[] = {
    {WIRE("\x82\x05hello"), "hello ", false},
    {WIRE("\x81\x05hello\x82\x00"), "hello  ", false},
    {WIRE("\x02\x03hel\x89\x01x\x00\x00\x80\x02lo\x8a\x00"), "ping:x hello pong: ", false},
    {WIRE("\x02\x00\x00\x00\x80\x00\x82\x01y"), " y ", false},
    {WIRE("\x82\x7e\x00\x02hi\x82\x7f\x00\x00\x00\x00\x00\x00\x00\x02ho"), "hi ho ", false},
    {WIRE("\x88\x00"), "close:0: ", false},
    {WIRE("\x88\x05\x03\xe8why"), "close:1000:why ", false},
    {WIRE("\x82\x85\x00\x00\x00\x00hello"), "masked", true},
    {WIRE("\xc2\x05hello"), "reserved bit", true},
    {WIRE("\x83\x00"), "not known", true},
    {WIRE("\x8b\x00"), "not known", true},
    {WIRE("\x80\x01x"), "not begun", true},
    {WIRE("\x02\x01x\x82\x01y"), "inside another", true},
    {WIRE("\x09\x01x"), "in pieces", true},
    {WIRE("\x89\x7e\x00\x7e"), "more than 125", true},
    {WIRE("\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00"), "2^63", true},
};

static void test_wire(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wires) / sizeof(wires[0]); i++) {
		for (size_t step = 1; step <= wires[i].n; step++) {
			struct heard h = {0};
			struct err e = {0};
			int rc = listen_to(wires[i].wire, wires[i].n, step, &h, &e);

			if (wires[i].broken ? rc != ERR_PROTOCOL || !strstr(e.message, wires[i].heard)
					    : rc || strcmp(h.text, wires[i].heard) != 0)
				fail_msg("%zu in %zus: %d, \"%s\", %s", i, step, rc, h.text, e.message);
		}
	}
}

/* What we send is what RFC 6455, 5.7 says: a head, a mask, masked bytes, however it is put together. */
static void test_wire_out(void **state)
{
	static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};
	static const size_t sizes[] = {0, 1, 125, 126, 65535, 65536};
	static const size_t heads[] = {6, 6, 6, 8, 8, 14};
	uint8_t head[WSFRAME_HEAD_MAX], a[64], b[64];
	char accept[WSFRAME_ACCEPT_LEN + 1], key[WSFRAME_KEY_LEN + 1], other[WSFRAME_KEY_LEN + 1];

	(void)state;
	assert_int_equal(wsframe_head(WSFRAME_OP_TEXT, 5, mask, head), 6);
	assert_memory_equal(head, "\x81\x85\x37\xfa\x21\x3d", 6);
	wsframe_mask((const uint8_t *)"Hello", a, 5, mask, 0);
	assert_memory_equal(a, "\x7f\x9f\x4d\x51\x58", 5);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		assert_int_equal(wsframe_head(WSFRAME_OP_BINARY, sizes[i], mask, head), heads[i]);
	assert_memory_equal(head, "\x82\xff\0\0\0\0\0\1\0\0", 10);
	for (size_t i = 0; i < sizeof(a); i++)
		a[i] = (uint8_t)(i * 5);
	wsframe_mask(a, b, sizeof(a), mask, 0);
	for (size_t cut = 0; cut <= sizeof(a); cut++) {
		uint8_t c[64];

		wsframe_mask(a, c, cut, mask, 0);
		wsframe_mask(a + cut, c + cut, sizeof(a) - cut, mask, cut);
		assert_memory_equal(b, c, sizeof(b));
	}
	wsframe_accept("dGhlIHNhbXBsZSBub25jZQ==", accept);
	assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	assert_int_equal(wsframe_key(key), 0);
	assert_int_equal(wsframe_key(other), 0);
	assert_int_equal(strlen(key), WSFRAME_KEY_LEN);
	assert_string_not_equal(key, other);
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
    /* a container that has ended, as the layers of the runtime tell of it before the kubelet knows */
    {INTERNAL("error executing command in container: failed to exec in container: failed to load task: no running task "
	      "found: task ab not found: not found"),
     false, RC_NOT_STARTED, -1, ERR_BAD_STATE},
    {INTERNAL("error executing command in container: failed to exec in container: failed to create exec \\\"ab\\\": "
	      "container not created: not found"),
     false, RC_NOT_STARTED, -1, ERR_BAD_STATE},
    {INTERNAL("failed to start exec \\\"ab\\\": container not running: unknown"), false, RC_NOT_STARTED, -1,
     ERR_BAD_STATE},
    {INTERNAL("failed to create exec \\\"ab\\\": ttrpc: closed: unknown"), false, RC_NOT_STARTED, -1, ERR_BAD_STATE},
    {INTERNAL("failed to start exec \\\"ab\\\": OCI runtime exec failed: exec failed: cannot exec in a stopped "
	      "container: unknown"),
     false, RC_NOT_STARTED, -1, ERR_BAD_STATE},
    {INTERNAL("cannot exec in a deleted state"), false, RC_NOT_STARTED, -1, ERR_BAD_STATE},
    /* the shim was asked to start it and ended before it answered: it may have run, and the container has ended */
    {INTERNAL("failed to start exec \\\"ab\\\": ttrpc: closed: unknown"), false, RC_UNKNOWN, -1, ERR_BAD_STATE},
    /* one that is paused has not ended, and nobody waits for what may never come */
    {INTERNAL("failed to create exec \\\"ab\\\": cannot exec in a paused state"), false, RC_NOT_STARTED, -1, ERR_K8S},
    {INTERNAL(
	 "failed to start exec \\\"ab\\\": OCI runtime exec failed: exec failed: cannot exec in a paused container: "
	 "unknown"),
     false, RC_NOT_STARTED, -1, ERR_K8S},
    /* a control group that is gone is no missing program */
    {INTERNAL(
	 "failed to start exec \\\"ab\\\": OCI runtime exec failed: exec failed: unable to start container process: "
	 "error adding pid 7 to cgroups: failed to write 7: open /sys/fs/cgroup/x/cgroup.procs: no such file or "
	 "directory"),
     false, RC_NOT_STARTED, -1, ERR_K8S},
    {INTERNAL("failed to create exec \\\"ab\\\": no space left on device"), false, RC_NOT_STARTED, -1, ERR_K8S},
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
	p = (struct rc_params){
	    .ns = "n", .pod = "p", .container = "c", .argv = argv + 3, .in = true, .out = true, .tty = true};
	assert_int_equal(rc_target("", &p, &b, &e), 0);
	assert_string_equal(buf_cstr(&b),
			    "/api/v1/namespaces/n/pods/p/exec?command=&container=c&stdin=true&stdout=true&tty=true");
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
	refuse_target(
	    (struct rc_params){.ns = "n", .pod = "p", .argv = argv, .in = true, .out = true, .err = true, .tty = true},
	    ERR_INVAL, "stderr");
	refuse_target((struct rc_params){.ns = "n", .pod = "p", .argv = argv, .out = true, .tty = true}, ERR_INVAL,
		      "needs its input");
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
		struct rc_answer r = {0};
		int rc;

		memcpy(copy, answers[i].wire, n);
		rc = rc_answer_parse(copy, n, answers[i].eof, false, &r);
		if (rc != answers[i].rc || r.status != answers[i].status)
			fail_msg("%s: %d, status %d", answers[i].wire, rc, r.status);
		if (answers[i].body &&
		    (r.body_len != strlen(answers[i].body) || memcmp(r.body, answers[i].body, r.body_len) != 0))
			fail_msg("%s: body \"%.*s\"", answers[i].wire, (int)r.body_len, r.body);
		free(copy);
	}
}

/* A 101: with what RFC 6455, 4.1 asks of it. The key is the RFC's. */
#define HEAD_101 "HTTP/1.1 101 Switching Protocols\r\n"
#define ACCEPT   "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
#define UPGRADE  "Upgrade: websocket\r\nConnection: Upgrade\r\n"

static const struct {
	const char *head, *protocol, *says;
} upgrades[] = {
    {HEAD_101 UPGRADE ACCEPT "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n", "v4.channel.k8s.io", NULL},
    {HEAD_101 "upgrade:WebSocket\r\nconnection: keep-alive,  Upgrade \r\n" ACCEPT
	      "sec-websocket-protocol:v5.channel.k8s.io\r\n\r\n",
     "v5.channel.k8s.io", NULL},
    {HEAD_101 "Connection: Upgrade\r\n" ACCEPT "\r\n", NULL, "something else"},
    {HEAD_101 "Upgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\n", NULL, "something else"},
    {HEAD_101 "Upgrade: websocket\r\nConnection: close\r\n" ACCEPT "\r\n", NULL, "without an upgrade"},
    {HEAD_101 UPGRADE "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOp=\r\n\r\n", NULL, "Accept is wrong"},
    {HEAD_101 UPGRADE "\r\n", NULL, "Accept is wrong"},
    {HEAD_101 UPGRADE ACCEPT "\r\n", NULL, "none of v5.channel.k8s.io, v4"},
    {HEAD_101 UPGRADE ACCEPT "Sec-WebSocket-Protocol: v9\r\n\r\n", NULL, "none of v5.channel.k8s.io, v4"},
    {HEAD_101 UPGRADE ACCEPT "Sec-WebSocket-Protocol: v4.channel.k8s\r\n\r\n", NULL, "none of"},
    {HEAD_101 UPGRADE ACCEPT "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", NULL, "extension"},
};

static void test_upgrades(void **state)
{
	char text[512], protocol[32];

	(void)state;
	for (size_t i = 0; i < sizeof(upgrades) / sizeof(upgrades[0]); i++) {
		struct rc_answer r = {0};
		struct err e = {0};
		int n = snprintf(text, sizeof(text), "%s\x82\x01\x01", upgrades[i].head), rc;

		for (int cut = 0; cut < n - 3; cut++)
			assert_int_equal(rc_answer_parse((uint8_t *)text, (size_t)cut, false, false, &r), 0);
		assert_int_equal(rc_answer_parse((uint8_t *)text, (size_t)n, false, false, &r), 1);
		assert_int_equal(r.status, 101);
		assert_int_equal(r.head_len, n - 3);
		rc = rc_answer_check((uint8_t *)text, r.head_len,
				     "dGhlIHNhbXBsZSBub25jZQ==", "v5.channel.k8s.io, v4.channel.k8s.io", protocol,
				     sizeof(protocol), &e);
		if (upgrades[i].says ? rc != ERR_PROTOCOL || !strstr(e.message, upgrades[i].says)
				     : rc || strcmp(protocol, upgrades[i].protocol) != 0)
			fail_msg("%s: %d, %s", upgrades[i].head, rc, e.message);
	}
}

/* A proxy's 200 ends with its head, whatever that says of a body. */
static void test_connect(void **state)
{
	char fine[] = "HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n",
	     no[] = "HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n";
	struct rc_answer r = {0};

	(void)state;
	assert_int_equal(rc_answer_parse((uint8_t *)fine, strlen(fine), false, true, &r), 1);
	assert_int_equal(r.status, 200);
	assert_int_equal(rc_answer_parse((uint8_t *)fine, strlen(fine) - 1, false, true, &r), 0);
	assert_int_equal(rc_answer_parse((uint8_t *)fine, strlen(fine) - 1, true, true, &r), ERR_PROTOCOL);
	assert_int_equal(rc_answer_parse((uint8_t *)no, strlen(no), false, true, &r), 1);
	assert_int_equal(r.status, 407);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_pieces),   cmocka_unit_test(test_every_cut),  cmocka_unit_test(test_encode),
	    cmocka_unit_test(test_statuses), cmocka_unit_test(test_no_status),  cmocka_unit_test(test_words),
	    cmocka_unit_test(test_target),   cmocka_unit_test(test_bad_target), cmocka_unit_test(test_head),
	    cmocka_unit_test(test_answers),  cmocka_unit_test(test_wire),       cmocka_unit_test(test_wire_out),
	    cmocka_unit_test(test_upgrades), cmocka_unit_test(test_connect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
