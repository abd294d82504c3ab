/* Every statement on artifacts. */
#include "base/clock.h"
#include "base/text.h"
#include "control/artifacts/artifact_state.h"
#include "control/store/store_schema.h"
#include "control/store/store_sql.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS                                                                                                        \
	"a.task, a.name, a.principal, a.agent, a.round, a.run, a.base, a.media_type, b.sha256, b.id, a.size,"          \
	" a.created_ns, a.expires_ns"
#define FROM  " FROM artifacts a JOIN artifact_blobs b ON b.id = a.blob "
#define LIVES " (a.expires_ns IS NULL OR a.expires_ns > "

static void read_row(sqlite3_stmt *st, struct artifact_row *r)
{
	text_put(r->task, sizeof(r->task), store_text(st, 0));
	text_put(r->name, sizeof(r->name), store_text(st, 1));
	text_put(r->principal, sizeof(r->principal), store_text(st, 2));
	text_put(r->agent, sizeof(r->agent), store_text(st, 3));
	text_put(r->round, sizeof(r->round), store_text(st, 4));
	text_put(r->run, sizeof(r->run), store_text(st, 5));
	text_put(r->base, sizeof(r->base), store_text(st, 6));
	text_put(r->media_type, sizeof(r->media_type), store_text(st, 7));
	text_put(r->sha256, sizeof(r->sha256), store_text(st, 8));
	text_put(r->blob, sizeof(r->blob), store_text(st, 9));
	r->size = (uint64_t)sqlite3_column_int64(st, 10);
	r->created_ns = sqlite3_column_int64(st, 11);
	r->expires_ns = sqlite3_column_int64(st, 12);
}

static const char *or_null(const char *text)
{
	return *text ? text : NULL;
}

static json_t *text_or_null(const char *text)
{
	return *text ? json_string(text) : json_null();
}

static json_t *time_or_null(int64_t ns)
{
	char text[40];

	if (!ns)
		return json_null();
	clock_format_utc(ns, text, sizeof(text));
	return json_string(text);
}

json_t *row_json(const struct artifact_row *r)
{
	return json_pack("{s:s, s:s, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:s}", "task", r->task, "name",
			 r->name, "size", (json_int_t)r->size, "sha256", r->sha256, "media_type",
			 text_or_null(r->media_type), "base", text_or_null(r->base), "agent", text_or_null(r->agent),
			 "round_id", text_or_null(r->round), "run_id", text_or_null(r->run), "principal", r->principal,
			 "created_at", time_or_null(r->created_ns), "expires_at", time_or_null(r->expires_ns), "blob",
			 r->blob);
}

static int row_on_row(void *arg, sqlite3_stmt *st)
{
	read_row(st, arg);
	return STORE_ENOUGH;
}

int row_find(struct sqlite3 *db, const char *task, const char *name, int64_t now_ns, struct artifact_row *out,
	     bool *out_found, struct err *e)
{
	int n = 0;
	int rc = store_each(db, &n, row_on_row, out, e,
			    "SELECT " COLUMNS FROM "WHERE a.task = ? AND a.name = ? AND" LIVES "?)", "tti", task, name,
			    now_ns);

	*out_found = n > 0;
	return rc;
}

static int list_on_row(void *arg, sqlite3_stmt *st)
{
	struct artifact_row r = {0};
	json_t *o;

	read_row(st, &r);
	o = row_json(&r);
	json_object_del(o, "blob");
	return json_array_append_new(arg, o) ? ERR_NOMEM : 0;
}

int rows_json(struct sqlite3 *db, const struct artifact_filter *f, int64_t now_ns, json_t *list, struct err *e)
{
	return store_each(
	    db, NULL, list_on_row, list, e,
	    "SELECT " COLUMNS FROM "WHERE a.task = ?1 AND a.name > ?2 AND (?3 IS NULL OR a.principal = ?3)"
	    " AND (?4 IS NULL OR a.run = ?4) AND (?5 IS NULL OR a.round = ?5) AND" LIVES "?6) ORDER BY a.name LIMIT ?7",
	    "tttttii", f->task, f->after ? f->after : "", f->principal, f->run, f->round, now_ns, (int64_t)f->limit);
}

static int numbers_on_row(void *arg, sqlite3_stmt *st)
{
	*(struct artifacts_numbers *)arg =
	    (struct artifacts_numbers){(uint64_t)sqlite3_column_int64(st, 0), (uint64_t)sqlite3_column_int64(st, 1)};
	return STORE_ENOUGH;
}

int row_task(struct sqlite3 *db, const char *root, const struct artifact_row *r, struct artifacts_numbers *out,
	     struct err *e)
{
	return store_each(db, NULL, numbers_on_row, out, e,
			  "SELECT count(*), coalesce(sum(size), 0) FROM artifacts WHERE task = ?2 AND name <> ?3 AND"
			  " (principal = ?1 OR (principal > ?1 || '/' AND principal < ?1 || '0'))",
			  "ttt", root, r->task, r->name);
}

#define ELSE " AND apart = 0 AND NOT (task = ?2 AND name = ?3)"

int row_share(struct sqlite3 *db, enum conf_share_of of, const char *name, const struct artifact_row *r,
	      struct artifacts_numbers *out, struct err *e)
{
	static const char of_agent[] = "SELECT count(*), coalesce(sum(size), 0) FROM artifacts WHERE agent = ?1" ELSE;
	/* '0' comes next after '/': two ranges of one index */
	static const char of_principal[] =
	    "SELECT count(*), coalesce(sum(size), 0) FROM (SELECT size FROM artifacts WHERE principal = ?1" ELSE
	    " UNION ALL SELECT size FROM artifacts WHERE principal > ?1 || '/' AND principal < ?1 || '0'" ELSE ")";

