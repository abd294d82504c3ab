/*
 * Contexts: made, executed in, interrupted, reset, deleted. Each begins with whose it is and ends with an answer; what
 * runs in one is ended and waited for before another begins in its place, and goes on where that one is refused.
 */
#define LOG_SUBSYS "broker"
#include "muxd/hub/broker/broker_context.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/agent/settings.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/context_call.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/session_state.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define SHELL_BEGIN_NS  (20 * NS_PER_SEC)
#define HARD_TIMEOUT_NS (CONTEXT_GRACE_MS * NS_PER_MS + 15 * NS_PER_SEC) /* past that of who looks after the time */

struct context_job {
	struct hub *hub;
	struct request rq;
	const struct context_op *op;
	struct context_wish wish; /* its texts are in wish_text */
	char *text[5], **env;
	char agent[AGENT_NAME_MAX + 1];
	struct context_use use;
	struct session_waiter waiter; /* for the end of what runs in it, then go */
	exec_go *go;
	void *go_arg;
	broker_json_done *done;
	void *arg;
};

/* A call, by its own part: run() has the agent's whole name, and the context that is meant; v NULL: none is. */
struct context_op {
	const char *event; /* NULL: it changes nothing */
	enum policy_op op;
	bool of_one, runs; /* runs: what is asked for begins something */
	void (*run)(struct context_job *j, const struct context_view *v);
};

/* ---- the job */

static void context_free(struct context_job *j)
{
	for (size_t i = 0; i < sizeof(j->text) / sizeof(j->text[0]); i++)
		free(j->text[i]);
	for (char **p = j->env; p && *p; p++)
		free(*p);
	free(j->env);
	request_finish(&j->rq);
	free(j);
}

static void context_audit(struct context_job *j, const char *outcome, const char *session, const char *message)
{
	if (!j->op->event)
		return;
	(void)audit_event(j->hub, j->op->event, &j->rq, j->agent, outcome,
			  json_pack("{s:o*,s:s*,s:s*}", "context", j->use.role ? context_use_json(&j->use) : NULL,
				    "session", session, "message", message));
}

/* result: stolen */
static void context_answer_end(struct context_job *j, int rc, const struct err *e, json_t *result)
{
	struct err here = {0};

	if (!rc && !result)
		rc = err_set(&here, ERR_NOMEM, "no memory for the answer"), e = &here;
	j->done(j->arg, rc, rc ? e : NULL, rc ? NULL : result);
	json_decref(result);
	context_free(j);
}

/* A verdict that comes of the contexts themselves is on the record, as those of rounds are. */
static void context_refuse(struct context_job *j, int rc, const struct err *e)
{
	context_audit(j, err_name(rc), NULL, e ? e->message : NULL);
	context_answer_end(j, rc, e, NULL);
}

static const struct id *sandbox_of(struct context_job *j)
{
	const struct agent *a = agent_find(j->hub, j->agent);

	return a && a->state == AGENT_UP ? &a->info.sandbox_id : NULL;
}

static void context_show(struct context_job *j)
{
	context_answer_end(j, 0, NULL,
			   contexts_show(hub_contexts(j->hub), hub_shells(j->hub), sandbox_of(j), &j->use.id));
}

static struct context_owner owner_of(const struct context_job *j)
{
	return (struct context_owner){j->agent, j->rq.grant.principal};
}

static void use_code(struct context_job *j)
{
	uint8_t sum[32];

	j->use.code_bytes = (int64_t)j->wish.code_len;
	if (EVP_Digest(j->wish.code, j->wish.code_len, sum, NULL, EVP_sha256(), NULL) == 1)
		for (int i = 0; i < 32; i++)
			snprintf(j->use.code_sha256 + (size_t)(2 * i), 3, "%02x", sum[i]);
}

/* The errors of a shell, in a context's words. */
static int context_error(struct context_job *j, int rc, const struct err *e, struct err *out)
{
	if (rc != ERR_SHELL_BUSY && rc != ERR_SHELL_ENDED)
		return rc;
	return rc == ERR_SHELL_BUSY && j->use.language == CONTEXT_BASH
		   ? err_set(out, ERR_CONTEXT_BUSY, "the context is busy: %.200s", e->message)
		   : err_set(out, ERR_CONTEXT_ENDED,
			     "the context has ended, and its variables with it: it ended with its sandbox");
}

