/*
 * A request to a port in a sandbox: its head, who asks, the port, and then turns of the loop until both bodies are
 * through, and how it ends: whole, refused, or cut off. router_flow.c moves the bytes.
 */
#define LOG_SUBSYS "rest"
#include "base/log.h"
#include "base/text.h"
#include "muxd/doors/https/api_head.h"
#include "muxd/doors/https/conn_http.h"
#include "muxd/doors/https/route.h"
#include "muxd/doors/https/router/router_fields.h"
#include "muxd/doors/https/router/router_state.h"
#include "muxd/doors/https/runtime.h"

#include <openssl/err.h>
#include <stdio.h>
#include <sys/socket.h>

#define LINGER_NS   (2 * NS_PER_SEC)
#define WAIT_401_NS NS_PER_SEC

/* ---- how it ends: whole, refused, or cut off */

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
	conn_set_state(c, CONN_BACK);
	conn_queue(c);
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

/*
 * Everything was written. whole: the client can tell where the answer ends without the connection's end. False: the
 * door has its connection back, the router is gone; true: it lingers.
 */
static bool router_finish(struct router *r, bool whole)
{
	router_let_go(r);
	log_end(r);
	if (whole && give_back(r))
		return false;
	r->moved_ns = clock_boot_ns();
	router_set_state(r, LINGER);
	return true;
}

/*
 * An answer that stops here must not look whole: no close_notify, no orderly end. Many clients do not mind the first
 * where the connection's end is the answer's, so the connection is reset then (connect(2): AF_UNSPEC dissolves it).
 */
static void router_cut_off(struct router *r)
{
	static const struct sockaddr none = {.sa_family = AF_UNSPEC};
	struct conn *c = r->c;
	int fd = lws_get_socket_fd(c->wsi);

	router_let_go(r);
	log_end(r);
	if (r->state == UPGRADED || r->down.kind == HTTP1_TO_THE_END)
		(void)connect(fd, &none, sizeof(none));
	(void)shutdown(fd, SHUT_RDWR);
	router_kill(r);
}

static void router_on_replied(void *arg, struct http_exchange *x)
{
	struct router *r = arg;
	struct conn *c = r->c;
	size_t had = buf_len(&r->out); /* interim answers that the socket did not take yet, maybe half of one */

	r->status = x->status;
	r->ask.keep_alive = r->ask.keep_alive && r->up.done && r->untouched && !r->behind;
	if (http_head(x, r->ask.keep_alive, &r->out) ||
	    (!r->ask.head && buf_append(&r->out, buf_ptr(&x->out), buf_len(&x->out)))) {
		buf_truncate(&r->out, had); /* no memory: the connection ends without a word */
		r->ask.keep_alive = false;
	}
	if (x->status == 401 && conn_failed(c))
		r->hold_until_ns = clock_boot_ns() + WAIT_401_NS;
	router_set_state(r, REPLY);
	conn_queue(c);
}

static void router_refuse_as(struct router *r, int status, int rc, const char *message)
{
	struct err e = {0};

	router_let_go(r);
	/* behind an Upgrade: a request, or words of a protocol that it did not change to; nobody can tell */
	r->behind = r->behind || (r->ask.upgrade && buf_len(&r->in));
	buf_clear(&r->in);
	buf_clear(&r->head);
	err_set(&e, rc, "%s", message);
	http_reply_status(r->c->x, status, rc, &e);
}

/* An answer of our own, where none was begun. */
static void router_refuse(struct router *r, int rc, const char *message)
{
	router_refuse_as(r, err_http_status(rc), rc, message);
}

/* ---- waiting for the socket */

static void router_on_socket(struct conn *c, int events)
{
	struct router *r = c->router;

	if (events & UV_WRITABLE)
		r->full = false;
	if (events & UV_DISCONNECT && r->state != UPGRADED && r->state != LINGER && r->state != HEAD) {
		router_kill(r);
		return;
	}
	router_turn(r);
}

