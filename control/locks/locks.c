#define LOG_SUBSYS "locks"
#include "control/locks/locks.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/store/store.h"
#include "control/store/store_sql.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN_NS (1 * NS_PER_SEC) /* from one removal of what is over to the next */

#define COLUMNS "id, agent, path, principal, task, label, taken_ns, expires_ns"

/* A question on its way through the store, with copies of its texts. */
struct lock_job {
	char agent[AGENT_NAME_MAX + 1], path[LOCK_PATH_MAX + 1], principal[192], task[192], label[LOCK_LABEL_MAX + 1];
	char id[ID_STR_LEN];
	bool any_principal, any_task;
	int64_t now_ns, expires_ns;
	char *call;
	json_t *result;
	lock_done *done;
	void *arg;
};

static json_t *lock_time(int64_t ns)
{
	char text[40];

	clock_format_utc(ns, text, sizeof(text));
	return json_string(text);
}

static json_t *lock_json(sqlite3_stmt *st)
{
	const char *label = store_text(st, 5);

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o}", "id", store_text(st, 0), "agent",
			 store_text(st, 1), "path", store_text(st, 2), "principal", store_text(st, 3), "task_id",
			 store_text(st, 4), "label", *label ? json_string(label) : json_null(), "taken_at",
			 lock_time(sqlite3_column_int64(st, 6)), "expires_at", lock_time(sqlite3_column_int64(st, 7)));
}

static int locks_on_row(void *arg, sqlite3_stmt *st)
{
	json_t **out = arg;

	*out = lock_json(st);
	return *out ? STORE_ENOUGH : ERR_NOMEM;
}

static int locks_on_listed(void *arg, sqlite3_stmt *st)
{
	return json_array_append_new(arg, lock_json(st)) ? ERR_NOMEM : 0;
}

static int locks_on_count(void *arg, sqlite3_stmt *st)
{
	*(int64_t *)arg = sqlite3_column_int64(st, 0);
	return STORE_ENOUGH;
}

static int expire(sqlite3 *db, const char *agent, int64_t now_ns, struct err *e)
{
	return store_run(db, NULL, e, "DELETE FROM locks WHERE expires_ns <= ?1 AND (?2 IS NULL OR agent = ?2)", "it",
			 now_ns, agent);
}

/* ---- take */

/* The same path, one above or one below; of the same holder on the same path it is no conflict. */
static int find_other(sqlite3 *db, struct lock_job *j, struct err *e)
{
	int rc = store_each(
	    db, NULL, locks_on_row, &j->result, e,
	    "SELECT " COLUMNS " FROM locks WHERE agent = ?1 AND (path = ?2 OR path = '.' OR ?2 = '.'"
	    " OR substr(path, 1, length(?2) + 1) = ?2 || '/' OR substr(?2, 1, length(path) + 1) = path || '/')"
	    " AND NOT (path = ?2 AND principal = ?3 AND task = ?4 AND coalesce(label, '') = ?5)"
	    " ORDER BY path LIMIT 1",
	    "ttttt", j->agent, j->path, j->principal, j->task, j->label);
	char when[40] = "";

	if (rc || !j->result)
		return rc;
	text_put(when, sizeof(when), json_string_value(json_object_get(j->result, "expires_at")));
	return err_set(e, ERR_LOCKED, "%.120s is locked by %.80s, task %.60s, until %s (lock on %.100s)", j->path,
		       json_string_value(json_object_get(j->result, "principal")),
		       json_string_value(json_object_get(j->result, "task_id")), when,
		       json_string_value(json_object_get(j->result, "path")));
}

static int own_again(sqlite3 *db, struct lock_job *j, int *out_changed, struct err *e)
{
	return store_run(db, out_changed, e,
			 "UPDATE locks SET expires_ns = ?6, call = ?7 WHERE agent = ?1 AND path = ?2 AND principal = ?3"
			 " AND task = ?4 AND coalesce(label, '') = ?5",
			 "tttttit", j->agent, j->path, j->principal, j->task, j->label, j->expires_ns, j->call);
}

