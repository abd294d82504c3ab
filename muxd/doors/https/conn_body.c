/* The body of a request: kept until it is whole (BODY), or handed on as it comes (STREAM). */
#define LOG_SUBSYS "rest"
#include "base/clock.h"
#include "muxd/doors/https/conn_http.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/core/hub.h"

#include <openssl/err.h>
#include <poll.h>

#define STREAM_BODY_MAX (4 * PIECE_MAX) /* what a read brings beyond what is taken */
#define BODY_RATE_MIN   8192            /* bytes a second that a body must come with, on average */

static void more_time(struct conn *c)
{
	c->deadline_ns = clock_boot_ns() + hub_conf(c->door->hub)->api_idle_timeout_ns;
	if (c->limit_ns && c->deadline_ns > c->limit_ns)
		c->deadline_ns = c->limit_ns;
}

/* --- waiting for more of it */

static bool reads_body(const struct conn *c)
{
	return c->state == CONN_BODY || (c->state == CONN_STREAM && c->reading);
}

/* A record in which the body may end. */
static void conn_body_on_record(struct conn *c, int events)
{
	SSL *ssl = lws_get_ssl(c->wsi);
	uint8_t byte;
	int n;

	(void)events;
	if (!reads_body(c)) { /* refused meanwhile */
		(void)watch_set(c, 0, conn_body_on_record);
		return;
	}
	ERR_clear_error();
	n = SSL_peek(ssl, &byte, 1);
	if (n <= 0 && SSL_get_error(ssl, n) == SSL_ERROR_WANT_READ)
		return;
	ERR_clear_error();
	if (n > 0 && (uint64_t)SSL_pending(ssl) > c->body_left) {
		c->beyond = true;
		c->keep_alive = false;
	}
	if (!conn_service(c, POLLIN))
		return;
	if (reads_body(c))
		conn_await_body(c);
	else
		(void)watch_set(c, 0, conn_body_on_record);
}

/* libwebsockets reads by itself as long as no record can hold more than the body. */
void conn_await_body(struct conn *c)
{
	bool alone = c->is_chunked || c->body_left > PIECE_MAX || c->listener->local;

	if (!reads_body(c))
		return;
	if (alone)
		conn_read_start(c);
	else
		conn_read_stop(c);
	if (watch_set(c, alone ? 0 : UV_READABLE, conn_body_on_record))
		conn_kill(c);
}

/* --- handed on as it comes */

/* A client that sends nothing is cut off, one that waits for the sandbox is not. */
static void read_on(struct conn *c)
{
	if (c->reading)
		return;
	c->reading = true;
	more_time(c);
	conn_await_body(c);
}

static void read_off(struct conn *c)
{
	c->reading = false;
	c->deadline_ns = 0;
	conn_read_stop(c);
	(void)watch_set(c, 0, conn_body_on_record);
}

/* A malformed body is refused once there is somebody to take it: until then its handler holds the exchange. */
static bool refuse_broken(struct conn *c)
{
	if (!c->body_broken)
		return false;
	read_off(c);
	if (c->x->flow)
		conn_refuse(c, 400, ERR_INVAL, "the chunked body is malformed");
	return true;
}

/* Hands on what is here; then reads, waits for the handler, or tells it of the end. */
static void pump(struct conn *c)
{
	struct http_exchange *x = c->x;

	if (refuse_broken(c))
		return;
	while (x->flow && buf_len(&x->body)) {
		ssize_t n = x->flow->take(x, buf_ptr(&x->body), buf_len(&x->body));

		if (c->state != CONN_STREAM)
			return; /* answered */
		if (n < 0) {
			buf_clear(&x->body); /* the answer that says why is on its way */
			read_off(c);
			return;
		}
		if (n == 0)
			break;
		buf_consume(&x->body, (size_t)n);
	}
	if (!x->flow || buf_len(&x->body) || c->body_done)
		read_off(c);
	else
		read_on(c);
	if (x->flow && c->body_done && !buf_len(&x->body) && !c->body_told) {
		c->body_told = true;
		x->flow->complete(x);
	}
}

void conn_stream_begin(struct conn *c, uint64_t body_len)
{
	c->x->body_len = c->is_chunked ? UINT64_MAX : body_len;
	c->body_done = !c->unread;
	c->body_told = c->body_broken = false;
	c->limit_ns = 0;
	buf_finish(&c->x->body);
	buf_init(&c->x->body, STREAM_BODY_MAX);
	conn_set_state(c, CONN_STREAM);
	read_off(c);
	if (conn_hold_call(c))
		route_enter(c->x);
}

