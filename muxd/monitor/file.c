#include "muxd/monitor/file.h"

#include "base/err.h"
#include "base/ids.h"
#include "base/slurp.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int file_join(char *out, size_t size, const char *dir, const char *name, struct err *e)
{
	int n = snprintf(out, size, "%s/%s", dir, name);

	if (n < 0 || (size_t)n >= size)
		return err_set(e, ERR_TOO_LARGE, "path %s/%s is too long", dir, name);
	return 0;
}

int file_sync_dir(const char *path, struct err *e)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int fd, rc = 0;

	/* bytes: a path, and none of it is cut */
	snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	fd = open(*dir ? dir : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "open %s", dir);
	if (fsync(fd) < 0)
		rc = err_sys(e, errno, "sync %s", dir);
	close(fd);
	return rc;
}

static bool owner_given(struct file_owner owner)
{
	return owner.uid != (uid_t)-1 || owner.gid != (gid_t)-1;
}

/* The temporary file beside `path`, complete and synced. */
static int write_beside(const char *tmp, const void *data, size_t len, mode_t mode, struct file_owner owner,
			struct err *e)
{
	int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), rc = 0;

	if (fd < 0)
		return err_sys(e, errno, "create %s", tmp);
	if ((owner_given(owner) && fchown(fd, owner.uid, owner.gid) < 0) || fchmod(fd, mode) < 0 ||
	    spill_fd(fd, data, len) < 0 || fsync(fd) < 0)
		rc = err_sys(e, errno, "write %s", tmp);
	if (close(fd) < 0 && rc == 0)
		rc = err_sys(e, errno, "close %s", tmp);
	if (rc)
		unlink(tmp);
	return rc;
}

int file_publish(const char *path, const void *data, size_t len, mode_t mode, struct file_owner owner, bool replace,
		 struct err *e)
{
	char tmp[PATH_MAX];
	uint32_t salt;
	int n, rc;

	if (random_bytes(&salt, sizeof salt))
		return err_set(e, ERR_SYS, "no random bytes from the kernel");
	n = snprintf(tmp, sizeof tmp, "%s.%08x.new", path, (unsigned)salt);
	if (n < 0 || (size_t)n >= sizeof tmp)
		return err_set(e, ERR_TOO_LARGE, "path %s is too long", path);
	rc = write_beside(tmp, data, len, mode, owner, e);
	if (rc)
		return rc;
	if (renameat2(AT_FDCWD, tmp, AT_FDCWD, path, replace ? 0 : RENAME_NOREPLACE) < 0) {
		rc = errno == EEXIST ? err_set(e, ERR_CONFLICT, "%s exists already", path)
				     : err_sys(e, errno, "rename %s to %s", tmp, path);
		unlink(tmp);
		return rc;
	}
	return file_sync_dir(path, e);
}

int file_read(const char *path, size_t max, char **out, size_t *out_len, struct err *e)
{
	int rc = slurp_file(path, O_NOFOLLOW, max, out, out_len, e);

	return rc == ERR_NOT_FOUND ? err_set(e, rc, "%s does not exist", path) : rc;
}

int file_read_given(const char *path, size_t max, char **out, size_t *out_len, struct err *e)
{
	int rc = slurp_file(path, 0, max, out, out_len, e);

	return rc == ERR_NOT_FOUND ? err_set(e, rc, "%s does not exist", path) : rc;
}

int file_own(const char *path, mode_t mode, struct file_owner owner, struct err *e)
{
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), rc = 0;
	char self[64];

	if (fd < 0)
		return err_sys(e, errno, "open %s", path);
	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	if (owner_given(owner) && fchownat(fd, "", owner.uid, owner.gid, AT_EMPTY_PATH) < 0)
		rc = err_sys(e, errno, "change the owner of %s", path);
	else if (chmod(self, mode) < 0)
		rc = err_sys(e, errno, "change the mode of %s", path);
	close(fd);
	return rc;
}

int file_mkdir(const char *path, mode_t mode, struct file_owner owner, struct err *e)
{
	struct stat st;

	if (mkdir(path, 0700) == 0)
		return file_own(path, mode, owner, e);
	if (errno != EEXIST)
		return err_sys(e, errno, "create directory %s", path);
	if (lstat(path, &st) < 0)
		return err_sys(e, errno, "stat %s", path);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_CONFLICT, "%s is in the way and is not a directory", path);
	if (st.st_uid != geteuid() && st.st_uid != owner.uid)
		return err_set(e, ERR_PERMISSION, "directory %s belongs to uid %u, not to this daemon", path,
			       (unsigned)st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH) & ~mode)
		return err_set(e, ERR_PERMISSION, "directory %s can be written by others (mode %04o)", path,
			       (unsigned)st.st_mode & 07777);
	return file_own(path, mode, owner, e);
}
