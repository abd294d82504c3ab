#include "muxd/doors/https/mcp/call.h"
#include "base/clock.h"
#include "base/text.h"
#include "muxd/doors/https/inner.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/session/session.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define CONTENT_MAX (1024u * 1024)
#define LOOK_MS     1000  /* between two words on how far it is */
#define WAIT_MS     20000 /* without them */
#define TAIL_MAX    400

enum call_state { CALL_BEGINNING, CALL_RUNNING, CALL_OVER };

struct mcp_call {
	struct mcp_caller who; /* rq points to the copy below */
	struct request rq;
	char peer[64];
	const struct mcp_tool *tool;
	const struct mcp_call_ops *ops;
	void *arg;
	enum call_state state;
	bool cancelled; /* while it began */
	bool named;     /* its exec_id was an argument, so that another call may have it too */
	bool joined;    /* such another call began its round, which is not ended with this one */
	char reason[128];
	uint64_t begun_ns, looked_ns, task_after_ms;
	char exec_id[136]; /* "": none was given along */
	char round[ID_STR_LEN];
	struct inner *inner;
	struct mcp_outcome outcome;
	uv_timer_t turn;
};

static void call_set_state(struct mcp_call *c, enum call_state to)
{
	c->state = to;
}

/* ---- the door's life */

struct mcp_life *mcp_life_hold(struct mcp_life *l)
{
	l->held++;
	return l;
}

void mcp_life_release(struct mcp_life *l)
{
	if (l && --l->held == 0)
		free(l);
}

/* ---- words for agents */

static const struct {
	int rc;
	const char *next;
} nexts[] = {
    {ERR_TASK_REQUIRED, "Say task_id: the task that your grant names."},
    {ERR_TASK_MISMATCH, "Use the task_id of your grant, and of the round that it is about."},
    {ERR_FORBIDDEN, "Do not try it again: ask whoever gave you the grant for one that covers it."},
    {ERR_NOT_FOUND, "Look at the names and ids that you sent."},
    {ERR_NO_FILE, "sandbox.workspace.list shows which files there are."},
    {ERR_NO_PROGRAM, "Name a program that is there, or run a line of the shell: argv [\"sh\", \"-c\", \"...\"]."},
    {ERR_PATCH, "Nothing was changed. Read the file with sandbox.workspace.read_file, and make the patch anew."},
    {ERR_FILE_EXISTS, "Choose another name, or use sandbox.workspace.write_file."},
    {ERR_FILE_CHANGED, "Read the file again, and make the change to what it holds now."},
    {ERR_PATH_OUTSIDE, "Name a path below /workspace."},
    {ERR_CONFLICT, "The name or exec_id stands for something else: choose another."},
    {ERR_PTY_DENIED, "Use sandbox.session.exec, which needs no terminal."},
    {ERR_UNSUPPORTED, "Leave out what the message names."},
    {ERR_AGAIN, "Wait a second, then try again."},
    {ERR_UNAVAILABLE, "Wait a second, then try again."},
    {ERR_LINK_LOST, "Call sandbox.session.create, then try again."},
    {ERR_CONTEXT_BUSY, "Wait for it, or call sandbox.context.interrupt."},
    {ERR_CONTEXT_ENDED, "Call sandbox.context.reset, or make another context."},
    {ERR_CUT, "The grant has ended: ask for a new one."},
};

static const char *next_of(int rc)
{
	for (size_t i = 0; i < sizeof(nexts) / sizeof(nexts[0]); i++)
		if (nexts[i].rc == rc)
			return nexts[i].next;
	return err_hint(rc);
}

static json_t *error_json(int rc, const char *message, const char *next)
{
	char text[ERR_MESSAGE_MAX + 700];

	text_format(text, sizeof(text), "%s: %s\n%s", err_name(rc), message && *message ? message : err_name(rc), next);
	return json_pack("{s:[{s:s,s:s}],s:b}", "content", "type", "text", "text", text, "isError", 1);
}

json_t *mcp_tool_error(int rc, const char *message)
{
	return error_json(rc, message, next_of(rc));
}

static bool takes_exec_id(const struct mcp_tool *t)
{
	for (size_t i = 0; i < t->nargs; i++)
		if (strcmp(t->args[i].name, "exec_id") == 0)
			return true;
	return false;
}

