#include "muxd/screen/grid.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static void make_empty(struct cell *c, uint32_t bg)
{
	memset(c, 0, sizeof(*c));
	c->pen.bg = bg;
	c->width = 1;
}

int grid_init(struct grid *g, int rows, int cols)
{
	g->cells = malloc(sizeof(struct cell) * (size_t)rows * (size_t)cols);
	if (!g->cells)
		return ERR_NOMEM;
	g->rows = rows;
	g->cols = cols;
	grid_erase(g, (struct rect){0, rows, 0, cols}, 0);
	return 0;
}

void grid_finish(struct grid *g)
{
	free(g->cells);
	g->cells = NULL;
}

/* A half of a wide character whose other half is gone. */
static void mend_col(struct grid *g, int row, int col)
{
	struct cell *c = grid_cell(g, row, 0);

	if (col < 0 || col >= g->cols)
		return;
	if (c[col].width == 0 && (col == 0 || c[col - 1].width != 2))
		make_empty(&c[col], c[col].pen.bg);
	if (c[col].width == 2 && (col + 1 >= g->cols || c[col + 1].width != 0))
		make_empty(&c[col], c[col].pen.bg);
}

static void mend_seam(struct grid *g, int row, int col)
{
	mend_col(g, row, col - 1);
	mend_col(g, row, col);
}

void grid_put(struct grid *g, int row, int col, const uint32_t *chars, int width, const struct pen *pen)
{
	struct cell *c;
	int i;

	if (row < 0 || row >= g->rows || col < 0 || width < 1 || width > 2 || col + width > g->cols)
		return;
	c = grid_cell(g, row, col);
	for (i = 0; i < CELL_CHARS && chars[i]; i++)
		c->chars[i] = chars[i];
	for (; i < CELL_CHARS; i++)
		c->chars[i] = 0;
	c->pen = *pen;
	if (width == 1 && c->width == 1)
		return; /* it stood alone and does */
	c->width = (uint8_t)width;
	if (width == 2) {
		make_empty(c + 1, pen->bg);
		c[1].width = 0;
		mend_col(g, row, col + 2);
	} else {
		mend_col(g, row, col + 1);
	}
	mend_col(g, row, col - 1);
}

static bool clip(const struct grid *g, struct rect *r)
{
	r->top = r->top < 0 ? 0 : r->top;
	r->left = r->left < 0 ? 0 : r->left;
	r->bottom = r->bottom > g->rows ? g->rows : r->bottom;
	r->right = r->right > g->cols ? g->cols : r->right;
	return r->top < r->bottom && r->left < r->right;
}

void grid_erase(struct grid *g, struct rect r, uint32_t bg)
{
	struct cell empty;

	if (!clip(g, &r))
		return;
	make_empty(&empty, bg);
	for (int row = r.top; row < r.bottom; row++) {
		struct cell *c = grid_cell(g, row, 0);

		for (int col = r.left; col < r.right; col++)
			c[col] = empty;
		mend_col(g, row, r.left - 1);
		mend_col(g, row, r.right);
	}
}

static void move_row(struct grid *g, const struct rect *r, int to, int from, int left)
{
	int n = r->right - r->left - (left < 0 ? -left : left);
	int src = r->left + (left > 0 ? left : 0), dst = r->left + (left < 0 ? -left : 0);

	memmove(grid_cell(g, to, dst), grid_cell(g, from, src), sizeof(struct cell) * (size_t)n);
}

/* After a move cells have other neighbours at the seams. */
static void mend_rect(struct grid *g, const struct rect *r, int left)
{
	for (int row = r->top; row < r->bottom; row++) {
		mend_seam(g, row, r->left);
		mend_seam(g, row, r->right);
		mend_seam(g, row, left > 0 ? r->right - left : r->left - left);
	}
}

void grid_scroll(struct grid *g, struct rect r, int up, int left, uint32_t bg)
{
	int height, width;

	if (!clip(g, &r))
		return;
	height = r.bottom - r.top;
	width = r.right - r.left;
	if (up >= height || -up >= height || left >= width || -left >= width) {
		grid_erase(g, r, bg);
		return;
	}
	for (int i = 0; i < height - abs(up); i++) {
		int to = up >= 0 ? r.top + i : r.bottom - 1 - i;

		move_row(g, &r, to, to + up, left);
	}
	if (r.left > 0 || r.right < g->cols || left)
		mend_rect(g, &r, left);
	if (up > 0)
		grid_erase(g, (struct rect){r.bottom - up, r.bottom, r.left, r.right}, bg);
	else if (up < 0)
		grid_erase(g, (struct rect){r.top, r.top - up, r.left, r.right}, bg);
	if (left > 0)
		grid_erase(g, (struct rect){r.top, r.bottom, r.right - left, r.right}, bg);
	else if (left < 0)
		grid_erase(g, (struct rect){r.top, r.bottom, r.left, r.left - left}, bg);
}

int grid_copy(const struct grid *g, int rows, int cols, int first, struct grid *out)
{
	int n;

	if (grid_init(out, rows, cols))
		return ERR_NOMEM;
	if (first < 0 || first >= g->rows)
		first = 0;
	n = g->rows - first < rows ? g->rows - first : rows;
	for (int i = 0; i < n; i++) {
		memcpy(grid_cell(out, i, 0), grid_cell(g, first + i, 0),
		       sizeof(struct cell) * (size_t)(cols < g->cols ? cols : g->cols));
		mend_col(out, i, cols - 1);
	}
	return 0;
}

bool pen_equal(const struct pen *a, const struct pen *b)
{
	return a->fg == b->fg && a->bg == b->bg && a->under == b->under && a->attrs == b->attrs &&
	       a->underline == b->underline;
}

bool cell_equal(const struct cell *a, const struct cell *b)
{
	return a->width == b->width && memcmp(a->chars, b->chars, sizeof(a->chars)) == 0 && pen_equal(&a->pen, &b->pen);
}
