/*
 * drain_state.h - what the drain's threads share. Private to drain*.c.
 *
 * `lock` guards everything below it; the fields above belong to the drain thread
 * (or to the creator before the threads run).
 */
#ifndef RECORDER_WRITE_DRAIN_STATE_H
#define RECORDER_WRITE_DRAIN_STATE_H

#include "base/ring_record.h"
#include "recorder/write/drain.h"

#include <pthread.h>

#define BATCH_MAX       ((size_t)1024 * 1024)
#define OWN_MAX         1024
#define COMMIT_DELAY_NS (40 * NS_PER_MS) /* leaves the sync its part of the 50 ms */
#define COMMIT_BYTES    (8 * 1024 * 1024)
#define HUNG_NS         (5 * NS_PER_SEC)
#define FULL_RETRY_NS   (200 * NS_PER_MS)
#define FAIL_RETRY_NS   (1 * NS_PER_SEC)
#define PULSE_NS        (1 * NS_PER_SEC)
#define PULSE_ANXIOUS   (50 * NS_PER_MS) /* while a write or a sync takes long, and where nobody rings */

/* Records on their way from the ring to the segment; kept when a write fails. */
struct batch {
	uint8_t *bytes;
	size_t len;
	uint64_t records;
	uint64_t ring_bytes;
	uint64_t ring_seq; /* next */
	size_t own;        /* of the own records, how many are in it */
};

struct own {
	uint8_t type;
	struct id session;
	char *json;
	uint64_t lsn; /* once staged */
};

struct drain {
	struct drain_params p;
	struct live *live;
	struct ring_reader *reader;
	struct segment_log *log;
	struct batch batch;
	uint64_t ring_size;
	uint64_t commit_bytes;
	uint64_t retry_ns; /* not before this */
	uint64_t space_checked_ns;
	bool low_space;
	bool is_low;          /* less than low_free, under the lock */
	bool rung;            /* the writer rings; else the ring is looked at again and again */
	bool was_rung;        /* the last wait ended by the bell */
	int bell_fd;          /* answered by `drain`; rung by the writer, and by the others here */
	bool restart_segment; /* a jump in the ring: the next batch begins a segment */

	pthread_t drain_thread, commit_thread, pulse_thread;
	bool drain_runs, commit_runs, pulse_runs;

	pthread_mutex_t lock;
	pthread_cond_t work;  /* for `commit` */
	pthread_cond_t moved; /* durable moved, a sync ended, or the state changed */
	pthread_cond_t pulse; /* for `pulse`, at the end */
	struct segment_tail written, durable;
	uint64_t dirty_ns; /* first uncommitted record; 0 = clean */
	uint64_t dirty_bytes;
	bool hurry; /* for `commit`: do not wait for the delay */
	bool rests; /* `drain` waits for the bell alone, and the cursor says so */
	bool idle;  /* `drain` waits, for the bell or its time */
	bool syncing;
	bool broken;  /* a sync failed: rewind before anything else */
	bool suspect; /* no sync has succeeded since one failed */
	bool stopping, commit_ends, pulse_ends;
	uint64_t sync_since_ns, turn_ns; /* turn: last turn of the drain's loop; 0 = it does not run */
	enum ring_reader_state state;
	struct own
	    own[OWN_MAX]; /* [own_first .. own_first + own_n), the first own_staged are in the batch or the log */
	size_t own_first, own_n, own_staged;
	uint64_t own_taken, own_stored; /* since the start: queued, durable */
	struct drain_status seen;       /* the counters */
	uint64_t min_free, low_free;
	uint32_t flags;          /* of the cursor */
	struct ring_cursor told; /* the cursor as the writer was rung for it last */
};

void drain_lock(struct drain *d);
void drain_unlock(struct drain *d);
/* Called with the lock held. */
void drain_set_state(struct drain *d, enum ring_reader_state state, const char *why);
void drain_publish(struct drain *d);
void drain_wait_until(struct drain *d, pthread_cond_t *cond, uint64_t boot_ns);
void drain_drop_own(struct drain *d); /* those that are durable */

/* drain_recover.c */
int drain_recover(struct drain *d, struct err *e);
/* Skip to the ring's head after damage; says so in the log. */
int drain_skip_damage(struct drain *d, const char *why);
/* drain_commit.c */
void *drain_commit_main(void *arg);
void *drain_pulse_main(void *arg);
int drain_reader_at(struct drain *d, uint64_t position, uint64_t seq, struct err *e);

#endif
