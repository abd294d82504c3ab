/*
 * between.h - is a terminal's output between two characters and two sequences, so that a word of ours fits in?
 *
 * Follows escape sequences (also those that begin with a C1 control, in UTF-8), strings and UTF-8 just far enough to
 * know, over all bytes that a terminal was sent; looks at few of them: plain text is passed over as a whole. Owned by
 * whoever writes to that terminal. All zero: nothing was sent.
 */
#ifndef BASE_BETWEEN_H
#define BASE_BETWEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct between {
	uint8_t state;
	uint8_t more; /* bytes of a character that are still to come */
	uint8_t lead; /* its first byte, where the next one may make it a control */
};

void between_feed(struct between *b, const void *p, size_t n);
static inline bool between_now(const struct between *b)
{
	return b->state == 0 && b->more == 0;
}

/* A notice in the title of a terminal's window: the one place that no program's screen is in. */
#define BETWEEN_TITLE_MAX 600
/*
 * The bytes that set it (the title before it is kept by terminals that can) into out; returns how many. first: none of
 * ours stands there yet. text NULL: ours goes, and where the terminal kept none `fallback` stands.
 */
size_t between_title(char out[BETWEEN_TITLE_MAX], const char *text, bool first, const char *fallback);
/* Has a terminal of this name ($TERM) a window, or at least a parser that knows how a title looks? */
bool between_has_title(const char *term);

#endif
