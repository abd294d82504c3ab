#define LOG_SUBSYS "broker"
#include "muxd/hub/broker/broker.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/work/work.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/access/policy.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/broker/agent_json.h"
#include "muxd/hub/broker/broker_state.h"
#include "muxd/hub/core/shelf.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/session_end.h"
#include "policy/profile.h"
#include "policy/reason.h"

#include <stdlib.h>
#include <string.h>

struct broker_state *broker_state_create(void)
{
	return calloc(1, sizeof(struct broker_state));
}

void broker_state_destroy(struct broker_state *b)
{
	free(b);
}

static bool is_listed(const struct session_filter *f, const struct session *s)
{
	return (!f->agent || target_covers(f->agent, s->agent->name)) &&
	       (!f->state || strcmp(f->state, session_state_name(s->state)) == 0) &&
	       (!f->kind || strcmp(f->kind, session_kind_name(s->kind)) == 0) &&
	       (!f->live || s->state != SESSION_ENDED) && (id_is_nil(&f->only) || id_equal(&f->only, &s->id));
}

int broker_sessions(struct hub *h, const struct request *rq, const struct session_filter *f, json_t **out,
		    struct err *e)
{
	json_t *list = json_array(), *seen = json_object(), *o;
	struct session *s;
	int rc = list && seen
		     ? broker_policy(h, rq, &(struct policy_question){.op = POLICY_SESSION_LIST, .agent = f->agent},
				     "sessions", NULL, e)
		     : err_set(e, ERR_NOMEM, "no memory");

	if (rc) {
		json_decref(list);
		json_decref(seen);
		return rc;
	}
	TAILQ_FOREACH(s, hub_sessions(h), order)
	{
		if (json_array_size(list) >= f->limit)
			break;
		if (!broker_may_see(rq, s) || !is_listed(f, s))
			continue;
		o = session_describe(s);
		moment_add(h, o, s->agent->name, s->opened_wall_ns, s->snapshot_id, seen);
		json_array_append_new(list, o);
	}
	json_decref(seen);
	*out = list;
	return 0;
}

/* A right to set the list of servers or services is one to end the program of each. */
static bool may_end(const struct request *rq, const struct session *s)
{
	return broker_may_see(rq, s) || (launch_is_inside(&s->launch) && rq->grant.scopes & SCOPE_LIFECYCLE &&
					 grant_allows(&rq->grant, s->agent->name, 0, NULL) == 0);
}

int broker_terminate(struct hub *h, const struct request *rq, const struct id *session, const char *reason,
		     struct err *e)
{
	struct session *s = hub_session_find(h, session);
	struct policy_question q = {.op = POLICY_SESSION_END, .ends = true};
	struct request own = {0};
	uint32_t need;
	char text[180];
	int rc;

	err_set(e, ERR_NOT_FOUND, NO_SESSION);
	if (!s)
		return ERR_NOT_FOUND;
	if (!may_end(rq, s)) {
		broker_hide(h, rq, s, "terminate");
		return ERR_NOT_FOUND;
	}
	need = launch_is_inside(&s->launch)     ? rq->grant.scopes & SCOPE_ADMIN ? SCOPE_ADMIN : SCOPE_LIFECYCLE
	       : broker_owns(rq, s)             ? scope_of(s->kind)
	       : rq->grant.scopes & SCOPE_ADMIN ? SCOPE_ADMIN
						: SCOPE_DRIVE;
	q.agent = s->agent->name;
	q.task = s->launch.task;
	q.opens_nothing = true;
	rc = broker_check(h, rq, &q, need, "terminate", &own.policy, e);
	if (!rc && reason && *reason) /* it is shown on the terminals of all who look */
		rc = reason_check(reason, e);
	if (rc)
		return rc;
	if (s->state == SESSION_ENDED)
		return err_set(e, ERR_ENDED, "the session has ended already");
	text_format(text, sizeof(text), "ended by %.60s: %.100s", rq->grant.principal,
		    reason && *reason ? reason : "no reason given");
	request_marked(rq, &own);
	(void)audit_event(h, "session.terminate", &own, s->agent->name, "ok",
			  json_pack("{s:s,s:s}", "session", s->id_text, "text", text));
	session_kill(s, EXIT_KILLED, text);
	return 0;
}

int broker_attach(struct hub *h, const struct request *rq, const char *agent, const char *name,
		  enum attachment_role role, const struct attachment_ops *ops, void *ops_arg, struct attachment **out,
		  struct err *e)
{
	struct session *s = NULL, *each;
	struct policy_question q = {0};
	struct policy_mark mark = {0};
	struct request own;
	struct id id;
	int rc;

	if (name && *name && strcmp(name, "last") != 0) {
		if (id_parse(name, &id))
			return err_set(e, ERR_INVAL, "\"%.64s\" is not a session id: use the id, or last", name);
		s = hub_session_find(h, &id);
	} else {
		TAILQ_FOREACH(each, hub_sessions(h), order)
		if (!s && each->kind == SESSION_TERMINAL && each->state != SESSION_ENDED &&
		    (!agent || !*agent || target_covers(agent, each->agent->name)) && broker_owns(rq, each))
			s = each;
	}
	err_set(e, ERR_NOT_FOUND, NO_SESSION);
	if (!s)
		return ERR_NOT_FOUND;
	if (!broker_may_see(rq, s)) {
		broker_hide(h, rq, s, "attach");
		return ERR_NOT_FOUND;
	}
	if (agent && *agent && !target_covers(agent, s->agent->name))
		return ERR_NOT_FOUND;
	q.op = attach_op(s->kind, role, broker_owns(rq, s));
	q.agent = s->agent->name;
	q.task = s->launch.task;
	rc = broker_check_any(h, rq, &q, attach_scope(s->kind, role, broker_owns(rq, s), s->launch.pty), "attach",
			      &mark, e);
	if (!rc && role == ROLE_DRIVER)
		rc = broker_check_server(h, rq, s, "attach", e);
	if (rc)
		return rc;
	if (s->kind == SESSION_FILE || s->kind == SESSION_PORT)
		return err_set(e, ERR_BAD_STATE, "this is a %s: nobody but its client can come to it",
			       s->kind == SESSION_FILE ? "file transfer" : "connection to a port");
	if (s->state == SESSION_ENDED)
		return err_set(e, ERR_ENDED, "the session has ended: muxctl replay %s shows it", s->id_text);
	own = *rq; /* a screen is drawn with its token */
	own.policy = mark;
	rc = attachment_create(s, &own, role, ops, ops_arg, false, out);
	request_finish(&own);
	return rc ? err_set(e, rc, "%s", rc == ERR_RECORD_UNAVAILABLE ? "the record takes nothing now" : "no memory")
		  : 0;
}

/* ---- the policy itself */

int broker_policy_show(struct hub *h, const struct request *rq, json_t **out, struct err *e)
{
	const struct policy *p = hub_policy(h);
	int rc = broker_in_force(h, rq, "policy", e);

	if (rc)
		return rc;
	if (!(rq->grant.scopes & (SCOPE_REPLAY | SCOPE_ADMIN))) {
		err_set(e, ERR_FORBIDDEN, "the grant lacks scope replay or admin");
		return broker_refused(h, rq, NULL, "policy", e);
	}
	rc = broker_policy(h, rq, &(struct policy_question){.op = POLICY_POLICY_READ}, "policy", NULL, e);
	if (rc)
		return rc;
	*out = p ? policy_describe(p) : json_pack("{s:n}", "version");
	if (*out && p)
		json_object_set_new(*out, "text", json_stringn(p->text, p->text_len));
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory");
}
