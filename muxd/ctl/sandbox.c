/* muxctl sandbox: listed, shown, made, ended. Asked of the hub, which knows every backend. */
#include "muxd/ctl/sandbox.h"
#include "base/clock.h"
#include "base/ids.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/nouns.h"

#include <stdio.h>
#include <stdlib.h>

static const struct ctl_option destroy_options[] = {
    {"reason", 0, "TEXT", "Why; required."},
    {"wipe", 0, NULL, "Remove its workspace too: what is in it is lost."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option list_options[] = {
    {"in", 0, "STATE",
     "Only those in this state: running, idle_stopping, stopped, error, starting, stopping or destroying."},
    {"prefix", 0, "TEXT", "Only names that begin so."},
    {"after", 0, "NAME", "Only names behind this one."},
    {"limit", 'n', "N", "At most so many (default: all)."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_column list_columns[] = {
    {"agent", "AGENT"},
    {"state", "STATE"},
    {"backend", "BACKEND"},
    {"sessions", "SESSIONS"},
    {"last_activity_at", "LAST ACTIVITY"},
    {"workspace_snapshot_id", "SNAPSHOT"},
    {"detail", "DETAIL"},
    {NULL, NULL},
};

static const struct ctl_column show_columns[] = {
    {"agent", "agent"},
    {"state", "state"},
    {"step", "step"},
    {"cause", "cause"},
    {"detail", "detail"},
    {"state_since", "since"},
    {"backend", "backend"},
    {"backend_reason", "why"},
    {"delivery", "delivery"},
    {"ephemeral_container", "by container"},
    {"namespace", "namespace"},
    {"pod", "pod"},
    {"pod_made_with", "pod made with"},
    {"pod_template", "pod template"},
    {"own_pod_template", "its own"},
    {"pod_template_refused", "refused"},
    {"link", "link"},
    {"enforced", "enforced"},
    {"sandbox_id", "sandbox"},
    {"started_at", "started"},
    {"sessions", "sessions"},
    {"last_activity_at", "last activity"},
    {"idle_stops_at", "idle stop"},
    {"cannot_sleep", "cannot sleep"},
    {"lease_expires_at", "ends"},
    {"workspace_snapshot_id", "snapshot"},
    {"snapshot_check", "check"},
    {"next_snapshot_id", "next snapshot"},
    {"created_at", "created"},
    {"updated_at", "updated"},
    {"oom_kills", "oom kills"},
    {NULL, NULL},
};

#define PAGE 500

static json_t *list_query(const struct ctl_args *a, const char *after, long long limit)
{
	char most[24];

	snprintf(most, sizeof(most), "%lld", limit < PAGE ? limit : PAGE);
	return json_pack("{s:s,s:s*,s:s*,s:s*}", "limit", most, "state", args_get(a, "in"), "prefix",
			 args_get(a, "prefix"), "after", after);
}

/* One page behind `after`, appended; *out_more: where the next begins, or NULL. */
static int sandbox_list_page(struct ctl *c, const struct ctl_args *a, long long limit, json_t *all,
			     const char **out_more, struct err *e)
{
	struct ctl_wish w = {
	    .kind = "staff", .agent = "*", .scopes = "lifecycle,admin", .reason = "muxctl sandbox list"};
	struct api_call call = {.method = "GET", .path = "/v1/agents", .query = list_query(a, *out_more, limit)};
	json_t *answer = NULL, *rows = json_object_get(all, "agents"), *page;
	int rc = api_ask(c, &w, &call, &answer, e);

	*out_more = NULL;
	if (rc)
		return rc;
	page = json_object_get(answer, "agents");
	if (!json_is_array(page) || json_array_extend(rows, page))
		rc = err_set(e, ERR_PROTOCOL, "the daemon's answer has no list of agents");
	if (json_object_get(answer, "incomplete"))
		json_object_set(all, "incomplete", json_object_get(answer, "incomplete"));
	json_object_set_new(all, "more", json_boolean(json_is_true(json_object_get(answer, "more"))));
	if (!rc && json_array_size(page) && json_is_true(json_object_get(answer, "more")))
		*out_more =
		    json_string_value(json_object_get(json_array_get(rows, json_array_size(rows) - 1), "agent"));
	json_decref(answer);
	return rc;
}

static int sandbox_list_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *all = json_pack("{s:[]}", "agents"), *rows = json_object_get(all, "agents");
	const char *next = args_get(a, "after");
	long long limit = INT32_MAX;
	struct err e = {0};
	int rc = args_number(a, "limit", 1, INT32_MAX, &limit, &e);

	do {
		if (!rc)
			rc = sandbox_list_page(c, a, limit - (long long)json_array_size(rows), all, &next, &e);
	} while (!rc && next && (long long)json_array_size(rows) < limit);
	if (rc < 0) {
		json_decref(all);
		return ctl_fail(c, &e);
	}
	int status = c->json ? ctl_print_json(c, all) : ctl_print_table(c, rows, list_columns);
	const char *missing = json_string_value(json_object_get(all, "incomplete"));
	if (missing && !c->json) {
		char *text = ctl_clean(missing);
		fprintf(stderr, "Some may be missing: %s\n", text ? text : "");
		free(text);
	}
	json_decref(all);
	return status;
}

/* {workspace_size: true, ...} as words, for people. */
static void enforced_words(json_t *agent)
{
	const char *key;
	json_t *value, *list = json_array();

	json_object_foreach(json_object_get(agent, "enforced"), key, value)
	{
		if (json_is_true(value))
			json_array_append_new(list, json_string(key));
	}
	if (json_array_size(list) == 0)
		json_array_append_new(list, json_string("nothing"));
	json_object_set_new(agent, "enforced", list);
}

int sandbox_print(struct ctl *c, json_t *o)
{
	if (!c->json && json_is_object(json_object_get(o, "enforced")))
		enforced_words(o);
	return c->json ? ctl_print_json(c, o) : ctl_print_object(c, o, show_columns);
}

static int show_run(struct ctl *c, const struct ctl_args *a)
{
	const char *agent = a->operands[0];
	struct ctl_wish w = {.kind = "staff", .agent = agent, .scopes = "lifecycle", .reason = "muxctl sandbox show"};
	json_t *o = NULL;
	struct err e = {0};
	int rc = target_name_check(agent, &e);

	if (rc == 0)
		rc = api_ask(c, &w, &(struct api_call){.method = "GET", .path = "/v1/agents/*", .names = {agent}}, &o,
			     &e);
	if (rc < 0)
		return ctl_fail(c, &e);
	int status = sandbox_print(c, o);
	json_decref(o);
	return status;
}

static int sandbox_ask_end(struct ctl *c, const struct ctl_args *a, bool wipe, json_t **out, struct err *e)
{
	const char *agent = a->operands[0], *reason = args_get(a, "reason");
	struct ctl_wish w = {.kind = "staff", .agent = agent, .scopes = "lifecycle", .reason = reason};
	struct api_call call = {.method = "DELETE",
				.path = "/v1/agents/*",
				.names = {agent},
				.query = json_pack("{s:s,s:s}", "reason", reason, "wipe", wipe ? "true" : "false")};

	return api_ask(c, &w, &call, out, e);
}

static int destroy_run(struct ctl *c, const struct ctl_args *a)
{
	const char *agent = a->operands[0], *reason = args_get(a, "reason");
	bool wipe = args_has(a, "wipe");
	json_t *answer = NULL;
	struct err e = {0};
	int rc = reason ? target_name_check(agent, &e) : err_set(&e, ERR_REASON_REQUIRED, "--reason is missing");

	if (rc == 0)
		rc = sandbox_ask_end(c, a, wipe, &answer, &e);
	if (rc < 0)
		return ctl_fail(c, &e);
	int status = c->json ? ctl_print_json(c, answer) : ctl_print_object(c, answer, NULL);
	json_decref(answer);
	return status;
}

const struct ctl_command sandbox_list_command = {
    .name = "sandbox list",
    .operands = "",
    .help = "Agents and their sandboxes, on this machine and in the cluster, and their states.",
    .options = list_options,
    .run = sandbox_list_run,
};

const struct ctl_command sandbox_show_command = {
    .name = "sandbox show",
    .operands = "AGENT",
    .min = 1,
    .max = 1,
    .help = "One sandbox: state, backend and why, which limits are enforced, what its mode cannot promise.",
    .run = show_run,
};

const struct ctl_command sandbox_destroy_command = {
    .name = "sandbox destroy",
    .operands = "AGENT",
    .min = 1,
    .max = 1,
    .help = "End a sandbox and everything that runs in it; one that is not there is no error.",
    .options = destroy_options,
    .run = destroy_run,
};
