/* Where new streams come from. */
#include "muxd/muxlet/muxlet.h"
#include "muxd/muxlet/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RETRY_NS (1000 * MS_NS)

static int listener_place_of(struct muxlet *m)
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

/*
 * A hub comes from outside, by an exec. The programs that muxlet has begun are of the same user, descend from it
 * however they hide, and have nothing to say here: many of them would push out the hub, which has a proof to give.
 */
static bool may_speak(int fd)
{
	struct ucred who;
	socklen_t size = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid() &&
	       !tree_descends(who.pid, getpid());
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
	if (fd >= 0 && m->own_uid_only && !may_speak(fd)) {
		close(fd);
	} else if (fd >= 0) {
		int at = listener_place_of(m);

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
