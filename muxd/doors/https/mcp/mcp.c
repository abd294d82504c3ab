#include "muxd/doors/https/mcp/mcp.h"
#include "base/text.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/mcp/asking.h"
#include "muxd/doors/https/mcp/resources.h"
#include "muxd/doors/https/mcp/shown.h"
#include "muxd/doors/https/mcp/stream.h"
#include "muxd/doors/https/mcp/tasks.h"
#include "muxd/doors/https/mcp/turn.h"
#include "muxd/doors/https/mcp/watch.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/inside/inside.h"
#include "muxd/hub/inside/inside_question.h"

#include <stdlib.h>
#include <string.h>

#define TASK_AFTER_MS 1000
#define LIST_TTL_MS   60000

static const char instructions[] =
    "Sandboxes to work in. Call sandbox.session.create first, with the task_id of your grant and a session_id: the "
    "name "
    "of the sandbox. Run programs with sandbox.session.exec, work on files with sandbox.workspace.*, keep results with "
    "artifact.put or artifact.keep. /workspace outlives the sandbox. Errors say what to do next.";

/* Of the new era: how long it holds, and for whom. A grant's catalogue stays as it is. */
static json_t *cached(const struct mcp_turn *t, json_t *result)
{
	return t->new_era ? mcp_cached(result, LIST_TTL_MS) : result;
}

/* ---- methods */

static json_t *capabilities_json(bool new_era)
{
	json_t *o = json_pack("{s:{},s:{}}", "tools", "resources");

	if (new_era)
		json_object_set_new(o, "extensions", json_pack("{s:{}}", MCP_EXTENSION_TASKS));
	return o;
}

static void go_initialize(struct mcp_turn *t)
{
	const char *wanted = json_get_text(t->m->params, "protocolVersion");
	enum mcp_version v = mcp_version_find(wanted);
	char name[MCP_SESSION_SZ];
	struct mcp_session s;

	v = v == MCP_NONE || v > MCP_OLD_NEWEST ? MCP_OLD_NEWEST : v;
	if (!*wanted) {
		mcp_turn_refuse(t, MCP_PARAMS, "params.protocolVersion is missing");
		return;
	}
	if (mcp_session_new(v, question_declared(json_object_get(t->m->params, "capabilities")), &t->x->rq.grant, &s)) {
		http_reply_error(t->x, ERR_SYS, NULL);
		return;
	}
	mcp_session_format(&s, name);
	(void)buf_printf(&t->x->headers, "Mcp-Session-Id: %s\r\n", name);
	mcp_turn_reply(t, json_pack("{s:s,s:o,s:{s:s,s:s,s:s},s:s}", "protocolVersion", mcp_version_name(v),
				    "capabilities", capabilities_json(false), "serverInfo", "name", "muxd", "title",
				    "muxd sandboxes", "version", MUXD_VERSION, "instructions", instructions));
}

static void go_ping(struct mcp_turn *t)
{
	mcp_turn_reply(t, json_object());
}

static void go_discover(struct mcp_turn *t)
{
	json_t *versions = json_array();

	for (int v = MCP_VERSIONS - 1; v > MCP_NONE; v--)
		json_array_append_new(versions, json_string(mcp_version_name((enum mcp_version)v)));
	mcp_turn_reply(t, cached(t, json_pack("{s:o,s:o,s:s}", "supportedVersions", versions, "capabilities",
					      capabilities_json(true), "instructions", instructions)));
}

static void go_tools(struct mcp_turn *t)
{
	mcp_turn_reply(t, cached(t, mcp_tools_list(t->x->hub, &t->x->rq, t->mcp->tools)));
}

