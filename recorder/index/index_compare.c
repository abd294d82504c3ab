#include "recorder/index/index_compare.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "recorder/chain/chain_format.h"
#include "recorder/chain/file.h"
#include "recorder/format/recording_load.h"
#include "recorder/index/holds.h"
#include "recorder/index/index_derive.h"
#include "recorder/index/index_row.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum compare_state { COMPARE_LOG, COMPARE_SESSIONS, COMPARE_DONE };

#define PATIENCE    10 /* looks at rows that differ in the end, as a recorder may be at work */
#define PATIENCE_US 100000

struct index_compare {
	struct index_compare_params p;
	enum compare_state state;
	struct chain_reader *reader; /* NULL: there is no log */
	bool torn;                   /* the log ended within an entry */
	int64_t last_lsn;            /* of the last audit entry */
	int64_t rows_until;          /* the highest row when it began */
	uint64_t durable_lsn;        /* what comes from there on may not be in the database yet */
	json_t *holds;               /* {id: {"json", "released"}} as the log has them; few */
	bool key_is_new;
	char session[ID_STR_LEN]; /* the last row that was looked at */
	int patience;
	bool trial; /* findings are counted, not told */
	uint64_t trials;
	uint64_t counts[INDEX_DIFFERENCES];
};

static void compare_set_state(struct index_compare *c, enum compare_state s)
{
	c->state = s;
}

static void found(struct index_compare *c, enum index_difference what, enum row_table table, const char *key,
		  const char *column)
{
	struct index_finding f = {.what = what, .table = table == ROW_AUDIT ? "audit" : "sessions", .column = column};

	if (c->trial) {
		c->trials++;
		return;
	}
	c->counts[what]++;
	snprintf(f.key, sizeof(f.key), "%.*s", ID_STR_LEN - 1, key); /* bytes: an id or a number */
	if (table == ROW_SESSIONS && id_parse(f.key, &f.session))
		memset(&f.session, 0, sizeof(f.session));
	if (c->p.found)
		c->p.found(c->p.arg, &f);
}

/* ---- what rows there are */

static bool state_is(const struct row *r, const char *state)
{
	const struct cell *c = &r->cells[S_STATE];

	return c->type == SQLITE_TEXT && c->n == strlen(state) && memcmp(c->s, state, c->n) == 0;
}

static int drop_audit(struct index_compare *c, int64_t lsn, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(c->p.index, SQL_AUDIT_DROP, &s, e);

	if (rc)
		return rc;
	sqlite3_bind_int64(s, sqlite3_bind_parameter_index(s, ":lsn"), lsn);
	return index_step_done(c->p.index, s, e);
}

/* Rows between the last entry and this one belong to no entry. */
static int drop_between(struct index_compare *c, int64_t after, int64_t before, struct err *e)
{
	sqlite3_stmt *s;
	char key[32];
	int rc;

	for (;;) {
		if ((rc = index_stmt(c->p.index, SQL_AUDIT_BETWEEN, &s, e)) != 0)
			return rc;
		sqlite3_bind_int64(s, sqlite3_bind_parameter_index(s, ":after"), after);
		sqlite3_bind_int64(s, sqlite3_bind_parameter_index(s, ":before"), before);
		if ((rc = index_step_row(c->p.index, s, e)) != 1)
			return rc;
		after = sqlite3_column_int64(s, 0);
		sqlite3_reset(s);
		snprintf(key, sizeof(key), "%" PRId64, after);
		found(c, INDEX_ADDED, ROW_AUDIT, key, NULL);
		if (c->p.mend && (rc = drop_audit(c, after, e)) != 0)
			return rc;
	}
}

/*
 * Rows of version 1 are written anew, as none of them has a code, and nobody changed them: their times were those at
 * which the ring was read, some microseconds after those that the record names, and what was sealed kept its segment.
 */
static void excuse_version_1(struct row *have, const struct row *want)
{
	static const enum session_cell times[] = {S_OPENED, S_ENDED};

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		struct cell *h = &have->cells[times[i]];
		const struct cell *w = &want->cells[times[i]];

		if (h->type == SQLITE_INTEGER && w->type == SQLITE_INTEGER && llabs(h->i - w->i) < (int64_t)NS_PER_SEC)
			*h = *w;
	}
	if (want->cells[S_OPEN_SEGMENT].type == SQLITE_NULL)
		have->cells[S_OPEN_SEGMENT] = want->cells[S_OPEN_SEGMENT];
}

