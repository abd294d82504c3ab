/* What moves between the client and the port: the TLS stream, the request, the answer. */
#include "base/ring.h"
#include "base/text.h"
#include "muxd/doors/https/router/router_state.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <sys/socket.h>

/* ---- the TLS stream */

ssize_t router_tls_read(struct router *r, uint8_t *p, size_t n)
{
	return conn_recv(r->c, p, n);
}

/* By the Unix socket. */
static ssize_t plain_write(struct router *r, const uint8_t *p, size_t n)
{
	ssize_t put = send(lws_get_socket_fd(r->c->wsi), p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (put < 0 && errno != EAGAIN && errno != EINTR)
		return ERR_EOF;
	r->full = put < 0;
	r->c->door->metrics.routed_bytes_out += put < 0 ? 0 : (uint64_t)put;
	return put < 0 ? 0 : put;
}

/* Bytes taken; 0: the socket is full, ERR_EOF. */
static ssize_t tls_write(struct router *r, const uint8_t *p, size_t n)
{
	int put, why;

	if (!r->ssl)
		return plain_write(r, p, n);
	n = n < PIECE_MAX ? n : PIECE_MAX;
	if (r->again && n > r->again)
		n = r->again;
	ERR_clear_error();
	put = SSL_write(r->ssl, p, (int)n);
	if (put > 0) {
		r->again = 0;
		r->c->door->metrics.routed_bytes_out += (uint64_t)put;
		return put;
	}
	why = SSL_get_error(r->ssl, put);
	ERR_clear_error();
	if (why != SSL_ERROR_WANT_WRITE && why != SSL_ERROR_WANT_READ)
		return ERR_EOF;
	r->again = n;
	r->full = true;
	return 0;
}

/* ---- from the client */

/* Bytes that came: the request's for the program; what is behind it says that the client is ahead of us. */
/* The body's part of n bytes, to out, without trailers: fields that stay here would pass in one of them. */
static ssize_t take_body(struct http1_body *b, const uint8_t *p, size_t n, struct buf *out)
{
	size_t i = 0;

	while (i < n && !b->done) {
		bool trailer;
		ssize_t took = http1_body_run(b, p + i, n - i, &trailer);

		if (took < 0 || (!trailer && buf_append(out, p + i, (size_t)took)))
			return took < 0 ? took : ERR_NOMEM;
		i += (size_t)took;
	}
	return (ssize_t)i;
}

int router_take_in(struct router *r, const uint8_t *p, size_t n)
{
	ssize_t mine = (ssize_t)n;

	r->c->door->metrics.routed_bytes_in += n;
	if (r->ask.upgrade)
		return buf_append(&r->in, p, n);
	mine = take_body(&r->up, p, n, &r->in);
	r->behind = r->behind || (mine >= 0 && (size_t)mine < n);
	return mine < 0 ? (int)mine : 0;
}

bool router_wants_input(const struct router *r)
{
	if (r->client_end || buf_len(&r->in) > ROUTER_IN_MAX - PIECE_MAX)
		return false;
	return r->state == UPGRADED ||
	       ((r->state == ASKING || r->state == ANSWERING) && !r->up.done && !r->ask.upgrade);
}

/* 1: something moved, 0: nothing; ERR_EOF: the client is gone, ERR_INVAL: what it sends is no chunk. */
static int read_client(struct router *r)
{
	uint8_t *p = r->c->door->piece;
	ssize_t n = router_wants_input(r) ? router_tls_read(r, p, PIECE_MAX) : 0;

	if (n > 0)
		return router_take_in(r, p, (size_t)n) ? ERR_INVAL : 1;
	if (n == -1 && r->state == UPGRADED) {
		r->client_end = true;
		return 1;
	}
	return n < 0 ? ERR_EOF : 0;
}

static int send_buf(struct router *r, struct buf *b)
{
	ssize_t n = buf_len(b) ? attachment_input(r->a, buf_ptr(b), buf_len(b)) : 0;

	if (n < 0) {
		buf_clear(b); /* the program wants no more of it; how it ends comes by itself */
		return 0;
	}
	buf_consume(b, (size_t)n);
	return n > 0;
}

static int feed_program(struct router *r)
{
	int moved;

	if (!r->a)
		return 0;
	moved = send_buf(r, &r->head);
	if (!buf_len(&r->head) && (!r->ask.upgrade || r->state == UPGRADED))
		moved |= send_buf(r, &r->in);
	if (r->client_end && !r->end_told && !buf_len(&r->in) && !buf_len(&r->head)) {
		r->end_told = true;
		(void)attachment_input_eof(r->a);
	}
	return moved;
}

/* ---- from the program */

/* The answer's body as far as it came with its head. */
static int take_rest(struct router *r)
{
	const uint8_t *p = buf_ptr(&r->answer);
	size_t n = buf_len(&r->answer);
	ssize_t took = r->state == ANSWERING ? take_body(&r->down, p, n, &r->out) : 0;

	if (took == ERR_NOMEM || (r->state == UPGRADED && n && buf_append(&r->out, p, n)))
		return ERR_NOMEM;
	buf_finish(&r->answer);
	buf_init(&r->answer, ROUTER_ANSWER_MAX);
	return took < 0 ? ERR_PROTOCOL : 0;
}

static int begin_answer(struct router *r, const struct http1_head *h, struct err *e)
{
	bool upgraded = h->status == 101 && r->ask.upgrade, keep;
	int rc = http1_answer_body(h, r->ask.head, &r->down, e);
	size_t had = buf_len(&r->out);

	if (rc == 0 && h->status == 101 && !upgraded)
		rc = err_set(e, ERR_PROTOCOL, "the server changes the protocol unasked");
	if (rc)
		return rc;
	keep = r->untouched && r->ask.keep_alive && !r->behind && r->down.kind != HTTP1_TO_THE_END && !upgraded &&
	       r->up.done && !(r->ask.upgrade && buf_len(&r->in));
	r->ask.keep_alive = keep;
	if (router_head_answer(h, &r->down, upgraded, keep, r->c->x->id_text, &r->out)) {
		buf_truncate(&r->out, had);
		return err_set(e, ERR_NOMEM, "no memory for the answer");
	}
	buf_consume(&r->answer, h->len);
	r->status = h->status;
	router_set_state(r, upgraded ? UPGRADED : ANSWERING);
	return take_rest(r) ? err_set(e, ERR_PROTOCOL, "the answer's chunks are malformed") : 0;
}

/* 1xx but 101: passed on, and another head follows. A client of HTTP/1.0 would take it for the answer. */
static int interim(struct router *r, const struct http1_head *h, struct err *e)
{
	static const struct http1_body none = {.kind = HTTP1_NONE, .done = true};
	size_t had = buf_len(&r->out);

	r->interim_bytes += h->len;
	if (++r->interims > ROUTER_INTERIM_MAX || r->interim_bytes > ROUTER_INTERIM_BYTES)
		return err_set(e, ERR_PROTOCOL, "more than %d answers of 1xx, or %d bytes of them", ROUTER_INTERIM_MAX,
			       ROUTER_INTERIM_BYTES);
	if (r->ask.minor && router_head_answer(h, &none, false, true, "", &r->out)) {
		buf_truncate(&r->out, had);
		return err_set(e, ERR_NOMEM, "no memory for the answer");
	}
	buf_consume(&r->answer, h->len);
	return 0;
}

/* Heads, as many as are whole. ERR_PROTOCOL: that is no answer. */
static int router_flow_read_answer(struct router *r, struct err *e)
{
	struct http1_head h;
	int rc = 0;

	while (r->state == ASKING && buf_len(&r->answer)) {
		rc = http1_answer(buf_ptr(&r->answer), buf_len(&r->answer), &h, e);
		if (rc == 0 && !buf_room(&r->answer))
			rc = err_set(e, ERR_PROTOCOL, "its head has more than %d bytes", ROUTER_ANSWER_MAX);
		if (rc <= 0)
			return rc;
		rc = h.status < 200 && h.status != 101 ? interim(r, &h, e) : begin_answer(r, &h, e);
		if (rc)
			return rc;
	}
	return 0;
}

/* 1, 0, ERR_PROTOCOL: no answer that can be passed on. */
static int collect_answer(struct router *r)
{
	struct err e = {0};
	const uint8_t *p;
	size_t n = attachment_peek(r->a, STREAM_OUTPUT, &p);

	if (!n)
		return 0;
	n = n < buf_room(&r->answer) ? n : buf_room(&r->answer);
	if (buf_append(&r->answer, p, n))
		return ERR_PROTOCOL;
	attachment_consume(r->a, STREAM_OUTPUT, n);
	if (router_flow_read_answer(r, &e)) {
		text_format(r->why, sizeof(r->why), "what port %u answers is no HTTP/1.1: %.120s", r->ask.port,
			    e.message);
		return ERR_PROTOCOL;
	}
	return 1;
}

/* 1, 0, ERR_EOF, ERR_PROTOCOL. */
static int pass_body(struct router *r)
{
	struct http1_body after = r->down;
	const uint8_t *p;
	size_t n = attachment_peek(r->a, STREAM_OUTPUT, &p);
	ssize_t mine = (ssize_t)n, put;
	bool trailer = false;

	if (!n)
		return 0;
	if (r->state == ANSWERING)
		mine = http1_body_run(&after, p, n, &trailer);
	if (mine <= 0)
		return mine < 0 ? ERR_PROTOCOL : 0;
	if (trailer) {
		r->down = after;
		attachment_consume(r->a, STREAM_OUTPUT, (size_t)mine);
		return 1;
	}
	put = tls_write(r, p, (size_t)mine);
	if (put <= 0)
		return (int)put;
	if (r->state == ANSWERING)
		(void)http1_body_feed(&r->down, p, (size_t)put);
	attachment_consume(r->a, STREAM_OUTPUT, (size_t)put);
	return 1;
}

int router_feed_client(struct router *r)
{
	if (buf_len(&r->out)) {
		ssize_t put = r->full ? 0 : tls_write(r, buf_ptr(&r->out), buf_len(&r->out));

		if (put > 0)
			buf_consume(&r->out, (size_t)put);
		return put < 0 ? ERR_EOF : put > 0;
	}
	if (!r->a || r->full)
		return 0;
	if (r->state == ASKING)
		return collect_answer(r);
	if ((r->state == ANSWERING && !r->down.done) || r->state == UPGRADED)
		return pass_body(r);
	return 0;
}

/* Moves what can be moved. 0: done for now, 1: there may be more. */
int router_move(struct router *r)
{
	int moved = 0;

	for (int i = 0; i < ROUTER_STEPS; i++) {
		int up = read_client(r), fed = feed_program(r), down = up < 0 ? 0 : router_feed_client(r);

		if (up < 0 || down < 0)
			return up < 0 ? up : down;
		moved = up | fed | down;
		if (!moved)
			return 0;
		r->moved_ns = clock_boot_ns();
	}
	return moved;
}
