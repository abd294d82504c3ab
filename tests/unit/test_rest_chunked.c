// tier: check
/* Transfer-Encoding: chunked: the payload whatever the pieces it comes in, and framing that is refused. */
#include "base/buf.h"
#include "base/err.h"
#include "muxd/doors/https/chunked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static int feed(const char *wire, size_t step, size_t max, struct buf *out, bool *out_done)
{
	struct chunked c = {0};
	size_t n = strlen(wire);
	int rc = 0;

	buf_init(out, max);
	for (size_t i = 0; i < n && rc == 0; i += step)
		rc = chunked_feed(&c, (const uint8_t *)wire + i, n - i < step ? n - i : step, out);
	*out_done = chunked_done(&c);
	return rc;
}

static const struct {
	const char *wire;
	const char *payload; /* NULL: refused */
	bool done;
} cases[] = {
    {"0\r\n\r\n", "", true},
    {"5\r\nhello\r\n0\r\n\r\n", "hello", true},
    {"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world", true},
    {"A\r\n0123456789\r\n0\r\n\r\n", "0123456789", true},
    {"a;x=y\r\n0123456789\r\n0;z\r\n\r\n", "0123456789", true},
    {"3 \r\nabc\r\n0\r\n\r\n", "abc", true},
    {"3\r\nabc\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n", "abc", true},
    {"3\r\na\r\n\r\n0\r\n\r\n", "a\r\n", true},
    {"00000003\r\nabc\r\n000\r\n\r\n", "abc", true},
    {"3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1", "abc", true},
    {"3\r\nabc\r\n0\r\n", "abc", false},
    {"3\r\nab", "ab", false},
    {"", "", false},
    {"\r\n", NULL, false},
    {"x\r\n", NULL, false},
    {"-1\r\n", NULL, false},
    {"0x3\r\nabc", NULL, false},
    {"3\nabc\n", NULL, false},
    {"3\r\nabcd\r\n", NULL, false},
    {"3\r\nabc\n0\r\n", NULL, false},
    {"3\rabc", NULL, false},
    {"123456789\r\n", NULL, false},
    {"0\r\n\rx", NULL, false},
    {"0\r\nT: x\n\r\n", NULL, false},
};

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t step = 1; step < 12; step++) {
			struct buf out;
			bool done;
			int rc = feed(cases[i].wire, step, 100, &out, &done);
			const char *got = buf_cstr(&out);

			if (!cases[i].payload ? rc != ERR_INVAL
					      : rc != 0 || done != cases[i].done || strcmp(got, cases[i].payload) != 0)
				fail_msg("case %zu by %zu: rc %d done %d \"%s\"", i, step, rc, done, got);
			buf_finish(&out);
		}
	}
}

static void test_bounds(void **state)
{
	struct chunked c = {0};
	struct buf out;
	bool done;
	int rc = 0;

	(void)state;
	assert_int_equal(feed("5\r\nhello\r\n", 3, 4, &out, &done), ERR_TOO_LARGE);
	buf_finish(&out);
	buf_init(&out, 10);
	assert_int_equal(chunked_feed(&c, (const uint8_t *)"1;", 2, &out), 0);
	for (int i = 0; i < 5000 && rc == 0; i++)
		rc = chunked_feed(&c, (const uint8_t *)"x", 1, &out);
	assert_int_equal(rc, ERR_INVAL);
	assert_int_equal(chunked_feed(&c, (const uint8_t *)"\r\n", 2, &out), ERR_INVAL);
	buf_finish(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_bounds)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
