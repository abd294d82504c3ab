// tier: check
/* Which paths a grant's patterns allow, and which patterns a grant may have: asked of both, as the hub does. */
#include "base/err.h"
#include "files/paths.h"
#include "muxd/hub/session/file_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_patterns(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool one, tree;
	} table[] = {
	    {"src/**", "src/a/b.c", true, true}, {"src/**", "src", true, true},
	    {"src/**", "srcs/a", false, false},  {"src/**", "other", false, false},
	    {"src/**", ".", false, false},       {"src/**", "src/../secret", false, false},
	    {"src/**", "..", false, false},      {"**", ".", true, true},
	    {"**", "a/b", true, true},           {"**", "a/../b", false, false},
	    {"*.md", "a.md", true, false},       {"*.md", "d/a.md", false, false},
	    {"**/*.md", "d/a.md", true, false},  {"**/*.md", "a.md", true, false},
	    {"a/*/c/**", "a/b/c/d", true, true}, {"a/*/c/**", "a/b/x/c", false, false},
	    {"out", "out", true, false},         {"out", "out/x", false, false},
	    {"a?b", "a/b", false, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const char *list[] = {"nothing", table[i].pattern, NULL};

		if (paths_allow(list, table[i].path, false) != table[i].one ||
		    paths_allow(list, table[i].path, true) != table[i].tree)
			fail_msg("%s of %s", table[i].path, table[i].pattern);
	}
	assert_false(paths_allow((const char *[]){NULL}, "a", false));
}

static struct grant_files taken(const char *text)
{
	struct grant_files f = {0};
	struct err e = {0};
	json_t *o = NULL;

	assert_int_equal(json_parse(text, strlen(text), 4096, &o, NULL), 0);
	if (grant_files_take(o, &f, &e))
		fail_msg("%s: %s", text, e.message);
	json_decref(o);
	return f;
}

static void test_what_a_grant_may_hold(void **state)
{
	static const char *const bad[] = {
	    "{\"read\":[\"/etc/**\"]}", "{\"read\":[\"a/../b\"]}", "{\"read\":[\"\"]}",       "{\"read\":[\"a//b\"]}",
	    "{\"read\":[\"[a]\"]}",     "{\"read\":[\"{a,b}\"]}",  "{\"read\":[\"a\\\\b\"]}", "{\"read\":[1]}",
	    "{\"read\":\"src/**\"}",    "{\"write\":[\"a\\nb\"]}", "{\"file_max\":0}",        "{\"file_max\":-1}",
	    "{\"read\":[\"./a\"]}",
	};
	struct grant_files f, again;
	char many[600] = "{\"read\":[\"a\"";
	json_t *o = json_object();
	char *text;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		json_t *b = NULL;

		assert_int_equal(json_parse(bad[i], strlen(bad[i]), 4096, &b, NULL), 0);
		if (grant_files_take(b, &f, NULL) != ERR_INVAL)
			fail_msg("taken: %s", bad[i]);
		json_decref(b);
	}
	f = taken("{\"read\":[\"src/**\",\"\xc3\xa9.md\"],\"write\":[],\"file_max\":10}");
	assert_true(f.read.given && f.write.given && !f.write.text[0] && f.size_max == 10);
	assert_int_equal(grant_files_put(o, &f), 0);
	text = json_text(o);
	again = taken(text);
	assert_memory_equal(&f, &again, sizeof(f));
	free(text);
	json_decref(o);
	for (int i = 0; i < 40; i++)
		strcat(many, ",\"abcdef/**\"");
	strcat(many, "]}");
	o = NULL;
	assert_int_equal(json_parse(many, strlen(many), 4096, &o, NULL), 0);
	assert_int_equal(grant_files_take(o, &f, NULL), ERR_TOO_LARGE);
	json_decref(o);
	f = taken("{\"read\":null}");
	assert_false(grant_files_limited(&f));
}

/* Every operation is in the table: under a grant for nothing none is allowed. */
static void test_every_operation(void **state)
{
	const struct grant_files none = taken("{\"read\":[],\"write\":[]}"),
				 all = taken("{\"read\":[\"**\"],\"write\":[\"**\"]}");
	struct err e;

	(void)state;
	for (int op = 0; op < FILE_OPS; op++) {
		struct file_spec f = {.op = (enum file_op)op, .path = "a", .to = "b", .size = UINT64_MAX};

		if (file_limits_check(&none, &f, &e) != ERR_PATH_DENIED)
			fail_msg("operation %d has no limit", op);
		assert_int_equal(file_limits_check(&all, &f, &e), 0);
		assert_int_equal(file_limits_check(&(struct grant_files){0}, &f, &e), 0);
		f.path = "/etc/passwd"; /* elsewhere than in the workspace */
		if (op != FILE_PATCH)
			assert_int_equal(file_limits_check(&all, &f, &e), ERR_PATH_DENIED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_patterns),
					   cmocka_unit_test(test_what_a_grant_may_hold),
					   cmocka_unit_test(test_every_operation)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
