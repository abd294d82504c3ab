#include "control/archive/read.h"

#include "base/err.h"
#include "control/archive/walk.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK   (128 << 10)
#define FAR_MAX (UINT64_C(16) << 20) /* directories between the first names of files, and NEAR for each member: */
#define NEAR    64                   /* what a restore passes through within its time */

struct reading {
	struct archive *from;
	struct archive_entry *entry;
	const struct read_sink *sink;
	struct names names;
	struct sum sum;
	char *name; /* the member's, without the slash of a directory */
	struct item_attr *attrs;
	struct place *linked; /* where the last first name lay */
	uint64_t far;
};

static int from_failed(struct reading *r, struct err *e)
{
	const char *why = archive_error_string(r->from);

	return err_set(e, ERR_CORRUPT, "the archive is damaged: %.200s", why ? why : "it cannot be read");
}

static int from_open(struct reading *r, int fd, struct err *e)
{
	r->from = archive_read_new();
	r->entry = archive_entry_new();
	if (!r->from || !r->entry)
		return err_set(e, ERR_NOMEM, "no memory for an archive");
	if (archive_read_support_filter_zstd(r->from) != ARCHIVE_OK ||
	    archive_read_support_format_tar(r->from) != ARCHIVE_OK ||
	    archive_read_open_fd(r->from, fd, BLOCK) != ARCHIVE_OK)
		return from_failed(r, e);
	return 0;
}

static int attr_compare(const void *a, const void *b)
{
	return strcmp(((const struct item_attr *)a)->name, ((const struct item_attr *)b)->name);
}

static int name_set(struct reading *r, const char *name, size_t len)
{
	free(r->name);
	if (len > 1 && name[len - 1] == '/')
		len--;
	r->name = strndup(name, len);
	return r->name ? 0 : ERR_NOMEM;
}

static int attrs_take(struct reading *r, struct item *i, struct err *e)
{
	int n = archive_entry_xattr_reset(r->entry);
	const char *name;
	const void *value;
	size_t size;

	if (n <= 0)
		return 0;
	r->attrs = calloc((size_t)n, sizeof(*r->attrs));
	if (!r->attrs)
		return err_set(e, ERR_NOMEM, "no memory for attributes");
	while (archive_entry_xattr_next(r->entry, &name, &value, &size) == ARCHIVE_OK) {
		if (i->nattrs < (size_t)n && strncmp(name, "user.", 5) == 0)
			r->attrs[i->nattrs++] = (struct item_attr){.name = name, .value = value, .size = size};
		if (strcmp(name, ITEM_NAME_ATTR) == 0 && name_set(r, value, size) != 0)
			return err_set(e, ERR_NOMEM, "no memory for a name");
	}
	i->name = r->name;
	if (i->nattrs > 1)
		qsort(r->attrs, i->nattrs, sizeof(*r->attrs), attr_compare);
	i->attrs = r->attrs;
	return 0;
}

/* tar calls its names UTF-8 whatever they are, and libarchive composes what is: others are not what they were. */
static bool ascii(const char *s)
{
	while (*s && (unsigned char)*s < 0x80)
		s++;
	return !*s;
}

/* A member of the archive becomes an item, or is not one of ours. */
static int item_take(struct reading *r, struct item *i, struct err *e)
{
	const char *name = archive_entry_pathname(r->entry), *hard = archive_entry_hardlink(r->entry);
	mode_t type = archive_entry_filetype(r->entry);
	size_t len = name ? strlen(name) : 0;

	if (len == 0)
		return err_set(e, ERR_CORRUPT, "the archive is damaged: a member has no name");
	if (name_set(r, name, len) != 0)
		return err_set(e, ERR_NOMEM, "no memory for a name");
	*i = (struct item){.name = r->name, .mode = archive_entry_perm(r->entry) & 07777};
	i->mtime.tv_sec = archive_entry_mtime(r->entry);
	i->mtime.tv_nsec = archive_entry_mtime_nsec(r->entry);
	i->type = hard               ? ITEM_HARD
		  : type == AE_IFREG ? ITEM_FILE
		  : type == AE_IFDIR ? ITEM_DIR
		  : type == AE_IFLNK ? ITEM_LINK
		  : type == AE_IFIFO ? ITEM_FIFO
				     : 0;
	i->target = hard ? hard : i->type == ITEM_LINK ? archive_entry_symlink(r->entry) : NULL;
	if (!i->type || (i->type == ITEM_LINK && !i->target))
		return err_set(e, ERR_CORRUPT, "the archive is damaged: a member of no kind that is packed");
	if (r->sink && r->sink->old && (!ascii(name) || (i->target && !ascii(i->target))))
		return err_set(e, ERR_UNSUPPORTED, "an archive of an earlier version with a name that is not ASCII");
	if (i->type == ITEM_HARD || i->type == ITEM_LINK)
		i->mode = 0;
	if (i->type == ITEM_FILE)
		i->size = (uint64_t)archive_entry_size(r->entry);
	return attrs_take(r, i, e);
}

