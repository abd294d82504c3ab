/*
 * Waiting for the head of a request, which the door looks at before libwebsockets does.
 *
 * A request that is routed must not reach libwebsockets: it does not hand on what it does not know. Nor must a head
 * that two readers could take for two things (api_head.h). So between requests its read side is off, and the door looks
 * (SSL_peek) at each record before libwebsockets reads the same bytes. A head in several records is looked at as far as
 * it came, each record before libwebsockets gets it.
 *
 * Nobody looks at what libwebsockets keeps. So the door knows where a body ends, too: when a record brings more than
 * that end, or more behind a head than whole heads without bodies, the connection ends with the last answer that was
 * looked at, and the client sends again what was not answered (RFC 9112, 9.3.2).
 *
 * A connection by the Unix socket has no records: between a look and the reading more may come. So libwebsockets gets
 * such a connection when its head is whole, and it has one request: a head that came behind is one that nobody looked
 * at, which ends the connection (conn_take_checked()). A client that sends its head in pieces is looked at again with
 * the sweep, since the socket does not tell of what was only looked at.
 */
#include "base/clock.h"
#include "muxd/doors/https/api_head.h"
#include "muxd/doors/https/conn_http.h"
#include "muxd/doors/https/router/router.h"
#include "muxd/doors/https/runtime.h"
#include "muxd/doors/https/ws.h"
#include "muxd/hub/core/hub.h"

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

static void conn_await_on_head(struct conn *c, int events);

static void wait_head(struct conn *c)
{
	conn_read_stop(c);
	if (watch_set(c, UV_READABLE, conn_await_on_head))
		conn_kill(c);
}

static void forget_head(struct conn *c)
{
	buf_finish_secret(&c->raw);
	buf_init(&c->raw, API_HEAD_MAX + PIECE_MAX);
}

/* libwebsockets gets what was looked at. */
static void hand_over(struct conn *c)
{
	(void)watch_set(c, 0, conn_await_on_head);
	if (!conn_service(c, POLLIN))
		return;
	if (c->state == CONN_IDLE && c->checked) { /* it does not see the head that is there */
		conn_kill(c);
		return;
	}
	if (c->state == CONN_IDLE) {
		wait_head(c);
		return;
	}
	forget_head(c);
	conn_await_body(c);
	if (c->state == CONN_WS)
		ws_await_frames(c->ws);
}

static const char *runtime_serves(const struct conn *c)
{
	return hub_conf(c->door->hub)->router_runtime ? RUNTIME_PORT : NULL;
}

/* How many heads libwebsockets may answer of the n bytes, which begin with one that is `head`. */
static void count_heads(struct conn *c, const uint8_t *p, size_t n, struct api_head *head)
{
	ssize_t body = 0;

	c->checked = 1;
	c->body_left = head->body.kind == HTTP1_LENGTH ? head->body.left : 0;
	p += head->len;
	n -= head->len;
	if (!head->body.done) {
		body = http1_body_feed(&head->body, p, n); /* broken chunks are answered where they are taken apart */
		c->beyond = body < 0 || (size_t)body < n;
		return;
	}
	while (n && api_head_read(p, n, 0, runtime_serves(c), head, NULL) == 1 && !head->routed && head->body.done) {
		c->checked++;
		p += head->len;
		n -= head->len;
	}
	c->beyond = n > 0;
}

/* The rest of a head has api.header_timeout from its first byte on, also where a connection may be idle for longer. */
static void hurry(struct conn *c)
{
	uint64_t by = clock_boot_ns() + hub_conf(c->door->hub)->api_header_timeout_ns;

	if (!c->deadline_ns || c->deadline_ns > by)
		c->deadline_ns = by;
}

/* The bytes that came of a head, in one record or several; first: in one. */
static void conn_await_look(struct conn *c, const uint8_t *p, size_t len, int n, bool first)
{
	struct api_head head;
	struct err e = {0};
	int rc = api_head_read(p, len, len - (size_t)n, runtime_serves(c), &head, &e);

	if (rc == 0 && first)
		hurry(c);
	if (rc == 0 && first && buf_append(&c->raw, p, len)) {
		conn_kill(c);
	} else if (rc < 0 || head.routed || head.unfit) {
		if (!conn_take_off(c, n))
			conn_kill(c);
		else if (rc < 0)
			router_turn_away(c, head.status, rc, e.message);
		else
			router_begin(c, p, len, first);
	} else {
		if (rc == 1)
			count_heads(c, p, len, &head);
		hand_over(c);
	}
}

