/* Services of an agent: who may set, see and restart them, and what each call answers. */
#define LOG_SUBSYS "broker"
#include "muxd/hub/services/broker_services.h"

#include "base/err.h"
#include "base/text.h"
#include "control/servers/lists.h"
#include "control/servers/service_def.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/access/gate.h"
#include "muxd/hub/access/grant_use.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/services/services.h"

#include <stdlib.h>
#include <string.h>

#define SCOPES_SET (SCOPE_LIFECYCLE | SCOPE_ADMIN)
#define SCOPES_SEE (SCOPE_ROUNDS | SCOPES_SET)
#define SCOPES_LOG (SCOPE_OBSERVE | SCOPES_SET)

struct services_call;
struct services_op {
	const char *event;
	enum policy_op op;
	uint32_t any; /* scopes, one of which is needed */
	void (*run)(struct services_call *j);
};

struct services_call {
	struct hub *hub;
	struct request rq;
	const struct services_op *op;
	char agent[AGENT_NAME_MAX + 1], service[SERVICE_NAME_MAX + 1], reason[GRANT_REASON_MAX + 1];
	int64_t version;
	size_t bytes;
	json_t *list; /* set */
	broker_json_done *done;
	void *arg;
};

/* result: stolen */
static void services_answer(struct services_call *j, int rc, const struct err *e, json_t *result)
{
	struct err here = {0};

	if (!rc && !result)
		rc = err_set(&here, ERR_NOMEM, "no memory for the answer"), e = &here;
	j->done(j->arg, rc, rc ? e : NULL, rc ? NULL : result);
	json_decref(result);
	json_decref(j->list);
	request_finish(&j->rq);
	free(j);
}

/* No event of its own tells of it. */
static bool is_look(const struct services_op *op)
{
	return op->op == POLICY_SERVICE_READ && op->any == SCOPES_SEE;
}

static void services_refuse(struct services_call *j, int rc, const struct err *e)
{
	if (!is_look(j->op))
		(void)audit_event(
		    j->hub, j->op->event, &j->rq, j->agent, err_name(rc),
		    json_pack("{s:s*,s:s}", "service", j->service[0] ? j->service : NULL, "message", e->message));
	services_answer(j, rc, e, NULL);
}

/* ---- the list */

static void add_states(struct services_call *j, json_t *list)
{
	size_t i;
	json_t *v;

	json_array_foreach(json_object_get(list, "services"), i, v)(void) service_show(j->hub, j->agent, v);
}

static void services_show(struct services_call *j)
{
	json_t *answer = NULL;
	struct err e = {0};
	int rc = lists_get(hub_store(j->hub), &list_services, j->agent, j->version, &answer, &e);

	if (!rc && !j->version)
		add_states(j, answer);
	services_answer(j, rc, &e, answer);
}

static void services_on_set(void *arg, int rc, const struct err *e, json_t *result)
{
	struct services_call *j = arg;
	json_t *answer = rc ? NULL : json_deep_copy(result);

	if (rc == ERR_LIST_CHANGED) {
		services_refuse(j, rc, e);
		return;
	}
	if (!rc)
		services_configured(j->hub, j->agent, result);
	if (answer)
		add_states(j, answer);
	services_answer(j, rc, e, answer);
}

static void services_set(struct services_call *j)
{
	json_t *call = audit_request_json(&j->rq);

	lists_put(hub_store(j->hub), &list_services,
		  &(struct list_put){.agent = j->agent,
				     .list = j->list,
				     .if_version = j->version,
				     .principal = j->rq.grant.principal,
				     .call = call,
				     .now_ns = hub_now_wall(j->hub)},
		  services_on_set, j);
	json_decref(call);
}

/* ---- one */

