/*
 * index_derive.h - what a sealed recording is in audit.db: read from the file, and from nothing else.
 *
 * The one way by which the cutter puts it in at the seal, a rebuild makes it again, and a comparison knows what should
 * be there. A value: the texts are the recording's, which stays open until index_derived_finish().
 */
#ifndef RECORDER_INDEX_DERIVE_H
#define RECORDER_INDEX_DERIVE_H

#include "recorder/index.h"

struct recording;

struct index_derived {
	struct recording *recording;
	struct index_recording row;
	char path[128];
};

/* path: of the file; ERR_BAD_STATE when it is not sealed, ERR_NOT_FOUND, ERR_CORRUPT. */
int index_derive(const char *path, struct index_derived *out, struct err *e);
void index_derived_finish(struct index_derived *d);

#endif
