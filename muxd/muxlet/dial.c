#include "muxd/muxlet/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE     (64 * 1024)
#define PIPE_SIZE (256 * 1024)

/* One direction: what was read and not yet written. */
struct way {
	int from, to;
	size_t at, n;
	bool ended; /* nothing more comes from `from` */
	bool shut;  /* and `to` knows it, or wants no more */
	uint8_t buf[PIECE];
};

static int complain(uint16_t port, int err)
{
	fprintf(stderr, "port %u: %s\n", port, strerror(err));
	return err > 0 && err < 256 ? err : EIO;
}

static int dial_address(const struct sockaddr *sa, socklen_t len, int *out)
{
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), rc, one = 1;

	if (fd < 0)
		return errno;
	do
		rc = connect(fd, sa, len);
	while (rc && errno == EINTR);
	if (rc) {
		rc = errno;
		close(fd);
		return rc;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*out = fd;
	return 0;
}

int dial_connect(uint16_t port, int *out)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {
	    .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int err;

	v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	err = dial_address((struct sockaddr *)&v4, sizeof(v4), out);
	if (err == ECONNREFUSED && dial_address((struct sockaddr *)&v6, sizeof(v6), out) == 0)
		err = 0;
	return err; /* what IPv4 said: the other may not be there at all */
}

static bool dial_later(int err)
{
	return err == EAGAIN || err == EWOULDBLOCK || err == EINTR;
}

static int dial_fill(struct way *w)
{
	ssize_t got = read(w->from, w->buf, sizeof(w->buf));

	if (got < 0)
		return dial_later(errno) ? 0 : errno;
	w->at = 0;
	w->n = (size_t)got;
	w->ended = got == 0;
	return 0;
}

static int dial_drain(struct way *w)
{
	ssize_t done = write(w->to, w->buf + w->at, w->n);

	if (done < 0)
		return dial_later(errno) ? 0 : errno;
	w->at += (size_t)done;
	w->n -= (size_t)done;
	return 0;
}

static int dial_wait_for(const struct way *up, const struct way *down, struct pollfd p[4])
{
	p[0] = (struct pollfd){.fd = up->shut || up->ended || up->n ? -1 : up->from, .events = POLLIN};
	p[1] = (struct pollfd){.fd = up->shut || !up->n ? -1 : up->to, .events = POLLOUT};
	p[2] = (struct pollfd){.fd = down->ended || down->n ? -1 : down->from, .events = POLLIN};
	p[3] = (struct pollfd){.fd = down->n ? down->to : -1, .events = POLLOUT};
	return poll(p, 4, -1) < 0 && errno != EINTR ? errno : 0;
}

/* Who takes no more may still have something to say: that it broke off is told by its own end. */
static void step_up(struct way *up, const struct pollfd p[4])
{
	if (p[0].revents && dial_fill(up))
		up->ended = true;
	if (p[1].revents && dial_drain(up))
		up->shut = true;
	if (up->ended && !up->n && !up->shut) {
		up->shut = true;
		(void)shutdown(up->to, SHUT_WR);
	}
}

static int relay(int fd)
{
	static struct way up = {.from = STDIN_FILENO}, down = {.to = STDOUT_FILENO};
	struct pollfd p[4];
	int err = 0;

	up.to = down.from = fd;
	while (!err && (!down.ended || down.n)) {
		err = dial_wait_for(&up, &down, p);
		if (err)
			break;
		step_up(&up, p);
		if (p[2].revents)
			err = dial_fill(&down);
		if (!err && p[3].revents && dial_drain(&down))
			return 0; /* nobody wants it any more */
	}
	return err;
}

static void dial_set_up(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	(void)fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE); /* no pipe, or no leave for it: slower, that is all */
	if (flags >= 0)
		(void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

int dial_port(uint16_t port)
{
	int fd = -1, err;

	(void)signal(SIGPIPE, SIG_IGN);
	err = dial_connect(port, &fd);
	if (!err) {
		dial_set_up(fd);
		dial_set_up(STDIN_FILENO);
		dial_set_up(STDOUT_FILENO);
		err = relay(fd);
		close(fd);
	}
	return err ? complain(port, err) : 0;
}
