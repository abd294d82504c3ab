/* MCP servers of an agent: who may set, see, approve and use them, and what each call answers. */
#define LOG_SUBSYS "broker"
#include "muxd/hub/inside/broker_inside.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "control/servers/catalogue.h"
#include "control/servers/digest.h"
#include "control/servers/lists.h"
#include "control/servers/server_def.h"
#include "control/servers/servers.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/access/gate.h"
#include "muxd/hub/access/grant_use.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/broker/broker_shape.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/inside/inside_discovery.h"
#include "muxd/hub/inside/inside_may.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"

#include <stdlib.h>
#include <string.h>

#define SCOPES_SET (SCOPE_LIFECYCLE | SCOPE_ADMIN)
#define SCOPES_SEE (SCOPE_ROUNDS | SCOPES_SET)

struct servers_call;
struct servers_op {
	const char *event;
	enum policy_op op;
	uint32_t any;                        /* scopes, one of which is needed */
	void (*run)(struct servers_call *j); /* its agent is known, and the record can be written */
};

struct servers_call {
	struct hub *hub;
	struct request rq;
	const struct servers_op *op;
	char agent[AGENT_NAME_MAX + 1], server[SERVER_NAME_MAX + 1], task[GRANT_NAME_MAX + 1];
	char fingerprint[65];
	int64_t version;
	json_t *list; /* set */
	broker_json_done *done;
	void *arg;
};

/* result: stolen */
static void servers_answer(struct servers_call *j, int rc, const struct err *e, json_t *result)
{
	struct err here = {0};

	if (!rc && !result)
		rc = err_set(&here, ERR_NOMEM, "no memory for the answer"), e = &here;
	j->done(j->arg, rc, rc ? e : NULL, rc ? NULL : result);
	json_decref(result);
	json_decref(j->list);
	request_finish(&j->rq);
	free(j);
}

/* Looks at what is not there are no events. */
static void servers_refuse(struct servers_call *j, int rc, const struct err *e)
{
	if (j->op->op != POLICY_MCP_READ)
		(void)audit_event(
		    j->hub, j->op->event, &j->rq, j->agent, err_name(rc),
		    json_pack("{s:s*,s:s}", "server", j->server[0] ? j->server : NULL, "message", e->message));
	servers_answer(j, rc, e, NULL);
}

static int find_server(struct hub *h, const char *agent, const char *server, json_t **out_list, struct server_def *out,
		       struct err *e)
{
	json_t *list = NULL;
	int rc = lists_get(hub_store(h), &list_servers, agent, 0, &list, e);

	if (!rc)
		rc = server_list_find(json_object_get(list, "servers"), server, out, e);
	if (rc)
		json_decref(list);
	else
		*out_list = list;
	return rc;
}

/* ---- the list */

static void add_states(struct servers_call *j, json_t *answer)
{
	struct server_def d;
	size_t i;
	json_t *v;

	json_array_foreach(json_object_get(answer, "servers"), i, v)
	{
		json_t *state;

		if (server_list_find(json_object_get(answer, "servers"), json_get_text(v, "name"), &d, NULL))
			continue;
		state = inside_show(inside_find(j->hub, j->agent, &d), false);
		json_object_update_missing(v, state);
		json_decref(state);
	}
}

static void servers_show(struct servers_call *j)
{
	json_t *answer = NULL;
	struct err e = {0};
	int rc = lists_get(hub_store(j->hub), &list_servers, j->agent, j->version, &answer, &e);

	if (!rc && !j->version)
		add_states(j, answer);
	servers_answer(j, rc, &e, answer);
}

static void servers_on_set(void *arg, int rc, const struct err *e, json_t *result)
{
	struct servers_call *j = arg;

	if (rc == ERR_LIST_CHANGED) {
		servers_refuse(j, rc, e);
		return;
	}
	if (!rc)
		insides_configured(j->hub, j->agent, json_object_get(result, "servers"));
	servers_answer(j, rc, e, json_incref(result));
}

static void servers_set(struct servers_call *j)
{
	json_t *call = audit_request_json(&j->rq);

	lists_put(hub_store(j->hub), &list_servers,
		  &(struct list_put){.agent = j->agent,
				     .list = j->list,
				     .if_version = j->version,
				     .principal = j->rq.grant.principal,
				     .call = call,
				     .now_ns = hub_now_wall(j->hub)},
		  servers_on_set, j);
	json_decref(call);
}

