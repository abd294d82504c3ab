#include "muxd/muxlet/join.h"

#include "muxd/muxlet/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECRET_BYTES   32
#define PREAMBLE_LEN   (JOIN_MAGIC_LEN + SECRET_BYTES)
#define PREAMBLE_MS    30000
#define BEGIN_TRIES    500 /* 10 ms each: another exec is about to listen */
#define EXIT_BAD_INPUT 65
#define EXIT_SYSTEM    71
#define EXIT_TAKEN     77

static int complain(int code, const char *what, int errnum)
{
	fprintf(stderr, "muxlet: %s%s%s\n", what, errnum ? ": " : "", errnum ? strerror(errnum) : "");
	return code;
}

/* The fixed beginning of stdin, not a byte more. */
static int read_preamble(uint8_t *p)
{
	size_t n = 0;

	while (n < PREAMBLE_LEN) {
		struct pollfd w = {.fd = STDIN_FILENO, .events = POLLIN};
		int ready = poll(&w, 1, PREAMBLE_MS);
		ssize_t got;

		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			return -1;
		got = read(STDIN_FILENO, p + n, PREAMBLE_LEN - n);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got <= 0)
			return -1;
		n += (size_t)got;
	}
	return memcmp(p, JOIN_MAGIC, JOIN_MAGIC_LEN) == 0 ? 0 : -1;
}

static int address_of(const char *name, struct sockaddr_un *sa, socklen_t *len)
{
	size_t n = strlen(name);

	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	if (n == 0 || n + 1 > sizeof(sa->sun_path))
		return -1;
	memcpy(sa->sun_path + 1, name, n); /* the leading NUL makes it abstract */
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
	return 0;
}

static int new_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* A connected descriptor, or -errno; -EPERM when somebody else's process holds the name. */
static int dial(const struct sockaddr_un *sa, socklen_t len)
{
	struct ucred who;
	socklen_t size = sizeof(who);
	int fd = new_socket(), rc = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)sa, len))
		rc = -errno;
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) || who.uid != geteuid())
		rc = -EPERM;
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

static int bind_name(const struct sockaddr_un *sa, socklen_t len)
{
	int fd = new_socket(), rc;

	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)sa, len) || listen(fd, 16)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

/* Nothing of the exec may be held: its streams end when the last of their descriptors is closed. */
static int join_let_go(void)
{
	int fd = open("/dev/null", O_RDWR), rc = fd < 0;

	for (int i = 0; i < 3 && !rc; i++)
		rc = fd != i && dup2(fd, i) < 0;
	if (fd > 2)
		close(fd);
	return rc ? -1 : 0;
}

/* JOIN_SERVE in the daemon; here 0, or -errno. A session of its own, and nobody's child: no exec has to wait for it. */
static int join_begin(void)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -errno;
	if (pid > 0) {
		while (waitpid(pid, &status, 0) < 0)
			if (errno != EINTR)
				return -errno;
		return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EAGAIN;
	}
	if (setsid() < 0)
		_exit(1);
	pid = fork();
	if (pid)
		_exit(pid < 0);
	if (join_let_go())
		_exit(1);
	return JOIN_SERVE;
}

static void pause_10ms(void)
{
	(void)poll(NULL, 0, 10);
}

/* A socket to the muxlet of this name, or -errno; JOIN_SERVE in the one that had to be begun (*listener). */
static int reach(const struct sockaddr_un *sa, socklen_t len, bool *begun, int *listener)
{
	int fd = dial(sa, len), rc;

	for (int i = 0; i < BEGIN_TRIES && fd == -ECONNREFUSED; i++) {
		rc = bind_name(sa, len);
		if (rc == -EADDRINUSE) {
			pause_10ms();
			fd = dial(sa, len);
			continue;
		}
		if (rc < 0)
			return rc;
		*listener = rc;
		rc = join_begin();
		if (rc == JOIN_SERVE)
			return rc;
		fd = rc ? rc : dial(sa, len);
		close(*listener);
		*begun = true;
	}
	return fd;
}

/* Only a file system of its own can be a cap: its whole size. */
static unsigned long long workspace_size(const char *workdir)
{
	char parent[4096];
	struct stat at, above;
	struct statvfs fs;

	if (snprintf(parent, sizeof(parent), "%s/..", workdir) >= (int)sizeof(parent) || stat(workdir, &at) ||
	    stat(parent, &above) || at.st_dev == above.st_dev || statvfs(workdir, &fs))
		return 0;
	return (unsigned long long)fs.f_blocks * fs.f_frsize;
}

static int say_joined(bool begun, const char *workdir)
{
	struct utsname u;

	if (uname(&u))
		return -1;
	return dprintf(STDOUT_FILENO,
		       "muxlet join=1 version=" MUXD_VERSION " daemon=%s uid=%u machine=%.32s workspace_size=%llu%s\n",
		       begun ? "started" : "running", (unsigned)geteuid(), u.machine, workspace_size(workdir),
		       guard_applies() && !guard_allowed() ? " guard=refused" : "") < 0
		   ? -1
		   : 0;
}

int join_run(const char *name, const char *workdir, uint8_t secret[32], int *out_listener)
{
	uint8_t preamble[PREAMBLE_LEN];
	struct sockaddr_un sa;
	socklen_t len;
	bool begun = false;
	int fd;

	if (prctl(PR_SET_DUMPABLE, 0))
		return complain(EXIT_SYSTEM, "prctl", errno);
	if (address_of(name, &sa, &len))
		return complain(EXIT_BAD_INPUT, "the name for --join is empty or too long", 0);
	if (read_preamble(preamble))
		return complain(EXIT_BAD_INPUT, "no MUXJOIN and secret on standard input", 0);
	fd = reach(&sa, len, &begun, out_listener);
	if (fd == JOIN_SERVE) {
		memcpy(secret, preamble + JOIN_MAGIC_LEN, SECRET_BYTES);
		explicit_bzero(preamble, sizeof(preamble));
		return JOIN_SERVE;
	}
	explicit_bzero(preamble, sizeof(preamble));
	if (fd == -EPERM)
		return complain(EXIT_TAKEN, "the socket's name is held by a process of another user", 0);
	if (fd < 0)
		return complain(EXIT_SYSTEM, "no muxlet could be begun or reached", -fd);
	if (say_joined(begun, workdir)) {
		close(fd);
		return complain(EXIT_SYSTEM, "standard output", errno);
	}
	return bridge_run(STDIN_FILENO, STDOUT_FILENO, fd);
}
