/*
 * The events of a connection: libwebsockets' own, turns of the loop, time, the end. Each goes to the owner of the
 * connection: the request in hand, a WebSocket, or the router.
 */
#define LOG_SUBSYS "rest"
#include "base/clock.h"
#include "base/log.h"
#include "muxd/doors/https/conn_http.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/route.h"
#include "muxd/doors/https/router/router.h"
#include "muxd/doors/https/tls.h"
#include "muxd/doors/https/ws.h"
#include "muxd/hub/core/hub.h"

#include <stdio.h>
#include <strings.h>

#define TURN_BUDGET 64 /* of connections, until everybody else in the loop has a turn */

/* --- the end */

static void take_back(struct conn *c)
{
	router_destroy(c->router);
	c->router = NULL;
	ws_destroy(c->ws);
	c->ws = NULL;
}

void conn_let_go(struct conn *c)
{
	take_back(c);
	conn_drop(c);
}

void conn_end(struct conn *c)
{
	take_back(c);
	conn_kill(c);
}

void conn_destroy(struct conn *c)
{
	struct rest_door *d = c->door;

	conn_let_go(c);
	if (!d->closing) { /* libwebsockets lets go of the last ones when the hub is gone */
		hub_client_gone(d->hub, c->listener->local ? "local" : "rest", c->peer);
		if (!c->listener->local)
			hub_client_gone(d->hub, "web", c->peer);
	}
	conn_free(c);
}

/* --- what is not plain HTTP */

static int write_now(struct conn *c, enum lws_write_protocol how)
{
	size_t n = buf_len(&c->head);
	size_t m = buf_len(&c->x->out);

	if (n + m > PIECE_MAX)
		return -1;
	memcpy(c->door->piece + LWS_PRE, buf_ptr(&c->head), n);
	memcpy(c->door->piece + LWS_PRE + n, buf_ptr(&c->x->out), m);
	return lws_write(c->wsi, c->door->piece + LWS_PRE, n + m, how) < 0 ? -1 : 0;
}

/* A short answer at once, from inside libwebsockets; the connection ends with it. */
static int answer_and_close(struct conn *c, int status, int rc, const char *message, enum lws_write_protocol how)
{
	struct err e = {0};

	c->x->done = NULL;
	c->keep_alive = false;
	err_set(&e, rc, "%s", message);
	http_reply_status(c->x, status, rc, &e);
	buf_clear(&c->head);
	if (http_head(c->x, false, &c->head) == 0)
		(void)write_now(c, how);
	conn_log(c, status);
	return -1;
}

/* The door closes: who waits is told, as far as the socket takes it at once. */
void conn_farewell(struct conn *c)
{
	enum http_method method;
	char path[HTTP_PATH_MAX];

	if (c->ws && c->wsi)
		ws_farewell(c->ws);
	if (c->state != CONN_WAITING || !c->wsi || !c->x)
		return;
	method = c->x->method;
	/* bytes: a path, its size is that of its source */
	snprintf(path, sizeof(path), "%s", c->x->path);
	http_exchange_abandon(c->x); /* its handler answers it later, to nobody */
	c->x = NULL;
	if (conn_exchange(c, path))
		return;
	c->x->method = method;
	(void)answer_and_close(c, 503, ERR_UNAVAILABLE, HTTP_FAREWELL, LWS_WRITE_HTTP);
}

static bool is_websocket(struct lws *wsi)
{
	char text[16] = "";

	return lws_hdr_copy(wsi, text, sizeof(text), WSI_TOKEN_UPGRADE) > 0 && strcasecmp(text, "websocket") == 0;
}

/* From here on the connection is the WebSocket's, or ends: libwebsockets cannot go on as plain HTTP. */
static int conn_events_on_upgrade(struct conn *c)
{
	char *path = NULL;
	struct err e = {0};
	int rc, len = 0;

	if (!conn_take_checked(c) || c->x || lws_http_get_uri_and_method(c->wsi, &path, &len) < 0 ||
	    conn_exchange(c, path))
		return -1;
	rc = route_find(c->x, &e);
	if (!rc && (!is_websocket(c->wsi) || c->x->route->handle != rest_websocket))
		rc = err_set(&e, ERR_UNSUPPORTED, "this path has no other protocol to change to");
	if (!rc)
		rc = conn_read_query(c, &e);
	if (!rc)
		rc = ws_upgrade(c, &e);
	if (rc)
		return answer_and_close(c, err_http_status(rc), rc, e.message, LWS_WRITE_HTTP);
	conn_log(c, 101);
	c->x->answered = true;
	http_exchange_destroy(c->x);
	c->x = NULL;
	c->deadline_ns = 0;
	lws_set_timeout(c->wsi, NO_PENDING_TIMEOUT, 0);
	conn_set_state(c, CONN_WS);
	return 0;
}

