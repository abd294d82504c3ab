/*
 * listed.h - a list of programs inside a sandbox as a file has it: read, and without what muxctl printed along.
 */
#ifndef MUXD_CTL_LISTED_H
#define MUXD_CTL_LISTED_H

#include "base/json.h"

struct err;

#define LISTED_MAX (64 * 1024)

/* JSON of a file, "-": of standard input. ERR_TOO_LARGE, ERR_INVAL and what cannot be read. */
int listed_read(const char *path, size_t max, const char *what, json_t **out, struct err *e);
/* States that were printed along are no part of the configuration. keys: NULL-ended. */
void listed_forget(json_t *list, const char *const *keys);

#endif
