#include "control/archive/oci_unpack.h"

#include "base/err.h"
#include "base/text.h"
#include "control/archive/oci_layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct unpacking {
	struct oci_source *from;
	struct oci_manifest manifest;
	struct oci_config config;
	struct oci_tree tree;
	struct oci_store store;
	int top;
	char digest[OCI_HEX];
};

/* ---- what is to be unpacked */

static int missing(struct unpacking *u, const struct oci_blob *at, struct err *e)
{
	char first[OCI_HEX];
	struct err why = *e;

	source_index_first(u->from, first);
	if (!*first || strcmp(first, at->hex) == 0)
		return e->code;
	return err_set(e, why.code, "%.150s; its index.json names sha256:%s", why.message, first);
}

/* From the digest of the configuration to a manifest. */
static int find_manifest(struct unpacking *u, const char *digest, struct err *e)
{
	struct oci_blob at = {.size = UINT64_MAX};
	size_t len = 0;
	char *text;

	memcpy(at.hex, digest, OCI_HEX);
	for (int depth = 0; depth < OCI_NESTED_MAX; depth++) {
		int rc = source_text(u->from, &at, &text, &len, e);

		if (rc)
			return depth ? rc : missing(u, &at, e);
		rc = oci_manifest_read(text, len, &u->manifest, e);
		free(text);
		if (rc)
			return rc;
		memcpy(u->digest, at.hex, OCI_HEX);
		if (!u->manifest.index)
			return 0;
		at = u->manifest.config;
	}
	return err_set(e, ERR_IMAGE, "the image is an index of indexes, deeper than %d", OCI_NESTED_MAX);
}

static int find_config(struct unpacking *u, struct err *e)
{
	size_t len = 0;
	char *text;
	int rc = source_text(u->from, &u->manifest.config, &text, &len, e);

	if (rc)
		return rc;
	rc = oci_config_read(text, len, &u->config, e);
	free(text);
	if (rc == 0 && u->config.nlayers != u->manifest.nlayers)
		rc = err_set(e, ERR_IMAGE, "the manifest has %zu layers, the configuration %zu", u->manifest.nlayers,
			     u->config.nlayers);
	for (size_t i = 0; rc == 0 && i < u->manifest.nlayers; i++)
		if (u->manifest.layers[i].size > u->store.budget.max)
			rc = err_set(e, ERR_IMAGE, "a layer has %llu bytes, more than sandbox.image_size",
				     (unsigned long long)u->manifest.layers[i].size);
	return rc;
}

/* ---- the layers, and what the sandbox needs in them */

static void unpack_on_gone(void *ctx, uint64_t content)
{
	struct unpacking *u = ctx;
	char name[24];

	oci_store_name(content, name);
	(void)unlinkat(u->store.dir, name, 0);
}

static int take_layers(struct unpacking *u, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < u->manifest.nlayers; i++) {
		u->tree.layer = (unsigned)i + 1;
		rc = oci_layer(u->from, &u->manifest.layers[i], u->config.layers[i], &u->tree, &u->store, e);
	}
	return rc;
}

static int need_dir(struct unpacking *u, const char *path, struct err *e)
{
	const struct oci_node *n = oci_tree_find(&u->tree, path);

	if (n && n->kind != OCI_DIR)
		return err_set(e, ERR_IMAGE, "/%s is no directory in the image", path);
	return n ? 0 : oci_tree_dir(&u->tree, path, 0, e);
}

/* Over each the sandbox mounts a file of its own. */
static int make_etc(struct unpacking *u, struct err *e)
{
	static const char *const files[] = {"etc/passwd", "etc/group",       "etc/hostname",
					    "etc/hosts",  "etc/resolv.conf", "etc/nsswitch.conf"};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		uint64_t number = 0;

		oci_tree_remove(&u->tree, files[i]);
		rc = oci_store_empty(&u->store, &number, e);
		rc = rc ? rc : oci_tree_file(&u->tree, files[i], number, e);
	}
	oci_tree_remove(&u->tree, "etc/mtab");
	return rc ? rc : oci_tree_link(&u->tree, "etc/mtab", "/proc/self/mounts", e);
}

static int make_places(struct unpacking *u, struct err *e)
{
	static const char *const not_ours[] = {"proc", "dev", "sys", "tmp", "run", "workspace", ".muxlet"};
	int rc;

	u->tree.layer++;
	u->tree.max += 32;
	for (size_t i = 0; i < sizeof(not_ours) / sizeof(not_ours[0]); i++)
		oci_tree_remove(&u->tree, not_ours[i]);
	if (!u->tree.root.children)
		return err_set(e, ERR_IMAGE, "the image is empty");
	rc = need_dir(u, "etc", e);
	rc = rc ? rc : make_etc(u, e);
	rc = rc ? rc : need_dir(u, "var", e);
	oci_tree_remove(&u->tree, "var/tmp");
	oci_tree_remove(&u->tree, "var/run");
	oci_tree_remove(&u->tree, "var/lock");
	rc = rc ? rc : oci_tree_dir(&u->tree, "var/tmp", 0, e);
	rc = rc ? rc : oci_tree_link(&u->tree, "var/run", "/run", e);
	return rc ? rc : oci_tree_link(&u->tree, "var/lock", "/run/lock", e);
}