static int conn_events_on_raw(struct conn *c, size_t len)
{
	if (c->state != CONN_RAW) {
		conn_let_go(c);
		conn_set_state(c, CONN_RAW);
		c->door->metrics.malformed++;
	}
	if (len == 0)
		return 0;
	if (conn_exchange(c, ""))
		return -1;
	c->x->method = HTTP_OTHER;
	if (!lws_is_ssl(c->wsi))
		return answer_and_close(c, 400, ERR_INVAL, "this port speaks HTTPS: use https:// in the address",
					LWS_WRITE_RAW);
	snprintf(c->x->allow, sizeof(c->x->allow), "GET, HEAD, POST, PUT, DELETE");
	return answer_and_close(c, 405, ERR_INVAL, "this is no HTTP/1.1 request with a method known here",
				LWS_WRITE_RAW);
}

static int conn_events_on_tls(struct lws *wsi, SSL_CTX *ctx)
{
	struct rest_door *d = lws_context_user(lws_get_context(wsi));

	int rc = tls_setup(ctx, d->cert_fd, d->key_fd, &d->tls_err);

	return rc ? rc : tls_secret(ctx, "muxd web cookie", d->cookie_key, &d->tls_err);
}

/* The lws is gone for good. */
static int conn_events_on_destroy(struct conn *c)
{
	c->wsi = NULL;
	conn_set_state(c, CONN_DEAD);
	conn_destroy(c);
	return 0;
}

static int conn_event(struct conn *c, enum lws_callback_reasons reason, void *in, size_t len)
{
	switch (reason) {
	case LWS_CALLBACK_SSL_INFO: /* the handshake is done */
		admit_spoke(c->place, clock_boot_ns());
		if (c->state == CONN_IDLE && !c->x && !c->watch)
			conn_await(c);
		return 0;
	case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
		return conn_events_on_upgrade(c);
	case LWS_CALLBACK_HTTP:
		return conn_head(c, in, len);
	case LWS_CALLBACK_HTTP_BODY:
		return conn_body(c, in, len);
	case LWS_CALLBACK_HTTP_BODY_COMPLETION:
		return conn_body_end(c);
	case LWS_CALLBACK_HTTP_WRITEABLE:
		conn_flushed(c);
		return 0;
	case LWS_CALLBACK_RAW_ADOPT:
	case LWS_CALLBACK_RAW_RX:
		return conn_events_on_raw(c, len);
	case LWS_CALLBACK_ESTABLISHED:
	case LWS_CALLBACK_SERVER_WRITEABLE:
		return c->ws ? ws_event(c->ws, reason) : -1;
	case LWS_CALLBACK_CLOSED:
	case LWS_CALLBACK_CLOSED_HTTP:
	case LWS_CALLBACK_RAW_CLOSE:
		conn_let_go(c);
		conn_set_state(c, CONN_DEAD);
		return 0;
	case LWS_CALLBACK_WSI_DESTROY:
		return conn_events_on_destroy(c);
	default:
		return 0;
	}
}

/* Others come with an lws that is none of ours, or mean nothing here. */
static bool is_conn_event(enum lws_callback_reasons reason)
{
	switch (reason) {
	case LWS_CALLBACK_SSL_INFO:
	case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
	case LWS_CALLBACK_HTTP:
	case LWS_CALLBACK_HTTP_BODY:
	case LWS_CALLBACK_HTTP_BODY_COMPLETION:
	case LWS_CALLBACK_HTTP_WRITEABLE:
	case LWS_CALLBACK_ESTABLISHED:
	case LWS_CALLBACK_SERVER_WRITEABLE:
	case LWS_CALLBACK_CLOSED:
	case LWS_CALLBACK_CLOSED_HTTP:
	case LWS_CALLBACK_RAW_ADOPT:
	case LWS_CALLBACK_RAW_RX:
	case LWS_CALLBACK_RAW_CLOSE:
	case LWS_CALLBACK_WSI_DESTROY:
		return true;
	default:
		return false;
	}
}

