/*
 * artifact_wish.h - what is to become an artifact when a round, or a step of a run, ends: a checked list of
 * {"name", "path"} and {"name", "stream": "stdout" or "stderr"}.
 *
 * Pure. The list stays JSON until it is read: in a body, in a stored workflow, in the record's OPEN.
 */
#ifndef CONTROL_ARTIFACTS_ARTIFACT_WISH_H
#define CONTROL_ARTIFACTS_ARTIFACT_WISH_H

#include "base/json.h"
#include "base/schema.h"

#define ARTIFACT_WISHES_MAX 32

/* Fits struct schema_field. ERR_INVAL: a fault with its place, a name that is there twice. */
int artifact_wishes_check(const struct schema *s, const struct schema_at *at, const json_t *list);
/* Its name, for struct schema_field too. */
int artifact_wish_check_name(const struct schema *s, const struct schema_at *at, const json_t *v);
int artifact_wish_check_stream(const struct schema *s, const struct schema_at *at, const json_t *v);

struct artifact_wish {
	const char *name, *path, *stream; /* one of path and stream; borrowed */
};
/* The i-th of a checked list. */
void artifact_wish_read(const json_t *list, size_t i, struct artifact_wish *out);

/* The outcome of one: {"name", "state": "kept", "size", "sha256"}, or with "failed" and "error": {"code", "message"}.
 */
json_t *artifact_wish_kept(const char *name, const json_t *row);
json_t *artifact_wish_failed(const char *name, int rc, const char *message);
json_t *artifact_wish_pending(const char *name);

#endif
