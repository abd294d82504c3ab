/*
 * oci_unpack.h - an image becomes a root: DIR/root, with DIR/env (its variables, NAME=VALUE, each with its NUL) and
 * DIR/notes (what it says and nobody heeds).
 *
 * Everything hangs on the digest that the operator gave: of an index, or of a manifest. The root is made at the end, of
 * names that were looked at one by one, from directory to directory by descriptors. What the sandbox mounts over it is
 * in it: files of /etc that are made for each sandbox, /var/tmp; what is never the image's (/proc, /dev, /tmp, /run,
 * /sys, /workspace, /.muxlet) is not.
 */
#ifndef CONTROL_ARCHIVE_OCI_UNPACK_H
#define CONTROL_ARCHIVE_OCI_UNPACK_H

#include "control/archive/oci_source.h"

#define OCI_NAMES_MAX  500000 /* of all layers */
#define OCI_NESTED_MAX 4      /* an index within an index */

struct oci_result {
	uint64_t names, bytes, set_ids;
	char digest[OCI_HEX]; /* of the manifest */
};

/* dir: an empty directory's path; what is in it after a failure is nothing. max: bytes. ERR_IMAGE, ERR_DISK_FULL. */
int oci_unpack(struct oci_source *from, const char *digest, uint64_t max, const char *dir, struct oci_result *out,
	       struct err *e);

#endif
