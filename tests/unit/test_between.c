// tier: check
/* between.h: where a word of ours fits into a terminal's output, wherever that is cut. */
#include "base/between.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* At each offset: '.' a word fits there, 'x' it does not; the first is before anything. */
static const struct {
	const char *bytes, *fits;
} table[] = {
    {"ab", "..."},
    {"\xc3\xa9z", ".x.."},
    {"\xe6\xbc\xa2", ".xx."},
    {"\xf0\x9f\x98\x80", ".xxx."},
    {"\033[31m.", ".xxxx.."},
    {"\033(B.", ".xx.."},
    {"\0337.", ".x.."},
    {"\033]2;t\a.", ".xxxxx.."},
    {"\033]2;\033\\.", ".xxxxx.."},
    {"\033P1\030.", ".xxx.."},
    {"\033Pq\a\033\\.", ".xxxxx.."},
    {"\033[3\033[m", ".xxxxx."},
    {"\xc2\x9b"
     "31m.",
     ".xxxx.."},
    {"\xc2\x9d"
     "2;t\xc2\x9c.",
     ".xxxxxx.."},
    {"\xc2\x90q\a\xc2\x9c.", ".xxxxx.."},
    {"\xc2\x85.", ".x.."},
    {"\xc2\xa0.", ".x.."},
    {"\033]2;\xc2\xa9\xc2\x9c.", ".xxxxxxx.."},
    {"\033[3\xc3\xa9.", ".xxxx.."},
    {"\033[3\xc2\x9bm.", ".xxxxx.."},
    {"\xc2\033[m.", ".xxx.."},
    {"\033\xc2\x9b"
     "1m.",
     ".xxxx.."},
};

static void it_is_known_byte_by_byte_and_at_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		size_t n = strlen(table[i].bytes);
		struct between slow = {0};

		assert_int_equal(strlen(table[i].fits), n + 1);
		for (size_t at = 0; at <= n; at++) {
			struct between whole = {0};

			between_feed(&whole, table[i].bytes, at);
			if (at)
				between_feed(&slow, table[i].bytes + at - 1, 1);
			if (between_now(&whole) != (table[i].fits[at] == '.') ||
			    between_now(&slow) != between_now(&whole))
				fail_msg("row %zu, offset %zu", i, at);
		}
	}
}

static void titles_hold_what_can_be_seen_and_go_again(void **state)
{
	char out[BETWEEN_TITLE_MAX], long_text[2000];

	(void)state;
	between_title(out,
		      "a\033]52;c;x\a\xe2\x80\xae"
		      "b",
		      true, "demo");
	assert_string_equal(out, "\033[22;2t\033]2;[muxd] a\\x1b]52;c;x\\x07\\u{202e}b\033\\");
	between_title(out, "next", false, "demo");
	assert_string_equal(out, "\033]2;[muxd] next\033\\");
	between_title(out, NULL, false, "demo");
	assert_string_equal(out, "\033]2;demo\033\\\033[23;2t");
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	size_t n = between_title(out, long_text, true, "demo");
	assert_true(n == strlen(out) && n < BETWEEN_TITLE_MAX);
	assert_memory_equal(out + n - 2, "\033\\", 2);
	assert_true(between_has_title("xterm-256color"));
	assert_false(between_has_title("dumb"));
	assert_false(between_has_title(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_is_known_byte_by_byte_and_at_once),
	    cmocka_unit_test(titles_hold_what_can_be_seen_and_go_again),
	};
	return cmocka_run_group_tests_name("between", tests, NULL, NULL);
}