/* ---- what runs in it ends */

static void context_on_cleared(void *arg, struct session *s)
{
	struct context_job *j = arg;
	struct err e = {0};

	if (session_result(s))
		j->go(j->go_arg, 0, NULL);
	else
		j->go(j->go_arg, err_set(&e, ERR_CANCELLED, "the daemon is stopping"), &e);
}

/* One that runs, told to end, unless it is an end itself; NULL: none does. */
static struct session *end_one(struct context_job *j, const struct id *id, const char *why)
{
	struct session *s = id_is_nil(id) ? NULL : hub_session_find(j->hub, id);

	if (!s || s->end == END_TOLD)
		return NULL;
	if (s->launch.context.role != CONTEXT_DELETION)
		session_kill(s, EXIT_KILLED, why);
	return s;
}

/* As exec_place has it: its execution and its interpreter. */
static bool context_clear(void *arg, exec_go *go, void *go_arg)
{
	struct context_job *j = arg;
	const char *why = j->op->op == POLICY_CONTEXT_DELETE ? CONTEXT_DELETED : "the context was reset";
	struct context_owner o = owner_of(j);
	struct session *busy, *interpreter;
	struct context_view v;

	if (contexts_find(hub_contexts(j->hub), &o, &j->use.id, &v, NULL))
		return true; /* gone by that end */
	busy = end_one(j, &v.busy, why);
	interpreter = end_one(j, &v.session, why);
	if (!busy && !interpreter)
		return true;
	j->go = go;
	j->go_arg = go_arg;
	session_wait(busy ? busy : interpreter, &j->waiter, context_on_cleared, j);
	return false;
}

/* ---- a round of it begins */

static bool context_runs_code(enum context_role role)
{
	return role == CONTEXT_EXECUTION || role == CONTEXT_ONCE;
}

static uint64_t hard_timeout(const struct context_job *j)
{
	uint64_t max = hub_conf(j->hub)->round_timeout_max_ns, ns = j->wish.timeout_ns;

	if (j->use.role == CONTEXT_INTERPRETER && j->use.language == CONTEXT_BASH)
		return SHELL_BEGIN_NS < max ? SHELL_BEGIN_NS : max;
	if (j->use.role != CONTEXT_EXECUTION || j->use.language == CONTEXT_BASH)
		return ns;
	return ns + HARD_TIMEOUT_NS < max ? ns + HARD_TIMEOUT_NS : max;
}

/* Of an execution that asks for no time: the agent's, else `usual`, or the longest that its profile allows. */
static int context_default_time(struct context_job *j, uint64_t usual, struct err *e)
{
	uint64_t most = broker_policy_round_time(j->hub, &j->rq, j->agent, j->wish.task);
	int rc = j->wish.timeout_ns ? 0 : settings_exec_timeout(j->hub, j->agent, &usual, e);

	if (!j->wish.timeout_ns)
		j->wish.timeout_ns = most && most < usual ? most : usual;
	return rc;
}

/* v: the context as it is, NULL: a new one. A reset, and the end of a shell, take the place of what runs in it. */
static void context_open(struct context_job *j, const struct context_view *v, const char *const *env, const char *cwd,
			 broker_open_done *then)
{
	bool begins = j->use.role == CONTEXT_INTERPRETER, ends = j->use.role == CONTEXT_DELETION;
	struct exec_place place = {.clear = context_clear, .arg = j};
	struct exec_spec spec = {.kind = SESSION_ROUND,
				 .agent = j->agent,
				 .task = j->wish.task,
				 .exec_id = j->wish.exec_id,
				 .env = env,
				 .cwd = cwd,
				 .context = &j->use,
				 .place = v && (begins || ends) ? &place : NULL,
				 .timeout_ns = hard_timeout(j),
				 .judged_ns = context_runs_code(j->use.role) ? j->wish.timeout_ns : 0,
				 .head = UINT64_MAX,
				 .tail = UINT64_MAX};
	struct context_call call;
	char shell[64];

	if (v)
		place.of[0] = v->session, place.of[1] = v->busy;
	if (j->use.language == CONTEXT_BASH) {
		context_shell_name(&j->use.id, shell);
		spec.shell = shell;
		spec.shell_anew = begins;
		spec.shell_end = ends;
		spec.command = begins ? ":" : spec.shell_end ? NULL : j->wish.code;
	} else {
		context_call(&j->use, (int64_t)(j->wish.timeout_ns / NS_PER_MS), &call);
		spec.argv = call.argv;
		spec.stdin_data = j->wish.code;
		spec.stdin_len = j->wish.code_len;
		spec.stdin_open = !begins; /* its length is told, so that no end is needed where a protocol has none */
	}
	broker_open(j->hub, &j->rq, &spec, NULL, NULL, then, j);
}

