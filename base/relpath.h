/*
 * relpath.h - a path of others below a directory of ours, as a store, a sync and muxlet say it to each other: names
 * with one slash between them, none of them . or .., nothing absolute. Any other byte but NUL may stand in it.
 */
#ifndef BASE_RELPATH_H
#define BASE_RELPATH_H

#include <stddef.h>

#define RELPATH_MAX      4095 /* bytes */
#define RELPATH_NAME_MAX 255

/* path, of n bytes, need not end in a NUL. NULL: it is one; else why not (static text). */
const char *relpath_check(const char *path, size_t n);

#endif
