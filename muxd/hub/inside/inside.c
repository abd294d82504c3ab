/*
 * The states of a server inside: begun, greeted, looked at, ready; failed and begun again; ended.
 *
 * One noun of more than a thousand lines: a word of the server, an end, a caller and the clock each move it from state
 * to state, through the same few functions.
 */
#define LOG_SUBSYS "mcp"
#include "muxd/hub/inside/inside.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loopback.h"
#include "base/text.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/core/grant_news.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/inside/inside_answer.h"
#include "muxd/hub/inside/inside_may.h"
#include "muxd/hub/inside/inside_state.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/program.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/tail.h"
#include "muxd/hub/session/wake.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define BACKOFF_FIRST_MS 500
#define BACKOFF_MOST_MS  30000
#define ENDS_SOON_NS     (60 * NS_PER_SEC)  /* of a grant */
#define STEADY_NS        (30 * NS_PER_SEC)  /* ready for so long, what was before is forgiven */
#define WANTED_NS        (300 * NS_PER_SEC) /* used within: begun again by itself */
#define IDLE_FORGET_NS   (600 * NS_PER_SEC)
#define LIST_NS          (30 * NS_PER_SEC)
#define REFUSALS_TOLD    10
#define CHANGES_TOLD     20
#define LIST_AGAIN       3
#define BRIDGE_NS        (2 * NS_PER_SEC) /* muxlet's own word about a url that nobody serves comes first */
#define BRIDGE_USAGE     64               /* exit code of a muxlet that does not know --mcp */
#define LIST_EVERY_NS    (5 * NS_PER_SEC) /* of a server that says again and again that its tools are others */

static const char *const state_names[] = {"absent", "starting", "initializing", "listing",
					  "ready",  "held",     "backing_off",  "ending"};

const char *inside_state_name(enum inside_state s)
{
	return state_names[s];
}

static void inside_set_state(struct inside *x, enum inside_state to)
{
	log_debug(&(struct log_ids){.agent = x->agent}, "MCP server %s: %s -> %s", x->name, state_names[x->state],
		  state_names[to]);
	x->state = to;
	x->until_ns = 0;
	hub_stir(x->hub);
}

static void inside_until(struct inside *x, uint64_t ns)
{
	x->until_ns = clock_boot_ns() + ns;
}

/* ---- kept in the hub */

struct inside *inside_find(struct hub *h, const char *agent, const struct server_def *def)
{
	struct inside *x;

	TAILQ_FOREACH(x, &hub_insides(h)->all, entry)
	if (!x->dropped && strcmp(x->agent, agent) == 0 && strcmp(x->name, def->name) == 0 &&
	    strcmp(x->fingerprint, def->fingerprint) == 0)
		return x;
	return NULL;
}

struct inside *inside_get(struct hub *h, const struct agent *a, const struct server_def *def)
{
	struct inside *x = inside_find(h, a->name, def);

	if (x)
		return x;
	x = calloc(1, sizeof(*x));
	if (!x || !(x->def = server_def_json(def))) {
		free(x);
		return NULL;
	}
	x->hub = h;
	x->asks = question_kinds(def->asks);
	x->next_number = 1;
	text_put(x->agent, sizeof(x->agent), a->name);
	text_put(x->stored_as, sizeof(x->stored_as), a->name);
	text_put(x->name, sizeof(x->name), def->name);
	text_put(x->fingerprint, sizeof(x->fingerprint), def->fingerprint);
	TAILQ_INIT(&x->calls);
	TAILQ_INIT(&x->lookers);
	inside_lines_init(&x->lines);
	x->used_ns = clock_boot_ns();
	TAILQ_INSERT_TAIL(&hub_insides(h)->all, x, entry);
	return x;
}

static void inside_free(struct inside *x)
{
	TAILQ_REMOVE(&hub_insides(x->hub)->all, x, entry);
	inside_lines_finish(&x->lines);
	buf_finish(&x->out);
	buf_finish(&x->tail);
	json_decref(x->def);
	json_decref(x->hello);
	json_decref(x->tools);
	json_decref(x->approved);
	free(x);
}

/* ---- who waits for its tools */

static void lookers_tell(struct inside *x, int rc, const char *message, json_t *stored)
{
	struct inside_looker *k;
	struct err e = {0};

	if (rc)
		err_set(&e, rc, "%s", message && *message ? message : err_name(rc));
	while ((k = TAILQ_FIRST(&x->lookers))) {
		TAILQ_REMOVE(&x->lookers, k, entry);
		k->done(k->arg, rc, rc ? &e : NULL, rc ? NULL : stored);
		free(k);
	}
}

/* ---- its end, and what comes of it */

static struct session *program_of(const struct inside *x)
{
	return id_is_nil(&x->program) ? NULL : hub_session_find(x->hub, &x->program);
}

/* Its program is let go of: nothing of it is heard from here on. */
static void inside_let_go(struct inside *x)
{
	struct attachment *a = x->at;

	x->at = NULL;
	x->program = (struct id){0};
	attachment_detach(a);
	inside_tools_leave(x);
	inside_lines_finish(&x->lines);
	buf_finish(&x->out);
	inside_ghosts_clear(&x->ghosts);
	x->own_number = 0;
	x->stale = false;
}

static void inside_kill(struct inside *x, const char *why)
{
	struct session *s = program_of(x);

	if (s)
		session_kill(s, EXIT_KILLED, why);
}

static bool wanted(const struct inside *x)
{
	return x->ncalls || !TAILQ_EMPTY(&x->lookers) || clock_boot_ns() - x->used_ns < WANTED_NS;
}

