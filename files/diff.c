#include "files/diff.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT  3
#define WORK_MAX 200000000 /* comparisons: a second or so */

/* One of the two: where its lines begin, what they are (equal lines have one number), which of them change. */
struct side {
	const char *p;
	size_t n, lines;
	size_t *at; /* lines + 1 of them */
	uint32_t *line;
	bool *changed;
};

struct diffing {
	struct side a, b;
	ptrdiff_t *forward, *backward; /* by diagonal, from -(lines of b) - 1 on */
	long long work;
	diff_put *put;
	void *arg;
};

/* ---- lines */

static int side_read(struct side *s, const char *p, size_t n)
{
	size_t lines = 0;

	s->p = p;
	s->n = n;
	for (size_t i = 0; i < n; i++)
		lines += p[i] == '\n';
	lines += n && p[n - 1] != '\n';
	s->at = calloc(lines + 1, sizeof(*s->at));
	s->line = calloc(lines + 1, sizeof(*s->line));
	s->changed = calloc(lines + 1, sizeof(*s->changed));
	if (!s->at || !s->line || !s->changed)
		return -1;
	for (size_t i = 0; i < n; s->lines++) {
		const char *end = memchr(p + i, '\n', n - i);

		i = end ? (size_t)(end - p) + 1 : n;
		s->at[s->lines + 1] = i;
	}
	return 0;
}

static void side_free(struct side *s)
{
	free(s->at);
	free(s->line);
	free(s->changed);
}

static uint64_t hash_of(const char *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)p[i]) * 0x100000001b3u;
	return h ^ h >> 29;
}

/* Lines that are known, by hash; a number is one more than the place of the first such line in a, then in b. */
struct known {
	struct {
		const char *p;
		size_t n;
		uint32_t number;
	} * slots;
	size_t mask;
	uint32_t count;
};

/* Lines made to collide only make it slower, within the work that is left. */
static void known_number(struct known *k, struct side *s, long long *work)
{
	for (size_t i = 0; i < s->lines; i++) {
		const char *p = s->p + s->at[i];
		size_t n = s->at[i + 1] - s->at[i], at = hash_of(p, n) & k->mask;

		while (*work > 0 && k->slots[at].p && (k->slots[at].n != n || memcmp(k->slots[at].p, p, n) != 0)) {
			at = (at + 1) & k->mask;
			--*work;
		}
		if (*work <= 0) {
			s->line[i] = ++k->count; /* like no other: it changes */
			continue;
		}
		if (!k->slots[at].p) {
			k->slots[at].p = p;
			k->slots[at].n = n;
			k->slots[at].number = ++k->count;
		}
		s->line[i] = k->slots[at].number;
	}
}

static int number_lines(struct diffing *d)
{
	struct known k = {.mask = 63};

	while (k.mask < 2 * (d->a.lines + d->b.lines))
		k.mask = 2 * k.mask + 1;
	k.slots = calloc(k.mask + 1, sizeof(*k.slots));
	if (!k.slots)
		return -1;
	known_number(&k, &d->a, &d->work);
	known_number(&k, &d->b, &d->work);
	free(k.slots);
	return 0;
}

/* ---- the way: Myers, "An O(ND) Difference Algorithm and Its Variations", section 4b */

struct box {
	ptrdiff_t a0, a1, b0, b1; /* lines [a0, a1) become [b0, b1) */
};

/* Diagonals that one of the two searches has reached. */
struct reach {
	ptrdiff_t *x, min, max;
};

/* One more change wide, within the box's diagonals; what lies beyond is as good as never reached. */
static void widen(struct reach *r, ptrdiff_t least, ptrdiff_t most, ptrdiff_t never)
{
	if (r->min > least)
		r->x[--r->min - 1] = never;
	else
		r->min++;
	if (r->max < most)
		r->x[++r->max + 1] = never;
	else
		r->max--;
}

static bool step_forward(struct diffing *d, const struct box *x, struct reach *f, const struct reach *b, bool meet,
			 ptrdiff_t *out_a)
{
	for (ptrdiff_t k = f->max; k >= f->min; k -= 2) {
		ptrdiff_t at = f->x[k - 1] < f->x[k + 1] ? f->x[k + 1] : f->x[k - 1] + 1;

		for (d->work--; at < x->a1 && at - k < x->b1 && d->a.line[at] == d->b.line[at - k]; d->work--)
			at++;
		f->x[k] = at;
		if (meet && b->min <= k && k <= b->max && b->x[k] <= at) {
			out_a[0] = at;
			out_a[1] = at - k;
			return true;
		}
	}
	return false;
}

static bool step_backward(struct diffing *d, const struct box *x, struct reach *b, const struct reach *f, bool meet,
			  ptrdiff_t *out_a)
{
	for (ptrdiff_t k = b->max; k >= b->min; k -= 2) {
		ptrdiff_t at = b->x[k - 1] < b->x[k + 1] ? b->x[k - 1] : b->x[k + 1] - 1;

		for (d->work--; at > x->a0 && at - k > x->b0 && d->a.line[at - 1] == d->b.line[at - k - 1]; d->work--)
			at--;
		b->x[k] = at;
		if (meet && f->min <= k && k <= f->max && at <= f->x[k]) {
			out_a[0] = at;
			out_a[1] = at - k;
			return true;
		}
	}
	return false;
}

