/*
 * A server of MCP inside a sandbox as if it were the caller's own: /mcp/{agent}/{server}. Rules, sessions and streams
 * are those of /mcp; each request is one of broker_inside_request(), so its verdict and its record are that call's.
 * What the server asks in the middle of a call goes to its caller, and the answers come back by here.
 */
#include "base/text.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/mcp/asking.h"
#include "muxd/doors/https/mcp/log_level.h"
#include "muxd/doors/https/mcp/shown.h"
#include "muxd/doors/https/mcp/stream.h"
#include "muxd/doors/https/mcp/turn.h"
#include "muxd/doors/https/mcp/watch.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/inside/broker_inside.h"
#include "muxd/hub/inside/inside_question.h"

#include <stdlib.h>
#include <string.h>

#define LIST_TTL_MS 60000

/* A request that is answered by one object, and not by a stream. It owns itself until the broker has answered. */
struct through {
	struct http_exchange *x;
	json_t *id;
	bool new_era, listed;
	json_t *(*tell)(struct through *h, const json_t *result); /* NULL: as it is */
	enum mcp_version version;                                 /* that initialize agreed on */
	unsigned asked;                                           /* that its client declared there */
	/* Of resources/subscribe: what is watched once the server has said yes. */
	struct mcp *mcp;
	struct mcp_life *life; /* of that; NULL: nothing is */
	struct mcp_holder who;
	char where[2 * AGENT_NAME_MAX + 2], *uri;
};

/* ---- answers */

/* Offered by a server, and passed on: no notices of other lists, and of resources those that a session asked for. */
static json_t *capabilities_of(const json_t *result, bool new_era)
{
	static const char *const kept[] = {"tools", "resources", "prompts", "completions", "logging"};
	const json_t *theirs = json_object_get(result, "capabilities");
	json_t *o = json_object();

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (json_object_get(theirs, kept[i]))
			json_object_set_new(o, kept[i], json_object());
	if (!new_era && json_is_true(json_object_get(json_object_get(theirs, "resources"), "subscribe")))
		json_object_set_new(json_object_get(o, "resources"), "subscribe", json_true());
	return o;
}

static json_t *tell_initialized(struct through *h, const json_t *result)
{
	char name[MCP_SESSION_SZ];
	struct mcp_session s;

	if (mcp_session_new(h->version, h->asked, &h->x->rq.grant, &s))
		return NULL;
	mcp_session_format(&s, name);
	(void)buf_printf(&h->x->headers, "Mcp-Session-Id: %s\r\n", name);
	return json_pack("{s:s,s:o,s:O*,s:O*}", "protocolVersion", mcp_version_name(h->version), "capabilities",
			 capabilities_of(result, false), "serverInfo", json_object_get(result, "serverInfo"),
			 "instructions", json_object_get(result, "instructions"));
}

static json_t *tell_discovered(struct through *h, const json_t *result)
{
	json_t *versions = json_array();

	(void)h;
	for (int v = MCP_VERSIONS - 1; v > MCP_NONE; v--)
		json_array_append_new(versions, json_string(mcp_version_name((enum mcp_version)v)));
	return json_pack("{s:o,s:o,s:O*}", "supportedVersions", versions, "capabilities", capabilities_of(result, true),
			 "instructions", json_object_get(result, "instructions"));
}

static bool holder_holds(void *arg, const struct mcp_holder *who)
{
	return broker_grant_check(arg, &who->grant, NULL) == 0;
}

/* ERR_LIMIT, ERR_UNAVAILABLE, ERR_TOO_LARGE: watch.h. */
static int watch_check(struct mcp *m, const struct mcp_holder *who, const char *where, const char *uri)
{
	int rc = mcp_watch_may(m->watches, who, where, uri);

	if (rc != ERR_UNAVAILABLE)
		return rc;
	mcp_watches_sweep(m->watches, holder_holds, m->hub);
	return mcp_watch_may(m->watches, who, where, uri);
}

/* The session may have ended while the server was asked, or have asked for more at once than there is room for. */
static int watch_begin(struct through *h, struct err *e)
{
	int rc;

	if (!h->life || h->life->over || mcp_streams_ended(h->mcp->streams, &h->who.session))
		return 0;
	rc = watch_check(h->mcp, &h->who, h->where, h->uri);
	rc = rc ? rc : mcp_watch_add(h->mcp->watches, &h->who, h->where, h->uri);
	return rc ? err_limit(e, ERR_LIMIT,
			      &(struct err_share){"fixed.mcp_watches", "daemon", MCP_WATCHES_MAX, MCP_WATCHES_MAX, 5},
			      "too many resources are watched already")
		  : 0;
}

