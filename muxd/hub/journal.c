#define LOG_SUBSYS "journal"
#include "muxd/hub/journal.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define TICK_BUSY_MS    5
#define TICK_IDLE_MS    100
#define SILENT_NS       (5 * NS_PER_SEC)
#define CLOCK_ANCHOR_NS (60 * NS_PER_SEC)
#define CLOCK_JUMP_NS   INT64_C(500000000)

struct journal {
	struct ring_writer *ring;
	uv_timer_t *timer;
	const struct journal_ops *ops;
	void *arg;
	struct ring_cursor cursor;
	enum hub_record_state state;
	unsigned tick_ms;
	uint64_t stalls;
	uint64_t anchor_boot_ns; /* last wall clock anchor */
	int64_t anchor_wall_ns;
};

static void journal_on_tick(uv_timer_t *t);

static void set_tick(struct journal *j, unsigned ms)
{
	if (j->tick_ms == ms)
		return;
	j->tick_ms = ms;
	uv_timer_start(j->timer, journal_on_tick, ms, ms);
}

static enum hub_record_state journal_judge(const struct journal *j, uint64_t now)
{
	const struct ring_cursor *c = &j->cursor;

	if (c->state == RING_READER_STARTING)
		return RECORD_STARTING;
	if (now > c->heartbeat_ns && now - c->heartbeat_ns > SILENT_NS)
		return RECORD_SILENT;
	if (c->state == RING_READER_DISK_FULL)
		return RECORD_DISK_FULL;
	return c->state == RING_READER_OK ? RECORD_OK : RECORD_FAILED;
}

static void journal_set_state(struct journal *j, enum hub_record_state s)
{
	enum hub_record_state before = j->state;

	if (s == before)
		return;
	log_info(NULL, "record: %s -> %s", hub_record_state_name(before), hub_record_state_name(s));
	j->state = s;
	j->ops->state(j->arg, s, before);
}

static void write_anchor(struct journal *j, uint64_t boot, int64_t wall)
{
	json_t *o = json_pack("{s:I,s:s}", "wall_ns", (json_int_t)wall, "boot_id", clock_boot_id());

	if (o && journal_json(j, RING_CLOCK, NULL, o) == 0) {
		j->anchor_boot_ns = boot;
		j->anchor_wall_ns = wall;
	}
	json_decref(o);
}

/* Wall time is tied to CLOCK_BOOTTIME at the start, each minute, and whenever it jumped. */
static void anchor(struct journal *j)
{
	uint64_t boot = clock_boot_ns();
	int64_t wall = clock_wall_ns();
	int64_t expected = j->anchor_wall_ns + (int64_t)(boot - j->anchor_boot_ns);
	int64_t jump = wall > expected ? wall - expected : expected - wall;

	if (boot - j->anchor_boot_ns >= CLOCK_ANCHOR_NS || jump > CLOCK_JUMP_NS)
		write_anchor(j, boot, wall);
}

static void journal_on_tick(uv_timer_t *t)
{
	struct journal *j = t->data;
	uint64_t before = j->cursor.durable;

	(void)ring_writer_refresh(j->ring, &j->cursor); /* a torn read leaves the old one; the next tick reads again */
	anchor(j);
	set_tick(j, j->cursor.durable < ring_head(j->ring) ? TICK_BUSY_MS : TICK_IDLE_MS);
	journal_set_state(j, journal_judge(j, clock_boot_ns()));
	if (j->cursor.durable != before)
		j->ops->moved(j->arg, j->cursor.durable);
}

void journal_refresh(struct journal *j)
{
	journal_on_tick(j->timer);
}

int journal_create(struct uv_loop_s *loop, int ring_fd, int cursor_fd, const struct journal_ops *ops, void *arg,
		   struct journal **out, struct err *e)
{
	struct journal *j = calloc(1, sizeof(*j));
	int rc;

