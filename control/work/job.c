/* Jobs: one transaction of control.db each, with what follows it in memory and its answer. */
#define LOG_SUBSYS "work"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "control/store/store.h"
#include "control/work/state.h"

#include <stdlib.h>
#include <string.h>

#define LIST_DEFAULT 100
#define LIST_MAX     1000

int64_t now_wall(const struct work *w)
{
	return w->host.now ? w->host.now(w->host.ctx) : clock_wall_ns();
}

void audit(struct work *w, const char *event, const char *sandbox, const char *outcome, json_t *detail)
{
	json_t *o =
	    json_pack("{s:s,s:s,s:o}", "event", event, "outcome", outcome, "detail", detail ? detail : json_object());

	if (o && sandbox && *sandbox)
		json_object_set_new(o, "agent", json_string(sandbox));
	if (o)
		(void)w->host.audit(w->host.ctx, o);
}

void answer(work_done *done, void *arg, int rc, const struct err *e, json_t *result)
{
	struct err here = {0};

	if (rc && (!e || !e->message[0]))
		err_set(&here, rc, "%s", err_name(rc)), e = &here;
	if (done)
		done(arg, rc, rc ? e : NULL, rc ? NULL : result);
	json_decref(result);
}

int may_touch(const struct work_caller *c, const char *principal, const char *what, const char *id, struct err *e)
{
	if (c->sees_all || strcmp(c->principal, principal) == 0)
		return 0;
	return err_set(e, ERR_NOT_FOUND, "there is no %s %s", what, id);
}

int may_act_for(const struct work_caller *c, const char *user, struct err *e)
{
	if (c->acts_for_all || strcmp(c->principal, user) == 0)
		return 0;
	return err_set(e, ERR_FORBIDDEN, "%.64s may not act for %.64s: only a service's grant names other users",
		       c->principal, user);
}

int job_list(struct work *w, const struct work_caller *c, const json_t *body, const char *key,
	     int (*in_db)(struct sqlite3 *, void *, struct err *), const char *name, json_t **out, struct err *e)
{
	const char *const keys[] = {"limit", key, NULL};
	struct listing k = {.principal = c->sees_all ? NULL : c->principal, .limit = LIST_DEFAULT};
	int rc = body ? json_only_keys(body, keys, e) : 0;

	if (!rc && body && key)
		rc = json_opt_str(body, key, &k.by, e);
	if (!rc && body)
		rc = json_opt_int(body, "limit", 1, LIST_MAX, &k.limit, e);
	if (rc)
		return rc;
	k.list = json_array();
	rc = k.list ? store_read(w->store, in_db, &k, e) : err_set(e, ERR_NOMEM, "no memory");
	if (!rc)
		*out = json_pack("{s:O}", name, k.list);
	json_decref(k.list);
	return rc;
}

static void job_job_free(struct job *j)
{
	if (j->drop)
		j->drop(j);
	free(j);
}

void *job_create(struct work *w, size_t size, work_done *done, void *arg)
{
	struct job *j = calloc(1, size);

	if (!j) {
		answer(done, arg, ERR_NOMEM, NULL, NULL);
		return NULL;
	}
	j->w = w;
	j->done = done;
	j->arg = arg;
	LIST_INSERT_HEAD(&w->jobs, j, entry);
	return j;
}

static int in_db(struct sqlite3 *db, void *p, struct err *e)
{
	struct job *j = p;

	return j->in_db(db, j, e);
}

static void job_on_written(void *p, int rc, const struct err *e)
{
	struct job *j = p;

	LIST_REMOVE(j, entry);
	struct work *w = j->w;

	if (!rc)
		outbox_tell(w); /* ahead of the answer: who hears of a change can find it in the log */
	if (!w->stopped && j->after)
		j->after(j, rc, e);
	job_job_free(j);
}

void job_write(struct job *j, int (*fn)(struct sqlite3 *, struct job *, struct err *),
	       void (*after)(struct job *, int, const struct err *))
{
	j->now_ns = now_wall(j->w);
	j->in_db = fn;
	j->after = after;
	store_write(j->w->store, in_db, job_on_written, j);
}

void job_answer(struct job *j, int rc, const struct err *e, json_t *result)
{
	work_done *done = j->done;

	j->done = NULL;
	answer(done, j->arg, rc, e, result);
}
