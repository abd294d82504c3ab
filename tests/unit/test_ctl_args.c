// tier: check
#include "base/err.h"
#include "muxd/ctl/args.h"
#include "muxd/ctl/ctl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct ctl_option options[] = {
    {"ttl", 0, "DURATION", "t"},     {"env", 'e', "K=V", "e"}, {"tty", 't', NULL, "t"},
    {"interactive", 'i', NULL, "i"}, {"limit", 'n', "N", "n"}, {NULL, 0, NULL, NULL},
};
static int run(struct ctl *c, const struct ctl_args *a)
{
	(void)c;
	(void)a;
	return 0;
}
static const struct ctl_command exec_like[] = {
    {"exec", "AGENT [--] COMMAND...", 1, -1, "h", options, .run = run},
    {"put", "AGENT LOCAL REMOTE", 3, 3, "h", .run = run, .any_bytes = true},
    {0},
};
static const struct ctl_command grant_like[] = {
    {"grant revoke", "ID", 1, 1, "h", .run = run},
    {"grant list", "", 0, 0, "h", .run = run},
    {0},
};
static const struct ctl_command *const commands[] = {exec_like, grant_like, NULL};

/* Literals are const with -Wwrite-strings; getopt moves pointers about and writes no text. */
#define ARGV(...)             ((char **)(uintptr_t)(const char *[]){__VA_ARGS__, NULL})
#define COUNT(...)            ((int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)))
#define PARSE(cmd, a, e, ...) args_parse(cmd, COUNT(__VA_ARGS__), ARGV(__VA_ARGS__), a, e)

static void options_stand_before_and_behind_operands(void **state)
{
	(void)state;
	struct ctl_args a = {0};
	assert_int_equal(PARSE(exec_like, &a, NULL, "exec", "demo", "--ttl", "5m", "-e", "A=1", "-e", "B=2", "-it",
			       "-o", "json", "--", "ls", "-l", "--ttl"),
			 0);
	assert_int_equal(a.noperands, 4);
	assert_string_equal(a.operands[0], "demo");
	assert_string_equal(a.operands[1], "ls");
	assert_string_equal(a.operands[3], "--ttl");
	assert_string_equal(args_get(&a, "ttl"), "5m");
	assert_string_equal(args_get(&a, "env"), "B=2");
	assert_true(args_has(&a, "tty") && args_has(&a, "interactive"));
	assert_false(args_has(&a, "limit"));
	assert_true(a.json);
	args_finish(&a);
}

/* JSON would carry another text than was given: nothing is asked. Local files have the names they have. */
static void what_goes_to_the_daemon_is_utf8(void **state)
{
	(void)state;
	struct ctl_args a = {0};
	struct err e = {0};
	assert_int_equal(PARSE(exec_like, &a, &e, "exec", "demo", "--", "echo", "caf\xc3\xa9", "\xff"), ERR_INVAL);
	assert_string_equal(e.message, "argument 4 is not UTF-8: \"?\"");
	args_finish(&a);
	assert_int_equal(PARSE(exec_like, &a, &e, "exec", "-e", "A=\xe2\x82", "demo"), ERR_INVAL);
	assert_non_null(strstr(e.message, "--env is not UTF-8"));
	args_finish(&a);
	assert_int_equal(PARSE(exec_like, &a, NULL, "exec", "demo", "--state", "/\xff", "caf\xc3\xa9"), 0);
	args_finish(&a);
	assert_int_equal(PARSE(&exec_like[1], &a, NULL, "put", "demo", "\xff", "b"), 0);
	args_finish(&a);
}

static void equals_sign_and_common_options_work(void **state)
{
	(void)state;
	struct ctl_args a = {0};
	assert_int_equal(PARSE(grant_like, &a, NULL, "revoke", "--state=/x", "--output=table", "id"), 0);
	assert_string_equal(a.state_dir, "/x");
	assert_false(a.json);
	args_finish(&a);
	assert_int_equal(PARSE(grant_like, &a, NULL, "revoke", "-h"), 0);
	assert_true(a.help);
	args_finish(&a);
}

/* A run's token is no grant of muxctl's. */
static void an_option_of_a_command_hides_the_common_one(void **state)
{
	static const struct ctl_option own[] = {{"token-file", 0, "FILE", "of the run"}, {NULL, 0, NULL, NULL}};
	static const struct ctl_command start = {"start", "", 0, 0, "h", own, .run = run};
	struct ctl_args a = {0};

	(void)state;
	assert_int_equal(PARSE(&start, &a, NULL, "start", "--token-file", "x"), 0);
	assert_string_equal(args_get(&a, "token-file"), "x");
	assert_null(a.token_file);
	args_finish(&a);
	assert_int_equal(PARSE(grant_like, &a, NULL, "revoke", "--token-file", "y", "id"), 0);
	assert_string_equal(a.token_file, "y");
	args_finish(&a);
}

