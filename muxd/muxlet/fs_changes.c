/*
 * changes: the workspace as it was comes as a tar archive on the standard input (tree_get of a snapshot), and the
 * changes from there go out as a patch, as git writes it (files/gitpatch.h).
 *
 * What is there now is listed first, then each file of the archive is compared as it comes; what it did not have
 * follows at the end, so that whatever goes has gone before what takes its place. Empty directories, owners and times
 * are no changes, since no patch has them. A content is in memory for as long as it is compared, if it is text of
 * TEXT_MAX at most; else it is told as a literal.
 */
#include "files/gitpatch.h"
#include "files/tar.h"
#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_walk.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRIES_MAX 200000
#define TEXT_MAX    (4u << 20)
#define CHUNK       (64 * 1024)

/* A file, or a symbolic link, as it is now. */
struct present {
	char *path;
	unsigned mode;
	bool known; /* the archive had it, of the same kind */
};

struct changing {
	struct fs_work *w;
	struct tar_reader reader;
	struct present *files;
	size_t nfiles, size;
	/* the one of the archive that is being read */
	char path[TAR_PATH_MAX];
	struct gitpatch_side old;
	struct sha1 blob;
	struct present *same; /* of that name; NULL */
	int fd;               /* of it, to be compared; -1 */
	bool differs;
	char *text; /* of the old content, TEXT_MAX bytes */
	size_t text_n;
	bool over;
	unsigned entries;
	char out[CHUNK];
	size_t out_n;
	int err; /* of the walk */
};

static int flush(struct changing *c)
{
	int err = newfile_write(STDOUT_FILENO, c->out, c->out_n);

	c->out_n = 0;
	return err;
}

static int put_out(void *arg, const char *p, size_t n)
{
	struct changing *c = arg;
	int err = c->out_n + n > sizeof(c->out) ? flush(c) : 0;

	if (err || n > sizeof(c->out))
		return err ? err : newfile_write(STDOUT_FILENO, p, n);
	memcpy(c->out + c->out_n, p, n);
	c->out_n += n;
	return 0;
}

static int file_fail(struct changing *c, int err, const char *path)
{
	return err ? fs_fail(c->w, err, "%.150s: %s", path, strerror(err)) : 0;
}

static unsigned mode_of(mode_t mode)
{
	return S_ISLNK(mode) ? GITPATCH_LINK : mode & 0100 ? GITPATCH_RUN : GITPATCH_FILE;
}

/* ---- what is there now */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct present *)a)->path, ((const struct present *)b)->path);
}

static int list_add(struct changing *c, const char *path, const struct stat *st)
{
	struct present *f = c->files;

	if (c->nfiles == ENTRIES_MAX)
		return fs_fail(c->w, EFBIG, "the workspace has more than %d files: leave some out (ignore)",
			       ENTRIES_MAX);
	if (c->nfiles == c->size) {
		size_t size = c->size ? 2 * c->size : 256;

		f = realloc(c->files, size * sizeof(*f));
		if (!f)
			return ENOMEM;
		c->files = f;
		c->size = size;
	}
	f[c->nfiles] = (struct present){.path = strdup(path), .mode = mode_of(st->st_mode)};
	return f[c->nfiles].path ? (c->nfiles++, 0) : ENOMEM;
}

static enum fs_walk_next list_visit(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	struct changing *c = arg;

	(void)dir_fd, (void)base;
	if (S_ISREG(st->st_mode) || S_ISLNK(st->st_mode))
		c->err = list_add(c, path, st);
	return c->err ? FS_WALK_STOP : FS_WALK_ON;
}

