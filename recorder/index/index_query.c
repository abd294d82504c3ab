/* Rows of the tables: put, and got again. */
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "recorder/index/index_row.h"

#include <stdio.h>
#include <string.h>

#define LIMIT_MAX 10000

static uint64_t column_u64(sqlite3_stmt *s, int i)
{
	return (uint64_t)sqlite3_column_int64(s, i);
}

static const char *column_text(sqlite3_stmt *s, int i)
{
	return (const char *)sqlite3_column_text(s, i);
}

static void bind_id(sqlite3_stmt *s, const struct id *id)
{
	char text[ID_STR_LEN];
	id_format(id, text);
	index_bind(s, ":id", text);
}

/* One row of sessions: 1 with it in s, which is to be reset, 0 when there is none. */
static int session_row(struct index *ix, const struct id *id, sqlite3_stmt **s, struct err *e)
{
	int rc = index_stmt(ix, SQL_SESSION_ROW, s, e);

	if (rc)
		return rc;
	bind_id(*s, id);
	return index_step_row(ix, *s, e);
}

/* A row that somebody else changed keeps a code that does not fit, whatever is put into it. */
static int was_sound(struct index *ix, const struct id *id, bool *out, struct err *e)
{
	sqlite3_stmt *s;
	int rc;

	*out = false;
	if (!ix->keyed)
		return 0;
	rc = session_row(ix, id, &s, e);
	if (rc <= 0)
		return rc;
	*out = row_sound(ix, s, ROW_SESSIONS);
	ix->unsound += !*out;
	sqlite3_reset(s);
	return 0;
}

static int put_code(struct index *ix, const struct id *id, struct err *e)
{
	uint8_t code[ROW_CODE];
	sqlite3_stmt *s;
	struct row r;
	int rc = session_row(ix, id, &s, e);

	if (rc <= 0)
		return rc;
	row_read(s, ROW_SESSIONS, &r);
	row_code(ix, &r, code);
	sqlite3_reset(s);
	if ((rc = index_stmt(ix, SQL_PUT_CODE, &s, e)) != 0)
		return rc;
	bind_id(s, id);
	sqlite3_bind_blob(s, sqlite3_bind_parameter_index(s, ":code"), code, sizeof(code), SQLITE_TRANSIENT);
	return index_step_done(ix, s, e);
}

static int index_query_put_row(struct index *ix, enum index_sql which, const struct row *r, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, which, &s, e);

	if (rc)
		return rc;
	row_bind(ix, s, r);
	return index_step_done(ix, s, e);
}

int index_put_open(struct index *ix, const struct index_session *in, struct err *e)
{
	char id[ID_STR_LEN];
	json_t *parsed;
	struct row r;

	id_format(&in->id, id);
	row_of_open(&r, in, id, &parsed);
	int rc = index_query_put_row(ix, SQL_PUT_OPEN, &r, e);
	json_decref(parsed);
	return rc;
}

static int put_by_id(struct index *ix, enum index_sql which, const struct id *id, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, which, &s, e);
	if (rc)
		return rc;
	bind_id(s, id);
	return index_step_done(ix, s, e);
}

int index_put_recording(struct index *ix, const struct index_recording *in, struct err *e)
{
	char id[ID_STR_LEN];
	json_t *parsed[2];
	struct row r;

	id_format(&in->id, id);
	row_of_recording(&r, in, id, parsed);
	int rc = index_query_put_row(ix, SQL_PUT_SESSION, &r, e);
	json_decref(parsed[0]);
	json_decref(parsed[1]);
	return rc ? rc : put_by_id(ix, SQL_DROP_CHECKPOINT, &in->id, e);
}

int index_put_offsets(struct index *ix, const struct id *id, const uint64_t offsets[STREAM_COUNT], struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_PUT_OFFSETS, &s, e);
	if (rc)
		return rc;
	bind_id(s, id);
	index_bind_u64(s, ":in", offsets[STREAM_INPUT]);
	index_bind_u64(s, ":out", offsets[STREAM_OUTPUT]);
	index_bind_u64(s, ":err", offsets[STREAM_STDERR]);
	return index_step_done(ix, s, e);
}

