/* Runs as callers see them: one, and lists. */
#include "base/err.h"
#include "base/json.h"
#include "control/store/store.h"
#include "control/work/state.h"

#define LIST_MAX 1000

struct listing {
	const char *principal, *run, *lease;
	int64_t limit;
	json_t *list;
};

static int list_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct listing *k = arg;

	return db_runs_json(db, k->principal, k->run, k->lease, (size_t)k->limit, k->list, e);
}

static int list_runs(struct work *w, struct listing *k, struct err *e)
{
	int rc;

	k->list = json_array();
	rc = k->list ? store_read(w->store, list_in_db, k, e) : err_set(e, ERR_NOMEM, "no memory");
	if (rc) {
		json_decref(k->list);
		k->list = NULL;
	}
	return rc;
}

int run_list(struct work *w, const struct work_caller *c, const json_t *body, json_t **out, struct err *e)
{
	static const char *const keys[] = {"leaseId", "limit", NULL};
	struct listing k = {.principal = c->sees_all ? NULL : c->principal, .limit = 100};
	int rc = body ? json_only_keys(body, keys, e) : 0;

	if (!rc && body)
		rc = json_opt_str(body, "leaseId", &k.lease, e);
	if (!rc && body)
		rc = json_opt_int(body, "limit", 1, LIST_MAX, &k.limit, e);
	if (!rc)
		rc = list_runs(w, &k, e);
	if (!rc)
		*out = json_pack("{s:o}", "runs", k.list);
	return rc;
}

/* By the caller's own id of it; leaseId says which where it was used for several leases, else the newest. */
int run_show(struct work *w, const struct work_caller *c, const char *id, const json_t *body, json_t **out,
	     struct err *e)
{
	static const char *const keys[] = {"leaseId", NULL};
	struct listing k = {.principal = c->sees_all ? NULL : c->principal, .run = id, .limit = 1};
	int rc = body ? json_only_keys(body, keys, e) : 0;

	if (!rc && body)
		rc = json_opt_str(body, "leaseId", &k.lease, e);
	if (!rc)
		rc = list_runs(w, &k, e);
	if (!rc && json_array_size(k.list) == 0)
		rc = err_set(e, ERR_NOT_FOUND, "there is no run %.64s", id);
	if (!rc)
		*out = json_incref(json_array_get(k.list, 0));
	json_decref(k.list);
	return rc;
}
