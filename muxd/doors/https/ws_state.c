/* A WebSocket from its making to its end: its states, its close frame, and letting go of what it holds. */
#define LOG_SUBSYS "web"
#include "muxd/doors/https/ws.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/hub/core/hub.h"

#include <stdlib.h>
#include <string.h>

#define OUT_MAX   (128 * 1024)
#define INPUT_MAX (256 * 1024)

static const char *const state_names[] = {"upgrading", "awaited", "asked", "history", "live", "closing", "closed"};

void ws_set_state(struct ws *w, enum ws_state to)
{
	if (w->state == to)
		return;
	log_debug(&(struct log_ids){.peer = w->conn->peer}, "websocket: %s -> %s", state_names[w->state],
		  state_names[to]);
	w->state = to;
}

void ws_forget_wish(struct ws *w)
{
	if (w->wish)
		request_finish(&w->wish->rq);
	free(w->wish);
	w->wish = NULL;
}

/* For a line in the log; NULL: not known. */
static const char *ws_agent(const struct ws *w)
{
	if (w->attachment)
		return session_agent(attachment_session(w->attachment));
	return w->wish && w->wish->agent[0] ? w->wish->agent : NULL;
}

int ws_create(struct conn *c, struct ws **out)
{
	struct ws *w = calloc(1, sizeof(*w));

	if (!w || !(w->wish = calloc(1, sizeof(*w->wish)))) {
		free(w);
		return ERR_NOMEM;
	}
	w->conn = c;
	w->frame.server = true;
	buf_init(&w->out, OUT_MAX);
	buf_init(&w->message, hub_conf(c->door->hub)->api_max_body); /* START; others WIRE_CLIENT_MAX */
	buf_init(&w->input, INPUT_MAX);
	buf_init(&w->page, 1024 * 1024);
	*out = w;
	return 0;
}

void ws_close(struct ws *w, int code, const char *reason)
{
	if (w->state >= WS_CLOSING)
		return;
	w->close_code = code;
	w->close_reason = malloc(WS_REASON_MAX + 1);
	if (w->close_reason) /* without memory the code says enough */
		text_put(w->close_reason, WS_REASON_MAX + 1, reason);
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
	json_t *o, *begun = NULL;

	if (w->state >= WS_CLOSING)
		return;
	if (e && e->begun.id[0])
		begun = json_pack("{s:s}", e->begun.round ? "round_id" : "session_id", e->begun.id);
	o = json_pack("{s:s,s:s,s:s,s:i,s:o*}", "code", err_name(rc), "message", message, "hint", err_hint(rc),
		      "status", err_http_status(rc), "details", begun);
	(void)web_wire_put_json(&w->out, WIRE_ERROR, o); /* without memory the close code says enough */
	json_decref(o);
	log_info(&(struct log_ids){.peer = w->conn->peer, .agent = ws_agent(w)}, "terminal refused or ended: %s: %s",
		 err_name(rc), message);
	ws_close(w, 4000 + err_http_status(rc), message);
}

/*
 * By hand: libwebsockets 4.1.6 takes the connection away without the close frame that lws_close_reason() prepared, and
 * sends none when its context goes. The peer answers with his, which ends the connection; or the sweep does.
 */
int ws_write_close(struct ws *w)
{
	const char *reason = w->close_reason ? w->close_reason : "";
	size_t n = strlen(reason);
	uint8_t *p = w->conn->door->frame + LWS_PRE;

	p[0] = 0x88;
	p[1] = (uint8_t)(2 + n);
	p[2] = (uint8_t)(w->close_code >> 8);
	p[3] = (uint8_t)w->close_code;
	memcpy(p + 4, reason, n);
	ws_set_state(w, WS_CLOSED);
	return lws_write(w->conn->wsi, p, 4 + n, LWS_WRITE_RAW) < 0 || w->peer_closing ? -1 : 0;
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
	free(w->close_reason);
	ws_forget_wish(w);
	free(w);
}

void ws_kill(struct ws *w)
{
	struct conn *c = w->conn;

	c->ws = NULL;
	ws_destroy(w);
	conn_kill(c);
}
