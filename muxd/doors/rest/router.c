/* One state machine with two directions that share every state: over 600 lines, since parts of it mean nothing alone. */
#define LOG_SUBSYS "rest"
#include "muxd/doors/rest/router.h"

#include "muxd/base/clock.h"
#include "muxd/base/log.h"
#include "muxd/base/ring.h"
#include "muxd/doors/rest/router_head.h"
#include "muxd/doors/rest/server.h"
#include "muxd/hub/hub.h"

#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define HEAD_MAX    (32 * 1024) /* of a request */
#define ANSWER_MAX  (64 * 1024) /* of an answer's head */
#define IN_MAX      (32 * 1024) /* of the client's bytes that wait for the program */
#define STEPS       16          /* pieces each way in one turn */
#define LINGER_NS   (2 * NS_PER_SEC)
#define WAIT_401_NS NS_PER_SEC

enum state { HEAD, OPENING, ASKING, ANSWERING, UPGRADED, REPLY, LINGER };

struct router {
	struct conn *c; /* NULL: gone, while the hub still works for us */
	SSL *ssl;
	enum state state;
	bool untouched;         /* libwebsockets knows nothing of the request */
	bool busy;              /* the hub will call back */
	struct router_head ask; /* texts in it are gone after HEAD */
	struct attachment *a;   /* NULL: none yet, or over */
	struct buf in;          /* HEAD: what came; then: the client's bytes for the program */
	struct buf head;        /* for the program, before them */
	struct buf answer;      /* ASKING: what came of the answer */
	struct buf out;         /* for the client */
	struct http1_body up, down;
	bool behind;               /* bytes came that are none of the request's */
	bool client_end, end_told; /* UPGRADED: the client has said all; and the program knows it */
	bool program_end;          /* nothing more comes from the program */
	int failed;                /* ... since this went wrong */
	char why[200];
	bool full;    /* the socket takes no more now */
	size_t again; /* SSL_write() wants the same bytes again, so many */
	bool shut;    /* LINGER: the client was told the end */
	int status;   /* of the answer */
	uint64_t moved_ns, hold_until_ns;
};

static const char *const state_names[] = {"head", "opening", "asking", "answering", "upgraded", "reply", "linger"};

static void set_state(struct router *r, enum state to)
{
	log_debug(&(struct log_ids){.peer = r->c->peer, .request = r->c->x ? r->c->x->id_text : NULL},
		  "router: %s -> %s", state_names[r->state], state_names[to]);
	r->state = to;
}

static void let_go(struct router *r)
{
	struct attachment *a = r->a;

	r->a = NULL;
	attachment_detach(a);
}

static void router_free(struct router *r)
{
	buf_finish_secret(&r->in);
	buf_finish(&r->head);
	buf_finish(&r->answer);
	buf_finish(&r->out);
	free(r);
}

void router_destroy(struct router *r)
{
	if (!r)
		return;
	let_go(r);
	r->c = NULL;
	if (!r->busy)
		router_free(r);
}

/* ---- the TLS stream */

/* Bytes, 0: none now, -1: the client has said all it will; ERR_EOF: it is gone. */
static ssize_t tls_read(struct router *r, uint8_t *p, size_t n)
{
	int got, why;

	ERR_clear_error();
	got = SSL_read(r->ssl, p, (int)n);
	if (got > 0)
		return got;
	why = SSL_get_error(r->ssl, got);
	ERR_clear_error();
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
		return 0;
	return why == SSL_ERROR_ZERO_RETURN ? -1 : ERR_EOF;
}