/* *out: the column that differs, "code" when only that does, NULL for none; mended rows are written anew. */
static const char *index_compare_judge(const struct index_compare *c, sqlite3_stmt *s, const struct row *want)
{
	struct row have;

	row_read(s, want->table, &have);
	if (c->p.mend && c->key_is_new && want->table == ROW_SESSIONS)
		excuse_version_1(&have, want);
	const char *column = row_differs(want, &have);
	return column || c->key_is_new || row_sound(c->p.index, s, want->table) ? column : "code";
}

static int put_audit(struct index_compare *c, const struct chain_entry *en, const char *json, struct err *e)
{
	int rc = drop_audit(c, (int64_t)en->journal_seq, e);

	return rc ? rc : index_put_audit(c->p.index, en->journal_seq, en->wall_ns, &en->session, json, e);
}

static int audit_entry(struct index_compare *c, const struct chain_entry *en, struct err *e)
{
	char id[ID_STR_LEN] = "", key[32];
	json_t *parsed = NULL;
	sqlite3_stmt *s;
	struct row want;
	int there, rc = drop_between(c, c->last_lsn, (int64_t)en->journal_seq, e);
	char *json = rc ? NULL : strndup((const char *)en->payload, en->len);

	if (!json)
		return rc ? rc : err_set(e, ERR_NOMEM, "out of memory");
	if (!id_is_nil(&en->session))
		id_format(&en->session, id);
	row_of_audit(&want, en->journal_seq, en->wall_ns, id, json, &parsed);
	snprintf(key, sizeof(key), "%" PRIu64, en->journal_seq);
	rc = index_stmt(c->p.index, SQL_AUDIT_ROW, &s, e);
	if (rc == 0) {
		index_bind_u64(s, ":lsn", en->journal_seq);
		there = index_step_row(c->p.index, s, e);
		const char *column = there == 1 ? index_compare_judge(c, s, &want) : NULL;
		bool put = there == 0 || column || (c->key_is_new && !row_sound(c->p.index, s, ROW_AUDIT));
		if (there == 1)
			sqlite3_reset(s);
		if (column)
			found(c, INDEX_CHANGED, ROW_AUDIT, key, column);
		else if (there == 0 && en->journal_seq < c->durable_lsn)
			found(c, INDEX_MISSING, ROW_AUDIT, key, NULL);
		rc = there < 0 ? there : c->p.mend && put ? put_audit(c, en, json, e) : 0;
	}
	c->last_lsn = (int64_t)en->journal_seq;
	json_decref(parsed);
	free(json);
	return rc;
}

static int drop_session(struct index_compare *c, const char *key, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(c->p.index, SQL_SESSION_DROP, &s, e);

	if (rc)
		return rc;
	index_bind(s, ":id", key);
	return index_step_done(c->p.index, s, e);
}

static int mend_from_file(struct index_compare *c, const struct id *id, const char *path, struct err *e)
{
	struct index_derived d;
	char root[65] = "";
	int rc = index_derive(path, &d, e);

	if (rc)
		return rc == ERR_NOMEM ? rc : 0; /* damaged: verify's business */
	/* The recording's keyframes are drawn again when somebody misses them. */
	if (index_keyframes(c->p.index, id, root, NULL) == 0 && root[0])
		d.row.keyframes = root;
	rc = index_put_recording(c->p.index, &d.row, e);
	index_derived_finish(&d);
	return rc;
}

/* 1 and the row in s, which is to be reset; 0: there is none. */
static int index_compare_row_of(struct index_compare *c, const char *key, sqlite3_stmt **s, struct err *e)
{
	int rc = index_stmt(c->p.index, SQL_SESSION_ROW, s, e);

	if (rc)
		return rc;
	index_bind(*s, ":id", key);
	return index_step_row(c->p.index, *s, e);
}

