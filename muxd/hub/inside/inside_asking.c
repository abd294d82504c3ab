/* Questions of a server inside in the middle of its requests: whose they are, who hears them, what comes back. */
#define LOG_SUBSYS "mcp"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/inside/inside_may.h"
#include "muxd/hub/inside/inside_state.h"
#include "muxd/hub/session/wake.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define WINDOW_MS    20  /* questions that come within are told together */
#define ANSWER_SMALL 256 /* bytes that any answer may have: there are 16 at once */
#define PARKED_MAX   16  /* requests of a server that wait for their callers */

enum rpc_code {
	RPC_INVALID = -32600,
	RPC_NO_METHOD = -32601,
	RPC_PARAMS = -32602,
	RPC_INTERNAL = -32603,
	RPC_GONE = -32000
};

/* ---- turns */

/* Sent, and not waiting for its caller. */
static bool runs(const struct inside_call *c)
{
	return c->number && c->turn == TURN_RUNS;
}

static struct inside_call *call_that_runs(struct inside *x)
{
	struct inside_call *c;

	TAILQ_FOREACH(c, &x->calls, entry)
	if (runs(c))
		return c;
	return NULL;
}

static bool is_of_one_caller(const struct inside_call *a, const struct inside_call *b)
{
	const struct grant *g = &a->rq.grant, *h = &b->rq.grant;

	return g->kind == h->kind && strcmp(g->principal, h->principal) == 0 && strcmp(g->agent, h->agent) == 0 &&
	       strcmp(a->task, b->task) == 0;
}

/* A request that waits for its caller lets others of the same caller pass, and nobody else's. */
bool inside_turn_is_free(struct inside *x, const struct inside_call *c)
{
	struct inside_call *other;

	if (!x->asks)
		return true;
	if (!inside_ghosts_are_of(&x->ghosts, &c->rq.grant, c->task))
		return false;
	TAILQ_FOREACH(other, &x->calls, entry)
	if (other->number && (other->turn == TURN_RUNS || !is_of_one_caller(other, c)))
		return false;
	return true;
}

/* The one that runs; where none does, one that alone is in flight, and asks again while it waits. */
static struct inside_call *call_of_question(struct inside *x)
{
	struct inside_call *c = call_that_runs(x), *found = NULL;

	if (c)
		return c;
	TAILQ_FOREACH(c, &x->calls, entry)
	if (c->number) {
		if (found)
			return NULL;
		found = c;
	}
	return found;
}

static bool too_many_wait(const struct inside *x)
{
	const struct inside_call *c;
	unsigned n = 0;

	TAILQ_FOREACH(c, &x->calls, entry)
	n += c->number && c->turn != TURN_RUNS;
	return n >= PARKED_MAX;
}

/* ---- refused */

static int say_error(struct inside *x, const json_t *id, int code, const char *text)
{
	return inside_send(
	    x, json_pack("{s:s,s:O,s:{s:i,s:s}}", "jsonrpc", "2.0", "id", id, "error", "code", code, "message", text));
}

/* Of those that were opened; others are refused where requests are (inside.c). */
static int inside_asking_refuse(struct inside *x, struct inside_call *c, enum question_kind k, const json_t *id,
				int code, const char *text)
{
	char words[200];

	x->refused++;
	if (c && c->refusals++ < QUESTIONS_OPEN_MAX)
		inside_record_question(
		    x->hub, &c->rq, c->agent, c->name, &c->record,
		    &(struct inside_told){.kind = question_name(k), .outcome = "refused", .message = text});
	text_format(words, sizeof(words), "%s: %s", question_method(k), text);
	return say_error(x, id, code, words);
}

/* ---- asked */

static bool has_id(const struct inside *x, const json_t *id)
{
	const struct inside_call *c;
	const struct inside_question *q;

	TAILQ_FOREACH(c, &x->calls, entry)
	TAILQ_FOREACH(q, &c->questions, entry)
	if (json_equal(q->id, id))
		return true;
	return false;
}

/* The server has its answer, or wants none. */
static void question_drop(struct inside_call *c, struct inside_question *q)
{
	TAILQ_REMOVE(&c->questions, q, entry);
	c->questions_bytes -= q->bytes;
	c->answers_bytes -= q->answer_bytes;
	hub_insides(c->server->hub)->questions_bytes -= q->bytes + q->answer_bytes;
	question_free(q);
}