/* All that waited for this start hears why it came to nothing; the next one begins later. */
static void inside_back_off(struct inside *x)
{
	char text[ERR_MESSAGE_MAX];

	if (x->ready_ns && clock_boot_ns() - x->ready_ns >= STEADY_NS)
		x->failures = 0;
	x->failures++;
	hub_insides(x->hub)->failures++;
	x->ready_ns = 0;
	inside_set_state(x, INSIDE_BACKING_OFF);
	inside_until(x, backoff(x->failures, BACKOFF_FIRST_MS, BACKOFF_MOST_MS) * NS_PER_MS);
	log_warn(&(struct log_ids){.agent = x->agent}, "MCP server %s failed (%u in a row): %s", x->name, x->failures,
		 x->why);
	(void)audit_event(
	    x->hub, "mcp.failed", NULL, x->agent, err_name(ERR_MCP_SERVER),
	    json_pack("{s:s,s:s,s:i}", "server", x->name, "message", x->why, "failures", (int)x->failures));
	text_format(text, sizeof(text), "MCP server %s: %s", x->name, x->why);
	inside_calls_end(x, false, ERR_MCP_SERVER, text);
	lookers_tell(x, ERR_MCP_SERVER, text, NULL);
}

/* Let go of, and killed, but not dead yet. */
static bool inside_is_dying(const struct inside *x)
{
	const struct session *s = x->at ? NULL : program_of(x);

	return s && !session_result(s);
}

/* Somebody ended it: callers hear that, and the next one has it begun again, once the old program is dead. */
static void inside_rest(struct inside *x, int rc)
{
	char text[ERR_MESSAGE_MAX];

	x->ready_ns = 0;
	x->leave = LEAVE_WANTED;
	inside_set_state(x, rc != ERR_UNAVAILABLE && inside_is_dying(x) ? INSIDE_ENDING : INSIDE_ABSENT);
	text_format(text, sizeof(text), "MCP server %s ended while the request was under way: %s", x->name, x->why);
	inside_calls_end(x, false, rc, text);
	lookers_tell(x, rc, text, NULL);
}

/* The program is ended for what x->why says. */
static void inside_fail(struct inside *x)
{
	char text[ERR_MESSAGE_MAX];

	inside_set_state(x, INSIDE_ENDING);
	x->leave = LEAVE_FAULT;
	text_format(text, sizeof(text), "MCP server %s: %s", x->name, x->why);
	inside_kill(x, "it broke the protocol, or did not answer");
	inside_calls_end(x, false, ERR_MCP_SERVER, text);
	lookers_tell(x, ERR_MCP_SERVER, text, NULL);
}

static void inside_settle(struct inside *x, int rc)
{
	if (!rc || x->state == INSIDE_ENDING || x->state == INSIDE_ABSENT || x->state == INSIDE_BACKING_OFF)
		return;
	if (rc != ERR_MCP_SERVER)
		(void)inside_fault(x, "%s", err_name(rc));
	inside_fail(x);
}

void inside_stop(struct inside *x, const char *why)
{
	char text[ERR_MESSAGE_MAX];

	text_put(x->why, sizeof(x->why), why);
	x->why_rc = ERR_MCP_SERVER;
	text_format(text, sizeof(text), "MCP server %s: %s", x->name, why);
	if (x->state == INSIDE_ABSENT || x->state == INSIDE_BACKING_OFF || x->start_due) {
		x->start_due = false;
		inside_set_state(x, INSIDE_ABSENT);
	} else {
		if (x->state != INSIDE_ENDING) {
			inside_set_state(x, INSIDE_ENDING);
			inside_kill(x, why);
		}
		x->leave = LEAVE_WANTED; /* and so it does not begin again, whatever it ended for */
	}
	inside_calls_end(x, false, ERR_MCP_SERVER, text);
	lookers_tell(x, ERR_MCP_SERVER, text, NULL);
}

/* Nothing of it is a program of muxd's but the muxlet that speaks with it. */
static bool by_url(const struct inside *x)
{
	return json_object_get(x->def, "url") != NULL;
}

static void describe_end(struct inside *x, const struct session_result *r)
{
	char words[160], how[80];
	bool bridge = by_url(x) && r->cause == EXIT_EXITED && !r->signal;

	tail_last_line(&x->tail, words, sizeof(words)); /* often the whole reason */
	if (r->cause == EXIT_EXITED && r->signal)
		text_format(how, sizeof(how), "it was killed by signal %s", signal_name(r->signal));
	else if (r->cause == EXIT_EXITED)
		text_format(how, sizeof(how), "it exited with code %d", r->code);
	else if (r->cause == EXIT_OOM)
		text_put(how, sizeof(how), "it was killed as memory ran out");
	else
		text_put(how, sizeof(how), r->message[0] ? r->message : exit_cause_name(r->cause));
	text_format(x->why, sizeof(x->why), "%s%s%s%s", how,
		    x->state == INSIDE_INITIALIZING ? " before it answered initialize" : "", *words ? "; stderr: " : "",
		    words);
	if (bridge && r->code == BRIDGE_USAGE)
		text_put(x->why, sizeof(x->why),
			 "the muxlet of its sandbox is from before servers by address: end the sandbox once");
	else if (bridge && *words) /* muxlet's own sentence about the server */
		text_put(x->why, sizeof(x->why), words);
	x->why_rc = ERR_MCP_SERVER;
}

static void inside_is_over(struct inside *x);

/* Services end ahead of their sandbox, and with them those that are reached by address: that is no failure. */
static bool sandbox_stops(const struct inside *x)
{
	const struct agent *a = agent_find(x->hub, x->agent);

	return a && a->stopping;
}

