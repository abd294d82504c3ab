#include "muxd/screen/draw.h"

#include "base/buf.h"
#include "base/err.h"
#include "muxd/screen/term.h"

#include <string.h>

#define PLAIN_CHARSETS "\033(B\033)B\017"

/* Errors stick; pen: what the terminal has now. */
struct draw {
	struct buf *out;
	int rc;
	struct pen pen;
};

static void draw_put(struct draw *d, const void *p, size_t n)
{
	if (!d->rc)
		d->rc = buf_append(d->out, p, n);
}

static void put_str(struct draw *d, const char *s)
{
	draw_put(d, s, strlen(s));
}

static void put_csi(struct draw *d, int n, char final)
{
	if (!d->rc)
		d->rc = buf_printf(d->out, "\033[%d%c", n, final);
}

static void put_go(struct draw *d, int row, int col)
{
	if (!d->rc)
		d->rc = buf_printf(d->out, "\033[%d;%dH", row + 1, col + 1);
}

static void put_color(struct draw *d, int base, uint32_t c)
{
	unsigned v = c & 0xffffff;

	if (d->rc || !c)
		return;
	if (c & COLOR_RGB)
		d->rc = buf_printf(d->out, ";%d;2;%u;%u;%u", base + 8, v >> 16, v >> 8 & 255, v & 255);
	else if (v < 8 && base != 50)
		d->rc = buf_printf(d->out, ";%u", (unsigned)base + v);
	else if (v < 16 && base != 50)
		d->rc = buf_printf(d->out, ";%u", (unsigned)base + 60 + v - 8);
	else
		d->rc = buf_printf(d->out, ";%d;5;%u", base + 8, v);
}

static void put_pen(struct draw *d, const struct pen *p)
{
	static const char *const attrs[] = {";1", ";2", ";3", ";5", ";7", ";8", ";9", ";53"};

	if (pen_equal(p, &d->pen))
		return;
	d->pen = *p;
	put_str(d, "\033[0");
	for (unsigned i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++)
		if (p->attrs & 1U << i)
			put_str(d, attrs[i]);
	if (p->underline == 1)
		put_str(d, ";4");
	else if (p->underline && !d->rc)
		d->rc = buf_printf(d->out, ";4:%u", p->underline);
	put_color(d, 30, p->fg);
	put_color(d, 40, p->bg);
	put_color(d, 50, p->under);
	put_str(d, "m");
}

static const struct pen no_pen;

static bool draw_is_blank(const struct cell *c)
{
	return !c->chars[0] && c->width == 1 && !c->pen.bg;
}

/* Empty cells of one background. */
static int put_empty(struct draw *d, const struct cell *c, int n)
{
	struct pen pen = {.bg = c->pen.bg};
	int run = 1;

	while (run < n && !c[run].chars[0] && c[run].width == 1 && c[run].pen.bg == c->pen.bg)
		run++;
	if (pen.bg) {
		put_pen(d, &pen);
		put_csi(d, run, 'X');
	}
	if (run < n)
		put_csi(d, run, 'C');
	return run;
}

static void put_cell(struct draw *d, const struct cell *c)
{
	char text[CELL_TEXT_MAX];

	put_pen(d, &c->pen);
	draw_put(d, text, cell_text(c, text));
}

static void draw_put_row(struct draw *d, const struct grid *g, int row)
{
	const struct cell *c = grid_cell(g, row, 0);
	int end = g->cols, col = 0;

	while (end && draw_is_blank(&c[end - 1]))
		end--;
	if (!end)
		return;
	put_go(d, row, 0);
	while (col < end) {
		if (!c[col].chars[0]) {
			col += put_empty(d, &c[col], end - col);
		} else {
			put_cell(d, &c[col]);
			col += c[col].width;
		}
	}
}

static void put_grid(struct draw *d, const struct grid *g)
{
	put_pen(d, &no_pen);
	put_str(d, "\033[H\033[2J");
	for (int row = 0; row < g->rows; row++)
		draw_put_row(d, g, row);
}

