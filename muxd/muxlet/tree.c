#include "muxd/muxlet/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROCS_MAX     32768
#define ANCESTORS_MAX 64
#define ENVIRON_MAX   (256 * 1024)

struct procs {
	struct tree_proc *v;
	size_t n, cap;
};

void tree_mark(const unsigned char s[16], char out[TREE_MARK_LEN + 1])
{
	snprintf(out, TREE_MARK_LEN + 1,
		 TREE_MARK "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", s[0], s[1], s[2],
		 s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13], s[14], s[15]);
}

static ssize_t read_file(int proc_fd, pid_t pid, const char *name, char *out, size_t size)
{
	char path[48];
	size_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	while (n < size) {
		ssize_t got = read(fd, out + n, size - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	close(fd);
	return (ssize_t)n;
}

/* "pid (any name) S ppid pgrp session tty ... starttime(22nd) vsize rss ..." */
static int read_stat(int proc_fd, pid_t pid, struct tree_proc *out)
{
	char text[1024], state, *at;
	ssize_t n = read_file(proc_fd, pid, "stat", text, sizeof(text) - 1);
	int ppid, session, threads;
	long pages;

	if (n <= 0)
		return -1;
	text[n] = 0;
	at = strrchr(text, ')');
	if (!at ||
	    sscanf(at + 1, " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %llu %*u %ld",
		   &state, &ppid, &session, &threads, &out->started, &pages) != 6)
		return -1;
	out->pid = pid;
	out->ppid = ppid;
	out->session = session;
	out->zombie = (state == 'Z' && threads <= 1) || state == 'X'; /* a dead main thread leaves its process alive */
	out->stopped = state == 'T' || state == 't';
	out->ours = false;
	out->resident = pages > 0 ? (unsigned long long)pages * (unsigned long long)sysconf(_SC_PAGESIZE) : 0;
	return 0;
}

static int tree_add(struct procs *ps, const struct tree_proc *p)
{
	if (ps->n == PROCS_MAX)
		return -1;
	if (ps->n == ps->cap) {
		size_t cap = ps->cap ? 2 * ps->cap : 64;
		struct tree_proc *v = realloc(ps->v, cap * sizeof(*v));

		if (!v)
			return -1;
		ps->v = v;
		ps->cap = cap;
	}
	ps->v[ps->n++] = *p;
	return 0;
}

/* readdir of /proc goes by ascending pid, but nothing promises it. */
static int by_pid(const void *a, const void *b)
{
	return ((const struct tree_proc *)a)->pid - ((const struct tree_proc *)b)->pid;
}

static int tree_read_all(DIR *dir, struct procs *out)
{
	struct dirent *e;
	pid_t self = getpid();

	while ((e = readdir(dir))) {
		struct tree_proc p;
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid <= 0 || pid == self || read_stat(dirfd(dir), pid, &p) || p.zombie)
			continue;
		if (tree_add(out, &p))
			return -1;
	}
	if (out->n)
		qsort(out->v, out->n, sizeof(*out->v), by_pid);
	return 0;
}

/* As an entry of its own, not as part of another's value. */
static bool carries_mark(int proc_fd, pid_t pid, const char *mark, char *scratch)
{
	ssize_t n = read_file(proc_fd, pid, "environ", scratch, ENVIRON_MAX);
	const char *at = scratch, *end = scratch + (n > 0 ? n : 0);

	while ((at = memmem(at, (size_t)(end - at), mark, TREE_MARK_LEN))) {
		const char *after = at + TREE_MARK_LEN;

		if ((at == scratch || at[-1] == 0) && (after == end || *after == 0))
			return true;
		at = after;
	}
	return false;
}

static bool tree_is_ours(const struct procs *ps, pid_t pid)
{
	struct tree_proc key = {.pid = pid};
	const struct tree_proc *p = bsearch(&key, ps->v, ps->n, sizeof(key), by_pid);

	return p && p->ours;
}

/* The number of a session can only be somebody else's when a process of that number was made after the leader's end. */
static bool session_is_old(const struct procs *ps, pid_t session, bool leader_alive)
{
	return leader_alive || !ps->n ||
	       bsearch(&(struct tree_proc){.pid = session}, ps->v, ps->n, sizeof(*ps->v), by_pid) == NULL;
}

static void add_children(struct procs *ps)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < ps->n; i++)
			if (!ps->v[i].ours && tree_is_ours(ps, ps->v[i].ppid))
				ps->v[i].ours = more = true;
	}
}

