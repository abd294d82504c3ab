/* Where new streams come from. */
#include "muxd/muxlet/muxlet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define RETRY_NS (1000 * MS_NS)

static int place_of(struct muxlet *m)
{
	int oldest = 0;

	for (int i = 0; i < STREAMS_PENDING; i++) {
		if (!m->pending[i])
			return i;
		if (m->pending[i]->timer.due_ns < m->pending[oldest]->timer.due_ns)
			oldest = i;
	}
	stream_destroy(m->pending[oldest]); /* whoever connects and says nothing must not lock the hub out */
	m->pending[oldest] = NULL;
	return oldest;
}

static void listener_ready(struct source *src, uint32_t events)
{
	struct muxlet *m = container_of(src, struct muxlet, listener);
	int fd = accept4(src->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
		(void)source_watch(&m->loop, src, 0);
		timer_arm(&m->loop, &m->listen_timer, m->loop.now_ns + RETRY_NS);
	}
	if (fd >= 0) {
		int at = place_of(m);

		m->pending[at] = stream_create(m, fd, fd);
	}
}

static void listen_again(struct timer *t)
{
	struct muxlet *m = container_of(t, struct muxlet, listen_timer);

	if (source_watch(&m->loop, &m->listener, EPOLLIN))
		timer_arm(&m->loop, t, m->loop.now_ns + RETRY_NS);
}

int listener_open(struct muxlet *m, int fd)
{
	if (fcntl(fd, F_SETFL, O_NONBLOCK | O_RDWR))
		return -errno;
	m->listen_timer.fire = listen_again;
	m->listener.fd = fd;
	m->listener.ready = listener_ready;
	return source_watch(&m->loop, &m->listener, EPOLLIN);
}

static int address_of(const char *path, struct sockaddr_un *out)
{
	memset(out, 0, sizeof(*out));
	out->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(out->sun_path))
		return -ENAMETOOLONG;
	strcpy(out->sun_path, path);
	return 0;
}

int listener_bind(const char *path)
{
	struct sockaddr_un sa;
	mode_t mask;
	int rc = address_of(path, &sa), fd;

	if (rc)
		return rc;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	mask = umask(0177);
	rc = bind(fd, (struct sockaddr *)&sa, sizeof(sa));
	if (rc && errno == EADDRINUSE && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) && errno == ECONNREFUSED &&
	    unlink(path) == 0)
		rc = bind(fd, (struct sockaddr *)&sa, sizeof(sa)); /* what a muxlet before us left */
	umask(mask);
	if (rc || listen(fd, 16)) {
		rc = -errno;
		close(fd);
		return rc ? rc : -EADDRINUSE;
	}
	return fd;
}
