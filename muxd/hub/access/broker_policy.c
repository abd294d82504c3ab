/* The policy's verdict of a call, told to its caller and to the audit log. */
#define LOG_SUBSYS "broker"
#include "muxd/hub/access/broker_policy.h"

#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/policy.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_share.h"
#include "muxd/hub/session/session_state.h"
#include "policy/grant_narrow.h"
#include "policy/profile.h"

#include <string.h>

/* ---- the question */

/* Kind, principal, agent and task, where it has none. */
static struct policy_question whole(const struct request *rq, const struct policy_question *q)
{
	const struct grant *g = &rq->grant;
	struct policy_question out = *q;

	out.kind = g->kind;
	out.principal = g->principal;
	if (!out.agent && grant_of_one(g))
		out.agent = g->agent;
	if (!out.task || !*out.task)
		out.task = g->task;
	return out;
}

/* ---- the answer */

/* Image and resources that a sandbox was refused for, as the question has them. */
static void tell_shape(const struct verdict *v, const struct policy_question *q, json_t *detail)
{
	struct policy_shape shape;

	if (!q->makes || (v->why != VERDICT_IMAGE && v->why != VERDICT_RESOURCES))
		return;
	verdict_shape(v, q, &shape);
	(void)json_object_set_new(detail, "image", *shape.image ? json_string(shape.image) : json_null());
	(void)json_object_set_new(detail, "resources",
				  resources_json(resources_none(&q->resources) ? &q->kept : &q->resources));
}

static void set_mark(const struct verdict *v, const struct policy_question *q, struct policy_mark *out)
{
	verdict_rule(v, q, out->rule);
	text_put(out->version, sizeof(out->version), verdict_version(v));
}

/* No event of the call will name the verdict. */
static void tell_look(struct hub *h, const struct request *rq, const struct verdict *v, const struct policy_question *q,
		      const char *what)
{
	struct request own = {0};

	set_mark(v, q, &own.policy);
	request_marked(rq, &own);
	audit_allowance(h, &own, q->agent,
			json_pack("{s:s,s:s,s:s*}", "what", what, "operation", policy_op_name(q->op), "task",
				  q->task && *q->task ? q->task : NULL));
}

static int deny(struct hub *h, const struct request *rq, const struct verdict *v, const struct policy_question *q,
		const char *what, struct err *e)
{
	struct err_policy p = {0};
	struct request own = {0}; /* without what the policy allowed of the call before */
	struct err_share limit;
	char message[256];
	json_t *detail;
	int rc;

	text_put(p.operation, sizeof(p.operation), policy_op_name(q->op));
	verdict_rule(v, q, p.rule);
	text_put(p.version, sizeof(p.version), verdict_version(v));
	verdict_hint(v, q, p.needs, sizeof(p.needs));
	verdict_message(v, q, message, sizeof(message));
	request_marked(rq, &own);
	detail = json_pack("{s:s,s:s,s:s*,s:s,s:s,s:s,s:s}", "what", what, "operation", p.operation, "task",
			   q->task && *q->task ? q->task : NULL, "rule", p.rule, "version", p.version, "needs", p.needs,
			   "message", message);
	tell_shape(v, q, detail);
	audit_denial(h, &own, q->agent, detail);
	if (verdict_limit(v, q, &limit))
		rc = err_limit(e, ERR_LIMIT, &limit, "%s; allowed by: %s (policy %s)", message, p.needs, p.version);
	else
		rc = err_set(e, ERR_POLICY_DENIED, "%s; allowed by: %s (policy %s)", message, p.needs, p.version);
	e->policy = p;
	return rc;
}

/* The grant's own operations stand before the policy, whether there is one or not. */
static int named(struct hub *h, const struct request *rq, const struct policy_question *q, const char *what,
		 struct err *e)
{
	struct err own = {0};
	int rc = grant_bounds_allow(&rq->grant.bounds, q->op, e ? e : &own);

	if (rc)
		audit_verdict(h, rq, q->agent, err_name(rc),
			      json_pack("{s:s,s:s}", "what", what, "message", e ? e->message : own.message));
	return rc;
}

/* The policy that decides, NULL: none. An end protects, and does not wait until the record has the first one. */
static int may_decide(struct hub *h, const struct policy_question *asked, const struct policy **out, struct err *e)
{
	int rc = hub_policy_settle(h, asked->ends ? NULL : e);

	*out = asked->ends ? hub_policy_of_ends(h) : hub_policy(h);
	return asked->ends ? 0 : rc;
}

int broker_policy(struct hub *h, const struct request *rq, const struct policy_question *asked, const char *what,
		  struct policy_mark *out_mark, struct err *e)
{
	const struct policy *p;
	struct policy_question q;
	struct verdict v;
	struct err own;
	int rc = asked->judged ? 0 : named(h, rq, asked, what, e);

