// tier: check
#define LOG_SUBSYS "ssh"
#include "base/log.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int pipe_fds[2];

static int open_pipe(void **state)
{
	(void)state;
	clock_test_set(1, INT64_C(1795248100123) * 1000000);
	return pipe(pipe_fds);
}

static int close_pipe(void **state)
{
	(void)state;
	clock_test_reset();
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return log_setup("test", "info", LOG_TEXT, 2, NULL);
}

/* What was logged since the last call. */
static const char *logged(void)
{
	static char text[16384];
	/* A byte of our own ends the read, so that an empty log does not block. */
	assert_int_equal(write(pipe_fds[1], "", 1), 1);
	ssize_t n = read(pipe_fds[0], text, sizeof(text));
	assert_true(n > 0);
	return text;
}

static void text_lines_carry_ids(void **state)
{
	(void)state;
	assert_int_equal(log_setup("net", "info", LOG_TEXT, pipe_fds[1], NULL), 0);
	struct log_ids ids = {.agent = "demo", .peer = "127.0.0.1:5"};
	log_info(&ids, "hello %d", 1);
	assert_string_equal(logged(), "2026-11-21T08:01:40.123Z info  net/ssh: hello 1 agent=demo peer=127.0.0.1:5\n");
}

static void complete(void *arg, struct log_ids *ids)
{
	unsigned *asked = arg;

	++*asked;
	if (strcmp(ids->agent, "pool-1") == 0) {
		ids->lease = "l-1";
		ids->run = "run 1";
		ids->client_request = "r-1";
	}
}

static void *log_elsewhere(void *arg)
{
	log_info(&(struct log_ids){.agent = "pool-1"}, "%s", (const char *)arg);
	return NULL;
}

/* Of lines with an agent and without a lease, on its own thread. */
static void a_line_is_completed_by_its_agent(void **state)
{
	unsigned asked = 0;
	struct log_context c = {.complete = complete, .arg = &asked, .thread = pthread_self()};
	struct log_ids ids = {.agent = "pool-1"};
	pthread_t other;

	(void)state;
	assert_int_equal(log_setup("net", "info", LOG_TEXT, pipe_fds[1], NULL), 0);
	log_about(&c);
	log_info(&ids, "a");
	assert_non_null(strstr(logged(), "a agent=pool-1 lease=l-1 run=run 1 client_request=r-1\n"));
	assert_null(ids.lease); /* the caller's stays as it is */
	log_info(&(struct log_ids){.agent = "demo"}, "b");
	assert_non_null(strstr(logged(), "b agent=demo\n"));
	assert_int_equal(asked, 2);
	log_info(&(struct log_ids){.agent = "pool-1", .lease = "known"}, "c");
	assert_non_null(strstr(logged(), "c agent=pool-1 lease=known\n"));
	log_info(NULL, "d");
	assert_non_null(strstr(logged(), "d\n"));
	assert_int_equal(pthread_create(&other, NULL, log_elsewhere, (void *)(uintptr_t) "e"), 0);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_non_null(strstr(logged(), "e agent=pool-1\n"));
	log_about(NULL);
	log_info(&ids, "f");
	assert_non_null(strstr(logged(), "f agent=pool-1\n"));
	assert_int_equal(asked, 2);
}

static void control_characters_are_escaped(void **state)
{
	(void)state;
	assert_int_equal(log_setup("net", "info", LOG_TEXT, pipe_fds[1], NULL), 0);
	log_warn(NULL, "%s", "a\nb\x1b[2J\\ \xff \xc3\xa9 \xc2\x9b\xe2\x80\xae");
	assert_non_null(strstr(logged(), "ssh: a\\nb\\x1b[2J\\\\ \\xff \xc3\xa9 \\u{9b}\\u{202e}\n"));
}