static int take_new(sqlite3 *db, struct lock_job *j, struct err *e)
{
	int64_t count = 0;
	int rc = store_each(db, NULL, locks_on_count, &count, e, "SELECT count(*) FROM locks WHERE agent = ?", "t",
			    j->agent);

	if (!rc && count >= LOCKS_MAX)
		rc =
		    err_limit(e, ERR_LIMIT, &(struct err_share){"fixed.locks", "agent", LOCKS_MAX, (uint64_t)count, 60},
			      "%.100s has %d locks already: release some", j->agent, LOCKS_MAX);
	if (!rc)
		rc = store_run(db, NULL, e,
			       "INSERT INTO locks(id, agent, path, principal, task, label, taken_ns, expires_ns, call)"
			       " VALUES(?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?)",
			       "ttttttiit", j->id, j->agent, j->path, j->principal, j->task, j->label, j->now_ns,
			       j->expires_ns, j->call);
	return rc;
}

static int take_in_db(sqlite3 *db, void *job, struct err *e)
{
	struct lock_job *j = job;
	int renewed = 0, rc = expire(db, j->agent, j->now_ns, e);

	if (!rc)
		rc = find_other(db, j, e);
	if (!rc)
		rc = own_again(db, j, &renewed, e);
	if (!rc && !renewed)
		rc = take_new(db, j, e);
	if (!rc)
		rc = store_each(db, NULL, locks_on_row, &j->result, e,
				"SELECT " COLUMNS " FROM locks WHERE agent = ? AND path = ?", "tt", j->agent, j->path);
	if (!rc && j->result)
		json_object_set_new(j->result, "renewed", json_boolean(renewed));
	return rc;
}

static void locks_on_done(void *job, int rc, const struct err *e)
{
	struct lock_job *j = job;
	struct err here = {0};

	if (!rc && !j->result)
		rc = err_set(&here, ERR_NOMEM, "no memory for the answer"), e = &here;
	j->done(j->arg, rc, e, j->result);
	json_decref(j->result);
	free(j->call);
	free(j);
}

/* NULL: no memory, and the caller has heard it. */
static struct lock_job *lock_begin(const json_t *call, lock_done *done, void *arg)
{
	struct lock_job *j = calloc(1, sizeof(*j));
	struct err e = {0};

	if (j && (j->call = json_text(call))) {
		j->done = done;
		j->arg = arg;
		return j;
	}
	free(j);
	done(arg, err_set(&e, ERR_NOMEM, "no memory for a lock"), &e, NULL);
	return NULL;
}

void lock_take(struct store *s, const struct lock_wish *w, lock_done *done, void *arg)
{
	struct lock_job *j = lock_begin(w->call, done, arg);
	struct id id;

	if (!j)
		return;
	(void)id_new(&id);
	id_format(&id, j->id);
	text_put(j->agent, sizeof(j->agent), w->agent);
	text_put(j->path, sizeof(j->path), w->path);
	text_put(j->principal, sizeof(j->principal), w->principal);
	text_put(j->task, sizeof(j->task), w->task);
	text_put(j->label, sizeof(j->label), w->label ? w->label : "");
	j->now_ns = w->now_ns;
	j->expires_ns = w->expires_ns;
	store_write(s, take_in_db, locks_on_done, j);
}

/* ---- renew, release */

