/*
 * Shells of who asks: a list, and the end of one. The end of one whose sandbox runs is a round like its others, which
 * removes what is kept; of another there is nothing left to remove.
 */
#define LOG_SUBSYS "broker"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

#define END_TIMEOUT_NS (20 * NS_PER_SEC)

struct shell_job {
	struct hub *hub;
	struct request rq;
	char agent[AGENT_NAME_MAX + 1], name[SHELL_NAME_MAX + 1], task[GRANT_NAME_MAX + 1];
	broker_json_done *done;
	void *arg;
};

static void shell_answer(struct shell_job *j, int rc, const struct err *e, json_t *result)
{
	struct err here = {0};

	if (!rc && !result)
		rc = err_set(&here, ERR_NOMEM, "no memory for the answer"), e = &here;
	j->done(j->arg, rc, rc ? e : NULL, rc ? NULL : result);
	json_decref(result);
	request_finish(&j->rq);
	free(j);
}

/* The sandbox as it is known to run now; NULL: it is not known. */
static const struct id *sandbox_now(struct hub *h, const char *agent)
{
	const struct agent *a = agent_find(h, agent);

	return a && a->state == AGENT_UP ? &a->info.sandbox_id : NULL;
}

/* A verdict that comes of the shells themselves is on the record, as those of rounds are. */
static void shell_refuse(struct shell_job *j, int rc, const struct err *e)
{
	(void)audit_event(j->hub, "shell.end", &j->rq, j->agent, err_name(rc),
			  json_pack("{s:s,s:s}", "shell", j->name, "message", e->message));
	shell_answer(j, rc, e, NULL);
}

/* Nothing of it is kept in a sandbox that runs. */
static void forget_shell(struct shell_job *j, const struct shell_owner *o)
{
	struct err e = {0};
	int rc = shells_forget(hub_shells(j->hub), o, j->name, &e);

	if (rc) {
		shell_refuse(j, rc, &e);
		return;
	}
	(void)audit_event(j->hub, "shell.end", &j->rq, j->agent, "ok", json_pack("{s:s}", "shell", j->name));
	shell_answer(j, 0, NULL, json_pack("{s:s,s:n}", "name", j->name, "round_id"));
}

static void shell_on_ended(void *arg, int rc, const struct err *e, json_t *round)
{
	struct shell_job *j = arg;
	const char *id = rc ? NULL : json_string_value(json_object_get(round, "round_id"));
	const json_t *code = json_object_get(json_object_get(round, "exit"), "code");
	struct err here = {0};

	if (!rc && !(json_is_integer(code) && json_integer_value(code) == 0))
		rc = err_set(&here, ERR_UNAVAILABLE, "shell %s has not ended: round %s says why", j->name, id ?: "?"),
		err_set_begun(&here, id, true), e = &here;
	if (rc) {
		shell_refuse(j, rc, e);
		return;
	}
	(void)audit_event(j->hub, "shell.end", &j->rq, j->agent, "ok",
			  json_pack("{s:s,s:s?}", "shell", j->name, "session", id));
	shell_answer(j, 0, NULL, json_pack("{s:s,s:s?}", "name", j->name, "round_id", id));
}

static void shell_on_opened(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			    const struct id *seen)
{
	struct shell_job *j = arg;

	(void)a, (void)seen; /* nobody attaches, and its exec_id is its own */
	if (rc)
		shell_answer(j, rc, e, NULL);
	else
		broker_round_wait(j->hub, &j->rq, session_id(s), END_TIMEOUT_NS, shell_on_ended, j);
}

static void shell_on_named(void *arg, const struct sandbox_answer *r)
{
	struct shell_job *j = arg;
	struct shell_owner o = {j->agent, j->rq.grant.principal};
	const struct id *now = r->rc ? NULL : sandbox_now(j->hub, r->name);
	struct exec_spec spec = {.kind = SESSION_ROUND,
				 .agent = j->agent,
				 .task = j->task[0] ? j->task : NULL,
				 .shell = j->name,
				 .shell_end = true,
				 .only_in = now, /* which keeps it: none is woken to forget it */
				 .timeout_ns = END_TIMEOUT_NS,
				 .head = UINT64_MAX,
				 .tail = UINT64_MAX};

	if (r->rc) {
		shell_answer(j, r->rc, r->e, NULL);
		return;
	}
	text_put(j->agent, sizeof(j->agent), r->name);
	if (!j->name[0])
		shell_answer(j, 0, NULL, json_pack("{s:o}", "shells", shells_list(hub_shells(j->hub), &o, now)));
	else if (now && shells_kept_in(hub_shells(j->hub), &o, j->name, now))
		broker_open(j->hub, &j->rq, &spec, NULL, NULL, shell_on_opened, j);
	else
		forget_shell(j, &o);
}

static void shell_ask(struct hub *h, const struct request *rq, const char *agent, const char *name, const char *task,
		      const char *what, broker_json_done *done, void *arg)
{
	struct shell_job *j = calloc(1, sizeof(*j));
	struct err e = {0};
	const struct policy_question q = {
	    .op = name ? POLICY_ROUND_INPUT : POLICY_ROUND_READ, .agent = agent, .task = task};
	struct policy_mark mark = {0};
	int rc = j ? broker_check_call(h, rq, &q, SCOPE_ROUNDS, what, name ? &mark : NULL, &e)
		   : err_set(&e, ERR_NOMEM, "no memory");

	if (!rc && name)
		rc = shell_name_check("the name in the path", name, &e);
	if (rc) {
		free(j);
		done(arg, rc, &e, NULL);
		return;
	}
	j->hub = h;
	j->rq = *rq;
	j->rq.policy = mark;
	j->done = done;
	j->arg = arg;
	text_put(j->agent, sizeof(j->agent), agent);
	text_put(j->name, sizeof(j->name), name ?: "");
	text_put(j->task, sizeof(j->task), task ?: "");
	hub_resolve(h, j->agent, shell_on_named, j);
}

void broker_shells(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg)
{
	shell_ask(h, rq, agent, NULL, NULL, "shells", done, arg);
}

void broker_shell_end(struct hub *h, const struct request *rq, const char *agent, const char *name, const char *task,
		      broker_json_done *done, void *arg)
{
	shell_ask(h, rq, agent, name, task, "shell.end", done, arg);
}
