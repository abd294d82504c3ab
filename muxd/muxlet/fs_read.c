/* stat, and read by bytes or by lines. */
#include "base/utf8.h"
#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_state.h"
#include "muxd/muxlet/fs_text.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_MAX     (1024 * 1024)
#define READ_DEFAULT (256 * 1024)
#define WHOLE_MAX                                                                                                      \
	(64 * 1024 * 1024) /* of a file whose lines are counted and whose digest is told with a part of it             \
			    */

/* A file that is open, its part that is asked for, and what was seen on the way. */
struct reading {
	int fd;
	struct stat st;
	char *data;
	size_t n, max;
	long long offset;      /* of data */
	long long first, last; /* lines, both included; first 0: by bytes */
	long long line, taken; /* where the reader is; the last one in data */
	bool cut;              /* there is more of what was asked for */
};

static int open_target(struct fs_work *w, int *out_fd, struct stat *st)
{
	int fd = -1, err = fs_root_openat(&w->root, w->name, O_RDONLY | O_NONBLOCK | O_NOCTTY, &fd);

	if (err)
		return err == ENXIO ? ENODEV : err;
	if (fstat(fd, st))
		err = errno;
	else if (!S_ISREG(st->st_mode))
		err = S_ISDIR(st->st_mode) ? EISDIR : ENODEV;
	if (err)
		close(fd);
	else
		*out_fd = fd;
	return err;
}

/* ---- stat */

static int stat_followed(struct fs_work *w)
{
	struct stat st;
	int fd = -1, err = fs_root_openat(&w->root, w->name, O_PATH, &fd);

	if (err)
		return err;
	err = fstat(fd, &st) ? errno : 0;
	if (!err)
		fs_state_entry(&w->out, "entry", w->name, &st, fd, "");
	close(fd);
	return err;
}

static int stat_digest(struct fs_work *w)
{
	char sum[2 * SHA256_LEN + 1];
	struct stat st;
	int fd = -1, err = open_target(w, &fd, &st);

	if (err)
		return err;
	err = fs_state_digest(w, fd, sum);
	if (!err && !sum[0])
		err = fs_fail(w, EFBIG, "a digest is made of files of %llu bytes at most", FS_HASH_MAX);
	if (!err)
		fs_out_text(&w->out, "sha256", sum);
	close(fd);
	return err;
}

int fs_stat(struct fs_work *w)
{
	struct fs_place p;
	struct stat st;
	int err;

	if (w->ask.follow) {
		err = stat_followed(w);
	} else {
		err = fs_root_place(&w->root, w->name, &p);
		if (err == EINVAL)
			return stat_followed(w);
		if (err)
			return err;
		err = fstatat(p.dir_fd, p.base, &st, AT_SYMLINK_NOFOLLOW) ? errno : 0;
		if (!err)
			fs_state_entry(&w->out, "entry", w->name, &st, p.dir_fd, p.base);
		fs_root_leave(&p);
	}
	return !err && w->ask.sha256 ? stat_digest(w) : err;
}

/* ---- read */

/* Where bytes begin: from the end when that is below 0. */
static int find_offset(struct fs_work *w, struct reading *r)
{
	long long at = w->ask.offset;

	if (at < 0)
		at = at + r->st.st_size > 0 ? at + r->st.st_size : 0;
	if (at > r->st.st_size)
		return fs_fail(w, ERANGE, "offset %lld is behind its end at %lld", at, (long long)r->st.st_size);
	r->offset = at;
	return 0;
}

static int read_bytes(struct fs_work *w, struct reading *r)
{
	int err = find_offset(w, r);
	ssize_t n;

	if (err)
		return err;
	if (lseek(r->fd, r->offset, SEEK_SET) < 0)
		return errno;
	n = newfile_read(r->fd, r->data, r->max);
	if (n < 0)
		return errno;
	r->n = (size_t)n;
	r->cut = r->offset + n < r->st.st_size;
	return 0;
}