	if (out_mark)
		*out_mark = (struct policy_mark){0};
	if (rc || (rc = may_decide(h, asked, &p, e)) || !p)
		return rc;
	q = whole(rq, asked);
	if (!q.opens_nothing && !q.judged)
		session_share_count(h, &q);
	v = policy_verdict(p, &q);
	if (!v.allowed)
		return deny(h, rq, &v, &q, what, e ? e : &own);
	if (out_mark)
		set_mark(&v, &q, out_mark);
	else if (!q.judged)
		tell_look(h, rq, &v, &q, what);
	return 0;
}

int broker_policy_told(struct hub *h, const struct request *rq, const struct policy_question *q, const char *what,
		       struct err *e)
{
	struct request own = {0};
	int rc = broker_policy(h, rq, q, what, &own.policy, e);

	if (rc || !own.policy.version[0] || (rc = hub_writable(h, e)))
		return rc;
	request_marked(rq, &own);
	rc = audit_event(h, "policy.allow", &own, q->agent, "ok",
			 json_pack("{s:s,s:s}", "what", what, "operation", policy_op_name(q->op)));
	return rc ? err_set(e, ERR_RECORD_UNAVAILABLE, "the record takes nothing now: nothing is changed") : 0;
}

bool broker_policy_would(const struct hub *h, const struct request *rq, const struct policy_question *asked)
{
	const struct policy_question q = whole(rq, asked);

	return !grant_bounds_allow(&rq->grant.bounds, q.op, NULL) && policy_verdict(hub_policy(h), &q).allowed;
}

bool broker_policy_may(struct hub *h, const struct request *rq, enum policy_op op)
{
	return broker_policy_would(h, rq, &(struct policy_question){.op = op, .some_server = true});
}

/* ---- files */

/* Once for each way in which a path is touched. The last rule is the mark's, and those before it go along. */
static int ask_way(struct hub *h, const struct request *rq, const struct policy_question *q, const char *what,
		   struct policy_mark *io_mark, struct err *e)
{
	const struct policy_mark before = io_mark ? *io_mark : (struct policy_mark){0};
	int rc = broker_policy(h, rq, q, what, io_mark, e);

	if (rc == 0 && io_mark)
		policy_mark_join(io_mark, &before);
	return rc;
}

static int ask_touch(struct hub *h, const struct request *rq, struct policy_question q, const struct file_touch *t,
		     const char *what, struct policy_mark *io_mark, struct err *e)
{
	int rc = 0;

	q.path = t->by_muxlet ? NULL : t->name;
	q.tree = t->tree;
	if (t->reads) {
		q.op = POLICY_FILE_READ;
		rc = ask_way(h, rq, &q, what, io_mark, e);
	}
	if (!rc && t->writes) {
		q.op = POLICY_FILE_WRITE;
		rc = ask_way(h, rq, &q, what, io_mark, e);
	}
	return rc;
}

static int ask_touches(struct hub *h, const struct request *rq, const struct policy_question *q,
		       const struct file_touch *touches, unsigned n, const char *what, struct policy_mark *out_mark,
		       struct err *e)
{
	int rc = 0;

	if (out_mark)
		*out_mark = (struct policy_mark){0};
	for (unsigned i = 0; !rc && i < n; i++)
		rc = ask_touch(h, rq, *q, &touches[i], what, out_mark, e);
	return rc;
}

int broker_policy_file(struct hub *h, const struct request *rq, const char *agent, const char *task,
		       const struct file_spec *f, const char *what, struct policy_mark *out_mark, struct err *e)
{
	const struct policy_question q = {.agent = agent, .task = task};
	struct file_touch touches[2];

	return ask_touches(h, rq, &q, touches, file_touches(f, touches), what, out_mark, e);
}

static int ask_transfer(struct hub *h, const struct request *rq, struct policy_question q, const struct transfer *t,
			struct policy_mark *out_mark, struct err *e)
{
	bool sized = t->row->takes && t->size != UINT64_MAX && t->op != FILE_TREE_PUT && t->op != FILE_CHANGES;

	q.bytes = sized ? t->size : 0;
	return ask_touches(h, rq, &q, t->touches, t->ntouches, t->row->event, out_mark, e);
}

/* ---- sessions */

enum policy_op broker_policy_op(enum session_kind kind)
{
	static const enum policy_op ops[SESSION_KINDS] = {[SESSION_TERMINAL] = POLICY_TERMINAL_OPEN,
							  [SESSION_EXEC] = POLICY_EXEC_OPEN,
							  [SESSION_ROUND] = POLICY_ROUND_START,
							  [SESSION_FILE] = POLICY_FILE_READ,
							  [SESSION_PORT] = POLICY_PORT_OPEN};

	return ops[kind];
}

bool broker_policy_is(const struct hub *h, const struct request *rq)
{
	return hub_policy(h) || hub_policy_waits(h) || rq->grant.bounds.operations;
}

