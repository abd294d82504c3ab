/* Input of a WebSocket's client on its way to the sandbox: what waits of it, and whether more of it is read. */
#include "muxd/doors/https/ws.h"

#include "base/clock.h"

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

void ws_take_input(struct ws *w)
{
	if (ws_nobody_takes(w)) {
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
	ws_pace_reading(w);
	if (ws_taken_due(w))
		ws_want_write(w);
}
