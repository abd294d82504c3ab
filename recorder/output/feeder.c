#define LOG_SUBSYS "output"
#include "recorder/output/feeder.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/ring.h"
#include "base/text.h"
#include "recorder/chain/file.h"
#include "recorder/index/holds.h"
#include "recorder/index/index.h"
#include "recorder/write/follower.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP_RECORDS     1024
#define CHECKPOINT_BYTES (UINT64_C(256) << 20) /* of output; what goes before it is never synced */
#define LAG_MAX          (UINT64_C(4) << 30)   /* of segments that stay for this alone */
#define CHECKPOINT_NS    (10 * NS_PER_SEC)
#define SWEEP_NS         (5 * NS_PER_SEC)
#define IDLE_NS          SWEEP_NS /* what comes wakes it before */
#define HURRIED_NS       (1 * NS_PER_MS)
#define SLOT_COUNT       1024 /* sessions that are no rounds, remembered */
#define FREE_FACTOR      2    /* of record.min_free: what is kept goes before the record has no room */
#define NICE             2

#define CURSOR_MAGIC "MUXDOCUR"
#define CURSOR_SIZE  64

enum feeder_state { FEEDER_LOADING, FEEDER_FOLLOWING, FEEDER_RESTING };

struct due {
	struct id round;
	int64_t ended_ns; /* wall */
	uint64_t totals[2];
	uint64_t lsn; /* of its EXIT, which may not be durable yet; 0: it was cut, so it is */
};

struct feeder {
	struct feeder_params p;
	char *index_path;
	int dir_fd;
	struct outputs *outputs;
	struct follower *follower;
	struct index *index;
	struct id others[SLOT_COUNT];
	struct due *due; /* rounds whose end the record has, and nothing of what is kept */
	size_t n_due, cap_due;
	struct holds holds;
	bool holds_known; /* in this sweep */
	bool by_age;      /* in this sweep: the time is believed */
	_Atomic uint64_t age_ns;
	struct clock_guard guard;
	bool (*clock_waits)(void *arg); /* NULL: nobody else knows */
	void *clock_arg;
	uint64_t moved, bytes; /* records, and bytes of output, since the last checkpoint */
	uint64_t checkpoint_ns, sweep_ns;
	bool failed; /* the last checkpoint; said */
	uint64_t segment_size;

	pthread_t thread;
	bool runs;
	atomic_bool stopping;
	_Atomic uint64_t needs;

	pthread_mutex_t lock;
	pthread_cond_t went_on;
	enum feeder_state state;
	char why[200]; /* it rests */
	uint64_t next_lsn;
	unsigned waiters;
};

static void feeder_set_state(struct feeder *f, enum feeder_state to)
{
	static const char *const names[] = {"loading", "following", "resting"};

	pthread_mutex_lock(&f->lock);
	log_debug(NULL, "state %s -> %s", names[f->state], names[to]);
	f->state = to;
	pthread_cond_broadcast(&f->went_on);
	pthread_mutex_unlock(&f->lock);
}

/* ---- the place in the log */

static void cursor_encode(const struct index_cursor *at, uint8_t out[CURSOR_SIZE])
{
	memset(out, 0, CURSOR_SIZE);
	memcpy(out, CURSOR_MAGIC, 8);
	put_u64(out + 16, at->segment);
	put_u64(out + 24, at->offset);
	put_u64(out + 32, at->lsn);
	put_u32(out + 8, crc32_add(0, out + 16, CURSOR_SIZE - 16));
}

/* One that is torn or lost costs a longer way, and doubles nothing. */
static void cursor_load(const struct feeder *f, struct index_cursor *out)
{
	uint8_t p[CURSOR_SIZE];
	struct segment_tail durable;
	uint64_t size;
	int fd;

	memset(out, 0, sizeof(*out));
	if (file_open_at(f->dir_fd, "cursor", O_RDONLY, "output/cursor", &fd, &size, NULL))
		return;
	int rc = file_read_at(fd, p, sizeof(p), 0, "output/cursor", NULL);
	close(fd);
	if (rc || memcmp(p, CURSOR_MAGIC, 8) != 0 || get_u32(p + 8) != crc32_add(0, p + 16, CURSOR_SIZE - 16))
		return;
	drain_durable(f->p.drain, &durable);
	if (get_u64(p + 16) > durable.number) /* segments were lost */
		return;
	*out = (struct index_cursor){.segment = get_u64(p + 16), .offset = get_u64(p + 24), .lsn = get_u64(p + 32)};
}

