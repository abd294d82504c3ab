/* muxctl mcp servers, set, request, refresh, approve: MCP servers inside sandboxes, asked of the API. */
#include "base/clock.h"
#include "base/text.h"
#include "base/visible.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/listed.h"
#include "muxd/ctl/nouns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMS_MAX (1024 * 1024)

static const struct ctl_column list_columns[] = {
    {"name", "SERVER"}, {"state", "STATE"}, {"restarts", "RESTARTS"}, {"command", "COMMAND"}, {"url", "URL"},
    {"why", "WHY"},     {NULL, NULL},
};
static const struct ctl_column one_columns[] = {
    {"state", "state"}, {"why", "why"}, {"program", "program"}, {"restarts", "restarts"}, {NULL, NULL},
};
static const struct ctl_column tool_columns[] = {
    {"name", "TOOL"},
    {"description", "DESCRIPTION"},
    {"fingerprint", "FINGERPRINT"},
    {NULL, NULL},
};

static int servers_ask(struct ctl *c, const struct ctl_args *a, const char *scopes, const struct api_call *call,
		       json_t **out, struct err *e)
{
	const struct ctl_wish w = {.kind = "staff",
				   .agent = a->operands[0],
				   .scopes = scopes,
				   .task = args_get(a, "task"),
				   .reason = args_get_or(a, "reason", "muxctl mcp")};

	return api_ask(c, &w, call, out, e);
}

/* ---- shown */

static int print_tools(struct ctl *c, const json_t *o)
{
	const json_t *tools = json_object_get(o, "tools"), *changes = json_object_get(tools, "changes"), *v;
	size_t i;
	int rc = json_is_object(tools) ? ctl_print_table(c, json_object_get(tools, "list"), tool_columns) : 0;

	json_array_foreach(changes, i, v)
	{
		char *tool = ctl_clean(json_get_text(v, "tool"));

		/* own: a word of the daemon's for each kind of change */
		printf("%s: %s since it was approved\n", tool ?: "?", json_get_text(v, "change"));
		free(tool);
	}
	if (json_array_size(changes)) /* own: a digest */
		printf("fingerprint of all: %s\n", json_get_text(tools, "fingerprint"));
	return rc;
}

static int print_server(struct ctl *c, json_t *o)
{
	const char *text = json_get_text(o, "stderr");
	json_t *head =
	    json_pack("{s:O*,s:O*,s:O*,s:O*}", "state", json_object_get(o, "state"), "why", json_object_get(o, "why"),
		      "program", json_object_get(o, "program"), "restarts", json_object_get(o, "restarts"));
	char *shown = visible_dup(text, strlen(text), LISTED_MAX, VISIBLE_LINES);
	int rc = head ? ctl_print_object(c, head, one_columns) : 71;

	if (!rc)
		rc = print_tools(c, o);
	if (!rc && shown && *shown)
		printf("stderr:\n%s%s", shown, shown[strlen(shown) - 1] == '\n' ? "" : "\n");
	free(shown);
	json_decref(head);
	return rc;
}

static int one_finish(struct ctl *c, int rc, const struct err *e, json_t *o)
{
	if (rc || c->json)
		return ctl_finish(c, rc, e, o, NULL, one_columns);
	rc = print_server(c, o);
	json_decref(o);
	return rc;
}

static int servers_run(struct ctl *c, const struct ctl_args *a)
{
	bool one = a->noperands > 1;
	struct api_call call = {.method = "GET",
				.path = one ? "/v1/agents/*/mcp/servers/*" : "/v1/agents/*/mcp/servers",
				.names = {a->operands[0], one ? a->operands[1] : NULL}};
	json_t *o = NULL;
	struct err e = {0};
	int rc = servers_ask(c, a, "rounds", &call, &o, &e);

	return one ? one_finish(c, rc, &e, o) : ctl_finish(c, rc, &e, o, "servers", list_columns);
}

/* ---- set */

/* A list, the object that `muxctl -o json mcp servers` prints, or {"mcpServers": {name: {...}}} as clients keep it. */
static json_t *list_of(json_t *from)
{
	const json_t *map = json_object_get(from, "mcpServers");
	json_t *list, *v;
	const char *name;

	if (json_is_array(from))
		return json_incref(from);
	if (!json_is_object(map))
		return json_incref(json_object_get(from, "servers"));
	list = json_array();
	json_object_foreach((json_t *)(uintptr_t)map, name, v)
	{
		json_t *one = json_copy(v), *command = json_object_get(one, "command"),
		       *args = json_object_get(one, "args"), *all = json_array();

		if (json_is_string(command)) {
			json_array_append(all, command);
			json_array_extend(all, args);
			json_object_set(one, "command", all);
			json_object_del(one, "args");
		}
		json_decref(all);
		json_object_del(one, "type");
		json_object_set_new(one, "name", json_string(name));
		json_array_append_new(list, one);
	}
	return list;
}

static int set_run(struct ctl *c, const struct ctl_args *a)
{
	static const char *const states[] = {"state",   "why",  "failures", "requests",    "restarts", "garbage_lines",
					     "refused", "late", "program",  "retry_in_ms", NULL};
	const char *version = args_get(a, "if-version");
	struct api_call call = {.method = "PUT", .path = "/v1/agents/*/mcp/servers", .names = {a->operands[0]}};
	json_t *from = NULL, *list = NULL, *o = NULL;
	struct err e = {0};
	int rc = listed_read(a->operands[1], LISTED_MAX, "the list", &from, &e);

	if (!rc && !(list = list_of(from)))
		rc = err_set(&e, ERR_INVAL, "%.200s: is no list of servers", a->operands[1]);
	if (!rc) {
		listed_forget(list, states);
		call.body = json_pack("{s:O}", "servers", list);
		call.query = version ? json_pack("{s:s}", "if_version", version) : NULL;
		rc = servers_ask(c, a, "lifecycle", &call, &o, &e);
	}
	json_decref(list);
	json_decref(from);
	return ctl_finish(c, rc, &e, o, "servers", list_columns);
}

