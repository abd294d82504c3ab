/*
 * A server of MCP inside a sandbox as if it were the caller's own: /mcp/{agent}/{server}. Rules, sessions and streams
 * are those of /mcp; each request is one of broker_inside_request(), so its verdict and its record are that call's.
 */
#include "base/text.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/mcp/stream.h"
#include "muxd/doors/https/mcp/turn.h"
#include "muxd/hub/broker_inside.h"
#include "muxd/hub/hub.h"

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
};

/* ---- answers */

/* Offered by a server, and passed on: neither its notices of changes, nor what it would ask of its client. */
static json_t *capabilities_of(const json_t *result)
{
	static const char *const kept[] = {"tools", "resources", "prompts", "completions"};
	const json_t *theirs = json_object_get(result, "capabilities");
	json_t *o = json_object();

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (json_object_get(theirs, kept[i]))
			json_object_set_new(o, kept[i], json_object());
	return o;
}

static json_t *tell_initialized(struct through *h, const json_t *result)
{
	char name[MCP_SESSION_SZ];
	struct mcp_session s;

	if (mcp_session_new(h->version, &h->x->rq.grant, &s))
		return NULL;
	mcp_session_format(&s, name);
	(void)buf_printf(&h->x->headers, "Mcp-Session-Id: %s\r\n", name);
	return json_pack("{s:s,s:o,s:O*,s:O*}", "protocolVersion", mcp_version_name(h->version), "capabilities",
			 capabilities_of(result), "serverInfo", json_object_get(result, "serverInfo"), "instructions",
			 json_object_get(result, "instructions"));
}

static json_t *tell_discovered(struct through *h, const json_t *result)
{
	json_t *versions = json_array();

	(void)h;
	for (int v = MCP_VERSIONS - 1; v > MCP_NONE; v--)
		json_array_append_new(versions, json_string(mcp_version_name((enum mcp_version)v)));
	return json_pack("{s:o,s:o,s:O*}", "supportedVersions", versions, "capabilities", capabilities_of(result),
			 "instructions", json_object_get(result, "instructions"));
}

/* The server's own words, or what muxd has to say: its code first, as tools have it. */
static json_t *error_of(const json_t *id, int rc, const struct err *e, const json_t *answer)
{
	const json_t *theirs = json_object_get(answer, "error"), *code = json_object_get(theirs, "code");
	char text[ERR_MESSAGE_MAX + 64];
	json_t *data;

	if (!rc)
		return mcp_error(id, json_is_integer(code) ? (int)json_integer_value(code) : MCP_INTERNAL,
				 json_get_text(theirs, "message"), json_incref(json_object_get(theirs, "data")));
	text_format(text, sizeof(text), "%s: %s", err_name(rc), e && e->message[0] ? e->message : err_name(rc));
	data = json_pack("{s:s,s:s}", "code", err_name(rc), "hint", err_hint(rc));
	return mcp_error(id,
			 rc == ERR_INVAL         ? MCP_PARAMS
			 : rc == ERR_UNSUPPORTED ? MCP_NO_METHOD
						 : MCP_INTERNAL,
			 text, data);
}

static void through_on_done(void *arg, int rc, const struct err *e, const json_t *answer, const char *round)
{
	struct through *h = arg;
	const json_t *result = json_object_get(answer, "result");
	json_t *o;

	(void)round;
	if (rc || !result) {
		mcp_send(h->x, 200, error_of(h->id, rc, e, answer));
	} else {
		o = h->tell ? h->tell(h, result) : json_copy((json_t *)(uintptr_t)result);
		if (o && h->new_era)
			o = mcp_new_era(h->listed ? mcp_cached(o, LIST_TTL_MS) : o);
		mcp_send(h->x, 200, o ? mcp_result(h->id, o) : NULL);
	}
	json_decref(h->id);
	free(h);
}

/* ---- methods */

enum { OLD = 1, NEW = 2 };
enum through_flag { LISTED = 1, STREAMED = 2, LOCAL = 4 };
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
    {"tools/call", OLD | NEW, STREAMED, NULL, NULL},
    {"resources/list", OLD | NEW, LISTED, NULL, NULL},
    {"resources/templates/list", OLD | NEW, LISTED, NULL, NULL},
    {"resources/read", OLD | NEW, LISTED, NULL, NULL},
    {"prompts/list", OLD | NEW, LISTED, NULL, NULL},
    {"prompts/get", OLD | NEW, 0, NULL, NULL},
    {"completion/complete", OLD | NEW, 0, NULL, NULL},
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

/* A call whose exec_id is its name in its session: the same again is the same round. */
static void go_stream(struct mcp_turn *t)
{
	const json_t *token = json_object_get(t->m->meta, "progressToken");
	struct mcp_stream_ask ask = {.x = t->x,
				     .session = t->has_session ? &t->session : NULL,
				     .id = t->m->id,
				     .progress = json_is_string(token) || json_is_integer(token) ? token : NULL};
	struct inside_request w = request_of(t, t->m->method);
	struct mcp_stream *s = NULL;
	char where[2 * AGENT_NAME_MAX + 4], exec_id[48];
	int rc = mcp_stream_open(t->mcp->streams, &ask, &s);

	text_format(where, sizeof(where), "%s %s ", w.agent, w.server);
	mcp_turn_exec_id(t, where, exec_id, sizeof(exec_id));
	w.exec_id = exec_id;
	if (rc)
		mcp_stream_refuse(t->x, rc);
	else
		mcp_stream_through(s, &t->who, &w);
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
	if (strcmp(w.method, "initialize") == 0)
		w.params = NULL;
	*h = (struct through){.x = t->x,
			      .id = t->m->id ? json_deep_copy(t->m->id) : NULL,
			      .new_era = t->new_era,
			      .listed = methods[row].flags & LISTED,
			      .tell = methods[row].tell,
			      .version = v == MCP_NONE || v > MCP_OLD_NEWEST ? MCP_OLD_NEWEST : v};
	broker_inside_request(t->x->hub, &t->x->rq, &w, &ops, h, &job);
}

static void through_request(struct mcp_turn *t)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (!(methods[i].eras & (t->new_era ? NEW : OLD)) || strcmp(methods[i].method, t->m->method) != 0)
			continue;
		if (methods[i].flags & LOCAL)
			mcp_turn_reply(t, json_object());
		else if (methods[i].flags & STREAMED)
			go_stream(t);
		else
			go_object(t, i);
		return;
	}
	mcp_turn_refuse(t, MCP_NO_METHOD, "no such method");
}

/* GET and DELETE are of a session, whichever server it speaks with: mcp.c. */
void rest_mcp_through(struct http_exchange *x)
{
	struct mcp_message m;
	struct mcp_turn t;

	mcp_message_read(buf_ptr(&x->body), buf_len(&x->body), hub_conf(x->hub)->api_max_body, &m);
	if (!mcp_turn_begin(&t, x, MCP_POST, &m, has_method)) {
		if (m.kind == MCP_REQUEST)
			through_request(&t);
		else
			mcp_turn_notify(&t);
	}
	mcp_message_finish(&m);
}
