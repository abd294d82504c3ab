/* muxctl sandbox (asked of the monitor) and resume (asked of the hub). */
#include "muxd/base/clock.h"
#include "muxd/base/ids.h"
#include "muxd/ctl/nouns.h"

#include <stdio.h>

static const struct ctl_option destroy_options[] = {
    {"reason", 0, "TEXT", "Why; required."},
    {"wipe", 0, NULL, "Remove its workspace too: what is in it is lost."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option resume_options[] = {
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl resume)."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_column list_columns[] = {
    {"agent", "AGENT"},        {"state", "STATE"},         {"sandbox_id", "SANDBOX"}, {"pid", "PID"},
    {"created_at", "CREATED"}, {"oom_kills", "OOM KILLS"}, {"detail", "DETAIL"},      {NULL, NULL},
};

/* A time as people read it, next to the nanoseconds of the wire. */
static void add_created(json_t *sandbox)
{
	int64_t ns = 0;
	char text[40];

	if (json_opt_int(sandbox, "created_wall_ns", 1, INT64_MAX, &ns, NULL) < 0 || ns == 0)
		return;
	clock_format_utc(ns, text, sizeof(text));
	json_object_set_new(sandbox, "created_at", json_string(text));
}

static int list_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *answer = NULL, *q = json_pack("{s:s}", "op", "sandbox.list"), *item;
	struct err e = {0};
	size_t i;
	int rc = ctl_admin_ask(c, q, &answer, &e);

	(void)a;
	json_decref(q);
	if (rc < 0)
		return ctl_fail(c, &e);
	json_array_foreach(json_object_get(answer, "sandboxes"), i, item) add_created(item);
	int status = c->json ? ctl_print_json(c, answer)
			     : ctl_print_table(c, json_object_get(answer, "sandboxes"), list_columns);
	json_decref(answer);
	return status;
}

static int one(struct ctl *c, const char *agent, json_t *question)
{
	json_t *answer = NULL;
	struct err e = {0};
	int rc = target_name_check(agent, &e);

	if (rc == 0)
		rc = ctl_admin_ask(c, question, &answer, &e);
	json_decref(question);
	if (rc < 0)
		return ctl_fail(c, &e);
	json_t *sandbox = json_object_get(answer, "sandbox");
	if (json_is_object(sandbox))
		add_created(sandbox);
	else
		sandbox = answer;
	int status = c->json ? ctl_print_json(c, sandbox) : ctl_print_object(c, sandbox, NULL);
	json_decref(answer);
	return status;
}

static int show_run(struct ctl *c, const struct ctl_args *a)
{
	return one(c, a->operands[0], json_pack("{s:s,s:s}", "op", "sandbox.show", "agent", a->operands[0]));
}

static int destroy_run(struct ctl *c, const struct ctl_args *a)
{
	struct err e = {0};

	if (!args_has(a, "reason")) {
		err_set(&e, ERR_REASON_REQUIRED, "--reason is missing");
		return ctl_fail(c, &e);
	}
	return one(c, a->operands[0],
		   json_pack("{s:s,s:s,s:s,s:b}", "op", "sandbox.destroy", "agent", a->operands[0], "reason",
			     args_get(a, "reason"), "wipe", (int)args_has(a, "wipe")));
}

static int resume_run(struct ctl *c, const struct ctl_args *a)
{
	struct ctl_wish w = {.kind = "staff",
			     .agent = a->operands[0],
			     .scopes = "lifecycle",
			     .reason = args_has(a, "reason") ? args_get(a, "reason") : "muxctl resume"};
	json_t *agent = NULL;
	struct err e = {0};
	int rc = target_name_check(a->operands[0], &e);

	if (rc == 0)
		rc = ctl_ask_object(c, "hub.sock", json_pack("{s:s,s:s}", "op", "resume", "agent", a->operands[0]), &w,
				    "agent", &agent, &e);
	if (rc < 0)
		return ctl_fail(c, &e);
	int status = c->json ? ctl_print_json(c, agent) : ctl_print_object(c, agent, NULL);
	json_decref(agent);
	return status;
}

const struct ctl_command sandbox_list_command = {
    .name = "sandbox list",
    .operands = "",
    .help = "Sandboxes and their states.",
    .run = list_run,
};

const struct ctl_command sandbox_show_command = {
    .name = "sandbox show",
    .operands = "AGENT",
    .min = 1,
    .max = 1,
    .help = "One sandbox: state, limits, what its mode cannot promise.",
    .run = show_run,
};

const struct ctl_command sandbox_destroy_command = {
    .name = "sandbox destroy",
    .operands = "AGENT",
    .min = 1,
    .max = 1,
    .help = "End a sandbox and everything that runs in it.",
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