/* One piece of a line, of n bytes at offset at: kept when its line is asked for. */
static void take_piece(struct reading *r, const char *p, size_t n, long long at)
{
	size_t room = r->max - r->n;

	if (r->line < r->first || r->line > r->last || r->cut)
		return;
	if (!r->n)
		r->offset = at;
	r->cut = n > room;
	n = n < room ? n : room;
	memcpy(r->data + r->n, p, n);
	r->n += n;
	r->taken = r->line;
}

static void take_block(struct reading *r, const char *p, size_t n, long long at, bool *ended)
{
	while (n) {
		const char *nl = memchr(p, '\n', n);
		size_t len = nl ? (size_t)(nl - p) + 1 : n;

		if (*ended)
			r->line++;
		*ended = nl != NULL;
		take_piece(r, p, len, at);
		p += len;
		at += (long long)len;
		n -= len;
	}
}

/* To the end of a small file, whose lines are counted; of a large one to the last line asked for. */
static int read_lines(struct fs_work *w, struct reading *r)
{
	static char block[64 * 1024];
	long long at = 0;
	bool ended = true, small = r->st.st_size <= WHOLE_MAX;
	ssize_t n = 0;

	r->first = w->ask.from_line > 0 ? w->ask.from_line : 1;
	r->last = w->ask.to_line > 0 ? w->ask.to_line : LLONG_MAX;
	if (r->last < r->first)
		return fs_fail(w, EINVAL, "to_line is less than from_line");
	while ((small || (r->line <= r->last && !r->cut)) && (n = newfile_read(r->fd, block, sizeof(block))) > 0) {
		take_block(r, block, (size_t)n, at, &ended);
		at += n;
	}
	if (n < 0)
		return errno;
	if (r->first > 1 && r->line < r->first)
		return fs_fail(w, ERANGE, "it has %lld lines; from_line is %lld", r->line, r->first);
	if (small)
		fs_out_number(&w->out, "total_lines", r->line);
	fs_out_number(&w->out, "from_line", r->first);
	fs_out_number(&w->out, "to_line", r->taken);
	return 0;
}

/* A character that the bounds cut is left for the next read. */
static void leave_half(struct reading *r)
{
	for (size_t back = 1; r->cut && back <= 3 && back < r->n; back++) {
		unsigned char c = (unsigned char)r->data[r->n - back];

		if ((c & 0xc0) == 0x80)
			continue;
		if (c >= 0xc2 && c < 0xf5 && !utf8_step((const uint8_t *)r->data + r->n - back, back, NULL))
			r->n -= back;
		return;
	}
}

static int reading_answer(struct fs_work *w, struct reading *r)
{
	char sum[2 * SHA256_LEN + 1] = "";
	int err = r->st.st_size <= WHOLE_MAX ? fs_state_digest(w, r->fd, sum) : 0;

	if (err)
		return err;
	leave_half(r);
	fs_out_path(&w->out, "path", w->name);
	fs_state_fields(&w->out, &r->st);
	if (sum[0])
		fs_out_text(&w->out, "sha256", sum);
	else
		fs_out_null(&w->out, "sha256");
	fs_out_number(&w->out, "offset", r->offset);
	fs_out_number(&w->out, "length", (long long)r->n);
	fs_out_flag(&w->out, "truncated", r->cut);
	fs_out_data(&w->out, r->data, r->n);
	return 0;
}

int fs_read(struct fs_work *w)
{
	bool by_lines = w->ask.from_line > 0 || w->ask.to_line > 0;
	struct reading r = {.max = READ_DEFAULT};
	int err;

	if (by_lines && w->ask.offset)
		return fs_fail(w, EINVAL, "offset goes with bytes, from_line and to_line with lines");
	if (w->ask.length > READ_MAX)
		return fs_fail(w, EFBIG, "length is over %d; ask again for the rest, or get the file", READ_MAX);
	if (w->ask.length >= 0)
		r.max = (size_t)w->ask.length;
	err = open_target(w, &r.fd, &r.st);
	if (err)
		return err;
	r.data = malloc(r.max + 1);
	err = !r.data ? ENOMEM : by_lines ? read_lines(w, &r) : read_bytes(w, &r);
	if (!err)
		err = reading_answer(w, &r);
	free(r.data);
	close(r.fd);
	return err;
}