static int cursor_store(const struct feeder *f, const struct index_cursor *at, struct err *e)
{
	uint8_t p[CURSOR_SIZE];
	uint64_t size;
	int fd, rc = file_open_at(f->dir_fd, "cursor", O_RDWR | O_CREAT, "output/cursor", &fd, &size, e);

	if (rc)
		return rc;
	cursor_encode(at, p);
	rc = file_write_at(fd, p, sizeof(p), 0, "output/cursor", e);
	if (rc == 0)
		rc = file_sync(fd, "output/cursor", e);
	close(fd);
	return rc;
}

/* ---- which sessions are rounds */

static struct id *slot_of(struct feeder *f, const struct id *session)
{
	return &f->others[(session->b[14] << 8 | session->b[15]) % SLOT_COUNT];
}

/* False: no round, or nobody's that is known. */
static bool round_of(const json_t *open, const struct id *session, int64_t wall_ns, struct chunk_of *out)
{
	const char *kind = "", *agent = "", *principal = "";

	(void)json_opt_str(open, "kind", &kind, NULL);
	(void)json_opt_str(open, "agent", &agent, NULL);
	(void)json_opt_str(open, "principal", &principal, NULL);
	if (strcmp(kind, "round") != 0)
		return false;
	*out = (struct chunk_of){.round = *session, .opened_ns = wall_ns};
	text_put(out->agent, sizeof(out->agent), agent);
	text_put(out->principal, sizeof(out->principal), principal);
	return true;
}

static int feeder_begin(struct feeder *f, const json_t *open, const struct id *session, int64_t wall_ns, struct err *e)
{
	struct chunk_of of;

	if (!round_of(open, session, wall_ns, &of)) {
		*slot_of(f, session) = *session;
		return 0;
	}
	return outputs_open(f->outputs, &of, e);
}

static int begin_text(struct feeder *f, const char *text, size_t n, const struct id *session, int64_t wall_ns,
		      struct err *e)
{
	json_t *open = NULL;
	int rc;

	if (json_parse(text, n, RING_RECORD_MAX, &open, NULL))
		open = json_object();
	rc = feeder_begin(f, open, session, wall_ns, e);
	json_decref(open);
	return rc;
}

struct lookup {
	struct feeder *f;
	const struct id *session;
	int64_t wall_ns;
	struct err *e;
};

static int feeder_on_row(void *arg, json_t *o)
{
	struct lookup *l = arg;

	return feeder_begin(l->f, json_object_get(o, "open"), l->session, l->wall_ns, l->e);
}

static int feeder_index(struct feeder *f, struct err *e)
{
	int rc = f->index ? 0 : index_open_reader(f->index_path, &f->index, e);

	if (rc == 0 && f->p.index_key)
		index_use_key(f->index, f->p.index_key);
	return rc;
}

/* One whose OPEN was read before a restart: the table of live sessions has it, and the index what has ended since. */
static int look_up(struct feeder *f, const struct id *session, int64_t wall_ns, struct err *e)
{
	struct lookup l = {f, session, wall_ns, e};
	struct index_filter filter = {.limit = 1};
	struct live_session live;
	char text[ID_STR_LEN];
	int rc;

	if (live_get(f->p.live, session, &live) == 0) {
		rc = live.open ? begin_text(f, live.open, strlen(live.open), session, wall_ns, e) : 0;
		live_session_finish(&live);
		return rc;
	}
	id_format(session, text);
	filter.session = text;
	if (feeder_index(f, NULL) || index_sessions(f->index, &filter, feeder_on_row, &l, NULL))
		log_debug(NULL, "the index does not know session %s", text);
	return 0;
}

/* ---- rounds that have ended, and whose end was not kept */

