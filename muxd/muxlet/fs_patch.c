/*
 * patch: a patch over any number of files, all of it or nothing.
 *
 * Each operation is applied in memory, in order; only when all of them fit are files written, each beside its name
 * first and then given it. What another changed meanwhile is not overwritten: then what was given its name already gets
 * its old content back.
 */
#include "files/patch.h"
#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_state.h"
#include "muxd/muxlet/fs_text.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES_MAX (64 * 1024 * 1024) /* of all files together, before and after */

/* One file, as it was and as it is to be. */
struct patched {
	struct patched *next;
	char name[PATH_MAX];
	struct fs_place place;
	struct fs_state before;
	char *old, *now; /* contents; NULL: there is none */
	size_t old_n, now_n;
	mode_t mode;
	bool changed, named; /* named: the new content has its name */
	struct newfile file;
};

struct patching {
	struct fs_work *w;
	struct patch *patch;
	struct patched *files; /* in the order in which the patch names them */
	size_t bytes;
};

/* ---- the patch itself */

/* stdin, into memory. */
static int patch_receive(char **out, size_t *out_n)
{
	int fd = memfd_create("patch", MFD_CLOEXEC), err = fd < 0 ? errno : 0;
	uint64_t size = 0;
	char *p = NULL;

	if (!err)
		err = newfile_receive(fd, NULL, &size);
	if (!err && size > PATCH_TEXT_MAX)
		err = EFBIG;
	if (!err && !(p = malloc(size + 1)))
		err = ENOMEM;
	if (!err && (lseek(fd, 0, SEEK_SET) < 0 || newfile_read(fd, p, size) != (ssize_t)size))
		err = EIO;
	if (fd >= 0)
		close(fd);
	if (err) {
		free(p);
		return err;
	}
	*out = p;
	*out_n = size;
	return 0;
}

/* The hunk that does not fit, for people and for programs. */
static int patch_refuse(struct fs_work *w, const char *path, const struct patch_error *e)
{
	struct fs_out *o = &w->out;

	fs_out_open(o, "refused", '{');
	if (path)
		fs_out_path(o, "path", path);
	fs_out_text(o, "reason", patch_code_name(e->code));
	fs_out_text(o, "explanation", e->why);
	if (e->hunk)
		fs_out_number(o, "hunk", e->hunk);
	if (e->line)
		fs_out_number(o, "patch_line", e->line);
	if (e->near)
		fs_out_number(o, "near_line", e->near);
	if (e->other)
		fs_out_number(o, "other_line", e->other);
	if (e->differs)
		fs_out_number(o, "differs_line", e->differs);
	if (e->code == PATCH_NOT_FOUND) {
		fs_out_text(o, "expected", e->expected);
		fs_out_text(o, "found", e->found);
		fs_out_flag(o, "done_already", e->done);
	}
	fs_out_close(o, '}');
	return fs_fail(w, ENOMSG, "%.100s%s%.150s", path ? path : "", path ? ": " : "", e->why);
}

/* ---- the files */

/* A path of the patch is below the directory that the request names, or absolute. */
static int patch_place(const struct fs_work *w, const char *path, char *out, size_t size)
{
	char joined[2 * PATH_MAX];

	if (*path == '/' || strcmp(w->name, ".") == 0)
		return fs_root_name(&w->root, path, out, size);
	snprintf(joined, sizeof(joined), "%s/%s", w->name, path);
	return fs_root_name(&w->root, joined, out, size);
}

static int patch_name(struct fs_work *w, const char *path, char *out, size_t size)
{
	int err = patch_place(w, path, out, size);

	return err ? err : fs_allow(w, out, FS_READS | FS_WRITES);
}

