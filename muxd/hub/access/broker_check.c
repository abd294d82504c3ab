/* Checks of a request: whose token it has, and whether the grant allows what is asked for. Every refusal is audited. */
#include "muxd/hub/access/broker_check.h"
#include "base/conf.h"
#include "base/err.h"
#include "control/work/work.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/grant_news.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_state.h"

#include <string.h>

uint32_t scope_of(enum session_kind k)
{
	static const uint32_t scopes[SESSION_KINDS] = {
	    [SESSION_TERMINAL] = SCOPE_TERMINAL, [SESSION_EXEC] = SCOPE_TERMINAL, [SESSION_ROUND] = SCOPE_ROUNDS,
	    [SESSION_FILE] = SCOPE_FILES,        [SESSION_PORT] = SCOPE_PORTS,    [SESSION_MCP] = SCOPE_ROUNDS};

	return scopes[k];
}

/* A round's own principal reads and types by calls, too; but for its terminal's input (broker_find_typed()). */
uint32_t attach_scope(enum session_kind k, enum attachment_role role, bool own, bool typed)
{
	bool by_calls = own && k == SESSION_ROUND && !(typed && role == ROLE_DRIVER);

	return (by_calls ? SCOPE_ROUNDS : 0) | (role == ROLE_OBSERVER ? SCOPE_OBSERVE
						: own                 ? SCOPE_TERMINAL
								      : SCOPE_DRIVE);
}

enum attachment_role attach_role(const struct grant *g, enum session_kind k, bool own, bool typed)
{
	return g->scopes & attach_scope(k, ROLE_DRIVER, own, typed) ? ROLE_DRIVER : ROLE_OBSERVER;
}

enum attachment_role broker_attach_role(struct hub *h, const struct request *rq, const struct id *session)
{
	const struct session *s = hub_session_find(h, session);

	return s && !launch_is_inside(&s->launch) ? attach_role(&rq->grant, s->kind, broker_owns(rq, s), s->launch.pty)
						  : ROLE_OBSERVER;
}

void broker_audit_refused(struct hub *h, const struct origin *from, const char *what, const struct grant *who,
			  const struct err *e)
{
	struct request rq;

	request_begin(&rq, from);
	if (who)
		rq.grant = *who;
	hub_counters(h)->auth_failed++;
	audit_failure(h, &rq, what, e);
}

/* Whose token it is: *out is filled wherever its signature is good, also when it has ended or was revoked. held: its
 * renewals count, too. */
static int identify(struct hub *h, const char *token, size_t len, bool held, struct grant *out, struct err *e)
{
	struct grant_trust trust = hub_trust(h);
	int64_t now = hub_now_wall(h);
	int rc = hub_grant_verify(h, token, len, &trust, now, out, e);
	struct grant_news news = hub_grant_news(h);
	struct grant_line line = grant_line(out);

	if (rc == ERR_TOKEN_EXPIRED && held && grant_line_ends(&line, &news) > now) {
		*e = (struct err){0};
		rc = 0;
	}
	if (!rc && grant_line_revoked(&line, &news))
		rc = err_set(e, ERR_TOKEN_REVOKED, "the grant of this token was revoked");
	return rc ? rc : grant_news_check(&news, now, e);
}

void broker_refuse(struct hub *h, const char *token, size_t len, const struct origin *from, const char *what,
		   const struct err *e)
{
	struct grant who = {0};
	struct err ignored = {0};

	if (token)
		(void)identify(h, token, len, false, &who, &ignored);
	broker_audit_refused(h, from, what, &who, e);
}

static int authenticate(struct hub *h, const char *token, size_t len, bool held, const struct origin *from,
			struct request *out, struct err *e)
{
	struct request rq;
	struct err own = {0};
	int rc;