/* Bytes taken; 0: the socket is full, ERR_EOF. */
static ssize_t tls_write(struct router *r, const uint8_t *p, size_t n)
{
	int put, why;

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

/* ---- the end of it */

/* True when the door has its connection back: the router is gone. */
static bool give_back(struct router *r)
{
	struct conn *c = r->c;

	if (!r->untouched || !r->ask.keep_alive || !r->up.done || r->behind || buf_len(&r->in) || c->door->closing)
		return false;
	(void)watch_set(c, 0, NULL);
	c->router = NULL;
	router_destroy(r);
	c->deadline_ns = clock_boot_ns() + hub_conf(c->door->hub)->api_idle_timeout_ns;
	conn_set_state(c, CONN_IDLE);
	conn_await(c, false);
	return true;
}

static void log_end(struct router *r)
{
	struct conn *c = r->c;

	if (!c->x)
		return;
	conn_log(c, r->status);
	c->x->answered = true;
	http_exchange_abandon(c->x);
	c->x = NULL;
}

/* Everything was written. whole: the client can tell where the answer ends without the connection's end. */
static bool finish(struct router *r, bool whole)
{
	let_go(r);
	log_end(r);
	if (whole && give_back(r))
		return false;
	r->moved_ns = clock_boot_ns();
	set_state(r, LINGER);
	return true;
}

/*
 * An answer that stops here must not look whole: no close_notify, no orderly end. Many clients do not mind the first
 * where the connection's end is the answer's, so the connection is reset then (connect(2): AF_UNSPEC dissolves it).
 */
static void cut_off(struct router *r)
{
	static const struct sockaddr none = {.sa_family = AF_UNSPEC};
	struct conn *c = r->c;
	int fd = lws_get_socket_fd(c->wsi);

	let_go(r);
	log_end(r);
	if (r->state == UPGRADED || r->down.kind == HTTP1_TO_THE_END)
		(void)connect(fd, &none, sizeof(none));
	(void)shutdown(fd, SHUT_RDWR);
	conn_kill(c);
}

static void on_replied(void *arg, struct http_exchange *x)
{
	struct router *r = arg;
	struct conn *c = r->c;

	r->status = x->status;
	r->ask.keep_alive = r->ask.keep_alive && r->up.done && r->untouched && !r->behind;
	buf_clear(&r->out);
	if (http_head(x, r->ask.keep_alive, &r->out) ||
	    (!r->ask.head && buf_append(&r->out, buf_ptr(&x->out), buf_len(&x->out))))
		buf_clear(&r->out); /* no memory: the connection ends without a word */
	if (x->status == 401 && peers_failed(c->slot, clock_boot_ns())) {
		c->door->metrics.delayed++;
		r->hold_until_ns = clock_boot_ns() + WAIT_401_NS;
	}
	set_state(r, REPLY);
	conn_queue(c);
}

/* An answer of our own, where none was begun. */
static void refuse(struct router *r, int rc, const char *message)
{
	struct err e = {0};

	let_go(r);
	buf_clear(&r->in);
	buf_clear(&r->head);
	err_set(&e, rc, "%s", message);
	http_reply_error(r->c->x, rc, &e);
}

/* ---- from the client */

/* Bytes that came: the request's for the program; what is behind it says that the client is ahead of us. */
static int take_in(struct router *r, const uint8_t *p, size_t n)
{
	ssize_t mine = (ssize_t)n;

	r->c->door->metrics.routed_bytes_in += n;
	if (!r->ask.upgrade)
		mine = http1_body_feed(&r->up, p, n);
	if (mine < 0)
		return ERR_INVAL;
	r->behind = r->behind || (size_t)mine < n;
	return mine ? buf_append(&r->in, p, (size_t)mine) : 0;
}

static bool wants_input(const struct router *r)
{
	if (r->client_end || buf_len(&r->in) > IN_MAX - PIECE_MAX)
		return false;
	return r->state == UPGRADED ||
	       ((r->state == ASKING || r->state == ANSWERING) && !r->up.done && !r->ask.upgrade);
}

/* 1: something moved, 0: nothing; ERR_EOF: the client is gone, ERR_INVAL: what it sends is no chunk. */
static int read_client(struct router *r)
{
	uint8_t *p = r->c->door->piece;
	ssize_t n = wants_input(r) ? tls_read(r, p, PIECE_MAX) : 0;

	if (n > 0)
		return take_in(r, p, (size_t)n) ? ERR_INVAL : 1;
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
	ssize_t n = (ssize_t)buf_len(&r->answer);

	if (n && r->state == ANSWERING)
		n = http1_body_feed(&r->down, p, (size_t)n);
	if (n > 0 && buf_append(&r->out, p, (size_t)n))
		return ERR_NOMEM;
	buf_finish(&r->answer);
	buf_init(&r->answer, ANSWER_MAX);
	return n < 0 ? ERR_PROTOCOL : 0;
}

static int begin_answer(struct router *r, const struct http1_head *h, struct err *e)
{
	bool upgraded = h->status == 101 && r->ask.upgrade, keep;
	int rc = http1_answer_body(h, r->ask.head, &r->down, e);

	if (rc == 0 && h->status == 101 && !upgraded)
		rc = err_set(e, ERR_PROTOCOL, "the server changes the protocol unasked");
	if (rc)
		return rc;
	keep = r->untouched && r->ask.keep_alive && !r->behind && r->down.kind != HTTP1_TO_THE_END && !upgraded &&
	       r->up.done && !(r->ask.upgrade && buf_len(&r->in));
	r->ask.keep_alive = keep;
	if (router_head_answer(h, &r->down, upgraded, keep, r->c->x->id_text, &r->out))
		return err_set(e, ERR_NOMEM, "no memory for the answer");
	buf_consume(&r->answer, h->len);
	r->status = h->status;
	set_state(r, upgraded ? UPGRADED : ANSWERING);
	return take_rest(r) ? err_set(e, ERR_PROTOCOL, "the answer's chunks are malformed") : 0;
}

/* 1xx but 101: passed on, and another head follows. */
static int interim(struct router *r, const struct http1_head *h)
{
	static const struct http1_body none = {.kind = HTTP1_NONE, .done = true};

	if (router_head_answer(h, &none, false, true, "", &r->out))
		return ERR_NOMEM;
	buf_consume(&r->answer, h->len);
	return 0;
}

/* Heads, as many as are whole. ERR_PROTOCOL: that is no answer. */
static int read_answer(struct router *r, struct err *e)
{
	struct http1_head h;
	int rc = 0;

	while (r->state == ASKING && buf_len(&r->answer)) {
		rc = http1_answer(buf_ptr(&r->answer), buf_len(&r->answer), &h, e);
		if (rc == 0 && !buf_room(&r->answer))
			rc = err_set(e, ERR_PROTOCOL, "its head has more than %d bytes", ANSWER_MAX);
		if (rc <= 0)
			return rc;
		rc = h.status < 200 && h.status != 101 ? interim(r, &h) : begin_answer(r, &h, e);
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
	if (read_answer(r, &e)) {
		snprintf(r->why, sizeof(r->why), "what port %u answers is no HTTP/1.1: %.120s", r->ask.port, e.message);
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

	if (!n)
		return 0;
	if (r->state == ANSWERING)
		mine = http1_body_feed(&after, p, n);
	if (mine <= 0)
		return mine < 0 ? ERR_PROTOCOL : 0;
	put = tls_write(r, p, (size_t)mine);
	if (put <= 0)
		return (int)put;
	if (r->state == ANSWERING)
		(void)http1_body_feed(&r->down, p, (size_t)put);
	attachment_consume(r->a, STREAM_OUTPUT, (size_t)put);
	return 1;
}

static int feed_client(struct router *r)
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

/* ---- turns */

static void wait_on(struct router *r);

/* What went wrong on either side. */
static void broken(struct router *r, int rc)
{
	if (rc == ERR_EOF)
		conn_kill(r->c);
	else if (r->state != ASKING)
		cut_off(r);
	else if (rc == ERR_INVAL)
		refuse(r, ERR_INVAL, "the chunks of the request's body are malformed");
	else
		refuse(r, ERR_PORT_ANSWER, r->why);
}

/* The program has said all: is the answer whole with it? */
static void program_ended(struct router *r)
{
	char text[120];

	if (r->state == ASKING && r->failed) {
		refuse(r, r->failed, r->why);
	} else if (r->state == ASKING) {
		snprintf(text, sizeof(text), "the program on port %u closed the connection without an answer",
			 r->ask.port);
		refuse(r, ERR_PORT, text);
	} else if (r->failed || (r->state == ANSWERING && r->down.kind != HTTP1_TO_THE_END)) {
		cut_off(r);
	} else if (finish(r, false)) {
		router_turn(r);
	}
}

static void linger(struct router *r)
{
	uint8_t *p = r->c->door->piece;
	ssize_t n;

	if (!r->shut) {
		r->shut = true;
		ERR_clear_error();
		(void)SSL_shutdown(r->ssl);
		ERR_clear_error();
		(void)shutdown(lws_get_socket_fd(r->c->wsi), SHUT_WR);
	}
	for (int i = 0; i < STEPS; i++) {
		n = tls_read(r, p, PIECE_MAX);
		if (n < 0) {
			conn_kill(r->c);
			return;
		}
		if (n == 0)
			break;
	}
	wait_on(r);
}

static void reply(struct router *r)
{
	int rc = 0;

	while (!r->hold_until_ns && buf_len(&r->out) && (rc = feed_client(r)) > 0)
		;
	if (rc < 0)
		conn_kill(r->c);
	else if (r->hold_until_ns || buf_len(&r->out))
		wait_on(r);
	else if (finish(r, true))
		linger(r);
}

/* Moves what can be moved. 0: done for now, 1: there may be more. */
static int move(struct router *r)
{
	int moved = 0;

	for (int i = 0; i < STEPS; i++) {
		int up = read_client(r), fed = feed_program(r), down = up < 0 ? 0 : feed_client(r);

		if (up < 0 || down < 0)
			return up < 0 ? up : down;
		moved = up | fed | down;
		if (!moved)
			return 0;
		r->moved_ns = clock_boot_ns();
	}
	return moved;
}

static void exchange(struct router *r)
{
	int rc = move(r);

	if (rc < 0) {
		broken(r, rc);
		return;
	}
	if (buf_len(&r->out) == 0 && r->state == ANSWERING && r->down.done) {
		if (finish(r, true))
			linger(r);
		return;
	}
	if (r->program_end && !buf_len(&r->out)) {
		program_ended(r);
		return;
	}
	if (rc)
		conn_queue(r->c);
	wait_on(r);
}

static void read_head(struct router *r);

void router_turn(struct router *r)
{
	switch (r->state) {
	case HEAD:
		read_head(r);
		break;
	case OPENING:
		wait_on(r);
		break;
	case REPLY:
		reply(r);
		break;
	case LINGER:
		linger(r);
		break;
	default:
		exchange(r);
	}
}

static void on_socket(struct conn *c, int events)
{
	struct router *r = c->router;

	if (events & UV_WRITABLE)
		r->full = false;
	if (events & UV_DISCONNECT && r->state != UPGRADED && r->state != LINGER && r->state != HEAD) {
		conn_kill(c);
		return;
	}
	router_turn(r);
}

static void wait_on(struct router *r)
{
	int events = r->state == UPGRADED ? 0 : UV_DISCONNECT;

	if (r->state == HEAD || r->state == LINGER || wants_input(r))
		events |= UV_READABLE;
	if (r->full)
		events |= UV_WRITABLE;
	if (watch_set(r->c, events, on_socket))
		conn_kill(r->c);
}

/* ---- what the hub tells */

static void on_readable(void *arg)
{
	router_turn(arg);
}

static void on_notice(void *arg, const char *text)
{
	(void)arg, (void)text;
}

static void on_skipped(void *arg, int stream, uint64_t n)
{
	(void)arg, (void)stream, (void)n; /* a driver is not overtaken */
}

static void on_ended(void *arg, const struct session_result *result)
{
	struct router *r = arg;

	r->program_end = true;
	r->failed = result->failed;
	snprintf(r->why, sizeof(r->why), "%s", result->message);
	let_go(r);
	router_turn(r);
}

static void on_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct router *r = arg;

	let_go(r);
	if (r->state == ASKING)
		refuse(r, cause == CUT_SHUTDOWN ? ERR_UNAVAILABLE : ERR_CUT, text);
	else
		cut_off(r);
}

static const struct attachment_ops ops = {.readable = on_readable,
					  .writable = on_readable,
					  .notice = on_notice,
					  .skipped = on_skipped,
					  .ended = on_ended,
					  .cut = on_cut};

/* The hub is through. False: nobody is left. */
static bool called_back(struct router *r)
{
	r->busy = false;
	if (r->c)
		return true;
	router_free(r);
	return false;
}

static void on_open(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
		    const struct id *seen)
{
	struct router *r = arg;

	(void)s, (void)seen;
	if (!called_back(r)) {
		attachment_detach(a);
		return;
	}
	if (rc) {
		refuse(r, rc, e ? e->message : err_name(rc));
		return;
	}
	r->a = a;
	r->moved_ns = clock_boot_ns();
	set_state(r, ASKING);
	conn_queue(r->c);
}

static void on_located(void *arg, int rc, const struct err *e, const char *name)
{
	struct router *r = arg;
	struct port_spec port = {.port = r->ask.port, .use = r->ask.use};
	struct exec_spec spec = {.kind = SESSION_PORT,
				 .agent = name,
				 .port = &port,
				 .stdin_open = true,
				 .head = UINT64_MAX,
				 .tail = UINT64_MAX};

	if (!called_back(r))
		return;
	if (rc) {
		refuse(r, rc, e ? e->message : err_name(rc));
		return;
	}
	r->busy = true;
	broker_open(r->c->door->hub, &r->c->x->rq, &spec, &ops, r, on_open, r);
}

/* ---- the request */

static int authenticate(struct router *r, struct err *e)
{
	struct http_exchange *x = r->c->x;
	int rc;

	if (!r->ask.token.p)
		return err_set(e, ERR_UNAUTHENTICATED, "send a grant: Authorization: Bearer TOKEN");
	rc = broker_authenticate(x->hub, r->ask.token.p, r->ask.token.n, "rest", x->peer, &x->rq, e);
	if (rc)
		return rc;
	x->rq.id = x->id;
	x->authenticated = true;
	return 0;
}

static enum http_method method_of(struct http1_text t)
{
	for (enum http_method m = HTTP_GET; m < HTTP_OTHER; m++)
		if (http1_is(t, http_method_name(m)))
			return m;
	return HTTP_OTHER;
}

static int make_exchange(struct router *r)
{
	const char *path = strchr(r->ask.use, ' ');
	int rc = conn_exchange(r->c, path ? path + 1 : "");

	if (rc)
		return rc;
	r->c->x->routed = true;
	r->c->x->done = on_replied;
	r->c->x->done_arg = r;
	r->c->x->wake = NULL;
	return 0;
}

/* The head is whole: what is behind it is body. */
static int accept_head(struct router *r, const struct http1_head *h, struct err *e)
{
	struct buf all = r->in;
	int rc = router_head_read(h, &r->ask, e), none = make_exchange(r);

	if (none) {
		conn_kill(r->c);
		return ERR_CANCELLED;
	}
	r->c->x->method = method_of(h->method);
	r->up = r->ask.body;
	if (rc == 0)
		rc = authenticate(r, e);
	if (rc == 0)
		rc = router_head_request(h, &r->ask, r->c->peer, &r->head);
	buf_init(&r->in, IN_MAX + PIECE_MAX + HEAD_MAX);
	if (rc == 0 && buf_len(&all) > h->len && take_in(r, buf_ptr(&all) + h->len, buf_len(&all) - h->len))
		rc = err_set(e, ERR_INVAL, "the chunks of the request's body are malformed");
	r->ask.token = (struct http1_text){.p = NULL, .n = 0};
	buf_finish_secret(&all);
	return rc;
}

static void open_port(struct router *r)
{
	set_state(r, OPENING);
	r->c->deadline_ns = 0;
	r->busy = true;
	(void)watch_set(r->c, UV_DISCONNECT, on_socket); /* without, a client that leaves is noticed later */
	broker_locate(r->c->door->hub, &r->c->x->rq, r->ask.id, r->ask.space, on_located, r);
}

static void parse_head(struct router *r)
{
	struct http1_head h;
	struct err e = {0};
	int rc = http1_request(buf_ptr(&r->in), buf_len(&r->in), &h, &e);

	if (rc == 0 && buf_len(&r->in) > HEAD_MAX)
		rc = err_set(&e, ERR_TOO_LARGE, "the head of the request has more than %d bytes", HEAD_MAX);
	if (rc == 0) {
		wait_on(r);
		return;
	}
	if (rc < 0) {
		r->ask.keep_alive = false;
		if (make_exchange(r))
			conn_kill(r->c);
		else
			refuse(r, rc, e.message);
		return;
	}
	rc = accept_head(r, &h, &e);
	if (rc == ERR_CANCELLED)
		return;
	if (rc)
		refuse(r, rc, e.message);
	else
		open_port(r);
}

static void read_head(struct router *r)
{
	uint8_t *p = r->c->door->piece;
	ssize_t n = tls_read(r, p, PIECE_MAX);

	if (n < 0 || (n > 0 && buf_append(&r->in, p, (size_t)n)))
		conn_kill(r->c);
	else if (n > 0)
		parse_head(r);
	else
		wait_on(r);
}

void router_begin(struct conn *c, const uint8_t *p, size_t n, bool untouched)
{
	struct router *r = calloc(1, sizeof(*r));

	if (r) {
		buf_init(&r->in, HEAD_MAX + 4 * PIECE_MAX);
		buf_init(&r->head, 2 * HEAD_MAX);
		buf_init(&r->answer, ANSWER_MAX);
		buf_init(&r->out, HTTP_RESPONSE_MAX);
	}
	if (!r || buf_append(&r->in, p, n)) {
		free(r);
		conn_kill(c);
		return;
	}
	r->c = c;
	r->ssl = lws_get_ssl(c->wsi);
	r->untouched = untouched;
	r->moved_ns = clock_boot_ns();
	SSL_set_mode(r->ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	c->router = r;
	buf_clear(&c->raw);
	conn_set_state(c, CONN_ROUTED);
	parse_head(r);
}

/* ---- time */

static void on_silence(struct router *r)
{
	r->c->door->metrics.timeouts++;
	if (r->state == ASKING)
		refuse(r, ERR_TIMEOUT, "the server in the sandbox did not answer within router.answer_timeout");
	else
		cut_off(r);
}

void router_sweep(struct router *r, uint64_t now_ns)
{
	const struct conf *conf = hub_conf(r->c->door->hub);
	uint64_t silent = now_ns > r->moved_ns ? now_ns - r->moved_ns : 0;

	if (r->hold_until_ns && now_ns >= r->hold_until_ns) {
		r->hold_until_ns = 0;
		router_turn(r);
		return;
	}
	switch (r->state) {
	case HEAD:
		if (silent >= conf->api_header_timeout_ns)
			conn_kill(r->c);
		break;
	case ASKING:
		if (silent >= conf->router_answer_timeout_ns)
			on_silence(r);
		break;
	case ANSWERING:
	case UPGRADED:
		if (silent >= conf->router_idle_timeout_ns)
			on_silence(r);
		break;
	case REPLY:
		if (silent >= conf->api_idle_timeout_ns)
			conn_kill(r->c);
		break;
	case LINGER:
		if (silent >= LINGER_NS)
			conn_kill(r->c);
		break;
	default:
		break;
	}
}
