/*
 * broker_policy.h - does the policy in force let a call through? Asked once the grant was found wide enough, before
 * anything starts (policy/verdict.h).
 *
 * A denial is an audit event of its own (policy.deny), counted like other refusals, and the caller's error with rule,
 * version and what would have allowed it. An allowance is a mark: it goes with the request's events.
 */
#ifndef MUXD_HUB_ACCESS_BROKER_POLICY_H
#define MUXD_HUB_ACCESS_BROKER_POLICY_H

#include "muxd/hub/access/broker_auth.h"
#include "muxd/hub/session/exec_spec.h"
#include "muxd/hub/session/session.h"

struct launch;
struct record_rule;

/*
 * Kind and principal of the question are the request's; agent and task too where it names none. what: the call's name
 * in the audit log. *out_mark is the allowance, for the event of the call. NULL: the call has none, and the allowance
 * is one (policy.allow, counted where it repeats). 0, ERR_POLICY_DENIED, ERR_LIMIT (verdict_limit()).
 */
int broker_policy(struct hub *h, const struct request *rq, const struct policy_question *q, const char *what,
		  struct policy_mark *out_mark, struct err *e);
/* Would it let that call through? For lists of what can be called: nothing is audited. */
bool broker_policy_would(const struct hub *h, const struct request *rq, const struct policy_question *q);
/* The same of a change whose own event another part writes: the allowance is an event, policy.allow, before it is made.
 * ERR_RECORD_UNAVAILABLE. */
int broker_policy_told(struct hub *h, const struct request *rq, const struct policy_question *q, const char *what,
		       struct err *e);
/* All that a session or an operation on files needs. The mark is that of its own operation; of files, of the last path.
 */
int broker_policy_launch(struct hub *h, const struct request *rq, const char *agent, enum session_kind kind,
			 const struct launch *l, struct policy_mark *out_mark, struct err *e);
int broker_policy_file(struct hub *h, const struct request *rq, const char *agent, const char *task,
		       const struct file_spec *f, const char *what, struct policy_mark *out_mark, struct err *e);
/*
 * A round that has left memory, by its facts (recorder's `session`), and by its id: those are asked for first. One's
 * own is a round, another's a recording. done: without a result; ERR_POLICY_DENIED, ERR_NOT_FOUND.
 */
int broker_policy_recalled(struct hub *h, const struct request *rq, const json_t *facts, struct err *e);
void broker_policy_round(struct hub *h, const struct request *rq, const struct id *round, broker_json_done *done,
			 void *arg);
/* The call that a session comes from, for its own principal who comes back to it. */
enum policy_op broker_policy_op(enum session_kind kind);
/* The same of what is about to begin; of files one of the two, whichever it is asked for first. */
enum policy_op broker_policy_op_of(enum session_kind kind, const struct launch *l);
/* Says the profile of such a call anything of images or resources? */
bool broker_policy_shapes(const struct hub *h, const struct request *rq, const char *agent, const char *task);
/* Image and resources of the sandbox that an allowed call makes (policy/verdict.h). */
void broker_policy_shape(const struct hub *h, const struct request *rq, const struct policy_question *q,
			 struct policy_shape *out);
/* May a call of that grant be denied by its operation: is a policy in force, or waits one, or does the grant name some?
 */
bool broker_policy_is(const struct hub *h, const struct request *rq);
/*
 * Of the most bytes of a file that broker_policy_files() gives: what a denial by the profile says, where the profile
 * has set it. version "": it has not.
 */
void broker_policy_size(const struct hub *h, const struct request *rq, const char *agent, const char *task,
			enum policy_op op, struct err_policy *out);
/*
 * What the profile of a call narrows besides: the paths and sizes of files within the grant's, and the longest a round
 * may take (0: no limit).
 */
void broker_policy_files(const struct hub *h, const struct request *rq, const char *agent, const char *task,
			 struct grant_files *out);
/* The rule of a session's recording by its profile, whatever let it begin. */
void broker_policy_record(const struct hub *h, const struct request *rq, const char *agent, const char *task,
			  enum session_kind kind, struct record_rule *out);
uint64_t broker_policy_round_time(const struct hub *h, const struct request *rq, const char *agent, const char *task);

#endif
