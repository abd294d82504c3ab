// tier: check
/* Patterns of names, ignore rules, binary or text, cuts at characters; and as git check-ignore has them. */
#include "files/content.h"
#include "files/glob.h"
#include "files/ignore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static struct glob *compiled(const char *pattern, unsigned flags)
{
	struct match_error err;
	struct glob *g = glob_new(pattern, strlen(pattern), flags, &err);

	if (!g)
		fail_msg("%s: at %zu: %s", pattern, err.at, err.why);
	return g;
}

static void test_paths(void **state)
{
	/* Patterns of calls; paths that match, then, behind "!", paths that do not. A path with / at its end is a
	 * directory. */
	static const struct {
		const char *pattern, *paths[10];
	} table[] = {
	    {"*.c", {"a.c", ".c", "é.c", "\xff.c", "a\nb.c", "!a.h", "!d/a.c", "!a.cc", "!"}},
	    {"**/*.c", {"a.c", "d/a.c", "d/e/a.c", "!d/a.h", "!a.c/b"}},
	    {"src/**", {"src/a", "src/a/b", "!src", "!srcs/a", "!a/src/b"}},
	    {"src/**/x", {"src/x", "src/a/x", "src/a/b/x", "!src/ax", "!srcx"}},
	    {"**", {"a", "a/b", ".git"}},
	    {"a**b", {"ab", "axxb", "!a/b"}},
	    {"a?c", {"abc", "a.c", "!ac", "!a/c", "!abbc"}},
	    {"[a-c]x", {"ax", "cx", "!dx", "!/x"}},
	    {"[!a-c]x", {"dx", "!ax", "!/x"}},
	    {"[^a]x", {"bx", "!ax"}},
	    {"[]a]", {"]", "a", "!b"}},
	    {"[a-]", {"-", "a", "!b"}},
	    {"[[:digit:]_]*", {"1", "_a", "!a1"}},
	    {"[[:foo]", {"[", ":", "f", "o", "!x"}},
	    {"a[b/c]d", {"abd", "acd", "!a/d"}},
	    {"\\*.c", {"*.c", "!a.c"}},
	    {"*.{c,h}", {"a.c", "a.h", "!a.o", "!a.{c,h}"}},
	    {"{src,lib}/**/*.{ts,tsx}", {"src/a.ts", "lib/x/y/b.tsx", "!test/a.ts", "!src/a.js"}},
	    {"{a,b{c,d},}x", {"ax", "bcx", "bdx", "x", "!bx"}},
	    {"{**/,}x", {"x", "a/x", "a/b/x", "!ax"}},
	    {"a.{b}", {"a.b", "!a.{b}"}},
	    {"\\{a,b\\}", {"{a,b}", "!a"}},
	    {"a,b}", {"a,b}", "!a"}},
	    {"build/", {"build/", "!build", "!a/build/"}},
	    {"./a", {"a", "!./a"}},
	    {"/a", {"a", "!b/a"}},
	    {"(a|b)+.$^", {"(a|b)+.$^", "!a"}},
	    {"", {"!a"}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct glob *g = compiled(table[i].pattern, GLOB_BRACES);

		for (const char *const *p = table[i].paths; *p; p++) {
			const char *path = *p + (**p == '!');
			size_t n = strlen(path);
			bool dir = n && path[n - 1] == '/';

			if (glob_path(g, path, n - dir, dir) != (**p == '!' ? MATCH_NO : MATCH_YES))
				fail_msg("%s: %s", table[i].pattern, *p);
		}
		glob_free(g);
	}
	struct glob *g = compiled("{a,b}.C", GLOB_NOCASE);
	assert_int_equal(glob_path(g, "{A,b}.c", 7, false), MATCH_YES);
	glob_free(g);
}

static void test_where_a_walk_need_not_go(void **state)
{
	static const struct {
		const char *pattern, *dir;
		bool below;
	} table[] = {
	    {"*.c", "src", false},      {"**/*.c", "src/deep", true}, {"src/**/x", "src", true},
	    {"src/**/x", "lib", false}, {"src/*.c", "src/a", false},  {"{src,lib}/*", "lib", true},
	    {"a/b/c", "a/b", true},     {"a/b/c", "a/c", false},      {"*.c", "", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct glob *g = compiled(table[i].pattern, GLOB_BRACES);

		if (glob_below(g, table[i].dir, strlen(table[i].dir)) != (table[i].below ? MATCH_YES : MATCH_NO))
			fail_msg("%s below %s", table[i].pattern, table[i].dir);
		glob_free(g);
	}
}

static void test_errors(void **state)
{
	static const struct {
		const char *pattern;
		size_t at;
		const char *part;
	} table[] = {
	    {"a[bc", 1, "[ without its ]"},
	    {"./a{b,c", 3, "{ without its }"},
	    {"a\\", 1, "ends in a backslash"},
	    {"[[:foo:]]", 1, "unknown class name"},
	};
	struct match_error err;
	char large[2000];

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct glob *g = glob_new(table[i].pattern, strlen(table[i].pattern), GLOB_BRACES, &err);

		if (g || err.at != table[i].at || !strstr(err.why, table[i].part))
			fail_msg("%s: at %zu: %s", table[i].pattern, err.at, err.why);
	}
	memset(large, '*', sizeof(large));
	assert_null(glob_new(large, sizeof(large), 0, &err));
	memset(large, '{', sizeof(large));
	memset(large + 500, '}', 500);
	assert_null(glob_new(large, 1000, GLOB_BRACES, &err));
	assert_non_null(strstr(err.why, "in each other"));
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Patterns that make a matcher that goes back take years, and alternatives that would be a million patterns. */
static void test_hostile_patterns(void **state)
{
	static const char *const patterns[] = {
	    "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "**/a/**/a/**/a/**/a/**/a/**/a/**/b",
	    "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}x",
	    "{{{{{{*,*},*},*},*},*},*}b"};
	char path[4000];

	(void)state;
	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 2 && i < 2000 ? '/' : 'a';
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		struct glob *g = compiled(patterns[i], GLOB_BRACES);
		double from = seconds();

		for (int k = 0; k < 100; k++)
			assert_int_equal(glob_path(g, path, sizeof(path), false), MATCH_NO);
		assert_true(seconds() - from < 5);
		glob_free(g);
	}
}

/*
 * Each path takes states of its own, an `a` 700 bytes before the end is what matches: the work for one is not lacking
 * for the next. Ignore rules and lists of paths ask by the same function.
 */
static void test_the_last_of_many_paths(void **state)
{
	char pattern[1024] = "*a", path[1401];
	struct glob *g;
	unsigned seed = 1;

	(void)state;
	memset(pattern + 2, '?', 699);
	g = compiled(pattern, 0);
	for (int k = 0; k < 120; k++) {
		for (size_t i = 0; i < sizeof(path); i++)
			path[i] = rand_r(&seed) & 256 ? 'a' : 'b';
		assert_int_equal(glob_path(g, path, sizeof(path), false),
				 path[sizeof(path) - 700] == 'a' ? MATCH_YES : MATCH_NO);
		assert_int_equal(glob_below(g, path, sizeof(path)), MATCH_NO);
	}
	glob_free(g);
}

/* The largest patterns and the longest path: one path takes less than the work that there is for it. */
static void test_one_path_is_never_too_complex(void **state)
{
	static const char *const parts[] = {"?", "*?", "*a", "?*/", "[!b]*", "{*?,*}"};
	char pattern[GLOB_PATTERN_MAX + 1], path[4095];
	unsigned seed = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = rand_r(&seed) & 256 ? 'a' : 'b';
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct match_error err;
		struct glob *g = NULL;

		/* As often as it fits into the expression that becomes of it. */
		for (size_t times = (GLOB_PATTERN_MAX - 3) / strlen(parts[i]); times && !g; times--) {
			strcpy(pattern, "*a");
			for (size_t k = 0; k < times; k++)
				strcat(pattern, parts[i]);
			strcat(pattern, "x");
			g = glob_new(pattern, strlen(pattern), GLOB_BRACES, &err);
		}
		assert_non_null(g);
		assert_int_equal(glob_path(g, path, sizeof(path), false), MATCH_NO);
		assert_int_not_equal(glob_below(g, path, sizeof(path)), MATCH_TOO_COMPLEX);
		glob_free(g);
	}
}

