/*
 * glob.h - does a path match a pattern of names: `*`, `?`, [classes], `**`, {alternatives}.
 *
 * Paths are relative to where the pattern is asked from, with `/` between names and none at either end; bytes, any but
 * NUL. A pattern becomes an expression over bytes (match.h), so alternatives are never written out and time is linear.
 * Each path has the whole budget of work, and takes less of it in every pattern if it has PATH_MAX bytes at most:
 * MATCH_TOO_COMPLEX says that there is no memory, never that many paths were asked before.
 *
 *	*	  any bytes but `/`; also a leading dot
 *	?	  one byte but `/`
 *	[a-z]	  one of them, never `/`; [!a-z] and [^a-z] one of the others; [[:alpha:]]
 *	**	  any names, or none, where it is a whole name: `**` + `/x`, `x/` + `**`, `x/` + `**` + `/y`; else as *
 *	{a,b}	  with GLOB_BRACES: either, in each other as deep as MATCH_DEPTH_MAX
 *	\c	  the character c
 *	x/	  a directory alone; a `/` or `./` in front is passed over
 */
#ifndef FILES_GLOB_H
#define FILES_GLOB_H

#include "files/match.h"

#define GLOB_PATTERN_MAX 1024 /* bytes */

#define GLOB_BRACES 1u /* for calls; lists of ignore rules have none */
#define GLOB_NOCASE 2u

struct glob;

/* NULL with *err: [ without ], { without }, too long, a backslash at the end, or no memory. */
struct glob *glob_new(const char *pattern, size_t n, unsigned flags, struct match_error *err);
void glob_free(struct glob *g); /* NULL allowed */
enum match_result glob_path(struct glob *g, const char *path, size_t n, bool is_dir);
/* Could a path below this directory match? A walk that hears MATCH_NO need not go in. */
enum match_result glob_below(struct glob *g, const char *dir, size_t n);

#endif
