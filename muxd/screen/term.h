/*
 * term.h - a terminal without a screen: bytes in, cells, cursor and modes out.
 *
 * Owned by whoever made it (the screen worker, a test). A filter says what the bytes are; libvterm places text, moves
 * the cursor and scrolls, fed with nothing but what this writes itself in pieces of at most 4 KiB; colours, character
 * sets, modes, saved cursors and both screens are kept here, because libvterm does not tell them all. It answers no
 * query.
 *
 * After a resize scrolling region and origin mode are reset, saved cursors are moved inside, and rows that no longer
 * fit go at the top, so that the cursor stays. There is no scrollback.
 */
#ifndef MUXD_SCREEN_TERM_H
#define MUXD_SCREEN_TERM_H

#include "muxd/screen/grid.h"

#include <stddef.h>

#define TERM_SIZE_MIN  2
#define TERM_COLS_MAX  1000
#define TERM_ROWS_MAX  500
#define TERM_TITLE_MAX 256

/* Modes that a program may leave on; bits of term_view.modes. */
enum term_mode {
	TERM_INSERT = 1 << 0,       /* 4 */
	TERM_NEWLINE = 1 << 1,      /* 20 */
	TERM_CURSOR_KEYS = 1 << 2,  /* ?1 */
	TERM_REVERSE = 1 << 3,      /* ?5 */
	TERM_ORIGIN = 1 << 4,       /* ?6 */
	TERM_WRAP = 1 << 5,         /* ?7 */
	TERM_MOUSE_X10 = 1 << 6,    /* ?9 */
	TERM_CURSOR = 1 << 7,       /* ?25 */
	TERM_MOUSE_CLICK = 1 << 8,  /* ?1000 */
	TERM_MOUSE_DRAG = 1 << 9,   /* ?1002 */
	TERM_MOUSE_MOVE = 1 << 10,  /* ?1003 */
	TERM_FOCUS = 1 << 11,       /* ?1004 */
	TERM_MOUSE_UTF8 = 1 << 12,  /* ?1005 */
	TERM_MOUSE_SGR = 1 << 13,   /* ?1006 */
	TERM_ALT_SCROLL = 1 << 14,  /* ?1007 */
	TERM_MOUSE_URXVT = 1 << 15, /* ?1015 */
	TERM_PASTE = 1 << 16,       /* ?2004 */
	TERM_KEYPAD = 1 << 17,      /* ESC = */
};
/* The number of a mode as CSI h wants it; 0: no mode of these. dec: with '?'. */
int term_mode_number(unsigned bit, bool *out_dec);

struct term_cursor {
	int row, col;
	struct pen pen;
	bool drawing[2]; /* G0, G1: DEC's line drawing */
	bool shifted;    /* G1 is in use */
	bool origin;     /* of a saved one */
	bool set;        /* of a saved one: it was saved */
};

/* All of it; valid until the next call on the term. */
struct term_view {
	int rows, cols;
	const struct grid *main, *alt;
	bool on_alt;
	struct term_cursor cursor, saved[2]; /* of main, of alt */
	bool wrapped;                        /* the last column was written: the next character goes to the next line */
	int top, bottom;                     /* scrolling region; bottom is outside */
	unsigned modes;
	unsigned cursor_shape; /* DECSCUSR: 0 to 6 */
	unsigned other_keys;   /* modifyOtherKeys: 0 to 2 */
	const uint8_t *tabs;   /* NULL: every eighth; else 1 for each column that is a stop */
	const char *title;     /* "" when none */
};

struct term;

/* Sizes outside the bounds are moved inside. ERR_NOMEM. */
int term_create(int cols, int rows, struct term **out);
void term_destroy(struct term *t);
void term_feed(struct term *t, const uint8_t *p, size_t n);
int term_resize(struct term *t, int cols, int rows);
void term_cut(struct term *t); /* bytes are missing here */
void term_view(const struct term *t, struct term_view *out);
/* The characters of a cell in UTF-8, without a NUL; 0: empty. */
#define CELL_TEXT_MAX (4 * CELL_CHARS)
size_t cell_text(const struct cell *c, char out[CELL_TEXT_MAX]);
/* What a row shows, without blanks at its end, in UTF-8 with a NUL; cut to size. For tests. */
void term_row_text(const struct term *t, int row, char *out, size_t size);

#endif