static struct inside_question *question_by_key(struct inside_call *c, const char *key)
{
	struct inside_question *q;

	TAILQ_FOREACH(q, &c->questions, entry)
	if (strcmp(q->key, key) == 0)
		return q;
	return NULL;
}

/* The caller who hears it: of those who can, the one who came last. */
static struct inside_caller *listener_of(struct inside_call *c)
{
	struct inside_caller *k, *last = NULL;

	TAILQ_FOREACH(k, &c->callers, entry)
	if (k->ops->asked)
		last = k;
	return last;
}

static const char *why_not(struct inside *x, struct inside_call *c, enum question_kind k, const struct inside_line *l,
			   size_t bytes, int *code)
{
	const struct inside_caller *who = c ? listener_of(c) : NULL;

	*code = RPC_INVALID;
	if (!c)
		return *code = RPC_NO_METHOD, "no request of one caller is under way that it could belong to";
	if (has_id(x, l->id))
		return "its id is that of a question that is open";
	if (bytes > QUESTION_BYTES_MAX)
		return "it is longer than 256 KiB";
	if (c->open >= QUESTIONS_OPEN_MAX || c->asked >= QUESTIONS_MAX)
		return "it is one question too many: 16 at once, 64 for each request";
	if (c->turn == TURN_RUNS && too_many_wait(x))
		return "16 requests wait for their callers already";
	*code = RPC_NO_METHOD;
	if (!who)
		return "its caller has no way to answer";
	if (!(who->declared & (unsigned)k)) {
		c->lacks |= (unsigned)k;
		return "its caller did not declare that";
	}
	if (!inside_may_ask(x->hub, &c->rq, c->agent, c->task, c->name, c->tool, c->refusals == 0))
		return "the policy does not allow it";
	return NULL;
}

static void question_told(struct inside_call *c, const struct inside_question *q, const char *outcome)
{
	inside_record_question(c->server->hub, &c->rq, c->agent, c->name, &c->record,
			       &(struct inside_told){.kind = question_name(q->kind),
						     .outcome = outcome,
						     .key = q->key,
						     .number = q->number,
						     .params = q->answer ? NULL : q->params,
						     .answer = q->answer});
}

static void window_begin(struct inside_call *c)
{
	struct insides *all = hub_insides(c->server->hub);

	if (!c->window_ns)
		c->window_ns = clock_boot_ns() + WINDOW_MS * NS_PER_MS;
	if (!uv_is_active((uv_handle_t *)all->window))
		uv_timer_start(all->window, insides_on_window, WINDOW_MS + 1, 0);
}

/* The text is stolen. ERR_TOO_LARGE: the answers of its call, or of all, would hold too much. */
static int answer_keep(struct inside_call *c, struct inside_question *q, char *text)
{
	struct insides *all = hub_insides(c->server->hub);
	size_t n = strlen(text);

	if (n > ANSWER_SMALL && (c->answers_bytes + n > ANSWERS_BYTES || all->questions_bytes + n > QUESTIONS_ALL)) {
		free(text);
		return ERR_TOO_LARGE;
	}
	q->answer = text;
	q->answer_bytes = n;
	c->answers_bytes += n;
	all->questions_bytes += n;
	return 0;
}

/* {member: v}; NULL: no memory. */
static char *answer_text(const char *member, const json_t *v)
{
	json_t *o = json_pack("{s:O}", member, v);
	char *text = o ? json_text(o) : NULL;

	json_decref(o);
	return text;
}

/* The answer that its caller gave ahead, once; NULL: none. */
static char *take_ahead(struct inside_call *c, const char *key)
{
	json_t *all = NULL;
	const json_t *v;
	char *text = NULL, *left;

	if (!c->ahead || json_parse(c->ahead, strlen(c->ahead), SIZE_MAX, &all, NULL))
		return NULL;
	v = json_object_get(all, key);
	if (v && (text = answer_text("result", v))) {
		json_object_del(all, key);
		left = json_text(all);
		free(c->ahead);
		c->ahead = left;
	}
	json_decref(all);
	return text;
}

static const char *no_room(const struct inside_call *c, const struct inside_question *q)
{
	if (c->questions_bytes + q->bytes > QUESTIONS_BYTES)
		return "its request's open questions would be longer than 512 KiB";
	if (hub_insides(c->server->hub)->questions_bytes + q->bytes > QUESTIONS_ALL)
		return "all open questions would be longer than 32 MiB";
	return NULL;
}

