/*
 * sum.h - what an archive holds, as one digest: SHA-256 of every member's name, kind, mode, time, attributes and
 * content.
 *
 * Made twice: of what is read from the workspace while it is packed, and of what comes out of the archive. Only
 * where both are the same is the archive a copy. Holes of a sparse file are no content, where they are is.
 *
 * sum_begin -> (sum_item, sum_data*)* -> sum_end.
 */
#ifndef CONTROL_ARCHIVE_SUM_H
#define CONTROL_ARCHIVE_SUM_H

#include "control/archive/item.h"

#include <stdbool.h>

#define SUM_TEXT_MAX 65 /* lower-case hex */

struct err;

struct sum {
	void *md;
	uint64_t entries, bytes; /* members; the sizes of files, holes included */
	bool extent;             /* content is open: from `began` up to `next` */
	uint64_t began, next;
};

int sum_begin(struct sum *s, struct err *e);
void sum_item(struct sum *s, const struct item *i);
/* Content of the last item, in order; n 0 is nothing. */
void sum_data(struct sum *s, uint64_t offset, const void *p, size_t n);
/* Also where it failed, then out may be NULL. */
int sum_end(struct sum *s, char out[SUM_TEXT_MAX], struct err *e);

#endif
