// tier: check
/* What a routed request asks for, and which fields pass the router in either direction. */
#include "base/buf.h"
#include "base/err.h"
#include "base/ports.h"
#include "muxd/doors/https/router/router_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TO "X-Sandbox-ID: demo\r\nX-Sandbox-Port: 8000\r\n"

static char text[4096];
static struct http1_head head;

static int read_fields(const char *line, const char *fields, struct router_head *r, struct err *e)
{
	int n = snprintf(text, sizeof(text), "%s\r\n%s\r\n", line, fields);

	assert_int_equal(http1_request(text, (size_t)n, &head, NULL), 1);
	return router_head_read(&head, r, e);
}

/* The head that the server gets. */
static const char *passed(const char *line, const char *fields)
{
	static char out[8192];
	struct router_head r;
	struct err e = {0};
	struct buf b;

	buf_init(&b, sizeof(out) - 1);
	assert_int_equal(read_fields(line, fields, &r, &e), 0);
	assert_int_equal(router_head_request(&head, &r, "192.0.2.7:4711", &b), 0);
	snprintf(out, sizeof(out), "%.*s", (int)buf_len(&b), (const char *)buf_ptr(&b));
	buf_finish(&b);
	return out;
}

static void who_asks_is_seen_early(void **state)
{
	static const char asked[] = "GET / HTTP/1.1\r\nHost: x\r\nx-sandbox-id: demo\r\n";

	(void)state;
	assert_true(router_asked(asked, strlen(asked)));
	for (size_t n = 0; n < strlen(asked) - strlen(": demo\r\n"); n++)
		assert_false(router_asked(asked, n));
	assert_true(router_asked("GET / HTTP/1.1\r\nX-Sandbox-ID : demo\r\n", 37)); /* refused later, but ours */
	assert_false(router_asked("GET / HTTP/1.1\r\n\r\nX-Sandbox-ID: demo\r\n", 38));
	assert_false(router_asked("GET /X-Sandbox-ID: HTTP/1.1\r\nX-Sandbox-IDs: demo\r\n", 50));
}

static void what_is_asked_for(void **state)
{
	struct router_head r;
	struct err e = {0};

	(void)state;
	assert_int_equal(read_fields("GET /p/q?secret=1 HTTP/1.1",
				     TO "X-Sandbox-Namespace: prod\r\nAuthorization: bearer  abc\r\n", &r, &e),
			 0);
	assert_string_equal(r.id, "demo");
	assert_string_equal(r.space, "prod");
	assert_int_equal(r.port, 8000);
	assert_true(http1_is(r.token, "abc"));
	assert_true(r.keep_alive);
	assert_false(r.upgrade);
	assert_string_equal(r.use, "GET /p/q"); /* a query may hold secrets */
	assert_int_equal(read_fields("GET / HTTP/1.1", TO "Connection: Upgrade\r\nUpgrade: websocket\r\n", &r, &e), 0);
	assert_true(r.upgrade);
	assert_int_equal(read_fields("GET / HTTP/1.0", TO, &r, &e), 0);
	assert_false(r.keep_alive);
	/* with a body it goes as a plain request */
	assert_int_equal(
	    read_fields("POST / HTTP/1.1", TO "Content-Length: 3\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n", &r, &e),
	    0);
	assert_false(r.upgrade);
	assert_true(r.keep_alive);
}

