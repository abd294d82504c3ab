// tier: check
/*
 * Programs that hold the lock of their own pipes by splice(2), for as long as they like (muxd/muxlet/pipes.h): who
 * else is inside does not wait for them; beyond what threads there are, staff goes on, new rounds are refused by name,
 * and whoever clears the sandbox has it back.
 */
#include "tests/lib/link_rig.h"

#include "muxd/muxlet/pipes.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define HELD_SECONDS 120 /* should nobody end it */
#define AGENTS       1
#define STAFF        100
#define NARROW       300

static char self[512];

/* ---- the programs */

static int word(const char *text)
{
	return write(STDERR_FILENO, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : 2;
}

/* What is in stdin goes to a socket that is full: the kernel waits for its reader, with the lock of the pipe. */
static int hold_stdin(void)
{
	static char block[4096];
	int s[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) || fcntl(s[0], F_SETFL, O_NONBLOCK))
		return 2;
	while (write(s[0], block, sizeof(block)) > 0)
		;
	if (fcntl(s[0], F_SETFL, 0) || word("ready\n"))
		return 2;
	return splice(STDIN_FILENO, NULL, s[0], NULL, sizeof(block), 0) >= 0;
}

/* What a socket has goes to stdout, and the socket has nothing; a full pipe has more than one read gives. */
static int hold_stdout(void)
{
	static char block[64 * 1024];
	int s[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) || word("ready\n") ||
	    write(STDOUT_FILENO, block, sizeof(block)) != (ssize_t)sizeof(block))
		return 2;
	return splice(s[0], NULL, STDOUT_FILENO, NULL, sizeof(block), 0) >= 0;
}

/* It ends, and one that nobody finds by its session or its environment holds the pipe. */
static int escape(const char *how)
{
	const char *const argv[] = {self, "--hold", how, NULL}, *const none[] = {NULL};

	if (fork() == 0) {
		(void)setsid();
		(void)execve(self, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)none);
		_exit(2);
	}
	(void)sleep(3); /* so that its word is this round's, on a busy machine as well */
	return 0;
}

/*
 * Both ends of the pipe that is its stdout are let go by everybody inside, but for one that was opened again, to read:
 * what muxlet had opened for the program is the last that can be written to.
 */
static int reopen(void)
{
	static char block[4096];
	int s[2], again = open("/proc/self/fd/1", O_RDONLY);

	if (again < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, s) || fcntl(s[0], F_SETFL, O_NONBLOCK))
		return 2;
	while (write(s[0], block, sizeof(block)) > 0)
		;
	if (fcntl(s[0], F_SETFL, 0) || word("ready\n") || write(STDOUT_FILENO, block, sizeof(block)) < 0)
		return 2;
	if (fork() == 0) {
		(void)close_range(0, 2, 0);
		return splice(again, NULL, s[0], NULL, sizeof(block), 0) >= 0;
	}
	return 0;
}

/* As many descriptors as the user may have in sockets are in one. */
static int fill_sockets(void)
{
	union {
		char bytes[CMSG_SPACE(200 * sizeof(int))];
		struct cmsghdr align;
	} control = {.bytes = {0}};
	char byte = 0;
	struct msghdr m = {.msg_iov = &(struct iovec){&byte, 1},
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int s[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s))
		return 2;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(200 * sizeof(int));
	while (sendmsg(s[0], &m, MSG_DONTWAIT) == 1) /* 0 as often as there is room: its stdin */
		;
	if (errno != ETOOMANYREFS || word("ready\n"))
		return 2;
	return pause();
}

/* As a sandbox's muxlet is: without root's rights, and with a limit that is soon met. */
static int narrow(char **argv)
{
	(void)prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN);
	(void)prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE);
	if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){NARROW, NARROW}))
		return 2;
	return execv(argv[0], argv);
}

/* The parent waits where no SIGSTOP stops it, the child is stopped. */
static int wait_in_vfork(void)
{
	if (word("ready\n"))
		return 2;
	if (vfork() == 0) {
		(void)syscall(SYS_kill, (pid_t)syscall(SYS_getpid), SIGSTOP);
		_exit(0);
	}
	return 0;
}

/* ---- the tests */

static void held(struct rig *r, uint32_t channel, const char *mode, const char *how, struct rig_call k)
{
	const char *const argv[] = {self, mode, how, NULL};
	uint64_t at;

	k.with_stdin = true;
	assert_int_equal(rig_open_argv(r, channel, argv, &k), 0);
	assert_true(rig_until(r, 20000, r->ch[channel].len[2] == 6));
	at = rig_type(r, channel, 0, "0123456789", 10);
	rig_sleep(r, 50); /* the kernel is at them */
	(void)link_input(r->link, channel, at, (const uint8_t *)"more", 4);
}

