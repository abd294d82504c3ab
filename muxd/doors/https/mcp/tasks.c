#include "muxd/doors/https/mcp/tasks.h"
#include "base/text.h"
#include "muxd/doors/https/inner.h"
#include "muxd/doors/https/mcp/rules.h"
#include "muxd/hub/hub.h"

#include <stdlib.h>
#include <string.h>

#define POLL_MS 1000

/* ---- as one is told of */

static bool is_code(const json_t *ours)
{
	return json_object_get(ours, "execution_id") != NULL;
}

static const char *status_of(const json_t *ours)
{
	const json_t *exit = is_code(ours) ? ours : json_object_get(ours, "exit");
	const char *cause = json_get_text(exit, "cause");

	if (!*cause)
		return "working";
	return strcmp(cause, "killed") == 0 ? "cancelled" : "completed";
}

static json_t *task_json(const json_t *ours, const char *type)
{
	char id[ID_STR_LEN + 8];
	const char *started = json_get_text(ours, "started_at");

	text_format(id, sizeof(id), "%s.%s", is_code(ours) ? "code" : "round",
		    json_get_text(ours, is_code(ours) ? "execution_id" : "round_id"));
	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:n,s:i}", "resultType", type, "taskId", id, "status", status_of(ours),
			 "createdAt", started, "lastUpdatedAt", started, "ttlMs", "pollIntervalMs", POLL_MS);
}

json_t *mcp_task_created(const json_t *round)
{
	return task_json(round, "task");
}

static json_t *task_shown(const json_t *ours)
{
	json_t *o = task_json(ours, "complete");

	if (o && strcmp(status_of(ours), "completed") == 0)
		json_object_set_new(o, "result",
				    mcp_tool_result(is_code(ours) ? mcp_tell_execution(ours) : mcp_tell_round(ours)));
	return o;
}

/* ---- a question about one */

struct asking {
	struct http_exchange *x;
	struct request rq;
	char peer[64];
	struct mcp_caller who;
	json_t *id;
	enum mcp_task_verb verb;
};

static void asking_free(struct asking *a)
{
	request_finish(&a->rq);
	json_decref(a->id);
	free(a);
}

static void reply(struct http_exchange *x, json_t *o)
{
	http_reply_result(x, o ? 0 : ERR_NOMEM, NULL, o);
	json_decref(o);
}

static void tasks_on_round(void *arg, const struct inner_answer *r)
{
	struct asking *a = arg;
	struct http_exchange *x = a->x;
	json_t *o;

	if (r->rc)
		o = mcp_error(a->id, r->rc == ERR_NOT_FOUND ? MCP_PARAMS : MCP_INTERNAL,
			      r->rc == ERR_NOT_FOUND ? "no such task, or it is another's" : r->message, NULL);
	else if (a->verb == MCP_TASK_GET)
		o = mcp_result(a->id, mcp_new_era(task_shown(r->json)));
	else
		o = mcp_result(a->id, mcp_new_era(json_object()));
	if (r->rc == 0 && a->verb == MCP_TASK_CANCEL && strcmp(status_of(r->json), "working") == 0)
		mcp_round_end(&a->who, json_get_text(r->json, is_code(r->json) ? "execution_id" : "round_id"),
			      "its client cancelled the task");
	reply(x, o);
	asking_free(a);
}

static bool id_of_round(const char *task, struct inner_ask *ask)
{
	static const char *const rows[][2] = {{"round.", "/v1/rounds/{id}"}, {"code.", "/v1/executions/{id}"}};
	struct id id;

	for (size_t i = 0; i < 2; i++) {
		size_t n = strlen(rows[i][0]);

		if (strncmp(task, rows[i][0], n) != 0 || id_parse(task + n, &id))
			continue;
		ask->pattern = rows[i][1];
		ask->names[0] = task + n;
		return true;
	}
	return false;
}

void mcp_task(struct http_exchange *x, const struct mcp_caller *who, const struct mcp_message *m,
	      enum mcp_task_verb verb)
{
	struct inner_ask ask = {.hub = who->hub,
				.api = who->api,
				.metrics = who->metrics,
				.peer = who->peer,
				.local = who->local,
				.method = HTTP_GET};
	struct asking *a = NULL;
	struct inner *inner;

	if (!id_of_round(json_get_text(m->params, "taskId"), &ask)) {
		reply(x, mcp_error(m->id, MCP_PARAMS, "no such task, or it is another's", NULL));
		return;
	}
	a = calloc(1, sizeof(*a));
	if (!a) {
		http_reply_error(x, ERR_NOMEM, NULL);
		return;
	}
	a->x = x;
	a->rq = *who->rq;
	text_put(a->peer, sizeof(a->peer), who->peer);
	a->who = *who;
	a->who.rq = &a->rq;
	a->who.peer = a->peer;
	a->id = json_deep_copy(m->id);
	a->verb = verb;
	ask.rq = &a->rq;
	if (inner_begin(&ask, tasks_on_round, a, &inner, NULL)) {
		asking_free(a);
		http_reply_error(x, ERR_NOMEM, NULL);
	}
}
