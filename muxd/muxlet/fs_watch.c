/*
 * watch: what happens below a directory, line by line, until somebody ends it.
 *
 * One watch of inotify(7) for each directory. A directory that comes is watched, and what is in it already is told as
 * created: it may be told twice, and is not left out. What the kernel could not keep is told as `overflow`, and all is
 * watched anew and told; what has no watch for want of them is told as `unwatched`.
 */
#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_state.h"
#include "muxd/muxlet/fs_walk.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define WATCHES_MAX 8192
#define SEEN                                                                                                           \
	(IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |                \
	 IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

/* A watched directory. Numbers grow, so the list is in their order. */
struct watched {
	int wd;
	char *path; /* below the root; NULL: not watched any more */
};

struct watching {
	struct fs_work *w;
	int fd, top; /* top: the number of the directory that was asked for */
	struct watched *list;
	size_t n, size, living;
	bool tell; /* what a walk meets is told */
	int err;
};

/* ---- lines */

static int watch_say(struct watching *s, const char *event, const char *path, bool dir, uint32_t cookie)
{
	struct fs_out o = {0};
	int err;

	fs_out_open(&o, NULL, '{');
	fs_out_text(&o, "event", event);
	if (path)
		fs_out_path(&o, "path", path);
	if (dir)
		fs_out_flag(&o, "directory", true);
	if (cookie)
		fs_out_number(&o, "cookie", cookie);
	fs_out_close(&o, '}');
	err = o.over ? ENOMEM : newfile_write(STDOUT_FILENO, o.p, o.n);
	if (!err)
		err = newfile_write(STDOUT_FILENO, "\n", 1);
	fs_out_finish(&o);
	if (err && !s->err)
		s->err = err;
	return err;
}

/* ---- the list */

static struct watched *watch_find(struct watching *s, int wd)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (s->list[mid].wd < wd)
			low = mid + 1;
		else
			high = mid;
	}
	return low < s->n && s->list[low].wd == wd ? &s->list[low] : NULL;
}

/* Places of those that went. */
static void watch_compact(struct watching *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		if (s->list[i].path)
			s->list[n++] = s->list[i];
	s->n = n;
}

static int watch_room(struct watching *s)
{
	struct watched *list;
	size_t size;

	if (s->n == s->size)
		watch_compact(s);
	if (s->n < s->size)
		return 0;
	size = s->size ? 2 * s->size : 64;
	list = realloc(s->list, size * sizeof(*list));
	if (!list)
		return ENOMEM;
	s->list = list;
	s->size = size;
	return 0;
}

static void watch_drop(struct watching *s, struct watched *d)
{
	free(d->path);
	d->path = NULL;
	s->living--;
}

static bool is_below(const char *path, const char *top)
{
	size_t n = strlen(top);

	return strncmp(path, top, n) == 0 && (!path[n] || path[n] == '/');
}

/* A directory left, or got another name: those below have none that is right. */
static void watch_leave(struct watching *s, const char *top)
{
	for (size_t i = 0; i < s->n; i++) {
		if (!s->list[i].path || !is_below(s->list[i].path, top))
			continue;
		(void)inotify_rm_watch(s->fd, s->list[i].wd);
		watch_drop(s, &s->list[i]);
	}
}

/* By what is open, whatever its name is now. */
static int watch_open_dir(struct watching *s, int dir_fd, const char *path, int *out_wd)
{
	struct watched *known;
	char *copy, name[40];
	int wd;

	if (s->living == WATCHES_MAX || watch_room(s))
		return ENOSPC;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", dir_fd);
	wd = inotify_add_watch(s->fd, name, SEEN);
	if (wd < 0)
		return errno;
	copy = strdup(path);
	if (!copy)
		return ENOMEM;
	*out_wd = wd;
	known = watch_find(s, wd);
	if (known) {
		s->living += !known->path;
		free(known->path);
		known->path = copy;
		return 0;
	}
	s->list[s->n++] = (struct watched){wd, copy};
	s->living++;
	return 0;
}

/* ---- trees */

