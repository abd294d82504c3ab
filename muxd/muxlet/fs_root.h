/*
 * fs_root.h - the directory that file operations stay below, and places in it: names resolved by the kernel
 * (openat2, RESOLVE_BENEATH), so that no "..", no symbolic link and nobody who changes one meanwhile leads outside.
 *
 * The root is where programs of the sandbox begin, /workspace by default; in a visited container, where its first
 * process is. What an operation does to a name it does in the directory that was opened, without following the name.
 */
#ifndef MUXD_MUXLET_FS_ROOT_H
#define MUXD_MUXLET_FS_ROOT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct fs_root {
	int fd;
	char path[PATH_MAX]; /* as programs name it */
	bool no_links;       /* a link on the way is EDOM: names are what is opened */
};

/* A name in a directory. */
struct fs_place {
	int dir_fd; /* -1: none */
	char base[NAME_MAX + 1];
	bool is_root; /* the root itself: base is "." */
};

/* Of muxlet's own working directory, or (visit, a process) another container's. 0 or an errno, as all of these. */
int fs_root_open(int visit, struct fs_root *out);
/*
 * What a client calls path, below the root: relative, without doubled or trailing slashes, "." for the root. An
 * absolute path has to begin with the root's; EXDEV, ENOENT (empty), ENAMETOOLONG.
 */
int fs_root_name(const struct fs_root *r, const char *path, char *out, size_t size);
/* open() of such a name, following links that stay below. */
int fs_root_openat(const struct fs_root *r, const char *name, int flags, int *out_fd);
/* Its directory, and its last part, of which nothing is known. EINVAL: it ends in "..". */
int fs_root_place(const struct fs_root *r, const char *name, struct fs_place *out);
void fs_root_leave(struct fs_place *p);
/* The directories that a name stands in, made where they are missing. */
int fs_root_parents(const struct fs_root *r, const char *name, mode_t mode);
/* Permissions of the directory itself: what another name leads to meanwhile, a link say, is left alone. 0 or an errno.
 */
int fs_root_chmod_dir(int dir_fd, const char *base, mode_t mode);
/* Only one operation of muxlet's at a time changes names in this directory; programs are not held back. */
int fs_root_lock(const struct fs_place *p);
void fs_root_unlock(const struct fs_place *p);

#endif
