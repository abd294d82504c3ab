#define LOG_SUBSYS "broker"
#include "muxd/hub/broker.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/work/work.h"
#include "muxd/hub/internal.h"
#include "policy/reason.h"

#include <stdlib.h>
#include <string.h>

void request_finish(struct request *rq)
{
	explicit_bzero(rq->token, sizeof(rq->token));
}

void request_endpoint(struct request *rq, const char *endpoint)
{
	text_put(rq->endpoint, sizeof(rq->endpoint), endpoint);
}

void request_begin(struct request *rq, const struct origin *from)
{
	memset(rq, 0, sizeof(*rq));
	rq->door = from->door;
	text_put(rq->peer, sizeof(rq->peer), from->peer);
	request_endpoint(rq, from->endpoint);
	(void)id_new(&rq->id);
}

void broker_audit_refused(struct hub *h, const struct origin *from, const char *what, const struct grant *who,
			  const struct err *e)
{
	struct request rq;

	request_begin(&rq, from);
	if (who)
		rq.grant = *who;
	h->stats.auth_failed++;
	audit_failure(h, &rq, what, e);
}

/* Whose token it is: *out is filled wherever its signature is good, also when it has ended or was revoked. */
static int identify(struct hub *h, const char *token, size_t len, struct grant *out, struct err *e)
{
	int rc = grant_verify(token, len, &h->keyset, h->p.instance, hub_now_wall(h), out, e);

	if (!rc && revocations_has(h->revoked, &out->id))
		rc = err_set(e, ERR_TOKEN_REVOKED, "the grant of this token was revoked");
	return rc;
}

void broker_refuse(struct hub *h, const char *token, size_t len, const struct origin *from, const char *what,
		   const struct err *e)
{
	struct grant who = {0};
	struct err ignored = {0};

	if (token)
		(void)identify(h, token, len, &who, &ignored);
	broker_audit_refused(h, from, what, &who, e);
}

int broker_authenticate(struct hub *h, const char *token, size_t len, const struct origin *from, struct request *out,
			struct err *e)
{
	struct request rq;
	struct err own = {0};
	int rc;

	request_begin(&rq, from);
	e = e ? e : &own;
	if (token)
		rc = identify(h, token, len, &rq.grant, e);
	else
		rc = e->code == ERR_UNAUTHENTICATED ? e->code : err_set(e, ERR_UNAUTHENTICATED, "no grant was sent");
	if (rc) {
		broker_audit_refused(h, from, token ? "token" : "no token", &rq.grant, e);
		return rc;
	}
	memcpy(rq.token, token, len);
	h->stats.auth_ok++;
	*out = rq;
	request_finish(&rq);
	return 0;
}

int broker_refused(struct hub *h, const struct request *rq, const char *agent, const char *what, const struct err *e)
{
	audit_verdict(h, rq, agent, err_name(e->code), json_pack("{s:s,s:s}", "what", what, "message", e->message));
	return e->code;
}

int broker_verdict(struct hub *h, const struct request *rq, const char *what, const struct err *e)
{
	return broker_refused(h, rq, strcmp(rq->grant.agent, "*") == 0 ? NULL : rq->grant.agent, what, e);
}

bool broker_grant_valid(struct hub *h, const struct id *grant, int64_t expires_ns)
{
	return hub_now_wall(h) < expires_ns && !revocations_has(h->revoked, grant);
}

static int in_force(struct hub *h, const struct request *rq, struct err *e)
{
	if (hub_now_wall(h) >= rq->grant.expires_ns)
		return err_set(e, ERR_TOKEN_EXPIRED, "the grant has ended");
	if (revocations_has(h->revoked, &rq->grant.id))
		return err_set(e, ERR_TOKEN_REVOKED, "the grant was revoked");
	return 0;
}

int broker_in_force(struct hub *h, const struct request *rq, const char *what, struct err *e)
{
	struct err own = {0};

	e = e ? e : &own;
	return in_force(h, rq, e) ? broker_refused(h, rq, NULL, what, e) : 0;
}

/* A sandbox of the pool is its lease's: staff may watch it and take over, and who administers may end it. */
static bool only_looks(const struct request *rq, uint32_t scopes)
{
	if (rq->grant.kind == GRANT_STAFF && scopes == SCOPE_DRIVE)
		return true;
	return !(scopes & (SCOPE_TERMINAL | SCOPE_ROUNDS | SCOPE_FILES | SCOPE_DRIVE | SCOPE_PORTS));
}

int broker_check(struct hub *h, const struct request *rq, const char *agent, uint32_t scopes, const char *what,
		 struct err *e)
{
	struct err own = {0};

	e = e ? e : &own;
	if (in_force(h, rq, e) == 0 && target_name_check(agent, e) == 0 &&
	    grant_allows(&rq->grant, agent, scopes, e) == 0 &&
	    work_may_enter(h->p.work, agent, rq->grant.principal, only_looks(rq, scopes), e) == 0)
		return 0;
	return broker_refused(h, rq, agent, what, e);
}

int broker_check_enter(struct hub *h, const struct request *rq, const char *agent, const char *what, struct err *e)
{
	return work_may_enter(h->p.work, agent, rq->grant.principal, false, e) ? broker_refused(h, rq, agent, what, e) : 0;
}

