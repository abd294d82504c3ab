/* The worker's part of a picture: who only reads one is not linked with a terminal. */
#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "muxd/screen/picture.h"
#include "muxd/screen/term.h"

#include <string.h>

static uint8_t view_flags(const struct term_view *v)
{
	return (uint8_t)((v->modes & TERM_CURSOR ? PICTURE_CURSOR : 0) | (v->on_alt ? PICTURE_ALTERNATE : 0) |
			 (v->modes & TERM_CURSOR_KEYS ? PICTURE_CURSOR_KEYS : 0) |
			 (v->modes & TERM_PASTE ? PICTURE_PASTE : 0));
}

static int head_put(const struct term_view *v, struct buf *out)
{
	size_t n = strlen(v->title);
	uint8_t head[PICTURE_HEAD] = {0};
	int rc;

	put_u16(head, (uint16_t)v->cols);
	put_u16(head + 2, (uint16_t)v->rows);
	put_u16(head + 4, (uint16_t)v->cursor.row);
	put_u16(head + 6, (uint16_t)v->cursor.col);
	head[8] = view_flags(v);
	put_u16(head + 10, (uint16_t)n);
	rc = buf_append(out, head, sizeof(head));
	return rc ? rc : buf_append(out, v->title, n);
}

static bool shows_nothing(const struct cell *c)
{
	return !c->chars[0] && c->width == 1 && !c->pen.bg;
}

/* Text, then the head in front of which room was left for it. */
static int run_put(const struct cell *row, int y, int from, int until, struct buf *out)
{
	const struct pen *pen = &row[from].pen;
	size_t at = buf_len(out), n;
	uint8_t *head;
	int rc = buf_append(out, (const uint8_t[PICTURE_RUN_HEAD]){0}, PICTURE_RUN_HEAD);

	for (int x = from; rc == 0 && x < until; x++) {
		char text[CELL_TEXT_MAX];

		if (row[x].width == 0)
			continue;
		n = cell_text(&row[x], text);
		rc = n ? buf_append(out, text, n) : buf_append_str(out, " ");
	}
	n = buf_len(out) - at - PICTURE_RUN_HEAD;
	if (rc || n > UINT16_MAX)
		return rc ? rc : ERR_TOO_LARGE;
	head = (uint8_t *)(uintptr_t)buf_ptr(out) + at;
	put_u16(head, (uint16_t)y);
	put_u16(head + 2, (uint16_t)from);
	put_u16(head + 4, (uint16_t)(until - from));
	put_u32(head + 6, pen->fg);
	put_u32(head + 10, pen->bg);
	head[14] = pen->attrs;
	head[15] = pen->underline;
	put_u16(head + 16, (uint16_t)n);
	return 0;
}

/* The right half of a wide character belongs to the left one. */
static int run_end(const struct cell *row, int from, int until)
{
	int x = from + 1;

	while (x < until && (row[x].width == 0 || pen_equal(&row[x].pen, &row[from].pen)))
		x++;
	return x;
}

static int row_put(const struct grid *g, int y, struct buf *out)
{
	const struct cell *row = grid_cell(g, y, 0);
	int until = g->cols, rc = 0;

	while (until && shows_nothing(&row[until - 1]))
		until--;
	for (int x = 0, next; rc == 0 && x < until; x = next) {
		next = run_end(row, x, until);
		rc = run_put(row, y, x, next, out);
	}
	return rc;
}

int picture_put(const struct term *t, struct buf *out)
{
	const struct grid *g;
	struct term_view v;
	int rc;

	term_view(t, &v);
	g = v.on_alt ? v.alt : v.main;
	rc = head_put(&v, out);
	for (int y = 0; rc == 0 && y < g->rows; y++)
		rc = row_put(g, y, out);
	return rc;
}
