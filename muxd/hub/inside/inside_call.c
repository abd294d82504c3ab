/* Requests to servers inside: made and recorded, sent under a number of the hub's, and ended once. */
#define LOG_SUBSYS "mcp"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "control/servers/digest.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/exec_ids.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/inside/inside_answer.h"
#include "muxd/hub/inside/inside_state.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_MAX     256 /* answers, for repeats of their exec_id */
#define KEPT_BYTES   (8u * 1024 * 1024)
#define KEPT_ONE_MAX (1024u * 1024)
#define NEW_ERA_META "io.modelcontextprotocol/"

static void inside_call_free(struct inside_call *c)
{
	struct inside_caller *k;

	struct inside_question *q;

	while ((k = TAILQ_FIRST(&c->callers))) {
		TAILQ_REMOVE(&c->callers, k, entry);
		free(k);
	}
	while ((q = TAILQ_FIRST(&c->questions))) {
		TAILQ_REMOVE(&c->questions, q, entry);
		question_free(q);
	}
	free(c->ahead);
	request_finish(&c->rq);
	free(c->method);
	free(c->params);
	free(c->tool);
	free(c->exec_id);
	free(c->answer);
	free(c);
}

static int add_caller(struct inside_call *c, const struct inside_ask *ask)
{
	struct inside_caller *k = malloc(sizeof(*k));

	if (!k)
		return ERR_NOMEM;
	*k = (struct inside_caller){.ops = ask->ops, .arg = ask->arg, .declared = ask->declared};
	TAILQ_INSERT_TAIL(&c->callers, k, entry);
	return 0;
}

/* ---- made */

/* The part of the parameters by which people know what is meant. */
static const char *tool_of(const struct inside_ask *ask)
{
	const char *name = json_get_text(ask->params, strcmp(ask->method, "resources/read") == 0 ? "uri" : "name");

	return *name ? name : NULL;
}

static struct inside_facts facts_of(const struct inside_call *c)
{
	struct inside *x = c->server;
	const struct id *program = c->sent_digest[0] ? &c->program : &x->program;

	return (struct inside_facts){.rq = &c->rq,
				     .agent = agent_find(x->hub, c->agent),
				     .server = c->name,
				     .method = c->method,
				     .task = c->task,
				     .tool = c->tool,
				     .exec_id = c->exec_id,
				     .digest = c->digest,
				     .program = id_is_nil(program) ? NULL : program,
				     .sandbox = c->sent_digest[0] ? &c->sandbox : NULL,
				     .sent_digest = c->sent_digest,
				     .params = c->params};
}

static int copy_ask(struct inside_call *c, const struct inside_ask *ask)
{
	const char *tool = tool_of(ask);

	c->rq = *ask->rq;
	c->grant = grant_line(&ask->rq->grant);
	text_put(c->task, sizeof(c->task), ask->task);
	text_put(c->agent, sizeof(c->agent), c->server->agent);
	text_put(c->name, sizeof(c->name), c->server->name);
	c->method = strdup(ask->method);
	c->params = ask->params ? json_text(ask->params) : strdup("");
	c->tool = tool ? strndup(tool, text_cut(tool, strlen(tool), 1024)) : NULL;
	c->exec_id = ask->exec_id ? strdup(ask->exec_id) : NULL;
	c->ahead = ask->ahead ? json_text(ask->ahead) : NULL;
	return c->method && c->params && (c->ahead || !ask->ahead) && (c->tool || !tool) &&
		       (c->exec_id || !ask->exec_id)
		   ? add_caller(c, ask)
		   : ERR_NOMEM;
}

/* The same call has the same: server, method and parameters, whatever the order of their members. */
static int call_digest(const char *server, const struct inside_ask *ask, char out[65])
{
	json_t *o = json_pack("{s:s,s:s,s:O*}", "server", server, "method", ask->method, "params", ask->params);
	int rc = o ? digest_json(o, out) : ERR_NOMEM;

	json_decref(o);
	return rc;
}

