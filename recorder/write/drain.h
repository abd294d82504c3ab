/*
 * drain.h - the live path of the recorder: ring -> segment log -> fdatasync -> cursor.
 *
 * Three threads, owned here. `drain` copies records from the ring to the newest
 * segment; `commit` syncs it, at most 50 ms after the first uncommitted record or
 * at 8 MiB, and publishes the cursor; `pulse` keeps the heartbeat going beside
 * them, so that a slow disk is not taken for death, and says FAILED once a write
 * or a sync has hung for 5 s.
 *
 * The first record rings the bell (base/ring.h). From then on `drain` looks again
 * each 5 ms while much comes; while little comes once more just before the sync,
 * which takes that along. When all is durable and nothing came meanwhile it rests.
 * With nothing to do there is one wake-up a second, the pulse's.
 *
 * States are those of the cursor (enum ring_reader_state): STARTING -> OK;
 * OK <-> DISK_FULL (ENOSPC, or less than min_free: tried again each 200 ms, the
 * ring keeps everything); OK -> FAILED (EIO: the segment is cut back to what is
 * durable and read again from the ring, once a second, until it works).
 *
 * Everybody else sees the log up to `durable` only.
 */
#ifndef RECORDER_WRITE_DRAIN_H
#define RECORDER_WRITE_DRAIN_H

#include "base/json.h"
#include "recorder/write/live.h"
#include "recorder/write/segment_log.h"

#include <stdatomic.h>

struct drain;

struct drain_params {
	int ring_fd, cursor_fd, dir_fd; /* stay the caller's */
	int bell_fd, moved_fd;          /* likewise; -1 or 0: nobody rings, the ring is looked at each 5 to 20 ms */
	uint64_t segment_size, min_free;
	uint64_t low_free;    /* below it RING_CURSOR_LOW is told */
	uint64_t min_lsn;     /* the log must go on above this (what the index has seen) */
	uint64_t min_segment; /* where the index stands; when lost, what is new gets higher numbers */
	const struct segment_io *io;
};

struct drain_status {
	enum ring_reader_state state;
	struct segment_tail durable;
	uint64_t ring_head, ring_size;
	uint64_t backlog;        /* bytes in the ring that are not durable */
	uint64_t last_commit_ns; /* CLOCK_BOOTTIME */
	uint64_t last_record_ns; /* when the hub last journaled something */
	uint64_t free_bytes;
	uint64_t commits, bytes; /* since the start */
	uint64_t recoveries;     /* times that it became OK after it was not */
	uint64_t damages;        /* places in the ring that had to be skipped */
	uint64_t damage_position;
	char message[400]; /* why it is not OK */
};

/* Finds the log's end and the place in the ring that follows it; publishes the cursor; starts `pulse`. */
int drain_create(const struct drain_params *p, struct live *live, struct drain **out, struct err *e);
int drain_start(struct drain *d, struct err *e);
/* Drains what the ring holds, commits, ends the threads. */
void drain_stop(struct drain *d);
void drain_destroy(struct drain *d);
void drain_configure(struct drain *d, uint64_t min_free, uint64_t low_free);

/* RING_CURSOR_*. */
void drain_set_flags(struct drain *d, uint32_t flags);

void drain_status(struct drain *d, struct drain_status *out);
void drain_durable(struct drain *d, struct segment_tail *out);
/* Until the durable lsn passes `lsn`, *stop is set and drain_nudge() called, or timeout. Returns the durable lsn (of
 * the next record). stop: NULL for none. */
uint64_t drain_wait(struct drain *d, uint64_t lsn, uint64_t timeout_ns, const atomic_bool *stop);
void drain_nudge(struct drain *d);
/* Everything that was journaled before now is durable: 0, ERR_TIMEOUT. *out_lsn: the durable lsn. */
int drain_flush(struct drain *d, uint64_t timeout_ns, uint64_t *out_lsn);
/* A record of the recorder's own, behind what is in the log. Copied. ERR_LIMIT when too many wait. */
int drain_append_own(struct drain *d, uint8_t type, const struct id *session, const char *json);
/* An audit event, a reference of which is taken; session: NULL when it is about none. event NULL: ERR_NOMEM. */
int drain_audit(struct drain *d, const struct id *session, json_t *event);
/* The live table as of the ring's head at this moment; a copy. */
int drain_live_now(struct drain *d, struct live **out, struct err *e);

#endif
