/* `*** Begin Patch` to `*** End Patch`. */
#include "files/patch_forms.h"

#define UPDATE "*** Update File:"
#define ADD    "*** Add File:"
#define DELETE "*** Delete File:"
#define MOVE   "*** Move to:"
#define END    "*** End Patch"

bool envelope_begins(const struct patch_reader *r, uint32_t line)
{
	return text_is(reader_line(r, line), "*** Begin Patch");
}

/* Empty lines at r->at: lines of the part when it goes on behind them, else they stand between parts. */
static int blanks_read(struct patch_reader *r, char sign)
{
	uint32_t end = r->at;

	while (end < r->n && reader_line(r, end).n == 0)
		end++;
	struct patch_text next = reader_line(r, end);
	bool goes_on = next.n && (next.p[0] == '+' || (sign == ' ' && (next.p[0] == ' ' || next.p[0] == '-')));
	for (; goes_on && r->at < end; r->at++)
		if (reader_add(r, sign, reader_line(r, r->at), r->at) < 0)
			return -1;
	r->at = end;
	return 0;
}

static int line_read(struct patch_reader *r, struct patch_text t)
{
	char sign = t.p[0];

	t.p++;
	t.n--;
	return reader_add(r, sign, t, r->at++);
}

static int add_read(struct patch_reader *r)
{
	if (!reader_hunk(r, r->at))
		return -1;
	for (;;) {
		struct patch_text t = reader_line(r, r->at);

		if (!t.p || text_begins(t, "*** "))
			return 0;
		if (t.n && t.p[0] != '+')
			return reader_bad(r, PATCH_MALFORMED, r->at, "each line of a new file begins with +");
		if ((t.n ? line_read(r, t) : blanks_read(r, '+')) < 0)
			return -1;
	}
}

/* "@@", "@@ text", or "@@ -1,2 +3,4 @@". */
static int at_read(struct patch_reader *r, struct patch_hunk *h, struct patch_text t)
{
	uint32_t start, old, new;

	if (unified_numbers(t, &start, &old, &new)) {
		h->start = start;
		h->has_start = true;
	} else {
		struct patch_text anchor = text_after(t, "@@");

		if (anchor.n >= 2 && anchor.p[anchor.n - 1] == '@' && anchor.p[anchor.n - 2] == '@')
			anchor.n -= 2;
		anchor = text_trim(anchor);
		if (anchor.n && !text_is(anchor, "...") && reader_anchor(r, anchor, r->at) < 0)
			return -1;
	}
	r->at++;
	return 0;
}

static int hunk_read(struct patch_reader *r)
{
	struct patch_hunk *h = reader_hunk(r, r->at);
	struct patch_text t;

	if (!h)
		return -1;
	while (text_begins(reader_line(r, r->at), "@@"))
		if (at_read(r, h, reader_line(r, r->at)) < 0)
			return -1;
	for (;;) {
		t = reader_line(r, r->at);
		if (!t.p || text_begins(t, "@@") || text_begins(t, "*** "))
			break;
		if (t.n && t.p[0] != ' ' && t.p[0] != '+' && t.p[0] != '-')
			return reader_bad(r, PATCH_MALFORMED, r->at, "a line of a hunk begins with a space, + or -");
		if ((t.n ? line_read(r, t) : blanks_read(r, ' ')) < 0)
			return -1;
	}
	if (h->lines == 0)
		return reader_bad(r, PATCH_MALFORMED, h->number - 1, "a hunk without lines");
	if (text_is(t, "*** End of File")) {
		h->at_end = true;
		r->at++;
	}
	return 0;
}

static int update_read(struct patch_reader *r)
{
	const struct patch_op *op = &r->out->ops[r->out->n_ops - 1];
	struct patch_text t = reader_line(r, r->at);

	if (text_begins(t, MOVE)) {
		if (reader_to(r, text_after(t, MOVE), r->at) < 0)
			return -1;
		r->at++;
	}
	for (;;) {
		while (r->at < r->n && reader_line(r, r->at).n == 0)
			r->at++;
		t = reader_line(r, r->at);
		if (!t.p || text_begins(t, "*** "))
			break;
		if (hunk_read(r) < 0)
			return -1;
	}
	if (op->hunks == 0 && !op->to)
		return reader_bad(r, PATCH_MALFORMED, op->line - 1, "an update without hunks");
	return 0;
}

static int file_read(struct patch_reader *r, struct patch_text t)
{
	uint32_t line = r->at++;
	int rc;

	if (text_begins(t, ADD))
		rc = reader_op(r, PATCH_ADD, PATCH_ENVELOPE, text_after(t, ADD), line) ? add_read(r) : -1;
	else if (text_begins(t, DELETE))
		rc = reader_op(r, PATCH_DELETE, PATCH_ENVELOPE, text_after(t, DELETE), line) ? 0 : -1;
	else if (text_begins(t, UPDATE))
		rc = reader_op(r, PATCH_UPDATE, PATCH_ENVELOPE, text_after(t, UPDATE), line) ? update_read(r) : -1;
	else
		return reader_bad(r, PATCH_MALFORMED, line, "expected " UPDATE ", " ADD ", " DELETE " or " END);
	if (rc == 0)
		reader_strip_cr(r);
	return rc;
}

int envelope_read(struct patch_reader *r)
{
	uint32_t line = r->at++;

	for (;;) {
		struct patch_text t = reader_line(r, r->at);

		if (!t.p)
			return reader_bad(r, PATCH_MALFORMED, line,
					  "*** Begin Patch without *** End Patch: was it cut off?");
		if (text_is(t, END)) {
			r->at++;
			return 0;
		}
		if (t.n == 0 || text_begins(t, "*** Environment ID:"))
			r->at++;
		else if (file_read(r, t) < 0)
			return -1;
	}
}
