#include "recorder/chain/file.h"

#include "base/err.h"
#include "base/slurp.h"
#include "recorder/chain/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define ASIDE_MAX 1000

int file_read_at(int fd, void *p, size_t n, uint64_t pos, const char *path, struct err *e)
{
	uint8_t *at = p;

	if (pos > INT64_MAX - n)
		return err_set(e, ERR_EOF, "%s ends before byte %llu", path, (unsigned long long)pos);
	while (n) {
		ssize_t got = pread(fd, at, n, (off_t)pos);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(e, errno, "cannot read %s", path);
		if (got == 0)
			return err_set(e, ERR_EOF, "%s ends at byte %llu, in the middle of something", path,
				       (unsigned long long)pos);
		at += got;
		n -= (size_t)got;
		pos += (uint64_t)got;
	}
	return 0;
}

int file_write_pieces_at(int fd, struct iovec *pieces, int n, uint64_t pos, const char *path, struct err *e)
{
	while (n) {
		ssize_t put = 0;

		if (pieces->iov_len) {
			put = pwritev(fd, pieces, n, (off_t)pos);
			if (put < 0 && errno == EINTR)
				continue;
			if (put <= 0)
				return err_sys(e, put < 0 ? errno : ENOSPC, "cannot write %s", path);
		}
		pos += (uint64_t)put;
		for (; n && (size_t)put >= pieces->iov_len; n--)
			put -= (ssize_t)(pieces++)->iov_len;
		if (n) {
			pieces->iov_base = (uint8_t *)pieces->iov_base + put;
			pieces->iov_len -= (size_t)put;
		}
	}
	return 0;
}

int file_write_at(int fd, const void *p, size_t n, uint64_t pos, const char *path, struct err *e)
{
	struct iovec all = {(void *)(uintptr_t)p, n};

	return file_write_pieces_at(fd, &all, 1, pos, path, e);
}

int file_digest(int fd, const char *path, uint64_t size, uint8_t out[32])
{
	uint8_t piece[64 * 1024];
	struct digest all;
	int rc = 0;

	digest_init(&all);
	for (uint64_t at = 0, n; !rc && at < size; at += n) {
		n = size - at < sizeof piece ? size - at : sizeof piece;
		rc = file_read_at(fd, piece, (size_t)n, at, path, NULL);
		if (!rc)
			digest_update(&all, piece, (size_t)n);
	}
	digest_peek(&all, out);
	return rc;
}

int file_size(int fd, const char *path, uint64_t *out, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return err_sys(e, errno, "cannot look at %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_NOT_A_FILE, "%s is %s, not a regular file", path, slurp_kind(st.st_mode));
	*out = (uint64_t)st.st_size;
	return 0;
}

int file_open_at(int dir_fd, const char *name, int flags, const char *path, int *out_fd, uint64_t *out_size,
		 struct err *e)
{
	int fd = openat(dir_fd, name, flags | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
	int rc;

	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "%s is not there", path);
	if (fd < 0 && errno == ELOOP)
		return err_set(e, ERR_NOT_A_FILE, "%s is a symbolic link, not a regular file", path);
	if (fd < 0 && errno == EISDIR)
		return err_set(e, ERR_NOT_A_FILE, "%s is a directory, not a regular file", path);
	if (fd < 0 && (errno == ENXIO || errno == ENODEV)) /* a socket, a FIFO or a device with nobody behind it */
		return err_set(e, ERR_NOT_A_FILE, "%s is a socket, a FIFO or a device, not a regular file", path);
	if (fd < 0)
		return err_sys(e, errno, "cannot open %s", path);
	rc = file_size(fd, path, out_size, e);
	if (rc)
		close(fd);
	else
		*out_fd = fd;
	return rc;
}

int file_open_found(const char *path, int *out_fd, uint64_t *out_size, struct err *e)
{
	return file_open_at(AT_FDCWD, path, O_RDONLY, path, out_fd, out_size, e);
}

int file_sync(int fd, const char *path, struct err *e)
{
	return fdatasync(fd) == 0 ? 0 : err_sys(e, errno, "cannot sync %s", path);
}

int file_sync_folder(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = 0;

	if (fd < 0)
		return err_sys(e, errno, "cannot open the folder %s", path);
	if (fsync(fd) != 0)
		rc = err_sys(e, errno, "cannot sync the folder %s", path);
	close(fd);
	return rc;
}

int file_set_aside(const char *from, const char *to, struct err *e)
{
	char aside[FILE_PATH_MAX];
	int rc = file_path(aside, e, "%s.damaged", to);

	for (unsigned n = 2; !rc && renameat2(AT_FDCWD, from, AT_FDCWD, aside, RENAME_NOREPLACE) != 0; n++) {
		if (errno != EEXIST || n > ASIDE_MAX)
			return err_sys(e, errno, "cannot set %s aside", from);
		rc = file_path(aside, e, "%s.damaged.%u", to, n);
	}
	return rc;
}

int file_make_folder(const char *path, struct err *e)
{
	char above[FILE_PATH_MAX];
	char *slash;
	int rc;

	if (mkdir(path, 0700) != 0)
		return errno == EEXIST ? 0 : err_sys(e, errno, "cannot make the folder %s", path);
	rc = file_path(above, e, "%s", path);
	if (rc)
		return rc;
	slash = strrchr(above, '/');
	if (slash == above)
		slash++;
	if (!slash)
		return file_sync_folder(".", e);
	*slash = '\0';
	return file_sync_folder(above, e);
}

int file_path(char out[FILE_PATH_MAX], struct err *e, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(out, FILE_PATH_MAX, fmt, ap);
	va_end(ap);
	if (n < 0 || n >= FILE_PATH_MAX)
		return err_set(e, ERR_TOO_LARGE, "a path is longer than %d bytes", FILE_PATH_MAX - 1);
	return 0;
}
