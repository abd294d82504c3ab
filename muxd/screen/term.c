/*
 * A term: what is said to libvterm, and what it says; characters into cells; what controls, escape and control
 * sequences do; then its life. libvterm never gets a byte that was not written here or checked by the filter.
 */
#include "muxd/screen/term.h"

#include "base/err.h"
#include "base/filter.h"
#include "base/utf8.h"
#include "muxd/screen/fast.h"
#include "muxd/screen/sgr.h"
#include "muxd/screen/zero_width.h"

#include <stdlib.h>
#include <string.h>
#include <vterm.h>

#define SEQUENCE_REST 128 /* bytes; longer ones are strings */
#define MOUSE_WHAT    (TERM_MOUSE_X10 | TERM_MOUSE_CLICK | TERM_MOUSE_DRAG | TERM_MOUSE_MOVE)
#define MOUSE_HOW     (TERM_MOUSE_UTF8 | TERM_MOUSE_SGR | TERM_MOUSE_URXVT)

struct term {
	VTerm *vt;
	VTermState *state;
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

static struct grid *term_shown(struct term *t)
{
	return &t->grid[t->on];
}

static int term_clamp(int v, int low, int high)
{
	return v < low ? low : v > high ? high : v;
}

/* ---- libvterm tells */

static struct rect rect_of(VTermRect r)
{
	return (struct rect){r.start_row, r.end_row, r.start_col, r.end_col};
}

static int term_vt_on_glyph(VTermGlyphInfo *info, VTermPos pos, void *arg)
{
	struct term *t = arg;

	if (info->width < 1 || info->width > 2)
		return 1;
	grid_put(term_shown(t), pos.row, pos.col, info->chars, info->width, &t->cursor.pen);
	t->wrote = true;
	t->wrote_edge = pos.col + info->width >= term_shown(t)->cols;
	t->last_row = pos.row;
	t->last_col = pos.col;
	return 1;
}

static int term_vt_on_scroll(VTermRect r, int down, int right, void *arg)
{
	struct term *t = arg;

	grid_scroll(term_shown(t), rect_of(r), down, right, t->cursor.pen.bg);
	return 1;
}

static int term_vt_on_erase(VTermRect r, int selective, void *arg)
{
	struct term *t = arg;

	(void)selective;
	grid_erase(term_shown(t), rect_of(r), t->cursor.pen.bg);
	return 1;
}

static const VTermStateCallbacks state_callbacks = {
    .putglyph = term_vt_on_glyph, .scrollrect = term_vt_on_scroll, .erase = term_vt_on_erase};

/* ---- libvterm is told */

static void term_tell(struct term *t, const char *p, size_t n)
{
	(void)vterm_input_write(t->vt, p, n);
}

static size_t term_vt_put_number(char *to, int v)
{
	char digits[12];
	size_t n = 0, len = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while ((v /= 10) > 0);
	while (n)
		to[len++] = digits[--n];
	return len;
}

static void term_tell_csi(struct term *t, const char *leader, int a, int b, char final)
{
	char text[40] = "\033[";
	size_t n = 2;

	if (*leader)
		text[n++] = *leader;
	if (a >= 0)
		n += term_vt_put_number(text + n, a);
	if (b >= 0) {
		text[n++] = ';';
		n += term_vt_put_number(text + n, b);
	}
	text[n++] = final;
	term_tell(t, text, n);
}

static struct place term_where(const struct term *t)
{
	VTermPos pos;

	vterm_state_get_cursorpos(t->state, &pos);
	return (struct place){pos.row, pos.col};
}

static void term_go(struct term *t, int row, int col)
{
	int base = t->modes & TERM_ORIGIN ? t->top : 0;
	int end = t->modes & TERM_ORIGIN ? t->bottom : term_shown(t)->rows;

	row = term_clamp(row, base, end - 1);
	term_tell_csi(t, "", row - base + 1, term_clamp(col, 0, term_shown(t)->cols - 1) + 1, 'H');
	t->wrapped = false;
	t->last_row = -1;
}

/*
 * Behind a wide character libvterm waits to wrap in its first column, behind another one in the last. No output leads
 * to the first without that character, nor to the last where one has come under it.
 */
static bool waits_nowhere(const struct term *t, struct place now)
{
	const struct grid *g = &t->grid[t->on];
	int width = grid_cell(g, now.row, now.col)->width;

	return t->wrapped && (now.col + 1 < g->cols ? width != 2 : width == 0);
}

/* libvterm forgets the pending wrap when the cursor moved, and at these. */
static void term_moved(struct term *t, struct place before, char final)
{
	struct place now = term_where(t);

	if (now.row != before.row || now.col != before.col || (final && strchr("ABCDEFGH`adefjk", final)))
		t->wrapped = false;
	else if (waits_nowhere(t, now)) /* scrolled, say: the cursor is in the last column, as it is elsewhere */
		term_go(t, now.row, t->grid[t->on].cols - 1);
	t->last_row = -1;
}

static int term_vt_create(struct term *t, int cols, int rows)
{
	t->vt = vterm_new(rows, cols);
	if (!t->vt)
		return ERR_NOMEM;
	vterm_set_utf8(t->vt, 1);
	t->state = vterm_obtain_state(t->vt);
	vterm_state_set_callbacks(t->state, &state_callbacks, t);
	vterm_state_reset(t->state, 1);
	return 0;
}

/* ---- characters into cells */

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
static void term_on_text(void *arg, const uint8_t *p, size_t n)
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

/* ---- controls and escape sequences */

static void term_on_control(void *arg, uint8_t c)
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

static void term_reset_fields(struct term *t)
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

static void term_on_escape(void *arg, char intermed, char final)
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

static int term_first(const struct filter_csi *c, int missing)
{
	return c->args[0] > 0 ? c->args[0] : missing;
}

static void set_region(struct term *t, const struct filter_csi *c)
{
	int rows = term_shown(t)->rows, top = term_first(c, 1), bottom = c->n > 1 && c->args[1] > 0 ? c->args[1] : rows;

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
		repeat(t, term_first(c, 1));
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

static void term_on_csi(void *arg, const struct filter_csi *c)
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

static void term_on_title(void *arg, const char *p, size_t n)
{
	struct term *t = arg;

	n = n < TERM_TITLE_MAX ? n : TERM_TITLE_MAX;
	memcpy(t->title, p, n);
	t->title[n] = '\0';
}

/* ---- its own life */

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
	if (t->vt)
		vterm_free(t->vt);
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
	vterm_set_size(t->vt, rows, cols);
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

/* ---- cells as text */

size_t cell_text(const struct cell *c, char out[CELL_TEXT_MAX])
{
	size_t n = 0;

	for (int i = 0; i < CELL_CHARS && c->chars[i]; i++)
		n += utf8_put(c->chars[i], out + n);
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
