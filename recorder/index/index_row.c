#include "recorder/index/index_row.h"

#include "base/bytes.h"

#include <string.h>

#define AUDIT_CELLS 9

_Static_assert(SESSION_CELLS <= ROW_MAX, "a row has room for a session");

struct cell cell_null(void)
{
	return (struct cell){.type = SQLITE_NULL};
}

struct cell cell_int(int64_t i)
{
	return (struct cell){.type = SQLITE_INTEGER, .i = i};
}

struct cell cell_string(const char *s)
{
	return s ? (struct cell){.type = SQLITE_TEXT, .s = s, .n = strlen(s)} : cell_null();
}

static size_t row_columns(enum row_table table)
{
	return table == ROW_AUDIT ? AUDIT_CELLS : SESSION_CELLS;
}

void row_read(sqlite3_stmt *s, enum row_table table, struct row *out)
{
	out->table = table;
	out->n = row_columns(table);
	for (int i = 0; i < (int)out->n; i++) {
		struct cell *c = &out->cells[i];

		*c = (struct cell){.type = sqlite3_column_type(s, i)};
		if (c->type == SQLITE_INTEGER) {
			c->i = sqlite3_column_int64(s, i);
		} else if (c->type != SQLITE_NULL) {
			c->s = sqlite3_column_blob(s, i);
			c->n = (size_t)sqlite3_column_bytes(s, i);
		}
	}
}

void row_bind(const struct index *ix, sqlite3_stmt *s, const struct row *r)
{
	uint8_t code[ROW_CODE];

	for (int i = 0; i < (int)r->n; i++) {
		const struct cell *c = &r->cells[i];

		if (c->type == SQLITE_INTEGER)
			sqlite3_bind_int64(s, i + 1, c->i);
		else if (c->type == SQLITE_TEXT)
			sqlite3_bind_text64(s, i + 1, c->s, c->n, SQLITE_TRANSIENT, SQLITE_UTF8);
		else
			sqlite3_bind_null(s, i + 1);
	}
	if (!ix->keyed)
		return;
	row_code(ix, r, code);
	sqlite3_bind_blob(s, (int)r->n + 1, code, sizeof code, SQLITE_TRANSIENT);
}

/* ---- the code: HMAC-SHA-256 over type, length and bytes of each cell, cut to 16 bytes */

struct coding {
	struct digest d;
	uint8_t small[256];
	size_t n;
};

static void coding_put(struct coding *c, const void *p, size_t n)
{
	if (n > sizeof c->small - c->n) {
		digest_update(&c->d, c->small, c->n);
		c->n = 0;
	}
	if (n > sizeof c->small) {
		digest_update(&c->d, p, n);
		return;
	}
	if (n)
		memcpy(c->small + c->n, p, n);
	c->n += n;
}

/* Moves while the session goes on. */
static bool uncovered(const struct row *r, size_t i)
{
	const struct cell *state = &r->cells[S_STATE];

	return r->table == ROW_SESSIONS && i >= S_INPUT && i <= S_STDERR && state->type == SQLITE_TEXT &&
	       ((state->n == 4 && memcmp(state->s, "open", 4) == 0) ||
		(state->n == 5 && memcmp(state->s, "ended", 5) == 0));
}

void row_code(const struct index *ix, const struct row *r, uint8_t out[ROW_CODE])
{
	struct coding c = {.d = ix->inner};
	uint8_t inner[DIGEST_LEN], whole[DIGEST_LEN], head[9];
	struct digest outer = ix->outer;

	head[0] = (uint8_t)r->table;
	coding_put(&c, head, 1);
	for (size_t i = 0; i < r->n; i++) {
		struct cell cell = uncovered(r, i) ? cell_null() : r->cells[i];

		head[0] = (uint8_t)cell.type;
		put_u64(head + 1, cell.type == SQLITE_INTEGER ? (uint64_t)cell.i : cell.n);
		coding_put(&c, head, sizeof head);
		coding_put(&c, cell.s, cell.n);
	}
	digest_update(&c.d, c.small, c.n);
	digest_peek(&c.d, inner);
	digest_update(&outer, inner, sizeof inner);
	digest_peek(&outer, whole);
	memcpy(out, whole, ROW_CODE);
}

bool row_sound(const struct index *ix, sqlite3_stmt *s, enum row_table table)
{
	uint8_t code[ROW_CODE];
	int at = (int)row_columns(table);
	struct row r;

	if (!ix->keyed)
		return true;
	row_read(s, table, &r);
	row_code(ix, &r, code);
	return sqlite3_column_bytes(s, at) == ROW_CODE && memcmp(sqlite3_column_blob(s, at), code, ROW_CODE) == 0;
}

