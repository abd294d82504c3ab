#include "muxd/muxlet/freeze.h"

#include "muxd/muxlet/errand.h"
#include "muxd/muxlet/nursery.h"
#include "muxd/muxlet/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_MOST_MS 16
#define FLAG_NO_EXEC  0x40 /* of a process in /proc: begun by fork, and no program since (PF_FORKNOEXEC) */

/* Processes that we stopped, in that order. */
struct stopped {
	struct tree_proc *v;
	size_t n, cap;
};

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A thread's state and flags: "pid (any name) S ppid pgrp session tty group flags ...". State 0: it is gone. */
static char state_of(pid_t pid, const char *tid, unsigned *out_flags)
{
	char path[64], text[512], *at, state;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", (int)pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strrchr(text, ')');
	return at && sscanf(at + 1, " %c %*d %*d %*d %*d %*d %u", &state, out_flags) == 2 ? state : 0;
}

/* Every thread of it, or it has ended. */
static bool stands_still(pid_t pid)
{
	char path[32];
	struct dirent *e;
	bool still = true;
	unsigned flags;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	while (d && still && (e = readdir(d))) {
		char s = e->d_name[0] == '.' ? 'T' : state_of(pid, e->d_name, &flags);

		still = !s || strchr("TtZX", s);
	}
	if (d)
		closedir(d);
	return still;
}

static ssize_t command_of(pid_t pid, char *out, size_t size)
{
	char path[32];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, out, size);
	if (fd >= 0)
		close(fd);
	return n;
}

static bool is_muxlet(pid_t pid)
{
	char path[32];
	struct stat a, b;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return stat(path, &a) == 0 && stat("/proc/self/exe", &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* Another one of us, that is just letting go: it must not be held. */
static bool freezes(pid_t pid)
{
	static const char own[] = "muxlet\0--freeze";
	char text[sizeof(own)];

	return is_muxlet(pid) && command_of(pid, text, sizeof(text)) == (ssize_t)sizeof(text) &&
	       memcmp(text, own, sizeof(own)) == 0;
}

/*
 * The nursery is the first of those with its command line: the others are what it makes. Their exe tells nothing: none
 * of them is dumpable.
 */
static bool is_nursery(const struct tree_proc *p)
{
	static const char text[] = NURSERY_ARGV0 "\0" NURSERY_ARGV1;
	char said[512];

	return command_of(p->pid, said, sizeof(said)) == (ssize_t)sizeof(text) && memcmp(said, text, sizeof(text)) == 0;
}

static const struct tree_proc *nursery_of(const struct tree_proc *v, size_t n)
{
	const struct tree_proc *first = NULL;

	for (size_t i = 0; i < n; i++)
		if (v[i].ppid == getppid() && (!first || v[i].started < first->started) && is_nursery(&v[i]))
			first = &v[i];
	return first;
}

/* Has it become a program? A command line is anybody's to choose. Kernels that tell no flags tell none of ours. */
static bool is_program(pid_t pid)
{
	unsigned flags = 0, own = 0;
	char tid[16];

	snprintf(tid, sizeof(tid), "%d", (int)pid);
	(void)state_of(pid, tid, &flags);
	snprintf(tid, sizeof(tid), "%d", (int)getpid());
	(void)state_of(getpid(), tid, &own);
	return own && !(flags & FLAG_NO_EXEC);
}

/*
 * A child of muxlet's that is not its program yet: muxlet, or the nursery, stands in vfork() until it is, and could
 * never let us go. It is held at the next look.
 */
static bool begins(const struct tree_proc *p, const struct tree_proc *nursery)
{
	char text[512], parent[sizeof(text)];
	ssize_t n;

	if (p->ppid != getppid() || p == nursery || is_program(p->pid))
		return false;
	if (nursery && is_nursery(p))
		return true;
	n = command_of(p->pid, text, sizeof(text));
	return n > 0 && command_of(p->ppid, parent, sizeof(parent)) == n && memcmp(text, parent, (size_t)n) == 0;
}

/* Somebody has stopped it, and it had no processor yet to notice: the stop is theirs, and outlasts ours. */
static bool stop_pends(pid_t pid)
{
	char path[32], text[4096];
	const char *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, "\nShdPnd:\t");
	return at && strtoull(at + strlen("\nShdPnd:\t"), NULL, 16) >> (SIGSTOP - 1) & 1;
}

static bool is_remembered(const struct stopped *s, const struct tree_proc *p)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].pid == p->pid && s->v[i].started == p->started)
			return true;
	return false;
}

