// tier: check
/* What a confined process can no longer do. */
#include "base/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int in_confinement(void)
{
	char program[] = "/bin/true", *argv[] = {program, NULL}, *env[] = {NULL};
	int pair[2];

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || confine_local(NULL))
		return 1;
	if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EACCES)
		return 2;
	if (socket(AF_INET6, SOCK_DGRAM, 0) >= 0 || errno != EACCES)
		return 3;
	if (socket(AF_UNIX, SOCK_STREAM, 0) < 0)
		return 4;
	if (socketpair(AF_TIPC, SOCK_STREAM, 0, pair) == 0 || errno != EACCES)
		return 6;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 7;
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

#ifndef __SANITIZE_ADDRESS__
/* What a process does that may only read, write and take memory. 0: it lived. */
static int alone(int what)
{
	void *p;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || confine_pure(NULL))
		return 1;
	if (what == 0) {
		p = malloc(4 * 1024 * 1024);
		p = p ? realloc(p, 8 * 1024 * 1024) : NULL;
		free(p);
		return p && write(2, "", 0) == 0 ? 0 : 2;
	}
	if (what == 1)
		(void)!socket(AF_UNIX, SOCK_STREAM, 0);
	else if (what == 2)
		(void)!open("/dev/null", O_RDONLY);
	else if (what == 3)
		(void)!fork();
	else if (what == 4)
		(void)!kill(getppid(), 0);
	else
		(void)!mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return 3;
}

static void a_pure_process_computes_and_nothing_else(void **state)
{
	int status;

	(void)state;
	for (int what = 0; what <= 5; what++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(alone(what));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (what == 0)
			assert_int_equal(status, 0);
		else
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(confined_process_has_no_network_and_starts_nothing),
#ifndef __SANITIZE_ADDRESS__
	    cmocka_unit_test(a_pure_process_computes_and_nothing_else),
#endif
	};
	return cmocka_run_group_tests_name("confine", tests, NULL, NULL);
}