/* Of stdout and stderr, from the JSON of an EXIT record. */
static void exit_totals(const json_t *exit, uint64_t out[2])
{
	const json_t *totals = json_object_get(exit, "totals");

	for (size_t i = 0; i < 2; i++) {
		json_int_t n = json_integer_value(json_array_get(totals, i + 1));

		out[i] = n > 0 ? (uint64_t)n : 0;
	}
}

static void text_totals(const char *text, size_t n, uint64_t out[2])
{
	json_t *exit = NULL;

	(void)json_parse(text, n, RING_RECORD_MAX, &exit, NULL);
	exit_totals(exit, out);
	json_decref(exit);
}

/* One that finds no room is asked about again. */
static void due_add(struct feeder *f, const struct due *d)
{
	if (f->n_due == f->cap_due) {
		size_t cap = f->cap_due ? 2 * f->cap_due : 16;
		struct due *grown = realloc(f->due, cap * sizeof(*grown));

		if (!grown)
			return;
		f->due = grown;
		f->cap_due = cap;
	}
	f->due[f->n_due++] = *d;
}

struct asked {
	struct due due;
	bool known, ended;
};

static int on_end_row(void *arg, json_t *row)
{
	const char *state = json_string_value(json_object_get(row, "state"));
	const char *at = json_string_value(json_object_get(row, "ended_at"));
	struct asked *a = arg;

	a->known = true;
	a->ended = state && strcmp(state, "open") != 0;
	exit_totals(json_object_get(row, "exit"), a->due.totals);
	if (at)
		(void)clock_parse_utc(at, &a->due.ended_ns);
	return 0;
}

/* False: nobody could say. */
static bool ask_record(struct feeder *f, const struct id *round, struct asked *a)
{
	struct index_filter filter = {.limit = 1};
	struct live_session live;
	char text[ID_STR_LEN];

	if (live_get(f->p.live, round, &live) == 0) {
		a->known = true;
		a->ended = live.ended;
		a->due.lsn = live.end_lsn;
		if (live.exit)
			text_totals(live.exit, strlen(live.exit), a->due.totals);
		live_session_finish(&live);
		return true;
	}
	id_format(round, text);
	filter.session = text;
	return feeder_index(f, NULL) == 0 && index_sessions(f->index, &filter, on_end_row, a, NULL) == 0;
}

/*
 * The place in the log may have passed the end of a round that no file tells of: a crash, a damaged file or segment, a
 * feeder that was too slow. One that the record does not know at all never ends there; it goes by its begin.
 */
static void feeder_on_unended(void *arg, const struct chunk_of *of, const struct outputs_found *found)
{
	struct feeder *f = arg;
	struct asked a = {.due = {.round = of->round, .ended_ns = clock_wall_ns()}};

	if (!ask_record(f, &of->round, &a))
		return;
	if (!a.known && found) {
		a.due.ended_ns = found->ended_ns;
		memcpy(a.due.totals, found->totals, sizeof(a.due.totals));
	} else if (!a.known) {
		a.due.ended_ns = of->opened_ns;
	}
	if (!a.known)
		a.ended = found || (f->by_age && of->opened_ns < clock_wall_ns() - (int64_t)atomic_load(&f->age_ns));
	if (a.ended)
		due_add(f, &a.due);
}

/*
 * At the end of the log as it was after they were asked about: whose end stands in it has it by now. One whose end is
 * ahead of that is asked about again.
 */
static void settle(struct feeder *f)
{
	struct index_cursor at;

	follower_cursor(f->follower, &at);
	for (size_t i = 0; i < f->n_due; i++)
		if (f->due[i].lsn < at.lsn)
			outputs_end(f->outputs, &f->due[i].round, f->due[i].ended_ns, f->due[i].totals);
	f->moved += f->n_due;
	f->n_due = 0;
}

/* ---- records */

