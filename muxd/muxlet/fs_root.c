#include "muxd/muxlet/fs_root.h"

#include "muxd/muxlet/visit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RACE_TRIES 64 /* a rename beside us makes the kernel ask for another try */

static int open_other(int visit, struct fs_root *r)
{
	int root = -1, err = visit_open(visit, &root);

	if (err)
		return err;
	err = visit_path(visit, ".", r->path, sizeof(r->path));
	if (!err) {
		r->fd = visit_open_in(root, r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		err = r->fd < 0 ? errno : 0;
		r->path[strlen(r->path) - 2] = '\0'; /* the "/." at its end */
	}
	close(root);
	return err;
}

int fs_root_open(int visit, struct fs_root *out)
{
	struct fs_root r = {.fd = -1};
	int err = 0;

	if (visit) {
		err = open_other(visit, &r);
	} else {
		r.fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (r.fd < 0 || !getcwd(r.path, sizeof(r.path)))
			err = errno;
	}
	if (!err)
		*out = r;
	else if (r.fd >= 0)
		close(r.fd);
	return err;
}

/* An absolute path, without the root's in front. NULL: it is another one. */
static const char *below(const struct fs_root *r, const char *path)
{
	size_t n = strlen(r->path);

	if (n && r->path[n - 1] == '/')
		n--; /* the root of all */
	if (strncmp(path, r->path, n) != 0 || (path[n] && path[n] != '/'))
		return NULL;
	return path + n;
}

int fs_root_name(const struct fs_root *r, const char *path, char *out, size_t size)
{
	size_t n = 0;

	if (!*path)
		return ENOENT;
	if (*path == '/' && !(path = below(r, path)))
		return EXDEV;
	while (*path) {
		size_t len = strcspn(path, "/");

		if (len && !(len == 1 && *path == '.')) {
			if (n + len + 2 > size)
				return ENAMETOOLONG;
			if (n)
				out[n++] = '/';
			memcpy(out + n, path, len);
			n += len;
		}
		path += len;
		path += strspn(path, "/");
	}
	if (!n)
		out[n++] = '.';
	out[n] = '\0';
	return 0;
}

int fs_root_openat(const struct fs_root *r, const char *name, int flags, int *out_fd)
{
	struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC,
			       .resolve =
				   RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (r->no_links ? RESOLVE_NO_SYMLINKS : 0u)};

	for (int i = 0; i < RACE_TRIES; i++) {
		int fd = (int)syscall(SYS_openat2, r->fd, name, &how, sizeof(how));

		if (fd >= 0) {
			*out_fd = fd;
			return 0;
		}
		if (errno != EAGAIN && errno != EINTR)
			return errno == ELOOP && r->no_links ? EDOM : errno;
	}
	return EAGAIN;
}

/* A directory that may be searched but not read is one all the same. */
static int open_dir(const struct fs_root *r, const char *name, int *out_fd)
{
	int err = fs_root_openat(r, name, O_RDONLY | O_DIRECTORY, out_fd);

	return err == EACCES ? fs_root_openat(r, name, O_PATH | O_DIRECTORY, out_fd) : err;
}

int fs_root_place(const struct fs_root *r, const char *name, struct fs_place *out)
{
	struct fs_place p = {.dir_fd = -1};
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
	char dir[PATH_MAX] = ".";
	int err;

	if (strcmp(base, "..") == 0)
		return EINVAL;
	if (strlen(base) > NAME_MAX || base - name >= PATH_MAX)
		return ENAMETOOLONG;
	if (slash)
		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - name), name);
	strcpy(p.base, base);
	p.is_root = strcmp(base, ".") == 0;
	err = open_dir(r, dir, &p.dir_fd);
	if (!err)
		*out = p;
	return err;
}

void fs_root_leave(struct fs_place *p)
{
	if (p->dir_fd >= 0)
		close(p->dir_fd);
	p->dir_fd = -1;
}

/* One directory; that it is there already is as good. What may not be made may be there: the next step tells. */
static int make_one(const struct fs_root *r, const char *name, mode_t mode)
{
	struct fs_place p;
	int err = fs_root_place(r, name, &p);

	if (err == EINVAL) /* "..": it is there, or the open tells */
		return 0;
	if (err)
		return err;
	if (mkdirat(p.dir_fd, p.base, mode) && errno != EEXIST && errno != EACCES && errno != EROFS)
		err = errno;
	fs_root_leave(&p);
	return err;
}

int fs_root_parents(const struct fs_root *r, const char *name, mode_t mode)
{
	char dir[PATH_MAX];
	int err = 0;

	for (const char *p = strchr(name, '/'); p && !err; p = strchr(p + 1, '/')) {
		if (p - name >= PATH_MAX)
			return ENAMETOOLONG;
		snprintf(dir, sizeof(dir), "%.*s", (int)(p - name), name);
		err = make_one(r, dir, mode);
	}
	return err;
}

/* fchmodat() follows links, and a descriptor to read from would take permissions. */
int fs_root_chmod_dir(int dir_fd, const char *base, mode_t mode)
{
	int fd = openat(dir_fd, base, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err;
	char path[40];

	if (fd < 0)
		return errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err = chmod(path, mode) ? errno : 0;
	close(fd);
	return err;
}

int fs_root_lock(const struct fs_place *p)
{
	int rc;

	do
		rc = flock(p->dir_fd, LOCK_EX);
	while (rc && errno == EINTR);
	return rc && errno != EBADF ? errno : 0; /* EBADF: it may not be read, so it cannot be locked */
}

void fs_root_unlock(const struct fs_place *p)
{
	(void)flock(p->dir_fd, LOCK_UN);
}
