// tier: check
/* Fields of an answer from a sandbox that would act on the daemon's own origin; who asks from a page of that origin. */
#include "base/buf.h"
#include "muxd/doors/https/router/router_fields.h"
#include "muxd/doors/https/router/router_head.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEXT(s) ((struct http1_text){.p = (s), .n = strlen(s)})

static const char *const origin_wide[] = {"Strict-Transport-Security",
					  "Public-Key-Pins",
					  "Public-Key-Pins-Report-Only",
					  "Expect-CT",
					  "Clear-Site-Data",
					  "Set-Login",
					  "Alt-Svc",
					  "Service-Worker-Allowed",
					  "Access-Control-Allow-Origin",
					  "Access-Control-Allow-Credentials",
					  "Access-Control-Max-Age",
					  "Access-Control-Anything",
					  "Timing-Allow-Origin",
					  "Origin-Agent-Cluster",
					  "Report-To",
					  "Reporting-Endpoints",
					  "NEL",
					  "Accept-CH",
					  "Accept-CH-Lifetime",
					  "Critical-CH",
					  "Use-As-Dictionary",
					  "No-Vary-Search",
					  "Sec-Session-Registration",
					  "Secure-Session-Registration",
					  "Attribution-Reporting-Register-Source",
					  "WWW-Authenticate",
					  "X-Muxd-Request-Id",
					  "X-Sandbox-ID"};
static const char *const own[] = {"Content-Type",
				  "Cache-Control",
				  "ETag",
				  "Content-Security-Policy",
				  "X-Frame-Options",
				  "Location",
				  "Permissions-Policy",
				  "Cross-Origin-Opener-Policy",
				  "NELLY",
				  "Alt-Svc-Not",
				  "X-Mine",
				  "Access",
				  "Report",
				  "Strict",
				  "Link",
				  "Refresh",
				  "Content-Language"};

static void other_case(const char *name, char *out)
{
	for (; *name; name++)
		*out++ = (char)(rand() % 2 ? toupper(*name) : tolower(*name));
	*out = '\0';
}

/* An answer with n fields taken from both lists goes on with those of the second. */
static void answers_are_cleaned(void **state)
{
	static char text[8192], out[16384];

	(void)state;
	srand(9);
	for (int round = 0; round < 2000; round++) {
		struct http1_head h;
		struct http1_body body;
		struct buf b;
		size_t n = (size_t)sprintf(text, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"), kept = 0;

		for (int i = rand() % 20; i >= 0; i--) {
			bool wide = rand() % 2;
			const char *name =
			    wide ? origin_wide[(size_t)rand() % (sizeof(origin_wide) / sizeof(*origin_wide))]
				 : own[(size_t)rand() % (sizeof(own) / sizeof(*own))];
			char cased[64];

			other_case(name, cased);
			n += (size_t)sprintf(text + n, "%s: %s\r\n", cased, wide ? "wide" : "kept");
			kept += !wide;
		}
		n += (size_t)sprintf(text + n, "\r\n");
		assert_int_equal(http1_answer(text, n, &h, NULL), 1);
		assert_int_equal(http1_answer_body(&h, false, &body, NULL), 0);
		buf_init(&b, sizeof(out));
		assert_int_equal(router_head_answer(&h, &body, false, true, "id", &b), 0);
		snprintf(out, sizeof(out), "%.*s", (int)buf_len(&b), (const char *)buf_ptr(&b));
		buf_finish(&b);
		if (strstr(out, "wide"))
			fail_msg("passed: %s", out);
		for (const char *p = out; (p = strstr(p, "kept")); p++)
			kept--;
		assert_int_equal(kept, 0);
	}
}

static void cookies_are_bounded(void **state)
{
	static const char *const bad[] = {"__Host-muxd=x",
					  "__host-MUXD=x",
					  " muxd=1",
					  "__Secure-muxd_a=1",
					  "=__Host-muxd=x",
					  "__Host-muxd",
					  "nameless",
					  " = x",
					  "",
					  ";a=b",
					  "a=b; Domain=x",
					  "a=b;domain=.x; Path=/",
					  "a=b; DOMAIN = x; a=b"};
	static char big[ROUTER_COOKIE_MAX + 2];
	struct router_cookies c = {0, 0};
	size_t passed = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (router_cookie_passes(&c, TEXT(bad[i])))
			fail_msg("passed: %s", bad[i]);
	assert_int_equal(c.n, 0);
	assert_true(router_cookie_passes(&c, TEXT("mine=1; Path=/; HttpOnly; X=Domain")));
	memset(big, 'a', sizeof(big) - 1);
	big[1] = '=';
	assert_false(router_cookie_passes(&c, TEXT(big)));
	c = (struct router_cookies){0, 0};
	for (int i = 0; i < 1000; i++)
		passed += router_cookie_passes(&c, TEXT("a=b"));
	assert_int_equal(passed, ROUTER_COOKIES_MAX);
	c = (struct router_cookies){0, 0};
	big[ROUTER_COOKIE_MAX] = '\0';
	for (int i = 0; i < 10; i++)
		(void)router_cookie_passes(&c, TEXT(big));
	assert_int_equal(c.bytes, ROUTER_COOKIE_BYTES_MAX);
}

static bool from_page(const char *fields)
{
	char text[512];
	struct http1_head h;
	int n = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: door:8443\r\n%s\r\n", fields);

	assert_int_equal(http1_request(text, (size_t)n, &h, NULL), 1);
	return router_from_own_page(&h);
}

static void pages_are_known(void **state)
{
	(void)state;
	assert_true(from_page("Sec-Fetch-Site: same-origin\r\n"));
	assert_true(from_page("sec-fetch-site: Same-Origin\r\nSec-Fetch-Mode: cors\r\n"));
	assert_true(from_page("Sec-Fetch-Site: cross-site, same-origin\r\n"));
	assert_true(from_page("Origin: https://door:8443\r\n"));
	assert_true(from_page("Origin: HTTPS://DOOR:8443\r\n"));
	assert_true(from_page("Origin: https://other\r\nOrigin: https://door:8443\r\n"));
	assert_false(from_page(""));
	assert_false(from_page("Origin: https://door\r\n"));
	assert_false(from_page("Origin: http://door:8443\r\n"));
	assert_false(from_page("Origin: null\r\nSec-Fetch-Site: cross-site\r\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(answers_are_cleaned),
	    cmocka_unit_test(cookies_are_bounded),
	    cmocka_unit_test(pages_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
