#include "control/local/rootfs.h"

#include "base/buf.h"
#include "base/conf.h"
#include "base/err.h"
#include "control/local/archive.h"
#include "control/local/dir.h"
#include "control/local/host.h"
#define LOG_SUBSYS "sandbox"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IMAGES      "images"
#define TREE        "tree"
#define NEW         "new"
#define UNPACK_NS   (15 * 60 * NS_PER_SEC)
#define NOBODY      65534
#define PREFIX_LEN  7 /* "sha256:" */
#define HEX_LEN     64
#define TREE_FLAGS  (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define IMAGE_FLAGS (O_RDONLY | O_NONBLOCK | O_CLOEXEC)

int rootfs_open_base(struct local *l, struct err *e)
{
	int top = open(l->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (top < 0)
		return err_sys(e, errno, "cannot open the state directory");
	if ((mkdirat(top, IMAGES, 0700) != 0 && errno != EEXIST) || (l->images = openat(top, IMAGES, TREE_FLAGS)) < 0)
		rc = err_sys(e, errno, "cannot open " IMAGES " in the state directory");
	close(top);
	return rc;
}

/* ---- unpacking */

/* A path of the configuration may lead to anything: never waited for, never a terminal. */
static int image_open(const struct local_image *image, int *out, struct err *e)
{
	struct stat st;
	int fd;

	*out = -1;
	if (!image->archive)
		return 0;
	fd = open(image->archive, IMAGE_FLAGS | O_NOCTTY);
	if (fd < 0)
		return err_set(e, ERR_IMAGE, "the archive %.200s cannot be opened: %s", image->archive,
			       strerror(errno));
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return err_set(e, ERR_IMAGE, "the archive %.200s is no file", image->archive);
	}
	*out = fd;
	return 0;
}

static int new_make(const struct local *l, int dir, struct err *e)
{
	int rc = dir_remove(dir, NEW, e);

	if (rc == 0 &&
	    (mkdirat(dir, NEW, 0700) != 0 || (l->root && fchownat(dir, NEW, NOBODY, NOBODY, AT_SYMLINK_NOFOLLOW) != 0)))
		rc = err_sys(e, errno, "cannot make a directory for an image");
	return rc;
}

/* One name, when all of it is on the disk. */
static int new_name(int dir, struct err *e)
{
	int fd = openat(dir, NEW, TREE_FLAGS), rc = 0;

	if (fd < 0 || syncfs(fd) != 0 || renameat(dir, NEW, dir, TREE) != 0 || fsync(dir) != 0)
		rc = err_sys(e, errno, "cannot name the root of an image");
	if (fd >= 0)
		close(fd);
	return rc;
}

static int unpack(struct local *l, int dir, const struct local_image *image, const char *hex, struct err *e)
{
	char path[PATH_MAX];
	struct archive_params p = {.bwrap = l->bwrap,
				   .program = l->archiver,
				   .tree = path,
				   .root = l->root,
				   .uid = NOBODY,
				   .timeout_ns = UNPACK_NS,
				   .digest = hex,
				   .layout = image->dir,
				   .max = image->max,
				   .given_up = image->given_up};
	struct archive_sum sum = {0};
	uint64_t began = clock_boot_ns();
	int rc;

	if ((size_t)snprintf(path, sizeof(path), "%s/" IMAGES "/%s/" NEW, l->state_dir, hex) >= sizeof(path))
		return err_set(e, ERR_CONFIG, "the path of the state directory is too long");
	rc = image_open(image, &p.file, e);
	if (rc)
		return rc;
	rc = dir_remove(dir, TREE, e); /* what a daemon from before left of one that it was removing */
	rc = rc ? rc : new_make(l, dir, e);
	rc = rc ? rc : archive_image(&p, &sum, e);
	rc = rc ? rc : new_name(dir, e);
	if (p.file >= 0)
		close(p.file);
	if (rc)
		(void)dir_remove(dir, NEW, NULL);
	else
		log_info(NULL, "the image %s (%.12s...) was unpacked in %llu ms: %llu names, %llu bytes", image->name,
			 hex, (unsigned long long)((clock_boot_ns() - began) / NS_PER_MS),
			 (unsigned long long)sum.entries, (unsigned long long)sum.bytes);
	return rc;
}

/* ---- what is there */

static int beside(int tree, const char *name, char *out, size_t size, size_t *out_len, struct err *e)
{
	struct buf b;
	int rc;

	buf_init(&b, size - 1);
	rc = dir_read_file(tree, name, &b, e);
	if (rc == 0) {
		*out_len = buf_len(&b);
		if (*out_len)
			memcpy(out, buf_ptr(&b), *out_len);
		out[*out_len] = '\0';
	}
	buf_finish(&b);
	return rc;
}