/* --- ignore rules */

static void test_rules(void **state)
{
	static const struct {
		const char *rules, *paths[10]; /* "!": not left out; / at the end: a directory */
	} table[] = {
	    {"*.o\n", {"a.o", "d/a.o", "!a.c", "a.o/b"}},
	    {"/build\n", {"build", "build/x", "!d/build"}},
	    {"build/\n", {"build/", "d/build/", "build/x", "!build"}},
	    {"a/b\n", {"a/b", "a/b/c", "!x/a/b"}},
	    {"*.log\n!keep.log\n", {"a.log", "!keep.log", "!d/keep.log"}},
	    {"dir/\n!dir/keep\n", {"dir/keep"}},
	    {"dir/*\n!dir/keep\n", {"dir/x", "!dir/keep"}},
	    {"**/x\n", {"x", "a/x", "a/b/x"}},
	    {"a/**/b\n", {"a/b", "a/x/b", "!a/xb"}},
	    {"a/**\n", {"a/b", "a/b/c", "!a/"}},
	    {"# no\n\n \n\\#yes\n\\!yes\n", {"#yes", "!no", "!# no"}},
	    {"a  \nb\\ \nc \\ d\n", {"a", "b ", "c  d", "!b"}},
	    {"a\r\nb\r\n", {"a", "b"}},
	    {"[\na[\nx\n", {"x", "!["}},
	    {"*.{c,h}\n", {"a.{c,h}", "!a.c"}},
	    {"\xef\xbb\xbf"
	     "a",
	     {"a"}},
	    {"./a\n//b\n/\n", {"!a", "!b"}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct ignore *list = ignore_new();
		struct match_error err;

		assert_int_equal(ignore_add(list, "", table[i].rules, strlen(table[i].rules), &err), 0);
		for (const char *const *p = table[i].paths; *p; p++) {
			const char *path = *p + (**p == '!');
			size_t n = strlen(path);
			bool dir = path[n - 1] == '/';

			if (ignore_path(list, path, n - dir, dir) != (**p == '!' ? MATCH_NO : MATCH_YES))
				fail_msg("%s: %s", table[i].rules, *p);
		}
		ignore_free(list);
	}
}

static void test_rules_of_directories(void **state)
{
	struct ignore *list = ignore_new();
	struct match_error err;

	(void)state;
	assert_int_equal(ignore_add(list, "", "*.o\n", 4, &err), 0);
	size_t mark = ignore_mark(list);
	assert_int_equal(ignore_add(list, "d/e", "!a.o\n/x\n", 8, &err), 0);
	assert_int_equal(ignore_path(list, "a.o", 3, false), MATCH_YES);
	assert_int_equal(ignore_path(list, "d/e/a.o", 7, false), MATCH_NO);
	assert_int_equal(ignore_path(list, "d/e/x", 5, false), MATCH_YES);
	assert_int_equal(ignore_path(list, "d/e/f/x", 7, false), MATCH_NO);
	assert_int_equal(ignore_path(list, "d/ex", 4, false), MATCH_NO);
	ignore_release(list, mark);
	assert_int_equal(ignore_path(list, "d/e/a.o", 7, false), MATCH_YES);
	assert_int_equal(ignore_path(list, "d/e/x", 5, false), MATCH_NO);
	char *many = malloc(2 * (IGNORE_RULES_MAX + 1));
	for (size_t i = 0; i <= IGNORE_RULES_MAX; i++)
		memcpy(many + 2 * i, "a\n", 2);
	assert_int_equal(ignore_add(list, "", many, 2 * (IGNORE_RULES_MAX + 1), &err), -1);
	assert_non_null(strstr(err.why, "10000 ignore rules"));
	assert_int_equal(ignore_mark(list), mark);
	free(many);
	ignore_free(list);
}

/* --- as git has it */

static unsigned seed = 5;

static unsigned any(unsigned n)
{
	return (unsigned)rand_r(&seed) / 7 % n;
}

static const char *const tree[] = {"a",       "b",     "ab",    "a.o",    "d/",       "d/a",      "d/b.o",
				   "d/d/",    "d/d/a", "d/e/",  "d/e/ab", "e/",       "e/d/",     "e/d/b",
				   "e/a.o",   "e/x y", "x-y",   "]",      "#h",       "!n",       "e/d/e/",
				   "e/d/e/a", "b d/",  "b d/a", "build/", "build/a/", "build/a/d"};

static void random_rule(char *out)
{
	static const char *const parts[] = {"a",   "b",    "d",    "e",     "*",     "**",  "/",    "/",
					    "?",   "[ab]", "[!a]", ".o",    "[a-d]", "\\a", "**/",  "/**",
					    "*.o", " ",    "ab",   "build", "[]]",   "]",   "[^/]", "\\*"};

	const char *start = out;

	out += sprintf(out, "%s", any(4) ? "" : any(3) ? "!" : "/");
	for (unsigned n = 1 + any(4); n; n--) {
		const char *part = parts[any(sizeof(parts) / sizeof(parts[0]))];

		/* Behind text, git 2.39 takes ** for names too, against its own page. */
		if (part[0] == '*' && out > start && out[-1] != '/')
			part = "*";
		if (part[0] == '*' && out > start && out[-1] == '*')
			continue;
		out += sprintf(out, "%s", part);
	}
	sprintf(out, "%s\n", any(5) ? "" : "/");
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
	assert_int_equal(fclose(f), 0);
}

static void make_tree(void)
{
	char command[128];

	for (size_t i = 0; i < sizeof(tree) / sizeof(tree[0]); i++) {
		size_t n = strlen(tree[i]);

		if (tree[i][n - 1] == '/') {
			snprintf(command, sizeof(command), "mkdir -p '%s'", tree[i]);
			assert_int_equal(system(command), 0);
		} else {
			write_file(tree[i], "");
		}
	}
}

/* The paths that `git check-ignore` names, with one rule set after the other. */
static void compare_with_git(const char *rules)
{
	static char theirs[4096], ours[4096];
	struct ignore *list = ignore_new();
	struct match_error err;

	write_file(".gitignore", rules);
	FILE *f = popen("git check-ignore --no-index --stdin <paths", "r");
	assert_non_null(f);
	theirs[fread(theirs, 1, sizeof(theirs) - 1, f)] = 0;
	int rc = pclose(f);
	assert_true(rc == 0 || rc == 1 << 8);
	ours[0] = 0;
	assert_int_equal(ignore_add(list, "", rules, strlen(rules), &err), 0);
	for (size_t i = 0; i < sizeof(tree) / sizeof(tree[0]); i++) {
		size_t n = strlen(tree[i]);
		bool dir = tree[i][n - 1] == '/';

		if (ignore_path(list, tree[i], n - dir, dir) == MATCH_YES)
			sprintf(ours + strlen(ours), "%.*s\n", (int)(n - dir), tree[i]);
	}
	ignore_free(list);
	if (strcmp(ours, theirs) != 0)
		fail_msg("%s\nours:\n%s\ngit's:\n%s", rules, ours, theirs);
}

static void test_as_git(void **state)
{
	char dir[] = "/tmp/test_glob.XXXXXX", rules[512], paths[2048] = "", command[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(system("git init -q ."), 0);
	make_tree();
	for (size_t i = 0; i < sizeof(tree) / sizeof(tree[0]); i++)
		sprintf(paths + strlen(paths), "%.*s\n", (int)strlen(tree[i]) - (tree[i][strlen(tree[i]) - 1] == '/'),
			tree[i]);
	write_file("paths", paths);
	for (int i = 0; i < 250; i++) {
		rules[0] = 0;
		for (unsigned n = 1 + any(4); n; n--)
			random_rule(rules + strlen(rules));
		compare_with_git(rules);
	}
	assert_int_equal(chdir("/"), 0);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

/* --- contents */

static void test_binary_or_text(void **state)
{
	char png[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", elf[] = "\x7f"
							      "ELF\2\1\1\0";
	char latin[] = "caf\xe9 cr\xe8me\n", utf16[] = "\xff\xfeh\0i\0";

	(void)state;
	assert_true(content_is_binary(png, sizeof(png)));
	assert_true(content_is_binary(elf, sizeof(elf)));
	assert_true(content_is_binary(utf16, sizeof(utf16) - 1));
	assert_true(content_is_binary("\1\2\3\4abc", 7));
	assert_false(content_is_binary("", 0));
	assert_false(content_is_binary(NULL, 0));
	assert_false(content_is_binary(latin, sizeof(latin) - 1));
	assert_false(content_is_binary("\x1b[31mred\x1b[0m\t\r\n\f", 16));
	assert_false(content_is_binary("日本語\n", 10));
}

static void test_cuts(void **state)
{
	char out[16];

	(void)state;
	assert_int_equal(content_cut("abc", 3, 5), 3);
	assert_int_equal(content_cut("abc", 3, 2), 2);
	assert_int_equal(content_cut("aé", 3, 2), 1);
	assert_int_equal(content_cut("日本", 6, 5), 3);
	assert_int_equal(content_cut("日本", 6, 2), 0);
	assert_int_equal(content_cut("😀", 4, 3), 0);
	assert_int_equal(content_cut("\xff\xff\xff", 3, 2), 2);
	assert_int_equal(content_cut("a\xe6\x97", 3, 2), 2);
	assert_int_equal(content_quote(out, sizeof(out), "a\tb\x1b\xff", 5), 5);
	assert_string_equal(out, "a b??");
	content_quote(out, 8, "日本語", 9);
	assert_string_equal(out, "日...");
	content_quote(out, sizeof(out), "0123456789abcdefg", 17);
	assert_string_equal(out, "0123456789ab...");
	content_quote(out, 1, "abc", 3);
	assert_string_equal(out, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_paths),
	    cmocka_unit_test(test_where_a_walk_need_not_go),
	    cmocka_unit_test(test_errors),
	    cmocka_unit_test(test_hostile_patterns),
	    cmocka_unit_test(test_the_last_of_many_paths),
	    cmocka_unit_test(test_one_path_is_never_too_complex),
	    cmocka_unit_test(test_rules),
	    cmocka_unit_test(test_rules_of_directories),
	    cmocka_unit_test(test_as_git),
	    cmocka_unit_test(test_binary_or_text),
	    cmocka_unit_test(test_cuts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
