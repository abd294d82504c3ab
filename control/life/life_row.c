#include "control/life/life_row.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "control/store/store_sql.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS                                                                                                        \
	"agent, state, generation, step, cause, detail, sandbox_id, workspace, snapshot_id, next_snapshot_id,"         \
	" read_only, fork_agent, fork_snapshot_id, idle_ttl_ns, expires_ns, active_ns, due_ns, since_wall_ns,"         \
	" created_wall_ns, updated_wall_ns, pod_template, image, memory, cpu_milli, pids, app_id"
#define SNAP_COLUMNS                                                                                                   \
	"id, agent, name, how, size, status, detail, previous_id, cause, quiesced, created_wall_ns, ended_wall_ns, "   \
	"digest, orphan"

const char *life_state_name(enum life_state s)
{
	static const char *const names[] = {"stopped",  "starting",   "running", "idle_stopping",
					    "stopping", "destroying", "error"};

	return names[s];
}

const char *snap_status_name(enum snap_status s)
{
	static const char *const names[] = {"taking", "ready", "failed", "dropping", "dropped"};

	return names[s];
}

const char *snap_quiesce_name(enum snap_quiesce q)
{
	static const char *const names[] = {"none", "synced", "frozen"};

	return names[q <= SNAP_FROZEN ? q : SNAP_NOT_QUIESCED];
}

static void life_row_copy(char *out, size_t size, sqlite3_stmt *st, int column)
{
	const char *text = store_text(st, column);
	size_t n = strnlen(text, size - 1);

	memcpy(out, text, n);
	out[n] = '\0';
}

static int life_row_on_row(void *arg, sqlite3_stmt *st)
{
	struct life_row *r = arg;

	memset(r, 0, sizeof(*r));
	life_row_copy(r->agent, sizeof(r->agent), st, 0);
	r->state = (enum life_state)sqlite3_column_int(st, 1);
	r->generation = sqlite3_column_int64(st, 2);
	life_row_copy(r->step, sizeof(r->step), st, 3);
	life_row_copy(r->cause, sizeof(r->cause), st, 4);
	life_row_copy(r->detail, sizeof(r->detail), st, 5);
	r->sandbox = store_id(st, 6);
	r->workspace = sqlite3_column_int(st, 7);
	r->snapshot = store_id(st, 8);
	r->next = store_id(st, 9);
	r->read_only = sqlite3_column_int(st, 10);
	life_row_copy(r->fork_agent, sizeof(r->fork_agent), st, 11);
	r->fork_snapshot = store_id(st, 12);
	r->idle_ttl_ns = sqlite3_column_type(st, 13) == SQLITE_NULL ? LIFE_TTL_CONF : sqlite3_column_int64(st, 13);
	r->expires_ns = sqlite3_column_int64(st, 14);
	r->active_ns = sqlite3_column_int64(st, 15);
	r->due_ns = sqlite3_column_int64(st, 16);
	r->since_wall_ns = sqlite3_column_int64(st, 17);
	r->created_wall_ns = sqlite3_column_int64(st, 18);
	r->updated_wall_ns = sqlite3_column_int64(st, 19);
	life_row_copy(r->pod_template, sizeof(r->pod_template), st, 20);
	life_row_copy(r->image, sizeof(r->image), st, 21);
	r->resources =
	    (struct resources){(uint64_t)sqlite3_column_int64(st, 22), (uint32_t)sqlite3_column_int64(st, 23),
			       (uint32_t)sqlite3_column_int64(st, 24)};
	life_row_copy(r->app_id, sizeof(r->app_id), st, 25);
	return 0;
}

static int life_row_on_snap(void *arg, sqlite3_stmt *st)
{
	struct life_snap *s = arg;

	memset(s, 0, sizeof(*s));
	s->id = store_id(st, 0);
	life_row_copy(s->agent, sizeof(s->agent), st, 1);
	life_row_copy(s->name, sizeof(s->name), st, 2);
	life_row_copy(s->how, sizeof(s->how), st, 3);
	s->size = (uint64_t)sqlite3_column_int64(st, 4);
	s->status = (enum snap_status)sqlite3_column_int(st, 5);
	life_row_copy(s->detail, sizeof(s->detail), st, 6);
	s->previous = store_id(st, 7);
	life_row_copy(s->cause, sizeof(s->cause), st, 8);
	s->quiesced = (enum snap_quiesce)sqlite3_column_int(st, 9);
	s->created_wall_ns = sqlite3_column_int64(st, 10);
	s->ended_wall_ns = sqlite3_column_int64(st, 11);
	life_row_copy(s->digest, sizeof(s->digest), st, 12);
	s->orphan = sqlite3_column_int(st, 13);
	return 0;
}

