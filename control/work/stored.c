/* Stored workflows: definitions by name and version. A version is never changed. */
#define LOG_SUBSYS "work"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "control/store/store.h"
#include "control/work/state.h"
#include "control/work/workflow.h"

#include <stdlib.h>
#include <string.h>

struct put_job {
	struct job j;
	struct workflow_row row, found;
	char by[WORK_NAME_MAX + 1]; /* whose call it is */
	bool same, sees_all;
};

static json_t *stored_json(const struct workflow_row *r)
{
	char created[40];

	clock_format_utc(r->created_ns, created, sizeof(created));
	return json_pack("{s:s,s:s,s:I,s:s,s:s}", "workflowId", r->name, "name", r->name, "version",
			 (json_int_t)r->version, "owner", r->owner, "createdAt", created);
}

/* The same version with the same words is the same; what is newer than all is new; the rest is a conflict. */
static int stored_put_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	struct put_job *k = (struct put_job *)j;
	bool found = false;
	int rc = db_workflow_get(db, k->row.name, 0, &k->found, &found, e);

	if (rc)
		return rc;
	if (found && !k->sees_all && strcmp(k->found.principal, k->by) != 0)
		return err_set(e, ERR_FORBIDDEN, "the workflow %s belongs to another principal", k->row.name);
	if (found && strcmp(k->found.owner, k->row.owner) != 0)
		return err_set(e, ERR_CONFLICT, "the workflow %s is owned by %.64s since version %lld", k->row.name,
			       k->found.owner, (long long)k->found.version);
	if (found) /* an administrator's version stays the workflow of whoever it belongs to */
		memcpy(k->row.principal, k->found.principal, sizeof(k->row.principal));
	if (!found || k->row.version > k->found.version) {
		k->row.created_ns = j->now_ns;
		return db_workflow_insert(db, &k->row, e);
	}
	if (k->row.version < k->found.version) {
		free(k->found.body);
		k->found.body = NULL;
		rc = db_workflow_get(db, k->row.name, k->row.version, &k->found, &found, e);
		if (rc)
			return rc;
	}
	if (!found || !k->found.body || strcmp(k->found.body, k->row.body) != 0)
		return err_set(e, ERR_CONFLICT,
			       "version %lld of %s is stored with other content, or is not the next: a "
			       "version is never changed",
			       (long long)k->row.version, k->row.name);
	k->same = true;
	k->row.created_ns = k->found.created_ns;
	return 0;
}

static void stored_on_put(struct job *j, int rc, const struct err *e)
{
	struct put_job *k = (struct put_job *)j;

	if (!rc && !k->same)
		audit(j->w, "workflow.put", NULL, "ok",
		      json_pack("{s:s,s:I,s:s,s:s}", "name", k->row.name, "version", (json_int_t)k->row.version,
				"owner", k->row.owner, "principal", k->by));
	job_answer(j, rc, e, rc ? NULL : stored_json(&k->row));
}

static void drop_put(struct job *j)
{
	struct put_job *k = (struct put_job *)j;

	free(k->row.body);
	free(k->found.body);
}

void workflow_put(struct work *w, const struct work_caller *c, const json_t *body, work_done *done, void *arg)
{
	struct workflow_limits l = {.timeout_max_s = (uint64_t)w->conf.limits.run_timeout_max_s,
				    .memory_max = w->conf.memory_max};
	const char *owner = json_string_value(json_object_get(body, "owner"));
	struct put_job *k;
	struct err e = {0};
	int rc = workflow_check(body, &l, &e);

	if (!rc)
		rc = may_act_for(c, owner, &e);
	if (rc) {
		answer(done, arg, rc, &e, NULL);
		return;
	}
	if (!(k = job_create(w, sizeof(*k), done, arg)))
		return;
	k->j.drop = drop_put;
	k->sees_all = c->sees_all;
	text_put(k->row.name, sizeof(k->row.name), json_string_value(json_object_get(body, "name")));
	text_put(k->row.owner, sizeof(k->row.owner), owner);
	text_put(k->row.principal, sizeof(k->row.principal), c->principal);
	text_put(k->by, sizeof(k->by), c->principal);
	k->row.version = json_integer_value(json_object_get(body, "version"));
	k->row.body = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);
	job_write(&k->j, stored_put_in_db, stored_on_put);
}

int workflow_find(struct sqlite3 *db, const struct work_caller *c, const char *id, struct workflow_row *out,
		  struct err *e)
{
	char name[WORKFLOW_NAME_MAX + 1];
	struct workflow_row row = {0};
	bool found = false;
	int64_t version;
	int rc = workflow_id_parse(id, name, &version, e);

	if (!rc)
		rc = db_workflow_get(db, name, version, &row, &found, e);
	if (rc)
		return rc;
	if (!found || (!c->sees_all && strcmp(row.principal, c->principal) != 0)) {
		free(row.body);
		return err_set(e, ERR_NOT_FOUND, "there is no workflow %.80s: store it with POST /sandboxes/workflows",
			       id);
	}
	*out = row;
	return 0;
}

struct finding {
	const struct work_caller *caller;
	const char *id;
	struct workflow_row row;
};

static int find_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct finding *f = arg;

	return workflow_find(db, f->caller, f->id, &f->row, e);
}

int workflow_show(struct work *w, const struct work_caller *c, const char *id, json_t **out, struct err *e)
{
	struct finding f = {.caller = c, .id = id};
	int rc = store_read(w->store, find_in_db, &f, e);
	json_t *o, *definition;

	if (rc)
		return rc;
	o = stored_json(&f.row);
	definition = json_loads(f.row.body, 0, NULL);
	free(f.row.body);
	if (!o || !definition || json_object_set(o, "definition", definition))
		rc = err_set(e, ERR_CORRUPT, "the stored definition of %s cannot be read", f.row.name);
	json_decref(definition);
	if (rc)
		json_decref(o);
	else
		*out = o;
	return rc;
}

static int workflows_list_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct listing *k = arg;

	return db_workflows_json(db, k->principal, (size_t)k->limit, k->list, e);
}

int workflow_list(struct work *w, const struct work_caller *c, const json_t *body, json_t **out, struct err *e)
{
	return job_list(w, c, body, NULL, workflows_list_in_db, "workflows", out, e);
}