static int freeze_remember(struct stopped *s, const struct tree_proc *p)
{
	if (is_remembered(s, p))
		return 0;
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		struct tree_proc *v = realloc(s->v, cap * sizeof(*v));

		if (!v)
			return -1;
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = *p;
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	return ((const struct tree_proc *)a)->pid - ((const struct tree_proc *)b)->pid;
}

/* One look at all of them. 1: all stand still; 0: not yet; -1: it cannot be done. */
static int pass(struct stopped *s)
{
	const struct tree_proc *nursery;
	struct tree_proc *v = NULL;
	int rc = 1;
	size_t n = 0;

	if (tree_descendants(getppid(), &v, &n))
		return -1;
	nursery = nursery_of(v, n);
	for (size_t i = 0; i < n && rc >= 0; i++) {
		const struct tree_proc *parent;

		if (stands_still(v[i].pid) || freezes(v[i].pid))
			continue;
		rc = 0;
		if (begins(&v[i], nursery))
			continue;
		parent = bsearch(&(struct tree_proc){.pid = v[i].ppid}, v, n, sizeof(*v), by_pid);
		if (parent && !stands_still(parent->pid))
			continue; /* its parent first */
		if (!is_remembered(s, &v[i]) && stop_pends(v[i].pid))
			continue;
		if (freeze_remember(s, &v[i]))
			rc = -1;
		else
			tree_tell(&v[i], SIGSTOP);
	}
	free(v);
	return rc;
}

/* Was the end told, within that time? */
static bool told(const sigset_t *ends, long ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	return sigtimedwait(ends, NULL, &t) > 0;
}

/* Twice in a row: who is made while one looks is seen the next time, and nobody is left to make one. */
static bool freeze(struct stopped *s, const sigset_t *ends)
{
	uint64_t until = now_ms() + FREEZE_MOST_MS;
	int clean = 0, rc;
	long ms = 1;

	while (clean < 2) {
		rc = pass(s);
		if (rc < 0)
			return false;
		clean = rc ? clean + 1 : 0;
		if (rc)
			continue;
		if (now_ms() >= until || told(ends, ms))
			return false;
		ms = ms < PAUSE_MOST_MS ? ms * 2 : ms;
	}
	return true;
}

static void freeze_go_on(struct stopped *s)
{
	while (s->n)
		tree_tell(&s->v[--s->n], SIGCONT);
}

static int freeze_say(const char *word)
{
	return write(STDOUT_FILENO, word, strlen(word)) == (ssize_t)strlen(word) ? 0 : errno;
}

int freeze_run(const char *path)
{
	struct stopped s = {0};
	pid_t parent = getppid();
	sigset_t ends;
	bool frozen;
	int rc;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigaddset(&ends, SIGINT);
	/*
	 * Nobody is held for good by a muxlet that is gone. As process 1 muxlet takes everybody with it, but the kernel
	 * tells of its death when the first of its threads has ended: who let go then would let programs write behind
	 * the snapshot for which they were held, until the last thread has ended.
	 */
	if (sigprocmask(SIG_BLOCK, &ends, NULL) || (parent != 1 && prctl(PR_SET_PDEATHSIG, SIGTERM)))
		return errno;
	(void)signal(SIGPIPE, SIG_IGN);
	rc = errand_sync(path); /* while they run: the less there is to do while they do not */
	frozen = !rc && getppid() == parent && freeze(&s, &ends);
	if (!frozen)
		freeze_go_on(&s);
	rc = rc ? rc : errand_sync(path);
	rc = rc ? rc : freeze_say(frozen ? "frozen\n" : "synced\n");
	while (frozen && !rc && !told(&ends, 3600 * 1000L))
		;
	freeze_go_on(&s);
	free(s.v);
	return rc;
}
