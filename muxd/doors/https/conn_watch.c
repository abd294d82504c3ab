/* Waiting on the socket beside libwebsockets, and having libwebsockets read what is there. */
#include "muxd/doors/https/conn.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct watch {
	uv_poll_t poll;
	struct conn *conn; /* NULL: let go */
	watch_fn *fn;
	int fd, events;
};

static void conn_watch_on_closed(uv_handle_t *h)
{
	struct watch *w = h->data;

	close(w->fd);
	free(w);
}

void watch_destroy(struct conn *c)
{
	struct watch *w = c->watch;

	if (!w)
		return;
	c->watch = NULL;
	w->conn = NULL;
	uv_close((uv_handle_t *)&w->poll, conn_watch_on_closed);
}

/* libuv has one handle for a descriptor, and that is libwebsockets'. */
static int watch_create(struct conn *c)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return ERR_NOMEM;
	w->fd = fcntl(lws_get_socket_fd(c->wsi), F_DUPFD_CLOEXEC, 3);
	if (w->fd < 0 || uv_poll_init(c->door->loop, &w->poll, w->fd)) {
		if (w->fd >= 0)
			close(w->fd);
		free(w);
		return ERR_SYS;
	}
	w->poll.data = w;
	w->conn = c;
	c->watch = w;
	return 0;
}

static void conn_watch_on_event(uv_poll_t *h, int status, int events)
{
	struct watch *w = h->data;

	if (w->conn)
		w->fn(w->conn, status < 0 ? w->events : events);
}

int watch_set(struct conn *c, int events, watch_fn *fn)
{
	if (!c->watch && !events)
		return 0;
	if (!c->watch && watch_create(c))
		return ERR_SYS;
	c->watch->fn = fn;
	if (c->watch->events == events)
		return 0;
	c->watch->events = events;
	if (!events)
		return uv_poll_stop(&c->watch->poll) ? ERR_SYS : 0;
	return uv_poll_start(&c->watch->poll, events, conn_watch_on_event) ? ERR_SYS : 0;
}

bool conn_service(struct conn *c, short event)
{
	struct rest_door *d = c->door;
	struct lws_pollfd p = {.fd = lws_get_socket_fd(c->wsi), .events = event, .revents = event};

	d->serving = c;
	conn_read_start(c);
	lws_service_fd(d->lws, &p);
	if (d->serving != c)
		return false;
	d->serving = NULL;
	return c->wsi && c->state != CONN_DEAD;
}

bool conn_take_off(struct conn *c, int n)
{
	SSL *ssl = lws_get_ssl(c->wsi);
	uint8_t again[1024];
	int got = 1;

	for (; n > 0 && got > 0; n -= got)
		got = SSL_read(ssl, again, n < (int)sizeof(again) ? n : (int)sizeof(again));
	explicit_bzero(again, sizeof(again));
	return got > 0;
}
