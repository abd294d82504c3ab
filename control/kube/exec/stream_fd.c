#include "control/kube/exec/stream_fd.h"

#include "base/buf.h"
#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#define CHUNK (64 * 1024)

struct stream_fd {
	uv_poll_t poll;
	const struct stream_fd_ops *ops;
	void *arg;
	int fd, events;
	uint64_t passed, window; /* of the stream's bytes: what the socket took; what it may send up to */
	struct buf in, out;      /* to the stream; to the socket */
	bool ending, over;
};

static void stream_fd_on_poll(uv_poll_t *p, int status, int events);

static void stream_fd_watch(struct stream_fd *f)
{
	int events = (f->ending || buf_len(&f->in) ? 0 : UV_READABLE) | (buf_len(&f->out) ? UV_WRITABLE : 0);

	events |= UV_DISCONNECT;
	if (f->over || events == f->events)
		return;
	f->events = events;
	uv_poll_start(&f->poll, events, stream_fd_on_poll);
}

static void stream_fd_finish(struct stream_fd *f)
{
	if (f->over)
		return;
	f->over = true;
	uv_poll_stop(&f->poll);
	f->ops->closed(f->arg);
}

static void passed(struct stream_fd *f, size_t n)
{
	f->passed += n;
	if (f->passed + STREAM_FD_WINDOW < f->window + STREAM_FD_WINDOW / 4)
		return;
	f->window = f->passed + STREAM_FD_WINDOW;
	f->ops->window(f->arg, f->window);
}

/* Bytes that the socket took now, or -1 when it is gone. */
static ssize_t stream_fd_put(struct stream_fd *f, const uint8_t *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got = send(f->fd, p + done, n - done, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno != EAGAIN)
			return -1;
		if (got < 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

/* False: f is over, and perhaps no more. */
static bool stream_fd_drain(struct stream_fd *f)
{
	ssize_t n = buf_len(&f->out) ? stream_fd_put(f, buf_ptr(&f->out), buf_len(&f->out)) : 0;

	if (n < 0) {
		stream_fd_finish(f);
		return false;
	}
	buf_consume(&f->out, (size_t)n);
	if (!buf_len(&f->out))
		buf_finish(&f->out), buf_init(&f->out, STREAM_FD_WINDOW);
	if (!buf_len(&f->out) && f->ending) {
		stream_fd_finish(f);
		return false;
	}
	passed(f, (size_t)n);
	return true;
}

/* What the stream does not take waits in f->in, and the socket with it. */
static bool stream_fd_give(struct stream_fd *f, const uint8_t *p, size_t n)
{
	ssize_t took = f->ops->input(f->arg, p, n);

	if (took >= 0 && ((size_t)took == n || !buf_append(&f->in, p + took, n - (size_t)took)))
		return true;
	stream_fd_finish(f);
	return false;
}

static bool stream_fd_fill(struct stream_fd *f)
{
	uint8_t chunk[CHUNK];
	ssize_t n = recv(f->fd, chunk, sizeof(chunk), MSG_DONTWAIT);

	if (n > 0)
		return stream_fd_give(f, chunk, (size_t)n);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	stream_fd_finish(f);
	return false;
}

static void stream_fd_on_poll(uv_poll_t *p, int status, int events)
{
	struct stream_fd *f = p->data;

	if (status < 0 || (events & UV_DISCONNECT && !(events & UV_READABLE))) {
		stream_fd_finish(
		    f); /* a hub that went away wants nothing any more, and what it said last it has said before */
		return;
	}
	if (events & UV_WRITABLE && !stream_fd_drain(f))
		return;
	if (events & UV_READABLE && !stream_fd_fill(f))
		return;
	stream_fd_watch(f);
}

int stream_fd_create(struct uv_loop_s *loop, const struct stream_fd_ops *ops, void *arg, uint64_t received,
		     struct stream_fd **out, int *out_fd)
{
	struct stream_fd *f = calloc(1, sizeof(*f));
	int pair[2], rc = ERR_SYS;

	if (!f)
		return ERR_NOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		goto fail;
	if (uv_poll_init(loop, &f->poll, pair[0])) {
		close(pair[0]);
		close(pair[1]);
		goto fail;
	}
	f->poll.data = f;
	f->ops = ops;
	f->arg = arg;
	f->fd = pair[0];
	f->passed = received;
	f->window = received + STREAM_FD_WINDOW;
	buf_init(&f->in, CHUNK);
	buf_init(&f->out, STREAM_FD_WINDOW);
	f->ops->window(arg, f->window);
	stream_fd_watch(f);
	*out = f;
	*out_fd = pair[1];
	return 0;
fail:
	free(f);
	return rc;
}

int stream_fd_output(struct stream_fd *f, const uint8_t *p, size_t n)
{
	ssize_t done = 0;
	int rc;

	if (f->over || f->ending)
		return 0;
	if (!buf_len(&f->out)) {
		done = stream_fd_put(f, p, n);
		if (done < 0)
			done = (ssize_t)n; /* the poll tells */
		passed(f, (size_t)done);
	}
	rc = (size_t)done < n ? buf_append(&f->out, p + done, n - (size_t)done) : 0;
	stream_fd_watch(f);
	return rc;
}

void stream_fd_writable(struct stream_fd *f)
{
	ssize_t took;

	if (f->over || !buf_len(&f->in))
		return;
	took = f->ops->input(f->arg, buf_ptr(&f->in), buf_len(&f->in));
	if (took < 0) {
		stream_fd_finish(f);
		return;
	}
	buf_consume(&f->in, (size_t)took);
	if (!buf_len(&f->in))
		buf_finish_secret(&f->in), buf_init(&f->in, CHUNK);
	stream_fd_watch(f);
}

void stream_fd_end(struct stream_fd *f)
{
	if (f->over || f->ending)
		return;
	f->ending = true;
	if (!buf_len(&f->out))
		stream_fd_finish(f);
	else
		stream_fd_watch(f);
}

static void stream_fd_on_closed(uv_handle_t *h)
{
	struct stream_fd *f = h->data;

	buf_finish_secret(&f->in);
	buf_finish(&f->out);
	free(f);
}

void stream_fd_destroy(struct stream_fd *f)
{
	if (!f)
		return;
	f->over = true;
	uv_close((uv_handle_t *)&f->poll, stream_fd_on_closed);
	close(f->fd);
}
