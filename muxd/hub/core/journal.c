#define END_ROOM   ((size_t)16 * 1024)
#define LOG_SUBSYS "journal"
#include "muxd/hub/core/journal.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/tick.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define TICK_BUSY_MS    5
#define TICK_IDLE_MS    100
#define TICK_RUNG_MS    1000 /* where the recorder rings: for its heartbeat, and for the clock */
#define TORN_TRIES      4
#define SILENT_NS       (5 * NS_PER_SEC)
#define CLOCK_ANCHOR_NS (60 * NS_PER_SEC)
#define CLOCK_JUMP_NS   INT64_C(500000000)

/* Handles, which libuv closes later than the journal goes. */
struct journal_handles {
	struct journal *journal;
	unsigned open;
	uv_timer_t timer;
	uv_poll_t moved; /* with bells alone */
	uv_prepare_t
	    ringing; /* a bell is to be rung before the loop sleeps: whatever else the turn has to say goes first */
	int bell_fd, moved_fd; /* -1: none */
};

struct journal {
	struct ring_writer *ring;
	struct journal_handles *handles;
	bool rests; /* the recorder waits for the bell */
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
	tick_start(&j->handles->timer, journal_on_tick, ms);
}

static bool journal_has_bells(const struct journal *j)
{
	return j->handles->bell_fd >= 0;
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

static void journal_on_ringing(uv_prepare_t *p)
{
	const struct journal_handles *h = p->data;

	bell_ring(h->bell_fd);
	uv_prepare_stop(p);
}

/* Rings for records that came after the recorder looked last. */
static void wake_reader(struct journal *j)
{
	if (!j->rests || j->cursor.durable >= ring_head(j->ring))
		return;
	j->rests = false;
	uv_prepare_start(&j->handles->ringing, journal_on_ringing);
}

/* A torn read leaves the old cursor. */
static void read_cursor(struct journal *j)
{
	int rc = ERR_CORRUPT;

	for (int i = 0; i < TORN_TRIES && rc == ERR_CORRUPT; i++)
		rc = ring_writer_refresh(j->ring, &j->cursor);
	j->rests = rc == 0 && journal_has_bells(j) && j->cursor.flags & RING_CURSOR_RESTS;
}

static unsigned pick_tick(const struct journal *j)
{
	if (journal_has_bells(j))
		return j->state == RECORD_OK ? TICK_RUNG_MS : TICK_IDLE_MS;
	return j->cursor.durable < ring_head(j->ring) ? TICK_BUSY_MS : TICK_IDLE_MS;
}

void journal_refresh(struct journal *j)
{
	uint64_t before = j->cursor.durable;

	read_cursor(j);
	anchor(j);
	wake_reader(j);
	journal_set_state(j, journal_judge(j, clock_boot_ns()));
	set_tick(j, pick_tick(j));
	if (j->cursor.durable != before)
		j->ops->moved(j->arg, j->cursor.durable);
}

static void journal_on_tick(uv_timer_t *t)
{
	struct journal_handles *h = t->data;

	tick_start(t, journal_on_tick, h->journal->tick_ms);
	journal_refresh(h->journal);
}

static void journal_on_moved(uv_poll_t *p, int status, int events)
{
	struct journal_handles *h = p->data;

	(void)status, (void)events;
	bell_answer(h->moved_fd);
	journal_refresh(h->journal);
}

static void journal_on_closed(uv_handle_t *handle)
{
	struct journal_handles *h = handle->data;

	if (--h->open)
		return;
	if (h->bell_fd >= 0)
		close(h->bell_fd);
	if (h->moved_fd >= 0)
		close(h->moved_fd);
	free(h);
}

static void handles_close(struct journal_handles *h)
{
	bool bells = h->open == 3;

	h->journal = NULL;
	if (bells) /* the loop does not come to ring for what was written last */
		bell_ring(h->bell_fd);
	if (bells)
		uv_close((uv_handle_t *)&h->moved, journal_on_closed);
	uv_close((uv_handle_t *)&h->ringing, journal_on_closed);
	uv_close((uv_handle_t *)&h->timer, journal_on_closed);
}

static int take_bells(struct journal_handles *h, struct uv_loop_s *loop, const struct journal_fds *fds, struct err *e)
{
	if (fds->bell <= 0 || fds->moved <= 0)
		return 0;
	h->bell_fd = fcntl(fds->bell, F_DUPFD_CLOEXEC, 3);
	h->moved_fd = fcntl(fds->moved, F_DUPFD_CLOEXEC, 3);
	if (h->bell_fd < 0 || h->moved_fd < 0 || uv_poll_init(loop, &h->moved, h->moved_fd))
		return err_sys(e, errno, "cannot keep the journal's bells");
	h->open++;
	h->moved.data = h;
	return uv_poll_start(&h->moved, UV_READABLE, journal_on_moved)
		   ? err_set(e, ERR_SYS, "cannot listen to the journal's bell")
		   : 0;
}

static int journal_open_handles(struct journal *j, struct uv_loop_s *loop, const struct journal_fds *fds, struct err *e)
{
	struct journal_handles *h = calloc(1, sizeof(*h));

	if (!h)
		return err_set(e, ERR_NOMEM, "no memory for the journal");
	j->handles = h;
	h->journal = j;
	h->bell_fd = h->moved_fd = -1;
	uv_timer_init(loop, &h->timer);
	uv_prepare_init(loop, &h->ringing);
	h->timer.data = h->ringing.data = h;
	h->open = 2;
	return take_bells(h, loop, fds, e);
}

int journal_create(struct uv_loop_s *loop, const struct journal_fds *fds, const struct journal_ops *ops, void *arg,
		   struct journal **out, struct err *e)
{
	struct journal *j = calloc(1, sizeof(*j));
	int rc;

	if (!j)
		return err_set(e, ERR_NOMEM, "no memory for the journal");
	rc = ring_writer_create(fds->ring, fds->cursor, &j->ring, e);
	if (!rc)
		rc = journal_open_handles(j, loop, fds, e);
	if (rc) {
		journal_destroy(j);
		return rc;
	}
	j->ops = ops;
	j->arg = arg;
	j->state = RECORD_STARTING;
	read_cursor(j);
	j->state = journal_judge(j, clock_boot_ns());
	write_anchor(j, clock_boot_ns(), clock_wall_ns());
	set_tick(j, pick_tick(j));
	*out = j;
	return 0;
}

void journal_destroy(struct journal *j)
{
	if (!j)
		return;
	if (j->handles)
		handles_close(j->handles);
	ring_writer_destroy(j->ring);
	free(j);
}

static int journal_append(struct journal *j, struct ring_record *rec, const void *p, size_t n, bool reserve)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)p, .iov_len = n};
	int rc = ring_append(j->ring, rec, &iov, 1, reserve);

	if (rc == ERR_AGAIN)
		j->stalls++;
	wake_reader(j);
	if (!journal_has_bells(j))
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

	if (!d->keys && (share_full(j, share) || (d->also && share_full(j, d->also)))) {
		j->stalls++;
		return ERR_AGAIN;
	}
	rc = journal_append(j, &rec, p, n, d->keys);
	if (!rc)
		share->fresh += n;
	if (!rc && d->also)
		d->also->fresh += n;
	return rc;
}

int journal_bytes(struct journal *j, enum ring_type type, const struct id *session, const void *p, size_t n)
{
	struct ring_record rec = {.type = (uint8_t)type};

	if (session)
		rec.session = *session;
	return journal_append(j, &rec, p, n, true);
}

void journal_hold(struct journal *j)
{
	ring_hold(j->ring);
}

void journal_let(struct journal *j, bool keep)
{
	ring_let(j->ring, keep);
}

bool journal_takes_end(const struct journal *j)
{
	return ring_room(j->ring, true) >= END_ROOM;
}

int journal_json(struct journal *j, enum ring_type type, const struct id *session, const json_t *o)
{
	char *text = json_text_shallow(o);
	int rc = text ? journal_bytes(j, type, session, text, strlen(text)) : ERR_NOMEM;

	free(text);
	return rc;
}

ssize_t journal_recall(const struct journal *j, uint64_t at, const struct journal_data *d, size_t skip, void *to,
		       size_t max)
{
	struct ring_record meant = {
	    .type = RING_DATA, .session = d->session, .stream = (uint8_t)d->stream, .offset = d->offset};

	return ring_recall(j->ring, at, &meant, skip, to, max);
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