/* ---- one */

/* Tools that this grant may use, each with its fingerprint. */
static json_t *tools_json(struct servers_call *j, const json_t *stored)
{
	const json_t *tools = json_object_get(json_object_get(stored, "catalogue"), "tools"), *seen;
	json_t *list = json_array(), *v, *copy;
	size_t i;

	seen = json_object_get(stored, "seen");
	json_array_foreach(tools, i, v)
	{
		const char *name = json_get_text(v, "name");

		if (!inside_may_see(j->hub, &j->rq, j->agent, j->task, j->server, name) || !(copy = json_copy(v)))
			continue;
		json_object_set(copy, "fingerprint", json_object_get(seen, name));
		json_array_append_new(list, copy);
	}
	return list;
}

/* stored NULL: nobody has seen its tools. */
static json_t *server_json(struct servers_call *j, const struct server_def *d, json_t *list, const json_t *stored)
{
	json_t *o = inside_show(inside_find(j->hub, j->agent, d), true), *definition = NULL, *v, *tools = NULL;
	size_t i;

	json_array_foreach(json_object_get(list, "servers"), i, v) if (strcmp(json_get_text(v, "name"), d->name) == 0)
	    definition = v;
	if (stored)
		tools = json_pack("{s:O,s:O,s:O,s:O,s:O,s:O*,s:o}", "seen_at", json_object_get(stored, "seen_at"),
				  "fingerprint", json_object_get(stored, "fingerprint"), "approved_at",
				  json_object_get(stored, "approved_at"), "approved_by",
				  json_object_get(stored, "approved_by"), "changes", json_object_get(stored, "changes"),
				  "server_info", json_object_get(json_object_get(stored, "catalogue"), "serverInfo"),
				  "list", tools_json(j, stored));
	if (o) {
		json_object_set_new(o, "agent", json_string(j->agent));
		json_object_set(o, "version", json_object_get(list, "version"));
		json_object_set(o, "server", definition);
		json_object_set_new(o, "tools", tools ? tools : json_null());
	}
	return o;
}

/* Its tools as the store has them, for its answer. */
static void server_answer(struct servers_call *j)
{
	json_t *list = NULL, *stored = NULL, *answer = NULL;
	struct server_def d;
	struct err e = {0};
	int rc = find_server(j->hub, j->agent, j->server, &list, &d, &e);

	if (!rc) {
		const struct catalogue_key k = {j->agent, j->server, d.fingerprint};

		rc = catalogue_get(hub_store(j->hub), &k, &stored, &e);
		rc = rc == ERR_NOT_FOUND ? 0 : rc;
		answer = rc ? NULL : server_json(j, &d, list, stored);
	}
	json_decref(stored);
	json_decref(list);
	if (rc)
		servers_refuse(j, rc, &e);
	else
		servers_answer(j, 0, NULL, answer);
}

static void server_on_refreshed(void *arg, int rc, const struct err *e, json_t *stored)
{
	struct servers_call *j = arg;

	if (rc) {
		servers_refuse(j, rc, e);
		return;
	}
	(void)audit_event(j->hub, j->op->event, &j->rq, j->agent, "ok",
			  json_pack("{s:s,s:s,s:I}", "server", j->server, "fingerprint",
				    json_get_text(stored, "fingerprint"), "changes",
				    (json_int_t)json_array_size(json_object_get(stored, "changes"))));
	server_answer(j);
}

/* Its tools are read: where it is awake, or without waking it. */
static int look_at(struct hub *h, const struct request *rq, struct agent *a, const char *task,
		   const struct server_def *d, broker_json_done *done, void *arg, struct err *e)
{
	struct inside *x;

	if (inside_sleeps(h, a->name))
		return inside_discover(h, rq, a->name, task, d, done, arg, e);
	x = inside_get(h, a, d);
	return x ? inside_refresh(x, rq, task, done, arg, e) : err_set(e, ERR_NOMEM, "no memory");
}

