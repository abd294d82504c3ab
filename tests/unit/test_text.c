// tier: check
#include "base/text.h"
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define E_ACUTE "\xc3\xa9"
#define EURO    "\xe2\x82\xac"
#define SMILE   "\xf0\x9f\x98\x80"

static bool valid(const char *s)
{
	return utf8_valid((const uint8_t *)s, strlen(s));
}

static void what_is_put_is_utf8(void **state)
{
	(void)state;
	static const struct {
		const char *in;
		size_t size;
		const char *out;
	} rows[] = {
	    {"plain", 16, "plain"},
	    {"", 1, ""},
	    {"x", 1, ""},
	    {NULL, 4, ""},
	    {"abc", 4, "abc"},
	    {"abcd", 4, "abc"},
	    {"ab" E_ACUTE, 4, "ab"},
	    {"ab" E_ACUTE, 5, "ab" E_ACUTE},
	    {EURO EURO, 6, EURO},
	    {SMILE, 4, ""},
	    {SMILE, 5, SMILE},
	    {"a\xff\xfez", 16, "a??z"},
	    {"a\xc3", 16, "a?"},                /* the sender's own half of a character: seen */
	    {"\xed\xa0\x80", 16, "???"},        /* surrogate */
	    {"\xc0\x80", 16, "??"},             /* overlong */
	    {"\xf4\x90\x80\x80", 16, "????"},   /* past the end */
	    {"tab\tbell\a", 16, "tab\tbell\a"}, /* controls are for who shows them */
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char out[16];
		memset(out, 'X', sizeof(out));
		assert_int_equal(text_put(out, rows[i].size, rows[i].in), strlen(rows[i].out));
		assert_string_equal(out, rows[i].out);
	}
	char out[8];
	assert_int_equal(text_put_bytes(out, sizeof(out), "a\0b" E_ACUTE "cde", 8), 7);
	assert_string_equal(out, "a?b" E_ACUTE "cd");
	text_put(out, 6, out);
	assert_string_equal(out, "a?b" E_ACUTE);
	assert_int_equal(text_put_bytes(out, sizeof(out), NULL, 0), 0);
}

static void a_format_leaves_whole_characters(void **state)
{
	(void)state;
	char out[12];
	assert_int_equal(text_format(out, sizeof(out), "<%.3s>", E_ACUTE E_ACUTE), 4);
	assert_string_equal(out, "<" E_ACUTE ">");
	text_format(out, sizeof(out), "<%.*s|%.2s>", 4, EURO EURO, SMILE);
	assert_string_equal(out, "<" EURO "|>");
	text_format(out, sizeof(out), "%s%s", "0123456789", EURO);
	assert_string_equal(out, "0123456789");
	text_format(out, sizeof(out), "%d \xff%s", 7, "ok");
	assert_string_equal(out, "7 ?ok");
	text_format(out, 1, "%s", "anything");
	assert_string_equal(out, "");
}

/* Every cut of a text of all lengths of characters: by the buffer, by a precision, in the middle and at the end. */
static void every_cut_is_at_a_character(void **state)
{
	(void)state;
	static const char text[] = "a" E_ACUTE EURO SMILE "b" SMILE EURO E_ACUTE "c";
	char out[64], around[64];
	for (size_t n = 0; n <= sizeof(text); n++) {
		size_t len = text_put(out, n + 1, text);
		assert_true(len <= n && n - len < 4 && valid(out));
		assert_memory_equal(out, text, len);
		assert_true(text_cut(text, sizeof(text) - 1, n) == len);
		text_format(out, sizeof(out), "%.*s", (int)n, text);
		assert_int_equal(strlen(out), len);
		text_format(around, sizeof(around), "<%.*s>", (int)n, text);
		assert_int_equal(strlen(around), len + 2);
		assert_memory_equal(around + 1, out, len);
		assert_true(around[len + 1] == '>' && valid(around));
		assert_int_equal(text_format(out, n + 1, "%s", text), len);
	}
}

/* All texts of up to three bytes from those that lead, go on, or are neither: whatever goes in, UTF-8 comes out. */
static void all_short_texts_come_out_as_utf8(void **state)
{
	(void)state;
	static const uint8_t bytes[] = {0x01, 'a',  0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2,
					0xdf, 0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff};
	size_t many = sizeof(bytes);
	for (size_t i = 0; i < many * many * many * many; i++) {
		char in[5] = {(char)bytes[i % many], (char)bytes[i / many % many], (char)bytes[i / many / many % many],
			      (char)bytes[i / many / many / many], 0};
		for (size_t size = 1; size <= 5; size++) {
			char out[5];
			size_t n = text_put(out, size, in);
			if (n >= size || strlen(out) != n || !valid(out))
				fail_msg("put %zu of %zu", i, size);
			n = text_format(out, size, "%s", in);
			if (n >= size || strlen(out) != n || !valid(out))
				fail_msg("format %zu of %zu", i, size);
		}
	}
}

static void a_beginning_of_a_character_is_known(void **state)
{
	(void)state;
	static const struct {
		const char *in;
		size_t n, begun;
	} rows[] = {
	    {"\xc3", 1, 1},         {"\xe2", 1, 1},      {"\xe2\x82", 2, 2},
	    {"\xf0\x9f\x98", 3, 3}, {"\xe2\x82z", 3, 2}, {"\xe2\x82\xac", 3, 0},
	    {"\xed\xa0", 2, 0},     {"\xe0\x80", 2, 0},  {"\xf4\x90", 2, 0},
	    {"\x80", 1, 0},         {"a", 1, 0},         {"\xed\xa0\x80", 3, 0},
	    {"\xff", 1, 0},         {"", 0, 0},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(utf8_begun((const uint8_t *)rows[i].in, rows[i].n), rows[i].begun);
	assert_int_equal(utf8_open_end((const uint8_t *)"a\xe2\x82", 3), 2);
	assert_int_equal(utf8_open_end((const uint8_t *)"\xf0\x9f\x98", 3), 3);
	assert_int_equal(utf8_open_end((const uint8_t *)"\xe2\x82\xac", 3), 0);
	assert_int_equal(utf8_open_end((const uint8_t *)"\x80\x80", 2), 0);
	assert_int_equal(utf8_open_end((const uint8_t *)"", 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_put_is_utf8),
	    cmocka_unit_test(a_format_leaves_whole_characters),
	    cmocka_unit_test(every_cut_is_at_a_character),
	    cmocka_unit_test(all_short_texts_come_out_as_utf8),
	    cmocka_unit_test(a_beginning_of_a_character_is_known),
	};
	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