	if (!j)
		return err_set(e, ERR_NOMEM, "no memory for the journal");
	rc = ring_writer_create(ring_fd, cursor_fd, &j->ring, e);
	if (rc)
		goto fail;
	j->timer = malloc(sizeof(*j->timer));
	if (!j->timer) {
		rc = err_set(e, ERR_NOMEM, "no memory for the journal");
		goto fail;
	}
	uv_timer_init(loop, j->timer);
	j->timer->data = j;
	j->ops = ops;
	j->arg = arg;
	j->state = RECORD_STARTING;
	(void)ring_writer_refresh(j->ring, &j->cursor);
	j->state = journal_judge(j, clock_boot_ns());
	write_anchor(j, clock_boot_ns(), clock_wall_ns());
	set_tick(j, TICK_BUSY_MS);
	*out = j;
	return 0;
fail:
	ring_writer_destroy(j->ring);
	free(j);
	return rc;
}

static void journal_free_timer(uv_handle_t *h)
{
	free(h);
}

void journal_destroy(struct journal *j)
{
	if (!j)
		return;
	uv_close((uv_handle_t *)j->timer, journal_free_timer);
	ring_writer_destroy(j->ring);
	free(j);
}

static int journal_append(struct journal *j, struct ring_record *rec, const void *p, size_t n, bool reserve)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)p, .iov_len = n};
	int rc = ring_append(j->ring, rec, &iov, 1, reserve);

	if (rc == ERR_AGAIN)
		j->stalls++;
	set_tick(j, TICK_BUSY_MS);
	return rc;
}

/* Two buckets: what was appended before `mark` is free once the mark is durable. */
static bool share_full(struct journal *j, struct journal_share *s)
{
	if (s->mark <= j->cursor.durable) {
		s->old = s->fresh;
		s->fresh = 0;
		s->mark = ring_head(j->ring);
		if (s->mark <= j->cursor.durable)
			s->old = 0;
	}
	return s->old + s->fresh > ring_size(j->ring) / 4;
}

int journal_data(struct journal *j, const struct journal_data *d, struct journal_share *share, const void *p, size_t n)
{
	struct ring_record rec = {.type = RING_DATA,
				  .session = d->session,
				  .stream = (uint8_t)d->stream,
				  .offset = d->offset,
				  .flags = d->flags};
	int rc;

	if (!d->keys && share_full(j, share)) {
		j->stalls++;
		return ERR_AGAIN;
	}
	rc = journal_append(j, &rec, p, n, d->keys);
	if (!rc)
		share->fresh += n;
	return rc;
}

int journal_bytes(struct journal *j, enum ring_type type, const struct id *session, const void *p, size_t n)
{
	struct ring_record rec = {.type = (uint8_t)type};

	if (session)
		rec.session = *session;
	return journal_append(j, &rec, p, n, true);
}

int journal_json(struct journal *j, enum ring_type type, const struct id *session, const json_t *o)
{
	char *text = json_text(o);
	int rc = text ? journal_bytes(j, type, session, text, strlen(text)) : ERR_NOMEM;

	free(text);
	return rc;
}

uint64_t journal_position(const struct journal *j)
{
	return ring_head(j->ring);
}
uint64_t journal_durable(const struct journal *j)
{
	return j->cursor.durable;
}
enum hub_record_state journal_state(const struct journal *j)
{
	return j->state;
}

uint32_t journal_flags(const struct journal *j)
{
	return j->cursor.flags;
}

void journal_stats(const struct journal *j, struct hub_stats *out)
{
	out->ring_size = ring_size(j->ring);
	out->durable_lag = ring_head(j->ring) - j->cursor.durable;
	out->ring_used = out->durable_lag;
	out->ring_stalls = j->stalls;
	out->record = j->state;
}

const char *hub_record_state_name(enum hub_record_state s)
{
	static const char *const names[] = {"ok", "starting", "silent", "disk_full", "failed"};

	return names[s];
}