/* ---- on the disk */

static int place_file(struct unpacking *u, int dir, const struct oci_node *n, struct err *e)
{
	char name[24];

	oci_store_name(n->inode->content, name);
	if (linkat(u->store.dir, name, dir, n->name, 0) != 0)
		return err_sys(e, errno, "cannot name a file");
	if (++n->inode->placed == n->inode->names && unlinkat(u->store.dir, name, 0) != 0)
		return err_sys(e, errno, "cannot take a file's number away");
	return 0;
}

static int place_in(struct unpacking *u, int dir, const struct oci_node *in, struct err *e);

static int place_dir(struct unpacking *u, int dir, const char *name, const struct oci_node *n, struct err *e)
{
	struct timespec times[2] = {{.tv_sec = n->mtime}, {.tv_sec = n->mtime}};
	int fd = -1, rc;

	if (mkdirat(dir, name, 0700) != 0 || (fd = openat(dir, name, DIR_FLAGS)) < 0)
		return err_sys(e, errno, "cannot make a directory");
	rc = place_in(u, fd, n, e);
	if (rc == 0 && (fchmod(fd, oci_mode(0, true)) != 0 || futimens(fd, times) != 0))
		rc = err_sys(e, errno, "cannot finish a directory");
	close(fd);
	return rc;
}

/* No deeper than OCI_DEPTH_MAX. */
static int place_in(struct unpacking *u, int dir, const struct oci_node *in, struct err *e)
{
	const struct oci_node *n;
	int rc = 0;

	for (n = in->children; rc == 0 && n; n = n->hh.next) {
		if (n->kind == OCI_DIR)
			rc = place_dir(u, dir, n->name, n, e);
		else if (n->kind == OCI_FILE)
			rc = place_file(u, dir, n, e);
		else if (symlinkat(n->target, dir, n->name) != 0)
			rc = err_sys(e, errno, "cannot make a link");
	}
	return rc;
}

static int write_beside(int dir, const char *name, const char *p, size_t n, struct err *e)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644), rc = 0;

	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		rc = err_sys(e, errno ? errno : EIO, "cannot write %s", name);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int write_notes(struct unpacking *u, struct err *e)
{
	char text[OCI_NOTES_MAX + 80];

	text_format(text, sizeof(text), "%s%s", u->config.notes[0] ? "not used of it: " : "", u->config.notes);
	if (u->store.set_ids)
		text_format(text + strlen(text), sizeof(text) - strlen(text), "%sset-id bits taken off: %llu",
			    text[0] ? "; " : "", (unsigned long long)u->store.set_ids);
	return write_beside(u->top, "notes", text, strlen(text), e);
}

static int unpack_all(struct unpacking *u, const char *digest, struct err *e)
{
	int rc = find_manifest(u, digest, e);

	rc = rc ? rc : find_config(u, e);
	if (rc)
		return rc;
	if (mkdirat(u->top, "content", 0700) != 0 || (u->store.dir = openat(u->top, "content", DIR_FLAGS)) < 0)
		return err_sys(e, errno, "cannot make a directory");
	rc = take_layers(u, e);
	rc = rc ? rc : make_places(u, e);
	rc = rc ? rc : place_dir(u, u->top, "root", &u->tree.root, e);
	rc = rc ? rc : write_beside(u->top, "env", u->config.env, u->config.env_len, e);
	rc = rc ? rc : write_notes(u, e);
	if (rc == 0 && unlinkat(u->top, "content", AT_REMOVEDIR) != 0)
		rc = err_sys(e, errno, "cannot take a directory away");
	return rc;
}

int oci_unpack(struct oci_source *from, const char *digest, uint64_t max, const char *dir, struct oci_result *out,
	       struct err *e)
{
	struct unpacking *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return err_set(e, ERR_NOMEM, "no memory for an image");
	u->from = from;
	u->store.dir = -1;
	u->store.budget = (struct oci_budget){max, max, max};
	u->top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	oci_tree_begin(&u->tree, OCI_NAMES_MAX, unpack_on_gone, u);
	rc = u->top < 0 ? err_sys(e, errno, "cannot open the new root") : unpack_all(u, digest, e);
	if (rc == 0) {
		*out =
		    (struct oci_result){.names = u->tree.names, .bytes = u->store.bytes, .set_ids = u->store.set_ids};
		memcpy(out->digest, u->digest, OCI_HEX);
	}
	oci_tree_finish(&u->tree);
	if (u->store.dir >= 0)
		close(u->store.dir);
	if (u->top >= 0)
		close(u->top);
	free(u);
	return rc;
}
