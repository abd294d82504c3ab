/* The end of a sandbox's own log, and of its services'. */
#include "base/err.h"
#include "base/text.h"
#include "control/servers/lists.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/broker/broker_life.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/services/services.h"

#include <stdlib.h>

#define LOG_SERVICE_MAX (16 * 1024) /* of each service */

struct log_job {
	struct hub *hub;
	char agent[AGENT_NAME_MAX + 1];
	bool services; /* the caller may read what they print */
	broker_json_done *done;
	void *arg;
};

static void broker_log_on_answer(void *arg, const struct sandbox_answer *r)
{
	const struct err *e = r->e;
	int rc = r->rc;
	struct log_job *j = arg;
	json_t *services = rc == ERR_CANCELLED || !j->services ? NULL : services_log(j->hub, j->agent, LOG_SERVICE_MAX),
	       *o;
	struct err here = {0};

	if (rc == ERR_NOT_FOUND && services)
		rc = 0; /* there is something to be told */
	o = rc ? NULL : json_pack("{s:s,s:I,s:o*}", "agent", j->agent, "bytes", (json_int_t)r->n, "services", services);
	if (rc)
		json_decref(services);
	if (!rc && (!o || json_set_bytes(o, "data", "encoding", r->n ? r->text : (const uint8_t *)"", r->n)))
		rc = err_set(&here, ERR_NOMEM, "no memory for the log"), e = &here;
	if (rc && (!e || !e->message[0]))
		err_set(&here, rc, "the log of %s: %s", j->agent, err_name(rc)), e = &here;
	j->done(j->arg, rc, rc ? e : NULL, rc ? NULL : o);
	json_decref(o);
	free(j);
}

/* Logs of services are for those who may read services; each reading is told. A wiped agent has none. */
static bool may_read_services(struct hub *h, const struct request *rq, const char *agent)
{
	const struct policy_question q = {.op = POLICY_SERVICE_READ, .agent = agent};
	struct request own = {0};
	json_t *list = NULL, *v;
	struct err ignored;
	size_t i;

	if (!hub_store(h) || lists_get(hub_store(h), &list_services, agent, 0, &list, &ignored))
		return false;
	if (!json_array_size(json_object_get(list, "services")) ||
	    broker_policy(h, rq, &q, "services.log", &own.policy, &ignored)) {
		json_decref(list);
		return false;
	}
	request_marked(rq, &own);
	json_array_foreach(json_object_get(list, "services"), i, v)(void) audit_event(
	    h, "services.log", &own, agent, "ok", json_pack("{s:O?}", "service", json_object_get(v, "name")));
	json_decref(list);
	return true;
}

void broker_log(struct hub *h, const struct request *rq, const char *agent, size_t max, broker_json_done *done,
		void *arg)
{
	const struct policy_question q = {.op = POLICY_SANDBOX_READ, .agent = agent};
	struct sandbox_provider *p = hub_provider(h);
	struct log_job *j = NULL;
	struct request own = {0};
	struct err e = {0};
	int rc = broker_check_any(h, rq, &q, SCOPE_OBSERVE | SCOPE_LIFECYCLE | SCOPE_ADMIN, "log", &own.policy, &e);

	if (!rc && !sandbox_can(p, SANDBOX_LOG))
		rc = err_set(&e, ERR_UNSUPPORTED, "this backend keeps no logs of sandboxes");
	if (!rc && !(j = calloc(1, sizeof(*j))))
		rc = err_set(&e, ERR_NOMEM, "no memory");
	if (rc || !j) {
		done(arg, rc, &e, NULL);
		return;
	}
	text_put(j->agent, sizeof(j->agent), agent);
	j->hub = h;
	j->done = done;
	j->arg = arg;
	j->services = may_read_services(h, rq, agent);
	request_marked(rq, &own);
	(void)audit_event(h, "sandbox.log", &own, agent, "ok", NULL);
	sandbox_ask(p,
		    &(struct sandbox_ask){
			.op = SANDBOX_LOG, .agent = agent, .max = max && max < BROKER_LOG_MAX ? max : BROKER_LOG_MAX},
		    broker_log_on_answer, j);
}
