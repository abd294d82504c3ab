/* One record of the log, as the cutter takes it: it opens a session, adds to it, ends it, or is an event of the
 * audit log.
 */
#define LOG_SUBSYS "cutter"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/record_rule.h"
#include "recorder/format/recording.h"
#include "recorder/write/cutter_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cut_options(struct cutter *c, const char *open, size_t n, struct builder_options *out)
{
	const char *kind = "", *principal_kind = "";
	struct record_rule named = {0};
	bool pty = false;
	json_t *o = NULL;
	struct err e = {0};

	*out = (struct builder_options){.dir = c->dir, .files = &c->files};
	/* What cannot be read is kept in full: trunc_rule_choose() of nothing known falls to the last rule. */
	if (json_parse(open, n, RING_RECORD_MAX, &o, NULL) == 0) {
		(void)json_opt_str(o, "kind", &kind, NULL);
		(void)json_opt_str(o, "principal_kind", &principal_kind, NULL);
		(void)json_opt_bool(o, "pty", &pty, NULL);
		if (record_rule_read(o, &named, &e))
			log_warn(NULL, "the rule in an OPEN is not taken, the configuration's holds: %s", e.message);
	}
	out->staff = strcmp(principal_kind, "staff") == 0;
	out->pty = pty;
	trunc_rule_choose(c->rules, c->nrules, principal_kind, kind, pty, &named, &out->rule);
	json_decref(o);
}

static void cutter_session_refused(struct cutter *c, const struct segment_record *sr, const char *why)
{
	char text[ID_STR_LEN];
	id_format(&sr->rec.session, text);
	struct log_ids ids = {.session = text};
	log_warn(&ids, "record %llu (type %u) is in no recording: %s", (unsigned long long)sr->lsn, sr->rec.type, why);
	pthread_mutex_lock(&c->lock);
	c->seen.refused++;
	pthread_mutex_unlock(&c->lock);
}

static char *payload_text(const struct ring_record *rec)
{
	return strndup((const char *)rec->payload, rec->len);
}

/* A session begins: rec is its OPEN, or one made up because the journal lost it. */
static int cut_begin(struct cutter *c, const struct ring_record *rec, struct cut_session **out, struct err *e)
{
	struct builder_options options;
	struct builder *b = NULL;

	cut_options(c, (const char *)rec->payload, rec->len, &options);
	int rc = builder_create(&options, rec, &b, e);
	if (rc)
		return rc;
	struct cut_session *s = NULL;
	if ((rc = cut_add(c, &rec->session, b, &s, e)) != 0 || !s) {
		builder_destroy(b);
		return rc;
	}
	s->dirty = true;
	s->open_lsn = s->fresh_lsn = rec->seq;
	s->staff = options.staff;
	s->plain = !options.pty;
	*out = s;
	return 0;
}

static int cutter_session_put_row(struct cutter *c, const struct ring_record *rec, struct err *e)
{
	char *open = payload_text(rec);
	struct index_session row = {.id = rec->session,
				    .open = open,
				    .open_lsn = rec->seq,
				    .open_segment = follower_segment(c->follower),
				    .opened_ns = follower_wall_ns(c->follower, rec->boot_ns)};
	int rc = open ? index_put_open(c->index, &row, e) : err_set(e, ERR_NOMEM, "out of memory");
	free(open);
	return rc;
}

/* Sealed before a crash, but the index does not know yet, or records came after the seal. */
static int known_sealed(struct cutter *c, const struct id *id, uint64_t lsn, bool *out, struct err *e)
{
	char state[8], path[4096];
	int rc = index_session_state(c->index, id, state, e);
	*out = rc == 0 && strcmp(state, "open") != 0 && strcmp(state, "ended") != 0;
	if (*out || (rc && rc != ERR_NOT_FOUND))
		return rc == ERR_NOT_FOUND ? 0 : rc;
	/* What came after the start cannot have been sealed before it. */
	if (lsn >= c->replay_until || !cut_sealed_path(c, id, path, sizeof(path)))
		return 0;
	if ((rc = cut_seal_mend(c, path, e)) == 0)
		*out = true;
	/* Signed and synced in this step: the index is not to say what the chain may lose. */
	c->sign_now = true;
	return rc;
}

static int cut_open(struct cutter *c, struct segment_record *sr, struct err *e)
{
	struct cut_session *s = cut_find(c, &sr->rec.session);
	bool sealed = false;

	if (s) {
		if (sr->rec.seq > builder_seq(s->b))
			cutter_session_refused(c, sr, "the session was opened before");
		return 0;
	}
	/* The row comes first, so that a seal that is mended finds it. */
	int rc = cutter_session_put_row(c, &sr->rec, e);
	if (rc || (rc = known_sealed(c, &sr->rec.session, sr->lsn, &sealed, e)) != 0 || sealed)
		return rc;
	return cut_begin(c, &sr->rec, &s, e);
}