static void inside_on_ended(void *arg, const struct session_result *r)
{
	struct inside *x = arg;
	bool by_itself = r->cause == EXIT_EXITED || r->cause == EXIT_OOM;
	bool wanted_so = x->state == INSIDE_ENDING && x->leave == LEAVE_WANTED;
	bool fault = x->state == INSIDE_ENDING && x->leave == LEAVE_FAULT;
	bool anew = x->state == INSIDE_ENDING && x->leave == LEAVE_ANEW;

	if (!fault && !wanted_so && !anew)
		describe_end(x, r);
	inside_let_go(x);
	if (anew)
		inside_is_over(x);
	else if (!x->dropped && (fault || (by_itself && !wanted_so && !sandbox_stops(x))))
		inside_back_off(x);
	else
		inside_rest(x, r->cause == EXIT_LOST || r->cause == EXIT_UNKNOWN ? ERR_LINK_LOST : ERR_MCP_SERVER);
}

/* Its grant has ended, or the daemon does. */
static void inside_on_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct inside *x = arg;

	text_put(x->why, sizeof(x->why), text);
	x->why_rc = ERR_MCP_SERVER;
	if (cause != CUT_SHUTDOWN)
		inside_kill(x, text);
	inside_let_go(x);
	inside_rest(x, cause == CUT_SHUTDOWN ? ERR_UNAVAILABLE : ERR_MCP_SERVER);
}

/* ---- ready */

static bool is_tool_call(const struct inside_call *c)
{
	return strcmp(c->method, "tools/call") == 0;
}

/* A request that was allowed when it came may be so no more, and the names of tools are known by now. */
static int inside_call_may(struct inside *x, struct inside_call *c, struct err *e)
{
	const char *tool = is_tool_call(c) ? c->tool : NULL;

	if (broker_grant_check(x->hub, &c->grant, e))
		return broker_refused(x->hub, &c->rq, x->agent, "mcp.request", e);
	if (!inside_may_see(x->hub, &c->rq, x->agent, c->task, x->name, tool))
		return inside_may(x->hub, &c->rq, x->agent, c->task, x->name, tool, "mcp.request", e);
	if (tool && x->approved && !json_object_get(x->approved, tool))
		return err_set(e, ERR_NOT_FOUND, "MCP server %s has no tool of that name that is approved: %.60s",
			       x->name, tool);
	return 0;
}

/* A caller that is told of an end may ask again: the list is walked anew after each. */
static void inside_calls_judge(struct inside *x)
{
	struct inside_call *c;
	struct err e = {0};

	do {
		TAILQ_FOREACH(c, &x->calls, entry)
		if (!c->number && !c->judged) {
			if (inside_call_may(x, c, &e))
				break;
			c->judged = true;
		}
		if (c)
			inside_call_end(c, e.code, e.message, NULL);
	} while (c && x->state == INSIDE_READY);
}

/* A new program, under the grant of whoever waits for it. */
static void inside_begin_anew(struct inside *x, const struct inside_call *c, const char *why)
{
	text_put(x->why, sizeof(x->why), why);
	x->why_rc = ERR_MCP_SERVER;
	x->starter = c->rq;
	request_finish(&x->starter);
	text_put(x->task, sizeof(x->task), c->task);
	inside_set_state(x, INSIDE_ENDING);
	x->leave = LEAVE_ANEW;
	inside_kill(x, x->why);
}

/* Another caller's turn goes on: what was given up may be all that it is. */
static void inside_pump_waits(struct inside *x, const struct inside_call *c)
{
	if (!x->flight && !inside_ghosts_are_of(&x->ghosts, &c->rq.grant, c->task) &&
	    inside_ghosts_are_due(&x->ghosts, clock_boot_ns()))
		inside_begin_anew(x, c, "a request that was given up did not end in it, and others wait");
}

/*
 * It ends with the grant that it was begun under: soon, and before the request is through, whose own grant lasts
 * longer. Such a request gets a program of its own grant, once what was sent to this one has ended.
 */
static bool inside_ends_before(const struct inside *x, const struct inside_call *c)
{
	struct grant_news news = hub_grant_news(x->hub);
	struct grant_line l = grant_line(&x->starter.grant);
	int64_t ends = grant_line_ends(&l, &news), left = ends - hub_now_wall(x->hub);
	uint64_t now = clock_boot_ns(), time = c->until_ns > now ? c->until_ns - now : 0;

	return left < (int64_t)(time < ENDS_SOON_NS ? time : ENDS_SOON_NS) && grant_line_ends(&c->grant, &news) > ends;
}

static void inside_pump(struct inside *x)
{
	struct inside_call *c;
	int rc;

	if (x->state != INSIDE_READY)
		return;
	TAILQ_FOREACH(c, &x->calls, entry) c->judged = false;
	if (x->flight < INSIDE_FLIGHT_MAX)
		inside_calls_judge(x);
	if (x->state != INSIDE_READY)
		return;
	rc = inside_asking_resume(x);
	if (rc && rc != ERR_LIMIT) {
		inside_settle(x, rc);
		return;
	}
	TAILQ_FOREACH(c, &x->calls, entry)
	{
		if (c->number || !c->judged)
			continue;
		if (inside_ends_before(x, c)) {
			if (!x->flight)
				inside_begin_anew(x, c, "the grant that it was begun under ends, and others need it");
			return;
		}
		if (!inside_turn_is_free(x, c)) { /* nor that of any behind it: nobody is passed for ever */
			inside_pump_waits(x, c);
			return;
		}
		if (x->flight >= INSIDE_FLIGHT_MAX)
			return;
		rc = inside_call_send(x, c);
		if (rc == ERR_LIMIT) /* it does not read: what waits goes on waiting, for as long as its time is */
			return;
		if (rc) {
			inside_settle(x, rc);
			return;
		}
	}
}

