/*
 * What was typed as lines: Enter ends one, and every other key is there to be seen, as visible.h shows it.
 *
 * The output as plain lines. Control sequences are taken out; within a line the
 * cursor is followed (carriage return, backspace, EL, and moves along the line),
 * so a progress bar leaves its last state. A move to another line ends the line:
 * this is a reading copy, not a screen.
 */
#include "base/err.h"
#include "base/utf8.h"
#include "base/visible.h"
#include "recorder/export/export_out.h"
#include "recorder/format/event.h"
#include "recorder/format/trunc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CELLS_MAX  8192 /* a longer line is handed on in pieces */
#define OSC_MAX    4096 /* an unfinished string must not swallow the rest of the text */
#define STRING_MAX (1024 * 1024)

enum text_state { TEXT_GROUND, TEXT_ESCAPE, TEXT_INTERMEDIATE, TEXT_CSI, TEXT_STRING, TEXT_STRING_ESCAPE };

struct export_text {
	struct export *x;
	enum text_state state;
	uint32_t cells[CELLS_MAX];
	size_t len, at;    /* cells in the line; the cursor */
	unsigned param;    /* first parameter of a CSI */
	bool param_closed; /* a ';' came */
	size_t string_left;
	bool entered; /* typed: the last key was the Enter of a CR, so that a LF behind it ends no second line */
	struct visible seen;
};

int export_text_create(struct export *x, struct export_text **out)
{
	struct export_text *t = calloc(1, sizeof *t);

	if (!t)
		return ERR_NOMEM;
	t->x = x;
	*out = t;
	return 0;
}

void export_text_destroy(struct export_text *t)
{
	free(t);
}

static int put_cell(struct buf *b, uint32_t cp)
{
	uint8_t p[4];

	return buf_append(b, p, utf8_put(cp, p));
}

static int put_cells(struct export_text *t)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < t->len; i++)
		rc = put_cell(&t->x->out, t->cells[i]);
	t->len = t->at = 0;
	return rc;
}

static int end_line(struct export_text *t)
{
	int rc = put_cells(t);

	return rc ? rc : buf_append(&t->x->out, "\n", 1);
}

/* The cursor leaves the line: what is on it is a line of its own. */
static int leave_line(struct export_text *t)
{
	return t->len ? end_line(t) : 0;
}

static int text_put_char(struct export_text *t, uint32_t cp)
{
	if (t->at >= CELLS_MAX) {
		int rc = put_cells(t);
		if (rc)
			return rc;
	}
	while (t->len < t->at)
		t->cells[t->len++] = ' ';
	t->cells[t->at++] = cp;
	if (t->at > t->len)
		t->len = t->at;
	return 0;
}

static void erase_line(struct export_text *t)
{
	if (t->param == 0 && t->len > t->at)
		t->len = t->at;
	for (size_t i = 0; t->param == 1 && i <= t->at && i < t->len; i++)
		t->cells[i] = ' ';
	if (t->param == 2)
		t->len = 0;
}

static void delete_chars(struct export_text *t, size_t n)
{
	if (t->at >= t->len)
		return;
	if (n > t->len - t->at)
		n = t->len - t->at;
	memmove(t->cells + t->at, t->cells + t->at + n, (t->len - t->at - n) * sizeof *t->cells);
	t->len -= n;
}

static void insert_blanks(struct export_text *t, size_t n)
{
	if (t->at >= t->len || n > CELLS_MAX - t->len)
		return;
	memmove(t->cells + t->at + n, t->cells + t->at, (t->len - t->at) * sizeof *t->cells);
	for (size_t i = 0; i < n; i++)
		t->cells[t->at + i] = ' ';
	t->len += n;
}

static int end_csi(struct export_text *t, uint32_t final)
{
	size_t n = t->param ? t->param : 1;

	t->state = TEXT_GROUND;
	switch (final) {
	case 'K':
		erase_line(t);
		return 0;
	case 'C':
		t->at = t->at + n < CELLS_MAX ? t->at + n : CELLS_MAX - 1;
		return 0;
	case 'D':
		t->at = t->at > n ? t->at - n : 0;
		return 0;
	case 'G':
	case '`':
		t->at = n - 1 < CELLS_MAX ? n - 1 : CELLS_MAX - 1;
		return 0;
	case 'P':
		delete_chars(t, n);
		return 0;
	case '@':
		insert_blanks(t, n);
		return 0;
	case 'A':
	case 'B':
	case 'E':
	case 'F':
	case 'H':
	case 'J':
	case 'L':
	case 'M':
	case 'd':
	case 'f':
		return leave_line(t);
	default:
		return 0;
	}
}

static int export_text_control(struct export_text *t, uint32_t cp)
{
	switch (cp) {
	case '\n':
	case '\v':
	case '\f':
		return end_line(t);
	case '\r':
		t->at = 0;
		return 0;
	case '\b':
		t->at -= t->at > 0;
		return 0;
	case '\t':
		return text_put_char(t, cp);
	case 0x18:
	case 0x1a:
		t->state = TEXT_GROUND;
		return 0;
	case 0x1b:
		t->state = TEXT_ESCAPE;
		return 0;
	default:
		return 0;
	}
}

static int after_escape(struct export_text *t, uint32_t cp)
{
	t->state = TEXT_GROUND;
	switch (cp) {
	case '[':
		t->state = TEXT_CSI;
		t->param = 0;
		t->param_closed = false;
		return 0;
	case ']':
	case 'P':
	case 'X':
	case '^':
	case '_':
		t->state = TEXT_STRING;
		t->string_left = cp == ']' ? OSC_MAX : STRING_MAX;
		return 0;
	case 'D':
	case 'E':
	case 'M':
	case 'c':
		return leave_line(t);
	default:
		if (cp >= 0x20 && cp <= 0x2f)
			t->state = TEXT_INTERMEDIATE;
		return 0;
	}
}