	request_begin(&rq, from);
	e = e ? e : &own;
	if (token)
		rc = identify(h, token, len, held, &rq.grant, e);
	else
		rc = e->code == ERR_UNAUTHENTICATED ? e->code : err_set(e, ERR_UNAUTHENTICATED, "no grant was sent");
	if (rc) {
		broker_audit_refused(h, from, token ? "token" : "no token", &rq.grant, e);
		return rc;
	}
	memcpy(rq.token, token, len);
	hub_counters(h)->auth_ok++;
	*out = rq;
	request_finish(&rq);
	return 0;
}

int broker_authenticate(struct hub *h, const char *token, size_t len, const struct origin *from, struct request *out,
			struct err *e)
{
	return authenticate(h, token, len, false, from, out, e);
}

int broker_authenticate_held(struct hub *h, const char *token, size_t len, const struct origin *from,
			     struct request *out, struct err *e)
{
	return authenticate(h, token, len, true, from, out, e);
}

int broker_refused(struct hub *h, const struct request *rq, const char *agent, const char *what, const struct err *e)
{
	audit_verdict(h, rq, agent, err_name(e->code), json_pack("{s:s,s:s}", "what", what, "message", e->message));
	return e->code;
}

int broker_verdict(struct hub *h, const struct request *rq, const char *what, const struct err *e)
{
	return broker_refused(h, rq, grant_of_one(&rq->grant) ? rq->grant.agent : NULL, what, e);
}

int broker_grant_check(struct hub *h, const struct grant_line *grant, struct err *e)
{
	struct grant_news news = hub_grant_news(h);

	return grant_line_check(grant, &news, hub_now_wall(h), e);
}