/* The name of an agent, in the first column. */
static int life_row_on_name(void *arg, sqlite3_stmt *st)
{
	life_row_copy(arg, AGENT_NAME_MAX + 1, st, 0);
	return 0;
}

int row_agent_of(sqlite3 *db, const struct id *sandbox, char out[AGENT_NAME_MAX + 1], struct err *e)
{
	char name[AGENT_NAME_MAX + 1] = "";
	int rc = store_each(db, NULL, life_row_on_name, name, e, "SELECT agent FROM agents WHERE sandbox_id = ?", "d",
			    sandbox);

	if (!rc)
		memcpy(out, name, sizeof(name));
	return rc;
}

int row_get(sqlite3 *db, const char *agent, struct life_row *out, struct err *e)
{
	struct life_row r = {.idle_ttl_ns = LIFE_TTL_CONF};
	int rc =
	    store_each(db, NULL, life_row_on_row, &r, e, "SELECT " COLUMNS " FROM agents WHERE agent = ?", "t", agent);

	if (!rc)
		*out = r;
	return rc;
}

static int row_write(sqlite3 *db, int64_t was, const struct life_row *r, int *out_changed, struct err *e)
{
	static const char types[] = "tiitttdiddidt"; /* the rest may be NULL */
	const char *sql =
	    was ? "UPDATE agents SET state = ?2, generation = ?3, step = ?4, cause = ?5, detail = ?6, sandbox_id = ?7,"
		  " workspace = ?8, snapshot_id = ?9, next_snapshot_id = ?10, read_only = ?11, fork_agent = ?13,"
		  " fork_snapshot_id = ?12, idle_ttl_ns = ?14, expires_ns = ?15, due_ns = ?16, active_ns = ?17,"
		  " since_wall_ns = ?18, created_wall_ns = ?19, updated_wall_ns = ?20, pod_template = ?21,"
		  " image = ?22, memory = ?23, cpu_milli = ?24, pids = ?25, app_id = ?26"
		  " WHERE agent = ?1 AND generation = ?27"
		: "INSERT INTO agents(agent, state, generation, step, cause, detail, sandbox_id, workspace, "
		  "snapshot_id,"
		  " next_snapshot_id, read_only, fork_snapshot_id, fork_agent, idle_ttl_ns, expires_ns, due_ns, "
		  "active_ns,"
		  " since_wall_ns, created_wall_ns, updated_wall_ns, pod_template, image, memory, cpu_milli, pids, "
		  "app_id) "
		  "VALUES(?1, ?2, ?3, ?4, ?5, "
		  "?6, ?7, "
		  "?8, ?9, ?10, "
		  "?11,"
		  " ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26)"
		  " ON CONFLICT(agent) DO NOTHING";
	sqlite3_stmt *st = NULL;
	int rc;

	rc = store_prepare(db, &st, e, sql, types, r->agent, (int64_t)r->state, r->generation, r->step, r->cause,
			   r->detail, &r->sandbox, (int64_t)r->workspace, &r->snapshot, &r->next, (int64_t)r->read_only,
			   &r->fork_snapshot, r->fork_agent[0] ? r->fork_agent : NULL);
	if (rc)
		return rc;
	if (r->idle_ttl_ns != LIFE_TTL_CONF)
		sqlite3_bind_int64(st, 14, r->idle_ttl_ns);
	if (r->expires_ns)
		sqlite3_bind_int64(st, 15, r->expires_ns);
	if (r->due_ns)
		sqlite3_bind_int64(st, 16, r->due_ns);
	sqlite3_bind_int64(st, 17, r->active_ns);
	sqlite3_bind_int64(st, 18, r->since_wall_ns);
	sqlite3_bind_int64(st, 19, r->created_wall_ns);
	sqlite3_bind_int64(st, 20, r->updated_wall_ns);
	sqlite3_bind_text(st, 21, r->pod_template, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 22, r->image, -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 23, (int64_t)r->resources.memory);
	sqlite3_bind_int64(st, 24, r->resources.cpu_milli);
	sqlite3_bind_int64(st, 25, r->resources.pids);
	sqlite3_bind_text(st, 26, r->app_id, -1, SQLITE_STATIC);
	if (was)
		sqlite3_bind_int64(st, 27, was);
	rc = store_step(db, st, e);
	sqlite3_finalize(st);
	*out_changed = sqlite3_changes(db);
	return rc < 0 ? rc : 0;
}

