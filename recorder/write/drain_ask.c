/* The questions and wishes of other threads to the drain: its state, a flush, an event of the recorder's own. */
#include "base/clock.h"
#include "base/err.h"
#include "recorder/write/drain_state.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

void drain_configure(struct drain *d, uint64_t min_free, uint64_t low_free)
{
	drain_lock(d);
	d->min_free = min_free;
	d->low_free = low_free;
	drain_unlock(d);
}

void drain_set_flags(struct drain *d, uint32_t flags)
{
	drain_lock(d);
	bool news = d->flags != flags;
	d->flags = flags;
	if (news)
		drain_publish(d);
	drain_unlock(d);
}

/* The head as it is in the file now; 0 when it cannot be read. */
static uint64_t ring_head_now(const struct drain *d)
{
	uint64_t head;
	return ring_head_read(d->p.ring_fd, &head) || head == UINT64_MAX ? 0 : head;
}

void drain_status(struct drain *d, struct drain_status *out)
{
	uint64_t head = ring_head_now(d);
	drain_lock(d);
	*out = d->seen;
	out->state = d->state;
	out->durable = d->durable;
	out->ring_head = head;
	out->ring_size = d->ring_size;
	out->backlog = head > d->durable.ring_pos ? head - d->durable.ring_pos : 0;
	drain_unlock(d);
}

void drain_durable(struct drain *d, struct segment_tail *out)
{
	drain_lock(d);
	*out = d->durable;
	drain_unlock(d);
}

uint64_t drain_wait(struct drain *d, uint64_t lsn, uint64_t timeout_ns, const atomic_bool *stop)
{
	uint64_t until = clock_boot_ns() + timeout_ns;
	drain_lock(d);
	while (d->durable.lsn <= lsn && clock_boot_ns() < until && !(stop && atomic_load(stop)))
		drain_wait_until(d, &d->moved, until);
	uint64_t now = d->durable.lsn;
	drain_unlock(d);
	return now;
}

void drain_nudge(struct drain *d)
{
	drain_lock(d);
	pthread_cond_broadcast(&d->moved);
	drain_unlock(d);
}

int drain_flush(struct drain *d, uint64_t timeout_ns, uint64_t *out_lsn)
{
	uint64_t until = clock_boot_ns() + timeout_ns, head = ring_head_now(d);
	int rc = 0;

	drain_lock(d);
	uint64_t own = d->own_taken;
	while (rc == 0 && (d->durable.ring_pos < head || d->own_stored < own)) {
		d->hurry = true;
		bell_ring(d->bell_fd);
		pthread_cond_signal(&d->work);
		drain_wait_until(d, &d->moved, clock_boot_ns() + 20 * NS_PER_MS);
		if (clock_boot_ns() >= until)
			rc = ERR_TIMEOUT;
	}
	if (rc == 0)
		*out_lsn = d->durable.lsn;
	drain_unlock(d);
	return rc;
}

int drain_append_own(struct drain *d, uint8_t type, const struct id *session, const char *json)
{
	if (strlen(json) > RING_RECORD_MAX)
		return ERR_TOO_LARGE;
	char *copy = strdup(json);
	if (!copy)
		return ERR_NOMEM;
	drain_lock(d);
	int rc = d->own_n < OWN_MAX ? 0 : ERR_LIMIT;
	if (rc == 0) {
		d->own[(d->own_first + d->own_n++) % OWN_MAX] =
		    (struct own){.type = type, .session = *session, .json = copy};
		d->own_taken++;
	}
	bell_ring(d->bell_fd);
	drain_unlock(d);
	if (rc)
		free(copy);
	return rc;
}

int drain_audit(struct drain *d, const struct id *session, json_t *event)
{
	static const struct id nobody;
	char *text = event ? json_text(event) : NULL;
	int rc = text ? drain_append_own(d, RING_AUDIT, session ? session : &nobody, text) : ERR_NOMEM;

	free(text);
	json_decref(event);
	return rc;
}

/* Apply what the ring holds behind `from`. Records that the table has seen already change nothing. */
static int live_catch_up(struct drain *d, struct live *l, const struct segment_tail *from, struct err *e)
{
	struct ring_record rec;
	struct ring_reader *r;
	int rc = ring_reader_create(d->p.ring_fd, from->ring_pos, &r, e);
	if (rc)
		return rc;
	ring_reader_expect(r, from->ring_seq);
	uint64_t head = ring_reader_head(r);
	while (ring_reader_position(r) < head && (rc = ring_read(r, &rec, e)) == 1) {
		if ((rc = live_apply(l, &rec, UINT64_MAX)) != 0)
			break;
	}
	ring_reader_destroy(r);
	return rc < 0 ? rc : 0;
}

int drain_live_now(struct drain *d, struct live **out, struct err *e)
{
	struct segment_tail from, after;
	struct live *l = NULL;
	int rc;

	for (int tries = 0;; tries++) {
		drain_durable(d, &from);
		rc = live_copy(d->live, &l);
		if (rc)
			return err_set(e, rc, "out of memory");
		rc = live_catch_up(d, l, &from, e);
		drain_durable(d, &after);
		/* A writer that is at work may take the space of what became durable meanwhile. */
		if (rc != ERR_CORRUPT || after.ring_pos == from.ring_pos || tries == 3)
			break;
		live_destroy(l);
	}
	/* Behind damage nothing is known; the drain tells about it and skips it. */
	if (rc && rc != ERR_CORRUPT) {
		live_destroy(l);
		return rc;
	}
	*out = l;
	return 0;
}
