// tier: check
/* Heads that libwebsockets gets to see: whole ones that two readers take for one thing, and beginnings of such. */
#include "base/err.h"
#include "muxd/doors/https/api_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define H "Host: x\r\n"

static const struct {
	const char *text;
	int status; /* 0: fine */
} cases[] = {
    {"GET /healthz HTTP/1.1\r\n" H "\r\n", 0},
    {"GET /a%2fb?path=%C3%A9&x HTTP/1.0\r\n\r\n", 0},
    {"OPTIONS * HTTP/1.1\r\n" H "\r\n", 400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n", 0},
    {"GET / HTTP/1.1\r\n" H "Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\r\n", 0},
    {"GET / HTTP/1.1\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H H "\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
    {"GET / HTTP/1.9\r\n" H "\r\n", 400},
    {"GET http://x/ HTTP/1.1\r\n" H "\r\n", 400},
    {"GET * HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /\xc3\xa9 HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /% HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /%zz HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /%00 HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /%0d%0aX:y HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /?a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a HTTP/1.1\r\n" H "\r\n", 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length : 5\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length\t: 5\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" H "X: y\rContent-Length: 5\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" H "X: y\r\n Content-Length: 5\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400},
    {"POST / HTTP/1.1\n" H "\n", 400},
    {"GET / HTTP/1.1\r\n" H "Authorization: a\r\nAuthorization: a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "Origin: a\r\norigin: a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "Sec-WebSocket-Origin: https://x\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "Upgrade: websocket\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" H "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 1\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" H "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81", 400},
    {"GET / HTTP/1.1\r\n" H "Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n", 501},
    {"PROPFIND / HTTP/1.1\r\n" H "\r\n", 405},
    {"get / HTTP/1.1\r\n" H "\r\n", 405},
    /* paths that libwebsockets would hand on as others */
    {"DELETE /v1/agents/a/snapshots/..?reason=x HTTP/1.1\r\n" H "\r\n", 400},
    {"DELETE /v1/agents/a/snapshots/.. HTTP/1.1\r\n" H "\r\n", 400},
    {"DELETE /v1/agents/a/snapshots/../ HTTP/1.1\r\n" H "\r\n", 400},
    {"DELETE /v1/agents/a/snapshots/%2e%2E HTTP/1.1\r\n" H "\r\n", 400},
    {"DELETE /v1/agents/a/snapshots/%2e. HTTP/1.1\r\n" H "\r\n", 400},
    {"DELETE /v1/agents/a/snapshots/.%2E?x HTTP/1.1\r\n" H "\r\n", 400},
    {"DELETE /v1/agents/a/snapshots%2f..%2fx HTTP/1.1\r\n" H "\r\n", 400},
    {"DELETE /v1/agents/a/snapshots/..%3fx HTTP/1.1\r\n" H "\r\n", 400},
    {"DELETE /v1/agents/a/snapshots/..%3f HTTP/1.1\r\n" H "\r\n", 400},
    {"DELETE /v1/agents/a/./snapshots/x HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /%2e HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /. HTTP/1.0\r\n\r\n", 400},
    {"GET //healthz HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /download/%2Fup HTTP/1.1\r\n" H "\r\n", 0},
    {"GET /list//a/b HTTP/1.1\r\n" H "\r\n", 0},
    {"GET /list/. HTTP/1.1\r\n" H "\r\n", 0},
    {"GET /list/.. HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /download/a//b HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /exists/%2f%2F..%2Fx HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /%2fhealthz HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /ui/../v1/sessions/x/attach HTTP/1.1\r\n" H "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n", 400},
    {"GET /v1/tasks/t/artifacts/a+b HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /v1/tasks/t/artifacts/a;b HTTP/1.1\r\n" H "\r\n", 400},
    {"GET /v1/tasks/t/artifacts/a&b HTTP/1.1\r\n" H "\r\n", 400},
    /* and names */
    {"GET /v1/tasks/t/artifacts/%252e%252e HTTP/1.1\r\n" H "\r\n", 0},
    {"GET /v1/tasks/t/artifacts/... HTTP/1.1\r\n" H "\r\n", 0},
    {"GET /v1/tasks/t/artifacts/..a HTTP/1.1\r\n" H "\r\n", 0},
    {"GET /v1/tasks/t/artifacts/.%2ea/ HTTP/1.1\r\n" H "\r\n", 0},
    {"GET /v1/tasks/t/artifacts/a%2Bb%3b%26%3f HTTP/1.1\r\n" H "\r\n", 0},
    {"GET /v1/agents/a/fs/tree?path=../a//b/.&x=a+b/.. HTTP/1.1\r\n" H "\r\n", 0},
};

static void heads_are_judged(void **state)
{
	struct api_head head;
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int rc = api_head_read(cases[i].text, strlen(cases[i].text), 0, NULL, &head, &e);

		if (cases[i].status ? rc >= 0 || head.status != cases[i].status : rc != 1 || head.routed)
			fail_msg("%s: %d, status %d", cases[i].text, rc, head.status);
	}
	assert_int_equal(api_head_read("GET / HTTP/1.1\r\n" H "X: a\0b\r\n\r\n", 35, 0, NULL, &head, &e), ERR_INVAL);
}

/* In pieces: what is fine is fine to its end, and what is not is never said to be. */
static void pieces_change_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t whole = strlen(cases[i].text), seen = 0;
		bool unfit = false;
		int rc = 0;

		for (size_t n = 1; n <= whole && rc == 0 && !unfit; n++) {
			struct api_head head;

			rc = api_head_read(cases[i].text, n, seen, NULL, &head, NULL);
			unfit = head.unfit;
			seen = n;
			if (rc == 1 && memcmp(cases[i].text + whole - 4, "\r\n\r\n", 4) == 0 && n < whole)
				fail_msg("whole too early: %s", cases[i].text);
		}
		if (!cases[i].status && (rc != 1 || unfit))
			fail_msg("refused: %s", cases[i].text);
		if (cases[i].status && rc == 1 && cases[i].text[whole - 1] == '\n')
			fail_msg("taken: %s", cases[i].text);
	}
}