static int find_service(const struct services_call *j, json_t **out_list, json_t **out_entry, struct err *e)
{
	json_t *list = NULL;
	const json_t *entry;
	int rc = lists_get(hub_store(j->hub), &list_services, j->agent, 0, &list, e);

	if (rc)
		return rc;
	entry = program_list_find(json_object_get(list, "services"), j->service);
	if (!entry) {
		json_decref(list);
		return err_set(e, ERR_NOT_FOUND, "the agent has no service \"%.64s\"", j->service);
	}
	*out_list = list;
	*out_entry = (json_t *)(uintptr_t)entry;
	return 0;
}

static void service_answer(struct services_call *j)
{
	json_t *list = NULL, *entry = NULL, *answer;
	struct err e = {0};
	int rc = find_service(j, &list, &entry, &e);

	if (rc) {
		services_refuse(j, rc, &e);
		return;
	}
	answer = json_pack("{s:s,s:O,s:O}", "agent", j->agent, "version", json_object_get(list, "version"), "service",
			   service_show(j->hub, j->agent, entry));
	json_decref(list);
	services_answer(j, 0, NULL, answer);
}

static void service_tell_log(struct services_call *j)
{
	json_t *list = NULL, *entry = NULL;
	struct err e = {0};
	int rc = find_service(j, &list, &entry, &e);

	json_decref(list);
	if (rc) {
		services_refuse(j, rc, &e);
		return;
	}
	(void)audit_event(j->hub, j->op->event, &j->rq, j->agent, "ok", json_pack("{s:s}", "service", j->service));
	services_answer(j, 0, NULL,
			json_pack("{s:s,s:s,s:o}", "agent", j->agent, "service", j->service, "data",
				  service_log(j->hub, j->agent, j->service, j->bytes)));
}

static void service_begin_anew(struct services_call *j)
{
	json_t *list = NULL, *entry = NULL;
	struct err e = {0};
	int rc = find_service(j, &list, &entry, &e);

	json_decref(list);
	if (!rc)
		rc = service_restart(j->hub, j->agent, j->service, j->rq.grant.principal, &e);
	if (rc) {
		services_refuse(j, rc, &e);
		return;
	}
	(void)audit_event(j->hub, j->op->event, &j->rq, j->agent, "ok",
			  json_pack("{s:s,s:s*}", "service", j->service, "reason", j->reason[0] ? j->reason : NULL));
	service_answer(j);
}

/* ---- the calls */

/* Behind a wait: the grant may have been revoked, or the lease of the sandbox have become another's. */
static int services_may_still(const struct services_call *j, struct err *e)
{
	int rc = broker_in_force(j->hub, &j->rq, j->op->event, e);

	return rc ? rc : broker_check_enter(j->hub, &j->rq, j->agent, j->op->event, e);
}

static void services_on_used(void *arg, int rc, const struct err *e)
{
	struct services_call *j = arg;
	struct err here = {0};

	if (!rc && (rc = services_may_still(j, &here)))
		e = &here;
	if (rc == ERR_CANCELLED)
		services_answer(j, rc, e, NULL);
	else if (rc)
		services_refuse(j, rc, e);
	else
		j->op->run(j);
}

/* A list without a service begins nothing, and neither does a look. */
static bool begins_something(const struct services_call *j)
{
	return j->op->op == POLICY_SERVICE_RESTART || json_array_size(j->list) > 0;
}

/* A call that would be refused all the same is no use. */
static int services_judge(const struct services_call *j, struct err *e)
{
	bool restarts = j->op->op == POLICY_SERVICE_RESTART;
	json_t *list = NULL, *entry = NULL;
	int rc = restarts ? find_service(j, &list, &entry, e)
			  : lists_get(hub_store(j->hub), &list_services, j->agent, 0, &list, e);

	if (!rc)
		rc = restarts ? service_check_awake(j->hub, j->agent, j->service, e)
			      : list_version_check(j->agent, json_integer_value(json_object_get(list, "version")),
						   j->version, e);
	json_decref(list);
	return rc;
}

static int count_use(struct services_call *j, struct err *e)
{
	int rc = services_judge(j, e);

	return rc ? rc : grant_use(j->hub, &j->rq, &(struct grant_use_of){.agent = j->agent}, services_on_used, j, e);
}