static void goes_on(struct rig *r, uint32_t channel, struct rig_call k)
{
	rig_open(r, channel, "read line; echo \"there $line\"", (k.with_stdin = true, k));
	(void)rig_type(r, channel, 0, "anyway\n", 7);
	rig_wait_exit(r, channel);
	if (r->ch[channel].exit.error)
		print_error("%s: %s\n", r->ch[channel].exit.error_at, strerror(r->ch[channel].exit.error));
	assert_non_null(strstr(rig_text(r, channel, 1), "there anyway"));
}

static void nobody_waits_for_a_pipe_that_is_held(void **state)
{
	static const char *const ways[] = {"stdin", "stdout"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct rig *r = rig_create();

		held(r, 1, "--hold", ways[i], (struct rig_call){.pty = false});
		held(r, 2, "--hold", ways[i], (struct rig_call){.pty = false});
		goes_on(r, 3, (struct rig_call){.pty = false});
		goes_on(r, 4, (struct rig_call){.pty = true});
		assert_false(r->ch[1].exited || r->ch[2].exited); /* the locks are held still */
		assert_int_equal(link_signal(r->link, 1, SIGTERM), 0);
		rig_wait_exit(r, 1);
		assert_int_equal(r->ch[1].exit.signal, SIGTERM);
		assert_int_equal(r->ch[1].exit.total[0] <= 14, 1);
		assert_int_equal(r->downs, 0);
		rig_destroy(r); /* muxlet ends although one is held */
	}
}

static void nobody_waits_for_the_last_close(void **state)
{
	const char *const argv[] = {self, "--hold", "reopen", NULL};
	struct rig *r = rig_create();

	(void)state;
	for (uint32_t i = 1; i <= 4; i++)
		assert_int_equal(rig_open_argv(r, i, argv, &(struct rig_call){.pty = false}), 0);
	for (uint32_t i = 1; i <= 4; i++)
		assert_true(rig_until(r, 20000, r->ch[i].len[2] == 6));
	rig_sleep(r, 100);
	goes_on(r, 5, (struct rig_call){.pty = true});
	goes_on(r, 6, (struct rig_call){.pty = false});
	assert_int_equal(r->downs, 0);
	rig_destroy(r);
}

static void hold_input(struct rig *r, uint32_t channel)
{
	const char *const argv[] = {self, "--hold", "stdin", NULL};

	assert_int_equal(rig_open_argv(r, channel, argv, &(struct rig_call){.with_stdin = true}), 0);
	assert_true(rig_until(r, 20000, r->ch[channel].len[2] == 6));
	(void)rig_type(r, channel, 0, "0123456789", 10);
	rig_sleep(r, 20); /* the kernel is at them */
}

/* More ends of agents' pipes are held than there are threads: closing them takes none that is kept for staff. */
static void closings_of_agents_leave_staff_its_threads(void **state)
{
	struct rig *r = rig_create();

	(void)state;
	for (uint32_t i = 1; i <= PIPES_THREADS + 2; i++)
		hold_input(r, i);
	for (uint32_t i = 1; i <= PIPES_THREADS + 2; i++) {
		assert_int_equal(link_input_eof(r->link, i, 10), 0);
		rig_sleep(r, 20);
	}
	for (uint32_t i = 0; i < PIPES_THREADS - PIPES_COMMON + 2; i++)
		goes_on(r, STAFF + i, (struct rig_call){.reserve = true});
	for (uint32_t i = 1; i <= PIPES_THREADS + 2; i++)
		assert_false(r->ch[i].exited);
	rig_destroy(r);
}

/* Pipes that are closed in the same turn as one that is held. */
static void closings_wait_for_none_of_others(void **state)
{
	struct rig *r = rig_create();

	(void)state;
	rig_open(r, 2, "echo there >&2; cat", (struct rig_call){.with_stdin = true});
	assert_true(rig_until(r, 20000, r->ch[2].len[2] == 6));
	hold_input(r, 1);
	assert_int_equal(link_input_eof(r->link, 1, 10), 0);
	assert_int_equal(link_input_eof(r->link, 2, 0), 0);
	rig_wait_exit(r, 2);
	assert_false(r->ch[1].exited);
	rig_destroy(r);
}

/* A user may have so many descriptors on their way through sockets: programs use that up, and pipes are closed still.
 */
static void no_closing_waits_for_sockets_of_others(void **state)
{
	const char *const argv[] = {self,          "--narrow", BUILD_DIR "/muxlet", "--listen-fd", "3",
				    "--secret-fd", "4",        "--workdir",         "/tmp",        "--shell",
				    "/bin/sh",     NULL},
			  *const flight[] = {self, "--hold", "flight", NULL};
	struct rig *r = rig_create_as(argv);

	(void)state;
	assert_int_equal(rig_open_argv(r, 1, flight, &(struct rig_call){.pty = false}), 0);
	assert_true(rig_until(r, 20000, r->ch[1].len[2] == 6));
	for (uint32_t i = 2; i < 200; i++) { /* more pipes than muxlet may have open */
		rig_open(r, i, "cat", (struct rig_call){.with_stdin = true});
		assert_int_equal(link_input_eof(r->link, i, 0), 0);
		rig_wait_exit(r, i);
		assert_int_equal(r->ch[i].exit.cause, EXIT_EXITED);
		link_forget(r->link, i);
	}
	assert_false(r->ch[1].exited);
	rig_destroy(r);
}

