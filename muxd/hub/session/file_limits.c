#include "muxd/hub/session/file_limits.h"

#include "base/err.h"
#include "base/text.h"
#include "files/paths.h"
#include "muxd/hub/session/file_op.h"

#include <inttypes.h>
#include <string.h>

#define WORKSPACE "/workspace"

enum touch { READS = 1, WRITES = 2, TREE = 4, TREE_IF_RECURSIVE = 8, BY_MUXLET = 16 };

/* Of its path, and of the other path that it names. */
static const struct {
	unsigned path, to;
} touches[FILE_OPS] = {
    [FILE_PUT] = {WRITES, 0},
    [FILE_GET] = {READS, 0},
    [FILE_STAT] = {READS, 0},
    [FILE_LIST] = {READS | TREE, 0},
    [FILE_READ] = {READS, 0},
    [FILE_WRITE] = {WRITES, 0},
    [FILE_APPEND] = {WRITES, 0},
    [FILE_MKDIR] = {WRITES, 0},
    [FILE_MOVE] = {READS | WRITES, WRITES},
    [FILE_COPY] = {READS | TREE_IF_RECURSIVE, WRITES | TREE_IF_RECURSIVE},
    [FILE_DELETE] = {WRITES | TREE_IF_RECURSIVE, 0},
    [FILE_CHMOD] = {WRITES, 0},
    [FILE_PATCH] = {READS | WRITES | BY_MUXLET, 0},
    [FILE_SEARCH] = {READS | TREE, 0},
    [FILE_GLOB] = {READS | TREE, 0},
    [FILE_WATCH] = {READS | TREE, 0},
    [FILE_TREE_GET] = {READS | TREE, 0},
    [FILE_TREE_PUT] = {WRITES | TREE, 0},
    [FILE_CHANGES] = {READS | TREE, 0},
};

/* The patterns as a list; text is cut into them. */
static void limits_split(const struct grant_paths *p, char *text, const char *out[GRANT_PATHS_MAX + 1])
{
	size_t n = 0;

	memcpy(text, p->text, sizeof(p->text));
	while (*text && n < GRANT_PATHS_MAX) {
		size_t len = strcspn(text, "\n");

		out[n++] = text;
		text += len;
		if (*text)
			*text++ = '\0';
	}
	out[n] = NULL;
}

/* As patterns are: below the workspace, without doubled slashes and "."; "": it is elsewhere. */
static void relative(const char *path, char *out, size_t size)
{
	size_t at = 0, n = strlen(WORKSPACE);

	out[0] = '\0';
	if (*path == '/') {
		if (strncmp(path, WORKSPACE, n) != 0 || (path[n] && path[n] != '/'))
			return;
		path += n;
	}
	while (*path) {
		size_t len = strcspn(path, "/");

		if (len && !(len == 1 && *path == '.')) {
			if (at + len + 2 > size) {
				out[0] = '\0';
				return;
			}
			if (at)
				out[at++] = '/';
			memcpy(out + at, path, len);
			at += len;
		}
		path += len;
		path += *path == '/';
	}
	out[at] = '\0';
	if (!at)
		text_put(out, size, ".");
}

bool file_path_relative(const char *path, char *out, size_t size)
{
	static const char *const any[] = {"**", NULL};

	relative(path, out, size);
	return *path && *out && paths_allow(any, out, false); /* which has no ".." */
}

unsigned file_touches(const struct file_spec *f, struct file_touch out[2])
{
	bool recursive = json_is_true(json_object_get(f->request, "recursive"));
	const char *names[2] = {f->path, f->to};
	const unsigned how[2] = {touches[f->op].path, touches[f->op].to};
	unsigned n = 0;

	for (unsigned i = 0; i < 2; i++) {
		if (!names[i] || !how[i])
			continue;
		out[n] = (struct file_touch){.reads = how[i] & READS,
					     .writes = how[i] & WRITES,
					     .tree = how[i] & TREE || (how[i] & TREE_IF_RECURSIVE && recursive),
					     .by_muxlet = how[i] & BY_MUXLET};
		relative(names[i], out[n].name, sizeof(out[n].name));
		n++;
	}
	return n;
}

static int file_limits_refuse(const char *what, const char *path, const struct grant_paths *p, struct err *e)
{
	char text[GRANT_PATHS_TEXT];

	text_put(text, sizeof(text), p->text);
	for (char *at = text; *at; at++)
		if (*at == '\n')
			*at = at[1] ? ' ' : '\0';
	return err_set(e, ERR_PATH_DENIED, "your grant does not let you %s %.100s; it names: %.150s", what, path,
		       text[0] ? text : "nothing");
}

static int check_one(const char *what, const struct grant_paths *p, const char *path, unsigned how, bool tree,
		     struct err *e)
{
	const char *patterns[GRANT_PATHS_MAX + 1];
	char text[GRANT_PATHS_TEXT], name[4096];

	if (!p->given)
		return 0;
	limits_split(p, text, patterns);
	if (how & BY_MUXLET) /* which knows the names; here whether there may be any */
		return patterns[0] ? 0 : file_limits_refuse(what, path, p, e);
	relative(path, name, sizeof(name));
	return *name && paths_allow(patterns, name, tree) ? 0 : file_limits_refuse(what, path, p, e);
}

static int file_limits_check_path(const struct grant_files *g, const struct file_spec *f, const char *path,
				  unsigned how, struct err *e)
{
	bool recursive = json_is_true(json_object_get(f->request, "recursive"));
	bool tree = how & TREE || (how & TREE_IF_RECURSIVE && recursive);
	int rc = how & READS ? check_one("read", &g->read, path, how, tree, e) : 0;

	return !rc && how & WRITES ? check_one("write", &g->write, path, how, tree, e) : rc;
}

int file_limits_check(const struct grant_files *g, const struct file_spec *f, struct err *e)
{
	int rc = f->path ? file_limits_check_path(g, f, f->path, touches[f->op].path, e) : 0;

	if (!rc && f->to)
		rc = file_limits_check_path(g, f, f->to, touches[f->op].to, e);
	if (!rc && g->size_max && file_op_row(f->op)->takes && f->op != FILE_TREE_PUT && f->op != FILE_CHANGES &&
	    f->size != UINT64_MAX && f->size > g->size_max)
		rc = err_set(e, ERR_TOO_LARGE,
			     "%" PRIu64 " bytes are over the %" PRIu64 " that your grant lets a file have", f->size,
			     g->size_max);
	return rc;
}

int file_limits_ask(const struct grant_files *g, json_t *request)
{
	if (!grant_files_limited(g))
		return 0;
	if (json_object_set_new(request, "no_links", json_true()) ||
	    (g->read.given && json_object_set_new(request, "only_read", grant_paths_json(&g->read))) ||
	    (g->write.given && json_object_set_new(request, "only_write", grant_paths_json(&g->write))) ||
	    (g->size_max && json_object_set_new(request, "size_max", json_integer((json_int_t)g->size_max))))
		return ERR_NOMEM;
	return 0;
}

int file_limits_anew(const struct grant_files *g, json_t *request)
{
	static const char *const keys[] = {"no_links", "only_read", "only_write", "size_max"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		(void)json_object_del(request, keys[i]);
	return file_limits_ask(g, request);
}
