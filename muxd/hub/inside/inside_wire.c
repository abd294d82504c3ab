/* Bytes to a server inside and from it, and what is too much of them. */
#define LOG_SUBSYS "mcp"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/inside/inside_state.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/stream.h"
#include "muxd/hub/session/tail.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define OUT_MAX         (16u * 1024 * 1024) /* that a server has not read */
#define GARBAGE_MAX     (256u * 1024)       /* bytes of no message, in FLOOD_NS */
#define FLOOD_MAX       (8u * 1024 * 1024)  /* bytes that answer nothing, in FLOOD_NS */
#define FLOOD_NS        (10 * NS_PER_SEC)
#define OPEN_LINE_NS    (30 * NS_PER_SEC)
#define OPEN_LINE_SMALL (1024 * 1024) /* bytes that any server may hold */
#define OPEN_LINES_MAX  (64u * 1024 * 1024)
#define SAMPLE_MAX      200 /* of a line of garbage, as the tail has it */

void insides_turn(struct hub *h)
{
	uv_timer_start(hub_insides(h)->turn, hub_insides(h)->on_turn, 0, 0);
}

int inside_fault(struct inside *x, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	text_vformat(x->why, sizeof(x->why), fmt, ap);
	va_end(ap);
	x->why_rc = ERR_MCP_SERVER;
	return ERR_MCP_SERVER;
}

int inside_flush(struct inside *x)
{
	ssize_t n = 1;

	while (x->at && buf_len(&x->out) && n > 0) {
		n = attachment_input(x->at, buf_ptr(&x->out), buf_len(&x->out));
		if (n > 0)
			buf_consume(&x->out, (size_t)n);
	}
	if (n < 0 && n != ERR_RECORD_UNAVAILABLE && n != ERR_AGAIN && n != ERR_ENDED)
		return inside_fault(x, "its input cannot be written: %s", err_name((int)n));
	return 0;
}

int inside_send(struct inside *x, json_t *message)
{
	char *text = message ? json_text(message) : NULL;
	int rc = text ? 0 : ERR_NOMEM;

	if (!x->out.max)
		buf_init(&x->out, OUT_MAX);
	if (!rc && buf_room(&x->out) < strlen(text) + 1)
		rc = ERR_LIMIT;
	if (!rc)
		rc = buf_append_str(&x->out, text);
	if (!rc)
		rc = buf_append_str(&x->out, "\n");
	free(text);
	json_decref(message);
	return rc ? rc : inside_flush(x);
}

void inside_tail_add(struct inside *x, const char *head, const void *p, size_t n)
{
	tail_add(&x->tail, INSIDE_TAIL_MAX, head, p, n);
}

/* Garbage and floods are counted by the window: a message in between forgives nothing. */
static void flood_window(struct inside *x)
{
	uint64_t now = clock_boot_ns();

	if (now - x->flood_ns <= FLOOD_NS)
		return;
	x->flood_ns = now;
	x->flood_bytes = x->garbage_bytes = 0;
}

static int count_garbage(struct inside *x, const uint8_t *p, size_t n)
{
	if (x->garbage_lines++ < 20 || x->garbage_lines % 1000 == 0) {
		inside_tail_add(x, "stdout, no message: ", p, text_cut(p, n, SAMPLE_MAX));
		inside_tail_add(x, "", "\n", 1);
	}
	flood_window(x);
	x->garbage_bytes += n + 1;
	return x->garbage_bytes > GARBAGE_MAX
		   ? inside_fault(x, "it prints what is no message of JSON-RPC to its stdout: %llu lines so far",
				  (unsigned long long)x->garbage_lines)
		   : 0;
}

int inside_flood(struct inside *x, size_t n)
{
	flood_window(x);
	x->flood_bytes += n;
	return x->flood_bytes > FLOOD_MAX
		   ? inside_fault(x, "it floods: more than %u MiB that answer nothing within %d s", FLOOD_MAX >> 20,
				  (int)(FLOOD_NS / NS_PER_SEC))
		   : 0;
}

