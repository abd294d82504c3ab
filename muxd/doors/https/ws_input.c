/* Input of a WebSocket's client on its way to the sandbox: what waits of it, and whether more of it is read. */
#include "muxd/doors/https/ws.h"

#include "base/clock.h"
#include "muxd/hub/core/hub.h"

/* What is read again is read in a turn of the loop, which waits for more. */
static void reading(struct ws *w, bool on)
{
	if (w->reading_stopped != on)
		return;
	w->reading_stopped = !on;
	if (on) {
		w->heard_ns = clock_boot_ns();
		conn_queue(w->conn);
	} else {
		(void)watch_set(w->conn, 0, NULL);
	}
}

/* Much that the sandbox does not take stops the reading, and with it the client. A few keys do not: what keeps the
 * connection alive is behind them. */
void ws_pace_reading(struct ws *w)
{
	reading(w, !w->eof_due && buf_len(&w->input) <= w->input.max / 2);
}

/* The session is over, its client is still being sent what it missed: there is nowhere to go for input. */
bool ws_nobody_takes(const struct ws *w)
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

/* Nobody reads what the client sends: it is told so, once. */
static void refuse_input(struct ws *w)
{
	int64_t left = hub_grant_ends(w->conn->door->hub, &w->grant) - hub_now_wall(w->conn->door->hub);
	json_t *o;

	if (w->input_refused)
		return;
	w->input_refused = true;
	o = json_pack("{s:s,s:I,s:s}", "text", "input is not taken: the program was started without stdin_open",
		      "expires_in_ms", (json_int_t)(left / (int64_t)NS_PER_MS), "code", err_name(ERR_BAD_STATE));
	(void)web_wire_put_json(&w->out, WIRE_NOTICE, o);
	json_decref(o);
	ws_want_write(w);
}

size_t ws_give_input(struct ws *w, const uint8_t *p, size_t n)
{
	ssize_t taken = attachment_input(w->attachment, p, n);

	if (taken == ERR_BAD_STATE)
		refuse_input(w);
	return taken < 0 ? n : (size_t)taken; /* an observer, or it has ended: there is nowhere to go for it */
}

void ws_take_input(struct ws *w)
{
	if (ws_nobody_takes(w)) {
		buf_clear(&w->input);
		w->eof_due = false;
	}
	while (w->attachment && buf_len(&w->input)) {
		size_t n = ws_give_input(w, buf_ptr(&w->input), buf_len(&w->input));

		if (n == 0)
			break;
		buf_consume(&w->input, n);
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
	ws_pace_reading(w);
	if (ws_taken_due(w))
		ws_want_write(w);
}
