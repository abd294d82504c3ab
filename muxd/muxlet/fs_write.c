/* write and append: content that comes as standard input. */
#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_state.h"
#include "muxd/muxlet/fs_text.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (64 * 1024)

/* Where it goes, what is there, and what came. */
struct writing {
	struct fs_place place;
	struct newfile file;
	struct fs_state before, after;
	long long size; /* of what came */
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

	while (!err && (n = newfile_read(from, buf, sizeof(buf))) > 0) {
		err = newfile_write(to, buf, (size_t)n);
		*out_done += err ? 0 : n;
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

/* When there is no room for all of it what was added goes again, unless a program has added to it meanwhile. */
static void take_back(const struct writing *x, int fd, long long done)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_size >= x->before.st.st_size &&
	    st.st_size - x->before.st.st_size <= done + CHUNK)
		(void)!ftruncate(fd, x->before.st.st_size);
}

static int append_content(struct fs_work *w, struct writing *x, int fd)
{
	long long done = 0;
	int err = fs_state_match(w, &x->before);

	if (!err)
		err = fs_allow_size(w, w->name, x->before.st.st_size + x->size);
	if (err)
		return err;
	err = add_content(x->file.fd, fd, &done);
	if (err)
		take_back(x, fd, done);
	else if (fsync(fd))
		err = errno;
	return err ? err : fs_state_digest(w, fd, x->after.sha256);
}

/* The content that is there stays. A missing file is made. */
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
		writing_told(w, &x, fd >= 0 ? fd : x.file.fd);
	if (fd >= 0)
		close(fd);
	return writing_end(&x, err);
}
