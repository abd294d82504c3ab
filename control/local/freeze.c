#include "control/local/freeze.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIFT_TRIES 4 /* freezes are counted since 6.5 */

/*
 * The workspace as the sandbox sees it. What is opened must be the file system on that device: nobody
 * inside can mount, but a path through a sandbox is not believed.
 */
static int workspace_open(const struct found *init, const char *device, struct err *e)
{
	struct stat dir, dev;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root/workspace", (int)init->pid);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || !found_alive(init)) {
		if (fd >= 0)
			close(fd);
		return err_set(e, ERR_NOT_FOUND, "the sandbox ended while its workspace was looked for");
	}
	if (fstat(fd, &dir) != 0 || stat(device, &dev) != 0 || dir.st_dev != dev.st_rdev) {
		close(fd);
		return err_set(e, ERR_SYS, "the sandbox's workspace is not on %s", device);
	}
	return fd;
}

static void keep_two(int a, int b)
{
	unsigned low = (unsigned)(a < b ? a : b), up = (unsigned)(a < b ? b : a);

	if (low > 0)
		(void)close_range(0, low - 1, 0);
	if (up > low + 1)
		(void)close_range(low + 1, up - 1, 0);
	(void)close_range(up + 1, ~0U, 0);
}

/* In the process that holds the freeze; nothing but system calls: its parent may have threads. */
static void freeze_hold(int fs, int sock, uint64_t deadline_ns) __attribute__((noreturn));
static void freeze_hold(int fs, int sock, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	int32_t said;
	char word;
	int n;

	keep_two(fs, sock);
	for (int s = 1; s < NSIG; s++)
		if (s != SIGKILL && s != SIGSTOP && s != SIGCHLD)
			signal(s, SIG_IGN);
	prctl(PR_SET_NAME, "muxd-freeze");
	said = ioctl(fs, FIFREEZE, 0) == 0 ? 0 : errno;
	if (said == EBUSY && ioctl(fs, FITHAW, 0) == 0) /* left by one that was killed */
		said = ioctl(fs, FIFREEZE, 0) == 0 ? 0 : errno;
	if (send(sock, &said, sizeof(said), MSG_NOSIGNAL) == (ssize_t)sizeof(said) && said == 0) {
		do
			n = poll(&p, 1, deadline_ms(deadline_ns));
		while (n < 0 && errno == EINTR);
		said = n > 0 ? 0 : ETIMEDOUT;
		(void)!recv(sock, &word, 1, MSG_DONTWAIT); /* left unread, our end would reset the other one's */
	}
	(void)ioctl(fs, FITHAW, 0);
	(void)!send(sock, &said, sizeof(said), MSG_NOSIGNAL);
	_exit(0);
}

static int hold_start(int fs, int sock, uint64_t deadline_ns, struct err *e)
{
	pid_t pid = fork();

	if (pid == 0) {
		pid = fork(); /* nobody's child: no other part of the daemon hears of its end */
		if (pid == 0)
			freeze_hold(fs, sock, deadline_ns);
		_exit(pid < 0);
	}
	if (pid < 0)
		return err_sys(e, errno, "cannot fork");
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

/* One word of the holder: 0 or an errno. */
static int heard(int fd, uint64_t deadline_ns, const char *what, struct err *e)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int32_t said;
	int n;

	do
		n = poll(&p, 1, deadline_ms(deadline_ns));
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return err_set(e, ERR_TIMEOUT, "the workspace could not be %s in time", what);
	if (recv(fd, &said, sizeof(said), 0) != (ssize_t)sizeof(said))
		return err_set(e, ERR_SYS, "the workspace could not be %s: its holder has died", what);
	if (said == ETIMEDOUT)
		return err_set(e, ERR_TIMEOUT, "the workspace could not be kept still until it was copied");
	return said ? err_sys(e, said, "the workspace could not be %s", what) : 0;
}

int freeze_begin(const struct found *init, const char *device, uint64_t deadline_ns, struct freeze *out, struct err *e)
{
	int fs = workspace_open(init, device, e);
	int pair[2], rc;

	out->fd = -1;
	if (fs < 0)
		return fs;
	(void)syncfs(fs); /* while programs still write: the less there is to do while they wait */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
		rc = err_sys(e, errno, "cannot make a socket");
		close(fs);
		return rc;
	}
	rc = hold_start(fs, pair[1], deadline_ns, e);
	close(pair[1]);
	close(fs);
	rc = rc ? rc : heard(pair[0], deadline_ns, "frozen", e);
	if (rc)
		close(pair[0]);
	else
		out->fd = pair[0];
	return rc;
}

int freeze_end(struct freeze *f, struct err *e)
{
	int rc;

	if (f->fd < 0)
		return 0;
	(void)!send(f->fd, "t", 1, MSG_NOSIGNAL);
	rc = heard(f->fd, clock_boot_ns() + 10 * NS_PER_SEC, "thawed", e);
	close(f->fd);
	f->fd = -1;
	return rc;
}

void freeze_lift(const struct found *init, const char *device)
{
	int fs = workspace_open(init, device, NULL);

	if (fs < 0)
		return;
	for (int i = 0; i < LIFT_TRIES && ioctl(fs, FITHAW, 0) == 0; i++)
		;
	close(fs);
}
