#include "control/archive/oci_source.h"

#include "base/err.h"

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

#define BLOCK (128 << 10)
#define BLOBS "blobs/sha256/"

void source_begin(struct oci_source *s, int archive, int dir)
{
	*s = (struct oci_source){.archive = archive, .dir = dir, .file = -1};
}

/* ---- a member of an archive */

static int archive_bad(struct oci_source *s, struct err *e)
{
	const char *why = archive_error_string(s->from);

	return err_set(e, ERR_IMAGE, "the archive is damaged: %.200s", why ? why : "it cannot be read");
}

static int archive_begin(struct oci_source *s, struct err *e)
{
	if (lseek(s->archive, 0, SEEK_SET) != 0)
		return err_sys(e, errno, "cannot read the archive");
	s->from = archive_read_new();
	if (!s->from)
		return err_set(e, ERR_NOMEM, "no memory for an archive");
	if (archive_read_support_format_tar(s->from) != ARCHIVE_OK ||
	    archive_read_open_fd(s->from, s->archive, BLOCK) != ARCHIVE_OK)
		return archive_bad(s, e);
	return 0;
}

static bool is_member(struct archive_entry *m, const char *name)
{
	const char *path = archive_entry_pathname(m);

	if (!path)
		return false;
	return strcmp(strncmp(path, "./", 2) == 0 ? path + 2 : path, name) == 0;
}

/* *out_size: that of the member; ERR_NOT_FOUND. */
static int archive_find(struct oci_source *s, const char *name, uint64_t *out_size, struct err *e)
{
	struct archive_entry *m;
	int got, rc = archive_begin(s, e);

	for (unsigned n = 0; rc == 0; n++) {
		got = archive_read_next_header(s->from, &m);
		if (got == ARCHIVE_EOF)
			return ERR_NOT_FOUND;
		if (got != ARCHIVE_OK && got != ARCHIVE_WARN)
			return archive_bad(s, e);
		if (n == SOURCE_MEMBERS_MAX)
			return err_set(e, ERR_IMAGE, "the archive has more than %d members", SOURCE_MEMBERS_MAX);
		if (!is_member(m, name))
			continue;
		if (archive_entry_filetype(m) != AE_IFREG || archive_entry_hardlink(m) || archive_entry_size(m) < 0)
			return err_set(e, ERR_IMAGE, "%s is no file in the archive", name);
		*out_size = (uint64_t)archive_entry_size(m);
		return 0;
	}
	return rc;
}

static int dir_find(struct oci_source *s, const char *name, uint64_t *out_size, struct err *e)
{
	struct stat st;

	s->file = openat(s->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (s->file < 0 && errno == ENOENT)
		return ERR_NOT_FOUND;
	if (s->file < 0 && errno == ELOOP)
		return err_set(e, ERR_IMAGE, "%s is a link", name);
	if (s->file < 0 || fstat(s->file, &st) != 0)
		return err_sys(e, errno, "cannot open %s", name);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_IMAGE, "%s is no file", name);
	*out_size = (uint64_t)st.st_size;
	return 0;
}

static int find(struct oci_source *s, const char *name, uint64_t *out_size, struct err *e)
{
	return s->archive >= 0 ? archive_find(s, name, out_size, e) : dir_find(s, name, out_size, e);
}

static void let_go(struct oci_source *s)
{
	if (s->from)
		archive_read_free(s->from);
	if (s->file >= 0)
		close(s->file);
	EVP_MD_CTX_free(s->md);
	s->from = s->md = NULL;
	s->file = -1;
}

/* ---- a blob */

int source_open(struct oci_source *s, const struct oci_blob *want, struct err *e)
{
	char name[sizeof(BLOBS) + OCI_HEX];
	uint64_t size = 0;
	int rc;

	snprintf(name, sizeof(name), BLOBS "%s", want->hex);
	s->want = *want;
	s->got = 0;
	rc = find(s, name, &size, e);
	if (rc == ERR_NOT_FOUND)
		rc = err_set(e, ERR_IMAGE, "sha256:%.12s... is missing: the archive is not whole", want->hex);
	else if (rc == 0 && want->size != UINT64_MAX && size != want->size)
		rc = err_set(e, ERR_IMAGE, "sha256:%.12s... has %llu bytes, and not the %llu that are said of it",
			     want->hex, (unsigned long long)size, (unsigned long long)want->size);
	if (rc == 0 && (!(s->md = EVP_MD_CTX_new()) || EVP_DigestInit_ex(s->md, EVP_sha256(), NULL) != 1))
		rc = err_set(e, ERR_NOMEM, "no memory for a digest");
	if (rc)
		let_go(s);
	return rc;
}

