/* Artifacts: who may, and the audit log's word of it. */
#define LOG_SUBSYS "broker"
#include "muxd/hub/broker/broker_artifact.h"

#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/access/gate.h"
#include "muxd/hub/broker/artifact_take.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/record/share.h"

#include <stdlib.h>
#include <string.h>

enum artifact_call { CALL_PUT, CALL_TAKE, CALL_GET, CALL_SHOW, CALL_LIST, CALL_DELETE };

/* A question with its texts, while the record is waited for. */
struct artifact_job {
	struct hub *hub;
	struct request rq;
	enum artifact_call call;
	char *texts[10]; /* owned */
	json_t *ignore;
	size_t ntexts;
	bool whole; /* every text is there */
	struct artifact_put put;
	struct artifact_filter filter;
	struct artifact_take take;
	struct artifact_changes changes;
	const char *task, *name;
	const char *principal; /* of whose it has to be; NULL: anybody's */
	const struct artifact_writer_ops *ops;
	void *ops_arg;
	broker_writer_done *writer_done;
	broker_json_done *done;
	void *arg;
};

static void act_put(struct artifact_job *j);
static void act_take(struct artifact_job *j);
static void act_get(struct artifact_job *j);
static void act_list(struct artifact_job *j);
static void act_delete(struct artifact_job *j);

static const struct {
	const char *name; /* of its audit event */
	enum policy_op op;
	void (*act)(struct artifact_job *j);
} calls[] = {
    [CALL_PUT] = {"artifact.put", POLICY_ARTIFACT_WRITE, act_put},
    [CALL_TAKE] = {"artifact.put", POLICY_ARTIFACT_WRITE, act_take},
    [CALL_GET] = {"artifact.get", POLICY_ARTIFACT_READ, act_get},
    [CALL_SHOW] = {"artifact.show", POLICY_ARTIFACT_READ, act_get},
    [CALL_LIST] = {"artifact.list", POLICY_ARTIFACT_READ, act_list},
    [CALL_DELETE] = {"artifact.delete", POLICY_ARTIFACT_WRITE, act_delete},
};

static void artifact_job_free(struct artifact_job *j)
{
	for (size_t i = 0; i < j->ntexts; i++)
		free(j->texts[i]);
	json_decref(j->ignore);
	request_finish(&j->rq);
	free(j);
}

/* An artifact that is not found may be another's, so the refusal is an event. */
static void artifact_answer(struct artifact_job *j, int rc, const struct err *e, json_t *result)
{
	if (rc && rc != ERR_CANCELLED && j->call == CALL_TAKE)
		(void)audit_event(j->hub, "artifact.put", &j->rq, j->take.agent, err_name(rc),
				  json_pack("{s:s, s:s, s:s, s:s*}", "task", j->task, "name", j->name, "message",
					    e->message, "round_id", j->take.made_by));
	else if (rc == ERR_NOT_FOUND || rc == ERR_CONFLICT)
		audit_verdict(j->hub, &j->rq, NULL, err_name(rc),
			      json_pack("{s:s, s:s, s:s, s:s*}", "what", calls[j->call].name, "message", e->message,
					"task", j->task, "name", j->name));
	if (j->writer_done)
		j->writer_done(j->arg, rc, e, NULL);
	else
		j->done(j->arg, rc, e, result);
	artifact_job_free(j);
}

static const char *keep_text(struct artifact_job *j, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (!text)
		return NULL;
	j->whole = j->whole && copy;
	return j->texts[j->ntexts++] = copy;
}

/* ---- may this grant? */

/* Another task's are answered as absent; the audit log has the reason. */
static int check_task(struct hub *h, const struct request *rq, const char *what, const char *task, struct err *e)
{
	const struct grant *g = &rq->grant;

	if (!g->task[0] || strcmp(g->task, task) == 0)
		return 0;
	audit_verdict(h, rq, NULL, err_name(ERR_TASK_MISMATCH),
		      json_pack("{s:s, s:s, s:s}", "what", what, "task", task, "message",
				"artifacts of another task than the grant's"));
	return err_set(e, ERR_NOT_FOUND, "artifact not found, or your grant is for another task");
}

static int artifact_check(struct hub *h, const struct request *rq, const char *what, const char *task, struct err *e)
{
	int rc = broker_in_force(h, rq, what, e);

	if (rc)
		return rc;
	if (!hub_artifacts(h))
		return err_set(e, ERR_UNSUPPORTED, "there are no artifacts here");
	rc = token_name_check("the task", task, e);
	if (rc)
		return rc;
	if (!(rq->grant.scopes & SCOPE_FILES)) {
		err_set(e, ERR_FORBIDDEN, "the grant lacks scope files");
		return broker_refused(h, rq, NULL, what, e);
	}
	return check_task(h, rq, what, task, e);
}

