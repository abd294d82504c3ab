#include "control/archive/oci_layer.h"

#include "base/err.h"
#include "control/archive/walk.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK (64 << 10)

struct layer {
	struct oci_source *from;
	struct archive *unpacked, *tar; /* the second reads what the first gives */
	void *md;                       /* of what is between them */
	struct oci_tree *tree;
	struct oci_store *store;
	char in[BLOCK], out[BLOCK];
	struct err why; /* of a reader that libarchive called: its own words say less */
};

mode_t oci_mode(mode_t of, bool dir)
{
	return dir || (of & 0111) ? 0755 : 0644;
}

void oci_store_name(uint64_t number, char out[24])
{
	snprintf(out, 24, "%llu", (unsigned long long)number);
}

static int store_new(struct oci_store *st, uint64_t *out, struct err *e)
{
	char name[24];
	int fd;

	oci_store_name(st->next, name);
	fd = openat(st->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "cannot make a file");
	*out = st->next++;
	return fd;
}

static int store_end(int fd, mode_t mode, int64_t mtime, struct err *e)
{
	struct timespec times[2] = {{.tv_sec = mtime}, {.tv_sec = mtime}};
	int rc = 0;

	if (fchmod(fd, mode) != 0 || futimens(fd, times) != 0)
		rc = err_sys(e, errno, "cannot finish a file");
	close(fd);
	return rc;
}

int oci_store_empty(struct oci_store *st, uint64_t *out, struct err *e)
{
	int fd = store_new(st, out, e);

	return fd < 0 ? fd : store_end(fd, 0644, 0, e);
}

/* ---- the two readers */

static int over_budget(const struct oci_budget *b, struct err *e)
{
	return err_set(e, ERR_IMAGE, "the image unpacks to more than sandbox.image_size, %llu bytes",
		       (unsigned long long)b->max);
}

/* The blob, to whatever unpacks it. */
static la_ssize_t layer_on_blob(struct archive *a, void *arg, const void **out)
{
	struct layer *l = arg;
	ssize_t n = source_read(l->from, l->in, sizeof(l->in), &l->why);

	if (n < 0)
		archive_set_error(a, EIO, "%s", l->why.message);
	*out = l->in;
	return n < 0 ? -1 : n;
}

/* The words of a reader that libarchive called say more than libarchive's. */
static int unpacking_bad(const struct layer *l, const char *otherwise, struct err *e)
{
	const char *why = archive_error_string(l->unpacked);

	if (l->why.code)
		return err_set(e, l->why.code, "%s", l->why.message);
	return err_set(e, ERR_IMAGE, "the layer cannot be unpacked: %.150s", why ? why : otherwise);
}

static ssize_t unpacked_read(struct layer *l, struct err *e)
{
	struct oci_budget *b = &l->store->budget;
	la_ssize_t n = archive_read_data(l->unpacked, l->out, sizeof(l->out));

	if (n < 0)
		return unpacking_bad(l, "it is damaged", e);
	if ((uint64_t)n > b->stream)
		return over_budget(b, e);
	b->stream -= (uint64_t)n;
	if (EVP_DigestUpdate(l->md, l->out, (size_t)n) != 1)
		return err_set(e, ERR_INTERNAL, "cannot make a digest");
	return n;
}

/* The unpacked bytes, to the reader of the tar. */
static la_ssize_t layer_on_unpacked(struct archive *a, void *arg, const void **out)
{
	struct layer *l = arg;
	ssize_t n = unpacked_read(l, &l->why);

	if (n < 0)
		archive_set_error(a, EIO, "%s", l->why.message);
	*out = l->out;
	return n < 0 ? -1 : n;
}

static int tar_bad(struct layer *l, struct err *e)
{
	const char *why = archive_error_string(l->tar);

	if (l->why.code)
		return err_set(e, l->why.code, "%s", l->why.message);
	return err_set(e, ERR_IMAGE, "the layer is damaged: %.200s", why ? why : "it cannot be read");
}

/* Exactly the packing that the manifest says: libarchive would else take off as many as it finds. */
static int add_packing(struct archive *a, enum oci_packing packing)
{
	if (packing == OCI_PLAIN)
		return ARCHIVE_OK;
	return archive_read_append_filter(a, packing == OCI_GZIP ? ARCHIVE_FILTER_GZIP : ARCHIVE_FILTER_ZSTD);
}

static int readers_open(struct layer *l, enum oci_packing packing, struct err *e)
{
	struct archive_entry *whole;

	l->unpacked = archive_read_new();
	l->tar = archive_read_new();
	if (!l->unpacked || !l->tar)
		return err_set(e, ERR_NOMEM, "no memory for a layer");
	if (add_packing(l->unpacked, packing) != ARCHIVE_OK ||
	    archive_read_support_format_raw(l->unpacked) != ARCHIVE_OK ||
	    archive_read_open(l->unpacked, l, NULL, layer_on_blob, NULL) != ARCHIVE_OK ||
	    archive_read_next_header(l->unpacked, &whole) != ARCHIVE_OK)
		return unpacking_bad(l, "it is empty", e);
	if (archive_read_support_format_tar(l->tar) != ARCHIVE_OK ||
	    archive_read_open(l->tar, l, NULL, layer_on_unpacked, NULL) != ARCHIVE_OK)
		return tar_bad(l, e);
	return 0;
}

/* ---- members */

static int write_at(int fd, const char *p, size_t n, uint64_t at, struct err *e)
{
	while (n > 0) {
		ssize_t w = pwrite(fd, p, n, (off_t)at);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return err_sys(e, w < 0 ? errno : EIO, "cannot write a file");
		p += w;
		at += (uint64_t)w;
		n -= (size_t)w;
	}
	return 0;
}