static void json_lines_parse(void **state)
{
	(void)state;
	assert_int_equal(log_setup("net", "debug", LOG_JSON, pipe_fds[1], NULL), 0);
	struct log_ids ids = {.request = "r1", .session = "s\"1"};
	log_error(&ids, "%s", "quote \" slash \\ line\n \xff end");
	const char *line = logged();
	json_t *o = NULL;
	assert_int_equal(json_parse(line, strlen(line), 10000, &o, NULL), 0);
	assert_string_equal(json_string_value(json_object_get(o, "level")), "error");
	assert_string_equal(json_string_value(json_object_get(o, "proc")), "net");
	assert_string_equal(json_string_value(json_object_get(o, "subsys")), "ssh");
	assert_string_equal(json_string_value(json_object_get(o, "request")), "r1");
	assert_string_equal(json_string_value(json_object_get(o, "session")), "s\"1");
	assert_string_equal(json_string_value(json_object_get(o, "msg")), "quote \" slash \\\\ line\\n \\xff end");
	json_decref(o);
}

static void levels_go_by_subsystem(void **state)
{
	(void)state;
	assert_int_equal(log_setup("net", "warn,ssh=debug,link=error", LOG_TEXT, pipe_fds[1], NULL), 0);
	assert_true(log_enabled("ssh", LOG_DEBUG));
	assert_false(log_enabled("ssh", LOG_TRACE));
	assert_false(log_enabled("link", LOG_WARN));
	assert_false(log_enabled("rest", LOG_INFO));
	assert_true(log_enabled("rest", LOG_WARN));
	log_write("rest", LOG_INFO, NULL, "quiet");
	assert_string_equal(logged(), "");
}

static void a_line_too_long_is_cut_and_says_so(void **state)
{
	(void)state;
	char big[9000];
	memset(big, '"', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	struct log_ids ids = {.agent = big};
	assert_int_equal(log_setup("net", "info", LOG_JSON, pipe_fds[1], NULL), 0);
	log_info(&ids, "%s", big);
	const char *line = logged();
	json_t *o = NULL;
	assert_true(strlen(line) <= 4096);
	assert_int_equal(json_parse(line, strlen(line), 10000, &o, NULL), 0);
	assert_true(json_is_true(json_object_get(o, "cut")));
	json_decref(o);
	assert_int_equal(log_setup("net", "info", LOG_TEXT, pipe_fds[1], NULL), 0);
	memset(big, 'x', sizeof(big) - 1);
	log_info(NULL, "%s", big);
	assert_true(strlen(logged()) <= 4096);
}

static void a_wrong_spec_is_refused_and_changes_nothing(void **state)
{
	(void)state;
	struct err e = {0};
	assert_int_equal(log_setup("net", "info", LOG_TEXT, pipe_fds[1], NULL), 0);
	static const char *const wrong[] = {"loud", "info,ssh=", "=info", "ssh=verbose", "info,,debug"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(log_setup("x", wrong[i], LOG_JSON, 2, &e), ERR_INVAL);
		assert_int_equal(log_spec_check(wrong[i], NULL), ERR_INVAL);
	}
	assert_int_equal(log_setup("x", "loud", LOG_JSON, 2, &e), ERR_INVAL);
	assert_non_null(strstr(e.message, "\"loud\""));
	log_info(NULL, "still here");
	assert_non_null(strstr(logged(), "net/ssh: still here\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_line_is_completed_by_its_agent, open_pipe, close_pipe),
	    cmocka_unit_test_setup_teardown(text_lines_carry_ids, open_pipe, close_pipe),
	    cmocka_unit_test_setup_teardown(control_characters_are_escaped, open_pipe, close_pipe),
	    cmocka_unit_test_setup_teardown(json_lines_parse, open_pipe, close_pipe),
	    cmocka_unit_test_setup_teardown(levels_go_by_subsystem, open_pipe, close_pipe),
	    cmocka_unit_test_setup_teardown(a_line_too_long_is_cut_and_says_so, open_pipe, close_pipe),
	    cmocka_unit_test_setup_teardown(a_wrong_spec_is_refused_and_changes_nothing, open_pipe, close_pipe),
	};
	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
