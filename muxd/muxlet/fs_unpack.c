/*
 * tree_put: a tar archive from the standard input becomes a directory: all of it, or nothing.
 *
 * It is unpacked into a directory of its own beside the name. Only when the archive is at its end, and is what the
 * sender says it is, does that take the name, or change places with what had it (overwrite), or does what is in it go
 * where it belongs, file by file (merge). Names are resolved below that directory by the kernel (fs_root.h) whatever
 * the archive makes of links, and tar_check() turns away what would lead out.
 */
#include "files/tar.h"
#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_state.h"
#include "muxd/muxlet/fs_walk.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define ENTRIES_MAX 200000
#define BYTES_MAX   (UINT64_C(64) << 30)
#define DIRS_MAX    (16 * 1024 * 1024) /* bytes that are kept of directories, until they have their permissions */

/* Permissions come last: a directory may be one that nobody writes to. */
struct unpacked_dir {
	char *path;
	size_t number; /* in the archive's order */
	mode_t mode;
};

struct unpacking {
	struct fs_work *w;
	struct tar_reader reader;
	struct tar_entry entry;
	struct fs_root in; /* where it is unpacked */
	int fd;            /* the file that is being written; -1 */
	bool over;
	unsigned entries, files;
	uint64_t bytes;
	struct unpacked_dir *dirs;
	size_t ndirs, dirs_size, dirs_bytes;
};

/* ---- entries */

static int unpack_fail(struct unpacking *u, int err, const char *why)
{
	return fs_fail(u->w, err, "%.150s: %s", u->entry.path, why ? why : strerror(err));
}

static int note_dir(struct unpacking *u, const char *path, mode_t mode)
{
	u->dirs_bytes += strlen(path) + sizeof(*u->dirs);
	if (u->dirs_bytes > DIRS_MAX)
		return fs_fail(u->w, EFBIG, "the names of its directories are more than %d MiB", DIRS_MAX >> 20);
	if (u->ndirs == u->dirs_size) {
		size_t size = u->dirs_size ? 2 * u->dirs_size : 64;
		struct unpacked_dir *dirs = realloc(u->dirs, size * sizeof(*dirs));

		if (!dirs)
			return ENOMEM;
		u->dirs = dirs;
		u->dirs_size = size;
	}
	u->dirs[u->ndirs] =
	    (struct unpacked_dir){.path = strdup(*path ? path : "."), .number = u->ndirs, .mode = mode & 01777};
	return u->dirs[u->ndirs].path ? (u->ndirs++, 0) : ENOMEM;
}

/* The last of several of one name stands, as tar has it; a directory is not taken over. */
static int make_dir(struct unpacking *u, const struct fs_place *p)
{
	struct stat st;

	if (mkdirat(p->dir_fd, p->base, 0700) && errno != EEXIST)
		return errno;
	if (fstatat(p->dir_fd, p->base, &st, AT_SYMLINK_NOFOLLOW))
		return errno;
	return S_ISDIR(st.st_mode) ? note_dir(u, u->entry.path, u->entry.mode) : ENOTDIR;
}

static int make_file(struct unpacking *u, const struct fs_place *p)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

	u->fd = openat(p->dir_fd, p->base, flags, 0600);
	if (u->fd < 0 && errno == EEXIST && unlinkat(p->dir_fd, p->base, 0) == 0)
		u->fd = openat(p->dir_fd, p->base, flags, 0600);
	u->files++;
	return u->fd < 0 ? errno : 0;
}

static int make_symlink(struct unpacking *u, const struct fs_place *p)
{
	if (symlinkat(u->entry.target, p->dir_fd, p->base) == 0)
		return 0;
	if (errno != EEXIST || unlinkat(p->dir_fd, p->base, 0))
		return errno;
	return symlinkat(u->entry.target, p->dir_fd, p->base) ? errno : 0;
}

