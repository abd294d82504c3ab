/*
 * grid.h - the cells of a screen: what is written, erased, moved, and cut to another size.
 *
 * Owned by its term, two of them: the main and the alternate screen. Holds always: a cell of width 2 is followed by one
 * of width 0 in its row, and there is no other of width 0. Rows, columns and rectangles are clipped here: whatever
 * they are, nothing outside is touched.
 */
#ifndef MUXD_SCREEN_GRID_H
#define MUXD_SCREEN_GRID_H

#include <stdbool.h>
#include <stdint.h>

#define CELL_CHARS 5 /* a character and what combines with it; more of those are left out */

enum pen_attr {
	PEN_BOLD = 1,
	PEN_FAINT = 2,
	PEN_ITALIC = 4,
	PEN_BLINK = 8,
	PEN_REVERSE = 16,
	PEN_HIDDEN = 32,
	PEN_STRIKE = 64,
	PEN_OVERLINE = 128
};
#define COLOR_INDEX UINT32_C(0x1000000) /* | 0..255 */
#define COLOR_RGB   UINT32_C(0x2000000) /* | 0xrrggbb; 0: the default */

struct pen {
	uint32_t fg, bg, under; /* colours; of the underline */
	uint8_t attrs;
	uint8_t underline; /* 0 none, 1 to 5: SGR 4:n */
};

struct cell {
	uint32_t chars[CELL_CHARS]; /* 0-ended unless full; [0] == 0: empty */
	struct pen pen;             /* of an empty one: the background alone */
	uint8_t width;              /* 1, 2, 0 */
};

struct rect {
	int top, bottom, left, right; /* bottom and right are outside */
};

struct grid {
	struct cell *cells;
	int rows, cols;
};

int grid_init(struct grid *g, int rows, int cols); /* all empty; ERR_NOMEM */
void grid_finish(struct grid *g);
static inline struct cell *grid_cell(const struct grid *g, int row, int col)
{
	return &g->cells[(long)row * g->cols + col];
}
/* chars: 0-ended. width 1 or 2. */
void grid_put(struct grid *g, int row, int col, const uint32_t *chars, int width, const struct pen *pen);
void grid_erase(struct grid *g, struct rect r, uint32_t bg);
/* What is in r moves up and left by so much (negative: down, right); what gets free is empty. */
void grid_scroll(struct grid *g, struct rect r, int up, int left, uint32_t bg);
/* In another size: the rows from `first` on come to the top, cut to what fits. ERR_NOMEM. */
int grid_copy(const struct grid *g, int rows, int cols, int first, struct grid *out);
bool cell_equal(const struct cell *a, const struct cell *b);
bool pen_equal(const struct pen *a, const struct pen *b);

#endif