static int content_take(struct reading *r, const struct item *i, struct err *e)
{
	const struct read_sink *s = r->sink;
	la_int64_t offset;
	const void *p;
	size_t n;
	int got, rc = 0;

	while (rc == 0 && (got = archive_read_data_block(r->from, &p, &n, &offset)) == ARCHIVE_OK) {
		if (offset < 0 || (uint64_t)offset + n > i->size)
			return err_set(e, ERR_CORRUPT, "the archive is damaged: a file is longer than it says");
		if (n == 0)
			continue;
		sum_data(&r->sum, (uint64_t)offset, p, n);
		if (s)
			rc = s->data(s->ctx, (uint64_t)offset, p, n, false, e);
	}
	if (rc == 0 && got != ARCHIVE_EOF)
		rc = from_failed(r, e);
	return rc || !s ? rc : s->data(s->ctx, i->size, NULL, 0, true, e);
}

/* A restore goes from one first name to the next: in a deep tree that may be far, as often as there are links. */
static int far_check(struct reading *r, struct place *to, struct err *e)
{
	uint64_t most = FAR_MAX + NEAR * r->sum.entries;
	struct place *from = r->linked ? r->linked : r->names.all[0];

	r->linked = to;
	for (; from != to && r->far <= most; r->far++) {
		if (from->depth >= to->depth)
			from = from->parent;
		else
			to = to->parent;
	}
	if (r->sink || r->far <= most)
		return 0;
	return err_set(e, ERR_SNAPSHOT,
		       "its hard links lie too deep, and too far from each other, to be restored in time");
}

static int read_entry(struct reading *r, const struct item *i, struct err *e)
{
	struct place *place, *from = NULL, *dir = NULL;
	const char *base, *from_base = NULL;
	int rc = names_find(&r->names, i->name, &place, &base, e);

	if (rc == 0 && !place && i->type != ITEM_DIR)
		rc = err_set(e, ERR_CORRUPT, "the archive is damaged: the workspace is no directory");
	if (rc == 0 && i->type == ITEM_HARD)
		rc = names_find(&r->names, i->target, &from, &from_base, e);
	if (rc == 0 && i->type == ITEM_HARD && !from)
		rc = err_set(e, ERR_CORRUPT, "the archive is damaged: a link to the workspace itself");
	if (rc == 0 && i->type == ITEM_HARD)
		rc = far_check(r, from, e);
	if (rc == 0 && i->type == ITEM_DIR)
		rc = names_add(&r->names, i->name, place, base, &dir, e);
	if (rc)
		return rc;
	if (dir) {
		dir->mode = i->mode;
		dir->mtime = i->mtime;
	}
	sum_item(&r->sum, i);
	if (r->sink)
		rc = r->sink->item(r->sink->ctx, i, place, base, dir, from, from_base, e);
	return rc || i->type != ITEM_FILE ? rc : content_take(r, i, e);
}

/* 1: one was read; 0: that was all. */
static int next(struct reading *r, struct err *e)
{
	int rc, got = archive_read_next_header2(r->from, r->entry);
	struct err why = {0};
	struct item i;
	char shown[160];

	if (got == ARCHIVE_EOF)
		return 0;
	/* A warning is of a name in another set of characters; it comes as the bytes that it is. */
	if (got != ARCHIVE_OK && got != ARCHIVE_WARN)
		return from_failed(r, e);
	rc = item_take(r, &i, &why);
	rc = rc ? rc : read_entry(r, &i, &why);
	if (rc) {
		walk_show(r->name ? r->name : "", shown, sizeof(shown));
		err_set(e, rc, "at %s: %.200s", shown, why.message);
	}
	free(r->name);
	free(r->attrs);
	r->name = NULL;
	r->attrs = NULL;
	return rc ? rc : 1;
}

int read_archive(int fd, const struct read_sink *sink, struct read_result *out, struct err *e)
{
	struct reading r = {.sink = sink};
	struct read_result result = {0};
	int end, rc = sum_begin(&r.sum, e);

	rc = rc ? rc : from_open(&r, fd, e);
	if (rc == 0)
		do
			rc = next(&r, e);
		while (rc > 0);
	if (rc == 0 && r.names.n == 0)
		rc = err_set(e, ERR_CORRUPT, "the archive is damaged: it is empty");
	if (rc == 0 && sink)
		rc = sink->over(sink->ctx, &r.names, e);
	result.entries = r.sum.entries;
	result.bytes = r.sum.bytes;
	end = sum_end(&r.sum, result.digest, e);
	rc = rc ? rc : end;
	if (rc == 0)
		*out = result;
	archive_entry_free(r.entry);
	archive_read_free(r.from);
	names_finish(&r.names);
	return rc;
}

int read_check(int fd, struct read_result *out, struct err *e)
{
	return read_archive(fd, NULL, out, e);
}