static bool fs_unpack_is_same(const struct fs_place *a, const struct fs_place *b)
{
	struct stat x, y;

	return fstatat(a->dir_fd, a->base, &x, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(b->dir_fd, b->base, &y, AT_SYMLINK_NOFOLLOW) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* To what came before in the archive; to itself, too, as GNU tar writes a file that it was given twice. */
static int make_hardlink(struct unpacking *u, const struct fs_place *p)
{
	struct fs_place from;
	int err = fs_root_place(&u->in, u->entry.target, &from);

	if (err)
		return err;
	if (linkat(from.dir_fd, from.base, p->dir_fd, p->base, 0)) {
		err = errno;
		if (err == EEXIST && fs_unpack_is_same(&from, p))
			err = 0;
		else if (err == EEXIST && unlinkat(p->dir_fd, p->base, 0) == 0)
			err = linkat(from.dir_fd, from.base, p->dir_fd, p->base, 0) ? errno : 0;
	}
	fs_root_leave(&from);
	return err;
}

/* A name that a walk does not reach could be neither told of nor brought to where it belongs. */
static bool is_too_deep(const char *path)
{
	size_t steps = 1;

	for (; *path; path++)
		steps += *path == '/';
	return steps >= FS_WALK_DEPTH;
}

static int unpack_entry(struct unpacking *u)
{
	const char *why;
	struct fs_place p;
	int err;

	u->entry = u->reader.entry;
	why = tar_check(&u->entry);
	if (why)
		return unpack_fail(u, EINVAL, why);
	if (++u->entries > ENTRIES_MAX)
		return fs_fail(u->w, EFBIG, "the archive has more than %d entries", ENTRIES_MAX);
	if (is_too_deep(u->entry.path))
		return fs_fail(u->w, EFBIG, "%.150s: a path in an archive has at most %d steps", u->entry.path,
			       FS_WALK_DEPTH - 1);
	if (!*u->entry.path) /* the top itself */
		return note_dir(u, ".", u->entry.mode);
	err = u->entry.type == TAR_FILE ? fs_allow_size(u->w, u->entry.path, (long long)u->entry.size) : 0;
	if (!err)
		err = fs_root_parents(&u->in, u->entry.path, 0777);
	if (!err)
		err = fs_root_place(&u->in, u->entry.path, &p);
	if (err)
		return unpack_fail(u, err, NULL);
	err = u->entry.type == TAR_DIRECTORY  ? make_dir(u, &p)
	      : u->entry.type == TAR_SYMLINK  ? make_symlink(u, &p)
	      : u->entry.type == TAR_HARDLINK ? make_hardlink(u, &p)
					      : make_file(u, &p);
	fs_root_leave(&p);
	return err ? unpack_fail(u, err, NULL) : 0;
}

static int unpack_data(struct unpacking *u)
{
	int err;

	u->bytes += u->reader.data_n;
	if (u->bytes > BYTES_MAX)
		return fs_fail(u->w, EFBIG, "the archive holds more than 64 GiB");
	err = newfile_write(u->fd, u->reader.data, u->reader.data_n);
	return err ? unpack_fail(u, err, NULL) : 0;
}

static int unpack_entry_end(struct unpacking *u)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = u->entry.mtime_s}};
	int err = 0;

	if (u->fd < 0)
		return 0;
	if (fchmod(u->fd, u->entry.mode & 0777))
		err = errno;
	(void)futimens(u->fd, times); /* a time that the file system has not is none of its content */
	if (close(u->fd) && !err)
		err = errno;
	u->fd = -1;
	return err ? unpack_fail(u, err, NULL) : 0;
}

/* A piece of the archive. */
static int unpack_take(void *arg, const uint8_t *p, size_t n)
{
	struct unpacking *u = arg;
	int err = 0;

	while (n && !err) {
		enum tar_event event;
		size_t used;

		if (tar_read(&u->reader, p, n, &used, &event))
			return fs_fail(u->w, EINVAL, "the archive, behind %u entries: %s", u->entries, u->reader.why);
		p += used;
		n -= used;
		if (event == TAR_ENTRY)
			err = unpack_entry(u);
		else if (event == TAR_DATA)
			err = unpack_data(u);
		else if (event == TAR_ENTRY_END)
			err = unpack_entry_end(u);
		else if (event == TAR_END)
			u->over = true;
	}
	return err;
}

static int by_path(const void *a, const void *b)
{
	const struct unpacked_dir *x = a, *y = b;
	int c = strcmp(x->path, y->path);

	return c ? c : (x->number > y->number) - (x->number < y->number);
}

/* Each behind what is in it, and of several entries for one the last. more: bits that each keeps, so that what is in
 * it can go where it belongs. */
static int set_modes(struct unpacking *u, mode_t more)
{
	int err = 0;

	if (u->ndirs)
		qsort(u->dirs, u->ndirs, sizeof(*u->dirs), by_path);
	for (size_t i = u->ndirs; i-- && !err;) {
		const struct unpacked_dir *d = &u->dirs[i];
		int fd = -1;

		if (i + 1 < u->ndirs && strcmp(d->path, d[1].path) == 0)
			continue;
		err = fs_root_openat(&u->in, d->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, &fd);
		if (!err && fchmod(fd, d->mode | more))
			err = errno;
		if (fd >= 0)
			close(fd);
	}
	return err;
}

