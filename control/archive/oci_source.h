/*
 * oci_source.h - the blobs of an image, from an archive (tar) or a directory in the OCI image layout.
 *
 * A blob is asked for by its digest and read once, from its beginning; what was read is what the digest says, or the
 * end is an error. Nothing of an archive is kept: each blob is looked for from its beginning on, which passes over what
 * lies between (a seek for each member).
 *
 * source_begin -> (source_open -> source_read* -> source_close)* -> source_end. One blob is open at a time.
 */
#ifndef CONTROL_ARCHIVE_OCI_SOURCE_H
#define CONTROL_ARCHIVE_OCI_SOURCE_H

#include "control/archive/oci.h"

#include <sys/types.h>

#define SOURCE_MEMBERS_MAX 4096 /* of an archive */

struct oci_source {
	int archive, dir; /* -1: not this one; the caller's */
	void *from;       /* the archive, while a blob of it is open */
	int file;         /* the blob, in a directory */
	void *md;
	struct oci_blob want;
	uint64_t got;
};

/* archive: a file's descriptor, or -1 and dir. */
void source_begin(struct oci_source *s, int archive, int dir);
/* ERR_IMAGE: there is none, or it has another size. */
int source_open(struct oci_source *s, const struct oci_blob *want, struct err *e);
/* 0: its end. Negative: an error. */
ssize_t source_read(struct oci_source *s, void *p, size_t n, struct err *e);
/* Reads the rest; ERR_IMAGE: the blob is another one. e NULL: it is given up, and may be anything. */
int source_close(struct oci_source *s, struct err *e);
/* A whole text; *out is malloc'd. ERR_IMAGE: it has more than OCI_JSON_MAX bytes. */
int source_text(struct oci_source *s, const struct oci_blob *want, char **out, size_t *out_len, struct err *e);
/* The digest of the first entry of index.json; "" where there is none. */
void source_index_first(struct oci_source *s, char out[OCI_HEX]);

#endif
