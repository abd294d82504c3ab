#include "muxd/muxlet/file.h"

#include "muxd/muxlet/sha256.h"
#include "muxd/muxlet/visit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK       (64 * 1024)
#define TRAILER     (8 + SHA256_LEN)
#define MODE_PLAIN  0644
#define MODE_BITS   07777
#define TEMP_PREFIX ".muxd-put-"
#define TEMP_TRIES  8

/* A file on its way to its name. */
struct target {
	char dir[PATH_MAX], base[NAME_MAX + 1], temp[sizeof(TEMP_PREFIX) + 24];
	int root; /* of another container; -1: our own */
	int dir_fd, fd;
	bool named; /* temp stands in the directory */
};

/* For the handler alone: where a temporary name has to go when we are told to end. */
static struct target *volatile ending;

static int complain(const char *what, const char *path, int err)
{
	fprintf(stderr, "%s %s: %s\n", what, path, strerror(err));
	return err > 0 && err < 256 ? err : EIO;
}

/* ---- where it goes */

static int split(const char *path, struct target *t)
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
	strcpy(t->base, base);
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
	t->dir_fd = visit_open_in(t->root, t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->dir_fd < 0 && errno == EACCES)
		t->dir_fd = visit_open_in(t->root, t->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return t->dir_fd < 0 ? errno : 0;
}