static int in_force(struct hub *h, const struct request *rq, struct err *e)
{
	struct grant_line l = grant_line(&rq->grant);

	return broker_grant_check(h, &l, e);
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

enum policy_op attach_op(enum session_kind k, enum attachment_role role, bool own)
{
	if (!own)
		return role == ROLE_OBSERVER ? POLICY_SESSION_WATCH : POLICY_SESSION_DRIVE;
	if (k == SESSION_ROUND)
		return role == ROLE_OBSERVER ? POLICY_ROUND_READ : POLICY_ROUND_INPUT;
	return broker_policy_op(k);
}

/* The request that one is read for comes by a grant for that one alone, which muxd has made for it. */
static int is_anothers(const struct request *rq, const char *agent, struct err *e)
{
	if (!agent_is_passing(agent) || strcmp(rq->grant.agent, agent) == 0)
		return 0;
	return err_set(e, ERR_FORBIDDEN, "%s is there for the request that it was made for, and for nobody else",
		       agent);
}

static int broker_check_reach(struct hub *h, const struct request *rq, const char *agent, uint32_t scopes,
			      struct err *e)
{
	int rc = in_force(h, rq, e);

	if (!rc)
		rc = target_name_check(agent, e);
	if (!rc)
		rc = grant_allows(&rq->grant, agent, scopes, e);
	if (!rc)
		rc = is_anothers(rq, agent, e);
	return rc ? rc : work_may_enter(hub_work(h), agent, rq->grant.principal, only_looks(rq, scopes), e);
}

int broker_reach(struct hub *h, const struct request *rq, const char *agent, uint32_t scopes, const char *what,
		 struct err *e)
{
	struct err own = {0};

	e = e ? e : &own;
	return broker_check_reach(h, rq, agent, scopes, e) ? broker_refused(h, rq, agent, what, e) : 0;
}

int broker_check(struct hub *h, const struct request *rq, const struct policy_question *q, uint32_t scopes,
		 const char *what, struct policy_mark *out_mark, struct err *e)
{
	int rc = broker_reach(h, rq, q->agent, scopes, what, e);

	return rc ? rc : broker_policy(h, rq, q, what, out_mark, e);
}

int broker_task(struct hub *h, const struct request *rq, const char *agent, const char *task, const char *what,
		const char **out_task, struct err *e)
{
	return grant_task(&rq->grant, task, out_task, e) ? broker_refused(h, rq, agent, what, e) : 0;
}

int broker_check_task(struct hub *h, const struct request *rq, const char *agent, const char *task, const char *what,
		      struct err *e)
{
	const char *its;

	return task && *task ? broker_task(h, rq, agent, task, what, &its, e) : 0;
}

int broker_check_call(struct hub *h, const struct request *rq, const struct policy_question *q, uint32_t scopes,
		      const char *what, struct policy_mark *out_mark, struct err *e)
{
	int rc = broker_reach(h, rq, q->agent, scopes, what, e);

	if (!rc)
		rc = broker_check_task(h, rq, q->agent, q->task, what, e);
	return rc ? rc : broker_policy(h, rq, q, what, out_mark, e);
}

int broker_reach_any(struct hub *h, const struct request *rq, const char *agent, uint32_t any, const char *what,
		     struct err *e)
{
	uint32_t left = any & rq->grant.scopes ? any & rq->grant.scopes : any & (~any + 1);
	struct err first = {0};

	for (; left; left &= left - 1) { /* by the lowest first; what that one is refused is told */
		struct err each = {0};

		if (broker_check_reach(h, rq, agent, left & (~left + 1), &each) == 0)
			return 0;
		if (!first.code)
			first = each;
	}
	if (e)
		*e = first;
	return broker_refused(h, rq, agent, what, &first);
}

int broker_check_any(struct hub *h, const struct request *rq, const struct policy_question *q, uint32_t any,
		     const char *what, struct policy_mark *out_mark, struct err *e)
{
	int rc = broker_reach_any(h, rq, q->agent, any, what, e);

	return rc ? rc : broker_policy(h, rq, q, what, out_mark, e);
}

int broker_check_enter(struct hub *h, const struct request *rq, const char *agent, const char *what, struct err *e)
{
	return work_may_enter(hub_work(h), agent, rq->grant.principal, false, e) ? broker_refused(h, rq, agent, what, e)
										 : 0;
}

void broker_hide(struct hub *h, const struct request *rq, const struct session *s, const char *what)
{
	audit_verdict(h, rq, s->agent->name, err_name(ERR_FORBIDDEN),
		      json_pack("{s:s,s:s,s:s}", "what", what, "session", s->id_text, "message",
				"a session that this grant may not know of"));
}

/* The program of an MCP server or a service serves many: it is nobody's own, not even of whoever needed it first. */
bool broker_owns(const struct request *rq, const struct session *s)
{
	return !launch_is_inside(&s->launch) &&
	       grant_owns(&rq->grant, s->grant->principal, s->launch.work && s->launch.work->run[0], s->launch.task);
}

bool broker_may_see(const struct request *rq, const struct session *s)
{
	const struct grant *g = &rq->grant;

	if (grant_allows(g, s->agent->name, 0, NULL))
		return false;
	return g->scopes & (SCOPE_OBSERVE | SCOPE_REPLAY | SCOPE_DRIVE | SCOPE_ADMIN) || broker_owns(rq, s);
}

/*
 * One's own as the recorder has it (SCOPES_READ_OWN, or replay). Another's: while it runs with observe or replay, once
 * it has ended with replay.
 */
static uint32_t look_scopes(const struct session *s, bool owner)
{
	return SCOPE_REPLAY | (owner ? SCOPES_READ_OWN : s->state == SESSION_ENDED ? 0 : SCOPE_OBSERVE);
}

/* A round can be looked at whether its sandbox is still there or not: a look enters no sandbox. */
static int check_look(struct hub *h, const struct request *rq, const struct session *s, const char *what,
		      struct policy_mark *out_mark, struct err *e)
{
	bool owner = broker_owns(rq, s);
	uint32_t any = look_scopes(s, owner), told = owner ? SCOPE_ROUNDS : any & (~any + 1);
	struct err own = {0};

	e = e ? e : &own;
	if (in_force(h, rq, e) == 0 &&
	    (rq->grant.scopes & any || grant_allows(&rq->grant, s->agent->name, told, e) == 0))
		return broker_policy(h, rq,
				     &(struct policy_question){.op = owner ? POLICY_ROUND_READ : POLICY_SESSION_WATCH,
							       .agent = s->agent->name,
							       .task = s->launch.task},
				     what, out_mark, e);
	return broker_refused(h, rq, s->agent->name, what, e);
}

int broker_check_server(struct hub *h, const struct request *rq, const struct session *s, const char *what,
			struct err *e)
{
	if (!launch_is_inside(&s->launch))
		return 0;
	if (s->launch.service[0])
		err_set(e, ERR_BAD_STATE,
			"this is the program of service %.64s, which goes by the list of services: begin it anew with "
			"muxctl services restart, or end it with scope lifecycle or by the list",
			s->launch.service);
	else
		err_set(e, ERR_BAD_STATE,
			"this is the program of MCP server %.64s, which nobody but muxd speaks with: send it requests, "
			"read its "
			"tools anew by refresh, or end it with scope lifecycle or by the list",
			s->launch.server);
	return broker_refused(h, rq, s->agent->name, what, e);
}

/* A signal ends or interrupts; anything else goes into what runs. */
static int check_act(struct hub *h, const struct request *rq, const struct session *s, uint32_t scope, bool signal,
		     const char *what, struct err *e)
{
	bool owner = broker_owns(rq, s);
	const struct policy_question q = {.op = owner ? POLICY_ROUND_INPUT : POLICY_SESSION_DRIVE,
					  .agent = s->agent->name,
					  .task = s->launch.task,
					  .ends = signal};
	struct err own = {0};
	int rc;

	e = e ? e : &own;
	rc = broker_check(h, rq, &q, owner ? scope : SCOPE_DRIVE, what, NULL, e);
	return rc ? rc : broker_check_server(h, rq, s, what, e);
}

static int find_known(struct hub *h, const struct request *rq, const struct id *round, const char *what,
		      struct session **out, struct err *e)
{
	struct session *s = hub_session_find(h, round);

	if (!s || s->kind != SESSION_ROUND)
		return err_set(e, ERR_NOT_FOUND, NO_ROUND);
	if (!broker_may_see(rq, s)) {
		broker_hide(h, rq, s, what);
		return err_set(e, ERR_NOT_FOUND, NO_ROUND);
	}
	*out = s;
	return 0;
}

int broker_find_look(struct hub *h, const struct request *rq, const struct id *round, const char *what,
		     struct session **out, struct policy_mark *out_mark, struct err *e)
{
	struct session *s = NULL;
	int rc = find_known(h, rq, round, what, &s, e);

	if (!rc)
		rc = check_look(h, rq, s, what, out_mark, e);
	if (!rc)
		*out = s;
	return rc;
}

/* scope: what its own principal needs to act on it, 0: to look at it. Another's is acted on with drive. */
int broker_find_round(struct hub *h, const struct request *rq, const struct id *round, uint32_t scope, const char *what,
		      struct session **out, struct err *e)
{
	struct session *s = NULL;
	int rc = scope ? find_known(h, rq, round, what, &s, e) : broker_find_look(h, rq, round, what, &s, NULL, e);

	if (!rc && scope)
		rc = check_act(h, rq, s, scope, false, what, e);
	if (!rc)
		*out = s;
	return rc;
}

int broker_find_signalled(struct hub *h, const struct request *rq, const struct id *round, struct session **out,
			  struct err *e)
{
	struct session *s = NULL;
	int rc = find_known(h, rq, round, "signal", &s, e);

	if (!rc)
		rc = check_act(h, rq, s, SCOPE_ROUNDS, true, "signal", e);
	if (!rc)
		*out = s;
	return rc;
}

int broker_find_typed(struct hub *h, const struct request *rq, const struct id *round, const char *what,
		      struct session **out, struct err *e)
{
	struct session *s = NULL;
	int rc = broker_find_round(h, rq, round, SCOPE_ROUNDS, what, &s, e);

	if (!rc && s->launch.pty && broker_owns(rq, s))
		rc = broker_reach(h, rq, s->agent->name, SCOPE_TERMINAL, what, e);
	if (!rc)
		*out = s;
	return rc;
}