int conn_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct rest_door *d;
	struct conn *c;

	if (reason == LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS)
		return conn_events_on_tls(wsi, user);
	if (reason == LWS_CALLBACK_WSI_CREATE) {
		d = lws_context_user(lws_get_context(wsi));
		if (d->adopting && !d->adopting->wsi)
			d->adopting->wsi = wsi;
		return 0;
	}
	if (!is_conn_event(reason))
		return 0;
	c = lws_get_opaque_user_data(wsi);
	if (!c || c->wsi != wsi)
		return 0;
	if (c->state == CONN_DEAD && reason != LWS_CALLBACK_WSI_DESTROY)
		return -1;
	return conn_event(c, reason, in, len);
}

/* --- turns */

static void conn_turn(struct conn *c)
{
	if (!c->wsi)
		return;
	switch (c->state) {
	case CONN_READY:
	case CONN_WRITING:
		conn_write(c);
		break;
	case CONN_ROUTED:
		router_turn(c->router);
		break;
	case CONN_WS:
		ws_read_frames(c->ws);
		break;
	case CONN_BACK:
		conn_set_state(c, CONN_IDLE);
		conn_await(c);
		break;
	default:
		break;
	}
}

/* Behind the loop's wait, where no callback of libwebsockets is under way. */
void conn_on_turns(uv_check_t *h)
{
	struct rest_door *d = h->data;

	for (int i = 0; i < TURN_BUDGET && d->turns_head; i++) {
		struct conn *c = d->turns_head;

		d->turns_head = c->turn_next;
		if (!d->turns_head)
			d->turns_tail = NULL;
		c->queued = false;
		c->turn_next = NULL;
		conn_turn(c);
	}
	if (!d->turns_head)
		uv_idle_stop(&d->awake);
}

/* --- time */

static void conn_events_on_deadline(struct conn *c)
{
	c->deadline_ns = 0;
	switch (c->state) {
	case CONN_DELAYED:
		conn_set_state(c, CONN_READY);
		conn_queue(c);
		break;
	case CONN_BODY:
	case CONN_STREAM:
		c->door->metrics.timeouts++;
		conn_refuse(c, 408, ERR_TIMEOUT, "the body did not come in time");
		break;
	case CONN_LINGER:
		conn_kill(c);
		break;
	default:
		c->door->metrics.timeouts++;
		log_debug(&(struct log_ids){.peer = c->peer}, "timed out");
		conn_kill(c);
		break;
	}
}

/* A transfer under a grant goes no further than it. A body that is whole is its handler's. */
static void check_grant(struct conn *c)
{
	struct http_exchange *x = c->x;
	bool comes = c->state == CONN_STREAM && !c->body_told, goes = c->state == CONN_WRITING && x && x->streams;
	struct err e = {0};
	int rc;

	if (!(comes || goes) || !x->flow || !x->flow->while_granted || x->stream_broken)
		return;
	rc = broker_in_force(c->door->hub, &x->rq, x->flow->while_granted, &e);
	if (rc && comes) {
		conn_refuse_for(c, &e);
	} else if (rc) {
		x->stream_broken = true;
		conn_queue(c);
	}
}

void conn_sweep(struct conn *c, uint64_t now_ns)
{
	if (c->state == CONN_LOCAL && now_ns < c->deadline_ns) {
		conn_await_slow(c);
		return;
	}
	if (c->state == CONN_LOCAL) {
		c->door->metrics.timeouts++;
		conn_kill(c);
		return;
	}
	if (!c->wsi || c->state == CONN_DEAD)
		return;
	conn_check_in(c);
	if (c->router) {
		router_sweep(c->router, now_ns);
		return;
	}
	if (c->ws) {
		ws_sweep(c->ws, now_ns);
		return;
	}
	if ((c->state == CONN_WAITING || c->state == CONN_STREAM || (c->state == CONN_WRITING && c->x->streams)) &&
	    conn_client_gone(c)) {
		conn_kill(c);
		return;
	}
	check_grant(c);
	conn_write_sweep(c);
	if (c->deadline_ns && now_ns >= c->deadline_ns)
		conn_events_on_deadline(c);
}