int index_put_end(struct index *ix, const struct id *id, const char *exit, uint64_t lsn, int64_t ended_ns,
		  struct err *e)
{
	sqlite3_stmt *s;
	bool sound;
	json_t *o = NULL;
	int rc = was_sound(ix, id, &sound, e);

	if (rc == 0)
		rc = index_stmt(ix, SQL_PUT_END, &s, e);
	if (rc)
		return rc;
	(void)json_parse(exit, strlen(exit), RING_RECORD_MAX, &o, NULL);
	bind_id(s, id);
	index_bind(s, ":exit", o ? exit : NULL);
	index_bind(s, ":cause", json_string_value(json_object_get(o, "cause")));
	index_bind_u64(s, ":lsn", lsn);
	index_bind_u64(s, ":ended", (uint64_t)ended_ns);
	rc = index_step_done(ix, s, e);
	json_decref(o);
	return rc || !sound ? rc : put_code(ix, id, e);
}

/* Changes of a row that is there; its code goes with it. */
static int change(struct index *ix, enum index_sql which, const struct id *id, struct err *e)
{
	bool sound;
	int rc = was_sound(ix, id, &sound, e);

	if (rc == 0)
		rc = put_by_id(ix, which, id, e);
	return rc || !sound ? rc : put_code(ix, id, e);
}

int index_put_expired(struct index *ix, const struct id *id, struct err *e)
{
	return change(ix, SQL_PUT_EXPIRED, id, e);
}

int index_put_kept(struct index *ix, const struct id *id, struct err *e)
{
	return change(ix, SQL_PUT_KEPT, id, e);
}

int index_put_keyframes(struct index *ix, const struct id *id, const char *root, struct err *e)
{
	sqlite3_stmt *s;
	bool sound;
	int rc = was_sound(ix, id, &sound, e);

	if (rc == 0)
		rc = index_stmt(ix, SQL_PUT_KEYFRAMES, &s, e);
	if (rc)
		return rc;
	bind_id(s, id);
	index_bind(s, ":keyframes", root);
	rc = index_step_done(ix, s, e);
	return rc || !sound ? rc : put_code(ix, id, e);
}

int index_put_gone(struct index *ix, const struct id *id, const char *state, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_PUT_GONE, &s, e);
	if (rc)
		return rc;
	bind_id(s, id);
	index_bind(s, ":state", state);
	rc = index_step_done(ix, s, e);
	return rc || !ix->keyed || !sqlite3_changes(ix->db) ? rc : put_code(ix, id, e);
}

int index_put_audit(struct index *ix, uint64_t lsn, int64_t wall_ns, const struct id *session, const char *json,
		    struct err *e)
{
	char id[ID_STR_LEN] = "";
	json_t *parsed;
	struct row r;

	if (!id_is_nil(session))
		id_format(session, id);
	row_of_audit(&r, lsn, wall_ns, id, json, &parsed);
	int rc = index_query_put_row(ix, SQL_PUT_AUDIT, &r, e);
	json_decref(parsed);
	return rc;
}

int index_put_cursor(struct index *ix, const struct index_cursor *c, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_PUT_CURSOR, &s, e);
	if (rc)
		return rc;
	index_bind_u64(s, ":segment", c->segment);
	index_bind_u64(s, ":offset", c->offset);
	index_bind_u64(s, ":lsn", c->lsn);
	return index_step_done(ix, s, e);
}

int index_put_wait(struct index *ix, const struct index_wait *w, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_PUT_WAIT, &s, e);
	if (rc)
		return rc;
	index_bind_u64(s, ":boot", w->boot);
	index_bind_u64(s, ":until", w->until_ns);
	index_bind_u64(s, ":left", w->left_ns);
	return index_step_done(ix, s, e);
}