/* Out of whatever state the terminal is in. DECSTR first, then what not all understand by it. */
static void put_reset(struct draw *d)
{
	put_str(d, "\033[?1049l\033[!p\033[r\033[m\033[4l\033[20l\033[?1;5;6;9;1000;1002;1003;1004;1005;1006;1015;2004l"
		   "\033[?7;25h\033>\033(B\033)B\017\033[>4m\033[0 q");
}

static void put_tabs(struct draw *d, const struct term_view *v)
{
	if (!v->tabs)
		return;
	put_str(d, "\033[3g");
	for (int col = 0; col < v->cols; col++)
		if (v->tabs[col]) {
			put_go(d, 0, col);
			put_str(d, "\033H");
		}
}

static void put_charsets(struct draw *d, const struct term_cursor *c)
{
	put_str(d, c->drawing[0] ? "\033(0" : "\033(B");
	put_str(d, c->drawing[1] ? "\033)0" : "\033)B");
	put_str(d, c->shifted ? "\016" : "\017");
}

/* how: what saves it. Entering the alternate screen does that too, and some terminals keep that place apart. */
static void put_saved(struct draw *d, const struct term_cursor *c, const char *how)
{
	if (!c->set)
		return;
	put_go(d, c->row, c->col);
	put_pen(d, &c->pen);
	put_charsets(d, c);
	put_str(d, how);
	if (*how)
		put_str(d, PLAIN_CHARSETS);
}

static void put_modes(struct draw *d, unsigned modes, unsigned which)
{
	for (unsigned i = 0; i < 18; i++) {
		unsigned bit = 1U << i & which;
		bool dec = false, on = modes & bit, usual = bit & (TERM_WRAP | TERM_CURSOR);
		int number = term_mode_number(bit, &dec);

		if (number && on != usual && !d->rc)
			d->rc = buf_printf(d->out, "\033[%s%d%c", dec ? "?" : "", number, on ? 'h' : 'l');
	}
	if (which & modes & TERM_KEYPAD)
		put_str(d, "\033=");
}

static void put_cursor(struct draw *d, const struct term_view *v)
{
	const struct term_cursor *c = &v->cursor;
	const struct cell *last = grid_cell(v->on_alt ? v->alt : v->main, c->row, c->col);
	int base = v->modes & TERM_ORIGIN ? v->top : 0, col = c->col;

	/* Set again after the last cell was drawn, the terminal too waits to wrap. */
	if (v->wrapped && last->width == 0)
		last--, col--;
	put_go(d, c->row - base, col);
	if (v->wrapped && last->chars[0])
		put_cell(d, last);
}

int draw_term(const struct term *t, struct buf *out)
{
	struct draw d = {.out = out};
	struct term_view v;

	term_view(t, &v);
	put_reset(&d);
	put_grid(&d, v.main);
	put_saved(&d, &v.saved[0], v.on_alt ? "" : "\0337");
	if (v.on_alt) {
		put_str(&d, v.saved[0].set ? "\033[?1049h" : "\033[?47h");
		put_str(&d, PLAIN_CHARSETS);
		put_grid(&d, v.alt);
	}
	put_tabs(&d, &v);
	if (v.on_alt)
		put_saved(&d, &v.saved[1], "\0337");
	if (v.title[0] && !d.rc)
		d.rc = buf_printf(out, "\033]2;%s\033\\", v.title);
	if ((v.top > 0 || v.bottom < v.rows) && !d.rc)
		d.rc = buf_printf(out, "\033[%d;%dr", v.top + 1, v.bottom);
	put_modes(&d, v.modes, TERM_ORIGIN);
	put_cursor(&d, &v);
	put_modes(&d, v.modes, ~(unsigned)TERM_ORIGIN);
	put_pen(&d, &v.cursor.pen);
	put_charsets(&d, &v.cursor);
	if (v.cursor_shape && !d.rc)
		d.rc = buf_printf(out, "\033[%u q", v.cursor_shape);
	if (v.other_keys && !d.rc)
		d.rc = buf_printf(out, "\033[>4;%um", v.other_keys);
	return d.rc;
}