static void go_call(struct mcp_turn *t)
{
	const json_t *args = json_object_get(t->m->params, "arguments");
	const json_t *token = json_object_get(t->m->meta, "progressToken");
	char exec_id[48];
	struct mcp_wish w = {.tool = mcp_tool_find(json_get_text(t->m->params, "name")), .args = args};
	struct mcp_stream_ask ask = {.x = t->x,
				     .session = t->has_session ? &t->session : NULL,
				     .id = t->m->id,
				     .progress = json_is_string(token) || json_is_integer(token) ? token : NULL};
	struct mcp_stream *s = NULL;
	int rc;

	if (!w.tool) {
		mcp_turn_refuse(t, MCP_PARAMS, "unknown tool: tools/list has those that there are");
		return;
	}
	mcp_turn_exec_id(t, "", exec_id, sizeof(exec_id));
	w.exec_id = exec_id;
	w.task_after_ms = t->new_era && mcp_declares(t->m, MCP_EXTENSION_TASKS) ? TASK_AFTER_MS : 0;
	rc = mcp_stream_open(t->mcp->streams, &ask, &s);
	if (rc)
		mcp_stream_refuse(t->x, rc);
	else
		(void)mcp_stream_call(s, &t->who, &w);
}

static struct mcp_question mcp_question_of(const struct mcp_turn *t, int verb)
{
	return (struct mcp_question){.x = t->x, .who = t->who, .id = t->m->id, .new_era = t->new_era, .verb = verb};
}

static void task_go(const struct mcp_turn *t, enum mcp_task_verb verb)
{
	struct mcp_question q = mcp_question_of(t, (int)verb);

	mcp_task(&q, json_get_text(t->m->params, "taskId"));
}

static void go_task_get(struct mcp_turn *t)
{
	task_go(t, MCP_TASK_GET);
}

static void go_task_cancel(struct mcp_turn *t)
{
	task_go(t, MCP_TASK_CANCEL);
}

static void go_task_update(struct mcp_turn *t)
{
	task_go(t, MCP_TASK_UPDATE);
}

static void go_resources(struct mcp_turn *t)
{
	struct mcp_question q = mcp_question_of(t, 0);

	mcp_resources_list(&q, json_get_text(t->m->params, "cursor"));
}

static void go_templates(struct mcp_turn *t)
{
	mcp_turn_reply(t, cached(t, mcp_resource_templates(&t->x->rq.grant)));
}

static void go_resource(struct mcp_turn *t)
{
	struct mcp_question q = mcp_question_of(t, 0);

	mcp_resource_read(&q, json_get_text(t->m->params, "uri"));
}

enum { OLD = 1, NEW = 2 };
static const struct {
	const char *method;
	unsigned eras;
	void (*go)(struct mcp_turn *t);
} methods[] = {
    {"initialize", OLD, go_initialize},
    {"ping", OLD, go_ping},
    {"server/discover", NEW, go_discover},
    {"tools/list", OLD | NEW, go_tools},
    {"tools/call", OLD | NEW, go_call},
    {"resources/list", OLD | NEW, go_resources},
    {"resources/templates/list", OLD | NEW, go_templates},
    {"resources/read", OLD | NEW, go_resource},
    {"tasks/get", NEW, go_task_get},
    {"tasks/cancel", NEW, go_task_cancel},
    {"tasks/update", NEW, go_task_update},
};

static bool has_method(const char *method)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (methods[i].eras & NEW && strcmp(methods[i].method, method) == 0)
			return true;
	return false;
}

static void turn_request(struct mcp_turn *t)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (methods[i].eras & (t->new_era ? NEW : OLD) && strcmp(methods[i].method, t->m->method) == 0) {
			methods[i].go(t);
			return;
		}
	mcp_turn_refuse(t, MCP_NO_METHOD, "no such method");
}

/* ---- requests */

void rest_mcp_post(struct http_exchange *x)
{
	struct mcp_message m;
	struct mcp_turn t;

	if (mcp_shown_waits(x))
		return;
	mcp_message_read(buf_ptr(&x->body), buf_len(&x->body), hub_conf(x->hub)->api_max_body, &m);
	if (!mcp_turn_begin(&t, x, MCP_POST, &m, has_method)) {
		if (m.kind == MCP_REQUEST)
			turn_request(&t);
		else
			mcp_turn_notify(&t);
	}
	mcp_message_finish(&m);
}

