// tier: check
/* MCP servers by address inside a sandbox: the addresses that may be named, streams of events, members of messages, and
 * what comes of a server's answer. */
#include "base/err.h"
#include "base/events.h"
#include "base/json_scan.h"
#include "base/loopback.h"
#include "muxd/muxlet/mcp_answer.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void addresses(void **state)
{
	static const struct {
		const char *url;
		int rc;
		enum loopback_family family;
		uint16_t port;
		const char *target;
	} rows[] = {
	    {"http://127.0.0.1:8001/mcp", 0, LOOPBACK_V4, 8001, "/mcp"},
	    {"HTTP://LocalHost:1/a?b=c", 0, LOOPBACK_EITHER, 1, "/a?b=c"},
	    {"http://[::1]:65535/", 0, LOOPBACK_V6, 65535, "/"},
	    {"http://127.0.0.1", 0, LOOPBACK_V4, 80, ""},
	    {"https://127.0.0.1:8443/mcp", ERR_UNSUPPORTED, 0, 0, NULL},
	    {"https://mcp.example/", ERR_EGRESS, 0, 0, NULL},
	    {"http://mcp.example:8001/", ERR_EGRESS, 0, 0, NULL},
	    {"http://10.0.0.1:8001/", ERR_EGRESS, 0, 0, NULL},
	    {"http://127.0.0.1.evil:8001/", ERR_EGRESS, 0, 0, NULL},
	    {"http://localhost.evil/", ERR_EGRESS, 0, 0, NULL},
	    {"http://localhost.:80/", ERR_EGRESS, 0, 0, NULL},
	    {"http://127.0.0.1:80@evil/", ERR_INVAL, 0, 0, NULL},
	    {"http://127.1:8001/", ERR_EGRESS, 0, 0, NULL},
	    {"http://2130706433:8001/", ERR_EGRESS, 0, 0, NULL},
	    {"http://0x7f.0.0.1/", ERR_EGRESS, 0, 0, NULL},
	    {"http://0.0.0.0:8001/", ERR_EGRESS, 0, 0, NULL},
	    {"http://[::ffff:127.0.0.1]:8001/", ERR_EGRESS, 0, 0, NULL},
	    {"http://[::1%25lo]:8001/", ERR_EGRESS, 0, 0, NULL},
	    {"http://127.0.0.1:0/", ERR_INVAL, 0, 0, NULL},
	    {"http://127.0.0.1:65536/", ERR_INVAL, 0, 0, NULL},
	    {"http://127.0.0.1:/", ERR_INVAL, 0, 0, NULL},
	    {"http://127.0.0.1:+1/", ERR_INVAL, 0, 0, NULL},
	    {"http://127.0.0.1:1/#x", ERR_INVAL, 0, 0, NULL},
	    {"http://127.0.0.1:1/a b", ERR_INVAL, 0, 0, NULL},
	    {"http://127.0.0.1:1\\@evil/", ERR_INVAL, 0, 0, NULL},
	    {"http://127.0.0.1?x", ERR_INVAL, 0, 0, NULL},
	    {"http://127.0.0.1:1/\r\nX: y", ERR_INVAL, 0, 0, NULL},
	    {"ws://127.0.0.1:1/", ERR_INVAL, 0, 0, NULL},
	    {"127.0.0.1:1", ERR_INVAL, 0, 0, NULL},
	    {"http://", ERR_INVAL, 0, 0, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct loopback to = {0};
		int rc = loopback_read(rows[i].url, &to);

		if (rc != rows[i].rc)
			fail_msg("%s: %s", rows[i].url, err_name(rc));
		if (rc)
			continue;
		assert_int_equal(to.family, rows[i].family);
		assert_int_equal(to.port, rows[i].port);
		assert_string_equal(to.target, rows[i].target);
	}
}

static int on_data(void *arg, char *data, size_t n)
{
	char *out = arg;

	snprintf(out + strlen(out), 200 - strlen(out), "[%.*s]", (int)n, data);
	return 0;
}

static void events(void **state)
{
	static const char text[] =
	    "\xef\xbb\xbf"
	    "data: a\r\n\r\n:comment\ndata:b\ndata:  c\n\n"
	    "event: other\ndata: no\n\nid: 7\nretry: 250\ndata\n\ndata: d\r\rid: \x01\ndata: e\n\ndata: half";
	char whole[200] = "", pieces[200] = "";
	struct events v;

	(void)state;
	events_init(&v, 64);
	assert_int_equal(events_feed(&v, text, sizeof(text) - 1, on_data, whole), 0);
	assert_string_equal(whole, "[a][b\n c][][d][e]");
	assert_int_equal(v.retry_ms, 250);
	assert_string_equal(v.id, ""); /* the last one could stand in no field */
	events_finish(&v);
	events_init(&v, 64);
	for (size_t i = 0; i + 1 < sizeof(text); i++)
		assert_int_equal(events_feed(&v, text + i, 1, on_data, pieces), 0);
	assert_string_equal(pieces, whole);
	for (int i = 0; i < 2; i++)
		assert_int_equal(events_feed(&v, "data: 0123456789012345678901234567890\n", 38, on_data, pieces),
				 i ? ERR_TOO_LARGE : 0);
	events_finish(&v);
}

static bool answers_to(const char *message, const char *id)
{
	return mcp_message_answers(message, strlen(message), id);
}

static void members(void **state)
{
	static const char text[] = " { \"a\" : [1, \"]\"], \"id\":17,\"b\":{\"id\":18},\"s\":\"x\\\"y\" } ";
	struct json_scan_span v;

	(void)state;
	assert_true(json_scan_member(text, sizeof(text) - 1, "id", &v) && v.n == 2 && memcmp(v.p, "17", 2) == 0);
	assert_true(json_scan_member(text, sizeof(text) - 1, "s", &v) && v.n == 6);
	assert_false(json_scan_member(text, sizeof(text) - 1, "c", &v));
	for (size_t n = 0; n < sizeof(text) - 3; n++)
		assert_false(json_scan_member(text, n, "id", &v));
	assert_false(json_scan_member("[]", 2, "id", &v));
	assert_false(json_scan_member("{}", 2, "id", &v));
	assert_true(answers_to("{\"id\":1,\"result\":{}}", "1"));
	assert_false(answers_to("{\"id\":1,\"result\":{}}", "2"));
	assert_false(answers_to("{\"id\":1,\"method\":\"x\"}", "1"));
	assert_false(answers_to("{\"id\":1,\"result\":1,\"error\":2}", "1"));
}

struct heard {
	char text[200];
	int rc;
};

static int on_message(void *arg, const char *p, size_t n)
{
	struct heard *h = arg;

	snprintf(h->text + strlen(h->text), sizeof(h->text) - strlen(h->text), "%.*s|", (int)n, p);
	return 0;
}

/* "STATUS|TYPE|more fields|content": what it says, or why it is broken. */
static void answers(void **state)
{
	static const struct {
		const char *answer, *messages, *why;
	} rows[] = {
	    {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{\"a\":\n1}", "{\"a\": 1}|",
	     ""},
	    {"HTTP/1.0 200 OK\nContent-Type: Application/JSON;charset=utf-8\n\n{}\r\n", "{}  |", ""},
	    {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\ndata: 2\ndata: 3\n\n", "1|2 3|", ""},
	    {"HTTP/1.1 202 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", "", ""},
	    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}", "{}|", ""},
	    {"HTTP/1.1 503 x\r\nContent-Type: text/html\r\n\r\n<html>", "", ""},
	    {"HTTP/1.1 400 x\r\nContent-Type: application/json\r\n\r\n{}", "{}|", ""},
	    {"HTTP/1.1 302 x\r\nLocation: /\r\n\r\n", "", "redirects (HTTP status 302), and no redirect is followed"},
	    {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", "",
	     "answers with neither application/json nor text/event-stream"},
	    {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{}", "",
	     "closed the connection in the middle of an answer"},
	    {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nx", "",
	     "sends its content in chunks that are none"},
	    {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n", "",
	     "sends its content encoded, which it was not asked for"},
	    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "",
	     "tells the length of its content in no way, or in two"},
	    {"HTTP/1.1 200 OK\r\nMcp-Session-Id: a b\r\n\r\n", "",
	     "names a session by other characters than visible ASCII"},
	    {"SSH-2.0-x\r\n", "", "does not answer by HTTP/1.1, or with a head that is malformed"},
	    {"", "", "closed the connection before it had answered"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct heard h = {0};
		struct mcp_answer a;
		int rc;

		mcp_answer_init(&a);
		rc = mcp_answer_feed(&a, rows[i].answer, strlen(rows[i].answer), on_message, &h);
		rc = rc ? rc : mcp_answer_end(&a, on_message, &h);
		assert_string_equal(a.why, rows[i].why);
		assert_string_equal(h.text, rows[i].messages);
		assert_int_equal(rc, *rows[i].why ? ERR_PROTOCOL : 1);
		mcp_answer_finish(&a);
	}
}

/* A head and a message that have no end are given up, and nothing of them is kept. */
static void bounds(void **state)
{
	static char piece[64 * 1024];
	struct heard h = {0};
	struct mcp_answer a;
	int rc = 0;

	(void)state;
	memset(piece, 'x', sizeof(piece));
	mcp_answer_init(&a);
	assert_int_equal(
	    mcp_answer_feed(&a, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", 51, on_message, &h), 0);
	for (size_t i = 0; i < 128; i++)
		assert_int_equal(mcp_answer_feed(&a, piece, sizeof(piece), on_message, &h), 0);
	assert_int_equal(mcp_answer_feed(&a, piece, 1, on_message, &h), ERR_PROTOCOL);
	assert_string_equal(a.why, "sends a message of more than 8 MiB");
	mcp_answer_finish(&a);
	mcp_answer_init(&a);
	for (size_t i = 0; rc == 0 && i < 100; i++)
		rc = mcp_answer_feed(&a, i ? "X: 0123456789abcdef\r\n" : "HTTP/1.1 200 OK\r\n", i ? 21 : 17, on_message,
				     &h);
	assert_int_equal(rc, 0);
	for (size_t i = 0; rc == 0 && i < 100; i++)
		rc = mcp_answer_feed(&a, piece, 1000, on_message, &h);
	assert_int_equal(rc, ERR_PROTOCOL);
	mcp_answer_finish(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(addresses), cmocka_unit_test(events), cmocka_unit_test(members),
	    cmocka_unit_test(answers),   cmocka_unit_test(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
