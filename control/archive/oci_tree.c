#include "control/archive/oci_tree.h"

#include "base/err.h"
#include "base/utf8.h"
#include "control/archive/walk.h"

#include <stdlib.h>
#include <string.h>

#define WHITEOUT     ".wh."
#define WHITEOUT_LEN (sizeof(WHITEOUT) - 1)
#define OPAQUE       ".wh..wh..opq"

/* The caller says of which name. */
static int oci_tree_bad(struct err *e, const char *what)
{
	return err_set(e, ERR_IMAGE, "%s", what);
}

static int no_memory(struct err *e)
{
	return err_set(e, ERR_NOMEM, "no memory for the names of an image");
}

void oci_tree_begin(struct oci_tree *t, uint64_t max, void (*gone)(void *ctx, uint64_t content), void *ctx)
{
	*t = (struct oci_tree){.root = {.kind = OCI_DIR}, .max = max, .gone = gone, .ctx = ctx};
}

/* ---- names */

/* A path taken apart: its parts in one piece of memory. n 0: the root itself. */
struct parts {
	char text[OCI_PATH_MAX + 1];
	char *part[OCI_DEPTH_MAX];
	size_t n;
};

static const char *text_wrong(const char *path)
{
	size_t len = strlen(path), k;
	uint32_t cp;

	if (len > OCI_PATH_MAX)
		return "the name is too long";
	if (*path == '/')
		return "the name is absolute";
	if (!*path)
		return "there is no name";
	for (size_t i = 0; i < len; i += k) {
		k = utf8_step((const uint8_t *)path + i, len - i, &cp);
		if (k == 0)
			return "the name is no UTF-8";
		if (utf8_is_control(cp))
			return "the name has a control character";
	}
	return NULL;
}

static const char *part_wrong(const char *p)
{
	if (!*p)
		return "a part of the name is empty";
	if (strcmp(p, "..") == 0)
		return "the name leads out with \"..\"";
	if (strcmp(p, ".") == 0)
		return "a part of the name is \".\"";
	return strlen(p) > OCI_NAME_MAX ? "a part of the name is too long" : NULL;
}

static int take_apart(const char *path, struct parts *out, struct err *e)
{
	const char *why = text_wrong(path);
	char *at = out->text, *end;

	out->n = 0;
	if (why)
		return oci_tree_bad(e, why);
	if (strcmp(path, ".") == 0 || strcmp(path, "./") == 0)
		return 0;
	strcpy(out->text, strncmp(path, "./", 2) == 0 ? path + 2 : path);
	end = at + strlen(at);
	if (end > at && end[-1] == '/')
		end[-1] = '\0'; /* of a directory */
	for (char *next; at; at = next) {
		next = strchr(at, '/');
		if (next)
			*next++ = '\0';
		if ((why = part_wrong(at)))
			return oci_tree_bad(e, why);
		if (out->n == OCI_DEPTH_MAX)
			return oci_tree_bad(e, "the name has too many parts");
		out->part[out->n++] = at;
	}
	return 0;
}

/* ---- nodes */

static struct oci_node *child(const struct oci_node *in, const char *name)
{
	struct oci_node *found = NULL;

	HASH_FIND_STR(in->children, name, found);
	return found;
}

static void inode_let_go(struct oci_tree *t, struct oci_inode *i)
{
	if (!i || --i->names > 0)
		return;
	if (t->gone)
		t->gone(t->ctx, i->content);
	free(i);
}

/* No deeper than OCI_DEPTH_MAX. */
static void node_drop(struct oci_tree *t, struct oci_node *n)
{
	struct oci_node *c, *next;

	HASH_ITER(hh, n->children, c, next)
	node_drop(t, c);
	if (n->parent)
		HASH_DEL(n->parent->children, n);
	inode_let_go(t, n->inode);
	free(n->target);
	free(n->name);
	if (n != &t->root)
		free(n);
}

