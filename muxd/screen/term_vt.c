/* All that is said to libvterm, and what it says. It never gets a byte that was not written here or checked by the
 * filter. */
#include "base/err.h"
#include "muxd/screen/term_state.h"

#include <string.h>
#include <vterm.h>

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

void term_tell(struct term *t, const char *p, size_t n)
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

void term_tell_csi(struct term *t, const char *leader, int a, int b, char final)
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

struct place term_where(const struct term *t)
{
	VTermPos pos;

	vterm_state_get_cursorpos(t->state, &pos);
	return (struct place){pos.row, pos.col};
}

void term_go(struct term *t, int row, int col)
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
void term_moved(struct term *t, struct place before, char final)
{
	struct place now = term_where(t);

	if (now.row != before.row || now.col != before.col || (final && strchr("ABCDEFGH`adefjk", final)))
		t->wrapped = false;
	else if (waits_nowhere(t, now)) /* scrolled, say: the cursor is in the last column, as it is elsewhere */
		term_go(t, now.row, t->grid[t->on].cols - 1);
	t->last_row = -1;
}

/* ---- its life */

int term_vt_create(struct term *t, int cols, int rows)
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

void term_vt_destroy(struct term *t)
{
	if (t->vt)
		vterm_free(t->vt);
	t->vt = NULL;
}

void term_vt_resize(struct term *t, int cols, int rows)
{
	vterm_set_size(t->vt, rows, cols);
}
