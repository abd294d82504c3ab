/* The drain at a start, and behind damage: where in the ring the log ended, and where reading goes on. */
#define LOG_SUBSYS "drain"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "recorder/write/drain_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int drain_reader_at(struct drain *d, uint64_t position, uint64_t seq, struct err *e)
{
	struct ring_reader *r;
	int rc = ring_reader_create(d->p.ring_fd, position, &r, e);
	if (rc)
		return rc;
	ring_reader_expect(r, seq);
	ring_reader_destroy(d->reader);
	d->reader = r;
	return 0;
}

/* Says in the log itself that something is wrong with what it was made from. */
static void own_event(struct drain *d, json_t *o)
{
	static const struct id nobody;
	char *text = o ? json_text(o) : NULL;
	if (!text || drain_append_own(d, RING_AUDIT, &nobody, text))
		log_error(NULL, "an audit event about the journal could not be stored");
	free(text);
	json_decref(o);
}

int drain_skip_damage(struct drain *d, const char *why)
{
	struct err e = {0};
	uint64_t from = ring_reader_position(d->reader), head = ring_reader_head(d->reader);

	log_error(NULL, "journal damaged at %" PRIu64 ", going on at its head %" PRIu64 ": %s", from, head, why);
	int rc = drain_reader_at(d, head, 0, &e);
	if (rc) {
		log_error(NULL, "%s", e.message);
		return rc;
	}
	drain_lock(d);
	d->restart_segment = true;
	d->seen.damages++;
	d->seen.damage_position = from;
	drain_unlock(d);
	own_event(d, json_pack("{s:s, s:s, s:s, s:I, s:I, s:s}", "event", "journal.damaged", "outcome", "error",
			       "principal", "recorder", "position", (json_int_t)from, "head", (json_int_t)head,
			       "detail", why));
	return 0;
}

/* Where to go on in a ring that the log has not seen yet. */
static uint64_t unknown_ring_start(struct drain *d, uint64_t head)
{
	struct ring_cursor c;
	if (head <= d->ring_size)
		return 0;
	/* The ring went round: only what an earlier recorder left behind as durable is a record's start. */
	if (ring_cursor_read(d->p.cursor_fd, &c) == 0 && c.durable <= head && head - c.durable <= d->ring_size)
		return c.durable;
	return head;
}

static int recover_ring(struct drain *d, struct segment_tail *tail, struct err *e)
{
	struct id ring, boot;
	int rc = drain_reader_at(d, 0, 0, e);
	if (rc)
		return rc;
	ring_reader_id(d->reader, &ring);
	d->ring_size = ring_reader_size(d->reader);
	uint64_t head = ring_reader_head(d->reader);
	if (id_parse(clock_boot_id(), &boot))
		memset(&boot, 0, sizeof(boot));

	bool same = tail->number && id_equal(&tail->ring, &ring) && id_equal(&tail->boot, &boot);
	if (!same) {
		tail->ring = ring;
		tail->boot = boot;
		tail->ring_pos = unknown_ring_start(d, head);
		tail->ring_seq = 0;
		d->restart_segment = true;
	}
	if ((rc = drain_reader_at(d, tail->ring_pos, tail->ring_seq, e)) != 0)
		return rc;
	/* Positions before the head that are gone, or behind it, are found by the first read and skipped there. */
	return 0;
}

static void tell_tear(struct drain *d, const struct segment_tear *tear)
{
	if (!tear->bytes && !tear->set_aside)
		return;
	log_warn(NULL, "segment %" PRIu64 " was torn at %" PRIu64 ": %" PRIu64 " bytes cut off%s", tear->number,
		 tear->offset, tear->bytes, tear->set_aside ? ", a copy was kept" : "");
	/* A plain tear is what a kill leaves; the ring has those records. The rest is worth an auditor's look. */
	if (tear->set_aside)
		own_event(d, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "event", "journal.torn", "outcome", "error",
				       "principal", "recorder", "segment", (json_int_t)tear->number, "offset",
				       (json_int_t)tear->offset, "bytes", (json_int_t)tear->bytes));
}

int drain_recover(struct drain *d, struct err *e)
{
	struct segment_tail tail;
	struct segment_tear tear;

	segment_log_used(d->log, d->p.min_segment);
	int rc = segment_log_recover(d->log, &tail, &tear, e);
	if (rc || (rc = recover_ring(d, &tail, e)) != 0)
		return rc;
	/* Who follows the log stands behind it: what comes next must not go where he has been. */
	if (tail.number < d->p.min_segment)
		d->restart_segment = true;
	if (tail.lsn <= d->p.min_lsn) {
		/* The index remembers more than the log holds: segments were lost. Their numbers are not given again.
		 */
		log_warn(NULL, "the segment log ends at %" PRIu64 ", the index at %" PRIu64, tail.lsn, d->p.min_lsn);
		tail.lsn = d->p.min_lsn + 1;
		d->restart_segment = true;
	}
	d->written = d->durable = tail;
	tell_tear(d, &tear);
	return 0;
}
