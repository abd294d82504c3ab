/*
 * index_derive.h - what a sealed recording is in audit.db: read from the file, and from nothing else.
 *
 * The one way by which the cutter puts it in at the seal, a rebuild makes it again, and a comparison knows what should
 * be there. A value: the texts are the recording's, which stays open until index_derived_finish().
 */
#ifndef RECORDER_INDEX_INDEX_DERIVE_H
#define RECORDER_INDEX_INDEX_DERIVE_H

#include "recorder/chain/chain.h"
#include "recorder/index/index.h"

struct recording;

struct index_derived {
	struct recording *recording;
	struct index_recording row;
	char path[128];
};

/* path: of the file; ERR_BAD_STATE when it is not sealed, ERR_NOT_FOUND, ERR_CORRUPT. */
int index_derive(const char *path, struct index_derived *out, struct err *e);
/* What a digest entry of the log says: the root of a recording's keyframes. Others are not for the index. */
int index_put_digest(struct index *ix, const struct chain_entry *en, struct err *e);
/* The root it gives, "" when it is none of keyframes. */
void index_digest_root(const struct chain_entry *en, char out[65]);
void index_derived_finish(struct index_derived *d);

#endif
