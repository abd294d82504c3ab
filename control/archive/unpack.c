#include "control/archive/unpack.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* A directory that is open. */
struct spot {
	int dir; /* of `at` */
	struct place *at;
};

struct unpack {
	struct spot to, from; /* where members are made; where the last one with a further name lies */
	/* The file under way: */
	int file;
	mode_t mode;
	struct timespec mtime;
};

static int up(struct spot *u, struct err *e)
{
	int fd = openat(u->dir, "..", DIR_FLAGS);

	if (fd < 0)
		return err_sys(e, errno, "cannot go up");
	close(u->dir);
	u->dir = fd;
	u->at = u->at->parent;
	return 0;
}

static int down(struct spot *u, struct place *to, struct err *e)
{
	int fd = openat(u->dir, to->name, DIR_FLAGS);

	if (fd < 0)
		return err_sys(e, errno, "cannot enter its directory");
	close(u->dir);
	u->dir = fd;
	u->at = to;
	return 0;
}

/* Up to the place above both, then down. */
static int go(struct spot *u, struct place *to, struct err *e)
{
	struct place *from = u->at, *t = to, **way = NULL;
	size_t n = 0;
	int rc = 0;

	while (from != t) {
		if (from->depth >= t->depth)
			from = from->parent;
		else
			t = t->parent;
	}
	while (rc == 0 && u->at != t)
		rc = up(u, e);
	if (rc || t == to)
		return rc;
	way = reallocarray(NULL, to->depth - t->depth, sizeof(struct place *));
	if (!way)
		return err_set(e, ERR_NOMEM, "no memory for a way");
	for (struct place *p = to; p != t; p = p->parent)
		way[n++] = p;
	while (rc == 0 && n > 0)
		rc = down(u, way[--n], e);
	free(way);
	return rc;
}

static int attrs_set(int fd, const struct item *i, struct err *e)
{
	for (size_t k = 0; k < i->nattrs; k++)
		if (fsetxattr(fd, i->attrs[k].name, i->attrs[k].value, i->attrs[k].size, 0) != 0)
			return err_sys(e, errno, "cannot set an attribute");
	return 0;
}

static int make_dir(struct unpack *u, const struct item *i, const char *base, struct err *e)
{
	int fd, rc;

	if (mkdirat(u->to.dir, base, 0700) != 0)
		return err_sys(e, errno, "cannot make a directory");
	if (i->nattrs == 0)
		return 0;
	fd = openat(u->to.dir, base, DIR_FLAGS);
	if (fd < 0)
		return err_sys(e, errno, "cannot open a directory");
	rc = attrs_set(fd, i, e);
	close(fd);
	return rc;
}

static int make_file(struct unpack *u, const struct item *i, const char *base, struct err *e)
{
	u->file = openat(u->to.dir, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (u->file < 0)
		return err_sys(e, errno, "cannot make a file");
	u->mode = i->mode;
	u->mtime = i->mtime;
	return attrs_set(u->file, i, e);
}

static int make_other(struct unpack *u, const struct item *i, const char *base, struct err *e)
{
	struct timespec times[2] = {i->mtime, i->mtime};

	if (i->type == ITEM_LINK && symlinkat(i->target, u->to.dir, base) != 0)
		return err_sys(e, errno, "cannot make a link");
	if (i->type == ITEM_FIFO &&
	    (mkfifoat(u->to.dir, base, 0600) != 0 || fchmodat(u->to.dir, base, i->mode, 0) != 0))
		return err_sys(e, errno, "cannot make a FIFO");
	if (utimensat(u->to.dir, base, times, AT_SYMLINK_NOFOLLOW) != 0)
		return err_sys(e, errno, "cannot set a time");
	return 0;
}

static int make_hard(struct unpack *u, struct place *place, const char *base, struct place *from, const char *from_base,
		     struct err *e)
{
	int rc = go(&u->from, from, e);

	rc = rc ? rc : go(&u->to, place, e);
	if (rc == 0 && linkat(u->from.dir, from_base, u->to.dir, base, 0) != 0)
		rc = err_sys(e, errno, "cannot make another name of a file");
	return rc;
}

static int unpack_on_item(void *ctx, const struct item *i, struct place *place, const char *base, struct place *dir,
			  struct place *from, const char *from_base, struct err *e)
{
	struct unpack *u = ctx;
	int rc;

	if (!place) { /* the workspace itself, which is there */
		u->to.at = u->from.at = dir;
		return attrs_set(u->to.dir, i, e);
	}
	if (i->type == ITEM_HARD)
		return make_hard(u, place, base, from, from_base, e);
	rc = go(&u->to, place, e);
	if (rc)
		return rc;
	switch (i->type) {
	case ITEM_DIR:
		return make_dir(u, i, base, e);
	case ITEM_FILE:
		return make_file(u, i, base, e);
	default:
		return make_other(u, i, base, e);
	}
}

static int unpack_on_data(void *ctx, uint64_t offset, const void *p, size_t n, bool end, struct err *e)
{
	struct unpack *u = ctx;
	struct timespec times[2] = {u->mtime, u->mtime};
	int rc = 0;

	for (const char *at = p; n > 0;) {
		ssize_t w = pwrite(u->file, at, n, (off_t)offset);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return err_sys(e, w < 0 ? errno : EIO, "cannot write a file");
		at += w;
		offset += (uint64_t)w;
		n -= (size_t)w;
	}
	if (!end)
		return 0;
	if (ftruncate(u->file, (off_t)offset) != 0 || futimens(u->file, times) != 0 || fchmod(u->file, u->mode) != 0)
		rc = err_sys(e, errno, "cannot finish a file");
	close(u->file);
	u->file = -1;
	return rc;
}

/* The members of a directory come after it: backwards, each is closed after all that is in it. */
static int unpack_on_over(void *ctx, const struct names *names, struct err *e)
{
	struct unpack *u = ctx;

	for (size_t k = names->n; k-- > 0;) {
		const struct place *p = names->all[k];
		struct timespec times[2] = {p->mtime, p->mtime};
		int rc = go(&u->to, p->parent ? p->parent : names->all[0], e);

		if (rc)
			return rc;
		if (p->parent ? fchmodat(u->to.dir, p->name, p->mode, 0) != 0 ||
				    utimensat(u->to.dir, p->name, times, AT_SYMLINK_NOFOLLOW) != 0
			      : fchmod(u->to.dir, p->mode) != 0 || futimens(u->to.dir, times) != 0)
			return err_sys(e, errno, "cannot finish the directory %.60s", p->name);
	}
	return 0;
}

int unpack_archive(int fd, const char *top, bool old, struct read_result *out, struct err *e)
{
	struct unpack u = {.to.dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			   .from.dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			   .file = -1};
	struct read_sink sink = {
	    .item = unpack_on_item, .data = unpack_on_data, .over = unpack_on_over, .ctx = &u, .old = old};
	int rc;

	if (u.to.dir < 0 || u.from.dir < 0) {
		rc = err_sys(e, errno, "cannot open the new workspace");
		goto out;
	}
	rc = read_archive(fd, &sink, out, e);
	if (u.file >= 0)
		close(u.file);
out:
	if (u.to.dir >= 0)
		close(u.to.dir);
	if (u.from.dir >= 0)
		close(u.from.dir);
	return rc;
}