static void inside_ready(struct inside *x)
{
	if (!x->ready_ns)
		x->ready_ns = clock_boot_ns();
	x->why[0] = '\0';
	x->why_rc = 0;
	x->again = 0;
	inside_set_state(x, INSIDE_READY);
	inside_pump(x);
}

/* As an event has them: the first ones, and how many there are. */
static json_t *changes_told(const json_t *changes)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < json_array_size(changes) && i < CHANGES_TOLD; i++)
		json_array_append(list, json_array_get(changes, i));
	return list;
}

/* Callers hear that somebody has to look first. */
static void inside_hold(struct inside *x, const json_t *changes)
{
	const json_t *first = json_array_get(changes, 0);
	char text[ERR_MESSAGE_MAX];

	text_format(x->why, sizeof(x->why), "its tools are others than those approved: %.60s is %s%s",
		    json_get_text(first, "tool"), json_get_text(first, "change"),
		    json_array_size(changes) > 1 ? ", and more" : "");
	x->why_rc = ERR_MCP_HELD;
	inside_set_state(x, INSIDE_HELD);
	(void)audit_event(x->hub, "mcp.held", NULL, x->agent, err_name(ERR_MCP_HELD),
			  json_pack("{s:s,s:I,s:o}", "server", x->name, "count", (json_int_t)json_array_size(changes),
				    "changes", changes_told(changes)));
	text_format(text, sizeof(text), "MCP server %s is held: %s", x->name, x->why);
	inside_calls_end(x, false, ERR_MCP_HELD, text);
}

static void inside_on_tools(struct inside *x, int rc, const char *message, json_t *stored)
{
	const json_t *changes = json_object_get(stored, "changes");

	if (x->state != INSIDE_LISTING)
		return; /* it ended meanwhile, and who waits heard that */
	if (rc) {
		(void)inside_fault(x, "its tools could not be stored: %s", message);
		inside_fail(x);
		return;
	}
	json_decref(x->tools);
	x->tools = NULL;
	json_decref(x->approved);
	x->approved = json_incref(json_object_get(stored, "seen"));
	if (json_array_size(changes))
		inside_hold(x, changes);
	else
		inside_ready(x);
	lookers_tell(x, 0, NULL, stored);
}

static int inside_list(struct inside *x)
{
	inside_set_state(x, INSIDE_LISTING);
	inside_until(x, LIST_NS);
	x->stale = false;
	x->listed_ns = clock_boot_ns();
	return inside_tools_ask(x, NULL);
}

/* Read anew after the server said that its tools are others. */
static int inside_list_stale(struct inside *x)
{
	return x->stale && x->state == INSIDE_READY && clock_boot_ns() - x->listed_ns >= LIST_EVERY_NS ? inside_list(x)
												       : 0;
}

void inside_approved(struct inside *x)
{
	if (x->state != INSIDE_HELD)
		return;
	if (x->stale) /* what was approved is not what it has by now */
		inside_settle(x, inside_list(x));
	else
		inside_ready(x);
}

/* ---- its words */

static int on_hello(struct inside *x, const struct inside_line *l, size_t bytes)
{
	bool tools = false;
	int rc;

	if (l->kind == INSIDE_ERROR)
		return inside_fault(x, "it refused initialize: %.150s", json_get_text(l->error, "message"));
	rc = inside_hello(x, l->result, bytes, &tools);
	rc = rc ? rc : inside_send(x, json_pack("{s:s,s:s}", "jsonrpc", "2.0", "method", "notifications/initialized"));
	if (rc || tools)
		return rc ? rc : inside_list(x);
	json_decref(x->tools); /* without tools its catalogue is what it said of itself */
	x->tools = json_array();
	inside_set_state(x, INSIDE_LISTING);
	inside_until(x, LIST_NS);
	return x->tools ? inside_tools_store(x, inside_on_tools) : ERR_NOMEM;
}

static int on_page(struct inside *x, const struct inside_line *l, size_t bytes)
{
	bool whole = false;
	int rc;

	if (l->kind == INSIDE_ERROR)
		return inside_fault(x, "it refused tools/list: %.150s", json_get_text(l->error, "message"));
	rc = inside_tools_page(x, l, bytes, &whole);
	if (rc || !whole)
		return rc;
	/* One that adds tools while it is greeted has them read once more, or they would be held as new. */
	if (x->stale && x->again++ < LIST_AGAIN)
		return inside_list(x);
	return inside_tools_store(x, inside_on_tools);
}

/* The first ones of each start are told; all are counted. */
static void inside_refused(struct inside *x, const char *what)
{
	struct session *s = program_of(x);

	x->refused++;
	if (x->refusals++ >= REFUSALS_TOLD)
		return;
	if (s)
		session_event(s, "mcp_refused", json_pack("{s:s}", "method", what));
	(void)audit_event(x->hub, "mcp.refused", NULL, x->agent, err_name(ERR_FORBIDDEN),
			  json_pack("{s:s,s:s}", "server", x->name, "method", what));
}

/* An answer that asks back in place of answering fails its request alone. */
static void inside_answered(struct inside *x, struct inside_call *c, const struct inside_line *l)
{
	bool error = l->kind == INSIDE_ERROR;
	char what[100], text[ERR_MESSAGE_MAX];

	if (!error && !json_is_object(l->result)) {
		inside_call_end(c, ERR_MCP_SERVER, "the server's result is no object", NULL);
	} else if (!inside_answer_clean((json_t *)(uintptr_t)l->result, (json_t *)(uintptr_t)l->error, what,
					sizeof(what))) {
		text_format(text, sizeof(text),
			    "MCP server %s asks back in place of an answer, by %s: sampling and elicitation are off",
			    x->name, what);
		inside_refused(x, what);
		inside_call_end(c, ERR_MCP_SERVER, text, NULL);
	} else {
		inside_call_end(c, 0, NULL,
				error ? json_pack("{s:O}", "error", l->error)
				      : json_pack("{s:O}", "result", l->result));
	}
}

