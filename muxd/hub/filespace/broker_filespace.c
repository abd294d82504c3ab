/* Syncs by call: who may, and what each answers. */
#define LOG_SUBSYS "broker"
#include "muxd/hub/filespace/broker_filespace.h"

#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/access/gate.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/broker/broker_shape.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/filespace/filespace.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/file_limits.h"

#include <stdlib.h>

#define SCOPES_SYNC (SCOPE_FILES | SCOPE_LIFECYCLE | SCOPE_ADMIN)
#define EVENT       "filespace.sync"

struct filespace_call {
	struct hub *hub;
	struct request rq;
	char agent[AGENT_NAME_MAX + 1];
	enum filespace_direction direction;
	broker_json_done *done;
	void *arg;
};

/* result: stolen */
static void call_answer(struct filespace_call *j, int rc, const struct err *e, json_t *result)
{
	struct err here = {0};

	if (!rc && !result)
		rc = err_set(&here, ERR_NOMEM, "no memory for the answer"), e = &here;
	j->done(j->arg, rc, rc ? e : NULL, rc ? NULL : result);
	json_decref(result);
	request_finish(&j->rq);
	free(j);
}

static void call_refuse(struct filespace_call *j, int rc, const struct err *e)
{
	(void)audit_event(j->hub, EVENT, &j->rq, j->agent, err_name(rc),
			  json_pack("{s:s,s:s}", "direction", filespace_direction_name(j->direction), "message",
				    e && e->message[0] ? e->message : err_name(rc)));
	call_answer(j, rc, e, NULL);
}

static void call_on_synced(void *arg, int rc, const struct err *e, const json_t *detail)
{
	struct filespace_call *j = arg;
	json_t *o = rc ? NULL : json_deep_copy(detail);

	if (rc == ERR_UNSUPPORTED || rc == ERR_BAD_STATE) { /* nothing ran that would have been told */
		call_refuse(j, rc, e);
		return;
	}
	if (o) {
		json_object_del(o, "causes");
		json_object_del(o, "causes_more");
		json_object_set_new(o, "agent", json_string(j->agent));
	}
	call_answer(j, rc, e, o);
}

static void call_on_ready(void *arg, int rc, const struct err *e)
{
	struct filespace_call *j = arg;
	struct agent *a = agent_find(j->hub, j->agent);
	const struct grant *g = &j->rq.grant;

	if (e && e->policy.version[0]) { /* told by the policy's own event */
		call_answer(j, rc, e, NULL);
		return;
	}
	if (rc) {
		call_refuse(j, rc, e);
		return;
	}
	if (a)
		agent_touch(a);
	filespace_want(j->hub, j->agent, j->direction,
		       json_pack("{s:s,s:s,s:s*,s:o}", "kind", "call", "principal", g->principal, "task",
				 g->task[0] ? g->task : NULL, "call", audit_request_json(&j->rq)),
		       call_on_synced, j);
}

static void call_on_writable(void *arg, int rc, const struct err *e)
{
	struct filespace_call *j = arg;
	struct agent *a = rc ? NULL : agent_get(j->hub, j->agent);
	struct err here = {0};

	if (!rc && !filespace_applies(j->hub, j->agent))
		rc = err_set(&here, ERR_UNSUPPORTED,
			     hub_files(j->hub)
				 ? "%.100s has no filespace: it is not there, a pod of others, a fork, or of "
				   "the pool"
				 : "there is no file store (filespace.url), and %.100s has no filespace",
			     j->agent),
		e = &here;
	if (!rc && !a)
		rc = err_set(&here, ERR_NOMEM, "no memory"), e = &here;
	if (rc)
		call_refuse(j, rc, e);
	else
		broker_shape_need(a, &j->rq, &(struct policy_question){.op = POLICY_FILESPACE_SYNC}, EVENT,
				  call_on_ready, j);
}

static struct filespace_call *call_new(struct hub *h, const struct request *rq, const char *agent,
				       broker_json_done *done, void *arg)
{
	struct filespace_call *j = calloc(1, sizeof(*j));
	struct err e = {0};

	if (!j) {
		done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
		return NULL;
	}
	*j = (struct filespace_call){.hub = h, .rq = *rq, .done = done, .arg = arg};
	text_put(j->agent, sizeof(j->agent), agent);
	return j;
}

/* A sync, either way, reads and writes whatever there is. */
static int check_whole(const struct grant_files *g, struct err *e)
{
	int rc = file_limits_check(g, &(struct file_spec){.op = FILE_TREE_GET, .path = "."}, e);

	return rc ? rc : file_limits_check(g, &(struct file_spec){.op = FILE_TREE_PUT, .path = "."}, e);
}

/* Of the last syncs: how they went, and no name. */
static json_t *without_names(json_t *o)
{
	static const char *const directions[] = {"pull", "push"}, *const named[] = {"changes", "left", "message"};

	for (size_t i = 0; i < sizeof(directions) / sizeof(directions[0]); i++) {
		json_t *last = json_deep_copy(json_object_get(o, directions[i]));

		for (size_t k = 0; last && k < sizeof(named) / sizeof(named[0]); k++)
			json_object_del(last, named[k]);
		if (last)
			json_object_set_new(o, directions[i], last);
		else
			json_object_del(o, directions[i]);
	}
	return o;
}

void broker_filespace_sync(struct hub *h, const struct request *rq, const char *agent, enum filespace_direction d,
			   broker_json_done *done, void *arg)
{
	const struct policy_question q = {.op = POLICY_FILESPACE_SYNC, .agent = agent};
	struct filespace_call *j = call_new(h, rq, agent, done, arg);
	struct err e = {0};
	int rc;

	if (!j)
		return;
	j->direction = d;
	rc = broker_reach_any(h, &j->rq, agent, SCOPES_SYNC, EVENT, &e);
	if (!rc && check_whole(&j->rq.grant.files, &e))
		rc = broker_refused(h, &j->rq, agent, EVENT, &e);
	if (!rc)
		rc = broker_policy(h, &j->rq, &q, EVENT, &j->rq.policy, &e);
	if (!rc)
		rc = broker_check_enter(h, &j->rq, agent, EVENT, &e);
	if (rc) {
		call_answer(j, rc, &e, NULL);
		return;
	}
	rc = gate_pass(h, &j->rq, call_on_writable, j, &e);
	if (rc != GATE_WAITS)
		call_on_writable(j, rc, &e);
}

/* Nothing is shown that the record could not be told of. */
static void call_on_showable(void *arg, int rc, const struct err *e)
{
	struct filespace_call *j = arg;

	if (rc)
		call_answer(j, rc, e, NULL);
	else if (check_whole(&j->rq.grant.files, NULL))
		call_answer(j, 0, NULL, without_names(filespace_show(j->hub, j->agent)));
	else
		call_answer(j, 0, NULL, filespace_show(j->hub, j->agent));
}

void broker_filespace_show(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done,
			   void *arg)
{
	const struct policy_question q = {.op = POLICY_FILESPACE_READ, .agent = agent};
	struct filespace_call *j = call_new(h, rq, agent, done, arg);
	struct err e = {0};
	int rc;

	if (!j)
		return;
	rc = broker_reach_any(h, &j->rq, agent, SCOPES_SYNC | SCOPE_ROUNDS, "filespace.show", &e);
	if (!rc)
		rc = broker_policy(h, &j->rq, &q, "filespace.show", NULL, &e);
	if (rc) {
		call_answer(j, rc, &e, NULL);
		return;
	}
	rc = gate_pass(h, &j->rq, call_on_showable, j, &e);
	if (rc != GATE_WAITS)
		call_on_showable(j, rc, &e);
}
