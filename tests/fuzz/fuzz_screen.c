// tier: check
/*
 * A hostile terminal: bytes through filter, libvterm and cells. The first two bytes are columns and rows (small, for
 * speed); 0xff and two more are a resize, 0xfe a place where bytes are missing, the rest is output. Whatever comes: the
 * same cells however it was cut into pieces, and what is drawn of them brings a second terminal to the same.
 */
#include "base/buf.h"
#include "muxd/screen/draw.h"
#include "muxd/screen/picture.h"
#include "muxd/screen/term.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DRAWN_MAX (4 * 1024 * 1024)

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void check_grid(const struct grid *g)
{
	for (int row = 0; row < g->rows; row++)
		for (int col = 0; col < g->cols; col++) {
			const struct cell *c = grid_cell(g, row, col);

			must(c->width <= 2);
			must(c->width != 2 || (col + 1 < g->cols && c[1].width == 0));
			must(c->width != 0 || (col > 0 && c[-1].width == 2 && !c->chars[0]));
		}
}

static void same_grid(const struct grid *a, const struct grid *b)
{
	must(a->rows == b->rows && a->cols == b->cols);
	for (int i = 0; i < a->rows * a->cols; i++)
		must(cell_equal(&a->cells[i], &b->cells[i]));
}

static void same(const struct term *t, const struct term *u, bool drawn)
{
	struct term_view a, b;

	term_view(t, &a);
	term_view(u, &b);
	check_grid(a.main);
	check_grid(a.alt);
	same_grid(a.main, b.main);
	if (!drawn || a.on_alt)
		same_grid(a.alt, b.alt);
	must(a.on_alt == b.on_alt && a.top == b.top && a.bottom == b.bottom && a.modes == b.modes);
	must(a.cursor.row == b.cursor.row && a.cursor.col == b.cursor.col && pen_equal(&a.cursor.pen, &b.cursor.pen));
	must(a.cursor.shifted == b.cursor.shifted && memcmp(a.cursor.drawing, b.cursor.drawing, 2) == 0);
	must(a.wrapped == b.wrapped || (drawn && !b.wrapped));
	must(a.cursor_shape == b.cursor_shape && a.other_keys == b.other_keys && strcmp(a.title, b.title) == 0);
}

/* The text of its runs is that of its rows, where they say that they are. */
static void check_picture(const struct term *t)
{
	struct picture_run before = {0}, r;
	struct picture pic;
	struct buf b;
	size_t at = 0;
	bool any = false;

	buf_init(&b, DRAWN_MAX);
	must(picture_put(t, &b) == 0 && picture_read(buf_ptr(&b), buf_len(&b), &pic) == 0);
	for (unsigned row = 0; row < pic.rows; row++) {
		char want[8192], got[8192];
		size_t n = 0;

		while (at < pic.runs_len) {
			size_t here = at;

			must(picture_next(&pic, &at, any ? &before : NULL, &r) == 1);
			if (r.row != row) {
				at = here;
				break;
			}
			for (unsigned col = any && before.row == row ? before.col + before.cells : 0; col < r.col;
			     col++)
				got[n++] = ' ';
			must(n + r.len < sizeof(got));
			memcpy(got + n, r.text, r.len);
			n += r.len;
			before = r;
			any = true;
		}
		while (n && got[n - 1] == ' ')
			n--;
		got[n] = '\0';
		term_row_text(t, (int)row, want, sizeof(want));
		must(strcmp(got, want) == 0);
	}
	must(at == pic.runs_len);
	buf_finish(&b);
}

/* piece: of how many bytes at a time. */
static struct term *run(const uint8_t *p, size_t n, size_t piece)
{
	struct term *t;

	must(term_create(p[0] % 100, p[1] % 30, &t) == 0);
	for (size_t at = 2, len; at < n; at += len) {
		if (p[at] == 0xff && at + 2 < n) {
			must(term_resize(t, p[at + 1] % 100, p[at + 2] % 30) == 0);
			len = 3;
			continue;
		}
		if (p[at] == 0xfe) {
			term_cut(t);
			len = 1;
			continue;
		}
		for (len = 1; len < piece && at + len < n && p[at + len] < 0xfe; len++)
			;
		term_feed(t, p + at, len);
	}
	return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct term *whole, *cut, *again;
	struct term_view v;
	struct buf drawn;

	if (size < 2 || size > 16384)
		return 0;
	whole = run(data, size, SIZE_MAX);
	cut = run(data, size, 1);
	same(whole, cut, false);
	buf_init(&drawn, DRAWN_MAX);
	must(draw_term(whole, &drawn) == 0);
	term_view(whole, &v);
	must(term_create(v.cols, v.rows, &again) == 0);
	term_feed(again, buf_ptr(&drawn), buf_len(&drawn));
	same(whole, again, true);
	check_picture(whole);
	term_destroy(whole);
	term_destroy(cut);
	term_destroy(again);
	buf_finish(&drawn);
	return 0;
}
