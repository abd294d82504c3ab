/*
 * match_program.h - a tree of a pattern as an automaton over bytes (Thompson, 1968).
 *
 * Steps in one array. Forward programs read a line from its first byte on, backward ones from its last byte on: there
 * the bytes of each character and the children of each sequence are in the other order, and the line's ends are
 * swapped. Owned by whoever made it; constant from then on.
 */
#ifndef FILES_MATCH_PROGRAM_H
#define FILES_MATCH_PROGRAM_H

#include "files/match_syntax.h"

enum step_op {
	STEP_BYTE,   /* a byte from lo to hi, then `to` */
	STEP_SPLIT,  /* `to` and `other` */
	STEP_ASSERT, /* if `lo` (enum syntax_assert) holds, `to` */
	STEP_FAIL,   /* a class of nothing */
	STEP_MATCH
};

struct step {
	uint8_t op, lo, hi;
	uint32_t to, other;
};

struct program {
	struct step *steps;
	uint32_t n, start;
	bool asserts, words; /* asks where a line begins and ends; for words */
};

/* 0, or -1 with err->why: more than MATCH_SIZE_MAX steps, or no memory. Then there is nothing to free. */
int program_build(struct program *g, const struct syntax *s, bool backward, struct match_error *err);
void program_free(struct program *g);

#endif
