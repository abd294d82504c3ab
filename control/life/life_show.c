/* Agents and snapshots as objects (requirement A6), from the store at once. */
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>

#define LIST_DEFAULT 100
#define LIST_MOST    1000

struct question {
	struct life *life;
	const char *agent;
	const struct life_filter *filter;
	struct life_row row;
	json_t *list, *began;
	size_t n, limit;
	bool more, all;
	struct id current;
};

static int read_row(struct sqlite3 *db, void *job, struct err *e)
{
	struct question *q = job;

	return row_get(db, q->agent, &q->row, e);
}

static int read_beginning(struct sqlite3 *db, void *job, struct err *e)
{
	struct question *q = job;

	return row_beginning(db, q->agent, &q->began, e);
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
	rc = q.row.fork_agent[0] ? store_read(l->store, read_beginning, &q, e) : 0;
	if (rc)
		return rc;
	o = life_describe(l, &q.row);
	if (o && q.began)
		json_object_set(o, "began_with", q.began);
	json_decref(q.began);
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

	if (q->filter->wanted && !q->filter->wanted(q->filter->arg, r->agent))
		return true;
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

	f.limit = f.wanted ? INT64_MAX : q->limit + 1;
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

	if (s->status == SNAP_DROPPED || s->orphan)
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

void life_current(struct life *l, const char *agent, struct life_current *c)
{
	struct question q = {.life = l, .agent = agent};
	struct life_agent *a = life_known(l, agent);
	uint64_t changes = store_changes(l->store);

	if (!a && c->changes == changes)
		return;
	*c = (struct life_current){.since_wall_ns = LIFE_SINCE_UNKNOWN};
	if (a)
		q.row = a->row;
	else if (target_is_pod(agent) || store_read(l->store, read_row, &q, NULL))
		return;
	else
		c->changes = changes;
	c->since_wall_ns = q.row.generation ? q.row.created_wall_ns : 0;
	if (q.row.generation && !id_is_nil(&q.row.snapshot))
		id_format(&q.row.snapshot, c->snapshot);
}