static void who_waits_in_vfork_is_ended_with_all(void **state)
{
	const char *const argv[] = {self, "--hold", "vfork", NULL};
	struct rig *r = rig_create();
	uint64_t begun;

	(void)state;
	assert_int_equal(rig_open_argv(r, 1, argv, &(struct rig_call){.pty = false}), 0);
	assert_true(rig_until(r, 20000, r->ch[1].len[2] == 6));
	rig_sleep(r, 50);
	begun = clock_boot_ns();
	assert_int_equal(link_clear(r->link), 0);
	assert_true(rig_until(r, 20000, r->cleared));
	assert_int_equal(r->cleared_rc, 0);
	print_message("   cleared after %llu ms\n", (unsigned long long)((clock_boot_ns() - begun) / NS_PER_MS));
	rig_wait_exit(r, 1);
	rig_destroy(r);
}

static void every_thread_is_held(struct rig *r)
{
	for (uint32_t i = 0; i < PIPES_COMMON; i++)
		held(r, AGENTS + i, "--escape", "stdin", (struct rig_call){.pty = false});
	/* The programs are gone, what they had is not known; their rounds end all the same. */
	for (uint32_t i = 0; i < PIPES_COMMON; i++) {
		assert_true(rig_until(r, 40000, r->ch[AGENTS + i].exited));
		assert_int_equal(r->ch[AGENTS + i].exit.code, 0);
		assert_string_equal(r->ch[AGENTS + i].exit.text,
				    "a program held its pipe: its last output may be missing");
	}
}

static void with_every_thread_held_staff_goes_on(void **state)
{
	struct rig *r = rig_create();

	(void)state;
	every_thread_is_held(r);
	rig_open(r, 50, "echo never", (struct rig_call){.pty = false});
	rig_wait_exit(r, 50);
	assert_int_equal(r->ch[50].exit.cause, EXIT_NOT_STARTED);
	assert_int_equal(r->ch[50].exit.error, EDEADLK);
	assert_string_equal(r->ch[50].exit.error_at, "pipe");
	goes_on(r, 51, (struct rig_call){.pty = true});
	goes_on(r, STAFF, (struct rig_call){.reserve = true});
	/* everything inside ends, and the threads are back */
	assert_int_equal(link_clear(r->link), 0);
	assert_true(rig_until(r, 20000, r->cleared));
	assert_int_equal(r->cleared_rc, 0);
	goes_on(r, 52, (struct rig_call){.pty = false});
	assert_int_equal(r->downs, 0);
	rig_destroy(r);
}

/* The number of bytes that a program took is in its EXIT, though a thread wrote them. */
static void what_a_program_took_is_in_its_exit(void **state)
{
	struct rig *r = rig_create();

	(void)state;
	for (uint32_t i = 1; i <= 300; i++) {
		rig_open(r, i, "read -r line", (struct rig_call){.with_stdin = true});
		(void)rig_type(r, i, 0, "line\n", 5);
		rig_wait_exit(r, i);
		assert_int_equal(r->ch[i].exit.code, 0);
		assert_int_equal(r->ch[i].exit.total[0], 5);
		link_forget(r->link, i);
	}
	rig_destroy(r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_waits_for_a_pipe_that_is_held),
					   cmocka_unit_test(nobody_waits_for_the_last_close),
					   cmocka_unit_test(closings_of_agents_leave_staff_its_threads),
					   cmocka_unit_test(closings_wait_for_none_of_others),
					   cmocka_unit_test(no_closing_waits_for_sockets_of_others),
					   cmocka_unit_test(who_waits_in_vfork_is_ended_with_all),
					   cmocka_unit_test(what_a_program_took_is_in_its_exit)};
	const struct CMUnitTest once[] = {cmocka_unit_test(with_every_thread_held_staff_goes_on)};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return 2;
	if (argc > 3 && strcmp(argv[1], "--narrow") == 0)
		return narrow(argv + 2);
	if (argc == 3)
		(void)alarm(HELD_SECONDS);
	if (argc == 3 && strcmp(argv[1], "--escape") == 0)
		return escape(argv[2]);
	if (argc == 3 && strcmp(argv[1], "--hold") == 0)
		return strcmp(argv[2], "stdin") == 0    ? hold_stdin()
		       : strcmp(argv[2], "stdout") == 0 ? hold_stdout()
		       : strcmp(argv[2], "vfork") == 0  ? wait_in_vfork()
		       : strcmp(argv[2], "flight") == 0 ? fill_sockets()
							: reopen();
	n = cmocka_run_group_tests(once, NULL, NULL);
	n = n ? n : cmocka_run_group_tests(tests, NULL, NULL);
	setenv("RIG_NURSERY", "1", 1); /* and where the nursery makes the programs */
	return n ? (int)n : cmocka_run_group_tests(tests, NULL, NULL);
}
