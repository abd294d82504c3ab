/* A terminal's WebSocket, driven by its connection: the upgrade, libwebsockets' events, the door's end, and time. */
#define LOG_SUBSYS "web"
#include "muxd/doors/https/ws.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/doors/https/conn_http.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/core/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define PING_NS    (30 * NS_PER_SEC)
#define SILENCE_NS (90 * NS_PER_SEC)
#define CLOSE_NS   (5 * NS_PER_SEC)
#define HELD_NS    NS_PER_SEC
#define START_NS   (10 * NS_PER_SEC)

/* --- the upgrade */

static void header(const struct conn *c, enum lws_token_indexes token, char *out, size_t size)
{
	out[0] = '\0';
	if (lws_hdr_total_length(c->wsi, token) > 0 && lws_hdr_copy(c->wsi, out, (int)size, token) < 0)
		snprintf(out, size, "?"); /* too long to be right */
}

static int read_query(struct ws *w, struct err *e)
{
	static const char *const keys[] = {
	    [WS_TERMINAL] = "cols,rows,task", [WS_EXEC] = "", [WS_ATTACH] = "cols,rows,role,offset,screen"};
	const struct http_exchange *x = w->conn->x;
	int64_t cols = 0, rows = 0, offset = -1;
	const char *role = http_query_str(x, "role"), *task = http_query_str(x, "task");
	bool screen = true;
	int rc = http_query_only(x, keys[w->way], e);

	if (rc || (rc = http_query_int(x, "cols", 1, WIRE_SIZE_MAX, &cols, e)) ||
	    (rc = http_query_int(x, "rows", 1, WIRE_SIZE_MAX, &rows, e)) ||
	    (rc = http_query_int(x, "offset", 0, INT64_MAX, &offset, e)) ||
	    (rc = http_query_bool(x, "screen", &screen, e)))
		return rc;
	if (task && strlen(task) > GRANT_NAME_MAX)
		return err_set(e, ERR_INVAL, "query parameter task is longer than %d bytes", GRANT_NAME_MAX);
	if (role && strcmp(role, "driver") != 0 && strcmp(role, "observer") != 0)
		return err_set(e, ERR_INVAL, "query parameter role must be driver or observer");
	w->no_screen = !screen;
	w->cols = (unsigned)cols;
	w->rows = (unsigned)rows;
	w->has_offset = offset >= 0;
	w->offset = offset >= 0 ? (uint64_t)offset : 0;
	w->role = !role ? -1 : role[0] == 'd' ? ROLE_DRIVER : ROLE_OBSERVER;
	text_put(w->wish->task, sizeof(w->wish->task), task ? task : "");
	return 0;
}

static int read_target(struct ws *w, struct err *e)
{
	const struct http_exchange *x = w->conn->x;

	w->way = strncmp(x->route->pattern, "/v1/sessions/", 13) == 0 ? WS_ATTACH
		 : strstr(x->route->pattern, "}/exec")                ? WS_EXEC
								      : WS_TERMINAL;
	if (w->way != WS_ATTACH) {
		text_put(w->wish->agent, sizeof(w->wish->agent), x->params[0]);
		return target_name_check(w->wish->agent, e);
	}
	return id_parse(x->params[0], &w->session)
		   ? err_set(e, ERR_INVAL, "\"%.64s\" is not a session id", x->params[0])
		   : 0;
}

/* The bearer token that a program sends, or the cookie of a browser; to be wiped and freed. */
static char *ws_read_token(struct conn *c, bool *out_cookie)
{
	char *text;

	*out_cookie = false;
	if (conn_bearer(c, &text, NULL) == 0 && text)
		return text;
	conn_cookie(c, &text);
	*out_cookie = text != NULL;
	return text;
}

static int authenticate(struct ws *w, const char *token, struct err *e)
{
	struct conn *c = w->conn;
	struct origin from = http_origin(c->x, "web");
	int rc;

	if (!token)
		err_set(e, ERR_UNAUTHENTICATED, "there is no grant here: open the link of one");
	rc = c->x->marked ? broker_authenticate_held(c->door->hub, token, strlen(token), &from, &w->wish->rq, e)
			  : broker_authenticate(c->door->hub, token, token ? strlen(token) : 0, &from, &w->wish->rq, e);
	if (!token)
		return rc;
	w->grant = grant_line(&w->wish->rq.grant);
	if (rc)
		w->held = conn_failed(c);
	else
		w->wish->rq.id = c->x->id;
	return rc ? rc : conn_let_in(c, &w->wish->rq.grant, e);
}