static int other_generation(const char *agent, struct err *e)
{
	return err_set(e, ERR_CONFLICT, "the state of %s was changed by somebody else meanwhile", agent);
}

int row_swap(sqlite3 *db, int64_t was, const struct life_row *next, struct err *e)
{
	int changed = 0, rc = row_write(db, was, next, &changed, e);

	return rc || changed == 1 ? rc : other_generation(next->agent, e);
}

int row_delete(sqlite3 *db, const char *agent, int64_t was, struct err *e)
{
	int changed = 0;
	int rc = store_run(db, &changed, e, "DELETE FROM agents WHERE agent = ? AND generation = ?", "ti", agent, was);

	return rc || changed == 1 ? rc : other_generation(agent, e);
}

int row_set_times(sqlite3 *db, const struct life_row *r, struct err *e)
{
	return store_run(db, NULL, e,
			 "UPDATE agents SET due_ns = nullif(?, 0), active_ns = ?, expires_ns = nullif(?, 0)"
			 " WHERE agent = ? AND generation = ?",
			 "iiiti", r->due_ns, r->active_ns, r->expires_ns, r->agent, r->generation);
}

int row_set_active(sqlite3 *db, const struct life_row *r, struct err *e)
{
	return store_run(db, NULL, e, "UPDATE agents SET active_ns = ?1 WHERE agent = ?2 AND active_ns < ?1", "it",
			 r->active_ns, r->agent);
}

int life_clock_put(sqlite3 *db, const struct life_clock *c, struct err *e)
{
	return store_run(db, NULL, e,
			 "INSERT OR REPLACE INTO life_clock(one, life_ns, boot_ns, boot_id) VALUES(1, ?, ?, ?)", "iit",
			 c->life_ns, (int64_t)c->boot_ns, clock_boot_id());
}

static int life_row_on_clock(void *arg, sqlite3_stmt *st)
{
	life_clock_begin(arg, sqlite3_column_int64(st, 0), (uint64_t)sqlite3_column_int64(st, 1), store_text(st, 2));
	return 0;
}

int life_clock_get(sqlite3 *db, struct life_clock *out, struct err *e)
{
	int n = 0,
	    rc = store_each(db, &n, life_row_on_clock, out, e, "SELECT life_ns, boot_ns, boot_id FROM life_clock", "");

	if (!rc && !n)
		life_clock_begin(out, 0, 0, "");
	return rc;
}

int row_set_told(sqlite3 *db, const char *agent, int64_t generation, struct err *e)
{
	return store_run(db, NULL, e, "UPDATE agents SET told = ?2 WHERE agent = ?1 AND told < ?2", "ti", agent,
			 generation);
}

static int life_row_on_template(void *arg, sqlite3_stmt *st)
{
	char **out = arg, *text = strdup(store_text(st, 0));

	if (text)
		*out = text;
	return text ? 0 : ERR_NOMEM;
}

int template_get(sqlite3 *db, const char *digest, char **out, struct err *e)
{
	int n = 0, rc = store_each(db, &n, life_row_on_template, out, e,
				   "SELECT template FROM pod_templates WHERE digest = ?", "t", digest);

	return rc || n ? rc : err_set(e, ERR_NOT_FOUND, "the pod template %.64s is not there", digest);
}

int template_put(sqlite3 *db, const char *digest, const char *text, struct err *e)
{
	return store_run(db, NULL, e, "INSERT OR IGNORE INTO pod_templates(digest, template) VALUES(?, ?)", "tt",
			 digest, text);
}

int template_forget(sqlite3 *db, const char *digest, struct err *e)
{
	return store_run(db, NULL, e,
			 "DELETE FROM pod_templates WHERE digest = ?1 AND NOT EXISTS"
			 " (SELECT 1 FROM agents WHERE pod_template = ?1 AND pod_template <> '')",
			 "t", digest);
}

int snap_get(sqlite3 *db, const struct id *id, struct life_snap *out, struct err *e)
{
	char text[ID_STR_LEN];
	int n = 0, rc = store_each(db, &n, life_row_on_snap, out, e,
				   "SELECT " SNAP_COLUMNS " FROM snapshots WHERE id = ?", "d", id);

	id_format(id, text);
	return rc || n ? rc : err_set(e, ERR_NOT_FOUND, "there is no snapshot %s", text);
}

