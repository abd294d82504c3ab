// tier: check
/* Heads of HTTP/1 messages and the ends of their bodies, as somebody in the middle has to read them. */
#include "base/err.h"
#include "base/http1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void requests_are_read(void **state)
{
	static const char text[] = "POST /a?b=c HTTP/1.1\r\nHost: x\r\nX-Two:  1 \t\r\nx-two: 2\r\nEmpty:\r\n\r\nbody";
	struct http1_head h;
	const struct http1_field *f;

	(void)state;
	assert_int_equal(http1_request(text, strlen(text), &h, NULL), 1);
	assert_true(http1_is(h.method, "POST"));
	assert_true(http1_is(h.target, "/a?b=c"));
	assert_int_equal(h.minor, 1);
	assert_int_equal(h.nfields, 4);
	assert_string_equal(text + h.len, "body");
	f = http1_find(&h, "X-TWO", NULL);
	assert_true(f && http1_is(f->value, "1"));
	f = http1_find(&h, "X-TWO", f);
	assert_true(f && http1_is(f->value, "2"));
	assert_null(http1_find(&h, "X-TWO", f));
	assert_int_equal(http1_find(&h, "empty", NULL)->value.n, 0);
	for (size_t n = 0; n < h.len; n++)
		assert_int_equal(http1_request(text, n, &h, NULL), 0);
}

static void what_two_could_read_differently_is_refused(void **state)
{
	static const char *const bad[] = {
	    "GET / HTTP/1.1\nHost: x\n\n",          /* bare LF */
	    "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",    /* bare CR */
	    "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", /* a folded line */
	    "GET / HTTP/1.1\r\nA : b\r\n\r\n",      /* a blank before the colon */
	    "GET / HTTP/1.1\r\n: b\r\n\r\n",        /* no name */
	    "GET / HTTP/1.1\r\nnothing\r\n\r\n",    /* no colon */
	    "GET / HTTP/1.1\r\nA: b\x01\r\n\r\n",   /* a control character */
	    "GET  / HTTP/1.1\r\n\r\n",              /* two blanks */
	    "GET / x HTTP/1.1\r\n\r\n",             /* a blank in the target */
	    "GET /\r\n\r\n",                        /* HTTP/0.9 */
	    "GET / HTTP/2.0\r\n\r\n",               /* another one */
	    "G(T / HTTP/1.1\r\n\r\n",               /* no token */
	    "\r\nGET / HTTP/1.1\r\n\r\n",           /* an empty line first */
	};
	struct http1_head h;
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (http1_request(bad[i], strlen(bad[i]), &h, &e) != ERR_INVAL)
			fail_msg("taken: %s", bad[i]);
}

static void bounds_hold(void **state)
{
	static char text[200 * 1024];
	struct http1_head h;
	size_t n = (size_t)sprintf(text, "GET / HTTP/1.1\r\n");

	(void)state;
	for (int i = 0; i < HTTP1_FIELDS_MAX; i++)
		n += (size_t)sprintf(text + n, "A: %d\r\n", i);
	memcpy(text + n, "\r\n", 3);
	assert_int_equal(http1_request(text, n + 2, &h, NULL), 1);
	memcpy(text + n, "B: 1\r\n\r\n", 9);
	assert_int_equal(http1_request(text, n + 8, &h, NULL), ERR_TOO_LARGE);
	memset(text, 'a', sizeof(text));
	assert_int_equal(http1_request(text, sizeof(text), &h, NULL), ERR_TOO_LARGE);
}

static void answers_are_read(void **state)
{
	struct http1_head h;

	(void)state;
	assert_int_equal(http1_answer("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", 25, &h, NULL), 1);
	assert_int_equal(h.status, 200);
	assert_true(http1_is(h.reason, "OK"));
	assert_int_equal(http1_answer("HTTP/1.0 204\n\n", 14, &h, NULL), 1);
	assert_int_equal(h.status, 204);
	assert_int_equal(h.minor, 0);
	assert_int_equal(h.reason.n, 0);
	assert_int_equal(http1_answer("HTTP/1.1 20", 11, &h, NULL), 0);
	assert_int_equal(http1_answer("220 mail.example ESMTP", 22, &h, NULL), ERR_PROTOCOL);
	assert_int_equal(http1_answer("HTTP/1.1 099 x\r\n\r\n", 18, &h, NULL), ERR_PROTOCOL);
	assert_int_equal(http1_answer("HTTP/1.1 2x0 x\r\n\r\n", 18, &h, NULL), ERR_PROTOCOL);
}

