#include "control/work/db.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "control/store/store_sql.h"

#include <stdlib.h>
#include <string.h>

#define PURGE_MAX 1000

static int must_change(int rc, int changes, struct err *e, const char *what)
{
	return rc ? rc : changes == 1 ? 0 : err_set(e, ERR_BAD_STATE, "%s", what);
}

static void db_text(sqlite3_stmt *st, int col, char *out, size_t size)
{
	text_put(out, size, store_text(st, col));
}

/* ---- leases */

#define LEASE_COLUMNS                                                                                                  \
	"l.id, l.principal, l.user, l.workflow, l.request, l.ttl_s, l.asked_ttl_s, l.sandbox, l.state, l.cause, "      \
	"l.call, l.created_ns, l.expires_ns, l.ended_ns, "                                                             \
	"(SELECT run FROM runs r WHERE r.lease = l.id ORDER BY r.created_ns DESC LIMIT 1)"

static int db_on_lease(void *arg, sqlite3_stmt *st)
{
	struct lease_row *l = arg;

	memset(l, 0, sizeof(*l));
	db_text(st, 0, l->id, sizeof(l->id));
	db_text(st, 1, l->principal, sizeof(l->principal));
	db_text(st, 2, l->user, sizeof(l->user));
	db_text(st, 3, l->workflow, sizeof(l->workflow));
	db_text(st, 4, l->request, sizeof(l->request));
	l->ttl_s = sqlite3_column_int64(st, 5);
	l->asked_ttl_s = sqlite3_column_int64(st, 6);
	db_text(st, 7, l->sandbox, sizeof(l->sandbox));
	db_text(st, 8, l->state, sizeof(l->state));
	db_text(st, 9, l->cause, sizeof(l->cause));
	db_text(st, 10, l->call, sizeof(l->call));
	l->created_ns = sqlite3_column_int64(st, 11);
	l->expires_ns = sqlite3_column_int64(st, 12);
	l->ended_ns = sqlite3_column_int64(st, 13);
	db_text(st, 14, l->run, sizeof(l->run));
	return 0;
}

int db_lease_get(struct sqlite3 *db, const char *id, struct lease_row *out, bool *out_found, struct err *e)
{
	int n = 0, rc = store_each(db, &n, db_on_lease, out, e, "SELECT " LEASE_COLUMNS " FROM leases l WHERE l.id = ?",
				   "t", id);

	*out_found = n;
	return rc;
}

int db_lease_by_key(struct sqlite3 *db, const struct lease_row *k, struct lease_row *out, bool *out_found,
		    struct err *e)
{
	int n = 0, rc = store_each(db, &n, db_on_lease, out, e,
				   "SELECT " LEASE_COLUMNS " FROM leases l"
				   " WHERE l.principal = ? AND l.user = ? AND l.workflow = ? AND l.request = ?",
				   "tttt", k->principal, k->user, k->workflow, k->request);

	*out_found = n;
	return rc;
}

int db_lease_claim(struct sqlite3 *db, const struct lease_row *l, struct err *e)
{
	int changes = 0;
	int rc = store_run(db, &changes, e,
			   "UPDATE pool SET state = 'leased', lease = ? WHERE sandbox = ? AND state = 'ready'", "tt",
			   l->id, l->sandbox);

	rc = must_change(rc, changes, e, "the sandbox is not ready any more");
	if (rc)
		return rc;
	return store_run(
	    db, NULL, e,
	    "INSERT INTO leases(id, principal, user, workflow, request, ttl_s, asked_ttl_s, sandbox, state,"
	    " call, created_ns, expires_ns) VALUES(?,?,?,?,?,?,?,?,'ACTIVE',?,?,?)",
	    "tttttiittii", l->id, l->principal, l->user, l->workflow, l->request, l->ttl_s, l->asked_ttl_s, l->sandbox,
	    l->call, l->created_ns, l->expires_ns);
}

int db_lease_extend(struct sqlite3 *db, const char *id, int64_t expires_ns, struct err *e)
{
	int changes = 0;
	int rc = store_run(db, &changes, e,
			   "UPDATE leases SET expires_ns = max(expires_ns, ?) WHERE id = ? AND state = 'ACTIVE'", "it",
			   expires_ns, id);

	return must_change(rc, changes, e, "the lease is not ACTIVE");
}