/* There is that server, and the caller may have it begun. */
static int server_may_look(struct servers_call *j, struct err *e)
{
	json_t *list = NULL;
	struct server_def d;
	int rc = broker_in_force(j->hub, &j->rq, j->op->event, e);

	if (!rc)
		rc = find_server(j->hub, j->agent, j->server, &list, &d, e);
	json_decref(list);
	return rc ? rc : inside_may(j->hub, &j->rq, j->agent, j->task, j->server, NULL, j->op->event, e);
}

static void server_refresh(struct servers_call *j)
{
	struct agent *a = agent_get(j->hub, j->agent);
	json_t *list = NULL;
	struct server_def d;
	struct err e = {0};
	int rc = a ? find_server(j->hub, j->agent, j->server, &list, &d, &e) : err_set(&e, ERR_NOMEM, "no memory");

	if (!rc)
		rc = look_at(j->hub, &j->rq, a, j->task, &d, server_on_refreshed, j, &e);
	json_decref(list);
	if (rc)
		servers_refuse(j, rc, &e);
}

static void server_on_approved(void *arg, int rc, const struct err *e, json_t *stored)
{
	struct servers_call *j = arg;
	json_t *list = NULL;
	struct server_def d;
	struct inside *x;

	(void)stored;
	if (rc) {
		servers_refuse(j, rc, e);
		return;
	}
	if (find_server(j->hub, j->agent, j->server, &list, &d, NULL) == 0 && (x = inside_find(j->hub, j->agent, &d)))
		inside_approved(x);
	json_decref(list);
	server_answer(j);
}

static void server_approve(struct servers_call *j)
{
	json_t *call = audit_request_json(&j->rq), *list = NULL;
	struct server_def d;
	struct err e = {0};
	int rc = find_server(j->hub, j->agent, j->server, &list, &d, &e);

	if (rc)
		servers_refuse(j, rc, &e);
	else
		catalogue_approve(hub_store(j->hub), &(struct catalogue_key){j->agent, j->server, d.fingerprint},
				  j->fingerprint, j->rq.grant.principal, call, hub_now_wall(j->hub), server_on_approved,
				  j);
	json_decref(list);
	json_decref(call);
}

/* ---- the calls about them */

static void servers_on_used(void *arg, int rc, const struct err *e)
{
	struct servers_call *j = arg;
	struct err here = {0};

	if (!rc && (rc = server_may_look(j, &here)))
		e = &here;
	if (rc == ERR_CANCELLED)
		servers_answer(j, rc, e, NULL);
	else if (rc)
		servers_refuse(j, rc, e);
	else
		j->op->run(j);
}

/* To read a server's tools anew its program is begun, where it does not run, and asked. */
static void servers_on_writable(void *arg, int rc, const struct err *e)
{
	struct servers_call *j = arg;
	struct err here = {0};

	if (rc) {
		servers_answer(j, rc, e, NULL);
		return;
	}
	if (j->op->run == server_refresh)
		rc = server_may_look(j, &here);
	if (!rc && j->op->run == server_refresh)
		rc = grant_use(j->hub, &j->rq, &(struct grant_use_of){.agent = j->agent}, servers_on_used, j, &here);
	if (rc == GATE_WAITS)
		return;
	if (rc)
		servers_refuse(j, rc, &here);
	else
		j->op->run(j);
}

static void servers_on_named(void *arg, const struct sandbox_answer *r)
{
	struct servers_call *j = arg;
	struct err e = {0};
	int rc = r->rc;

	if (rc) {
		servers_answer(j, rc, r->e, NULL);
		return;
	}
	text_put(j->agent, sizeof(j->agent), r->name);
	rc = gate_pass(j->hub, &j->rq, servers_on_writable, j, &e);
	if (rc != GATE_WAITS)
		servers_on_writable(j, rc, &e);
}

