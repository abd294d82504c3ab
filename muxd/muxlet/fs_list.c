/* list, and glob: what is in a directory, page by page; all of it, or the names that match a pattern. */
#include "files/glob.h"
#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_state.h"
#include "muxd/muxlet/fs_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_DEFAULT 1000
#define LIMIT_MAX     10000
#define BYTES_MAX     (2 * 1024 * 1024) /* of entries in an answer */

struct listing {
	struct fs_work *w;
	long long left;
	char last[PATH_MAX];
	struct glob *glob; /* NULL: every name */
	size_t prefix;     /* bytes of a path that the pattern does not see */
	bool more;
	int err;
};

/* Where no name below a directory can match nobody looks. */
static enum fs_walk_next list_on(const struct listing *l, const char *path, bool is_dir)
{
	const char *rest = path + l->prefix;

	return l->glob && is_dir && glob_below(l->glob, rest, strlen(rest)) == MATCH_NO ? FS_WALK_PAST : FS_WALK_ON;
}

static enum fs_walk_next list_visit(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	struct listing *l = arg;
	struct fs_out *o = &l->w->out;
	size_t mark = o->n;
	bool is_dir = S_ISDIR(st->st_mode);
	enum match_result found = MATCH_YES;

	if (l->glob)
		found = glob_path(l->glob, path + l->prefix, strlen(path + l->prefix), is_dir);
	if (found == MATCH_NO)
		return list_on(l, path, is_dir);
	if (found != MATCH_YES) {
		l->err = ENOMEM;
		return FS_WALK_STOP;
	}
	if (l->left)
		fs_state_entry(o, NULL, path, st, dir_fd, base);
	if (!l->left || o->over || o->n > BYTES_MAX) {
		fs_out_back(o, mark);
		l->more = true;
		return FS_WALK_STOP;
	}
	l->left--;
	strcpy(l->last, path);
	return list_on(l, path, is_dir);
}

int fs_op_ignore(struct fs_work *w, struct fs_walk *walk)
{
	struct match_error e = {0};

	walk->gitignore = w->ask.gitignore;
	if (!walk->gitignore && !w->ask.ignore[0])
		return 0;
	walk->ignore = ignore_new();
	if (!walk->ignore)
		return ENOMEM;
	for (size_t i = 0; w->ask.ignore[i]; i++)
		if (ignore_add(walk->ignore, "", w->ask.ignore[i], strlen(w->ask.ignore[i]), &e))
			return fs_fail(w, EINVAL, "ignore rule %zu: %s", i + 1, e.why);
	return 0;
}

/* The cursor is the last path of the page before: below what is listed, it says where to go on. */
static int find_after(struct fs_work *w, const char *prefix, const char **out)
{
	size_t n = strlen(prefix);

	*out = w->ask.cursor;
	if (!*out || !n)
		return 0;
	if (strncmp(*out, prefix, n) != 0 || (*out)[n] != '/')
		return fs_fail(w, EINVAL, "the cursor is not one of this list");
	*out += n + 1;
	return 0;
}

/* The page. */
static int list_entries(struct fs_work *w, struct listing *l, struct fs_walk *walk, const char *prefix)
{
	int fd = -1, err = fs_root_openat(&w->root, w->name, O_RDONLY | O_DIRECTORY, &fd);

	if (err)
		return err;
	l->prefix = *prefix ? strlen(prefix) + 1 : 0;
	fs_out_path(&w->out, "path", w->name);
	fs_out_open(&w->out, "entries", '[');
	err = fs_walk_run(walk, fd, prefix);
	fs_out_close(&w->out, ']');
	if (l->more)
		fs_out_path(&w->out, "cursor", l->last);
	if (walk->unread)
		fs_out_number(&w->out, "unreadable", walk->unread);
	close(fd);
	return err ? err : l->err;
}

static int fs_list_run(struct fs_work *w, struct listing *l, int depth)
{
	const char *prefix = strcmp(w->name, ".") == 0 ? "" : w->name;
	struct fs_walk walk = {.visit = list_visit, .arg = l, .depth = depth < FS_WALK_DEPTH ? depth : FS_WALK_DEPTH};
	int err = find_after(w, prefix, &walk.after);

	l->w = w;
	l->left = w->ask.limit > 0 ? w->ask.limit : LIMIT_DEFAULT;
	if (!err && l->left > LIMIT_MAX)
		err = fs_fail(w, EINVAL, "limit is over %d", LIMIT_MAX);
	if (!err)
		err = fs_op_ignore(w, &walk);
	if (!err)
		err = list_entries(w, l, &walk, prefix);
	ignore_free(walk.ignore);
	return err;
}

int fs_list(struct fs_work *w)
{
	struct listing l = {0};

	return fs_list_run(w, &l, w->ask.depth > 0 ? (int)w->ask.depth : 1);
}

int fs_glob(struct fs_work *w)
{
	struct match_error e = {0};
	struct listing l = {.glob = glob_new(w->ask.pattern, strlen(w->ask.pattern), GLOB_BRACES, &e)};
	int err;

	if (!l.glob)
		return fs_fail(w, EINVAL, "the pattern, at byte %zu: %s", e.at + 1, e.why);
	err = fs_list_run(w, &l, FS_WALK_DEPTH);
	glob_free(l.glob);
	return err;
}
