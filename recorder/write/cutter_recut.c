/* Recordings that are damaged or lost are cut again from the segments, and what could not be is announced. */
#define LOG_SUBSYS "cutter"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "recorder/chain/file.h"
#include "recorder/format/event.h"
#include "recorder/format/readback.h"
#include "recorder/format/recording.h"
#include "recorder/write/cutter_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * An open recording whose file is gone, short or changed is made anew, as it was: from the file as far as a `part` of
 * the log vouches for it, and from the segments, which hold the rest. What was in neither is really gone. It is told
 * with its place and its time, and what follows it is cut.
 *
 * The new file is made beside the old one and takes its place in one step; whatever is killed in between, the next
 * start finds the same sources and begins again.
 */

enum recut_from { FROM_NOTHING, FROM_OPEN, FROM_FILE };

struct recut_session {
	struct id id;
	char *open, *exit; /* of the index; NULL: it has none */
	uint64_t offsets[STREAM_COUNT], open_lsn, end_lsn;
	int64_t opened_ns, ended_ns;
	char why[300];
	bool aside;    /* the old file is kept */
	char kept[64]; /* its name */
	enum recut_from from;
	struct builder *b; /* NULL: nothing of it was found yet */
	const struct part *part;
	struct trunc_rule rule;
	uint64_t open_ns; /* what its recording begins with */
	int64_t open_wall_ns;
	uint64_t last_ns; /* of its newest record in the segments */
	int64_t last_wall_ns;
	bool holes;
	int64_t lost_from_ns, lost_until_ns; /* wall: between which records the first hole is */
};

struct recut {
	struct cutter *c;
	struct recut_session *list; /* sorted by id, as the index gives them */
	size_t n;
	struct parts parts;
	struct follower *f;
};

int recut_create(struct cutter *c, struct recut **out)
{
	struct recut *r = calloc(1, sizeof(*r));

	if (!r)
		return ERR_NOMEM;
	r->c = c;
	*out = r;
	return 0;
}

void recut_destroy(struct recut *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++) {
		free(r->list[i].open);
		free(r->list[i].exit);
		builder_destroy(r->list[i].b);
	}
	free(r->list);
	parts_finish(&r->parts);
	follower_destroy(r->f);
	free(r);
}

int recut_add(struct recut *r, const struct index_unsealed *u, const char *why)
{
	struct recut_session s = {.id = u->id,
				  .open = u->open ? strdup(u->open) : NULL,
				  .exit = u->exit ? strdup(u->exit) : NULL,
				  .open_lsn = u->open_lsn,
				  .end_lsn = u->end_lsn,
				  .opened_ns = u->opened_ns,
				  .ended_ns = u->ended_ns};
	memcpy(s.offsets, u->offsets, sizeof(s.offsets));
	text_put(s.why, sizeof(s.why), why);
	if ((u->open && !s.open) || (u->exit && !s.exit) || list_append(&r->list, &r->n, &s, sizeof(s))) {
		free(s.open);
		free(s.exit);
		return ERR_NOMEM;
	}
	return 0;
}

