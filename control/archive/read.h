/*
 * read.h - an archive member by member, each name found, everything summed up as it passes.
 *
 * read_check() is the proof: the whole archive, to nowhere. unpack.h puts the same into a directory.
 */
#ifndef CONTROL_ARCHIVE_READ_H
#define CONTROL_ARCHIVE_READ_H

#include "control/archive/names.h"
#include "control/archive/sum.h"

/* Where members go. A failure (ERR_*) ends the reading. */
struct read_sink {
	/* base in place; dir: the directory it is, else NULL. from: where an ITEM_HARD leads. */
	int (*item)(void *ctx, const struct item *i, struct place *place, const char *base, struct place *dir,
		    struct place *from, const char *from_base, struct err *e);
	/* Content of the last one, in order, without holes; end: there is no more, p is NULL. */
	int (*data)(void *ctx, uint64_t offset, const void *p, size_t n, bool end, struct err *e);
	int (*over)(void *ctx, const struct names *names, struct err *e);
	void *ctx;
	bool old; /* made by tar, for an earlier version: ERR_UNSUPPORTED at a name that is not ASCII */
};

struct read_result {
	uint64_t entries, bytes;
	char digest[SUM_TEXT_MAX];
};

/* fd: from where it is. The message names the member. */
int read_archive(int fd, const struct read_sink *sink, struct read_result *out, struct err *e);
int read_check(int fd, struct read_result *out, struct err *e);

#endif