static int inside_on_answer(struct inside *x, const struct inside_line *l, size_t bytes)
{
	struct inside_call *c;

	if (l->number && l->number == x->own_number) {
		x->own_number = 0;
		return x->state == INSIDE_INITIALIZING ? on_hello(x, l, bytes)
		       : x->state == INSIDE_LISTING    ? on_page(x, l, bytes)
						       : 0;
	}
	c = l->number ? inside_call_by_number(x, l->number) : NULL;
	if (c) {
		c->answered = true;
		inside_answered(x, c, l);
		inside_pump(x);
		return 0;
	}
	if (l->number && l->number < x->next_number) {
		x->late++; /* it was cancelled, or its time was over */
		inside_ghosts_answered(&x->ghosts, l->number);
		insides_turn(x->hub); /* others may pass */
		return inside_flood(x, bytes);
	}
	return inside_fault(x, "it answered a request that nobody made: its id is none of ours");
}

/* Requests of a server to its client are refused, but for the question whether it is there, and those that its
 * definition opens. */
static int inside_on_request(struct inside *x, const struct inside_line *l, size_t bytes)
{
	enum question_kind kind = question_kind_of(l->method);
	char text[160], word[64];

	if (strcmp(l->method, "ping") == 0)
		return inside_send(x, json_pack("{s:s,s:O,s:{}}", "jsonrpc", "2.0", "id", l->id, "result"));
	if (x->asks & (unsigned)kind)
		return inside_asked(x, kind, l, bytes);
	inside_word(word, sizeof(word), l->method);
	inside_refused(x, word);
	text_format(text, sizeof(text), "%s is off: a server inside a sandbox may not ask its client for it", word);
	return inside_send(x, json_pack("{s:s,s:O,s:{s:i,s:s}}", "jsonrpc", "2.0", "id", l->id, "error", "code", -32601,
					"message", text));
}

static void inside_on_log(struct inside *x, const json_t *params)
{
	const json_t *data = json_object_get(params, "data");
	char *text = json_is_string(data) ? strdup(json_string_value(data)) : data ? json_text(data) : NULL;
	char head[48];

	text_format(head, sizeof(head), "log %.32s: ", json_get_text(params, "level"));
	if (text) {
		inside_tail_add(x, head, text, text_cut(text, strlen(text), 4096));
		inside_tail_add(x, "", "\n", 1);
	}
	free(text);
	inside_asking_log(x, params);
}

static int inside_on_notification(struct inside *x, const struct inside_line *l)
{
	if (strcmp(l->method, "notifications/progress") == 0) {
		inside_calls_progress(x, l->params);
	} else if (strcmp(l->method, "notifications/message") == 0) {
		inside_on_log(x, l->params);
	} else if (strcmp(l->method, "notifications/cancelled") == 0) {
		inside_asking_withdraw(x, json_object_get(l->params, "requestId"));
	} else if (strcmp(l->method, "notifications/resources/updated") == 0) {
		if (x->state == INSIDE_READY && hub_insides(x->hub)->updated)
			hub_insides(x->hub)->updated(hub_insides(x->hub)->updated_arg, x->agent, x->name,
						     json_get_text(l->params, "uri"));
	} else if (strcmp(l->method, "notifications/tools/list_changed") == 0) {
		x->stale = true;
		return inside_list_stale(x);
	}
	return 0;
}

static int inside_on_line(struct inside *x, struct inside_line *l, size_t bytes)
{
	if (x->state == INSIDE_ENDING || x->state == INSIDE_ABSENT)
		return 0;
	return l->kind == INSIDE_REQUEST        ? inside_on_request(x, l, bytes)
	       : l->kind == INSIDE_NOTIFICATION ? inside_on_notification(x, l)
						: inside_on_answer(x, l, bytes);
}

static void inside_on_readable(void *arg)
{
	struct inside *x = arg;

	if (x->state == INSIDE_ENDING)
		inside_drain(x);
	else
		inside_settle(x, inside_read(x, inside_on_line));
}

static void inside_on_writable(void *arg)
{
	struct inside *x = arg;
	int rc = inside_flush(x);

	if (rc)
		inside_settle(x, rc);
	else
		inside_pump(x);
}

static void inside_on_notice(void *arg, const char *text, bool over)
{
	(void)arg, (void)text, (void)over;
}

static void inside_on_skipped(void *arg, int stream, uint64_t n)
{
	(void)arg, (void)stream, (void)n;
}

static const struct attachment_ops inside_client = {.readable = inside_on_readable,
						    .writable = inside_on_writable,
						    .notice = inside_on_notice,
						    .skipped = inside_on_skipped,
						    .ended = inside_on_ended,
						    .cut = inside_on_cut};

/* ---- its beginning */

static void inside_greet(struct inside *x)
{
	int rc;

	inside_set_state(x, INSIDE_INITIALIZING);
	inside_until(x, (uint64_t)json_integer_value(json_object_get(x->def, "start_timeout_ms")) * NS_PER_MS +
			    (by_url(x) ? BRIDGE_NS : 0));
	x->own_number = x->next_number++;
	rc = inside_send(x, json_pack("{s:s,s:I,s:s,s:{s:s,s:o,s:{s:s,s:s}}}", "jsonrpc", "2.0", "id",
				      (json_int_t)x->own_number, "method", "initialize", "params", "protocolVersion",
				      "2025-11-25", "capabilities", question_capabilities(x->asks), "clientInfo",
				      "name", "muxd", "version", MUXD_VERSION));
	inside_settle(x, rc);
}