static void mistakes_are_named(void **state)
{
	(void)state;
	static const struct {
		const struct ctl_command *cmd;
		const char *argv[6];
		int argc;
		const char *message;
	} rows[] = {
	    {exec_like, {"exec"}, 1, "muxctl exec needs AGENT [--] COMMAND..."},
	    {grant_like, {"revoke"}, 1, "muxctl grant revoke needs ID"},
	    {grant_like, {"revoke", "a", "b"}, 3, "muxctl grant revoke: b is one argument too many"},
	    {&grant_like[1], {"list", "x"}, 2, "muxctl grant list: x is one argument too many"},
	    {exec_like, {"exec", "demo", "ls", "-l"}, 4, "unknown option -l (put -- before a command's own options)"},
	    {exec_like, {"exec", "--colour"}, 2, "unknown option --colour (put -- before a command's own options)"},
	    {exec_like, {"exec", "demo", "--ttl"}, 3, "option --ttl needs a value"},
	    {exec_like, {"exec", "demo", "-e"}, 3, "option -e needs a value"},
	    {exec_like, {"exec", "demo", "-o", "xml"}, 4, "-o is \"xml\": table or json"},
	    {exec_like, {"exec", "demo", "--state", ""}, 4, "--state is empty"},
	    {exec_like,
	     {"exec", "demo", "--tty=yes"},
	     3,
	     "unknown option --tty=yes (put -- before a command's own options)"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ctl_args a = {0};
		struct err e = {0};
		char *argv[7] = {NULL};
		memcpy(argv, rows[i].argv, sizeof(rows[i].argv));
		assert_int_equal(args_parse(rows[i].cmd, rows[i].argc, argv, &a, &e), ERR_INVAL);
		assert_string_equal(e.message, rows[i].message);
		args_finish(&a);
	}
}

static void commands_are_one_word_or_two(void **state)
{
	(void)state;
	const struct ctl_command *cmd = NULL;
	struct err e = {0};
	int words = 0;
	assert_int_equal(args_command(3, ARGV("grant", "revoke", "x"), commands, &cmd, &words, &e), 0);
	assert_ptr_equal(cmd, grant_like);
	assert_int_equal(words, 2);
	assert_int_equal(args_command(2, ARGV("exec", "demo"), commands, &cmd, &words, &e), 0);
	assert_ptr_equal(cmd, exec_like);
	assert_int_equal(words, 1);
	assert_int_equal(args_command(1, ARGV("grant"), commands, &cmd, &words, &e), ERR_INVAL);
	assert_string_equal(e.message, "muxctl grant: missing subcommand: revoke, list");
	assert_int_equal(args_command(1, ARGV("gran"), commands, &cmd, &words, &e), ERR_INVAL);
	assert_int_equal(args_command(0, ARGV("x"), commands, &cmd, &words, &e), ERR_INVAL);
}

static void global_options_end_at_the_command(void **state)
{
	(void)state;
	struct ctl_args a = {0};
	bool version = true;
	int next = 0;
	char **argv = ARGV("muxctl", "--state", "/s", "-o", "json", "exec", "-t", "demo");
	assert_int_equal(args_global(8, argv, &a, &version, &next, NULL), 0);
	assert_int_equal(next, 5);
	assert_string_equal(a.state_dir, "/s");
	assert_true(a.json);
	assert_false(version);
	args_finish(&a);
	assert_int_equal(args_global(2, ARGV("muxctl", "-V"), &a, &version, &next, NULL), 0);
	assert_true(version);
	args_finish(&a);
	assert_int_equal(args_global(2, ARGV("muxctl", "--nope"), &a, &version, &next, NULL), ERR_INVAL);
	args_finish(&a);
}

static void values_have_types(void **state)
{
	(void)state;
	struct ctl_args a = {0};
	struct err e = {0};
	unsigned long long ns = 7;
	long long n = 7;
	assert_int_equal(PARSE(exec_like, &a, NULL, "exec", "demo", "--ttl", "2m", "-n", "12"), 0);
	assert_int_equal(args_duration(&a, "ttl", &ns, &e), 0);
	assert_int_equal(ns, 120000000000);
	assert_int_equal(args_number(&a, "limit", 1, 12, &n, &e), 0);
	assert_int_equal(n, 12);
	assert_int_equal(args_number(&a, "limit", 1, 11, &n, &e), ERR_INVAL);
	assert_string_equal(e.message, "--limit is \"12\": 1 to 11 is allowed");
	assert_int_equal(args_duration(&a, "limit", &ns, &e), ERR_INVAL);
	assert_int_equal(args_duration(&a, "absent", &ns, &e), 0);
	assert_int_equal(ns, 120000000000);
	args_finish(&a);
}

/* Every real command: unique, in the list of all, with a usage that names its options. */
static void every_command_has_a_usage(void **state)
{
	(void)state;
	char *all = args_usage_all(ctl_commands);
	const struct ctl_command *const *table = ctl_commands;
	for (const struct ctl_command *cmd = NULL; (cmd = args_next(&table, cmd));) {
		char *text = args_usage(cmd), word[80];
		assert_non_null(strstr(all, cmd->name));
		assert_non_null(strstr(text, cmd->help));
		for (const struct ctl_option *o = cmd->options; o && o->name; o++) {
			snprintf(word, sizeof(word), "--%s", o->name);
			assert_non_null(strstr(text, word));
			for (const struct ctl_option *p = cmd->options; p < o; p++)
				assert_true(strcmp(p->name, o->name) != 0 && (!o->letter || p->letter != o->letter));
			/* Taken by the common ones. */
			assert_true(o->letter != 'o' && o->letter != 'h');
			assert_true(strcmp(o->name, "state") && strcmp(o->name, "output") && strcmp(o->name, "help"));
		}
		const struct ctl_command *const *before = ctl_commands;
		for (const struct ctl_command *other = NULL; (other = args_next(&before, other)) != cmd;)
			assert_string_not_equal(other->name, cmd->name);
		free(text);
	}
	free(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(options_stand_before_and_behind_operands),
	    cmocka_unit_test(what_goes_to_the_daemon_is_utf8),
	    cmocka_unit_test(equals_sign_and_common_options_work),
	    cmocka_unit_test(an_option_of_a_command_hides_the_common_one),
	    cmocka_unit_test(mistakes_are_named),
	    cmocka_unit_test(commands_are_one_word_or_two),
	    cmocka_unit_test(global_options_end_at_the_command),
	    cmocka_unit_test(values_have_types),
	    cmocka_unit_test(every_command_has_a_usage),
	};
	return cmocka_run_group_tests_name("ctl_args", tests, NULL, NULL);
}