static void through_free(struct through *h)
{
	mcp_life_release(h->life);
	json_decref(h->id);
	free(h->uri);
	free(h);
}

static void through_on_done(void *arg, int rc, const struct err *e, const json_t *answer, const char *round)
{
	struct through *h = arg;
	const json_t *result = json_object_get(answer, "result");
	struct err here = {0};
	json_t *o;

	(void)round;
	if (!rc && result && (rc = watch_begin(h, &here)))
		e = &here;
	if (rc || !result) {
		mcp_send(h->x, 200, mcp_inside_error(h->id, h->new_era, rc, e, answer));
	} else {
		o = h->tell ? h->tell(h, result) : json_copy((json_t *)(uintptr_t)result);
		if (o && h->new_era)
			o = mcp_new_era(h->listed ? mcp_cached(o, LIST_TTL_MS) : o);
		mcp_send(h->x, 200, o ? mcp_result(h->id, o) : NULL);
	}
	through_free(h);
}

/* ---- methods */

enum { OLD = 1, NEW = 2 };
enum through_flag { LISTED = 1, STREAMED = 2, LOCAL = 4, TOOL = 8, LEVEL = 16, WATCH = 32, UNWATCH = 64 };
static const struct {
	const char *method;
	unsigned eras, flags;
	const char *as; /* what is asked of the broker; NULL: the same */
	json_t *(*tell)(struct through *h, const json_t *result);
} methods[] = {
    {"initialize", OLD, 0, NULL, tell_initialized},
    {"ping", OLD, LOCAL, NULL, NULL},
    {"server/discover", NEW, LISTED, "initialize", tell_discovered},
    {"tools/list", OLD | NEW, LISTED, NULL, NULL},
    {"tools/call", OLD | NEW, STREAMED | TOOL, NULL, NULL},
    {"resources/list", OLD | NEW, LISTED, NULL, NULL},
    {"resources/templates/list", OLD | NEW, LISTED, NULL, NULL},
    {"resources/read", OLD | NEW, STREAMED | LISTED, NULL, NULL},
    {"resources/subscribe", OLD, WATCH, NULL, NULL},
    {"resources/unsubscribe", OLD, UNWATCH, NULL, NULL},
    {"prompts/list", OLD | NEW, LISTED, NULL, NULL},
    {"prompts/get", OLD | NEW, STREAMED, NULL, NULL},
    {"completion/complete", OLD | NEW, 0, NULL, NULL},
    {"logging/setLevel", OLD, LOCAL | LEVEL, NULL, NULL},
};

static bool has_method(const char *method)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (methods[i].eras & NEW && strcmp(methods[i].method, method) == 0)
			return true;
	return false;
}

static struct inside_request request_of(const struct mcp_turn *t, const char *method)
{
	return (struct inside_request){
	    .agent = t->x->params[0], .server = t->x->params[1], .method = method, .params = t->m->params};
}

static struct mcp_stream_ask stream_of(const struct mcp_turn *t, size_t row)
{
	const json_t *token = json_object_get(t->m->meta, "progressToken");

	return (struct mcp_stream_ask){.x = t->x,
				       .session = t->has_session ? &t->session : NULL,
				       .id = t->m->id,
				       .progress = json_is_string(token) || json_is_integer(token) ? token : NULL,
				       .late = t->new_era,
				       .tool = methods[row].flags & TOOL,
				       .cached = methods[row].flags & LISTED,
				       .log_level = mcp_log_level(json_get_text(t->m->meta, MCP_META_LOG_LEVEL))};
}

/* The kinds that the caller can be asked: as it said when its session began, or of the new era each time. */
static unsigned declared_of(const struct mcp_turn *t)
{
	return t->new_era ? question_declared(json_object_get(t->m->meta, MCP_META_CAPABILITIES)) : t->session.asked;
}

/* How a call ended while nobody was there, to who may make that request. */
static void give_kept(struct mcp_turn *t, struct mcp_stream *s, const struct mcp_asking *a,
		      const struct inside_request *w)
{
	json_t *answer = NULL;
	struct err e = {0};
	int rc = broker_inside_may(t->x->hub, &t->x->rq, w, &e);

	if (!rc)
		(void)mcp_asking_ended(a, &rc, &e, &answer);
	mcp_stream_inside(s, rc, &e, answer);
	json_decref(answer);
}

