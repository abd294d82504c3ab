// tier: check
/* How an end is told to an SSH client: never 0 for what is not known. */
#include "muxd/doors/ssh/exit.h"
#include "muxd/hub/session/session.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_end_has_its_words(void **state)
{
	static const struct {
		enum exit_cause cause;
		int code, signal;
		const char *message;
		int status;
		const char *name, *text;
	} t[] = {
	    {EXIT_EXITED, 0, 0, "", 0, NULL, ""},
	    {EXIT_EXITED, 42, 0, "", 42, NULL, ""},
	    {EXIT_EXITED, -1, SIGSEGV, "", 139, "SEGV", ""},
	    {EXIT_EXITED, -1, SIGXCPU, "", 128 + SIGXCPU, NULL, ""},
	    {EXIT_EXITED, -1, 0, "", 255, NULL, ""},
	    {EXIT_TIMEOUT, -1, SIGKILL, "", 124, NULL, "ended at its time limit"},
	    {EXIT_IDLE_TIMEOUT, -1, SIGTERM, "no output for 5s", 124, NULL,
	     "ended for want of output: no output for 5s"},
	    {EXIT_KILLED, -1, SIGTERM, "by carol: too loud", 143, "TERM", "ended from outside: by carol: too loud"},
	    {EXIT_OOM, -1, SIGKILL, "", 137, "KILL", "killed: the sandbox is out of memory"},
	    {EXIT_LOST, 0, 0, "", 255, NULL, "the sandbox was lost; the exit is not known"},
	    {EXIT_UNKNOWN, 0, 0, "", 255, NULL, "the exit is not known"},
	    {EXIT_NOT_STARTED, -1, 0, "no such directory", 127, NULL, "could not be started: no such directory"},
	    {EXIT_NOT_STARTED, 126, 0, "", 126, NULL, "could not be started"},
	    {EXIT_NOT_STARTED, 0, 0, "", 127, NULL, "could not be started"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct session_result r = {.cause = t[i].cause, .code = t[i].code, .signal = t[i].signal};
		struct ssh_exit x;

		strcpy(r.message, t[i].message);
		ssh_exit_of(&r, &x);
		assert_int_equal(x.status, t[i].status);
		assert_string_equal(x.text, t[i].text);
		if (t[i].name)
			assert_string_equal(x.name, t[i].name);
		else
			assert_null(x.name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_end_has_its_words)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
