/*
 * grep.h - the lines of a text that match, with the lines around them: of a file in memory, or of a stream.
 *
 * One who searches: fills in the upper half, calls grep_run() with one buffer after the other, is told lines in order.
 * Each line is told once: as a match, or as one of `before` or `after` lines beside one. A "\r" before the newline is
 * the line's end too. For a stream the caller's buffer begins with what grep_run() left of the last one: the beginning
 * of a line, and the lines before it that may still be wanted.
 *
 * A search belongs to its caller; it holds no memory of its own. Lines point into the buffer, until the call returns.
 */
#ifndef FILES_GREP_H
#define FILES_GREP_H

#include "files/match.h"

struct grep_line {
	uint64_t number; /* from 1 */
	uint64_t offset; /* of its first byte, from the beginning of the stream */
	const char *p;   /* without its end */
	size_t n;
	bool match;             /* else it stands beside one */
	struct match_span span; /* of a match: the first in the line; with `invert` 0, 0 */
};

enum grep_part {
	GREP_MORE, /* a stream's part: what is behind its last newline waits for the next */
	GREP_FULL, /* the buffer is full and the caller has no larger one: the rest counts as a line, and what comes
		      goes on with the same number */
	GREP_LAST  /* the end: the rest is a line */
};

enum grep_result { GREP_DONE, GREP_ENOUGH, GREP_TOO_COMPLEX };

struct grep {
	struct match *match;
	unsigned before, after;
	bool invert; /* lines that do not match */
	/* One line; false: enough. */
	bool (*told)(void *arg, const struct grep_line *line);
	void *arg;
	/* The members from here on are zero at the beginning. */
	uint64_t lines, offset; /* lines that ended; bytes that were dropped in front of the buffer */
	size_t kept, shown;     /* bytes of the buffer that were searched, and that were told */
	unsigned owed;          /* lines behind a match that are still to be told */
};

/* Searches p[0..n). *out_drop: bytes in front of the buffer that the caller is to take away before the next call. */
enum grep_result grep_run(struct grep *g, const void *p, size_t n, enum grep_part part, size_t *out_drop);

#endif
