/*
 * grant_paths.h - the paths that a grant's file operations may touch: patterns, and the largest file.
 *
 * Each list narrows and never widens: one that is given and empty allows nothing. Patterns are relative to the
 * workspace, of literal bytes of UTF-8, `*`, `?` and `**` (files/paths.h says what they mean). They travel in the
 * token, so they are short. Values, no ownership.
 */
#ifndef POLICY_GRANT_PATHS_H
#define POLICY_GRANT_PATHS_H

#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

struct err;

#define GRANT_PATHS_TEXT 256 /* bytes of all patterns of one list, each with its end */
#define GRANT_PATHS_MAX  16

struct grant_paths {
	bool given;                  /* else every path is allowed */
	char text[GRANT_PATHS_TEXT]; /* patterns, a line end behind each */
};
struct grant_files {
	struct grant_paths read, write;
	uint64_t size_max; /* bytes of a file that is moved or written, and of a patch; 0: no limit */
};

/* Is any of it a limit? */
bool grant_files_limited(const struct grant_files *f);
/* May a grant hold it? ERR_INVAL names the pattern. */
int grant_files_check(const struct grant_files *f, struct err *e);
/*
 * Members read, write (lists of texts) and file_max of an object, where they are; absent or null: no limit. ERR_INVAL.
 */
int grant_files_take(const json_t *o, struct grant_files *out, struct err *e);
/* The same into an object: members of limits alone. 0, ERR_NOMEM. */
int grant_files_put(json_t *o, const struct grant_files *f);
json_t *grant_paths_json(const struct grant_paths *p);

#endif
