/* Characters into cells, and out of them. */
#include "base/utf8.h"
#include "muxd/screen/term_state.h"
#include "muxd/screen/zero_width.h"

#include <string.h>

static bool is_zero_width(uint32_t cp)
{
	size_t low = 0, high = sizeof(zero_width) / sizeof(zero_width[0]);

	if (cp < zero_width[0].first)
		return false;
	while (low < high) {
		size_t mid = (low + high) / 2;

		if (cp > zero_width[mid].last)
			low = mid + 1;
		else if (cp < zero_width[mid].first)
			high = mid;
		else
			return true;
	}
	return false;
}

static void combine(struct term *t, uint32_t cp)
{
	struct cell *c;

	if (t->last_row < 0)
		return;
	c = grid_cell(term_shown(t), t->last_row, t->last_col);
	for (int i = 0; i < CELL_CHARS; i++)
		if (!c->chars[i]) {
			c->chars[i] = cp;
			return;
		}
}

static void place(struct term *t, const uint8_t *p, size_t n)
{
	t->wrote = false;
	term_tell(t, (const char *)p, n);
	if (t->wrote)
		t->wrapped = t->wrote_edge && t->modes & TERM_WRAP;
}

/* VT100 line drawing, 0x5f to 0x7e. */
static const char drawing[][4] = {" ", "◆", "▒", "␉", "␌", "␍", "␊", "°", "±", "␤", "␋", "┘", "┐", "┌", "└", "┼",
				  "⎺", "⎻", "─", "⎼", "⎽", "├", "┤", "┴", "┬", "│", "≤", "≥", "π", "≠", "£", "·"};

static void place_drawn(struct term *t, const uint8_t *p, size_t n)
{
	for (size_t i = 0, size; i < n; i += size) {
		size = utf8_step(p + i, n - i, NULL);
		if (p[i] >= 0x5f && p[i] <= 0x7e)
			place(t, (const uint8_t *)drawing[p[i] - 0x5f], strlen(drawing[p[i] - 0x5f]));
		else
			place(t, p + i, size);
		if (!size)
			return;
	}
}

static void place_run(struct term *t, const uint8_t *p, size_t n)
{
	if (!n)
		return;
	if (t->cursor.drawing[t->cursor.shifted])
		place_drawn(t, p, n);
	else
		place(t, p, n);
}

/* libvterm gets no characters without width: these join the last cell here, however the output was cut. */
void term_on_text(void *arg, const uint8_t *p, size_t n)
{
	struct term *t = arg;
	size_t from = 0, at = 0, size;
	uint32_t cp;

	for (; at < n; at += size) {
		size = 1;
		if (p[at] < 0x80)
			continue;
		size = utf8_step(p + at, n - at, &cp);
		if (!size)
			return;
		if (!is_zero_width(cp))
			continue;
		place_run(t, p + from, at - from);
		combine(t, cp);
		from = at + size;
	}
	place_run(t, p + from, n - from);
	for (size = 1; size < 4 && size < n && (p[n - size] & 0xc0) == 0x80; size++)
		;
	memcpy(t->last_text, p + n - size, size);
	t->last_len = size;
}

static size_t put_utf8(char *to, uint32_t cp)
{
	if (cp < 0x80) {
		to[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		to[0] = (char)(0xc0 | cp >> 6);
		to[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		to[0] = (char)(0xe0 | cp >> 12);
		to[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		to[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | cp >> 18);
	to[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	to[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	to[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

size_t cell_text(const struct cell *c, char out[CELL_TEXT_MAX])
{
	size_t n = 0;

	for (int i = 0; i < CELL_CHARS && c->chars[i]; i++)
		n += put_utf8(out + n, c->chars[i]);
	return n;
}

void term_row_text(const struct term *t, int row, char *out, size_t size)
{
	const struct grid *g = &t->grid[t->on];
	size_t len = 0, end = 0;

	for (int col = 0; row >= 0 && row < g->rows && col < g->cols; col++) {
		const struct cell *c = grid_cell(g, row, col);
		char text[CELL_TEXT_MAX];
		size_t n = cell_text(c, text);

		if (c->width == 0)
			continue;
		if (len + n + 2 > size)
			break;
		memcpy(out + len, n ? text : " ", n ? n : 1);
		len += n ? n : 1;
		if (n && (n > 1 || text[0] != ' '))
			end = len;
	}
	out[end] = '\0';
}