/* Refused for what the caller may do, or for what the daemon can do now: no failure of the server's. */
static bool is_refusal(int rc)
{
	return err_http_status(rc) == 401 || err_http_status(rc) == 403 || rc == ERR_RECORD_UNAVAILABLE ||
	       rc == ERR_DISK_FULL || rc == ERR_UNAVAILABLE || rc == ERR_CANCELLED || rc == ERR_LIMIT ||
	       rc == ERR_NOMEM || rc == ERR_UNSUPPORTED || rc == ERR_SERVICE;
}

static void inside_not_begun(struct inside *x, int rc, const char *message)
{
	text_format(x->why, sizeof(x->why), "it could not be started: %s", message);
	x->why_rc = rc;
	if (is_refusal(rc)) {
		x->ready_ns = 0;
		inside_set_state(x, INSIDE_ABSENT);
		inside_calls_end(x, false, rc, x->why);
		lookers_tell(x, rc, x->why, NULL);
	} else {
		inside_back_off(x);
	}
}

static void inside_on_begun(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			    const struct id *seen)
{
	struct inside *x = arg;

	(void)seen; /* it has no exec_id */
	x->under_way--;
	if (!rc) {
		x->at = a;
		x->program = *session_id(s);
	}
	if (x->state == INSIDE_ENDING && !rc)
		inside_kill(x, x->why);
	else if (x->state == INSIDE_ENDING)
		inside_rest(x, rc);
	else if (rc)
		inside_not_begun(x, rc, e ? e->message : err_name(rc));
	else
		inside_greet(x);
	hub_flush(x->hub);
}

/* Its command; or muxlet itself, for an address. *out_port: of that, 0 of a command. ms: room for a number. */
static void inside_argv(const struct inside *x, const char *argv[PROGRAM_ARGV_MAX], char ms[24], uint16_t *out_port)
{
	const char *url = json_string_value(json_object_get(x->def, "url"));
	struct loopback to = {0};

	*out_port = 0;
	if (!url || loopback_read(url, &to)) {
		program_argv(json_object_get(x->def, "command"), argv, PROGRAM_ARGV_MAX);
		return;
	}
	snprintf(ms, 24, "%lld", (long long)json_integer_value(json_object_get(x->def, "start_timeout_ms"))); /* own */
	memcpy(argv, (const char *[]){"muxlet", "--mcp", url, "--within", ms, NULL}, 6 * sizeof(*argv));
	*out_port = to.port;
}

static void inside_begin(struct inside *x)
{
	const char *argv[PROGRAM_ARGV_MAX];
	char ms[24];
	char **env = program_env(json_object_get(x->def, "env"));
	const char *cwd = json_get_text(x->def, "cwd");
	struct exec_spec spec = {.kind = SESSION_ROUND,
				 .agent = x->agent,
				 .task = x->task[0] ? x->task : NULL,
				 .argv = argv,
				 .env = (const char *const *)env,
				 .cwd = *cwd ? cwd : NULL,
				 .stdin_open = true,
				 .server = x->name,
				 .judged = true, /* as a request to it */
				 .head = 0,
				 .tail = 0};
	struct request rq = x->starter;

	inside_argv(x, argv, ms, &spec.serves);
	x->start_due = false;
	x->program = (struct id){0};
	x->begun++;
	buf_clear(&x->tail);
	inside_lines_init(&x->lines);
	x->garbage_bytes = 0;
	x->refusals = 0;
	x->under_way++;
	broker_open(x->hub, &rq, &spec, &inside_client, x, inside_on_begun, x);
	program_env_free(env);
}

/* In the next turn of the loop: a refusal is told from there. */
static void inside_start(struct inside *x, const struct request *rq, const char *task)
{
	if (rq) {
		x->starter = *rq;
		request_finish(&x->starter);
		text_put(x->task, sizeof(x->task), task);
	}
	inside_set_state(x, INSIDE_STARTING);
	x->start_due = true;
}

static void insides_on_turn(uv_timer_t *t)
{
	struct hub *h = t->data;
	struct inside_call *c;
	struct inside *x, *nx;

	for (x = TAILQ_FIRST(&hub_insides(h)->all); x; x = nx) {
		nx = TAILQ_NEXT(x, entry);
		if (x->start_due)
			inside_begin(x);
		else
			inside_pump(x);
	}
	/* Others may be trimmed while one is told of, but not that one: the next is looked for behind it. */
	TAILQ_FOREACH(c, &hub_insides(h)->kept, entry)
	inside_call_again(c);
	hub_flush(h);
}

/* ---- asked for */

/* May it be begun, or waited for? */
static int inside_check(const struct inside *x, struct err *e)
{
	uint64_t now = clock_boot_ns();

	if (x->state == INSIDE_HELD)
		return err_set(e, ERR_MCP_HELD, "MCP server %s is held: %s", x->name, x->why);
	if (x->state == INSIDE_BACKING_OFF && x->until_ns > now + INSIDE_PATIENCE_NS)
		return err_set(e, ERR_MCP_DOWN,
			       "MCP server %s failed %u times in a row, and is begun again in %llu s: %s", x->name,
			       x->failures, (unsigned long long)((x->until_ns - now) / NS_PER_SEC + 1), x->why);
	return 0;
}

