#include "muxd/doors/https/mcp/mcp.h"
#include "base/text.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/mcp/resources.h"
#include "muxd/doors/https/mcp/rules.h"
#include "muxd/doors/https/mcp/stream.h"
#include "muxd/doors/https/mcp/tasks.h"
#include "muxd/hub/hub.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#define TASK_AFTER_MS 1000
#define LIST_TTL_MS   60000

struct mcp {
	struct hub *hub;
	struct rest_metrics *metrics;
	struct mcp_streams *streams;
	struct mcp_life *life;
};

static const char instructions[] =
    "Sandboxes to work in. Call sandbox.session.create first, with the task_id of your grant and a session_id: the "
    "name "
    "of the sandbox. Run programs with sandbox.session.exec, work on files with sandbox.workspace.*, keep results with "
    "artifact.put or artifact.keep. /workspace outlives the sandbox. Errors say what to do next.";

/* One request, while it is looked at. */
struct mcp_turn {
	struct http_exchange *x;
	struct mcp *mcp;
	const struct mcp_message *m;
	struct mcp_caller who;
	bool new_era;
	struct mcp_session session; /* of the old era */
	bool has_session;
};

/* ---- answers */

static void reply(struct http_exchange *x, int status, json_t *o)
{
	if (o)
		http_reply_json_as(x, status, o);
	else
		http_reply_error(x, ERR_NOMEM, NULL);
	json_decref(o);
}

/* result is stolen. */
static void reply_result(const struct mcp_turn *t, json_t *result)
{
	if (t->new_era)
		result = mcp_new_era(result);
	reply(t->x, 200, result ? mcp_result(t->m->id, result) : NULL);
}

static void reply_error(const struct mcp_turn *t, int code, const char *message)
{
	reply(t->x, 200, mcp_error(t->m->id, code, message, NULL));
}

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
		reply_error(t, MCP_PARAMS, "params.protocolVersion is missing");
		return;
	}
	if (mcp_session_new(v, &t->x->rq.grant, &s)) {
		http_reply_error(t->x, ERR_SYS, NULL);
		return;
	}
	mcp_session_format(&s, name);
	(void)buf_printf(&t->x->headers, "Mcp-Session-Id: %s\r\n", name);
	reply_result(t, json_pack("{s:s,s:o,s:{s:s,s:s,s:s},s:s}", "protocolVersion", mcp_version_name(v),
				  "capabilities", capabilities_json(false), "serverInfo", "name", "muxd", "title",
				  "muxd sandboxes", "version", MUXD_VERSION, "instructions", instructions));
}

static void go_ping(struct mcp_turn *t)
{
	reply_result(t, json_object());
}

static void go_discover(struct mcp_turn *t)
{
	json_t *versions = json_array();

	for (int v = MCP_VERSIONS - 1; v > MCP_NONE; v--)
		json_array_append_new(versions, json_string(mcp_version_name((enum mcp_version)v)));
	reply_result(t, cached(t, json_pack("{s:o,s:o,s:s}", "supportedVersions", versions, "capabilities",
					    capabilities_json(true), "instructions", instructions)));
}

static void go_tools(struct mcp_turn *t)
{
	reply_result(t, cached(t, mcp_tools_list(t->x->hub, &t->x->rq)));
}

/*
 * The name by which a repeat of the same call starts nothing anew: of the old era the session and the request's id in
 * it; of the new era the id where it is a UUID, and so the client's own name for this call. Any other may be a counter,
 * which is every client's: then the call gets a new name, which an error tells.
 */
static void exec_id_of(const struct mcp_turn *t, char *out, size_t size)
{
	char session[ID_STR_LEN] = "", text[640];
	uint8_t digest[SHA256_DIGEST_LENGTH];
	struct id id;
	size_t at;

	out[0] = '\0';
	if (t->new_era && (!json_is_string(t->m->id) || id_parse(json_string_value(t->m->id), &id))) {
		if (id_new(&id) == 0)
			id_format(&id, out);
		return;
	}
	if (!t->new_era)
		id_format(&t->session.id, session);
	if (json_is_string(t->m->id))
		text_format(text, sizeof(text), "%s\ns%s", session, json_string_value(t->m->id));
	else
		text_format(text, sizeof(text), "%s\ni%lld", session, (long long)json_integer_value(t->m->id));
	SHA256((const uint8_t *)text, strlen(text), digest);
	at = text_put(out, size, "mcp-");
	for (size_t i = 0; i < 16; i++)
		at += text_format(out + at, size - at, "%02x", digest[i]);
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
		reply_error(t, MCP_PARAMS, "unknown tool: tools/list has those that there are");
		return;
	}
	exec_id_of(t, exec_id, sizeof(exec_id));
	w.exec_id = exec_id;
	w.task_after_ms = t->new_era && mcp_declares(t->m, MCP_EXTENSION_TASKS) ? TASK_AFTER_MS : 0;
	rc = mcp_stream_open(t->mcp->streams, &ask, &s);
	if (rc)
		http_reply_error(t->x, rc, NULL);
	else
		(void)mcp_stream_call(s, &t->who, &w);
}

