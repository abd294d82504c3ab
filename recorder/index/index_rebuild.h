/*
 * index_rebuild.h - audit.db anew, from sealed recordings and the chain log.
 *
 * For the day on which SQLite finds its file damaged, at the start or at work: the database is derived,
 * the record is not. Sessions that were open are cut again from the segments.
 */
#ifndef RECORDER_INDEX_INDEX_REBUILD_H
#define RECORDER_INDEX_INDEX_REBUILD_H

#include "recorder/index/index.h"

/* done: so many recordings and entries of the chain log so far. fn not 0: it is given up with that, and begun anew next
 * time. */
struct index_progress {
	int (*fn)(void *arg, uint64_t done, struct err *e);
	void *arg;
};
/*
 * index_open(DIR/audit.db); a damaged one is set aside and made again, which takes minutes of a large record. dir: the
 * state directory's record/. key: 32 bytes for index_use_key(), NULL: none. p: told behind each step of that; NULL:
 * nobody is.
 */
int index_open_or_rebuild(const char *dir, const uint8_t *key, const struct index_progress *p, struct index **out,
			  struct err *e);
/* SQLite found it damaged at work: the next index_open_or_rebuild() makes it again, whatever its check finds. */
int index_condemn(const char *dir, struct err *e);

#endif