int index_put_checkpoint(struct index *ix, const struct id *id, const void *state, size_t n, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_PUT_CHECKPOINT, &s, e);
	if (rc)
		return rc;
	bind_id(s, id);
	sqlite3_bind_blob64(s, sqlite3_bind_parameter_index(s, ":state"), state, n, SQLITE_TRANSIENT);
	return index_step_done(ix, s, e);
}

/* ---- what there is */

/* Numbers of the row that s leads to; where there is none they are 0. */
static int numbers(struct index *ix, sqlite3_stmt *s, uint64_t *out, int n, struct err *e)
{
	int rc = index_step_row(ix, s, e);

	if (rc < 0)
		return rc;
	for (int i = 0; i < n; i++)
		out[i] = rc == 1 ? column_u64(s, i) : 0;
	sqlite3_reset(s);
	return 0;
}

static int numbers_of(struct index *ix, enum index_sql which, uint64_t *out, int n, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, which, &s, e);

	return rc ? rc : numbers(ix, s, out, n, e);
}

int index_cursor(struct index *ix, struct index_cursor *out, struct err *e)
{
	uint64_t n[3];
	int rc = numbers_of(ix, SQL_GET_CURSOR, n, 3, e);

	if (rc == 0)
		*out = (struct index_cursor){n[0], n[1], n[2]};
	return rc;
}

/* The newest audit row that the recorder wrote itself, as the lsn of it; 0: none. Before rows have codes any will do.
 */
static int newest_audit(struct index *ix, uint64_t below, uint64_t *out, struct err *e)
{
	sqlite3_stmt *s;
	bool any = false;
	int step, rc = index_key_is_new(ix, &any, e);

	if (rc == 0)
		rc = index_stmt(ix, SQL_AUDIT_NEWEST, &s, e);
	if (rc)
		return rc;
	while ((step = sqlite3_step(s)) == SQLITE_ROW &&
	       (column_u64(s, 0) >= below || (!any && !row_sound(ix, s, ROW_AUDIT))))
		;
	*out = step == SQLITE_ROW ? column_u64(s, 0) : 0;
	sqlite3_reset(s);
	return step == SQLITE_ROW || step == SQLITE_DONE ? 0 : index_error(ix, step, e);
}

/* Raises *lsn to the newest OPEN or EXIT that a session's row tells of: the journal may have lost both since. */
static int newest_session(struct index *ix, uint64_t *lsn, struct err *e)
{
	sqlite3_stmt *s;
	bool key_is_new = false;
	int step, rc = index_key_is_new(ix, &key_is_new, e);

	if (rc == 0)
		rc = index_stmt(ix, SQL_SESSIONS_ABOVE, &s, e);
	if (rc)
		return rc;
	index_bind_u64(s, ":since", *lsn);
	while ((step = sqlite3_step(s)) == SQLITE_ROW) {
		uint64_t opened = column_u64(s, S_OPEN_LSN), ended = column_u64(s, S_END_LSN);

		if (!key_is_new && !row_sound(ix, s, ROW_SESSIONS))
			continue;
		*lsn = opened > *lsn ? opened : *lsn;
		*lsn = ended > *lsn ? ended : *lsn;
	}
	sqlite3_reset(s);
	return step == SQLITE_DONE ? 0 : index_error(ix, step, e);
}

/* New sequences go on behind it. */
int index_last_lsn(struct index *ix, uint64_t *out, struct err *e)
{
	struct index_cursor cursor = {0};
	uint64_t lsn = 0;
	int rc = index_cursor(ix, &cursor, e);

	if (rc == 0)
		rc = newest_audit(ix, UINT64_MAX, &lsn, e);
	if (rc == 0 && cursor.lsn && cursor.lsn - 1 > lsn)
		lsn = cursor.lsn - 1;
	if (rc == 0)
		rc = newest_session(ix, &lsn, e);
	if (rc == 0)
		*out = lsn;
	return rc;
}

int index_last_audit(struct index *ix, uint64_t *out, struct err *e)
{
	struct index_cursor cursor = {0};
	uint64_t lsn = 0;
	int rc = index_cursor(ix, &cursor, e);

	if (rc == 0)
		rc = newest_audit(ix, cursor.lsn, &lsn, e);
	if (rc == 0)
		*out = lsn;
	return rc;
}

