// tier: check
/* A child that is stopped before it is a program, as any program of the same user can do: muxlet waits for none. */
#include "muxd/muxlet/child.c"
#include "muxd/muxlet/guard.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define DIRS    4000 /* of PATH: to look through them takes longer than to find the child */
#define STOPPED 4    /* children */

/* What the attacker did; shared with it. */
struct attack {
	volatile unsigned stops;
	volatile pid_t last;
	volatile bool again; /* as often as it can */
};

/* Stops each child of `parent` but itself. */
static void attack(pid_t parent, struct attack *a) __attribute__((noreturn));
static void attack(pid_t parent, struct attack *a)
{
	char path[64], text[512], *at;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	for (;;) {
		int fd = open(path, O_RDONLY);
		ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

		close(fd);
		if (n < 0)
			_exit(1);
		text[n] = '\0';
		for (at = text; *at; at += strcspn(at, " "), at += *at == ' ') {
			pid_t pid = (pid_t)strtol(at, NULL, 10);

			if (pid == getpid() || pid <= 0 || (pid == a->last && !a->again) || kill(pid, SIGSTOP))
				continue;
			a->stops += pid != a->last;
			a->last = pid;
		}
	}
}

static pid_t attack_begin(struct attack **out)
{
	struct attack *a = mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), pid;

	assert_true(a != MAP_FAILED);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		attack(parent, a);
	}
	*out = a;
	return pid;
}

static char *long_path(void)
{
	static const char dir[] = "/nowhere:";
	char *path = malloc(DIRS * (sizeof(dir) - 1) + sizeof("/bin:/usr/bin")), *at = path;

	assert_non_null(path);
	for (int i = 0; i < DIRS; i++, at += sizeof(dir) - 1)
		memcpy(at, dir, sizeof(dir) - 1);
	memcpy(at, "/bin:/usr/bin", sizeof("/bin:/usr/bin"));
	return path;
}

static int spawn(const char *path, pid_t *out_pid, const char **at)
{
	char *words[] = {NULL, NULL, (char *)(uintptr_t) "true", NULL}, *envp[] = {NULL};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), err;
	struct child c = {.file = "true",
			  .argv = words + 2,
			  .envp = envp,
			  .path = path,
			  .cwd = "/",
			  .fd = {null, null, null},
			  .files = {1024, 1024},
			  .procs = {RLIM_INFINITY, RLIM_INFINITY}};

	assert_true(null >= 3);
	err = child_spawn(&c, out_pid, at);
	close(null);
	return err;
}

/* The program itself may have been stopped as well, behind its start. */
static void reap(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void attacked(bool again)
{
	char *path = long_path();
	struct attack *a;
	pid_t attacker = attack_begin(&a);

	a->again = again;
	(void)alarm(120); /* where muxlet would wait for ever */
	for (unsigned before = a->stops; a->stops - before < STOPPED;) {
		const char *at = "";
		pid_t pid = -1;
		int err = spawn(path, &pid, &at);

		if (again && err) { /* told to go on so often, and stopped again */
			assert_int_equal(err, EAGAIN);
			assert_string_equal(at, "spawn");
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
			continue;
		}
		assert_int_equal(err, 0);
		reap(pid);
	}
	(void)alarm(0);
	reap(attacker);
	assert_int_equal(munmap(a, sizeof(*a)), 0);
	free(path);
}

static void a_child_that_is_stopped_goes_on(void **state)
{
	(void)state;
	attacked(false);
}

static void a_child_that_is_always_stopped_holds_up_nobody(void **state)
{
	(void)state;
	attacked(true);
}

static void what_fails_is_told_with_its_place(void **state)
{
	const char *at = "";
	pid_t pid = -1;

	(void)state;
	assert_int_equal(spawn("/nowhere:/nor here", &pid, &at), ENOENT);
	assert_string_equal(at, "exec");
	while (waitpid(-1, NULL, 0) > 0)
		;
	assert_int_equal(spawn("/bin:/usr/bin", &pid, &at), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_fails_is_told_with_its_place),
	    cmocka_unit_test(a_child_that_is_stopped_goes_on),
	    cmocka_unit_test(a_child_that_is_always_stopped_holds_up_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
