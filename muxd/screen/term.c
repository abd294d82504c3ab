#include "muxd/screen/term.h"

#include "base/err.h"
#include "muxd/screen/fast.h"
#include "muxd/screen/term_state.h"

#include <stdlib.h>
#include <string.h>

#define SEQUENCE_REST 128 /* bytes; longer ones are strings */

static const struct filter_ops ops = {.text = term_on_text,
				      .control = term_on_control,
				      .escape = term_on_escape,
				      .csi = term_on_csi,
				      .title = term_on_title};

int term_create(int cols, int rows, struct term **out)
{
	struct term *t = calloc(1, sizeof(*t));

	cols = term_clamp(cols, TERM_SIZE_MIN, TERM_COLS_MAX);
	rows = term_clamp(rows, TERM_SIZE_MIN, TERM_ROWS_MAX);
	if (!t)
		return ERR_NOMEM;
	if (grid_init(&t->grid[0], rows, cols) || grid_init(&t->grid[1], rows, cols) || term_vt_create(t, cols, rows)) {
		term_destroy(t);
		return ERR_NOMEM;
	}
	filter_init(&t->filter, &ops, t);
	term_reset_fields(t);
	t->last_row = -1;
	*out = t;
	return 0;
}

void term_destroy(struct term *t)
{
	if (!t)
		return;
	term_vt_destroy(t);
	grid_finish(&t->grid[0]);
	grid_finish(&t->grid[1]);
	free(t);
}

void term_feed(struct term *t, const uint8_t *p, size_t n)
{
	struct fast_cut cut;
	struct grid *g;

	/* What the last piece ended in the midst of. */
	for (int i = 0; i < SEQUENCE_REST && n && !filter_between(&t->filter); i++, p++, n--)
		filter_feed(&t->filter, p, 1);
	/* Lines upon lines: only the last of them can still be seen. */
	g = term_shown(t);
	if (filter_between(&t->filter) && t->top == 0 && t->bottom == g->rows && !(t->modes & TERM_ORIGIN) &&
	    fast_find(p, n, g->rows, &cut)) {
		fast_pens(p, &cut, &t->filter);
		term_go(t, g->rows - 1, 0);
		p += cut.keep;
		n -= cut.keep;
	}
	filter_feed(&t->filter, p, n);
}

/* Both or none. */
static int resize_grids(struct term *t, int cols, int rows, const int first_row[2])
{
	struct grid to[2];

	if (grid_copy(&t->grid[0], rows, cols, first_row[0], &to[0]))
		return ERR_NOMEM;
	if (grid_copy(&t->grid[1], rows, cols, first_row[1], &to[1])) {
		grid_finish(&to[0]);
		return ERR_NOMEM;
	}
	for (int i = 0; i < 2; i++) {
		grid_finish(&t->grid[i]);
		t->grid[i] = to[i];
	}
	return 0;
}

int term_resize(struct term *t, int cols, int rows)
{
	struct place pos = term_where(t);
	int first_row[2], rc;

	cols = term_clamp(cols, TERM_SIZE_MIN, TERM_COLS_MAX);
	rows = term_clamp(rows, TERM_SIZE_MIN, TERM_ROWS_MAX);
	if (cols == t->grid[0].cols && rows == t->grid[0].rows)
		return 0;
	for (int i = 0; i < 2; i++) {
		int row = i == t->on ? pos.row : t->saved[i].row;

		first_row[i] = row >= rows ? row + 1 - rows : 0;
	}
	rc = resize_grids(t, cols, rows, first_row);
	if (rc)
		return rc;
	/* libvterm meets its new size with nothing that could lie outside of it. */
	t->modes &= ~(unsigned)TERM_ORIGIN;
	term_tell(t, "\033[?6l\033[r\033[H", 11);
	term_vt_resize(t, cols, rows);
	t->top = 0;
	t->bottom = rows;
	for (int i = 0; i < 2; i++) {
		struct term_cursor *s = &t->saved[i];

		s->row = term_clamp(s->row - first_row[i], 0, rows - 1);
		s->col = term_clamp(s->col, 0, cols - 1);
		s->origin = false;
	}
	term_go(t, pos.row - first_row[t->on], pos.col);
	return 0;
}

void term_cut(struct term *t)
{
	filter_cut(&t->filter);
}

void term_view(const struct term *t, struct term_view *out)
{
	struct place pos = term_where(t);

	*out = (struct term_view){.rows = t->grid[0].rows,
				  .cols = t->grid[0].cols,
				  .main = &t->grid[0],
				  .alt = &t->grid[1],
				  .on_alt = t->on,
				  .cursor = t->cursor,
				  .saved = {t->saved[0], t->saved[1]},
				  .wrapped = t->wrapped,
				  .top = t->top,
				  .bottom = t->bottom,
				  .modes = t->modes,
				  .cursor_shape = t->cursor_shape,
				  .other_keys = t->other_keys,
				  .tabs = t->own_tabs ? t->tabs : NULL,
				  .title = t->title};
	out->cursor.row = pos.row;
	out->cursor.col = pos.col;
}
