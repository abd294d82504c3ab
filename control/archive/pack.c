#include "control/archive/pack.h"

#include "base/err.h"
#include "control/archive/walk.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CHUNK     (256 << 10)
#define HOLE      (UINT64_C(1) << 30) /* that much of a hole is passed at once; nobody reads it */
#define ATTRS_MAX 65536               /* the kernel's bound on a list of names, and on a value */

/* A file of more than one name, under the first that was met. */
struct first {
	dev_t dev;
	ino_t ino;
	char *name;
};

struct pack {
	struct walk *walk;
	struct walk_entry at;
	struct archive *to;
	struct archive_entry *entry;
	struct sum sum;
	struct pack_result r;
	void *firsts; /* tsearch(3) */
	void *hole;
	char chunk[CHUNK];
	/* Of the entry under way: */
	int fd; /* -1: not opened */
	char *target;
	struct item_attr *attrs;
	size_t nattrs;
};

/* ---- files of several names */

static int first_compare(const void *a, const void *b)
{
	const struct first *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static void first_free(void *p)
{
	free(((struct first *)p)->name);
	free(p);
}

static const char *first_find(const struct pack *p, const struct stat *st)
{
	struct first key = {.dev = st->st_dev, .ino = st->st_ino};
	void *found = st->st_nlink > 1 ? tfind(&key, &p->firsts, first_compare) : NULL;

	return found ? (*(struct first **)found)->name : NULL;
}

static int first_add(struct pack *p, const struct stat *st, struct err *e)
{
	struct first *f = st->st_nlink > 1 ? calloc(1, sizeof(*f)) : NULL;

	if (st->st_nlink <= 1)
		return 0;
	if (f) {
		*f = (struct first){.dev = st->st_dev, .ino = st->st_ino, .name = strdup(p->at.name)};
		if (f->name && tsearch(f, &p->firsts, first_compare))
			return 0;
		first_free(f);
	}
	return err_set(e, ERR_NOMEM, "no memory for the files of several names");
}

/* ---- attributes */

static void attrs_free(struct pack *p)
{
	for (size_t i = 0; i < p->nattrs; i++) {
		free((char *)p->attrs[i].name);
		free((void *)p->attrs[i].value);
	}
	free(p->attrs);
	p->attrs = NULL;
	p->nattrs = 0;
}

static int attr_compare(const void *a, const void *b)
{
	return strcmp(((const struct item_attr *)a)->name, ((const struct item_attr *)b)->name);
}

static int attr_add(struct pack *p, const char *name, struct err *e)
{
	struct item_attr *more;
	ssize_t n = fgetxattr(p->fd, name, p->chunk, ATTRS_MAX);

	if (n < 0)
		return errno == ENODATA ? 0 : err_sys(e, errno, "cannot read an attribute");
	more = reallocarray(p->attrs, p->nattrs + 1, sizeof(*more));
	if (!more)
		return err_set(e, ERR_NOMEM, "no memory for attributes");
	p->attrs = more;
	more += p->nattrs;
	*more = (struct item_attr){.name = strdup(name), .value = malloc((size_t)n + 1), .size = (size_t)n};
	p->nattrs++;
	if (!more->name || !more->value)
		return err_set(e, ERR_NOMEM, "no memory for attributes");
	memcpy((void *)more->value, p->chunk, (size_t)n);
	return 0;
}

static int attrs_read(struct pack *p, struct err *e)
{
	char *list = p->chunk + ATTRS_MAX, *end;
	ssize_t n = flistxattr(p->fd, list, ATTRS_MAX);
	int rc = 0;

	if (n < 0)
		return errno == ENOTSUP ? 0 : err_sys(e, errno, "cannot list attributes");
	end = list + n;
	for (char *name = list; rc == 0 && name < end; name += strlen(name) + 1)
		if (strncmp(name, "user.", 5) == 0)
			rc = attr_add(p, name, e);
	if (p->nattrs > 1)
		qsort(p->attrs, p->nattrs, sizeof(*p->attrs), attr_compare);
	return rc;
}

/* ---- one entry */

static int to_failed(struct pack *p, struct err *e)
{
	int code = archive_errno(p->to);

	if (code == ENOSPC || code == EDQUOT)
		return err_set(e, ERR_DISK_FULL, "the disk is full");
	return err_set(e, ERR_SNAPSHOT, "%.200s",
		       archive_error_string(p->to) ? archive_error_string(p->to) : "it cannot be written");
}

/* Where the data of a file is; a file that is all hole has one place of none. */
static void holes_find(struct pack *p, uint64_t size)
{
	off_t at = 0, end = (off_t)size;

	if ((uint64_t)p->at.st.st_blocks * 512 >= size)
		return;
	while (at < end) {
		off_t data = lseek(p->fd, at, SEEK_DATA), hole;

		if (data < 0 || data >= end)
			break;
		hole = lseek(p->fd, data, SEEK_HOLE);
		if (hole < 0 || hole > end)
			hole = end;
		archive_entry_sparse_add_entry(p->entry, data, hole - data);
		at = hole;
	}
	if (archive_entry_sparse_count(p->entry) == 0 && at == 0)
		archive_entry_sparse_add_entry(p->entry, end, 0);
}

static int pack_put(struct pack *p, const void *data, size_t n, struct err *e)
{
	for (const char *at = data; n > 0;) {
		la_ssize_t w = archive_write_data(p->to, at, n);

		if (w <= 0)
			return to_failed(p, e);
		at += w;
		n -= (size_t)w;
	}
	return 0;
}

/* In the stream a hole is passed over: libarchive counts it and looks at no byte of it. */
static int put_hole(struct pack *p, uint64_t n, struct err *e)
{
	int rc = 0;

	for (; rc == 0 && n > 0;) {
		size_t some = n < HOLE ? (size_t)n : HOLE;

		rc = pack_put(p, p->hole, some, e);
		n -= some;
	}
	return rc;
}

/* A file that became shorter has zeros where it ended. */
static int pack_put_data(struct pack *p, uint64_t at, uint64_t end, struct err *e)
{
	bool ended = false;
	int rc = 0;

	while (rc == 0 && at < end) {
		size_t want = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
		ssize_t n = ended ? 0 : pread(p->fd, p->chunk, want, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "cannot read");
		if (n == 0) {
			ended = true;
			n = (ssize_t)want;
			memset(p->chunk, 0, want);
		}
		sum_data(&p->sum, at, p->chunk, (size_t)n);
		rc = pack_put(p, p->chunk, (size_t)n, e);
		at += (uint64_t)n;
	}
	return rc;
}

static int put_content(struct pack *p, uint64_t size, struct err *e)
{
	uint64_t at = 0;
	la_int64_t off, len;
	int rc = 0;

	if (archive_entry_sparse_reset(p->entry) == 0)
		return pack_put_data(p, 0, size, e);
	while (rc == 0 && archive_entry_sparse_next(p->entry, &off, &len) == ARCHIVE_OK) {
		rc = put_hole(p, (uint64_t)off - at, e);
		rc = rc ? rc : pack_put_data(p, (uint64_t)off, (uint64_t)(off + len), e);
		at = (uint64_t)(off + len);
	}
	return rc ? rc : put_hole(p, size - at, e);
}

static int put_header(struct pack *p, const struct item *i, struct err *e)
{
	struct archive_entry *en = p->entry;

	archive_entry_copy_pathname(en, i->name);
	archive_entry_set_mtime(en, i->mtime.tv_sec, i->mtime.tv_nsec);
	archive_entry_set_perm(en, i->mode);
	if (i->type == ITEM_HARD)
		archive_entry_copy_hardlink(en, i->target);
	else if (i->type == ITEM_LINK)
		archive_entry_copy_symlink(en, i->target);
	archive_entry_set_filetype(en, i->type == ITEM_DIR    ? AE_IFDIR
				       : i->type == ITEM_LINK ? AE_IFLNK
				       : i->type == ITEM_FIFO ? AE_IFIFO
							      : AE_IFREG);
	for (size_t k = 0; k < i->nattrs; k++)
		archive_entry_xattr_add_entry(en, i->attrs[k].name, i->attrs[k].value, i->attrs[k].size);
	if (archive_entry_sparse_count(en) > 0)
		archive_entry_xattr_add_entry(en, ITEM_NAME_ATTR, i->name, strlen(i->name));
	sum_item(&p->sum, i);
	return archive_write_header(p->to, en) == ARCHIVE_OK ? 0 : to_failed(p, e);
}

static int put_item(struct pack *p, const struct item *i, struct err *e)
{
	int rc;

	archive_entry_clear(p->entry);
	archive_entry_set_size(p->entry, (la_int64_t)i->size); /* places of data are compared with it */
	if (i->type == ITEM_FILE)
		holes_find(p, i->size);
	rc = put_header(p, i, e);
	if (rc == 0 && i->type == ITEM_FILE && i->size > 0)
		rc = put_content(p, i->size, e);
	return rc;
}

static void was_changed(struct pack *p)
{
	struct stat now;

	if (fstat(p->fd, &now) != 0 || now.st_size != p->at.st.st_size ||
	    now.st_mtim.tv_sec != p->at.st.st_mtim.tv_sec || now.st_mtim.tv_nsec != p->at.st.st_mtim.tv_nsec)
		p->r.changed++;
}

/* Opened, and still what it was when it was met; fd -1 afterwards: it is gone. */
static int entry_open(struct pack *p, int flags, struct err *e)
{
	struct stat st;

	p->fd = openat(p->at.dir, p->at.base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | flags);
	if (p->fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENXIO)) {
		p->r.changed++;
		return 0;
	}
	if (p->fd < 0 || fstat(p->fd, &st) != 0)
		return err_sys(e, errno, "cannot open");
	if ((st.st_mode & S_IFMT) != (p->at.st.st_mode & S_IFMT)) {
		p->r.changed++;
		close(p->fd);
		p->fd = -1;
		return 0;
	}
	p->at.st = st;
	return 0;
}

