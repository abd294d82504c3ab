/*
 * Waiting on the socket beside libwebsockets: for the head of a request, which the door looks at first, and for
 * whatever the router waits for.
 *
 * A request that is routed must not reach libwebsockets: it does not hand on what it does not know. So between requests
 * its read side is off, and the door looks (SSL_peek) at each record before libwebsockets reads the same bytes.
 */
#include "muxd/doors/rest/router.h"
#include "muxd/doors/rest/router_head.h"
#include "muxd/doors/rest/server.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_MAX (64 * 1024)

struct watch {
	uv_poll_t poll;
	struct conn *conn; /* NULL: let go */
	watch_fn *fn;
	int fd, events;
};

static void on_closed(uv_handle_t *h)
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
	uv_close((uv_handle_t *)&w->poll, on_closed);
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

static void on_event(uv_poll_t *h, int status, int events)
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
	return uv_poll_start(&c->watch->poll, events, on_event) ? ERR_SYS : 0;
}

/* ---- heads */

/* libwebsockets is told that the socket is ready for `event`. False: the connection is gone with it. */
static bool service(struct conn *c, short event)
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

static void on_head(struct conn *c, int events);

static void wait_head(struct conn *c)
{
	conn_read_stop(c);
	if (watch_set(c, UV_READABLE, on_head))
		conn_kill(c);
}

static void forget_head(struct conn *c)
{
	buf_finish_secret(&c->raw);
	buf_init(&c->raw, HEAD_MAX);
}

/* behind: bytes that it gets with the head and that are none of it. */
static void hand_over(struct conn *c, size_t behind)
{
	(void)watch_set(c, 0, on_head);
	if (!service(c, POLLIN))
		return;
	if (c->state == CONN_IDLE) {
		wait_head(c);
		return;
	}
	c->ahead = behind && !c->had_body;
	forget_head(c);
	if (c->state == CONN_WS)
		watch_destroy(c);
}

static bool head_end(const uint8_t *p, size_t n, size_t *out_behind)
{
	const uint8_t *end = n ? memmem(p, n, "\r\n\r\n", 4) : NULL;

	*out_behind = end ? n - (size_t)(end - p) - 4 : 0;
	return end != NULL;
}

/* The n bytes that were peeked at belong to the router. */
static void route(struct conn *c, SSL *ssl, const uint8_t *p, size_t len, int n, bool untouched)
{
	uint8_t again[1024];

	while (n > 0) {
		int got = SSL_read(ssl, again, n < (int)sizeof(again) ? n : (int)sizeof(again));

		if (got <= 0) {
			conn_kill(c);
			return;
		}
		n -= got;
	}
	explicit_bzero(again, sizeof(again));
	router_begin(c, p, len, untouched);
}

static void on_head(struct conn *c, int events)
{
	SSL *ssl = lws_get_ssl(c->wsi);
	uint8_t *p = c->door->piece;
	size_t behind = 0, len;
	bool whole, first = !buf_len(&c->raw);
	int n;

	(void)events;
	ERR_clear_error();
	n = SSL_peek(ssl, p, PIECE_MAX);
	if (n <= 0 && SSL_get_error(ssl, n) == SSL_ERROR_WANT_READ)
		return;
	ERR_clear_error();
	len = n > 0 ? (size_t)n : 0;
	whole = len && first && head_end(p, len, &behind);
	if (len && !whole) { /* a head in several records */
		if (buf_append(&c->raw, p, len) == 0) {
			p = (uint8_t *)(uintptr_t)buf_ptr(&c->raw);
			len = buf_len(&c->raw);
			(void)head_end(p, len, &behind);
		}
	}
	if (len && router_asked(p, len))
		route(c, ssl, p, len, n, first);
	else
		hand_over(c, behind); /* it finds the end, too, and a head that is too long */
}

/* Is there anything that nobody has read? */
static bool socket_silent(struct conn *c)
{
	struct pollfd p = {.fd = lws_get_socket_fd(c->wsi), .events = POLLIN};

	return !SSL_has_pending(lws_get_ssl(c->wsi)) && poll(&p, 1, 0) == 0;
}

void conn_await(struct conn *c, bool had_body)
{
	bool silent;

	if (!lws_get_ssl(c->wsi) || c->door->closing) {
		conn_read_start(c);
		return;
	}
	forget_head(c);
	if (c->ahead || had_body) {
		silent = socket_silent(c);
		if (!silent && c->ahead) { /* what libwebsockets has comes first, and with it what follows */
			conn_read_start(c);
			return;
		}
		if (silent && (!service(c, POLLIN) || c->state != CONN_IDLE))
			return; /* it had one more, and maybe others */
		c->ahead = false;
	}
	wait_head(c);
}

/* After an answer libwebsockets 4.1.6 reads no more until it has seen that it could write. */
void conn_await_next(struct conn *c)
{
	if (!lws_get_ssl(c->wsi) || c->door->closing)
		conn_read_start(c);
	else if (service(c, POLLOUT))
		conn_await(c, c->had_body);
}
