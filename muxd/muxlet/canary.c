#include "muxd/muxlet/canary.h"

#include "muxd/muxlet/child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define EXIT_SYSTEM 71
#define AGAIN_NS    UINT64_C(100000000)

struct begin {
	char *bytes;
	int null_fd;
};

/* On muxlet's memory until exec: system calls alone. */
static int canary_become(void *arg) __attribute__((noreturn));
static int canary_become(void *arg)
{
	const struct begin *b = arg;
	char *argv[] = {(char *)(uintptr_t) "muxlet", (char *)(uintptr_t) "--canary", b->bytes, NULL}, *envp[] = {NULL};
	sigset_t none;

	sigemptyset(&none);
	for (int i = 0; i < 3; i++)
		if (dup2(b->null_fd, i) < 0)
			_exit(EXIT_SYSTEM);
	(void)close_range(3, ~0U, 0);
	(void)setsid(); /* no program's signal to its own group reaches one */
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	execve("/proc/self/exe", argv, envp);
	_exit(EXIT_SYSTEM);
}

static pid_t canary_begin(uint64_t bytes, int null_fd)
{
	char text[24];
	struct begin b = {text, null_fd};

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	return child_make(canary_become, &b);
}

void canaries_keep(struct canaries *c, uint64_t bytes, int null_fd, uint64_t now_ns)
{
	if (now_ns < c->tried_ns)
		return;
	for (int i = 0; i < CANARIES; i++) {
		if (c->pid[i])
			continue;
		c->pid[i] = canary_begin(bytes, null_fd);
		if (c->pid[i] < 0)
			c->pid[i] = 0;
		c->tried_ns = now_ns + AGAIN_NS;
		return;
	}
}

void canaries_let_go(struct canaries *c)
{
	for (int i = 0; i < CANARIES; i++)
		if (c->pid[i])
			(void)kill(c->pid[i], SIGKILL);
}

bool canaries_reaped(struct canaries *c, pid_t pid)
{
	for (int i = 0; i < CANARIES; i++)
		if (c->pid[i] == pid) {
			c->pid[i] = 0;
			return true;
		}
	return false;
}

bool canaries_have(const struct canaries *c, pid_t pid)
{
	for (int i = 0; i < CANARIES; i++)
		if (pid && c->pid[i] == pid)
			return true;
	return false;
}

size_t canaries_count(const struct canaries *c)
{
	size_t n = 0;

	for (int i = 0; i < CANARIES; i++)
		n += c->pid[i] != 0;
	return n;
}

int canary_run(uint64_t bytes)
{
	pid_t parent = getppid();

	child_ends_first();
	if (prctl(PR_SET_DUMPABLE, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		return EXIT_SYSTEM;
	(void)prctl(PR_SET_NAME, "muxlet-canary");
	if (mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) ==
	    MAP_FAILED)
		return EXIT_SYSTEM;
	for (;;)
		(void)pause();
}
