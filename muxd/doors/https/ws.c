#define LOG_SUBSYS "web"
#include "muxd/doors/https/ws.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define OUT_MAX    (128 * 1024)
#define INPUT_MAX  (256 * 1024)
#define PING_NS    (30 * NS_PER_SEC)
#define SILENCE_NS (90 * NS_PER_SEC)
#define CLOSE_NS   (5 * NS_PER_SEC)
#define HELD_NS    NS_PER_SEC

static const char *const state_names[] = {"upgrading", "asked", "history", "live", "closing", "closed"};

void ws_set_state(struct ws *w, enum ws_state to)
{
	if (w->state == to)
		return;
	log_debug(&(struct log_ids){.peer = w->conn->peer}, "websocket: %s -> %s", state_names[w->state],
		  state_names[to]);
	w->state = to;
}

/* --- the end */

void ws_close(struct ws *w, int code, const char *reason)
{
	if (w->state >= WS_CLOSING)
		return;
	w->close_code = code;
	text_put(w->close_reason, sizeof(w->close_reason), reason);
	attachment_detach(w->attachment);
	w->attachment = NULL;
	w->closing_ns = clock_boot_ns();
	buf_clear(&w->input);
	ws_set_state(w, WS_CLOSING);
	ws_want_write(w);
}

void ws_fail(struct ws *w, int rc, const struct err *e)
{
	const char *message = e && e->message[0] ? e->message : err_name(rc);
	json_t *o;

	if (w->state >= WS_CLOSING)
		return;
	o = json_pack("{s:s,s:s,s:s,s:i}", "code", err_name(rc), "message", message, "hint", err_hint(rc), "status",
		      err_http_status(rc));
	(void)web_wire_put_json(&w->out, WIRE_ERROR, o); /* without memory the close code says enough */
	json_decref(o);
	log_info(&(struct log_ids){.peer = w->conn->peer, .agent = w->agent[0] ? w->agent : NULL},
		 "terminal refused or ended: %s: %s", err_name(rc), message);
	ws_close(w, 4000 + err_http_status(rc), message);
}

/*
 * By hand: libwebsockets 4.1.6 takes the connection away without the close frame that lws_close_reason() prepared, and
 * sends none when its context goes. The peer answers with his, which ends the connection; or the sweep does.
 */
int ws_write_close(struct ws *w)
{
	size_t n = strlen(w->close_reason);
	uint8_t *p = w->conn->door->frame + LWS_PRE;

	p[0] = 0x88;
	p[1] = (uint8_t)(2 + n);
	p[2] = (uint8_t)(w->close_code >> 8);
	p[3] = (uint8_t)w->close_code;
	memcpy(p + 4, w->close_reason, n);
	ws_set_state(w, WS_CLOSED);
	return lws_write(w->conn->wsi, p, 4 + n, LWS_WRITE_RAW) < 0 ? -1 : 0;
}

/* The door closes. What is queued is dropped; the client comes back. */
void ws_farewell(struct ws *w)
{
	if (w->state >= WS_CLOSING || w->state == WS_UPGRADING || lws_partial_buffered(w->conn->wsi))
		return;
	ws_close(w, 4503, "the daemon is stopping; what runs in sandboxes goes on");
	(void)ws_write_close(w);
}

void ws_destroy(struct ws *w)
{
	if (!w)
		return;
	attachment_detach(w->attachment);
	if (w->ticket)
		w->ticket->ws = NULL;
	buf_finish(&w->out);
	buf_finish_secret(&w->message);
	buf_finish_secret(&w->input);
	buf_finish(&w->page);
	json_decref(w->farewell);
	free(w->screen);
	request_finish(&w->rq);
	free(w);
}

/* --- the upgrade */

static void header(const struct conn *c, enum lws_token_indexes token, char *out, size_t size)
{
	out[0] = '\0';
	if (lws_hdr_total_length(c->wsi, token) > 0 && lws_hdr_copy(c->wsi, out, (int)size, token) < 0)
		snprintf(out, size, "?"); /* too long to be right */
}

static int read_query(struct ws *w, struct err *e)
{
	static const char *const open_keys[] = {"cols", "rows", "task", NULL};
	static const char *const attach_keys[] = {"cols", "rows", "role", "offset", NULL};
	const struct http_exchange *x = w->conn->x;
	int64_t cols = 0, rows = 0, offset = -1;
	const char *role = http_query_str(x, "role"), *task = http_query_str(x, "task");
	int rc = http_query_only(x, w->attach ? attach_keys : open_keys, e);

	if (rc || (rc = http_query_int(x, "cols", 1, WIRE_SIZE_MAX, &cols, e)) ||
	    (rc = http_query_int(x, "rows", 1, WIRE_SIZE_MAX, &rows, e)) ||
	    (rc = http_query_int(x, "offset", 0, INT64_MAX, &offset, e)))
		return rc;
	if (task && strlen(task) > GRANT_NAME_MAX)
		return err_set(e, ERR_INVAL, "query parameter task is longer than %d bytes", GRANT_NAME_MAX);
	if (role && strcmp(role, "driver") != 0 && strcmp(role, "observer") != 0)
		return err_set(e, ERR_INVAL, "query parameter role must be driver or observer");
	w->cols = (unsigned)cols;
	w->rows = (unsigned)rows;
	w->has_offset = offset >= 0;
	w->offset = offset >= 0 ? (uint64_t)offset : 0;
	w->role = !role ? -1 : role[0] == 'd' ? ROLE_DRIVER : ROLE_OBSERVER;
	text_put(w->task, sizeof(w->task), task ? task : "");
	return 0;
}

