#include "control/servers/servers.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "control/servers/catalogue.h"
#include "control/servers/digest.h"
#include "control/servers/lists.h"
#include "control/servers/server_def.h"
#include "control/store/store.h"
#include "control/store/store_sql.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SEEN    "first seen"
#define SEEN_AGAIN_NS (60 * NS_PER_SEC) /* the same as before is written so often, for when it was seen */

/* A question on its way through the store, with copies of its texts. */
struct servers_job {
	char agent[AGENT_NAME_MAX + 1], server[SERVER_NAME_MAX + 1], fingerprint[DIGEST_SZ];
	char principal[192], seen_digest[DIGEST_SZ];
	char *call, *catalogue, *seen;
	int64_t now_ns;
	json_t *result;
	servers_done *done;
	void *arg;
};

static void servers_job_free(struct servers_job *j)
{
	free(j->call);
	free(j->catalogue);
	free(j->seen);
	json_decref(j->result);
	free(j);
}

static void servers_on_done(void *job, int rc, const struct err *e)
{
	struct servers_job *j = job;
	struct err here = {0};

	if (!rc && !j->result)
		rc = err_set(&here, ERR_NOMEM, "no memory for the answer"), e = &here;
	j->done(j->arg, rc, e, rc ? NULL : j->result);
	servers_job_free(j);
}

/* NULL: no memory, and the caller has heard it. A text of NULL stays NULL. */
static struct servers_job *servers_begin(const json_t *const texts[3], servers_done *done, void *arg)
{
	struct servers_job *j = calloc(1, sizeof(*j));
	char **to[] = {j ? &j->call : NULL, j ? &j->catalogue : NULL, j ? &j->seen : NULL};
	struct err e = {0};
	bool whole = j != NULL;

	for (size_t i = 0; whole && i < 3; i++)
		if (texts[i] && !(*to[i] = json_text(texts[i])))
			whole = false;
	if (whole) {
		j->done = done;
		j->arg = arg;
		return j;
	}
	if (j)
		servers_job_free(j);
	done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
	return NULL;
}

/* ---- catalogues */

static int servers_on_catalogue(void *arg, sqlite3_stmt *st)
{
	json_t **out = arg, *seen = lists_parse(store_text(st, 1)), *approved = lists_parse(store_text(st, 2));
	char digest[DIGEST_SZ] = "";

	if (seen && approved && digest_json(seen, digest) == 0)
		*out = json_pack("{s:o,s:O,s:s,s:o,s:o,s:s,s:o}", "catalogue", lists_parse(store_text(st, 0)), "seen",
				 seen, "fingerprint", digest, "seen_at", lists_time(sqlite3_column_int64(st, 3)),
				 "approved_at", lists_time(sqlite3_column_int64(st, 4)), "approved_by",
				 store_text(st, 5), "changes", catalogue_changes(approved, seen));
	json_decref(seen);
	json_decref(approved);
	return *out ? STORE_ENOUGH : ERR_NOMEM;
}

static int read_catalogue(sqlite3 *db, const struct catalogue_key *k, json_t **out, struct err *e)
{
	return store_each(db, NULL, servers_on_catalogue, out, e,
			  "SELECT catalogue, seen, approved, seen_ns, approved_ns, approved_by FROM mcp_catalogues"
			  " WHERE agent = ? AND server = ? AND definition = ?",
			  "ttt", k->agent, k->server, k->fingerprint);
}

static struct catalogue_key key_of(const struct servers_job *j)
{
	return (struct catalogue_key){j->agent, j->server, j->fingerprint};
}

/* A program that was still running when its list changed does not write over what the next one has. */
static int check_configured(sqlite3 *db, const struct servers_job *j, struct err *e)
{
	json_t *list = NULL;
	struct server_def d;
	int rc = lists_read_newest(db, &list_servers, j->agent, &list, e);

	if (!rc && (server_list_find(json_object_get(list, "servers"), j->server, &d, NULL) ||
		    strcmp(d.fingerprint, j->fingerprint) != 0))
		rc = err_set(e, ERR_LIST_CHANGED, "%.64s is not configured like that any more", j->server);
	json_decref(list);
	return rc;
}

struct seen_before {
	const struct servers_job *job;
	bool same;
};

static int servers_on_seen(void *arg, sqlite3_stmt *st)
{
	struct seen_before *b = arg;

	b->same = strcmp(store_text(st, 0), b->job->catalogue) == 0 && strcmp(store_text(st, 1), b->job->seen) == 0 &&
		  b->job->now_ns - sqlite3_column_int64(st, 2) < (int64_t)SEEN_AGAIN_NS;
	return STORE_ENOUGH;
}

/* A server that has its tools read again and again writes nothing by it. */
static int check_seen(sqlite3 *db, const struct servers_job *j, bool *out_same, struct err *e)
{
	struct seen_before b = {.job = j};
	int rc = store_each(db, NULL, servers_on_seen, &b, e,
			    "SELECT catalogue, seen, seen_ns FROM mcp_catalogues"
			    " WHERE agent = ? AND server = ? AND definition = ?",
			    "ttt", j->agent, j->server, j->fingerprint);

	*out_same = b.same;
	return rc;
}

