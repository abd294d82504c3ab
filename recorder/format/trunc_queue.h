/*
 * trunc_queue.h - what waits in a trunc, and its state as bytes. Private to trunc*.c.
 *
 * One queue in the order of the journal. HELD items are bytes that may still be
 * left out, linked a second time per stream; PASS items wait behind them; a GAP
 * item stands where its stream's first byte was left out.
 */
#ifndef RECORDER_FORMAT_TRUNC_QUEUE_H
#define RECORDER_FORMAT_TRUNC_QUEUE_H

#include "recorder/chain/digest.h"
#include "recorder/format/event.h"
#include "recorder/format/trunc.h"

#include <sys/queue.h>

enum trunc_kind { TRUNC_PASS, TRUNC_HELD, TRUNC_GAP };
enum trunc_direction { TRUNC_NO_DIRECTION, TRUNC_IN, TRUNC_OUT };

struct trunc_item {
	TAILQ_ENTRY(trunc_item) all;
	TAILQ_ENTRY(trunc_item) same; /* HELD only */
	enum trunc_kind kind;
	uint32_t skip;          /* bytes at the front that were left out */
	struct ring_record rec; /* payload: data[] */
	uint8_t data[];
};
TAILQ_HEAD(trunc_items, trunc_item);

struct trunc_stream {
	uint64_t expected;  /* offset of the next byte */
	uint64_t head_left; /* of the budget */
	uint64_t kept, omitted, missing;
	struct digest digest; /* of the bytes that were decided on */
	struct trunc_items held;
	uint64_t held_bytes;
	size_t held_items;
	struct trunc_item *gap_item; /* NULL: none open */
	struct event_gap gap;
};

struct trunc {
	struct trunc_rule rule;
	trunc_emit *emit;
	void *arg;
	enum trunc_direction direction;
	struct trunc_items queue;
	uint64_t pass_bytes;
	size_t pass_items;
	struct trunc_stream streams[STREAM_COUNT];
};

/* Copies the record to the end of the queue. NULL: no memory. */
struct trunc_item *trunc_queue_add(struct trunc *t, enum trunc_kind kind, const struct ring_record *rec);
/* A gap item in front of `before`, the first record that loses bytes. */
struct trunc_item *trunc_queue_gap(struct trunc_item *before);
void trunc_queue_remove(struct trunc *t, struct trunc_item *it);
void trunc_queue_clear(struct trunc *t);

#endif
