/*
 * stream.h - the recent bytes of one output stream: one buffer, one offset per viewer.
 *
 * Owned by its session. Offsets are absolute and never wrap. Memory is taken as
 * output comes (doubling from 512 bytes) up to STREAM_RING_MAX; past that the oldest
 * bytes go. The session's window keeps a driver's cursor inside.
 *
 * With `release: durable` bytes may be shown only once they are synced: each
 * append leaves a mark (journal position, offset) and stream_release() moves
 * `visible` along.
 */
#ifndef MUXD_HUB_SESSION_STREAM_H
#define MUXD_HUB_SESSION_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STREAM_RING_MAX (512 * 1024)
#define STREAM_MARKS    32

struct stream_mark {
	uint64_t position; /* of the journal, end of the record */
	uint64_t offset;   /* of the stream, end of the bytes */
};

struct stream {
	uint8_t *data;
	size_t cap;
	uint64_t start;            /* oldest offset held */
	uint64_t end;              /* bytes journaled so far */
	uint64_t visible;          /* bytes that may be shown: <= end */
	struct stream_mark *marks; /* STREAM_MARKS; NULL: nothing was ever held */
	unsigned nmarks;
};

/* offset: where the stream goes on (0, or what the record has after a restart). */
void stream_init(struct stream *s, uint64_t offset);
void stream_finish(struct stream *s);
/* ERR_NOMEM. position: the journal's after the record. hold: not visible before stream_release(). */
int stream_append(struct stream *s, const uint8_t *p, size_t n, uint64_t position, bool hold);
/* Contiguous visible bytes at offset (>= start); 0 when there are none. */
size_t stream_peek(const struct stream *s, uint64_t offset, const uint8_t **out_p);
/* True when more became visible. */
bool stream_release(struct stream *s, uint64_t durable);
/* Give memory back when nobody looks: keep the last `keep` bytes at most. */
void stream_shrink(struct stream *s, size_t keep);

#endif