/* A shell's first round has ended: with 0, or it is none. */
static void context_on_shell(void *arg, int rc, const struct err *e, json_t *round)
{
	struct context_job *j = arg;
	const json_t *exit = json_object_get(round, "exit"), *code = json_object_get(exit, "code");
	struct err here = {0};

	if (!rc && !(json_is_integer(code) && json_integer_value(code) == 0))
		rc = err_set(&here, ERR_UNAVAILABLE, "bash did not begin: %.300s",
			     json_get_text(json_object_get(round, "stderr"), "data")),
		err_set_begun(&here, json_get_text(round, "round_id"), true), e = &here;
	if (rc) {
		context_refuse(j, rc, e);
		return;
	}
	context_audit(j, "ok", json_get_text(round, "round_id"), NULL);
	context_show(j);
}

static void context_on_begun(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			     const struct id *seen)
{
	struct context_job *j = arg;
	char id[ID_STR_LEN];

	(void)a, (void)seen; /* nobody attaches, and its exec_id is its own */
	if (rc) {
		context_refuse(j, rc, e);
	} else if (j->use.language == CONTEXT_BASH) {
		broker_round_wait(j->hub, &j->rq, session_id(s), SHELL_BEGIN_NS, context_on_shell, j);
	} else {
		id_format(session_id(s), id);
		context_audit(j, "ok", id, NULL);
		context_show(j);
	}
}

static void context_create(struct context_job *j, const struct context_view *v)
{
	struct err e = {0};

	(void)v;
	j->use = (struct context_use){.role = CONTEXT_INTERPRETER, .language = j->wish.language, .generation = 1};
	if (id_new(&j->use.id))
		context_refuse(j, err_set(&e, ERR_NOMEM, "no id for the context"), &e);
	else
		context_open(j, NULL, j->wish.env, j->wish.cwd, context_on_begun);
}

/* ---- executions */

static void context_on_execution(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
				 const struct id *seen)
{
	struct context_job *j = arg;
	struct err here = {0};
	struct id id;
	char text[ID_STR_LEN];

	(void)a;
	if (rc) {
		rc = context_error(j, rc, e, &here);
		context_refuse(j, rc, here.code ? &here : e);
		return;
	}
	id = seen ? *seen : *session_id(s);
	id_format(&id, text);
	if (!seen)
		context_audit(j, "ok", text, NULL);
	broker_execution(j->hub, &j->rq, &id, j->wish.wait_ns, j->done, j->arg);
	context_free(j);
}

static void context_execute(struct context_job *j, const struct context_view *v)
{
	struct context_owner o = owner_of(j);
	struct err e = {0};
	int rc;

	j->use = v->use;
	j->use.role = CONTEXT_EXECUTION;
	use_code(j);
	rc = context_default_time(j, hub_conf(j->hub)->round_timeout_ns, &e);
	/* The same exec_id again may be of one that it had before it ended. Nobody is woken for one that has. */
	if (!rc && !j->wish.exec_id)
		rc = contexts_enter(hub_contexts(j->hub), &o, &j->use, &e);
	if (rc)
		context_refuse(j, rc, &e);
	else
		context_open(j, v, NULL, NULL, context_on_execution);
}

static void context_python(struct context_job *j, const struct context_view *v)
{
	struct err e = {0};

	(void)v;
	j->use = (struct context_use){.role = CONTEXT_ONCE, .language = CONTEXT_PYTHON};
	use_code(j);
	if (context_default_time(j, PYTHON_TIMEOUT_NS, &e))
		context_refuse(j, e.code, &e);
	else
		context_open(j, NULL, j->wish.env, j->wish.cwd, context_on_execution);
}

/* ---- interrupt */

