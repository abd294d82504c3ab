/* One operation on one content: hunks find their places, then the new content is written once. */
#include "files/patch.h"

#include "files/content.h"
#include "files/patch_lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a hunk goes: `old` lines from `at` on are what it replaces. */
struct place {
	uint32_t at, old, hunk;
};

struct work {
	const struct patch *p;
	const struct patch_op *op;
	struct lines lines;
	struct place *places; /* of the hunks so far */
	uint32_t hunk;        /* the one that is placed now, from 0 */
	uint32_t floor;       /* the first line behind the last hunk */
	int64_t drift;        /* how far the last hunk was from where it said */
	struct patch_error *err;
};

static const struct patch_hunk *hunk_now(const struct work *w)
{
	return &w->p->hunks[w->op->first_hunk + w->hunk];
}

/* --- errors */

static int __attribute__((format(printf, 3, 4))) refuse(struct work *w, enum patch_code code, const char *fmt, ...)
{
	struct patch_error *e = w->err;
	va_list ap;
	int n;

	e->code = code;
	e->hunk = w->op->hunks ? w->hunk + 1 : 0;
	e->line = w->op->hunks ? hunk_now(w)->number : w->op->line;
	n = snprintf(e->why, sizeof(e->why), "hunk %u (line %u of the patch) ", (unsigned)e->hunk, (unsigned)e->line);
	va_start(ap, fmt);
	vsnprintf(e->why + n, sizeof(e->why) - (size_t)n, fmt, ap);
	va_end(ap);
	return -1;
}

static int patch_no_memory(struct patch_error *err)
{
	err->code = PATCH_NO_MEMORY;
	snprintf(err->why, sizeof(err->why), "out of memory");
	return -1;
}

static int too_complex(struct work *w)
{
	return refuse(w, PATCH_TOO_COMPLEX,
		      "is too complex to place: give it the right line number, or split the patch");
}

static void quote_line(char out[PATCH_QUOTE], struct view v)
{
	content_quote(out, PATCH_QUOTE, v.p, v.n);
}

/* The first line of the nearest place that is not as expected. */
static void name_difference(struct work *w, const struct needle *d, uint32_t at)
{
	struct patch_error *e = w->err;

	for (uint32_t i = 0; i < d->n; i++) {
		struct view want = {d->lines[i]->p, d->lines[i]->n}, has = {"", 0};

		if (at + i < w->lines.count)
			has = lines_at(&w->lines, at + i);
		if (at + i < w->lines.count && view_same(want, has, LINES_TRIMMED))
			continue;
		e->differs = at + i < w->lines.count ? at + i + 1 : 0;
		e->line = d->lines[i]->number;
		quote_line(e->expected, want);
		quote_line(e->found, has);
		return;
	}
}

/* The new lines stand there already? */
static bool is_done(struct work *w, uint32_t *out_at)
{
	const struct patch_hunk *h = hunk_now(w);
	struct needle d;
	uint32_t at[2];
	bool found = false;

	if (needle_init(&d, w->p, h, '+') < 0)
		return false;
	if ((d.n > 1 || (d.n && d.lines[0]->n > 7)) &&
	    lines_find(&w->lines, &d, 0, w->lines.count, LINES_TRIMMED, at) > 0) {
		found = true;
		*out_at = at[0];
	}
	needle_free(&d);
	return found;
}

static int not_found(struct work *w, const struct needle *d)
{
	struct patch_error *e = w->err;
	uint32_t at = 0, equal;

	if (is_done(w, &at)) {
		e->near = at + 1;
		e->done = true;
		return refuse(w, PATCH_NOT_FOUND,
			      "does not fit, but its new lines stand at line %u: it may have been applied",
			      (unsigned)e->near);
	}
	equal = lines_near(&w->lines, d, &at);
	if (equal == 0) {
		quote_line(e->expected, (struct view){d->lines[0]->p, d->lines[0]->n});
		return refuse(w, PATCH_NOT_FOUND, "does not fit: nothing in the file is like its first line \"%s\"",
			      e->expected);
	}
	name_difference(w, d, at);
	e->near = at + 1;
	uint32_t line = e->line;
	if (e->differs)
		refuse(w, PATCH_NOT_FOUND, "does not fit. Nearest is line %u: line %u there is \"%s\", expected \"%s\"",
		       (unsigned)e->near, (unsigned)e->differs, e->found, e->expected);
	else
		refuse(w, PATCH_NOT_FOUND, "does not fit. Nearest is line %u: the file ends before \"%s\"",
		       (unsigned)e->near, e->expected);
	e->line = line;
	return -1;
}

