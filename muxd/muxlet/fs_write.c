/* write and append: content that comes as standard input. */
#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_state.h"
#include "muxd/muxlet/fs_text.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CHUNK      (64 * 1024)
#define COPY_MAX   (1024 * 1024) /* a file is made anew for what is appended up to that size, */
#define COPY_TIMES 16            /* or up to so many times the size of what is appended */

/* Where it goes, what is there, and what came. */
struct writing {
	struct fs_place place;
	struct newfile file;
	struct fs_state before, after;
	long long size;       /* of what came */
	struct newfile whole; /* append: what is there and what came, beside it */
	bool in_place;        /* append: at the end of the file itself */
};

static int writing_place(struct fs_work *w, struct writing *x)
{
	int err = w->ask.parents ? fs_root_parents(&w->root, w->name, 0777) : 0;

	if (!err)
		err = fs_root_place(&w->root, w->name, &x->place);
	if (!err && x->place.is_root)
		err = EISDIR;
	return err == EINVAL ? EISDIR : err;
}

/* The content, whole, in a file that nobody sees yet. */
static int writing_receive(struct fs_work *w, struct writing *x)
{
	uint8_t sum[SHA256_LEN];
	uint64_t size = 0;
	int err;

	x->file.dir_fd = x->place.dir_fd;
	strcpy(x->file.base, x->place.base);
	err = newfile_open(&x->file);
	if (!err)
		err = newfile_receive(x->file.fd, sum, &size);
	if (!err)
		err = fs_allow_size(w, w->name, (long long)size);
	x->size = (long long)size;
	if (!err)
		fs_hex(sum, sizeof(sum), x->after.sha256);
	return err;
}

static mode_t writing_mode(const struct fs_work *w, const struct writing *x)
{
	if (w->ask.mode >= 0)
		return (mode_t)w->ask.mode;
	return x->before.there && S_ISREG(x->before.st.st_mode) ? x->before.st.st_mode & NEWFILE_MODE_BITS
								: NEWFILE_MODE;
}

static int writing_replace(struct fs_work *w, struct writing *x)
{
	int err = fs_root_lock(&x->place);

	if (!err)
		err = fs_state_of(w, x->place.dir_fd, x->place.base, &x->before);
	if (!err && x->before.there && S_ISDIR(x->before.st.st_mode))
		err = EISDIR;
	if (!err && x->before.there && w->ask.create_only)
		err = EEXIST;
	if (!err)
		err = fs_state_match(w, &x->before);
	if (!err)
		err = newfile_publish(&x->file, writing_mode(w, x), !w->ask.create_only);
	return err;
}

static void writing_told(struct fs_work *w, struct writing *x, int fd)
{
	x->after.there = true;
	(void)fstat(fd, &x->after.st);
	fs_out_path(&w->out, "path", w->name);
	fs_state_fields(&w->out, &x->after.st);
	if (x->after.sha256[0])
		fs_out_text(&w->out, "sha256", x->after.sha256);
	fs_out_flag(&w->out, "created", !x->before.there);
	fs_state_changed(w, w->name, &x->before, &x->after);
}

static int writing_end(struct writing *x, int err)
{
	newfile_drop(&x->file);
	newfile_drop(&x->whole);
	fs_root_leave(&x->place);
	return err;
}

int fs_write(struct fs_work *w)
{
	static struct writing x = {.place = {.dir_fd = -1}};
	int err = writing_place(w, &x);

	if (!err)
		err = writing_receive(w, &x);
	if (!err)
		err = writing_replace(w, &x);
	if (!err)
		writing_told(w, &x, x.file.fd);
	return writing_end(&x, err);
}

/* ---- append */

/* *out_done: bytes that were added, also when it fails. */
static int add_content(int from, int to, long long *out_done)
{
	static char buf[CHUNK];
	int err = lseek(from, 0, SEEK_SET) < 0 ? errno : 0;
	ssize_t n = 0;
	size_t done;

	while (!err && (n = newfile_read(from, buf, sizeof(buf))) > 0) {
		err = newfile_write_counted(to, buf, (size_t)n, &done);
		*out_done += (long long)done;
	}
	return n < 0 ? errno : err;
}

static int append_open(struct fs_work *w, struct writing *x, int *out_fd)
{
	int err = fs_root_openat(&w->root, w->name, O_RDWR | O_APPEND | O_NONBLOCK | O_NOCTTY, out_fd);

	if (err)
		return err == ENXIO ? ENODEV : err;
	if (fstat(*out_fd, &x->before.st))
		return errno;
	x->before.there = true;
	if (!S_ISREG(x->before.st.st_mode))
		return ENODEV;
	return fs_state_digest(w, *out_fd, x->before.sha256);
}

/*
 * Whether the file may be made anew beside itself, so that a kill leaves the one or the other. Not where others would
 * notice: who has it open (a program that logs into it, who follows it), its other names and links to it, who owns it,
 * what is written on it besides its mode. Nor where that would cost much more than what is appended.
 */
