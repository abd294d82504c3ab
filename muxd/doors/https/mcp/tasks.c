#include "muxd/doors/https/mcp/tasks.h"
#include "base/text.h"
#include "muxd/doors/https/mcp/rules.h"

#include <string.h>

#define POLL_MS 1000

/* ---- as one is told of */

static bool is_code(const json_t *ours)
{
	return json_object_get(ours, "execution_id") != NULL;
}

static const char *task_status_of(const json_t *ours)
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
	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:n,s:i}", "resultType", type, "taskId", id, "status",
			 task_status_of(ours), "createdAt", started, "lastUpdatedAt", started, "ttlMs",
			 "pollIntervalMs", POLL_MS);
}

json_t *mcp_task_created(const json_t *round)
{
	return task_json(round, "task");
}

static json_t *task_shown(const json_t *ours)
{
	json_t *o = task_json(ours, "complete");

	if (o && strcmp(task_status_of(ours), "completed") == 0)
		json_object_set_new(o, "result",
				    mcp_tool_result(is_code(ours) ? mcp_tell_execution(ours) : mcp_tell_round(ours)));
	return o;
}

/* ---- a question about one */

#define NO_TASK "no such task, or it is another's"

static json_t *tasks_on_round(const struct mcp_question *q, const struct inner_answer *r, int *out_code,
			      const char **out_text)
{
	if (r->rc) {
		*out_code = r->rc == ERR_NOT_FOUND ? MCP_PARAMS : MCP_INTERNAL;
		*out_text = r->rc == ERR_NOT_FOUND ? NO_TASK : r->message;
		return NULL;
	}
	if (q->verb == MCP_TASK_GET)
		return task_shown(r->json);
	if (q->verb == MCP_TASK_CANCEL && strcmp(task_status_of(r->json), "working") == 0)
		mcp_round_end(&q->who, json_get_text(r->json, is_code(r->json) ? "execution_id" : "round_id"),
			      "its client cancelled the task");
	return json_object();
}

void mcp_task(struct mcp_question *q, const char *task)
{
	static const char *const rows[][2] = {{"round.", "/v1/rounds/{id}"}, {"code.", "/v1/executions/{id}"}};
	struct inner_ask ask = {.method = HTTP_GET};
	struct id id;

	q->then = tasks_on_round;
	for (size_t i = 0; i < 2; i++) {
		size_t n = strlen(rows[i][0]);

		if (strncmp(task, rows[i][0], n) != 0 || id_parse(task + n, &id))
			continue;
		ask.pattern = rows[i][1];
		ask.names[0] = task + n;
		mcp_question_ask(q, &ask);
		return;
	}
	mcp_question_refuse(q, MCP_PARAMS, NO_TASK);
}
