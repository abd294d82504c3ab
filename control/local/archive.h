/*
 * archive.h - a plain workspace directory as tar and zstd, and back.
 *
 * For workspaces that are no image. muxd-archive (control/archive/) runs in a bubblewrap of its
 * own that sees the system's programs and that one directory: whatever links and
 * names a workspace holds, nothing outside is read or written. Blocking.
 *
 * An archive that was made is no copy yet: archive_check() reads it whole, from the disk, and says what came out. Only
 * where that is what went in may the workspace go.
 */
#ifndef CONTROL_LOCAL_ARCHIVE_H
#define CONTROL_LOCAL_ARCHIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define ARCHIVE_DIGEST_MAX 65

struct archive_params {
	const char *bwrap;
	const char *program; /* muxd-archive */
	const char *tree;    /* the directory's path; NULL for a check */
	int file;            /* the archive */
	bool root;           /* are we? */
	uid_t uid;           /* root: whose files an extract makes */
	uint64_t timeout_ns;
	/* Of an image: what the configuration gives (hex), a directory in place of the file (NULL), bytes at most. */
	const char *digest, *layout;
	uint64_t max;
	const atomic_bool *given_up; /* of an image: tool.h; NULL */
};

/* The sum of an archive: its members, the sizes of its files, and a digest of all of it (control/archive/sum.h). */
struct archive_sum {
	uint64_t entries, bytes;
	char digest[ARCHIVE_DIGEST_MAX]; /* "": not known */
	uint64_t skipped, changed;       /* made: sockets and devices left out; files that changed or went meanwhile */
};

/* Everything in the tree, as it is read. ERR_MISSING, ERR_TIMEOUT, ERR_DISK_FULL, ERR_SNAPSHOT with the path inside. */
int archive_make(const struct archive_params *p, struct archive_sum *out, struct err *e);
/* Reads all of it, and finds what was made. ERR_SNAPSHOT: it cannot be restored, or is another. */
int archive_check(const struct archive_params *p, const struct archive_sum *made, struct err *e);
/* An OCI image to a root, into the tree, an empty directory of uid's (control/archive/oci_unpack.h). ERR_IMAGE. */
int archive_image(const struct archive_params *p, struct archive_sum *out, struct err *e);
/* Into the tree, an empty directory of uid's. ERR_CORRUPT: it is damaged, or (made not NULL, known) another. */
int archive_extract(const struct archive_params *p, const struct archive_sum *made, struct err *e);

#endif