static void what_is_refused(void **state)
{
	static const struct {
		const char *line, *fields, *named;
		int rc;
	} cases[] = {
	    {"GET / HTTP/1.1", "X-Sandbox-ID: demo\r\n", "X-Sandbox-Port", ERR_INVAL},
	    {"GET / HTTP/1.1", "X-Sandbox-ID: demo\r\nX-Sandbox-Port: 0\r\n", "X-Sandbox-Port", ERR_INVAL},
	    {"GET / HTTP/1.1", "X-Sandbox-ID: demo\r\nX-Sandbox-Port: 65536\r\n", "X-Sandbox-Port", ERR_INVAL},
	    {"GET / HTTP/1.1", "X-Sandbox-ID: demo\r\nX-Sandbox-Port: 99999999999\r\n", "X-Sandbox-Port", ERR_INVAL},
	    {"GET / HTTP/1.1", "X-Sandbox-ID: demo\r\nX-Sandbox-Port: +80\r\n", "X-Sandbox-Port", ERR_INVAL},
	    {"GET / HTTP/1.1", TO "X-Sandbox-Port: 8000\r\n", "X-Sandbox-Port is given twice", ERR_INVAL},
	    {"GET / HTTP/1.1", TO "X-Sandbox-ID: demo\r\n", "X-Sandbox-ID is given twice", ERR_INVAL},
	    {"GET / HTTP/1.1", "X-Sandbox-ID: a, b\r\nX-Sandbox-Port: 1\r\n", "X-Sandbox-ID", ERR_INVAL},
	    {"GET / HTTP/1.1", "X-Sandbox-ID:\r\nX-Sandbox-Port: 1\r\n", "X-Sandbox-ID is empty", ERR_INVAL},
	    {"GET / HTTP/1.1", TO "X-Sandbox-Namespace: A\r\n", "X-Sandbox-Namespace", ERR_INVAL},
	    {"GET / HTTP/1.1", TO "X-Sandbox-Namespace: a/b\r\n", "X-Sandbox-Namespace", ERR_INVAL},
	    {"GET / HTTP/1.1", TO "Authorization: Basic abc\r\n", "Bearer", ERR_TOKEN_MALFORMED},
	    {"GET / HTTP/1.1", TO "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", "body", ERR_INVAL},
	    {"CONNECT a:1 HTTP/1.1", TO, "CONNECT", ERR_INVAL},
	    {"GET http://a/ HTTP/1.1", "Host: b\r\n" TO, "another host", ERR_INVAL},
	    {"GET http://u@a/ HTTP/1.1", "Host: a\r\n" TO, "another host", ERR_INVAL},
	    {"GET http:///x HTTP/1.1", "Host: a\r\n" TO, "another host", ERR_INVAL},
	    {"GET http://a#x HTTP/1.1", "Host: a\r\n" TO, "fragment", ERR_INVAL},
	    {"GET ftp://a/ HTTP/1.1", "Host: a\r\n" TO, "target", ERR_INVAL},
	    {"GET a/b HTTP/1.1", "Host: a\r\n" TO, "target", ERR_INVAL},
	    {"GET * HTTP/1.1", "Host: a\r\n" TO, "target", ERR_INVAL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct router_head r;
		struct err e = {0};

		if (read_fields(cases[i].line, cases[i].fields, &r, &e) != cases[i].rc ||
		    !strstr(e.message, cases[i].named))
			fail_msg("case %zu: %s", i, e.message);
	}
}

static void what_the_server_gets(void **state)
{
	(void)state;
	assert_string_equal(passed("PUT /a%2Fb?c HTTP/1.1",
				   "Host: door\r\n" TO "Authorization: Bearer abc\r\nX-Sandbox-Else: 1\r\nX-Own: 1\r\n"
				   "Connection: close, x-hop\r\nX-Hop: 1\r\nTE: trailers\r\nKeep-Alive: 5\r\n"
				   "Proxy-Authorization: x\r\nContent-Length: 3\r\n"),
			    "PUT /a%2Fb?c HTTP/1.1\r\nHost: door\r\nX-Own: 1\r\nContent-Length: 3\r\n"
			    "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\nVia: 1.1 muxd\r\n"
			    "Connection: close\r\n\r\n");
	assert_string_equal(passed("POST / HTTP/1.1", TO "Transfer-Encoding: chunked\r\nX-Forwarded-For: 10.0.0.1\r\n"
							 "X-Forwarded-Proto: http\r\nVia: 1.0 other\r\n"),
			    "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX-Forwarded-For: 10.0.0.1, 192.0.2.7\r\n"
			    "X-Forwarded-Proto: https\r\nVia: 1.0 other, 1.1 muxd\r\nConnection: close\r\n\r\n");
	assert_string_equal(passed("GET / HTTP/1.1", TO "Upgrade: websocket\r\nConnection: upgrade\r\n"),
			    "GET / HTTP/1.1\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n"
			    "Via: 1.1 muxd\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
}

/* RFC 9112, 3.2.2: as a client of a proxy says it. The server inside gets the path alone, and the record too. */
static void a_whole_address_is_its_path(void **state)
{
	static const struct {
		const char *line, *gets, *use;
	} cases[] = {
	    {"GET http://door:8443/a?b=c HTTP/1.1", "GET /a?b=c HTTP/1.1\r\n", "GET /a"},
	    {"GET HTTPS://Door:8443/ HTTP/1.1", "GET / HTTP/1.1\r\n", "GET /"},
	    {"GET https://door:8443 HTTP/1.1", "GET / HTTP/1.1\r\n", "GET /"},
	    {"GET https://door:8443?q HTTP/1.1", "GET /?q HTTP/1.1\r\n", "GET /"},
	    {"OPTIONS * HTTP/1.1", "OPTIONS * HTTP/1.1\r\n", "OPTIONS *"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *gets = passed(cases[i].line, "Host: door:8443\r\n" TO);
		struct router_head r;
		struct err e = {0};

		assert_memory_equal(gets, cases[i].gets, strlen(cases[i].gets));
		assert_int_equal(read_fields(cases[i].line, "Host: door:8443\r\n" TO, &r, &e), 0);
		assert_string_equal(r.use, cases[i].use);
		assert_int_equal(http1_request_check(&head, &e), 0);
	}
}

/* A field that says where the body ends must reach who reads the body. */
static void the_length_is_never_for_one_hop(void **state)
{
	const char *got =
	    passed("POST / HTTP/1.1", "Host: a\r\n" TO "Connection: content-length, host\r\nContent-Length: 3\r\n");

	(void)state;
	assert_non_null(strstr(got, "\r\nContent-Length: 3\r\n"));
	assert_non_null(strstr(got, "\r\nHost: a\r\n"));
}

static void our_cookies_stay_here(void **state)
{
	(void)state;
	assert_non_null(strstr(passed("GET / HTTP/1.1", TO "Cookie: a=1; muxd=t; __Host-muxd_grant=t; b=2\r\n"),
			       "\r\nCookie: a=1; b=2\r\n"));
	assert_null(strstr(passed("GET / HTTP/1.1", TO "Cookie: muxd=t\r\n"), "Cookie"));
	assert_null(strstr(passed("GET / HTTP/1.1", TO "Cookie: a=1;\t__Host-muxd=t\r\n"), "muxd="));
}

static void what_the_client_gets(void **state)
{
	static const char answer[] =
	    "HTTP/1.1 200 Fine\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nX-In: 1\r\n"
	    "Set-Cookie: a=1\r\nSet-Cookie: muxd=2\r\nTransfer-Encoding: chunked\r\n\r\n";
	struct http1_body body;
	struct http1_head h;
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	assert_int_equal(http1_answer(answer, strlen(answer), &h, NULL), 1);
	assert_int_equal(http1_answer_body(&h, false, &body, NULL), 0);
	assert_int_equal(router_head_answer(&h, &body, false, true, "id", &b), 0);
	assert_string_equal(buf_cstr(&b),
			    "HTTP/1.1 200 Fine\r\nX-In: 1\r\nSet-Cookie: a=1\r\nTransfer-Encoding: chunked\r\n"
			    "Via: 1.1 muxd\r\nVary: X-Sandbox-ID, X-Sandbox-Port, X-Sandbox-Namespace\r\n"
			    "X-Muxd-Request-Id: id\r\nConnection: keep-alive\r\n\r\n");
	buf_finish(&b);
}

/* A client that believed it would take our next answer for this one's body. */
static void what_has_no_body_has_no_length(void **state)
{
	static const char *const answers[] = {"HTTP/1.1 103 Early Hints\r\nContent-Length: 50\r\nLink: </x>\r\n\r\n",
					      "HTTP/1.1 204 None\r\nContent-Length: 50\r\nLink: </x>\r\n\r\n"};
	struct http1_body body;
	struct http1_head h;
	struct buf b;

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		buf_init(&b, 4096);
		assert_int_equal(http1_answer(answers[i], strlen(answers[i]), &h, NULL), 1);
		assert_int_equal(http1_answer_body(&h, false, &body, NULL), 0);
		assert_int_equal(router_head_answer(&h, &body, false, true, "id", &b), 0);
		assert_null(strstr(buf_cstr(&b), "Content-Length"));
		assert_non_null(strstr(buf_cstr(&b), "\r\nLink: </x>\r\n"));
		buf_finish(&b);
	}
}

static void lists_of_ports(void **state)
{
	static const char *const good[] = {"", " ", "1", "65535", "1-65535", "80,443 , 8000 - 8999"};
	static const char *const bad[] = {"0", "65536", "x", "80,", ",80", "90-80", "80-", "-80", "80 81", "80--90"};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(ports_check(good[i], NULL), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (ports_check(bad[i], NULL) != ERR_CONFIG)
			fail_msg("taken: %s", bad[i]);
	assert_false(ports_allow("", 80));
	assert_true(ports_allow("80", 80));
	assert_false(ports_allow("80", 81));
	assert_true(ports_allow("80, 8000-8999", 8000));
	assert_true(ports_allow("80, 8000-8999", 8999));
	assert_false(ports_allow("80, 8000-8999", 9000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_asks_is_seen_early),
	    cmocka_unit_test(what_is_asked_for),
	    cmocka_unit_test(what_is_refused),
	    cmocka_unit_test(what_the_server_gets),
	    cmocka_unit_test(a_whole_address_is_its_path),
	    cmocka_unit_test(the_length_is_never_for_one_hop),
	    cmocka_unit_test(our_cookies_stay_here),
	    cmocka_unit_test(what_the_client_gets),
	    cmocka_unit_test(what_has_no_body_has_no_length),
	    cmocka_unit_test(lists_of_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
