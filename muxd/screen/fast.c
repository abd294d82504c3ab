#include "muxd/screen/fast.h"

#include <string.h>

/* Bytes of an SGR or EL at p; 0: it is none, or not whole. */
static size_t sequence(const uint8_t *p, size_t n)
{
	size_t at = 2;

	if (n < 3 || p[0] != 0x1b || p[1] != '[')
		return 0;
	while (at < n && p[at] >= 0x30 && p[at] <= 0x3b && at < 128)
		at++;
	return at < n && (p[at] == 'm' || p[at] == 'K') ? at + 1 : 0;
}

static size_t plain_length(const uint8_t *p, size_t n)
{
	size_t at = 0, size;

	while (at < n) {
		if ((p[at] >= 0x20 && p[at] != 0x7f) || p[at] == '\n' || p[at] == '\r' || p[at] == '\t')
			at++;
		else if ((size = sequence(p + at, n - at)) > 0)
			at += size;
		else
			break;
	}
	return at;
}

/* Behind the last CR LF that ends before n; 0: there is none. */
static size_t line_before(const uint8_t *p, size_t n)
{
	while (n > 1) {
		const uint8_t *lf = memrchr(p + 1, '\n', n - 1);

		if (!lf)
			return 0;
		if (lf[-1] == '\r')
			return (size_t)(lf - p) + 1;
		n = (size_t)(lf - p);
	}
	return 0;
}

bool fast_find(const uint8_t *p, size_t n, int rows, struct fast_cut *out)
{
	size_t at;

	if (n < (size_t)rows * 8)
		return false;
	at = plain_length(p, n);
	/*
	 * rows + 1 lines are kept, so every row that is seen at the end came by scrolling; as many lie before them, so
	 * that the cursor is in the last row by then.
	 */
	for (int i = 0; i < 2 * rows + 1 && at; i++) {
		at = line_before(p, at ? at - (i > 0) : 0);
		if (i == rows)
			out->keep = at;
	}
	return at > 0;
}

void fast_pens(const uint8_t *p, const struct fast_cut *cut, struct filter *f)
{
	const uint8_t *end = p + cut->keep, *from = p, *esc;

	for (const uint8_t *at = p; (esc = memchr(at, 0x1b, (size_t)(end - at))); at = esc + 2) {
		size_t n = sequence(esc, (size_t)(end - esc));

		if (n && esc[n - 1] == 'm' && (n == 3 || (n == 4 && esc[2] == '0')))
			from = esc; /* forgets what came before */
	}
	for (const uint8_t *at = from; (esc = memchr(at, 0x1b, (size_t)(end - at))); at = esc + 2) {
		size_t n = sequence(esc, (size_t)(end - esc));

		if (n && esc[n - 1] == 'm')
			filter_feed(f, esc, n);
	}
}
