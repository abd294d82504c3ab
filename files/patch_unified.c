/* Unified diffs, of diff, of git, and as models write them. */
#include "files/patch_forms.h"

#include <stdlib.h>
#include <string.h>

/* The lines before the hunks of one file. Names are views of the patch, or of `own`. */
struct head {
	uint32_t line;
	bool git, added, deleted, rename, copy;
	struct patch_text git_names; /* behind "diff --git" */
	struct patch_text from, to;  /* of renames and copies */
	struct patch_text old, new;  /* of --- and +++ */
	unsigned mode;
	char *own[4]; /* names that were quoted */
	unsigned n_own;
};

/* --- names */

static int unquote_one(const char *p, size_t n, size_t *at)
{
	static const char from[] = "abtnvfr\"\\", to[] = "\a\b\t\n\v\f\r\"\\";
	char c = p[(*at)++];
	const char *known;

	if (c != '\\' || *at == n)
		return (unsigned char)c;
	c = p[(*at)++];
	known = memchr(from, c, sizeof(from) - 1);
	if (known)
		return (unsigned char)to[known - from];
	if (c < '0' || c > '3' || n - *at < 2 || p[*at] < '0' || p[*at] > '7' || p[*at + 1] < '0' || p[*at + 1] > '7')
		return -1;
	int value = (c - '0') << 6 | (p[*at] - '0') << 3 | (p[*at + 1] - '0');
	*at += 2;
	return value & 0xff;
}

/* A name that git wrote in quotes (core.quotePath), or as it is. -1: not well formed. */
static int unquote(struct head *h, struct patch_text *t)
{
	size_t n = 0, at = 1;
	char *own;

	if (t->n < 2 || t->p[0] != '"')
		return 0;
	if (t->p[t->n - 1] != '"' || h->n_own == sizeof(h->own) / sizeof(h->own[0]))
		return -1;
	own = malloc(t->n);
	if (!own)
		return -1;
	h->own[h->n_own++] = own;
	while (at < t->n - 1) {
		int c = unquote_one(t->p, t->n - 1, &at);

		if (c < 0)
			return -1;
		own[n++] = (char)c;
	}
	t->p = own;
	t->n = (uint32_t)n;
	return 0;
}