/* Holes stay holes; what they would fill is counted all the same. */
static int content_take(struct layer *l, int fd, uint64_t size, struct err *e)
{
	const void *p;
	la_int64_t offset;
	size_t n;
	int got, rc = 0;

	while (rc == 0 && (got = archive_read_data_block(l->tar, &p, &n, &offset)) == ARCHIVE_OK) {
		if (offset < 0 || (uint64_t)offset > size || n > size - (uint64_t)offset)
			return err_set(e, ERR_IMAGE, "the content is longer than its header says");
		rc = write_at(fd, p, n, (uint64_t)offset, e);
	}
	if (rc == 0 && got != ARCHIVE_EOF)
		return tar_bad(l, e);
	if (rc == 0 && ftruncate(fd, (off_t)size) != 0)
		rc = err_sys(e, errno, "cannot finish a file");
	return rc;
}

static int file_take(struct layer *l, struct archive_entry *m, const char *path, struct err *e)
{
	struct oci_store *st = l->store;
	uint64_t number, size = (uint64_t)archive_entry_size(m);
	mode_t mode = archive_entry_perm(m);
	int fd, rc, end;

	if (archive_entry_size(m) < 0 || size > st->budget.left)
		return over_budget(&st->budget, e);
	st->budget.left -= size;
	st->set_ids += (mode & (S_ISUID | S_ISGID)) != 0;
	fd = store_new(st, &number, e);
	if (fd < 0)
		return fd;
	rc = oci_tree_file(l->tree, path, number, e);
	rc = rc ? rc : content_take(l, fd, size, e);
	end = store_end(fd, oci_mode(mode, false), archive_entry_mtime(m), rc ? NULL : e);
	st->bytes += size;
	return rc ? rc : end;
}

static int other_take(struct layer *l, struct archive_entry *m, const char *path, struct err *e)
{
	const char *to;

	switch (archive_entry_filetype(m)) {
	case AE_IFDIR:
		return oci_tree_dir(l->tree, path, archive_entry_mtime(m), e);
	case AE_IFLNK:
		to = archive_entry_symlink(m);
		return oci_tree_link(l->tree, path, to ? to : "", e);
	case AE_IFCHR:
	case AE_IFBLK:
		return err_set(e, ERR_IMAGE, "a device");
	case AE_IFIFO:
		return err_set(e, ERR_IMAGE, "a FIFO");
	default:
		return err_set(e, ERR_IMAGE, "neither a file, a directory nor a link");
	}
}

static int member_take(struct layer *l, struct archive_entry *m, const char *path, struct err *e)
{
	const char *hard = archive_entry_hardlink(m);
	bool whiteout = false;
	int rc = 0;

	if (hard)
		return oci_tree_hard(l->tree, path, hard, e);
	if (archive_entry_filetype(m) != AE_IFREG)
		return other_take(l, m, path, e);
	rc = oci_tree_whiteout(l->tree, path, &whiteout, e);
	return rc || whiteout ? rc : file_take(l, m, path, e);
}

static int members_take(struct layer *l, struct err *e)
{
	struct archive_entry *m;
	char shown[160];
	int got, rc = 0;

	while ((got = archive_read_next_header(l->tar, &m)) == ARCHIVE_OK || got == ARCHIVE_WARN) {
		const char *path = archive_entry_pathname(m);
		struct err why = {0};

		rc = path ? member_take(l, m, path, &why) : err_set(&why, ERR_IMAGE, "a member has no name");
		if (rc) {
			walk_show(path ? path : "", shown, sizeof(shown));
			return err_set(e, rc, "layer %u, %s: %.200s", l->tree->layer, shown, why.message);
		}
	}
	return got == ARCHIVE_EOF ? 0 : tar_bad(l, e);
}

/* Behind the last member, too, it is what was said of it. */
static int unpacked_end(struct layer *l, const char *diff_id, struct err *e)
{
	uint8_t d[EVP_MAX_MD_SIZE];
	char hex[OCI_HEX] = "";
	unsigned n = 0;
	ssize_t got;

	while ((got = unpacked_read(l, e)) > 0)
		;
	if (got < 0)
		return (int)got;
	if (EVP_DigestFinal_ex(l->md, d, &n) != 1)
		return err_set(e, ERR_INTERNAL, "cannot make a digest");
	for (unsigned i = 0; i < n && 2 * i + 2 < sizeof(hex); i++)
		snprintf(hex + (size_t)2 * i, 3, "%02x", d[i]);
	return strcmp(hex, diff_id) == 0
		   ? 0
		   : err_set(e, ERR_IMAGE, "layer %u is sha256:%.12s... unpacked, and not sha256:%.12s...",
			     l->tree->layer, hex, diff_id);
}

int oci_layer(struct oci_source *from, const struct oci_blob *blob, const char *diff_id, struct oci_tree *t,
	      struct oci_store *st, struct err *e)
{
	struct layer *l = calloc(1, sizeof(*l));
	int rc = l ? source_open(from, blob, e) : err_set(e, ERR_NOMEM, "no memory for a layer");

	if (rc)
		goto out;
	l->from = from;
	l->tree = t;
	l->store = st;
	if (!(l->md = EVP_MD_CTX_new()) || EVP_DigestInit_ex(l->md, EVP_sha256(), NULL) != 1)
		rc = err_set(e, ERR_NOMEM, "no memory for a digest");
	rc = rc ? rc : readers_open(l, blob->packing, e);
	rc = rc ? rc : members_take(l, e);
	rc = rc ? rc : unpacked_end(l, diff_id, e);
	archive_read_free(l->tar);
	archive_read_free(l->unpacked);
	EVP_MD_CTX_free(l->md);
	if (rc)
		(void)source_close(from, NULL);
	else
		rc = source_close(from, e);
out:
	free(l);
	return rc;
}