static int unpack_all(struct unpacking *u)
{
	int err = newfile_receive_each(unpack_take, u);

	if (!err && !u->over)
		err = fs_fail(u->w, EINVAL, "the archive ends in the middle");
	return err;
}

/* ---- where it belongs */

/* Every name that is there then, for the record. */
static enum fs_walk_next told_visit(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	struct fs_state after = {0};
	struct fs_work *w = arg;

	if (S_ISDIR(st->st_mode))
		return FS_WALK_ON;
	if (fs_state_of(w, dir_fd, base, &after) == 0)
		fs_state_changed(w, path, NULL, &after);
	else
		w->changes_left_out++;
	return FS_WALK_ON;
}

/* Before its directories have their permissions: by those nothing of it is kept out of the record. */
static int tell_whole(struct unpacking *u)
{
	struct fs_walk walk = {.visit = told_visit, .arg = u->w, .depth = FS_WALK_DEPTH};
	int err = fs_walk_run(&walk, u->in.fd, u->w->name);

	u->w->changes_left_out += walk.unread;
	return err;
}

/* The tree is `temp` beside the name, and gets the name. */
static int place_whole(struct unpacking *u, const struct fs_place *to, const char *temp)
{
	bool replaced = false;

	if (renameat2(to->dir_fd, temp, to->dir_fd, to->base, RENAME_NOREPLACE)) {
		if (errno != EEXIST)
			return errno;
		if (!u->w->ask.overwrite)
			return fs_fail(u->w, EEXIST,
				       "something has that name; overwrite replaces it, merge adds to it");
		if (renameat2(to->dir_fd, temp, to->dir_fd, to->base, RENAME_EXCHANGE))
			return errno;
		replaced = true;
	}
	fs_out_flag(&u->w->out, "replaced", replaced);
	return 0;
}

/* Removes the old tree, which has the temporary name now. */
static void drop_old(struct unpacking *u, const struct fs_place *to, const char *temp)
{
	int fd = -1;

	if (unlinkat(to->dir_fd, temp, 0) == 0 || errno == ENOENT)
		return;
	(void)fs_root_chmod_dir(to->dir_fd, temp, 0700);
	fd = openat(to->dir_fd, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fs_tidy(u->w, fd, to->dir_fd, temp);
	if (fd >= 0)
		close(fd);
}

struct merging {
	struct fs_work *w;
	struct fs_root to; /* what is merged into */
	bool look;         /* whether it would do, and no more */
	int err;
};

/* A new one, of these permissions whatever the umask is. */
static int merge_dir(const struct fs_place *p, mode_t mode)
{
	int fd, err = mkdirat(p->dir_fd, p->base, 0700) ? errno : 0;

	if (err)
		return err;
	fd = openat(p->dir_fd, p->base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, mode))
		err = errno;
	if (fd >= 0)
		close(fd);
	return err;
}

static int merge_one(struct merging *m, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	bool dir = S_ISDIR(st->st_mode);
	struct fs_state before = {0}, after = {0};
	char name[2 * PATH_MAX];
	struct stat there;
	struct fs_place p;
	int err = fs_root_place(&m->to, path, &p);

	if (err)
		return m->look && err == ENOENT ? 0 : err; /* its directory is new, too */
	if (fstatat(p.dir_fd, p.base, &there, AT_SYMLINK_NOFOLLOW) == 0)
		err = dir == S_ISDIR(there.st_mode) ? 0 : dir ? ENOTDIR : EISDIR;
	else if (!m->look && dir)
		err = merge_dir(&p, st->st_mode & 01777);
	if (!err && !m->look && !dir) {
		err = fs_state_of(m->w, p.dir_fd, p.base, &before);
		if (!err && renameat(dir_fd, base, p.dir_fd, p.base))
			err = errno;
		if (!err)
			err = fs_state_of(m->w, p.dir_fd, p.base, &after);
		snprintf(name, sizeof(name), "%s%s%s", strcmp(m->w->name, ".") == 0 ? "" : m->w->name,
			 strcmp(m->w->name, ".") == 0 ? "" : "/", path);
		if (!err)
			fs_state_changed(m->w, name, &before, &after);
	}
	fs_root_leave(&p);
	return err;
}