int db_lease_end(struct sqlite3 *db, const struct db_end *x, struct err *e)
{
	int changes = 0;
	int rc = store_run(db, &changes, e,
			   "UPDATE leases SET state = ?, cause = ?, ended_ns = ? WHERE id = ? AND state = 'ACTIVE'",
			   "ttit", x->state, x->cause, x->now_ns, x->lease);

	rc = must_change(rc, changes, e, "the lease is not ACTIVE");
	if (!rc)
		rc = store_run(db, NULL, e,
			       "UPDATE runs SET state = ?, reason = ?, message = ?, ended_ns = ?,"
			       " steps = coalesce(?, steps), artifacts = coalesce(?, artifacts)"
			       " WHERE lease = ? AND state = 'RUNNING'",
			       "tttittt", x->run_state, x->run_reason, x->run_message, x->now_ns, x->steps,
			       x->artifacts, x->lease);
	if (!rc)
		rc = store_run(db, NULL, e,
			       "UPDATE pool SET state = 'discarding', why = ? WHERE lease = ? AND state = 'leased'",
			       "tt", x->cause, x->lease);
	return rc;
}

/* ---- runs */

static int db_on_run(void *arg, sqlite3_stmt *st)
{
	struct run_row *r = arg;

	memset(r, 0, sizeof(*r));
	db_text(st, 0, r->id, sizeof(r->id));
	db_text(st, 1, r->lease, sizeof(r->lease));
	db_text(st, 2, r->run, sizeof(r->run));
	db_text(st, 3, r->principal, sizeof(r->principal));
	db_text(st, 4, r->workflow, sizeof(r->workflow));
	r->version = sqlite3_column_int64(st, 5);
	r->asked_timeout_s = sqlite3_column_int64(st, 6);
	db_text(st, 7, r->state, sizeof(r->state));
	return 0;
}

int db_run_by_key(struct sqlite3 *db, const char *lease, const char *run, struct run_row *out, bool *out_found,
		  struct err *e)
{
	int n = 0,
	    rc = store_each(db, &n, db_on_run, out, e,
			    "SELECT id, lease, run, principal, workflow, version, asked_timeout_s, state FROM runs"
			    " WHERE lease = ? AND run = ?",
			    "tt", lease, run);

	*out_found = n;
	return rc;
}

int db_run_log(struct sqlite3 *db, const char *lease, const char *log, struct err *e)
{
	return store_run(db, NULL, e, "UPDATE runs SET log = ? WHERE lease = ? AND log IS NULL", "tt", log, lease);
}

/* Only on a lease that is ACTIVE and has no run. */
int db_run_insert(struct sqlite3 *db, const struct run_row *r, struct err *e)
{
	int changes = 0;
	int rc = store_run(db, &changes, e,
			   "INSERT INTO runs(id, lease, run, principal, user, workflow, version, timeout_s,"
			   " asked_timeout_s, state, call, created_ns) SELECT ?,?,?,?,?,?,?,?,?,'RUNNING',?,?"
			   " WHERE EXISTS(SELECT 1 FROM leases WHERE id = ? AND state = 'ACTIVE')"
			   " AND NOT EXISTS(SELECT 1 FROM runs WHERE lease = ?)",
			   "ttttttiiititt", r->id, r->lease, r->run, r->principal, r->user, r->workflow, r->version,
			   r->timeout_s, r->asked_timeout_s, r->call, r->created_ns, r->lease, r->lease);

	return must_change(rc, changes, e, "the lease is not ACTIVE, or has a run");
}

int db_run_steps(struct sqlite3 *db, const char *id, const char *steps, const char *artifacts, struct err *e)
{
	return store_run(db, NULL, e, "UPDATE runs SET steps = ?, artifacts = ? WHERE id = ? AND state = 'RUNNING'",
			 "ttt", steps, artifacts, id);
}

/* ---- the pool */

