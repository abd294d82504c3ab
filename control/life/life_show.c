/* Agents and snapshots as objects (requirement A6), from the store at once. */
#include "base/clock.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>

#define LIST_DEFAULT 100
#define LIST_MOST    1000

static void set_time(json_t *o, const char *key, int64_t wall_ns)
{
	char when[40];

	clock_format_utc(wall_ns, when, sizeof(when));
	json_object_set_new(o, key, wall_ns > 0 ? json_string(when) : json_null());
}

static void set_text(json_t *o, const char *key, const char *text)
{
	json_object_set_new(o, key, *text ? json_string(text) : json_null());
}

static void set_id(json_t *o, const char *key, const struct id *id)
{
	char text[ID_STR_LEN];

	id_format(id, text);
	set_text(o, key, id_is_nil(id) ? "" : text);
}

const char *life_cannot_sleep(const struct life *l, const struct life_wish *w)
{
	return w->idle_ttl_ns && l->inner->workspace_goes ? l->inner->workspace_goes : "";
}

static void set_timer(struct life *l, const struct life_row *r, json_t *o)
{
	struct life_activity act = {0};
	struct life_verdict v = {0};
	struct life_wish w;
	int64_t last = r->active_ns;

	life_wish(&l->policy, r->agent, r->idle_ttl_ns, &w);
	if (l->host.activity)
		l->host.activity(l->host.ctx, r->agent, &act);
	if (act.last_boot_ns && life_clock_of_boot(&l->clock, act.last_boot_ns) > last)
		last = life_clock_of_boot(&l->clock, act.last_boot_ns);
	if (r->state == LIFE_RUNNING)
		life_decide(&w, &act, last, life_now(l), true, &v);
	set_time(o, "last_activity_at", last ? life_clock_wall(&l->clock, last) : 0);
	set_time(o, "idle_stops_at", v.stops_at ? life_clock_wall(&l->clock, v.stops_at) : 0);
	set_time(o, "lease_expires_at",
		 r->expires_ns && r->expires_ns != LIFE_NEVER ? life_clock_wall(&l->clock, r->expires_ns) : 0);
	json_object_set_new(o, "ttl_action", json_string(w.ttl_delete ? "delete" : "stop"));
	json_object_set_new(o, "idle_ttl_ms", json_integer((json_int_t)(w.idle_ttl_ns * l->policy.speed / NS_PER_MS)));
	set_text(o, "cannot_sleep", life_cannot_sleep(l, &w));
	json_object_set_new(o, "holding", json_integer(act.holding));
	json_object_set_new(o, "attached", json_integer(act.attached));
}

json_t *life_describe(struct life *l, const struct life_row *r)
{
	json_t *o = json_object();

	if (!o)
		return NULL;
	json_object_set_new(o, "agent", json_string(r->agent));
	json_object_set_new(o, "state", json_string(life_state_name(r->state)));
	json_object_set_new(o, "generation", json_integer((json_int_t)r->generation));
	set_text(o, "cause", r->cause);
	set_text(o, "detail", r->detail);
	set_text(o, "step", r->step);
	set_id(o, "sandbox_id", &r->sandbox);
	set_id(o, "workspace_snapshot_id", &r->snapshot);
	set_id(o, "next_snapshot_id", &r->next);
	json_object_set_new(o, "workspace", json_boolean(r->workspace));
	json_object_set_new(o, "read_only", json_boolean(r->read_only));
	if (r->fork_agent[0]) {
		json_t *f = json_object();

		set_text(f, "agent", r->fork_agent);
		set_id(f, "snapshot", &r->fork_snapshot);
		json_object_set_new(o, "forked_from", f);
	}
	set_timer(l, r, o);
	set_time(o, "state_since", r->since_wall_ns);
	set_time(o, "created_at", r->created_wall_ns);
	set_time(o, "updated_at", r->updated_wall_ns);
	return o;
}

json_t *life_describe_snap(const struct life_snap *s)
{
	json_t *o = json_object();

	if (!o)
		return NULL;
	set_id(o, "id", &s->id);
	json_object_set_new(o, "agent", json_string(s->agent));
	json_object_set_new(o, "status", json_string(snap_status_name(s->status)));
	set_text(o, "name", s->name);
	set_text(o, "how", s->how);
	set_text(o, "digest", s->digest);
	set_text(o, "digest_state", life_digest_state(s));
	json_object_set_new(o, "size", s->size ? json_integer((json_int_t)s->size) : json_null());
	set_id(o, "previous_id", &s->previous);
	set_text(o, "cause", s->cause);
	set_text(o, "detail", s->detail);
	json_object_set_new(o, "quiesced", json_boolean(s->quiesced));
	json_object_set_new(o, "quiesce", json_string(snap_quiesce_name(s->quiesced)));
	set_time(o, "created_at", s->created_wall_ns);
	set_time(o, "ended_at", s->ended_wall_ns);
	return o;
}

