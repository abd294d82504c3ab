/* Agents and their sandboxes: shown, listed, made or woken, ended. */
#define LOG_SUBSYS "broker"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/gate.h"
#include "muxd/hub/broker/agent_json.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/broker/broker_shape.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/attachment_state.h"
#include "policy/reason.h"

#include <stdlib.h>
#include <string.h>

/* One question about an agent: its whole name first, then what the provider has to say. */
struct agent_job {
	struct hub *hub;
	struct request rq;
	char name[AGENT_NAME_MAX + 1], reason[GRANT_REASON_MAX + 1];
	bool wipe;
	void (*named)(struct agent_job *job);
	broker_json_done *done;
	void *arg;
};

static void broker_agent_job_end(struct agent_job *job, int rc, const struct err *e, json_t *o)
{
	struct err here = {0};

	if (!rc && !o)
		rc = err_set(&here, ERR_NOMEM, "no memory for the answer"), e = &here;
	if (rc && !e)
		err_set(&here, rc, "the sandbox of %s: %s", job->name, err_name(rc)), e = &here;
	job->done(job->arg, rc, rc ? e : NULL, rc ? NULL : o);
	json_decref(o);
	request_finish(&job->rq);
	free(job);
}

static void broker_agent_on_name(void *arg, const struct sandbox_answer *r)
{
	struct agent_job *job = arg;

	if (r->rc) {
		broker_agent_job_end(job, r->rc, r->e, NULL);
		return;
	}
	if (r->name != job->name) /* whole as it was */
		text_put(job->name, sizeof(job->name), r->name);
	job->named(job);
}

static void broker_agent_on_writable(void *arg, int rc, const struct err *e)
{
	struct agent_job *job = arg;

	if (rc)
		broker_agent_job_end(job, rc, e, NULL);
	else
		hub_resolve(job->hub, job->name, broker_agent_on_name, job);
}

/* rc: of the checks that the caller made; a refusal is answered here. changes: it is to be recorded. */
static void job_begin(struct hub *h, const struct request *rq, const char *name, const char *reason,
		      void (*named)(struct agent_job *job), bool changes, int rc, const struct err *e,
		      const struct policy_mark *mark, broker_json_done *done, void *arg)
{
	struct agent_job *job = rc ? NULL : calloc(1, sizeof(*job));
	struct err here = {0};

	if (!rc && !job)
		rc = err_set(&here, ERR_NOMEM, "no memory"), e = &here;
	if (rc) {
		done(arg, rc, e, NULL);
		return;
	}
	job->hub = h;
	job->rq = *rq;
	job->rq.policy = *mark;
	text_put(job->name, sizeof(job->name), name);
	text_put(job->reason, sizeof(job->reason), reason);
	job->named = named;
	job->done = done;
	job->arg = arg;
	rc = changes ? gate_pass(h, &job->rq, broker_agent_on_writable, job, &here) : 0;
	if (rc != GATE_WAITS)
		broker_agent_on_writable(job, rc, &here);
}

/* ---- show */

static void broker_agent_on_stat(void *arg, const struct sandbox_answer *r)
{
	const struct sandbox_info *info = r->info;
	const struct err *e = r->e;
	struct agent_job *job = arg;
	struct err here = {0};
	struct agent *a;
	json_t *row;
	int rc = r->rc;

	if (rc == ERR_CANCELLED) {
		broker_agent_job_end(job, rc, e, NULL);
		return;
	}
	a = agent_find(job->hub, job->name);
	if (a && a->state == AGENT_COLD)
		a = NULL; /* what the provider says is all that is known */
	row = agent_row(job->hub, job->name);
	if (rc == ERR_NOT_FOUND || (!rc && info->state == SANDBOX_ABSENT))
		rc = a || row ? 0
			      : err_set(&here, ERR_NOT_FOUND, "%s has no sandbox: POST /v1/agents/%s/resume makes one",
					job->name, job->name),
		e = &here, info = NULL;
	else if (rc && (a || row))
		rc = 0, info = NULL; /* the provider cannot be asked: what it said last */
	broker_agent_job_end(job, rc, e, rc ? NULL : agent_show(job->hub, job->name, info, row));
	json_decref(row);
}

static void broker_agent_show(struct agent_job *job)
{
	struct sandbox_provider *p = hub_provider(job->hub);

	sandbox_ask(p, &(struct sandbox_ask){.op = SANDBOX_STAT, .agent = job->name}, broker_agent_on_stat, job);
}