/*
 * A seal or a tombstone: the session is in the index. A row of somebody else's whose file is gone holds nothing that
 * could be proven: what stays is that the log has it.
 */
static int seal_entry(struct index_compare *c, const struct chain_entry *en, struct err *e)
{
	const char *state = en->type == CHAIN_TOMBSTONE ? "expired" : "sealed";
	char path[FILE_PATH_MAX], key[ID_STR_LEN];
	sqlite3_stmt *s;
	struct row have;
	bool sound = true;

	id_format(&en->session, key);
	int there = index_compare_row_of(c, key, &s, e);
	bool expired = false;
	if (there == 1) {
		row_read(s, ROW_SESSIONS, &have);
		sound = row_sound(c->p.index, s, ROW_SESSIONS);
		expired = state_is(&have, "expired");
		sqlite3_reset(s);
	}
	if (there < 0)
		return there;
	bool file = recording_find(c->p.dir, &en->session, path, sizeof(path), NULL) == 0;
	if (there == 0 && (file || en->type == CHAIN_TOMBSTONE) && en->journal_seq < c->durable_lsn)
		found(c, INDEX_MISSING, ROW_SESSIONS, key, NULL);
	if (!c->p.mend)
		return 0;
	if (there == 1 && sound && en->type == CHAIN_TOMBSTONE && !file && !expired)
		return index_put_expired(c->p.index, &en->session, e);
	if (there == 1 && (sound || file || c->key_is_new))
		return 0;
	if (file)
		return mend_from_file(c, &en->session, path, e);
	if (there == 1)
		found(c, INDEX_CHANGED, ROW_SESSIONS, key, "code");
	int rc = there == 1 ? drop_session(c, key, e) : 0;
	return rc ? rc : index_put_gone(c->p.index, &en->session, state, e);
}

/* ---- legal holds: an entry of the log for each, and for each release */

static int hold_entry(struct index_compare *c, const struct chain_entry *en, struct err *e)
{
	json_t *o = NULL, *hold;
	int rc = 0;

	if (chain_entry_json(en, &o))
		return 0; /* holds nothing: verify names it */
	const char *event = json_string_value(json_object_get(o, "event"));
	const char *id = json_string_value(json_object_get(o, "hold"));
	if (event && id) {
		hold = json_object_get(c->holds, id);
		if (strcmp(event, HOLD_ADD) == 0 && !hold)
			rc = json_object_set_new(c->holds, id, json_pack("{s:O}", "json", o));
		else if (strcmp(event, HOLD_RELEASE) == 0 && hold)
			rc = json_object_set(hold, "released", o);
	}
	json_decref(o);
	return rc ? err_set(e, ERR_NOMEM, "out of memory") : 0;
}

static bool same_json(const char *text, const json_t *want)
{
	json_t *o = NULL;

	if (text && json_parse(text, strlen(text), RING_RECORD_MAX, &o, NULL))
		return false;
	bool same = o && want ? json_equal(o, want) : !o && !want;
	json_decref(o);
	return same;
}

static void hold_found(struct index_compare *c, enum index_difference what, const char *key, const char *column)
{
	struct index_finding f = {.what = what, .table = "holds", .column = column};

	text_put(f.key, sizeof(f.key), key);
	c->counts[what]++;
	if (c->p.found)
		c->p.found(c->p.arg, &f);
}

static int mend_holds(struct index_compare *c, struct err *e)
{
	sqlite3_stmt *s;
	const char *id;
	json_t *hold;
	int rc = index_stmt(c->p.index, SQL_HOLDS_CLEAR, &s, e);

	if (rc == 0)
		rc = index_step_done(c->p.index, s, e);
	json_object_foreach(c->holds, id, hold)
	{
		char *set = json_text(json_object_get(hold, "json"));
		json_t *end = json_object_get(hold, "released");
		char *released = end ? json_text(end) : NULL;
		if (!set || (end && !released))
			rc = err_set(e, ERR_NOMEM, "out of memory");
		if (rc == 0)
			rc = index_put_hold(c->p.index, id, set, e);
		if (rc == 0 && released)
			rc = index_put_release(c->p.index, id, released, e);
		free(set);
		free(released);
	}
	return rc;
}