static struct recut_session *cutter_recut_find(struct recut *r, const struct id *id)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int d = memcmp(r->list[mid].id.b, id->b, 16);
		if (d == 0)
			return &r->list[mid];
		if (d < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

static int file_of(const struct recut *r, const struct recut_session *s, const char *end, char out[FILE_PATH_MAX],
		   struct err *e)
{
	char id[ID_STR_LEN];

	id_format(&s->id, id);
	return file_path(out, e, "%s/open/%s.%s", r->c->dir, id, end);
}

/* The rule that it was cut by: the log knows, else that of the file or of today, whichever keeps more. */
static void choose_rule(struct recut *r, struct recut_session *s)
{
	struct builder_options o;
	struct recording *old;
	char path[FILE_PATH_MAX];
	const char *open = s->open ? s->open : "{}";

	cut_options(r->c, open, strlen(open), &o);
	s->rule = s->part ? s->part->rule : o.rule;
	if (s->part || file_of(r, s, "mrec", path, NULL) || recording_open(path, &old, NULL))
		return;
	if (recording_info(old)->rule.kind <= s->rule.kind)
		s->rule = recording_info(old)->rule;
	recording_close(old);
}

static int cutter_recut_begin(struct recut *r, struct recut_session *s, const struct ring_record *open,
			      enum recut_from from, struct err *e)
{
	struct builder_options o;
	const struct part *about;
	struct part p;

	cut_options(r->c, (const char *)open->payload, open->len, &o);
	o.rule = s->rule;
	o.beside = true;
	int rc = builder_create(&o, open, &s->b, e);
	if (rc)
		return rc;
	builder_part(s->b, &p);
	about = &p;
	s->from = from;
	s->open_ns = s->last_ns = about->open_ns;
	s->open_wall_ns = s->last_wall_ns = about->open_wall_ns;
	s->open_lsn = open->seq;
	return 0;
}

static int copy_events(struct recut *r, struct recut_session *s, struct recording *old, const struct part *upto,
		       struct err *e)
{
	struct ring_record rec;
	int rc = recording_next(old, &rec, e);

	if (rc != 1 || rec.type != RING_OPEN || rec.seq != upto->open_lsn)
		return ERR_CORRUPT;
	rec.session = s->id;
	rc = cutter_recut_begin(r, s, &rec, FROM_FILE, e);
	/* Behind the part there may be anything. */
	while (rc == 0 && recording_next(old, &rec, NULL) == 1 && rec.seq <= upto->lsn) {
		rec.session = s->id;
		rc = builder_copy(s->b, &rec, e);
	}
	for (unsigned i = 0; rc == 0 && i < STREAM_COUNT; i++)
		if (builder_offset(s->b, i) != upto->offsets[i])
			rc = ERR_CORRUPT;
	s->last_ns = upto->last_ns;
	s->last_wall_ns = upto->last_wall_ns;
	return rc;
}

/* How far the log vouches for this file; NULL: it is not one that it means. */
static int vouched(const struct recut *r, const struct recut_session *s, const char *path, const struct part **out,
		   struct err *e)
{
	size_t n = 0, best = 0;
	const struct part *all = parts_of(&r->parts, &s->id, &n);
	struct readback *places = calloc(n ? n : 1, sizeof(*places));
	int rc = places ? 0 : ERR_NOMEM;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		places[i].pos = all[i].size;
		memcpy(places[i].hash, all[i].hash, DIGEST_LEN);
	}
	if (rc == 0)
		rc = readback_farthest(path, places, n, &best, NULL);
	free(places);
	*out = rc == 0 && all ? &all[best] : NULL;
	return rc == ERR_NOMEM ? err_set(e, rc, "no memory to read a recording") : 0;
}

static int from_file(struct recut *r, struct recut_session *s, const char *path, struct err *e)
{
	struct recording *old = NULL;
	const struct part *upto;
	int rc = vouched(r, s, path, &upto, e);

	if (rc || !upto || recording_open(path, &old, NULL))
		return rc ? rc : ERR_NOT_FOUND;
	rc = copy_events(r, s, old, upto, e);
	recording_close(old);
	if (rc == ERR_UNSUPPORTED || rc == ERR_CORRUPT) {
		builder_abort(s->b);
		s->b = NULL;
		s->from = FROM_NOTHING;
		return ERR_NOT_FOUND;
	}
	return rc;
}

/* The file, or one that was kept of it when a recorder was killed over this. */
static int from_files(struct recut *r, struct recut_session *s, struct err *e)
{
	char path[FILE_PATH_MAX];
	int rc = file_of(r, s, "mrec", path, e);

	if (rc || !s->part)
		return rc;
	rc = from_file(r, s, path, e);
	for (unsigned n = 1; rc == ERR_NOT_FOUND; n++) {
		char end[32];
		snprintf(end, sizeof(end), n == 1 ? "damaged" : "damaged.%u", n);
		if (file_of(r, s, end, path, e) || access(path, F_OK) != 0)
			return 0;
		rc = from_file(r, s, path, e);
	}
	return rc;
}

