/* A holder's calls about grants, asked of the monitor. */
#define LOG_SUBSYS "broker"
#include "muxd/hub/broker/broker_grant.h"
#include "base/err.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/core/grant_news.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

struct grant_job {
	struct hub *hub;
	struct request rq;
	const char *what;
	broker_json_done *done;
	void *arg;
};

static const char *const grant_ops[] = {
    [GRANT_CHILD] = "grant.child",
    [GRANT_RENEW] = "grant.renew",
    [GRANT_REVOKE] = "grant.revoke",
    [GRANT_LIST] = "grant.list",
};
static const enum policy_op policy_ops[] = {
    [GRANT_CHILD] = POLICY_GRANT_MAKE,
    [GRANT_RENEW] = POLICY_GRANT_RENEW,
    [GRANT_REVOKE] = POLICY_GRANT_REVOKE,
    [GRANT_LIST] = POLICY_GRANT_LIST,
};

static void broker_grant_on_answer(void *arg, int rc, const struct err *e, json_t *result)
{
	struct grant_job *j = arg;

	if (rc && rc != ERR_CANCELLED)
		(void)broker_refused(j->hub, &j->rq, NULL, j->what, e);
	j->done(j->arg, rc, e, result);
	request_finish(&j->rq);
	free(j);
}

static json_t *child_json(const struct child_wish *w, uint64_t ttl_ns)
{
	char scopes[GRANT_SCOPES_TEXT];
	json_t *o = json_pack("{s:s*,s:s*,s:s*,s:s*,s:s*}", "principal", w->principal, "agent", w->agent, "task",
			      w->task, "kind", w->kind, "reason", w->reason);

	grant_scopes_format(w->scopes, scopes, sizeof(scopes));
	if (o && ((w->scopes && json_object_set_new(o, "scopes", json_string(scopes))) ||
		  (ttl_ns && json_object_set_new(o, "ttl_ns", json_integer((json_int_t)ttl_ns))) ||
		  grant_files_put(o, &w->files) || grant_bounds_put(o, &w->bounds))) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static json_t *broker_grant_question_of(const struct hub *h, const struct request *rq, const struct grant_ask *a)
{
	json_t *o = json_pack("{s:s,s:s,s:s*,s:s*,s:s*}", "op", grant_ops[a->call], "token", hub_grant_token(h, rq),
			      "reason", a->reason, "id", a->id, "before", a->before);

	if (o && a->child && json_object_set_new(o, "grant", child_json(a->child, a->ttl_ns))) {
		json_decref(o);
		return NULL;
	}
	if (o && a->child && a->child->edge)
		json_object_set_new(o, "edge", json_string(a->child->edge));
	if (o && a->ttl_ns)
		json_object_set_new(o, "ttl_ns", json_integer((json_int_t)a->ttl_ns));
	if (o && a->limit)
		json_object_set_new(o, "limit", json_integer(a->limit));
	return o;
}

/* ---- a token of an outside issuer */

struct exchange_job {
	struct hub *hub;
	struct request rq; /* where the token comes from; no grant */
	broker_json_done *done;
	void *arg;
};

static void broker_grant_on_exchanged(void *arg, int rc, const struct err *e, json_t *result)
{
	struct exchange_job *j = arg;
	struct origin from = {.door = j->rq.door, .peer = j->rq.peer, .endpoint = j->rq.endpoint};

	if (rc && rc != ERR_CANCELLED)
		broker_audit_refused(j->hub, &from, "token of an issuer", NULL, e);
	else if (!rc)
		hub_counters(j->hub)->auth_ok++;
	j->done(j->arg, rc, e, result);
	request_finish(&j->rq);
	free(j);
}

static json_t *exchange_json(const struct grant_exchange *x)
{
	if (!x->issuer)
		return json_pack("{s:s,s:b,s:s}", "op", "grant.exchange", "shown", 1, "token", x->token);
	return json_pack("{s:s,s:s,s:s,s:o}", "op", "grant.exchange", "issuer", x->issuer, "token", x->token, "grant",
			 child_json(x->wish, x->ttl_ns));
}

void broker_exchange(struct hub *h, const struct grant_exchange *x, const struct origin *from, broker_json_done *done,
		     void *arg)
{
	const struct hub_issuer *i = &hub_params(h)->issuer;
	struct exchange_job *j = i->ask ? calloc(1, sizeof(*j)) : NULL;
	struct err e = {0};

	if (!j) {
		int rc = i->ask ? err_set(&e, ERR_NOMEM, "no memory")
				: err_set(&e, ERR_UNSUPPORTED, "nobody signs grants here");

		done(arg, rc, &e, NULL);
		return;
	}
	*j = (struct exchange_job){.hub = h, .done = done, .arg = arg};
	request_begin(&j->rq, from);
	i->ask(i->ctx, exchange_json(x), broker_grant_on_exchanged, j);
}

/* ---- a holder's own */

static int check(struct hub *h, const struct request *rq, const struct grant_ask *a, struct err *e)
{
	const struct policy_question q = {.op = a->child && a->child->edge ? POLICY_EDGE_MINT : policy_ops[a->call]};
	int rc = broker_in_force(h, rq, grant_ops[a->call], e);

	if (!rc && a->call == GRANT_CHILD && !(rq->grant.scopes & SCOPE_GRANT)) {
		err_set(e, ERR_FORBIDDEN, "the grant lacks scope grant");
		rc = broker_refused(h, rq, NULL, grant_ops[a->call], e);
	}
	if (!rc && a->call == GRANT_LIST)
		rc = broker_policy(h, rq, &q, grant_ops[a->call], NULL, e);
	else if (!rc)
		rc = broker_policy_told(h, rq, &q, grant_ops[a->call], e);
	return rc;
}

void broker_grant(struct hub *h, const struct request *rq, const struct grant_ask *a, broker_json_done *done, void *arg)
{
	const struct hub_issuer *i = &hub_params(h)->issuer;
	struct grant_job *j = NULL;
	struct err e = {0};
	int rc = i->ask ? check(h, rq, a, &e) : err_set(&e, ERR_UNSUPPORTED, "nobody signs grants here");

	if (!rc && !(j = calloc(1, sizeof(*j))))
		rc = err_set(&e, ERR_NOMEM, "no memory");
	if (rc) {
		done(arg, rc, &e, NULL);
		return;
	}
	*j = (struct grant_job){.hub = h, .rq = *rq, .what = grant_ops[a->call], .done = done, .arg = arg};
	i->ask(i->ctx, broker_grant_question_of(h, rq, a), broker_grant_on_answer, j);
}