/* The request is for libwebsockets: it reads from here on. */
static void adopt_looked(struct conn *c, int fd, struct api_head *head)
{
	conn_set_state(c, CONN_IDLE);
	c->checked = 1;
	c->beyond = true; /* one request a connection */
	c->body_left = head->body.kind == HTTP1_LENGTH ? head->body.left : 0;
	(void)conn_adopt(c, fd);
}

/* The router's, or nobody's: libwebsockets has the connection and reads nothing of it. */
static void adopt_silent(struct conn *c, int fd, int n, const struct api_head *head, int rc, const struct err *e)
{
	uint8_t *p = c->door->piece;

	conn_set_state(c, CONN_IDLE);
	if (!conn_adopt(c, fd))
		return;
	conn_read_stop(c);
	if (!conn_take_off(c, n))
		conn_kill(c);
	else if (rc < 0)
		router_turn_away(c, head->status, rc, e->message);
	else
		router_begin(c, p, (size_t)n, false);
}

static void conn_await_on_local(struct conn *c, int events)
{
	struct api_head head = {0};
	ssize_t n = recv(c->fd, c->door->piece, PIECE_MAX, MSG_PEEK | MSG_DONTWAIT);
	struct err e = {0};
	int rc, fd = c->fd;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	rc = n > 0 ? api_head_read(c->door->piece, (size_t)n, 0, runtime_serves(c), &head, &e) : 0;
	if (n <= 0) {
		conn_kill(c);
		return;
	}
	if (rc == 0 && !head.routed && !head.unfit) {
		hurry(c);
		(void)watch_set(c, 0, conn_await_on_local); /* conn_await_slow() goes on */
		return;
	}
	watch_destroy(c);
	c->fd = -1;
	if (rc == 1 && !head.routed)
		adopt_looked(c, fd, &head);
	else
		adopt_silent(c, fd, (int)n, &head, rc, &e);
}

void conn_await_local(struct conn *c, int fd)
{
	c->fd = fd;
	admit_spoke(c->place, clock_boot_ns());
	if (watch_set(c, UV_READABLE, conn_await_on_local))
		conn_kill(c);
}

void conn_await_slow(struct conn *c)
{
	conn_await_on_local(c, UV_READABLE);
}

static void conn_await_on_head(struct conn *c, int events)
{
	SSL *ssl = lws_get_ssl(c->wsi);
	uint8_t *p = c->door->piece;
	bool first = !buf_len(&c->raw);
	int n;

	(void)events;
	ERR_clear_error();
	n = SSL_peek(ssl, p, PIECE_MAX);
	if (n <= 0 && SSL_get_error(ssl, n) == SSL_ERROR_WANT_READ)
		return;
	ERR_clear_error();
	if (n <= 0)
		hand_over(c); /* it finds the end, too */
	else if (first)
		conn_await_look(c, p, (size_t)n, n, true);
	else if (buf_append(&c->raw, p, (size_t)n))
		conn_kill(c);
	else
		conn_await_look(c, buf_ptr(&c->raw), buf_len(&c->raw), n, false);
}

void conn_await(struct conn *c)
{
	if (!lws_get_ssl(c->wsi) || c->door->closing) {
		conn_read_start(c);
		return;
	}
	forget_head(c);
	if (c->checked) /* libwebsockets has it already */
		hand_over(c);
	else
		wait_head(c);
}

/* After an answer libwebsockets 4.1.6 reads no more until it has seen that it could write. */
void conn_await_next(struct conn *c)
{
	if (!lws_get_ssl(c->wsi) || c->door->closing)
		conn_read_start(c);
	else if (conn_service(c, POLLOUT) && c->state == CONN_IDLE)
		conn_await(c);
}