static int tree_open(const struct local *l, int dir, const char *hex, struct rootfs *r, struct err *e)
{
	int tree = openat(dir, TREE, TREE_FLAGS), rc;
	size_t n = 0;

	if (tree < 0)
		return errno == ENOENT ? ERR_NOT_FOUND : err_sys(e, errno, "cannot open the root of an image");
	snprintf(r->path, sizeof(r->path), "%s/" IMAGES "/%s/" TREE "/root", l->state_dir, hex);
	rc = beside(tree, "env", r->env, sizeof(r->env), &r->env_len, e);
	rc = rc ? rc : beside(tree, "notes", r->notes, sizeof(r->notes), &n, e);
	r->fd = rc ? -1 : openat(tree, "root", TREE_FLAGS);
	if (rc == 0 && r->fd < 0)
		rc = errno == ENOENT ? ERR_NOT_FOUND : err_sys(e, errno, "cannot open the root of an image");
	close(tree);
	return rc;
}

bool local_image_missing(const struct local *l, const struct local_image *image)
{
	char path[HEX_LEN + sizeof("/" TREE)];

	text_format(path, sizeof(path), "%s/" TREE, image->digest + PREFIX_LEN);
	return faccessat(l->images, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
}

int rootfs_get(struct local *l, const struct local_image *image, struct rootfs **out, struct err *e)
{
	const char *hex = image->digest + PREFIX_LEN;
	struct rootfs *r = calloc(1, sizeof(*r));
	struct err why = {0};
	int dir, rc;

	if (!r)
		return err_set(e, ERR_NOMEM, "no memory for an image");
	r->fd = -1;
	rc = dir_open_locked(l->images, hex, true, &dir, &why);
	if (rc == 0) {
		rc = tree_open(l, dir, hex, r, &why);
		if (rc == ERR_NOT_FOUND) {
			rc = unpack(l, dir, image, hex, &why);
			rc = rc ? rc : tree_open(l, dir, hex, r, &why);
		}
		dir_close(dir);
	}
	if (rc) {
		rootfs_put(r);
		return err_set(e, rc, "image %.128s: %.300s", image->name, why.message);
	}
	*out = r;
	return 0;
}

void rootfs_put(struct rootfs *r)
{
	if (r && r->fd >= 0)
		close(r->fd);
	free(r);
}

bool rootfs_runs(const struct rootfs *r, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, r->fd, path, &how, sizeof(how));
	struct stat st;
	bool runs = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111);

	if (fd >= 0)
		close(fd);
	return runs;
}

/* ---- which of them stay */

/* Of a sandbox that has it, running or not. One whose state cannot be read may run in it. */
static bool is_had(const struct local *l, const char *hex)
{
	char **names;
	size_t n;
	bool had = false;

	if (dir_names(l->base, &names, &n, NULL))
		return true;
	for (size_t i = 0; i < n && !had; i++) {
		struct state s;
		int dir, rc;

		if (dir_open(l->base, names[i], &dir, NULL) != 0)
			continue;
		rc = state_load(dir, &s, NULL);
		had = rc && rc != ERR_NOT_FOUND;
		if (rc == 0) {
			had = strlen(s.image_digest) > PREFIX_LEN && strcmp(s.image_digest + PREFIX_LEN, hex) == 0;
			state_finish(&s);
		}
		dir_close(dir);
	}
	dir_names_free(names);
	return had;
}

static bool is_named(const struct conf *c, const char *hex)
{
	for (size_t i = 0; i < c->nimages; i++)
		if (c->images[i].digest && strcmp(c->images[i].digest + PREFIX_LEN, hex) == 0)
			return true;
	return false;
}

/* The name goes first: a root that has one is whole, whenever the daemon dies. */
static int root_remove(int images, int dir, const char *hex, struct err *e)
{
	int rc = 0;

	if (renameat(dir, TREE, dir, NEW) != 0 && errno != ENOENT)
		rc = err_sys(e, errno, "cannot take the name of a root away");
	rc = rc ? rc : dir_remove(dir, NEW, e);
	return rc ? rc : dir_remove(images, hex, e);
}

int local_images_sweep(struct local *l, const struct conf *c, struct err *e)
{
	char **names;
	size_t n;
	int rc = dir_names(l->images, &names, &n, e);

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		struct err why = {0};
		int dir;

		if (strlen(names[i]) != HEX_LEN || dir_open_locked(l->images, names[i], false, &dir, NULL) != 0)
			continue;
		(void)dir_remove(dir, NEW, NULL);
		if (!is_named(c, names[i]) && !is_had(l, names[i])) {
			/* A root that stays takes room, and keeps no daemon from starting. */
			if (root_remove(l->images, dir, names[i], &why))
				log_warn(NULL, "the image %.12s... is named by nobody, and stays: %s", names[i],
					 why.message);
			else
				log_info(NULL, "the image %.12s... is named by nobody: its root is removed", names[i]);
		}
		dir_close(dir);
	}
	dir_names_free(names);
	return 0;
}