static int ambiguous(struct work *w, uint32_t a, uint32_t b)
{
	w->err->near = a + 1;
	w->err->other = b + 1;
	return refuse(w, PATCH_AMBIGUOUS, "fits at line %u and at line %u: give it more lines of context",
		      (unsigned)a + 1, (unsigned)b + 1);
}

/* --- anchors */

/* The lines of one anchor from `from` on: how many (0, 1, 2: more), the first in *out_at. Also as a line's beginning.
 */
static int anchor_find(struct work *w, const struct patch_line *anchor, uint32_t from, uint32_t *out_at)
{
	struct view want = {anchor->p, anchor->n};
	int found = 0;

	for (int whole = 1; whole >= 0 && found == 0; whole--) {
		for (uint32_t line = from; line < w->lines.count && found < 2; line++) {
			struct view v = lines_at(&w->lines, line);

			if (w->lines.work == 0)
				return -1;
			w->lines.work--;
			for (; v.n && (*v.p == ' ' || *v.p == '\t'); v.p++)
				v.n--;
			if (!whole && v.n > want.n)
				v.n = want.n;
			if (view_same(v, want, LINES_TRIMMED) && found++ == 0)
				*out_at = line;
		}
	}
	return found;
}

/* From which line on the hunk is to be looked for. *out_one: its anchors name one line. */
static int anchors_pass(struct work *w, uint32_t *io_from, bool *out_one)
{
	const struct patch_hunk *h = hunk_now(w);

	*out_one = h->anchors > 0;
	for (uint32_t i = 0; i < h->anchors; i++) {
		const struct patch_line *anchor = &w->p->anchors[h->first_anchor + i];
		uint32_t at = 0;
		int found = anchor_find(w, anchor, *io_from, &at);

		if (found < 0)
			return too_complex(w);
		if (found == 0) {
			quote_line(w->err->expected, (struct view){anchor->p, anchor->n});
			return refuse(w, PATCH_NOT_FOUND, "names a line behind @@ that is not in the file: \"%s\"",
				      w->err->expected);
		}
		*out_one &= found == 1;
		*io_from = at + 1;
	}
	return 0;
}

/* --- places */

static void place_set(struct work *w, uint32_t at, uint32_t old)
{
	const struct patch_hunk *h = hunk_now(w);

	w->places[w->hunk] = (struct place){at, old, w->hunk};
	if (at + old > w->floor)
		w->floor = at + old;
	if (h->has_start)
		w->drift = (int64_t)at - ((int64_t)h->start - (old ? 1 : 0));
}

/* A hunk that adds alone: behind the line that it names, behind its anchor, or at the end. */
static int place_addition(struct work *w)
{
	const struct patch_hunk *h = hunk_now(w);
	uint32_t at = 0;
	bool one;

	if (h->has_start) {
		int64_t said = h->start + w->drift;

		if (said < 0 || said > w->lines.count)
			return refuse(w, PATCH_NOT_FOUND, "adds behind line %lld, and the file has %u lines",
				      (long long)said, (unsigned)w->lines.count);
		place_set(w, (uint32_t)said, 0);
		return 0;
	}
	if (h->anchors == 0) {
		place_set(w, w->lines.count, 0);
		return 0;
	}
	if (anchors_pass(w, &at, &one) < 0)
		return -1;
	if (!one)
		return refuse(w, PATCH_AMBIGUOUS,
			      "adds lines behind @@, and its line stands in the file more than once: "
			      "give it lines of context");
	place_set(w, at, 0);
	return 0;
}

/* The line that the hunk names, moved as the one before it was. */
static bool place_said(struct work *w, const struct needle *d, enum lines_level level)
{
	const struct patch_hunk *h = hunk_now(w);
	int64_t said = (int64_t)h->start - 1 + w->drift;

	if (!h->has_start || said < w->floor || said > w->lines.count ||
	    !lines_stand(&w->lines, d, (uint32_t)said, level))
		return false;
	place_set(w, (uint32_t)said, d->n);
	return true;
}

static bool place_at_end(struct work *w, const struct needle *d, enum lines_level level)
{
	uint32_t at = w->lines.count - d->n;

	if (!hunk_now(w)->at_end || d->n > w->lines.count || at < w->floor || !lines_stand(&w->lines, d, at, level))
		return false;
	place_set(w, at, d->n);
	return true;
}

