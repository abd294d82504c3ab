#include "muxd/muxlet/file.h"

#include "muxd/muxlet/fs_root.h"
#include "muxd/muxlet/newfile.h"
#include "muxd/muxlet/visit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (64 * 1024)

/* A file on its way to its name. */
struct target {
	struct newfile file;
	char dir[PATH_MAX];
	int root; /* of another container; -1: our own */
};

static int complain(const char *what, const char *path, int err)
{
	fprintf(stderr, "%s %s: %s\n", what, path, strerror(err));
	return err > 0 && err < 256 ? err : EIO;
}

/* ---- where it goes */

static int file_split(const char *path, struct target *t)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t n = (size_t)(base - path);

	if (!*path)
		return ENOENT;
	if (!*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
		return EISDIR;
	if (strlen(base) > NAME_MAX || n >= sizeof(t->dir))
		return ENAMETOOLONG;
	memcpy(t->dir, path, n);
	t->dir[n] = '\0';
	if (!n)
		strcpy(t->dir, ".");
	strcpy(t->file.base, base);
	return 0;
}

static int make_parents(int root, char *dir)
{
	for (char *p = dir + 1; p[-1]; p++) {
		char c = *p;

		if (c && c != '/')
			continue;
		*p = '\0';
		if (visit_mkdir_in(root, dir, 0777) && errno != EEXIST && errno != EISDIR && errno != EROFS &&
		    errno != EACCES)
			return errno; /* what may not be made may be there: the open tells */
		*p = c;
	}
	return 0;
}

/* A directory that may be written to but not listed is one all the same; it is then not synced. */
static int open_dir(struct target *t)
{
	t->file.dir_fd = visit_open_in(t->root, t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->file.dir_fd < 0 && errno == EACCES)
		t->file.dir_fd = visit_open_in(t->root, t->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return t->file.dir_fd < 0 ? errno : 0;
}

/* The mode it shall have; EISDIR when a directory has the name. */
static int file_look(const struct target *t, long wanted, mode_t *out)
{
	struct stat st;

	*out = (mode_t)(wanted < 0 ? NEWFILE_MODE : wanted) & NEWFILE_MODE_BITS;
	if (fstatat(t->file.dir_fd, t->file.base, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	if (wanted < 0 && S_ISREG(st.st_mode))
		*out = st.st_mode & NEWFILE_MODE_BITS;
	return 0;
}

/* No put takes a name between an operation's look at it and that operation's own (fs_root.h); until we end. */
static int wait_turn(int dir_fd)
{
	int rc;

	do
		rc = flock(dir_fd, LOCK_EX);
	while (rc && errno == EINTR);
	return rc && errno != EBADF ? errno : 0; /* EBADF: it may not be read, so it cannot be locked */
}

/* Where path leads, and below which root. */
static int locate(int pid, const char *path, char *out, size_t size, int *out_root)
{
	int err;

	if (!pid)
		return snprintf(out, size, "%s", path) < (int)size ? 0 : ENAMETOOLONG;
	err = visit_open(pid, out_root);
	return err ? err : visit_path(pid, path, out, size);
}

/* The name, and its directory open. */
static int find_place(const struct file_put *p, struct target *t)
{
	char path[PATH_MAX + NAME_MAX];
	int err = locate(p->visit, p->path, path, sizeof(path), &t->root);

	if (!err)
		err = file_split(path, t);
	if (!err && p->parents)
		err = make_parents(t->root, t->dir);
	return err ? err : open_dir(t);
}

static int beneath_name(const struct file_put *p, const char *path, struct fs_root *out, char *name, size_t size)
{
	int err = fs_root_open(p->visit, out);

	out->no_links = true;
	return err ? err : fs_root_name(out, path, name, size);
}

static int find_place_beneath(const struct file_put *p, struct target *t)
{
	static struct fs_root root = {.fd = -1};
	struct fs_place place = {.dir_fd = -1};
	char name[PATH_MAX];
	int err = beneath_name(p, p->path, &root, name, sizeof(name));

	if (!err && p->parents)
		err = fs_root_parents(&root, name, 0777);
	if (!err)
		err = fs_root_place(&root, name, &place);
	if (err || place.is_root)
		return err && err != EINVAL ? err : EISDIR;
	t->file.dir_fd = place.dir_fd;
	strcpy(t->file.base, place.base);
	return 0;
}

int file_put(const struct file_put *p)
{
	static struct target t = {.root = -1, .file = {.dir_fd = -1, .fd = -1}};
	mode_t mode = NEWFILE_MODE;
	uint64_t size = 0;
	int err = p->beneath ? find_place_beneath(p, &t) : find_place(p, &t);

	if (!err)
		err = file_look(&t, p->mode, &mode);
	if (err)
		return complain("open", p->path, err);
	err = newfile_open(&t.file);
	if (!err && p->size > 0 && fallocate(t.file.fd, FALLOC_FL_KEEP_SIZE, 0, p->size) && errno == ENOSPC)
		err = ENOSPC; /* said before the first byte and not after the last; other file systems find out */
	if (!err)
		err = newfile_receive(t.file.fd, NULL, &size);
	if (!err && p->most >= 0 && size > (uint64_t)p->most)
		err = EMSGSIZE;
	if (!err)
		err = wait_turn(t.file.dir_fd);
	if (!err)
		err = newfile_publish(&t.file, mode, true);
	newfile_drop(&t.file);
	return err ? complain("write", p->path, err) : 0;
}

/* ---- out */

static int send_all(int fd, const struct stat *st)
{
	static uint8_t buf[CHUNK];
	char head[96];
	uint64_t left = (uint64_t)st->st_size;
	int n = snprintf(head, sizeof(head), "muxlet-file 1 %llu %o %lld\n", (unsigned long long)left,
			 (unsigned)(st->st_mode & NEWFILE_MODE_BITS), (long long)st->st_mtime);
	int err = newfile_write(STDOUT_FILENO, head, (size_t)n);

	while (!err && left) {
		ssize_t got = newfile_read(fd, buf, left < sizeof(buf) ? (size_t)left : sizeof(buf));

		if (got < 0)
			return errno;
		if (got == 0)
			return ESTALE;
		err = newfile_write(STDOUT_FILENO, buf, (size_t)got);
		left -= (uint64_t)got;
	}
	return err;
}

static int get_open(const struct file_put *p, const char *name, int *out_fd)
{
	char path[PATH_MAX + NAME_MAX];
	int root = -1, err = locate(p->visit, name, path, sizeof(path), &root);

	if (err)
		return err;
	*out_fd = visit_open_in(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return *out_fd < 0 ? errno : 0;
}

static int get_open_beneath(const struct file_put *p, const char *path, int *out_fd)
{
	static struct fs_root root = {.fd = -1};
	char name[PATH_MAX];
	int err = beneath_name(p, path, &root, name, sizeof(name));

	return err ? err : fs_root_openat(&root, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, out_fd);
}

int file_get(const struct file_put *p, const char *name)
{
	int fd = -1, err = p->beneath ? get_open_beneath(p, name, &fd) : get_open(p, name, &fd);
	struct stat st;

	if (err)
		return complain("open", name, err == ENXIO ? ENODEV : err);
	if (fstat(fd, &st))
		err = errno;
	else if (S_ISDIR(st.st_mode))
		err = EISDIR;
	else if (!S_ISREG(st.st_mode))
		err = ENODEV;
	else if (p->most >= 0 && st.st_size > p->most)
		err = EMSGSIZE;
	if (!err)
		err = send_all(fd, &st);
	close(fd);
	return err ? complain("read", name, err) : 0;
}
