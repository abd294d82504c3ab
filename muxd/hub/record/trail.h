/*
 * trail.h - where in the journal the output of a round stands, so that whoever follows it is given it from there.
 *
 * What was journaled stays in the ring until something else takes its place (64 MiB by default), so a follower who
 * comes late, or is slower than the program, needs neither a buffer of its own nor the recorder: the trail is a list of
 * places, one for each record, the newest TRAIL_MARKS at most. The hub wrote all that stands there; a place whose
 * record is not the one that is meant gives nothing.
 *
 * Owned by its session, one for each stream; zeroed memory is an empty one. Offsets have no gap in between: where a
 * place cannot be kept, those before it are forgotten.
 */
#ifndef MUXD_HUB_RECORD_TRAIL_H
#define MUXD_HUB_RECORD_TRAIL_H

#include "base/ids.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct journal;

#define TRAIL_MARKS 2048 /* 32 KiB of memory, where records are large a ring of 128 MiB */
#define TRAIL_KEPT  1024 /* bytes of a trail that stay behind the end of a round that nobody followed */

struct trail_mark {
	uint64_t offset; /* of the stream: the record's first byte */
	uint64_t at;     /* position of the record in the journal */
};

struct trail {
	struct trail_mark *marks; /* a ring of cap, a power of two */
	uint32_t first, n, cap;
};

/* The record at position `at` has the stream's bytes from offset on, where the last one ended. */
void trail_add(struct trail *t, uint64_t offset, uint64_t at);
void trail_finish(struct trail *t);
size_t trail_held(const struct trail *t); /* bytes of memory */
/*
 * Bytes of that session's stream from offset on, at most max, to `to`: of records before position `until` alone.
 * Returns the count, 0: none so far, ERR_NOT_FOUND: the journal does not have them any more.
 */
ssize_t trail_read(const struct trail *t, const struct journal *j, const struct id *session, int stream,
		   uint64_t offset, uint64_t until, uint8_t *to, size_t max);

#endif
