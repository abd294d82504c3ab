#define LOG_SUBSYS "drain"
#include "recorder/write/drain.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "recorder/write/drain_state.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ACTIVE_NS      (5 * NS_PER_MS)
#define IDLE_NS        (20 * NS_PER_MS)
#define ACTIVE_FOR_NS  (100 * NS_PER_MS)
#define COLLECT_NS     (5 * NS_PER_MS) /* so long before a sync the ring is looked at once more */
#define FLOOD          (64 * 1024)     /* bytes in one turn */
#define BATCH_CAPACITY (BATCH_MAX + 2 * RING_RECORD_SIZE_MAX)

static void batch_clear(struct batch *b)
{
	uint8_t *bytes = b->bytes;
	*b = (struct batch){.bytes = bytes};
}

static uint64_t batch_lsn(const struct drain *d)
{
	return d->written.lsn + d->batch.records;
}

static void apply_live(struct drain *d, const struct ring_record *rec, uint64_t lsn)
{
	int rc = live_apply(d->live, rec, lsn);
	if (rc)
		log_error(NULL, "the table of live sessions cannot take a record: %s", err_name(rc));
}

/* The hub cannot write in the recorder's name. */
static void batch_put_ring(struct drain *d, const struct ring_record *rec)
{
	struct batch *b = &d->batch;
	size_t size = ring_record_size(rec->len);
	if (rec->flags & RING_ORIGIN_RECORDER) {
		struct ring_record copy = *rec;
		copy.flags &= (uint16_t)~RING_ORIGIN_RECORDER;
		ring_record_encode(b->bytes + b->len, &copy, ring_reader_epoch(d->reader));
	} else {
		memcpy(b->bytes + b->len, rec->payload - RING_RECORD_HEADER, size);
	}
	apply_live(d, rec, batch_lsn(d));
	b->len += size;
	b->records++;
	b->ring_bytes += size;
	b->ring_seq = rec->seq + 1;
}

/* Lock held. Own records go behind what was taken from the ring. */
static void batch_put_own(struct drain *d)
{
	struct batch *b = &d->batch;
	while (d->own_staged < d->own_n && b->len + RING_RECORD_SIZE_MAX <= BATCH_CAPACITY) {
		struct own *o = &d->own[(d->own_first + d->own_staged) % OWN_MAX];
		struct ring_record rec = {.type = o->type,
					  .session = o->session,
					  .flags = RING_ORIGIN_RECORDER,
					  .seq = batch_lsn(d),
					  .boot_ns = clock_boot_ns(),
					  .len = (uint32_t)strlen(o->json),
					  .payload = (const uint8_t *)o->json};
		o->lsn = rec.seq;
		b->len += ring_record_encode(b->bytes + b->len, &rec, 0);
		apply_live(d, &rec, rec.seq);
		b->records++;
		b->own++;
		d->own_staged++;
	}
}

/* Fill the batch. A damaged ring ends it; the next one begins behind the damage, in a new segment. */
static void batch_fill(struct drain *d)
{
	struct ring_record rec;
	struct err e = {0};
	int rc = 0;

	while (d->batch.len < BATCH_MAX && (rc = ring_read(d->reader, &rec, &e)) == 1)
		batch_put_ring(d, &rec);
	if (rc < 0 && d->batch.records == 0)
		(void)drain_skip_damage(d, e.message);
	drain_lock(d);
	if (d->batch.ring_bytes)
		d->seen.last_record_ns = clock_boot_ns();
	batch_put_own(d);
	drain_unlock(d);
}

static void wait_clean(struct drain *d)
{
	drain_lock(d);
	while ((d->dirty_ns || d->syncing) && !d->broken) {
		d->hurry = true;
		pthread_cond_signal(&d->work);
		pthread_cond_wait(&d->moved, &d->lock);
	}
	drain_unlock(d);
}

static int begin_segment(struct drain *d, struct err *e)
{
	struct segment_tail tail;

	wait_clean(d);
	drain_lock(d);
	bool broken = d->broken;
	tail = d->written;
	drain_unlock(d);
	if (broken)
		return err_set(e, ERR_SYS, "the last sync failed");
	if (d->restart_segment) {
		tail.ring_pos = ring_reader_position(d->reader) - d->batch.ring_bytes;
		tail.ring_seq = 0;
	}
	int rc = segment_log_begin(d->log, &tail, e);
	if (rc)
		return rc;
	d->restart_segment = false;
	drain_lock(d);
	d->written = d->durable = tail;
	drain_publish(d);
	drain_unlock(d);
	return 0;
}

static bool space_is_low(struct drain *d)
{
	uint64_t now = clock_boot_ns(), left;
	if (d->space_checked_ns && now < d->space_checked_ns + FULL_RETRY_NS)
		return d->low_space;
	d->space_checked_ns = now;
	if (segment_log_free_bytes(d->log, &left) < 0)
		return d->low_space;
	drain_lock(d);
	d->seen.free_bytes = left;
	d->low_space = left < d->min_free;
	d->is_low = left < d->low_free;
	drain_unlock(d);
	return d->low_space;
}

