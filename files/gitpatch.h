/*
 * gitpatch.h - a change of one file as `git diff --binary --full-index` writes it: for `git apply`, and, where it is
 * text, for `patch -p1`.
 *
 * A content is named by what git calls its blob (SHA-1 of its length and its bytes). Text becomes hunks (diff.h). What
 * has a NUL, is binary as content.h has it, or is not in memory becomes a literal: the new content whole, in base 85,
 * deflated by blocks that are stored, so that nothing has to compress. Names are quoted where they have to be.
 *
 * Pure: bytes go to a function as they are made. 0, what that function said, or -1 for no memory.
 */
#ifndef FILES_GITPATCH_H
#define FILES_GITPATCH_H

#include "files/diff.h"
#include "files/sha1.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GITPATCH_FILE 0100644
#define GITPATCH_RUN  0100755
#define GITPATCH_LINK 0120000 /* its content is where it leads */

/* One side of a change. */
struct gitpatch_side {
	unsigned mode; /* one of those above; 0: there is no such file */
	uint64_t size;
	uint8_t blob[SHA1_LEN];
	const char *p; /* the content; NULL: not in memory */
};

/* The blob's name: begin, sha1_add() its bytes, sha1_finish(). */
void gitpatch_blob(struct sha1 *s, uint64_t size);
/* Are both to be told as text? */
bool gitpatch_is_text(const struct gitpatch_side *old, const struct gitpatch_side *now);
/* The whole of a change of text. */
int gitpatch_text(const char *path, const struct gitpatch_side *old, const struct gitpatch_side *now, diff_put *put,
		  void *arg);

/* Content that is not told as text: begin, then its bytes in pieces, then the end. */
struct gitpatch_literal {
	diff_put *put;
	void *arg;
	uint8_t line[52];
	size_t n;          /* of line */
	uint64_t left;     /* bytes that are still to come */
	uint32_t in_block; /* of a stored block */
	uint32_t a, b;     /* Adler-32 (RFC 1950) */
};
int gitpatch_literal_begin(struct gitpatch_literal *l, const char *path, const struct gitpatch_side *old,
			   const struct gitpatch_side *now, diff_put *put, void *arg);
/* No more than the size that `now` has. */
int gitpatch_literal_add(struct gitpatch_literal *l, const void *p, size_t n);
int gitpatch_literal_end(struct gitpatch_literal *l);
/* A line that is no part of any change, and that tools pass over: "text: path". */
int gitpatch_remark(const char *text, const char *path, diff_put *put, void *arg);

#endif