static struct mcp_question question_of(const struct mcp_turn *t, int verb)
{
	return (struct mcp_question){.x = t->x, .who = t->who, .id = t->m->id, .new_era = t->new_era, .verb = verb};
}

static void task_go(const struct mcp_turn *t, enum mcp_task_verb verb)
{
	struct mcp_question q = question_of(t, (int)verb);

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
	struct mcp_question q = question_of(t, 0);

	mcp_resources_list(&q, json_get_text(t->m->params, "cursor"));
}

static void go_templates(struct mcp_turn *t)
{
	reply_result(t, cached(t, mcp_resource_templates(&t->x->rq.grant)));
}

static void go_resource(struct mcp_turn *t)
{
	struct mcp_question q = question_of(t, 0);

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
	reply_error(t, MCP_NO_METHOD, "no such method");
}

static void turn_notification(struct mcp_turn *t)
{
	const json_t *id = json_object_get(t->m->params, "requestId");

	if (t->has_session && t->m->method && strcmp(t->m->method, "notifications/cancelled") == 0 && id)
		mcp_stream_cancel(t->mcp->streams, &t->session, id, "its client cancelled the call");
	http_reply_text(t->x, 202, "application/json", "", 0);
}

/* ---- requests */

/* True: it is broken, and was answered. */
static bool turn_begin(struct mcp_turn *t, struct http_exchange *x, enum mcp_verb verb, const struct mcp_message *m)
{
	const struct mcp_head *head = x->mcp_head;
	struct mcp_view v = {.verb = verb, .head = head, .message = m, .has_method = has_method};
	struct mcp_fault f;
	struct err e = {0};

	*t = (struct mcp_turn){.x = x, .mcp = x->mcp, .m = m};
	t->new_era = v.new_era = verb == MCP_POST && mcp_is_new_era(head, m);
	t->who = (struct mcp_caller){.hub = x->hub,
				     .api = x->api,
				     .metrics = x->metrics,
				     .rq = &x->rq,
				     .peer = x->peer,
				     .local = x->local,
				     .life = x->mcp->life};
	t->has_session = !t->new_era && head->session.given &&
			 mcp_session_parse(head->session.text, &x->rq.grant, &t->session) == 0 &&
			 !mcp_streams_ended(x->mcp->streams, &t->session);
	v.session_known = t->has_session;
	if (!mcp_rules_look(&v, &f))
		return false;
	if (f.status == 403) {
		err_set(&e, ERR_FORBIDDEN, "%s", f.text);
		(void)broker_verdict(x->hub, &x->rq, "mcp", &e);
	}
	reply(x, f.status, mcp_error(m->id, (int)f.code, f.text, f.data));
	return true;
}

void rest_mcp_post(struct http_exchange *x)
{
	struct mcp_message m;
	struct mcp_turn t;

	mcp_message_read(buf_ptr(&x->body), buf_len(&x->body), hub_conf(x->hub)->api_max_body, &m);
	if (!turn_begin(&t, x, MCP_POST, &m)) {
		if (m.kind == MCP_REQUEST)
			turn_request(&t);
		else
			turn_notification(&t);
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

	if (turn_begin(&t, x, MCP_GET, &none))
		return;
	if (last->given && strcmp(last->text, MCP_STAYS_OPEN) != 0) {
		if (mcp_stream_resume(t.mcp->streams, x, &t.session, last->text))
			reply(x, 400,
			      mcp_error(NULL, MCP_REFUSED,
					"this stream is not kept: its request with the same id runs nothing twice",
					NULL));
		return;
	}
	if (mcp_stream_listens(t.mcp->streams, &t.session)) {
		reply(x, 409, mcp_error(NULL, MCP_REFUSED, "this session has an open stream already", NULL));
		return;
	}
	rc = mcp_stream_open(t.mcp->streams, &(struct mcp_stream_ask){.x = x, .session = &t.session}, &s);
	if (rc)
		http_reply_error(x, rc, NULL);
}

void rest_mcp_delete(struct http_exchange *x)
{
	static const struct mcp_message none;
	struct mcp_turn t;

	if (turn_begin(&t, x, MCP_DELETE, &none))
		return;
	mcp_stream_end_all(t.mcp->streams, &t.session);
	reply(x, 200, json_object());
}

/* ---- its making */

int mcp_create(struct hub *hub, struct rest_metrics *metrics, struct mcp **out)
{
	struct mcp *m = calloc(1, sizeof(*m));
	struct mcp_life *life = calloc(1, sizeof(*life));
	int rc = m && life ? mcp_streams_create(hub, &m->streams) : ERR_NOMEM;

	if (rc) {
		free(life);
		free(m);
		return rc;
	}
	m->hub = hub;
	m->life = mcp_life_hold(life);
	m->metrics = metrics;
	*out = m;
	return 0;
}

void mcp_close(struct mcp *m)
{
	if (!m)
		return;
	m->life->over = true;
	mcp_streams_close(m->streams);
	mcp_life_release(m->life);
	free(m);
}