/* An exec_id that was used: ERR_CONFLICT, and which round has it. */
static int check_exec_id(struct inside *x, const struct inside_ask *ask, struct err *e)
{
	const struct exec_use *u = ask->exec_id
				       ? exec_ids_find(hub_exec_ids(x->hub), x->agent, agent_life(x->hub, x->agent),
						       ask->rq->grant.principal, ask->exec_id)
				       : NULL;
	char id[ID_STR_LEN];

	if (!u)
		return 0;
	id_format(&u->session, id);
	return err_set(e, ERR_CONFLICT,
		       "exec_id %s was used by round %s, which has its end: the whole answer is not kept any more",
		       ask->exec_id, id);
}

/* A request is work in its sandbox, at its start and at its end. */
static void touch_agent(const struct inside_call *c)
{
	struct agent *a = agent_find(c->server->hub, c->agent);

	if (a)
		agent_touch(a);
}

static int begin_record(struct inside_call *c, struct err *e)
{
	struct inside_facts f = facts_of(c);
	struct exec_use u = {0};
	int rc = inside_record_begin(c->server->hub, &f, &c->record, e);

	if (rc)
		return rc;
	memcpy(c->round, c->record.text, sizeof(c->round));
	touch_agent(c);
	u.session = c->record.id;
	u.life = agent_life(c->server->hub, c->agent);
	memcpy(u.digest, c->digest, sizeof(u.digest));
	if (c->exec_id && exec_ids_add(hub_exec_ids(c->server->hub), c->agent, c->rq.grant.principal, c->exec_id, &u))
		return err_set(e, ERR_NOMEM, "no memory for an exec_id");
	return 0;
}

int inside_call_create(struct inside *x, const struct inside_ask *ask, struct inside_call **out, struct err *e)
{
	uint64_t timeout = ask->timeout_ns ? ask->timeout_ns : x->asks ? INSIDE_ASKING_NS : INSIDE_TIMEOUT_NS;
	struct inside_call *c;
	int rc = check_exec_id(x, ask, e);

	if (rc)
		return rc;
	if (x->ncalls >= INSIDE_CALLS_MAX)
		return err_limit(e, ERR_LIMIT,
				 &(struct err_share){"fixed.mcp_requests", "server", INSIDE_CALLS_MAX, x->ncalls, 1},
				 "%d requests to %s wait already", INSIDE_CALLS_MAX, x->name);
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(e, ERR_NOMEM, "no memory for a request");
	TAILQ_INIT(&c->callers);
	TAILQ_INIT(&c->questions);
	c->server = x;
	c->until_ns = clock_boot_ns() + (timeout < INSIDE_LONGEST_NS ? timeout : INSIDE_LONGEST_NS);
	if (copy_ask(c, ask) || call_digest(x->name, ask, c->digest))
		rc = err_set(e, ERR_NOMEM, "no memory for a request");
	else
		rc = begin_record(c, e);
	if (rc) {
		struct inside_facts f = facts_of(c);

		inside_record_end(x->hub, &f, &c->record, &(struct inside_end){.rc = rc, .message = e->message});
		inside_call_free(c);
		return rc;
	}
	TAILQ_INSERT_TAIL(&x->calls, c, entry);
	x->ncalls++;
	*out = c;
	return 0;
}

/* ---- sent */

static bool wants_progress(const struct inside_call *c)
{
	const struct inside_caller *k;

	TAILQ_FOREACH(k, &c->callers, entry)
	if (k->ops->progress)
		return true;
	return false;
}

/* The caller's parameters without those that are meant for us: a token of ours stands for his. NULL: none, or no
 * memory. */
static json_t *params_of(const struct inside_call *c)
{
	json_t *o = NULL, *meta, *v;
	const char *key;
	void *next;

	if (*c->params && json_parse(c->params, strlen(c->params), SIZE_MAX, &o, NULL))
		return NULL;
	if (!o && !(o = json_object()))
		return NULL;
	inside_params_clean(o);
	meta = json_object_get(o, "_meta");
	json_object_del(meta, "progressToken");
	json_object_foreach_safe(meta, next, key, v) if (strncmp(key, NEW_ERA_META, sizeof(NEW_ERA_META) - 1) == 0)
	    json_object_del(meta, key);
	if (wants_progress(c)) {
		if (!json_is_object(meta))
			json_object_set_new(o, "_meta", json_object());
		json_object_set_new(json_object_get(o, "_meta"), "progressToken", json_integer(c->number));
	} else if (!json_object_size(meta)) {
		json_object_del(o, "_meta");
	}
	return o;
}

