/* What a confined process can no longer do. */
#include "muxd/base/confine.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int in_confinement(void)
{
	char program[] = "/bin/true", *argv[] = {program, NULL}, *env[] = {NULL};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || confine_local(NULL))
		return 1;
	if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EACCES)
		return 2;
	if (socket(AF_INET6, SOCK_DGRAM, 0) >= 0 || errno != EACCES)
		return 3;
	if (socket(AF_UNIX, SOCK_STREAM, 0) < 0)
		return 4;
	execve(argv[0], argv, env);
	return errno == EACCES ? 0 : 5;
}

static void confined_process_has_no_network_and_starts_nothing(void **state)
{
	int status;
	(void)state;
	pid_t pid = fork();
	if (pid == 0)
		_exit(in_confinement());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(confined_process_has_no_network_and_starts_nothing),
	};
	return cmocka_run_group_tests_name("confine", tests, NULL, NULL);
}