static int catalogue_in_db(sqlite3 *db, void *job, struct err *e)
{
	struct servers_job *j = job;
	struct catalogue_key k = key_of(j);
	json_t *seen = lists_parse(j->seen);
	int changed = 0;
	bool same = false;
	int rc = seen && digest_json(seen, j->seen_digest) == 0 ? 0 : err_set(e, ERR_NOMEM, "no memory for a digest");

	json_decref(seen);
	if (!rc)
		rc = check_configured(db, j, e);
	if (!rc)
		rc = check_seen(db, j, &same, e);
	if (!rc && same)
		return read_catalogue(db, &k, &j->result, e);
	if (!rc)
		rc = store_run(db, &changed, e,
			       "UPDATE mcp_catalogues SET catalogue = ?4, seen = ?5, seen_ns = ?6"
			       " WHERE agent = ?1 AND server = ?2 AND definition = ?3",
			       "ttttti", j->agent, j->server, j->fingerprint, j->catalogue, j->seen, j->now_ns);

	if (!rc && !changed)
		rc = store_run(db, NULL, e,
			       "INSERT OR REPLACE INTO mcp_catalogues(agent, server, definition, catalogue, seen,"
			       " seen_ns, approved, approved_ns, approved_by, call, approved_sha256)"
			       " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?5, ?6, '" FIRST_SEEN "', NULL, ?7)",
			       "tttttit", j->agent, j->server, j->fingerprint, j->catalogue, j->seen, j->now_ns,
			       j->seen_digest);
	return rc ? rc : read_catalogue(db, &k, &j->result, e);
}

static void put_key(struct servers_job *j, const struct catalogue_key *k)
{
	text_put(j->agent, sizeof(j->agent), k->agent);
	text_put(j->server, sizeof(j->server), k->server);
	text_put(j->fingerprint, sizeof(j->fingerprint), k->fingerprint);
}

void catalogue_put(struct store *s, const struct catalogue_key *k, const json_t *catalogue, const json_t *seen,
		   int64_t now_ns, servers_done *done, void *arg)
{
	struct servers_job *j = servers_begin((const json_t *const[3]){NULL, catalogue, seen}, done, arg);

	if (!j)
		return;
	put_key(j, k);
	j->now_ns = now_ns;
	store_write(s, catalogue_in_db, servers_on_done, j);
}

static int approve_in_db(sqlite3 *db, void *job, struct err *e)
{
	struct servers_job *j = job;
	struct catalogue_key k = key_of(j);
	json_t *now = NULL;
	int rc = read_catalogue(db, &k, &now, e);

	if (!rc && !now)
		rc = err_set(e, ERR_NOT_FOUND, "nobody has seen the tools of %.64s yet: ask for a refresh", j->server);
	if (!rc && strcmp(json_get_text(now, "fingerprint"), j->seen_digest) != 0)
		rc = err_set(e, ERR_LIST_CHANGED, "the tools of %.64s are others than those of that fingerprint",
			     j->server);
	if (!rc)
		rc = store_run(
		    db, NULL, e,
		    "UPDATE mcp_catalogues SET approved = seen, approved_ns = ?4, approved_by = ?5, call = ?6,"
		    " approved_sha256 = ?7 WHERE agent = ?1 AND server = ?2 AND definition = ?3",
		    "tttittt", j->agent, j->server, j->fingerprint, j->now_ns, j->principal, j->call, j->seen_digest);
	json_decref(now);
	return rc ? rc : read_catalogue(db, &k, &j->result, e);
}

void catalogue_approve(struct store *s, const struct catalogue_key *k, const char *seen, const char *principal,
		       const json_t *call, int64_t now_ns, servers_done *done, void *arg)
{
	struct servers_job *j = servers_begin((const json_t *const[3]){call}, done, arg);

	if (!j)
		return;
	put_key(j, k);
	text_put(j->seen_digest, sizeof(j->seen_digest), seen);
	text_put(j->principal, sizeof(j->principal), principal);
	j->now_ns = now_ns;
	store_write(s, approve_in_db, servers_on_done, j);
}

struct catalogue_look {
	const struct catalogue_key *key;
	json_t *out;
};

static int look_in_db(sqlite3 *db, void *job, struct err *e)
{
	struct catalogue_look *l = job;
	int rc = read_catalogue(db, l->key, &l->out, e);

	return rc       ? rc
	       : l->out ? 0
			: err_set(e, ERR_NOT_FOUND, "nobody has seen the tools of %.64s yet", l->key->server);
}

int catalogue_get(struct store *s, const struct catalogue_key *k, json_t **out, struct err *e)
{
	struct catalogue_look l = {.key = k};
	int rc = store_read(s, look_in_db, &l, e);

	if (rc)
		json_decref(l.out);
	else
		*out = l.out;
	return rc;
}
