/*
 * fs_body.h - the JSON body of POST /v1/agents/{agent}/fs/..., as what the broker takes.
 *
 * Pure: bytes in, file_spec and content out, or ERR_INVAL / ERR_TOO_LARGE that names the field. One table of fields
 * says which operation knows which. Everything that the spec points to belongs to the fs_body and lives until
 * fs_body_finish().
 */
#ifndef MUXD_DOORS_HTTPS_FS_BODY_H
#define MUXD_DOORS_HTTPS_FS_BODY_H

#include "base/json.h"
#include "muxd/hub/broker/broker.h"

struct err;

struct fs_body {
	json_t *root, *request; /* request: what muxlet is asked beside op and path */
	struct file_spec file;
	char *path, *to;
	const char *task;    /* NULL */
	uint64_t timeout_ns; /* 0: as configured */
	const uint8_t *content;
	size_t content_len;
	uint8_t *content_owned; /* it was base64 */
};

int fs_body_parse(enum file_op op, const void *p, size_t n, size_t max, struct fs_body *out, struct err *e);
void fs_body_finish(struct fs_body *b); /* NULL-safe */

#endif