/* Nothing runs between the two with mend; without, what came since the rows' moment is no finding. */
static int compare_holds(struct index_compare *c, struct err *e)
{
	uint64_t before[INDEX_DIFFERENCES], told = 0;
	json_t *left = json_copy(c->holds);
	sqlite3_stmt *s;
	const char *id;
	json_t *hold;
	int rc = left ? index_stmt(c->p.index, SQL_HOLD_ROWS, &s, e) : err_set(e, ERR_NOMEM, "out of memory");

	memcpy(before, c->counts, sizeof(before));
	while (rc == 0 && (rc = index_step_row(c->p.index, s, e)) == 1) {
		const char *key = (const char *)sqlite3_column_text(s, 0);
		hold = key ? json_object_get(left, key) : NULL;
		if (!hold)
			hold_found(c, INDEX_ADDED, key ? key : "", NULL);
		else if (!same_json((const char *)sqlite3_column_text(s, 1), json_object_get(hold, "json")))
			hold_found(c, INDEX_CHANGED, key, "json");
		else if (!same_json((const char *)sqlite3_column_text(s, 2), json_object_get(hold, "released")) &&
			 (c->p.mend || sqlite3_column_type(s, 2) != SQLITE_NULL || !c->p.patient))
			hold_found(c, INDEX_CHANGED, key, "released");
		if (hold)
			json_object_del(left, key);
		rc = 0;
	}
	json_object_foreach(left, id, hold)
	{
		if (rc == 0 && (c->p.mend || !c->p.patient))
			hold_found(c, INDEX_MISSING, id, NULL);
	}
	json_decref(left);
	for (int i = 0; i < INDEX_DIFFERENCES; i++)
		told += c->counts[i] - before[i];
	return rc == 0 && told && c->p.mend ? mend_holds(c, e) : rc;
}

/* What was appended meanwhile has rows as well. Rows behind the last entry are nobody's. */
static int log_end(struct index_compare *c, struct err *e)
{
	struct chain_entry en;
	struct err why = {0};
	int rc = 0, got = 0;

	if (c->p.mend && c->reader && !c->torn) {
		rc = chain_reader_refresh(c->reader, e);
		while (rc == 0 && (got = chain_reader_next(c->reader, &en, &why)) == 1) {
			if (en.type == CHAIN_AUDIT)
				rc = audit_entry(c, &en, e);
			else if (en.type == CHAIN_HOLD)
				rc = hold_entry(c, &en, e);
		}
	}
	if (rc == 0 && got < 0)
		return err_set(e, got, "%s", why.message);
	if (rc == 0 && c->rows_until > c->last_lsn)
		rc = drop_between(c, c->last_lsn, INT64_MAX, e);
	if (rc == 0)
		rc = compare_holds(c, e);
	if (!c->p.mend)
		index_rollback(c->p.index); /* of rows of sessions the newest are looked at */
	compare_set_state(c, COMPARE_SESSIONS);
	return rc ? rc : 1;
}

static int log_step(struct index_compare *c, size_t most, struct err *e)
{
	struct chain_entry en;
	struct err why = {0};
	int rc = 0, got = 0;

	for (size_t i = 0; rc == 0 && i < most; i++) {
		got = c->reader ? chain_reader_next(c->reader, &en, &why) : 0;
		if (got == ERR_CORRUPT) {
			c->torn = chain_reader_torn(c->reader);
			continue; /* told by who verifies the log */
		}
		if (got <= 0)
			break;
		if (en.type == CHAIN_AUDIT)
			rc = audit_entry(c, &en, e);
		else if (en.type == CHAIN_SEAL || en.type == CHAIN_TOMBSTONE)
			rc = seal_entry(c, &en, e);
		else if (en.type == CHAIN_HOLD)
			rc = hold_entry(c, &en, e);
		else if (en.type == CHAIN_DIGEST && c->p.mend && !c->key_is_new)
			rc = index_put_digest(c->p.index, &en, e); /* a crash came between */
	}
	if (rc || got > 0 || got == ERR_CORRUPT)
		return rc ? rc : 1;
	return got < 0 ? err_set(e, got, "%s", why.message) : log_end(c, e);
}

/* ---- sessions */

