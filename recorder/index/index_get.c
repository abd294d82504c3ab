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

int index_cursor(struct index *ix, struct index_cursor *out, struct err *e)
{
	sqlite3_stmt *s;
	struct index_cursor c = {0};
	int rc = index_stmt(ix, SQL_GET_CURSOR, &s, e);
	if (rc)
		return rc;
	rc = sqlite3_step(s);
	if (rc == SQLITE_ROW)
		c = (struct index_cursor){column_u64(s, 0), column_u64(s, 1), column_u64(s, 2)};
	sqlite3_reset(s);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return index_error(ix, rc, e);
	*out = c;
	return 0;
}

/* One row of at most two numbers; none leaves them 0. */
static int numbers(struct index *ix, enum index_sql which, uint64_t out[2], struct err *e)
{
	sqlite3_stmt *s;
	int step, rc = index_stmt(ix, which, &s, e);
	out[0] = out[1] = 0;
	if (rc)
		return rc;
	step = sqlite3_step(s);
	for (int i = 0; step == SQLITE_ROW && i < sqlite3_column_count(s); i++)
		out[i] = column_u64(s, i);
	sqlite3_reset(s);
	return step == SQLITE_ROW || step == SQLITE_DONE ? 0 : index_error(ix, step, e);
}

/* The highest that the recorder wrote itself: new sequences go on behind it. Before rows have codes any will do. */
int index_last_lsn(struct index *ix, uint64_t *out, struct err *e)
{
	struct index_cursor cursor = {0};
	sqlite3_stmt *s;
	uint64_t lsn = 0;
	bool any = false;
	int step, rc = index_key_is_new(ix, &any, e);

	if (rc == 0)
		rc = index_cursor(ix, &cursor, e);
	if (rc == 0)
		rc = index_stmt(ix, SQL_AUDIT_NEWEST, &s, e);
	if (rc)
		return rc;
	while ((step = sqlite3_step(s)) == SQLITE_ROW && !any && !row_sound(ix, s, ROW_AUDIT))
		;
	if (step == SQLITE_ROW)
		lsn = column_u64(s, 0);
	sqlite3_reset(s);
	if (step != SQLITE_ROW && step != SQLITE_DONE)
		return index_error(ix, step, e);
	*out = cursor.lsn && cursor.lsn - 1 > lsn ? cursor.lsn - 1 : lsn;
	return 0;
}

int index_last_audit(struct index *ix, uint64_t *out, struct err *e)
{
	struct index_cursor cursor = {0};
	sqlite3_stmt *s;
	bool any = false;
	uint64_t lsn = 0;
	int step, rc = index_key_is_new(ix, &any, e);

	if (rc == 0)
		rc = index_cursor(ix, &cursor, e);
	if (rc == 0)
		rc = index_stmt(ix, SQL_AUDIT_NEWEST, &s, e);
	if (rc)
		return rc;
	while ((step = sqlite3_step(s)) == SQLITE_ROW &&
	       (column_u64(s, 0) >= cursor.lsn || (!any && !row_sound(ix, s, ROW_AUDIT))))
		;
	if (step == SQLITE_ROW)
		lsn = column_u64(s, 0);
	sqlite3_reset(s);
	if (step != SQLITE_ROW && step != SQLITE_DONE)
		return index_error(ix, step, e);
	*out = lsn;
	return 0;
}

int index_wait(struct index *ix, uint64_t *out_boot, uint64_t *out_until_ns, struct err *e)
{
	uint64_t n[2];
	int rc = numbers(ix, SQL_GET_WAIT, n, e);
	if (rc == 0) {
		*out_boot = n[0];
		*out_until_ns = n[1];
	}
	return rc;
}

int index_newest(struct index *ix, int64_t *out_wall_ns, struct err *e)
{
	uint64_t n[2];
	int rc = numbers(ix, SQL_NEWEST, n, e);
	if (rc == 0)
		*out_wall_ns = (int64_t)n[0];
	return rc;
}

static int state_row(struct index *ix, const struct id *id, sqlite3_stmt **out, struct err *e)
{
	char text[ID_STR_LEN];
	int rc = index_stmt(ix, SQL_STATE, out, e);
	if (rc)
		return rc;
	id_format(id, text);
	index_bind(*out, ":id", text);
	rc = sqlite3_step(*out);
	if (rc == SQLITE_ROW)
		return 0;
	sqlite3_reset(*out);
	return rc == SQLITE_DONE ? err_set(e, ERR_NOT_FOUND, "no session %s", text) : index_error(ix, rc, e);
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

static void set_json(json_t *o, const char *key, sqlite3_stmt *s, int i)
{
	json_t *v = NULL;
	const char *text = column_text(s, i);
	if (text && json_parse(text, strlen(text), RING_RECORD_MAX, &v, NULL) == 0)
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
	index_bind(s, ":event", f->event);
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
	index_bind(s, ":event", f->event);
	rc = sqlite3_step(s);
	uint64_t since = rc == SQLITE_ROW ? column_u64(s, 0) : 0;
	sqlite3_reset(s);
	if (rc != SQLITE_ROW)
		return index_error(ix, rc, e);
	*out_since = since;
	return 0;
}

int index_keyframes(struct index *ix, const struct id *id, char out[65], struct err *e)
{
	char text[ID_STR_LEN];
	sqlite3_stmt *s;
	int step, rc = index_stmt(ix, SQL_SESSION_ROW, &s, e);

	if (rc)
		return rc;
	id_format(id, text);
	index_bind(s, ":id", text);
	step = sqlite3_step(s);
	if (step == SQLITE_DONE)
		rc = err_set(e, ERR_NOT_FOUND, "no session %s", text);
	else if (step != SQLITE_ROW)
		rc = index_error(ix, step, e);
	else if (!row_sound(ix, s, ROW_SESSIONS))
		rc = unsound(ix, s, false, e);
	else
		text_put(out, 65, column_text(s, 22) ? column_text(s, 22) : "");
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
	int step, rc = index_stmt(ix, SQL_REFERS, &s, e);

	if (rc)
		return rc;
	index_bind(s, ":agent", agent);
	index_bind(s, ":snapshot", snapshot);
	step = sqlite3_step(s);
	if (step == SQLITE_ROW)
		*out = (uint64_t)sqlite3_column_int64(s, 0);
	else
		rc = index_error(ix, step, e);
	sqlite3_reset(s);
	return rc;
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