static int batch_write(struct drain *d, struct err *e)
{
	struct batch *b = &d->batch;
	int rc = 0;

	if (space_is_low(d))
		return err_set(e, ERR_DISK_FULL, "less than record.min_free is left on the record's disk");
	if (d->restart_segment || segment_log_full(d->log, &d->written, b->len))
		rc = begin_segment(d, e);
	if (rc || (rc = segment_log_write(d->log, &d->written, b->bytes, b->len, e)) != 0)
		return rc;
	drain_lock(d);
	d->written.offset += b->len;
	d->written.lsn += b->records;
	d->written.ring_pos += b->ring_bytes;
	if (b->ring_seq)
		d->written.ring_seq = b->ring_seq;
	bool first = !d->dirty_ns;
	if (first)
		d->dirty_ns = clock_boot_ns();
	d->dirty_bytes += b->len;
	d->seen.bytes += b->len;
	if (first || d->dirty_bytes >= d->commit_bytes)
		pthread_cond_signal(&d->work);
	drain_unlock(d);
	batch_clear(b);
	return 0;
}

/* After a failed sync: back to what is durable, and read the rest from the ring again. */
static int rewind_to_durable(struct drain *d, struct err *e)
{
	drain_lock(d);
	struct segment_tail tail = d->durable;
	drain_unlock(d);
	int rc = segment_log_rewind(d->log, &tail, e);
	if (rc || (rc = drain_reader_at(d, tail.ring_pos, tail.ring_seq, e)) != 0)
		return rc;
	batch_clear(&d->batch);
	drain_lock(d);
	d->written = tail;
	d->own_staged = 0;
	d->dirty_ns = 0;
	d->dirty_bytes = 0;
	d->broken = false;
	drain_unlock(d);
	return 0;
}

static void turn_failed(struct drain *d, int rc, const struct err *e)
{
	bool full = rc == ERR_DISK_FULL;
	d->retry_ns = clock_boot_ns() + (full ? FULL_RETRY_NS : FAIL_RETRY_NS);
	drain_lock(d);
	drain_set_state(d, full ? RING_READER_DISK_FULL : RING_READER_FAILED, e->message);
	drain_publish(d);
	drain_unlock(d);
}

/* One turn: bytes moved, 0 = nothing to do, negative = could not. */
static ssize_t drain_turn(struct drain *d)
{
	struct err e = {0};
	int rc = 0;

	drain_lock(d);
	d->turn_ns = clock_boot_ns();
	bool broken = d->broken;
	drain_unlock(d);
	if (d->retry_ns && clock_boot_ns() < d->retry_ns)
		return 0;
	if (broken)
		rc = rewind_to_durable(d, &e);
	if (rc == 0 && d->batch.records == 0)
		batch_fill(d);
	size_t n = d->batch.len;
	if (rc == 0 && n)
		rc = batch_write(d, &e);
	if (rc == 0 && n == 0 && space_is_low(d))
		rc = err_set(&e, ERR_DISK_FULL, "less than record.min_free is left on the record's disk");
	if (rc) {
		turn_failed(d, rc, &e);
		return rc;
	}
	d->retry_ns = 0;
	drain_lock(d);
	if (!d->suspect && d->state != RING_READER_OK) {
		drain_set_state(d, RING_READER_OK, "");
		drain_publish(d);
	}
	drain_unlock(d);
	return (ssize_t)n;
}

/* All is durable: says that it rests, then looks once more. When to look again; UINT64_MAX: when the bell rings. */
static uint64_t say_rests(struct drain *d, uint64_t now)
{
	if (d->state != RING_READER_OK || d->own_n || d->stopping)
		return d->stopping ? now : now + ACTIVE_NS;
	d->rests = true;
	drain_publish(d);
	d->rests = ring_reader_head(d->reader) == ring_reader_position(d->reader);
	return d->rests ? UINT64_MAX : now;
}

/* Lock held. Likewise; a sync that is due or under way rings once it is over. */
static uint64_t next_look(struct drain *d, ssize_t moved, uint64_t now, uint64_t active_until)
{
	if (moved < 0 || d->retry_ns)
		return d->retry_ns > now ? d->retry_ns : now + ACTIVE_NS;
	if (!d->rung)
		return now + (now < active_until ? ACTIVE_NS : IDLE_NS);
	if (moved >= FLOOD || d->broken || d->own_n > d->own_staged)
		return now + ACTIVE_NS;
	if (d->dirty_ns && now + COLLECT_NS < d->dirty_ns + COMMIT_DELAY_NS)
		return d->dirty_ns + COMMIT_DELAY_NS - COLLECT_NS;
	return d->dirty_ns || d->syncing ? UINT64_MAX : say_rests(d, now);
}