static const char *whose(const struct request *rq)
{
	return grant_has_task(&rq->grant) || rq->grant.scopes & SCOPE_ADMIN ? NULL : rq->grant.principal;
}

/* ---- a job from its call to its act */

static void artifact_on_writable(void *arg, int rc, const struct err *e)
{
	struct artifact_job *j = arg;

	if (rc)
		artifact_answer(j, rc, e, NULL);
	else
		calls[j->call].act(j);
}

static struct artifact_job *artifact_job_create(struct hub *h, const struct request *rq, enum artifact_call call)
{
	struct artifact_job *j = calloc(1, sizeof(*j));

	if (j) {
		j->hub = h;
		j->rq = *rq;
		j->call = call;
		j->whole = true;
	}
	return j;
}

/* task and name are the job's by now. */
static void artifact_begin(struct artifact_job *j)
{
	struct hub *h = j->hub;
	struct err e = {0};
	int rc = j->whole ? artifact_check(h, &j->rq, calls[j->call].name, j->task, &e)
			  : err_set(&e, ERR_NOMEM, "no memory for the call");

	j->principal = whose(&j->rq);
	if (!rc && j->name)
		rc = artifact_name_check(j->name, &e);
	if (!rc)
		rc = broker_policy(h, &j->rq,
				   &(struct policy_question){.op = calls[j->call].op,
							     .task = j->task,
							     .bytes = j->call == CALL_PUT ? j->put.size : 0},
				   calls[j->call].name, &j->rq.policy, &e);
	if (!rc)
		rc = gate_pass(h, &j->rq, artifact_on_writable, j, &e);
	if (rc == GATE_WAITS)
		return;
	if (rc == ERR_NOT_FOUND) { /* told in the audit log already */
		if (j->writer_done)
			j->writer_done(j->arg, rc, &e, NULL);
		else
			j->done(j->arg, rc, &e, NULL);
		artifact_job_free(j);
		return;
	}
	artifact_on_writable(j, rc, &e);
}

/* An event about a row; detail is the row without what is only ours. Without it nothing is given out. */
static int broker_artifact_tell(struct artifact_job *j, const json_t *row)
{
	json_t *d = row ? json_copy((json_t *)(uintptr_t)row) : json_pack("{s:s}", "task", j->task);
	const char *agent = json_string_value(json_object_get(row, "agent"));

	json_object_del(d, "blob");
	return audit_event(j->hub, calls[j->call].name, &j->rq, agent, "ok", d);
}

static void artifact_finish(struct artifact_job *j, int rc, struct err *e, const json_t *row, json_t *result)
{
	if (!rc && broker_artifact_tell(j, row))
		rc = err_set(e, ERR_RECORD_UNAVAILABLE, "the audit log takes no event now");
	artifact_answer(j, rc, e, rc ? NULL : result);
	json_decref(result);
}

/* ---- what they do */

static void act_put(struct artifact_job *j)
{
	json_t *call = audit_request_json(&j->rq);
	const struct grant *g = &j->rq.grant;
	struct artifact_spec spec = {.task = j->task,
				     .name = j->name,
				     .principal = g->principal,
				     .agent = grant_of_one(g) ? g->agent : NULL,
				     .media_type = j->put.media_type,
				     .call = call,
				     .sha256 = j->put.sha256,
				     .size = j->put.size,
				     .only_new = j->put.only_new,
				     .any_owner = !j->principal,
				     .apart = share_stands_apart(g)};
	struct artifact_writer *w = NULL;
	struct err e = {0};
	int rc;

	rc = call ? artifact_write(hub_artifacts(j->hub), &spec, j->ops, j->ops_arg, &w, &e)
		  : err_set(&e, ERR_NOMEM, "no memory for an event");
	json_decref(call);
	if (rc) {
		artifact_answer(j, rc, &e, NULL);
		return;
	}
	j->writer_done(j->arg, 0, NULL, w);
	artifact_job_free(j);
}

static void artifact_on_taken(void *arg, int rc, const struct err *e, json_t *result)
{
	artifact_answer(arg, rc, e, result);
}

static void act_take(struct artifact_job *j)
{
	artifact_take(j->hub, &j->rq, &j->take, artifact_on_taken, j);
}