	return store_each(db, NULL, numbers_on_row, out, e, of == CONF_SHARE_AGENT ? of_agent : of_principal, "ttt",
			  name, r->task, r->name);
}

int row_all(struct sqlite3 *db, struct artifacts_numbers *out, struct err *e)
{
	return store_each(
	    db, NULL, numbers_on_row, out, e,
	    "SELECT (SELECT count(*) FROM artifacts), (SELECT coalesce(sum(size), 0) FROM artifact_blobs)", "");
}

static int id_on_row(void *arg, sqlite3_stmt *st)
{
	text_put(arg, ID_STR_LEN, store_text(st, 0));
	return STORE_ENOUGH;
}

int row_blob(struct sqlite3 *db, const char *sha256, char out_blob[ID_STR_LEN], struct err *e)
{
	out_blob[0] = '\0';
	return store_each(db, NULL, id_on_row, out_blob, e, "SELECT id FROM artifact_blobs WHERE sha256 = ?", "t",
			  sha256);
}

static int gone_add(struct blob_names *gone, const struct artifact_row *r, struct err *e)
{
	char(*names)[BLOB_NAME_SZ] = realloc(gone->names, (gone->n + 1) * sizeof(*names));

	if (!names)
		return err_set(e, ERR_NOMEM, "no memory for the name of a file");
	gone->names = names;
	blob_name(r->sha256, r->blob, names[gone->n++]);
	return 0;
}

int row_drop(struct sqlite3 *db, const struct artifact_row *r, struct blob_names *gone, struct err *e)
{
	int blobs = 0;
	int rc = store_run(db, NULL, e, "DELETE FROM artifacts WHERE task = ? AND name = ?", "tt", r->task, r->name);

	if (!rc)
		rc = store_run(
		    db, &blobs, e,
		    "DELETE FROM artifact_blobs WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM artifacts WHERE blob = ?1)",
		    "t", r->blob);
	return rc || !blobs ? rc : gone_add(gone, r, e);
}

int row_put(struct sqlite3 *db, const struct artifact_row *r, bool blob_is_new, struct blob_names *gone,
	    bool *out_replaced, struct err *e)
{
	struct artifact_row old = {0};
	bool found = false;
	int rc = row_find(db, r->task, r->name, INT64_MIN, &old, &found, e);

	if (!rc && blob_is_new)
		rc = store_run(db, NULL, e, "INSERT INTO artifact_blobs(id, sha256, size) VALUES(?, ?, ?)", "tti",
			       r->blob, r->sha256, (int64_t)r->size);
	/* Of the same content under the same name the row alone is new. */
	if (!rc && found && strcmp(old.blob, r->blob) != 0)
		rc = row_drop(db, &old, gone, e);
	if (!rc)
		rc = store_run(db, NULL, e,
			       "INSERT OR REPLACE INTO artifacts(task, name, blob, size, principal, agent, round, run,"
			       " base, media_type, created_ns, expires_ns, apart)"
			       " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?)",
			       "tttittttttiii", r->task, r->name, r->blob, (int64_t)r->size, r->principal,
			       or_null(r->agent), or_null(r->round), or_null(r->run), or_null(r->base),
			       or_null(r->media_type), r->created_ns, r->expires_ns, (int64_t)r->apart);
	*out_replaced = found;
	return rc;
}

struct rows {
	struct artifact_row *rows;
	size_t n;
};

static int expired_on_row(void *arg, sqlite3_stmt *st)
{
	struct rows *k = arg;

	read_row(st, &k->rows[k->n++]);
	return 0;
}

int rows_expired(struct sqlite3 *db, int64_t now_ns, struct artifact_row *rows, size_t max, size_t *out_n,
		 struct err *e)
{
	struct rows k = {.rows = rows};
	int rc = store_each(db, NULL, expired_on_row, &k, e,
			    "SELECT " COLUMNS FROM "WHERE a.expires_ns <= ? ORDER BY a.expires_ns LIMIT ?", "ii",
			    now_ns, (int64_t)max);

	*out_n = k.n;
	return rc;
}

int row_tell(struct sqlite3 *db, const char *event, const struct artifact_row *r, const json_t *call, struct err *e)
{
	json_t *d = row_json(r);
	char *text;
	int rc;

	json_object_del(d, "blob");
	if (d && call) /* else it happened by time alone */
		json_object_set(d, OUTBOX_CALL, (json_t *)(uintptr_t)call);
	text = d ? json_dumps(d, JSON_COMPACT) : NULL;
	json_decref(d);
	if (!text)
		return err_set(e, ERR_NOMEM, "no memory for an audit event");
	rc = store_run(db, NULL, e,
		       "INSERT INTO outbox(event_id, event, sandbox, outcome, detail)"
		       " VALUES(lower(hex(randomblob(16))), ?, ?, 'ok', ?)",
		       "ttt", event, or_null(r->agent), text);
	free(text);
	return rc;
}

int row_names_file(struct sqlite3 *db, const char *file, bool *out, struct err *e)
{
	const char *dot = strchr(file, '.');
	char sha256[ARTIFACT_SHA256_SZ], id[ID_STR_LEN];

	*out = false;
	if (!dot || (size_t)(dot - file) >= sizeof(sha256))
		return 0;
	text_put_bytes(sha256, sizeof(sha256), file, (size_t)(dot - file));
	int rc = row_blob(db, sha256, id, e);
	*out = !rc && *id && strcmp(id, dot + 1) == 0;
	return rc;
}