/* Cells that only the recorder itself can know are taken as they are. */
static void index_compare_take(struct row *want, const struct row *have, const enum session_cell *cells, size_t n)
{
	for (size_t i = 0; i < n; i++)
		want->cells[cells[i]] = have->cells[cells[i]];
}

/* Writes the row anew; s may lend its cells and stands on it. */
static int put_session(struct index_compare *c, const struct row *want, struct err *e)
{
	sqlite3_stmt *put;
	int rc = index_stmt(c->p.index, SQL_PUT_SESSION, &put, e);

	if (rc)
		return rc;
	row_bind(c->p.index, put, want);
	return index_step_done(c->p.index, put, e);
}

static int added(struct index_compare *c, const char *key, struct err *e)
{
	found(c, INDEX_ADDED, ROW_SESSIONS, key, NULL);
	return c->p.mend ? drop_session(c, key, e) : 0;
}

/* The row is there: what differs is told; true: it is to be written anew. */
static bool differs(struct index_compare *c, sqlite3_stmt *s, const struct row *want, const char *key)
{
	const char *column = index_compare_judge(c, s, want);

	if (column)
		found(c, INDEX_CHANGED, ROW_SESSIONS, key, column);
	return c->p.mend && (column || !row_sound(c->p.index, s, ROW_SESSIONS));
}

/* Sealed: everything is in the file, but for whether it is kept for ever. */
static int sealed_row(struct index_compare *c, sqlite3_stmt *s, const struct row *have, const char *key,
		      const struct id *id, const char *path, struct err *e)
{
	struct index_derived d;
	json_t *parsed[2];
	struct row want;
	char root[65] = "";
	int rc = index_derive(path, &d, e);

	if (rc)
		return rc == ERR_NOMEM ? rc : 0;
	if (c->p.logged && c->p.logged(c->p.arg, id, root) && root[0])
		d.row.keyframes = root;
	row_of_recording(&want, &d.row, key, parsed);
	if (state_is(have, "kept"))
		want.cells[S_STATE] = have->cells[S_STATE];
	if (!c->p.logged)
		want.cells[S_KEYFRAMES] = have->cells[S_KEYFRAMES];
	bool put = differs(c, s, &want, key);
	json_decref(parsed[0]);
	json_decref(parsed[1]);
	index_derived_finish(&d);
	return put ? mend_from_file(c, id, path, e) : 0;
}

static bool has_checkpoint(struct index_compare *c, const char *key)
{
	sqlite3_stmt *s;

	if (index_stmt(c->p.index, SQL_HAS_CHECKPOINT, &s, NULL))
		return false;
	index_bind(s, ":id", key);
	int step = sqlite3_step(s);
	sqlite3_reset(s);
	return step == SQLITE_ROW;
}

/* The row came since the last checkpoint: what a crash left is derived again by the next start. */
static bool is_fresh(const struct index_compare *c, const struct row *have)
{
	const struct cell *lsn = &have->cells[S_OPEN_LSN];

	return lsn->type == SQLITE_INTEGER && (uint64_t)lsn->i >= c->durable_lsn;
}

/* The session goes on: the file's header has its OPEN. How and where it ended is in no file before the seal. */
static int open_row(struct index_compare *c, sqlite3_stmt *s, const struct row *have, const char *key, const char *path,
		    struct err *e)
{
	static const enum session_cell always[] = {S_STATE, S_INPUT, S_OUTPUT, S_STDERR, S_OPEN_SEGMENT};
	static const enum session_cell at_end[] = {S_ENDED, S_EXIT, S_CAUSE, S_END_LSN};
	struct recording_file f;
	json_t *parsed = NULL;
	struct row want;
	int rc = 0;

	if (!path[0] && c->p.mend && row_sound(c->p.index, s, ROW_SESSIONS))
		return 0; /* its file is lost, and is cut again from what the segments have */
	if (!path[0])
		return is_fresh(c, have) ? 0 : added(c, key, e);
	if (recording_file_begin(&f, path, NULL))
		return 0; /* verify's business */
	struct index_session open = {
	    .open = f.info.open_json, .open_lsn = f.info.open_seq, .opened_ns = f.info.wall_ns};
	row_of_open(&want, &open, key, &parsed);
	index_compare_take(&want, have, always, sizeof(always) / sizeof(always[0]));
	if (state_is(have, "ended"))
		index_compare_take(&want, have, at_end, sizeof(at_end) / sizeof(at_end[0]));
	if (differs(c, s, &want, key))
		rc = put_session(c, &want, e);
	json_decref(parsed);
	recording_file_finish(&f);
	return rc;
}