static enum fs_walk_next watch_visit(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	bool dir = S_ISDIR(st->st_mode);
	struct watching *s = arg;
	int fd, wd, err = 0;

	if (s->tell)
		(void)watch_say(s, "created", path, dir, 0);
	if (s->err)
		return FS_WALK_STOP;
	if (!dir)
		return FS_WALK_ON;
	fd = openat(dir_fd, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	err = fd < 0 ? errno : watch_open_dir(s, fd, path, &wd);
	if (fd >= 0)
		close(fd);
	if (err && err != ENOENT && err != ENOTDIR)
		(void)watch_say(s, "unwatched", path, true, 0);
	return s->err ? FS_WALK_STOP : err ? FS_WALK_PAST : FS_WALK_ON;
}

static int watch_tree(struct watching *s, int fd, const char *prefix)
{
	struct fs_walk walk = {.visit = watch_visit, .arg = s, .depth = FS_WALK_DEPTH};
	int err = fs_walk_run(&walk, fd, strcmp(prefix, ".") == 0 ? "" : prefix);

	if (walk.unread && !s->err) /* too deep, or closed meanwhile; which ones nobody knows */
		(void)watch_say(s, "unwatched", prefix, true, 0);
	return s->err ? s->err : err;
}

/* One that came: watched before it is looked at, so that nothing falls in between. */
static void watch_new(struct watching *s, const char *path)
{
	int fd = -1, wd, err = fs_root_openat(&s->w->root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, &fd);

	if (!err)
		err = watch_open_dir(s, fd, path, &wd);
	s->tell = true;
	if (!err)
		(void)watch_tree(s, fd, path);
	else if (err != ENOENT && err != ENOTDIR && err != ELOOP) /* it went, or is another thing now */
		(void)watch_say(s, "unwatched", path, true, 0);
	if (fd >= 0)
		close(fd);
}

/* ---- events */

static const struct {
	uint32_t bit;
	const char *name;
} watch_names[] = {
    {IN_CREATE, "created"}, {IN_MODIFY, "modified"},       {IN_CLOSE_WRITE, "written"}, {IN_ATTRIB, "attributes"},
    {IN_DELETE, "deleted"}, {IN_MOVED_FROM, "moved_from"}, {IN_MOVED_TO, "moved_to"},
};

static const char *watch_name(uint32_t mask)
{
	for (size_t i = 0; i < sizeof(watch_names) / sizeof(watch_names[0]); i++)
		if (mask & watch_names[i].bit)
			return watch_names[i].name;
	return NULL;
}

static void watch_gone(struct watching *s)
{
	s->err = watch_say(s, "gone", s->w->name, true, 0);
	s->err = s->err ? s->err : ECANCELED;
}

/* Nobody knows what came, went and was renamed: no watch but the top's is right, and that one if it has its name. */
static void watch_anew(struct watching *s)
{
	int fd = -1, wd = -1, err;

	for (size_t i = 0; i < s->n; i++) {
		if (!s->list[i].path || s->list[i].wd == s->top)
			continue;
		(void)inotify_rm_watch(s->fd, s->list[i].wd);
		watch_drop(s, &s->list[i]);
	}
	err = fs_root_openat(&s->w->root, s->w->name, O_RDONLY | O_DIRECTORY, &fd);
	if (!err)
		err = watch_open_dir(s, fd, s->w->name, &wd);
	s->tell = true;
	if (err == ENOENT || err == ENOTDIR || (!err && wd != s->top))
		watch_gone(s);
	else if (err)
		s->err = err;
	else if (s->w->ask.recursive)
		(void)watch_tree(s, fd, s->w->name);
	if (fd >= 0)
		close(fd);
}

static void watch_one(struct watching *s, const struct inotify_event *e)
{
	struct watched *d = watch_find(s, e->wd);
	const char *name = watch_name(e->mask);
	bool dir = e->mask & IN_ISDIR;
	char path[PATH_MAX];

	if (e->mask & IN_Q_OVERFLOW) {
		if (watch_say(s, "overflow", NULL, false, 0) == 0)
			watch_anew(s);
		return;
	}
	if (!d || !d->path)
		return;
	if (e->wd == s->top && e->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)) {
		watch_gone(s);
		return;
	}
	if (e->mask & (IN_IGNORED | IN_DELETE_SELF)) {
		watch_drop(s, d);
		return;
	}
	if (!name || !e->len ||
	    snprintf(path, sizeof(path), "%s%s%s", strcmp(d->path, ".") == 0 ? "" : d->path,
		     strcmp(d->path, ".") == 0 ? "" : "/", e->name) >= (int)sizeof(path))
		return;
	if (e->mask & IN_MOVED_FROM && dir)
		watch_leave(s, path);
	(void)watch_say(s, name, path, dir, e->cookie);
	/* Behind an exchange the other one has the name that was left; its coming was told ahead of that. */
	if (e->mask & (IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM) && dir && s->w->ask.recursive)
		watch_new(s, path);
}

static int watch_loop(struct watching *s)
{
	static _Alignas(struct inotify_event) char buf[64 * 1024];

	while (!s->err) {
		ssize_t n = read(s->fd, buf, sizeof(buf));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : EIO;
		for (const char *p = buf; p < buf + n && !s->err;) {
			const struct inotify_event *e = (const void *)p;

			watch_one(s, e);
			p += sizeof(*e) + e->len;
		}
	}
	return s->err == ECANCELED ? 0 : s->err; /* it is over: what was watched is gone, and that was said */
}

int fs_watch(struct fs_work *w)
{
	struct watching s = {.w = w, .fd = inotify_init1(IN_CLOEXEC)};
	int fd = -1, err = s.fd < 0 ? errno : fs_root_openat(&w->root, w->name, O_RDONLY | O_DIRECTORY, &fd);

	if (!err)
		err = watch_open_dir(&s, fd, w->name, &s.top);
	if (!err && w->ask.recursive)
		err = watch_tree(&s, fd, w->name);
	if (fd >= 0)
		close(fd);
	if (!err)
		err = watch_say(&s, "ready", w->name, true, 0);
	if (!err)
		err = watch_loop(&s);
	for (size_t i = 0; i < s.n; i++)
		free(s.list[i].path);
	free(s.list);
	if (s.fd >= 0)
		close(s.fd);
	return err == ENOSPC || err == EMFILE ? fs_fail(w, EFBIG, "the sandbox's user has no watches left") : err;
}