int db_pool_insert(struct sqlite3 *db, const char *sandbox, const char *state, int64_t now_ns, struct err *e)
{
	return store_run(db, NULL, e, "INSERT INTO pool(sandbox, state, created_ns) VALUES(?,?,?)", "tti", sandbox,
			 state, now_ns);
}

/* From filling; what was ready before a start is reached again, and stays it. */
int db_pool_ready(struct sqlite3 *db, const char *sandbox, struct err *e)
{
	int changes = 0;
	int rc = store_run(db, &changes, e,
			   "UPDATE pool SET state = 'ready' WHERE sandbox = ? AND state IN ('filling', 'ready')", "t",
			   sandbox);

	return must_change(rc, changes, e, "the sandbox is in another state");
}

int db_pool_discard(struct sqlite3 *db, const char *sandbox, const char *why, struct err *e)
{
	return store_run(db, NULL, e,
			 "UPDATE pool SET state = 'discarding', why = ? WHERE sandbox = ? AND state <> 'leased'", "tt",
			 why, sandbox);
}

int db_pool_remove(struct sqlite3 *db, const char *sandbox, struct err *e)
{
	return store_run(db, NULL, e, "DELETE FROM pool WHERE sandbox = ? AND state = 'discarding'", "t", sandbox);
}

/* ---- after a start */

int db_mend(struct sqlite3 *db, int64_t now_ns, struct db_mended *out, struct err *e)
{
	int n = 0;
	int rc = store_run(db, &out->leases, e,
			   "UPDATE leases SET state = 'RELEASED', cause = 'crash: the daemon ended during its run',"
			   " ended_ns = ? WHERE state = 'ACTIVE' AND id IN"
			   " (SELECT lease FROM runs WHERE state = 'RUNNING')",
			   "i", now_ns);

	if (!rc)
		rc = store_run(db, &out->runs, e,
			       "UPDATE runs SET state = 'FAILED', reason = 'crash', ended_ns = ?, message ="
			       " 'the daemon ended during the run; its token is gone and nothing of it is run again'"
			       " WHERE state = 'RUNNING'",
			       "i", now_ns);
	if (!rc)
		rc = store_run(db, &n, e,
			       "UPDATE leases SET state = 'EXPIRED', cause = 'its time was over', ended_ns = ?"
			       " WHERE state = 'ACTIVE' AND expires_ns <= ?",
			       "ii", now_ns, now_ns);
	out->leases += n;
	if (!rc)
		rc = store_run(
		    db, &n, e,
		    "UPDATE leases SET state = 'RELEASED', cause = 'lost: its sandbox is not there', ended_ns = ?"
		    " WHERE state = 'ACTIVE' AND NOT EXISTS"
		    " (SELECT 1 FROM pool WHERE pool.lease = leases.id AND pool.state = 'leased')",
		    "i", now_ns);
	out->leases += n;
	if (!rc)
		rc = store_run(db, &out->sandboxes, e,
			       "UPDATE pool SET state = 'discarding', why = coalesce(why, 'left by a crash') WHERE"
			       " state = 'filling' OR (state = 'leased' AND NOT EXISTS"
			       " (SELECT 1 FROM leases WHERE leases.id = pool.lease AND leases.state = 'ACTIVE'))",
			       "");
	return rc;
}

struct each_lease {
	db_lease_fn *fn;
	void *arg;
};

static int pass_lease(void *arg, sqlite3_stmt *st)
{
	struct each_lease *each = arg;
	struct lease_row l;

	(void)db_on_lease(&l, st);
	return each->fn(each->arg, &l);
}

int db_leases_active(struct sqlite3 *db, db_lease_fn *fn, void *arg, struct err *e)
{
	return store_each(db, NULL, pass_lease, &(struct each_lease){fn, arg}, e,
			  "SELECT " LEASE_COLUMNS " FROM leases l WHERE l.state = 'ACTIVE'", "");
}

struct each_pool {
	db_pool_fn *fn;
	void *arg;
};