void oci_tree_finish(struct oci_tree *t)
{
	t->gone = NULL;
	node_drop(t, &t->root);
	*t = (struct oci_tree){0};
}

static struct oci_node *node_add(struct oci_tree *t, struct oci_node *in, const char *name, enum oci_kind kind,
				 unsigned layer)
{
	struct oci_node *n = calloc(1, sizeof(*n));

	if (!n || !(n->name = strdup(name))) {
		free(n);
		return NULL;
	}
	n->kind = kind;
	n->layer = layer;
	n->touched = t->layer;
	n->parent = in;
	HASH_ADD_KEYPTR(hh, in->children, n->name, strlen(n->name), n);
	return n;
}

/* The directory that a name lies in. make: it is made where it is missing; else *out is NULL then. */
static int parent_of(struct oci_tree *t, const struct parts *p, bool make, struct oci_node **out, struct err *e)
{
	struct oci_node *at = &t->root;

	for (size_t i = 0; at && i + 1 < p->n; i++) {
		struct oci_node *next = child(at, p->part[i]);

		if (next && next->kind != OCI_DIR)
			return oci_tree_bad(e, next->kind == OCI_LINK ? "the name leads through a symbolic link"
								      : "the name leads through a file");
		if (!next && make && !(next = node_add(t, at, p->part[i], OCI_DIR, 0)))
			return no_memory(e);
		at = next;
	}
	*out = at;
	return 0;
}

/* The node is of this layer, and so is something in each directory above it. */
static void touch(struct oci_tree *t, struct oci_node *n)
{
	for (; n; n = n->parent)
		n->touched = t->layer;
}

static int oci_tree_member(struct oci_tree *t, const char *path, struct parts *p, struct err *e)
{
	if (t->names++ >= t->max)
		return err_set(e, ERR_IMAGE, "the image has more than %llu names", (unsigned long long)t->max);
	return take_apart(path, p, e);
}

/* Room for a member: what a layer below had there is gone, unless both are directories (*out is that one then). */
static int make_room(struct oci_tree *t, const char *path, enum oci_kind kind, struct oci_node **out, struct err *e)
{
	struct oci_node *in, *was;
	struct parts p;
	int rc = oci_tree_member(t, path, &p, e);

	if (rc)
		return rc;
	if (p.n == 0 && kind != OCI_DIR)
		return oci_tree_bad(e, "the root is no directory");
	if (p.n == 0) {
		*out = &t->root;
		return 0;
	}
	if (strncmp(p.part[p.n - 1], WHITEOUT, WHITEOUT_LEN) == 0)
		return oci_tree_bad(e, "a name that begins with .wh. is a whiteout's, which is an empty file");
	rc = parent_of(t, &p, true, &in, e);
	if (rc)
		return rc;
	was = child(in, p.part[p.n - 1]);
	if (was && was->kind == OCI_DIR && kind == OCI_DIR) {
		was->layer = t->layer;
	} else {
		if (was && (was->layer == t->layer || was->touched == t->layer))
			return oci_tree_bad(e, "the name comes twice in one layer");
		if (was)
			node_drop(t, was);
		was = node_add(t, in, p.part[p.n - 1], kind, t->layer);
		if (!was)
			return no_memory(e);
	}
	touch(t, was);
	*out = was;
	return 0;
}

int oci_tree_dir(struct oci_tree *t, const char *path, int64_t mtime, struct err *e)
{
	struct oci_node *n;
	int rc = make_room(t, path, OCI_DIR, &n, e);

	if (rc == 0)
		n->mtime = mtime;
	return rc;
}

int oci_tree_file(struct oci_tree *t, const char *path, uint64_t content, struct err *e)
{
	struct oci_inode *i = calloc(1, sizeof(*i));
	struct oci_node *n;
	int rc = i ? make_room(t, path, OCI_FILE, &n, e) : no_memory(e);

	if (rc) {
		free(i);
		return rc;
	}
	i->content = content;
	i->names = 1;
	n->inode = i;
	return 0;
}

