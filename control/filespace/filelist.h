/*
 * filelist.h - files of one side, or those that both agreed on, by path. A value of its owner's: filled, sorted once,
 * then asked.
 */
#ifndef CONTROL_FILESPACE_FILELIST_H
#define CONTROL_FILESPACE_FILELIST_H

#include "control/filespace/rule.h"

#include <stddef.h>

#define FILESPACE_PATH_MAX 4095 /* bytes */

struct filespace_file {
	char *path; /* no NUL in it; bytes of any other kind */
	struct filespace_side side;
	/* The file in the workspace: as it was when it was hashed; inode 0: none, or not known. */
	uint64_t size, inode, used; /* used: bytes on the disk */
	int64_t mtime_ns, ctime_ns;
	bool skipped; /* of the workspace: it is there, and is left alone with all below it; why: an errno */
	int why;
};

struct filespace_list {
	struct filespace_file *p;
	size_t n, room;
	uint64_t bytes; /* of path texts and sizes: sum of `size` of files with a key */
};

/* A copy. The paths go with the list. ERR_NOMEM. */
int filespace_list_add(struct filespace_list *l, const char *path, const struct filespace_file *f);
/* By path; false: one path stands there twice. */
bool filespace_list_sort(struct filespace_list *l);
struct filespace_file *filespace_list_find(const struct filespace_list *l, const char *path); /* sorted; NULL */
/* Is the path, or a directory on the way to it, left alone? */
bool filespace_list_skips(const struct filespace_list *l, const char *path);
/* Bytes on the disk of all of them, of each inode once. UINT64_MAX: no memory. */
uint64_t filespace_list_used(const struct filespace_list *l);
void filespace_list_finish(struct filespace_list *l);

#endif
