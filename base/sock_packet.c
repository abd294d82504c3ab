/* Packets of sock.h: one JSON value each, with descriptors. They may hold tokens: every copy is wiped. */
#include "base/err.h"
#include "base/json.h"
#include "base/sock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONTROL_SIZE CMSG_SPACE(SOCK_FDS_MAX * sizeof(int))

union control {
	char bytes[CONTROL_SIZE];
	struct cmsghdr align;
};

static void attach_fds(struct msghdr *m, union control *control, const int *fds, size_t nfds)
{
	if (nfds == 0)
		return;
	memset(control, 0, sizeof(*control));
	m->msg_control = control->bytes;
	m->msg_controllen = CMSG_SPACE(nfds * sizeof(int));
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
	memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
}

static ssize_t send_whole(int fd, const struct msghdr *m)
{
	bool grown = false;

	for (;;) {
		ssize_t n = sendmsg(fd, m, MSG_NOSIGNAL);
		if (n >= 0)
			return n;
		if (errno == EINTR)
			continue;
		if (errno != EMSGSIZE || grown)
			return -1;
		/* A packet must fit the socket's buffer, and the system's default may be less than our largest. */
		int size = SOCK_PACKET_MAX;
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		grown = true;
	}
}

int sock_send_packet(int fd, const json_t *msg, const int *fds, size_t nfds, struct err *e)
{
	union control control;

	if (nfds > SOCK_FDS_MAX)
		return err_set(e, ERR_INVAL, "a packet with %zu descriptors, %d are allowed", nfds, SOCK_FDS_MAX);
	char *text = json_text(msg);
	if (!text)
		return err_set(e, ERR_NOMEM, "no memory for a packet");
	size_t len = strlen(text);
	struct iovec iov = {.iov_base = text, .iov_len = len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	int rc = 0;

	attach_fds(&m, &control, fds, nfds);
	if (len > SOCK_PACKET_MAX)
		rc = err_set(e, ERR_TOO_LARGE, "a packet of %zu bytes, %d are allowed", len, SOCK_PACKET_MAX);
	else if (send_whole(fd, &m) < 0)
		rc = err_sys(e, errno, "send a packet");
	explicit_bzero(text, len);
	free(text);
	return rc;
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* Every descriptor that came along, whatever the peer packed. */
static size_t collect_fds(struct msghdr *m, int fds[SOCK_FDS_MAX])
{
	size_t total = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (total < SOCK_FDS_MAX)
				fds[total++] = fd;
			else
				close(fd);
		}
	}
	return total;
}

/* Size of the packet that waits; it stays. */
static int packet_size(int fd, size_t *out, struct err *e)
{
	ssize_t n;

	do
		n = recv(fd, NULL, 0, MSG_PEEK | MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, errno, "receive a packet");
	if (n == 0)
		return err_set(e, ERR_EOF, "the other side closed the connection");
	*out = (size_t)n;
	return 0;
}

static int recv_into(int fd, char *text, size_t size, size_t *out_len, int fds[SOCK_FDS_MAX], size_t *out_nfds,
		     struct err *e)
{
	union control control;
	struct iovec iov = {.iov_base = text, .iov_len = size};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	ssize_t n;

	do
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, errno, "receive a packet");
	*out_nfds = collect_fds(&m, fds);
	*out_len = (size_t)n;
	if (n == 0)
		return err_set(e, ERR_EOF, "the other side closed the connection");
	if (m.msg_flags & MSG_TRUNC)
		return err_set(e, ERR_TOO_LARGE, "a packet of more than %d bytes", SOCK_PACKET_MAX);
	if (m.msg_flags & MSG_CTRUNC)
		return err_set(e, ERR_PROTOCOL, "a packet with more descriptors than %d, or none left here",
			       SOCK_FDS_MAX);
	return 0;
}

int sock_recv_packet(int fd, json_t **out_msg, int *out_fds, size_t *inout_nfds, struct err *e)
{
	size_t room = inout_nfds ? *inout_nfds : 0, size = 0, len = 0, nfds = 0;
	int fds[SOCK_FDS_MAX];
	json_t *msg = NULL;
	int rc = packet_size(fd, &size, e);

	if (rc < 0)
		return rc;
	if (size > SOCK_PACKET_MAX)
		size = SOCK_PACKET_MAX;
	char *text = malloc(size);
	if (!text)
		return err_set(e, ERR_NOMEM, "no memory for a packet");
	rc = recv_into(fd, text, size, &len, fds, &nfds, e);
	if (rc == 0 && nfds > room)
		rc = err_set(e, ERR_PROTOCOL, "a packet with %zu descriptors, %zu are expected", nfds, room);
	if (rc == 0)
		rc = json_parse(text, len, SOCK_PACKET_MAX, &msg, e);
	explicit_bzero(text, size);
	free(text);
	if (rc < 0) {
		close_all(fds, nfds);
		return rc;
	}
	if (out_fds)
		memcpy(out_fds, fds, nfds * sizeof(int));
	if (inout_nfds)
		*inout_nfds = nfds;
	*out_msg = msg;
	return 0;
}
