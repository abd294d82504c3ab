/* Output to the client over its WebSocket: messages as the socket takes them, as far as the client's window goes. */
#include "muxd/doors/https/ws.h"

#include "base/bytes.h"
#include "base/ring.h"

#include <stdlib.h>
#include <string.h>

#define WRITES_PER_TURN 6 /* more than one read of a link gives, over TLS and without */
/* Output in a message over TLS: with both heads one record. libwebsockets writes one record at a time, keeps what is
 * left of a longer message, and waits for room in a socket that has room. */
#define TLS_OUTPUT_MAX (16 * 1024 - 4 - WIRE_OUTPUT_HEAD)

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
	size_t most = w->conn->listener->local ? WIRE_OUTPUT_MAX : TLS_OUTPUT_MAX;

	n = n < most ? n : most;
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
		return 0; /* the page is through: ws_history_go_on() gets the next one */
	rc = write_output(w, STREAM_OUTPUT, w->history_at, buf_ptr(&w->page), n);
	w->history_at += n;
	buf_consume(&w->page, n);
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

static int write_pong(struct ws *w)
{
	uint8_t *p = w->conn->door->frame + LWS_PRE;

	w->pong_due = false;
	memcpy(p, w->pong, w->pong_len);
	return lws_write(w->conn->wsi, p, w->pong_len, LWS_WRITE_PONG) < 0 ? -1 : 1;
}

static int write_taken(struct ws *w)
{
	w->taken_told = ws_taken(w);
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
	if (w->pong_due)
		return write_pong(w);
	if (w->ping_due)
		return write_ping(w);
	if (ws_taken_due(w))
		return write_taken(w);
	if (w->state == WS_HISTORY)
		return write_history(w);
	return w->state == WS_LIVE ? write_live(w) : 0;
}

int ws_write(struct ws *w)
{
	for (int i = 0; i < WRITES_PER_TURN && !lws_partial_buffered(w->conn->wsi); i++) {
		int rc = w->state == WS_CLOSED ? 0 : write_one(w);

		if (rc <= 0)
			return rc;
	}
	ws_want_write(w); /* what could not be written whole libwebsockets keeps, and calls when that is gone */
	return 0;
}

void ws_write_now(struct ws *w)
{
	if (w->state != WS_LIVE || !w->conn->wsi)
		ws_want_write(w);
	else if (ws_write(w) < 0)
		ws_want_write(w); /* there its end is noticed */
}