/* The mode it shall have; EISDIR when a directory has the name. */
static int file_look(const struct target *t, long wanted, mode_t *out)
{
	struct stat st;

	*out = (mode_t)(wanted < 0 ? MODE_PLAIN : wanted) & MODE_BITS;
	if (fstatat(t->dir_fd, t->base, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	if (wanted < 0 && S_ISREG(st.st_mode))
		*out = st.st_mode & MODE_BITS;
	return 0;
}

static void temp_name(struct target *t)
{
	uint8_t r[8] = {0};
	size_t n = sizeof(TEMP_PREFIX) - 1;

	if (getrandom(r, sizeof(r), 0) < 0)
		r[0] = (uint8_t)getpid();
	memcpy(t->temp, TEMP_PREFIX, n);
	for (size_t i = 0; i < sizeof(r); i++)
		snprintf(t->temp + n + 2 * i, 3, "%02x", r[i]);
}

static void file_on_end(int signum)
{
	if (ending && ending->named)
		(void)unlinkat(ending->dir_fd, ending->temp, 0);
	_exit(128 + signum);
}

static void watch_end(struct target *t)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = file_on_end;
	ending = t;
	(void)sigaction(SIGTERM, &sa, NULL);
	(void)sigaction(SIGHUP, &sa, NULL);
}

static int open_named(struct target *t)
{
	for (int i = 0; i < TEMP_TRIES; i++) {
		temp_name(t);
		t->named = true; /* before it stands there: the handler may come in between */
		t->fd = openat(t->dir_fd, t->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (t->fd >= 0)
			return 0;
		t->named = false;
		if (errno != EEXIST)
			break;
	}
	return errno;
}

/* Without a name it vanishes with us, however we end. */
static int open_temp(struct target *t)
{
	t->fd = openat(t->dir_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
	if (t->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT && errno != ENOSYS)
		return errno;
	return open_named(t);
}

/* ---- the content */

static int muxlet_file_write_all(int fd, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return errno;
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

static ssize_t read_some(int fd, uint8_t *p, size_t n)
{
	ssize_t got;

	do
		got = read(fd, p, n);
	while (got < 0 && errno == EINTR);
	return got;
}

static uint64_t get_u64_le(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 7; i >= 0; i--)
		v = v << 8 | p[i];
	return v;
}

/* What was held back is what the sender says of all before it. */
static int check_trailer(const uint8_t *p, size_t n, uint64_t size, struct sha256 *sum)
{
	uint8_t own[SHA256_LEN];

	sha256_finish(sum, own);
	if (n != TRAILER || get_u64_le(p) != size || memcmp(p + 8, own, sizeof(own)) != 0)
		return EBADMSG;
	return 0;
}

/* Everything but the last 40 bytes, which are known to be the last when the end has come. */
static int receive(int fd)
{
	static uint8_t buf[CHUNK + TRAILER];
	struct sha256 sum;
	uint64_t size = 0;
	size_t held = 0;
	ssize_t got;

	sha256_init(&sum);
	while ((got = read_some(STDIN_FILENO, buf + held, CHUNK)) > 0) {
		size_t n = held + (size_t)got, out = n > TRAILER ? n - TRAILER : 0;
		int err = muxlet_file_write_all(fd, buf, out);

		if (err)
			return err;
		sha256_add(&sum, buf, out);
		size += out;
		held = n - out;
		memmove(buf, buf + out, held);
	}
	return got < 0 ? errno : check_trailer(buf, held, size, &sum);
}

/* ---- its name */

static int link_unnamed(struct target *t, const char *name)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", t->fd);
	return linkat(AT_FDCWD, path, t->dir_fd, name, AT_SYMLINK_FOLLOW) ? errno : 0;
}

/* link() does not replace, rename() does: so a name that is taken is taken over in two steps. */
static int publish(struct target *t)
{
	int err = 0;

	if (!t->named) {
		err = link_unnamed(t, t->base);
		if (err != EEXIST)
			return err;
		for (int i = 0; i < TEMP_TRIES && err == EEXIST; i++) {
			temp_name(t);
			t->named = true;
			err = link_unnamed(t, t->temp);
			t->named = err == 0;
		}
		if (err)
			return err;
	}
	if (renameat(t->dir_fd, t->temp, t->dir_fd, t->base)) {
		err = errno;
		(void)unlinkat(t->dir_fd, t->temp, 0);
	}
	t->named = false;
	return err;
}

static int file_settle(struct target *t, mode_t mode)
{
	int err = fchmod(t->fd, mode) || fsync(t->fd) ? errno : 0;

	if (!err)
		err = publish(t);
	if (!err && fsync(t->dir_fd) && errno != EBADF && errno != EINVAL)
		err = errno; /* it is there, but a power cut may undo that */
	return err;
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

int file_put(const struct file_put *p)
{
	static struct target t = {.root = -1, .dir_fd = -1, .fd = -1};
	char path[PATH_MAX + NAME_MAX];
	mode_t mode = MODE_PLAIN;
	int err = locate(p->visit, p->path, path, sizeof(path), &t.root);

	if (!err)
		err = split(path, &t);
	if (!err && p->parents)
		err = make_parents(t.root, t.dir);
	if (!err)
		err = open_dir(&t);
	if (!err)
		err = file_look(&t, p->mode, &mode);
	if (err)
		return complain("open", p->path, err);
	watch_end(&t);
	err = open_temp(&t);
	if (!err && p->size > 0 && fallocate(t.fd, FALLOC_FL_KEEP_SIZE, 0, p->size) && errno == ENOSPC)
		err = ENOSPC; /* said before the first byte and not after the last; other file systems find out */
	if (!err)
		err = receive(t.fd);
	if (!err)
		err = file_settle(&t, mode);
	if (err && t.named)
		(void)unlinkat(t.dir_fd, t.temp, 0);
	return err ? complain("write", p->path, err) : 0;
}

/* ---- out */

static int send_all(int fd, const struct stat *st)
{
	static uint8_t buf[CHUNK];
	char head[96];
	uint64_t left = (uint64_t)st->st_size;
	int n = snprintf(head, sizeof(head), "muxlet-file 1 %llu %o %lld\n", (unsigned long long)left,
			 (unsigned)(st->st_mode & MODE_BITS), (long long)st->st_mtime);
	int err = muxlet_file_write_all(STDOUT_FILENO, (const uint8_t *)head, (size_t)n);

	while (!err && left) {
		ssize_t got = read_some(fd, buf, left < sizeof(buf) ? (size_t)left : sizeof(buf));

		if (got < 0)
			return errno;
		if (got == 0)
			return ESTALE;
		err = muxlet_file_write_all(STDOUT_FILENO, buf, (size_t)got);
		left -= (uint64_t)got;
	}
	return err;
}

int file_get(const char *name, int visit)
{
	char path[PATH_MAX + NAME_MAX];
	int fd = -1, root = -1, err = locate(visit, name, path, sizeof(path), &root);
	struct stat st;

	if (!err && (fd = visit_open_in(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) < 0)
		err = errno == ENXIO ? ENODEV : errno;
	if (err)
		return complain("open", name, err);
	if (fstat(fd, &st))
		err = errno;
	else if (S_ISDIR(st.st_mode))
		err = EISDIR;
	else if (!S_ISREG(st.st_mode))
		err = ENODEV;
	if (!err)
		err = send_all(fd, &st);
	close(fd);
	return err ? complain("read", name, err) : 0;
}