int snap_put(sqlite3 *db, const struct life_snap *s, struct err *e)
{
	return store_run(
	    db, NULL, e,
	    "INSERT INTO snapshots(" SNAP_COLUMNS ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), '', 0)"
	    " ON CONFLICT(id) DO UPDATE SET name = excluded.name, how = excluded.how, size = excluded.size,"
	    " status = excluded.status, detail = excluded.detail, quiesced = excluded.quiesced,"
	    " ended_wall_ns = excluded.ended_wall_ns",
	    "dtttiitdtiii", &s->id, s->agent, s->name, s->how, (int64_t)s->size, (int64_t)s->status, s->detail,
	    &s->previous, s->cause, (int64_t)s->quiesced, s->created_wall_ns, s->ended_wall_ns);
}

int snap_set_digest(sqlite3 *db, const struct id *id, const char *digest, struct err *e)
{
	return store_run(db, NULL, e, "UPDATE snapshots SET digest = ? WHERE id = ?", "td", digest, id);
}

int snap_unhashed(sqlite3 *db, const struct id *after, struct life_snap *out, bool *out_found, struct err *e)
{
	int n = 0, rc = store_each(db, &n, life_row_on_snap, out, e,
				   "SELECT " SNAP_COLUMNS " FROM snapshots WHERE status = 1 AND digest = ''"
				   " AND how <> 'VolumeSnapshot' AND id > coalesce(?, '') ORDER BY id LIMIT 1",
				   "d", after);

	*out_found = n;
	return rc;
}

/* ---- questions */

struct rows {
	row_each *each;
	void *arg;
};

static int life_row_pass_row(void *arg, sqlite3_stmt *st)
{
	const struct rows *p = arg;
	struct life_row r;

	(void)life_row_on_row(&r, st);
	return p->each(p->arg, &r) ? 0 : STORE_ENOUGH;
}

int rows_due(sqlite3 *db, int64_t now, row_each *each, void *arg, struct err *e)
{
	return store_each(db, NULL, life_row_pass_row, &(struct rows){each, arg}, e,
			  "SELECT " COLUMNS " FROM agents WHERE due_ns <= ? ORDER BY due_ns LIMIT 64", "i", now);
}

static int life_row_on_time(void *arg, sqlite3_stmt *st)
{
	*(int64_t *)arg = sqlite3_column_int64(st, 0);
	return 0;
}

int rows_next_due(sqlite3 *db, int64_t *out, struct err *e)
{
	return store_each(db, NULL, life_row_on_time, out, e,
			  "SELECT coalesce(min(due_ns), ?) FROM agents WHERE due_ns IS NOT NULL", "i", INT64_MAX);
}

int rows_awake(sqlite3 *db, row_each *each, void *arg, struct err *e)
{
	return store_each(db, NULL, life_row_pass_row, &(struct rows){each, arg}, e,
			  "SELECT " COLUMNS " FROM agents WHERE state > 0", "");
}

int row_set_passing(sqlite3 *db, const char *agent, struct err *e)
{
	return store_run(db, NULL, e, "INSERT OR IGNORE INTO passing(agent) VALUES(?)", "t", agent);
}

int rows_passing(sqlite3 *db, row_each *each, void *arg, struct err *e)
{
	return store_each(db, NULL, life_row_pass_row, &(struct rows){each, arg}, e,
			  "SELECT " COLUMNS " FROM agents WHERE agent IN (SELECT agent FROM passing)", "");
}

int row_set_beginning(sqlite3 *db, const char *agent, const char *workspace, const char *sha256, struct err *e)
{
	return store_run(db, NULL, e, "INSERT INTO beginnings(agent, workspace, sha256) VALUES(?, ?, ?)", "ttt", agent,
			 workspace, sha256);
}

static int life_row_on_beginning(void *arg, sqlite3_stmt *st)
{
	json_t **out = arg;

	*out = json_pack("{s:s,s:s}", "workspace", store_text(st, 0), "sha256", store_text(st, 1));
	return *out ? 0 : ERR_NOMEM;
}

int row_beginning(sqlite3 *db, const char *agent, json_t **out, struct err *e)
{
	*out = NULL;
	return store_each(db, NULL, life_row_on_beginning, out, e,
			  "SELECT workspace, sha256 FROM beginnings WHERE agent = ?", "t", agent);
}

