/*
 * newfile.h - a file that is not there before it is whole: what puts, writes, patches and copies have in common.
 *
 * Its content lies in a file without a name (O_TMPFILE) in the directory where it is to stand, so that a kill leaves no
 * rest. It has a name, ".muxd-put-...", from its first byte where the file system has no such files, and for one
 * instant where it replaces something (link() does not replace, rename() needs a name): TERM and HUP take that away, a
 * kill leaves it, in the second case with the whole content. Owned by its caller; once opened it stays in its place
 * until the program ends, or is dropped.
 *
 * States: dir_fd < 0 -> opened -> published or dropped.
 */
#ifndef MUXD_MUXLET_NEWFILE_H
#define MUXD_MUXLET_NEWFILE_H

#include "muxd/muxlet/sha256.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define NEWFILE_MODE      0644
#define NEWFILE_MODE_BITS 07777

struct newfile {
	char base[NAME_MAX + 1]; /* the name that it gets */
	char temp[48];
	int dir_fd; /* where it gets it; the caller's */
	int fd;
	bool named;           /* temp stands in the directory */
	struct newfile *next; /* its own */
};

/* Base and dir_fd are filled in. 0 or an errno, as all of these. */
int newfile_open(struct newfile *t);
/*
 * All of stdin but the last 40 bytes to fd. They are what the sender says of the content: its size (u64,
 * little-endian) and SHA-256; EBADMSG when they differ. out_sum, out_size: may be NULL.
 */
int newfile_receive(int fd, uint8_t out_sum[SHA256_LEN], uint64_t *out_size);
/*
 * From here on to the end of the program TERM and HUP wait: several names are given, all of them or none, and who has
 * something to take away again can. Who goes on for long looks whether one has come.
 */
int newfile_hold_end(void);
bool newfile_is_ended(void);
/*
 * As newfile_receive() to a function, which is given each piece and says 0 or an errno. TERM and HUP end it with
 * ECANCELED, and wait otherwise, as behind newfile_hold_end(). Who makes something ahead of the content holds them
 * first.
 */
int newfile_receive_each(int (*take)(void *arg, const uint8_t *p, size_t n), void *arg);
int newfile_write(int fd, const void *p, size_t n);
/* The same; *out_done: bytes that were written, also when it fails. */
int newfile_write_counted(int fd, const void *p, size_t n, size_t *out_done);
/* A short count is the end. -1: errno. */
ssize_t newfile_read(int fd, void *p, size_t n);
/* Synced, then named. EEXIST without replace, when the name is taken. */
int newfile_publish(struct newfile *t, mode_t mode, bool replace);
/* Its first half, and its second: content and mode are on the disk; it gets its name at once. */
int newfile_settle(struct newfile *t, mode_t mode);
int newfile_name(struct newfile *t, bool replace);
/* The same without a sync of the directory, for many at once. */
int newfile_link(struct newfile *t, bool replace);
void newfile_drop(struct newfile *t); /* harmless after publish */

#endif
