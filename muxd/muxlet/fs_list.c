/* list: what is in a directory, page by page. */
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
	bool more;
};

static enum fs_walk_next list_visit(void *arg, int dir_fd, const char *base, const char *path, const struct stat *st)
{
	struct listing *l = arg;
	struct fs_out *o = &l->w->out;
	size_t mark = o->n;

	if (l->left)
		fs_state_entry(o, NULL, path, st, dir_fd, base);
	if (!l->left || o->over || o->n > BYTES_MAX) {
		fs_out_back(o, mark);
		l->more = true;
		return FS_WALK_STOP;
	}
	l->left--;
	strcpy(l->last, path);
	return FS_WALK_ON;
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

int fs_list(struct fs_work *w)
{
	const char *prefix = strcmp(w->name, ".") == 0 ? "" : w->name;
	struct listing l = {.w = w, .left = w->ask.limit > 0 ? w->ask.limit : LIMIT_DEFAULT};
	struct fs_walk walk = {.visit = list_visit, .arg = &l, .depth = w->ask.depth > 0 ? (int)w->ask.depth : 1};
	int fd, err = find_after(w, prefix, &walk.after);

	if (walk.depth > FS_WALK_DEPTH)
		walk.depth = FS_WALK_DEPTH;
	if (!err && l.left > LIMIT_MAX)
		err = fs_fail(w, EINVAL, "limit is over %d", LIMIT_MAX);
	if (!err)
		err = fs_root_openat(&w->root, w->name, O_RDONLY | O_DIRECTORY, &fd);
	if (err)
		return err;
	fs_out_path(&w->out, "path", w->name);
	fs_out_open(&w->out, "entries", '[');
	err = fs_walk_run(&walk, fd, prefix);
	fs_out_close(&w->out, ']');
	if (l.more)
		fs_out_path(&w->out, "cursor", l.last);
	if (walk.unread)
		fs_out_number(&w->out, "unreadable", walk.unread);
	close(fd);
	return err;
}
