#include "muxd/muxlet/fs.h"

#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_state.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NEEDS_TO = 1, NEEDS_MODE = 2, NEEDS_PATTERN = 4, STREAMS = 8 };

static const struct op {
	const char *name;
	int (*run)(struct fs_work *w);
	unsigned needs; /* beside a path; STREAMS: its output is no JSON; how it touches the path */
	unsigned to;    /* and the other path that it names */
} ops[] = {
    {"stat", fs_stat, FS_READS, 0},
    {"list", fs_list, FS_READS | FS_TREE, 0},
    {"read", fs_read, FS_READS, 0},
    {"write", fs_write, FS_WRITES, 0},
    {"append", fs_append, FS_WRITES, 0},
    {"mkdir", fs_mkdir, FS_WRITES, 0},
    {"move", fs_move, NEEDS_TO | FS_READS | FS_WRITES, FS_WRITES},
    {"copy", fs_copy, NEEDS_TO | FS_READS | FS_TREE_IF_RECURSIVE, FS_WRITES | FS_TREE_IF_RECURSIVE},
    {"delete", fs_delete, FS_WRITES | FS_TREE_IF_RECURSIVE, 0},
    {"chmod", fs_chmod, NEEDS_MODE | FS_WRITES, 0},
    {"patch", fs_patch, 0, 0}, /* which asks for each name in it */
    {"search", fs_search, NEEDS_PATTERN | FS_READS | FS_TREE, 0},
    {"glob", fs_glob, NEEDS_PATTERN | FS_READS | FS_TREE, 0},
    {"watch", fs_watch, STREAMS | FS_READS | FS_TREE, 0},
    {"tree_get", fs_pack, STREAMS | FS_READS | FS_TREE, 0},
    {"tree_put", fs_unpack, FS_WRITES | FS_TREE, 0},
    {"changes", fs_changes, STREAMS | FS_READS | FS_TREE, 0},
    {"sync_list", fs_sync_list, STREAMS | FS_READS | FS_TREE, 0},
    {"sync_get", fs_sync_get, STREAMS | FS_READS | FS_TREE, 0},
    {"sync_put", fs_sync_put, STREAMS | FS_WRITES | FS_TREE, 0},
};

static int run_row(struct fs_work *w, const struct op *op)
{
	char to[PATH_MAX];
	int err;

	w->streams = op->needs & STREAMS; /* whatever comes of it */
	err = fs_root_name(&w->root, w->ask.path, w->name, sizeof(w->name));
	if (err)
		return err;
	if ((op->needs & NEEDS_TO && !w->ask.to) || (op->needs & NEEDS_MODE && w->ask.mode < 0) ||
	    (op->needs & NEEDS_PATTERN && !w->ask.pattern))
		return fs_fail(w, EINVAL, "%s lacks a field that it needs", op->name);
	err = fs_allow(w, w->name, op->needs);
	if (!err && op->to) {
		err = fs_root_name(&w->root, w->ask.to, to, sizeof(to));
		if (!err)
			err = fs_allow(w, to, op->to);
	}
	return err ? err : op->run(w);
}

static int run_op(struct fs_work *w)
{
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (strcmp(ops[i].name, w->ask.op) == 0)
			return run_row(w, &ops[i]);
	return fs_fail(w, EINVAL, "this muxlet does not know the operation \"%.40s\"", w->ask.op);
}

static const char *sentence(const struct fs_work *w, int err)
{
	if (w->why[0])
		return w->why;
	if (err == EXDEV)
		return "the path leads outside the workspace";
	if (err == EBADMSG)
		return "its content did not arrive whole";
	return strerror(err);
}

static void put_changes(struct fs_work *w)
{
	if (!w->changes.n && !w->changes_left_out)
		return;
	fs_out_open(&w->out, w->ask.dry_run ? "would_change" : "changes", '[');
	if (w->changes.n)
		fs_out_raw(&w->out, NULL, w->changes.p, w->changes.n);
	fs_out_close(&w->out, ']');
	if (w->changes_left_out)
		fs_out_number(&w->out, "changes_left_out", w->changes_left_out);
}

/* A failure tells its changes, too: some may have been done. */
static int answer(struct fs_work *w, int err)
{
	if (w->streams) {
		if (err)
			fprintf(stderr, "%s\n", sentence(w, err));
		return err > 0 && err < 256 ? err : err ? EIO : 0;
	}
	if (err)
		fs_out_text(&w->out, "error", sentence(w, err));
	put_changes(w);
	fs_out_close(&w->out, '}');
	if (w->out.over) {
		fprintf(stderr, "the answer is larger than %d bytes\n", FS_OUT_MAX);
		return err ? err : EFBIG;
	}
	if (newfile_write(STDOUT_FILENO, w->out.p, w->out.n) || newfile_write(STDOUT_FILENO, "\n", 1))
		return err ? err : EIO;
	return err > 0 && err < 256 ? err : err ? EIO : 0;
}

int fs_run(const char *request, int visit)
{
	static struct fs_work w = {.root = {.fd = -1}, .hash_left = FS_HASH_MAX};
	const char *why = NULL;
	int err = fs_ask_parse(request, strlen(request), &w.ask, &why);

	fs_out_open(&w.out, NULL, '{');
	if (err)
		(void)fs_fail(&w, err, "the request is none: %s", why);
	else
		err = fs_root_open(visit, &w.root);
	w.root.no_links = w.ask.no_links;
	if (!err)
		err = run_op(&w);
	err = answer(&w, err);
	if (w.root.fd >= 0)
		close(w.root.fd);
	fs_ask_finish(&w.ask);
	fs_out_finish(&w.out);
	fs_out_finish(&w.changes);
	return err;
}