int rows_restoring(sqlite3 *db, row_each *each, void *arg, struct err *e)
{
	return store_each(db, NULL, life_row_pass_row, &(struct rows){each, arg}, e,
			  "SELECT " COLUMNS " FROM agents WHERE state = ? AND step IN (?, ?)", "itt",
			  (int64_t)LIFE_STOPPED, LIFE_STEP_RESTORE, LIFE_STEP_RESTORE_OVER);
}

int rows_untold(sqlite3 *db, row_each *each, void *arg, struct err *e)
{
	return store_each(db, NULL, life_row_pass_row, &(struct rows){each, arg}, e,
			  "SELECT " COLUMNS " FROM agents WHERE told <> generation", "");
}

static int state_by_name(const char *name, int64_t *out, struct err *e)
{
	for (int s = LIFE_STOPPED; s <= LIFE_ERROR; s++)
		if (strcmp(name, life_state_name((enum life_state)s)) == 0) {
			*out = s;
			return 0;
		}
	return err_set(
	    e, ERR_INVAL,
	    "there is no state \"%.40s\": stopped, starting, running, idle_stopping, stopping, destroying, error",
	    name);
}

/* The end of all names that begin so: the next string of its length. */
static void past(const char *prefix, char out[AGENT_NAME_MAX + 2])
{
	size_t n;

	text_put(out, AGENT_NAME_MAX + 1, prefix);
	n = strlen(out);
	if (n)
		out[n - 1] = (char)(out[n - 1] + 1);
	else
		snprintf(out, AGENT_NAME_MAX + 1, "~"); /* after every name */
}

int rows_list(sqlite3 *db, const struct life_filter *f, row_each *each, void *arg, struct err *e)
{
	const char *from = f->prefix ? f->prefix : "", *after = f->after ? f->after : "";
	char until[AGENT_NAME_MAX + 2], first[AGENT_NAME_MAX + 2];
	struct rows p = {each, arg};
	int64_t state = 0;
	int rc = f->state ? state_by_name(f->state, &state, e) : 0;

	if (rc)
		return rc;
	past(from, until);
	/* One bound below, so that a page begins where the last one ended: a name after `after` is one from the next
	 * on. */
	if (strcmp(after, from) >= 0 && *after)
		text_format(first, sizeof(first), "%.192s\x01", after);
	else
		text_format(first, sizeof(first), "%.192s", from);
	if (f->app_id)
		return store_each(db, NULL, life_row_pass_row, &p, e,
				  "SELECT " COLUMNS
				  " FROM agents INDEXED BY agents_app WHERE app_id = ?1 AND app_id <> ''"
				  " AND agent >= ?2 AND agent < ?3 AND (?4 < 0 OR state = ?4) ORDER BY agent LIMIT ?5",
				  "tttii", f->app_id, first, until, f->state ? state : -1, (int64_t)f->limit);
	if (f->state)
		return store_each(db, NULL, life_row_pass_row, &p, e,
				  "SELECT " COLUMNS
				  " FROM agents INDEXED BY agents_state WHERE state = ? AND agent >= ?"
				  " AND agent < ? ORDER BY agent LIMIT ?",
				  "itti", state, first, until, (int64_t)f->limit);
	return store_each(db, NULL, life_row_pass_row, &p, e,
			  "SELECT " COLUMNS " FROM agents WHERE agent >= ? AND agent < ? ORDER BY agent LIMIT ?", "tti",
			  first, until, (int64_t)f->limit);
}

static int life_row_on_count(void *arg, sqlite3_stmt *st)
{
	int64_t *out = arg;
	int state = sqlite3_column_int(st, 0);

	if (state >= 0 && state < 7)
		out[state] = sqlite3_column_int64(st, 1);
	return 0;
}

static int life_row_on_fork(void *arg, sqlite3_stmt *st)
{
	int64_t *n = arg;

	*n += agent_making(store_text(st, 0)) == AGENT_FORK;
	return 0;
}

int rows_forks(sqlite3 *db, const char *of, int64_t *out, struct err *e)
{
	char from[AGENT_NAME_MAX + 8], to[AGENT_NAME_MAX + 8];
	int64_t n = 0;
	int rc;

	text_format(from, sizeof(from), "%s-fork-", of);
	text_format(to, sizeof(to), "%s-fork.", of); /* a point is the next one behind a dash */
	rc = store_each(db, NULL, life_row_on_fork, &n, e, "SELECT agent FROM agents WHERE agent > ? AND agent < ?",
			"tt", from, to);
	if (!rc)
		*out = n;
	return rc;
}

