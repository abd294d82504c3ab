/* What retention lives by: recordings by their age, legal holds, the events that say how long to keep. */
#include "base/err.h"
#include "recorder/index/index_row.h"

#include <string.h>

static const char *text_at(sqlite3_stmt *s, int i)
{
	return (const char *)sqlite3_column_text(s, i);
}

/*
 * Nothing is erased, and nothing put into force, on the word of somebody else: such a row is passed over. While no row
 * has its code yet nothing is erased either: the cutter compares first.
 */
static bool own(struct index *ix, sqlite3_stmt *s, enum row_table table)
{
	bool sound = ix->key_is_new || row_sound(ix, s, table);

	ix->unsound += !sound;
	return sound;
}

/* Ends a walk over rows: what went wrong, if anything did. 1 from a row is no mistake. */
static int walk_end(struct index *ix, sqlite3_stmt *s, int rc, int step, struct err *e)
{
	sqlite3_reset(s);
	if (rc)
		return rc == 1 ? 0 : rc;
	return step == SQLITE_DONE ? 0 : index_error(ix, step, e);
}

/* changed_too: also rows that somebody else changed, where being passed over would let something go. */
static int ended_rows(struct index *ix, sqlite3_stmt *s, bool changed_too, index_ended_row *fn, void *arg,
		      struct err *e)
{
	int step = SQLITE_DONE, rc = 0;

	while (rc == 0 && (step = sqlite3_step(s)) == SQLITE_ROW) {
		if (!own(ix, s, ROW_SESSIONS) && !changed_too)
			continue;
		bool ended = sqlite3_column_type(s, S_ENDED) != SQLITE_NULL;
		struct index_ended row = {.agent = text_at(s, S_AGENT),
					  .principal = text_at(s, S_PRINCIPAL),
					  .opened_ns = sqlite3_column_int64(s, S_OPENED),
					  .ended_ns = ended ? sqlite3_column_int64(s, S_ENDED) : INT64_MAX};
		rc = id_parse(text_at(s, 0), &row.id);
		if (rc == 0)
			rc = fn(arg, &row);
	}
	return walk_end(ix, s, rc, step, e);
}

int index_expired(struct index *ix, int64_t before_ns, index_ended_row *fn, void *arg, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_EXPIRED, &s, e);

	if (rc)
		return rc;
	index_bind_u64(s, ":before", before_ns > 0 ? (uint64_t)before_ns : 0);
	return ended_rows(ix, s, false, fn, arg, e);
}

int index_named_by(struct index *ix, const char *agent, const char *snapshot, const char *previous, index_ended_row *fn,
		   void *arg, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_NAMED_BY, &s, e);

	if (rc)
		return rc;
	index_bind(s, ":agent", agent);
	index_bind(s, ":snapshot", snapshot);
	index_bind(s, ":previous", previous);
	return ended_rows(ix, s, true, fn, arg, e);
}

static int put_json(struct index *ix, enum index_sql which, const char *id, const char *json, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, which, &s, e);

	if (rc)
		return rc;
	index_bind(s, ":id", id);
	index_bind(s, ":json", json);
	return index_step_done(ix, s, e);
}

int index_put_hold(struct index *ix, const char *id, const char *json, struct err *e)
{
	return put_json(ix, SQL_PUT_HOLD, id, json, e);
}

int index_put_release(struct index *ix, const char *id, const char *json, struct err *e)
{
	return put_json(ix, SQL_PUT_RELEASE, id, json, e);
}

static json_t *object_at(sqlite3_stmt *s, int i)
{
	const char *text = text_at(s, i);
	json_t *o = NULL;

	if (text && json_parse(text, strlen(text), RING_RECORD_MAX, &o, NULL))
		o = NULL;
	return o;
}

int index_holds(struct index *ix, bool released_too, index_hold_row *fn, void *arg, struct err *e)
{
	sqlite3_stmt *s;
	int step = SQLITE_DONE, rc = index_stmt(ix, SQL_HOLDS, &s, e);

	if (rc)
		return rc;
	index_bind_u64(s, ":all", released_too);
	while (rc == 0 && (step = sqlite3_step(s)) == SQLITE_ROW) {
		json_t *hold = object_at(s, 0), *released = object_at(s, 1);
		rc = fn(arg, hold, released);
		json_decref(hold);
		json_decref(released);
	}
	return walk_end(ix, s, rc, step, e);
}

int index_policy(struct index *ix, index_event_row *fn, void *arg, struct err *e)
{
	sqlite3_stmt *s;
	int step = SQLITE_DONE, rc = index_stmt(ix, SQL_POLICY, &s, e);

	if (rc)
		return rc;
	while (rc == 0 && (step = sqlite3_step(s)) == SQLITE_ROW) {
		if (!own(ix, s, ROW_AUDIT))
			continue;
		json_t *record = object_at(s, A_JSON);
		rc = fn(arg, (uint64_t)sqlite3_column_int64(s, 0), record);
		json_decref(record);
	}
	return walk_end(ix, s, rc, step, e);
}

int index_config_pieces(struct index *ix, uint64_t lsn, size_t n, index_event_row *fn, void *arg, struct err *e)
{
	sqlite3_stmt *s;
	int step = SQLITE_DONE, rc = index_stmt(ix, SQL_PIECES, &s, e);

	if (rc)
		return rc;
	index_bind_u64(s, ":lsn", lsn);
	index_bind_u64(s, ":limit", n);
	while (rc == 0 && (step = sqlite3_step(s)) == SQLITE_ROW) {
		if (!own(ix, s, ROW_AUDIT))
			continue;
		json_t *record = object_at(s, A_JSON);
		rc = fn(arg, lsn, record);
		json_decref(record);
	}
	return walk_end(ix, s, rc, step, e);
}

int index_fresh(struct index *ix, bool *out, struct err *e)
{
	sqlite3_stmt *s;
	int step, rc = index_stmt(ix, SQL_FRESH, &s, e);

	if (rc)
		return rc;
	step = sqlite3_step(s);
	if (step == SQLITE_ROW)
		*out = sqlite3_column_int(s, 0) != 0;
	sqlite3_reset(s);
	return step == SQLITE_ROW ? 0 : index_error(ix, step, e);
}
