/*
 * fs_walk.h - a tree below the root, in one order: each directory before what is in it, names by their bytes.
 * Directories are opened one in the other and links are not followed, so the walk stays inside whatever is changed
 * meanwhile.
 */
#ifndef MUXD_MUXLET_FS_WALK_H
#define MUXD_MUXLET_FS_WALK_H

#include "files/ignore.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define FS_WALK_DEPTH 256 /* of directories in one another; each holds a descriptor */

/* The results of a visitor. */
enum fs_walk_next { FS_WALK_ON, FS_WALK_PAST /* not into this directory */, FS_WALK_STOP };

struct fs_walk {
	/* One name: in dir_fd it is base, below where the walk began it is path. */
	enum fs_walk_next (*visit)(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st);
	/* The same when everything in a directory was visited; NULL: not told. */
	enum fs_walk_next (*leave)(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st);
	void *arg;
	const char *after;     /* go on behind this path; NULL: from the beginning */
	struct ignore *ignore; /* what is left out; NULL: nothing. The caller's */
	bool gitignore;        /* .gitignore files on the way are added to it */
	int depth;             /* of directories that are entered: 1 is the first alone */
	size_t prefix_len;     /* its own */
	unsigned unread;       /* out: directories that could not be opened or were too deep, names that are too long */
	unsigned too_long;     /* the last of these alone */
};

/* Walks the entries of dir_fd, which stays the caller's. prefix: what paths begin with, "" or one without a slash at
 * its end. */
int fs_walk_run(struct fs_walk *w, int dir_fd, const char *prefix);

#endif