static int in_csi(struct export_text *t, uint32_t cp)
{
	if (cp >= '0' && cp <= '9' && !t->param_closed) {
		if (t->param < 100000)
			t->param = t->param * 10 + (cp - '0');
	} else if (cp == ';' || cp == ':') {
		t->param_closed = true;
	} else if (cp >= 0x40 && cp <= 0x7e) {
		return end_csi(t, cp);
	} else if (cp > 0x7e) { /* no sequence holds this: it was none */
		t->state = TEXT_GROUND;
		return text_put_char(t, cp);
	}
	return 0;
}

static void in_string(struct export_text *t, uint32_t cp)
{
	if (cp == 0x07 || cp == 0x18 || cp == 0x1a || cp == 0x9c || --t->string_left == 0)
		t->state = TEXT_GROUND;
	else if (cp == 0x1b)
		t->state = TEXT_STRING_ESCAPE;
}

static int one_char(void *arg, uint32_t cp, const uint8_t *p, size_t n)
{
	struct export_text *t = arg;

	(void)p;
	(void)n;
	if (t->state == TEXT_STRING) {
		in_string(t, cp);
		return 0;
	}
	if (t->state == TEXT_STRING_ESCAPE) {
		t->state = TEXT_GROUND;
		return cp == '\\' ? 0 : after_escape(t, cp);
	}
	if (cp >= 0x80 && cp < 0xa0) /* a C1 control is ESC and a letter in one */
		return after_escape(t, cp - 0x40);
	if (cp < 0x20)
		return export_text_control(t, cp);
	if (cp == 0x7f)
		return 0;
	switch (t->state) {
	case TEXT_ESCAPE:
		return after_escape(t, cp);
	case TEXT_INTERMEDIATE:
		if (cp > 0x2f)
			t->state = TEXT_GROUND;
		return 0;
	case TEXT_CSI:
		return in_csi(t, cp);
	default:
		return text_put_char(t, cp);
	}
}

static int typed_char(void *arg, uint32_t cp, const uint8_t *p, size_t n)
{
	struct export_text *t = arg;
	char shown[VISIBLE_STEP_MAX];
	bool second = cp == '\n' && t->entered;
	size_t len = 0;
	int rc = 0;

	t->entered = cp == '\r';
	if (cp == '\r' || cp == '\n') {
		t->seen = (struct visible){0};
		return second ? 0 : end_line(t);
	}
	(void)visible_step(&t->seen, p, n, VISIBLE_LINES, shown, &len);
	for (size_t i = 0, used; !rc && i < len; i += used) {
		used = utf8_step((const uint8_t *)shown + i, len - i, &cp);
		rc = used ? text_put_char(t, cp) : ERR_INTERNAL;
	}
	return rc;
}

static export_char *char_of(const struct export_text *t)
{
	return t->x->options->stream == EXPORT_INPUT ? typed_char : one_char;
}

static int put_gap(struct export_text *t, const struct ring_record *rec)
{
	struct export *x = t->x;
	int rc = export_utf8_feed(&x->utf8[rec->stream], NULL, 0, true, char_of(t), t, &x->result.invalid_bytes);

	t->state = TEXT_GROUND;
	if (!rc)
		rc = leave_line(t);
	return rc ? rc
		  : buf_printf(&x->out, "[... %" PRIu64 " bytes %s ...]\n", event_extent(rec),
			       rec->type == EVENT_GAP ? "left out" : "missing from the journal");
}

/* Whose input follows. */
static int put_typist(struct export_text *t, const struct ring_record *rec)
{
	const char *event = "", *who = "";
	char shown[256];
	json_t *o = NULL;
	int rc = 0;

	if (json_parse(rec->payload, rec->len, RING_RECORD_MAX, &o, NULL))
		return 0;
	(void)json_opt_str(o, "event", &event, NULL); /* one that is no text is no input event */
	(void)json_opt_str(o, "principal", &who, NULL);
	if (strcmp(event, "input") == 0) {
		visible_put(shown, sizeof(shown), who, strlen(who), 0);
		rc = leave_line(t);
		if (!rc)
			rc = buf_printf(&t->x->out, "[%s types]\n", shown);
	}
	json_decref(o);
	return rc;
}

int export_text_event(struct export_text *t, const struct ring_record *rec, struct err *e)
{
	struct export *x = t->x;
	int rc = 0;

	if (rec->type == RING_DATA)
		rc = export_utf8_feed(&x->utf8[rec->stream], rec->payload, rec->len, false, char_of(t), t,
				      &x->result.invalid_bytes);
	else if (rec->type == EVENT_GAP || rec->type == EVENT_MISSING)
		rc = put_gap(t, rec);
	else if (rec->type == RING_EVENT && x->options->stream == EXPORT_INPUT)
		rc = put_typist(t, rec);
	return rc ? err_set(e, rc, "no memory for a text export") : 0;
}

int export_text_end(struct export_text *t, struct err *e)
{
	struct export *x = t->x;
	int rc = 0;

	for (unsigned i = 0; !rc && i < STREAM_COUNT; i++)
		rc = export_utf8_feed(&x->utf8[i], NULL, 0, true, char_of(t), t, &x->result.invalid_bytes);
	if (!rc)
		rc = leave_line(t);
	return rc ? err_set(e, rc, "no memory for a text export") : 0;
}
