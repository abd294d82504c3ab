#include "muxd/muxlet/survey.h"

#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_state.h"
#include "muxd/muxlet/fs_walk.h"
#include "muxd/muxlet/loop.h"
#include "muxd/muxlet/manifest.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS INT64_C(1000000000)

enum how { CREATED, CHANGED, DELETED, HOWS };

struct survey {
	struct fs_work w; /* root, answer, and the budget of digests */
	struct manifest old, now;
	const struct fs_walk *walk;
	bool baseline;  /* there is no old */
	bool old_there; /* old.entry is one */
	bool incomplete;
	int err;
	int64_t began_ns;
	dev_t device; /* of the workspace: other file systems in it are none of its own */
	uint64_t walk_until_ns;
	unsigned long long files, count[HOWS], listed, left_out, unhashed;
	unsigned unread; /* as it was at the last look into a directory */
};

static int64_t ns_of(const struct timespec *t)
{
	return t->tv_sec * NS + t->tv_nsec;
}

static struct manifest_entry entry_of(const struct stat *st)
{
	struct manifest_entry e = {.inode = st->st_ino,
				   .size = (uint64_t)st->st_size,
				   .mtime_ns = ns_of(&st->st_mtim),
				   .ctime_ns = ns_of(&st->st_ctim),
				   .mode = st->st_mode};
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	e.unsure = manifest_unsure(e.ctime_ns, ns_of(&now));
	return e;
}

static bool differs(const struct manifest_entry *a, const struct manifest_entry *b)
{
	if (a->inode != b->inode || a->mode != b->mode)
		return true;
	if (S_ISDIR(a->mode))
		return false;
	return a->unsure || a->size != b->size || a->mtime_ns != b->mtime_ns || a->ctime_ns != b->ctime_ns;
}

/* ---- what is told */

static void put_digest(struct survey *s, int dir_fd, const char *base)
{
	char hex[2 * SHA256_LEN + 1] = "";
	int fd = openat(dir_fd, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0) {
		if (fs_state_digest(&s->w, fd, hex))
			hex[0] = '\0';
		close(fd);
	}
	if (hex[0])
		fs_out_text(&s->w.out, "sha256", hex);
	else
		s->unhashed++;
}

static void put_target(struct survey *s, int dir_fd, const char *base)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir_fd, base, target, sizeof(target) - 1);

	if (n < 0)
		return;
	target[n] = '\0';
	fs_out_path(&s->w.out, "target", target);
}

/* dir_fd -1: it is gone. */
static void put_entry(struct survey *s, enum how how, const char *path, const struct manifest_entry *e, int dir_fd,
		      const char *base)
{
	static const char *const names[] = {"created", "changed", "deleted"};
	struct fs_out *o = &s->w.out;
	char mode[8];

	fs_out_open(o, NULL, '{');
	fs_out_text(o, "how", names[how]);
	fs_out_path(o, "path", path);
	fs_out_text(o, "type", fs_state_type(e->mode));
	if (dir_fd >= 0) {
		snprintf(mode, sizeof(mode), "%04o", (unsigned)(e->mode & NEWFILE_MODE_BITS));
		fs_out_text(o, "mode", mode);
	}
	if (dir_fd >= 0 && S_ISREG(e->mode)) {
		fs_out_number(o, "size", (long long)e->size);
		put_digest(s, dir_fd, base);
	} else if (dir_fd >= 0 && S_ISLNK(e->mode)) {
		put_target(s, dir_fd, base);
	}
	fs_out_close(o, '}');
}

static void survey_tell(struct survey *s, enum how how, const char *path, const struct manifest_entry *e, int dir_fd,
			const char *base)
{
	struct fs_out *o = &s->w.out;
	unsigned long long unhashed = s->unhashed;
	size_t mark = o->n;

	s->count[how]++;
	if (s->listed < SURVEY_NAMES && !s->left_out)
		put_entry(s, how, path, e, dir_fd, base);
	if (o->n > mark && !o->over && o->n <= SURVEY_BYTES) {
		s->listed++;
		return;
	}
	fs_out_back(o, mark);
	s->unhashed = unhashed;
	s->left_out++;
}

/* ---- the look before */

static void old_next(struct survey *s)
{
	int got = manifest_next(&s->old);

	s->old_there = got > 0;
	if (got < 0)
		s->err = EBADMSG;
}

static int keep(struct survey *s, const char *path, const struct manifest_entry *e)
{
	int err = manifest_add(&s->now, path, e);

	if (err == EFBIG)
		s->incomplete = true;
	else if (err)
		s->err = err;
	return err;
}

/* The old entry stands for nothing that was met. */
static void old_gone(struct survey *s)
{
	survey_tell(s, DELETED, s->old.path, &s->old.entry, -1, NULL);
	old_next(s);
}

static void old_kept(struct survey *s)
{
	if (keep(s, s->old.path, &s->old.entry) == 0)
		old_next(s);
	else
		s->old_there = false;
}

/* ---- the walk */

static bool born_since(int dir_fd, const char *base, int64_t began_ns)
{
	struct statx x;

	return statx(dir_fd, base, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &x) == 0 && x.stx_mask & STATX_BTIME &&
	       x.stx_btime.tv_sec * NS + x.stx_btime.tv_nsec >= began_ns;
}

/* Against nothing but the time at which programs could begin. */
static void tell_first(struct survey *s, const char *path, const struct manifest_entry *e, int dir_fd, const char *base)
{
	bool born;

	if (e->ctime_ns < s->began_ns)
		return;
	born = born_since(dir_fd, base, s->began_ns);
	if (born || !S_ISDIR(e->mode))
		survey_tell(s, born ? CREATED : CHANGED, path, e, dir_fd, base);
}