static void question_add(struct inside_call *c, struct inside_question *q)
{
	struct insides *all = hub_insides(c->server->hub);
	char *ahead;

	q->number = ++all->questions;
	c->asked++;
	if (q->named && question_by_key(c, q->key))
		q->named = false;
	if (!q->named)
		text_format(q->key, sizeof(q->key), "ask-%llu", (unsigned long long)q->number);
	TAILQ_INSERT_TAIL(&c->questions, q, entry);
	c->questions_bytes += q->bytes;
	all->questions_bytes += q->bytes;
	question_told(c, q, "asked");
	ahead = q->named ? take_ahead(c, q->key) : NULL;
	if (ahead && answer_keep(c, q, ahead) == 0) {
		question_told(c, q, "answered");
	} else {
		c->open++;
		c->turn = c->turn == TURN_ANSWERED ? TURN_PARKED : c->turn;
	}
	window_begin(c);
}

int inside_asked(struct inside *x, enum question_kind k, const struct inside_line *l, size_t bytes)
{
	struct inside_call *c = call_of_question(x);
	struct inside_question *q;
	const char *why;
	int code;

	why = why_not(x, c, k, l, bytes, &code);
	if (why)
		return inside_asking_refuse(x, c, k, l->id, code, why);
	q = question_read(k, l->id, l->params, &why);
	if (!q)
		return inside_asking_refuse(x, c, k, l->id, RPC_PARAMS, why);
	why = no_room(c, q);
	if (why) {
		question_free(q);
		return inside_asking_refuse(x, c, k, l->id, RPC_INTERNAL, why);
	}
	question_add(c, q);
	return 0;
}

/* member: result or error. ERR_NOMEM, ERR_TOO_LARGE: it is open still. */
static int question_answer(struct inside_call *c, struct inside_question *q, const char *member, const json_t *v)
{
	char *text = answer_text(member, v);
	int rc = text ? answer_keep(c, q, text) : ERR_NOMEM;

	if (rc)
		return rc;
	question_told(c, q, strcmp(member, "result") == 0 ? "answered" : "error");
	if (--c->open == 0 && !c->window_ns) {
		c->turn = TURN_ANSWERED;
		insides_turn(c->server->hub);
	}
	return 0;
}

/* Nobody is left who could answer. */
static void call_forsake(struct inside_call *c)
{
	json_t *gone = json_pack("{s:i,s:s}", "code", RPC_GONE, "message", "the caller who could answer has gone");
	struct inside_question *q;

	TAILQ_FOREACH(q, &c->questions, entry)
	if (gone && !q->answer)
		(void)question_answer(c, q, "error", gone);
	json_decref(gone);
}

void inside_asking_left(struct inside_call *c)
{
	if (c->server && c->open && !listener_of(c))
		call_forsake(c);
}

void inside_asking_joined(struct inside_call *c)
{
	if (c->server && c->open)
		window_begin(c);
}

/* The call waits for its caller from here on, or goes on where all was answered ahead. */
static void call_tell(struct inside *x, struct inside_call *c)
{
	struct inside_caller *k = listener_of(c);
	struct inside_question *q;

	c->window_ns = 0;
	c->turn = c->open ? TURN_PARKED : TURN_ANSWERED;
	TAILQ_FOREACH(q, &c->questions, entry) q->told = true;
	if (!c->open)
		insides_turn(x->hub);
	else if (k)
		k->ops->asked(k->arg, &c->questions);
	else
		call_forsake(c);
}

/* A caller that is told may end calls: the list is walked anew after each. */
static bool tell_one(struct hub *h, uint64_t now)
{
	struct inside_call *c;
	struct inside *x;

	TAILQ_FOREACH(x, &hub_insides(h)->all, entry)
	TAILQ_FOREACH(c, &x->calls, entry)
	if (c->window_ns && now >= c->window_ns) {
		call_tell(x, c);
		return true;
	}
	return false;
}

static bool window_is_open(const struct hub *h)
{
	const struct inside_call *c;
	const struct inside *x;

	TAILQ_FOREACH(x, &hub_insides(h)->all, entry)
	TAILQ_FOREACH(c, &x->calls, entry)
	if (c->window_ns)
		return true;
	return false;
}

