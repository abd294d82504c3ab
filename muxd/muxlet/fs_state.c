#include "muxd/muxlet/fs_state.h"

#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_text.h"
#include "muxd/muxlet/loop.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define CHANGES_BYTES (48 * 1024)

const char *fs_state_type(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	default:
		return "device";
	}
}

void fs_state_fields(struct fs_out *o, const struct stat *st)
{
	char text[64];
	struct tm tm;
	size_t n;

	fs_out_text(o, "type", fs_state_type(st->st_mode));
	fs_out_number(o, "size", st->st_size);
	snprintf(text, sizeof(text), "%04o", (unsigned)(st->st_mode & NEWFILE_MODE_BITS));
	fs_out_text(o, "mode", text);
	if (!gmtime_r(&st->st_mtime, &tm) || tm.tm_year < -1900 || tm.tm_year > 8099)
		return;
	n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%03uZ", (unsigned)(st->st_mtim.tv_nsec / 1000000) % 1000);
	fs_out_text(o, "mtime", text);
}

void fs_state_entry(struct fs_out *o, const char *key, const char *path, const struct stat *st, int dir_fd,
		    const char *base)
{
	char target[PATH_MAX];
	ssize_t n = S_ISLNK(st->st_mode) ? readlinkat(dir_fd, base, target, sizeof(target) - 1) : -1;

	fs_out_open(o, key, '{');
	fs_out_path(o, "path", path);
	fs_state_fields(o, st);
	if (n >= 0) {
		target[n] = '\0';
		fs_out_path(o, "target", target);
	}
	fs_out_close(o, '}');
}

int fs_state_digest(struct fs_work *w, int fd, char out[2 * SHA256_LEN + 1])
{
	static uint8_t buf[64 * 1024];
	uint8_t sum[SHA256_LEN];
	struct sha256 s;
	struct stat st;
	ssize_t n;

	out[0] = '\0';
	if (fstat(fd, &st) || lseek(fd, 0, SEEK_SET) < 0)
		return errno;
	if ((uint64_t)st.st_size > w->hash_left)
		return 0;
	sha256_init(&s);
	while ((n = newfile_read(fd, buf, sizeof(buf))) > 0) {
		if ((uint64_t)n > w->hash_left || (w->hash_until_ns && monotonic_ns() > w->hash_until_ns))
			return 0; /* it grows while it is read, or it takes too long */
		w->hash_left -= (uint64_t)n;
		sha256_add(&s, buf, (size_t)n);
	}
	if (n < 0)
		return errno;
	sha256_finish(&s, sum);
	fs_hex(sum, sizeof(sum), out);
	return 0;
}

int fs_state_of(struct fs_work *w, int dir_fd, const char *base, struct fs_state *out)
{
	struct fs_state s = {0};
	int fd, err = 0;

	if (fstatat(dir_fd, base, &s.st, AT_SYMLINK_NOFOLLOW)) {
		if (errno != ENOENT)
			return errno;
		*out = s;
		return 0;
	}
	s.there = true;
	if (S_ISREG(s.st.st_mode) && w->changes_listed < FS_CHANGES_MAX) { /* beyond that nobody is told it */
		fd = openat(dir_fd, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd >= 0) {
			err = fs_state_digest(w, fd, s.sha256);
			close(fd);
		} else {
			s.unread = errno;
			err = errno == EACCES || errno == ENOENT || errno == ELOOP ? 0 : errno;
		}
	}
	if (!err)
		*out = s;
	return err;
}

int fs_state_match(struct fs_work *w, const struct fs_state *now)
{
	bool unknown = now->there && S_ISREG(now->st.st_mode) && !now->sha256[0];

	if (!w->ask.if_match || (now->there && strcasecmp(w->ask.if_match, now->sha256) == 0))
		return 0;
	if (unknown && now->unread == EACCES)
		return fs_fail(w, EACCES, "it may not be read, so that if_match cannot be compared");
	if (unknown && !now->unread)
		return fs_fail(w, EFBIG, "if_match is compared with files of %llu bytes at most", FS_HASH_MAX);
	if (now->sha256[0])
		fs_out_text(&w->out, "sha256", now->sha256);
	else
		fs_out_null(&w->out, "sha256");
	return fs_fail(w, ECANCELED, "%s",
		       now->there ? "it is not what if_match says: it was changed meanwhile"
				  : "if_match is given, and there is no such file");
}

static void put_state(struct fs_out *o, const char *key, const struct fs_state *s)
{
	char text[8];

	if (!s || !s->there) {
		fs_out_null(o, key);
		return;
	}
	fs_out_open(o, key, '{');
	fs_out_text(o, "type", fs_state_type(s->st.st_mode));
	fs_out_number(o, "size", s->st.st_size);
	snprintf(text, sizeof(text), "%04o", (unsigned)(s->st.st_mode & NEWFILE_MODE_BITS));
	fs_out_text(o, "mode", text);
	if (s->sha256[0])
		fs_out_text(o, "sha256", s->sha256);
	fs_out_close(o, '}');
}

void fs_state_changed(struct fs_work *w, const char *path, const struct fs_state *before, const struct fs_state *after)
{
	struct fs_out *o = &w->changes;
	size_t mark = o->n;

	if (w->changes_listed < FS_CHANGES_MAX && !w->changes_left_out) {
		fs_out_open(o, NULL, '{');
		fs_out_path(o, "path", path);
		put_state(o, "before", before);
		put_state(o, "after", after);
		fs_out_close(o, '}');
	}
	if (o->n == mark || o->over || o->n > CHANGES_BYTES) {
		fs_out_back(o, mark);
		w->changes_left_out++;
	} else {
		w->changes_listed++;
	}
}

void fs_state_forget(struct fs_work *w)
{
	fs_out_finish(&w->changes);
	w->changes_listed = w->changes_left_out = 0;
}

int fs_fail(struct fs_work *w, int err, const char *fmt, ...)
{
	va_list ap;

	if (w->why[0])
		return err;
	va_start(ap, fmt);
	vsnprintf(w->why, sizeof(w->why), fmt, ap);
	va_end(ap);
	return err;
}