static int take_data(struct feeder *f, const struct ring_record *rec, int64_t wall_ns, struct err *e)
{
	int rc = 0;

	if (rec->stream == STREAM_INPUT || id_equal(slot_of(f, &rec->session), &rec->session))
		return 0;
	if (!outputs_has(f->outputs, &rec->session)) {
		rc = look_up(f, &rec->session, wall_ns, e);
		if (rc == 0 && !outputs_has(f->outputs, &rec->session))
			*slot_of(f, &rec->session) = rec->session;
	}
	f->bytes += rec->len;
	return rc ? rc : outputs_data(f->outputs, &rec->session, rec->stream, rec->offset, rec->payload, rec->len, e);
}

static int take_record(struct feeder *f, const struct segment_record *sr, struct err *e)
{
	const struct ring_record *rec = &sr->rec;
	int64_t wall_ns = follower_wall_ns(f->follower, rec->boot_ns);
	uint64_t totals[2];

	switch (rec->type) {
	case RING_OPEN:
		return begin_text(f, (const char *)rec->payload, rec->len, &rec->session, wall_ns, e);
	case RING_DATA:
		return take_data(f, rec, wall_ns, e);
	case RING_EXIT:
		text_totals((const char *)rec->payload, rec->len, totals);
		outputs_end(f->outputs, &rec->session, wall_ns, totals);
		return 0;
	default:
		return 0;
	}
}

/* Tells how far it is: nobody waits longer than for that. */
static void feeder_tell(struct feeder *f, const struct segment_tail *durable, bool at_end)
{
	struct index_cursor at;

	follower_cursor(f->follower, &at);
	pthread_mutex_lock(&f->lock);
	f->next_lsn = at_end ? durable->lsn : at.lsn;
	pthread_cond_broadcast(&f->went_on);
	pthread_mutex_unlock(&f->lock);
}

/* Out of memory: this record is missing in what is kept, the log has it. */
static bool feed(struct feeder *f)
{
	struct segment_tail durable;
	struct segment_record sr;
	struct err e = {0};
	int rc = 1, n = 0;

	drain_durable(f->p.drain, &durable);
	while (n < STEP_RECORDS && (rc = follower_read(f->follower, &durable, &sr, &e)) == 1) {
		if (take_record(f, &sr, &e))
			log_warn(NULL, "rounds' output is not kept: %s", e.message);
		n++;
	}
	if (rc == ERR_CORRUPT) { /* the cutter audits it when it comes there */
		follower_skip(f->follower, &durable);
		rc = 1;
	}
	f->moved += (uint64_t)n;
	feeder_tell(f, &durable, rc != 1);
	return rc == 1;
}

/* ---- limits */

static int feeder_on_hold(void *arg, const json_t *hold, const json_t *released)
{
	struct feeder *f = arg;

	return released ? 0 : holds_take(&f->holds, hold, NULL);
}

/* A round that the index does not know counts as held. */
static bool feeder_held(void *arg, const struct chunk_of *of, int64_t ended_ns)
{
	struct feeder *f = arg;
	struct hold_subject s = {.session = of->round,
				 .agent = of->agent[0] ? of->agent : NULL,
				 .principal = of->principal[0] ? of->principal : NULL,
				 .opened_ns = of->opened_ns,
				 .ended_ns = ended_ns};

	if (!f->holds_known) {
		holds_finish(&f->holds);
		memset(&f->holds, 0, sizeof(f->holds));
		if (feeder_index(f, NULL) || index_holds(f->index, false, feeder_on_hold, f, NULL))
			return true;
		f->holds_known = true;
	}
	return holds_cover(&f->holds, &s) != NULL;
}

static void limits_of(const struct conf *c, struct outputs_limits *out)
{
	uint64_t age = c->output_keep_ns;

	/* A removal that retention promises holds here as well. */
	if (c->record_retain_ns && c->record_retain_ns < age)
		age = c->record_retain_ns;
	*out = (struct outputs_limits){.age_ns = age,
				       .count = c->output_keep_max,
				       .agent = c->output_keep_size,
				       .stream = c->output_keep_stream,
				       .total = c->output_keep_total,
				       .free_least = FREE_FACTOR * c->record_min_free};
}

void feeder_guard(struct feeder *f, bool (*waits)(void *arg), void *arg)
{
	f->clock_waits = waits;
	f->clock_arg = arg;
}