static int pack_opened(struct pack *p, struct item *i, struct err *e)
{
	bool is_dir = i->type == ITEM_DIR, there;
	int rc = entry_open(p, is_dir ? O_DIRECTORY : 0, e);

	if (rc || p->fd < 0)
		return rc;
	i->mode = p->at.st.st_mode & 07777;
	i->mtime = p->at.st.st_mtim;
	i->size = is_dir ? 0 : (uint64_t)p->at.st.st_size;
	rc = attrs_read(p, e);
	i->attrs = p->attrs;
	i->nattrs = p->nattrs;
	rc = rc ? rc : put_item(p, i, e);
	if (rc == 0 && is_dir)
		rc = walk_enter(p->walk, &there, e);
	else if (rc == 0) {
		was_changed(p);
		rc = first_add(p, &p->at.st, e);
	}
	return rc;
}

static int pack_link(struct pack *p, struct item *i, struct err *e)
{
	ssize_t n;

	p->target = malloc(PATH_MAX);
	if (!p->target)
		return err_set(e, ERR_NOMEM, "no memory for a link");
	n = readlinkat(p->at.dir, p->at.base, p->target, PATH_MAX - 1);
	if (n < 0 && (errno == ENOENT || errno == EINVAL)) {
		p->r.changed++;
		return 0;
	}
	if (n < 0)
		return err_sys(e, errno, "cannot read a link");
	p->target[n] = '\0';
	i->target = p->target;
	return put_item(p, i, e);
}

