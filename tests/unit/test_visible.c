// tier: check, slice TEXTS=20000
/* visible.h: what is shown of text that others wrote, by examples, by a million random texts, and beside Unicode's
 * data. */
#include "base/json.h"
#include "base/utf8.h"
#include "base/visible.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct example {
	const char *text, *shown;
};

static const struct example examples[] = {
    {"", ""},
    {"plain text, caf\xc3\xa9 \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x98\x80",
     "plain text, caf\xc3\xa9 \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x98\x80"},
    {"a\x1b[2J\x07\x7f", "a\\x1b[2J\\x07\\x7f"},
    {"a\tb\r\n", "a\\tb\\r\\n"},
    {"C1 \xc2\x9b"
     "1m",
     "C1 \\u{9b}1m"},
    {"raw C1 \x9b"
     "1m",
     "raw C1 \\x9b1m"},
    {"\xe2\x80\xaegnp.exe", "\\u{202e}gnp.exe"},
    {"\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f\xe2\x81\xa6\xe2\x81\xa9", "\\u{61c}\\u{200e}\\u{200f}\\u{2066}\\u{2069}"},
    {"zero\xe2\x80\x8bwidth\xef\xbb\xbf", "zero\\u{200b}width\\u{feff}"},
    {"soft\xc2\xadhyphen", "soft\\u{ad}hyphen"},
    {"line\xe2\x80\xa8paragraph\xe2\x80\xa9", "line\\u{2028}paragraph\\u{2029}"},
    {"private \xee\x80\x80", "private \\u{e000}"},
    {"noncharacter \xef\xbf\xbf", "noncharacter \\u{ffff}"},
    {"unassigned \xcd\xb8", "unassigned \\u{378}"},
    {"tag \xf3\xa0\x81\x81", "tag \\u{e0041}"},
    {"filler \xe3\x85\xa4", "filler \\u{3164}"},
    {"surrogate \xed\xa0\x80", "surrogate \\xed\\xa0\\x80"},
    {"overlong \xc0\xaf", "overlong \\xc0\\xaf"},
    {"cut short \xe2\x82", "cut short \\xe2\\x82"},
    {"e\xcc\x81", "e\xcc\x81"},
    {"\xcc\x81 opens", "\\u{301} opens"},
    {"z\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81", "z\xcc\x81\xcc\x81\xcc\x81\xcc\x81\\u{301}\\u{301}"},
    {"after an escape\x1b\xcc\x81", "after an escape\\x1b\\u{301}"},
    {"back\\slash", "back\\slash"},
};

static void texts_are_shown_as_the_rule_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		const struct example *x = &examples[i];
		char *out = visible_dup(x->text, strlen(x->text), 0, 0);

		assert_string_equal(out, x->shown);
		assert_int_equal(visible_check(x->text, strlen(x->text), NULL), strcmp(x->text, x->shown) == 0);
		free(out);
	}
}

static void flags_keep_lines_and_double_backslashes(void **state)
{
	char out[64];

	(void)state;
	visible_put(out, sizeof(out), "a\tb\nc\r\\", 7, VISIBLE_LINES | VISIBLE_BACKSLASH);
	assert_string_equal(out, "a\tb\nc\\r\\\\");
	/* NUL is a byte like the others. */
	visible_put(out, sizeof(out), "a\0b", 3, 0);
	assert_string_equal(out, "a\\x00b");
}

static void the_check_names_the_first_byte(void **state)
{
	size_t at = 0;

	(void)state;
	assert_false(visible_check("caf\xc3\xa9\xe2\x80\xae", 8, &at));
	assert_int_equal(at, 5);
}

static uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

static unsigned random_below(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)((seed >> 11) % n);
}