int index_wait(struct index *ix, struct index_wait *out, struct err *e)
{
	uint64_t n[3];
	int rc = numbers_of(ix, SQL_GET_WAIT, n, 3, e);
	if (rc == 0)
		*out = (struct index_wait){n[0], n[1], n[2]};
	return rc;
}

int index_newest(struct index *ix, int64_t *out_wall_ns, struct err *e)
{
	uint64_t n;
	int rc = numbers_of(ix, SQL_NEWEST, &n, 1, e);
	if (rc == 0)
		*out_wall_ns = (int64_t)n;
	return rc;
}

int index_ran_ahead(struct index *ix, uint64_t since_lsn, bool *out, struct err *e)
{
	sqlite3_stmt *s;
	uint64_t n = 0;
	int rc = index_stmt(ix, SQL_RAN_AHEAD, &s, e);

	if (rc)
		return rc;
	index_bind_u64(s, ":since", since_lsn);
	rc = numbers(ix, s, &n, 1, e);
	if (rc == 0)
		*out = n != 0;
	return rc;
}

static int state_row(struct index *ix, const struct id *id, sqlite3_stmt **out, struct err *e)
{
	char text[ID_STR_LEN];
	int rc = index_stmt(ix, SQL_STATE, out, e);
	if (rc)
		return rc;
	bind_id(*out, id);
	rc = index_step_row(ix, *out, e);
	id_format(id, text);
	return rc == 1 ? 0 : rc ? rc : err_set(e, ERR_NOT_FOUND, "no session %s", text);
}

int index_session_state(struct index *ix, const struct id *id, char out[8], struct err *e)
{
	sqlite3_stmt *s;
	int rc = state_row(ix, id, &s, e);
	if (rc)
		return rc;
	snprintf(out, 8, "%s", column_text(s, 0));
	sqlite3_reset(s);
	return 0;
}

int index_session_start(struct index *ix, const struct id *id, uint64_t *out_lsn, uint64_t *out_segment, struct err *e)
{
	sqlite3_stmt *s;
	int rc = state_row(ix, id, &s, e);
	if (rc)
		return rc;
	*out_lsn = column_u64(s, 1);
	*out_segment = column_u64(s, 2);
	sqlite3_reset(s);
	return 0;
}

static void index_get_set_text(json_t *o, const char *key, sqlite3_stmt *s, int i)
{
	if (sqlite3_column_type(s, i) != SQLITE_NULL)
		json_object_set_new(o, key, json_string(column_text(s, i)));
}

static void index_get_set_time(json_t *o, const char *key, sqlite3_stmt *s, int i)
{
	char text[40];
	if (sqlite3_column_type(s, i) == SQLITE_NULL)
		return;
	clock_format_utc(sqlite3_column_int64(s, i), text, sizeof(text));
	json_object_set_new(o, key, json_string(text));
}

static json_t *object_at(sqlite3_stmt *s, int i)
{
	const char *text = column_text(s, i);
	json_t *o = NULL;

	if (text && json_parse(text, strlen(text), RING_RECORD_MAX, &o, NULL))
		o = NULL;
	return o;
}

static void set_json(json_t *o, const char *key, sqlite3_stmt *s, int i)
{
	json_t *v = object_at(s, i);

	if (v)
		json_object_set_new(o, key, v);
}

/* Columns in the order of ROW_SESSION_COLUMNS. */
static json_t *session_json(sqlite3_stmt *s)
{
	static const char *const texts[] = {"session",        "kind", "agent",   "principal",
					    "principal_kind", "task", "exec_id", "reason"};
	json_t *o = json_object();
	if (!o)
		return NULL;
	for (int i = 0; i < 8; i++)
		index_get_set_text(o, texts[i], s, i);
	index_get_set_time(o, "opened_at", s, 8);
	index_get_set_time(o, "ended_at", s, 9);
	index_get_set_text(o, "state", s, 10);
	set_json(o, "open", s, 11);
	set_json(o, "exit", s, 12);
	json_object_set_new(o, "offsets",
			    json_pack("[I,I,I]", sqlite3_column_int64(s, 13), sqlite3_column_int64(s, 14),
				      sqlite3_column_int64(s, 15)));
	return o;
}