static int pack_entry(struct pack *p, struct err *e)
{
	const struct stat *st = &p->at.st;
	struct item i = {.name = p->at.name, .mtime = st->st_mtim};
	int rc;

	i.target = S_ISDIR(st->st_mode) ? NULL : first_find(p, st);
	if (i.target) {
		i.type = ITEM_HARD;
		return put_item(p, &i, e);
	}
	switch (st->st_mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
		i.type = S_ISDIR(st->st_mode) ? ITEM_DIR : ITEM_FILE;
		return pack_opened(p, &i, e);
	case S_IFLNK:
		i.type = ITEM_LINK;
		rc = pack_link(p, &i, e);
		break;
	case S_IFIFO:
		i.type = ITEM_FIFO;
		i.mode = st->st_mode & 07777;
		rc = put_item(p, &i, e);
		break;
	default:
		p->r.skipped++;
		return 0;
	}
	return rc ? rc : first_add(p, st, e);
}

static int pack_all(struct pack *p, struct err *e)
{
	struct err why = {0};
	char where[200];
	int rc, more = 0;

	do {
		more = walk_next(p->walk, &p->at, &why);
		rc = more > 0 ? pack_entry(p, &why) : more;
		if (p->fd >= 0)
			close(p->fd);
		p->fd = -1;
		free(p->target);
		p->target = NULL;
		attrs_free(p);
	} while (rc == 0 && more > 0);
	if (rc == 0)
		return 0;
	walk_where(p->walk, where, sizeof(where));
	return err_set(e, rc, "at %s: %.180s", where, why.message);
}

