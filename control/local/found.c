#include "control/local/found.h"

#include "muxd/base/clock.h"
#include "muxd/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int found_take(pid_t pid, struct found *out)
{
	char path[64], text[1024], state;
	uint64_t start;
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
	if (stat_parse(text, &state, &start) || state == 'Z' || state == 'X')
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