static void await_socket(struct router *r)
{
	int events = r->state == UPGRADED ? 0 : UV_DISCONNECT;

	if (r->state == HEAD || r->state == LINGER || router_wants_input(r))
		events |= UV_READABLE;
	if (r->full)
		events |= UV_WRITABLE;
	if (watch_set(r->c, events, router_on_socket))
		router_kill(r);
}

/* ---- what the hub tells */

static void router_on_readable(void *arg)
{
	router_turn(arg);
}

static void router_on_notice(void *arg, const char *text, bool over)
{
	(void)arg, (void)text, (void)over;
}

static void router_on_skipped(void *arg, int stream, uint64_t n)
{
	(void)arg, (void)stream, (void)n; /* a driver is not overtaken */
}

static void router_on_ended(void *arg, const struct session_result *result)
{
	struct router *r = arg;

	r->program_end = true;
	r->failed = result->failed;
	text_put(r->why, sizeof(r->why), result->message);
	router_let_go(r);
	router_turn(r);
}

static void router_on_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct router *r = arg;

	router_let_go(r);
	if (r->state == ASKING)
		router_refuse(r, cause == CUT_SHUTDOWN ? ERR_UNAVAILABLE : ERR_CUT, text);
	else
		router_cut_off(r);
}

static const struct attachment_ops ops = {.readable = router_on_readable,
					  .writable = router_on_readable,
					  .notice = router_on_notice,
					  .skipped = router_on_skipped,
					  .ended = router_on_ended,
					  .cut = router_on_cut};

/* The hub is through. False: nobody is left. */
static bool called_back(struct router *r)
{
	r->busy = false;
	if (r->c)
		return true;
	router_free(r);
	return false;
}

static void router_on_open(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			   const struct id *seen)
{
	struct router *r = arg;

	(void)s, (void)seen;
	if (!called_back(r)) {
		attachment_detach(a);
		return;
	}
	if (rc) {
		router_refuse(r, rc, e ? e->message : err_name(rc));
		return;
	}
	r->a = a;
	r->moved_ns = clock_boot_ns();
	router_set_state(r, ASKING);
	conn_queue(r->c);
}

static void router_on_located(void *arg, int rc, const struct err *e, const char *name)
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
		router_refuse(r, rc, e ? e->message : err_name(rc));
		return;
	}
	r->busy = true;
	broker_open(r->c->door->hub, &r->c->x->rq, &spec, &ops, r, router_on_open, r);
}

/* ---- the request */

static enum http_method method_of(struct http1_text t)
{
	for (enum http_method m = HTTP_GET; m < HTTP_OTHER; m++)
		if (http1_is(t, http_method_name(m)))
			return m;
	return HTTP_OTHER;
}

static int make_exchange(struct router *r, bool routed)
{
	const char *path = strchr(r->ask.use, ' ');
	int rc = conn_exchange(r->c, path ? path + 1 : "");

	if (rc)
		return rc;
	r->c->x->routed = routed;
	r->c->x->done = router_on_replied;
	r->c->x->done_arg = r;
	r->c->x->wake = NULL;
	return 0;
}

/*
 * A page of ours has no business in a sandbox's server: what that answers would be of the page's own origin. The fields
 * that say so cannot be made up by scripts; they may be missing (old browsers), so this is one of several fences.
 */
static int check_page(struct router *r, const struct http1_head *h, struct err *e)
{
	struct http_exchange *x = r->c->x;
	struct origin from = http_origin(x, "rest");

	if (!router_from_own_page(h))
		return 0;
	err_set(e, ERR_OWN_PAGE, "a page of this origin sends X-Sandbox fields");
	broker_refuse(x->hub, r->ask.token.p, r->ask.token.n, &from, "page", e);
	return e->code;
}