void feeder_configure(struct feeder *f, const struct conf *conf)
{
	struct outputs_limits l;

	limits_of(conf, &l);
	atomic_store(&f->age_ns, l.age_ns);
	outputs_configure(f->outputs, &l);
}

static void sweep_due(struct feeder *f)
{
	if (clock_boot_ns() < f->sweep_ns)
		return;
	f->holds_known = false;
	(void)clock_guard_check(&f->guard); /* the cutter looks less often, and knows what was before this start */
	f->by_age = !clock_guard_waits(&f->guard) && !(f->clock_waits && f->clock_waits(f->clock_arg));
	outputs_sweep(f->outputs, clock_wall_ns(), f->by_age);
	outputs_unended(f->outputs, feeder_on_unended, f);
	f->sweep_ns = clock_boot_ns() + SWEEP_NS;
}

/* The record is not kept for this: its segments may go whether this could be stored or not. */
static void checkpoint(struct feeder *f)
{
	struct index_cursor at;
	struct err e = {0};
	int rc;

	follower_cursor(f->follower, &at);
	rc = outputs_checkpoint(f->outputs, &e);
	if (rc == 0)
		rc = cursor_store(f, &at, &e);
	if (rc && !f->failed)
		log_warn(NULL, "what is kept of rounds' output could not be stored: %s", e.message);
	f->failed = rc != 0;
	f->moved = f->bytes = 0;
	f->checkpoint_ns = clock_boot_ns();
	atomic_store(&f->needs, at.segment);
}

static bool checkpoint_due(const struct feeder *f)
{
	return f->bytes >= CHECKPOINT_BYTES ||
	       ((f->moved || f->failed) && clock_boot_ns() >= f->checkpoint_ns + CHECKPOINT_NS);
}

/* ---- the thread */

static int feeder_load(struct feeder *f, struct err *e)
{
	struct index_cursor at;
	int rc = f->dir_fd < 0 ? err_set(e, ERR_NOT_FOUND, "%s", f->why) : outputs_load(f->outputs, e);

	cursor_load(f, &at);
	if (rc == 0)
		rc = follower_create(f->p.segments_fd, &at, &f->follower, e);
	if (rc)
		return rc;
	atomic_store(&f->needs, at.segment);
	f->checkpoint_ns = clock_boot_ns();
	(void)clock_guard_start(&f->guard, 0, 0, false, 0); /* the cutter keeps the wait over restarts */
	return 0;
}

static bool hurried(struct feeder *f)
{
	pthread_mutex_lock(&f->lock);
	bool yes = f->waiters > 0;
	pthread_mutex_unlock(&f->lock);
	return yes;
}

static void follow(struct feeder *f)
{
	while (!atomic_load(&f->stopping)) {
		bool more = feed(f);

		if (!more)
			settle(f);
		if (checkpoint_due(f))
			checkpoint(f);
		sweep_due(f);
		if (!more && !f->n_due)
			(void)drain_wait(f->p.drain, f->next_lsn, hurried(f) ? HURRIED_NS : clock_to_tick_ns(IDLE_NS),
					 &f->stopping);
	}
	while (feed(f)) {
		/* what the drain has left behind */
	}
	checkpoint(f);
}

static void *feeder_main(void *arg)
{
	struct feeder *f = arg;
	struct err e = {0};

	/* Best effort: keys come before what nobody has asked for yet. */
	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
	if (feeder_load(f, &e)) {
		log_error(NULL, "rounds' output is not kept until the next start: %s", e.message);
		atomic_store(&f->needs, UINT64_MAX);
		pthread_mutex_lock(&f->lock);
		text_put(f->why, sizeof(f->why), e.message);
		pthread_mutex_unlock(&f->lock);
		feeder_set_state(f, FEEDER_RESTING);
		return NULL;
	}
	feeder_set_state(f, FEEDER_FOLLOWING);
	follow(f);
	return NULL;
}

