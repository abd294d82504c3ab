#include "muxd/base/err.h"
#include "recorder/index_db.h"

#include <string.h>

/* A string member of o, NULL when it is absent or of another type: what the hub wrote is kept whole in any case. */
static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static json_t *parse(const char *text)
{
	json_t *o = NULL;
	if (!text || json_parse(text, strlen(text), RING_RECORD_MAX, &o, NULL))
		return NULL;
	return o;
}

static void bind_id(sqlite3_stmt *s, const struct id *id)
{
	char text[ID_STR_LEN];
	id_format(id, text);
	index_bind(s, ":id", text);
}

int index_put_open(struct index *ix, const struct index_session *in, struct err *e)
{
	static const char *const columns[][2] = {
	    {":kind", "kind"},           {":agent", "agent"},
	    {":principal", "principal"}, {":principal_kind", "principal_kind"},
	    {":task", "task"},           {":exec_id", "exec_id"},
	    {":digest", "digest"},       {":reason", "reason"},
	};
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_PUT_OPEN, &s, e);
	if (rc)
		return rc;
	json_t *o = parse(in->open);
	bind_id(s, &in->id);
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		index_bind(s, columns[i][0], text_of(o, columns[i][1]));
	index_bind(s, ":open", o ? in->open : NULL);
	index_bind_u64(s, ":opened", (uint64_t)in->opened_ns);
	index_bind_u64(s, ":lsn", in->open_lsn);
	index_bind_u64(s, ":segment", in->open_segment);
	rc = index_step_done(ix, s, e);
	json_decref(o);
	return rc;
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
	int rc = index_stmt(ix, SQL_PUT_END, &s, e);
	if (rc)
		return rc;
	json_t *o = parse(exit);
	bind_id(s, id);
	index_bind(s, ":exit", o ? exit : NULL);
	index_bind(s, ":cause", text_of(o, "cause"));
	index_bind_u64(s, ":lsn", lsn);
	index_bind_u64(s, ":ended", (uint64_t)ended_ns);
	rc = index_step_done(ix, s, e);
	json_decref(o);
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

int index_put_sealed(struct index *ix, const struct id *id, const char *path, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_PUT_SEALED, &s, e);
	if (rc)
		return rc;
	bind_id(s, id);
	index_bind(s, ":path", path);
	rc = index_step_done(ix, s, e);
	return rc ? rc : put_by_id(ix, SQL_DROP_CHECKPOINT, id, e);
}

int index_put_expired(struct index *ix, const struct id *id, struct err *e)
{
	return put_by_id(ix, SQL_PUT_EXPIRED, id, e);
}

int index_put_kept(struct index *ix, const struct id *id, struct err *e)
{
	return put_by_id(ix, SQL_PUT_KEPT, id, e);
}

int index_put_gone(struct index *ix, const struct id *id, const char *state, struct err *e)
{
	sqlite3_stmt *s;
	int rc = index_stmt(ix, SQL_PUT_GONE, &s, e);
	if (rc)
		return rc;
	bind_id(s, id);
	index_bind(s, ":state", state);
	return index_step_done(ix, s, e);
}

int index_put_audit(struct index *ix, uint64_t lsn, int64_t wall_ns, const struct id *session, const char *json,
		    struct err *e)
{
	sqlite3_stmt *s;
	char text[ID_STR_LEN];
	int rc = index_stmt(ix, SQL_PUT_AUDIT, &s, e);
	if (rc)
		return rc;
	json_t *o = parse(json);
	const char *event = text_of(o, "event"), *in = text_of(o, "session");
	if (!id_is_nil(session)) {
		id_format(session, text);
		in = text;
	}
	index_bind_u64(s, ":lsn", lsn);
	index_bind_u64(s, ":wall", (uint64_t)wall_ns);
	index_bind(s, ":event", event ? event : "unreadable");
	index_bind(s, ":principal", text_of(o, "principal"));
	index_bind(s, ":agent", text_of(o, "agent"));
	index_bind(s, ":grant", text_of(o, "grant_id"));
	index_bind(s, ":session", in);
	index_bind(s, ":outcome", text_of(o, "outcome"));
	index_bind(s, ":json", o ? json : NULL);
	rc = index_step_done(ix, s, e);
	json_decref(o);
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
