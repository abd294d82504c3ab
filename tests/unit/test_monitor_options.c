// tier: check
#include "base/conf_table.h"
#include "base/err.h"
#include "muxd/monitor/file.h"
#include "muxd/monitor/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORDS_MAX 12

static int parse(char *line, struct options *out, struct err *e)
{
	char *argv[WORDS_MAX + 1] = {NULL};
	int argc = 0;

	for (char *w = strtok(line, " "); w && argc < WORDS_MAX; w = strtok(NULL, " "))
		argv[argc++] = w;
	return options_parse(argc, argv, out, e);
}

static void a_full_command_line(void **state)
{
	char line[] = "serve --state /s --https 127.0.0.1:0 --ssh=[::1]:22 --config c.yaml --end-sandboxes";
	struct options o;

	(void)state;
	assert_int_equal(parse(line, &o, NULL), 0);
	assert_string_equal(o.state_dir, "/s");
	assert_string_equal(o.https, "127.0.0.1:0");
	assert_string_equal(o.ssh, "[::1]:22");
	assert_string_equal(o.config, "c.yaml");
	assert_true(o.end_sandboxes);
	assert_false(o.print_config);
}

static void what_is_not_given_stays_empty(void **state)
{
	char line[] = "serve --state /s", print[] = "serve --print-config";
	struct options o;

	(void)state;
	assert_int_equal(parse(line, &o, NULL), 0);
	assert_null(o.https);
	assert_null(o.ssh);
	assert_null(o.config);
	assert_false(o.end_sandboxes);
	assert_int_equal(parse(print, &o, NULL), 0);
	assert_true(o.print_config);
}

static void mistakes_are_named(void **state)
{
	static const struct {
		const char *line, *named;
	} cases[] = {
	    {"serve", "--state"},
	    {"serve --state", "--state"},
	    {"serve --state=", "--state"},
	    {"serve --state /a --state /b", "--state is given twice"},
	    {"serve --state /a --port 3", "--port"},
	    {"serve --state /a extra", "extra"},
	    {"serve --stat /a", "--stat"},
	    {"serve --state /a --end-sandboxes=yes", "--end-sandboxes=yes"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char line[128];
		struct options o = {.state_dir = "untouched"};
		struct err e = {0};

		strcpy(line, cases[i].line);
		assert_int_equal(parse(line, &o, &e), ERR_INVAL);
		if (!strstr(e.message, cases[i].named))
			fail_msg("%s: %s", cases[i].line, e.message);
		assert_string_equal(o.state_dir, "untouched");
	}
}

/* From the top of the tree, where `make unit` runs. */
static void the_manual_knows_every_key_and_its_default(void **state)
{
	const struct conf_key *keys;
	char *page = NULL, heading[128], mark[64];
	size_t len = 0, n;

	(void)state;
	assert_int_equal(file_read("docs/man/muxd.conf.5", 1 << 20, &page, &len, NULL), 0);
	keys = conf_keys(&n);
	for (size_t i = 0; i < n; i++) {
		char *at, *next;

		snprintf(heading, sizeof heading, "\n.It Sy %s\n", keys[i].path);
		at = strstr(page, heading);
		if (!at)
			fail_msg("%s is not in muxd.conf(5)", keys[i].path);
		if (!keys[i].value || !*keys[i].value)
			continue;
		at += strlen(heading);
		next = strstr(at, "\n.It ");
		snprintf(mark, sizeof mark, "efault %s.", keys[i].value);
		at = strstr(at, mark);
		if (!at || (next && at > next))
			fail_msg("muxd.conf(5) does not say that the default of %s is %s", keys[i].path, keys[i].value);
	}
	free(page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_full_command_line),
	    cmocka_unit_test(what_is_not_given_stays_empty),
	    cmocka_unit_test(mistakes_are_named),
	    cmocka_unit_test(the_manual_knows_every_key_and_its_default),
	};
	return cmocka_run_group_tests_name("monitor_options", tests, NULL, NULL);
}
