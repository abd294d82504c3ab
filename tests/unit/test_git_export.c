// tier: check
/* The program of an export by git where there is none, and the meaning of its ends. */
#include "base/err.h"
#include "muxd/hub/broker/git_export.h"
#include "muxd/hub/session/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void test_without_git(void **state)
{
	const char *argv[GIT_EXPORT_ARGV];
	const char *const env[] = {"PATH=/nonexistent", NULL};
	struct session_result r = {.cause = EXIT_EXITED};
	struct err e = {0};
	char base[65] = "";
	int status;
	pid_t pid;

	(void)state;
	git_export_argv("HEAD", NULL, false, argv);
	pid = fork();
	if (pid == 0) {
		execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	r.code = WEXITSTATUS(status);
	assert_int_equal(git_export_result(&r, "", 0, "HEAD", base, sizeof(base), &e), ERR_NO_GIT);
	assert_string_equal(e.message, "there is no git in the sandbox");
}

static int result(int code, const char *said, char base[65], struct err *e)
{
	struct session_result r = {.cause = EXIT_EXITED, .code = code};

	return git_export_result(&r, said, strlen(said), "main", base, 65, e);
}

static void test_ends(void **state)
{
	static const char commit[] = "0123456789abcdef0123456789abcdef01234567";
	char said[200] = "warning: x\nmuxd-export-base ", base[65] = "";
	struct session_result late = {.cause = EXIT_TIMEOUT};
	struct err e = {0};

	(void)state;
	strcat(strcat(said, commit), "\n");
	assert_int_equal(result(0, said, base, &e), 0);
	assert_string_equal(base, commit);
	/* A sandbox is not believed beyond the form of its words. */
	assert_int_equal(result(0, "muxd-export-base 0123\n", base, &e), ERR_TRANSFER);
	assert_int_equal(result(0, "muxd-export-base ", base, &e), ERR_TRANSFER);
	assert_int_equal(result(0, "", base, &e), ERR_TRANSFER);
	assert_int_equal(result(103, "", base, &e), ERR_BASE_UNKNOWN);
	assert_int_equal(result(102, "a\nfatal: not a git repository\n", base, &e), ERR_BASE_UNKNOWN);
	assert_non_null(strstr(e.message, ": fatal: not a git repository"));
	assert_int_equal(result(128, "fatal: \xff\x1b[31m\n", base, &e), ERR_TRANSFER);
	assert_null(strchr(e.message, 27));
	assert_int_equal(git_export_result(&late, "", 0, "main", base, sizeof(base), &e), ERR_TRANSFER_TIMEOUT);
	assert_int_equal(git_export_refused(ERR_NO_PROGRAM, NULL, &e), ERR_NO_GIT);
	assert_int_equal(git_export_refused(ERR_FORBIDDEN, NULL, &e), ERR_FORBIDDEN);
}

static void test_revisions(void **state)
{
	struct err e = {0};
	char text[GIT_REVISION_MAX + 2];

	(void)state;
	assert_int_equal(git_revision_check("v1.0~3^2", &e), 0);
	assert_int_equal(git_revision_check("", &e), ERR_INVAL);
	assert_int_equal(git_revision_check("-x", &e), ERR_INVAL);
	assert_int_equal(git_revision_check("a b", &e), ERR_INVAL);
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(git_revision_check(text, &e), ERR_INVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_without_git), cmocka_unit_test(test_ends),
					   cmocka_unit_test(test_revisions)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