static enum fs_walk_next survey_visit(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	struct manifest_entry e = entry_of(st);
	struct survey *s = arg;
	bool known;

	if (monotonic_ns() > s->walk_until_ns)
		s->incomplete = true;
	if (s->err || s->incomplete)
		return FS_WALK_STOP;
	while (s->old_there && manifest_order(s->old.path, path) < 0)
		old_gone(s);
	known = s->old_there && strcmp(s->old.path, path) == 0;
	if (keep(s, path, &e))
		return FS_WALK_STOP;
	s->files++;
	if (s->baseline)
		tell_first(s, path, &e, dir_fd, base);
	else if (!known)
		survey_tell(s, CREATED, path, &e, dir_fd, base);
	else if (differs(&s->old.entry, &e))
		survey_tell(s, CHANGED, path, &e, dir_fd, base);
	if (known)
		old_next(s);
	return s->err ? FS_WALK_STOP : st->st_dev == s->device ? FS_WALK_ON : FS_WALK_PAST;
}

/* Behind a directory: what was in it and was not met is gone, unless nobody could look into it. */
static enum fs_walk_next survey_leave(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	struct survey *s = arg;
	const struct fs_walk *walk = s->walk;
	bool unread = walk->unread != s->unread;
	size_t n = strlen(path);

	(void)dir_fd, (void)base, (void)st;
	s->unread = walk->unread;
	while (s->old_there && !s->err && strncmp(s->old.path, path, n) == 0 && s->old.path[n] == '/') {
		if (unread)
			old_kept(s);
		else
			old_gone(s);
	}
	return s->err || s->incomplete ? FS_WALK_STOP : FS_WALK_ON;
}

static int survey_walk(struct survey *s)
{
	struct fs_walk walk = {.visit = survey_visit, .leave = survey_leave, .arg = s, .depth = FS_WALK_DEPTH};
	int err;

	s->walk = &walk;
	err = fs_walk_run(&walk, s->w.root.fd, "");
	s->unread = walk.unread;
	while (!err && !s->err && s->old_there) {
		if (s->incomplete)
			old_kept(s);
		else
			old_gone(s);
	}
	return err ? err : s->err;
}

/* ---- the whole of it */

/* Nobody waits for it: everything else goes first. What cannot be set is none of its business. */
static void step_back(void)
{
	(void)setpriority(PRIO_PROCESS, 0, 19);
	(void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

static int survey_begin(struct survey *s, uint64_t have)
{
	struct stat st = {0};
	bool found = false;
	int err = manifest_began(SURVEY_FD, &s->began_ns);

	if (!err)
		err = fs_root_open(0, &s->w.root);
	if (!err && strcmp(s->w.root.path, "/") == 0)
		err = EOPNOTSUPP; /* no workspace, but all that there is */
	if (!err)
		err = fstat(s->w.root.fd, &st) ? errno : 0;
	s->device = st.st_dev;
	if (!err)
		err = manifest_open(SURVEY_FD, have, &s->old, &found, &s->now);
	s->began_ns -= MANIFEST_LAG_NS;
	s->baseline = !found;
	s->w.hash_left = FS_HASH_MAX;
	s->w.hash_until_ns = monotonic_ns() + SURVEY_HASH_MS * MS_NS;
	s->walk_until_ns = monotonic_ns() + SURVEY_WALK_MS * MS_NS;
	if (!err && found)
		old_next(s);
	return err ? err : s->err;
}

static int survey_answer(struct survey *s, uint64_t look)
{
	struct fs_out *o = &s->w.out;
	char number[24];

	fs_out_close(o, ']');
	snprintf(number, sizeof(number), "%llu", (unsigned long long)look);
	fs_out_text(o, "look", number);
	fs_out_flag(o, "baseline", s->baseline);
	fs_out_flag(o, "incomplete", s->incomplete);
	fs_out_number(o, "files", (long long)s->files);
	fs_out_number(o, "created", (long long)s->count[CREATED]);
	fs_out_number(o, "changed", (long long)s->count[CHANGED]);
	fs_out_number(o, "deleted", (long long)s->count[DELETED]);
	fs_out_number(o, "left_out", (long long)s->left_out);
	fs_out_number(o, "unhashed", (long long)s->unhashed);
	fs_out_number(o, "unreadable", s->unread);
	fs_out_close(o, '}');
	if (o->over)
		return EFBIG;
	return newfile_write(STDOUT_FILENO, o->p, o->n) || newfile_write(STDOUT_FILENO, "\n", 1) ? EIO : 0;
}

int survey_run(uint64_t look, uint64_t have)
{
	static struct survey s = {.w.root.fd = -1};
	int err;

	(void)prctl(PR_SET_DUMPABLE, 0); /* the manifest is not for others of our user */
	step_back();
	fs_out_open(&s.w.out, NULL, '{');
	fs_out_open(&s.w.out, "entries", '[');
	err = survey_begin(&s, have);
	if (!err)
		err = survey_walk(&s);
	if (!err)
		err = manifest_close(&s.now, look);
	if (!err)
		err = survey_answer(&s, look);
	if (err)
		fprintf(stderr, "muxlet: the workspace was not looked at: %s\n", strerror(err));
	if (s.w.root.fd >= 0)
		close(s.w.root.fd);
	fs_out_finish(&s.w.out);
#ifdef __SANITIZE_ADDRESS__
	(void)prctl(PR_SET_DUMPABLE, 1); /* the leak checker looks at us as a debugger would */
#endif
	return err;
}
