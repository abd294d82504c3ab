#include "muxd/muxlet/visit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int visit_refuse(int fd, int err)
{
	close(fd);
	return err;
}

int visit_open(int pid, int *out_fd)
{
	struct stat own, theirs;
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root/", pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (stat("/", &own) || fstat(fd, &theirs))
		return visit_refuse(fd, errno);
	if (own.st_dev == theirs.st_dev && own.st_ino == theirs.st_ino)
		return visit_refuse(fd, EXDEV);
	*out_fd = fd;
	return 0;
}

/* The working directory of that process, below its root: the kernel says both from where we stand. n bytes, or -1. */
static ssize_t read_cwd(int pid, char *out, size_t size)
{
	char link[40], root[PATH_MAX];
	ssize_t n, r;

	snprintf(link, sizeof(link), "/proc/%d/cwd", pid);
	n = readlink(link, out, size - 1);
	snprintf(link, sizeof(link), "/proc/%d/root", pid);
	r = readlink(link, root, sizeof(root) - 1);
	if (n < 0 || r < 0)
		return -1;
	if (r > 1 && n >= r && memcmp(out, root, (size_t)r) == 0) {
		n -= r;
		memmove(out, out + r, (size_t)n);
	}
	return n;
}

int visit_path(int pid, const char *path, char *out, size_t size)
{
	ssize_t n = *path == '/' || !*path ? 0 : read_cwd(pid, out, size);

	if (!*path)
		return ENOENT;
	if (n < 0)
		return errno;
	return snprintf(out + n, size - (size_t)n, "%s%s", *path == '/' ? "" : "/", path) < (int)(size - (size_t)n)
		   ? 0
		   : ENAMETOOLONG;
}

int visit_open_in(int root, const char *path, int flags)
{
	struct open_how how = {.flags = (unsigned)flags, .resolve = RESOLVE_IN_ROOT};

	if (root < 0)
		return open(path, flags);
	return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

int visit_mkdir_in(int root, const char *path, mode_t mode)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	char dir[PATH_MAX];
	int fd, rc, err;

	if (root < 0)
		return mkdir(path, mode);
	if (snprintf(dir, sizeof(dir), "/%.*s", (int)(base - path), path) >= (int)sizeof(dir)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = visit_open_in(root, dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	rc = *base ? mkdirat(fd, base, mode) : 0;
	err = errno;
	close(fd);
	errno = err;
	return rc;
}

int visit_check(int pid)
{
	int fd = -1, err = visit_open(pid, &fd);

	if (!err) {
		close(fd);
		return 0;
	}
	fprintf(stderr, "muxlet: the root of process %d: %s\n", pid,
		err == EXDEV ? "it is muxlet's own: no other container's processes are here" : strerror(err));
	return err;
}
