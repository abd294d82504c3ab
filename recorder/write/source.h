/*
 * source.h - the events of one session in order, wherever they are: sealed, being cut, or only in segments.
 *
 * Owned by one reader. A session whose first segment is still there is read from
 * the log alone; otherwise from its recording as far as that reaches, then from
 * the log. When segments vanish under a slow reader it goes back to the recording,
 * which has them by then. Sequences are the log's.
 */
#ifndef RECORDER_WRITE_SOURCE_H
#define RECORDER_WRITE_SOURCE_H

#include "recorder/format/recording.h"
#include "recorder/format/trunc.h"
#include "recorder/index/index.h"
#include "recorder/write/drain.h"

struct source;

/* What a source needs to know; borrowed for its life. */
struct source_place {
	const char *dir; /* the state directory's record/ */
	int segments_fd;
	struct drain *drain;
	struct live *live;
	struct index *index; /* a reading connection of the caller's */
};

struct source_info {
	struct id session;
	char *open; /* JSON; may be "{}" when it was lost */
	bool sealed;
	bool ended; /* an EXIT was seen, or the recording is sealed */
	char agent[AGENT_NAME_MAX + 1];
	char principal[129];
	uint64_t totals[STREAM_COUNT]; /* bytes known of, at opening */
};

/* ERR_NOT_FOUND. */
int source_create(const struct source_place *p, const struct id *session, struct source **out, struct err *e);
void source_destroy(struct source *s);
const struct source_info *source_info(const struct source *s);
/* rule METADATA: what is read from the log is told as gaps, as the recording will have it. */
void source_set_rule(struct source *s, const struct trunc_rule *rule);
/* 1 and an event (payload valid until the next call), 0 = none now (none ever again if info->ended), ERR_*. */
int source_next(struct source *s, struct ring_record *out, struct err *e);
/* Only events at or after this moment. Call it before the first source_next(). */
int source_seek_time(struct source *s, uint64_t boot_ns, struct err *e);
/* Of a sealed one what lies before seq need not be read; events up to it may still come. Before the first
 * source_next(). */
int source_seek_seq(struct source *s, uint64_t seq, struct err *e);
/* The recording it reads from, borrowed; NULL: from the log. */
struct recording *source_recording(const struct source *s);
/* Sealed only (else ERR_BAD_STATE): next is what holds that offset. */
int source_seek_offset(struct source *s, unsigned stream, uint64_t offset, struct err *e);

#endif