/* The session's OPEN is lost: one is made of what index and log know. at: its first record left, NULL: none. */
static int from_nothing(struct recut *r, struct recut_session *s, const struct ring_record *at, struct err *e)
{
	struct part known = {
	    .session = s->id, .open_wall_ns = s->opened_ns, .kind = "exec", .agent = "unknown", .principal = "unknown"};
	char *open = s->open ? strdup(s->open) : NULL;
	uint64_t now = at ? at->boot_ns : clock_boot_ns();
	int64_t wall = at ? follower_wall_ns(r->f, at->boot_ns) : clock_wall_ns();

	if (s->part)
		known = *s->part;
	if (!known.open_wall_ns)
		known.open_wall_ns = wall;
	if (!known.boot_id[0])
		text_put(known.boot_id, sizeof(known.boot_id), clock_boot_id());
	if (!open && !(open = part_open(&known)))
		return err_set(e, ERR_NOMEM, "out of memory");
	struct ring_record rec = {.type = RING_OPEN,
				  .session = s->id,
				  .seq = s->part ? s->part->open_lsn : s->open_lsn,
				  .boot_ns = s->part ? s->part->open_ns : 0,
				  .len = (uint32_t)strlen(open),
				  .payload = (const uint8_t *)open};
	if (!rec.boot_ns) {
		int64_t before = wall - known.open_wall_ns;
		rec.boot_ns = before > 0 && (uint64_t)before < now ? now - (uint64_t)before : now;
	}
	if (at && rec.seq >= at->seq)
		rec.seq = at->seq - 1;
	int rc = cutter_recut_begin(r, s, &rec, FROM_NOTHING, e);
	free(open);
	return rc;
}

/* Clocks that were set while nobody kept them: what follows has the time that it had. */
static int put_clock(struct recut *r, struct recut_session *s, const struct ring_record *at, struct err *e)
{
	char json[160], boot[ID_STR_LEN];
	struct ring_record rec = {.type = RING_CLOCK, .seq = at->seq - 1, .boot_ns = at->boot_ns};

	if (rec.seq <= builder_seq(s->b))
		return 0;
	id_format(follower_boot(r->f), boot);
	snprintf(json, sizeof(json), "{\"wall_ns\":%lld,\"boot_id\":\"%s\"}",
		 (long long)follower_wall_ns(r->f, at->boot_ns), boot);
	rec.payload = (const uint8_t *)json;
	rec.len = (uint32_t)strlen(json);
	return builder_append(s->b, &rec, e);
}

static void note_hole(struct recut_session *s, int64_t wall_ns)
{
	uint64_t lost = 0;

	for (unsigned i = 0; i < STREAM_COUNT; i++)
		lost += builder_lost(s->b, i);
	if (!lost || s->holes)
		return;
	s->holes = true;
	s->lost_from_ns = s->last_wall_ns;
	s->lost_until_ns = wall_ns;
}

static int take_session(struct recut *r, struct recut_session *s, const struct ring_record *rec, struct err *e)
{
	struct err why = {0};
	int rc = 0;

	if (!s->b && rec->type == RING_OPEN)
		return cutter_recut_begin(r, s, rec, FROM_OPEN, e);
	if (!s->b && (rc = from_nothing(r, s, rec, e)) == 0)
		rc = put_clock(r, s, rec, e);
	if (rc)
		return rc;
	rc = builder_append(s->b, rec, &why);
	if (rc && rc != ERR_INVAL)
		return err_set(e, rc, "%s", why.message);
	int64_t wall = follower_wall_ns(r->f, rec->boot_ns);
	note_hole(s, wall);
	s->last_ns = rec->boot_ns;
	s->last_wall_ns = wall;
	if (rec->type != RING_EXIT || s->exit)
		return 0;
	s->exit = strndup((const char *)rec->payload, rec->len);
	s->end_lsn = rec->seq;
	s->ended_ns = s->last_wall_ns;
	return s->exit ? 0 : err_set(e, ERR_NOMEM, "out of memory");
}

static int take_clock(struct recut *r, const struct ring_record *rec, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < r->n; i++) {
		if (r->list[i].b)
			rc = builder_append(r->list[i].b, rec, e);
		rc = rc == ERR_INVAL ? 0 : rc;
	}
	return rc;
}