/* ---- questions */

struct question {
	struct life *life;
	const char *agent;
	const struct life_filter *filter;
	struct life_row row;
	json_t *list;
	size_t n, limit;
	bool more, all;
	struct id current;
};

static int read_row(struct sqlite3 *db, void *job, struct err *e)
{
	struct question *q = job;

	return row_get(db, q->agent, &q->row, e);
}

int life_show(struct life *l, const char *agent, json_t **out, struct err *e)
{
	struct question q = {.life = l, .agent = agent};
	struct life_agent *a = life_known(l, agent);
	json_t *o;
	int rc = a ? 0 : store_read(l->store, read_row, &q, e);

	if (a)
		q.row = a->row;
	if (rc)
		return rc;
	if (!q.row.generation)
		return err_set(e, ERR_NOT_FOUND, "there is no agent %.192s", agent);
	o = life_describe(l, &q.row);
	if (!o)
		return err_set(e, ERR_NOMEM, "no memory for the answer");
	life_template_show(l, &q.row, o);
	*out = o;
	return 0;
}

struct find {
	const struct id *sandbox;
	char agent[AGENT_NAME_MAX + 1];
};

static int read_agent_of(struct sqlite3 *db, void *job, struct err *e)
{
	struct find *f = job;

	return row_agent_of(db, f->sandbox, f->agent, e);
}

int life_find(struct life *l, const struct id *sandbox, char out[AGENT_NAME_MAX + 1], struct err *e)
{
	struct find f = {.sandbox = sandbox};
	int rc = store_read(l->store, read_agent_of, &f, e);

	if (!rc)
		memcpy(out, f.agent, sizeof(f.agent));
	return rc;
}

static bool add_agent(void *arg, const struct life_row *r)
{
	struct question *q = arg;
	const struct life_agent *a = life_known(q->life, r->agent);

	if (q->n == q->limit) {
		q->more = true;
		return false;
	}
	q->n++;
	json_array_append_new(q->list, life_describe(q->life, a && a->row.generation ? &a->row : r));
	return true;
}

static int read_list(struct sqlite3 *db, void *job, struct err *e)
{
	struct question *q = job;
	struct life_filter f = *q->filter;

	f.limit = q->limit + 1;
	return rows_list(db, &f, add_agent, q, e);
}

int life_list(struct life *l, const struct life_filter *f, json_t **out, struct err *e)
{
	struct question q = {.life = l, .filter = f, .list = json_array()};
	int rc;

	q.limit = !f->limit ? LIST_DEFAULT : f->limit < LIST_MOST ? f->limit : LIST_MOST;
	rc = store_read(l->store, read_list, &q, e);
	if (rc) {
		json_decref(q.list);
		return rc;
	}
	*out = json_pack("{s:o,s:b}", "agents", q.list, "more", q.more);
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory for the answer");
}

static bool add_snapshot(void *arg, const struct life_snap *s)
{
	struct question *q = arg;
	json_t *o;

	if (s->status == SNAP_DROPPED)
		return true;
	o = life_describe_snap(s);
	json_object_set_new(o, "current", json_boolean(id_equal(&s->id, &q->row.snapshot)));
	json_array_append_new(q->list, o);
	return true;
}

static int read_snapshots(struct sqlite3 *db, void *job, struct err *e)
{
	struct question *q = job;
	int rc = row_get(db, q->agent, &q->row, e);

	return rc ? rc : snaps_of(db, q->agent, add_snapshot, q, e);
}

int life_snapshots(struct life *l, const char *agent, json_t **out, struct err *e)
{
	struct question q = {.life = l, .agent = agent, .list = json_array()};
	int rc = store_read(l->store, read_snapshots, &q, e);

	if (!rc && !q.row.generation && !json_array_size(q.list))
		rc = err_set(e, ERR_NOT_FOUND, "there is no agent %.192s", agent);
	if (rc) {
		json_decref(q.list);
		return rc;
	}
	*out = json_pack("{s:o}", "snapshots", q.list);
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory for the answer");
}

void life_current(struct life *l, const char *agent, char out[ID_STR_LEN])
{
	struct question q = {.life = l, .agent = agent};
	struct life_agent *a = life_known(l, agent);

	out[0] = '\0';
	if (a)
		q.row = a->row;
	else if (target_is_pod(agent) || store_read(l->store, read_row, &q, NULL))
		return;
	if (q.row.generation && !id_is_nil(&q.row.snapshot))
		id_format(&q.row.snapshot, out);
}
