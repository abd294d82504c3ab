#include "control/local/dir.h"

#include "base/buf.h"
#include "base/err.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

int dir_open_base(const char *state_dir, int *out_fd, struct err *e)
{
	int top = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = -1;
	int rc = 0;

	if (top < 0)
		return err_sys(e, errno, "cannot open the state directory %s", state_dir);
	if (mkdirat(top, "sandboxes", 0700) != 0 && errno != EEXIST)
		rc = err_sys(e, errno, "cannot make %s/sandboxes", state_dir);
	else if ((fd = openat(top, "sandboxes", DIR_FLAGS)) < 0)
		rc = err_sys(e, errno, "cannot open %s/sandboxes", state_dir);
	close(top);
	if (rc == 0)
		*out_fd = fd;
	return rc;
}

/* The callers check agent names by the rules for agents; here only what would leave the directory is refused. */
static int dir_name_check(const char *name, struct err *e)
{
	if (!*name || *name == '.' || strchr(name, '/') || strlen(name) > NAME_MAX)
		return err_set(e, ERR_INVAL, "not the name of a sandbox directory: %s", name);
	return 0;
}

int dir_open(int base, const char *agent, int *out_fd, struct err *e)
{
	int rc = dir_name_check(agent, e);
	int fd;

	if (rc)
		return rc;
	fd = openat(base, agent, DIR_FLAGS);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "agent %s has no sandbox", agent);
	if (fd < 0)
		return err_sys(e, errno, "cannot open the directory of sandbox %s", agent);
	*out_fd = fd;
	return 0;
}

static int dir_lock(int fd)
{
	int rc;

	do
		rc = flock(fd, LOCK_EX);
	while (rc != 0 && errno == EINTR);
	return rc;
}

/* Whoever held the lock before may have removed the directory: then the descriptor is of a dead one. */
static bool dir_is_current(int base, const char *agent, int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(base, agent, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_ino == b.st_ino &&
	       a.st_dev == b.st_dev;
}

int dir_open_locked(int base, const char *agent, bool create, int *out_fd, struct err *e)
{
	int rc = dir_name_check(agent, e);

	while (rc == 0) {
		int fd = -1;

		if (create && mkdirat(base, agent, 0700) != 0 && errno != EEXIST)
			return err_sys(e, errno, "cannot make the directory of sandbox %s", agent);
		rc = dir_open(base, agent, &fd, e);
		if (rc == ERR_NOT_FOUND && create) {
			rc = 0;
			continue;
		}
		if (rc)
			break;
		if (dir_lock(fd) != 0) {
			rc = err_sys(e, errno, "cannot lock the directory of sandbox %s", agent);
			close(fd);
		} else if (dir_is_current(base, agent, fd)) {
			*out_fd = fd;
			return 0;
		} else {
			dir_close(fd);
		}
	}
	return rc;
}

/* Unlocked by name: a child between fork and exec may still hold the same open file, and with it the lock. */
void dir_close(int fd)
{
	if (fd < 0)
		return;
	flock(fd, LOCK_UN);
	close(fd);
}

int dir_read_file(int dir, const char *name, struct buf *b, struct err *e)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int rc = 0;

	if (fd < 0)
		return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "there is no %s", name)
				       : err_sys(e, errno, "cannot open %s", name);
	while (rc == 0) {
		uint8_t chunk[4096];
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n == 0)
			break;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = err_sys(e, errno, "cannot read %s", name);
		else if ((rc = buf_append(b, chunk, (size_t)n)))
			err_set(e, rc, "%s is larger than %zu bytes", name, b->max);
		explicit_bzero(chunk, sizeof(chunk));
	}
	close(fd);
	return rc;
}

static int dir_write_all(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n > 0) {
		ssize_t w = write(fd, at, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -1;
		at += w;
		n -= (size_t)w;
	}
	return 0;
}

int dir_write_file(int dir, const char *name, const void *p, size_t n, struct err *e)
{
	char tmp[NAME_MAX + 1];
	int fd, rc = 0;

	if ((size_t)snprintf(tmp, sizeof(tmp), "%s.new", name) >= sizeof(tmp))
		return err_set(e, ERR_INVAL, "the name %s is too long", name);
	fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "cannot make %s", tmp);
	if (dir_write_all(fd, p, n) != 0 || fdatasync(fd) != 0)
		rc = err_sys(e, errno, "cannot write %s", tmp);
	if (close(fd) != 0 && rc == 0)
		rc = err_sys(e, errno, "cannot write %s", tmp);
	if (rc == 0 && renameat(dir, tmp, dir, name) != 0)
		rc = err_sys(e, errno, "cannot replace %s", name);
	if (rc)
		unlinkat(dir, tmp, 0);
	return rc;
}

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Opens a directory for emptying it, also one whose owner took his own rights away (matters without root). */
static DIR *tree_open(int dir, const char *name)
{
	char path[40];
	int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = NULL;

	if (fd < 0)
		return NULL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	chmod(path, 0700);
	close(fd);
	fd = openat(dir, name, DIR_FLAGS);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d && fd >= 0)
		close(fd);
	return d;
}

