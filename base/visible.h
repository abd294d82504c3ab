/*
 * visible.h - text of others, made so that whoever looks at it sees all of it and nothing else.
 *
 * The one rule for whatever a peer, a sandbox or another person wrote and somebody is shown: tables, log lines, pages
 * (webclient/src/visible.ts has the same rule), notices, window titles, error messages. What acts on a terminal, turns
 * the direction of a line, has no ink or no meaning is written as an escape: \n \r \t, \x1b for other bytes below 0x80
 * and for bytes that are no UTF-8, \u{202e} for the rest: controls, format characters (bidirectional, zero width),
 * line and paragraph separators, private use, unassigned, noncharacters, and what is ignorable by default (fillers,
 * variation selectors). Marks are drawn over the character before them: of more than VISIBLE_MARKS_MAX in a row, and of
 * one that opens a text, escapes are left too. Wide characters stay as they are: they hide nothing, and texts are
 * bounded where they are kept. A backslash stays as well, so an escape that is shown may have been typed: what has to
 * tell them apart asks for VISIBLE_BACKSLASH, or reads JSON, which is exact.
 *
 * Values, no state but struct visible of a caller who goes character by character.
 */
#ifndef BASE_VISIBLE_H
#define BASE_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VISIBLE_STEP_MAX  16   /* bytes that one character may be shown as, NUL included */
#define VISIBLE_MARKS_MAX 4    /* in a row: three are the most that a language needs on a letter */
#define VISIBLE_TEXT_MAX  4096 /* bytes that visible_dup() shows of a text */

enum {
	VISIBLE_LINES = 1,     /* tabs and line breaks (LF) stay: a text of several lines */
	VISIBLE_BACKSLASH = 2, /* a backslash is doubled */
};

/* How many marks stand on the last character; all zero before the first. */
struct visible {
	bool begun;
	uint8_t marks;
};

/* Shown as it is, wherever it stands? (A mark is, on something.) */
bool visible_is_plain(uint32_t cp);
/*
 * The next character of the n > 0 bytes at p as it is shown, with a NUL; *out_len its length. Returns the bytes that it
 * took, at least 1.
 */
size_t visible_step(struct visible *v, const void *p, size_t n, unsigned flags, char out[VISIBLE_STEP_MAX],
		    size_t *out_len);
/*
 * All of it into out (size >= 4), always with a NUL, never cut within a character or an escape; what did not fit is
 * an ellipsis. Returns the length.
 */
size_t visible_put(char *out, size_t size, const void *p, size_t n, unsigned flags);
/* The same, to be freed; max 0: VISIBLE_TEXT_MAX. NULL: no memory. */
char *visible_dup(const void *p, size_t n, size_t max, unsigned flags);
/* Would it be shown as it is? If not, *out_at (NULL allowed) is the first byte that would not. */
bool visible_check(const void *p, size_t n, size_t *out_at);
/*
 * The same JSON (its text, as a writer made it) without a character that cannot be seen: \u202e for what visible_step()
 * would escape, so that a terminal may show it and a program reads the same values. To be freed; NULL: no memory.
 */
char *visible_json(const char *json);

#endif