const char *row_differs(const struct row *a, const struct row *b)
{
	static const char *const audit[] = {"lsn",       "wall_ns", "session",  "json",   "event",
					    "principal", "agent",   "grant_id", "outcome"};
	static const char *const sessions[] = {
	    "id",        "kind",     "agent",    "principal",    "principal_kind", "task",  "exec_id",  "reason",
	    "opened_ns", "ended_ns", "state",    "open",         "exit",           "input", "output",   "stderr",
	    "digest",    "cause",    "open_lsn", "open_segment", "end_lsn",        "path",  "keyframes"};

	for (size_t i = 0; i < a->n; i++) {
		const struct cell *x = &a->cells[i], *y = &b->cells[i];

		if (uncovered(a, i) && uncovered(b, i))
			continue;
		if (x->type != y->type || x->i != y->i || x->n != y->n || (x->n && memcmp(x->s, y->s, x->n) != 0))
			return a->table == ROW_AUDIT ? audit[i] : sessions[i];
	}
	return NULL;
}

/* ---- rows from what they are derived from */

/* A string member of o, NULL when it is absent or of another type: what the hub wrote is kept whole in any case. */
static struct cell index_row_member(const json_t *o, const char *key)
{
	return cell_string(json_string_value(json_object_get(o, key)));
}

static json_t *index_row_parse(const char *text)
{
	json_t *o = NULL;
	if (!text || json_parse(text, strlen(text), RING_RECORD_MAX, &o, NULL))
		return NULL;
	return o;
}

void row_of_audit(struct row *out, uint64_t lsn, int64_t wall_ns, const char session[ID_STR_LEN], const char *json,
		  json_t **parsed)
{
	json_t *o = *parsed = index_row_parse(json);
	struct cell event = index_row_member(o, "event");

	*out = (struct row){.table = ROW_AUDIT, .n = AUDIT_CELLS};
	out->cells[0] = cell_int(lsn > INT64_MAX ? INT64_MAX : (int64_t)lsn);
	out->cells[1] = cell_int(wall_ns);
	out->cells[2] = session[0] ? cell_string(session) : index_row_member(o, "session");
	out->cells[3] = cell_string(o ? json : NULL);
	out->cells[4] = event.s ? event : cell_string("unreadable");
	out->cells[5] = index_row_member(o, "principal");
	out->cells[6] = index_row_member(o, "agent");
	out->cells[7] = index_row_member(o, "grant_id");
	out->cells[8] = index_row_member(o, "outcome");
}

static struct cell index_row_number(uint64_t v)
{
	return cell_int(v > INT64_MAX ? INT64_MAX : (int64_t)v);
}

void row_of_open(struct row *out, const struct index_session *in, const char id[ID_STR_LEN], json_t **parsed)
{
	static const struct {
		enum session_cell cell;
		const char *key;
	} members[] = {
	    {S_KIND, "kind"}, {S_AGENT, "agent"},     {S_PRINCIPAL, "principal"}, {S_PRINCIPAL_KIND, "principal_kind"},
	    {S_TASK, "task"}, {S_EXEC_ID, "exec_id"}, {S_DIGEST, "digest"},       {S_REASON, "reason"},
	};
	json_t *o = *parsed = index_row_parse(in->open);

	*out = (struct row){.table = ROW_SESSIONS, .n = SESSION_CELLS};
	for (size_t i = 0; i < SESSION_CELLS; i++)
		out->cells[i] = cell_null();
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		out->cells[members[i].cell] = index_row_member(o, members[i].key);
	out->cells[S_ID] = cell_string(id);
	out->cells[S_STATE] = cell_string("open");
	out->cells[S_OPEN] = cell_string(o ? in->open : NULL);
	out->cells[S_OPENED] =
	    cell_int(json_is_integer(json_object_get(o, "wall_ns")) ? json_integer_value(json_object_get(o, "wall_ns"))
								    : in->opened_ns);
	out->cells[S_OPEN_LSN] = index_row_number(in->open_lsn);
	out->cells[S_OPEN_SEGMENT] = index_row_number(in->open_segment);
	for (int i = 0; i < STREAM_COUNT; i++)
		out->cells[S_INPUT + i] = cell_int(0);
}

void row_of_recording(struct row *out, const struct index_recording *in, const char id[ID_STR_LEN], json_t *parsed[2])
{
	struct index_session open = {
	    .id = in->id, .open = in->open, .open_lsn = in->open_lsn, .opened_ns = in->opened_ns};

	row_of_open(out, &open, id, &parsed[0]);
	parsed[1] = index_row_parse(in->exit);
	out->cells[S_STATE] = cell_string("sealed");
	out->cells[S_OPEN_SEGMENT] = cell_null();
	if (in->exit) {
		out->cells[S_EXIT] = cell_string(parsed[1] ? in->exit : NULL);
		out->cells[S_CAUSE] = index_row_member(parsed[1], "cause");
		out->cells[S_ENDED] = cell_int(in->ended_ns);
		out->cells[S_END_LSN] = index_row_number(in->end_lsn);
	}
	for (int i = 0; i < STREAM_COUNT; i++)
		out->cells[S_INPUT + i] = index_row_number(in->offsets[i]);
	out->cells[S_PATH] = cell_string(in->path);
	out->cells[S_KEYFRAMES] = cell_string(in->keyframes);
}
