/* Locks on paths of a workspace, as a grant may take them (control/locks/locks.h). */
#define LOG_SUBSYS "broker"
#include "muxd/hub/broker/broker_lock.h"
#include "base/err.h"
#include "base/text.h"
#include "control/locks/locks.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/gate.h"
#include "muxd/hub/broker/broker_state.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/file_limits.h"

#include <stdlib.h>
#include <string.h>

struct held_job {
	struct hub *hub;
	struct request rq;
	const char *what;
	char agent[AGENT_NAME_MAX + 1], path[LOCK_PATH_MAX + 1], task[GRANT_NAME_MAX + 1], label[LOCK_LABEL_MAX + 1];
	char id[ID_STR_LEN]; /* "": a lock is taken */
	uint64_t ttl_ns;     /* 0: it is released */
	broker_json_done *done;
	void *arg;
};

static void held_answer(struct held_job *j, int rc, const struct err *e, json_t *result)
{
	if (rc == ERR_LOCKED || rc == ERR_NOT_FOUND ||
	    rc == ERR_LIMIT) /* the store tells what was done, and no refusal */
		audit_verdict(j->hub, &j->rq, j->agent, err_name(rc),
			      json_pack("{s:s,s:s,s:s,s:O*}", "what", j->what, "message", e->message, "path", j->path,
					"holder", json_object_get(result, "principal")));
	j->done(j->arg, rc, e, result);
	request_finish(&j->rq);
	free(j);
}

static void held_on_done(void *arg, int rc, const struct err *e, json_t *result)
{
	held_answer(arg, rc, e, result);
}

static void held_on_writable(void *arg, int rc, const struct err *e)
{
	struct held_job *j = arg;
	const struct grant *g = &j->rq.grant;
	int64_t now = hub_now_wall(j->hub);
	json_t *call = rc ? NULL : audit_request_json(&j->rq);
	bool admin = g->scopes & SCOPE_ADMIN;
	struct err here = {0};

	if (!rc && !call)
		rc = err_set(&here, ERR_NOMEM, "no memory for an event"), e = &here;
	if (rc)
		held_answer(j, rc, e, NULL);
	else if (j->id[0])
		lock_change(hub_store(j->hub),
			    &(struct lock_change){.agent = j->agent,
						  .id = j->id,
						  .principal = admin ? NULL : g->principal,
						  .task = admin || !g->task[0] ? NULL : g->task,
						  .call = call,
						  .now_ns = now,
						  .expires_ns = j->ttl_ns ? now + (int64_t)j->ttl_ns : 0},
			    held_on_done, j);
	else
		lock_take(hub_store(j->hub),
			  &(struct lock_wish){.agent = j->agent,
					      .path = j->path,
					      .principal = g->principal,
					      .task = j->task,
					      .label = j->label[0] ? j->label : NULL,
					      .call = call,
					      .now_ns = now,
					      .expires_ns = now + (int64_t)j->ttl_ns},
			  held_on_done, j);
	json_decref(call);
}

static int broker_lock_check_path(struct held_job *j, const char *path, struct err *e)
{
	const struct file_spec f = {.op = FILE_WRITE, .path = path, .size = UINT64_MAX};

	if (!file_path_relative(path, j->path, sizeof(j->path)))
		return err_set(e, ERR_INVAL, "path is no path of the workspace without \"..\", of up to %d bytes",
			       LOCK_PATH_MAX);
	return file_limits_check(&j->rq.grant.files, &f, e) ? broker_refused(j->hub, &j->rq, j->agent, j->what, e) : 0;
}

static int check_held(struct held_job *j, const struct lock_call *c, struct err *e)
{
	const char *task = NULL;
	const struct policy_question q = {.op = POLICY_FILE_LOCK, .agent = c->agent, .task = c->task};
	int rc = broker_check_call(j->hub, &j->rq, &q, SCOPE_FILES, j->what, &j->rq.policy, e);

	if (!rc)
		rc = broker_task(j->hub, &j->rq, c->agent, c->task, j->what, &task, e);
	if (!rc && !hub_store(j->hub))
		rc = err_set(e, ERR_UNSUPPORTED, "there are no locks here");
	if (rc)
		return rc;
	text_put(j->task, sizeof(j->task), task);
	return c->path ? broker_lock_check_path(j, c->path, e) : 0;
}

void broker_lock(struct hub *h, const struct request *rq, const struct lock_call *c, broker_json_done *done, void *arg)
{
	struct held_job *j = calloc(1, sizeof(*j));
	struct err e = {0};
	int rc;

	if (!j) {
		done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
		return;
	}
	j->hub = h;
	j->rq = *rq;
	j->what = !c->id ? "lock.take" : c->ttl_ns ? "lock.renew" : "lock.release";
	j->ttl_ns = c->ttl_ns;
	j->done = done;
	j->arg = arg;
	text_put(j->agent, sizeof(j->agent), c->agent);
	text_put(j->label, sizeof(j->label), c->label ? c->label : "");
	text_put(j->id, sizeof(j->id), c->id ? c->id : "");
	rc = check_held(j, c, &e);
	if (!rc)
		rc = gate_pass(h, &j->rq, held_on_writable, j, &e);
	if (rc == GATE_WAITS)
		return;
	if (rc) {
		done(arg, rc, &e, NULL);
		request_finish(&j->rq);
		free(j);
		return;
	}
	held_on_writable(j, 0, NULL);
}

void broker_locks(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg)
{
	const struct policy_question q = {.op = POLICY_FILE_LOCK, .agent = agent};
	struct request own = {0};
	struct err e = {0};
	json_t *list = NULL;
	int rc = broker_check(h, rq, &q, SCOPE_FILES, "lock.list", &own.policy, &e);

	if (!rc && !hub_store(h))
		rc = err_set(&e, ERR_UNSUPPORTED, "there are no locks here");
	if (!rc)
		rc = locks_list(hub_store(h), agent, hub_now_wall(h), &list, &e);
	request_marked(rq, &own);
	if (!rc && audit_event(h, "lock.list", &own, agent, "ok", NULL))
		rc = err_set(&e, ERR_RECORD_UNAVAILABLE, "the audit log takes no event now");
	done(arg, rc, rc ? &e : NULL, rc ? NULL : list);
	json_decref(list);
}

void broker_locks_tick(struct hub *h)
{
	if (hub_store(h) && hub_writable(h, NULL) == 0)
		locks_expire(hub_store(h), &hub_broker(h)->locks, hub_now_wall(h));
}
