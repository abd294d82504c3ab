/* Waiting on the socket beside libwebsockets, and having libwebsockets read what is there. */
#include "base/err.h"
#include "muxd/doors/https/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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
	w->fd = fcntl(c->wsi ? lws_get_socket_fd(c->wsi) : c->fd, F_DUPFD_CLOEXEC, 3);
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
	uint8_t again[1024];
	ssize_t got = 1;

	for (; n > 0 && got > 0; n -= (int)got)
		got = conn_recv(c, again, n < (int)sizeof(again) ? (size_t)n : sizeof(again));
	explicit_bzero(again, sizeof(again));
	return got > 0;
}

ssize_t conn_recv(struct conn *c, uint8_t *p, size_t n)
{
	SSL *ssl = lws_get_ssl(c->wsi);
	ssize_t got;
	int why;

	if (!ssl) {
		got = recv(lws_get_socket_fd(c->wsi), p, n, MSG_DONTWAIT);
		return got > 0 ? got : got == 0 ? -1 : errno == EAGAIN || errno == EINTR ? 0 : ERR_EOF;
	}
	ERR_clear_error();
	got = SSL_read(ssl, p, (int)n);
	if (got > 0)
		return got;
	why = SSL_get_error(ssl, (int)got);
	ERR_clear_error();
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
		return 0;
	return why == SSL_ERROR_ZERO_RETURN ? -1 : ERR_EOF;
}

bool conn_has_pending(const struct conn *c)
{
	const SSL *ssl = lws_get_ssl(c->wsi);

	return ssl && SSL_has_pending(ssl);
}
