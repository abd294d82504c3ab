/*
 * journal.h - the hub's pen: the only writer of the ring.
 *
 * Owned by the hub. It knows how far the record is durable, whether the
 * recorder is alive and able, and how much of the ring each session holds. It
 * reads the cursor when the recorder rings, and each second for its heartbeat
 * (without bells by the clock alone, fast while something is not durable), and
 * tells the hub through `moved` and `state`.
 */
#ifndef MUXD_HUB_CORE_JOURNAL_H
#define MUXD_HUB_CORE_JOURNAL_H

#include "base/ring.h"
#include "muxd/hub/core/hub.h"

struct journal;

struct journal_ops {
	void (*moved)(void *arg, uint64_t durable); /* more is durable, or room came free */
	void (*state)(void *arg, enum hub_record_state now, enum hub_record_state before);
};

/* A session's part of the ring that is not durable yet. A value inside the session. */
struct journal_share {
	uint64_t mark; /* position: once durable, `old` is free */
	uint64_t old, fresh;
};

struct journal_fds {
	int ring, cursor;
	int bell, moved; /* base/ring.h; 0: none */
};

/* Takes all descriptors (dup'ed; the caller keeps its own). */
int journal_create(struct uv_loop_s *loop, const struct journal_fds *fds, const struct journal_ops *ops, void *arg,
		   struct journal **out, struct err *e);
void journal_destroy(struct journal *j);
void journal_refresh(struct journal *j); /* look at the cursor now, not at the next tick */

/* Where bytes of a stream belong. keys: somebody types them, so they may use the ring's reserve. */
struct journal_data {
	struct id session;
	int stream;
	uint64_t offset;
	uint16_t flags;
	bool keys;
	struct journal_share *also; /* what its session has in common with others; NULL: nothing */
};
/* Bytes of a stream. ERR_AGAIN: the ring or the session's quarter of it, or that in common, is full, wait for `moved`.
 */
int journal_data(struct journal *j, const struct journal_data *d, struct journal_share *share, const void *p, size_t n);
/*
 * Control records, from the ring's reserve: JSON (borrowed), or plain bytes. Of JSON, parts of which may be a sandbox's
 * own, what is nested deeper than JSON_STORED_DEPTH levels is left out: no reader of the record would take it.
 */
int journal_json(struct journal *j, enum ring_type type, const struct id *session, const json_t *o);
int journal_bytes(struct journal *j, enum ring_type type, const struct id *session, const void *p, size_t n);
/*
 * The records of one thing: from here on all of them go in by journal_let(), or, after a kill, none. keep false: none.
 */
void journal_hold(struct journal *j);
void journal_let(struct journal *j, bool keep);
/* For an end and the event that tells of it, of usual size: what is said of one thing goes in together, or waits. */
bool journal_takes_end(const struct journal *j);

/*
 * Bytes that were journaled, read back: of the record that was appended at position `at` with these data, from byte
 * skip of it on. Returns the count, ERR_NOT_FOUND: they are in the ring no more (base/ring.h, ring_recall()).
 */
ssize_t journal_recall(const struct journal *j, uint64_t at, const struct journal_data *d, size_t skip, void *to,
		       size_t max);
uint64_t journal_position(const struct journal *j); /* end of the last record */
uint64_t journal_durable(const struct journal *j);
enum hub_record_state journal_state(const struct journal *j);
uint32_t journal_flags(const struct journal *j); /* RING_CURSOR_*, as the recorder last said */
void journal_stats(const struct journal *j, struct hub_stats *out);

#endif
