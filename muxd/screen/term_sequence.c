/* What controls, escape and control sequences do to a term. */
#include "muxd/screen/sgr.h"
#include "muxd/screen/term_state.h"

#include <string.h>

#define MOUSE_WHAT (TERM_MOUSE_X10 | TERM_MOUSE_CLICK | TERM_MOUSE_DRAG | TERM_MOUSE_MOVE)
#define MOUSE_HOW  (TERM_MOUSE_UTF8 | TERM_MOUSE_SGR | TERM_MOUSE_URXVT)

/* ---- controls and escape sequences */

void term_on_control(void *arg, uint8_t c)
{
	struct term *t = arg;
	struct place before = term_where(t);

	if (c == 0x0e || c == 0x0f) {
		t->cursor.shifted = c == 0x0e;
		return;
	}
	term_tell(t, (const char *)&c, 1);
	term_moved(t, before, 0);
}

static void restore_cursor(struct term *t)
{
	struct term_cursor *s = &t->saved[t->on];
	int row = s->row, col = s->col;

	if (t->modes & TERM_ORIGIN || s->origin) {
		t->modes = (t->modes & ~(unsigned)TERM_ORIGIN) | (s->origin ? TERM_ORIGIN : 0);
		term_tell_csi(t, "?", 6, -1, s->origin ? 'h' : 'l');
	}
	t->cursor = *s;
	term_go(t, row, col);
}

static void save_cursor(struct term *t)
{
	struct place pos = term_where(t);
	struct term_cursor *s = &t->saved[t->on];

	*s = t->cursor;
	s->row = pos.row;
	s->col = pos.col;
	s->origin = t->modes & TERM_ORIGIN;
	s->set = true;
}

void term_reset_fields(struct term *t)
{
	memset(&t->cursor, 0, sizeof(t->cursor));
	memset(t->saved, 0, sizeof(t->saved));
	t->modes = TERM_WRAP | TERM_CURSOR;
	t->top = 0;
	t->bottom = t->grid[0].rows;
	t->cursor_shape = t->other_keys = 0;
}

/* RIS */
static void reset(struct term *t)
{
	term_reset_fields(t);
	t->on = 0;
	for (int i = 0; i < 2; i++)
		grid_erase(&t->grid[i], (struct rect){0, t->grid[i].rows, 0, t->grid[i].cols}, 0);
	t->own_tabs = t->wrapped = false;
	t->last_row = -1;
	t->last_len = 0;
	t->title[0] = '\0';
	term_tell(t, "\033c", 2);
}

/* DECSTR: all but what is shown and where the cursor is. */
static void soft_reset(struct term *t)
{
	struct place pos = term_where(t);
	unsigned kept = t->modes & ~(unsigned)(TERM_INSERT | TERM_ORIGIN | TERM_CURSOR_KEYS | TERM_KEYPAD);

	term_reset_fields(t);
	t->modes = kept | TERM_WRAP | TERM_CURSOR;
	term_tell(t, "\033[r\033[4l\033[?6l\033[?7h", 17);
	term_go(t, pos.row, pos.col);
}

static void set_tab(struct term *t, int col, bool on)
{
	if (!t->own_tabs)
		for (int i = 0; i < TERM_COLS_MAX; i++)
			t->tabs[i] = i % 8 == 0;
	t->own_tabs = true;
	t->tabs[term_clamp(col, 0, TERM_COLS_MAX - 1)] = on;
}

/* DECALN, as terminals do it: without margins, and the cursor goes home. libvterm leaves both as they were. */
static void align(struct term *t)
{
	t->top = 0;
	t->bottom = term_shown(t)->rows;
	term_tell_csi(t, "", 1, t->bottom, 'r');
	term_tell(t, "\033#8", 3);
	term_go(t, 0, 0);
}

void term_on_escape(void *arg, char intermed, char final)
{
	struct term *t = arg;
	struct place before = term_where(t);
	char text[3] = {033, final};

	if (intermed == '(' || intermed == ')') {
		t->cursor.drawing[intermed == ')'] = final == '0';
	} else if (intermed == '#') {
		align(t);
	} else if (final == '7') {
		save_cursor(t);
	} else if (final == '8') {
		restore_cursor(t);
	} else if (final == '=' || final == '>') {
		t->modes = final == '=' ? t->modes | TERM_KEYPAD : t->modes & ~(unsigned)TERM_KEYPAD;
	} else if (final == 'c') {
		reset(t);
	} else {
		if (final == 'H')
			set_tab(t, before.col, true);
		term_tell(t, text, 2);
		term_moved(t, before, 0);
	}
}

/* ---- modes */

static const struct {
	int number;
	bool dec;
} mode_numbers[] = {{4, false},   {20, false},  {1, true},    {5, true},    {6, true},    {7, true},
		    {9, true},    {25, true},   {1000, true}, {1002, true}, {1003, true}, {1004, true},
		    {1005, true}, {1006, true}, {1007, true}, {1015, true}, {2004, true}};

int term_mode_number(unsigned bit, bool *out_dec)
{
	for (size_t i = 0; i < sizeof(mode_numbers) / sizeof(mode_numbers[0]); i++)
		if (bit == 1U << i) {
			*out_dec = mode_numbers[i].dec;
			return mode_numbers[i].number;
		}
	return 0;
}