static int stream_body(struct conn *c, const uint8_t *p, size_t n)
{
	struct http_exchange *x = c->x;
	int rc;

	if (c->body_broken)
		return 0;
	rc = c->is_chunked ? chunked_feed(&c->chunked, p, n, &x->body) : buf_append(&x->body, p, n);
	if (rc == ERR_INVAL) {
		c->body_broken = true;
		pump(c);
		return 0;
	}
	if (rc)
		return -1; /* more than was asked for, or no memory: nobody can go on from here */
	if (c->is_chunked && chunked_done(&c->chunked)) {
		c->keep_alive = false; /* libwebsockets waits for its 100 MiB still */
		c->unread = false;
		c->body_done = true;
	}
	if (c->reading) {
		more_time(c);
		conn_await_body(c);
	}
	pump(c);
	return 0;
}

static int stream_body_end(struct conn *c)
{
	if (c->is_chunked && !c->body_done) {
		conn_refuse(c, 411, ERR_TOO_LARGE, "a chunked body may have 100 MiB here: send a Content-Length");
		return 0;
	}
	c->unread = false;
	if (!c->body_done) {
		c->body_done = true;
		pump(c);
	}
	return 0;
}

void conn_wake(void *arg, struct http_exchange *x)
{
	struct conn *c = arg;

	(void)x;
	if (c->state == CONN_STREAM)
		pump(c);
	else if (c->state == CONN_WRITING)
		conn_queue(c);
}

/* --- kept until it is whole */

void conn_dispatch(struct conn *c)
{
	c->deadline_ns = 0;
	c->limit_ns = 0;
	conn_read_stop(c);
	conn_set_state(c, CONN_WAITING);
	if (c->x->route->auth == ROUTE_SHOWN) /* what waits for its token's exchange the broker counts */
		conn_hold_no_body(c);
	if (conn_hold_call(c))
		route_enter(c->x);
}

void conn_body_begin(struct conn *c, uint64_t len)
{
	const struct conf *conf = hub_conf(c->door->hub);
	uint64_t now = clock_boot_ns(), most = c->is_chunked ? c->x->body.max : len;

	c->limit_ns = now + conf->api_idle_timeout_ns + most / BODY_RATE_MIN * NS_PER_SEC;
	c->deadline_ns = now + conf->api_idle_timeout_ns;
	conn_set_state(c, CONN_BODY);
}

int conn_body(struct conn *c, const uint8_t *p, size_t n)
{
	int rc;

	c->door->metrics.bytes_received += n;
	c->body_left -= n < c->body_left ? n : c->body_left;
	if (c->state == CONN_STREAM)
		return stream_body(c, p, n);
	if (c->state != CONN_BODY || n == 0)
		return 0;
	if (c->body_left)
		conn_await_body(c);
	more_time(c);
	rc = c->is_chunked ? chunked_feed(&c->chunked, p, n, &c->x->body) : buf_append(&c->x->body, p, n);
	if (rc == ERR_TOO_LARGE)
		conn_refuse(c, 413, rc,
			    *route_body_hint(c->x)
				? "the body is larger than a token's first request may be" ROUTE_FIRST_SMALL
				: "the body is larger than api.max_body, or this call without a grant, allows");
	else if (rc == ERR_INVAL)
		conn_refuse(c, 400, rc, "the chunked body is malformed");
	else if (rc)
		conn_refuse(c, err_http_status(rc), rc, "the body could not be kept");
	else if (!conn_hold_body(c))
		return 0;
	else if (c->is_chunked && chunked_done(&c->chunked)) {
		/* libwebsockets waits for its 100 MiB still */
		c->keep_alive = false;
		c->unread = false;
		conn_dispatch(c);
	}
	return 0;
}

/* Also called again for what a client sends ahead: then there is nothing to do. */
int conn_body_end(struct conn *c)
{
	if (c->state == CONN_LINGER)
		return -1;
	if (c->state == CONN_STREAM)
		return stream_body_end(c);
	if (c->state != CONN_BODY || c->is_chunked)
		return 0;
	c->unread = false;
	conn_dispatch(c);
	return 0;
}