static int list_present(struct changing *c)
{
	struct fs_walk walk = {.visit = list_visit, .arg = c, .depth = FS_WALK_DEPTH};
	int fd = -1, err = fs_root_openat(&c->w->root, c->w->name, O_RDONLY | O_DIRECTORY, &fd);

	if (err)
		return err;
	err = fs_op_ignore(c->w, &walk);
	if (!err)
		err = fs_walk_run(&walk, fd, "");
	ignore_free(walk.ignore);
	close(fd);
	if (!err && !c->err && walk.unread)
		err = fs_fail(c->w, EACCES, "%u directories could not be read", walk.unread);
	if (c->nfiles)
		qsort(c->files, c->nfiles, sizeof(*c->files), by_path);
	return c->err ? c->err : err;
}

/* ---- one content as it is now */

/* Of a present file, opened without following it. */
static int open_present(const struct changing *c, const char *path, struct stat *st, int *out_fd)
{
	struct fs_place p;
	int err = fs_root_place(&c->w->root, path, &p);

	if (err)
		return err;
	*out_fd = openat(p.dir_fd, p.base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	err = *out_fd < 0 ? errno : fstat(*out_fd, st) ? errno : S_ISREG(st->st_mode) ? 0 : ESTALE;
	if (err && *out_fd >= 0) {
		close(*out_fd);
		*out_fd = -1;
	}
	fs_root_leave(&p);
	return err;
}

/* All of it once, for its name and, if it is small, its text (the caller's). */
static int read_now(int fd, struct gitpatch_side *now, char **out_text)
{
	static char buf[CHUNK];
	char *text = now->size <= TEXT_MAX ? malloc((size_t)now->size + 1) : NULL;
	uint64_t at = 0;
	struct sha1 s;
	ssize_t n = 0;

	if (now->size <= TEXT_MAX && !text)
		return ENOMEM;
	gitpatch_blob(&s, now->size);
	while (at < now->size &&
	       (n = newfile_read(fd, buf, now->size - at < CHUNK ? (size_t)(now->size - at) : CHUNK)) > 0) {
		sha1_add(&s, buf, (size_t)n);
		if (text)
			memcpy(text + at, buf, (size_t)n);
		at += (uint64_t)n;
	}
	sha1_finish(&s, now->blob);
	now->p = *out_text = text;
	return n < 0 ? errno : at < now->size ? ESTALE : 0;
}

static int link_now(const struct changing *c, const char *path, struct gitpatch_side *now, char **out_text)
{
	char *text = malloc(PATH_MAX);
	struct fs_place p;
	struct sha1 s;
	ssize_t n = -1;
	int err = text ? fs_root_place(&c->w->root, path, &p) : ENOMEM;

	if (!err) {
		n = readlinkat(p.dir_fd, p.base, text, PATH_MAX);
		err = n < 0 ? errno : 0;
		fs_root_leave(&p);
	}
	if (err) {
		free(text);
		return err;
	}
	now->size = (uint64_t)n;
	now->p = *out_text = text;
	gitpatch_blob(&s, now->size);
	sha1_add(&s, text, (size_t)n);
	sha1_finish(&s, now->blob);
	return 0;
}

/* The same content again, as a literal; it has to be what it was called. */
static int put_literal(struct changing *c, const char *path, int fd, const struct gitpatch_side *old,
		       const struct gitpatch_side *now)
{
	static char buf[CHUNK];
	struct gitpatch_literal l;
	uint8_t again[SHA1_LEN];
	uint64_t left = now->mode ? now->size : 0;
	struct sha1 s;
	int err = gitpatch_literal_begin(&l, path, old, now, put_out, c);

	gitpatch_blob(&s, left);
	if (!err && left && fd >= 0 && lseek(fd, 0, SEEK_SET) < 0)
		err = errno;
	while (!err && left) {
		ssize_t n = left < CHUNK ? (ssize_t)left : CHUNK;

		if (fd >= 0)
			n = newfile_read(fd, buf, (size_t)n);
		else
			memcpy(buf, now->p + (now->size - left), (size_t)n);
		if (n <= 0)
			return n ? errno : ESTALE;
		sha1_add(&s, buf, (size_t)n);
		left -= (uint64_t)n;
		err = gitpatch_literal_add(&l, buf, (size_t)n);
	}
	sha1_finish(&s, again);
	if (!err && now->mode && memcmp(again, now->blob, sizeof(again)) != 0)
		err = ESTALE;
	return err ? err : gitpatch_literal_end(&l);
}

/* From old (mode 0: nothing) to what has the path now (mode 0: nothing). */
static int put_change(struct changing *c, const char *path, int fd, const struct gitpatch_side *old,
		      const struct gitpatch_side *now)
{
	if (gitpatch_is_text(old, now))
		return gitpatch_text(path, old, now, put_out, c);
	if (c->w->ask.text_only)
		return gitpatch_remark("muxd left out a binary file", path, put_out, c);
	return put_literal(c, path, fd, old, now);
}

static int change_to_present(struct changing *c, const struct present *f, const struct gitpatch_side *old)
{
	struct gitpatch_side now = {.mode = f->mode};
	char *text = NULL;
	struct stat st = {0};
	int fd = -1, err;

	if (f->mode == GITPATCH_LINK) {
		err = link_now(c, f->path, &now, &text);
	} else {
		err = open_present(c, f->path, &st, &fd);
		now.size = err ? 0 : (uint64_t)st.st_size;
		now.mode = err ? 0 : mode_of(st.st_mode);
		if (!err)
			err = read_now(fd, &now, &text);
	}
	if (!err)
		err = put_change(c, f->path, fd, old, &now);
	if (fd >= 0)
		close(fd);
	free(text);
	return file_fail(c, err > 0 ? err : err ? ENOMEM : 0, f->path);
}

/* ---- one entry of the archive */

/* Names are looked up and told, never opened; a name that leads out would be told to whoever applies the patch. */
static int take_name(struct changing *c)
{
	struct tar_entry e = c->reader.entry;
	const char *why;

	e.type = TAR_DIRECTORY; /* its name alone: links may lead anywhere, as they do in workspaces */
	why = tar_check(&e);
	if (why)
		return fs_fail(c->w, EINVAL, "the archive: %s", why);
	memcpy(c->path, e.path, sizeof(c->path));
	return 0;
}

static bool same_kind(unsigned a, unsigned b)
{
	return (a == GITPATCH_LINK) == (b == GITPATCH_LINK);
}

static int entry_begin(struct changing *c)
{
	const struct tar_entry *e = &c->reader.entry;
	struct present *f;
	struct stat st;
	int err;

	if (e->type == TAR_DIRECTORY)
		return 0;
	if (++c->entries > ENTRIES_MAX)
		return fs_fail(c->w, EFBIG, "the archive has more than %d entries", ENTRIES_MAX);
	if (e->type == TAR_HARDLINK)
		return fs_fail(c->w, EINVAL, "the archive has a hard link");
	err = take_name(c);
	if (err)
		return err;
	c->old = (struct gitpatch_side){.mode = mode_of(e->type == TAR_SYMLINK ? S_IFLNK : S_IFREG | e->mode),
					.size = e->type == TAR_SYMLINK ? strlen(e->target) : e->size};
	f = c->nfiles ? bsearch(&(struct present){.path = c->path}, c->files, c->nfiles, sizeof(*f), by_path) : NULL;
	c->same = f && same_kind(f->mode, c->old.mode) ? f : NULL;
	if (c->same)
		c->same->known = true;
	c->differs = !c->same || c->same->mode != c->old.mode;
	c->text_n = 0;
	gitpatch_blob(&c->blob, c->old.size);
	if (!c->differs && e->type == TAR_FILE) {
		err = open_present(c, c->path, &st, &c->fd);
		c->differs = err || (uint64_t)st.st_size != e->size; /* why it cannot be read is found again */
	}
	return 0;
}

/* Is that what stands there now, too? */
static void compare_piece(struct changing *c, const uint8_t *p, size_t n)
{
	static char buf[CHUNK];

	while (n && !c->differs && c->fd >= 0) {
		size_t take = n < CHUNK ? n : CHUNK;
		ssize_t got = newfile_read(c->fd, buf, take);

		c->differs = got != (ssize_t)take || memcmp(buf, p, take) != 0;
		p += take;
		n -= take;
	}
}

static void entry_data(struct changing *c, const uint8_t *p, size_t n)
{
	sha1_add(&c->blob, p, n);
	if (c->old.size <= TEXT_MAX) {
		memcpy(c->text + c->text_n, p, n);
		c->text_n += n;
	}
	compare_piece(c, p, n);
}

static int link_differs(struct changing *c)
{
	struct gitpatch_side now = {.mode = GITPATCH_LINK};
	char *text = NULL;
	int err = link_now(c, c->path, &now, &text);

	c->differs = err || now.size != c->old.size || memcmp(text, c->text, (size_t)now.size) != 0;
	free(text);
	return file_fail(c, err, c->path);
}

static int entry_end(struct changing *c)
{
	static const struct gitpatch_side nothing;
	int err = 0;

	if (!c->old.mode)
		return 0;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	sha1_finish(&c->blob, c->old.blob);
	c->old.p = c->old.size <= TEXT_MAX ? c->text : NULL;
	if (!c->differs && c->old.mode == GITPATCH_LINK)
		err = link_differs(c);
	if (!err && c->differs && c->same)
		err = change_to_present(c, c->same, &c->old);
	else if (!err && c->differs)
		err = put_change(c, c->path, -1, &c->old, &nothing);
	c->old.mode = 0;
	return err < 0 ? ENOMEM : err;
}

/* A link has no content: where it leads stands in its header. */
static int entry_link(struct changing *c)
{
	const char *target = c->reader.entry.target;

	if (c->old.mode == GITPATCH_LINK)
		entry_data(c, (const uint8_t *)target, strlen(target));
	return entry_end(c);
}

static int changes_event(struct changing *c, enum tar_event event)
{
	int err = 0;

	switch (event) {
	case TAR_ENTRY:
		err = entry_end(c); /* one without content has no end of its own */
		if (!err)
			err = entry_begin(c);
		if (!err && c->reader.entry.type != TAR_FILE)
			err = entry_link(c);
		return err;
	case TAR_DATA:
		if (c->old.mode)
			entry_data(c, c->reader.data, c->reader.data_n);
		return 0;
	case TAR_ENTRY_END:
		return entry_end(c);
	case TAR_END:
		c->over = true;
		return entry_end(c);
	case TAR_MORE:
		break;
	}
	return 0;
}

static int changes_take(void *arg, const uint8_t *p, size_t n)
{
	struct changing *c = arg;
	int err = 0;

	while (n && !err) {
		enum tar_event event;
		size_t used;

		if (tar_read(&c->reader, p, n, &used, &event))
			return fs_fail(c->w, EINVAL, "the archive, behind %u files: %s", c->entries, c->reader.why);
		p += used;
		n -= used;
		err = changes_event(c, event);
	}
	return err;
}

/* ---- the whole of it */

static int put_new(struct changing *c)
{
	static const struct gitpatch_side nothing;
	int err = 0;

	for (size_t i = 0; i < c->nfiles && !err; i++)
		if (!c->files[i].known)
			err = change_to_present(c, &c->files[i], &nothing);
	return err;
}

int fs_changes(struct fs_work *w)
{
	static struct changing c;
	int err;

	c.w = w;
	c.fd = -1;
	c.text = malloc(TEXT_MAX);
	err = c.text ? list_present(&c) : ENOMEM;
	if (!err)
		err = newfile_receive_each(changes_take, &c);
	if (!err && !c.over)
		err = fs_fail(w, EINVAL, "the archive ends in the middle");
	if (!err)
		err = put_new(&c);
	if (!err)
		err = flush(&c);
	if (c.fd >= 0)
		close(c.fd);
	for (size_t i = 0; i < c.nfiles; i++)
		free(c.files[i].path);
	free(c.files);
	free(c.text);
	return err;
}
