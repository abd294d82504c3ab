// tier: check
#include "muxd/ctl/ctl.h"
#include "muxd/ctl/escape.h"
#include "muxd/ctl/relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void ends_become_exit_statuses(void **state)
{
	(void)state;
	static const struct {
		const char *exit;
		int status;
		const char *line;
	} rows[] = {
	    {"{\"cause\":\"exit\",\"code\":0,\"signal\":\"\"}", 0, ""},
	    {"{\"cause\":\"exit\",\"code\":7,\"signal\":null}", 7, ""},
	    {"{\"cause\":\"exit\",\"code\":-1,\"signal\":\"TERM\"}", 143, ""},
	    {"{\"cause\":\"exit\",\"code\":-1,\"signal\":9}", 137, ""},
	    {"{\"cause\":\"timeout\",\"code\":-1,\"signal\":\"KILL\"}", 124,
	     "command timed out after 1m30s and was killed [sandbox_exec_timeout]"},
	    {"{\"cause\":\"idle_timeout\",\"message\":\"no output for 5s\"}", 124,
	     "command was killed: no output for 5s [sandbox_exec_timeout]"},
	    {"{\"cause\":\"killed\",\"signal\":\"SIGKILL\",\"message\":\"\"}", 137, "it was ended by signal KILL"},
	    {"{\"cause\":\"killed\",\"message\":\"ended by ann\"}", 137, "ended by ann"},
	    {"{\"cause\":\"oom\",\"signal\":\"KILL\"}", 137, "it ran out of memory and was ended by signal KILL"},
	    {"{\"cause\":\"not_started\",\"code\":-1,\"message\":\"cwd: no such directory\"}", 127,
	     "it did not start: cwd: no such directory"},
	    {"{\"cause\":\"lost\"}", 69, "its outcome is lost"},
	    {"{\"cause\":\"unknown\",\"message\":\"the sandbox went away\"}", 69,
	     "its outcome is unknown: the sandbox went away"},
	    /* What is not understood is never a success. */
	    {"{\"cause\":\"exit\"}", 69, "its outcome is exit"},
	    {"{}", 69, "its outcome is unknown"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char line[300];
		json_t *o = NULL;
		assert_int_equal(json_parse(rows[i].exit, strlen(rows[i].exit), 1000, &o, NULL), 0);
		assert_int_equal(relay_status(o, 90000000000, line, sizeof(line)), rows[i].status);
		assert_string_equal(line, rows[i].line);
		json_decref(o);
	}
	char line[300];
	assert_int_equal(relay_status(NULL, 0, line, sizeof(line)), 69);
}

/* Feeds text in pieces of every size; the program's part and the actions must not depend on them. */
static void feed(const char *text, const char *want, const char *want_actions)
{
	size_t len = strlen(text);
	for (size_t piece = 1; piece <= len; piece++) {
		struct escape s = {.key = ESCAPE_KEY_DEFAULT};
		char got[100] = "", actions[10] = "";
		size_t ngot = 0, nactions = 0;
		for (size_t at = 0; at < len;) {
			size_t n = len - at < piece ? len - at : piece;
			while (n) {
				uint8_t out[101];
				size_t taken = 0, nout = 0;
				enum escape_action a =
				    escape_feed(&s, (const uint8_t *)text + at, n, &taken, out, &nout);
				assert_true(taken > 0 && nout <= n + 1);
				memcpy(got + ngot, out, nout);
				ngot += nout;
				if (a != ESCAPE_NONE)
					actions[nactions++] = a == ESCAPE_DETACH ? 'd' : '?';
				at += taken;
				n -= taken;
			}
		}
		got[ngot] = '\0';
		assert_string_equal(got, want);
		assert_string_equal(actions, want_actions);
	}
}

static void the_escape_key_takes_one_more(void **state)
{
	(void)state;
	feed("plain", "plain", "");
	feed("a\x1d"
	     "d",
	     "a", "d");
	feed("\x1d?x", "x", "?");
	feed("\x1d\x1d", "\x1d", "");
	feed("\x1d\x1d"
	     "d",
	     "\x1d"
	     "d",
	     "");
	feed("\x1dx", "\x1dx", "");
	feed("a\x1d", "a", "");
}

static void no_escape_key_passes_everything(void **state)
{
	(void)state;
	struct escape s = {.key = -1};
	uint8_t out[4];
	size_t taken, n;
	assert_int_equal(escape_feed(&s,
				     (const uint8_t *)"\x1d"
						      "d",
				     2, &taken, out, &n),
			 ESCAPE_NONE);
	assert_int_equal(n, 2);
	assert_int_equal(taken, 2);
}

static void escape_keys_are_written_with_a_caret(void **state)
{
	(void)state;
	assert_int_equal(escape_key_parse("^]"), 0x1d);
	assert_int_equal(escape_key_parse("^a"), 1);
	assert_int_equal(escape_key_parse("^A"), 1);
	assert_int_equal(escape_key_parse("none"), -1);
	assert_int_equal(escape_key_parse("~"), -2);
	assert_int_equal(escape_key_parse("^"), -2);
	assert_int_equal(escape_key_parse("^1"), -2);
	assert_int_equal(escape_key_parse("^ab"), -2);
}

static void text_for_terminals_has_no_controls(void **state)
{
	(void)state;
	char *s = ctl_clean("a\x1b[2J\n\xff\xc3\xa9\xc2\x9b");
	assert_string_equal(s, "a\\x1b[2J\\n\\xff\xc3\xa9\\u{9b}");
	free(s);
	json_t *o = json_pack("[s,i,b,n]", "x\a", 5, 1);
	s = ctl_text(o);
	assert_string_equal(s, "x\\x07 5 yes ");
	free(s);
	json_decref(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ends_become_exit_statuses),
	    cmocka_unit_test(the_escape_key_takes_one_more),
	    cmocka_unit_test(no_escape_key_passes_everything),
	    cmocka_unit_test(escape_keys_are_written_with_a_caret),
	    cmocka_unit_test(text_for_terminals_has_no_controls),
	};
	return cmocka_run_group_tests_name("ctl_relay", tests, NULL, NULL);
}
