/*
 * fs_op.h - the operations themselves, and what they say when they fail. Each has the request in w->ask and the name in
 * w->name, puts its fields into w->out, and returns 0 or an errno (fs.h).
 */
#ifndef MUXD_MUXLET_FS_OP_H
#define MUXD_MUXLET_FS_OP_H

#include "muxd/muxlet/fs.h"

/* err, with a sentence for it; the first one stays. */
__attribute__((format(printf, 3, 4))) int fs_fail(struct fs_work *w, int err, const char *fmt, ...);

/* How an operation touches a name. */
enum { FS_READS = 16, FS_WRITES = 32, FS_TREE = 64 /* all below, too */, FS_TREE_IF_RECURSIVE = 128 };
/* EDOM where the request has lists of paths and none of a list allows it. */
int fs_allow(struct fs_work *w, const char *name, unsigned how);
/* EFBIG: a file of that size may not be made. */
int fs_allow_size(struct fs_work *w, const char *name, long long size);

int fs_stat(struct fs_work *w);
int fs_list(struct fs_work *w);
int fs_read(struct fs_work *w);
int fs_write(struct fs_work *w);
int fs_append(struct fs_work *w);
int fs_mkdir(struct fs_work *w);
int fs_move(struct fs_work *w);
int fs_copy(struct fs_work *w);
int fs_delete(struct fs_work *w);
int fs_chmod(struct fs_work *w);
int fs_patch(struct fs_work *w);
int fs_search(struct fs_work *w);
int fs_glob(struct fs_work *w);
int fs_watch(struct fs_work *w);
int fs_pack(struct fs_work *w);
int fs_unpack(struct fs_work *w);
int fs_changes(struct fs_work *w);
int fs_sync_list(struct fs_work *w);
int fs_sync_get(struct fs_work *w);
int fs_sync_put(struct fs_work *w);

/* Away with a directory that was made for a tree, and what is in it, however deep; dir_fd has it as temp. fd: it is
 * open; -1: it cannot be. What stays is told by that name, as left_behind. */
void fs_tidy(struct fs_work *w, int fd, int dir_fd, const char *temp);

/* The rules of the request for a walk: w->ask.ignore, and .gitignore files where it says so. */
struct fs_walk;
int fs_op_ignore(struct fs_work *w, struct fs_walk *walk);

#endif