static int servers_prepare(struct servers_call *j, const struct inside_wish *w, struct err *e)
{
	const char *task = "";
	const struct policy_question q = {.op = j->op->op, .agent = w->agent, .task = w->task, .server = w->server};
	int rc = w->server ? server_name_check(w->server, e) : 0;

	if (!rc)
		rc = broker_reach_any(j->hub, &j->rq, w->agent, j->op->any, j->op->event, e);
	if (!rc && w->task)
		rc = broker_task(j->hub, &j->rq, w->agent, w->task, j->op->event, &task, e);
	if (!rc)
		rc = broker_policy(j->hub, &j->rq, &q, j->op->event,
				   j->op->op == POLICY_MCP_READ ? NULL : &j->rq.policy, e);
	/* A list is programs that run in there: that of a leased sandbox is its lease's principal's. */
	if (!rc && j->op->any == SCOPES_SET)
		rc = broker_check_enter(j->hub, &j->rq, w->agent, j->op->event, e);
	if (!rc && !hub_store(j->hub))
		rc = err_set(e, ERR_UNSUPPORTED, "there are no MCP servers here: there is no store for their list");
	if (!rc && w->list && (rc = server_list_check(w->list, &j->list, e)))
		rc = broker_refused(j->hub, &j->rq, w->agent, j->op->event, e);
	text_put(j->agent, sizeof(j->agent), w->agent);
	text_put(j->server, sizeof(j->server), w->server ? w->server : "");
	text_put(j->task, sizeof(j->task), w->task ? task : j->rq.grant.task);
	text_put(j->fingerprint, sizeof(j->fingerprint), w->fingerprint ? w->fingerprint : "");
	j->version = w->version;
	return rc;
}

static void servers_ask(struct hub *h, const struct request *rq, const struct inside_wish *w,
			const struct servers_op *op, broker_json_done *done, void *arg)
{
	struct servers_call *j = calloc(1, sizeof(*j));
	struct err e = {0};
	int rc;

	if (!j) {
		done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
		return;
	}
	*j = (struct servers_call){.hub = h, .rq = *rq, .op = op, .done = done, .arg = arg};
	rc = servers_prepare(j, w, &e);
	if (rc)
		servers_answer(j, rc, &e, NULL);
	else
		hub_resolve(h, j->agent, servers_on_named, j);
}

#define SERVERS_CALL(name, event, op_of, any, fn)                                                                      \
	void name(struct hub *h, const struct request *rq, const struct inside_wish *w, broker_json_done *done,        \
		  void *arg)                                                                                           \
	{                                                                                                              \
		static const struct servers_op op = {event, op_of, any, fn};                                           \
                                                                                                                       \
		servers_ask(h, rq, w, &op, done, arg);                                                                 \
	}

SERVERS_CALL(broker_servers_set, "mcp.servers", POLICY_MCP_SET, SCOPES_SET, servers_set)
SERVERS_CALL(broker_servers_show, "mcp.list", POLICY_MCP_READ, SCOPES_SEE, servers_show)
SERVERS_CALL(broker_server_show, "mcp.show", POLICY_MCP_READ, SCOPES_SEE, server_answer)
SERVERS_CALL(broker_server_refresh, "mcp.refresh", POLICY_MCP_CALL, SCOPE_ROUNDS, server_refresh)
SERVERS_CALL(broker_server_approve, "mcp.approve", POLICY_MCP_SET, SCOPES_SET, server_approve)

/* ---- a request */

struct inside_job {
	struct hub *hub;
	struct request rq;
	char agent[AGENT_NAME_MAX + 1], server[SERVER_NAME_MAX + 1], task[GRANT_NAME_MAX + 1];
	char *method, *exec_id;
	char digest[INSIDE_DIGEST_SZ]; /* with an exec_id */
	json_t *params;
	uint64_t timeout_ns;
	unsigned declared;
	bool listens;
	json_t *ahead;
	struct inside_ops ops, mine; /* of its caller; of this file, the same ones */
	void *arg;
	struct inside_call *call; /* while the server has it */
	bool gone;                /* its caller wants it no more */
	bool used;                /* it has been counted as a use of the grant */
	bool *over;               /* of who began it, and is not back from that yet; NULL */
};

static void inside_job_free(struct inside_job *j)
{
	request_finish(&j->rq);
	free(j->method);
	free(j->exec_id);
	json_decref(j->params);
	json_decref(j->ahead);
	free(j);
}

/* A grant that ended while its holder waited gets no answer. */
static void inside_job_end(struct inside_job *j, int rc, const struct err *e, const json_t *answer, const char *round)
{
	struct err here = {0};

	if (!rc && !j->gone && (rc = broker_in_force(j->hub, &j->rq, "mcp.request", &here)))
		e = &here, answer = NULL;
	if (j->over)
		*j->over = true;
	if (!j->gone)
		j->ops.done(j->arg, rc, e, answer, round);
	inside_job_free(j);
}

