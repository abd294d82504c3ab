// tier: check
/* The messages of a terminal's WebSocket, and what a browser says about where a request comes from. */
#include "base/buf.h"
#include "base/err.h"
#include "base/wire.h"
#include "muxd/doors/https/origin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int parse(const char *bytes, size_t n, struct web_message *m, struct err *e)
{
	memset(e, 0, sizeof(*e));
	return web_wire_parse((const uint8_t *)bytes, n, m, e);
}

static void test_messages(void **state)
{
	struct web_message m;
	struct err e;

	(void)state;
	assert_int_equal(parse("\x00ls\n", 4, &m, &e), 0);
	assert_int_equal(m.type, WIRE_INPUT);
	assert_int_equal(m.n, 3);
	assert_memory_equal(m.p, "ls\n", 3);
	assert_int_equal(parse("\x20\x84\x00\x2b\x00\x00\x04\x00\x03", 9, &m, &e), 0);
	assert_int_equal(m.cols, 132);
	assert_int_equal(m.rows, 43);
	assert_int_equal(m.xpixel, 1024);
	assert_int_equal(m.ypixel, 768);
	assert_int_equal(parse("\x21\x01\x00\x00\x00\x00\x01\x00\x00\x00", 10, &m, &e), 0);
	assert_int_equal(m.stream, 1);
	assert_true(m.offset == (uint64_t)1 << 32);
	assert_int_equal(parse("\x23\x02", 2, &m, &e), 0);
	assert_int_equal(m.signal, 2);
	assert_int_equal(parse("\x24", 1, &m, &e), 0);
	assert_int_equal(parse("\x22 12345678901234567890123456789012", 33, &m, &e), 0);
}

static void test_taken(void **state)
{
	uint8_t p[WIRE_TAKEN_LEN];

	(void)state;
	web_wire_taken(p, 0x010203040506);
	assert_memory_equal(p, "\x18\x06\x05\x04\x03\x02\x01\x00\x00", sizeof(p));
}

static void test_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *says;
	} bad[] = {
	    {"", 0, "empty"},
	    {"\x20\x00\x00\x00\x00\x00\x00\x00\x00", 9, "not 0x0"},
	    {"\x20\xff\xff\xff\xff\x00\x00\x00\x00", 9, "not 65535x65535"},
	    {"\x20\x01\x10\x18\x00\x00\x00\x00\x00", 9, "not 4097x24"},
	    {"\x20\x50\x00\x18\x00", 5, "RESIZE has 4 bytes"},
	    {"\x21\x00\x00\x00\x00\x00\x00\x00\x00\x00", 10, "stream 1 or 2"},
	    {"\x21\x01", 2, "WINDOW has 1 bytes"},
	    {"\x22 123456789012345678901234567890123", 34, "PING carries 32"},
	    {"\x23", 1, "SIGNAL has 0 bytes"},
	    {"\x23\x00", 2, "no signal 0"},
	    {"\x23\x41", 2, "no signal 65"},
	    {"\x24x", 2, "EOF has 1 bytes"},
	    {"\x01server", 7, "0x01 is not known"},
	    {"\xff", 1, "0xff is not known"},
	};
	struct web_message m;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(parse(bad[i].bytes, bad[i].n, &m, &e), ERR_INVAL);
		if (!strstr(e.message, bad[i].says))
			fail_msg("%s: %s", bad[i].says, e.message);
	}
}

static int check(const char *origin, const char *host, const char *site, bool required)
{
	struct web_origin o = {.origin = origin, .host = host, .fetch_site = site};

	return web_origin_check(&o, required, NULL);
}

static void test_origin(void **state)
{
	(void)state;
	assert_int_equal(check("https://muxd.example:8443", "muxd.example:8443", "same-origin", true), 0);
	assert_int_equal(check("https://MUXD.example:8443", "muxd.example:8443", NULL, true), 0);
	assert_int_equal(check(NULL, "muxd.example", NULL, false), 0);
	assert_int_equal(check("", "muxd.example", "none", false), 0);
	assert_int_equal(check(NULL, "muxd.example", NULL, true), ERR_FORBIDDEN);
	assert_int_equal(check("null", "muxd.example", NULL, false), ERR_FORBIDDEN);
	assert_int_equal(check("http://muxd.example", "muxd.example", NULL, false), ERR_FORBIDDEN);
	assert_int_equal(check("https://muxd.example.evil", "muxd.example", NULL, false), ERR_FORBIDDEN);
	assert_int_equal(check("https://muxd.example:444", "muxd.example", NULL, false), ERR_FORBIDDEN);
	assert_int_equal(check("https://", "", NULL, false), ERR_FORBIDDEN);
	assert_int_equal(check("https://muxd.example", "muxd.example", "cross-site", false), ERR_FORBIDDEN);
	assert_int_equal(check(NULL, "muxd.example", "same-site", false), ERR_FORBIDDEN);
	assert_int_equal(check("https://muxd.example", "muxd.example", "none", true), ERR_FORBIDDEN);
}