static json_t *audit_json(sqlite3_stmt *s)
{
	json_t *o = json_object();
	if (!o)
		return NULL;
	json_object_set_new(o, "seq", json_integer(sqlite3_column_int64(s, 0)));
	index_get_set_time(o, "at", s, 1);
	index_get_set_text(o, "session", s, 2);
	set_json(o, "record", s, 3);
	return o;
}

static int unsound(struct index *ix, sqlite3_stmt *s, bool pass_over, struct err *e)
{
	char key[ID_STR_LEN] = "";
	const char *text = column_text(s, 0);

	ix->unsound++;
	if (pass_over)
		return 0;
	text_put(key, sizeof(key), text ? text : "");
	return err_set(e, ERR_CORRUPT, "audit.db: row %s is not as the recorder wrote it", key);
}

static int each_row(struct index *ix, sqlite3_stmt *s, enum row_table table, const struct index_filter *f,
		    index_row *row, void *arg, struct err *e)
{
	int rc = 0, step = SQLITE_DONE;
	while (rc == 0 && (step = sqlite3_step(s)) == SQLITE_ROW) {
		if (!row_sound(ix, s, table)) {
			rc = unsound(ix, s, f->pass_over, e);
			continue;
		}
		json_t *o = table == ROW_AUDIT ? audit_json(s) : session_json(s);
		rc = o ? row(arg, o) : err_set(e, ERR_NOMEM, "out of memory");
		json_decref(o);
	}
	sqlite3_reset(s);
	return rc || step == SQLITE_DONE ? rc : index_error(ix, step, e);
}

static void bind_filter(sqlite3_stmt *s, const struct index_filter *f)
{
	index_bind(s, ":agent", f->agent);
	index_bind(s, ":principal", f->principal);
	index_bind(s, ":session", f->session);
	index_bind_u64(s, ":limit", f->limit > 0 && f->limit < LIMIT_MAX ? (uint64_t)f->limit : LIMIT_MAX);
}

static void bind_event(sqlite3_stmt *s, const struct index_filter *f)
{
	index_bind(s, ":event", f->event);
	index_bind(s, ":lease", f->lease);
	index_bind(s, ":run", f->run);
	index_bind(s, ":client_request", f->client_request);
}

int index_sessions(struct index *ix, const struct index_filter *f, index_row *row, void *arg, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_SESSIONS, &s, e);
	if (rc)
		return rc;
	bind_filter(s, f);
	index_bind(s, ":kind", f->kind);
	index_bind(s, ":state", f->state);
	index_bind(s, ":before", f->before);
	return each_row(ix, s, ROW_SESSIONS, f, row, arg, e);
}

int index_audit(struct index *ix, const struct index_filter *f, index_row *row, void *arg, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_AUDIT, &s, e);
	if (rc)
		return rc;
	bind_filter(s, f);
	bind_event(s, f);
	index_bind_u64(s, ":since", f->since);
	return each_row(ix, s, ROW_AUDIT, f, row, arg, e);
}

int index_audit_start(struct index *ix, const struct index_filter *f, uint64_t *out_since, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_AUDIT_START, &s, e);
	if (rc)
		return rc;
	bind_filter(s, f);
	bind_event(s, f);
	return numbers(ix, s, out_since, 1, e);
}

int index_keyframes(struct index *ix, const struct id *id, char out[65], struct err *e)
{
	char text[ID_STR_LEN];
	sqlite3_stmt *s;
	int rc = session_row(ix, id, &s, e);

	id_format(id, text);
	if (rc <= 0)
		return rc ? rc : err_set(e, ERR_NOT_FOUND, "no session %s", text);
	rc = row_sound(ix, s, ROW_SESSIONS) ? 0 : unsound(ix, s, false, e);
	if (rc == 0)
		text_put(out, 65, column_text(s, S_KEYFRAMES) ? column_text(s, S_KEYFRAMES) : "");
	sqlite3_reset(s);
	return rc;
}