static void inside_job_refuse(struct inside_job *j, int rc, const struct err *e)
{
	(void)audit_event(j->hub, "mcp.request", &j->rq, j->agent, err_name(rc),
			  json_pack("{s:s,s:s,s:s,s:s}", "server", j->server, "method", j->method, "task", j->task,
				    "message", e->message));
	inside_job_end(j, rc, e, NULL, "");
}

static void inside_job_on_done(void *arg, int rc, const struct err *e, const json_t *answer, const char *round)
{
	inside_job_end(arg, rc, e, answer, round);
}

static void inside_job_on_progress(void *arg, const json_t *params)
{
	struct inside_job *j = arg;

	if (!j->gone && j->ops.progress)
		j->ops.progress(j->arg, params);
}

static void inside_job_on_log(void *arg, const json_t *params)
{
	struct inside_job *j = arg;

	if (!j->gone && j->ops.log)
		j->ops.log(j->arg, params);
}

static void inside_job_on_asked(void *arg, struct inside_questions *all)
{
	struct inside_job *j = arg;

	if (!j->gone)
		j->ops.asked(j->arg, all);
}

static void inside_job_on_withdrawn(void *arg, uint64_t number)
{
	struct inside_job *j = arg;

	if (!j->gone && j->ops.withdrawn)
		j->ops.withdrawn(j->arg, number);
}

/* A prompt and a resource count as the server's: policies name tools. NULL: the server as a whole. */
static const char *tool_of(const struct inside_job *j)
{
	return strcmp(j->method, "tools/call") == 0 ? json_get_text(j->params, "name") : NULL;
}

/* A policy judges by the name that the server gets. */
static int check_tool(const struct inside_job *j, struct err *e)
{
	const json_t *name = json_object_get(j->params, "name");

	if (strcmp(j->method, "tools/call") != 0 || (json_is_string(name) && json_string_length(name) &&
						     strlen(json_string_value(name)) == json_string_length(name)))
		return 0;
	return err_set(e, ERR_INVAL, "/params/name is no name of a tool");
}

enum answered_by { BY_SERVER, BY_CATALOGUE, BY_SERVER_TO_LISTENERS };
static const struct {
	const char *method;
	enum answered_by by;
} methods[] = {
    {"initialize", BY_CATALOGUE},
    {"tools/list", BY_CATALOGUE},
    {"tools/call", BY_SERVER},
    {"resources/list", BY_SERVER},
    {"resources/templates/list", BY_SERVER},
    {"resources/read", BY_SERVER},
    {"resources/subscribe", BY_SERVER_TO_LISTENERS},
    {"resources/unsubscribe", BY_SERVER_TO_LISTENERS},
    {"prompts/list", BY_SERVER},
    {"prompts/get", BY_SERVER},
    {"completion/complete", BY_SERVER},
    {"ping", BY_SERVER},
};

static int method_find(const char *method, bool listens, enum answered_by *out, struct err *e)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (strcmp(methods[i].method, method) == 0 && (listens || methods[i].by != BY_SERVER_TO_LISTENERS)) {
			*out = methods[i].by;
			return 0;
		}
	return err_set(e, ERR_UNSUPPORTED,
		       "method %.60s does not go to a server inside: those of tools, resources, prompts and completion "
		       "do, and ping",
		       method);
}

static json_t *allowed_tools(struct inside_job *j, const json_t *catalogue)
{
	json_t *list = json_array(), *v;
	size_t i;

	json_array_foreach(json_object_get(catalogue, "tools"), i,
			   v) if (inside_may_see(j->hub, &j->rq, j->agent, j->task, j->server,
						 json_get_text(v, "name"))) json_array_append(list, v);
	return list;
}

