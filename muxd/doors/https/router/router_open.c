/* A routed request up to the open port: its head, who asks, what the hub says. */
#include "base/text.h"
#include "muxd/doors/https/api_head.h"
#include "muxd/doors/https/route.h"
#include "muxd/doors/https/router/router_fields.h"
#include "muxd/doors/https/router/router_state.h"

#include <stdio.h>

/* ---- what the hub tells */

static void on_readable(void *arg)
{
	router_turn(arg);
}

static void on_notice(void *arg, const char *text, bool over)
{
	(void)arg, (void)text, (void)over;
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
	text_put(r->why, sizeof(r->why), result->message);
	router_let_go(r);
	router_turn(r);
}

static void on_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct router *r = arg;

	router_let_go(r);
	if (r->state == ASKING)
		router_refuse(r, cause == CUT_SHUTDOWN ? ERR_UNAVAILABLE : ERR_CUT, text);
	else
		router_cut_off(r);
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
		router_refuse(r, rc, e ? e->message : err_name(rc));
		return;
	}
	r->a = a;
	r->moved_ns = clock_boot_ns();
	router_set_state(r, ASKING);
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
		router_refuse(r, rc, e ? e->message : err_name(rc));
		return;
	}
	r->busy = true;
	broker_open(r->c->door->hub, &r->c->x->rq, &spec, &ops, r, on_open, r);
}

/* ---- the request */

static enum http_method method_of(struct http1_text t)
{
	for (enum http_method m = HTTP_GET; m < HTTP_OTHER; m++)
		if (http1_is(t, http_method_name(m)))
			return m;
	return HTTP_OTHER;
}

int router_make_exchange(struct router *r, bool routed)
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
	none = router_make_exchange(r, true);

	if (none) {
		conn_kill(r->c);
		return ERR_CANCELLED;
	}
	r->c->x->method = method_of(h->method);
	r->up = r->ask.body;
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
	broker_locate(r->c->door->hub, &r->c->x->rq, r->ask.id, r->ask.space, on_located, r);
}

/* The head was collected here since libwebsockets could not, and is not for the router: say what the API says of it. */
static int not_routed(const struct router *r, int *out_status, struct err *e)
{
	struct api_head head;
	int rc = api_head_read(buf_ptr(&r->in), buf_len(&r->in), 0, &head, e);

	*out_status = head.status;
	return rc < 0 ? rc : err_set(e, ERR_INVAL, "send the head of the request in one piece");
}

static void refuse_head(struct router *r, int status, int rc, const char *message)
{
	r->ask.keep_alive = false;
	r->c->door->metrics.malformed++;
	if (router_make_exchange(r, true))
		conn_kill(r->c);
	else
		router_refuse_as(r, status, rc, message);
}

void router_parse_head(struct router *r)
{
	struct http1_head h;
	struct err e = {0};
	int rc = http1_request(buf_ptr(&r->in), buf_len(&r->in), &h, &e), status = 400;

	if (rc == 1 ? h.len > ROUTER_HEAD_MAX : rc == 0 && buf_len(&r->in) > ROUTER_HEAD_MAX)
		rc = err_set(&e, ERR_TOO_LARGE, "the head of the request has more than %d bytes", ROUTER_HEAD_MAX);
	if (rc == 0) {
		router_wait(r);
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

void router_read_head(struct router *r)
{
	uint8_t *p = r->c->door->piece;
	ssize_t n = router_tls_read(r, p, PIECE_MAX);

	if (n < 0 || (n > 0 && buf_append(&r->in, p, (size_t)n)))
		conn_kill(r->c);
	else if (n > 0)
		router_parse_head(r);
	else
		router_wait(r);
}
