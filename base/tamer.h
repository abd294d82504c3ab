/*
 * tamer.h - a terminal's output for the terminal of somebody who looks on: a replay, an observer.
 *
 * Whoever runs a program gets its bytes as they are, as with ssh. Whoever looks at what others ran did not choose the
 * program, and may look years later: of its output what draws gets through and what speaks to the terminal does not.
 * Behind filter.h, which lets known sequences alone through, a tamer says them again in its own words and leaves out:
 * queries, strings of every kind (clipboard, links, titles, images, printing), modes of keyboard and mouse, the 132
 * columns that change a window, the wiping of the scrollback, full resets (a soft one and a clear screen stand for
 * them), bells, and the characters that turn a line's direction or have no width, but the joiners. What comes out
 * draws; a terminal that gets it answers nothing.
 *
 * Owned by the player or relay that shows the bytes. Cutting the input elsewhere changes nothing of the output.
 */
#ifndef BASE_TAMER_H
#define BASE_TAMER_H

#include "base/filter.h"

struct buf;

struct tamer {
	struct filter filter;
	struct buf *out; /* of the call that runs */
	int rc;
};

#define TAMER_GROWTH 24 /* for each byte that goes in, at most so many come out */

void tamer_init(struct tamer *t);
/* Appends what may be shown to out. ERR_NOMEM; ERR_TOO_LARGE: out had no room for n * TAMER_GROWTH. */
int tamer_feed(struct tamer *t, const void *p, size_t n, struct buf *out);
/* Bytes are missing here, or the screen begins anew. */
void tamer_cut(struct tamer *t);

#endif
