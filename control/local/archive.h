/*
 * archive.h - a plain workspace directory as tar and zstd, and back.
 *
 * For workspaces that are no image. The host's tar runs in a bubblewrap of its
 * own that sees the system's programs and that one directory: whatever links and
 * names a workspace holds, nothing outside is read or written. Blocking.
 */
#ifndef CONTROL_LOCAL_ARCHIVE_H
#define CONTROL_LOCAL_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

struct archive_params {
	const char *bwrap;
	const char *tree; /* the directory's path */
	int file;         /* the archive, at its beginning */
	bool root;        /* are we? */
	uid_t uid;        /* root: whose files an extract makes */
	uint64_t timeout_ns;
};

/* Everything in the tree, as it is read. ERR_MISSING (tar, zstd), ERR_TIMEOUT, ERR_DISK_FULL, ERR_SNAPSHOT with tar's
 * words. */
int archive_make(const struct archive_params *p, struct err *e);
/* Into the tree, an empty directory of uid's. The same errors. */
int archive_extract(const struct archive_params *p, struct err *e);

#endif