static int change_in_db(sqlite3 *db, void *job, struct err *e)
{
	struct lock_job *j = job;
	int changed = 0;
	int rc = expire(db, j->agent, j->now_ns, e);

	if (!rc)
		rc = store_run(db, &changed, e,
			       j->expires_ns
				   ? "UPDATE locks SET expires_ns = ?5, call = ?6 WHERE id = ?1 AND agent = ?2"
				     " AND (?3 IS NULL OR principal = ?3) AND (?4 IS NULL OR task = ?4)"
				   : "UPDATE locks SET cause = 'released', call = ?6 WHERE id = ?1 AND agent = ?2"
				     " AND (?3 IS NULL OR principal = ?3) AND (?4 IS NULL OR task = ?4) AND ?5 = 0",
			       "ttttit", j->id, j->agent, j->any_principal ? NULL : j->principal,
			       j->any_task ? NULL : j->task, j->expires_ns, j->call);
	if (!rc && !changed)
		rc = err_set(e, ERR_NOT_FOUND, "no such lock of yours in %.100s: its time may be over", j->agent);
	if (!rc)
		rc = store_each(db, NULL, locks_on_row, &j->result, e, "SELECT " COLUMNS " FROM locks WHERE id = ?",
				"t", j->id);
	if (!rc && !j->expires_ns)
		rc = store_run(db, NULL, e, "DELETE FROM locks WHERE id = ?", "t", j->id);
	return rc;
}

void lock_change(struct store *s, const struct lock_change *c, lock_done *done, void *arg)
{
	struct lock_job *j = lock_begin(c->call, done, arg);

	if (!j)
		return;
	text_put(j->id, sizeof(j->id), c->id);
	text_put(j->agent, sizeof(j->agent), c->agent);
	text_put(j->principal, sizeof(j->principal), c->principal ? c->principal : "");
	text_put(j->task, sizeof(j->task), c->task ? c->task : "");
	j->any_principal = !c->principal;
	j->any_task = !c->task;
	j->now_ns = c->now_ns;
	j->expires_ns = c->expires_ns;
	store_write(s, change_in_db, locks_on_done, j);
}

/* ---- list, expiry */

struct lock_listing {
	const char *agent;
	int64_t now_ns;
	json_t *list;
};

static int locks_list_in_db(sqlite3 *db, void *job, struct err *e)
{
	struct lock_listing *k = job;

	return store_each(db, NULL, locks_on_listed, k->list, e,
			  "SELECT " COLUMNS " FROM locks WHERE agent = ? AND expires_ns > ? ORDER BY path", "ti",
			  k->agent, k->now_ns);
}

int locks_list(struct store *s, const char *agent, int64_t now_ns, json_t **out, struct err *e)
{
	struct lock_listing k = {.agent = agent, .now_ns = now_ns, .list = json_array()};
	int rc = k.list ? store_read(s, locks_list_in_db, &k, e) : err_set(e, ERR_NOMEM, "no memory for a list");

	if (!rc && !(*out = json_pack("{s:O}", "locks", k.list)))
		rc = err_set(e, ERR_NOMEM, "no memory for a list");
	json_decref(k.list);
	return rc;
}

struct lock_expiry {
	int64_t now_ns;
};

static int expire_in_db(sqlite3 *db, void *job, struct err *e)
{
	const struct lock_expiry *x = job;

	return expire(db, NULL, x->now_ns, e);
}

static void locks_on_expired(void *job, int rc, const struct err *e)
{
	if (rc)
		log_error(NULL, "locks whose time is over could not be removed: %s", e ? e->message : err_name(rc));
	free(job);
}

static int next_in_db(sqlite3 *db, void *job, struct err *e)
{
	return store_each(db, NULL, locks_on_count, job, e, "SELECT coalesce(min(expires_ns), ?) FROM locks", "i",
			  INT64_MAX);
}

void locks_expire(struct store *s, struct locks_watch *w, int64_t now_ns)
{
	uint64_t changes = store_changes(s);
	struct lock_expiry *x;

	if ((w->changes == changes && now_ns < w->next_ns) || clock_boot_ns() < w->again_ns ||
	    store_read(s, next_in_db, &w->next_ns, NULL))
		return;
	w->changes = changes;
	if (w->next_ns > now_ns || !(x = malloc(sizeof(*x))))
		return;
	w->again_ns = clock_boot_ns() + AGAIN_NS;
	x->now_ns = now_ns;
	store_write(s, expire_in_db, locks_on_expired, x);
}