static bool append_is_plain(const struct writing *x, int fd)
{
	const struct stat *st = &x->before.st;
	struct stat named;
	char names[256];
	ssize_t n = flistxattr(fd, names, sizeof(names));
	bool bare = n == 0 || (n < 0 && errno == ENOTSUP) ||
		    (n == sizeof("security.selinux") && memcmp(names, "security.selinux", (size_t)n) == 0);

	return bare && st->st_nlink == 1 && st->st_uid == geteuid() &&
	       fstatat(x->place.dir_fd, x->place.base, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       named.st_ino == st->st_ino && named.st_dev == st->st_dev &&
	       (st->st_size <= COPY_MAX || st->st_size / COPY_TIMES <= x->size);
}

/* A lease is given to who alone has the file open, and is taken back when somebody opens it. */
static bool append_alone(int fd)
{
	return signal(SIGIO, SIG_IGN) != SIG_ERR && fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
}

static int append_copy(struct writing *x, int fd)
{
	struct newfile *n = &x->whole;
	long long done = 0;
	struct stat st;
	int err;

	n->dir_fd = x->place.dir_fd;
	strcpy(n->base, x->place.base);
	err = newfile_open(n);
	if (!err && fstat(n->fd, &st))
		err = errno;
	if (!err && st.st_gid != x->before.st.st_gid && fchown(n->fd, (uid_t)-1, x->before.st.st_gid))
		err = errno;
	if (!err)
		err = add_content(fd, n->fd, &done);
	return err ? err : add_content(x->file.fd, n->fd, &done);
}

/* *out_done: it is there; else nothing was changed, and in place it may still go. */
static int append_beside(struct fs_work *w, struct writing *x, int fd, bool *out_done)
{
	int err = 0;

	if (!append_is_plain(x, fd) || !append_alone(fd))
		return 0;
	/* A program that opens it from here on waits, and writes to what it found: nothing slow stands behind the look.
	 */
	*out_done = append_copy(x, fd) == 0 &&
		    newfile_settle(&x->whole, x->before.st.st_mode & NEWFILE_MODE_BITS) == 0 &&
		    fcntl(fd, F_GETLEASE) == F_WRLCK;
	if (*out_done)
		err = newfile_name(&x->whole, true);
	if (err == EBUSY || err == EXDEV || err == EPERM || err == EACCES) /* its name is not for us to give */
		*out_done = false, err = 0;
	if (*out_done && !err)
		return fs_state_digest(w, x->whole.fd, x->after.sha256);
	newfile_drop(&x->whole);
	(void)fcntl(fd, F_SETLEASE, F_UNLCK);
	return err;
}

/* Behind the old end is what was added, and nothing else: no program has written after it, or over it. */
static bool append_is_bare(const struct writing *x, int fd, long long done)
{
	static char ours[CHUNK], there[CHUNK];
	struct stat st;

	for (long long at = 0; at < done; at += CHUNK) {
		size_t n = done - at < CHUNK ? (size_t)(done - at) : CHUNK;

		if (pread(x->file.fd, ours, n, at) != (ssize_t)n ||
		    pread(fd, there, n, x->before.st.st_size + at) != (ssize_t)n || memcmp(ours, there, n) != 0)
			return false;
	}
	return fstat(fd, &st) == 0 && st.st_size == x->before.st.st_size + done;
}

/* When there is no room for all of it what was added goes again, unless that takes bytes of a program with it. */
static void take_back(const struct writing *x, int fd, long long done)
{
	if (append_is_bare(x, fd, done))
		(void)!ftruncate(fd, x->before.st.st_size);
}

static int append_content(struct fs_work *w, struct writing *x, int fd)
{
	long long done = 0;
	bool beside = false;
	int err = fs_state_match(w, &x->before);

	if (!err)
		err = fs_allow_size(w, w->name, x->before.st.st_size + x->size);
	if (!err)
		err = append_beside(w, x, fd, &beside);
	if (err || beside)
		return err;
	x->in_place = true;
	err = add_content(x->file.fd, fd, &done);
	if (err)
		take_back(x, fd, done);
	else if (fsync(fd))
		err = errno;
	return err ? err : fs_state_digest(w, fd, x->after.sha256);
}

/* The content that is there stays. A missing file is made. docs/files.md, Append, says what a kill leaves. */
int fs_append(struct fs_work *w)
{
	static struct writing x = {.place = {.dir_fd = -1}};
	int fd = -1, err = writing_place(w, &x);

	if (!err)
		err = writing_receive(w, &x);
	if (!err)
		err = fs_root_lock(&x.place);
	if (!err)
		err = append_open(w, &x, &fd);
	if (!err)
		err = append_content(w, &x, fd);
	else if (err == ENOENT && fd < 0)
		err = writing_replace(w, &x);
	if (!err)
		writing_told(w, &x, x.in_place ? fd : fd >= 0 ? x.whole.fd : x.file.fd);
	if (!err && fd >= 0)
		fs_out_flag(&w->out, "in_place", x.in_place);
	if (fd >= 0)
		close(fd);
	return writing_end(&x, err);
}