/* Erased: the tombstone says that it was, and what it was about is gone with it. */
static int expired_row(struct index_compare *c, sqlite3_stmt *s, const struct row *have, const char *key,
		       const struct id *id, struct err *e)
{
	static const enum session_cell emptied[] = {S_EXEC_ID, S_REASON, S_OPEN, S_EXIT, S_DIGEST, S_PATH, S_KEYFRAMES};
	struct row want = *have;
	char root[65];

	/* With mend, rows of sessions that the log knows were made sound before. */
	bool unknown = c->p.mend ? !c->key_is_new && !row_sound(c->p.index, s, ROW_SESSIONS)
				 : c->p.logged && !c->p.logged(c->p.arg, id, root);
	if (unknown)
		return added(c, key, e);
	for (size_t i = 0; i < sizeof(emptied) / sizeof(emptied[0]); i++)
		want.cells[emptied[i]] = cell_null();
	return differs(c, s, &want, key) ? put_session(c, &want, e) : 0;
}

static int lost_row(struct index_compare *c, sqlite3_stmt *s, const struct row *have, const char *key,
		    const struct id *id, struct err *e)
{
	char root[65];

	if (!c->p.mend)
		return c->p.logged && !c->p.logged(c->p.arg, id, root) ? added(c, key, e) : 0;
	if (row_sound(c->p.index, s, ROW_SESSIONS))
		return 0;
	return c->key_is_new ? put_session(c, have, e) : added(c, key, e);
}

static int session_row(struct index_compare *c, sqlite3_stmt *s, const char *key, struct err *e)
{
	char path[FILE_PATH_MAX] = "", day[11];
	struct row have;
	struct id id;

	row_read(s, ROW_SESSIONS, &have);
	if (id_parse(key, &id))
		return added(c, key, e);
	if (recording_find(c->p.dir, &id, path, sizeof(path), NULL))
		path[0] = '\0';
	bool sealed = path[0] && recording_day(path, day);
	bool goes_on = state_is(&have, "open") || state_is(&have, "ended");
	/* Sealed just before a crash, or now: the recorder is about to say so. */
	bool pending = goes_on && sealed && !c->p.mend && (has_checkpoint(c, key) || is_fresh(c, &have));
	if (goes_on && (!sealed || pending))
		return open_row(c, s, &have, key, path, e);
	if (sealed)
		return sealed_row(c, s, &have, key, &id, path, e);
	return state_is(&have, "expired") ? expired_row(c, s, &have, key, &id, e) : lost_row(c, s, &have, key, &id, e);
}

/* A recorder at work may be between a file and its row. */
static int look_again(struct index_compare *c, const char *key, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_compare_row_of(c, key, &s, e);

	if (rc != 1)
		return rc;
	rc = session_row(c, s, key, e);
	sqlite3_reset(s);
	return rc;
}

/* Only a row that differs to the end takes patience from those behind it. */
static int one_session(struct index_compare *c, sqlite3_stmt *s, const char *key, struct err *e)
{
	int rc, looks = 0;

	c->trial = !c->p.mend && c->patience > 0;
	c->trials = 0;
	rc = session_row(c, s, key, e);
	sqlite3_reset(s);
	while (rc == 0 && c->trial && c->trials) {
		usleep(PATIENCE_US);
		if (c->p.again)
			c->p.again(c->p.arg);
		c->trial = ++looks < c->patience;
		c->trials = 0;
		rc = look_again(c, key, e);
	}
	if (looks && !c->trial)
		c->patience -= looks;
	c->trial = false;
	return rc;
}

