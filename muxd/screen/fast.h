/*
 * fast.h - long plain output need not be drawn: only its last lines can still be seen.
 *
 * For term.c, where the whole screen scrolls and no sequence has begun. A block is plain when it holds text, CR, LF,
 * HT, SGR and EL alone. The final screen is the same as if all of it had been drawn. No state.
 */
#ifndef MUXD_SCREEN_FAST_H
#define MUXD_SCREEN_FAST_H

#include "base/filter.h"

struct fast_cut {
	size_t keep; /* where the lines begin that have to be drawn: with an empty last row, in its first column */
};

/* False: all of it has to be drawn. */
bool fast_find(const uint8_t *p, size_t n, int rows, struct fast_cut *out);
/* Tells the filter the SGR before the cut, as far as they still count. */
void fast_pens(const uint8_t *p, const struct fast_cut *cut, struct filter *f);

#endif