static void give_answers(struct mcp_turn *t, struct mcp_stream *s, struct mcp_asking *a, const json_t *responses)
{
	struct inside_questions *questions = NULL;
	const struct inside_question *q = NULL;
	struct err e = {0};
	json_t *o = NULL;
	int rc = broker_inside_answers(mcp_asking_job(a), &t->x->rq, responses, &questions, &e);

	if (!rc)
		TAILQ_FOREACH(q, questions, entry)
	if (!q->answer)
		break;
	if (!rc && q && (rc = mcp_asking_again(a, questions, &o)))
		err_set(&e, rc, "no memory for what is open");
	if (rc)
		mcp_stream_finish(s, mcp_inside_error(t->m->id, true, rc, &e, NULL));
	else if (q)
		mcp_stream_finish(s, mcp_result(t->m->id, mcp_new_era(o)));
	else
		mcp_stream_take(s, a);
}

/* The same call goes on: nothing is sent to the server but the answers, once they are whole. Its stream is there ahead
 * of them, so where there is no room for one they can be given again. */
static void go_again(struct mcp_turn *t, size_t row, const json_t *state, const json_t *responses,
		     const struct inside_request *w)
{
	const struct mcp_stream_ask ask = stream_of(t, row);
	struct mcp_asking *a = json_is_string(state)
				   ? mcp_asking_find(t->mcp->askings, json_string_value(state), &t->x->rq.grant, w)
				   : NULL;
	struct mcp_stream *s = NULL;
	int rc;

	if (!a) {
		mcp_turn_refuse(t, MCP_PARAMS,
				"requestState stands for no call of this caller that waits, or that ended within the "
				"last five minutes: look at what it has done before calling again without it");
		return;
	}
	rc = mcp_stream_open(t->mcp->streams, &ask, &s);
	if (rc)
		mcp_stream_refuse(t->x, rc);
	else if (mcp_asking_job(a))
		give_answers(t, s, a, responses);
	else
		give_kept(t, s, a, w);
}

/* A tool's call whose exec_id is its name in its session: the same again is the same round. */
static void go_stream(struct mcp_turn *t, size_t row)
{
	const json_t *state = t->new_era ? json_object_get(t->m->params, "requestState") : NULL;
	const json_t *responses = t->new_era ? json_object_get(t->m->params, "inputResponses") : NULL;
	const struct mcp_stream_ask ask = stream_of(t, row);
	struct inside_request w = request_of(t, t->m->method);
	char where[2 * AGENT_NAME_MAX + 4], exec_id[48];
	struct mcp_stream *s = NULL;
	int rc;

	if (responses && !mcp_answers_fit(responses)) {
		mcp_turn_refuse(t, MCP_PARAMS, "params.inputResponses must be an object of objects");
		return;
	}
	if (state) {
		go_again(t, row, state, responses, &w);
		return;
	}
	w.declared = declared_of(t);
	w.ahead = responses;
	text_format(where, sizeof(where), "%s %s ", w.agent, w.server);
	mcp_turn_exec_id(t, where, exec_id, sizeof(exec_id));
	w.exec_id = methods[row].flags & TOOL ? exec_id : NULL;
	rc = mcp_stream_open(t->mcp->streams, &ask, &s);
	if (rc)
		mcp_stream_refuse(t->x, rc);
	else
		mcp_stream_through(s, &t->who, &w);
}

static void go_local(struct mcp_turn *t, size_t row)
{
	unsigned level = mcp_log_level(json_get_text(t->m->params, "level"));
	const struct mcp_holder who = mcp_holder_of(&t->session, &t->x->rq.grant);
	struct err e = {0};

	if (methods[row].flags & LEVEL && level == MCP_LOG_NONE) {
		mcp_turn_refuse(t, MCP_PARAMS, "params.level must be one of debug to emergency");
		return;
	}
	if (methods[row].flags & LEVEL && mcp_stream_log_level(t->mcp->streams, &who, level)) {
		err_limit(&e, ERR_LIMIT,
			  &(struct err_share){"fixed.mcp_levels", "daemon", MCP_LEVELS_MAX, MCP_LEVELS_MAX, 5},
			  "%d sessions have set a level of log messages already", MCP_LEVELS_MAX);
		http_reply_error(t->x, ERR_LIMIT, &e);
		return;
	}
	mcp_turn_reply(t, json_object());
}

/* True: it was answered. The server is told where no other session watches that any more. */
static bool watch_end(struct mcp_turn *t, const char *where, const char *uri)
{
	if (mcp_watch_remove(t->mcp->watches, &t->session, where, uri))
		return false;
	mcp_turn_reply(t, json_object());
	return true;
}

