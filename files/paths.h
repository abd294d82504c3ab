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

/* A list that is asked often: its patterns are read once. One thread at a time. */
struct paths;
/* patterns: NULL-ended, copied. NULL: no memory, or a pattern that is none. */
struct paths *paths_new(const char *const *patterns);
void paths_free(struct paths *p); /* NULL allowed */
/* As paths_allow(), without a call for memory. */
bool paths_have(const struct paths *p, const char *path, bool tree);

/* patterns: NULL-ended. tree: and all that is or may come below it. Without memory nothing is allowed. */
bool paths_allow(const char *const *patterns, const char *path, bool tree);

#endif
