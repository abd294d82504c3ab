/*
 * match_syntax.h - a pattern as people write it, as a tree (match.h has the syntax).
 *
 * A tree is one allocation of nodes and one of ranges, owned by who parsed it. Children of a node are a list in both
 * directions: a program that reads backwards is made of the same tree.
 */
#ifndef FILES_MATCH_SYNTAX_H
#define FILES_MATCH_SYNTAX_H

#include "files/match.h"

#include <stdint.h>

enum syntax_kind {
	SYNTAX_EMPTY,
	SYNTAX_SET,    /* one character of `ranges` ranges from `first_range` on; of none: matches nothing */
	SYNTAX_CAT,    /* children one after the other */
	SYNTAX_ALT,    /* one of the children */
	SYNTAX_REPEAT, /* the only child, min to max times */
	SYNTAX_ASSERT  /* `assert` holds here */
};

enum syntax_assert { ASSERT_BEGIN, ASSERT_END, ASSERT_WORD, ASSERT_NO_WORD, ASSERT_WORD_BEGIN, ASSERT_WORD_END };

#define SYNTAX_NONE UINT32_MAX /* no node; a repeat without an upper bound */

struct syntax_range {
	uint32_t lo, hi; /* code points, or bytes with MATCH_BYTES */
};

struct syntax_node {
	uint8_t kind, assert;
	uint32_t child, last, next, prev;
	uint32_t min, max;
	uint32_t first_range, ranges;
};

struct syntax {
	struct syntax_node *nodes;
	struct syntax_range *ranges;
	uint32_t n_nodes, n_ranges, root;
	unsigned flags;
};

/* 0, or -1 with *err; then there is nothing to free. */
int syntax_parse(struct syntax *s, const char *pattern, size_t n, unsigned flags, struct match_error *err);
void syntax_free(struct syntax *s);

#endif
