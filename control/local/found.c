#include "control/local/found.h"

#include "base/clock.h"
#include "base/err.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Field 3 (state) and field 22 (start time) of /proc/PID/stat; the name before them may hold anything. */
static int stat_parse(const char *text, char *out_state, uint64_t *out_start)
{
	const char *p = strrchr(text, ')');
	char *end;

	if (!p || p[1] != ' ' || !p[2])
		return ERR_CORRUPT;
	*out_state = p[2];
	p += 2;
	for (int field = 3; field < 22; field++) {
		p = strchr(p, ' ');
		if (!p)
			return ERR_CORRUPT;
		p++;
	}
	errno = 0;
	*out_start = strtoull(p, &end, 10);
	return errno || end == p ? ERR_CORRUPT : 0;
}

/* Also of a zombie, which has state Z. */
static int stat_read(pid_t pid, char *out_state, uint64_t *out_start)
{
	char path[64], text[1024];
	ssize_t n;
	int fd;

	if (pid <= 0)
		return ERR_NOT_FOUND;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return ERR_NOT_FOUND;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return ERR_NOT_FOUND;
	text[n] = '\0';
	return stat_parse(text, out_state, out_start);
}

int found_take(pid_t pid, struct found *out)
{
	uint64_t start;
	char state;

	if (stat_read(pid, &state, &start) || state == 'Z' || state == 'X')
		return ERR_NOT_FOUND;
	out->pid = pid;
	out->start = start;
	return 0;
}

int found_open(const struct found *f, int *out_pidfd)
{
	struct found now;
	int fd;

	if (f->pid <= 0)
		return ERR_NOT_FOUND;
	fd = (int)syscall(SYS_pidfd_open, f->pid, 0);
	if (fd < 0)
		return errno == ESRCH || errno == EINVAL ? ERR_NOT_FOUND : ERR_SYS;
	if (found_take(f->pid, &now) || now.start != f->start) {
		close(fd);
		return ERR_NOT_FOUND;
	}
	*out_pidfd = fd;
	return 0;
}

bool found_alive(const struct found *f)
{
	struct found now;

	return f->pid > 0 && found_take(f->pid, &now) == 0 && now.start == f->start;
}

int deadline_ms(uint64_t deadline_ns)
{
	uint64_t now = clock_boot_ns();
	uint64_t ms = deadline_ns > now ? (deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS : 0;

	return ms > INT_MAX ? INT_MAX : (int)ms;
}

int found_wait(int pidfd, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	for (;;) {
		int ms = deadline_ms(deadline_ns);
		int n = poll(&p, 1, ms);

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return ERR_SYS;
		if (n == 0 && ms == 0)
			return ERR_TIMEOUT;
	}
}

int found_kill(const struct found *f, uint64_t deadline_ns)
{
	int fd, rc = found_open(f, &fd);

	if (rc)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) != 0 && errno != ESRCH)
		rc = errno == EPERM ? ERR_PERMISSION : ERR_SYS;
	else
		rc = found_wait(fd, deadline_ns);
	close(fd);
	return rc;
}

/* ---- a pid namespace */

/* 0: not known. */
static ino_t namespace_of(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* Its leader may be a zombie while a thread of it is not. */
static bool is_there(const struct found *f)
{
	uint64_t start;
	char state;

	return f->pid > 0 && stat_read(f->pid, &state, &start) == 0 && start == f->start;
}

/* How many there were besides process 1. */
static size_t members_kill(ino_t ns, pid_t first)
{
	DIR *proc = opendir("/proc");
	size_t n = 0;

	if (!proc)
		return 0;
	for (struct dirent *de; (de = readdir(proc));) {
		struct found f;
		int fd, pid = (int)strtol(de->d_name, NULL, 10);

		if (pid <= 1 || pid == first || found_take(pid, &f) || found_open(&f, &fd))
			continue;
		if (namespace_of(pid) == ns) { /* asked while its number is its own */
			n++;
			(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
		}
		close(fd);
	}
	closedir(proc);
	return n;
}

int found_kill_world(const struct found *first, uint64_t deadline_ns)
{
	ino_t ns = is_there(first) ? namespace_of(first->pid) : 0;
	uint64_t until = clock_boot_ns() + FOUND_FIRST_NS;
	int rc;

	if (ns == namespace_of(getpid()))
		ns = 0; /* ours: never */
	if (!ns || until > deadline_ns)
		until = deadline_ns; /* there is nobody else to end */
	for (;;) {
		rc = found_kill(first, until);
		if ((rc && rc != ERR_TIMEOUT) || !ns || !is_there(first))
			return rc;
		if (members_kill(ns, first->pid) == 0 && rc == 0)
			return 0;
		if (deadline_ms(deadline_ns) == 0)
			return ERR_TIMEOUT;
		(void)poll(NULL, 0, 2);
	}
}