/* Bytes, hostile pieces, and code points of every kind. */
static size_t random_text(uint8_t *out, size_t max)
{
	static const char *const pieces[] = {"\x1b]52;c;aGk=\x07",
					     "\x1bP+q\x1b\\",
					     "\xc2\x9b"
					     "6n",
					     "\xe2\x80\xae",
					     "\xcc\x81\xcc\x81",
					     "\xe2\x80\xa8",
					     "\xf3\xa0\x80\xa0",
					     "\\u{202e}"};
	size_t n = 0, want = random_below((unsigned)max - 16);

	while (n < want) {
		unsigned kind = random_below(4), cp = random_below(0x110000);

		if (kind == 0) {
			out[n++] = (uint8_t)random_below(256);
		} else if (kind == 1) {
			const char *piece = pieces[random_below(8)];
			memcpy(out + n, piece, strlen(piece));
			n += strlen(piece);
		} else if (kind == 2) {
			out[n++] = (uint8_t)(0x20 + random_below(0x5f));
		} else if (cp >= 0x10000) {
			out[n++] = (uint8_t)(0xf0 | cp >> 18);
			out[n++] = (uint8_t)(0x80 | (cp >> 12 & 0x3f));
			out[n++] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
			out[n++] = (uint8_t)(0x80 | (cp & 0x3f));
		} else {
			cp = 0x80 + random_below(0x780);
			out[n++] = (uint8_t)(0xc0 | cp >> 6);
			out[n++] = (uint8_t)(0x80 | (cp & 0x3f));
		}
	}
	return n;
}

/* Whatever went in: whole characters, each of which may be seen, marks within bounds; and shown twice it is the same.
 */
static void assert_harmless(const char *s, size_t n)
{
	if (visible_check(s, n, NULL))
		return;
	fail_msg("what is shown has to be escaped again: \"%s\"", s);
}

static void random_texts_come_out_harmless(void **state)
{
	uint8_t text[400];
	char small[64];
	const char *count = getenv("TEXTS");
	unsigned texts = count ? (unsigned)atoi(count) : 100000;

	(void)state;
	for (unsigned i = 0; i < texts; i++) {
		size_t n = random_text(text, sizeof(text)), size = 4 + random_below(sizeof(small) - 4);
		char *all = visible_dup(text, n, 0, 0);

		assert_harmless(all, strlen(all));
		size_t len = visible_put(small, size, text, n, 0);
		assert_int_equal(len, strlen(small));
		assert_true(len < size);
		assert_harmless(small, len);
		/* Cut at an escape's or a character's end: what stands before the ellipsis begins the whole text. */
		if (len >= 3 && strcmp(small, all) != 0)
			assert_memory_equal(small, all, len - 3);
		free(all);
	}
}

static void json_keeps_its_value(void **state)
{
	uint8_t text[400];

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		size_t n = random_text(text, sizeof(text)), kept = 0;

		for (size_t at = 0, took; at < n; at += took ? took : 1) { /* what JSON can hold */
			took = utf8_step(text + at, n - at, NULL);
			memmove(text + kept, text + at, took);
			kept += text[at] || took > 1 ? took : 0;
		}
		json_t *o = json_pack("{s:o}", "t", json_stringn((char *)text, kept)), *back = NULL;
		char *plain = json_dumps(o, JSON_INDENT(2)), *shown = visible_json(plain);
		for (char *p = shown; *p; p++) {
			assert_true((uint8_t)*p >= 0x20 || *p == '\n');
			*p = *p == '\n' ? ' ' : *p; /* of the indentation */
		}
		assert_harmless(shown, strlen(shown));
		assert_int_equal(json_parse(shown, strlen(shown), 1 << 20, &back, NULL), 0);
		assert_true(json_equal(o, back));
		json_decref(back);
		json_decref(o);
		free(shown);
		free(plain);
	}
}

/* The table is what python's Unicode data say, and the pages' rule is the same one. */
static void the_table_is_unicodes(void **state)
{
	(void)state;
	assert_int_equal(system("python3 tests/lib/visible_table.py check base/visible_table.h"), 0);
	assert_int_equal(system("node tests/lib/visible_pages.mjs webclient/src/visible.ts base/visible_table.h"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(texts_are_shown_as_the_rule_says),
	    cmocka_unit_test(flags_keep_lines_and_double_backslashes),
	    cmocka_unit_test(the_check_names_the_first_byte),
	    cmocka_unit_test(random_texts_come_out_harmless),
	    cmocka_unit_test(json_keeps_its_value),
	    cmocka_unit_test(the_table_is_unicodes),
	};
	return cmocka_run_group_tests_name("visible", tests, NULL, NULL);
}
