/*
 * index_rebuild.h - audit.db anew, from sealed recordings and the chain log.
 *
 * For the day on which SQLite finds its file damaged: the database is derived,
 * the record is not. Sessions that were open are cut again from the segments.
 */
#ifndef RECORDER_INDEX_REBUILD_H
#define RECORDER_INDEX_REBUILD_H

#include "recorder/index.h"

/* index_open(DIR/audit.db); a damaged one is set aside and made again. dir: the state directory's record/. */
int index_open_or_rebuild(const char *dir, struct index **out, struct err *e);

#endif
