/* Bodies that are handed on as they come, and waking an answer that is made as it goes. */
#define LOG_SUBSYS "rest"
#include "base/clock.h"
#include "muxd/doors/https/route.h"
#include "muxd/doors/https/server.h"
#include "muxd/hub/hub.h"

#define FLOW_BODY_MAX (4 * PIECE_MAX) /* what a read brings beyond what is taken */

static void more_time(struct conn *c)
{
	c->deadline_ns = clock_boot_ns() + hub_conf(c->door->hub)->api_idle_timeout_ns;
}

/* Who sends nothing is cut off, who waits for the sandbox is not. */
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
	conn_ignore_body(c);
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

void conn_flow_begin(struct conn *c, uint64_t body_len)
{
	c->x->body_len = c->is_chunked ? UINT64_MAX : body_len;
	c->body_done = !c->unread;
	c->body_told = c->body_broken = false;
	c->limit_ns = 0;
	buf_finish(&c->x->body);
	buf_init(&c->x->body, FLOW_BODY_MAX);
	conn_set_state(c, CONN_STREAM);
	read_off(c);
	c->x->route->handle(c->x);
}

int conn_flow_body(struct conn *c, const uint8_t *p, size_t n)
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

int conn_flow_body_end(struct conn *c)
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

void conn_flow_wake(void *arg, struct http_exchange *x)
{
	struct conn *c = arg;

	(void)x;
	if (c->state == CONN_STREAM)
		pump(c);
	else if (c->state == CONN_WRITING)
		conn_queue(c);
}