/* The catalogue's own answer: nothing of it goes to the server. A held one shows nothing that nobody looked at. */
static void answer_stored(struct inside_job *j, json_t *stored)
{
	const json_t *catalogue = json_object_get(stored, "catalogue"), *changes = json_object_get(stored, "changes");
	json_t *answer, *result;
	struct err e = {0};

	if (json_array_size(changes)) {
		inside_job_refuse(
		    j,
		    err_set(&e, ERR_MCP_HELD,
			    "MCP server %s is held: its tools are others than those approved: %.60s is %s", j->server,
			    json_get_text(json_array_get(changes, 0), "tool"),
			    json_get_text(json_array_get(changes, 0), "change")),
		    &e);
		return;
	}
	if (strcmp(j->method, "tools/list") == 0) {
		result = json_pack("{s:o}", "tools", allowed_tools(j, catalogue));
	} else if ((result = json_copy((json_t *)(uintptr_t)catalogue))) {
		json_object_del(result, "tools");
	}
	answer = json_pack("{s:o,s:O}", "result", result, "seen_at", json_object_get(stored, "seen_at"));
	if (!answer)
		inside_job_end(j, err_set(&e, ERR_NOMEM, "no memory for the answer"), &e, NULL, "");
	else
		inside_job_end(j, 0, NULL, answer, "");
	json_decref(answer);
}

static void inside_job_on_seen(void *arg, int rc, const struct err *e, json_t *stored)
{
	if (rc)
		inside_job_refuse(arg, rc, e);
	else
		answer_stored(arg, stored);
}

static int ask_server(struct inside_job *j, struct inside *x, struct err *e)
{
	struct inside_call *call = NULL;
	int rc;

	j->mine = (struct inside_ops){.progress = j->ops.progress ? inside_job_on_progress : NULL,
				      .log = j->ops.log ? inside_job_on_log : NULL,
				      .asked = j->ops.asked ? inside_job_on_asked : NULL,
				      .withdrawn = inside_job_on_withdrawn,
				      .done = inside_job_on_done};
	rc = inside_ask(x,
			&(struct inside_ask){.rq = &j->rq,
					     .task = j->task,
					     .method = j->method,
					     .exec_id = j->exec_id,
					     .params = j->params,
					     .timeout_ns = j->timeout_ns,
					     .declared = j->declared,
					     .ahead = j->ahead,
					     .ops = &j->mine,
					     .arg = j},
			&call, e);

	if (!rc)
		j->call = call;
	json_decref(j->ahead); /* the call has it as text */
	j->ahead = NULL;
	return rc;
}

static void inside_job_on_used(void *arg, int rc, const struct err *e);
static void inside_job_on_writable(void *arg, int rc, const struct err *e);

/* Its server as it is configured now. From the catalogue where that answers, and there is one. GATE_WAITS. */
static int inside_job_go(struct inside_job *j, enum answered_by by, json_t **out_stored, struct err *e)
{
	struct agent *a = agent_get(j->hub, j->agent);
	json_t *list = NULL;
	struct server_def d;
	struct inside *x;
	int rc = a ? find_server(j->hub, j->agent, j->server, &list, &d, e) : err_set(e, ERR_NOMEM, "no memory");

	if (!rc && by == BY_CATALOGUE) {
		const struct catalogue_key k = {j->agent, j->server, d.fingerprint};

		rc = catalogue_get(hub_store(j->hub), &k, out_stored, e);
		if (rc != ERR_NOT_FOUND) {
			json_decref(list);
			return rc;
		}
		rc = j->used ? 0
			     : grant_use(j->hub, &j->rq, &(struct grant_use_of){.agent = j->agent}, inside_job_on_used,
					 j, e);
		if (!rc)
			rc = look_at(j->hub, &j->rq, a, j->task, &d, inside_job_on_seen, j, e);
	} else if (!rc) {
		x = inside_get(j->hub, a, &d);
		rc = x ? ask_server(j, x, e) : err_set(e, ERR_NOMEM, "no memory");
	}
	json_decref(list);
	return rc;
}

static void inside_job_on_used(void *arg, int rc, const struct err *e)
{
	struct inside_job *j = arg;

	j->used = true;
	if (rc && rc != ERR_CANCELLED && !j->gone)
		(void)broker_refused(j->hub, &j->rq, j->agent, "mcp.request", e);
	inside_job_on_writable(j, rc, e);
}

static void inside_job_on_awake(void *arg, int rc, const struct err *e)
{
	struct inside_job *j = arg;

	if (rc && rc != ERR_CANCELLED && !j->gone)
		inside_job_refuse(j, rc, e);
	else
		inside_job_on_writable(j, rc, e);
}

/*
 * An answer of its catalogue opens nothing; where there is none yet, inside_job_go() counts. The first use of an agent
 * that was never there counts in the life that begins with it, as the same request again does: it is woken first.
 */