static void show_alternate(struct term *t, bool alt, bool clear)
{
	struct place pos = term_where(t);

	if (t->on == alt)
		return;
	t->on = alt;
	if (clear) {
		struct grid *g = &t->grid[1];

		grid_erase(g, (struct rect){0, g->rows, 0, g->cols}, alt ? t->cursor.pen.bg : 0);
	}
	term_go(t, pos.row, pos.col);
}

static void screen_mode(struct term *t, int number, bool on)
{
	if (number == 1048) {
		if (on)
			save_cursor(t);
		else
			restore_cursor(t);
	} else if (number == 1049 && on) {
		if (!t->on)
			save_cursor(t);
		show_alternate(t, true, true);
	} else if (number == 1049) {
		bool was = t->on;

		show_alternate(t, false, false);
		if (was)
			restore_cursor(t);
	} else { /* 47, 1047 */
		show_alternate(t, on, number == 1047 && !on);
	}
}

static void set_mode(struct term *t, int number, bool dec, bool on)
{
	struct place before = term_where(t);
	unsigned bit = 0;

	for (size_t i = 0; i < sizeof(mode_numbers) / sizeof(mode_numbers[0]); i++)
		if (mode_numbers[i].number == number && mode_numbers[i].dec == dec)
			bit = 1U << i;
	if (dec && (number == 47 || (number >= 1047 && number <= 1049))) {
		screen_mode(t, number, on);
		return;
	}
	if (!bit)
		return;
	/* One of what is reported, one of how: the last. */
	if (bit & MOUSE_WHAT)
		t->modes &= ~(unsigned)MOUSE_WHAT;
	if (bit & MOUSE_HOW)
		t->modes &= ~(unsigned)MOUSE_HOW;
	t->modes = on ? t->modes | bit : t->modes & ~bit;
	if (bit & (TERM_INSERT | TERM_NEWLINE | TERM_ORIGIN | TERM_WRAP))
		term_tell_csi(t, dec ? "?" : "", number, -1, on ? 'h' : 'l');
	term_moved(t, before, 0);
}

/* ---- control sequences */

static int first(const struct filter_csi *c, int missing)
{
	return c->args[0] > 0 ? c->args[0] : missing;
}

static void set_region(struct term *t, const struct filter_csi *c)
{
	int rows = term_shown(t)->rows, top = first(c, 1), bottom = c->n > 1 && c->args[1] > 0 ? c->args[1] : rows;

	if (bottom > rows)
		bottom = rows;
	if (top >= bottom)
		return;
	t->top = top - 1;
	t->bottom = bottom;
	term_tell_csi(t, "", top, bottom, 'r');
	t->wrapped = false;
	t->last_row = -1;
}

static void repeat(struct term *t, int n)
{
	uint8_t text[4 * 64];
	size_t len = t->last_len;

	n = len ? term_clamp(n, 0, term_shown(t)->cols) : 0;
	while (n > 0) {
		int part = n < 64 ? n : 64;

		for (int i = 0; i < part; i++)
			memcpy(text + (size_t)i * len, t->last_text, len);
		term_on_text(t, text, (size_t)part * len);
		n -= part;
	}
}

static void clear_tabs(struct term *t, int what)
{
	struct place pos = term_where(t);

	if (what == 3)
		for (int i = 0; i < TERM_COLS_MAX; i++)
			set_tab(t, i, false);
	else if (what == 0)
		set_tab(t, pos.col, false);
	else
		return;
	term_tell_csi(t, "", what, -1, 'g');
}

static void csi_plain(struct term *t, const struct filter_csi *c)
{
	struct place before = term_where(t);
	int a = c->args[0], b = c->n > 1 ? c->args[1] : -1;

	switch (c->final) {
	case 'm':
		sgr_apply(&t->cursor.pen, c);
		return;
	case 'b':
		repeat(t, first(c, 1));
		return;
	case 'g':
		clear_tabs(t, a < 0 ? 0 : a);
		return;
	case 'r':
		set_region(t, c);
		return;
	case 's':
		if (c->n == 1 && a < 0)
			save_cursor(t);
		return;
	case 'u':
		restore_cursor(t);
		return;
	case 'J':
	case 'K':
		if (a > 2)
			return;
		break;
	case 'T':
		if (c->n > 1)
			return;
		break;
	default:
		break;
	}
	term_tell_csi(t, "", a, c->final == 'H' || c->final == 'f' ? b : -1, c->final);
	term_moved(t, before, c->final);
}

void term_on_csi(void *arg, const struct filter_csi *c)
{
	struct term *t = arg;
	bool dec = c->leader == '?';

	if (c->final == 'h' || c->final == 'l') {
		for (unsigned i = 0; i < c->n; i++)
			set_mode(t, c->args[i], dec, c->final == 'h');
	} else if (c->intermed == ' ') {
		t->cursor_shape = c->args[0] > 0 && c->args[0] <= 6 ? (unsigned)c->args[0] : 0;
	} else if (c->intermed == '!') {
		soft_reset(t);
	} else if (c->leader == '>') {
		if (c->args[0] == 4 || c->args[0] < 0)
			t->other_keys = c->n > 1 && c->args[1] > 0 ? (unsigned)term_clamp(c->args[1], 0, 2) : 0;
	} else {
		csi_plain(t, c);
	}
}

void term_on_title(void *arg, const char *p, size_t n)
{
	struct term *t = arg;

	n = n < TERM_TITLE_MAX ? n : TERM_TITLE_MAX;
	memcpy(t->title, p, n);
	t->title[n] = '\0';
}
