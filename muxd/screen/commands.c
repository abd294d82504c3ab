#include "muxd/screen/commands.h"

#include "base/err.h"
#include "base/text.h"
#include "muxd/screen/marks.h"
#include "muxd/screen/term.h"

#include <stdlib.h>
#include <string.h>

#define PROMPT_MAX 256
#define LINE_MAX   8192
#define ROWS_MAX   64 /* of one line */
#define REPLY_MAX  4096

enum keys_state { KEYS_GROUND, KEYS_ESCAPE, KEYS_CSI, KEYS_SS3, KEYS_STRING };

/* A line, while it is typed and until it was seen on the screen. */
struct typed {
	uint64_t input, ns;
	uint16_t hand;
	bool fresh, shared, truncated;
	bool edited; /* otherwise than by text and deletions at its end: text is not what it says */
	size_t n, nprompt;
	char text[COMMAND_TEXT_MAX], prompt[PROMPT_MAX];
};

struct commands {
	command_found *found;
	void *arg;
	struct typed line, waits[COMMANDS_WAITING];
	size_t nwaits;
	unsigned credit; /* lines that were entered: so many marks are believed to be about one */
	enum keys_state keys;
	unsigned argument; /* of a control sequence among the keys */
	size_t reply;
	bool leader, paste, paste_cr;
	struct typed last; /* that was entered, for a mark */
	size_t nprompt;    /* in front of the last command */
	char prompt[PROMPT_MAX];
	bool held; /* a command may yet get the words of a mark */
	struct command command;
	struct marks marks;
	struct mark mark;
	size_t nrow;
	char row[LINE_MAX];
};

int commands_create(command_found *found, void *arg, struct commands **out)
{
	struct commands *c = calloc(1, sizeof(*c));

	if (!c)
		return ERR_NOMEM;
	c->found = found;
	c->arg = arg;
	c->line.fresh = true;
	*out = c;
	return 0;
}

void commands_destroy(struct commands *c)
{
	free(c);
}

void commands_settle(struct commands *c)
{
	if (c->held)
		c->found(c->arg, &c->command);
	c->held = false;
}

static void commands_hold(struct commands *c, const struct typed *w, uint64_t at)
{
	commands_settle(c);
	c->command = (struct command){.at = at, .input = w->input, .ns = w->ns, .hand = w->hand, .shared = w->shared};
	c->held = true;
}

static void hold_text(struct commands *c, const struct typed *w, uint64_t at, const char *text, size_t n, bool prompt)
{
	if (!n)
		return; /* the prompt alone */
	commands_hold(c, w, at);
	c->command.prompt = prompt;
	c->command.truncated = w->truncated || n > COMMAND_TEXT_MAX;
	text_put_bytes(c->command.text, sizeof(c->command.text), text, n);
}

/* ---- what stands on the screen */

static bool row_full(const struct term_view *v, int row)
{
	const struct cell *end = grid_cell(v->main, row, v->cols - 1);

	if (end->chars[0] || end->width == 0)
		return true;
	/* A wide character that had no room in the last column. */
	return row + 1 < v->rows && grid_cell(v->main, row + 1, 0)->width == 2 && end[-1].chars[0];
}

/* The first `cols` cells, behind what is there; false: it has no room. */
static bool add_row(struct commands *c, const struct term_view *v, int row, int cols)
{
	for (int col = 0; col < cols; col++) {
		const struct cell *cell = grid_cell(v->main, row, col);

		if (c->nrow + CELL_TEXT_MAX > sizeof(c->row))
			return false;
		if (cell->chars[0])
			c->nrow += cell_text(cell, c->row + c->nrow);
		else if (cell->width)
			c->row[c->nrow++] = ' ';
	}
	return true;
}

static size_t trimmed(const char *p, size_t n)
{
	while (n && (p[n - 1] == ' ' || p[n - 1] == '\n' || p[n - 1] == '\t'))
		n--;
	return n;
}

static bool add_rows(struct commands *c, const struct term_view *v, int first, int last)
{
	c->nrow = 0;
	for (int row = first; row <= last; row++) {
		int cols = v->cols;

		/* The empty cell in front of a wide character that did not fit is nobody's. */
		if (row < last && !grid_cell(v->main, row, cols - 1)->chars[0] &&
		    grid_cell(v->main, row, cols - 1)->width)
			cols--;
		if (!add_row(c, v, row, cols))
			return false;
	}
	c->nrow = trimmed(c->row, c->nrow);
	return true;
}