static int count_use(struct inside_job *j, enum answered_by by, struct err *e)
{
	const struct grant_use_of of = {j->agent, j->exec_id, j->digest};
	const struct policy_question q = {.op = POLICY_MCP_CALL, .task = j->task};
	struct agent *a = agent_get(j->hub, j->agent);
	json_t *list = NULL;
	struct server_def d;
	int rc;

	if (j->used || by == BY_CATALOGUE || !j->rq.grant.bounds.uses)
		return 0;
	rc = a ? find_server(j->hub, j->agent, j->server, &list, &d, e) : err_set(e, ERR_NOMEM, "no memory");
	json_decref(list);
	if (rc)
		return rc;
	if (!j->exec_id || a->state == AGENT_UP || agent_life(j->hub, j->agent) != 0)
		return grant_use(j->hub, &j->rq, &of, inside_job_on_used, j, e);
	broker_shape_need(a, &j->rq, &q, "mcp.request", inside_job_on_awake, j);
	return GATE_WAITS;
}

static void inside_job_on_writable(void *arg, int rc, const struct err *e)
{
	struct inside_job *j = arg;
	enum answered_by by = BY_SERVER;
	json_t *stored = NULL;
	struct err here = {0};

	if (rc || j->gone) {
		inside_job_end(j, rc ? rc : ERR_CANCELLED, e, NULL, "");
		return;
	}
	if (method_find(j->method, j->listens, &by, &here)) {
		inside_job_refuse(j, here.code, &here);
		return;
	}
	if (check_tool(j, &here)) {
		inside_job_refuse(j, here.code, &here);
		return;
	}
	rc = by != BY_CATALOGUE
		 ? inside_may_begin(j->hub, &j->rq, j->agent, j->task, j->server, tool_of(j),
				    json_dumpb(j->params, NULL, 0, JSON_COMPACT), &here)
		 : inside_may(j->hub, &j->rq, j->agent, j->task, j->server, tool_of(j), "mcp.request", &here);
	if (rc) { /* which is audited already */
		inside_job_end(j, rc, &here, NULL, "");
		return;
	}
	rc = count_use(j, by, &here);
	if (rc == GATE_WAITS)
		return;
	if (!rc)
		rc = inside_job_go(j, by, &stored, &here);
	if (rc == GATE_WAITS)
		return;
	if (rc)
		inside_job_refuse(j, rc, &here);
	else if (stored)
		answer_stored(j, stored);
	json_decref(stored);
}

static void inside_job_on_named(void *arg, const struct sandbox_answer *r)
{
	struct inside_job *j = arg;
	struct err e = {0};
	int rc = r->rc;

	if (rc) {
		inside_job_end(j, rc, r->e, NULL, "");
		return;
	}
	text_put(j->agent, sizeof(j->agent), r->name);
	rc = gate_pass(j->hub, &j->rq, inside_job_on_writable, j, &e);
	if (rc != GATE_WAITS)
		inside_job_on_writable(j, rc, &e);
}

static int inside_job_prepare(struct inside_job *j, const struct inside_request *w, struct err *e)
{
	const char *task = "";
	int rc = broker_reach(j->hub, &j->rq, w->agent, SCOPE_ROUNDS, "mcp.request", e);

	if (!rc)
		rc = broker_task(j->hub, &j->rq, w->agent, w->task, "mcp.request", &task, e);
	if (!rc && !hub_store(j->hub))
		rc = err_set(e, ERR_UNSUPPORTED, "there are no MCP servers here: there is no store for their list");
	if (!rc)
		rc = server_name_check(w->server, e);
	text_put(j->agent, sizeof(j->agent), w->agent);
	text_put(j->server, sizeof(j->server), w->server);
	text_put(j->task, sizeof(j->task), task);
	j->method = strdup(w->method);
	j->exec_id = w->exec_id ? strdup(w->exec_id) : NULL;
	j->params = w->params ? json_deep_copy(w->params) : NULL;
	j->timeout_ns = w->timeout_ns;
	j->declared = w->declared;
	j->listens = w->listens;
	j->ahead = w->ahead ? json_deep_copy(w->ahead) : NULL;
	if (!rc && w->exec_id && broker_inside_digest(w, j->digest))
		rc = err_set(e, ERR_NOMEM, "no memory for a request");
	if (!rc && (!j->method || (w->exec_id && !j->exec_id) || (w->params && !j->params) || (w->ahead && !j->ahead)))
		rc = err_set(e, ERR_NOMEM, "no memory for a request");
	return rc;
}