static void context_interrupt(struct context_job *j, const struct context_view *v)
{
	struct err e = {0};
	char id[ID_STR_LEN];
	int rc = id_is_nil(&v->busy) ? err_set(&e, ERR_BAD_STATE, "the context is idle: there is nothing to interrupt")
				     : broker_round_signal(j->hub, &j->rq, &v->busy, 2 /* INT */, &e);

	if (rc) {
		context_refuse(j, rc, &e);
		return;
	}
	id_format(&v->busy, id);
	context_audit(j, "ok", id, NULL);
	context_show(j);
}

/* ---- reset and end */

static void shell_on_deleted(void *arg, int rc, const struct err *e, json_t *round)
{
	struct context_job *j = arg;

	if (rc) {
		context_refuse(j, rc, e);
		return;
	}
	context_audit(j, "ok", json_get_text(round, "round_id"), NULL);
	context_show(j);
}

static void shell_on_deletion(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			      const struct id *seen)
{
	struct context_job *j = arg;

	(void)a, (void)seen;
	if (rc)
		context_refuse(j, rc, e);
	else
		broker_round_wait(j->hub, &j->rq, session_id(s), SHELL_BEGIN_NS, shell_on_deleted, j);
}

static void context_gone(struct context_job *j)
{
	struct shell_owner o = {j->agent, j->rq.grant.principal};
	char name[64];

	context_shell_name(&j->use.id, name);
	if (j->use.language == CONTEXT_BASH)
		(void)shells_forget(hub_shells(j->hub), &o, name, NULL);
	contexts_forget(hub_contexts(j->hub), &j->use.id);
	context_audit(j, "ok", NULL, NULL);
	context_show(j);
}

static void context_end(struct context_job *j);

static void context_on_end(void *arg, int rc, const struct err *e)
{
	if (rc)
		context_refuse(arg, rc, e);
	else
		context_end(arg);
}

/* A shell that is kept in the sandbox as it runs is removed there, by a round; of another there is nothing to remove,
 * and an interpreter is ended as it is. */
static void context_end(struct context_job *j)
{
	struct context_owner o = owner_of(j);
	struct shell_owner so = {j->agent, j->rq.grant.principal};
	const struct id *now = sandbox_of(j);
	struct context_view v;
	char name[64];
	bool there = contexts_find(hub_contexts(j->hub), &o, &j->use.id, &v, NULL) == 0;

	context_shell_name(&j->use.id, name);
	if (there && j->use.language == CONTEXT_BASH && now && shells_kept_in(hub_shells(j->hub), &so, name, now)) {
		j->use.role = CONTEXT_DELETION;
		context_open(j, &v, NULL, NULL, shell_on_deletion);
	} else if (context_clear(j, context_on_end, j)) {
		context_gone(j);
	}
}

static void context_delete(struct context_job *j, const struct context_view *v)
{
	j->use = v->use;
	context_end(j);
}

static void context_reset(struct context_job *j, const struct context_view *v)
{
	struct err e = {0};

	j->use = v->use;
	j->use.role = CONTEXT_INTERPRETER;
	j->use.generation++;
	if (v->env_lost && !j->wish.env)
		context_refuse(j,
			       err_set(&e, ERR_BAD_STATE,
				       "the daemon was restarted, and the values of the context's environment are not "
				       "kept over that: send env with the reset"),
			       &e);
	else
		context_open(j, v, j->wish.env ? j->wish.env : v->env, v->cwd, context_on_begun);
}

/* ---- list */

static void context_look(struct context_job *j, const struct context_view *v)
{
	struct context_owner o = owner_of(j);

	(void)v;
	if (id_is_nil(&j->wish.id))
		context_answer_end(
		    j, 0, NULL,
		    json_pack("{s:o}", "contexts",
			      contexts_list(hub_contexts(j->hub), hub_shells(j->hub), sandbox_of(j), &o)));
	else
		context_show(j);
}

/* ---- the calls */

static void context_on_named(void *arg, const struct sandbox_answer *r)
{
	struct context_job *j = arg;
	struct context_owner o;
	struct context_view v;
	struct err e = {0};
	int rc;

	if (r->rc) {
		context_answer_end(j, r->rc, r->e, NULL);
		return;
	}
	text_put(j->agent, sizeof(j->agent), r->name);
	o = owner_of(j);
	rc = j->op->of_one ? contexts_find(hub_contexts(j->hub), &o, &j->wish.id, &v, &e) : 0;
	if (rc) {
		context_refuse(j, rc, &e);
		return;
	}
	if (j->op->of_one)
		j->use.id = j->wish.id;
	j->op->run(j, j->op->of_one ? &v : NULL);
}

