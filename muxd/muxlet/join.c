#include "muxd/muxlet/join.h"

#include "muxd/muxlet/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
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
#define BRIDGE_CHUNK   (64 * 1024)
#define BRIDGE_LAST_MS 5000 /* for what muxlet said last, when nobody reads it */

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
static int join_reach(const struct sockaddr_un *sa, socklen_t len, bool *begun, int *listener)
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

/* ---- the exec stream's stdin and stdout, joined to the socket of the muxlet that runs */

struct flow {
	int from, to;
	size_t at, len;
	bool ended;  /* nothing more comes; what is in buf still goes */
	bool closed; /* and the other side was told so */
	bool failed;
	unsigned char buf[BRIDGE_CHUNK];
};

static bool bridge_later(void)
{
	return errno == EINTR || errno == EAGAIN;
}

static void bridge_fill(struct flow *f)
{
	ssize_t n = read(f->from, f->buf, sizeof(f->buf));

	f->at = 0;
	f->len = n > 0 ? (size_t)n : 0;
	f->ended = n == 0 || (n < 0 && !bridge_later());
}

static void bridge_drain(struct flow *f)
{
	ssize_t n = write(f->to, f->buf + f->at, f->len);

	if (n < 0 && !bridge_later())
		f->failed = true;
	if (n <= 0)
		return;
	f->at += (size_t)n;
	f->len -= (size_t)n;
}

static int nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static bool hung_up(int sock)
{
	struct pollfd p = {.fd = sock};

	return poll(&p, 1, 0) == 1 && p.revents & (POLLHUP | POLLERR);
}

/* A full side is not read from, and a descriptor without a wish is left out of the poll: it may have hung up. */
static int bridge_wait_for(const struct flow *in, const struct flow *out, struct pollfd p[3])
{
	bool sock = in->len || !(out->len || out->ended);

	p[0] = (struct pollfd){.fd = in->len || in->ended ? -1 : in->from, .events = POLLIN};
	p[1] = (struct pollfd){.fd = sock ? in->to : -1};
	p[1].events = (short)((in->len ? POLLOUT : 0) | (out->len || out->ended ? 0 : POLLIN));
	p[2] = (struct pollfd){.fd = out->to, .events = out->len ? POLLOUT : 0}; /* and whether its reader is gone */
	return poll(p, 3, out->len ? BRIDGE_LAST_MS : -1);
}

/* One turn. 0: goes on; else the exit code plus one. */
static int bridge_turn(struct flow *in, struct flow *out)
{
	struct pollfd p[3];
	int n = bridge_wait_for(in, out, p);

	if (n < 0)
		return errno == EINTR ? 0 : 2;
	if (n == 0)
		return out->ended || hung_up(in->to) ? 2 : 0;
	if (p[2].revents & POLLERR)
		return 2;
	if (p[0].revents)
		bridge_fill(in);
	if (p[1].revents && !out->len && !out->ended)
		bridge_fill(out);
	if (in->len)
		bridge_drain(in); /* mostly there is room */
	if (out->len)
		bridge_drain(out);
	if (in->failed) { /* muxlet closes: what it said before is still to come */
		in->failed = false;
		in->ended = true;
		in->len = 0;
	}
	if (in->ended && !in->len && !in->closed) {
		in->closed = true;
		(void)shutdown(in->to, SHUT_WR);
	}
	return out->failed ? 2 : out->ended && !out->len ? 1 : 0;
}

/* Both descriptors to the socket, until it ends: 0, or 1 when a side failed. Closes sock. */
static int bridge_run(int stdin_fd, int stdout_fd, int sock)
{
	struct flow in = {.from = stdin_fd, .to = sock}, out = {.from = sock, .to = stdout_fd};
	int rc = 0;

	(void)signal(SIGPIPE, SIG_IGN);
	if (nonblock(stdin_fd) || nonblock(stdout_fd) || nonblock(sock))
		rc = 2;
	while (!rc)
		rc = bridge_turn(&in, &out);
	close(sock);
	return rc - 1;
}

/* ---- all of it */

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
	fd = join_reach(&sa, len, &begun, out_listener);
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
