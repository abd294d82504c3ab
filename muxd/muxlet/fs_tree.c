/* mkdir, move, delete and chmod: names, and no content. */
#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_state.h"
#include "muxd/muxlet/fs_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The name itself; not of the root, which stays. */
static int tree_place(struct fs_work *w, const char *name, struct fs_place *out)
{
	int err = fs_root_place(&w->root, name, out);

	if (err == EINVAL || (!err && out->is_root)) {
		if (!err)
			fs_root_leave(out);
		return fs_fail(w, EINVAL, "the path ends in \"..\" or is the workspace itself");
	}
	return err;
}

/* ---- mkdir */

int fs_mkdir(struct fs_work *w)
{
	mode_t mode = w->ask.mode >= 0 ? (mode_t)w->ask.mode : 0755;
	struct fs_state after = {0};
	struct fs_place p;
	bool made;
	int err = w->ask.parents ? fs_root_parents(&w->root, w->name, 0777) : 0;

	if (!err)
		err = tree_place(w, w->name, &p);
	if (err)
		return err;
	made = mkdirat(p.dir_fd, p.base, mode) == 0;
	if (!made)
		err = errno;
	else if (w->ask.mode >= 0) /* whatever the umask is */
		err = fs_root_chmod_dir(p.dir_fd, p.base, mode);
	if (!err || (err == EEXIST && w->ask.parents))
		err = fs_state_of(w, p.dir_fd, p.base, &after);
	if (!err && !S_ISDIR(after.st.st_mode))
		err = EEXIST;
	if (!err) {
		fs_state_entry(&w->out, "entry", w->name, &after.st, p.dir_fd, p.base);
		fs_out_flag(&w->out, "created", made);
	}
	if (made)
		fs_state_changed(w, w->name, NULL, &after);
	fs_root_leave(&p);
	return err;
}

/* ---- move */