/* 1: placed; 0: nowhere with lines compared so; -1 on an error. */
static int place_level(struct work *w, struct needle *d, uint32_t from, bool anchored, enum lines_level level)
{
	uint32_t at[2] = {0, 0}, count = w->lines.count;
	int found;

	if (place_said(w, d, level) || place_at_end(w, d, level))
		return 1;
	found = lines_find(&w->lines, d, from, count, level, at);
	if (found == 0 && from > 0)
		found = lines_find(&w->lines, d, 0, from + d->n - 1 < count ? from + d->n - 1 : count, level, at);
	else if (found == 2 && anchored)
		found = 1; /* the first one behind the one line that its anchor names */
	if (found < 0 || w->lines.work == 0)
		return too_complex(w);
	if (found == 2)
		return ambiguous(w, at[0], at[1]);
	if (found == 1)
		place_set(w, at[0], d->n);
	return found;
}

static int place_needle(struct work *w, struct needle *d)
{
	uint32_t from = w->op->form == PATCH_BLOCKS ? 0 : w->floor;
	bool anchored;
	int rc = anchors_pass(w, &from, &anchored);

	from -= hunk_now(w)->anchors > 0; /* the line behind @@ may be the first line of context, too */
	if (rc == 0)
		rc = place_level(w, d, from, anchored, LINES_EXACT);
	if (rc == 0)
		rc = place_level(w, d, from, anchored, LINES_TRIMMED);
	if (rc < 0)
		return -1;
	return rc ? 0 : not_found(w, d);
}

static int place_hunk(struct work *w)
{
	struct needle d;
	int rc;

	if (needle_init(&d, w->p, hunk_now(w), '-') < 0)
		return patch_no_memory(w->err);
	rc = d.n ? place_needle(w, &d) : place_addition(w);
	needle_free(&d);
	return rc;
}

static int place_order(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->hunk < y->hunk ? -1 : x->hunk > y->hunk;
}

static int place_all(struct work *w)
{
	const uint32_t n = w->op->hunks;

	for (w->hunk = 0; w->hunk < n; w->hunk++)
		if (place_hunk(w) < 0)
			return -1;
	qsort(w->places, n, sizeof(*w->places), place_order);
	for (uint32_t i = 1; i < n; i++) {
		const struct place *a = &w->places[i - 1], *b = &w->places[i];

		if (b->at >= a->at + a->old)
			continue;
		w->hunk = b->hunk;
		w->err->near = b->at + 1;
		return refuse(w, PATCH_OVERLAP, "changes line %u, which hunk %u changes too: make one hunk of them",
			      (unsigned)b->at + 1, (unsigned)a->hunk + 1);
	}
	return 0;
}

/* --- the new content */

struct writer {
	char *out;
	size_t n, room;
	bool last_added; /* the last line came from the patch */
	const struct patch_line *last;
};

static int writer_put(struct writer *x, const char *p, size_t n)
{
	if (n > x->room - x->n) {
		size_t room = x->room * 2 > x->n + n ? x->room * 2 : x->n + n + 64;
		char *grown = realloc(x->out, room + 1);

		if (!grown)
			return -1;
		x->out = grown;
		x->room = room;
	}
	if (n)
		memcpy(x->out + x->n, p, n);
	x->n += n;
	return 0;
}

/* A line can follow: the one before has its end. */
static int writer_line(struct writer *x, bool cr)
{
	if (x->n == 0 || x->out[x->n - 1] == '\n')
		return 0;
	return writer_put(x, cr ? "\r\n" : "\n", cr ? 2 : 1);
}

static int writer_keep(struct writer *x, const struct lines *l, uint32_t from, uint32_t to)
{
	if (from >= to)
		return 0;
	x->last_added = false;
	if (writer_line(x, lines_cr(l, from)) < 0)
		return -1;
	return writer_put(x, l->p + l->starts[from], l->starts[to] - l->starts[from]);
}

static int writer_add(struct writer *x, const struct patch_line *line, bool cr)
{
	x->last_added = true;
	x->last = line;
	if (writer_line(x, cr) < 0 || writer_put(x, line->p, line->n) < 0)
		return -1;
	return writer_put(x, cr ? "\r\n" : "\n", cr ? 2 : 1);
}

/* A patch with "\r\n" anywhere knows of line ends. */
static bool knows_ends(const struct work *w)
{
	const struct patch_hunk *last = &w->p->hunks[w->op->first_hunk + w->op->hunks - 1];

	for (uint32_t i = w->p->hunks[w->op->first_hunk].first_line; i < last->first_line + last->lines; i++)
		if (w->p->lines[i].cr)
			return true;
	return false;
}