void broker_agent(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg)
{
	const struct policy_question q = {.op = POLICY_SANDBOX_READ, .agent = agent};
	struct err e = {0};
	int rc = broker_check(h, rq, &q, 0, "agent", NULL, &e);

	job_begin(h, rq, agent, "", broker_agent_show, false, rc, &e, &(struct policy_mark){0}, done, arg);
}

/* ---- make or wake */

static void broker_agent_on_resumed(void *arg, int rc, const struct err *e)
{
	struct agent_job *job = arg;

	if (rc != ERR_CANCELLED)
		(void)audit_event(job->hub, "agent.resume", &job->rq, job->name, rc ? err_name(rc) : "ok",
				  e ? json_pack("{s:s}", "message", e->message) : NULL);
	broker_agent_job_end(job, rc, e, rc ? NULL : agent_show_now(job->hub, job->name));
}

static void resume(struct agent_job *job)
{
	const struct policy_question q = {.op = POLICY_SANDBOX_WAKE};
	struct agent *a = agent_get(job->hub, job->name);

	if (!a) {
		broker_agent_job_end(job, ERR_NOMEM, NULL, NULL);
		return;
	}
	agent_touch(a);
	broker_shape_need(a, &job->rq, &q, "resume", broker_agent_on_resumed, job);
}

void broker_resume(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg)
{
	const struct policy_question q = {.op = POLICY_SANDBOX_WAKE, .agent = agent};
	struct policy_mark mark = {0};
	struct err e = {0};
	int rc = broker_check_any(h, rq, &q, SCOPE_TERMINAL | SCOPE_ROUNDS | SCOPE_LIFECYCLE, "resume", &mark, &e);

	if (!rc)
		rc = broker_check_enter(h, rq, agent, "resume", &e);
	job_begin(h, rq, agent, "", resume, true, rc, &e, &mark, done, arg);
}

/* ---- end */

static void broker_agent_on_destroyed(void *arg, const struct sandbox_answer *r)
{
	const struct err *e = r->e;
	int rc = r->rc;
	struct agent_job *job = arg;
	struct agent *a;
	json_t *d;

	if (rc == ERR_CANCELLED) {
		broker_agent_job_end(job, rc, e, NULL);
		return;
	}
	a = agent_find(job->hub, job->name);
	if (!rc && a) {
		struct id was = a->linked;
		char why[200];

		text_format(why, sizeof(why), "its sandbox was ended by %.60s: %.100s", job->rq.grant.principal,
			    job->reason);
		agent_gone(job->hub, a->name, &was, why);
	}
	d = json_pack("{s:s}", "reason", job->reason);
	if (e && d)
		json_object_set_new(d, "message", json_string(e->message));
	(void)audit_event(job->hub, "sandbox.destroy", &job->rq, job->name, rc ? err_name(rc) : "ok", d);
	broker_agent_job_end(
	    job, rc, e,
	    rc ? NULL : json_pack("{s:s,s:s}", "agent", job->name, "state", job->wipe ? "absent" : "stopped"));
}

/* Asked for before it is done: an end that the record does not know of must not happen. */
static void broker_agent_destroy(struct agent_job *job)
{
	struct sandbox_provider *p = hub_provider(job->hub);
	struct err e = {0};
	int rc = audit_event(job->hub, "sandbox.destroy", &job->rq, job->name, "asked",
			     json_pack("{s:s,s:b}", "reason", job->reason, "wipe", job->wipe));

	if (rc) {
		err_set(&e, ERR_RECORD_UNAVAILABLE, "the record cannot be written: nothing is ended");
		broker_agent_job_end(job, e.code, &e, NULL);
		return;
	}
	sandbox_ask(p,
		    &(struct sandbox_ask){
			.op = job->wipe ? SANDBOX_WIPE : SANDBOX_DESTROY, .agent = job->name, .reason = job->reason},
		    broker_agent_on_destroyed, job);
}

static void destroy_all(struct agent_job *job)
{
	job->wipe = true;
	broker_agent_destroy(job);
}

void broker_destroy(struct hub *h, const struct request *rq, const char *agent, const char *reason, bool wipe,
		    broker_json_done *done, void *arg)
{
	const struct policy_question q = {.op = POLICY_SANDBOX_DESTROY, .agent = agent};
	struct policy_mark mark = {0};
	struct err e = {0};
	int rc = broker_check_any(h, rq, &q, SCOPE_LIFECYCLE | SCOPE_ADMIN, "destroy", &mark, &e);

	if (!rc)
		rc = reason_check(reason, &e);
	job_begin(h, rq, agent, reason, wipe ? destroy_all : broker_agent_destroy, true, rc, &e, &mark, done, arg);
}