/* A program may have begun although the call failed: then its exec_id is told, or a second call would be a second. */
static json_t *call_unsure(const struct mcp_call *c, int rc, const char *message)
{
	char next[600];

	if (!(c->tool->flags & TOOL_EXEC_ID) || !c->exec_id[0] || (rc != ERR_AGAIN && err_http_status(rc) < 500))
		return mcp_tool_error(rc, message);
	if (takes_exec_id(c->tool))
		text_format(
		    next, sizeof(next),
		    "%s It may have begun, and may still run: make the call again with exec_id \"%s\", which runs "
		    "nothing twice.",
		    next_of(rc), c->exec_id);
	else
		text_format(
		    next, sizeof(next),
		    "%s It may have begun, and may still run: look at what it did before you make the call again.",
		    next_of(rc));
	return error_json(rc, message, next);
}

/* The record has a round that had begun, whether it started or not. */
static json_t *call_error(const struct mcp_call *c, int rc, const char *message, const struct err_begun *begun)
{
	char text[ERR_MESSAGE_MAX + 80];

	if (!begun || !begun->id[0])
		return call_unsure(c, rc, message);
	text_format(text, sizeof(text), "%s (%s %s)", message && *message ? message : err_name(rc),
		    begun->round ? "round_id" : "session_id", begun->id);
	return call_unsure(c, rc, text);
}

json_t *mcp_tool_result(json_t *structured)
{
	char *text = structured ? json_text(structured) : NULL;
	json_t *o = text ? json_pack("{s:[{s:s,s:s}],s:O,s:b}", "content", "type", "text", "text", text,
				     "structuredContent", structured, "isError", 0)
			 : NULL;

	free(text);
	json_decref(structured);
	return o;
}

/* ---- its end */

static void call_on_closed(uv_handle_t *h)
{
	struct mcp_call *c = h->data;

	free(c);
}

static void call_free(struct mcp_call *c)
{
	call_set_state(c, CALL_OVER);
	c->ops = NULL;
	inner_abandon(c->inner);
	c->inner = NULL;
	request_finish(&c->rq);
	mcp_life_release(c->who.life);
	c->who.life = NULL;
	json_decref(c->outcome.result);
	c->outcome.result = NULL;
	uv_close((uv_handle_t *)&c->turn, call_on_closed);
}

static void call_tell(struct mcp_call *c, const json_t *round)
{
	struct mcp_outcome o = {.result = c->outcome.result, .round = round};

	c->outcome.result = NULL;
	call_set_state(c, CALL_OVER);
	c->ops->done(c->arg, &o);
	call_free(c);
}

static void call_on_turn(uv_timer_t *h)
{
	call_tell(h->data, NULL);
}

/* In the loop's next turn: its owner may be in the middle of beginning it. */
static void call_finish(struct mcp_call *c, json_t *result)
{
	c->outcome.result = result;
	uv_timer_start(&c->turn, call_on_turn, 0, 0);
}

/* ---- a round's end by somebody else's will */

static void call_on_round_ended(void *arg, const struct inner_answer *a)
{
	(void)arg, (void)a; /* the record has it */
}

void mcp_round_end(const struct mcp_caller *who, const char *round, const char *reason)
{
	json_t *body = who->life->over ? NULL : json_pack("{s:s}", "reason", reason);
	char *text = body ? json_text(body) : NULL;
	struct inner_ask ask = {.hub = who->hub,
				.api = who->api,
				.metrics = who->metrics,
				.rq = who->rq,
				.peer = who->peer,
				.local = who->local,
				.method = HTTP_POST,
				.pattern = "/v1/sessions/{id}/terminate",
				.names = {round},
				.body = text,
				.body_len = text ? strlen(text) : 0};
	struct inner *inner = NULL;

	if (text)
		(void)inner_begin(&ask, call_on_round_ended, NULL, &inner, NULL);
	free(text);
	json_decref(body);
}

void mcp_call_abandon(struct mcp_call *c)
{
	if (c && c->state != CALL_OVER)
		call_free(c);
}

void mcp_call_cancel(struct mcp_call *c, const char *reason)
{
	if (!c || c->state == CALL_OVER)
		return;
	text_put(c->reason, sizeof(c->reason), reason);
	if (c->round[0]) {
		if (!c->joined)
			mcp_round_end(&c->who, c->round, c->reason);
		call_free(c);
	} else if (c->tool->flags & TOOL_EXEC_ID && c->inner) {
		c->cancelled = true; /* nobody is told; the round is ended once it is known */
	} else {
		call_free(c);
	}
}

/* ---- its round */

static void call_look(struct mcp_call *c);
static void call_look_soon(struct mcp_call *c);