void broker_inside_request(struct hub *h, const struct request *rq, const struct inside_request *w,
			   const struct inside_ops *ops, void *arg, struct inside_job **out)
{
	struct inside_job *j = calloc(1, sizeof(*j));
	struct err e = {0};
	bool over = false;
	int rc;

	*out = NULL;
	if (!j) {
		ops->done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL, "");
		return;
	}
	*j = (struct inside_job){.hub = h, .rq = *rq, .ops = *ops, .arg = arg, .over = &over};
	rc = inside_job_prepare(j, w, &e);
	if (rc)
		inside_job_end(j, rc, &e, NULL, "");
	else
		hub_resolve(h, j->agent, inside_job_on_named, j);
	if (over)
		return;
	j->over = NULL;
	*out = j;
}

int broker_inside_digest(const struct inside_request *w, char out[INSIDE_DIGEST_SZ])
{
	json_t *params = w->params ? json_copy((json_t *)(uintptr_t)w->params) : NULL, *o;
	int rc;

	json_object_del(params, "_meta");
	json_object_del(params, "inputResponses");
	json_object_del(params, "requestState");
	o = json_pack("{s:s,s:s,s:s,s:o*}", "agent", w->agent, "server", w->server, "method", w->method, "params",
		      params);
	rc = o ? digest_json(o, out) : ERR_NOMEM;
	json_decref(o);
	return rc;
}

int broker_inside_may(struct hub *h, struct request *rq, const struct inside_request *w, struct err *e)
{
	const char *task = "";
	const char *tool = strcmp(w->method, "tools/call") == 0 ? json_get_text(w->params, "name") : NULL;
	int rc = broker_reach(h, rq, w->agent, SCOPE_ROUNDS, "mcp.request", e);

	if (!rc)
		rc = broker_task(h, rq, w->agent, w->task, "mcp.request", &task, e);
	return rc ? rc : inside_may(h, rq, w->agent, task, w->server, tool, "mcp.request", e);
}

void broker_inside_pass(struct inside_job *j, const struct inside_ops *ops, void *arg)
{
	j->ops = *ops;
	j->arg = arg;
}

/* The caller who answers may do now what the request itself does. */
static int may_answer(struct inside_job *j, struct request *rq, struct err *e)
{
	int rc = broker_reach(j->hub, rq, j->agent, SCOPE_ROUNDS, "mcp.request", e);

	if (!rc && !j->call)
		rc = err_set(e, ERR_NOT_FOUND, "the request has asked nothing");
	if (!rc)
		rc = inside_may(j->hub, rq, j->agent, j->task, j->server, tool_of(j), "mcp.request", e);
	if (rc)
		return rc;
	inside_call_renew(j->call, rq);
	request_finish(&j->rq);
	j->rq = *rq; /* whose grant has to be in force when the answer comes */
	return 0;
}

int broker_inside_answer(struct inside_job *j, struct request *rq, uint64_t number, const json_t *answer, struct err *e)
{
	int rc = may_answer(j, rq, e);

	if (!rc && (rc = inside_answer(j->call, number, answer)))
		err_set(e, rc, "%s",
			rc == ERR_INVAL       ? "that is no answer"
			: rc == ERR_TOO_LARGE ? "answers of one request are 4 MiB at the most, of all 32 MiB"
			: rc == ERR_NOMEM     ? "no memory for the answer"
					      : "no such question is open");
	return rc;
}

int broker_inside_answers(struct inside_job *j, struct request *rq, const json_t *results,
			  struct inside_questions **out, struct err *e)
{
	int rc = may_answer(j, rq, e);

	if (rc)
		return rc;
	inside_answer_named(j->call, results);
	*out = inside_call_questions(j->call);
	return 0;
}

void broker_inside_cancel(struct inside_job *j)
{
	if (!j)
		return;
	j->gone = true;
	if (j->call) {
		inside_cancel(j->call, j);
		inside_job_free(j);
	}
}

void broker_inside_abandon(struct inside_job *j)
{
	if (!j)
		return;
	j->gone = true;
	if (j->call) {
		inside_abandon(j->call, j);
		inside_job_free(j);
	}
}
