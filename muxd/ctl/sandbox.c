/* muxctl sandbox and resume: asked of the hub, which knows every backend. */
#include "muxd/base/clock.h"
#include "muxd/base/ids.h"
#include "muxd/ctl/nouns.h"

#include <stdio.h>
#include <stdlib.h>

static const struct ctl_option destroy_options[] = {
    {"reason", 0, "TEXT", "Why; required."},
    {"wipe", 0, NULL, "Remove its workspace too: what is in it is lost."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option create_options[] = {
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl sandbox create)."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option resume_options[] = {
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl resume)."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_column list_columns[] = {
    {"agent", "AGENT"},       {"state", "STATE"},        {"backend", "BACKEND"}, {"sandbox_id", "SANDBOX"},
    {"sessions", "SESSIONS"}, {"created_at", "CREATED"}, {"detail", "DETAIL"},   {NULL, NULL},
};

static const struct ctl_column show_columns[] = {
    {"agent", "agent"},         {"state", "state"},
    {"backend", "backend"},     {"backend_reason", "why"},
    {"delivery", "delivery"},   {"enforced", "enforced"},
    {"sandbox_id", "sandbox"},  {"sessions", "sessions"},
    {"created_at", "created"},  {"last_activity_at", "last activity"},
    {"oom_kills", "oom kills"}, {"workspace_snapshot_id", "snapshot"},
    {"detail", "detail"},       {NULL, NULL},
};

static int list_run(struct ctl *c, const struct ctl_args *a)
{
	struct ctl_wish w = {
	    .kind = "staff", .agent = "*", .scopes = "lifecycle,admin", .reason = "muxctl sandbox list"};
	json_t *answer = NULL, *q = json_pack("{s:s}", "op", "agents");
	struct err e = {0};
	int rc = ctl_ask(c, "hub.sock", q, &w, &answer, &e);

	(void)a;
	json_decref(q);
	if (rc < 0)
		return ctl_fail(c, &e);
	json_object_del(answer, "event");
	int status =
	    c->json ? ctl_print_json(c, answer) : ctl_print_table(c, json_object_get(answer, "agents"), list_columns);
	const char *missing = json_string_value(json_object_get(answer, "incomplete"));
	if (missing && !c->json) {
		char *text = ctl_clean(missing);
		fprintf(stderr, "Some may be missing: %s\n", text ? text : "");
		free(text);
	}
	json_decref(answer);
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

/* One question about an agent, and its object printed. question: stolen. */
static int one(struct ctl *c, const char *agent, json_t *question, const char *reason, const struct ctl_column *columns)
{
	struct ctl_wish w = {.kind = "staff", .agent = agent, .scopes = "lifecycle", .reason = reason};
	json_t *answer = NULL;
	struct err e = {0};
	int rc = target_name_check(agent, &e);

	if (rc == 0)
		rc = ctl_ask(c, "hub.sock", question, &w, &answer, &e);
	json_decref(question);
	if (rc < 0)
		return ctl_fail(c, &e);
	json_t *o = json_object_get(answer, "agent");
	if (!json_is_object(o))
		o = answer;
	if (!c->json && json_is_object(json_object_get(o, "enforced")))
		enforced_words(o);
	int status = c->json ? ctl_print_json(c, o) : ctl_print_object(c, o, columns);
	json_decref(answer);
	return status;
}

static int show_run(struct ctl *c, const struct ctl_args *a)
{
	return one(c, a->operands[0], json_pack("{s:s,s:s}", "op", "agent", "agent", a->operands[0]),
		   "muxctl sandbox show", show_columns);
}

static int make_run(struct ctl *c, const struct ctl_args *a, const char *reason)
{
	return one(c, a->operands[0], json_pack("{s:s,s:s}", "op", "resume", "agent", a->operands[0]),
		   args_has(a, "reason") ? args_get(a, "reason") : reason, show_columns);
}

static int create_run(struct ctl *c, const struct ctl_args *a)
{
	return make_run(c, a, "muxctl sandbox create");
}

static int resume_run(struct ctl *c, const struct ctl_args *a)
{
	return make_run(c, a, "muxctl resume");
}

/* Workspaces of this machine are the monitor's, and not in the reach of the part that strangers talk to. */
static int wipe_local(struct ctl *c, const char *agent, const char *reason)
{
	json_t *q =
	    json_pack("{s:s,s:s,s:s,s:b}", "op", "sandbox.destroy", "agent", agent, "reason", reason, "wipe", 1);
	json_t *answer = NULL;
	struct err e = {0};
	int rc = ctl_admin_ask(c, q, &answer, &e);

	json_decref(q);
	json_decref(answer);
	if (rc < 0)
		return ctl_fail(c, &e);
	json_t *o = json_pack("{s:s,s:s}", "agent", agent, "state", "removed");
	int status = c->json ? ctl_print_json(c, o) : ctl_print_object(c, o, NULL);
	json_decref(o);
	return status;
}

static int ask_end(struct ctl *c, const struct ctl_args *a, bool wipe, json_t **out, struct err *e)
{
	const char *agent = a->operands[0], *reason = args_get(a, "reason");
	struct ctl_wish w = {.kind = "staff", .agent = agent, .scopes = "lifecycle", .reason = reason};
	json_t *q = json_pack("{s:s,s:s,s:s,s:b}", "op", "sandbox.destroy", "agent", agent, "reason", reason, "wipe",
			      (int)wipe);
	int rc = ctl_ask(c, "hub.sock", q, &w, out, e);

	json_decref(q);
	return rc;
}

static int destroy_run(struct ctl *c, const struct ctl_args *a)
{
	const char *agent = a->operands[0], *reason = args_get(a, "reason");
	bool wipe = args_has(a, "wipe"), local = false;
	json_t *answer = NULL;
	struct err e = {0};
	int rc = reason ? target_name_check(agent, &e) : err_set(&e, ERR_REASON_REQUIRED, "--reason is missing");

	if (rc == 0)
		rc = ask_end(c, a, wipe, &answer, &e);
	if (rc == ERR_UNSUPPORTED && wipe && !target_is_pod(agent)) {
		local = true;
		rc = ask_end(c, a, false, &answer, &e);
	}
	if (rc < 0)
		return ctl_fail(c, &e);
	json_t *o = json_object_get(answer, "agent");
	int status = local     ? wipe_local(c, agent, reason)
		     : c->json ? ctl_print_json(c, o)
			       : ctl_print_object(c, o, NULL);
	json_decref(answer);
	return status;
}

const struct ctl_command sandbox_list_command = {
    .name = "sandbox list",
    .operands = "",
    .help = "Sandboxes on this machine and in the cluster, and their states.",
    .run = list_run,
};

const struct ctl_command sandbox_show_command = {
    .name = "sandbox show",
    .operands = "AGENT",
    .min = 1,
    .max = 1,
    .help = "One sandbox: state, backend and why, which limits are enforced, what its mode cannot promise.",
    .run = show_run,
};

const struct ctl_command sandbox_create_command = {
    .name = "sandbox create",
    .operands = "AGENT",
    .min = 1,
    .max = 1,
    .help = "Make the agent's sandbox, or find it, and wait until it runs.",
    .options = create_options,
    .run = create_run,
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

const struct ctl_command resume_command = {
    .name = "resume",
    .operands = "AGENT",
    .min = 1,
    .max = 1,
    .help = "Make or wake the agent's sandbox.",
    .options = resume_options,
    .run = resume_run,
};