static int open_folder(struct feeder *f, struct err *e)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, e, "%s/output", f->p.dir);

	if (rc == 0)
		rc = file_make_folder(path, e);
	if (rc)
		return rc;
	f->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return f->dir_fd < 0 ? err_sys(e, errno, "cannot open %s", path) : 0;
}

int feeder_create(const struct feeder_params *p, struct feeder **out, struct err *e)
{
	struct outputs_limits l;
	struct index_cursor at;
	struct feeder *f = calloc(1, sizeof(*f));
	struct err why = {0};
	pthread_condattr_t attr;

	if (!f)
		return err_set(e, ERR_NOMEM, "out of memory");
	f->p = *p;
	f->dir_fd = -1;
	f->segment_size = p->conf->record_segment_size;
	pthread_mutex_init(&f->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&f->went_on, &attr);
	pthread_condattr_destroy(&attr);
	limits_of(p->conf, &l);
	atomic_store(&f->age_ns, l.age_ns);
	int rc = asprintf(&f->index_path, "%s/audit.db", p->dir) < 0 ? err_set(e, ERR_NOMEM, "out of memory") : 0;
	if (rc == 0 && open_folder(f, &why)) /* it rests, and the record is written */
		text_put(f->why, sizeof(f->why), why.message);
	if (rc == 0 && (rc = outputs_create(f->dir_fd, &l, feeder_held, f, &f->outputs)) != 0)
		err_set(e, rc, "out of memory");
	if (rc) {
		feeder_destroy(f);
		return rc;
	}
	/* The cutter may let segments go from now on. */
	cursor_load(f, &at);
	atomic_store(&f->needs, at.segment);
	*out = f;
	return 0;
}

int feeder_start(struct feeder *f, struct err *e)
{
	int en = pthread_create(&f->thread, NULL, feeder_main, f);

	f->runs = en == 0;
	return en ? err_sys(e, en, "cannot start a thread") : 0;
}

void feeder_stop(struct feeder *f)
{
	if (!f->runs)
		return;
	atomic_store(&f->stopping, true);
	drain_nudge(f->p.drain);
	pthread_join(f->thread, NULL);
	f->runs = false;
}

void feeder_destroy(struct feeder *f)
{
	if (!f)
		return;
	feeder_stop(f);
	outputs_destroy(f->outputs);
	follower_destroy(f->follower);
	index_close(f->index);
	holds_finish(&f->holds);
	if (f->dir_fd >= 0)
		close(f->dir_fd);
	free(f->index_path);
	free(f->due);
	pthread_cond_destroy(&f->went_on);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

bool feeder_rests(struct feeder *f, char *out_why, size_t size)
{
	pthread_mutex_lock(&f->lock);
	bool rests = f->state == FEEDER_RESTING;
	text_put(out_why, size, f->why);
	pthread_mutex_unlock(&f->lock);
	return rests;
}

struct outputs *feeder_outputs(struct feeder *f)
{
	return f->outputs;
}

/* A follower that cannot keep up, on a machine that is too busy, is passed over: bytes are missing in what it keeps. */
uint64_t feeder_needs(void *arg)
{
	struct feeder *f = arg;
	uint64_t needs = atomic_load(&f->needs), most = LAG_MAX / f->segment_size + 1;
	struct segment_tail durable;

	drain_durable(f->p.drain, &durable);
	return needs == UINT64_MAX || durable.number <= most || needs >= durable.number - most ? needs
											       : durable.number - most;
}

uint64_t feeder_wait(struct feeder *f, uint64_t lsn, uint64_t timeout_ns)
{
	uint64_t until = clock_boot_ns() + timeout_ns;

	pthread_mutex_lock(&f->lock);
	f->waiters++;
	while (f->next_lsn < lsn && f->state != FEEDER_RESTING && clock_boot_ns() < until) {
		struct timespec ts;

		clock_gettime(CLOCK_MONOTONIC, &ts);
		ts.tv_nsec += 20 * 1000 * 1000;
		ts.tv_sec += ts.tv_nsec / 1000000000;
		ts.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&f->went_on, &f->lock, &ts);
	}
	f->waiters--;
	uint64_t now = f->next_lsn;
	pthread_mutex_unlock(&f->lock);
	return now;
}