int index_recent_execs(struct index *ix, int64_t since_ns, index_row *row, void *arg, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_RECENT, &s, e);
	if (rc)
		return rc;
	index_bind_u64(s, ":since", since_ns > 0 ? (uint64_t)since_ns : 0);
	return each_row(ix, s, ROW_SESSIONS, &(struct index_filter){.pass_over = true}, row, arg, e);
}

int index_refers(struct index *ix, const char *agent, const char *snapshot, uint64_t *out, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_REFERS, &s, e);

	if (rc)
		return rc;
	index_bind(s, ":agent", agent);
	index_bind(s, ":snapshot", snapshot);
	return numbers(ix, s, out, 1, e);
}

int index_unsealed(struct index *ix, index_unsealed_row *row, void *arg, struct err *e)
{
	sqlite3_stmt *s;
	int step, rc = index_stmt(ix, SQL_UNSEALED, &s, e);
	if (rc)
		return rc;
	while ((step = sqlite3_step(s)) == SQLITE_ROW) {
		struct index_unsealed u = {.open = column_text(s, 1),
					   .state = sqlite3_column_blob(s, 2),
					   .state_len = (size_t)sqlite3_column_bytes(s, 2),
					   .offsets = {column_u64(s, 3), column_u64(s, 4), column_u64(s, 5)},
					   .ended = strcmp(column_text(s, 6), "ended") == 0,
					   .open_lsn = column_u64(s, 7),
					   .opened_ns = sqlite3_column_int64(s, 8),
					   .exit = column_text(s, 9),
					   .end_lsn = column_u64(s, 10),
					   .ended_ns = sqlite3_column_int64(s, 11),
					   .open_segment = column_u64(s, 12)};
		rc = id_parse(column_text(s, 0), &u.id);
		if (rc == 0)
			rc = row(arg, &u);
		if (rc) {
			sqlite3_reset(s);
			return rc;
		}
	}
	sqlite3_reset(s);
	return step == SQLITE_DONE ? 0 : index_error(ix, step, e);
}

/* ---- what retention lives by: recordings by their age, legal holds, the events that say how long to keep */

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
		struct index_ended row = {.agent = column_text(s, S_AGENT),
					  .principal = column_text(s, S_PRINCIPAL),
					  .opened_ns = sqlite3_column_int64(s, S_OPENED),
					  .ended_ns = ended ? sqlite3_column_int64(s, S_ENDED) : INT64_MAX};
		rc = id_parse(column_text(s, 0), &row.id);
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

static int event_rows(struct index *ix, sqlite3_stmt *s, index_event_row *fn, void *arg, struct err *e)
{
	int step = SQLITE_DONE, rc = 0;

	while (rc == 0 && (step = sqlite3_step(s)) == SQLITE_ROW) {
		if (!own(ix, s, ROW_AUDIT))
			continue;
		json_t *record = object_at(s, A_JSON);
		rc = fn(arg, column_u64(s, 0), record);
		json_decref(record);
	}
	return walk_end(ix, s, rc, step, e);
}

int index_policy(struct index *ix, index_event_row *fn, void *arg, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_POLICY, &s, e);

	return rc ? rc : event_rows(ix, s, fn, arg, e);
}

int index_config_pieces(struct index *ix, uint64_t lsn, size_t n, index_event_row *fn, void *arg, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_PIECES, &s, e);

	if (rc)
		return rc;
	index_bind_u64(s, ":lsn", lsn);
	index_bind_u64(s, ":limit", n);
	return event_rows(ix, s, fn, arg, e);
}

int index_fresh(struct index *ix, bool *out, struct err *e)
{
	uint64_t n;
	int rc = numbers_of(ix, SQL_FRESH, &n, 1, e);

	if (rc == 0)
		*out = n != 0;
	return rc;
}