static void inside_need(struct inside *x, const struct request *rq, const char *task)
{
	x->used_ns = clock_boot_ns();
	if (x->state == INSIDE_ABSENT)
		inside_start(x, rq, task);
	else if (x->state == INSIDE_BACKING_OFF || x->state == INSIDE_ENDING) {
		x->starter = *rq;
		request_finish(&x->starter);
		text_put(x->task, sizeof(x->task), task);
	}
	insides_turn(x->hub);
}

int inside_ask(struct inside *x, const struct inside_ask *ask, struct inside_call **out, struct err *e)
{
	struct inside_call *c = inside_call_by_exec_id(x, ask);
	int rc;

	if (c) {
		rc = inside_call_join(c, ask);
		inside_asking_joined(c);
		insides_turn(x->hub);
		*out = c;
		return rc ? err_set(e, rc, "no memory for a request") : 0;
	}
	rc = inside_check(x, e);
	rc = rc ? rc : inside_call_create(x, ask, &c, e);
	if (rc)
		return rc;
	inside_need(x, ask->rq, ask->task);
	*out = c;
	return 0;
}

void inside_abandon(struct inside_call *c, void *arg)
{
	bool last;

	inside_call_forget(c, arg, &last);
	inside_asking_left(c);
}

/* Ended ahead of its answer: the server is told, who need not heed it, and whose answer is late then. */
static void inside_give_up(struct inside *x, struct inside_call *c, int rc, const char *message, const char *reason)
{
	int64_t number = c->number;

	inside_call_end(c, rc, message, NULL);
	if (number && x->at)
		inside_settle(x, inside_send(x, json_pack("{s:s,s:s,s:{s:I,s:s}}", "jsonrpc", "2.0", "method",
							  "notifications/cancelled", "params", "requestId",
							  (json_int_t)number, "reason", reason)));
}

void inside_cancel(struct inside_call *c, void *arg)
{
	struct inside *x = c->server;
	bool last;

	inside_call_forget(c, arg, &last);
	if (!last || !x) {
		inside_asking_left(c);
		return;
	}
	inside_give_up(x, c, ERR_CANCELLED, "its caller cancelled it", "its caller cancelled it");
}

int inside_refresh(struct inside *x, const struct request *rq, const char *task, broker_json_done *done, void *arg,
		   struct err *e)
{
	struct inside_looker *k;
	int rc = x->state == INSIDE_BACKING_OFF ? inside_check(x, e) : 0;

	if (rc)
		return rc;
	k = malloc(sizeof(*k));
	if (!k)
		return err_set(e, ERR_NOMEM, "no memory");
	*k = (struct inside_looker){.done = done, .arg = arg};
	TAILQ_INSERT_TAIL(&x->lookers, k, entry);
	if (x->state == INSIDE_READY || x->state == INSIDE_HELD)
		inside_settle(x, inside_list(x));
	inside_need(x, rq, task);
	return 0;
}

void insides_configured(struct hub *h, const char *agent, const json_t *list)
{
	struct inside *x, *next;
	struct server_def d;

	for (x = TAILQ_FIRST(&hub_insides(h)->all); x; x = next) {
		next = TAILQ_NEXT(x, entry);
		if (x->dropped || strcmp(x->agent, agent) != 0 ||
		    (server_list_find(list, x->name, &d, NULL) == 0 && strcmp(d.fingerprint, x->fingerprint) == 0))
			continue;
		x->dropped = true;
		inside_stop(x, "it is not configured like that any more");
	}
	hub_flush(h);
}

json_t *inside_show(const struct inside *x, bool tail)
{
	uint64_t now = clock_boot_ns();
	char program[ID_STR_LEN] = "";
	json_t *o;

	if (!x)
		return json_pack("{s:s}", "state", inside_state_name(INSIDE_ABSENT));
	if (!id_is_nil(&x->program))
		id_format(&x->program, program);
	o = json_pack("{s:s,s:s*,s:s*,s:i,s:i,s:i,s:I,s:I,s:I}", "state", inside_state_name(x->state), "why",
		      x->why[0] ? x->why : NULL, "program", *program ? program : NULL, "failures", (int)x->failures,
		      "requests", (int)x->ncalls, "restarts", x->begun ? (int)x->begun - 1 : 0, "garbage_lines",
		      (json_int_t)x->garbage_lines, "refused", (json_int_t)x->refused, "late", (json_int_t)x->late);
	if (o && x->state == INSIDE_BACKING_OFF)
		json_object_set_new(
		    o, "retry_in_ms",
		    json_integer(x->until_ns > now ? (json_int_t)((x->until_ns - now) / NS_PER_MS) : 0));
	if (o && tail)
		json_object_set_new(o, "stderr", tail_json(&x->tail, INSIDE_TAIL_MAX));
	return o;
}

/* ---- time */

static void calls_time_out(struct inside *x, uint64_t now)
{
	char text[ERR_MESSAGE_MAX];
	struct inside_call *c;
	unsigned left = x->ncalls;

	while (left--) {
		TAILQ_FOREACH(c, &x->calls, entry)
		if (now >= c->until_ns)
			break;
		if (!c)
			return;
		text_format(text, sizeof(text), "MCP server %s did not answer in time: it is %s%s%s", x->name,
			    state_names[x->state], x->why[0] ? ", " : "", x->why);
		inside_give_up(x, c, ERR_TIMEOUT, text, "its time is over");
	}
}

static void calls_without_grant(struct inside *x)
{
	struct inside_call *c;
	unsigned left = x->ncalls;

	while (left--) {
		TAILQ_FOREACH(c, &x->calls, entry)
		if (broker_grant_check(x->hub, &c->grant, NULL))
			break;
		if (!c)
			return;
		inside_give_up(x, c, ERR_CANCELLED, "the grant that it was made under has ended",
			       "its caller may do nothing any more");
	}
}

