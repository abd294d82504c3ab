#include "base/msg.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/json.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define RECV_STEP (64 * 1024)

/* u32 length, kind, and for bytes their stream number: the header's size. len: what follows the kind. */
static size_t msg_header(uint8_t out[MSG_HEADER + 1], char kind, uint8_t first, size_t len)
{
	put_u32(out, (uint32_t)(len + 1));
	out[4] = (uint8_t)kind;
	out[5] = first;
	return kind == 'B' ? MSG_HEADER + 1 : MSG_HEADER;
}

static int msg_put(struct buf *out, char kind, uint8_t first, const void *p, size_t n)
{
	uint8_t head[MSG_HEADER + 1], *to;
	size_t len = n + (kind == 'B');

	if (n > MSG_MAX - 2)
		return ERR_TOO_LARGE;
	size_t head_len = msg_header(head, kind, first, len);
	int rc = buf_reserve(out, head_len + n, &to);
	if (rc < 0)
		return rc;
	memcpy(to, head, head_len);
	if (n)
		memcpy(to + head_len, p, n);
	buf_commit(out, head_len + n);
	return 0;
}

int msg_put_json(struct buf *out, const json_t *o)
{
	char *text = json_text(o);

	if (!text)
		return o ? ERR_NOMEM : ERR_INVAL;
	size_t n = strlen(text);
	int rc = msg_put(out, 'J', 0, text, n);
	explicit_bzero(text, n);
	free(text);
	return rc;
}

int msg_put_bytes(struct buf *out, uint8_t first, const void *p, size_t n)
{
	return msg_put(out, 'B', first, p, n);
}

int msg_next(const struct buf *in, struct msg *out, size_t *out_size)
{
	const uint8_t *p = buf_ptr(in);

	if (buf_len(in) < MSG_HEADER) {
		/* A length that cannot be is refused as soon as it is known. */
		if (buf_len(in) == 4 && (get_u32(p) < 1 || get_u32(p) > MSG_MAX))
			return ERR_PROTOCOL;
		return 0;
	}
	uint32_t len = get_u32(p);
	if (len < 1 || len > MSG_MAX || (p[4] != 'J' && p[4] != 'B') || (p[4] == 'B' && len < 2))
		return ERR_PROTOCOL;
	if (buf_len(in) - 4 < len)
		return 0;
	*out = (struct msg){.kind = (char)p[4], .payload = p + MSG_HEADER, .len = len - 1};
	*out_size = (size_t)len + 4;
	return 1;
}

static int msg_wait_for(int fd, short events)
{
	struct pollfd pfd = {.fd = fd, .events = events};

	while (poll(&pfd, 1, -1) < 0)
		if (errno != EINTR)
			return -1;
	return 0;
}

/* All of both pieces, over partial writes and full sockets. */
static int send_two(int fd, const void *a, size_t alen, const void *b, size_t blen, struct err *e)
{
	struct iovec iov[2] = {{(void *)(uintptr_t)a, alen}, {(void *)(uintptr_t)b, blen}};

	while (iov[0].iov_len + iov[1].iov_len) {
		struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
		ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && msg_wait_for(fd, POLLOUT) == 0)
			continue;
		if (n < 0)
			return err_sys(e, errno, "send a message");
		for (int i = 0; i < 2; i++) {
			size_t step = (size_t)n < iov[i].iov_len ? (size_t)n : iov[i].iov_len;
			iov[i].iov_base = (char *)iov[i].iov_base + step;
			iov[i].iov_len -= step;
			n -= (ssize_t)step;
		}
	}
	return 0;
}

int msg_send_json(int fd, const json_t *o, struct err *e)
{
	uint8_t head[MSG_HEADER + 1];
	char *text = json_text(o);
	int rc;

	if (!text)
		return err_set(e, o ? ERR_NOMEM : ERR_INVAL, "no message to send");
	size_t n = strlen(text);
	if (n > MSG_MAX - 1)
		rc = err_set(e, ERR_TOO_LARGE, "a message of %zu bytes, %d are allowed", n, MSG_MAX - 1);
	else
		rc = send_two(fd, head, msg_header(head, 'J', 0, n), text, n, e);
	explicit_bzero(text, n);
	free(text);
	return rc;
}

/* At least one more byte into `in`. */
static int recv_some(int fd, struct buf *in, struct err *e)
{
	size_t room = buf_room(in) < RECV_STEP ? buf_room(in) : RECV_STEP;
	uint8_t *to;

	if (room == 0)
		return err_set(e, ERR_TOO_LARGE, "a message larger than the buffer of %zu bytes", in->max);
	int rc = buf_reserve(in, room, &to);
	if (rc < 0)
		return err_set(e, rc, "no memory for a message");
	for (;;) {
		ssize_t n = read(fd, to, room);
		if (n > 0) {
			buf_commit(in, (size_t)n);
			return 0;
		}
		if (n == 0)
			return err_set(e, ERR_EOF, "the other side closed the connection%s",
				       buf_len(in) ? " within a message" : "");
		if (errno == EINTR)
			continue;
		if ((errno == EAGAIN || errno == EWOULDBLOCK) && msg_wait_for(fd, POLLIN) == 0)
			continue;
		return err_sys(e, errno, "receive a message");
	}
}

int msg_recv(int fd, struct buf *in, struct msg *out, size_t *out_size, struct err *e)
{
	for (;;) {
		int rc = msg_next(in, out, out_size);
		if (rc == ERR_PROTOCOL)
			return err_set(e, rc, "a message with an impossible length or kind");
		if (rc > 0)
			return 0;
		rc = recv_some(fd, in, e);
		if (rc < 0)
			return rc;
	}
}