/* Ids that are none stand nowhere in an order. */
static int bad_sessions(struct index_compare *c, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(c->p.index, SQL_SESSION_BAD, &s, e), n = 0;

	if (rc)
		return rc;
	while ((rc = index_step_row(c->p.index, s, e)) == 1) {
		const char *key = (const char *)sqlite3_column_text(s, 0);
		found(c, INDEX_ADDED, ROW_SESSIONS, key ? key : "", NULL);
		n++;
	}
	if (rc || !n || !c->p.mend || (rc = index_stmt(c->p.index, SQL_SESSION_DROP_BAD, &s, e)) != 0)
		return rc;
	return index_step_done(c->p.index, s, e);
}

static int sessions_end(struct index_compare *c, struct err *e)
{
	int rc = bad_sessions(c, e);

	if (rc == 0 && c->key_is_new && c->p.mend)
		rc = index_put_key(c->p.index, e);
	if (rc == 0)
		compare_set_state(c, COMPARE_DONE);
	return rc;
}

static int sessions_step(struct index_compare *c, size_t most, struct err *e)
{
	char key[ID_STR_LEN];
	sqlite3_stmt *s;
	int rc;

	for (size_t i = 0; i < most; i++) {
		if ((rc = index_stmt(c->p.index, SQL_SESSION_NEXT, &s, e)) != 0)
			return rc;
		index_bind(s, ":id", c->session);
		if ((rc = index_step_row(c->p.index, s, e)) != 1)
			return rc ? rc : sessions_end(c, e);
		memcpy(key, sqlite3_column_blob(s, 0), ID_STR_LEN - 1);
		key[ID_STR_LEN - 1] = '\0';
		if ((rc = one_session(c, s, key, e)) != 0)
			return rc;
		memcpy(c->session, key, sizeof(key));
	}
	return 1;
}

/* ---- outside */

static int highest_row(struct index_compare *c, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(c->p.index, SQL_AUDIT_MAX, &s, e);

	if (rc == 0 && (rc = index_step_row(c->p.index, s, e)) == 1) {
		c->rows_until = sqlite3_column_type(s, 0) == SQLITE_NULL ? INT64_MIN : sqlite3_column_int64(s, 0);
		sqlite3_reset(s);
		rc = 0;
	}
	return rc;
}

int index_compare_begin(const struct index_compare_params *p, struct index_compare **out, struct err *e)
{
	struct index_compare *c = calloc(1, sizeof(*c));
	struct index_cursor cursor;
	int rc = c ? 0 : err_set(e, ERR_NOMEM, "out of memory");

	if (rc)
		return rc;
	c->p = *p;
	c->holds = json_object();
	if (!c->holds)
		rc = err_set(e, ERR_NOMEM, "out of memory");
	c->patience = p->patient ? PATIENCE : 0;
	c->last_lsn = INT64_MIN;
	/* Without mend all audit rows are those of one moment; the log is read after it. */
	if (rc == 0)
		rc = p->mend ? 0 : index_begin_read(p->index, e);
	if (rc == 0)
		rc = highest_row(c, e);
	if (rc == 0)
		rc = index_cursor(p->index, &cursor, e);
	if (rc == 0)
		rc = index_key_is_new(p->index, &c->key_is_new, e);
	if (rc == 0) {
		c->durable_lsn = p->durable_lsn ? p->durable_lsn : cursor.lsn;
		rc = chain_reader_create(p->dir, 0, &c->reader, e);
		rc = rc == ERR_NOT_FOUND ? 0 : rc;
	}
	if (rc) {
		index_compare_end(c);
		return rc;
	}
	*out = c;
	return 0;
}

int index_compare_step(struct index_compare *c, size_t most, struct err *e)
{
	switch (c->state) {
	case COMPARE_LOG:
		return log_step(c, most, e);
	case COMPARE_SESSIONS:
		return sessions_step(c, most, e);
	case COMPARE_DONE:
		break;
	}
	return 0;
}

void index_compare_counts(const struct index_compare *c, uint64_t out[INDEX_DIFFERENCES])
{
	memcpy(out, c->counts, sizeof(c->counts));
}

void index_compare_end(struct index_compare *c)
{
	if (!c)
		return;
	if (!c->p.mend)
		index_rollback(c->p.index);
	chain_reader_destroy(c->reader);
	json_decref(c->holds);
	free(c);
}