static int read_target(struct ws *w, struct err *e)
{
	const struct http_exchange *x = w->conn->x;

	w->attach = strncmp(x->route->pattern, "/v1/sessions/", 13) == 0;
	if (!w->attach) {
		text_put(w->agent, sizeof(w->agent), x->params[0]);
		return target_name_check(w->agent, e);
	}
	return id_parse(x->params[0], &w->session)
		   ? err_set(e, ERR_INVAL, "\"%.64s\" is not a session id", x->params[0])
		   : 0;
}

/* The bearer token that a program sends, or the cookie of a browser; to be wiped and freed. */
static char *read_token(struct conn *c, bool *out_cookie)
{
	int n = lws_hdr_total_length(c->wsi, WSI_TOKEN_HTTP_AUTHORIZATION);
	char *text = n > 0 ? malloc((size_t)n + 1) : NULL;

	*out_cookie = false;
	if (text && lws_hdr_copy(c->wsi, text, n + 1, WSI_TOKEN_HTTP_AUTHORIZATION) > 7 &&
	    strncasecmp(text, "Bearer ", 7) == 0) {
		memmove(text, text + 7, (size_t)n - 6);
		return text;
	}
	if (text)
		explicit_bzero(text, (size_t)n);
	free(text);
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
	rc = broker_authenticate(c->door->hub, token, token ? strlen(token) : 0, &from, &w->rq, e);
	if (!token)
		return rc;
	if (rc)
		w->held = conn_failed(c);
	else
		w->rq.id = c->x->id;
	return rc ? rc : conn_let_in(c, &w->rq.grant, e);
}

static int create(struct conn *c, struct ws **out)
{
	struct ws *w = calloc(1, sizeof(*w));

	if (!w)
		return ERR_NOMEM;
	w->conn = c;
	buf_init(&w->out, OUT_MAX);
	buf_init(&w->message, WIRE_CLIENT_MAX);
	buf_init(&w->input, INPUT_MAX);
	buf_init(&w->page, 1024 * 1024);
	*out = w;
	return 0;
}

/* What another site or a broken program did: refused by HTTP. */
static int check(struct ws *w, bool cookie, const char *token, struct err *e)
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
	char *token = read_token(c, &cookie);
	struct ws *w = NULL;
	int rc = create(c, &w);

	if (rc)
		err_set(e, rc, "no memory");
	else
		rc = check(w, cookie, token, e);
	if (!rc)
		(void)authenticate(w, token, &w->refused);
	if (token)
		explicit_bzero(token, strlen(token));
	free(token);
	if (rc) {
		ws_destroy(w);
		return rc;
	}
	w->heard_ns = w->pinged_ns = clock_boot_ns();
	c->ws = w;
	return 0;
}

static int on_established(struct ws *w)
{
	if (!w->refused.code) {
		ws_ask(w);
	} else if (w->held) { /* many wrong tokens from there: the answer takes a second */
		w->closing_ns = clock_boot_ns();
	} else {
		ws_fail(w, w->refused.code, &w->refused);
	}
	return 0;
}

int ws_event(struct ws *w, enum lws_callback_reasons reason, const uint8_t *p, size_t n)
{
	switch (reason) {
	case LWS_CALLBACK_ESTABLISHED:
		return on_established(w);
	case LWS_CALLBACK_RECEIVE:
		return ws_receive(w, p, n);
	case LWS_CALLBACK_SERVER_WRITEABLE:
		return ws_writeable(w);
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
		/* The answer to ours: libwebsockets would send a second one, which browsers take for a broken
		 * connection. */
		return w->state == WS_CLOSED ? -1 : 0;
	default:
		return 0;
	}
}

/* --- time */

/* While its input waits nothing is read, and so nothing heard. */
static bool is_lost(const struct ws *w, uint64_t now_ns)
{
	return now_ns - w->heard_ns > SILENCE_NS && (!w->reading_stopped || conn_client_gone(w->conn));
}

void ws_sweep(struct ws *w, uint64_t now_ns)
{
	uint64_t bytes = conn_bytes_read(w->conn);

	if (bytes != w->bytes_read) { /* libwebsockets does not tell of every pong */
		w->bytes_read = bytes;
		w->heard_ns = now_ns;
	}
	if (w->state == WS_UPGRADING && w->closing_ns && now_ns - w->closing_ns > HELD_NS) {
		ws_fail(w, w->refused.code, &w->refused);
	} else if (w->state >= WS_CLOSING) {
		if (now_ns - w->closing_ns > CLOSE_NS)
			conn_kill(w->conn); /* w is gone */
	} else if (is_lost(w, now_ns)) {
		log_debug(&(struct log_ids){.peer = w->conn->peer}, "websocket: not a word for 90 s");
		conn_kill(w->conn);
	} else if (now_ns - w->heard_ns > PING_NS && now_ns - w->pinged_ns > PING_NS) {
		w->pinged_ns = now_ns;
		w->ping_due = true;
		ws_want_write(w);
	}
}
