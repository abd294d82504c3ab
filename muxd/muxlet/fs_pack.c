/* tree_get: a file or a directory with all that is in it, as a tar archive on the standard output. */
#include "files/tar.h"
#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_walk.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (64 * 1024)

struct packing {
	struct fs_work *w;
	struct tar_entry entry;
	int err;
};

static const uint8_t pack_zeros[2 * TAR_BLOCK];

static int pack_put_head(struct packing *k)
{
	static uint8_t head[TAR_HEAD_MAX];

	return newfile_write(STDOUT_FILENO, head, tar_write(&k->entry, head));
}

/* As long as its header says: one that became shorter is no whole file, one that grew is as it was. */
static int put_content(struct packing *k, int fd)
{
	static uint8_t buf[CHUNK];
	uint64_t left = k->entry.size;
	int err = 0;

	while (!err && left) {
		ssize_t n = newfile_read(fd, buf, left < CHUNK ? (size_t)left : CHUNK);

		if (n <= 0)
			return n ? errno : ESTALE;
		left -= (uint64_t)n;
		err = newfile_write(STDOUT_FILENO, buf, (size_t)n);
	}
	return err ? err : newfile_write(STDOUT_FILENO, pack_zeros, TAR_PAD(k->entry.size));
}

static int pack_file(struct packing *k, int dir_fd, const char *base)
{
	int fd = openat(dir_fd, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), err;
	struct stat st;

	if (fd < 0)
		return errno;
	err = fstat(fd, &st) ? errno : S_ISREG(st.st_mode) ? 0 : ENODEV;
	if (!err) {
		k->entry.size = (uint64_t)st.st_size;
		err = pack_put_head(k);
	}
	if (!err)
		err = put_content(k, fd);
	close(fd);
	return err;
}

/* name: in the archive. What is neither file, directory nor link has no place in it. */
static int pack_one(struct packing *k, int dir_fd, const char *base, const char *name, const struct stat *st)
{
	struct tar_entry *e = &k->entry;
	ssize_t n;

	if (snprintf(e->path, sizeof(e->path), "%s%s", name, S_ISDIR(st->st_mode) ? "/" : "") >= (int)sizeof(e->path))
		return ENAMETOOLONG;
	e->mode = st->st_mode & NEWFILE_MODE_BITS;
	e->mtime_s = st->st_mtime;
	e->size = 0;
	e->target[0] = '\0';
	e->type = S_ISDIR(st->st_mode) ? TAR_DIRECTORY : S_ISLNK(st->st_mode) ? TAR_SYMLINK : TAR_FILE;
	if (S_ISREG(st->st_mode))
		return pack_file(k, dir_fd, base);
	if (!S_ISDIR(st->st_mode) && !S_ISLNK(st->st_mode))
		return 0;
	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dir_fd, base, e->target, sizeof(e->target) - 1);
		if (n < 0)
			return errno;
		e->target[n] = '\0';
	}
	return pack_put_head(k);
}

static enum fs_walk_next pack_visit(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	struct packing *k = arg;
	int err = pack_one(k, dir_fd, base, path, st);

	if (err == ENOENT) /* it went meanwhile */
		return FS_WALK_ON;
	if (err)
		(void)fs_fail(k->w, err, "%.150s: %s", path, strerror(err));
	k->err = err;
	return err ? FS_WALK_STOP : FS_WALK_ON;
}

static int pack_tree(struct packing *k, int fd, const struct stat *st)
{
	struct fs_walk walk = {.visit = pack_visit, .arg = k, .depth = FS_WALK_DEPTH};
	int err = pack_one(k, fd, ".", ".", st);

	if (!err)
		err = fs_op_ignore(k->w, &walk);
	if (!err)
		err = fs_walk_run(&walk, fd, "");
	ignore_free(walk.ignore);
	if (!err && !k->err && walk.unread)
		err = fs_fail(k->w, EACCES, "%u directories could not be read", walk.unread);
	return k->err ? k->err : err;
}

int fs_pack(struct fs_work *w)
{
	static struct packing k;
	struct fs_place p;
	struct stat st;
	int fd = -1, err = fs_root_openat(&w->root, w->name, O_PATH, &fd);

	k.w = w;
	if (!err && fstat(fd, &st))
		err = errno;
	if (fd >= 0)
		close(fd);
	if (!err && S_ISDIR(st.st_mode)) {
		err = fs_root_openat(&w->root, w->name, O_RDONLY | O_DIRECTORY, &fd);
		if (!err) {
			err = pack_tree(&k, fd, &st);
			close(fd);
		}
	} else if (!err) {
		err = fs_root_place(&w->root, w->name, &p);
		if (!err) {
			err = fstatat(p.dir_fd, p.base, &st, AT_SYMLINK_NOFOLLOW) ? errno : 0;
			if (!err)
				err = pack_one(&k, p.dir_fd, p.base, p.base, &st);
			fs_root_leave(&p);
		}
	}
	return err ? err : newfile_write(STDOUT_FILENO, pack_zeros, sizeof(pack_zeros));
}