int oci_tree_link(struct oci_tree *t, const char *path, const char *target, struct err *e)
{
	struct oci_node *n;
	int rc;

	if (!*target || strlen(target) > OCI_PATH_MAX - 1)
		return oci_tree_bad(e, "a symbolic link has no target, or one that is too long");
	rc = make_room(t, path, OCI_LINK, &n, e);
	if (rc == 0 && !(n->target = strdup(target)))
		rc = no_memory(e);
	return rc;
}

struct oci_node *oci_tree_find(struct oci_tree *t, const char *path)
{
	struct oci_node *in;
	struct parts p;

	if (take_apart(path, &p, NULL) || parent_of(t, &p, false, &in, NULL) || !in)
		return NULL;
	return p.n ? child(in, p.part[p.n - 1]) : in;
}

int oci_tree_hard(struct oci_tree *t, const char *path, const char *target, struct err *e)
{
	struct oci_node *in, *from, *n;
	struct oci_inode *i;
	struct err why = {0};
	struct parts p;
	char shown[160];
	int rc = take_apart(target, &p, &why);

	rc = rc ? rc : parent_of(t, &p, false, &in, &why);
	walk_show(target, shown, sizeof(shown));
	if (rc)
		return err_set(e, rc, "a hard link to %s: %.100s", shown, why.message);
	from = in && p.n ? child(in, p.part[p.n - 1]) : NULL;
	if (!from || from->kind != OCI_FILE)
		return err_set(e, ERR_IMAGE, "a hard link to %s, which is no file that came before it", shown);
	i = from->inode;
	i->names++; /* held: the new name may take the place of the old one */
	rc = make_room(t, path, OCI_FILE, &n, e);
	if (rc) {
		inode_let_go(t, i);
		return rc;
	}
	n->inode = i;
	return 0;
}

/* ---- what a layer takes away */

/* Names of the layers below in that directory go; directories stay in which this layer has something. */
static void prune(struct oci_tree *t, struct oci_node *in)
{
	struct oci_node *c, *next;

	HASH_ITER(hh, in->children, c, next)
	{
		if (c->layer == t->layer && c->kind != OCI_DIR)
			continue;
		if (c->layer == t->layer || c->touched == t->layer)
			prune(t, c);
		else
			node_drop(t, c);
	}
}

static void whiteout_one(struct oci_tree *t, struct oci_node *in, const char *name)
{
	struct oci_node *n = child(in, name);

	if (!n || (n->kind != OCI_DIR && n->layer == t->layer))
		return;
	if (n->layer == t->layer || n->touched == t->layer)
		prune(t, n);
	else
		node_drop(t, n);
}

int oci_tree_whiteout(struct oci_tree *t, const char *path, bool *out_is, struct err *e)
{
	const char *base = strrchr(path, '/'), *name;
	struct oci_node *in = NULL;
	struct parts p;
	int rc;

	base = base ? base + 1 : path;
	*out_is = strncmp(base, WHITEOUT, WHITEOUT_LEN) == 0;
	if (!*out_is)
		return 0;
	name = base + WHITEOUT_LEN;
	rc = oci_tree_member(t, path, &p, e);
	if (rc)
		return rc;
	if (strcmp(base, OPAQUE) != 0 && (strncmp(name, WHITEOUT, WHITEOUT_LEN) == 0 || part_wrong(name)))
		return oci_tree_bad(e, "the whiteout takes away no name");
	rc = parent_of(t, &p, false, &in, e);
	if (rc || !in)
		return rc;
	if (strcmp(base, OPAQUE) == 0)
		prune(t, in);
	else
		whiteout_one(t, in, name);
	return 0;
}

void oci_tree_remove(struct oci_tree *t, const char *path)
{
	struct oci_node *n = oci_tree_find(t, path);

	if (n && n != &t->root)
		node_drop(t, n);
}