/* True: it was answered. The server is asked first, and its yes makes the row: through_on_done(). */
static bool watch_ask(struct mcp_turn *t, struct through *h, const char *uri)
{
	struct err e = {0};
	int rc;

	h->mcp = t->mcp;
	h->life = mcp_life_hold(t->mcp->life);
	h->who = mcp_holder_of(&t->session, &t->x->rq.grant);
	h->uri = strdup(uri);
	rc = !h->uri ? ERR_NOMEM : !*uri ? ERR_TOO_LARGE : watch_check(t->mcp, &h->who, h->where, uri);
	if (rc == ERR_LIMIT)
		mcp_turn_refuse(t, MCP_PARAMS, "this session watches 64 resources already");
	else if (rc == ERR_TOO_LARGE)
		mcp_turn_refuse(t, MCP_PARAMS,
				"params.uri must be the address of a resource, of 2048 bytes at the most");
	else if (rc == ERR_UNAVAILABLE)
		http_reply_error(
		    t->x, ERR_LIMIT,
		    (err_limit(&e, ERR_LIMIT,
			       &(struct err_share){"fixed.mcp_watches", "daemon", MCP_WATCHES_MAX, MCP_WATCHES_MAX, 5},
			       "%d resources are watched already", MCP_WATCHES_MAX),
		     &e));
	else if (rc)
		http_reply_error(t->x, rc, NULL);
	return rc != 0;
}

static bool watch_go(struct mcp_turn *t, size_t row, struct through *h)
{
	const char *uri = json_get_text(t->m->params, "uri");

	text_format(h->where, sizeof(h->where), "%s/%s", t->x->params[0], t->x->params[1]);
	return methods[row].flags & WATCH     ? watch_ask(t, h, uri)
	       : methods[row].flags & UNWATCH ? watch_end(t, h->where, uri)
					      : false;
}

static void go_object(struct mcp_turn *t, size_t row)
{
	static const struct inside_ops ops = {.done = through_on_done};
	const char *wanted = json_get_text(t->m->params, "protocolVersion");
	enum mcp_version v = mcp_version_find(wanted);
	struct inside_request w = request_of(t, methods[row].as ? methods[row].as : methods[row].method);
	struct through *h = calloc(1, sizeof(*h));
	struct inside_job *job;

	if (!h) {
		http_reply_error(t->x, ERR_NOMEM, NULL);
		return;
	}
	if (watch_go(t, row, h)) {
		through_free(h);
		return;
	}
	if (strcmp(w.method, "initialize") == 0)
		w.params = NULL;
	w.listens = t->has_session;
	h->x = t->x;
	h->id = t->m->id ? json_deep_copy(t->m->id) : NULL;
	h->new_era = t->new_era;
	h->listed = methods[row].flags & LISTED;
	h->tell = methods[row].tell;
	h->asked = question_declared(json_object_get(t->m->params, "capabilities"));
	h->version = v == MCP_NONE || v > MCP_OLD_NEWEST ? MCP_OLD_NEWEST : v;
	broker_inside_request(t->x->hub, &t->x->rq, &w, &ops, h, &job);
}

static void through_request(struct mcp_turn *t)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (!(methods[i].eras & (t->new_era ? NEW : OLD)) || strcmp(methods[i].method, t->m->method) != 0)
			continue;
		if (methods[i].flags & LOCAL)
			go_local(t, i);
		else if (methods[i].flags & STREAMED)
			go_stream(t, i);
		else
			go_object(t, i);
		return;
	}
	mcp_turn_refuse(t, MCP_NO_METHOD, "no such method");
}

/* An answer to a question that was told in this session; an id that is none's reaches nobody. */
static void through_response(struct mcp_turn *t)
{
	const json_t *result = json_object_get(t->m->root, "result"), *error = json_object_get(t->m->root, "error");
	json_t *answer = json_pack("{s:O}", result ? "result" : "error", result ? result : error);
	struct err e = {0};
	int rc = t->has_session ? mcp_stream_answer(t->mcp->streams, &t->session, &t->x->rq, t->m->id, answer, &e)
				: err_set(&e, ERR_NOT_FOUND, "an answer belongs to a session");

	json_decref(answer);
	if (rc)
		mcp_send(t->x, 400, mcp_error(t->m->id, MCP_INVALID, e.message, NULL));
	else
		http_reply_text(t->x, 202, "application/json", "", 0);
}

/* GET and DELETE are of a session, whichever server it speaks with: mcp.c. */
void rest_mcp_through(struct http_exchange *x)
{
	struct mcp_message m;
	struct mcp_turn t;

	if (mcp_shown_waits(x))
		return;
	mcp_message_read(buf_ptr(&x->body), buf_len(&x->body), hub_conf(x->hub)->api_max_body, &m);
	if (!mcp_turn_begin(&t, x, MCP_POST, &m, has_method)) {
		if (m.kind == MCP_REQUEST)
			through_request(&t);
		else if (m.kind == MCP_RESPONSE)
			through_response(&t);
		else
			mcp_turn_notify(&t);
	}
	mcp_message_finish(&m);
}