/* The last bytes of what there is of stdout, or else of stderr, from a whole character on. */
static void tail_of(const json_t *ours, char *out, size_t size)
{
	const json_t *s = json_object_get(ours, "stdout");
	const char *text;
	size_t n;

	if (!json_integer_value(json_object_get(s, "total_bytes")))
		s = json_object_get(ours, "stderr");
	text = *json_get_text(s, "tail") ? json_get_text(s, "tail") : json_get_text(s, "data");
	if (strcmp(json_get_text(s, text == json_get_text(s, "data") ? "encoding" : "tail_encoding"), "base64") == 0)
		text = "(no text)";
	n = strlen(text);
	if (n >= size)
		text += n - size + 1;
	while ((*text & 0xC0) == 0x80)
		text++;
	text_put(out, size, text);
}

static uint64_t ran_ms(const struct mcp_call *c)
{
	return (clock_boot_ns() - c->begun_ns) / NS_PER_MS;
}

static bool has_ended(const struct mcp_call *c, const json_t *ours)
{
	if (c->tool->flags & TOOL_EXECUTION)
		return strcmp(json_get_text(ours, "state"), "running") != 0;
	return json_is_object(json_object_get(ours, "exit"));
}

static json_t *structured_of(const struct mcp_call *c, const struct inner_answer *a)
{
	if (c->tool->flags & TOOL_BYTES)
		return mcp_tell_bytes(a->content, a->content_len, a->more, a->headers);
	if (!a->json)
		return mcp_tell_screen(a->content, a->content_len, a->headers);
	if (c->tool->tell)
		return c->tool->tell(a->json);
	return json_is_object(a->json) ? json_incref((json_t *)(uintptr_t)a->json)
				       : json_pack("{s:O}", "result", (json_t *)(uintptr_t)a->json);
}

static void round_goes_on(struct mcp_call *c, const json_t *ours)
{
	char tail[TAIL_MAX];

	if (c->task_after_ms && ran_ms(c) >= c->task_after_ms) {
		call_tell(c, ours);
		return;
	}
	if (c->ops->progress && c->state == CALL_RUNNING) {
		tail_of(ours, tail, sizeof(tail));
		c->ops->progress(c->arg, (int64_t)ran_ms(c), tail);
	}
	if (c->state == CALL_RUNNING) {
		call_look_soon(c);
	} else {
		call_set_state(c, CALL_RUNNING);
		call_look(c);
	}
}

static void call_on_answer(void *arg, const struct inner_answer *a)
{
	struct mcp_call *c = arg;
	bool round = c->tool->flags & (TOOL_ROUND | TOOL_EXECUTION);

	c->inner = NULL;
	if (a->rc == 0 && c->tool->flags & TOOL_EXEC_ID && !c->round[0])
		text_put(c->round, sizeof(c->round),
			 json_get_text(a->json, c->tool->flags & TOOL_EXECUTION ? "execution_id" : "round_id"));
	c->joined = c->joined || (c->named && a->repeated);
	if (c->cancelled) {
		if (a->rc == 0 && !c->joined)
			mcp_round_end(&c->who, c->round, c->reason);
		call_free(c);
		return;
	}
	if (a->rc == 0 && round && !has_ended(c, a->json)) {
		round_goes_on(c, a->json);
		return;
	}
	c->outcome.result = a->rc ? call_error(c, a->rc, a->message, a->begun) : mcp_tool_result(structured_of(c, a));
	call_tell(c, NULL);
}

static void caller_put(const struct mcp_call *c, struct inner_ask *ask)
{
	ask->hub = c->who.hub;
	ask->api = c->who.api;
	ask->metrics = c->who.metrics;
	ask->rq = c->who.rq;
	ask->peer = c->who.peer;
	ask->local = c->who.local;
}

/* Asks for the round again, which answers at its end or after a while. */
static void call_look(struct mcp_call *c)
{
	bool code = c->tool->flags & TOOL_EXECUTION;
	uint64_t ms = c->ops->progress ? LOOK_MS : WAIT_MS, ran = ran_ms(c);
	struct inner_ask ask = {
	    .method = HTTP_GET, .pattern = code ? "/v1/executions/{id}" : "/v1/rounds/{id}", .names = {c->round}};
	char wait[40];
	struct err e = {0};

	if (c->task_after_ms && ran + ms > c->task_after_ms)
		ms = c->task_after_ms > ran ? c->task_after_ms - ran : 1;
	text_format(wait, sizeof(wait), "%s=%llu", code ? "yield_ms" : "wait_ms", (unsigned long long)ms);
	ask.query[0] = wait;
	c->looked_ns = clock_boot_ns();
	caller_put(c, &ask);
	if (inner_begin(&ask, call_on_answer, c, &c->inner, &e))
		call_finish(c, call_error(c, e.code, e.message, NULL));
}