/* All of the log that is durable, for all of them at once. */
static int read_segments(struct recut *r, struct err *e)
{
	static const struct index_cursor oldest;
	struct segment_tail until;
	struct segment_record sr;
	struct err why = {0};
	int rc = follower_create(r->c->p.segments_fd, &oldest, &r->f, e);

	drain_durable(r->c->p.drain, &until);
	while (rc == 0 && ((rc = follower_read(r->f, &until, &sr, &why)) == 1 || rc == ERR_CORRUPT)) {
		if (rc == ERR_CORRUPT) { /* the cutter tells of it when it comes there */
			follower_skip(r->f, &until);
			rc = 0;
			continue;
		}
		sr.rec.seq = sr.lsn;
		struct recut_session *s = sr.rec.type == RING_AUDIT ? NULL : cutter_recut_find(r, &sr.rec.session);
		rc = sr.rec.type == RING_CLOCK ? take_clock(r, &sr.rec, e) : s ? take_session(r, s, &sr.rec, e) : 0;
	}
	/* No segment at all: there is nothing to read. */
	return rc == ERR_NOT_FOUND ? 0 : rc < 0 && why.message[0] ? err_set(e, rc, "%s", why.message) : rc;
}

/* What index and log know of, and nothing has: the bytes up to there, and how it ended. */
static int settle_end(struct recut_session *s, struct err *e)
{
	struct ring_record exit = {.type = RING_EXIT, .session = s->id};
	uint64_t last = s->last_ns;
	int64_t last_wall = s->last_wall_ns;
	int rc = 0;

	if (s->part && s->part->last_ns > last) {
		last = s->part->last_ns;
		last_wall = s->part->last_wall_ns;
	}
	if (s->exit && s->ended_ns > last_wall) {
		last += (uint64_t)(s->ended_ns - last_wall);
		last_wall = s->ended_ns;
	}
	for (unsigned i = 0; rc == 0 && i < STREAM_COUNT; i++) {
		uint64_t until = s->offsets[i];
		if (s->part && s->part->offsets[i] > until)
			until = s->part->offsets[i];
		rc = builder_missing(s->b, i, until, last, e);
	}
	note_hole(s, last_wall);
	if (rc || builder_ended(s->b) || !s->exit)
		return rc;
	exit.boot_ns = last;
	exit.seq = s->end_lsn > builder_seq(s->b) ? s->end_lsn : builder_seq(s->b) + 1;
	exit.payload = (const uint8_t *)s->exit;
	exit.len = (uint32_t)strlen(s->exit);
	return builder_append(s->b, &exit, e);
}

/* The old file stays beside under another name, for whoever wants to know what happened to it. */
static int keep_old(struct recut *r, struct recut_session *s, struct err *e)
{
	char from[FILE_PATH_MAX], to[FILE_PATH_MAX];
	struct stat st;
	int rc = file_of(r, s, "mrec", from, e);

	if (rc || lstat(from, &st) != 0)
		return rc;
	for (unsigned n = 1; !s->aside && n < 1000; n++) {
		snprintf(s->kept, sizeof(s->kept), n == 1 ? "damaged" : "damaged.%u", n);
		rc = file_of(r, s, s->kept, to, e);
		if (rc)
			return rc;
		/* A folder cannot have two names. */
		if (link(from, to) == 0 ||
		    (errno == EPERM && renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0))
			s->aside = true;
		else if (errno != EEXIST)
			return err_sys(e, errno, "cannot keep %s", from);
	}
	return 0;
}

static int cutter_recut_take_over(struct recut *r, struct recut_session *s, struct err *e)
{
	struct cut_session *cs;
	int rc = cut_add(r->c, &s->id, s->b, &cs, e);

	if (rc)
		return rc;
	s->b = NULL; /* the cutter's now */
	for (unsigned i = 0; i < STREAM_COUNT; i++)
		cs->offsets[i] = builder_offset(cs->b, i);
	cs->open_lsn = s->open_lsn;
	cs->dirty = true;
	if (builder_ended(cs->b))
		cs->seal_ns = 1;
	return 0;
}

/* Each is whole under its name before the index says that it is. */
static int publish(struct recut *r, struct recut_session *s, struct buf *state, struct err *e)
{
	buf_clear(state);
	int rc = builder_settle(s->b, e);
	if (rc == 0)
		rc = builder_checkpoint(s->b, state, e);
	if (rc == 0)
		rc = keep_old(r, s, e);
	if (rc == 0)
		rc = builder_publish(s->b, e);
	return rc ? rc : cutter_recut_take_over(r, s, e);
}

