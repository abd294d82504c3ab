/*
 * pack.h - a workspace becomes an archive (tar, pax headers, in zstd), in one pass and bounded memory for each file.
 *
 * Kept: files, directories, links of both kinds, FIFOs, holes, modes, times of modification, attributes user.*.
 * Left out and counted: sockets and device nodes, which nothing can bring back. Owners are not kept. A file that
 * changes while it is read is as it was read, of the length that it began with.
 */
#ifndef CONTROL_ARCHIVE_PACK_H
#define CONTROL_ARCHIVE_PACK_H

#include "control/archive/sum.h"

struct pack_result {
	uint64_t entries, bytes, skipped, changed;
	char digest[SUM_TEXT_MAX]; /* of what was read */
};

/* top: the workspace's path; fd: written from where it is. The message names the path inside. */
int pack_tree(const char *top, int fd, struct pack_result *out, struct err *e);

#endif
