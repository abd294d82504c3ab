/*
 * rootfs.h - the roots of images, each unpacked once and shared by every sandbox that has it.
 *
 * DIR/images/<sha256>/tree/{root/, env, notes}; <sha256> is the digest that the configuration gives. muxd-archive
 * unpacks into <sha256>/new, in the cage of archive.h: as root under nobody's uid, else in a user namespace of our own.
 * It is named "tree" when all of it is on the disk, so there is a whole one or none; what a death left as "new" goes
 * ahead of the next unpacking, and at the start. Nobody writes into a tree: sandboxes see it read-only.
 *
 * The directory's lock is held while one is unpacked: who wants the same waits, and then finds it.
 */
#ifndef CONTROL_LOCAL_ROOTFS_H
#define CONTROL_LOCAL_ROOTFS_H

#include "control/local/local.h"

#include <limits.h>

#define ROOTFS_ENV_MAX (32 * 1024)

struct rootfs {
	char path[PATH_MAX]; /* of root/ */
	int fd;              /* of it */
	char env[ROOTFS_ENV_MAX + 1];
	size_t env_len; /* NAME=VALUE, each with its NUL */
	char notes[280];
};

/* Finds or unpacks. ERR_IMAGE: what is wrong with it; ERR_DISK_FULL, ERR_TIMEOUT. *out: rootfs_put(). */
int rootfs_get(struct local *l, const struct local_image *image, struct rootfs **out, struct err *e);
void rootfs_put(struct rootfs *r);
/* Does the path lead to something that may be run in it? Links are followed inside alone. */
bool rootfs_runs(const struct rootfs *r, const char *path);
int rootfs_open_base(struct local *l, struct err *e);

#endif