static int wait_ms(uint64_t now, uint64_t until)
{
	return until == UINT64_MAX ? -1 : until > now ? (int)((until - now + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

/* At once when the last turn was a full one. */
static void drain_sleep(struct drain *d, ssize_t moved, uint64_t active_until)
{
	struct pollfd bell = {.fd = d->bell_fd, .events = POLLIN};
	uint64_t now = clock_boot_ns(), until;

	if (moved >= (ssize_t)(BATCH_MAX / 2) || moved >= (ssize_t)(d->ring_size / 4))
		return;
	if (moved == 0 && d->was_rung) /* for nothing: who rings on and on gets a look each 5 ms */
		nanosleep(&(struct timespec){.tv_nsec = ACTIVE_NS}, NULL);
	drain_lock(d);
	until = next_look(d, moved, now, active_until);
	d->idle = true;
	d->turn_ns = 0; /* who waits does not hang */
	drain_unlock(d);
	d->was_rung = poll(&bell, 1, wait_ms(now, until)) > 0;
	if (d->was_rung)
		bell_answer(d->bell_fd);
	drain_lock(d);
	d->idle = d->rests = false;
	drain_unlock(d);
}

static void *drain_main(void *arg)
{
	struct drain *d = arg;
	uint64_t active_until = 0;
	for (;;) {
		drain_lock(d);
		bool stopping = d->stopping;
		drain_unlock(d);
		ssize_t moved = drain_turn(d);
		if (stopping && (moved < 0 || (moved == 0 && !d->batch.len)))
			break;
		if (moved > 0)
			active_until = clock_boot_ns() + ACTIVE_FOR_NS;
		drain_sleep(d, moved, active_until);
	}
	return NULL;
}

static void cond_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

static int thread_begin(struct drain *d, pthread_t *t, bool *runs, void *(*fn)(void *), struct err *e)
{
	int en = pthread_create(t, NULL, fn, d);
	if (en)
		return err_sys(e, en, "cannot start a thread");
	*runs = true;
	return 0;
}

int drain_create(const struct drain_params *p, struct live *live, struct drain **out, struct err *e)
{
	struct drain *d = calloc(1, sizeof(*d));
	if (!d || !(d->batch.bytes = malloc(BATCH_CAPACITY))) {
		free(d);
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	d->p = *p;
	d->live = live;
	d->min_free = p->min_free;
	d->low_free = p->low_free;
	pthread_mutex_init(&d->lock, NULL);
	cond_init(&d->work);
	cond_init(&d->moved);
	cond_init(&d->pulse);
	d->rung = p->bell_fd > 0;
	d->bell_fd = p->bell_fd;
	int rc = d->rung ? 0 : bell_create(&d->bell_fd, e);
	if (rc == 0 && (rc = segment_log_create(p->dir_fd, p->segment_size, p->io, &d->log)) != 0)
		err_set(e, rc, "out of memory");
	if (rc == 0)
		rc = drain_recover(d, e);
	if (rc) {
		drain_destroy(d);
		return rc;
	}
	d->commit_bytes = d->ring_size / 4 < COMMIT_BYTES ? d->ring_size / 4 : COMMIT_BYTES;
	rc = thread_begin(d, &d->pulse_thread, &d->pulse_runs, drain_pulse_main, e);
	if (rc) {
		drain_destroy(d);
		return rc;
	}
	*out = d;
	return 0;
}

int drain_start(struct drain *d, struct err *e)
{
	drain_lock(d);
	d->turn_ns = clock_boot_ns();
	drain_unlock(d);
	int rc = thread_begin(d, &d->commit_thread, &d->commit_runs, drain_commit_main, e);
	if (rc == 0)
		rc = thread_begin(d, &d->drain_thread, &d->drain_runs, drain_main, e);
	return rc;
}

void drain_stop(struct drain *d)
{
	if (d->drain_runs) {
		drain_lock(d);
		d->stopping = true;
		bell_ring(d->bell_fd);
		drain_unlock(d);
		pthread_join(d->drain_thread, NULL);
		d->drain_runs = false;
		drain_lock(d);
		d->turn_ns = 0;
		drain_unlock(d);
	}
	if (d->commit_runs) {
		drain_lock(d);
		d->commit_ends = true;
		pthread_cond_broadcast(&d->work);
		drain_unlock(d);
		pthread_join(d->commit_thread, NULL);
		d->commit_runs = false;
	}
	if (d->pulse_runs) {
		drain_lock(d);
		d->pulse_ends = true;
		pthread_cond_signal(&d->pulse);
		drain_unlock(d);
		pthread_join(d->pulse_thread, NULL);
		d->pulse_runs = false;
		d->state = RING_READER_STARTING;
		drain_publish(d);
	}
}

void drain_destroy(struct drain *d)
{
	if (!d)
		return;
	drain_stop(d);
	for (size_t i = 0; i < d->own_n; i++)
		free(d->own[(d->own_first + i) % OWN_MAX].json);
	ring_reader_destroy(d->reader);
	segment_log_destroy(d->log);
	pthread_cond_destroy(&d->work);
	pthread_cond_destroy(&d->moved);
	pthread_cond_destroy(&d->pulse);
	if (!d->rung && d->bell_fd > 0)
		close(d->bell_fd);
	pthread_mutex_destroy(&d->lock);
	free(d->batch.bytes);
	free(d);
}
