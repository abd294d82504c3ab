#include "base/err.h"
#include "recorder/index/index_row.h"

#include <string.h>

static void bind_id(sqlite3_stmt *s, const struct id *id)
{
	char text[ID_STR_LEN];
	id_format(id, text);
	index_bind(s, ":id", text);
}

/* One row of sessions: 1 with it in s, which is to be reset, 0 when there is none. */
static int session_row(struct index *ix, const struct id *id, sqlite3_stmt **s, struct err *e)
{
	int step, rc = index_stmt(ix, SQL_SESSION_ROW, s, e);

	if (rc)
		return rc;
	bind_id(*s, id);
	step = sqlite3_step(*s);
	if (step == SQLITE_ROW)
		return 1;
	sqlite3_reset(*s);
	return step == SQLITE_DONE ? 0 : index_error(ix, step, e);
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

static int put_row(struct index *ix, enum index_sql which, const struct row *r, struct err *e)
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
	int rc = put_row(ix, SQL_PUT_OPEN, &r, e);
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
	int rc = put_row(ix, SQL_PUT_SESSION, &r, e);
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

/* What changes a row that is there; its code goes with it. */
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
	int rc = put_row(ix, SQL_PUT_AUDIT, &r, e);
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

int index_put_wait(struct index *ix, uint64_t boot, uint64_t until_ns, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_PUT_WAIT, &s, e);
	if (rc)
		return rc;
	index_bind_u64(s, ":boot", boot);
	index_bind_u64(s, ":until", until_ns);
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
