// tier: check
/* What is looked for in lines: what matches, what is refused by name, and that nothing is slow. */
#include "base/clock.h"
#include "base/err.h"
#include "recorder/output/pattern.h"

#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct pattern *make(const char *text, unsigned flags)
{
	struct pattern *p = NULL;
	struct err e = {0};

	if (pattern_create(text, strlen(text), flags, &p, &e))
		fail_msg("%s: %s", text, e.message);
	return p;
}

static bool matches(const char *text, unsigned flags, const char *line)
{
	struct pattern *p = make(text, flags);
	bool found = pattern_matches(p, (const uint8_t *)line, strlen(line));

	assert_int_equal(pattern_matches(p, (const uint8_t *)line, strlen(line)), found); /* by what it remembers */
	pattern_destroy(p);
	return found;
}

static void text_is_found_as_it_is(void **state)
{
	(void)state;
	assert_true(matches("a.b", 0, "xa.bx"));
	assert_false(matches("a.b", 0, "axb"));
	assert_true(matches("", 0, ""));
	assert_true(matches("ERROR [1]", PATTERN_IGNORE_CASE, "an error [1] of it"));
	assert_false(matches("ERROR [1]", PATTERN_IGNORE_CASE, "an error 1 of it"));
}

static void expressions_match_what_they_say(void **state)
{
	static const struct {
		const char *pattern, *line;
		bool matches;
	} t[] = {
	    {"", "", true},
	    {"^$", "", true},
	    {"^$", "a", false},
	    {"abc", "xxabcxx", true},
	    {"^abc", "xabc", false},
	    {"abc$", "abcx", false},
	    {"^abc$", "abc", true},
	    {"a|b|cd", "xxcdxx", true},
	    {"a|b|cd", "xxcxd", false},
	    {"(ab)+c", "ababc", true},
	    {"^(ab)+c", "abac", false},
	    {"a{2,3}b", "xaab", true},
	    {"^a{2,3}b", "aaaab", false},
	    {"^a{2}$", "aa", true},
	    {"^a{2,}$", "aaaaaa", true},
	    {"^a{0}$", "", true},
	    {"colou?r", "the color", true},
	    {"^[a-c]+$", "abcabc", true},
	    {"^[^a-c]+$", "xyb", false},
	    {"[]x]", "]", true},
	    {"[a-]", "-", true},
	    {"\\d{3}-\\d{4}", "call 555-1234 now", true},
	    {"^\\w+\\s\\S+$", "one two", true},
	    {"\\D", "123", false},
	    {"\\.c:\\d+", "main.c:12: error", true},
	    {"a.c", "abc", true},
	    {"\\x41", "A", true},
	    {"(?:ab|cd)*e$", "abcdabe", true},
	    {"x*", "", true},
	    {"(a*)*b", "aaaaaaaac", false},
	    {"a*?b", "aab", true},
	    {"^(a|ab)(c|bcd)$", "abcd", true},
	    {"warning|^error: .*[0-9]+$", "error: line 12", true},
	    {"(^a|b$)", "xb", true},
	    {"(^a|b$)", "xbx", false},
	    {"\xc3\xa9t\xc3\xa9", "un \xc3\xa9t\xc3\xa9", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		if (matches(t[i].pattern, PATTERN_REGEX, t[i].line) != t[i].matches)
			fail_msg("%s and '%s'", t[i].pattern, t[i].line);
	assert_true(matches("^[a-c]X$", PATTERN_REGEX | PATTERN_IGNORE_CASE, "Bx"));
	assert_false(matches("[^a]", PATTERN_REGEX | PATTERN_IGNORE_CASE, "A"));
}

/* Of expressions by chance the C library says the same. */
static void the_c_library_agrees(void **state)
{
	static const char *const pieces[] = {"a",  "b",    "(a|b)", "a*", "(ab)*",   "b+",
					     "a?", "[ab]", "[^a]",  ".",  "(a|ba)+", "b{2}"};
	char text[256], line[32];

	(void)state;
	srandom(11);
	for (int i = 0; i < 3000; i++) {
		regex_t c;
		int n = 1 + (int)(random() % 5);

		snprintf(text, sizeof(text), "%s", random() % 4 == 0 ? "^" : "");
		while (n--)
			strcat(text, pieces[(size_t)random() % (sizeof(pieces) / sizeof(pieces[0]))]);
		if (random() % 4 == 0)
			strcat(text, "$");
		assert_int_equal(regcomp(&c, text, REG_EXTENDED | REG_NOSUB), 0);
		for (int k = 0; k < 10; k++) {
			size_t len = (size_t)random() % 12;

			for (size_t j = 0; j < len; j++)
				line[j] = "abc"[random() % 3];
			line[len] = 0;
			if (matches(text, PATTERN_REGEX, line) != (regexec(&c, line, 0, NULL, 0) == 0))
				fail_msg("%s and '%s'", text, line);
		}
		regfree(&c);
	}
}

static void what_is_not_known_is_refused_by_name_and_place(void **state)
{
	static const struct {
		const char *pattern, *says;
	} t[] = {
	    {"a(b", "a group without an end at character 4"},
	    {"a)b", "a ) that closes nothing at character 2"},
	    {"*a", "a repetition of nothing at character 1"},
	    {"a{3,1}", "a repetition that is none"},
	    {"a{2000}", "more than 1000 times"},
	    {"[a", "brackets without an end"},
	    {"[z-a]", "a range that ends before it begins"},
	    {"[\xc3\xa9]", "beyond ASCII"},
	    {"(a)\\1", "a backslash before what it means nothing at character 5"},
	    {"(?=a)", "a group of a kind that is not known"},
	    {"a\\", "a backslash with nothing behind it"},
	    {"(a{1000}){1000}", "too large"},
	    {"(){1000}{1000}{1000}{1000}", "too large"},
	};
	char *deep = calloc(1, 2 * 512 + 1);
	struct pattern *p = NULL;
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_true(pattern_create(t[i].pattern, strlen(t[i].pattern), PATTERN_REGEX, &p, &e) < 0);
		if (!strstr(e.message, t[i].says))
			fail_msg("%s: %s", t[i].pattern, e.message);
	}
	memset(deep, '(', 512);
	memset(deep + 512, ')', 512);
	assert_int_equal(pattern_create(deep, 1024, PATTERN_REGEX, &p, &e), ERR_INVAL);
	memset(deep, 'a', 1024);
	for (size_t i = 1; i < 1024; i += 2)
		deep[i] = '*';
	assert_int_equal(pattern_create(deep, 1024, PATTERN_REGEX, &p, &e), ERR_TOO_LARGE);
	free(deep);
}

/* What brings others to a standstill: a line of 16 KiB takes no longer than a few looks a byte. */
static void no_expression_is_slow(void **state)
{
	static const char *const hard[] = {
	    "(a*)*b",          "(a|a)*b", "(a|aa)+$x", "(.*)(.*)(.*)(.*)(.*)b", "(x+x+)+y", "(a|b)*a(a|b){180}c",
	    "(.{0,30}a){12}$b"};
	size_t n = 16 * 1024;
	uint8_t *line = malloc(n);

	(void)state;
	srandom(3);
	for (size_t i = 0; i < n; i++)
		line[i] = i % 3 ? 'a' : (uint8_t) "abx"[random() % 2];
	for (size_t i = 0; i < sizeof(hard) / sizeof(hard[0]); i++) {
		struct pattern *p = make(hard[i], PATTERN_REGEX);
		uint64_t before = clock_boot_ns();

		(void)pattern_matches(p, line, n);
		if (clock_boot_ns() - before > 5 * NS_PER_SEC) /* some 0.1 s; of the others, years */
			fail_msg("%s takes long", hard[i]);
		pattern_destroy(p);
	}
	free(line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(text_is_found_as_it_is), cmocka_unit_test(expressions_match_what_they_say),
	    cmocka_unit_test(the_c_library_agrees),   cmocka_unit_test(what_is_not_known_is_refused_by_name_and_place),
	    cmocka_unit_test(no_expression_is_slow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
