// tier: check
/* Processes that are found again and ended: one, and a whole pid namespace whose process 1 waits for one of the others.
 */
#include "base/clock.h"
#include "base/err.h"
#include "control/local/found.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND_NS NS_PER_SEC

static int stuffed[2], pipe_[2], said[2];

static void *writes(void *arg)
{
	return write(pipe_[1], "more", 4) == 4 ? arg : NULL; /* waits for the pipe's lock */
}

/* Holds the lock of the pipe: the kernel waits for room in a socket that nobody reads. */
static int holder(void)
{
	pid_t me = getpid();

	(void)!write(said[1], &me, sizeof(me));
	return (int)splice(pipe_[0], NULL, stuffed[0], NULL, 4096, 0);
}

/* Process 1: a thread that a program has in its hand. */
static int first(void *arg)
{
	static char block[4096];
	pthread_t t;

	(void)arg;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, stuffed) || fcntl(stuffed[0], F_SETFL, O_NONBLOCK) || pipe(pipe_))
		return 2;
	while (write(stuffed[0], block, sizeof(block)) > 0)
		;
	if (fcntl(stuffed[0], F_SETFL, 0) || write(pipe_[1], "0123456789", 10) != 10)
		return 2;
	if (fork() == 0)
		_exit(holder());
	(void)usleep(200 * 1000);
	if (pthread_create(&t, NULL, writes, NULL))
		return 2;
	(void)usleep(200 * 1000);
	(void)!write(said[1], &(pid_t){getpid()}, sizeof(pid_t));
	for (;;)
		pause();
}

/* The holder and process 1, in their order: by the numbers that they have for themselves. */
static void both_hang(pid_t who[2])
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(read(said[0], &who[i], sizeof(who[i])), sizeof(who[i]));
}

static void a_namespace_whose_first_process_waits_is_ended(void **state)
{
	static char stack[256 * 1024] __attribute__((aligned(64)));
	struct found f;
	pid_t pid, who[2];

	(void)state;
	assert_int_equal(pipe2(said, O_CLOEXEC), 0);
	/* Root needs no namespace of users for it, and so no leave to make one. */
	pid = clone(first, stack + sizeof(stack), (geteuid() ? CLONE_NEWUSER : 0) | CLONE_NEWPID | SIGCHLD, NULL);
	if (pid < 0)
		fail_msg("no namespace of processes: %s", strerror(errno));
	both_hang(who);
	assert_int_equal(found_take(pid, &f), 0);
	/* By itself it does not go: a thread of it waits for a lock, and the holder is not told to end. */
	assert_int_equal(found_kill(&f, clock_boot_ns() + SECOND_NS), ERR_TIMEOUT);
	assert_int_equal(found_kill_world(&f, clock_boot_ns() + 60 * SECOND_NS), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(found_kill_world(&f, clock_boot_ns() + SECOND_NS), 0); /* gone already */
}

static void one_that_is_of_our_own_namespace_takes_nobody_with_it(void **state)
{
	struct found f;
	pid_t pid = fork(), other;

	(void)state;
	if (pid == 0)
		for (;;)
			pause();
	other = fork();
	if (other == 0)
		for (;;)
			pause();
	assert_int_equal(found_take(pid, &f), 0);
	assert_int_equal(found_kill_world(&f, clock_boot_ns() + 60 * SECOND_NS), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
	kill(other, SIGKILL);
	assert_int_equal(waitpid(other, NULL, 0), other);
}

static void *lets_go_late(void *holder)
{
	(void)poll(NULL, 0, FOUND_FIRST_NS / NS_PER_MS + 300);
	kill(*(pid_t *)holder, SIGKILL);
	return NULL;
}

/* As a busy machine makes of any process: nobody else may be ended for it, so it has all of the caller's time. */
static void one_of_our_own_namespace_may_take_long(void **state)
{
	struct found f;
	pthread_t t;
	pid_t pid, who[2];

	(void)state;
	assert_int_equal(pipe2(said, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		_exit(first(NULL));
	both_hang(who);
	assert_int_equal(found_take(pid, &f), 0);
	assert_int_equal(pthread_create(&t, NULL, lets_go_late, &who[0]), 0);
	assert_int_equal(found_kill_world(&f, clock_boot_ns() + 60 * SECOND_NS), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_namespace_whose_first_process_waits_is_ended),
	    cmocka_unit_test(one_that_is_of_our_own_namespace_takes_nobody_with_it),
	    cmocka_unit_test(one_of_our_own_namespace_may_take_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