int rows_count(sqlite3 *db, int64_t out[7], struct err *e)
{
	memset(out, 0, 7 * sizeof(*out));
	return store_each(db, NULL, life_row_on_count, out, e, "SELECT state, count(*) FROM agents GROUP BY state", "");
}

struct snaps {
	snap_each *each;
	void *arg;
};

static int life_row_pass_snap(void *arg, sqlite3_stmt *st)
{
	const struct snaps *p = arg;
	struct life_snap s;

	(void)life_row_on_snap(&s, st);
	return p->each(p->arg, &s) ? 0 : STORE_ENOUGH;
}

int snaps_of(sqlite3 *db, const char *agent, snap_each *each, void *arg, struct err *e)
{
	return store_each(db, NULL, life_row_pass_snap, &(struct snaps){each, arg}, e,
			  "SELECT " SNAP_COLUMNS " FROM snapshots WHERE agent = ?"
			  " ORDER BY created_wall_ns DESC, id DESC",
			  "t", agent);
}

int snaps_open(sqlite3 *db, snap_each *each, void *arg, struct err *e)
{
	return store_each(db, NULL, life_row_pass_snap, &(struct snaps){each, arg}, e,
			  "SELECT " SNAP_COLUMNS " FROM snapshots WHERE status IN (0, 3)", "");
}

/* The last name of the next page; "": there is none. */
static int surplus_page(sqlite3 *db, const char *after, char out[AGENT_NAME_MAX + 1], struct err *e)
{
	out[0] = '\0';
	return store_each(db, NULL, life_row_on_name, out, e,
			  "SELECT max(agent) FROM (SELECT DISTINCT agent FROM snapshots WHERE agent > ?"
			  " ORDER BY agent LIMIT 500)",
			  "t", after);
}

struct surplus {
	char (*list)[AGENT_NAME_MAX + 1];
	size_t n;
};

static int life_row_on_surplus(void *arg, sqlite3_stmt *st)
{
	struct surplus *s = arg;

	return life_row_on_name(s->list[s->n++], st); /* SNAP_AGENTS rows at most */
}

int snaps_surplus(sqlite3 *db, int64_t oldest_wall_ns, unsigned most, char after[AGENT_NAME_MAX + 1],
		  char out[SNAP_AGENTS][AGENT_NAME_MAX + 1], size_t *out_n, struct err *e)
{
	char last[AGENT_NAME_MAX + 1];
	struct surplus all = {out, 0};
	int rc = surplus_page(db, after, last, e);

	if (!rc && last[0])
		rc = store_each(
		    db, NULL, life_row_on_surplus, &all, e,
		    "SELECT s.agent FROM snapshots s LEFT JOIN agents a ON a.agent = s.agent"
		    " WHERE s.agent > ?1 AND s.agent <= ?2 AND s.status IN (1, 2) GROUP BY s.agent"
		    " HAVING sum(s.status = 1) > ?4 OR sum(s.status = 2) > ?4 OR a.agent IS NULL OR max(s.orphan) OR"
		    " max(s.created_wall_ns < ?3 AND s.id IS NOT a.snapshot_id)"
		    " ORDER BY s.agent LIMIT ?5",
		    "ttiii", after, last, oldest_wall_ns, (int64_t)most, (int64_t)SNAP_AGENTS);
	*out_n = all.n;
	memcpy(after, *out_n == SNAP_AGENTS ? out[SNAP_AGENTS - 1] : last, AGENT_NAME_MAX + 1);
	return rc;
}

int snaps_forget(sqlite3 *db, int64_t before_wall_ns, struct err *e)
{
	return store_run(db, NULL, e, "DELETE FROM snapshots WHERE status = 4 AND ended_wall_ns < ?", "i",
			 before_wall_ns);
}

int snap_needed(sqlite3 *db, const struct id *id, const char *besides, bool *out, struct err *e)
{
	int n = 0, rc = store_each(db, &n, NULL, NULL, e,
				   "SELECT 1 FROM agents WHERE snapshot_id = ? AND agent <> ?"
				   " AND (workspace = 0 OR read_only = 1 OR fork_snapshot_id IS NOT snapshot_id"
				   " OR agent IN (SELECT agent FROM beginnings))"
				   " LIMIT 1",
				   "dt", id, besides ? besides : "");

	if (!rc)
		*out = n;
	return rc;
}