/* A place that a shortest way passes, about in its middle. False: too much work. */
static bool middle(struct diffing *d, const struct box *x, ptrdiff_t *out)
{
	ptrdiff_t least = x->a0 - x->b1, most = x->a1 - x->b0, first = x->a0 - x->b0, last = x->a1 - x->b1;
	struct reach f = {d->forward, first, first}, b = {d->backward, last, last};
	bool odd = (first - last) & 1;

	f.x[first] = x->a0;
	b.x[last] = x->a1;
	while (d->work > 0) {
		widen(&f, least, most, -1);
		if (step_forward(d, x, &f, &b, odd, out))
			return true;
		widen(&b, least, most, PTRDIFF_MAX);
		if (step_backward(d, x, &b, &f, !odd, out))
			return true;
	}
	return false;
}

static void change(struct side *s, ptrdiff_t from, ptrdiff_t to)
{
	for (ptrdiff_t i = from; i < to; i++)
		s->changed[i] = true;
}

/* Halves become boxes of their own: each has half the changes, so it does not go deep. */
static void compare(struct diffing *d, struct box x)
{
	ptrdiff_t at[2];

	for (;;) {
		while (x.a0 < x.a1 && x.b0 < x.b1 && d->a.line[x.a0] == d->b.line[x.b0])
			x.a0++, x.b0++;
		while (x.a0 < x.a1 && x.b0 < x.b1 && d->a.line[x.a1 - 1] == d->b.line[x.b1 - 1])
			x.a1--, x.b1--;
		if (x.a0 == x.a1 || x.b0 == x.b1 || !middle(d, &x, at))
			break;
		compare(d, (struct box){x.a0, at[0], x.b0, at[1]});
		x.a0 = at[0];
		x.b0 = at[1];
	}
	change(&d->a, x.a0, x.a1);
	change(&d->b, x.b0, x.b1);
}

static int find_way(struct diffing *d)
{
	size_t diagonals = d->a.lines + d->b.lines + 3;
	ptrdiff_t *f = calloc(diagonals, sizeof(*f)), *b = calloc(diagonals, sizeof(*b));

	if (f && b) {
		d->forward = f + d->b.lines + 1;
		d->backward = b + d->b.lines + 1;
		compare(d, (struct box){0, (ptrdiff_t)d->a.lines, 0, (ptrdiff_t)d->b.lines});
	}
	free(f);
	free(b);
	return f && b ? 0 : -1;
}

/* ---- what is written */

static int diff_put_line(const struct diffing *d, const struct side *s, size_t line, char sign)
{
	static const char lacks[] = "\n\\ No newline at end of file\n";
	const char *p = s->p + s->at[line];
	size_t n = s->at[line + 1] - s->at[line];
	int rc = d->put(d->arg, &sign, 1);

	if (!rc)
		rc = d->put(d->arg, p, n);
	return !rc && p[n - 1] != '\n' ? d->put(d->arg, lacks, sizeof(lacks) - 1) : rc;
}

static int diff_put_head(const struct diffing *d, const struct box *x)
{
	char head[120];
	int n = snprintf(head, sizeof(head), "@@ -%td,%td +%td,%td @@\n", x->a0 + (x->a1 > x->a0), x->a1 - x->a0,
			 x->b0 + (x->b1 > x->b0), x->b1 - x->b0);

	return d->put(d->arg, head, (size_t)n);
}

/* Lines that stay are the same in both; of those that change the old ones come first. */
static int put_hunk(const struct diffing *d, const struct box *x)
{
	ptrdiff_t a = x->a0, b = x->b0;
	int rc = diff_put_head(d, x);

	while (!rc && (a < x->a1 || b < x->b1)) {
		if (a < x->a1 && d->a.changed[a])
			rc = diff_put_line(d, &d->a, (size_t)a++, '-');
		else if (b < x->b1 && d->b.changed[b])
			rc = diff_put_line(d, &d->b, (size_t)b++, '+');
		else
			rc = diff_put_line(d, &d->a, (size_t)a++, ' '), b++;
	}
	return rc;
}

/* Behind lines that stay, of which no more than twice the context lie between two changes of one hunk. */
static int put_hunks(const struct diffing *d)
{
	ptrdiff_t an = (ptrdiff_t)d->a.lines, bn = (ptrdiff_t)d->b.lines, a = 0, b = 0;
	int rc = 0;

	while (!rc && (a < an || b < bn)) {
		ptrdiff_t same = 0;
		struct box x;

		if (a < an && b < bn && !d->a.changed[a] && !d->b.changed[b]) {
			a++, b++;
			continue;
		}
		x.a0 = a < CONTEXT ? 0 : a - CONTEXT;
		x.b0 = b - (a - x.a0);
		/* a hunk before this one ended more than the context earlier, so these lines are nobody's */
		while ((a < an || b < bn) && same <= 2 * CONTEXT) {
			if (a < an && d->a.changed[a])
				a++, same = 0;
			else if (b < bn && d->b.changed[b])
				b++, same = 0;
			else
				a++, b++, same++;
		}
		x.a1 = a - (same > CONTEXT ? same - CONTEXT : 0);
		x.b1 = b - (same > CONTEXT ? same - CONTEXT : 0);
		rc = put_hunk(d, &x);
	}
	return rc;
}

int diff_unified(const char *a, size_t an, const char *b, size_t bn, diff_put *put, void *arg)
{
	struct diffing d = {.work = WORK_MAX, .put = put, .arg = arg};
	int rc = an > DIFF_TEXT_MAX || bn > DIFF_TEXT_MAX ? -1 : side_read(&d.a, a, an);

	if (!rc)
		rc = side_read(&d.b, b, bn);
	if (!rc)
		rc = number_lines(&d);
	if (!rc)
		rc = find_way(&d);
	if (!rc)
		rc = put_hunks(&d);
	side_free(&d.a);
	side_free(&d.b);
	return rc;
}