static void lists_are_searched(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nConnection: keep-alive , Upgrade\r\nConnection: x-y\r\n\r\n";
	struct http1_head h;

	(void)state;
	assert_int_equal(http1_request(text, strlen(text), &h, NULL), 1);
	assert_true(http1_lists(&h, "connection", "upgrade"));
	assert_true(http1_lists(&h, "connection", "keep-alive"));
	assert_true(http1_lists(&h, "connection", "X-Y"));
	assert_false(http1_lists(&h, "connection", "alive"));
	assert_false(http1_lists(&h, "connection", ""));
}

static int request_body(const char *fields, struct http1_body *b)
{
	char text[256];
	struct http1_head h;
	int n = snprintf(text, sizeof(text), "POST / HTTP/1.1\r\n%s\r\n", fields);

	assert_int_equal(http1_request(text, (size_t)n, &h, NULL), 1);
	return http1_request_body(&h, b, NULL);
}

static void a_body_has_one_length(void **state)
{
	static const char *const bad[] = {"Content-Length: 1\r\nContent-Length: 1\r\n",
					  "Content-Length: 1, 1\r\n",
					  "Content-Length: +1\r\n",
					  "Content-Length: -1\r\n",
					  "Content-Length: 0x1\r\n",
					  "Content-Length:\r\n",
					  "Content-Length: 9999999999999999999\r\n",
					  "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
					  "Transfer-Encoding: gzip, chunked\r\n",
					  "Transfer-Encoding: identity\r\n",
					  "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"};
	struct http1_body b;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (request_body(bad[i], &b) != ERR_INVAL)
			fail_msg("taken: %s", bad[i]);
	assert_int_equal(request_body("", &b), 0);
	assert_true(b.kind == HTTP1_NONE && b.done);
	assert_int_equal(request_body("Content-Length: 0\r\n", &b), 0);
	assert_true(b.kind == HTTP1_LENGTH && b.done);
	assert_int_equal(request_body("Content-Length: 3\r\n", &b), 0);
	assert_int_equal(http1_body_feed(&b, (const uint8_t *)"ab", 2), 2);
	assert_false(b.done);
	assert_int_equal(http1_body_feed(&b, (const uint8_t *)"cdef", 4), 1);
	assert_true(b.done);
	assert_int_equal(http1_body_feed(&b, (const uint8_t *)"def", 3), 0);
}

/* Fed in pieces of every size; *out_len: how much was the body's. */
static int feed(const char *text, size_t piece, size_t *out_len, bool *out_done)
{
	struct http1_body b;
	size_t n = strlen(text), at = 0;

	assert_int_equal(request_body("Transfer-Encoding: chunked\r\n", &b), 0);
	while (at < n && !b.done) {
		size_t k = n - at < piece ? n - at : piece;
		ssize_t got = http1_body_feed(&b, (const uint8_t *)text + at, k);

		if (got < 0)
			return (int)got;
		assert_true(b.done || (size_t)got == k);
		at += (size_t)got;
	}
	*out_len = at;
	*out_done = b.done;
	return 0;
}

/* The body's own bytes, fed in pieces. */
static void content_is_told_from_framing(void **state)
{
	static const char whole[] = "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: v\r\n\r\nGET /";

	(void)state;
	for (size_t piece = 1; piece < sizeof(whole); piece++) {
		char got[32] = "";
		size_t at = 0, n = 0;
		struct http1_body b;

		assert_int_equal(request_body("Transfer-Encoding: chunked\r\n", &b), 0);
		while (at < sizeof(whole) - 1 && !b.done) {
			size_t k = sizeof(whole) - 1 - at < piece ? sizeof(whole) - 1 - at : piece;
			struct http1_text content;
			ssize_t took = http1_body_next(&b, (const uint8_t *)whole + at, k, &content);

			assert_true(took > 0 && (size_t)took <= k && n + content.n < sizeof(got));
			if (content.n)
				memcpy(got + n, content.p, content.n);
			n += content.n;
			at += (size_t)took;
		}
		assert_true(b.done);
		assert_string_equal(got, "abc0123456789");
		assert_string_equal(whole + at, "GET /");
	}
}