/* What another site or a broken program did: refused by HTTP. */
static int ws_check(struct ws *w, bool cookie, const char *token, struct err *e)
{
	struct origin from = http_origin(w->conn->x, "web");
	char protocol[64];
	int rc = conn_origin(w->conn, cookie, e);

	if (rc)
		broker_refuse(w->conn->door->hub, token, token ? strlen(token) : 0, &from, "origin", e);
	header(w->conn, WSI_TOKEN_PROTOCOL, protocol, sizeof(protocol));
	if (!rc && strcmp(protocol, WIRE_SUBPROTOCOL) != 0)
		rc = err_set(e, ERR_INVAL, "the WebSocket subprotocol here is " WIRE_SUBPROTOCOL);
	if (!rc)
		rc = read_target(w, e);
	return rc ? rc : read_query(w, e);
}

/* What is wrong with the grant is told by a close code: a page sees nothing else. */
int ws_upgrade(struct conn *c, struct err *e)
{
	bool cookie;
	char *token = ws_read_token(c, &cookie);
	struct ws *w = NULL;
	int rc = ws_create(c, &w);

	if (rc)
		err_set(e, rc, "no memory");
	else
		rc = ws_check(w, cookie, token, e);
	if (!rc)
		(void)authenticate(w, token, &w->wish->refused);
	grant_token_free(token);
	if (rc) {
		ws_destroy(w);
		return rc;
	}
	w->heard_ns = w->pinged_ns = clock_boot_ns();
	c->ws = w;
	return 0;
}

static int ws_on_established(struct ws *w)
{
	if (w->conn->listener->local)
		ws_await_frames(w);
	if (!w->wish->refused.code && w->way == WS_EXEC) {
		w->closing_ns = clock_boot_ns();
		ws_set_state(w, WS_AWAITED);
	} else if (!w->wish->refused.code) {
		ws_ask(w);
	} else if (w->held) { /* many wrong tokens from there: the answer takes a second */
		w->closing_ns = clock_boot_ns();
	} else {
		ws_fail(w, w->wish->refused.code, &w->wish->refused);
	}
	return 0;
}

static int ws_on_writeable(struct ws *w)
{
	int rc = ws_write(w);

	if (rc == 0)
		ws_history_go_on(w);
	return rc;
}

int ws_event(struct ws *w, enum lws_callback_reasons reason)
{
	switch (reason) {
	case LWS_CALLBACK_ESTABLISHED:
		return ws_on_established(w);
	case LWS_CALLBACK_SERVER_WRITEABLE:
		return ws_on_writeable(w);
	default:
		return 0;
	}
}

/* The door closes. What is queued is dropped; the client comes back. */
void ws_farewell(struct ws *w)
{
	if (w->state >= WS_CLOSING || w->state == WS_UPGRADING || lws_partial_buffered(w->conn->wsi))
		return;
	ws_close(w, 4503, "the daemon is stopping; what runs in sandboxes goes on");
	(void)ws_write_close(w);
}

/* --- time */

/* While its input waits nothing is read, and so nothing heard. */
static bool is_lost(const struct ws *w, uint64_t now_ns)
{
	return now_ns - w->heard_ns > SILENCE_NS && (!w->reading_stopped || conn_client_gone(w->conn));
}

void ws_sweep(struct ws *w, uint64_t now_ns)
{
	struct err e = {0};

	if (w->state == WS_UPGRADING && w->closing_ns && now_ns - w->closing_ns > HELD_NS) {
		ws_fail(w, w->wish->refused.code, &w->wish->refused);
	} else if (w->state == WS_AWAITED && now_ns - w->closing_ns > START_NS) {
		err_set(&e, ERR_TIMEOUT, "START did not come: it says what is to run");
		ws_fail(w, e.code, &e);
	} else if (w->state >= WS_CLOSING) {
		if (now_ns - w->closing_ns > CLOSE_NS)
			ws_kill(w); /* w is gone */
	} else if (is_lost(w, now_ns)) {
		log_debug(&(struct log_ids){.peer = w->conn->peer}, "websocket: not a word for 90 s");
		ws_kill(w);
	} else if (now_ns - w->heard_ns > PING_NS && now_ns - w->pinged_ns > PING_NS) {
		w->pinged_ns = now_ns;
		w->ping_due = true;
		ws_want_write(w);
	}
}
