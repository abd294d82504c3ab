/* What the client sends over its WebSocket: frames, looked at before libwebsockets reads them, and messages. */
#define LOG_SUBSYS "web"
#include "muxd/doors/https/ws.h"

#include "base/clock.h"
#include "base/log.h"

#include <openssl/err.h>
#include <poll.h>

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

/* --- frames */

static bool ws_in_look(struct ws *w, const uint8_t *p, size_t n)
{
	const char *wrong = frames_look(&w->frames, p + w->looked, n - w->looked);

	if (!wrong)
		return true;
	w->broken = true;
	bad_message(w, 1002, wrong);
	return false;
}

/* The close is said; what still comes is thrown away until the client has heard it. */
static void read_broken(struct ws *w, SSL *ssl)
{
	int n;

	ERR_clear_error();
	while ((n = SSL_read(ssl, w->conn->door->piece, PIECE_MAX)) > 0)
		;
	if (SSL_get_error(ssl, n) != SSL_ERROR_WANT_READ || w->state == WS_CLOSED)
		ws_kill(w);
	ERR_clear_error();
}

void ws_read_frames(struct ws *w)
{
	struct conn *c = w->conn;
	SSL *ssl = lws_get_ssl(c->wsi);
	uint8_t *p = c->door->piece;
	int n;

	if (w->broken) {
		read_broken(w, ssl);
		return;
	}
	if (w->reading_stopped)
		return;
	ERR_clear_error();
	n = SSL_peek(ssl, p, PIECE_MAX);
	if (n <= 0 && SSL_get_error(ssl, n) == SSL_ERROR_WANT_READ)
		return;
	ERR_clear_error();
	if (n > 0 && !ws_in_look(w, p, (size_t)n)) {
		if (!conn_take_off(c, n))
			ws_kill(w);
		return;
	}
	if (!conn_service(c, POLLIN))
		return;
	w->looked = (size_t)SSL_pending(ssl);
	conn_read_stop(c);
}

static void ws_in_on_frames(struct conn *c, int events)
{
	(void)events;
	ws_read_frames(c->ws);
}

void ws_await_frames(struct ws *w)
{
	struct conn *c = w->conn;

	conn_read_stop(c);
	if (watch_set(c, UV_READABLE, ws_in_on_frames))
		ws_kill(w);
	else if (SSL_has_pending(lws_get_ssl(c->wsi)))
		conn_queue(c);
}

/* --- input */

static void reading(struct ws *w, bool on)
{
	if (w->reading_stopped != on)
		return;
	w->reading_stopped = !on;
	if (on) {
		w->heard_ns = clock_boot_ns();
		ws_await_frames(w);
	} else {
		/* but those of the record in hand: libwebsockets takes it whole, and nobody could wake it for the rest
		 */
		(void)watch_set(w->conn, 0, ws_in_on_frames);
	}
}

/* Much that the sandbox does not take stops the reading, and with it the client. A few keys do not: what keeps the
 * connection alive is behind them. */
static void pace_reading(struct ws *w)
{
	reading(w, !w->eof_due && buf_len(&w->input) <= w->input.max / 2);
}

/* The session is over, its client is still being sent what it missed: there is nowhere to go for input. */
static bool nobody_takes(const struct ws *w)
{
	return !w->attachment && w->state == WS_HISTORY;
}

uint64_t ws_taken(const struct ws *w)
{
	return w->input_came - buf_len(&w->input);
}

bool ws_taken_due(const struct ws *w)
{
	return ws_taken(w) - w->taken_told >= WIRE_TAKEN_STEP;
}

void ws_take_input(struct ws *w)
{
	if (nobody_takes(w)) {
		buf_clear(&w->input);
		w->eof_due = false;
	}
	while (w->attachment && buf_len(&w->input)) {
		ssize_t n = attachment_input(w->attachment, buf_ptr(&w->input), buf_len(&w->input));

		if (n < 0) /* an observer, or it has ended: there is nowhere to go for it */
			n = (ssize_t)buf_len(&w->input);
		if (n == 0)
			break;
		buf_consume(&w->input, (size_t)n);
	}
	if (buf_len(&w->input) == 0) {
		size_t max = w->input.max;

		if (w->input.cap > 4096) {
			buf_finish_secret(&w->input);
			buf_init(&w->input, max);
		}
		if (w->eof_due && w->attachment) {
			w->eof_due = false;
			(void)attachment_input_eof(w->attachment);
		}
	}
	pace_reading(w);
	if (ws_taken_due(w))
		ws_want_write(w);
}

static void ws_in_on_input(struct ws *w, const struct web_message *m)
{
	size_t took = nobody_takes(w) ? m->n : 0;

	if (w->attachment && buf_len(&w->input) == 0) {
		ssize_t n = attachment_input(w->attachment, m->p, m->n);

		took = n < 0 ? m->n : (size_t)n;
	}
	if (buf_append(&w->input, m->p + took, m->n - took)) {
		bad_message(w, 1008, "more input at once than is kept for a sandbox that does not take it");
		return;
	}
	w->input_came += m->n;
	pace_reading(w);
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
	switch (m.type) {
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
		w->eof_due = !nobody_takes(w);
		ws_take_input(w);
		break;
	}
}

int ws_receive(struct ws *w, const uint8_t *p, size_t n)
{
	struct lws *wsi = w->conn->wsi;

	w->conn->door->metrics.bytes_received += n;
	if (w->state >= WS_CLOSING)
		return 0;
	if (!lws_frame_is_binary(wsi)) {
		bad_message(w, 1003, "messages are binary here: this one is text");
		return 0;
	}
	if (buf_len(&w->message) + n + lws_remaining_packet_payload(wsi) > WIRE_CLIENT_MAX) {
		bad_message(w, 1009, "a message has 65,537 bytes at most");
		return 0;
	}
	if (buf_len(&w->message) == 0 && lws_is_final_fragment(wsi) && lws_remaining_packet_payload(wsi) == 0) {
		ws_in_on_message(w, p, n);
		return 0;
	}
	if (buf_append(&w->message, p, n))
		return -1;
	if (lws_is_final_fragment(wsi) && lws_remaining_packet_payload(wsi) == 0) {
		ws_in_on_message(w, buf_ptr(&w->message), buf_len(&w->message));
		buf_finish_secret(&w->message);
		buf_init(&w->message, WIRE_CLIENT_MAX);
	}
	return 0;
}
