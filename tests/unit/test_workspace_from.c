// tier: check
/* Beginnings of workspaces, as a call says them; and the ends of the program that clones a bundle. */
#include "base/err.h"
#include "muxd/hub/broker/git_clone.h"
#include "muxd/hub/broker/workspace_from.h"
#include "muxd/hub/session/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void test_forms(void **state)
{
	static const struct {
		const char *text;
		enum workspace_form form;
		const char *task, *name, *ref;
	} good[] = {{"artifact:t/n", WORKSPACE_ARTIFACT, "t", "n", ""},
		    {"artifact:a/b/c.tar", WORKSPACE_ARTIFACT, "a/b", "c.tar", ""},
		    {"artifact:t/n#x", WORKSPACE_ARTIFACT, "t", "n#x", ""},
		    {"bundle:t/n", WORKSPACE_BUNDLE, "t", "n", ""},
		    {"bundle:t/n#feature/x", WORKSPACE_BUNDLE, "t", "n", "feature/x"},
		    {"bundle:a/b/n#a#b", WORKSPACE_BUNDLE, "a/b", "n", "a#b"}};
	char text[WORKSPACE_TEXT_SZ];
	struct workspace_from w;
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(workspace_from_parse(good[i].text, &w, &e), 0);
		assert_int_equal(w.form, good[i].form);
		assert_string_equal(w.task, good[i].task);
		assert_string_equal(w.name, good[i].name);
		assert_string_equal(w.ref, good[i].ref);
		assert_string_equal(workspace_from_text(&w, text), good[i].text);
	}
	assert_int_equal(workspace_from_parse("snapshot:01890a5d-ac96-774b-bcce-b302099a8057", &w, &e), 0);
	assert_int_equal(w.form, WORKSPACE_SNAPSHOT);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *says;
	} bad[] = {{"", ERR_UNSUPPORTED, "artifact:TASK/NAME"},
		   {"Artifact:t/n", ERR_UNSUPPORTED, "snapshot:ID"},
		   {"snapshot:", ERR_INVAL, "behind snapshot:"},
		   {"snapshot:00000000-0000-0000-0000-000000000000", ERR_INVAL, "behind snapshot:"},
		   {"artifact:", ERR_INVAL, "TASK/NAME"},
		   {"artifact:n", ERR_INVAL, "TASK/NAME"},
		   {"artifact:/n", ERR_INVAL, "TASK/NAME"},
		   {"artifact:t/", ERR_INVAL, "TASK/NAME"},
		   {"bundle:t#a/b", ERR_INVAL, "TASK/NAME#REF"},
		   {"bundle:t/n#", ERR_INVAL, "what is behind #"},
		   {"bundle:t/n#-x", ERR_INVAL, "what is behind #"},
		   {"bundle:t/n#a b", ERR_INVAL, "what is behind #"}};
	struct workspace_from w = {.form = WORKSPACE_NONE};
	char text[700];
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(&e, 0, sizeof(e));
		assert_int_equal(workspace_from_parse(bad[i].text, &w, &e), bad[i].code);
		if (!strstr(e.message, bad[i].says))
			fail_msg("%s: %s", bad[i].text, e.message);
	}
	for (int part = 0; part < 3; part++) { /* each a byte too long */
		snprintf(text, sizeof(text), "bundle:%0*d/%0*d#%0*d", part == 0 ? GRANT_NAME_MAX + 1 : 1, 0,
			 part == 1 ? ARTIFACT_NAME_MAX + 1 : 1, 0, part == 2 ? GIT_REVISION_MAX + 1 : 1, 0);
		assert_int_equal(workspace_from_parse(text, &w, &e), ERR_INVAL);
	}
	assert_int_equal(w.form, WORKSPACE_NONE);
	snprintf(text, sizeof(text), "bundle:%0*d/%0*d#%0*d", GRANT_NAME_MAX, 0, ARTIFACT_NAME_MAX, 0, GIT_REVISION_MAX,
		 0);
	assert_int_equal(workspace_from_parse(text, &w, &e), 0);
	char back[WORKSPACE_TEXT_SZ];
	assert_string_equal(workspace_from_text(&w, back), text);
}

static void test_without_git(void **state)
{
	const char *argv[GIT_CLONE_ARGV];
	const char *const env[] = {"PATH=/nonexistent", NULL};
	struct session_result r = {.cause = EXIT_EXITED};
	struct err e = {0};
	int status;
	pid_t pid;

	(void)state;
	git_clone_argv("", argv);
	pid = fork();
	if (pid == 0) {
		execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	r.code = WEXITSTATUS(status);
	assert_int_equal(git_clone_result(&r, "", 0, "", &e), ERR_NO_GIT);
	assert_string_equal(e.message, "there is no git in the sandbox's image");
}

static int cloned(int code, const char *said, struct err *e)
{
	struct session_result r = {.cause = EXIT_EXITED, .code = code};

	return git_clone_result(&r, said, strlen(said), "main", e);
}

static void test_ends(void **state)
{
	struct session_result late = {.cause = EXIT_TIMEOUT}, killed = {.cause = EXIT_OOM};
	struct err e = {0};

	(void)state;
	assert_int_equal(cloned(0, "anything", &e), 0);
	assert_int_equal(cloned(102, "warning: x\nfatal: early EOF\n", &e), ERR_INVAL);
	assert_non_null(strstr(e.message, ": fatal: early EOF"));
	assert_int_equal(cloned(102, "fatal: No space left on device\n", &e), ERR_NO_SPACE);
	assert_int_equal(cloned(103, "", &e), ERR_INVAL);
	assert_non_null(strstr(e.message, "\"main\""));
	assert_int_equal(cloned(104, "", &e), ERR_INVAL);
	assert_int_equal(cloned(105, "fatal: \xff\x1b[31m\n", &e), ERR_TRANSFER);
	assert_null(strchr(e.message, 27));
	assert_int_equal(git_clone_result(&late, "", 0, "", &e), ERR_TRANSFER_TIMEOUT);
	assert_int_equal(git_clone_result(&killed, "", 0, "", &e), ERR_TRANSFER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_refused),
					   cmocka_unit_test(test_without_git), cmocka_unit_test(test_ends)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
