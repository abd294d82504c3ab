/* Messages of a WebSocket: the client's as they come in, ours one a WRITEABLE. */
#define LOG_SUBSYS "web"
#include "muxd/doors/https/ws.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/ring.h"

#include <stdlib.h>
#include <string.h>

#define WRITES_PER_TURN 2 /* as much as one read of a link gives */

/* --- in */

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

static void reading(struct ws *w, bool on)
{
	if (w->reading_stopped != on)
		return;
	w->reading_stopped = !on;
	if (on) {
		w->heard_ns = clock_boot_ns();
		conn_await_frames(w->conn);
	} else {
		conn_ignore_frames(w->conn);
	}
}

bool ws_look(struct ws *w, const uint8_t *p, size_t n)
{
	const char *wrong = frames_look(&w->frames, p + w->looked, n - w->looked);

	if (!wrong)
		return true;
	w->broken = true;
	bad_message(w, 1002, wrong);
	return false;
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

static uint64_t taken(const struct ws *w)
{
	return w->input_came - buf_len(&w->input);
}

static bool taken_due(const struct ws *w)
{
	return taken(w) - w->taken_told >= WIRE_TAKEN_STEP;
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
	if (taken_due(w))
		ws_want_write(w);
}

static void on_input(struct ws *w, const struct web_message *m)
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
	if (taken_due(w))
		ws_want_write(w);
}

static void on_resize(struct ws *w, const struct web_message *m)
{
	w->cols = m->cols;
	w->rows = m->rows;
	if (w->attachment)
		(void)attachment_resize(w->attachment, m->cols, m->rows, m->xpixel, m->ypixel);
}

static void on_message(struct ws *w, const uint8_t *p, size_t n)
{
	struct web_message m;
	struct err e = {0};

	if (web_wire_parse(p, n, &m, &e)) {
		bad_message(w, 4400, e.message);
		return;
	}
	switch (m.type) {
	case WIRE_INPUT:
		on_input(w, &m);
		break;
	case WIRE_RESIZE:
		on_resize(w, &m);
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
		on_message(w, p, n);
		return 0;
	}
	if (buf_append(&w->message, p, n))
		return -1;
	if (lws_is_final_fragment(wsi) && lws_remaining_packet_payload(wsi) == 0) {
		on_message(w, buf_ptr(&w->message), buf_len(&w->message));
		buf_finish_secret(&w->message);
		buf_init(&w->message, WIRE_CLIENT_MAX);
	}
	return 0;
}

/* --- out */

void ws_want_write(struct ws *w)
{
	if (w->conn->wsi && w->state != WS_CLOSED)
		lws_callback_on_writable(w->conn->wsi);
}

static int write_piece(struct ws *w, size_t n)
{
	struct rest_door *d = w->conn->door;

	d->metrics.bytes_sent += n;
	return lws_write(w->conn->wsi, d->frame + LWS_PRE, n, LWS_WRITE_BINARY) < 0 ? -1 : 1;
}

static int write_message(struct ws *w)
{
	uint8_t *to = w->conn->door->frame + LWS_PRE;
	uint32_t n = get_u32(buf_ptr(&w->out));

	memcpy(to, buf_ptr(&w->out) + 4, n);
	buf_consume(&w->out, n + 4);
	if (buf_len(&w->out) == 0) {
		size_t max = w->out.max;

		buf_finish(&w->out);
		buf_init(&w->out, max);
	}
	return write_piece(w, n);
}

static size_t within_window(const struct ws *w, int stream, uint64_t offset, size_t n)
{
	uint64_t room = w->window[stream] > offset ? w->window[stream] - offset : 0;

	n = n < WIRE_OUTPUT_MAX ? n : WIRE_OUTPUT_MAX;
	return n < room ? n : (size_t)room;
}

static int write_output(struct ws *w, int stream, uint64_t offset, const uint8_t *p, size_t n)
{
	uint8_t *to = w->conn->door->frame + LWS_PRE;

	web_wire_output_head(to, stream, offset);
	memcpy(to + WIRE_OUTPUT_HEAD, p, n);
	return write_piece(w, n + WIRE_OUTPUT_HEAD);
}

/* 1: written, 0: nothing to write now, -1: the connection is lost. */
static int write_live(struct ws *w)
{
	for (int stream = STREAM_OUTPUT; stream < STREAM_COUNT; stream++) {
		const uint8_t *p;
		uint64_t offset;
		size_t n = attachment_peek(w->attachment, stream, &p);
		int rc;

		offset = attachment_offset(w->attachment, stream);
		n = within_window(w, stream, offset, n);
		if (!n)
			continue;
		rc = write_output(w, stream, offset, p, n);
		if (rc > 0)
			attachment_consume(w->attachment, stream, n);
		return rc;
	}
	return 0;
}

static int write_history(struct ws *w)
{
	size_t n = within_window(w, STREAM_OUTPUT, w->history_at, buf_len(&w->page));
	int rc;

	if (!n)
		return 0;
	rc = write_output(w, STREAM_OUTPUT, w->history_at, buf_ptr(&w->page), n);
	w->history_at += n;
	buf_consume(&w->page, n);
	if (buf_len(&w->page) == 0)
		ws_history_go_on(w);
	return rc;
}

static int write_screen(struct ws *w)
{
	int rc = lws_write(w->conn->wsi, w->screen + LWS_PRE, w->screen_len, LWS_WRITE_BINARY);

	w->conn->door->metrics.bytes_sent += w->screen_len;
	free(w->screen);
	w->screen = NULL;
	return rc < 0 ? -1 : 1;
}

static int write_ping(struct ws *w)
{
	w->ping_due = false;
	return lws_write(w->conn->wsi, w->conn->door->frame + LWS_PRE, 0, LWS_WRITE_PING) < 0 ? -1 : 1;
}

static int write_taken(struct ws *w)
{
	w->taken_told = taken(w);
	web_wire_taken(w->conn->door->frame + LWS_PRE, w->taken_told);
	return write_piece(w, WIRE_TAKEN_LEN);
}

/* The next of what there is to write: 1: written, 0: nothing, -1: the connection is lost. */
static int write_one(struct ws *w)
{
	if (buf_len(&w->out))
		return write_message(w);
	if (w->state == WS_CLOSING)
		return ws_write_close(w);
	if (w->screen)
		return write_screen(w);
	if (w->ping_due)
		return write_ping(w);
	if (taken_due(w))
		return write_taken(w);
	if (w->state == WS_HISTORY)
		return write_history(w);
	return w->state == WS_LIVE ? write_live(w) : 0;
}

static int write_some(struct ws *w)
{
	for (int i = 0; i < WRITES_PER_TURN && !lws_partial_buffered(w->conn->wsi); i++) {
		int rc = w->state == WS_CLOSED ? 0 : write_one(w);

		if (rc <= 0)
			return rc;
	}
	ws_want_write(w); /* what could not be written whole libwebsockets keeps, and calls when that is gone */
	return 0;
}

int ws_writeable(struct ws *w)
{
	return write_some(w);
}

void ws_write_now(struct ws *w)
{
	if (w->state != WS_LIVE || !w->conn->wsi)
		ws_want_write(w);
	else if (write_some(w) < 0)
		ws_want_write(w); /* there its end is noticed */
}