static void tree_choose(struct procs *ps, int proc_fd, const struct tree *t, char *scratch)
{
	bool by_session = session_is_old(ps, t->session, t->leader_alive);
	pid_t self = getpid();

	for (size_t i = 0; i < ps->n; i++) {
		struct tree_proc *p = &ps->v[i];

		p->ours = (t->leader_alive && p->pid == t->session) || (by_session && p->session == t->session) ||
			  (p->ppid == self && !t->is_leader(t->arg, p->pid) &&
			   carries_mark(proc_fd, p->pid, t->mark, scratch));
	}
	add_children(ps);
}

static void choose_all(struct procs *ps)
{
	pid_t self = getpid();

	for (size_t i = 0; i < ps->n; i++)
		ps->v[i].ours = ps->v[i].ppid == self;
	add_children(ps);
}

static void send_signals(int proc_fd, const struct tree_proc *p, const int *signals)
{
	struct tree_proc now;
	int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);

	if (fd < 0 && errno != ENOSYS)
		return;
	if (read_stat(proc_fd, p->pid, &now) || now.started != p->started)
		goto out;
	for (; *signals; signals++) {
		if (fd >= 0)
			(void)syscall(SYS_pidfd_send_signal, fd, *signals, NULL, 0);
		else
			(void)kill(p->pid, *signals);
	}
out:
	if (fd >= 0)
		close(fd);
}

/* t NULL: all that descends from us. running: those alone that are not stopped. */
static int signal_chosen(const struct tree *t, const int *signals, bool running)
{
	DIR *dir = opendir("/proc");
	char *scratch = malloc(ENVIRON_MAX);
	struct procs ps = {0};
	int n = -1;

	if (!dir || !scratch || tree_read_all(dir, &ps))
		goto out;
	if (t)
		tree_choose(&ps, dirfd(dir), t, scratch);
	else
		choose_all(&ps);
	n = 0;
	for (size_t i = 0; i < ps.n; i++) {
		if (!ps.v[i].ours || (running && ps.v[i].stopped))
			continue;
		n++;
		if (*signals)
			send_signals(dirfd(dir), &ps.v[i], signals);
	}
out:
	if (dir)
		closedir(dir);
	free(scratch);
	free(ps.v);
	return n;
}

int tree_signal(const struct tree *t, const int *signals)
{
	return signal_chosen(t, signals, false);
}

int tree_signal_all(const int *signals)
{
	return signal_chosen(NULL, signals, false);
}

int tree_stop_all(void)
{
	return signal_chosen(NULL, (const int[]){SIGSTOP, 0}, true);
}

int tree_descendants(pid_t root, struct tree_proc **out, size_t *out_n)
{
	DIR *dir = opendir("/proc");
	struct procs ps = {0};
	size_t n = 0;

	if (!dir || tree_read_all(dir, &ps)) {
		if (dir)
			closedir(dir);
		free(ps.v);
		return -1;
	}
	closedir(dir);
	for (size_t i = 0; i < ps.n; i++)
		ps.v[i].ours = ps.v[i].ppid == root;
	add_children(&ps);
	for (size_t i = 0; i < ps.n; i++)
		if (ps.v[i].ours)
			ps.v[n++] = ps.v[i];
	*out = ps.v;
	*out_n = n;
	return 0;
}

bool tree_descends(pid_t pid, pid_t root)
{
	int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct tree_proc p;
	bool does = false;

	if (proc_fd < 0 || read_stat(proc_fd, getpid(), &p)) {
		if (proc_fd >= 0)
			close(proc_fd);
		return false;
	}
	for (int i = 0; !does && pid > 0; i++) {
		does = pid == root || i == ANCESTORS_MAX || read_stat(proc_fd, pid, &p);
		pid = does ? 0 : p.ppid;
	}
	close(proc_fd);
	return does;
}

void tree_tell(const struct tree_proc *p, int signum)
{
	int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (proc_fd < 0)
		return;
	send_signals(proc_fd, p, (const int[]){signum, 0});
	close(proc_fd);
}
