/*
 * fs_state.h - what a name is: for answers, and before and after each change, with the content's SHA-256.
 *
 * A digest is left out where the content is not read for it: of what is no file, and once an operation has read
 * FS_HASH_MAX bytes, or as long as it may, for digests alone. Changes are a list of {path, before, after}, null where
 * nothing was or is; those beyond FS_CHANGES_MAX or 48 KiB are counted.
 */
#ifndef MUXD_MUXLET_FS_STATE_H
#define MUXD_MUXLET_FS_STATE_H

#include "muxd/muxlet/fs.h"
#include "muxd/muxlet/sha256.h"

#define FS_HASH_MAX    (256ull * 1024 * 1024)
#define FS_CHANGES_MAX 100

struct fs_state {
	bool there;
	struct stat st;
	char sha256[2 * SHA256_LEN + 1]; /* "": not known */
	int unread;                      /* why it could not be opened for its digest; 0: it could, or nobody tried */
};

/* Of the name itself, not followed. Absent is no error. 0 or an errno. */
int fs_state_of(struct fs_work *w, int dir_fd, const char *base, struct fs_state *out);
/* Of what is open: its content from the beginning. out: "" when that would be over the budget. */
int fs_state_digest(struct fs_work *w, int fd, char out[2 * SHA256_LEN + 1]);
/* ECANCELED when if_match was given and is not what is there; EFBIG, EACCES: what is there has no digest to compare. */
int fs_state_match(struct fs_work *w, const struct fs_state *now);
void fs_state_changed(struct fs_work *w, const char *path, const struct fs_state *before, const struct fs_state *after);
/* Forgets the changes that were told of: somebody undid them. */
void fs_state_forget(struct fs_work *w);
const char *fs_state_type(mode_t mode);
/* type, size, mode and mtime, in an object that is open. */
void fs_state_fields(struct fs_out *o, const struct stat *st);
/* {path, type, size, mode, mtime, target}; target is read in dir_fd. */
void fs_state_entry(struct fs_out *o, const char *key, const char *path, const struct stat *st, int dir_fd,
		    const char *base);

#endif