static void bounds_hold(void **state)
{
	static char text[64 * 1024];
	struct api_head head;
	size_t n = (size_t)sprintf(text, "GET / HTTP/1.1\r\n" H), at = n;

	(void)state;
	memset(text + n, 'a', API_HEAD_MAX);
	assert_int_equal(api_head_read(text, n + API_HEAD_MAX, 0, NULL, &head, NULL), 0);
	assert_true(head.unfit); /* to be collected, since the router takes longer ones */
	memcpy(text + n, "X: ", 3);
	memcpy(text + n + API_HEAD_MAX, "\r\n\r\n", 4);
	assert_int_equal(api_head_read(text, n + API_HEAD_MAX + 4, 0, NULL, &head, NULL), ERR_TOO_LARGE);
	assert_int_equal(head.status, 431);
	for (int i = 0; i < API_FIELDS_MAX; i++)
		at += (size_t)sprintf(text + at, "A: %d\r\n", i);
	memcpy(text + at, "\r\n", 2);
	assert_int_equal(api_head_read(text, at + 2, 0, NULL, &head, NULL), ERR_TOO_LARGE);
	assert_int_equal(head.status, 431);
	memcpy(text + at, "X-Sandbox-ID: demo\r\n\r\n", 22);
	assert_int_equal(api_head_read(text, at + 22, 0, NULL, &head, NULL), 1);
	assert_true(head.routed);
}

static void one_port_may_be_served_here(void **state)
{
	static const struct {
		const char *target, *fields;
		int rc;
		bool served, routed;
	} asked[] = {
	    {"/list/a", "X-Sandbox-ID: a\r\n", 1, true, false},
	    {"/list/a", "X-Sandbox-ID: a\r\nX-Sandbox-Port: 8888\r\n", 1, true, false},
	    {"/list/a", "X-Sandbox-ID: a\r\nX-Sandbox-Port: 8889\r\n", 1, false, true},
	    {"/list/a", "X-Sandbox-ID: a\r\nX-Sandbox-Port: 8888\r\nX-Sandbox-Port: 80\r\n", 1, false, true},
	    {"/list/a", "X-Sandbox-Port: 8888\r\n", 1, false, false},
	    {"http://h/list/a", "X-Sandbox-ID: a\r\n", ERR_INVAL, false, false},
	    {"/list/a..%2F..b/...", "X-Sandbox-ID: a\r\n", 1, true, false},
	    {"/list/x?y=/../", "X-Sandbox-ID: a\r\n", 1, true, false},
	    {"/list/..", "X-Sandbox-ID: a\r\n", ERR_PATH_OUTSIDE, false, false},
	    {"/list/%2e%2E/x", "X-Sandbox-ID: a\r\n", ERR_PATH_OUTSIDE, false, false},
	    {"/list%2f.%2e%2Fx", "X-Sandbox-ID: a\r\n", ERR_PATH_OUTSIDE, false, false},
	    {"/list/..?x", "X-Sandbox-ID: a\r\n", ERR_PATH_OUTSIDE, false, false},
	    {"/list/..", "X-Sandbox-ID: a\r\nX-Sandbox-Port: 80\r\n", 1, false, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		struct api_head head;
		struct err e = {0};
		char text[512];
		int n = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: h\r\n%s\r\n", asked[i].target,
				 asked[i].fields);

		assert_int_equal(api_head_read(text, (size_t)n, 0, "8888", &head, &e), asked[i].rc);
		if (asked[i].rc == 1) {
			assert_int_equal(head.served, asked[i].served);
			assert_int_equal(head.routed, asked[i].routed);
		}
		/* switched off all of them are routed */
		if (strstr(asked[i].fields, "X-Sandbox-ID") &&
		    api_head_read(text, (size_t)n, 0, NULL, &head, NULL) == 1)
			assert_true(head.routed && !head.served);
		/* a part of it is nobody's yet */
		assert_int_equal(api_head_read(text, (size_t)n - 2, 0, "8888", &head, NULL), 0);
		assert_false(head.routed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_port_may_be_served_here),
	    cmocka_unit_test(heads_are_judged),
	    cmocka_unit_test(pieces_change_nothing),
	    cmocka_unit_test(bounds_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