static bool same(struct patch_text a, struct patch_text b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static bool is_null(struct patch_text t)
{
	return text_is(t, "/dev/null");
}

static bool has_prefix(struct patch_text t, const char *letters)
{
	return t.n > 2 && t.p[1] == '/' && strchr(letters, t.p[0]) != NULL;
}

/* Takes a/ and b/ away, where both names have them or one is /dev/null: diff.mnemonicPrefix has other letters. */
static void strip_prefixes(struct patch_text *a, struct patch_text *b)
{
	bool a_null = is_null(*a), b_null = is_null(*b);
	bool a_has = has_prefix(*a, a_null ? "" : "aciow"), b_has = has_prefix(*b, b_null ? "" : "bciow");

	if ((!a_has && !a_null) || (!b_has && !b_null) || (a_has && b_has && a->p[0] == b->p[0]))
		return;
	if (a_has)
		*a = (struct patch_text){a->p + 2, a->n - 2, a->cr};
	if (b_has)
		*b = (struct patch_text){b->p + 2, b->n - 2, b->cr};
}

/* A name behind --- or +++: without the time that follows a tab. */
static struct patch_text name_of(struct patch_text t, const char *mark)
{
	const char *tab;

	t = text_after(t, mark);
	tab = t.n ? memchr(t.p, '\t', t.n) : NULL;
	if (tab)
		t.n = (uint32_t)(tab - t.p);
	return text_trim(t);
}

/* "a/x b/x" without --- and +++: the two halves are equal but for their first letters. */
static int git_names(struct patch_reader *r, struct head *h)
{
	struct patch_text t = h->git_names;
	uint32_t half = t.n / 2;

	if (t.n && t.p[0] == '"') {
		const char *end = memchr(t.p + 1, '"', t.n - 1);

		while (end && end[-1] == '\\')
			end = memchr(end + 1, '"', t.n - (size_t)(end + 1 - t.p));
		half = end ? (uint32_t)(end + 1 - t.p) : 0;
	}
	if (half == 0 || half >= t.n || t.p[half] != ' ')
		return reader_bad(r, PATCH_MALFORMED, h->line,
				  "two names that differ, and no \"rename from\" behind them");
	h->old = (struct patch_text){t.p, half, false};
	h->new = (struct patch_text){t.p + half + 1, t.n - half - 1, false};
	return 0;
}

/* --- what stands before the hunks */

static unsigned mode_of(struct patch_text t)
{
	unsigned mode = 0;

	for (uint32_t i = 0; i < t.n && t.p[i] >= '0' && t.p[i] <= '7' && mode < 01000000; i++)
		mode = mode << 3 | (unsigned)(t.p[i] - '0');
	return mode & 07777;
}

static bool names_begin(const struct patch_reader *r, uint32_t line)
{
	return text_begins(reader_line(r, line), "--- ") && text_begins(reader_line(r, line + 1), "+++ ");
}

bool unified_begins(const struct patch_reader *r, uint32_t line)
{
	return text_begins(reader_line(r, line), "diff --git ") || names_begin(r, line);
}

/* One line of git's own: 1 when it was one, 0 when not, -1 on an error. */
static int head_line(struct patch_reader *r, struct head *h, struct patch_text t)
{
	static const char *const passed[] = {"old mode ", "similarity index ", "dissimilarity index ", "index "};

	if (text_begins(t, "Binary files ") || text_begins(t, "GIT binary patch"))
		return reader_bad(r, PATCH_UNSUPPORTED, r->at,
				  "patches of binary files are not supported: write the file whole");
	if (text_begins(t, "new mode ")) {
		h->mode = mode_of(text_after(t, "new mode "));
	} else if (text_begins(t, "new file mode ")) {
		h->added = true;
		h->mode = mode_of(text_after(t, "new file mode "));
		if (text_begins(text_after(t, "new file mode "), "12"))
			return reader_bad(r, PATCH_UNSUPPORTED, r->at, "patches of symbolic links are not supported");
	} else if (text_begins(t, "deleted file mode ")) {
		h->deleted = true;
	} else if (text_begins(t, "rename from ") || text_begins(t, "copy from ")) {
		h->rename |= t.p[0] == 'r';
		h->copy |= t.p[0] == 'c';
		h->from = text_after(t, t.p[0] == 'r' ? "rename from " : "copy from ");
	} else if (text_begins(t, "rename to ") || text_begins(t, "copy to ")) {
		h->to = text_after(t, t.p[0] == 'r' ? "rename to " : "copy to ");
	} else {
		for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
			if (text_begins(t, passed[i]))
				return 1;
		return 0;
	}
	return 1;
}

static int head_read(struct patch_reader *r, struct head *h)
{
	struct patch_text t = reader_line(r, r->at);
	int rc = 1;

	h->line = r->at;
	if (text_begins(t, "diff --git ")) {
		h->git = true;
		h->git_names = text_after(t, "diff --git ");
		for (r->at++; rc > 0; r->at += rc > 0) {
			rc = head_line(r, h, reader_line(r, r->at));
			if (rc < 0)
				return -1;
		}
	}
	if (names_begin(r, r->at)) {
		h->old = name_of(reader_line(r, r->at), "--- ");
		h->new = name_of(reader_line(r, r->at + 1), "+++ ");
		r->at += 2;
	} else if (!h->rename && !h->copy) {
		return git_names(r, h);
	}
	return 0;
}

/* foo.c.orig and foo.c are foo.c. */
static bool is_backup(struct patch_text old, struct patch_text new)
{
	static const char *const ends[] = {".orig", ".old", ".bak", "~"};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t n = strlen(ends[i]);

		if (old.n == new.n + n && memcmp(old.p, new.p, new.n) == 0 && memcmp(old.p + new.n, ends[i], n) == 0)
			return true;
	}
	return false;
}

static struct patch_op *head_op_of(struct patch_reader *r, struct head *h)
{
	bool added = h->added || is_null(h->old), deleted = h->deleted || is_null(h->new);

