/*
 * hole.h - the log is shorter than others know it, and says so itself.
 *
 * A log that was set back (an old backup of record/, files removed) is sound as far as it goes: only what stands
 * beside it tells. At the start the recorder asks audit.db, the segments and the newest recordings, later the
 * witnesses. It goes on, but its first entry names the hole, under a head of its own; verify tells it ever after.
 */
#ifndef RECORDER_INDEX_HOLE_H
#define RECORDER_INDEX_HOLE_H

#include "recorder/chain/chain.h"
#include "recorder/index/index.h"

/* Who knows more, and up to where. */
struct hole {
	const char *source;      /* "audit.db", "segments", "recording", "witness" */
	const char *name;        /* of the recording or witness; NULL */
	uint64_t seq;            /* an entry that the log does not have, or has otherwise; 0: not known */
	uint64_t journal_seq;    /* the same by the journal's number; 0: not known */
	const struct id *log_id; /* of the log that is known; NULL: this one */
	bool differs;            /* the entry is there, and is another */
};

/* An entry for it and a head over that. */
int hole_append(struct chain *c, const struct hole *h, struct err *e);
/* What such an entry says, for people. */
#define HOLE_TEXT 300
void hole_describe(const struct chain_entry *en, char out[HOLE_TEXT]);
/* Right after chain_open(): looks, and appends. *out_found is set when there was one. */
int hole_find(const char *dir, int segments_fd, struct chain *c, struct index *ix, bool *out_found, struct err *e);

#endif