static bool is(const char *a, size_t na, const char *b, size_t nb)
{
	return na == nb && memcmp(a, b, na) == 0;
}

/* May what stands in the row up to there be a prompt? */
static bool behind_prompt(const struct commands *c, const struct typed *w, size_t n)
{
	return n == 0 || c->row[n - 1] == ' ' || is(c->row, n, w->prompt, w->nprompt) ||
	       is(c->row, n, c->prompt, c->nprompt);
}

static void learn_prompt(struct commands *c, size_t n)
{
	if (n == 0 || n > sizeof(c->prompt))
		return;
	memcpy(c->prompt, c->row, n);
	c->nprompt = n;
}

static bool behind(const struct commands *c, const char *prompt, size_t n)
{
	return n && c->nrow >= n && memcmp(c->row, prompt, n) == 0;
}

/* Keys that a program took without an Enter stand in front of the line in what was typed, and are not on the screen. */
static bool end_stands(const struct commands *c, const struct typed *w, size_t n, size_t *out_prompt)
{
	if (behind(c, c->prompt, c->nprompt))
		*out_prompt = c->nprompt;
	else if (behind(c, w->prompt, w->nprompt))
		*out_prompt = w->nprompt;
	else
		return false;
	size_t rest = c->nrow - *out_prompt;

	return rest && rest < n && memcmp(w->text + n - rest, c->row + *out_prompt, rest) == 0;
}

/* Is the row in hand a prompt and these n bytes, the first line of what was typed? *out_from: but for so many. */
static bool first_line_stands(struct commands *c, const struct typed *w, size_t n, size_t *out_from)
{
	size_t prompt = c->nrow - n;

	*out_from = 0;
	if (c->nrow < n || memcmp(c->row + prompt, w->text, n) != 0 || !behind_prompt(c, w, prompt)) {
		if (!end_stands(c, w, n, &prompt))
			return false;
		*out_from = n - (c->nrow - prompt);
	}
	learn_prompt(c, prompt);
	return true;
}

/* Do the first n bytes of what was typed stand in the rows up to `last`, line by line from the end? */
static bool plain_stands(struct commands *c, const struct term_view *v, const struct typed *w, int last, size_t n,
			 size_t *out_from)
{
	size_t from = n, npart;

	while (from && w->text[from - 1] != '\n')
		from--;
	npart = trimmed(w->text + from, n - from);
	for (int first = last; first >= 0 && last - first < ROWS_MAX; first--) {
		if ((first < last && !row_full(v, first)) || !add_rows(c, v, first, last))
			return false;
		if (from == 0 && first_line_stands(c, w, npart, out_from))
			return true;
		if (from && is(c->row, c->nrow, w->text + from, npart))
			return first > 0 && plain_stands(c, v, w, first - 1, from - 1, out_from);
	}
	return false;
}

/* Where the command begins in c->row, which then holds its line. */
static bool edited_stands(struct commands *c, const struct term_view *v, const struct typed *w, int last,
			  size_t *out_from)
{
	int first = last;

	while (last + 1 < v->rows && last - first < ROWS_MAX && row_full(v, last))
		last++;
	for (;; first--) {
		if (!add_rows(c, v, first, last))
			return false;
		if (behind(c, w->prompt, w->nprompt))
			*out_from = w->nprompt;
		else if (behind(c, c->prompt, c->nprompt))
			*out_from = c->nprompt;
		else if (first > 0 && last - first < ROWS_MAX && row_full(v, first - 1))
			continue;
		else
			break;
		learn_prompt(c, *out_from);
		return true;
	}
	*out_from = 0;
	return w->nprompt == 0;
}

static void told(struct commands *c, size_t n)
{
	c->nwaits -= n;
	memmove(c->waits, c->waits + n, c->nwaits * sizeof(c->waits[0]));
}

static bool look_for(struct commands *c, const struct term_view *v, const struct typed *w, uint64_t at)
{
	size_t from;

	if (!w->edited && !w->truncated) {
		if (!plain_stands(c, v, w, v->cursor.row, w->n, &from))
			return false;
		hold_text(c, w, at, w->text + from, trimmed(w->text + from, w->n - from), false);
		return true;
	}
	if (!edited_stands(c, v, w, v->cursor.row, &from))
		return false;
	hold_text(c, w, at, c->row + from, c->nrow - from, from == 0);
	return true;
}