/* The record has where a request went. */
static void note_sent(struct inside *x, struct inside_call *c, const char *digest)
{
	const struct agent *a = agent_find(x->hub, x->agent);

	c->program = x->program;
	c->sandbox = a ? a->info.sandbox_id : (struct id){0};
	memcpy(c->sent_digest, digest, sizeof(c->sent_digest));
}

static int line_digest(const json_t *message, char out[DIGEST_SZ])
{
	char *text = message ? json_text(message) : NULL;
	int rc = text ? digest_bytes(text, strlen(text), out) : ERR_NOMEM;

	free(text);
	return rc;
}

int inside_call_send(struct inside *x, struct inside_call *c)
{
	json_t *params, *message = NULL;
	char digest[DIGEST_SZ] = "";
	int rc;

	c->number = x->next_number;
	params = params_of(c);
	if (params)
		message = json_pack("{s:s,s:I,s:s,s:o}", "jsonrpc", "2.0", "id", (json_int_t)c->number, "method",
				    c->method, "params", params);
	rc = line_digest(message, digest);
	if (rc)
		json_decref(message);
	else
		rc = inside_send(x, message);
	if (rc) {
		c->number = 0;
		return rc;
	}
	note_sent(x, c, digest);
	x->next_number++;
	x->flight++;
	return 0;
}

struct inside_call *inside_call_by_number(struct inside *x, int64_t number)
{
	struct inside_call *c;

	TAILQ_FOREACH(c, &x->calls, entry)
	if (c->number && c->number == number)
		return c;
	return NULL;
}

void inside_calls_progress(struct inside *x, const json_t *params)
{
	const json_t *token = json_object_get(params, "progressToken");
	struct inside_call *c = json_is_integer(token) ? inside_call_by_number(x, json_integer_value(token)) : NULL;
	struct inside_caller *k;

	if (c)
		TAILQ_FOREACH(k, &c->callers, entry)
	if (k->ops->progress)
		k->ops->progress(k->arg, params);
}

/* ---- ended */

void inside_kept_trim(struct hub *h, size_t most)
{
	struct insides *all = hub_insides(h);
	struct inside_call *c, *next;
	size_t n = 0;

	TAILQ_FOREACH(c, &all->kept, entry) n++;
	for (c = TAILQ_FIRST(&all->kept); c && (n > KEPT_MAX || all->kept_bytes > most); c = next) {
		next = TAILQ_NEXT(c, entry);
		if (c->telling || !TAILQ_EMPTY(&c->callers)) /* they hold it until they are told */
			continue;
		TAILQ_REMOVE(&all->kept, c, entry);
		all->kept_bytes -= c->bytes;
		n--;
		inside_call_free(c);
	}
}

/* For a repeat of its exec_id. */
static void inside_call_keep(struct hub *h, struct inside_call *c, size_t bytes)
{
	request_finish(&c->rq);
	c->bytes = bytes + strlen(c->params) + sizeof(*c);
	TAILQ_INSERT_TAIL(&hub_insides(h)->kept, c, entry);
	hub_insides(h)->kept_bytes += c->bytes;
	inside_kept_trim(h, KEPT_BYTES);
}

