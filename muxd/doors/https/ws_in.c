/* What the client sends over its WebSocket: frames, looked at before libwebsockets reads them, and messages. */
#define LOG_SUBSYS "web"
#include "muxd/doors/https/ws.h"

#include "base/clock.h"
#include "base/log.h"
#include "muxd/hub/core/hub.h"

#include <string.h>

static void bad_message(struct ws *w, int code, const char *text)
{
	struct err e = {0};
	json_t *o = json_pack("{s:s,s:s,s:s,s:i}", "code", err_name(ERR_PROTOCOL), "message", text, "hint",
			      err_hint(ERR_PROTOCOL), "status", code);

	err_set(&e, ERR_PROTOCOL, "%s", text);
	(void)web_wire_put_json(&w->out, WIRE_ERROR, o);
	json_decref(o);
	log_info(&(struct log_ids){.peer = w->conn->peer}, "websocket cut: %s", text);
	ws_close(w, code, text);
}

/* --- messages: input */

static void ws_in_on_input(struct ws *w, const struct web_message *m)
{
	size_t took = ws_nobody_takes(w) ? m->n : 0;

	if (w->attachment && buf_len(&w->input) == 0)
		took = ws_give_input(w, m->p, m->n);
	if (buf_append(&w->input, m->p + took, m->n - took)) {
		bad_message(w, 1008, "more input at once than is kept for a sandbox that does not take it");
		return;
	}
	w->input_came += m->n;
	ws_pace_reading(w);
	if (ws_taken_due(w))
		ws_want_write(w);
}

/* --- messages */

static void ws_in_on_resize(struct ws *w, const struct web_message *m)
{
	w->cols = m->cols;
	w->rows = m->rows;
	if (w->attachment)
		(void)attachment_resize(w->attachment, m->cols, m->rows, m->xpixel, m->ypixel);
}

static void ws_in_on_message(struct ws *w, const uint8_t *p, size_t n)
{
	struct web_message m;
	struct err e = {0};

	if (web_wire_parse(p, n, &m, &e)) {
		bad_message(w, 4400, e.message);
		return;
	}
	if ((m.type == WIRE_START) != (w->state == WS_AWAITED) && m.type != WIRE_PING) {
		bad_message(w, 4400, m.type == WIRE_START ? "START comes first, and once" : "START comes first here");
		return;
	}
	switch (m.type) {
	case WIRE_START:
		ws_start(w, m.p, m.n);
		break;
	case WIRE_INPUT:
		ws_in_on_input(w, &m);
		break;
	case WIRE_RESIZE:
		ws_in_on_resize(w, &m);
		break;
	case WIRE_WINDOW:
		if (m.offset > w->window[m.stream])
			w->window[m.stream] = m.offset;
		ws_want_write(w);
		break;
	case WIRE_PING:
		/* who asks faster than he reads gets fewer answers */
		(void)web_wire_put(&w->out, WIRE_PONG, m.p, m.n);
		ws_want_write(w);
		break;
	case WIRE_SIGNAL:
		if (w->attachment)
			(void)attachment_signal(w->attachment, m.signal);
		break;
	default: /* WIRE_EOF */
		w->eof_due = !ws_nobody_takes(w);
		ws_take_input(w);
		break;
	}
}

/* --- frames */

/* Bytes of a message. */
static void take_data(struct ws *w, const struct wsframe_event *ev)
{
	uint64_t most = w->state == WS_AWAITED ? hub_conf(w->conn->door->hub)->api_max_body : WIRE_CLIENT_MAX;

	if (w->state >= WS_CLOSING || w->state == WS_UPGRADING) /* refused: the answer is on its way */
		return;
	if (ev->text) {
		bad_message(w, 1003, "messages are binary here: this one is text");
	} else if (buf_len(&w->message) + ev->n > most) {
		bad_message(w, 1009,
			    w->state == WS_AWAITED ? "START has api.max_body bytes at most"
						   : "a message has 65,537 bytes at most");
	} else if (buf_len(&w->message) == 0 && ev->last) { /* whole: not kept */
		ws_in_on_message(w, ev->p, ev->n);
	} else if (buf_append(&w->message, ev->p, ev->n)) {
		bad_message(w, 1011, "no memory");
	} else if (ev->last) {
		ws_in_on_message(w, buf_ptr(&w->message), buf_len(&w->message));
		buf_finish_secret(&w->message);
		buf_init(&w->message, WIRE_CLIENT_MAX);
	}
}

/* The client's good-bye: the answer to ours, or its own, which is answered with the same code. */
static void take_close(struct ws *w, const struct wsframe_event *ev)
{
	int code = ev->n >= 2 ? ev->p[0] << 8 | ev->p[1] : 1000;

	w->peer_closing = true;
	if (w->state == WS_CLOSED)
		w->broken = true;
	else
		ws_close(w, code, "");
}

static void take_frame(struct ws *w, const struct wsframe_event *ev)
{
	if (ev->kind == WSFRAME_DATA) {
		take_data(w, ev);
	} else if (ev->kind == WSFRAME_PING) { /* who asks faster than he reads gets the newest answer */
		memcpy(w->pong, ev->p, ev->n);
		w->pong_len = (uint8_t)ev->n;
		w->pong_due = true;
		ws_want_write(w);
	} else if (ev->kind == WSFRAME_CLOSE) {
		take_close(w, ev);
	}
}

static void ws_take_bytes(struct ws *w, uint8_t *p, size_t n)
{
	struct wsframe_event ev;
	struct err e = {0};

	for (ssize_t took; n && !w->peer_closing; p += took, n -= (size_t)took) {
		took = wsframe_decode(&w->frame, p, n, &ev, &e);
		if (took < 0) {
			w->broken = true;
			bad_message(w, 1002, e.message);
			return;
		}
		take_frame(w, &ev);
	}
}

/* One piece a turn, so that one client's flood is everybody else's next turn. */
void ws_read_frames(struct ws *w)
{
	struct conn *c = w->conn;
	ssize_t n;

	if (w->reading_stopped && !w->broken)
		return;
	n = conn_recv(c, c->door->input, sizeof(c->door->input));
	if (n < 0 || (w->peer_closing && w->state == WS_CLOSED)) {
		ws_kill(w);
		return;
	}
	w->heard_ns = n ? clock_boot_ns() : w->heard_ns;
	c->door->metrics.bytes_received += (uint64_t)n;
	if (!w->broken && !w->peer_closing) /* the close is said: what still comes is thrown away until it was heard */
		ws_take_bytes(w, c->door->input, (size_t)n);
	if (w->peer_closing && w->state == WS_CLOSED)
		ws_kill(w);
	else if (!w->reading_stopped || w->broken)
		ws_await_frames(w);
}

static void ws_in_on_frames(struct conn *c, int events)
{
	(void)events;
	if (!c->ws->deaf)
		conn_read_stop(c);
	c->ws->deaf = true;
	ws_read_frames(c->ws);
}

void ws_await_frames(struct ws *w)
{
	struct conn *c = w->conn;

	if (!w->deaf)
		conn_read_stop(c);
	if (watch_set(c, UV_READABLE, ws_in_on_frames))
		ws_kill(w);
	else if (conn_has_pending(c))
		conn_queue(c);
}