void broker_hide(struct hub *h, const struct request *rq, const struct session *s, const char *what)
{
	audit_verdict(h, rq, s->agent->name, err_name(ERR_FORBIDDEN),
		      json_pack("{s:s,s:s,s:s}", "what", what, "session", s->id_text, "message",
				"a session that this grant may not know of"));
}

/* ---- lists */

bool broker_may_see(const struct request *rq, const struct session *s)
{
	const struct grant *g = &rq->grant;

	if (grant_allows(g, s->agent->name, 0, NULL))
		return false;
	return g->scopes & (SCOPE_OBSERVE | SCOPE_REPLAY | SCOPE_DRIVE | SCOPE_ADMIN) ||
	       strcmp(g->principal, s->grant.principal) == 0;
}

static bool is_listed(const struct session_filter *f, const struct session *s)
{
	return (!f->agent || target_covers(f->agent, s->agent->name)) &&
	       (!f->state || strcmp(f->state, session_state_name(s->state)) == 0) &&
	       (!f->kind || strcmp(f->kind, session_kind_name(s->kind)) == 0) &&
	       (!f->live || s->state != SESSION_ENDED) && (id_is_nil(&f->only) || id_equal(&f->only, &s->id)) &&
	       (id_is_nil(&f->before) || memcmp(s->id.b, f->before.b, sizeof(s->id.b)) < 0);
}

int broker_sessions(struct hub *h, const struct request *rq, const struct session_filter *f, json_t **out,
		    struct err *e)
{
	json_t *list = json_array(), *seen = json_object(), *o;
	struct session *s;

	if (!list || !seen) {
		json_decref(list);
		json_decref(seen);
		return err_set(e, ERR_NOMEM, "no memory");
	}
	TAILQ_FOREACH(s, &h->order, order)
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

static bool is_owner(const struct request *rq, const struct session *s)
{
	return strcmp(rq->grant.principal, s->grant.principal) == 0;
}

int broker_terminate(struct hub *h, const struct request *rq, const struct id *session, const char *reason,
		     struct err *e)
{
	struct session *s = hub_session_find(h, session);
	uint32_t need;
	char text[180];
	int rc;

	err_set(e, ERR_NOT_FOUND, "no such session");
	if (!s)
		return ERR_NOT_FOUND;
	if (!broker_may_see(rq, s)) {
		broker_hide(h, rq, s, "terminate");
		return ERR_NOT_FOUND;
	}
	need = is_owner(rq, s) ? scope_of(s->kind) : rq->grant.scopes & SCOPE_ADMIN ? SCOPE_ADMIN : SCOPE_DRIVE;
	rc = broker_check(h, rq, s->agent->name, need, "terminate", e);
	if (!rc && reason && *reason) /* it is shown on the terminals of all who look */
		rc = reason_check(reason, e);
	if (rc)
		return rc;
	if (s->state == SESSION_ENDED)
		return err_set(e, ERR_ENDED, "the session has ended already");
	text_format(text, sizeof(text), "ended by %.60s: %.100s", rq->grant.principal,
		    reason && *reason ? reason : "no reason given");
	(void)audit_event(h, "session.terminate", rq, s->agent->name, "ok",
			  json_pack("{s:s,s:s}", "session", s->id_text, "text", text));
	session_kill(s, EXIT_KILLED, text);
	return 0;
}

uint32_t attach_scope(enum attachment_role role, bool own)
{
	return role == ROLE_OBSERVER ? SCOPE_OBSERVE : own ? SCOPE_TERMINAL : SCOPE_DRIVE;
}

int broker_attach(struct hub *h, const struct request *rq, const char *agent, const char *name,
		  enum attachment_role role, const struct attachment_ops *ops, void *ops_arg, struct attachment **out,
		  struct err *e)
{
	struct session *s = NULL, *each;
	struct id id;
	int rc;

	if (name && *name && strcmp(name, "last") != 0) {
		if (id_parse(name, &id))
			return err_set(e, ERR_INVAL, "\"%.64s\" is not a session id: use the id, or last", name);
		s = hub_session_find(h, &id);
	} else {
		TAILQ_FOREACH(each, &h->order, order)
		if (!s && each->kind == SESSION_TERMINAL && each->state != SESSION_ENDED &&
		    (!agent || !*agent || target_covers(agent, each->agent->name)) && is_owner(rq, each))
			s = each;
	}
	err_set(e, ERR_NOT_FOUND, "no such session of %s", agent && *agent ? agent : "any agent");
	if (!s)
		return ERR_NOT_FOUND;
	if (!broker_may_see(rq, s)) {
		broker_hide(h, rq, s, "attach");
		return ERR_NOT_FOUND;
	}
	if (agent && *agent && !target_covers(agent, s->agent->name))
		return ERR_NOT_FOUND;
	rc = broker_check(h, rq, s->agent->name, attach_scope(role, is_owner(rq, s)), "attach", e);
	if (rc)
		return rc;
	if (s->kind == SESSION_FILE || s->kind == SESSION_PORT)
		return err_set(e, ERR_BAD_STATE, "this is a %s: nobody but its client can come to it",
			       s->kind == SESSION_FILE ? "file transfer" : "connection to a port");
	if (s->state == SESSION_ENDED)
		return err_set(e, ERR_ENDED, "the session has ended: muxctl replay %s shows it", s->id_text);
	rc = attachment_create(s, rq, role, ops, ops_arg, false, out);
	return rc ? err_set(e, rc, "%s", rc == ERR_RECORD_UNAVAILABLE ? "the record takes nothing now" : "no memory")
		  : 0;
}