/* A round of a context is a part of the call that was made of it. */
static enum policy_op op_of_round(const struct launch *l)
{
	switch (l->context.role) {
	case CONTEXT_INTERPRETER:
		return l->context.generation > 1 ? POLICY_CONTEXT_EXECUTE : POLICY_CONTEXT_CREATE;
	case CONTEXT_EXECUTION:
		return POLICY_CONTEXT_EXECUTE;
	case CONTEXT_ONCE:
		return POLICY_PYTHON_EXECUTE;
	case CONTEXT_DELETION:
		return POLICY_CONTEXT_DELETE;
	default:
		return l->shell.end ? POLICY_ROUND_INPUT : POLICY_ROUND_START;
	}
}

enum policy_op broker_policy_op_of(enum session_kind kind, const struct launch *l)
{
	if (kind == SESSION_FILE)
		return l->transfer->ntouches && l->transfer->touches[0].reads ? POLICY_FILE_READ : POLICY_FILE_WRITE;
	if (launch_is_inside(l))
		return POLICY_MCP_CALL;
	return kind == SESSION_ROUND ? op_of_round(l) : broker_policy_op(kind);
}

int broker_policy_launch(struct hub *h, const struct request *rq, const char *agent, enum session_kind kind,
			 const struct launch *l, struct policy_mark *out_mark, struct err *e)
{
	struct policy_question q = {.op = kind == SESSION_ROUND ? op_of_round(l) : broker_policy_op(kind),
				    .agent = agent,
				    .task = l->task,
				    .port = l->port,
				    .interpreter = l->context.role == CONTEXT_INTERPRETER,
				    /* A context's round has a grace besides, which is nobody's to use. */
				    .timeout_ns = l->context.role ? l->judged_ns : l->timeout_ns};
	struct policy_mark part[2] = {0};
	int rc;

	if (kind == SESSION_FILE)
		return ask_transfer(h, rq, q, l->transfer, out_mark, e);
	rc = broker_policy(h, rq, &q, session_kind_name(kind), out_mark, e);
	if (!rc && l->pty && q.op != POLICY_TERMINAL_OPEN) {
		q.op = POLICY_TERMINAL_OPEN;
		rc = broker_policy(h, rq, &q, "pty", &part[0], e);
	}
	if (!rc && l->artifacts) {
		q.op = POLICY_ARTIFACT_WRITE;
		rc = broker_policy(h, rq, &q, "artifacts", &part[1], e);
	}
	if (!out_mark)
		return rc;
	policy_mark_join(out_mark, &part[0]);
	policy_mark_join(out_mark, &part[1]);
	if (rc) /* what is denied in part was allowed by nothing */
		*out_mark = (struct policy_mark){0};
	return rc;
}

/* ---- what a profile narrows */

static const struct policy_profile *profile_of(const struct hub *h, const struct request *rq, const char *agent,
					       const char *task)
{
	const struct policy_question asked = {.agent = agent, .task = task}, q = whole(rq, &asked);

	return hub_policy(h) ? policy_profile_for(hub_policy(h), &q) : NULL;
}

bool broker_policy_shapes(const struct hub *h, const struct request *rq, const char *agent, const char *task)
{
	const struct policy_profile *p = profile_of(h, rq, agent, task);

	return p && (p->images.limited || p->images.preset || p->resources.line);
}

void broker_policy_shape(const struct hub *h, const struct request *rq, const struct policy_question *asked,
			 struct policy_shape *out)
{
	const struct policy_question q = whole(rq, asked);
	const struct verdict v = policy_verdict(hub_policy(h), &q);

	verdict_shape(&v, &q, out);
}

void broker_policy_files(const struct hub *h, const struct request *rq, const char *agent, const char *task,
			 struct grant_files *out)
{
	const struct policy_profile *p = profile_of(h, rq, agent, task);

	*out = rq->grant.files;
	if (p)
		grant_files_meet(&rq->grant.files, &p->files, out);
}

void broker_policy_size(const struct hub *h, const struct request *rq, const char *agent, const char *task,
			enum policy_op op, struct err_policy *out)
{
	const struct policy_profile *p = profile_of(h, rq, agent, task);
	const struct policy_question q = {.op = op, .agent = agent, .task = task};
	const struct verdict v = {.why = VERDICT_FILE_SIZE, .policy = hub_policy(h), .profile = p};
	uint64_t most = rq->grant.files.size_max;

	*out = (struct err_policy){0};
	if (!p || !p->limits.file_size || (most && most <= p->limits.file_size))
		return;
	text_put(out->operation, sizeof(out->operation), policy_op_name(op));
	verdict_rule(&v, &q, out->rule);
	text_put(out->version, sizeof(out->version), verdict_version(&v));
	verdict_hint(&v, &q, out->needs, sizeof(out->needs));
}

void broker_policy_record(const struct hub *h, const struct request *rq, const char *agent, const char *task,
			  enum session_kind kind, struct record_rule *out)
{
	policy_record_for(profile_of(h, rq, agent, task), session_kind_name(kind), out);
}

uint64_t broker_policy_round_time(const struct hub *h, const struct request *rq, const char *agent, const char *task)
{
	const struct policy_profile *p = profile_of(h, rq, agent, task);

	return p ? p->limits.round_time_ns : 0;
}