static int store(struct recut *r, struct err *e)
{
	struct cutter *c = r->c;
	struct buf state;
	int rc = index_begin(c->index, e);

	buf_init(&state, CHECKPOINT_BLOB_MAX);
	for (size_t i = 0; rc == 0 && i < r->n; i++) {
		const struct recut_session *s = &r->list[i];
		struct cut_session *cs = cut_find(c, &s->id);
		if (!cs)
			continue;
		rc = cut_checkpoint_session(c, cs, &state, e);
		if (rc == 0 && s->exit)
			rc = index_put_end(c->index, &s->id, s->exit, s->end_lsn, s->ended_ns, e);
	}
	buf_finish(&state);
	return rc ? rc : index_commit(c->index, true, e);
}

static json_t *losses(const struct recut_session *s, const struct cut_session *cs)
{
	char from[40], until[40];
	uint64_t lost[STREAM_COUNT];
	json_t *o;

	for (unsigned i = 0; i < STREAM_COUNT; i++)
		lost[i] = builder_lost(cs->b, i);
	o = json_pack("{s:[I,I,I]}", "lost", (json_int_t)lost[0], (json_int_t)lost[1], (json_int_t)lost[2]);
	if (!o || !s->holes)
		return o;
	clock_format_utc(s->lost_from_ns, from, sizeof(from));
	clock_format_utc(s->lost_until_ns, until, sizeof(until));
	json_object_set_new(o, "lost_from", json_string(from));
	json_object_set_new(o, "lost_until", json_string(until));
	return o;
}

static void cutter_recut_tell(struct recut *r, const struct recut_session *s, const struct cut_session *cs)
{
	static const char *const froms[] = {"what was left", "its beginning", "its file"};
	char id[ID_STR_LEN], kept[ID_STR_LEN + 64];
	json_t *o = losses(s, cs), *more;

	id_format(&s->id, id);
	struct log_ids ids = {.session = id};
	more =
	    json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "event", "record.recut", "outcome", s->holes ? "error" : "ok",
		      "principal", "recorder", "session", id, "detail", s->why, "from", froms[s->from]);
	snprintf(kept, sizeof(kept), "%s.%s", id, s->kept);
	if (o && more && s->aside)
		json_object_set_new(more, "kept", json_string(kept));
	if (o && (!more || json_object_update(o, more))) {
		json_decref(o);
		o = NULL;
	}
	json_decref(more);
	log_warn(&ids, "the open recording was cut anew from %s%s: %s", froms[s->from],
		 s->holes ? ", and is not whole" : "", s->why);
	if (drain_audit(r->c->p.drain, NULL, o))
		log_error(&ids, "that it was cut anew could not be audited");
}

/* The log hears how far they stand, and the audit log what happened. */
static int announce(struct recut *r, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < r->n; i++) {
		struct cut_session *cs = cut_find(r->c, &r->list[i].id);
		if (!cs)
			continue;
		cutter_recut_tell(r, &r->list[i], cs);
		rc = cut_part(r->c, cs, e);
	}
	return rc ? rc : chain_sign_head(r->c->chain, clock_wall_ns(), e);
}

int recut_run(struct recut *r, struct err *e)
{
	struct buf state;
	int rc = 0;

	if (!r->n)
		return 0;
	rc = parts_read(&r->parts, r->c->dir, e);
	for (size_t i = 0; rc == 0 && i < r->n; i++) {
		r->list[i].part = parts_find(&r->parts, &r->list[i].id);
		choose_rule(r, &r->list[i]);
		rc = from_files(r, &r->list[i], e);
	}
	if (rc == 0)
		rc = read_segments(r, e);
	buf_init(&state, CHECKPOINT_BLOB_MAX);
	for (size_t i = 0; rc == 0 && i < r->n; i++) {
		if (!r->list[i].b)
			rc = from_nothing(r, &r->list[i], NULL, e);
		if (rc == 0)
			rc = settle_end(&r->list[i], e);
		if (rc == 0)
			rc = publish(r, &r->list[i], &state, e);
	}
	buf_finish(&state);
	if (rc == 0)
		rc = store(r, e);
	return rc ? rc : announce(r, e);
}
