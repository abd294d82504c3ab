/* muxlet --bridge PATH: an exec stream's stdin and stdout, joined to the socket of a muxlet that runs already. */
#include "muxd/muxlet/muxlet.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BRIDGE_CHUNK (64 * 1024)

static int dial(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(path) >= sizeof(sa.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof(sa))) {
		close(fd);
		return -1;
	}
	return fd;
}

static int write_all(int fd, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0 && errno == EAGAIN) { /* somebody else made our stdout non-blocking */
			struct pollfd w = {.fd = fd, .events = POLLOUT};

			if (poll(&w, 1, -1) < 0 && errno != EINTR)
				return -1;
			continue;
		}
		if (done <= 0)
			return -1;
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

/* Bytes passed on, 0 at the end, -1 when a side failed. */
static ssize_t pass(int from, int to, uint8_t *scratch)
{
	ssize_t n = read(from, scratch, BRIDGE_CHUNK);

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 1 : -1;
	return n == 0 ? 0 : write_all(to, scratch, (size_t)n) ? -1 : n;
}

/*
 * A write to one side blocks the other direction for as long as it lasts. That
 * cannot lock up: muxlet always reads, and the far end of an exec stream does too.
 */
int bridge_run(const char *path)
{
	static const char ends[] = "muxlet: the bridge ended\n";
	uint8_t scratch[BRIDGE_CHUNK];
	struct pollfd p[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = dial(path), .events = POLLIN}};
	int rc = 1;

	if (p[1].fd < 0) {
		fprintf(stderr, "muxlet: %s: %s\n", path, strerror(errno));
		return 1;
	}
	for (;;) {
		ssize_t in = 1, out = 1;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			break;
		if (p[0].revents)
			in = pass(STDIN_FILENO, p[1].fd, scratch);
		if (p[1].revents)
			out = pass(p[1].fd, STDOUT_FILENO, scratch);
		if (in < 0 || out < 0)
			break;
		if (in == 0) {
			p[0].fd = -1;
			(void)shutdown(p[1].fd, SHUT_WR);
		}
		if (out == 0) {
			rc = 0;
			break;
		}
	}
	if (rc)
		(void)!write(STDERR_FILENO, ends, sizeof(ends) - 1);
	close(p[1].fd);
	return rc;
}