/* The head is whole: what is behind it is body. */
static int accept_head(struct router *r, const struct http1_head *h, struct err *e)
{
	struct buf all = r->in;
	int rc = http1_request_check(h, e), none;

	if (rc == 0)
		rc = router_head_read(h, &r->ask, e);
	none = make_exchange(r, true);

	if (none) {
		router_kill(r);
		return ERR_CANCELLED;
	}
	r->c->x->method = method_of(h->method);
	r->up = r->ask.body;
	if (rc == 0 && hub_conf(r->c->door->hub)->router_runtime && r->ask.port == RUNTIME_PORT_NUMBER)
		rc = err_set(e, ERR_TOO_LARGE, "a head for port " RUNTIME_PORT " has at most %d bytes and %d fields",
			     API_HEAD_MAX, API_FIELDS_MAX);
	if (rc == 0)
		rc = check_page(r, h, e);
	if (rc == 0)
		rc = route_authenticate(r->c->x, r->ask.token.p, r->ask.token.n, e);
	rc = conn_judge(r->c, rc, e);
	r->ask.keep_alive = r->ask.keep_alive && admit_state(r->c->place) != ADMIT_OVER;
	if (rc == 0)
		rc = router_head_request(h, &r->ask, r->c->peer, &r->head);
	buf_init(&r->in, ROUTER_IN_MAX + PIECE_MAX + ROUTER_HEAD_MAX);
	if (rc && buf_len(&all) > h->len)
		r->behind =
		    true; /* thrown away: what comes next on this connection would be taken for something else */
	if (rc == 0 && buf_len(&all) > h->len && router_take_in(r, buf_ptr(&all) + h->len, buf_len(&all) - h->len))
		rc = err_set(e, ERR_INVAL, "the chunks of the request's body are malformed");
	r->ask.token = (struct http1_text){.p = NULL, .n = 0};
	buf_finish_secret(&all);
	return rc;
}

static void open_port(struct router *r)
{
	router_set_state(r, OPENING);
	r->c->deadline_ns = 0;
	r->busy = true;
	(void)watch_set(r->c, UV_DISCONNECT, router_on_socket); /* without, a client that leaves is noticed later */
	broker_locate(r->c->door->hub, &r->c->x->rq, SCOPE_PORTS, r->ask.id, r->ask.space, router_on_located, r);
}

/* The head was collected here since libwebsockets could not, and is not for the router: say what the API says of it. */
static int not_routed(const struct router *r, int *out_status, struct err *e)
{
	struct api_head head;
	int rc = api_head_read(buf_ptr(&r->in), buf_len(&r->in), 0, NULL, &head, e);

	*out_status = head.status;
	return rc < 0 ? rc : err_set(e, ERR_INVAL, "send the head of the request in one piece");
}

static void refuse_head(struct router *r, int status, int rc, const char *message)
{
	r->ask.keep_alive = false;
	r->c->door->metrics.malformed++;
	if (make_exchange(r, true))
		router_kill(r);
	else
		router_refuse_as(r, status, rc, message);
}

static void parse_head(struct router *r)
{
	struct http1_head h;
	struct err e = {0};
	int rc = http1_request(buf_ptr(&r->in), buf_len(&r->in), &h, &e), status = 400;

	if (rc == 1 ? h.len > ROUTER_HEAD_MAX : rc == 0 && buf_len(&r->in) > ROUTER_HEAD_MAX)
		rc = err_set(&e, ERR_TOO_LARGE, "the head of the request has more than %d bytes", ROUTER_HEAD_MAX);
	if (rc == 0) {
		await_socket(r);
		return;
	}
	if (rc == ERR_TOO_LARGE)
		status = 431;
	if (rc == 1 && !http1_find(&h, "X-Sandbox-ID", NULL))
		rc = not_routed(r, &status, &e);
	if (rc < 0) {
		refuse_head(r, status, rc, e.message);
		return;
	}
	rc = accept_head(r, &h, &e);
	if (rc == ERR_CANCELLED)
		return;
	if (rc)
		router_refuse(r, rc, e.message);
	else
		open_port(r);
}

static void read_head(struct router *r)
{
	uint8_t *p = r->c->door->piece;
	ssize_t n = router_tls_read(r, p, PIECE_MAX);

	if (n < 0 || (n > 0 && buf_append(&r->in, p, (size_t)n)))
		router_kill(r);
	else if (n > 0)
		parse_head(r);
	else
		await_socket(r);
}

/* ---- turns */