static int pass_pool(void *arg, sqlite3_stmt *st)
{
	struct each_pool *each = arg;
	char sandbox[WORK_SANDBOX_MAX], state[12];
	struct work_ids ids;

	db_text(st, 0, sandbox, sizeof(sandbox));
	db_text(st, 1, state, sizeof(state));
	db_text(st, 2, ids.lease, sizeof(ids.lease));
	db_text(st, 3, ids.request, sizeof(ids.request));
	db_text(st, 4, ids.run, sizeof(ids.run));
	return each->fn(each->arg, sandbox, state, &ids);
}

int db_pool_all(struct sqlite3 *db, db_pool_fn *fn, void *arg, struct err *e)
{
	return store_each(
	    db, NULL, pass_pool, &(struct each_pool){fn, arg}, e,
	    "SELECT p.sandbox, p.state, p.lease, l.request, r.run FROM pool p LEFT JOIN leases l ON l.id ="
	    " p.lease LEFT JOIN runs r ON r.lease = p.lease ORDER BY p.created_ns",
	    "");
}

int db_purge(struct sqlite3 *db, int64_t before_ns, bool *out_more, struct err *e)
{
	int removed = 0;
	int rc = store_run(db, NULL, e,
			   "DELETE FROM runs WHERE state <> 'RUNNING' AND lease IN (SELECT id FROM leases WHERE"
			   " state <> 'ACTIVE' AND ended_ns < ? ORDER BY ended_ns LIMIT ?)",
			   "ii", before_ns, (int64_t)PURGE_MAX);

	if (!rc)
		rc = store_run(db, &removed, e,
			       "DELETE FROM leases WHERE id IN (SELECT id FROM leases WHERE state <> 'ACTIVE' AND"
			       " ended_ns < ? ORDER BY ended_ns LIMIT ?)",
			       "ii", before_ns, (int64_t)PURGE_MAX);
	*out_more = removed == PURGE_MAX;
	return rc;
}

/* ---- workflows */

static int db_on_workflow(void *arg, sqlite3_stmt *st)
{
	struct workflow_row *r = arg;

	memset(r, 0, sizeof(*r));
	db_text(st, 0, r->name, sizeof(r->name));
	r->version = sqlite3_column_int64(st, 1);
	db_text(st, 2, r->owner, sizeof(r->owner));
	db_text(st, 3, r->principal, sizeof(r->principal));
	r->created_ns = sqlite3_column_int64(st, 5);
	r->body = strdup(store_text(st, 4));
	return r->body ? 0 : ERR_NOMEM;
}

int db_workflow_get(struct sqlite3 *db, const char *name, int64_t version, struct workflow_row *out, bool *out_found,
		    struct err *e)
{
	int n = 0, rc = store_each(db, &n, db_on_workflow, out, e,
				   "SELECT name, version, owner, principal, body, created_ns FROM workflows"
				   " WHERE name = ? AND (? = 0 OR version = ?) ORDER BY version DESC LIMIT 1",
				   "tii", name, version, version);

	*out_found = n;
	return rc;
}

int db_workflow_insert(struct sqlite3 *db, const struct workflow_row *r, struct err *e)
{
	return store_run(db, NULL, e,
			 "INSERT INTO workflows(name, version, owner, principal, body, created_ns) VALUES(?,?,?,?,?,?)",
			 "tittti", r->name, r->version, r->owner, r->principal, r->body, r->created_ns);
}

/* ---- for people */

static json_t *when(int64_t ns)
{
	char out[40];

	clock_format_utc(ns, out, sizeof(out));
	return ns ? json_string(out) : json_null();
}

static json_t *word(const char *s)
{
	return *s ? json_string(s) : json_null();
}

json_t *lease_row_json(const struct lease_row *l)
{
	return json_pack("{s:s,s:s,s:o,s:s,s:s,s:s,s:s,s:s,s:I,s:o,s:o,s:o,s:o}", "leaseId", l->id, "sandboxId",
			 l->sandbox, "expiresAt", when(l->expires_ns), "state", l->state, "userId", l->user,
			 "workflowId", l->workflow, "requestId", l->request, "principal", l->principal, "ttlSeconds",
			 (json_int_t)l->ttl_s, "createdAt", when(l->created_ns), "endedAt", when(l->ended_ns), "cause",
			 word(l->cause), "runId", word(l->run));
}

