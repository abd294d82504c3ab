/* muxctl grant: asked of the monitor on admin.sock. */
#include "muxd/ctl/nouns.h"

#include <stdio.h>
#include <string.h>

#define LIST_LIMIT 100

static const struct ctl_option create_options[] = {
    {"agent", 0, "AGENT", "Agent (or ns/pod[/container]) it is for; * for auditors and services."},
    {"principal", 0, "NAME", "Who holds it."},
    {"kind", 0, "KIND", "staff (default), agent, auditor or service."},
    {"scopes", 0, "LIST", "terminal,rounds,files,observe,drive,replay,lifecycle,admin,ports; default by kind."},
    {"task", 0, "ID", "Task of every call made with it (staff: console)."},
    {"ttl", 0, "DURATION", "How long it lasts; default and limit by configuration."},
    {"reason", 0, "TEXT", "Why; required."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option list_options[] = {
    {"limit", 0, "N", "At most so many, newest first (default 100)."},
    {"before", 0, "ID", "Older than this one: the next page."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_column created_columns[] = {
    {"id", "id"},       {"token", "token"},     {"expires_at", "expires at"},
    {"web_url", "web"}, {"ssh_command", "ssh"}, {NULL, NULL},
};

static const struct ctl_column list_columns[] = {
    {"id", "ID"},     {"kind", "KIND"},          {"principal", "PRINCIPAL"}, {"agent", "AGENT"},   {"scopes", "SCOPES"},
    {"task", "TASK"}, {"expires_at", "EXPIRES"}, {"revoked", "REVOKED"},     {"reason", "REASON"}, {NULL, NULL},
};

/* Asks and prints; columns of an object, or of the list under `list`. */
static int ask_and_print(struct ctl *c, json_t *question, const char *list, const struct ctl_column *columns)
{
	json_t *answer = NULL;
	struct err e = {0};
	int rc =
	    question ? ctl_admin_ask(c, question, &answer, &e) : err_set(&e, ERR_NOMEM, "no memory for the question");
	int status;

	json_decref(question);
	if (rc < 0)
		return ctl_fail(c, &e);
	if (c->json)
		status = ctl_print_json(c, answer);
	else if (list)
		status = ctl_print_table(c, json_object_get(answer, list), columns);
	else
		status = ctl_print_object(c, answer, columns);
	if (list && !c->json && json_is_true(json_object_get(answer, "more")))
		fprintf(stderr, "There are older ones: --before ID, with the last id above.\n");
	json_decref(answer);
	return status;
}

static int need(const struct ctl_args *a, const char *name, int code, struct err *e)
{
	return args_has(a, name) ? 0 : err_set(e, code, "--%s is missing", name);
}

static int create_run(struct ctl *c, const struct ctl_args *a)
{
	static const char *const texts[] = {"agent", "principal", "scopes", "task", "reason"};
	unsigned long long ttl = 0;
	struct err e = {0};
	int rc = need(a, "reason", ERR_REASON_REQUIRED, &e);

	if (rc == 0)
		rc = need(a, "agent", ERR_INVAL, &e);
	if (rc == 0)
		rc = need(a, "principal", ERR_INVAL, &e);
	if (rc == 0)
		rc = args_duration(a, "ttl", &ttl, &e);
	/* 0 would mean the default to the daemon. */
	if (rc == 0 && args_has(a, "ttl") && ttl == 0)
		rc = err_set(&e, ERR_INVAL, "--ttl is 0: a grant lasts a second at least");
	if (rc < 0)
		return ctl_fail(c, &e);
	json_t *q =
	    json_pack("{s:s,s:s}", "op", "grant.create", "kind", args_has(a, "kind") ? args_get(a, "kind") : "staff");
	for (size_t i = 0; q && i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (args_has(a, texts[i]) && json_object_set_new(q, texts[i], json_string(args_get(a, texts[i]))) < 0) {
			err_set(&e, ERR_NOMEM, "no memory for the question");
			json_decref(q);
			return ctl_fail(c, &e);
		}
	}
	if (q && ttl)
		json_object_set_new(q, "ttl_ns", json_integer((json_int_t)ttl));
	return ask_and_print(c, q, NULL, created_columns);
}

static int grant_list_run(struct ctl *c, const struct ctl_args *a)
{
	long long limit = LIST_LIMIT;
	struct err e = {0};

	if (args_number(a, "limit", 1, 1000, &limit, &e) < 0)
		return ctl_fail(c, &e);
	json_t *q = json_pack("{s:s,s:I}", "op", "grant.list", "limit", (json_int_t)limit);
	if (q && args_has(a, "before"))
		json_object_set_new(q, "before", json_string(args_get(a, "before")));
	return ask_and_print(c, q, "grants", list_columns);
}

static int revoke_run(struct ctl *c, const struct ctl_args *a)
{
	return ask_and_print(c, json_pack("{s:s,s:s}", "op", "grant.revoke", "id", a->operands[0]), NULL, NULL);
}

const struct ctl_command grant_create_command = {
    .name = "grant create",
    .operands = "",
    .help = "Make a time-boxed grant; prints its token once.",
    .options = create_options,
    .run = create_run,
};

const struct ctl_command grant_list_command = {
    .name = "grant list",
    .operands = "",
    .help = "Grants that have not expired, newest first.",
    .options = list_options,
    .run = grant_list_run,
};

const struct ctl_command grant_revoke_command = {
    .name = "grant revoke",
    .operands = "ID",
    .min = 1,
    .max = 1,
    .help = "Take a grant back; what it holds open is cut.",
    .run = revoke_run,
};
