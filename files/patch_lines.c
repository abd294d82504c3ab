/* The lines of a file, and where the old lines of a hunk stand among them. */
#include "files/patch_lines.h"

#include <stdlib.h>
#include <string.h>

/* --- one line */

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct view view_trim(struct view v)
{
	while (v.n && is_space(v.p[v.n - 1]))
		v.n--;
	return v;
}

static bool same_squeezed(struct view a, struct view b)
{
	size_t i = 0, k = 0;

	for (;;) {
		while (i < a.n && is_space(a.p[i]))
			i++;
		while (k < b.n && is_space(b.p[k]))
			k++;
		if (i == a.n || k == b.n)
			return i == a.n && k == b.n;
		if (a.p[i++] != b.p[k++])
			return false;
	}
}

bool view_same(struct view a, struct view b, enum lines_level level)
{
	if (level == LINES_SQUEEZED)
		return same_squeezed(a, b);
	if (level == LINES_TRIMMED) {
		a = view_trim(a);
		b = view_trim(b);
	}
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

uint32_t view_hash(struct view v, enum lines_level level)
{
	uint32_t h = 2166136261u;

	if (level != LINES_SQUEEZED)
		v = view_trim(v);
	for (size_t i = 0; i < v.n; i++)
		if (level != LINES_SQUEEZED || !is_space(v.p[i]))
			h = (h ^ (unsigned char)v.p[i]) * 16777619u;
	return h;
}

/* --- all lines of a file */

struct view lines_at(const struct lines *l, uint32_t line)
{
	struct view v = {l->p + l->starts[line], l->starts[line + 1] - l->starts[line]};

	v.n -= v.n && v.p[v.n - 1] == '\n';
	v.n -= v.n && v.p[v.n - 1] == '\r' && l->starts[line] + v.n < l->starts[line + 1];
	return v;
}

bool lines_cr(const struct lines *l, uint32_t line)
{
	uint32_t end = l->starts[line + 1];

	return end - l->starts[line] >= 2 && l->p[end - 1] == '\n' && l->p[end - 2] == '\r';
}

int lines_init(struct lines *l, const char *p, size_t n)
{
	uint32_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += p[i] == '\n';
	*l = (struct lines){.p = p, .n = n, .work = PATCH_WORK};
	l->starts = calloc((size_t)count + 2, sizeof(*l->starts));
	l->hash = malloc(((size_t)count + 2) * sizeof(*l->hash));
	if (!l->starts || !l->hash) {
		lines_free(l);
		return -1;
	}
	l->starts[0] = 0;
	for (size_t i = 0; i < n; i++)
		if (p[i] == '\n')
			l->starts[++l->count] = (uint32_t)i + 1;
	if (l->starts[l->count] < n)
		l->starts[++l->count] = (uint32_t)n;
	for (uint32_t i = 0; i < l->count; i++)
		l->hash[i] = view_hash(lines_at(l, i), LINES_TRIMMED);
	return 0;
}

void lines_free(struct lines *l)
{
	free(l->starts);
	free(l->hash);
	l->starts = l->hash = NULL;
}

/* --- one side of a hunk */

static struct view needle_at(const struct needle *d, uint32_t i)
{
	return (struct view){d->lines[i]->p, d->lines[i]->n};
}

int needle_init(struct needle *d, const struct patch *p, const struct patch_hunk *h, char sign)
{
	*d = (struct needle){.n = 0};
	d->lines = calloc(h->lines + 1, sizeof(struct patch_line *));
	d->hash = malloc((h->lines + 1) * sizeof(*d->hash));
	d->back = malloc((h->lines + 1) * sizeof(*d->back));
	if (!d->lines || !d->hash || !d->back) {
		needle_free(d);
		return -1;
	}
	for (uint32_t i = 0; i < h->lines; i++) {
		const struct patch_line *line = &p->lines[h->first_line + i];

		if (line->sign != ' ' && line->sign != sign)
			continue;
		d->hash[d->n] = view_hash((struct view){line->p, line->n}, LINES_TRIMMED);
		d->lines[d->n++] = line;
	}
	return 0;
}

void needle_free(struct needle *d)
{
	free(d->lines);
	free(d->hash);
	free(d->back);
	d->lines = NULL;
	d->hash = d->back = NULL;
}

static bool needle_same(const struct needle *d, uint32_t a, uint32_t b, enum lines_level level)
{
	return d->hash[a] == d->hash[b] && view_same(needle_at(d, a), needle_at(d, b), level);
}

static bool stands(struct lines *l, const struct needle *d, uint32_t i, uint32_t line, enum lines_level level)
{
	l->work -= l->work > 0;
	return d->hash[i] == l->hash[line] && view_same(needle_at(d, i), lines_at(l, line), level);
}

bool lines_stand(struct lines *l, const struct needle *d, uint32_t at, enum lines_level level)
{
	if (at > l->count || d->n > l->count - at)
		return false;
	for (uint32_t i = 0; i < d->n; i++)
		if (!stands(l, d, i, at + i, level))
			return false;
	return true;
}

/* back[i]: how many first lines are also the last ones of the first i. */
static void needle_prepare(struct needle *d, enum lines_level level)
{
	uint32_t k = 0;

	d->back[0] = d->back[1] = 0;
	for (uint32_t i = 1; i < d->n; i++) {
		while (k && !needle_same(d, i, k, level))
			k = d->back[k];
		k += needle_same(d, i, k, level);
		d->back[i + 1] = k;
	}
}

int lines_find(struct lines *l, struct needle *d, uint32_t from, uint32_t to, enum lines_level level, uint32_t out[2])
{
	uint32_t k = 0;
	int found = 0;

	needle_prepare(d, level);
	for (uint32_t line = from; line < to && found < 2; line++) {
		while (k && !stands(l, d, k, line, level))
			k = d->back[k];
		k += stands(l, d, k, line, level);
		if (l->work == 0)
			return -1;
		if (k == d->n) {
			out[found++] = line + 1 - d->n;
			k = d->back[k];
		}
	}
	return found;
}

/* --- what is most like them */

/* Which line of a needle has this hash, when one alone has: a table of twice as many places. */
struct table {
	uint32_t *line, *hash, mask;
};

#define NO_LINE    UINT32_MAX
#define MORE_LINES (UINT32_MAX - 1)

static uint32_t *table_place(const struct table *t, uint32_t hash)
{
	uint32_t at = hash * 2654435761u;

	for (;; at++)
		if (t->line[at & t->mask] == NO_LINE || t->hash[at & t->mask] == hash)
			return &t->line[at & t->mask];
}

static int table_init(struct table *t, const struct needle *d)
{
	uint32_t size = 4;

	while (size < 2 * d->n)
		size *= 2;
	t->mask = size - 1;
	t->line = malloc(size * sizeof(*t->line));
	t->hash = malloc(size * sizeof(*t->hash));
	if (!t->line || !t->hash)
		return -1;
	for (uint32_t i = 0; i < size; i++)
		t->line[i] = NO_LINE;
	for (uint32_t i = 0; i < d->n; i++) {
		uint32_t hash = view_hash(needle_at(d, i), LINES_SQUEEZED), *place = table_place(t, hash);

		t->hash[place - t->line] = hash;
		*place = *place == NO_LINE ? i : MORE_LINES;
	}
	return 0;
}

/* Each line of the file that is like one line of the needle is a vote for where the needle begins. */
static void near_vote(const struct lines *l, const struct needle *d, const struct table *t, uint32_t *votes)
{
	for (uint32_t line = 0; line < l->count; line++) {
		uint32_t hash = view_hash(lines_at(l, line), LINES_SQUEEZED), i = *table_place(t, hash);

		if (i < MORE_LINES && line + d->n >= i)
			votes[line + d->n - i]++;
	}
}

/* Lines with no equal at all: the one that shares the longest beginning with the first line of the needle that says
 * something. */
static uint32_t near_begin(const struct lines *l, const struct needle *d, uint32_t *out_at)
{
	size_t best = 2;
	uint32_t i = 0, found = 0;

	while (i + 1 < d->n && view_trim(needle_at(d, i)).n < 3)
		i++;
	struct view want = view_trim(needle_at(d, i));
	while (want.n && is_space(*want.p)) {
		want.p++;
		want.n--;
	}
	for (uint32_t line = 0; line < l->count; line++) {
		struct view v = lines_at(l, line);
		size_t k = 0;

		for (; v.n && is_space(*v.p); v.p++)
			v.n--;
		while (k < v.n && k < want.n && v.p[k] == want.p[k])
			k++;
		if (k > best) {
			best = k;
			*out_at = line > i ? line - i : 0;
			found = 1;
		}
	}
	return found;
}

uint32_t lines_near(struct lines *l, const struct needle *d, uint32_t *out_at)
{
	struct table t = {NULL, NULL, 0};
	uint32_t best = 0, *votes = calloc((size_t)l->count + d->n + 1, sizeof(*votes));

	if (d->n && votes && table_init(&t, d) == 0) {
		near_vote(l, d, &t, votes);
		for (uint32_t at = 0; at <= l->count + d->n; at++) {
			if (votes[at] > best) {
				best = votes[at];
				*out_at = at > d->n ? at - d->n : 0;
			}
		}
		if (best == 0)
			best = near_begin(l, d, out_at);
	}
	free(votes);
	free(t.line);
	free(t.hash);
	return best;
}
