/*
 * live.h - what is known of every session that has not ended, from the records themselves.
 *
 * The drain applies each record it takes from the ring, so the table is ahead of
 * segments and index; `recover` and `sessions` answer from it. Ended sessions stay
 * until the index has them. Internally locked; each call is short but live_copy().
 */
#ifndef RECORDER_WRITE_LIVE_H
#define RECORDER_WRITE_LIVE_H

#include "base/ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct live;

struct live_session {
	struct id id;
	char *open;                     /* JSON of its OPEN record; NULL when that was lost with a damaged journal */
	char *exit;                     /* JSON of its EXIT record, once ended */
	uint64_t offsets[STREAM_COUNT]; /* highest journaled, per stream */
	bool ended;
	uint64_t end_lsn;
	uint64_t last_ns; /* CLOCK_BOOTTIME of its newest record */
};

#define LIVE_MAX 100000 /* sessions; the hub's own limit lies far below */

int live_create(struct live **out);
void live_destroy(struct live *l);
/* ERR_NOMEM, ERR_LIMIT: the record is in the log all the same, only this table does not know. */
int live_apply(struct live *l, const struct ring_record *rec, uint64_t lsn);
/* A session as the index knows it, put there before the segments behind the index are applied. */
int live_restore(struct live *l, const struct id *id, const char *open, const uint64_t offsets[STREAM_COUNT]);
/* Ended sessions whose end lies before lsn are in the index now. */
void live_forget_ended(struct live *l, uint64_t lsn);
/* A private copy of everything, for a caller that goes on applying records to it. */
int live_copy(struct live *l, struct live **out);
/* In no order; fn returns false to stop. The table is locked meanwhile: fn is short and calls no live_*(). */
void live_each(struct live *l, bool (*fn)(void *arg, const struct live_session *s), void *arg);
/* A copy, to be finished with live_session_finish(). ERR_NOT_FOUND. */
int live_get(struct live *l, const struct id *id, struct live_session *out);
void live_session_finish(struct live_session *s);
size_t live_count(struct live *l);

#endif
