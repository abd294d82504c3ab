// tier: check, slice PATTERNS=30
/* Literal text and regular expressions: what matches, where, which errors are told, how long it takes; and as grep -E.
 */
#include "files/grep.h"
#include "files/match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct match *compiled(const char *pattern, unsigned flags)
{
	struct match_error err;
	struct match *m = match_new(pattern, strlen(pattern), flags, &err);

	if (!m)
		fail_msg("%s: at %zu: %s", pattern, err.at, err.why);
	return m;
}

/* "" as `want`: no match; else the text that is matched, and where the first one begins. */
static void matches(const char *pattern, unsigned flags, const char *line, const char *want, size_t from)
{
	struct match *m = compiled(pattern, flags);
	struct match_span span = {99, 99};
	enum match_result rc = match_line(m, line, strlen(line), &span);

	if (!want) {
		if (rc != MATCH_NO)
			fail_msg("/%s/ matches \"%s\" at %zu to %zu (%d)", pattern, line, span.from, span.to, rc);
	} else if (rc != MATCH_YES || span.from != from || span.to - span.from != strlen(want) ||
		   memcmp(line + span.from, want, strlen(want)) != 0) {
		fail_msg("/%s/ in \"%s\": %d, %zu to %zu, not \"%s\" at %zu", pattern, line, rc, span.from, span.to,
			 want, from);
	}
	assert_int_equal(match_line(m, line, strlen(line), NULL), rc);
	match_free(m);
}