ssize_t source_read(struct oci_source *s, void *p, size_t n, struct err *e)
{
	ssize_t got;

	if (s->from) {
		got = archive_read_data(s->from, p, n);
		if (got < 0)
			return archive_bad(s, e);
	} else {
		do
			got = read(s->file, p, n);
		while (got < 0 && errno == EINTR);
		if (got < 0)
			return err_sys(e, errno, "cannot read sha256:%.12s...", s->want.hex);
	}
	if (got > 0 && EVP_DigestUpdate(s->md, p, (size_t)got) != 1)
		return err_set(e, ERR_INTERNAL, "cannot make a digest");
	s->got += (uint64_t)got;
	return got;
}

static int digest_compare(struct oci_source *s, struct err *e)
{
	uint8_t d[EVP_MAX_MD_SIZE];
	char hex[OCI_HEX] = "";
	unsigned n = 0;

	if (EVP_DigestFinal_ex(s->md, d, &n) != 1)
		return err_set(e, ERR_INTERNAL, "cannot make a digest");
	for (unsigned i = 0; i < n && 2 * i + 2 < sizeof(hex); i++)
		snprintf(hex + (size_t)2 * i, 3, "%02x", d[i]);
	return strcmp(hex, s->want.hex) == 0 ? 0
					     : err_set(e, ERR_IMAGE,
						       "sha256:%.12s... has the digest %.12s...: it is damaged, or "
						       "another one",
						       s->want.hex, hex);
}

int source_close(struct oci_source *s, struct err *e)
{
	char rest[4096];
	ssize_t n;
	int rc = 0;

	if (!s->md)
		return 0;
	if (e) {
		while ((n = source_read(s, rest, sizeof(rest), e)) > 0)
			;
		rc = n < 0 ? (int)n : digest_compare(s, e);
	}
	let_go(s);
	return rc;
}

static int read_whole(struct oci_source *s, char *to, size_t *out_len, struct err *e)
{
	size_t len = 0;
	ssize_t n;

	while ((n = source_read(s, to + len, OCI_JSON_MAX + 1 - len, e)) > 0) {
		len += (size_t)n;
		if (len > OCI_JSON_MAX)
			return err_set(e, ERR_IMAGE, "sha256:%.12s... is a text of more than %d bytes", s->want.hex,
				       OCI_JSON_MAX);
	}
	*out_len = len;
	return (int)n;
}

int source_text(struct oci_source *s, const struct oci_blob *want, char **out, size_t *out_len, struct err *e)
{
	char *text = malloc(OCI_JSON_MAX + 1);
	int rc = text ? source_open(s, want, e) : err_set(e, ERR_NOMEM, "no memory for a text");

	if (rc == 0) {
		rc = read_whole(s, text, out_len, e);
		if (rc == 0)
			rc = source_close(s, e);
		else
			(void)source_close(s, NULL);
	}
	if (rc)
		free(text);
	else
		*out = text;
	return rc;
}

void source_index_first(struct oci_source *s, char out[OCI_HEX])
{
	char *text = malloc(OCI_JSON_MAX + 1);
	uint64_t size = 0;
	size_t len = 0;

	out[0] = '\0';
	s->want = (struct oci_blob){.hex = ""};
	if (text && find(s, "index.json", &size, NULL) == 0 && (s->md = EVP_MD_CTX_new()) &&
	    EVP_DigestInit_ex(s->md, EVP_sha256(), NULL) == 1 && read_whole(s, text, &len, NULL) == 0)
		oci_index_first(text, len, out);
	let_go(s);
	free(text);
}
