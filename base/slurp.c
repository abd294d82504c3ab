#include "base/slurp.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_BYTES 4096 /* for what does not tell its size */

struct room {
	char *data;
	size_t len, size, max; /* size: never more than max + 1 */
};

/* As large as the file says that it is, and one byte more, which shows its end. */
static size_t first_size(int fd, size_t max)
{
	struct stat st;
	size_t size = FIRST_BYTES;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size >= size)
		size = (uint64_t)st.st_size < max ? (size_t)st.st_size + 1 : max + 1;
	return size < max + 1 ? size : max + 1;
}

/* What it held before is wiped: it may be a key. */
static int room_grow(struct room *r, size_t size)
{
	char *data = malloc(size);

	if (!data)
		return ERR_NOMEM;
	if (r->len)
		memcpy(data, r->data, r->len);
	slurp_free(r->data, r->len);
	r->data = data;
	r->size = size;
	return 0;
}

/* To the end, or until more than max is there. r->len counts what came before a failure, too. */
static int slurp_read_all(int fd, const char *path, struct room *r, struct err *e)
{
	for (;;) {
		ssize_t n;

		if (r->len > r->max)
			return err_set(e, ERR_TOO_LARGE, "%s is larger than %zu bytes", path, r->max);
		if (r->len == r->size && room_grow(r, r->size <= r->max / 2 ? 2 * r->size : r->max + 1))
			return err_set(e, ERR_NOMEM, "no memory for %s", path);
		n = read(fd, r->data + r->len, r->size - r->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "read %s", path);
		if (n == 0)
			return 0;
		r->len += (size_t)n;
	}
}

int slurp_fd(int fd, const char *path, size_t max, char **out, size_t *out_len, struct err *e)
{
	struct room r = {.max = max};
	int rc = room_grow(&r, first_size(fd, max));

	rc = rc ? err_set(e, rc, "no memory for %s", path) : slurp_read_all(fd, path, &r, e);
	if (rc < 0) {
		slurp_free(r.data, r.len);
		return rc;
	}
	r.data[r.len] = '\0';
	*out = r.data;
	*out_len = r.len;
	return 0;
}

const char *slurp_kind(unsigned mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return "a directory";
	case S_IFLNK:
		return "a symbolic link";
	case S_IFIFO:
		return "a FIFO";
	case S_IFSOCK:
		return "a socket";
	case S_IFCHR:
	case S_IFBLK:
		return "a device";
	default:
		return "something else";
	}
}

int slurp_open(const char *path, int flags, int *out_fd, struct err *e)
{
	int fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), why = errno;
	bool there = true;
	struct stat st;

	if (fd >= 0)
		there = fstat(fd, &st) == 0;
	else if (why == ENXIO || why == ENODEV || why == EISDIR || why == ELOOP) /* a socket is never opened */
		there = fstatat(AT_FDCWD, path, &st, flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0) == 0;
	else
		return err_sys(e, why, "open %s", path);
	if (there && fd >= 0 && S_ISREG(st.st_mode)) {
		*out_fd = fd;
		return 0;
	}
	if (fd >= 0)
		close(fd);
	if (!there || S_ISREG(st.st_mode))
		return err_sys(e, why, "open %s", path);
	return err_set(e, ERR_NOT_A_FILE, "%s is %s, not a regular file", path, slurp_kind(st.st_mode));
}

static int slurp_close(int fd, const char *path, size_t max, char **out, size_t *out_len, struct err *e)
{
	int rc = slurp_fd(fd, path, max, out, out_len, e);

	close(fd);
	return rc;
}

int slurp_file(const char *path, int flags, size_t max, char **out, size_t *out_len, struct err *e)
{
	int fd = -1, rc = slurp_open(path, O_RDONLY | flags, &fd, e);

	return rc ? rc : slurp_close(fd, path, max, out, out_len, e);
}

int slurp_operand(const char *path, size_t max, char **out, size_t *out_len, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? err_sys(e, errno, "open %s", path) : slurp_close(fd, path, max, out, out_len, e);
}

void slurp_free(char *data, size_t len)
{
	if (data)
		explicit_bzero(data, len);
	free(data);
}

void slurp_free_text(char *s)
{
	slurp_free(s, s ? strlen(s) : 0);
}

int spill_fd(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n) {
		ssize_t done = write(fd, at, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return -1;
		at += done;
		n -= (size_t)done;
	}
	return 0;
}