static void test_what_matches(void **state)
{
	static const struct {
		const char *pattern, *line, *want;
		size_t from;
		unsigned flags;
	} table[] = {
	    /* text */
	    {"foo", "a foo b", "foo", 2, 0},
	    {"foo", "a fo o", NULL, 0, 0},
	    {"", "abc", "", 0, 0},
	    {"a.c(x)*", "-> a.c(x)* <-", "a.c(x)*", 3, MATCH_LITERAL},
	    {"Foo", "xfOO", "fOO", 1, MATCH_LITERAL | MATCH_NOCASE},
	    /* leftmost, then longest */
	    {"a|ab|abc", "xabcd", "abc", 1, 0},
	    {"b+|a", "bbba", "bbb", 0, 0},
	    {"a*", "baaa", "", 0, 0},
	    {"(a|ab)(c|bcd)", "abcd", "abcd", 0, 0},
	    {"x*?y", "xxxy", "xxxy", 0, 0},
	    /* classes */
	    {"[a-c]+", "xxabcabd", "abcab", 2, 0},
	    {"[^a-c]+", "abxyc", "xy", 2, 0},
	    {"[]a]+", "x]a]", "]a]", 1, 0},
	    {"[^]a]", "]ab", "b", 2, 0},
	    {"[a-]+", "b-a-", "-a-", 1, 0},
	    {"[[:alpha:]_]+\\(", "int main(void)", "main(", 4, 0},
	    {"[[:^digit:]]+", "12ab3", "ab", 2, 0},
	    {"[\\w.-]+@[\\w-]+\\.[a-z]{2,}", "to: a.b-c@d-e.org!", "a.b-c@d-e.org", 4, 0},
	    {"\\d{3}-\\d{4}", "call 555-1234 now", "555-1234", 5, 0},
	    {"\\D+", "12ab", "ab", 2, 0},
	    {"\\s+$", "code;  \t", "  \t", 5, 0},
	    {"\\S+", "  a1 ", "a1", 2, 0},
	    {"[\\]\\[]+", "a[]", "[]", 1, 0},
	    /* ends and words */
	    {"^a", "ba", NULL, 0, 0},
	    {"a$", "ab", NULL, 0, 0},
	    {"^$", "", "", 0, 0},
	    {"^$", "x", NULL, 0, 0},
	    {"^abc$", "abc", "abc", 0, 0},
	    {"\\bcat\\b", "concat cat", "cat", 7, 0},
	    {"\\Bcat", "cat concat", "cat", 7, 0},
	    {"\\<the\\>", "other the", "the", 6, 0},
	    {"a^b", "a^b", NULL, 0, 0},
	    {"(^|,)x(,|$)", "a,x", ",x", 1, 0},
	    {"cat", "concat cat", "cat", 7, MATCH_WORD},
	    {"a|b", "ab", NULL, 0, MATCH_WHOLE},
	    {"a|ab", "ab", "ab", 0, MATCH_WHOLE},
	    /* repeats */
	    {"a{3}", "aaaa", "aaa", 0, 0},
	    {"a{2,}", "baaaa", "aaaa", 1, 0},
	    {"a{,2}b", "aaab", "aab", 1, 0},
	    {"a{0}b", "ab", "b", 1, 0},
	    {"(ab){2,3}", "abababab", "ababab", 0, 0},
	    {"func() {", "func {", "func {", 0, 0},
	    {"{", "a{b", "{", 1, 0},
	    {"a{x}", "a{x}", "a{x}", 0, 0},
	    {"a{,}", "a{,}", "a{,}", 0, 0},
	    {"(a*)*b", "aab", "aab", 0, 0},
	    {"(a*)+", "b", "", 0, 0},
	    {"(|a)+b", "aab", "aab", 0, 0},
	    /* groups */
	    {"(?:ab)+", "xabab", "abab", 1, 0},
	    {"(?P<year>\\d{4})-(?<m>\\d\\d)", "on 2026-11", "2026-11", 3, 0},
	    {"(?i)hello", "HeLLo", "HeLLo", 0, 0},
	    {"a(?i)b|c", "C", "C", 0, 0},
	    {"a(?i:b)c", "aBc", "aBc", 0, 0},
	    {"a(?i:b)c", "aBC", NULL, 0, 0},
	    {"(?i-s:X)", "x", "x", 0, 0},
	    /* escapes */
	    {"\\t\\x41\\x{42}\\u0043", "\tABC", "\tABC", 0, 0},
	    {"a\\.b", "axb a.b", "a.b", 4, 0},
	    {"\\$\\{\\w+\\}", "${HOME}", "${HOME}", 0, 0},
	    {"a\\/b", "a/b", "a/b", 0, 0},
	    /* characters */
	    {"^.$", "é", "é", 0, 0},
	    {"^.{3}$", "日本語", "日本語", 0, 0},
	    {"[а-я]+", "xпривет", "привет", 1, 0},
	    {"ПРИВЕТ", "привет", "привет", 0, MATCH_NOCASE},
	    {"[^a]", "é", "é", 0, 0},
	    {"é+", "ééx", "éé", 0, 0},
	    {"😀", "a😀", "😀", 1, 0},
	    {"[😀-😂]", "😁", "😁", 0, 0},
	    {"^.$", "\xff", NULL, 0, 0},
	    {"^.$", "\xff", "\xff", 0, MATCH_BYTES},
	    {"^..$", "é", "é", 0, MATCH_BYTES},
	    {"a.b", "a\xc3\x28 a-b", "a-b", 4, 0},
	    {"straße", "STRASSE", NULL, 0, MATCH_NOCASE},
	    {"É", "é", "é", 0, MATCH_NOCASE},
	    {"[^k]", "K", NULL, 0, MATCH_NOCASE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		matches(table[i].pattern, table[i].flags, table[i].line, table[i].want, table[i].from);
}

static void test_errors_name_place_and_cure(void **state)
{
	static const struct {
		const char *pattern;
		size_t at;
		const char *part;
	} table[] = {
	    {"*a", 0, "nothing before * to repeat: write \\*"},
	    {"a|+", 2, "nothing before +"},
	    {"(?", 2, "( without its )"},
	    {"foo(", 3, "( without its ): write \\("},
	    {"foo)", 3, ") without its (: write \\)"},
	    {"a[bc", 1, "[ without its ]: write \\["},
	    {"[]", 0, "[ without its ]"},
	    {"[z-a]", 1, "backwards"},
	    {"[a-\\d]", 1, "cannot end in a class"},
	    {"[[:foo:]]", 1, "unknown class name"},
	    {"a\\", 1, "ends in a backslash"},
	    {"\\y", 0, "unknown escape \\y"},
	    {"(a)\\1", 3, "backreferences (\\1) are not supported"},
	    {"a(?=b)", 1, "lookahead is not supported"},
	    {"(?!b)", 0, "lookahead"},
	    {"(?<=a)b", 0, "lookbehind is not supported"},
	    {"(?<!a)b", 0, "lookbehind"},
	    {"(?#x)", 0, "unknown kind of group"},
	    {"(?P<x", 0, "name ends with >"},
	    {"a++", 2, "possessive"},
	    {"a{3,2}", 1, "backwards: {3,2}"},
	    {"a{1001}", 1, "above 1000"},
	    {"\\p{L}", 0, "is not supported: write a class"},
	    {"\\x{110000}", 2, "not a character's number"},
	    {"\\xg", 2, "not a character's number"},
	    {"\xff", 0, "not UTF-8"},
	    {"(a{1000}){1000}", 0, "too large"},
	    {".{1000}{1000}", 0, "too large"},
	    {"((((((){1000}){1000}){1000}){1000}){1000}){1000}", 0, "too large"},
	    {"a*********", 9, "repeats of a repeat"},
	};
	struct match_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct match *m = match_new(table[i].pattern, strlen(table[i].pattern), 0, &err);

		if (m || err.at != table[i].at || !strstr(err.why, table[i].part))
			fail_msg("%s: %s at %zu \"%s\", not at %zu \"%s\"", table[i].pattern, m ? "taken" : "refused",
				 err.at, err.why, table[i].at, table[i].part);
	}
	char *deep = calloc(1, 5001);

	memset(deep, '(', 300);
	assert_null(match_new(deep, 300, 0, &err));
	assert_non_null(strstr(err.why, "groups in each other"));
	memset(deep, 'a', 5000);
	assert_null(match_new(deep, 5000, 0, &err));
	assert_non_null(strstr(err.why, "longer than 4096"));
	free(deep);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A line that makes a backtracking engine take years takes as long as any of this length. */
static void test_hostile_expressions_take_linear_time(void **state)
{
	static const char *const patterns[] = {"(a+)+$",        "(a|a)*b",           "(a*)*b",
					       "(.*)*=(.*)*;",  "a?a?a?a?a?a?a{6}b", "(x+x+)+y",
					       "(a|b|ab)*c",    "([a-z]+)*[0-9]{5}", "(a{0,200}){0,50}b",
					       ".*.*.*.*.*=.*", "(\\w+\\s?)*!",      "^(([a-z])+.)+[A-Z]([a-z])+$"};
	const size_t n = 1 << 20;
	char *text = malloc(n);

	(void)state;
	assert_non_null(text);
	memset(text, 'a', n);
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		struct match *m = compiled(patterns[i], 0);
		struct match_span span;
		double from = seconds();

		match_line(m, text, n, &span);
		if (seconds() - from > 5)
			fail_msg("%s: %.1f s", patterns[i], seconds() - from);
		match_free(m);
	}
	free(text);
}

/* An expression whose states never repeat ends at the budget, and says so. */
static void test_work_is_bounded(void **state)
{
	struct match *m = compiled("[ab]*a[ab]{900}c", 0);
	const size_t n = 4 << 20;
	char *text = malloc(n);
	unsigned seed = 1;

	(void)state;
	for (size_t i = 0; i < n; i++)
		text[i] = "ab"[rand_r(&seed) >> 8 & 1];
	text[0] = 'c';
	double from = seconds();
	assert_int_equal(match_line(m, text, n, NULL), MATCH_TOO_COMPLEX);
	assert_true(seconds() - from < 20);
	assert_int_equal(match_line(m, text, n, NULL), MATCH_TOO_COMPLEX);
	match_refuel(m);
	assert_int_equal(match_line(m, "ca", 2, NULL), MATCH_NO);
	match_free(m);
	free(text);
}

static void test_beginnings(void **state)
{
	struct match *m = compiled("src/[^/]*/x|lib", MATCH_BYTES | MATCH_WHOLE);

	(void)state;
	assert_int_equal(match_begins(m, "src/", 4), MATCH_YES);
	assert_int_equal(match_begins(m, "src/a", 5), MATCH_YES);
	assert_int_equal(match_begins(m, "src/a/b", 7), MATCH_NO);
	assert_int_equal(match_begins(m, "l", 1), MATCH_YES);
	assert_int_equal(match_begins(m, "x", 1), MATCH_NO);
	match_free(m);
}

/* --- lines */

struct heard {
	char text[4096];
	size_t n, stop_after, lines;
};

static bool hear(void *arg, const struct grep_line *line)
{
	struct heard *h = arg;

	h->n += (size_t)snprintf(h->text + h->n, sizeof(h->text) - h->n, "%llu%c%.*s@%llu ",
				 (unsigned long long)line->number, line->match ? ':' : '-', (int)line->n, line->p,
				 (unsigned long long)line->offset);
	return ++h->lines != h->stop_after;
}

struct search {
	const char *pattern, *text;
	unsigned before, after;
	bool invert;
	size_t stop_after;
	const char *want;
};

/* In parts of `part` bytes, as a stream with a buffer that only holds what it has to. */
static void search_in_parts(const struct search *s, size_t part)
{
	struct heard h = {.stop_after = s->stop_after};
	struct grep g = {.match = compiled(s->pattern, 0),
			 .before = s->before,
			 .after = s->after,
			 .invert = s->invert,
			 .told = hear,
			 .arg = &h};
	size_t n = strlen(s->text), at = 0, have = 0, drop;
	char buf[512];
	enum grep_result rc = GREP_DONE;

	while (rc == GREP_DONE && (at < n || at == 0)) {
		size_t take = n - at < part ? n - at : part;

		memcpy(buf + have, s->text + at, take);
		have += take;
		at += take;
		rc = grep_run(&g, buf, have, at == n ? GREP_LAST : GREP_MORE, &drop);
		memmove(buf, buf + drop, have - drop);
		have -= drop;
		if (n == 0)
			break;
	}
	if (strcmp(h.text, s->want) != 0)
		fail_msg("/%s/ in parts of %zu: \"%s\", not \"%s\"", s->pattern, part, h.text, s->want);
	match_free(g.match);
}

static void test_lines_with_context(void **state)
{
	static const struct search table[] = {
	    {"x", "a\nx\nb\n", 0, 0, false, 0, "2:x@2 "},
	    {"x", "a\nb\nx\nc\nd\n", 1, 1, false, 0, "2-b@2 3:x@4 4-c@6 "},
	    {"x", "x\na\nx\nb\nc\nx", 1, 1, false, 0, "1:x@0 2-a@2 3:x@4 4-b@6 5-c@8 6:x@10 "},
	    {"x", "x\na\nb\nc\nx\n", 9, 0, false, 0, "1:x@0 2-a@2 3-b@4 4-c@6 5:x@8 "},
	    {"x", "x\r\nax\r\nb\r\n", 0, 1, false, 0, "1:x@0 2:ax@3 3-b@7 "},
	    {"x$", "x\r\n", 0, 0, false, 0, "1:x@0 "},
	    {"x", "x\nx\nx\n", 0, 0, false, 2, "1:x@0 2:x@2 "},
	    {"[xy]", "a\ny\n\n\nx\nb", 2, 0, false, 0, "1-a@0 2:y@2 3-@4 4-@5 5:x@6 "},
	    {"x", "a\nx\nb\n", 0, 0, true, 0, "1:a@0 3:b@4 "},
	    {"^$", "\n\na\n\n", 0, 0, false, 0, "1:@0 2:@1 4:@4 "},
	    {"x", "", 0, 0, false, 0, ""},
	    {"x", "\n", 5, 5, false, 0, ""},
	    {"", "a\nb", 0, 0, false, 0, "1:a@0 2:b@2 "},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		for (size_t part = 1; part < 24; part++)
			search_in_parts(&table[i], part);
}

/* A line that is longer than the buffer comes in pieces of one number. */
static void test_a_full_buffer(void **state)
{
	struct heard h = {.n = 0};
	struct grep g = {.match = compiled("x", 0), .before = 2, .told = hear, .arg = &h};
	size_t drop;

	(void)state;
	grep_run(&g, "a\nbxb", 5, GREP_FULL, &drop);
	assert_int_equal(g.kept, 5 - drop);
	char rest[32] = "a\nbxb";
	memmove(rest, rest + drop, 5 - drop);
	strcpy(rest + 5 - drop, "cx\nd\nx");
	grep_run(&g, rest, strlen(rest), GREP_LAST, &drop);
	assert_string_equal(h.text, "1-a@0 2:bxb@2 2:cx@5 3-d@8 4:x@10 ");
	match_free(g.match);
}

/* --- as grep -E has it */

static unsigned seed = 7;

static unsigned any(unsigned n)
{
	return (unsigned)rand_r(&seed) / 7 % n;
}

static void add(char *out, const char *part)
{
	strcat(out, part);
}

/* Words are ASCII's here, and the locale's in grep: they are compared over ASCII. */
static void random_pattern(char *out, unsigned depth, bool words)
{
	static const char *const atoms[] = {"a",   "b",    "c",    ".",   "[ab]",         "[^a]",     "bc",
					    "1",   "1",    "\\.",  "_",   "ab",           "[a-c1-3]", "\\s",
					    "é",   "[éü]", "[^é]", "日",  /* or */ "\\w", "\\b",      "[[:digit:]]",
					    "\\B", "\\<",  "\\>",  "\\W", "[[:alpha:]]"};
	static const char *const repeats[] = {"", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}"};

	for (unsigned i = 0, n = 1 + any(3); i < n; i++) {
		bool plain = any(4) || depth == 0;
		unsigned which = any(18);
		const char *atom = atoms[words && which >= 14 ? 18 + any(8) : which];
		bool empty = !plain || (atom[0] == '\\' && strchr("bB<>", atom[1]));

		if (i && any(6) == 0)
			add(out, "|");
		if (plain) {
			add(out, atom);
		} else {
			add(out, "(");
			random_pattern(out, depth - 1, words);
			add(out, ")");
		}
		/* A repeated anchor means something of its own to grep. */
		if (!empty || !plain)
			add(out, repeats[any(plain ? 10 : 6)]);
	}
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
	assert_int_equal(fclose(f), 0);
}

/* false: grep did not get through in time; its repeats of groups backtrack. */
static bool read_command(const char *command, char *out, size_t size)
{
	FILE *f = popen(command, "r");

	assert_non_null(f);
	out[fread(out, 1, size - 1, f)] = 0;
	int rc = pclose(f);
	if (rc != 0 && rc != 1 << 8 && rc != 124 << 8)
		fail_msg("%s: %d", command, rc);
	return rc != 124 << 8;
}

static bool hear_number(void *arg, const struct grep_line *line)
{
	char *out = arg;

	sprintf(out + strlen(out), "%llu:%.*s\n", (unsigned long long)line->number, (int)line->n, line->p);
	return true;
}

/* The first text matched in each line, which `grep -o` tells first, too. Empty ones it does not tell. */
static bool hear_span(void *arg, const struct grep_line *line)
{
	char *out = arg;

	if (line->span.to > line->span.from)
		sprintf(out + strlen(out), "%llu:%.*s\n", (unsigned long long)line->number,
			(int)(line->span.to - line->span.from), line->p + line->span.from);
	return true;
}

static void first_of_each(char *text)
{
	char *out = text, last[16] = "";

	for (char *line = text, *next; *line; line = next) {
		next = strchr(line, '\n') + 1;
		size_t number = strcspn(line, ":") + 1, n = (size_t)(next - line);

		if (strncmp(last, line, number) == 0)
			continue;
		snprintf(last, sizeof(last), "%.*s", (int)number, line);
		memmove(out, line, n);
		out += n;
	}
	*out = 0;
}

static bool compare_with_grep(const char *dir, const char *pattern, const char *text, bool nocase)
{
	static char command[512], theirs[65536], ours[65536];
	bool (*const hears[])(void *, const struct grep_line *) = {hear_number, hear_span};

	snprintf(command, sizeof(command), "%s/pattern", dir);
	write_file(command, pattern);
	for (int spans = 0; spans < 2; spans++) {
		struct grep g = {
		    .match = compiled(pattern, nocase ? MATCH_NOCASE : 0), .told = hears[spans], .arg = ours};
		size_t drop;

		ours[0] = 0;
		assert_int_equal(grep_run(&g, text, strlen(text), GREP_LAST, &drop), GREP_DONE);
		match_free(g.match);
		snprintf(command, sizeof(command), "LC_ALL=C.UTF-8 timeout 1 grep -aE%s%sn -f %s/pattern %s/text",
			 spans ? "o" : "", nocase ? "i" : "", dir, dir);
		if (!read_command(command, theirs, sizeof(theirs)))
			return false;
		if (spans)
			first_of_each(theirs);
		/* Where an empty match comes first, grep -o goes on to one that is not. */
		if (spans && strlen(theirs) != strlen(ours))
			continue;
		if (strcmp(ours, theirs) != 0)
			fail_msg("/%s/%s\nours:\n%s\ngrep's:\n%s", pattern, nocase ? "i" : "", ours, theirs);
	}
	return true;
}

static void test_as_grep(void **state)
{
	static const char *const pieces[] = {"a", "b", "c",  "ab", " ", "1", "_", ".",
					     "A", "B", "\t", "ba", "é", "ü", "日"};
	char dir[] = "/tmp/test_match.XXXXXX", path[64], text[4096], pattern[512];
	const char *given = getenv("PATTERNS"); /* of each kind of text (125) */
	int patterns = given ? atoi(given) : 125, compared = 0;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/text", dir);
	for (int words = 0; words < 2; words++) {
		text[0] = 0;
		for (int line = 0; line < 80; line++) {
			for (unsigned n = any(9); n; n--)
				add(text, pieces[any(words ? 12 : 15)]);
			add(text, "\n");
		}
		write_file(path, text);
		for (int i = 0; i < patterns; i++) {
			/* An anchor in the middle, grep does not find in every line where it holds. */
			strcpy(pattern, any(4) ? "" : "^");
			random_pattern(pattern, 2, words);
			add(pattern, any(4) ? "" : "$");
			compared += compare_with_grep(dir, pattern, text, i % 4 == 0);
		}
	}
	assert_true(compared > patterns * 8 / 5);
	unlink(path);
	snprintf(path, sizeof(path), "%s/pattern", dir);
	unlink(path);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_matches),
	    cmocka_unit_test(test_errors_name_place_and_cure),
	    cmocka_unit_test(test_hostile_expressions_take_linear_time),
	    cmocka_unit_test(test_work_is_bounded),
	    cmocka_unit_test(test_beginnings),
	    cmocka_unit_test(test_lines_with_context),
	    cmocka_unit_test(test_a_full_buffer),
	    cmocka_unit_test(test_as_grep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
