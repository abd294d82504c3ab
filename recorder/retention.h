/*
 * retention.h - sealed recordings that are older than `record.retain` go; a signed tombstone stays.
 *
 * Called by the cutter between its steps. For each recording: tombstone into the
 * chain log, head signed, file removed, row of the index emptied of everything
 * but who, where and when. A crash between two of these repeats them.
 */
#ifndef RECORDER_RETENTION_H
#define RECORDER_RETENTION_H

#include "recorder/chain.h"
#include "recorder/index.h"

#include <stddef.h>

#define RETENTION_BATCH 50

/* At most RETENTION_BATCH recordings that ended before `before_ns` (wall clock). *out_n: how many went. */
int retention_run(const char *dir, struct index *ix, struct chain *chain, int64_t before_ns, size_t *out_n,
		  struct err *e);

#endif