/* Do the old lines of the hunk end as those of the file do? Then its new lines end as they say. */
static bool ends_agree(const struct work *w, const struct patch_hunk *h, const struct place *at, bool knows)
{
	uint32_t line = at->at;

	for (uint32_t i = 0; i < h->lines; i++) {
		const struct patch_line *l = &w->p->lines[h->first_line + i];

		if (l->sign == '+')
			continue;
		bool has_end = w->lines.starts[line + 1] < w->lines.n || w->lines.p[w->lines.n - 1] == '\n';
		if (has_end && l->cr != lines_cr(&w->lines, line))
			return false;
		line++;
	}
	return line > at->at || knows;
}

/* The end of the line before a place; a last line without any is passed over. */
static bool cr_around(const struct lines *l, uint32_t line)
{
	if (line == l->count && line > 1 && l->p[l->n - 1] != '\n')
		line--;
	return l->count && lines_cr(l, line ? line - 1 : 0);
}

static int write_hunk(struct work *w, struct writer *x, const struct place *at, bool knows)
{
	const struct patch_hunk *h = &w->p->hunks[w->op->first_hunk + at->hunk];
	bool agree = w->lines.count == 0 || ends_agree(w, h, at, knows);
	uint32_t line = at->at;

	for (uint32_t i = 0; i < h->lines; i++) {
		const struct patch_line *l = &w->p->lines[h->first_line + i];
		int rc = 0;

		if (l->sign == '+')
			rc = writer_add(x, l, agree ? l->cr : cr_around(&w->lines, line));
		else if (l->sign == ' ')
			rc = writer_keep(x, &w->lines, line, line + 1);
		line += l->sign != '+';
		if (rc < 0)
			return -1;
	}
	return 0;
}

/* The last line: without its newline where the patch says so, or where the file had none and the form cannot say. */
static void write_end(const struct work *w, struct writer *x)
{
	bool had_none = w->lines.n && w->lines.p[w->lines.n - 1] != '\n';
	bool none = w->op->form == PATCH_UNIFIED ? x->last_added && x->last->no_newline : x->last_added && had_none;

	if (none && x->n && x->out[x->n - 1] == '\n')
		x->n--;
	if (none && x->n && x->out[x->n - 1] == '\r')
		x->n--;
}

static int write_all(struct work *w, struct writer *x)
{
	bool knows = w->op->hunks && knows_ends(w);
	uint32_t line = 0;

	for (uint32_t i = 0; i < w->op->hunks; i++) {
		const struct place *at = &w->places[i];

		if (writer_keep(x, &w->lines, line, at->at) < 0 || write_hunk(w, x, at, knows) < 0)
			return patch_no_memory(w->err);
		line = at->at + at->old;
	}
	if (writer_keep(x, &w->lines, line, w->lines.count) < 0 || writer_put(x, "", 0) < 0)
		return patch_no_memory(w->err);
	write_end(w, x);
	w->hunk = 0;
	if (x->n > PATCH_FILE_MAX) {
		w->err->code = PATCH_TOO_LARGE;
		snprintf(w->err->why, sizeof(w->err->why), "the file would have more than 16 MiB");
		return -1;
	}
	if (w->op->kind == PATCH_DELETE && x->n && w->op->hunks) {
		w->err->code = PATCH_REMAINS;
		snprintf(w->err->why, sizeof(w->err->why),
			 "the patch deletes the file, and not all of its lines: %zu bytes remain", x->n);
		return -1;
	}
	return 0;
}

int patch_apply(const struct patch *p, uint32_t op, const char *content, size_t n, char **out, size_t *out_n,
		struct patch_error *err)
{
	struct work w = {.p = p, .op = &p->ops[op], .err = err};
	struct writer x = {.room = n + 256};
	int rc = -1;

	memset(err, 0, sizeof(*err));
	if (w.op->kind == PATCH_ADD) /* of nothing, whatever there is */
		n = 0;
	if (n > PATCH_FILE_MAX) {
		err->code = PATCH_TOO_LARGE;
		snprintf(err->why, sizeof(err->why), "the file has more than 16 MiB");
		return -1;
	}
	x.out = malloc(x.room + 1);
	w.places = calloc(w.op->hunks + 1, sizeof(*w.places));
	if (!x.out || !w.places || lines_init(&w.lines, content ? content : "", n) < 0) {
		patch_no_memory(err);
		goto out;
	}
	if (place_all(&w) < 0 || write_all(&w, &x) < 0)
		goto out;
	if (w.op->kind == PATCH_DELETE)
		x.n = 0;
	x.out[x.n] = 0;
	*out = x.out;
	*out_n = x.n;
	x.out = NULL;
	rc = 0;
out:
	lines_free(&w.lines);
	free(w.places);
	free(x.out);
	return rc;
}