static enum fs_walk_next merge_visit(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	struct merging *m = arg;
	int err = merge_one(m, dir_fd, base, path, st);

	if (err)
		(void)fs_fail(m->w, err, "%.150s: %s%s", path, strerror(err),
			      m->look ? "; nothing was changed" : "; what stands in changes was done");
	m->err = err;
	return err ? FS_WALK_STOP : FS_WALK_ON;
}

/* Twice: what cannot go there is found before anything goes. */
static int place_merged(struct unpacking *u, int target)
{
	struct merging m = {.w = u->w, .to = {.fd = target}};
	struct fs_walk walk = {.visit = merge_visit, .arg = &m, .depth = FS_WALK_DEPTH};
	int err = 0;

	for (int i = 0; i < 2 && !err; i++) {
		m.look = i == 0;
		err = fs_walk_run(&walk, u->in.fd, "");
		err = m.err ? m.err : err;
		if (!err && walk.unread)
			err = fs_fail(u->w, EACCES, "%u of its directories could not be read; %s", walk.unread,
				      m.look ? "nothing was changed" : "what stands in changes was done");
	}
	fs_out_flag(&u->w->out, "merged", !err);
	return err;
}

/* ---- the whole of it */

/* Into temp, which is in dir_fd; then to where it belongs. target: the directory that is merged into, or -1. */
static int unpack_into(struct unpacking *u, const struct fs_place *to, const char *temp, int target)
{
	int err =
	    fs_root_openat(&(struct fs_root){.fd = to->dir_fd}, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, &u->in.fd);

	if (err)
		return err;
	err = unpack_all(u);
	if (u->fd >= 0)
		close(u->fd);
	if (!err && target >= 0)
		err = set_modes(u, 0700);
	if (!err && target >= 0)
		err = place_merged(u, target);
	if (!err && target < 0)
		err = tell_whole(u);
	if (!err && target < 0)
		err = set_modes(u, 0);
	if (!err && target < 0)
		err = place_whole(u, to, temp);
	if (err && target < 0)
		fs_state_forget(u->w);
	return err;
}

static int unpack_at(struct unpacking *u, const struct fs_place *to)
{
	struct fs_work *w = u->w;
	int target = -1, err = fs_root_openat(&w->root, w->name, O_RDONLY | O_DIRECTORY, &target);
	unsigned long long number = 0;
	char temp[64];

	if (err == ENOTDIR && !w->ask.overwrite)
		return fs_fail(w, EEXIST, "something has that name, and it is no directory; overwrite replaces it");
	if (err && err != ENOENT && err != ENOTDIR)
		return err;
	if (target >= 0 && (to->is_root || !w->ask.overwrite) && !w->ask.merge) {
		close(target);
		return fs_fail(w, EEXIST,
			       to->is_root ? "the workspace itself is not replaced; merge adds to it"
					   : "something has that name; overwrite replaces it, merge adds to it");
	}
	if (target >= 0 && !w->ask.merge) {
		close(target);
		target = -1;
	}
	(void)!getrandom(&number, sizeof(number), 0);
	snprintf(temp, sizeof(temp), ".muxd-tree-%d-%016llx", (int)getpid(), number);
	err = newfile_hold_end();
	if (!err)
		err = mkdirat(to->dir_fd, temp, 0700) ? errno : unpack_into(u, to, temp, target);
	if (u->in.fd >= 0 && (err || target >= 0) && fchmod(u->in.fd, 0700) == 0)
		fs_tidy(w, u->in.fd, to->dir_fd, temp);
	else if (!err)
		drop_old(u, to, temp);
	if (u->in.fd >= 0)
		close(u->in.fd);
	if (target >= 0)
		close(target);
	return err;
}

int fs_unpack(struct fs_work *w)
{
	static struct unpacking u;
	struct fs_place to;
	int err = w->ask.merge && w->ask.overwrite ? fs_fail(w, EINVAL, "overwrite and merge exclude each other") : 0;

	u.w = w;
	u.fd = u.in.fd = -1;
	if (!err && w->ask.parents)
		err = fs_root_parents(&w->root, w->name, 0777);
	if (!err)
		err = fs_root_place(&w->root, w->name, &to);
	if (err)
		return err;
	err = unpack_at(&u, &to);
	fs_root_leave(&to);
	fs_out_path(&w->out, "path", w->name);
	fs_out_number(&w->out, "entries", u.entries);
	fs_out_number(&w->out, "files", u.files);
	fs_out_number(&w->out, "bytes", (long long)u.bytes);
	while (u.ndirs)
		free(u.dirs[--u.ndirs].path);
	free(u.dirs);
	return err;
}
