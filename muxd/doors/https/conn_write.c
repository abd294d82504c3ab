/* The answer of a request, written in turns of the loop; then the next request's head, or the connection's end. */
#include "base/clock.h"
#include "muxd/doors/https/conn_http.h"
#include "muxd/hub/core/hub.h"

#include <stdio.h>
#include <string.h>

#define PIECES_PER_TURN 4
#define LINGER_NS       (2 * NS_PER_SEC)
#define WRITE_RATE_MIN  8192 /* bytes a second that a client must take, on average */

/* --- room in the socket */

/*
 * libwebsockets serves neither side of a connection whose read side is stopped, and with it running a client that
 * sends ahead and reads nothing would keep the loop spinning. So the door waits for room itself.
 */
static void conn_write_on_room(struct conn *c, int events)
{
	(void)events; /* an error shows itself in the write */
	(void)watch_set(c, 0, conn_write_on_room);
	c->flushing = true;
	conn_read_start(c);
	lws_callback_on_writable(c->wsi);
}

static void wait_room(struct conn *c)
{
	if (watch_set(c, UV_WRITABLE | UV_DISCONNECT, conn_write_on_room))
		conn_kill(c);
}

/* A follower may have nothing to be sent for hours: its leaving is seen at once. */
static void conn_write_on_left(struct conn *c, int events)
{
	(void)watch_set(c, 0, conn_write_on_left);
	if (events < 0 || events & UV_DISCONNECT)
		conn_kill(c);
}

void conn_flushed(struct conn *c)
{
	if (!c->flushing)
		return;
	c->flushing = false;
	conn_read_stop(c);
	conn_queue(c);
}

void conn_write_sweep(struct conn *c)
{
	if (!c->flushing || !lws_partial_buffered(c->wsi))
		return;
	/* room for less than a piece: wait again without libwebsockets looking at the read side */
	c->flushing = false;
	conn_read_stop(c);
	wait_room(c);
}

/* --- the end of a request */

static void conn_write_finish(struct conn *c)
{
	const struct conf *conf = hub_conf(c->door->hub);

	conn_log(c, c->x->status);
	conn_hold_no_answer(c);
	http_exchange_destroy(c->x);
	c->x = NULL;
	if (!c->keep_alive && !c->unread) {
		conn_kill(c);
		return;
	}
	if (!c->keep_alive) {
		/* to close now would reset the connection, and the client might never see the answer */
		c->deadline_ns = clock_boot_ns() + LINGER_NS;
		conn_set_state(c, CONN_LINGER);
		conn_read_start(c);
		return;
	}
	c->deadline_ns = clock_boot_ns() + conf->api_idle_timeout_ns;
	c->limit_ns = 0;
	conn_set_state(c, CONN_IDLE);
	if (lws_http_transaction_completed(c->wsi))
		conn_kill(c);
	else
		conn_await_next(c);
}

/* --- pieces */

static size_t conn_write_take(struct buf *b, uint8_t *to, size_t max)
{
	size_t n = buf_len(b) < max ? buf_len(b) : max;

	if (n)
		memcpy(to, buf_ptr(b), n);
	buf_consume(b, n);
	return n;
}

static size_t conn_write_give(struct http_exchange *x, uint8_t *to, size_t max)
{
	size_t n;

	if (!x->stream_left || x->stream_broken || !max)
		return 0;
	n = x->flow->give(x, to, max < x->stream_left ? max : (size_t)x->stream_left);
	x->stream_left -= n;
	return n;
}

#define CHUNK_HEAD 10 /* "0003f000\r\n" */

/* A chunk of what there is; the last one of none, once. */
static size_t conn_write_give_chunk(struct http_exchange *x, uint8_t *to, size_t max)
{
	char head[CHUNK_HEAD + 1];
	size_t n;

	if (!x->stream_left || x->stream_broken || max <= CHUNK_HEAD + 4)
		return 0;
	n = x->flow->give(x, to + CHUNK_HEAD, max - CHUNK_HEAD - 2);
	if (n == 0 && x->stream_over) {
		x->stream_left = 0;
		memcpy(to, "0\r\n\r\n", 5);
		return 5;
	}
	if (n == 0)
		return 0;
	snprintf(head, sizeof(head), "%08x\r\n", (unsigned)n);
	memcpy(to, head, CHUNK_HEAD);
	memcpy(to + CHUNK_HEAD + n, "\r\n", 2);
	return CHUNK_HEAD + n + 2;
}

/* 1: written, 0: nothing is there, ERR_EOF: the connection is lost. */
static int write_piece(struct conn *c)
{
	uint8_t *p = c->door->piece + LWS_PRE;
	size_t n = conn_write_take(&c->head, p, PIECE_MAX);

	n += conn_write_take(&c->x->out, p + n, PIECE_MAX - n);
	n += c->x->chunked ? conn_write_give_chunk(c->x, p + n, PIECE_MAX - n)
			   : conn_write_give(c->x, p + n, PIECE_MAX - n);
	if (n == 0)
		return 0;
	if (lws_write(c->wsi, p, n, LWS_WRITE_HTTP) < 0)
		return ERR_EOF;
	c->door->metrics.bytes_sent += n;
	c->deadline_ns = clock_boot_ns() + hub_conf(c->door->hub)->api_idle_timeout_ns;
	if (c->deadline_ns > c->limit_ns)
		c->deadline_ns = c->limit_ns;
	return 1;
}

static void write_some(struct conn *c)
{
	for (int i = 0; i < PIECES_PER_TURN; i++) {
		int rc;

		if (lws_partial_buffered(c->wsi)) {
			wait_room(c);
			return;
		}
		rc = write_piece(c);
		if (rc == 0 && c->x->stream_left && !c->x->stream_broken) {
			c->deadline_ns = 0; /* it is the sandbox that is waited for */
			if (c->x->chunked && watch_set(c, UV_DISCONNECT, conn_write_on_left))
				conn_kill(c);
			return;
		}
		if (rc == 0 && c->x->stream_left)
			rc = ERR_EOF; /* an answer cut short must not look whole */
		if (rc == 0) {
			conn_write_finish(c);
			return;
		}
		if (rc < 0) {
			conn_kill(c);
			return;
		}
	}
	conn_queue(c);
}

static void begin_writing(struct conn *c)
{
	uint64_t now = clock_boot_ns();

	buf_clear(&c->head);
	if (http_head(c->x, c->keep_alive, &c->head)) {
		conn_kill(c);
		return;
	}
	if (c->x->method == HTTP_HEAD) {
		buf_clear(&c->x->out);
		c->x->stream_left = 0;
	}
	c->deadline_ns = now + hub_conf(c->door->hub)->api_idle_timeout_ns;
	c->limit_ns = c->x->streams ? UINT64_MAX /* the transfer has a timeout of its own */
				    : c->deadline_ns + buf_len(&c->x->out) / WRITE_RATE_MIN * NS_PER_SEC;
	conn_set_state(c, CONN_WRITING);
	write_some(c);
}

void conn_write(struct conn *c)
{
	if (c->state == CONN_READY)
		begin_writing(c);
	else
		write_some(c);
}
