/*
 * patch_lines.h - the lines of a file, and where the old lines of a hunk stand among them.
 *
 * Lines are numbered from 0 here. A table is owned by who made it and points into the content. Searching is linear in
 * lines and bytes (Knuth, Morris, Pratt over lines), and is paid for from a budget.
 */
#ifndef FILES_PATCH_LINES_H
#define FILES_PATCH_LINES_H

#include "files/patch.h"

struct lines {
	const char *p;
	size_t n;
	uint32_t *starts; /* one more than there are lines */
	uint32_t *hash;   /* of each, without white space at its end */
	uint32_t count;
	uint64_t work; /* comparisons that are left */
};

/* How two lines are compared: whole, without white space at their ends, without any. */
enum lines_level { LINES_EXACT, LINES_TRIMMED, LINES_SQUEEZED };

/* One side of a hunk: lines to look for, with what the search needs of them. */
struct needle {
	const struct patch_line **lines;
	uint32_t *hash, *back;
	uint32_t n;
};

struct view {
	const char *p;
	size_t n;
};

int lines_init(struct lines *l, const char *p, size_t n); /* 0, or -1: no memory */
void lines_free(struct lines *l);
struct view lines_at(const struct lines *l, uint32_t line); /* without its end */
bool lines_cr(const struct lines *l, uint32_t line);        /* it ends with "\r\n" */
bool view_same(struct view a, struct view b, enum lines_level level);
uint32_t view_hash(struct view v, enum lines_level level);

/* The lines of a hunk with one of two signs (' ' and '-': the old side). 0, or -1: no memory. */
int needle_init(struct needle *d, const struct patch *p, const struct patch_hunk *h, char sign);
void needle_free(struct needle *d);
/* Do they stand at this line? */
bool lines_stand(struct lines *l, const struct needle *d, uint32_t at, enum lines_level level);
/*
 * The first two places at or behind `from` and wholly before `to` (a line), of a needle that is not empty. How many
 * were found: 0, 1 or 2; -1: the budget is spent.
 */
int lines_find(struct lines *l, struct needle *d, uint32_t from, uint32_t to, enum lines_level level, uint32_t out[2]);
/*
 * The place most like them, by how many lines are equal without white space; the first of several. Its number of equal
 * lines, 0: nothing is like them, or there is no memory to look.
 */
uint32_t lines_near(struct lines *l, const struct needle *d, uint32_t *out_at);

#endif