static int to_open(struct pack *p, int fd, struct err *e)
{
	p->to = archive_write_new();
	p->entry = archive_entry_new();
	if (!p->to || !p->entry)
		return err_set(e, ERR_NOMEM, "no memory for an archive");
	if (archive_write_add_filter_zstd(p->to) != ARCHIVE_OK || archive_write_set_format_pax(p->to) != ARCHIVE_OK ||
	    archive_write_set_format_option(p->to, "pax", "hdrcharset", "BINARY") != ARCHIVE_OK ||
	    archive_write_set_format_option(p->to, "pax", "xattrheader", "LIBARCHIVE") != ARCHIVE_OK ||
	    archive_write_set_filter_option(p->to, "zstd", "compression-level", "1") != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(p->to, 1) != ARCHIVE_OK)
		return to_failed(p, e);
	(void)archive_write_set_filter_option(p->to, "zstd", "threads", "2");
	return archive_write_open_fd(p->to, fd) == ARCHIVE_OK ? 0 : to_failed(p, e);
}

int pack_tree(const char *top, int fd, struct pack_result *out, struct err *e)
{
	struct pack *p = calloc(1, sizeof(*p));
	int rc, end;

	if (!p)
		return err_set(e, ERR_NOMEM, "no memory for an archive");
	p->fd = -1;
	p->hole = mmap(NULL, HOLE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	rc = p->hole == MAP_FAILED ? err_sys(e, errno, "no room to tell of holes") : 0;
	rc = rc ? rc : sum_begin(&p->sum, e);
	rc = rc ? rc : to_open(p, fd, e);
	rc = rc ? rc : walk_open(top, &p->walk, e);
	rc = rc ? rc : pack_all(p, e);
	if (rc == 0 && archive_write_close(p->to) != ARCHIVE_OK)
		rc = to_failed(p, e);
	p->r.entries = p->sum.entries;
	p->r.bytes = p->sum.bytes;
	end = sum_end(&p->sum, p->r.digest, e);
	rc = rc ? rc : end;
	if (rc == 0)
		*out = p->r;
	walk_close(p->walk);
	archive_entry_free(p->entry);
	archive_write_free(p->to);
	tdestroy(p->firsts, first_free);
	if (p->hole != MAP_FAILED)
		munmap(p->hole, HOLE);
	free(p);
	return rc;
}