static void chunks_end_where_they_say(void **state)
{
	static const char whole[] = "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: v\r\nU: w\r\n\r\nGET /";
	static const char *const bad[] = {
	    "\r\n",     "x\r\n",   "3\nabc\r\n",          "3\r\nabcd\r\n", "3\r\nabc\n",
	    "-1\r\n",   "0\r\n\n", "0\r\nT: v\n\r\n",     "3\r\r\nabc",    "1\r\na\r\nz\r\n",
	    "0\r\n\rX", "3;\nabc", "1234567890123456\r\n"};
	size_t len = 0;
	bool done = false;

	(void)state;
	for (size_t piece = 1; piece < sizeof(whole); piece++) {
		assert_int_equal(feed(whole, piece, &len, &done), 0);
		assert_true(done);
		assert_string_equal(whole + len, "GET /");
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (feed(bad[i], 1, &len, &done) != ERR_INVAL)
			fail_msg("taken: %s", bad[i]);
	assert_int_equal(feed("3\r\nab", 1, &len, &done), 0);
	assert_false(done);
}

/* However it comes in pieces, what is passed on without its trailers is whole. */
static void trailers_are_left_out(void **state)
{
	static const char whole[] = "3\r\nabc\r\n0\r\nSet-Cookie: evil\r\nU: w\r\n\r\nGET /";

	(void)state;
	for (size_t piece = 1; piece < sizeof(whole); piece++) {
		struct http1_body b;
		char got[64] = "";
		size_t at = 0, n = 0;

		assert_int_equal(request_body("Transfer-Encoding: chunked\r\n", &b), 0);
		while (!b.done) {
			size_t left = sizeof(whole) - 1 - at;
			bool trailer;
			ssize_t took =
			    http1_body_run(&b, (const uint8_t *)whole + at, piece < left ? piece : left, &trailer);

			assert_true(took > 0);
			if (!trailer)
				memcpy(got + n, whole + at, (size_t)took);
			n += trailer ? 0 : (size_t)took;
			at += (size_t)took;
		}
		assert_string_equal(got, "3\r\nabc\r\n0\r\n\r\n");
		assert_string_equal(whole + at, "GET /");
	}
}

static void answers_may_have_no_body(void **state)
{
	static const struct {
		const char *head;
		bool to_head;
		enum http1_kind kind;
	} cases[] = {
	    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, HTTP1_LENGTH},
	    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, HTTP1_NONE},
	    {"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", false, HTTP1_NONE},
	    {"HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n", false, HTTP1_NONE},
	    {"HTTP/1.1 101 Up\r\n\r\n", false, HTTP1_NONE},
	    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", false, HTTP1_CHUNKED},
	    {"HTTP/1.0 200 OK\r\n\r\n", false, HTTP1_TO_THE_END},
	};
	struct http1_head h;
	struct http1_body b;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(http1_answer(cases[i].head, strlen(cases[i].head), &h, NULL), 1);
		assert_int_equal(http1_answer_body(&h, cases[i].to_head, &b, NULL), 0);
		assert_int_equal(b.kind, cases[i].kind);
		assert_int_equal(b.done, cases[i].kind == HTTP1_NONE);
	}
	assert_int_equal(http1_answer("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 47, &h, NULL), 1);
	assert_int_equal(http1_answer_body(&h, false, &b, NULL), ERR_PROTOCOL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(requests_are_read),
	    cmocka_unit_test(what_two_could_read_differently_is_refused),
	    cmocka_unit_test(bounds_hold),
	    cmocka_unit_test(answers_are_read),
	    cmocka_unit_test(lists_are_searched),
	    cmocka_unit_test(a_body_has_one_length),
	    cmocka_unit_test(content_is_told_from_framing),
	    cmocka_unit_test(chunks_end_where_they_say),
	    cmocka_unit_test(trailers_are_left_out),
	    cmocka_unit_test(answers_may_have_no_body),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