/* ---- used */

static int request_run(struct ctl *c, const struct ctl_args *a)
{
	const char *given = a->noperands > 3 ? a->operands[3] : NULL;
	struct api_call call = {.method = "POST", .path = "/v1/agents/*/mcp/request", .names = {a->operands[0]}};
	unsigned long long timeout = 0;
	json_t *params = NULL, *o = NULL;
	struct err e = {0};
	int rc = args_duration(a, "timeout", &timeout, &e);

	if (!rc && given && strcmp(given, "-") == 0)
		rc = listed_read(given, PARAMS_MAX, "the parameters", &params, &e);
	else if (!rc && given)
		rc = json_parse(given, strlen(given), PARAMS_MAX, &params, &e);
	if (!rc) {
		call.body = json_pack("{s:s,s:s,s:O*,s:s*}", "server", a->operands[1], "method", a->operands[2],
				      "params", params, "exec_id", args_get(a, "exec-id"));
		if (timeout && call.body)
			json_object_set_new(call.body, "timeout_ms", json_integer((json_int_t)(timeout / NS_PER_MS)));
		rc = servers_ask(c, a, "rounds", &call, &o, &e);
	}
	json_decref(params);
	if (rc)
		return ctl_fail(c, &e);
	rc = ctl_print_json(c, c->json                       ? o
			       : json_object_get(o, "error") ? json_object_get(o, "error")
							     : json_object_get(o, "result"));
	rc = rc ? rc : json_object_get(o, "error") ? 1 : 0;
	json_decref(o);
	return rc;
}

static int refresh_run(struct ctl *c, const struct ctl_args *a)
{
	struct api_call call = {.method = "POST",
				.path = "/v1/agents/*/mcp/servers/*/refresh",
				.names = {a->operands[0], a->operands[1]},
				.body = json_object()};
	json_t *o = NULL;
	struct err e = {0};
	int rc = servers_ask(c, a, "rounds", &call, &o, &e);

	return one_finish(c, rc, &e, o);
}

/* Without a fingerprint of what was looked at: what is there now, which the answer shows. */
static int approve_run(struct ctl *c, const struct ctl_args *a)
{
	const char *fingerprint = args_get(a, "fingerprint");
	struct api_call look = {.method = "GET",
				.path = "/v1/agents/*/mcp/servers/*",
				.names = {a->operands[0], a->operands[1]}},
			call = {.method = "POST",
				.path = "/v1/agents/*/mcp/servers/*/approve",
				.names = {a->operands[0], a->operands[1]}};
	json_t *seen = NULL, *o = NULL;
	struct err e = {0};
	int rc = fingerprint ? 0 : servers_ask(c, a, "lifecycle", &look, &seen, &e);

	if (!rc && !fingerprint)
		fingerprint = json_get_text(json_object_get(seen, "tools"), "fingerprint");
	if (!rc && !*fingerprint)
		rc = err_set(&e, ERR_NOT_FOUND, "nobody has seen the tools of %.64s yet: muxctl mcp refresh",
			     a->operands[1]);
	if (!rc) {
		call.body = json_pack("{s:s}", "fingerprint", fingerprint);
		rc = servers_ask(c, a, "lifecycle", &call, &o, &e);
	}
	json_decref(seen);
	return one_finish(c, rc, &e, o);
}

#define TASK                                                                                                           \
	{                                                                                                              \
		"task", 0, "ID", "The task that it is done for."                                                       \
	}
#define REASON                                                                                                         \
	{"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl mcp)."},                            \
	{                                                                                                              \
		NULL, 0, NULL, NULL                                                                                    \
	}

static const struct ctl_option only_reason[] = {REASON};
static const struct ctl_option task_options[] = {TASK, REASON};
static const struct ctl_option set_options[] = {
    {"if-version", 0, "N", "Only where the list is at this version; 0: where there is none."}, REASON};
static const struct ctl_option request_options[] = {
    {"timeout", 't', "DURATION", "How long the answer may take (default: 60s)."},
    {"exec-id", 0, "ID", "Makes the request idempotent: the same again is done once."},
    TASK,
    REASON};
static const struct ctl_option approve_options[] = {
    {"fingerprint", 0, "SHA256", "Of the tools that you looked at; without it those that are there now."}, REASON};

const struct ctl_command servers_commands[] = {
    {"mcp servers", "AGENT [SERVER]", 1, 2,
     "List the MCP servers inside a sandbox, or show one with its tools and stderr.", only_reason, .run = servers_run},
    {"mcp set", "AGENT FILE", 2, 2, "Set the MCP servers of an agent.", set_options, .run = set_run,
     .more = "FILE (- for standard input) is a list of servers, what `muxctl -o json mcp servers` prints, or an object "
	     "with mcpServers as clients keep it.\n"},
    {"mcp request", "AGENT SERVER METHOD [PARAMS]", 3, 4, "Send one request to an MCP server inside.", request_options,
     .run = request_run,
     .more = "PARAMS is JSON, - the standard input. Status 1: the server answered with an error.\n"},
    {"mcp refresh", "AGENT SERVER", 2, 2, "Read the tools of an MCP server inside anew.", task_options,
     .run = refresh_run},
    {"mcp approve", "AGENT SERVER", 2, 2, "Approve the tools of an MCP server inside as they are now.", approve_options,
     .run = approve_run},
    {0},
};
