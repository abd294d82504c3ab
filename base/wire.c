#include "base/wire.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

#include <string.h>

static int short_message(struct err *e, const char *what, size_t want, size_t got)
{
	return err_set(e, ERR_INVAL, "%s has %zu bytes behind its type, not %zu", what, got, want);
}

static int parse_resize(const uint8_t *p, size_t n, struct web_message *out, struct err *e)
{
	if (n != 8)
		return short_message(e, "RESIZE", 8, n);
	out->cols = get_u16(p);
	out->rows = get_u16(p + 2);
	out->xpixel = get_u16(p + 4);
	out->ypixel = get_u16(p + 6);
	if (out->cols < 1 || out->cols > WIRE_SIZE_MAX || out->rows < 1 || out->rows > WIRE_SIZE_MAX)
		return err_set(e, ERR_INVAL, "a terminal has 1 to %d columns and rows, not %ux%u", WIRE_SIZE_MAX,
			       out->cols, out->rows);
	return 0;
}

static int parse_window(const uint8_t *p, size_t n, struct web_message *out, struct err *e)
{
	if (n != 9)
		return short_message(e, "WINDOW", 9, n);
	out->stream = p[0];
	out->offset = get_u64(p + 1);
	if (out->stream != 1 && out->stream != 2)
		return err_set(e, ERR_INVAL, "WINDOW is for stream 1 or 2, not %u", out->stream);
	return 0;
}

static int parse_signal(const uint8_t *p, size_t n, struct web_message *out, struct err *e)
{
	if (n != 1)
		return short_message(e, "SIGNAL", 1, n);
	out->signal = p[0];
	if (out->signal < 1 || out->signal > 64)
		return err_set(e, ERR_INVAL, "there is no signal %u", out->signal);
	return 0;
}

int web_wire_parse(const uint8_t *p, size_t n, struct web_message *out, struct err *e)
{
	memset(out, 0, sizeof(*out));
	if (n == 0)
		return err_set(e, ERR_INVAL, "an empty message");
	if (n > WIRE_CLIENT_MAX && p[0] != WIRE_START)
		return err_set(e, ERR_INVAL, "a message has %d bytes at most", WIRE_CLIENT_MAX);
	out->type = p[0];
	out->p = p + 1;
	out->n = n - 1;
	switch (p[0]) {
	case WIRE_INPUT:
	case WIRE_START:
		return 0;
	case WIRE_RESIZE:
		return parse_resize(p + 1, n - 1, out, e);
	case WIRE_WINDOW:
		return parse_window(p + 1, n - 1, out, e);
	case WIRE_PING:
		return n - 1 <= WIRE_PING_MAX ? 0
					      : err_set(e, ERR_INVAL, "PING carries %d bytes at most", WIRE_PING_MAX);
	case WIRE_SIGNAL:
		return parse_signal(p + 1, n - 1, out, e);
	case WIRE_EOF:
		return n == 1 ? 0 : short_message(e, "EOF", 0, n - 1);
	default:
		return err_set(e, ERR_INVAL, "message type 0x%02x is not known", p[0]);
	}
}

int web_wire_put(struct buf *b, enum web_type type, const void *p, size_t n)
{
	uint8_t *to;
	int rc = buf_reserve(b, n + 5, &to);

	if (rc)
		return rc;
	put_u32(to, (uint32_t)n + 1);
	to[4] = (uint8_t)type;
	if (n)
		memcpy(to + 5, p, n);
	buf_commit(b, n + 5);
	return 0;
}

int web_wire_put_json(struct buf *b, enum web_type type, const json_t *o)
{
	struct buf text;
	int rc;

	buf_init(&text, 60 * 1024);
	rc = o ? json_append(&text, o) : ERR_NOMEM;
	if (!rc)
		rc = web_wire_put(b, type, buf_ptr(&text), buf_len(&text));
	buf_finish(&text);
	return rc;
}

int web_wire_put_skipped(struct buf *b, int stream, uint64_t from, uint64_t to)
{
	uint8_t p[17];

	p[0] = (uint8_t)stream;
	put_u64(p + 1, from);
	put_u64(p + 9, to);
	return web_wire_put(b, WIRE_SKIPPED, p, sizeof(p));
}

int web_wire_put_resized(struct buf *b, unsigned cols, unsigned rows)
{
	uint8_t p[4];

	put_u16(p, (uint16_t)cols);
	put_u16(p + 2, (uint16_t)rows);
	return web_wire_put(b, WIRE_RESIZED, p, sizeof(p));
}

void web_wire_output_head(uint8_t *p, int stream, uint64_t offset)
{
	p[0] = stream == 2 ? WIRE_STDERR : WIRE_OUTPUT;
	put_u64(p + 1, offset);
}

void web_wire_screen_head(uint8_t *p, uint64_t offset, unsigned cols, unsigned rows)
{
	p[0] = WIRE_SCREEN;
	put_u64(p + 1, offset);
	put_u16(p + 9, (uint16_t)cols);
	put_u16(p + 11, (uint16_t)rows);
}

void web_wire_taken(uint8_t *p, uint64_t total)
{
	p[0] = WIRE_TAKEN;
	put_u64(p + 1, total);
}