static void call_on_pause(uv_timer_t *h)
{
	call_look(h->data);
}

/* Where the daemon lets nobody wait for so long (rounds.wait_max), the rest of the time is waited here. */
static void call_look_soon(struct mcp_call *c)
{
	uint64_t ms = (clock_boot_ns() - c->looked_ns) / NS_PER_MS;

	if (ms < LOOK_MS)
		uv_timer_start(&c->turn, call_on_pause, LOOK_MS - ms, 0);
	else
		call_look(c);
}

/* ---- its beginning */

/* The API's own refusals are audited where they are made; those of this room here. */
static int call_refused(const struct mcp_call *c, const struct err *e)
{
	return broker_verdict(c->who.hub, c->who.rq, c->tool->name, e);
}

/* A round of this principal's is of one task. Of those that only the record has left nothing is looked up here. */
static int round_check(const struct mcp_call *c, const json_t *args, const char *task, struct err *e)
{
	struct session *s = NULL;
	json_t *o;
	struct id id;
	int rc = 0;

	if (id_parse(json_get_text(args, "round_id"), &id) == 0)
		s = hub_session_find(c->who.hub, &id);
	if (!s || strcmp(session_principal(s), c->rq.grant.principal) != 0)
		return 0; /* whether it may be looked at, the API says */
	o = session_describe(s);
	if (o && strcmp(json_get_text(o, "task"), task) != 0)
		rc = err_set(e, ERR_TASK_MISMATCH, "the round is of task %s", json_get_text(o, "task"));
	json_decref(o);
	return rc;
}

static int call_check(const struct mcp_call *c, const struct mcp_wish *w, struct err *e)
{
	const char *task = json_string_value(json_object_get(w->args, "task_id")), *its;
	int rc = mcp_tool_allowed(&c->rq.grant, w->tool, e);

	if (rc)
		return call_refused(c, e);
	rc = mcp_args_check(w->tool, w->args, e);
	if (rc)
		return rc == ERR_TASK_REQUIRED ? call_refused(c, e) : rc;
	rc = task ? grant_task(&c->rq.grant, task, &its, e) : 0;
	if (rc == 0 && task)
		rc = round_check(c, w->args, task, e);
	return rc ? call_refused(c, e) : 0;
}

static int call_ask(struct mcp_call *c, const struct mcp_wish *w, struct err *e)
{
	struct mcp_ask made;
	struct inner_ask ask = {.method = w->tool->method, .pattern = w->tool->pattern, .content_max = CONTENT_MAX};
	const char *said = json_string_value(json_object_get(w->args, "exec_id")), *exec_id = said ? said : w->exec_id;
	int rc =
	    mcp_ask_make(w->tool, w->args, *exec_id ? exec_id : NULL, hub_conf(c->who.hub)->api_max_body, &made, e);

	text_put(c->exec_id, sizeof(c->exec_id), exec_id);
	c->named = said != NULL;
	if (rc == 0) {
		for (size_t i = 0; i < made.nquery; i++)
			ask.query[i] = made.query[i];
		memcpy(ask.names, made.names, sizeof(made.names));
		ask.body = buf_ptr(&made.body);
		ask.body_len = buf_len(&made.body);
		ask.range = made.range[0] ? made.range : NULL;
		ask.only_new = made.only_new;
		caller_put(c, &ask);
		rc = inner_begin(&ask, call_on_answer, c, &c->inner, e);
	}
	mcp_ask_finish(&made);
	return rc;
}

int mcp_call_begin(const struct mcp_caller *who, const struct mcp_wish *w, const struct mcp_call_ops *ops, void *arg,
		   struct mcp_call **out)
{
	struct mcp_call *c = calloc(1, sizeof(*c));
	struct err e = {0};
	int rc;

	if (!c)
		return ERR_NOMEM;
	uv_timer_init(hub_loop(who->hub), &c->turn);
	c->turn.data = c;
	c->rq = *who->rq;
	text_put(c->peer, sizeof(c->peer), who->peer);
	c->who = *who;
	c->who.life = mcp_life_hold(who->life);
	c->who.rq = &c->rq;
	c->who.peer = c->peer;
	c->tool = w->tool;
	c->ops = ops;
	c->arg = arg;
	c->begun_ns = clock_boot_ns();
	c->task_after_ms = w->task_after_ms;
	request_endpoint(&c->rq, w->tool->name);
	rc = call_check(c, w, &e);
	if (rc == 0)
		rc = call_ask(c, w, &e);
	if (rc)
		call_finish(c, call_error(c, rc, e.message, NULL));
	*out = c;
	return 0;
}