static int copy_text(char **out, const char **io, size_t n)
{
	char *p = *io ? malloc(n + 1) : NULL;

	if (p) {
		memcpy(p, *io, n);
		p[n] = '\0';
	}
	*out = p;
	if (*io && !p)
		return ERR_NOMEM;
	*io = p;
	return 0;
}

static int copy_wish(struct context_job *j, const struct context_wish *w)
{
	struct context_wish *c = &j->wish;
	const char **texts[] = {&c->agent, &c->task, &c->exec_id, &c->cwd};
	size_t n = 0;
	int rc = 0;

	*c = *w;
	for (size_t i = 0; i < 4 && !rc; i++)
		rc = copy_text(&j->text[i], texts[i], *texts[i] ? strlen(*texts[i]) : 0);
	if (!rc)
		rc = copy_text(&j->text[4], &c->code, w->code_len);
	while (w->env && w->env[n])
		n++;
	if (!rc && w->env && !(j->env = calloc(n + 1, sizeof(*j->env))))
		rc = ERR_NOMEM;
	for (size_t i = 0; !rc && i < n; i++)
		rc = (j->env[i] = strdup(w->env[i])) ? 0 : ERR_NOMEM;
	c->env = (const char *const *)j->env;
	return rc;
}

static void context_ask(struct hub *h, const struct request *rq, const struct context_wish *w,
			const struct context_op *op, broker_json_done *done, void *arg)
{
	struct context_job *j = calloc(1, sizeof(*j));
	struct err e = {0};
	const struct policy_question q = {.op = op->op,
					  .agent = w->agent,
					  .task = w->task,
					  .opens_nothing = !op->runs,
					  .ends = op->run == context_interrupt || op->run == context_delete,
					  .timeout_ns = w->timeout_ns};
	struct policy_mark mark = {0};
	int rc = j ? broker_check_call(h, rq, &q, SCOPE_ROUNDS, op->event ? op->event : "contexts",
				       op->event ? &mark : NULL, &e)
		   : err_set(&e, ERR_NOMEM, "no memory");

	if (!rc && copy_wish(j, w)) {
		context_free(j);
		j = NULL;
		rc = err_set(&e, ERR_NOMEM, "no memory");
	}
	if (rc) {
		free(j);
		done(arg, rc, &e, NULL);
		return;
	}
	j->hub = h;
	j->rq = *rq;
	j->rq.policy = mark;
	j->op = op;
	j->done = done;
	j->arg = arg;
	text_put(j->agent, sizeof(j->agent), w->agent);
	hub_resolve(h, j->agent, context_on_named, j);
}

#define CONTEXT_CALL(name, event, op_of, one, begins, fn)                                                              \
	void name(struct hub *h, const struct request *rq, const struct context_wish *w, broker_json_done *done,       \
		  void *arg)                                                                                           \
	{                                                                                                              \
		static const struct context_op op = {event, op_of, one, begins, fn};                                   \
                                                                                                                       \
		context_ask(h, rq, w, &op, done, arg);                                                                 \
	}

CONTEXT_CALL(broker_context_create, "context.create", POLICY_CONTEXT_CREATE, false, true, context_create)
CONTEXT_CALL(broker_context_reset, "context.reset", POLICY_CONTEXT_EXECUTE, true, false, context_reset)
CONTEXT_CALL(broker_context_delete, "context.delete", POLICY_CONTEXT_DELETE, true, false, context_delete)
CONTEXT_CALL(broker_context_interrupt, "context.interrupt", POLICY_CONTEXT_EXECUTE, true, false, context_interrupt)
CONTEXT_CALL(broker_context_execute, "context.execute", POLICY_CONTEXT_EXECUTE, true, true, context_execute)
CONTEXT_CALL(broker_python, "python.execute", POLICY_PYTHON_EXECUTE, false, true, context_python)

void broker_context_show(struct hub *h, const struct request *rq, const struct context_wish *w, broker_json_done *done,
			 void *arg)
{
	static const struct context_op one = {NULL, POLICY_CONTEXT_READ, true, false, context_look},
				       all = {NULL, POLICY_CONTEXT_READ, false, false, context_look};

	context_ask(h, rq, w, id_is_nil(&w->id) ? &all : &one, done, arg);
}