/* Bytes of a session whose OPEN is not there: the journal was damaged. They are kept under an OPEN that says so. */
static int cut_orphan(struct cutter *c, const struct segment_record *sr, struct cut_session **out, struct err *e)
{
	char json[256], boot[ID_STR_LEN];
	struct ring_record open = sr->rec;
	bool sealed = false;

	*out = NULL;
	int rc = known_sealed(c, &sr->rec.session, sr->lsn, &sealed, e);
	if (rc)
		return rc;
	if (sealed || (sr->rec.type != RING_DATA && sr->rec.type != RING_EXIT)) {
		/* Late events of a session that is sealed are in the audit log, if they matter. */
		log_debug(NULL, "record %llu (type %u) came after its session's seal", (unsigned long long)sr->lsn,
			  sr->rec.type);
		return 0;
	}
	id_format(follower_boot(c->follower), boot);
	snprintf(json, sizeof(json),
		 "{\"v\":1,\"kind\":\"exec\",\"agent\":\"unknown\",\"principal\":\"unknown\",\"open_lost\":true,"
		 "\"wall_ns\":%lld,\"boot_id\":\"%s\"}",
		 (long long)follower_wall_ns(c->follower, sr->rec.boot_ns), boot);
	open.type = RING_OPEN;
	open.stream = 0;
	open.flags = 0;
	open.offset = 0;
	open.seq = sr->lsn - 1;
	open.payload = (const uint8_t *)json;
	open.len = (uint32_t)strlen(json);
	rc = cutter_session_put_row(c, &open, e);
	return rc ? rc : cut_begin(c, &open, out, e);
}

static int cut_end(struct cutter *c, struct cut_session *s, const struct segment_record *sr, struct err *e)
{
	char *exit = payload_text(&sr->rec);
	int rc = exit
		     ? index_put_end(c->index, &s->id, exit, sr->lsn, follower_wall_ns(c->follower, sr->rec.boot_ns), e)
		     : err_set(e, ERR_NOMEM, "out of memory");
	free(exit);
	if (rc == 0 && !s->seal_ns) {
		uint64_t at = clock_boot_ns() + SEAL_DELAY_NS;

		s->seal_ns = at + SEAL_GRID_NS - at % SEAL_GRID_NS;
		cut_tell_streams(c, s);
	}
	return rc;
}

static int cut_session_record(struct cutter *c, struct segment_record *sr, struct err *e)
{
	struct cut_session *s = cut_find(c, &sr->rec.session);
	struct err why = {0};
	int rc = 0;

	if (!s && ((rc = cut_orphan(c, sr, &s, e)) != 0 || !s))
		return rc;
	rc = builder_append(s->b, &sr->rec, &why);
	if (rc == ERR_INVAL) {
		cutter_session_refused(c, sr, why.message);
		return 0;
	}
	if (rc)
		return err_set(e, rc, "%s", why.message);
	s->dirty = true;
	if (builder_full(s->b) && !s->full) {
		s->full = true;
		cut_tell_full(c, s);
	}
	if (!s->fresh_lsn)
		s->fresh_lsn = sr->lsn;
	uint64_t end = sr->rec.offset + sr->rec.len;
	if (sr->rec.type == RING_DATA && sr->rec.stream < STREAM_COUNT && end > s->offsets[sr->rec.stream]) {
		s->offsets[sr->rec.stream] = end;
		s->touched = true;
	}
	return sr->rec.type == RING_EXIT ? cut_end(c, s, sr, e) : 0;
}

static int cut_audit(struct cutter *c, struct segment_record *sr, struct err *e)
{
	int64_t wall = follower_wall_ns(c->follower, sr->rec.boot_ns);
	char *json = payload_text(&sr->rec);
	int rc = json ? cut_policy_audit(c, sr, &json, e) : err_set(e, ERR_NOMEM, "out of memory");

	if (rc == 0)
		rc = index_put_audit(c->index, sr->lsn, wall, &sr->rec.session, json, e);
	if (rc == 0)
		rc = chain_append_audit(c->chain, &sr->rec, wall, e);
	free(json);
	return rc;
}

static int cut_clock(struct cutter *c, const struct segment_record *sr, struct err *e)
{
	for (size_t i = 0; i < c->n; i++) {
		struct err why = {0};
		int rc = builder_append(c->sessions[i]->b, &sr->rec, &why);
		if (rc && rc != ERR_INVAL)
			return err_set(e, rc, "%s", why.message);
		c->sessions[i]->dirty = true;
	}
	return 0;
}

int cut_record(struct cutter *c, struct segment_record *sr, struct err *e)
{
	/* From here on the order is the log's: the hub's own numbers begin anew with each ring. */
	sr->rec.seq = sr->lsn;
	switch (sr->rec.type) {
	case RING_AUDIT:
		return cut_audit(c, sr, e);
	case RING_CLOCK:
		return cut_clock(c, sr, e);
	case RING_OPEN:
		return cut_open(c, sr, e);
	default:
		return cut_session_record(c, sr, e);
	}
}
