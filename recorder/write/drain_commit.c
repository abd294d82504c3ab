/* The drain's threads that commit and that keep its pulse: what was drained is made durable, and its state is told
 * while it rests.
 */
#define LOG_SUBSYS "drain"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "recorder/write/drain_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char *const state_names[] = {"starting", "ok", "disk_full", "failed"};

void drain_lock(struct drain *d)
{
	pthread_mutex_lock(&d->lock);
}

void drain_unlock(struct drain *d)
{
	pthread_mutex_unlock(&d->lock);
}

void drain_set_state(struct drain *d, enum ring_reader_state state, const char *why)
{
	if (d->state == state)
		return;
	log_debug(NULL, "state %s -> %s", state_names[d->state], state_names[state]);
	if (state == RING_READER_OK) {
		d->seen.recoveries++;
		log_info(NULL, "the record is written");
	} else {
		log_warn(NULL, "the record is not written (%s): %s", state_names[state], why);
	}
	d->state = state;
	text_put(d->seen.message, sizeof(d->seen.message), state == RING_READER_OK ? "" : why);
	pthread_cond_broadcast(&d->moved);
}

/* The conditions run on CLOCK_MONOTONIC; callers think in CLOCK_BOOTTIME. */
void drain_wait_until(struct drain *d, pthread_cond_t *cond, uint64_t boot_ns)
{
	struct timespec ts;
	uint64_t now = clock_boot_ns();
	uint64_t wait = boot_ns > now ? boot_ns - now : 0;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	uint64_t until = (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec + wait;
	ts.tv_sec = (time_t)(until / NS_PER_SEC);
	ts.tv_nsec = (long)(until % NS_PER_SEC);
	pthread_cond_timedwait(cond, &d->lock, &ts);
}

/* A thread that hangs in the disk cannot say so itself. */
static enum ring_reader_state effective_state(const struct drain *d, uint64_t now)
{
	bool sync_hangs = d->sync_since_ns && now > d->sync_since_ns + HUNG_NS;
	bool turn_hangs = d->turn_ns && now > d->turn_ns + HUNG_NS;
	return sync_hangs || turn_hangs ? RING_READER_FAILED : d->state;
}

void drain_publish(struct drain *d)
{
	uint64_t now = clock_boot_ns();
	struct ring_cursor c = {
	    .durable = d->durable.ring_pos,
	    .durable_seq = d->durable.ring_seq ? d->durable.ring_seq - 1 : 0,
	    .heartbeat_ns = now,
	    .state = effective_state(d, now),
	    .reader_pid = (uint32_t)getpid(),
	    .flags = d->flags | (d->rests ? RING_CURSOR_RESTS : 0) | (d->is_low ? RING_CURSOR_LOW : 0),
	};
	bool news = c.durable != d->told.durable || c.state != d->told.state || c.flags != d->told.flags;

	if (ring_cursor_write(d->p.cursor_fd, &c))
		drain_set_state(d, RING_READER_FAILED, "the cursor cannot be written");
	if (news && d->p.moved_fd > 0)
		bell_ring(d->p.moved_fd);
	d->told = c;
}

/* Nothing was written since the sync began: `drain` need not be woken to say so. */
static bool may_rest(const struct drain *d)
{
	return d->rung && d->idle && !d->dirty_ns && d->state == RING_READER_OK && !d->stopping && !d->own_n;
}

/* Something may have come into the ring before the cursor said that it has to ring. */
static void look_once_more(struct drain *d)
{
	uint64_t head;

	if (d->rests && (ring_head_read(d->p.ring_fd, &head) || head != d->durable.ring_pos)) {
		d->rests = false;
		bell_ring(d->bell_fd);
	}
}

void drain_drop_own(struct drain *d)
{
	while (d->own_staged && d->own[d->own_first].lsn < d->durable.lsn) {
		free(d->own[d->own_first].json);
		d->own[d->own_first].json = NULL;
		d->own_first = (d->own_first + 1) % OWN_MAX;
		d->own_n--;
		d->own_staged--;
		d->own_stored++;
	}
}

static bool commit_due(const struct drain *d, uint64_t now)
{
	if (!d->dirty_ns || d->broken)
		return false;
	return d->hurry || d->commit_ends || d->dirty_bytes >= d->commit_bytes || now >= d->dirty_ns + COMMIT_DELAY_NS;
}

/* Lock held; released around the sync. */
static void commit_once(struct drain *d)
{
	struct segment_tail target = d->written;
	struct err e = {0};

	d->dirty_ns = 0;
	d->dirty_bytes = 0;
	d->hurry = false;
	d->syncing = true;
	d->sync_since_ns = clock_boot_ns();
	drain_unlock(d);
	int rc = segment_log_sync(d->log, &e);
	drain_lock(d);
	d->syncing = false;
	d->sync_since_ns = 0;
	if (rc) {
		/* What the kernel holds of the file can no longer be trusted: the drain writes it again. */
		d->broken = d->suspect = true;
		bell_ring(d->bell_fd);
		drain_set_state(d, rc == ERR_DISK_FULL ? RING_READER_DISK_FULL : RING_READER_FAILED, e.message);
	} else {
		d->durable = target;
		if (d->suspect)
			drain_set_state(d, RING_READER_OK, "");
		d->suspect = false;
		d->seen.commits++;
		d->seen.last_commit_ns = clock_boot_ns();
		drain_drop_own(d);
		d->rests = may_rest(d);
		if (!d->rests)
			bell_ring(d->bell_fd); /* for it to see whether it may */
	}
	drain_publish(d);
	look_once_more(d);
	pthread_cond_broadcast(&d->moved);
}

void *drain_commit_main(void *arg)
{
	struct drain *d = arg;
	drain_lock(d);
	for (;;) {
		uint64_t now = clock_boot_ns();
		if (commit_due(d, now))
			commit_once(d);
		else if (d->commit_ends && (!d->dirty_ns || d->broken))
			break;
		else if (d->dirty_ns && !d->broken)
			drain_wait_until(d, &d->work, d->dirty_ns + COMMIT_DELAY_NS);
		else
			pthread_cond_wait(&d->work, &d->lock);
	}
	drain_unlock(d);
	return NULL;
}

static uint64_t pulse_pause(const struct drain *d, uint64_t now)
{
	uint64_t since = d->sync_since_ns ? d->sync_since_ns : d->turn_ns;

	return d->rung && (!since || now < since + 2 * PULSE_ANXIOUS) ? clock_to_tick_ns(PULSE_NS) : PULSE_ANXIOUS;
}

/* A resting drain hears neither of a disk that others fill nor of a writer that died before it rang. */
static void pulse_look_around(struct drain *d)
{
	uint64_t left;

	look_once_more(d);
	if (!d->rests || d->p.io->free_bytes(d->p.dir_fd, &left))
		return;
	d->is_low = left < d->low_free;
	if (left < d->min_free)
		bell_ring(d->bell_fd);
}

void *drain_pulse_main(void *arg)
{
	struct drain *d = arg;
	drain_lock(d);
	while (!d->pulse_ends) {
		pulse_look_around(d);
		drain_publish(d);
		uint64_t now = clock_boot_ns();
		drain_wait_until(d, &d->pulse, now + pulse_pause(d, now));
	}
	drain_unlock(d);
	return NULL;
}
