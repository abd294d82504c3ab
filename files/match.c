/* Does a line match a pattern, and where. */
#include "files/match.h"
#include "base/utf8.h"

#include "files/match_dfa.h"

#include <stdlib.h>
#include <string.h>

/*
 * A line is asked in three steps, each linear: reading forward, whether there is a match; reading backward from the
 * line's end, where the leftmost one begins; reading forward from there, where the longest of those ends.
 */
struct match {
	struct program forward, backward;
	struct dfa *whether, *begin, *end;
	unsigned flags;
	char *needs; /* text that every match holds */
	size_t n_needs;
	bool literal; /* the whole pattern is that text */
	uint64_t work;
};

/* --- text that every match holds: the longest run of characters that stand alone in the outermost sequence */

struct run {
	const struct syntax *s;
	char now[MATCH_PATTERN_MAX], best[MATCH_PATTERN_MAX];
	size_t n_now, n_best;
	bool all; /* nothing but such characters so far */
};

static void run_end(struct run *r)
{
	if (r->n_now > r->n_best) {
		memcpy(r->best, r->now, r->n_now);
		r->n_best = r->n_now;
	}
	r->n_now = 0;
}

static size_t run_char(const struct run *r, uint32_t cp, char out[4])
{
	if (cp < 0x80 || r->s->flags & MATCH_BYTES) {
		out[0] = (char)cp;
		return 1;
	}
	return utf8_put(cp, out);
}

static void run_walk(struct run *r, uint32_t id)
{
	const struct syntax_node *node = &r->s->nodes[id];
	const struct syntax_range *range = &r->s->ranges[node->first_range];
	char bytes[4];

	if (node->kind == SYNTAX_CAT) {
		for (uint32_t child = node->child; child != SYNTAX_NONE; child = r->s->nodes[child].next)
			run_walk(r, child);
		return;
	}
	if (node->kind == SYNTAX_EMPTY)
		return;
	if (node->kind != SYNTAX_SET || node->ranges != 1 || range->lo != range->hi) {
		r->all = false;
		run_end(r);
		return;
	}
	size_t n = run_char(r, range->lo, bytes);
	if (r->n_now + n > sizeof(r->now))
		run_end(r);
	memcpy(r->now + r->n_now, bytes, n);
	r->n_now += n;
}

static int needs_find(struct match *m, const struct syntax *s)
{
	struct run *r = calloc(1, sizeof(*r));

	if (!r)
		return -1;
	r->s = s;
	r->all = true;
	run_walk(r, s->root);
	run_end(r);
	m->n_needs = r->n_best;
	m->literal = r->all && r->n_best && !(m->flags & (MATCH_WHOLE | MATCH_WORD));
	m->needs = malloc(r->n_best + 1);
	if (m->needs)
		memcpy(m->needs, r->best, r->n_best);
	free(r);
	return m->needs ? 0 : -1;
}

/* --- a match */

static void match_no_memory(struct match_error *err)
{
	*err = (struct match_error){.why = "out of memory"};
}

/* Programs of a tree; none where the text alone is asked. */
static int match_build(struct match *m, const struct syntax *s, struct match_error *err)
{
	if (needs_find(m, s) < 0) {
		match_no_memory(err);
		return -1;
	}
	if (!m->literal && program_build(&m->forward, s, false, err) < 0)
		return -1;
	if (!m->literal && !(m->flags & MATCH_WHOLE) && program_build(&m->backward, s, true, err) < 0)
		return -1;
	return 0;
}

struct match *match_new(const char *pattern, size_t n, unsigned flags, struct match_error *err)
{
	struct match *m = calloc(1, sizeof(*m));
	struct syntax s;

	if (!m) {
		match_no_memory(err);
		return NULL;
	}
	m->work = MATCH_WORK;
	m->flags = flags;
	if (syntax_parse(&s, pattern, n, flags, err) < 0) {
		match_free(m);
		return NULL;
	}
	if (match_build(m, &s, err) < 0) {
		match_free(m);
		m = NULL;
	}
	syntax_free(&s);
	return m;
}

void match_free(struct match *m)
{
	if (!m)
		return;
	program_free(&m->forward);
	program_free(&m->backward);
	dfa_free(m->whether);
	dfa_free(m->begin);
	dfa_free(m->end);
	free(m->needs);
	free(m);
}

static bool match_dfa(struct dfa **d, const struct program *g, bool anywhere)
{
	if (!*d)
		*d = dfa_new(g, anywhere);
	return *d != NULL;
}

static enum match_result match_told(int rc)
{
	return rc < 0 ? MATCH_TOO_COMPLEX : rc ? MATCH_YES : MATCH_NO;
}

/* Where the first match of a line that has one is. */
static enum match_result match_place(struct match *m, const uint8_t *p, size_t n, struct match_span *out_span)
{
	struct match_span span = {0, 0};
	int rc;

	if (m->flags & MATCH_WHOLE) {
		*out_span = (struct match_span){0, n};
		return MATCH_YES;
	}
	if (!match_dfa(&m->begin, &m->backward, true) || !match_dfa(&m->end, &m->forward, false))
		return MATCH_TOO_COMPLEX;
	rc = dfa_run(m->begin, p, n, n, true, false, &m->work, &span.from);
	if (rc == 1)
		rc = dfa_run(m->end, p, n, span.from, false, false, &m->work, &span.to);
	if (rc == 1)
		*out_span = span;
	return match_told(rc);
}

size_t match_line_text(const void *p, size_t n)
{
	const char *line = p;

	n -= n && line[n - 1] == '\n';
	return n - (n && line[n - 1] == '\r');
}

enum match_result match_line(struct match *m, const void *p, size_t n, struct match_span *out_span)
{
	const uint8_t *line = p ? p : (const uint8_t *)"", *held = NULL;
	size_t at = 0;
	int rc;

	if (m->n_needs) {
		held = memmem(line, n, m->needs, m->n_needs);
		if (!held)
			return MATCH_NO;
	}
	if (m->literal) {
		at = (size_t)(held - line);
		if (out_span)
			*out_span = (struct match_span){at, at + m->n_needs};
		return MATCH_YES;
	}
	if (!match_dfa(&m->whether, &m->forward, !(m->flags & MATCH_WHOLE)))
		return MATCH_TOO_COMPLEX;
	rc = dfa_run(m->whether, line, n, 0, false, true, &m->work, &at);
	if (rc != 1 || !out_span)
		return match_told(rc);
	return match_place(m, line, n, out_span);
}

enum match_result match_begins(struct match *m, const void *p, size_t n)
{
	if (m->literal)
		return memcmp(p, m->needs, n < m->n_needs ? n : m->n_needs) == 0 ? MATCH_YES : MATCH_NO;
	if (!match_dfa(&m->end, &m->forward, false))
		return MATCH_TOO_COMPLEX;
	return match_told(dfa_alive(m->end, p, n, &m->work));
}

const char *match_needs(const struct match *m, size_t *out_n)
{
	*out_n = m->n_needs;
	return m->needs;
}

void match_refuel(struct match *m)
{
	m->work = MATCH_WORK;
}