static void inside_is_late(struct inside *x)
{
	(void)inside_fault(x, "%s",
			   x->state == INSIDE_INITIALIZING ? "it did not answer initialize within its start_timeout_ms"
							   : "it did not tell its tools in time");
	inside_fail(x);
}

static bool grant_holds(const struct inside *x)
{
	struct grant_line l = grant_line(&x->starter.grant);

	return broker_grant_check(x->hub, &l, NULL) == 0;
}

/* By itself only where somebody used it lately, its sandbox is awake, and its grant still holds. */
static void inside_try_again(struct inside *x)
{
	const struct agent *a = agent_find(x->hub, x->agent);
	bool awake = a && agent_is_awake(a);

	if (!x->dropped && (x->ncalls || !TAILQ_EMPTY(&x->lookers) || (wanted(x) && awake && grant_holds(x)))) {
		inside_start(x, NULL, NULL);
		insides_turn(x->hub);
	} else {
		inside_set_state(x, INSIDE_ABSENT);
	}
}

/* The program that was let go of is dead: the next one may begin, for whoever asked meanwhile. */
static void inside_is_over(struct inside *x)
{
	inside_set_state(x, INSIDE_ABSENT);
	if (!x->dropped && (x->ncalls || !TAILQ_EMPTY(&x->lookers))) {
		inside_start(x, NULL, NULL);
		insides_turn(x->hub);
	}
}

static void inside_tick(struct inside *x, uint64_t now)
{
	if (x->state == INSIDE_ENDING && !x->at && !x->under_way && !inside_is_dying(x))
		inside_is_over(x);
	if (x->ncalls)
		calls_time_out(x, now);
	if (x->ncalls)
		calls_without_grant(x);
	inside_settle(x, inside_list_stale(x));
	inside_settle(x, inside_line_due(x, now));
	if (x->until_ns && now >= x->until_ns) {
		if (x->state == INSIDE_BACKING_OFF)
			inside_try_again(x);
		else if (x->state == INSIDE_INITIALIZING || x->state == INSIDE_LISTING)
			inside_is_late(x);
	}
	inside_pump(x);
	if (x->state == INSIDE_ABSENT && !x->under_way && !x->ncalls && TAILQ_EMPTY(&x->lookers) && !x->start_due &&
	    (x->dropped || now - x->used_ns > IDLE_FORGET_NS))
		inside_free(x);
}

void insides_tick(struct hub *h)
{
	uint64_t now = clock_boot_ns();
	struct inside *x, *next;

	inside_record_tick(h);
	for (x = TAILQ_FIRST(&hub_insides(h)->all); x; x = next) {
		next = TAILQ_NEXT(x, entry);
		inside_tick(x, now);
	}
}

unsigned insides_flight(const struct hub *h, const char *agent)
{
	const struct inside *x;
	unsigned n = 0;

	TAILQ_FOREACH(x, &hub_insides(h)->all, entry)
	if (x->ncalls && strcmp(x->agent, agent) == 0)
		n += x->ncalls;
	return n;
}

bool insides_rest(const struct hub *h)
{
	const struct inside *x;

	TAILQ_FOREACH(x, &hub_insides(h)->all, entry)
	if (x->ncalls || (x->state != INSIDE_ABSENT && x->state != INSIDE_READY && x->state != INSIDE_HELD))
		return false;
	return STAILQ_EMPTY(&hub_insides(h)->due);
}

/* ---- all of them */

void insides_watch(struct hub *h, inside_updated_fn *fn, void *arg)
{
	if (!hub_insides(h))
		return;
	hub_insides(h)->updated = fn;
	hub_insides(h)->updated_arg = arg;
}

int insides_create(struct hub *h, struct insides **out)
{
	struct insides *all = calloc(1, sizeof(*all));

	if (!all || !(all->turn = malloc(sizeof(*all->turn))) || !(all->window = malloc(sizeof(*all->window)))) {
		if (all)
			free(all->turn);
		free(all);
		return ERR_NOMEM;
	}
	TAILQ_INIT(&all->all);
	TAILQ_INIT(&all->kept);
	STAILQ_INIT(&all->due);
	TAILQ_INIT(&all->discoveries);
	uv_timer_init(hub_loop(h), all->turn);
	uv_timer_init(hub_loop(h), all->window);
	all->turn->data = all->window->data = h;
	all->on_turn = insides_on_turn;
	*out = all;
	return 0;
}

const struct metric_times *insides_times(const struct hub *h)
{
	return &hub_insides(h)->times;
}

uint64_t insides_failures(const struct hub *h)
{
	return hub_insides(h)->failures;
}

static void insides_on_closed(uv_handle_t *t)
{
	free(t);
}

void insides_leave(struct hub *h)
{
	struct inside *x;

	if (hub_insides(h))
		TAILQ_FOREACH(x, &hub_insides(h)->all, entry)
	inside_let_go(x);
}

void insides_destroy(struct hub *h)
{
	struct inside_call *c;
	struct inside *x;

	if (!hub_insides(h))
		return;
	while ((x = TAILQ_FIRST(&hub_insides(h)->all))) {
		inside_calls_end(x, false, ERR_UNAVAILABLE, "the daemon is stopping");
		lookers_tell(x, ERR_CANCELLED, "the daemon is stopping", NULL);
		inside_tools_leave(x);
		inside_free(x);
	}
	TAILQ_FOREACH(c, &hub_insides(h)->kept, entry)
	inside_call_again(c);
	inside_kept_trim(h, 0);
	inside_record_close(h);
	uv_close((uv_handle_t *)hub_insides(h)->turn, insides_on_closed);
	uv_close((uv_handle_t *)hub_insides(h)->window, insides_on_closed);
	free(hub_insides(h));
}
