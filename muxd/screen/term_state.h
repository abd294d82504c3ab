/*
 * term_state.h - the struct of a term, for term*.c alone.
 *
 * term.c makes, feeds and shows it; term_text.c places characters; term_sequence.c does what controls and sequences
 * say; term_vt.c is the only one that speaks to libvterm.
 */
#ifndef MUXD_SCREEN_TERM_STATE_H
#define MUXD_SCREEN_TERM_STATE_H

#include "base/filter.h"
#include "muxd/screen/term.h"

struct VTerm;
struct VTermState;

struct term {
	struct VTerm *vt; /* libvterm's, for term_vt.c */
	struct VTermState *state;
	struct filter filter;
	struct grid grid[2]; /* main, alternate */
	int on;              /* the one that is shown */
	struct term_cursor cursor, saved[2];
	bool wrapped, wrote, wrote_edge;
	int last_row, last_col; /* the cell that a combining character belongs to; row -1: none */
	uint8_t last_text[4];   /* the last character, for REP */
	size_t last_len;
	int top, bottom;
	unsigned modes;
	unsigned cursor_shape, other_keys;
	bool own_tabs;
	uint8_t tabs[TERM_COLS_MAX];
	char title[TERM_TITLE_MAX + 1];
};

struct place {
	int row, col;
};

static inline struct grid *term_shown(struct term *t)
{
	return &t->grid[t->on];
}
static inline int term_clamp(int v, int low, int high)
{
	return v < low ? low : v > high ? high : v;
}

/* term_vt.c */
int term_vt_create(struct term *t, int cols, int rows);
void term_vt_destroy(struct term *t);
void term_vt_resize(struct term *t, int cols, int rows); /* cursor, margins and origin mode must be at rest */
/* What libvterm is told: text, or sequences made here. */
void term_tell(struct term *t, const char *p, size_t n);
void term_tell_csi(struct term *t, const char *leader, int a, int b, char final); /* a, b < 0: left out */
struct place term_where(const struct term *t);
void term_go(struct term *t, int row, int col); /* clipped */
/* After something that is no text. final: of the control sequence that it was, or 0. */
void term_moved(struct term *t, struct place before, char final);

/* term_text.c, term_sequence.c: what the filter says */
void term_on_text(void *arg, const uint8_t *p, size_t n);
void term_on_control(void *arg, uint8_t c);
void term_on_escape(void *arg, char intermed, char final);
void term_on_csi(void *arg, const struct filter_csi *c);
void term_on_title(void *arg, const char *p, size_t n);
void term_reset_fields(struct term *t);

#endif