/* The stream that a client keeps open, or the rest of one that was cut. */
void rest_mcp_get(struct http_exchange *x)
{
	static const struct mcp_message none;
	const struct mcp_field *last = &x->mcp_head->last_event;
	struct mcp_stream *s = NULL;
	struct mcp_turn t;
	int rc;

	if (mcp_shown_waits(x))
		return;
	if (mcp_turn_begin(&t, x, MCP_GET, &none, has_method))
		return;
	if (last->given && strcmp(last->text, MCP_STAYS_OPEN) != 0) {
		if (mcp_stream_resume(t.mcp->streams, x, &t.session, last->text))
			mcp_send(x, 400,
				 mcp_error(NULL, MCP_REFUSED,
					   "this stream is not kept: its request with the same id runs nothing twice",
					   NULL));
		return;
	}
	if (last->given) /* the client comes back: its connection may be lost without that anybody was told */
		mcp_stream_take_over(t.mcp->streams, &t.session);
	if (mcp_stream_listens(t.mcp->streams, &t.session)) {
		mcp_send(x, 409, mcp_error(NULL, MCP_REFUSED, "this session has an open stream already", NULL));
		return;
	}
	rc = mcp_stream_open(t.mcp->streams, &(struct mcp_stream_ask){.x = x, .session = &t.session}, &s);
	if (rc)
		mcp_stream_refuse(x, rc);
}

void rest_mcp_delete(struct http_exchange *x)
{
	static const struct mcp_message none;
	struct mcp_turn t;

	if (mcp_shown_waits(x))
		return;
	if (mcp_turn_begin(&t, x, MCP_DELETE, &none, has_method))
		return;
	mcp_stream_end_all(t.mcp->streams, &t.session);
	mcp_watch_forget(t.mcp->watches, &t.session);
	mcp_send(x, 200, json_object());
}

/* ---- its making */

/* Of a server inside: to those who subscribed to that, under a grant that still reaches it. */
static void mcp_on_updated(void *arg, const char *agent, const char *server, const char *uri)
{
	const struct mcp *m = arg;
	const struct mcp_holder *who;
	char where[2 * AGENT_NAME_MAX + 2];
	size_t at = 0;

	text_format(where, sizeof(where), "%s/%s", agent, server);
	while ((who = mcp_watch_next(m->watches, where, uri, &at)))
		if (grant_covers(who->agent, agent) && broker_grant_check(m->hub, &who->grant, NULL) == 0)
			mcp_stream_notice(m->streams, &who->session,
					  json_pack("{s:s,s:s,s:{s:s}}", "jsonrpc", "2.0", "method",
						    "notifications/resources/updated", "params", "uri", uri));
}

int mcp_create(struct hub *hub, struct rest_metrics *metrics, struct mcp **out)
{
	struct mcp *m = calloc(1, sizeof(*m));
	struct mcp_life *life = calloc(1, sizeof(*life));
	int rc = m && life && (m->tools = mcp_tools_make()) ? mcp_askings_create(&m->askings) : ERR_NOMEM;

	if (rc == 0)
		rc = mcp_watches_create(&m->watches);
	if (rc == 0)
		rc = mcp_streams_create(hub, m->askings, &m->streams);
	if (rc) {
		if (m) {
			json_decref(m->tools);
			mcp_watches_free(m->watches);
			mcp_askings_close(m->askings);
		}
		free(life);
		free(m);
		return rc;
	}
	m->hub = hub;
	m->life = mcp_life_hold(life);
	m->metrics = metrics;
	insides_watch(hub, mcp_on_updated, m);
	*out = m;
	return 0;
}

void mcp_close(struct mcp *m)
{
	if (!m)
		return;
	m->life->over = true;
	insides_watch(m->hub, NULL, NULL);
	mcp_streams_close(m->streams);
	mcp_askings_close(m->askings);
	mcp_watches_free(m->watches);
	json_decref(m->tools);
	mcp_life_release(m->life);
	free(m);
}
