// tier: check
/* The words that may stand next on muxctl's command line, from tables like its own. */
#include "muxd/ctl/args.h"
#include "muxd/ctl/complete.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct ctl_option options[] = {
    {"tty", 't', NULL, "a switch"},   {"key", 'k', "FILE", "a file"}, {"how", 0, "slow|fast", "one of two"},
    {"ttl", 0, "DURATION", "a time"}, {NULL, 0, NULL, NULL},
};
static const struct ctl_command first[] = {
    {"exec", "AGENT [--] COMMAND...", 1, -1, "run it", options, .more = NULL},
    {"put", "AGENT LOCAL [LOCAL]", 2, 3, "put it", .more = NULL},
    {0},
};
static const struct ctl_command second[] = {
    {"grant create", "", 0, 0, "make one", options, .more = NULL},
    {"grant list", "slow|fast", 1, 1, "list them", .more = NULL},
    {0},
};
static const struct ctl_command *const tables[] = {first, second, NULL};

struct row {
	const char *words[8], *expected;
};
static const struct row rows[] = {
    {{""}, "exec\trun it\nput\tput it\ngrant\tcreate, list\n"},
    {{"e"}, "exec\trun it\n"},
    {{"x"}, ""},
    {{"help", "gr"}, "grant\tcreate, list\n"},
    {{"grant", ""}, "create\tmake one\nlist\tlist them\n"},
    {{"grant", "l"}, "list\tlist them\n"},
    {{"grant", "no", ""}, ""},
    {{"nothing", ""}, ""},
    {{"--state", "gr"}, COMPLETE_FILES "\n"},
    {{"--state", "x", "-o", "json", "ex"}, "exec\trun it\n"},
    {{"--version", "ex"}, "exec\trun it\n"},
    {{"--ver"}, "--version\tVersion of muxctl.\n"},
    {{"exec", "--tt"}, "--tty\ta switch\n--ttl\ta time\n"},
    {{"exec", "--ttl", ""}, ""},
    {{"exec", "--ttl", "5m", "--how", "f"}, "fast\t\n"},
    {{"exec", "--how="}, "--how=slow\t\n--how=fast\t\n"},
    {{"exec", "--how=x"}, ""},
    {{"exec", "-k", ""}, COMPLETE_FILES "\n"},
    {{"exec", "-kx", "--ho"}, "--how\tone of two\n"},
    {{"exec", "--nothing", "--ho"}, "--how\tone of two\n"},
    {{"exec", "demo", "--", "ls", "--t"}, ""},
    {{"exec", "demo", "--", "--how", "f"}, ""},
    {{"put", ""}, ""},
    {{"put", "demo", ""}, COMPLETE_FILES "\n"},
    {{"put", "demo", "a", "b"}, COMPLETE_FILES "\n"},
    {{"put", "demo", "a", "b", "c"}, ""},
    {{"grant", "list", "s"}, "slow\t\n"},
};

static int count(const char *const *words)
{
	int n = 0;

	while (words[n])
		n++;
	return n;
}

static void each_word_has_its_candidates(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* Literals are const with -Wwrite-strings; the words are read alone. */
		char *got = complete_words(tables, count(rows[i].words), (char **)(uintptr_t)rows[i].words);
		assert_non_null(got);
		assert_string_equal(got, rows[i].expected);
		free(got);
	}
	char *none = complete_words(tables, 0, NULL);
	assert_string_equal(none, rows[0].expected);
	free(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_word_has_its_candidates)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
