// tier: check
/*
 * The tests of test_link.c again, with a nursery that makes the programs and a thread at their pipes; and what that
 * thread is for: a program that holds a pipe's lock, as one does that waits for memory, keeps nobody else waiting.
 */
int with_a_nursery(int argc, char **argv);
#define main with_a_nursery
#include "tests/unit/test_link.c"
#undef main

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HELD_SECONDS 60 /* should nobody end it */

/* A page that the kernel waits for, whoever touches it, until the process ends. */
static void *page_that_never_comes(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.range.len = 4096, .mode = UFFDIO_REGISTER_MODE_MISSING};
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	reg.range.start = (uintptr_t)p;
	if (fd < 0 || p == MAP_FAILED || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))
		return NULL;
	return p;
}

/* The program: with a pipe's lock it waits for the page. */
static int hold(const char *which)
{
	void *p = page_that_never_comes();
	char byte;

	(void)alarm(HELD_SECONDS);
	if (!p || write(STDERR_FILENO, "ready\n", 6) != 6)
		return 2;
	if (strcmp(which, "stdin") == 0)
		return (int)read(STDIN_FILENO, p, 4096);
	/* Not before its word was read: the thread reads one pipe after the other, and would hang in this one first. */
	if (read(STDIN_FILENO, &byte, 1) != 1 || write(STDOUT_FILENO, "x", 1) != 1)
		return 2;
	return (int)write(STDOUT_FILENO, p, 4096);
}

static void nobody_waits_for_a_pipe_that_is_held(void **state)
{
	static const char *const which[] = {"stdin", "stdout"};
	static uint8_t zeros[200 * 1024];
	char self[512], command[600];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	(void)state;
	assert_true(n > 0);
	self[n] = '\0';
	for (size_t i = 0; i < 2; i++) {
		FRESH(r);
		uint64_t at;

		(void)snprintf(command, sizeof(command), "exec '%s' --hold %s", self, which[i]);
		rig_open(r, 1, command, (struct rig_call){.with_stdin = true});
		assert_true(rig_until(r, 20000, r->ch[1].len[2] == 6));
		at = rig_type(r, 1, 0, zeros, 8);
		rig_sleep(r, 100); /* the kernel has begun to copy, and waits for the page */
		(void)link_input(r->link, 1, at, zeros, sizeof(zeros));
		rig_sleep(r, 100);
		rig_open(r, 2, "echo there", (struct rig_call){.pty = true});
		assert_true(rig_until(r, 20000, r->ch[2].len[1] > 0));
		assert_non_null(strstr(rig_text(r, 2, 1), "there"));
		assert_false(r->ch[1].exited); /* the lock is held still */
		assert_int_equal(link_signal(r->link, 1, SIGTERM), 0);
		rig_wait_exit(r, 1);
		assert_int_equal(r->ch[1].exit.signal, SIGTERM);
		rig_destroy(r);
	}
}

static pid_t nursery_of(pid_t muxlet)
{
	char command[100];
	int pid = 0;
	FILE *f;

	(void)snprintf(command, sizeof(command), "pgrep -P %d -x muxlet-nursery", (int)muxlet);
	f = popen(command, "r");
	assert_int_equal(fscanf(f, "%d", &pid), 1);
	pclose(f);
	return pid;
}

/* Nobody could say anything before its program was there: that time is no silence of its. */
static void silence_counts_from_its_begin(void **state)
{
	FRESH(r);
	pid_t nursery;

	(void)state;
	rig_open(r, 1, "true", (struct rig_call){0});
	rig_wait_exit(r, 1);
	nursery = nursery_of(r->pid);
	assert_int_equal(kill(nursery, SIGSTOP), 0);
	/* 2.5 s are left for a busy machine to begin the program and to see its end. */
	rig_open(r, 2, "sleep 4; exit 7", (struct rig_call){.idle_ms = 3000});
	rig_sleep(r, 50); /* it is asked for, and nobody makes it */
	assert_int_equal(kill(r->pid, SIGSTOP), 0);
	assert_int_equal(kill(nursery, SIGCONT), 0);
	usleep(3500 * 1000);
	assert_int_equal(kill(r->pid, SIGCONT), 0);
	rig_wait_exit(r, 2);
	assert_int_equal(r->ch[2].exit.cause, EXIT_EXITED);
	assert_int_equal(r->ch[2].exit.code, 7);
	rig_destroy(r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_waits_for_a_pipe_that_is_held)};
	const struct CMUnitTest more[] = {cmocka_unit_test(silence_counts_from_its_begin)};
	int rc;

	if (argc == 3 && strcmp(argv[1], "--hold") == 0)
		return hold(argv[2]);
	setenv("RIG_NURSERY", "1", 1);
	rc = with_a_nursery(argc, argv);
	rc = rc ? rc : cmocka_run_group_tests(more, NULL, NULL);
	if (rc || !page_that_never_comes()) /* a kernel without it, or not root */
		return rc;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