/* The cursor is about to leave its line. */
static void commands_look(struct commands *c, const struct term *t, uint64_t at)
{
	struct term_view v;

	term_view(t, &v);
	if (v.on_alt)
		return;
	for (size_t i = 0; i < c->nwaits; i++)
		if (look_for(c, &v, &c->waits[i], at)) {
			told(c, i + 1);
			return;
		}
	/* An edited line is read when it is left, or not at all. */
	if (c->nwaits && (c->waits[0].edited || c->waits[0].truncated))
		told(c, 1);
}

static void take_mark(struct commands *c, uint64_t at)
{
	struct mark *m = &c->mark;

	if (!c->credit)
		return; /* nobody entered a line that it could be about */
	c->credit--;
	if (!c->held || c->command.mark[0])
		commands_hold(c, &c->last, at);
	c->command.at = at;
	c->command.mark_truncated = m->ncommand > COMMAND_TEXT_MAX;
	text_put_bytes(c->command.mark, sizeof(c->command.mark), m->command, m->ncommand);
	if (m->nnonce <= COMMAND_NONCE_MAX)
		text_put_bytes(c->command.nonce, sizeof(c->command.nonce), m->nonce, m->nnonce);
}

static size_t uneventful(const struct commands *c, const uint8_t *p, size_t n)
{
	const uint8_t *lf = c->nwaits ? memchr(p, '\n', n) : NULL, *esc;

	n = lf ? (size_t)(lf - p) : n;
	esc = memchr(p, 0x1b, n);
	return esc ? (size_t)(esc - p) : n;
}

void commands_output(struct commands *c, struct term *t, uint64_t offset, const uint8_t *p, size_t n)
{
	size_t fed = 0;

	for (size_t at = 0; at < n && (c->nwaits || c->credit);) {
		if (marks_between(&c->marks) && (at += uneventful(c, p + at, n - at)) == n)
			break;
		if (p[at] == '\n' && marks_between(&c->marks)) {
			term_feed(t, p + fed, at - fed);
			fed = at;
			commands_look(c, t, offset + at + 1);
		}
		if (marks_byte(&c->marks, p[at++], &c->mark))
			take_mark(c, offset + at);
	}
	if (!c->nwaits && !c->credit)
		c->marks.state = MARKS_BETWEEN;
	term_feed(t, p + fed, n - fed);
}

void commands_cut(struct commands *c)
{
	c->marks.state = MARKS_BETWEEN;
}

/* ---- keys */

static void line_reset(struct commands *c)
{
	c->line.fresh = true;
	c->line.shared = c->line.truncated = c->line.edited = false;
	c->line.n = c->line.nprompt = 0;
	c->paste = c->paste_cr = false;
}

/* The prompt is what stands in front of the cursor when the first key comes. */
static void line_begin(struct commands *c, const struct term *t, uint16_t hand)
{
	struct term_view v;

	if (c->line.fresh) {
		c->line.fresh = false;
		c->line.hand = hand;
		c->nrow = 0;
		term_view(t, &v);
		if (!v.on_alt && add_row(c, &v, v.cursor.row, v.cursor.col) && c->nrow <= sizeof(c->line.prompt)) {
			memcpy(c->line.prompt, c->row, c->nrow);
			c->line.nprompt = c->nrow;
		}
	}
	if (c->line.hand != hand)
		c->line.shared = true;
	c->line.hand = hand;
}

static void line_add(struct commands *c, uint8_t byte)
{
	if (c->line.n < sizeof(c->line.text))
		c->line.text[c->line.n++] = (char)byte;
	else
		c->line.truncated = true;
}

static void line_delete(struct commands *c)
{
	if (c->line.truncated)
		c->line.edited = true;
	while (c->line.n && ((uint8_t)c->line.text[--c->line.n] & 0xc0) == 0x80)
		;
}

static void line_enter(struct commands *c, const struct term *t, const struct command_keys *k, size_t at)
{
	struct term_view v;

	term_view(t, &v);
	if (!v.on_alt && (c->line.n || c->line.edited)) {
		if (c->nwaits == COMMANDS_WAITING)
			told(c, 1);
		c->line.input = k->offset + at + 1;
		c->line.ns = k->ns;
		c->waits[c->nwaits++] = c->last = c->line;
		c->credit += c->credit < COMMANDS_WAITING;
	}
	line_reset(c);
}

