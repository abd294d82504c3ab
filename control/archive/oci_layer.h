/*
 * oci_layer.h - one layer of an image: from its blob into the tree, its files' content into a directory of numbers.
 *
 * blob -> (gzip, zstd) -> SHA-256 of what came out -> tar -> members. Kept of a member are its kind, the rights that
 * oci_mode() leaves, its time and its content. Devices, FIFOs and sockets are refused. Owners, extended attributes and
 * set-id bits are not taken; the last are counted.
 */
#ifndef CONTROL_ARCHIVE_OCI_LAYER_H
#define CONTROL_ARCHIVE_OCI_LAYER_H

#include "control/archive/oci_source.h"
#include "control/archive/oci_tree.h"

struct oci_budget {
	uint64_t left;   /* bytes that files may have yet, holes counted; and, apart, that layers may unpack to */
	uint64_t stream; /* the latter */
	uint64_t max;    /* what both began with, for the message */
};

struct oci_store {
	int dir;       /* files named by their number */
	uint64_t next; /* number */
	uint64_t bytes, set_ids;
	struct oci_budget budget;
};

/* All may read; all may run what anybody may; nobody writes. */
mode_t oci_mode(mode_t of, bool dir);
/* An empty file; *out is its number. */
int oci_store_empty(struct oci_store *st, uint64_t *out, struct err *e);
void oci_store_name(uint64_t number, char out[24]);
/* diff_id: the digest of the layer once it is unpacked. t->layer is set. ERR_IMAGE with the member. */
int oci_layer(struct oci_source *from, const struct oci_blob *blob, const char *diff_id, struct oci_tree *t,
	      struct oci_store *st, struct err *e);

#endif
