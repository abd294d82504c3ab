/* copy: a file, or a tree that has its name when it is whole. */
#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_state.h"
#include "muxd/muxlet/fs_walk.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (64 * 1024)

/* Content as it is read: a file that grows meanwhile does not make an endless copy. */
static int copy_content(int from, int to, long long size)
{
	static char buf[CHUNK];
	ssize_t n = 0;
	int err = 0;

	while (!err && size > 0 && (n = newfile_read(from, buf, size < CHUNK ? (size_t)size : CHUNK)) > 0) {
		err = newfile_is_ended() ? ECANCELED : newfile_write(to, buf, (size_t)n);
		size -= n;
	}
	return n < 0 ? errno : err;
}

static int copy_open(int dir_fd, const char *base, int *out_fd, struct stat *st)
{
	int fd = openat(dir_fd, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENXIO ? ENODEV : errno;
	if (fstat(fd, st) || !S_ISREG(st->st_mode)) {
		close(fd);
		return ENODEV;
	}
	*out_fd = fd;
	return 0;
}

/* ---- one file, or one link */

static int copy_file(struct fs_work *w, int from, const struct stat *st, const struct fs_place *to,
		     const struct fs_state *over)
{
	static struct newfile file;
	int err;

	if (over->there && S_ISDIR(over->st.st_mode))
		return EISDIR;
	err = fs_allow_size(w, to->base, st->st_size);
	if (err)
		return err;
	file.dir_fd = to->dir_fd;
	strcpy(file.base, to->base);
	err = newfile_open(&file);
	if (!err)
		err = copy_content(from, file.fd, st->st_size);
	if (!err)
		err = newfile_publish(&file, st->st_mode & NEWFILE_MODE_BITS, w->ask.overwrite);
	newfile_drop(&file);
	return err;
}

static int copy_link(int dir_fd, const char *base, int to_fd, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir_fd, base, target, sizeof(target) - 1);

	if (n < 0)
		return errno;
	target[n] = '\0';
	return symlinkat(target, to_fd, name) ? errno : 0;
}

/* ---- a tree */

/* Where the copy is while it is made: directories in one another, the innermost last. */
struct copying {
	struct fs_work *w;
	int dirs[FS_WALK_DEPTH + 1];
	int depth, err;
	long long files;
	const char *name; /* what the tree is to be called */
};

/* path: as it is called where it is copied from. */
static int tree_told(struct copying *c, const char *base, const char *path)
{
	char name[2 * PATH_MAX];
	struct fs_state after = {0};
	int err = fs_state_of(c->w, c->dirs[c->depth], base, &after);

	snprintf(name, sizeof(name), "%s%s", c->name, path + strlen(c->w->name));
	fs_state_changed(c->w, name, NULL, &after);
	c->files++;
	return err;
}