static void in_paste(struct commands *c, uint8_t byte)
{
	bool second = byte == '\n' && c->paste_cr;

	c->paste_cr = byte == '\r';
	if (byte == '\r' || byte == '\n') {
		if (!second)
			line_add(c, '\n');
	} else if (byte >= 0x20 && byte != 0x7f) {
		line_add(c, byte);
	} else {
		c->line.edited = true; /* a Tab, or what is shown as ^X */
	}
}

static void plain_key(struct commands *c, const struct term *t, const struct command_keys *k, size_t at)
{
	uint8_t byte = k->p[at];

	if (c->paste) {
		in_paste(c, byte);
	} else if (byte == '\r' || byte == '\n') {
		line_enter(c, t, k, at);
	} else if (byte == 0x03 || byte == 0x1a || byte == 0x1c || (byte == 0x04 && !c->line.n && !c->line.edited)) {
		line_reset(c); /* Ctrl-C, Ctrl-Z, Ctrl-\, an end of file */
	} else if (byte == 0x7f || byte == 0x08) {
		line_delete(c);
	} else if (byte == 0x15) {
		c->line.n = 0;
	} else if (byte < 0x20) {
		c->line.edited = true;
	} else {
		line_add(c, byte);
	}
}

/* A terminal answers what it was asked, and tells of its mouse and focus, on the way of the keys. */
static bool is_answer(uint8_t final, bool leader)
{
	return final == 'R' || final == 'c' || final == 'n' || final == 'I' || final == 'O' || final == 'y' ||
	       final == 't' || final == 'M' || final == 'm' || (leader && final == 'u');
}

/* No key: the line begins with the next one. */
static void answered(struct commands *c)
{
	c->line.fresh = !c->line.n && !c->line.edited && !c->paste;
}

static void csi_key(struct commands *c, uint8_t byte)
{
	if (byte >= '0' && byte <= '9') {
		c->argument = c->argument < 1000 ? c->argument * 10 + (byte - '0') : c->argument;
	} else if (byte >= 0x20 && byte < 0x40) {
		c->leader = c->leader || byte == '?' || byte == '<';
		c->argument = byte == ';' ? 1000 : c->argument; /* none of a paste */
	} else {
		c->keys = KEYS_GROUND;
		if (byte == '~' && (c->argument == 200 || c->argument == 201))
			c->paste = c->argument == 200;
		else if (is_answer(byte, c->leader))
			answered(c);
		else
			c->line.edited = true;
	}
}

static void escape_key(struct commands *c, uint8_t byte)
{
	c->argument = 0;
	c->reply = 0;
	c->leader = false;
	c->keys = byte == '['                  ? KEYS_CSI
		  : byte == 'O'                ? KEYS_SS3
		  : byte == ']' || byte == 'P' ? KEYS_STRING
		  : byte == 0x1b               ? KEYS_ESCAPE
					       : KEYS_GROUND;
	if (c->keys == KEYS_GROUND && byte != '\\')
		c->line.edited = true; /* a key with Alt, or Escape before one */
}

static void one_key(struct commands *c, const struct term *t, const struct command_keys *k, size_t at)
{
	uint8_t byte = k->p[at];
	bool enter = byte == '\r' || byte == '\n';

	if (!(enter && c->line.fresh))
		line_begin(c, t, k->hand);
	if (c->keys != KEYS_GROUND && enter && !c->paste) {
		c->keys = KEYS_GROUND;
		c->line.edited = true;
	}
	if (c->keys == KEYS_GROUND && byte == 0x1b)
		c->keys = KEYS_ESCAPE;
	else if (c->keys == KEYS_GROUND)
		plain_key(c, t, k, at);
	else if (c->keys == KEYS_ESCAPE)
		escape_key(c, byte);
	else if (c->keys == KEYS_CSI)
		csi_key(c, byte);
	else if (c->keys == KEYS_SS3) {
		c->keys = KEYS_GROUND;
		c->line.edited = true;
	} else if (byte == 0x07 || byte == 0x1b || ++c->reply == REPLY_MAX) {
		c->keys = byte == 0x1b ? KEYS_ESCAPE : KEYS_GROUND;
		answered(c);
	}
}

void commands_keys(struct commands *c, const struct term *t, const struct command_keys *k)
{
	commands_settle(c);
	if (!c->nwaits)
		c->credit = 0; /* whatever could be marked has been */
	if (k->hidden) {
		line_reset(c);
		c->keys = KEYS_GROUND;
		return;
	}
	for (size_t i = 0; i < k->n; i++)
		one_key(c, t, k, i);
}
