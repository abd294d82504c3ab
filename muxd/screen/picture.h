/*
 * picture.h - what a screen shows, as values: size, cursor, title, and the text of its rows in runs of one look.
 *
 * The payload of a GRID frame behind its tag and offset (docs/protocol.md, "Screen workers"). The worker writes it; who
 * reads it does not believe it: every length is looked at, every text is UTF-8, and runs come in order, inside the
 * screen, without overlap. Evidence of nothing, as all that a worker says. Values; texts point into the payload.
 */
#ifndef MUXD_SCREEN_PICTURE_H
#define MUXD_SCREEN_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct term;

#define PICTURE_TITLE_MAX 256
#define PICTURE_HEAD      12 /* cols, rows, row, col, flags, 0, length of the title */
#define PICTURE_RUN_HEAD  18 /* row, col, cells, fg, bg, attrs, underline, length of the text */

enum picture_flag {
	PICTURE_CURSOR = 1,      /* it is shown */
	PICTURE_ALTERNATE = 2,   /* the alternate screen: a program for the whole of it */
	PICTURE_CURSOR_KEYS = 4, /* arrows are sent as applications want them (DECCKM) */
	PICTURE_PASTE = 8        /* pastes come in brackets */
};
/* The same numbers as enum pen_attr. */
enum picture_attr {
	PICTURE_BOLD = 1,
	PICTURE_FAINT = 2,
	PICTURE_ITALIC = 4,
	PICTURE_BLINK = 8,
	PICTURE_REVERSE = 16,
	PICTURE_HIDDEN = 32,
	PICTURE_STRIKE = 64,
	PICTURE_OVERLINE = 128
};
#define PICTURE_INDEX UINT32_C(0x1000000) /* | 0 to 255 */
#define PICTURE_RGB   UINT32_C(0x2000000) /* | 0xrrggbb; 0: the default */

struct picture {
	unsigned cols, rows, row, col; /* of the cursor, from 0 */
	uint8_t flags;
	const char *title; /* no NUL */
	size_t title_len;
	const uint8_t *runs; /* for picture_next() */
	size_t runs_len;
};

/* Cells of one look. Those that no run has are empty. */
struct picture_run {
	unsigned row, col, cells;
	uint32_t fg, bg;
	uint8_t attrs, underline; /* 0 none, 1 to 5: SGR 4:n */
	const char *text;         /* no NUL; blanks for empty cells */
	size_t len;
};

/* picture_put.c, of the worker. ERR_TOO_LARGE past the buffer's bound, ERR_NOMEM. */
int picture_put(const struct term *t, struct buf *out);
int picture_read(const uint8_t *p, size_t n, struct picture *out); /* ERR_PROTOCOL */
/* The run at *at (0 first), which moves on: 1; 0 at the end; ERR_PROTOCOL. before: the last one, NULL at first. */
int picture_next(const struct picture *pic, size_t *at, const struct picture_run *before, struct picture_run *out);

#endif