static void services_on_writable(void *arg, int rc, const struct err *e)
{
	struct services_call *j = arg;
	struct err here = {0};

	if (rc) {
		services_answer(j, rc, e, NULL);
		return;
	}
	rc = begins_something(j) ? count_use(j, &here) : 0;
	if (rc == GATE_WAITS)
		return;
	if (rc)
		services_refuse(j, rc, &here);
	else
		j->op->run(j);
}

static int check_services(struct services_call *j, const struct service_wish *w, struct err *e)
{
	const struct policy_question q = {.op = j->op->op, .agent = w->agent, .server = NULL};
	int rc = w->service ? program_name_check(w->service, "service", e) : 0;

	if (!rc)
		rc = broker_reach_any(j->hub, &j->rq, w->agent, j->op->any, j->op->event, e);
	if (!rc)
		rc = broker_policy(j->hub, &j->rq, &q, j->op->event, is_look(j->op) ? NULL : &j->rq.policy, e);
	if (!rc && target_is_pod(w->agent))
		rc = err_set(e, ERR_UNSUPPORTED,
			     "%.100s is a pod of others: muxd begins no services in it, and keeps no list of them",
			     w->agent);
	/* A list is programs that run in there: that of a leased sandbox is its lease's principal's. */
	if (!rc && j->op->any == SCOPES_SET)
		rc = broker_check_enter(j->hub, &j->rq, w->agent, j->op->event, e);
	if (!rc && !hub_store(j->hub))
		rc = err_set(e, ERR_UNSUPPORTED, "there are no services here: there is no store for their list");
	if (!rc && w->list && (rc = service_list_check(w->list, &j->list, e)))
		rc = broker_refused(j->hub, &j->rq, w->agent, j->op->event, e);
	return rc;
}

static void services_ask(struct hub *h, const struct request *rq, const struct service_wish *w,
			 const struct services_op *op, broker_json_done *done, void *arg)
{
	struct services_call *j = calloc(1, sizeof(*j));
	struct err e = {0};
	int rc;

	if (!j) {
		done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
		return;
	}
	*j = (struct services_call){
	    .hub = h, .rq = *rq, .op = op, .version = w->version, .bytes = w->bytes, .done = done, .arg = arg};
	text_put(j->agent, sizeof(j->agent), w->agent);
	text_put(j->service, sizeof(j->service), w->service ? w->service : "");
	text_put(j->reason, sizeof(j->reason), w->reason ? w->reason : "");
	rc = check_services(j, w, &e);
	if (rc) {
		services_answer(j, rc, &e, NULL);
		return;
	}
	rc = gate_pass(h, &j->rq, services_on_writable, j, &e);
	if (rc != GATE_WAITS)
		services_on_writable(j, rc, &e);
}

#define SERVICES_CALL(name, event, op_of, any, fn)                                                                     \
	void name(struct hub *h, const struct request *rq, const struct service_wish *w, broker_json_done *done,       \
		  void *arg)                                                                                           \
	{                                                                                                              \
		static const struct services_op op = {event, op_of, any, fn};                                          \
                                                                                                                       \
		services_ask(h, rq, w, &op, done, arg);                                                                \
	}

SERVICES_CALL(broker_services_set, "services.set", POLICY_SERVICE_SET, SCOPES_SET, services_set)
SERVICES_CALL(broker_services_show, "services.list", POLICY_SERVICE_READ, SCOPES_SEE, services_show)
SERVICES_CALL(broker_service_show, "services.show", POLICY_SERVICE_READ, SCOPES_SEE, service_answer)
SERVICES_CALL(broker_service_log, "services.log", POLICY_SERVICE_READ, SCOPES_LOG, service_tell_log)
SERVICES_CALL(broker_service_restart, "services.restart", POLICY_SERVICE_RESTART, SCOPES_SET, service_begin_anew)