static const uint8_t cookie_key[WEB_COOKIE_KEY_LEN] = "a key of the tests";

static void test_cookie(void **state)
{
	char token[12];
	struct buf b;

	(void)state;
	assert_int_equal(web_cookie_token("__Host-muxd=a.b.c", token, sizeof(token)), 5);
	assert_string_equal(token, "a.b.c");
	assert_int_equal(web_cookie_token("x=1;  __Host-muxd=a.b ; y=2", token, sizeof(token)), 3);
	assert_string_equal(token, "a.b");
	assert_int_equal(web_cookie_token("muxd=a; X__Host-muxd=b; __Host-muxd-x=c", token, sizeof(token)), 0);
	assert_int_equal(web_cookie_token("__Host-muxd=", token, sizeof(token)), 0);
	assert_int_equal(web_cookie_token("__Host-muxd=123456789012", token, sizeof(token)), 0);
	assert_int_equal(web_cookie_token("", token, sizeof(token)), 0);
	assert_int_equal(web_cookie_token(NULL, token, sizeof(token)), 0);
	buf_init(&b, 4096);
	assert_int_equal(web_cookie_header(cookie_key, NULL, 60, &b), 0);
	assert_non_null(strstr(buf_cstr(&b), "__Host-muxd=; Path=/; Max-Age=0;"));
	buf_finish(&b);
}

static bool is_marked(const uint8_t key[WEB_COOKIE_KEY_LEN], const char *cookie, const char *token)
{
	char text[256];
	bool good;

	snprintf(text, sizeof(text), "%s", cookie);
	good = web_cookie_unmark(key, text);
	assert_string_equal(text, token);
	return good;
}

static void test_mark(void **state)
{
	static const uint8_t other_key[WEB_COOKIE_KEY_LEN] = "another key";
	char cookie[128], changed[160];
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	assert_int_equal(web_cookie_header(cookie_key, "a.b.c", 60, &b), 0);
	assert_string_equal(buf_cstr(&b) + strlen("Set-Cookie: __Host-muxd=a.b.c") + WEB_MARK_SIZE - 1,
			    "; Path=/; Max-Age=60; Secure; HttpOnly; SameSite=Strict\r\n");
	assert_int_equal(web_cookie_token(strstr(buf_cstr(&b), "__Host"), cookie, sizeof(cookie)),
			 5 + WEB_MARK_SIZE - 1);
	buf_finish(&b);
	assert_true(is_marked(cookie_key, cookie, "a.b.c"));
	assert_false(is_marked(other_key, cookie, "a.b.c"));
	snprintf(changed, sizeof(changed), "a.b.d%s", cookie + 5);
	assert_false(is_marked(cookie_key, changed, "a.b.d"));
	snprintf(changed, sizeof(changed), "%sx", cookie);
	assert_false(is_marked(cookie_key, changed, "a.b.c"));
	for (size_t i = 6; cookie[i]; i++) {
		snprintf(changed, sizeof(changed), "%s", cookie);
		changed[i] = changed[i] == 'A' ? 'B' : 'A';
		assert_false(is_marked(cookie_key, changed, "a.b.c"));
		changed[i] = '\0';
		assert_false(is_marked(cookie_key, changed, "a.b.c"));
	}
	assert_false(is_marked(cookie_key, "a.b.c", "a.b.c"));
	assert_false(is_marked(cookie_key, "a.b.c~", "a.b.c"));
	assert_false(is_marked(cookie_key, "~", ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_messages), cmocka_unit_test(test_taken),  cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_origin),   cmocka_unit_test(test_cookie), cmocka_unit_test(test_mark),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