static int db_append(json_t *list, json_t *o)
{
	return json_array_append_new(list, o) ? ERR_NOMEM : 0;
}

static int add_lease(void *arg, sqlite3_stmt *st)
{
	struct lease_row l;

	(void)db_on_lease(&l, st);
	return db_append(arg, lease_row_json(&l));
}

int db_leases_json(struct sqlite3 *db, const char *principal, const char *state, size_t limit, json_t *list,
		   struct err *e)
{
	return store_each(db, NULL, add_lease, list, e,
			  "SELECT " LEASE_COLUMNS " FROM leases l WHERE (?1 IS NULL OR l.principal = ?1) AND"
			  " (?2 IS NULL OR l.state = ?2) ORDER BY l.id DESC LIMIT ?3",
			  "tti", principal, state, (int64_t)limit);
}

static json_t *parsed(sqlite3_stmt *st, int col)
{
	json_t *v = json_loads(store_text(st, col), 0, NULL);

	return v ? v : json_array();
}

static json_t *column(sqlite3_stmt *st, int col)
{
	return word(store_text(st, col));
}

struct runs_out {
	json_t *list;
	bool log;
};

static int add_run(void *arg, sqlite3_stmt *st)
{
	const struct runs_out *out = arg;
	json_t *o = json_pack(
	    "{s:o,s:o,s:o,s:o,s:o,s:I,s:o,s:o,s:o,s:I,s:o,s:o,s:o,s:o,s:o,s:o}", "runId", column(st, 2), "leaseId",
	    column(st, 1), "userId", column(st, 4), "principal", column(st, 3), "workflowId", column(st, 5), "version",
	    (json_int_t)sqlite3_column_int64(st, 6), "state", column(st, 8), "reason", column(st, 9), "message",
	    column(st, 10), "timeoutSeconds", (json_int_t)sqlite3_column_int64(st, 7), "steps", parsed(st, 11),
	    "artifacts", parsed(st, 12), "createdAt", when(sqlite3_column_int64(st, 13)), "endedAt",
	    when(sqlite3_column_int64(st, 14)), "requestId", column(st, 15), "clientRequestId", column(st, 16));

	if (o && out->log)
		json_object_set_new(o, "log",
				    *store_text(st, 17) ? json_loads(store_text(st, 17), 0, NULL) : json_null());
	return db_append(out->list, o);
}

int db_runs_json(struct sqlite3 *db, const char *principal, const char *run, const char *lease, size_t limit, bool log,
		 json_t *list, struct err *e)
{
	return store_each(
	    db, NULL, add_run, &(struct runs_out){list, log}, e,
	    "SELECT id, lease, run, principal, user, workflow, version, timeout_s, state, reason, message,"
	    " steps, artifacts, created_ns, ended_ns, call, (SELECT request FROM leases WHERE id = lease), log FROM "
	    "runs "
	    "WHERE (?1 IS NULL OR principal = ?1)"
	    " AND (?2 IS NULL OR run = ?2) AND (?3 IS NULL OR lease = ?3) ORDER BY id DESC LIMIT ?4",
	    "ttti", principal, run, lease, (int64_t)limit);
}

static int add_workflow(void *arg, sqlite3_stmt *st)
{
	return db_append(arg, json_pack("{s:o,s:o,s:I,s:o,s:o}", "workflowId", column(st, 0), "name", column(st, 0),
					"version", (json_int_t)sqlite3_column_int64(st, 1), "owner", column(st, 2),
					"createdAt", when(sqlite3_column_int64(st, 3))));
}

int db_workflows_json(struct sqlite3 *db, const char *principal, size_t limit, json_t *list, struct err *e)
{
	return store_each(db, NULL, add_workflow, list, e,
			  "SELECT name, version, owner, created_ns FROM workflows w WHERE version ="
			  " (SELECT max(version) FROM workflows v WHERE v.name = w.name) AND (?1 IS NULL "
			  "OR principal = ?1) ORDER BY name LIMIT ?2",
			  "ti", principal, (int64_t)limit);
}
