/*
 * broker_check.h - may this grant do that? Each refusal is audited.
 */
#ifndef MUXD_HUB_ACCESS_BROKER_CHECK_H
#define MUXD_HUB_ACCESS_BROKER_CHECK_H

#include "muxd/hub/access/broker_auth.h"
#include "muxd/hub/session/session.h"

uint32_t scope_of(enum session_kind k);
/* One of these is enough. typed: it has a terminal. */
uint32_t attach_scope(enum session_kind k, enum attachment_role role, bool own, bool typed);
/* The role that its scopes give who asks for none. */
enum attachment_role attach_role(const struct grant *g, enum session_kind k, bool own, bool typed);
/* Is it this grant's own (grant_owns())? Another task's of the same principal is another's. */
bool broker_owns(const struct request *rq, const struct session *s);
/* Is the grant in force, and wide enough? The policy is the caller's next question. Refusals are audited. */
int broker_reach(struct hub *h, const struct request *rq, const char *agent, uint32_t scopes, const char *what,
		 struct err *e);
/* And the policy: q has what is asked for, agent too. *out_mark (NULL) as in broker_policy.h. */
int broker_check(struct hub *h, const struct request *rq, const struct policy_question *q, uint32_t scopes,
		 const char *what, struct policy_mark *out_mark, struct err *e);
/* A refusal by policy is an event with what was asked for; agent NULL: no certain one. Returns e->code. */
int broker_refused(struct hub *h, const struct request *rq, const char *agent, const char *what, const struct err *e);
/* The same as broker_check() with one of the scopes `any`. */
int broker_check_any(struct hub *h, const struct request *rq, const struct policy_question *q, uint32_t any,
		     const char *what, struct policy_mark *out_mark, struct err *e);
int broker_reach_any(struct hub *h, const struct request *rq, const char *agent, uint32_t any, const char *what,
		     struct err *e);
/*
 * The task that a call names, before the policy is asked under it: a grant of another task gets no answer. NULL or "":
 * it names none, which is 0. ERR_TASK_MISMATCH, audited.
 */
int broker_check_task(struct hub *h, const struct request *rq, const char *agent, const char *task, const char *what,
		      struct err *e);
/* grant_task(), audited. */
int broker_task(struct hub *h, const struct request *rq, const char *agent, const char *task, const char *what,
		const char **out_task, struct err *e);
/* broker_check() of a call whose task is its caller's word. */
int broker_check_call(struct hub *h, const struct request *rq, const struct policy_question *q, uint32_t scopes,
		      const char *what, struct policy_mark *out_mark, struct err *e);
/* The operation by which somebody comes back to a session: its own principal, or another. */
enum policy_op attach_op(enum session_kind k, enum attachment_role role, bool own);
/* After broker_check(): what the agent holds, too? A sandbox of the pool is entered by its lease's principal alone. */
int broker_check_enter(struct hub *h, const struct request *rq, const char *agent, const char *what, struct err *e);
/* Also where there is one that the grant may not see: whether it exists is not told to everybody. */
#define NO_SESSION "session not found, or your grant is for another agent"
#define NO_ROUND   "round not found, or your grant is for another agent"

/* A round by its id. scope: what its own principal needs to act on it, 0: to look at it. Another's is acted on with
 * drive. ERR_NOT_FOUND: there is none, or none that this grant may know of. */
int broker_find_round(struct hub *h, const struct request *rq, const struct id *round, uint32_t scope, const char *what,
		      struct session **out, struct err *e);
/* The same for a signal, whether the record takes anything now or not. */
int broker_find_signalled(struct hub *h, const struct request *rq, const struct id *round, struct session **out,
			  struct err *e);
/* The same for a look that has an event of its own: *out_mark is for that. */
int broker_find_look(struct hub *h, const struct request *rq, const struct id *round, const char *what,
		     struct session **out, struct policy_mark *out_mark, struct err *e);
/* The same for input. A round's terminal is typed on with scope terminal as well: with it the round was opened. */
int broker_find_typed(struct hub *h, const struct request *rq, const struct id *round, const char *what,
		      struct session **out, struct err *e);
/* The program of an MCP server inside takes nothing but requests: ERR_BAD_STATE for whoever would act on it. */
int broker_check_server(struct hub *h, const struct request *rq, const struct session *s, const char *what,
			struct err *e);
bool broker_may_see(const struct request *rq, const struct session *s);
/* A session that this grant may not know of is answered as absent, ERR_NOT_FOUND; the audit log has whose it was. */
void broker_hide(struct hub *h, const struct request *rq, const struct session *s, const char *what);
#endif
