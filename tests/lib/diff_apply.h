/*
 * diff_apply.h - a strict reader of hunks, for tests alone: every number right, every old line as it stands there.
 * Nothing of files/patch.h is in it, which forgives much.
 */
#ifndef TESTS_LIB_DIFF_APPLY_H
#define TESTS_LIB_DIFF_APPLY_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct diff_text {
	char *p;
	size_t n, size;
};

static inline int diff_text_add(void *arg, const char *p, size_t n)
{
	struct diff_text *t = arg;

	if (t->n + n > t->size) {
		t->size = 2 * (t->n + n);
		t->p = realloc(t->p, t->size);
	}
	if (n)
		memcpy(t->p + t->n, p, n);
	t->n += n;
	return 0;
}

static inline size_t diff_line(const char *p, size_t n)
{
	const char *end = n ? memchr(p, '\n', n) : NULL;

	return end ? (size_t)(end - p) + 1 : n;
}

/* The content that hunks make of one; false: they do not fit exactly. */
static inline bool diff_apply(const struct diff_text *hunks, const char *a, size_t an, struct diff_text *out)
{
	static const char lacks[] = "\\ No newline at end of file\n";
	const char *p = hunks->p, *end = hunks->p + hunks->n;
	size_t line = 1, at = 0, b_line = 1;

	while (p < end) {
		long a0, a_n, b0, b_n;
		int used = 0;
		char head[128];
		size_t n = diff_line(p, (size_t)(end - p));

		if (n >= sizeof(head))
			return false;
		memcpy(head, p, n);
		head[n] = 0;
		if (sscanf(head, "@@ -%ld,%ld +%ld,%ld @@%n", &a0, &a_n, &b0, &b_n, &used) != 4 || (size_t)used + 1 != n)
			return false;
		p += n;
		for (long first = a_n ? a0 : a0 + 1; (long)line < first; line++, b_line++) {
			n = diff_line(a + at, an - at);
			if (!n)
				return false;
			diff_text_add(out, a + at, n);
			at += n;
		}
		if ((long)line != (a_n ? a0 : a0 + 1) || (long)b_line != (b_n ? b0 : b0 + 1))
			return false;
		while (a_n || b_n) {
			char sign = p < end ? *p : 0;
			bool cut;

			if (sign != ' ' && sign != '-' && sign != '+')
				return false;
			n = diff_line(p, (size_t)(end - p));
			cut = (size_t)(end - p) >= n + sizeof(lacks) - 1 && memcmp(p + n, lacks, sizeof(lacks) - 1) == 0;
			if (sign != '+') {
				size_t have = diff_line(a + at, an - at);

				if (have != n - 1 - cut || memcmp(a + at, p + 1, have) != 0 || !a_n--)
					return false;
				at += have;
				line++;
			}
			if (sign != '-') {
				if (!b_n--)
					return false;
				diff_text_add(out, p + 1, n - 1 - cut);
				b_line++;
			}
			p += n + (cut ? sizeof(lacks) - 1 : 0);
		}
	}
	diff_text_add(out, a + at, an - at);
	return true;
}

#endif
