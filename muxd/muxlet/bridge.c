/* An exec stream's stdin and stdout, joined to the socket of the muxlet that runs already. */
#include "muxd/muxlet/join.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BRIDGE_CHUNK   (64 * 1024)
#define BRIDGE_LAST_MS 5000 /* for what muxlet said last, when nobody reads it */

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

/* Whoever is full is not read from, and a descriptor that nothing is wanted of is not asked: it may have hung up. */
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

int bridge_run(int stdin_fd, int stdout_fd, int sock)
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
