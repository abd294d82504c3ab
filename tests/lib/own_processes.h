/*
 * own_processes.h - a test program whose /proc has its own processes and no others.
 *
 * Who looks for processes reads all that there are, as the only one in a sandbox or a pod: on a machine where a
 * thousand others run that takes seconds a look, and no test may see or end them. For root alone: as a user the
 * program sees the machine's.
 */
#ifndef TESTS_LIB_OWN_PROCESSES_H
#define TESTS_LIB_OWN_PROCESSES_H

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends as its child does; meanwhile, as process 1, takes those whose parents have ended. */
static inline void own_processes_wait(pid_t child)
{
	int status = 0;
	pid_t got;

	while ((got = wait(&status)) != child)
		if (got < 0)
			_exit(EXIT_FAILURE);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE);
}

static inline pid_t own_processes_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		_exit(EXIT_FAILURE);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

/* At the beginning of main(): returns in a process that runs the tests, whose end is that of the program. */
static inline void own_processes(void)
{
	pid_t pid;

	if (geteuid() || unshare(CLONE_NEWPID | CLONE_NEWNS))
		return;
	if ((pid = own_processes_fork()))
		own_processes_wait(pid);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("proc", "/proc", "proc", 0, NULL))
		_exit(EXIT_FAILURE);
	if ((pid = own_processes_fork()))
		own_processes_wait(pid);
}

#endif