/* What went wrong on either side. */
static void broken(struct router *r, int rc)
{
	if (rc == ERR_EOF)
		router_kill(r);
	else if (r->state != ASKING)
		router_cut_off(r);
	else if (rc == ERR_INVAL)
		router_refuse(r, ERR_INVAL, "the chunks of the request's body are malformed");
	else
		router_refuse(r, ERR_PORT_ANSWER, r->why);
}

/* The program has said all: is the answer whole with it? */
static void program_ended(struct router *r)
{
	char text[120];

	if (r->state == ASKING && r->failed) {
		router_refuse(r, r->failed, r->why);
	} else if (r->state == ASKING) {
		snprintf(text, sizeof(text), "the program on port %u closed the connection without an answer",
			 r->ask.port);
		router_refuse(r, ERR_PORT, text);
	} else if (r->failed || (r->state == ANSWERING && r->down.kind != HTTP1_TO_THE_END)) {
		router_cut_off(r);
	} else if (router_finish(r, false)) {
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
		(void)(r->ssl ? SSL_shutdown(r->ssl) : 0);
		ERR_clear_error();
		(void)shutdown(lws_get_socket_fd(r->c->wsi), SHUT_WR);
	}
	for (int i = 0; i < ROUTER_STEPS; i++) {
		n = router_tls_read(r, p, PIECE_MAX);
		if (n < 0) {
			router_kill(r);
			return;
		}
		if (n == 0)
			break;
	}
	await_socket(r);
}

static void reply(struct router *r)
{
	int rc = 0;

	while (!r->hold_until_ns && buf_len(&r->out) && (rc = router_feed_client(r)) > 0)
		;
	if (rc < 0)
		router_kill(r);
	else if (r->hold_until_ns || buf_len(&r->out))
		await_socket(r);
	else if (router_finish(r, true))
		linger(r);
}

static void exchange(struct router *r)
{
	int rc = router_move(r);

	if (rc < 0) {
		broken(r, rc);
		return;
	}
	if (buf_len(&r->out) == 0 && r->state == ANSWERING && r->down.done) {
		if (router_finish(r, true))
			linger(r);
		return;
	}
	if (r->program_end && !buf_len(&r->out)) {
		program_ended(r);
		return;
	}
	if (rc)
		conn_queue(r->c);
	await_socket(r);
}

void router_turn(struct router *r)
{
	switch (r->state) {
	case HEAD:
		read_head(r);
		break;
	case OPENING:
		await_socket(r);
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

void router_begin(struct conn *c, const uint8_t *p, size_t n, bool untouched)
{
	struct router *r = router_create(c, untouched);

	if (!r) {
		conn_kill(c);
	} else if (buf_append(&r->in, p, n)) {
		router_kill(r);
	} else {
		buf_clear(&c->raw);
		parse_head(r);
	}
}

void router_turn_away(struct conn *c, int status, int rc, const char *message)
{
	struct router *r = router_create(c, false);

	if (!r) {
		conn_kill(c);
		return;
	}
	c->door->metrics.malformed++;
	if (make_exchange(r, false)) {
		router_kill(r);
		return;
	}
	if (status == 405)
		snprintf(c->x->allow, sizeof(c->x->allow), "GET, HEAD, POST, PUT, DELETE");
	router_refuse_as(r, status, rc, message);
}

/* ---- time */

static void router_on_silence(struct router *r)
{
	r->c->door->metrics.timeouts++;
	if (r->state == ASKING)
		router_refuse(r, ERR_TIMEOUT, "the server in the sandbox did not answer within router.answer_timeout");
	else
		router_cut_off(r);
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
			router_kill(r);
		break;
	case ASKING:
		if (silent >= conf->router_answer_timeout_ns)
			router_on_silence(r);
		break;
	case ANSWERING:
	case UPGRADED:
		if (silent >= conf->router_idle_timeout_ns)
			router_on_silence(r);
		break;
	case REPLY:
		if (silent >= conf->api_idle_timeout_ns)
			router_kill(r);
		break;
	case LINGER:
		if (silent >= LINGER_NS)
			router_kill(r);
		break;
	default:
		break;
	}
}
