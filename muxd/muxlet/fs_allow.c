/* The paths that the caller's grant allows, for the names that are really opened, and the largest file it may make. */
#include "files/paths.h"
#include "muxd/muxlet/fs_op.h"

#include <errno.h>

static int allow_list(struct fs_work *w, const char *const *list, const char *what, const char *name, bool tree)
{
	if (!list[0] || paths_allow(list, name, tree))
		return 0;
	return fs_fail(w, EDOM, "%.150s: your grant does not let you %s that", name, what);
}

int fs_allow(struct fs_work *w, const char *name, unsigned how)
{
	bool tree = how & FS_TREE || (how & FS_TREE_IF_RECURSIVE && w->ask.recursive);
	int err = how & FS_READS ? allow_list(w, w->ask.only_read, "read", name, tree) : 0;

	return !err && how & FS_WRITES ? allow_list(w, w->ask.only_write, "write", name, tree) : err;
}

int fs_allow_size(struct fs_work *w, const char *name, long long size)
{
	if (w->ask.size_max < 0 || size <= w->ask.size_max)
		return 0;
	return fs_fail(w, EMSGSIZE, "%.150s: %lld bytes are over the %lld that your grant lets a file have", name, size,
		       w->ask.size_max);
}