static int patched_read(struct patching *x, struct patched *f)
{
	int fd, err;
	struct stat st;

	if (f->before.st.st_size > PATCH_FILE_MAX || (x->bytes += (size_t)f->before.st.st_size) > BYTES_MAX)
		return fs_fail(x->w, EFBIG, "%.100s: a patch is for files of 16 MiB, 64 MiB together", f->name);
	fd = openat(f->place.dir_fd, f->place.base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	f->old = malloc((size_t)f->before.st.st_size + 1);
	err = !f->old || fstat(fd, &st) ? ENOMEM : 0;
	if (!err) {
		ssize_t n = newfile_read(fd, f->old, (size_t)f->before.st.st_size);

		err = n < 0 ? errno : 0;
		f->old_n = n < 0 ? 0 : (size_t)n;
	}
	close(fd);
	return err;
}

/* Its directory may be missing: a patch that adds a file makes it. */
static int patched_place(struct patching *x, struct patched *f)
{
	int err = fs_root_place(&x->w->root, f->name, &f->place);

	if (err == ENOENT)
		return 0;
	if (err)
		return err == EINVAL ? EISDIR : err;
	err = fs_state_of(x->w, f->place.dir_fd, f->place.base, &f->before);
	if (err || !f->before.there)
		return err;
	if (S_ISLNK(f->before.st.st_mode))
		return fs_fail(x->w, EINVAL, "%.150s is a link: name what it leads to", f->name);
	if (!S_ISREG(f->before.st.st_mode))
		return S_ISDIR(f->before.st.st_mode) ? EISDIR : ENODEV;
	f->mode = f->before.st.st_mode & NEWFILE_MODE_BITS;
	return patched_read(x, f);
}

static void patched_free(struct patched *f)
{
	newfile_drop(&f->file);
	if (f->file.fd >= 0)
		close(f->file.fd);
	fs_root_leave(&f->place);
	if (f->now != f->old)
		free(f->now);
	free(f->old);
	free(f);
}

/* The file of a path, as the operations before have left it. */
static int patch_find(struct patching *x, const char *path, struct patched **out)
{
	char name[PATH_MAX];
	struct patched **at = &x->files, *f;
	int err = patch_name(x->w, path, name, sizeof(name));

	if (err)
		return fs_fail(x->w, err, "%.150s: %s", path,
			       err == EXDEV ? "the path leads outside the workspace" : strerror(err));
	for (; *at; at = &(*at)->next)
		if (strcmp((*at)->name, name) == 0) {
			*out = *at;
			return 0;
		}
	f = calloc(1, sizeof(*f));
	if (!f)
		return ENOMEM;
	strcpy(f->name, name);
	f->place.dir_fd = f->file.fd = -1;
	f->mode = NEWFILE_MODE;
	err = patched_place(x, f);
	if (err) {
		patched_free(f);
		return fs_fail(x->w, err, "%.150s: %s", path,
			       err == EXDEV ? "the path leads outside the workspace" : strerror(err));
	}
	f->now = f->old;
	f->now_n = f->old_n;
	*at = f;
	*out = f;
	return 0;
}

static void patched_set(struct patched *f, char *content, size_t n)
{
	if (f->now != f->old)
		free(f->now);
	f->now = content;
	f->now_n = n;
	f->changed = true;
}

/* ---- one operation, in memory */

static int patch_target(struct patching *x, const struct patch_op *op, struct patched *from, struct patched **out)
{
	int err = op->to ? patch_find(x, op->to, out) : 0;

	if (!op->to)
		*out = from;
	else if (!err && *out && *out != from && (*out)->now)
		err = fs_fail(x->w, EEXIST, "%.150s: it is there already", op->to);
	return err;
}

static int patch_one(struct patching *x, uint32_t number)
{
	const struct patch_op *op = &x->patch->ops[number];
	struct patched *from = NULL, *to = NULL;
	struct patch_error e = {0};
	char *content = NULL;
	size_t n = 0;
	int err = patch_find(x, op->path, &from);

	if (err || !from)
		return err;
	if (op->kind == PATCH_ADD && from->now)
		return fs_fail(x->w, EEXIST, "%.150s: it is there already", op->path);
	if (op->kind != PATCH_ADD && !from->now)
		return fs_fail(x->w, ENOENT, "%.150s: there is no such file", op->path);
	err = patch_target(x, op, from, &to);
	if (err || !to)
		return err;
	if (patch_apply(x->patch, number, from->now, from->now_n, &content, &n, &e))
		return e.code == PATCH_NO_MEMORY ? ENOMEM : patch_refuse(x->w, from->name, &e);
	if ((x->bytes += n) > BYTES_MAX) {
		free(content);
		return fs_fail(x->w, EFBIG, "the files have more than 64 MiB together");
	}
	if (op->kind == PATCH_DELETE) {
		free(content);
		patched_set(from, NULL, 0);
		return 0;
	}
	if (to != from)
		to->mode = from->mode;
	if (op->mode)
		to->mode = op->mode & 0777;
	if (to != from && !op->copy)
		patched_set(from, NULL, 0);
	patched_set(to, content, n);
	return 0;
}

/* ---- onto the disk */

static int patched_prepare(struct patching *x, struct patched *f)
{
	int err = 0;

	if (f->place.dir_fd < 0) {
		err = fs_root_parents(&x->w->root, f->name, 0777);
		if (!err)
			err = fs_root_place(&x->w->root, f->name, &f->place);
	}
	f->file.dir_fd = f->place.dir_fd;
	strcpy(f->file.base, f->place.base);
	if (!err)
		err = fs_allow_size(x->w, f->name, (long long)f->now_n);
	if (!err)
		err = newfile_open(&f->file);
	if (!err)
		err = newfile_write(f->file.fd, f->now, f->now_n);
	return err ? err : newfile_settle(&f->file, f->mode);
}

/* Is it still what the patch was applied to? */
static int patched_check(struct fs_work *w, const struct patched *f)
{
	struct fs_state now = {0};
	int err = f->place.dir_fd < 0 ? 0 : fs_state_of(w, f->place.dir_fd, f->place.base, &now);

	if (err)
		return err;
	if (now.there != f->before.there || strcmp(now.sha256, f->before.sha256) != 0 ||
	    (now.there && (now.st.st_ino != f->before.st.st_ino || now.st.st_size != f->before.st.st_size)))
		return fs_fail(w, ECANCELED, "%.150s was changed while the patch was applied", f->name);
	return 0;
}

static int patched_name(struct fs_work *w, struct patched *f)
{
	int err = fs_root_lock(&f->place);

	if (!err)
		err = patched_check(w, f);
	if (!err && f->now)
		err = newfile_name(&f->file, f->before.there);
	else if (!err && unlinkat(f->place.dir_fd, f->place.base, 0))
		err = errno;
	fs_root_unlock(&f->place);
	f->named = !err;
	return err;
}

/* Back to what it was. */
static void patched_undo(struct patched *f)
{
	struct newfile old = {.dir_fd = f->place.dir_fd, .fd = -1};

	if (!f->before.there) {
		(void)unlinkat(f->place.dir_fd, f->place.base, 0);
		return;
	}
	strcpy(old.base, f->place.base);
	if (newfile_open(&old) == 0 && newfile_write(old.fd, f->old, f->old_n) == 0)
		(void)newfile_publish(&old, f->before.st.st_mode & NEWFILE_MODE_BITS, true);
	newfile_drop(&old);
	if (old.fd >= 0)
		close(old.fd);
}

/* A file that comes and goes within the patch leaves nothing to do. */
static bool patched_counts(const struct patched *f)
{
	return f->changed && (f->now || f->before.there);
}

static int patch_write(struct patching *x)
{
	int err = 0;

	for (struct patched *f = x->files; f && !err; f = f->next)
		if (patched_counts(f) && f->now)
			err = patched_prepare(x, f);
	if (!err)
		err = newfile_hold_end(); /* all names, or none, whoever has it ended; and the answer says which */
	for (struct patched *f = x->files; f && !err; f = f->next)
		if (patched_counts(f))
			err = patched_name(x->w, f);
	for (struct patched *f = x->files; f && err; f = f->next)
		if (f->named)
			patched_undo(f);
	return err;
}

static void patch_tell(struct patching *x)
{
	for (struct patched *f = x->files; f; f = f->next) {
		struct fs_state after = {.there = f->now != NULL,
					 .st = {.st_mode = S_IFREG | f->mode, .st_size = (off_t)f->now_n}};
		uint8_t sum[SHA256_LEN];
		struct sha256 s;

		if (!patched_counts(f))
			continue;
		sha256_init(&s);
		sha256_add(&s, f->now ? f->now : "", f->now_n);
		sha256_finish(&s, sum);
		fs_hex(sum, sizeof(sum), after.sha256);
		fs_state_changed(x->w, f->name, &f->before, &after);
	}
}

int fs_patch(struct fs_work *w)
{
	struct patching x = {.w = w};
	struct patch_error e = {0};
	char *text = NULL;
	size_t n = 0;
	int err = patch_receive(&text, &n);

	if (!err && patch_parse(text, n, &x.patch, &e))
		err = e.code == PATCH_NO_MEMORY ? ENOMEM : patch_refuse(w, NULL, &e);
	for (uint32_t i = 0; !err && i < x.patch->n_ops; i++)
		err = patch_one(&x, i);
	if (!err && !w->ask.dry_run)
		err = patch_write(&x);
	if (!err) {
		fs_out_flag(&w->out, "dry_run", w->ask.dry_run);
		fs_out_number(&w->out, "operations", x.patch->n_ops);
		patch_tell(&x);
	}
	while (x.files) {
		struct patched *f = x.files;

		x.files = f->next;
		patched_free(f);
	}
	patch_free(x.patch);
	free(text);
	return err;
}
