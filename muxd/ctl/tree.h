/*
 * tree.h - a directory on this side: as an archive that goes into a sandbox, and of one that came out of it.
 *
 * What comes out of a sandbox is a stranger's. It is unpacked into a directory of its own beside the name, which it
 * takes once the archive was whole. Of links in it none is made, so that no name leads out of there, and nothing gets
 * permissions but those that the umask gives to new files: as sink.h has it for one file.
 *
 * States of a tree: OPEN -> settled (it has its name) | closed (it is gone). While it is OPEN a thread waits for the
 * signals that end muxctl, and takes the directory away before it lets them.
 */
#ifndef MUXD_CTL_TREE_H
#define MUXD_CTL_TREE_H

#include "files/tar.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

struct err;

/*
 * The archive of a directory, in a file without a name below $TMPDIR; *out_fd is the caller's, at its beginning. A link
 * that leads out of the directory, and what is neither file nor directory, is left out and named on stderr.
 */
int tree_pack(const char *local, int *out_fd, struct err *e);

struct tree {
	char to[PATH_MAX], temp[PATH_MAX]; /* temp "": it was not made, or has its name */
	int dir_fd, file_fd;               /* -1 */
	bool over;                         /* the archive has had its end */
	unsigned long long files, bytes, links, entries;
	struct tar_reader reader;
	bool guarded; /* what follows is there */
	pthread_t guard;
	pthread_mutex_t lock; /* held while something is made in there */
	sigset_t ends, before;
};

/* `to` is the name that it gets. ERR_FILE_EXISTS: it is taken. */
int tree_open(const char *to, struct tree *out, struct err *e);
/* The next bytes of the archive; arg: the tree. Fits api_take. */
int tree_take(void *arg, const void *p, size_t n, struct err *e);
int tree_settle(struct tree *t, struct err *e);
void tree_close(struct tree *t); /* what has not settled goes */

#endif
