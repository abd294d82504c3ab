/*
 * paths.h - does a list of patterns allow a path: a grant's, asked by the hub before anything starts and by muxlet for
 * the names that it finds itself.
 *
 * A pattern is glob.h's, of literal bytes, `*`, `?` and `**`. `x/` + `**` covers x and all below; `**` covers
 * everything. A path is relative, "." for the top; one with ".." in it is allowed by nothing. Pure.
 */
#ifndef FILES_PATHS_H
#define FILES_PATHS_H

#include <stdbool.h>

/* patterns: NULL-ended. tree: and all that is or may come below it. Without memory nothing is allowed. */
bool paths_allow(const char *const *patterns, const char *path, bool tree);

#endif