void inside_call_end(struct inside_call *c, int rc, const char *message, json_t *answer)
{
	struct inside *x = c->server;
	struct hub *h = x->hub;
	struct inside_facts f = facts_of(c);
	struct inside_caller *k;
	char *text = answer ? json_text(answer) : NULL;
	struct err e = {0};

	if (!rc && !text)
		rc = ERR_NOMEM, message = "no memory for the answer";
	touch_agent(c);
	inside_asking_drop(c);
	TAILQ_REMOVE(&x->calls, c, entry);
	x->ncalls--;
	x->flight -= c->number != 0;
	if (c->number && !c->answered)
		inside_ghosts_add(&x->ghosts, c->number, &c->rq.grant, c->task, clock_boot_ns());
	inside_record_end(h, &f, &c->record,
			  &(struct inside_end){.rc = rc,
					       .message = message,
					       .is_error = json_object_get(answer, "error") != NULL,
					       .answer = rc ? NULL : text});
	c->server = NULL; /* a caller that is told may cancel another caller of it: it ends once */
	if (rc)
		err_set(&e, rc, "%s", message);
	else
		json_object_set_new(answer, "round_id", json_string(c->round));
	if (!rc && c->lacks)
		json_object_set_new(answer, "undeclared", question_capabilities(c->lacks));
	while ((k = TAILQ_FIRST(&c->callers))) {
		TAILQ_REMOVE(&c->callers, k, entry);
		k->ops->done(k->arg, rc, rc ? &e : NULL, rc ? NULL : answer, c->round);
		free(k);
	}
	if (!rc && c->exec_id && strlen(text) <= KEPT_ONE_MAX) {
		size_t n = strlen(text);

		c->answer = text;
		text = NULL;
		inside_call_keep(h, c, n);
	} else {
		inside_call_free(c);
	}
	free(text);
	json_decref(answer);
}

void inside_calls_end(struct inside *x, bool sent_only, int rc, const char *message)
{
	unsigned left = x->ncalls; /* who is told may ask again */
	struct inside_call *c;

	while (left--) {
		TAILQ_FOREACH(c, &x->calls, entry)
		if (!sent_only || c->number)
			break;
		if (!c)
			return;
		inside_call_end(c, rc, message, NULL);
	}
}

void inside_call_forget(struct inside_call *c, void *arg, bool *out_last)
{
	struct inside_caller *k;

	TAILQ_FOREACH(k, &c->callers, entry)
	if (k->arg == arg)
		break;
	if (k) {
		TAILQ_REMOVE(&c->callers, k, entry);
		free(k);
	}
	*out_last = TAILQ_EMPTY(&c->callers);
}

/* ---- the same again */

static bool inside_call_is_same(const struct inside_call *c, const char *agent, const struct inside_ask *ask,
				const char *digest)
{
	return c->exec_id && strcmp(c->exec_id, ask->exec_id) == 0 && strcmp(c->agent, agent) == 0 &&
	       strcmp(c->rq.grant.principal, ask->rq->grant.principal) == 0 && strcmp(c->digest, digest) == 0;
}

struct inside_call *inside_call_by_exec_id(struct inside *x, const struct inside_ask *ask)
{
	struct inside_call *c;
	char digest[65];

	if (!ask->exec_id || call_digest(x->name, ask, digest))
		return NULL;
	TAILQ_FOREACH(c, &x->calls, entry)
	if (inside_call_is_same(c, x->agent, ask, digest))
		return c;
	TAILQ_FOREACH(c, &hub_insides(x->hub)->kept, entry)
	if (inside_call_is_same(c, x->agent, ask, digest))
		return c;
	return NULL;
}

int inside_call_join(struct inside_call *c, const struct inside_ask *ask)
{
	c->grant = grant_line(&ask->rq->grant);
	return add_caller(c, ask);
}

struct inside_questions *inside_call_questions(struct inside_call *c)
{
	return &c->questions;
}

void inside_call_renew(struct inside_call *c, const struct request *rq)
{
	c->grant = grant_line(&rq->grant);
}

void inside_call_again(struct inside_call *c)
{
	struct inside_caller *k;
	struct err e = {0};
	json_t *answer = NULL;
	int rc;

	if (TAILQ_EMPTY(&c->callers))
		return;
	rc = json_parse(c->answer, strlen(c->answer), SIZE_MAX, &answer, NULL);
	if (rc)
		err_set(&e, rc, "the answer that is kept cannot be read");
	else
		json_object_set_new(answer, "round_id", json_string(c->round));
	c->telling = true;
	while ((k = TAILQ_FIRST(&c->callers))) {
		TAILQ_REMOVE(&c->callers, k, entry);
		k->ops->done(k->arg, rc, rc ? &e : NULL, answer, c->round);
		free(k);
	}
	c->telling = false;
	json_decref(answer);
}
