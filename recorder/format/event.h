/*
 * event.h - one journaled event as bytes: inside blocks, and in 'B' messages of recorder.sock.
 *
 * An event is a struct ring_record. A recording adds two types of its own, below.
 * Encoded: u8 type, u8 stream, then LEB128 varints: flags, payload length, and the
 * differences (zigzag) of sequence, time and offset against the event before,
 * then the payload. A context is the memory between events: all
 * zero at the start of a block, and all zero for each single message (so that a
 * message stands alone). The session id is not encoded; its surroundings know it.
 */
#ifndef RECORDER_FORMAT_EVENT_H
#define RECORDER_FORMAT_EVENT_H

#include "base/ring.h"

struct err;

enum event_type {
	EVENT_GAP = 64,     /* truncation left bytes out at `offset`; payload: struct event_gap, encoded */
	EVENT_MISSING = 65, /* the journal itself lacks bytes at `offset`; payload: u64 how many */
};

struct event_gap {
	uint64_t bytes;   /* left out */
	uint64_t last_ns; /* time and sequence of the last record that lost bytes */
	uint64_t last_seq;
	uint8_t rule;       /* enum conf_rule_kind */
	uint8_t sha256[32]; /* of the whole stream from 0 to the end of the gap */
};

struct event_context {
	uint64_t seq, boot_ns, offset[STREAM_COUNT]; /* offset: where the stream is expected to go on */
};

#define EVENT_HEADER_MAX 40
#define EVENT_GAP_SIZE   64

/* Writes the header (not the payload) and returns its size; moves the context on. */
size_t event_encode(struct event_context *c, const struct ring_record *rec, uint8_t out[EVENT_HEADER_MAX]);
/* Bytes used by header and payload, or ERR_CORRUPT / ERR_TOO_LARGE. out->payload points into p. Session is untouched.
 */
int event_decode(struct event_context *c, const uint8_t *p, size_t n, struct ring_record *out);
/* What an event adds to its stream: bytes of DATA, GAP and MISSING; 0 for others. */
uint64_t event_extent(const struct ring_record *rec);

void event_gap_encode(const struct event_gap *g, uint8_t out[EVENT_GAP_SIZE]);
int event_gap_decode(const struct ring_record *rec, struct event_gap *out); /* ERR_CORRUPT */
const char *event_type_name(unsigned type);                                 /* "data", "gap", ...; "unknown" */
const char *event_stream_name(unsigned stream);                             /* "input", "output", "stderr" */

#endif