	if (h->rename || h->copy) {
		struct patch_op *op = reader_op(r, PATCH_UPDATE, PATCH_UNIFIED, h->from, h->line);

		if (!op || reader_to(r, h->to, h->line) < 0)
			return NULL;
		op->copy = h->copy;
		return op;
	}
	strip_prefixes(&h->old, &h->new);
	if (added && deleted) {
		reader_bad(r, PATCH_MALFORMED, h->line, "both names are /dev/null");
		return NULL;
	}
	if (added)
		return reader_op(r, PATCH_ADD, PATCH_UNIFIED, h->new, h->line);
	if (deleted)
		return reader_op(r, PATCH_DELETE, PATCH_UNIFIED, h->old, h->line);
	if (!same(h->old, h->new) && !is_backup(h->old, h->new)) {
		reader_bad(r, PATCH_MALFORMED, h->line,
			   "the two names differ: say \"rename from\" and \"rename to\", or write one name");
		return NULL;
	}
	return reader_op(r, PATCH_UPDATE, PATCH_UNIFIED, h->new, h->line);
}

static int head_op(struct patch_reader *r, struct head *h)
{
	struct patch_op *op;

	if (unquote(h, &h->old) < 0 || unquote(h, &h->new) < 0 || unquote(h, &h->from) < 0 || unquote(h, &h->to) < 0)
		return reader_bad(r, PATCH_MALFORMED, h->line, "a name in quotes is not well formed");
	op = head_op_of(r, h);
	if (op)
		op->mode = h->mode;
	return op ? 0 : -1;
}

/* --- hunks */

static bool number(struct patch_text *t, uint32_t *out)
{
	uint32_t v = 0, digits = 0;

	for (; t->n && *t->p >= '0' && *t->p <= '9'; digits++, t->p++, t->n--)
		v = v > 100000000 ? v : v * 10 + (uint32_t)(*t->p - '0');
	*out = v;
	return digits > 0;
}

static bool eat(struct patch_text *t, char c)
{
	if (!t->n || *t->p != c)
		return false;
	t->p++;
	t->n--;
	return true;
}

bool unified_numbers(struct patch_text t, uint32_t *out_start, uint32_t *out_old, uint32_t *out_new)
{
	uint32_t start, old = 1, new_start, new = 1;

	t = text_after(t, "@@");
	if (!eat(&t, '-') || !number(&t, &start) || (eat(&t, ',') && !number(&t, &old)))
		return false;
	t = text_trim(t);
	if (!eat(&t, '+') || !number(&t, &new_start) || (eat(&t, ',') && !number(&t, &new)))
		return false;
	*out_start = start;
	*out_old = old;
	*out_new = new;
	return true;
}

/* A hunk while it is read: what its first line promised and did not come yet. */
struct body {
	bool counted;
	uint32_t old_left, new_left;
};

static bool body_full(const struct body *b)
{
	return b->counted && b->old_left == 0 && b->new_left == 0;
}

static int body_add(struct patch_reader *r, struct body *b, char sign, struct patch_text t)
{
	if (sign != '+' && b->old_left)
		b->old_left--;
	if (sign != '-' && b->new_left)
		b->new_left--;
	return reader_add(r, sign, t, r->at++);
}

/* Do the names of the next file stand at this line? "--- x" may also take away "-- x". */
static bool next_file(const struct patch_reader *r, const struct body *b, uint32_t line)
{
	return names_begin(r, line) && (body_full(b) || text_begins(reader_line(r, line + 2), "@@"));
}

static bool is_body(const struct patch_reader *r, const struct body *b, uint32_t line)
{
	struct patch_text t = reader_line(r, line);

	if (!t.n || !strchr(" +-\\", t.p[0]))
		return false;
	return !next_file(r, b, line) && !(body_full(b) && text_is(t, "--"));
}

/*
 * Empty lines: editors and models take the space of an empty line of context away. They are context when the hunk lacks
 * lines, or goes on behind them; else they stand between hunks.
 */
static int body_blanks(struct patch_reader *r, struct body *b, bool *out_end)
{
	uint32_t end = r->at;

	while (end < r->n && reader_line(r, end).n == 0)
		end++;
	bool goes_on = is_body(r, b, end);
	while (r->at < end && (goes_on || (b->counted && b->old_left && b->new_left)))
		if (body_add(r, b, ' ', reader_line(r, r->at)) < 0)
			return -1;
	*out_end = r->at < end;
	r->at = end;
	return 0;
}