static int rename_new(const struct fs_place *from, const struct fs_place *to)
{
	struct stat st;

	if (renameat2(from->dir_fd, from->base, to->dir_fd, to->base, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return errno;
	/* A file system that cannot: the lock keeps other operations away, programs are not held back. */
	if (fstatat(to->dir_fd, to->base, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return EEXIST;
	return renameat(from->dir_fd, from->base, to->dir_fd, to->base) ? errno : 0;
}

static int move_name(struct fs_work *w, const struct fs_place *from, const struct fs_place *to, const char *name)
{
	struct fs_state what = {0}, over = {0};
	int err = fs_state_of(w, from->dir_fd, from->base, &what);

	if (!err && !what.there)
		err = ENOENT;
	if (!err && S_ISDIR(what.st.st_mode))
		err = fs_allow(w, w->name, FS_READS | FS_WRITES | FS_TREE);
	if (!err && S_ISDIR(what.st.st_mode))
		err = fs_allow(w, name, FS_WRITES | FS_TREE);
	if (!err)
		err = fs_state_match(w, &what);
	if (!err)
		err = fs_root_lock(to);
	if (!err)
		err = fs_state_of(w, to->dir_fd, to->base, &over);
	if (!err && over.there && !w->ask.overwrite)
		return fs_fail(w, EEXIST, "there is something where it is to go; overwrite replaces it");
	if (!err && w->ask.overwrite)
		err = renameat(from->dir_fd, from->base, to->dir_fd, to->base) ? errno : 0;
	else if (!err)
		err = rename_new(from, to);
	if (err == EXDEV)
		err = fs_fail(w, EOPNOTSUPP, "it lies on another file system than where it is to go; copy it");
	if (err == EINVAL)
		err = fs_fail(w, EINVAL, "a directory cannot go into itself");
	if (err)
		return err;
	fs_state_changed(w, w->name, &what, NULL);
	fs_state_changed(w, name, &over, &what);
	fs_state_entry(&w->out, "entry", name, &what.st, to->dir_fd, to->base);
	return 0;
}

int fs_move(struct fs_work *w)
{
	struct fs_place from = {.dir_fd = -1}, to = {.dir_fd = -1};
	char name[PATH_MAX];
	int err = fs_root_name(&w->root, w->ask.to, name, sizeof(name));

	if (!err)
		err = tree_place(w, w->name, &from);
	if (!err && w->ask.parents)
		err = fs_root_parents(&w->root, name, 0777);
	if (!err)
		err = tree_place(w, name, &to);
	if (!err)
		err = move_name(w, &from, &to, name);
	fs_root_leave(&from);
	fs_root_leave(&to);
	return err;
}

/* ---- delete */

struct deleting {
	struct fs_work *w;
	long long gone;
	int err;
};

static enum fs_walk_next delete_one(struct deleting *d, int dir_fd, const char *base, const char *path)
{
	struct fs_state before = {0};
	int err = fs_state_of(d->w, dir_fd, base, &before);

	if (!err && unlinkat(dir_fd, base, S_ISDIR(before.st.st_mode) ? AT_REMOVEDIR : 0))
		err = errno;
	if (err == ENOENT)
		return FS_WALK_ON;
	d->err = err;
	if (err) {
		(void)fs_fail(d->w, err, "%.150s: %s; %lld names were deleted before", path, strerror(err), d->gone);
		return FS_WALK_STOP;
	}
	fs_state_changed(d->w, path, &before, NULL);
	d->gone++;
	return FS_WALK_ON;
}

static enum fs_walk_next delete_visit(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	return S_ISDIR(st->st_mode) ? FS_WALK_ON : delete_one(arg, dir_fd, base, path);
}

static enum fs_walk_next delete_leave(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	(void)st;
	return delete_one(arg, dir_fd, base, path);
}

static int delete_inside(struct deleting *d, const struct fs_place *p)
{
	struct fs_walk walk = {.visit = delete_visit, .leave = delete_leave, .arg = d, .depth = FS_WALK_DEPTH};
	int fd = openat(p->dir_fd, p->base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err;

	if (fd < 0)
		return errno;
	err = fs_walk_run(&walk, fd, d->w->name);
	close(fd);
	return d->err ? d->err : err;
}

static int delete_name(struct deleting *d, const struct fs_place *p)
{
	struct fs_state before = {0};
	int err = fs_state_of(d->w, p->dir_fd, p->base, &before);

	if (!err && !before.there)
		err = ENOENT;
	if (!err)
		err = fs_state_match(d->w, &before);
	if (!err && S_ISDIR(before.st.st_mode) && d->w->ask.recursive)
		err = delete_inside(d, p);
	if (!err)
		(void)delete_one(d, p->dir_fd, p->base, d->w->name);
	return err ? err : d->err;
}

int fs_delete(struct fs_work *w)
{
	struct deleting d = {.w = w};
	struct fs_place p;
	int err = tree_place(w, w->name, &p);

	if (err)
		return err;
	err = delete_name(&d, &p);
	if (err == ENOTEMPTY && !w->ask.recursive) {
		w->why[0] = '\0';
		err = fs_fail(w, err, "the directory is not empty; recursive deletes it with what is in it");
	}
	fs_out_path(&w->out, "path", w->name);
	fs_out_number(&w->out, "deleted", d.gone);
	fs_root_leave(&p);
	return err;
}

/* ---- chmod */

/* A link is followed, below the root: it has no permissions of its own. */
int fs_chmod(struct fs_work *w)
{
	struct fs_state before = {.there = true}, after = {.there = true};
	char path[40];
	int fd = -1, err = fs_root_openat(&w->root, w->name, O_PATH, &fd);

	if (err)
		return err;
	if (fstat(fd, &before.st))
		err = errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!err && (chmod(path, (mode_t)w->ask.mode) || fstat(fd, &after.st)))
		err = errno;
	if (!err) {
		fs_state_entry(&w->out, "entry", w->name, &after.st, fd, "");
		fs_state_changed(w, w->name, &before, &after);
	}
	close(fd);
	return err;
}