void insides_on_window(uv_timer_t *t)
{
	struct hub *h = t->data;

	while (tell_one(h, clock_boot_ns()))
		;
	if (window_is_open(h))
		uv_timer_start(t, insides_on_window, WINDOW_MS / 2, 0);
	insides_turn(h); /* others may pass */
	hub_flush(h);
}

/* ---- answered */

int inside_answer(struct inside_call *c, uint64_t number, const json_t *answer)
{
	struct inside_question *q;

	TAILQ_FOREACH(q, &c->questions, entry)
	if (q->number == number && !q->answer && q->told) {
		const char *member = json_object_get(answer, "result") ? "result" : "error";

		return question_answer_fits(answer) ? question_answer(c, q, member, json_object_get(answer, member))
						    : ERR_INVAL;
	}
	return ERR_NOT_FOUND;
}

void inside_answer_named(struct inside_call *c, const json_t *results)
{
	struct inside_question *q;

	TAILQ_FOREACH(q, &c->questions, entry)
	{
		const json_t *v = q->answer ? NULL : json_object_get(results, q->key);

		if (v)
			(void)question_answer(c, q, "result", v); /* else it is asked for again */
	}
}

static int send_answer(struct inside *x, const struct inside_question *q)
{
	json_t *answer = NULL;
	const json_t *result;
	int rc = json_parse(q->answer, strlen(q->answer), SIZE_MAX, &answer, NULL);

	if (rc)
		return say_error(x, q->id, RPC_INTERNAL, "the answer that is kept cannot be read");
	result = json_object_get(answer, "result");
	rc = inside_send(x, json_pack("{s:s,s:O,s:O}", "jsonrpc", "2.0", "id", q->id, result ? "result" : "error",
				      result ? result : json_object_get(answer, "error")));
	json_decref(answer);
	return rc;
}

/* Answers that could not be sent stay for the next turn. */
static int call_resume(struct inside *x, struct inside_call *c)
{
	struct inside_question *q;
	int rc;

	while ((q = TAILQ_FIRST(&c->questions))) {
		rc = send_answer(x, q);
		if (rc)
			return rc;
		question_drop(c, q);
	}
	c->turn = TURN_RUNS;
	return 0;
}

int inside_asking_resume(struct inside *x)
{
	struct inside_call *c;

	if (!x->asks || call_that_runs(x))
		return 0;
	TAILQ_FOREACH(c, &x->calls, entry)
	if (c->number && c->turn == TURN_ANSWERED)
		return call_resume(x, c);
	return 0;
}

/* ---- over */

/* The server hears of each that is open that nobody will answer it. */
void inside_asking_drop(struct inside_call *c)
{
	struct inside *x = c->server;
	struct inside_question *q;

	while ((q = TAILQ_FIRST(&c->questions))) {
		if (!q->answer)
			question_told(c, q, "unanswered");
		if (x->at)
			(void)say_error(x, q->id, RPC_GONE, "the request that it belonged to has ended");
		question_drop(c, q);
	}
	c->open = 0;
	c->window_ns = 0;
}

/* notifications/cancelled of the server's own question. */
void inside_asking_withdraw(struct inside *x, const json_t *id)
{
	struct inside_question *q = NULL;
	struct inside_caller *k;
	struct inside_call *c;

	TAILQ_FOREACH(c, &x->calls, entry)
	{
		TAILQ_FOREACH(q, &c->questions, entry)
		if (json_equal(q->id, id))
			break;
		if (q)
			break;
	}
	if (!q)
		return;
	question_told(c, q, "withdrawn");
	k = listener_of(c);
	if (!q->answer && q->told && k && k->ops->withdrawn)
		k->ops->withdrawn(k->arg, q->number);
	if (!q->answer && --c->open == 0 && !c->window_ns) {
		c->turn = TURN_ANSWERED;
		insides_turn(x->hub);
	}
	question_drop(c, q);
}

/* To the caller of a request that is alone in flight, or whose own the given-up ones are; else nobody knows whose words
 * they are. */
void inside_asking_log(struct inside *x, const json_t *params)
{
	struct inside_call *c = x->asks ? call_that_runs(x) : call_of_question(x);
	struct inside_caller *k;

	if (!c || (!x->asks && x->flight != 1) || !inside_ghosts_are_of(&x->ghosts, &c->rq.grant, c->task))
		return;
	TAILQ_FOREACH(k, &c->callers, entry)
	if (k->ops->log)
		k->ops->log(k->arg, params);
}