static void act_get(struct artifact_job *j)
{
	struct err e = {0};
	json_t *row = NULL;
	int rc = artifact_show(hub_artifacts(j->hub), j->task, j->name, j->principal, &row, &e);

	artifact_finish(j, rc, &e, row, row);
}

static void act_list(struct artifact_job *j)
{
	struct err e = {0};
	json_t *list = NULL;
	int rc;

	j->filter.principal = j->principal;
	rc = artifacts_list(hub_artifacts(j->hub), &j->filter, &list, &e);
	artifact_finish(j, rc, &e, NULL, list);
}

static void artifact_on_deleted(void *arg, int rc, const struct err *e, const json_t *row)
{
	artifact_answer(arg, rc, e, (json_t *)(uintptr_t)row);
}

static void act_delete(struct artifact_job *j)
{
	json_t *call = audit_request_json(&j->rq);
	struct err e = {0};

	if (call)
		artifact_delete(hub_artifacts(j->hub), j->task, j->name, j->principal, call, artifact_on_deleted, j);
	else
		artifact_answer(j, err_set(&e, ERR_NOMEM, "no memory for an event"), &e, NULL);
	json_decref(call);
}

/* ---- the calls */

static void artifact_no_memory(broker_json_done *done, void *arg)
{
	struct err e = {0};

	done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
}

void broker_artifact_put(struct hub *h, const struct request *rq, const struct artifact_put *put,
			 const struct artifact_writer_ops *ops, void *ops_arg, broker_writer_done *done, void *arg)
{
	struct artifact_job *j = artifact_job_create(h, rq, CALL_PUT);
	struct err e = {0};

	if (!j) {
		done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
		return;
	}
	j->put = *put;
	j->task = keep_text(j, put->task);
	j->name = keep_text(j, put->name);
	j->put.sha256 = keep_text(j, put->sha256);
	j->put.media_type = keep_text(j, put->media_type);
	j->ops = ops;
	j->ops_arg = ops_arg;
	j->writer_done = done;
	j->arg = arg;
	artifact_begin(j);
}

/* The calls that answer with JSON. NULL: no memory, and the caller has heard it. */
static struct artifact_job *job_for(struct hub *h, const struct request *rq, enum artifact_call call, const char *task,
				    const char *name, broker_json_done *done, void *arg)
{
	struct artifact_job *j = artifact_job_create(h, rq, call);

	if (!j) {
		artifact_no_memory(done, arg);
		return NULL;
	}
	j->task = keep_text(j, task);
	j->name = keep_text(j, name);
	j->done = done;
	j->arg = arg;
	return j;
}

void broker_artifact_get(struct hub *h, const struct request *rq, const char *task, const char *name, bool bytes,
			 broker_json_done *done, void *arg)
{
	struct artifact_job *j = job_for(h, rq, bytes ? CALL_GET : CALL_SHOW, task, name, done, arg);

	if (j)
		artifact_begin(j);
}

void broker_artifact_list(struct hub *h, const struct request *rq, const struct artifact_filter *f,
			  broker_json_done *done, void *arg)
{
	struct artifact_job *j = job_for(h, rq, CALL_LIST, f->task, NULL, done, arg);

	if (!j)
		return;
	j->filter = (struct artifact_filter){.task = j->task,
					     .run = keep_text(j, f->run),
					     .round = keep_text(j, f->round),
					     .after = keep_text(j, f->after),
					     .limit = f->limit};
	artifact_begin(j);
}

void broker_artifact_delete(struct hub *h, const struct request *rq, const char *task, const char *name,
			    broker_json_done *done, void *arg)
{
	struct artifact_job *j = job_for(h, rq, CALL_DELETE, task, name, done, arg);

	if (j)
		artifact_begin(j);
}

void broker_artifact_take(struct hub *h, const struct request *rq, const struct artifact_take *t,
			  broker_json_done *done, void *arg)
{
	struct artifact_job *j = job_for(h, rq, CALL_TAKE, t->task, t->name, done, arg);

	if (!j)
		return;
	j->take = *t;
	j->take.task = j->task;
	j->take.name = j->name;
	j->take.agent = keep_text(j, t->agent);
	j->take.path = keep_text(j, t->path);
	j->take.made_by = keep_text(j, t->made_by);
	j->take.media_type = keep_text(j, t->media_type);
	if (t->changes) {
		j->changes = *t->changes;
		j->changes.revision = keep_text(j, t->changes->revision);
		j->changes.path = keep_text(j, t->changes->path);
		j->changes.ignore = j->ignore = json_incref((json_t *)(uintptr_t)t->changes->ignore);
		j->take.changes = &j->changes;
	}
	artifact_begin(j);
}
