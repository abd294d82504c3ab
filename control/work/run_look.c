/* Runs as callers see them: one, and lists. */
#include "base/err.h"
#include "base/json.h"
#include "control/store/store.h"
#include "control/work/state.h"

static int runs_list_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct listing *k = arg;

	return db_runs_json(db, k->principal, NULL, k->by, (size_t)k->limit, false, k->list, e);
}

int run_list(struct work *w, const struct work_caller *c, const json_t *body, json_t **out, struct err *e)
{
	return job_list(w, c, body, "leaseId", runs_list_in_db, "runs", out, e);
}

struct showing {
	const char *principal, *run, *lease;
	json_t *list;
};

static int show_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct showing *k = arg;

	return db_runs_json(db, k->principal, k->run, k->lease, 1, true, k->list, e);
}

/* By the caller's own id of it; leaseId says which where it was used for several leases, else the newest. */
int run_show(struct work *w, const struct work_caller *c, const char *id, const json_t *body, json_t **out,
	     struct err *e)
{
	static const char *const keys[] = {"leaseId", NULL};
	struct showing k = {.principal = c->sees_all ? NULL : c->principal, .run = id};
	int rc = body ? json_only_keys(body, keys, e) : 0;

	if (!rc && body)
		rc = json_opt_str(body, "leaseId", &k.lease, e);
	if (!rc && !(k.list = json_array()))
		rc = err_set(e, ERR_NOMEM, "no memory");
	if (!rc)
		rc = store_read(w->store, show_in_db, &k, e);
	if (!rc && json_array_size(k.list) == 0)
		rc = err_set(e, ERR_NOT_FOUND, "there is no run %.64s", id);
	if (!rc)
		*out = json_incref(json_array_get(k.list, 0));
	json_decref(k.list);
	return rc;
}