static int tree_file(struct copying *c, int dir_fd, const char *base, const char *path)
{
	int from = -1, to, err;
	struct stat st = {0};

	err = copy_open(dir_fd, base, &from, &st);
	if (!err)
		err = fs_allow_size(c->w, path, st.st_size);
	if (err) {
		if (from >= 0)
			close(from);
		return err;
	}
	to = openat(c->dirs[c->depth], base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	err = to < 0 ? errno : copy_content(from, to, st.st_size);
	if (!err && fchmod(to, st.st_mode & NEWFILE_MODE_BITS))
		err = errno;
	if (to >= 0)
		close(to);
	close(from);
	return err ? err : tree_told(c, base, path);
}

static int tree_dir(struct copying *c, const char *base)
{
	int fd;

	if (mkdirat(c->dirs[c->depth], base, 0700))
		return errno;
	fd = openat(c->dirs[c->depth], base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno;
	c->dirs[++c->depth] = fd;
	return 0;
}

static enum fs_walk_next copy_result(struct copying *c, int err, const char *path)
{
	c->err = err;
	if (!err)
		return FS_WALK_ON;
	(void)fs_fail(c->w, err, "%.150s: %s", path,
		      err == ENODEV ? "it is neither a file, a directory nor a link" : strerror(err));
	return FS_WALK_STOP;
}

static enum fs_walk_next copy_visit(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	struct copying *c = arg;

	if (newfile_is_ended())
		return copy_result(c, ECANCELED, path);
	if (S_ISDIR(st->st_mode))
		return copy_result(c, tree_dir(c, base), path);
	if (S_ISLNK(st->st_mode))
		return copy_result(c, copy_link(dir_fd, base, c->dirs[c->depth], base), path);
	return copy_result(c, S_ISREG(st->st_mode) ? tree_file(c, dir_fd, base, path) : ENODEV, path);
}

/* Permissions at the end: a directory may be one that nobody writes to. */
static enum fs_walk_next copy_leave(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	struct copying *c = arg;
	int err = fchmod(c->dirs[c->depth], st->st_mode & NEWFILE_MODE_BITS) ? errno : 0;

	(void)dir_fd, (void)base;
	close(c->dirs[c->depth--]);
	return copy_result(c, err, path);
}

/* A tree that goes. Of what is far down, or has a long path, each part is brought up to its top and goes next. */
struct tidying {
	int top;
	unsigned raised, passes; /* names that were used for that */
};

#define TIDY_PATH   2048
#define TIDY_PASSES 4096

static bool is_far(const char *path)
{
	size_t steps = 0;

	for (const char *p = path; (p = strchr(p, '/')); p++)
		steps++;
	return steps >= FS_WALK_DEPTH / 2 || strlen(path) > TIDY_PATH;
}

static bool tidy_raise(struct tidying *t, int dir_fd, const char *base)
{
	char name[32];

	do
		snprintf(name, sizeof(name), ".muxd-deep-%u", t->raised++);
	while (renameat2(dir_fd, base, t->top, name, RENAME_NOREPLACE) && errno == EEXIST);
	return fstatat(dir_fd, base, &(struct stat){0}, AT_SYMLINK_NOFOLLOW) != 0;
}

static enum fs_walk_next tidy_visit(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	if (!S_ISDIR(st->st_mode)) {
		(void)unlinkat(dir_fd, base, 0);
		return FS_WALK_ON;
	}
	(void)fs_root_chmod_dir(dir_fd, base, 0700);
	return is_far(path) && tidy_raise(arg, dir_fd, base) ? FS_WALK_PAST : FS_WALK_ON;
}

static enum fs_walk_next tidy_leave(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	(void)arg, (void)path, (void)st;
	(void)unlinkat(dir_fd, base, AT_REMOVEDIR);
	return FS_WALK_ON;
}

void fs_tidy(struct fs_work *w, int fd, int dir_fd, const char *temp)
{
	struct tidying t = {.top = fd};
	struct fs_walk walk = {.visit = tidy_visit, .leave = tidy_leave, .arg = &t, .depth = FS_WALK_DEPTH};
	unsigned raised;

	do {
		raised = t.raised;
		if (fd >= 0)
			(void)fs_walk_run(&walk, fd, "");
	} while (t.raised != raised && ++t.passes < TIDY_PASSES);
	if (unlinkat(dir_fd, temp, AT_REMOVEDIR) && errno != ENOENT)
		fs_out_path(&w->out, "left_behind", temp);
}

/* Is the directory inside the other one? Up from it to the root, which ends in itself. */
static bool is_inside(int dir_fd, const struct stat *other)
{
	int fd = openat(dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st, last = {0};
	bool inside = false;

	while (fd >= 0 && fstat(fd, &st) == 0 && !(st.st_ino == last.st_ino && st.st_dev == last.st_dev)) {
		int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		inside = inside || (st.st_ino == other->st_ino && st.st_dev == other->st_dev);
		close(fd);
		fd = up;
		last = st;
	}
	if (fd >= 0)
		close(fd);
	return inside;
}

static int copy_into(struct copying *c, int from, const struct stat *st, int top)
{
	struct fs_walk walk = {.visit = copy_visit, .leave = copy_leave, .arg = c, .depth = FS_WALK_DEPTH};
	int err;

	c->dirs[0] = top;
	err = fs_walk_run(&walk, from, c->w->name);
	while (c->depth)
		close(c->dirs[c->depth--]);
	if (!err && !c->err && walk.unread)
		err = fs_fail(c->w, EACCES, "%u directories could not be read", walk.unread);
	if (!err && !c->err && fchmod(top, st->st_mode & NEWFILE_MODE_BITS))
		err = errno;
	return c->err ? c->err : err;
}

static int copy_tree(struct fs_work *w, int from, const struct stat *st, const struct fs_place *to, const char *name)
{
	struct copying c = {.w = w, .name = name};
	char temp[40];
	int top, err;

	if (is_inside(to->dir_fd, st))
		return fs_fail(w, EINVAL, "a directory cannot be copied into itself");
	snprintf(temp, sizeof(temp), ".muxd-copy-%d-%llx", (int)getpid(), (unsigned long long)st->st_ino);
	err = newfile_hold_end();
	if (!err && mkdirat(to->dir_fd, temp, 0700))
		err = errno;
	if (err)
		return err;
	top = openat(to->dir_fd, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	err = top < 0 ? errno : copy_into(&c, from, st, top);
	if (!err && renameat2(to->dir_fd, temp, to->dir_fd, to->base, RENAME_NOREPLACE))
		err = errno;
	if (err && top >= 0)
		fs_tidy(w, top, to->dir_fd, temp);
	if (err)
		fs_state_forget(w);
	if (top >= 0)
		close(top);
	if (!err)
		fs_out_number(&w->out, "files", c.files);
	return err;
}

/* ---- */

static int copy_what(struct fs_work *w, const struct fs_place *from, const struct stat *st, const struct fs_place *to,
		     const char *name, const struct fs_state *over)
{
	struct stat now = {0};
	int fd = -1, err;

	if (S_ISLNK(st->st_mode))
		return over->there ? fs_fail(w, EEXIST, "a link replaces nothing")
				   : copy_link(from->dir_fd, from->base, to->dir_fd, to->base);
	if (!S_ISDIR(st->st_mode)) {
		err = copy_open(from->dir_fd, from->base, &fd, &now);
		if (!err)
			err = copy_file(w, fd, &now, to, over);
	} else if (!w->ask.recursive) {
		return fs_fail(w, EISDIR, "it is a directory; recursive copies it with what is in it");
	} else if (over->there) {
		return fs_fail(w, EEXIST, "a directory replaces nothing");
	} else {
		fd = openat(from->dir_fd, from->base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		err = fd < 0 ? errno : copy_tree(w, fd, st, to, name);
	}
	if (fd >= 0)
		close(fd);
	return err;
}

static int copy_name(struct fs_work *w, const struct fs_place *from, const struct fs_place *to, const char *name)
{
	struct fs_state over = {0}, after = {0};
	struct stat st;
	int err = fstatat(from->dir_fd, from->base, &st, AT_SYMLINK_NOFOLLOW) ? errno : fs_root_lock(to);

	if (!err)
		err = fs_state_of(w, to->dir_fd, to->base, &over);
	if (!err && over.there && !w->ask.overwrite)
		return fs_fail(w, EEXIST, "there is something where it is to go; overwrite replaces it");
	if (!err)
		err = copy_what(w, from, &st, to, name, &over);
	if (!err)
		err = fs_state_of(w, to->dir_fd, to->base, &after);
	if (err)
		return err;
	if (!S_ISDIR(after.st.st_mode) || w->changes_listed + w->changes_left_out == 0)
		fs_state_changed(w, name, &over, &after);
	fs_state_entry(&w->out, "entry", name, &after.st, to->dir_fd, to->base);
	return 0;
}

int fs_copy(struct fs_work *w)
{
	struct fs_place from = {.dir_fd = -1}, to = {.dir_fd = -1};
	char name[PATH_MAX];
	int err = fs_root_name(&w->root, w->ask.to, name, sizeof(name));

	if (!err)
		err = fs_root_place(&w->root, w->name, &from);
	if (!err && w->ask.parents)
		err = fs_root_parents(&w->root, name, 0777);
	if (!err)
		err = fs_root_place(&w->root, name, &to);
	if (!err && to.is_root)
		err = EEXIST;
	if (!err)
		err = copy_name(w, &from, &to, name);
	fs_root_leave(&from);
	fs_root_leave(&to);
	return err;
}