/* A line that may follow a hunk that lacks lines, or does not say how many it has. */
static bool may_follow(const struct patch_reader *r, uint32_t line)
{
	static const char *const begins[] = {
	    "@@", "diff ", "```", "*** ", "Index: ", "Only in ", "From ", "~~~", "<<<<<<< SEARCH"};
	struct patch_text t = reader_line(r, line);

	if (!t.p || names_begin(r, line))
		return true;
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (text_begins(t, begins[i]))
			return true;
	return false;
}

static int body_read(struct patch_reader *r, struct body *b)
{
	bool end = false;

	while (r->at < r->n && !end) {
		struct patch_text t = reader_line(r, r->at);
		struct patch_line *newest = reader_newest(r);

		if (t.n == 0) {
			if (body_blanks(r, b, &end) < 0)
				return -1;
		} else if (!is_body(r, b, r->at)) {
			if (!body_full(b) && !may_follow(r, r->at))
				return reader_bad(r, PATCH_MALFORMED, r->at,
						  "a line of a hunk begins with a space, + or -");
			return 0;
		} else if (t.p[0] == '\\') {
			if (newest)
				newest->no_newline = true;
			r->at++;
		} else {
			char sign = t.p[0];

			t.p++;
			t.n--;
			if (body_add(r, b, sign, t) < 0)
				return -1;
		}
	}
	return 0;
}

static int hunk_check(struct patch_reader *r, const struct patch_hunk *h, const struct body *b, uint32_t old)
{
	const struct patch_op *op = &r->out->ops[r->out->n_ops - 1];
	bool has_old = false;

	if (h->lines == 0)
		return reader_bad(r, PATCH_MALFORMED, h->number - 1, "a hunk without lines");
	for (uint32_t i = 0; i < h->lines; i++)
		has_old |= r->out->lines[h->first_line + i].sign != '+';
	if (has_old && op->kind == PATCH_ADD)
		return reader_bad(r, PATCH_MALFORMED, h->number - 1, "a new file has lines with + alone");
	if (!has_old && b->counted && old && op->kind != PATCH_ADD)
		return reader_bad(r, PATCH_MALFORMED, h->number - 1,
				  "the hunk says that it has old lines, and has none: write lines of context");
	return 0;
}

/* "@@ text" and "@@ text @@" without numbers: the text is a line to be found first. "..." is none. */
static int hunk_anchor(struct patch_reader *r, struct patch_text t, uint32_t line)
{
	t = text_after(t, "@@");
	if (t.n >= 2 && memcmp(t.p + t.n - 2, "@@", 2) == 0)
		t.n -= 2;
	t = text_trim(t);
	if (t.n == 0 || text_is(t, "...") || t.p[0] == '-')
		return 0;
	return reader_anchor(r, t, line);
}

static int hunk_read(struct patch_reader *r)
{
	uint32_t line = r->at, start = 0, old = 0, new = 0;
	struct patch_text t = reader_line(r, line);
	struct body b = {.counted = unified_numbers(t, &start, &old, &new)};
	struct patch_hunk *h;

	if (text_begins(t, "@@@"))
		return reader_bad(r, PATCH_UNSUPPORTED, line, "combined diffs of merges are not supported");
	h = reader_hunk(r, line);
	if (!h)
		return -1;
	h->start = start;
	h->has_start = b.counted;
	b.old_left = old;
	b.new_left = new;
	if (!b.counted && hunk_anchor(r, t, line) < 0)
		return -1;
	r->at++;
	if (body_read(r, &b) < 0)
		return -1;
	return hunk_check(r, &r->out->hunks[r->out->n_hunks - 1], &b, old);
}

int unified_read(struct patch_reader *r)
{
	struct head h = {0};
	int rc = head_read(r, &h);

	if (rc == 0)
		rc = head_op(r, &h);
	for (unsigned i = 0; i < h.n_own; i++)
		free(h.own[i]);
	while (rc == 0 && text_begins(reader_line(r, r->at), "@@"))
		rc = hunk_read(r);
	if (rc < 0)
		return -1;
	if (!h.git && r->out->ops[r->out->n_ops - 1].hunks == 0)
		return reader_bad(r, PATCH_MALFORMED, r->at, "an @@ line has to follow the names of a file");
	reader_strip_cr(r);
	return 0;
}