/* Moves a full directory up to top, under a name that is free there. */
static int tree_lift(int top, int dir, const char *name, unsigned long *counter)
{
	DIR *d = tree_open(dir, name); /* moving it needs the right to write into it */
	char fresh[40];
	int rc;

	if (!d)
		return -errno;
	closedir(d);
	do {
		snprintf(fresh, sizeof(fresh), ".removed.%lu", (*counter)++);
		rc = renameat(dir, name, top, fresh) == 0 ? 0 : -errno;
	} while (rc == -ENOTEMPTY || rc == -EEXIST || rc == -ENOTDIR);
	return rc;
}

/* Removes what is in the directory d; full directories in it go up to top, or (d is top) are emptied the same way. */
static int tree_empty(int top, DIR *d, unsigned long *counter)
{
	int rc = 0;

	for (struct dirent *de; rc == 0 && (de = readdir(d));) {
		DIR *sub;

		if (is_dot(de->d_name) || unlinkat(dirfd(d), de->d_name, 0) == 0 ||
		    unlinkat(dirfd(d), de->d_name, AT_REMOVEDIR) == 0)
			continue;
		if (dirfd(d) != top) {
			rc = tree_lift(top, dirfd(d), de->d_name, counter);
			continue;
		}
		sub = tree_open(top, de->d_name);
		rc = sub ? tree_empty(top, sub, counter) : -errno;
		if (sub)
			closedir(sub);
		if (rc == 0 && unlinkat(top, de->d_name, AT_REMOVEDIR) != 0)
			rc = -errno;
	}
	return rc;
}

/*
 * No deep recursion and no stack of descriptors, however deep somebody nested
 * his directories: each level is lifted to the top and met there again.
 */
int dir_remove(int dir, const char *name, struct err *e)
{
	unsigned long counter = 0;
	DIR *top;
	int rc = 0;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	top = tree_open(dir, name);
	if (!top)
		return err_sys(e, errno, "cannot remove %s", name);
	while (rc == 0 && unlinkat(dir, name, AT_REMOVEDIR) != 0) {
		rc = errno == ENOTEMPTY || errno == EEXIST ? 0 : -errno;
		rewinddir(top);
		if (rc == 0)
			rc = tree_empty(dirfd(top), top, &counter);
	}
	closedir(top);
	return rc ? err_sys(e, -rc, "cannot remove %s", name) : 0;
}

static int dir_names_add(char ***names, size_t *n, size_t *cap, const char *name)
{
	if (*n + 1 >= *cap) {
		size_t more = *cap ? *cap * 2 : 16;
		char **p = reallocarray(*names, more, sizeof(*p));

		if (!p)
			return ERR_NOMEM;
		*names = p;
		*cap = more;
	}
	(*names)[*n] = strdup(name);
	if (!(*names)[*n])
		return ERR_NOMEM;
	(*names)[++*n] = NULL;
	return 0;
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int dir_names(int dir, char ***out, size_t *out_n, struct err *e)
{
	int fd = openat(dir, ".", DIR_FLAGS); /* an offset of its own */
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char **names = NULL;
	size_t n = 0, cap = 0;
	int rc = 0;

	if (!d) {
		rc = err_sys(e, errno, "cannot list the sandboxes");
		if (fd >= 0)
			close(fd);
		return rc;
	}
	for (struct dirent *de; rc == 0 && (de = readdir(d));) {
		struct stat st;

		/* Not every file system tells in the directory. */
		if (*de->d_name != '.' &&
		    (de->d_type == DT_DIR ||
		     (de->d_type == DT_UNKNOWN && fstatat(fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		      S_ISDIR(st.st_mode))))
			rc = dir_names_add(&names, &n, &cap, de->d_name);
	}
	closedir(d);
	if (rc) {
		dir_names_free(names);
		return err_set(e, rc, "out of memory while listing the sandboxes");
	}
	if (n > 1)
		qsort(names, n, sizeof(*names), name_compare);
	*out = names;
	*out_n = n;
	return 0;
}

void dir_names_free(char **names)
{
	for (char **p = names; p && *p; p++)
		free(*p);
	free(names);
}
