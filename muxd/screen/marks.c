#include "muxd/screen/marks.h"
#include "base/hex.h"

#include <string.h>

static int hex_byte(const uint8_t *p, size_t n)
{
	int high = n >= 2 ? hex_value(p[0]) : -1, low = n >= 2 ? hex_value(p[1]) : -1;

	return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Never longer than it was. lead: what stands in front of two digits. */
static size_t decode(const uint8_t *p, size_t n, const char *lead, char *out)
{
	size_t nlead = strlen(lead), len = 0;

	for (size_t at = 0; at < n;) {
		int byte =
		    n - at >= nlead && memcmp(p + at, lead, nlead) == 0 ? hex_byte(p + at + nlead, n - at - nlead) : -1;
		bool doubled = lead[0] == '\\' && n - at >= 2 && p[at] == '\\' && p[at + 1] == '\\';

		out[len++] = byte >= 0 ? (char)byte : (char)p[at];
		at += byte >= 0 ? nlead + 2 : doubled ? 2 : 1;
	}
	return len;
}

static bool marks_begins(const struct marks *m, const char *with, size_t *out_at)
{
	*out_at = strlen(with);
	return m->n >= *out_at && memcmp(m->text, with, *out_at) == 0;
}

/* A ';' of the command itself comes as \x3b, so the first one ends it. */
static bool marks_parse(const struct marks *m, struct mark *out)
{
	size_t at, len;

	out->ncommand = out->nnonce = 0;
	if (m->over)
		return false;
	if (marks_begins(m, "133;C;cmdline_url=", &at)) {
		out->ncommand = decode(m->text + at, m->n - at, "%", out->command);
		return out->ncommand > 0;
	}
	if (!marks_begins(m, "633;E;", &at))
		return false;
	const uint8_t *p = m->text + at, *end = memchr(p, ';', m->n - at);

	len = end ? (size_t)(end - p) : m->n - at;
	out->ncommand = decode(p, len, "\\x", out->command);
	if (end) {
		out->nnonce = m->n - at - len - 1;
		memcpy(out->nonce, end + 1, out->nnonce);
	}
	return out->ncommand > 0;
}

static void marks_begin(struct marks *m, uint8_t c)
{
	m->state = c == ']' ? MARKS_STRING : c == 0x1b ? MARKS_ESCAPE : MARKS_BETWEEN;
	m->n = 0;
	m->over = false;
}

bool marks_byte(struct marks *m, uint8_t c, struct mark *out)
{
	if (m->state == MARKS_BETWEEN) {
		if (c == 0x1b)
			m->state = MARKS_ESCAPE;
	} else if (m->state == MARKS_ESCAPE) {
		marks_begin(m, c);
	} else if (m->state == MARKS_STRING_END && c != '\\') {
		marks_begin(m, c); /* broken off by the next sequence */
	} else if (m->state == MARKS_STRING_END || c == 0x07) {
		m->state = MARKS_BETWEEN;
		return marks_parse(m, out);
	} else if (c == 0x18 || c == 0x1a) {
		m->state = MARKS_BETWEEN;
	} else if (c == 0x1b) {
		m->state = MARKS_STRING_END;
	} else if (m->n < sizeof(m->text)) {
		m->text[m->n++] = c;
	} else {
		m->over = true;
	}
	return false;
}