static int inside_take_line(struct inside *x, const uint8_t *p, size_t n, inside_line_fn *on_line)
{
	struct inside_line l;
	int rc;

	inside_line_read(p, n, &l);
	if (l.values > INSIDE_VALUES_MAX) {
		rc = inside_fault(x, "a line of its output has more than %u values", INSIDE_VALUES_MAX);
	} else if (l.kind == INSIDE_GARBAGE) {
		rc = count_garbage(x, p, n);
	} else {
		rc = l.kind == INSIDE_REQUEST || l.kind == INSIDE_NOTIFICATION ? inside_flood(x, n) : 0;
		rc = rc ? rc : on_line(x, &l, n);
	}
	inside_line_finish(&l);
	return rc;
}

/* A half line holds memory for as long as its server likes. When all of them hold too much the longest has to go. */
void inside_watch_lines(struct inside *x)
{
	struct inside *y, *longest = x;
	size_t all = 0;

	if (x->lines.buf.cap < OPEN_LINE_SMALL)
		return;
	TAILQ_FOREACH(y, &hub_insides(x->hub)->all, entry)
	{
		all += y->line_longest ? 0 : y->lines.buf.cap;
		if (!y->line_longest && y->lines.buf.cap > longest->lines.buf.cap)
			longest = y;
	}
	longest->line_longest = longest->line_longest || all > OPEN_LINES_MAX;
}

int inside_line_due(struct inside *x, uint64_t now)
{
	uint64_t since = x->line_ns;
	bool longest = x->line_longest;

	if (!since || (!longest && now - since < OPEN_LINE_NS))
		return 0;
	x->line_ns = 0;
	x->line_longest = false;
	if (!buf_len(&x->lines.buf))
		return 0;
	if (longest)
		return inside_fault(x, "a line of its output does not end, and all such lines come to more than %u MiB",
				    OPEN_LINES_MAX >> 20);
	return inside_fault(x, "a line of its output does not end within %d s", (int)(OPEN_LINE_NS / NS_PER_SEC));
}

static int take_bytes(struct inside *x, const uint8_t *p, size_t n, inside_line_fn *on_line)
{
	bool fresh = !buf_len(&x->lines.buf);
	const uint8_t *line;
	size_t len;
	int rc = inside_lines_feed(&x->lines, p, n); /* copied, as a line may lead to a call into the hub */

	if (rc == ERR_TOO_LARGE)
		return inside_fault(x, "a line of its output is longer than %u MiB", INSIDE_LINE_MAX >> 20);
	while (!rc && inside_lines_next(&x->lines, &line, &len)) {
		fresh = true;
		rc = inside_take_line(x, line, len, on_line);
	}
	if (fresh) {
		x->line_ns = buf_len(&x->lines.buf) ? clock_boot_ns() : 0;
		x->line_longest = false;
	}
	inside_watch_lines(x);
	return rc;
}

int inside_read(struct inside *x, inside_line_fn *on_line)
{
	const uint8_t *p;
	size_t n;
	int rc = 0;

	while (x->at && (n = attachment_peek(x->at, STREAM_STDERR, &p)) > 0) {
		inside_tail_add(x, "", p, n);
		attachment_consume(x->at, STREAM_STDERR, n);
	}
	while (!rc && x->at && (n = attachment_peek(x->at, STREAM_OUTPUT, &p)) > 0) {
		rc = take_bytes(x, p, n, on_line);
		attachment_consume(x->at, STREAM_OUTPUT, n);
	}
	return rc;
}

void inside_drain(struct inside *x)
{
	const uint8_t *p;
	size_t n;

	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		while (x->at && (n = attachment_peek(x->at, i, &p)) > 0)
			attachment_consume(x->at, i, n);
}
