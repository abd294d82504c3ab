/* muxctl grant: asked of the monitor on admin.sock; an exchange, of the API, by the token of the issuer. */
#include "muxd/ctl/api.h"
#include "muxd/ctl/nouns.h"

#include "policy/grant_bounds.h"

#include <stdio.h>
#include <string.h>

#define LIST_LIMIT 100

static const struct ctl_option create_options[] = {
    {"agent", 0, "AGENT", "Agent (or ns/pod[/container]) that the grant covers; ci-*: those that begin so; *: all."},
    {"principal", 0, "NAME", "Principal that holds the grant."},
    {"kind", 0, "KIND", "staff (default), agent, auditor or service."},
    {"scopes", 0, "LIST", "terminal,rounds,files,observe,drive,replay,lifecycle,admin,ports,grant; default by kind."},
    {"task", 0, "ID", "Task of every call made with it (staff: console)."},
    {"ttl", 0, "DURATION", "Lifetime of the grant; the configuration has the default and the limit."},
    {"read", 0, "PATTERNS", "Paths that file operations may read, as src/**,*.md; none: \"\". Default: any."},
    {"write", 0, "PATTERNS", "Paths that they may write; in the workspace, without links. Default: any."},
    {"file-max", 0, "BYTES", "Largest file that they move or write, and largest patch."},
    {"uses", 0, "N", "How often it may open something; what is made from it counts as well. Default: no number."},
    {"operations", 0, "LIST", "Operations by name, as round.start,file.read (muxctl policy operations). Default: all."},
    {"reason", 0, "TEXT", "Reason for the grant; required."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option renew_options[] = {
    {"ttl", 0, "DURATION", "How long from now; the configuration has the default and the limit."},
    {"reason", 0, "TEXT", "Reason for the renewal; required."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option list_options[] = {
    {"limit", 0, "N", "Maximum number of grants (default 100)."},
    {"before", 0, "ID", "List grants older than this one (the next page)."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option exchange_options[] = {
    {"agent", 0, "AGENT", "Agent of the grant, where the issuer's tokens are for more than one."},
    {"scopes", 0, "LIST", "Less than the issuer's token gives."},
    {"task", 0, "ID", "Task of every call made with it."},
    {"ttl", 0, "DURATION", "Lifetime of the grant; no longer than the token's, nor than the configuration says."},
    {"read", 0, "PATTERNS", "Paths that file operations may read, as src/**,*.md; none: \"\". Default: any."},
    {"write", 0, "PATTERNS", "Paths that they may write; in the workspace, without links. Default: any."},
    {"file-max", 0, "BYTES", "Largest file that they move or write, and largest patch."},
    {"uses", 0, "N", "How often it may open something; what is made from it counts as well. Default: no number."},
    {"operations", 0, "LIST", "Operations by name, as round.start,file.read (muxctl policy operations). Default: all."},
    {"reason", 0, "TEXT", "Reason for the grant; required."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_column exchanged_columns[] = {
    {"id", "id"},        {"token", "token"},   {"principal", "principal"},
    {"target", "agent"}, {"scopes", "scopes"}, {"expires_at", "expires at"},
    {NULL, NULL},
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
	int rc = ctl_admin_ask(c, question, &answer, &e);
	bool more = !c->json && json_is_true(json_object_get(answer, "more"));
	int status = ctl_finish(c, rc, &e, answer, list, columns);

	if (list && more)
		fprintf(stderr, "There are older grants: use --before ID with the last id above.\n");
	return status;
}

static int need(const struct ctl_args *a, const char *name, int code, struct err *e)
{
	return args_has(a, name) ? 0 : err_set(e, code, "--%s is missing", name);
}

static int create_run(struct ctl *c, const struct ctl_args *a)
{
	unsigned long long ttl = 0;
	long long most = 0, uses = 0;
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
		rc = err_set(&e, ERR_INVAL, "--ttl is 0: the minimum is 1s");
	if (rc >= 0 && args_has(a, "file-max"))
		rc = args_number(a, "file-max", 1, INT64_MAX, &most, &e);
	if (rc >= 0 && args_has(a, "uses"))
		rc = args_number(a, "uses", 1, GRANT_USES_MAX, &uses, &e);
	if (rc < 0)
		return ctl_fail(c, &e);
	json_t *q =
	    json_pack("{s:s,s:s,s:s,s:s,s:s*,s:s*,s:s}", "op", "grant.create", "kind", args_get_or(a, "kind", "staff"),
		      "agent", args_get(a, "agent"), "principal", args_get(a, "principal"), "scopes",
		      args_get(a, "scopes"), "task", args_get(a, "task"), "reason", args_get(a, "reason"));
	args_patterns(a, "read", q);
	args_patterns(a, "write", q);
	if (q && most)
		json_object_set_new(q, "file_max", json_integer(most));
	args_bounds(a, uses, q);
	if (q && ttl)
		json_object_set_new(q, "ttl_ns", json_integer((json_int_t)ttl));
	return ask_and_print(c, q, NULL, created_columns);
}

static int renew_run(struct ctl *c, const struct ctl_args *a)
{
	unsigned long long ttl = 0;
	struct err e = {0};
	int rc = need(a, "reason", ERR_REASON_REQUIRED, &e);

	if (rc == 0)
		rc = args_duration(a, "ttl", &ttl, &e);
	if (rc >= 0 && args_has(a, "ttl") && ttl == 0)
		rc = err_set(&e, ERR_INVAL, "--ttl is 0: the minimum is 1s");
	if (rc < 0)
		return ctl_fail(c, &e);
	json_t *q =
	    json_pack("{s:s,s:s,s:s}", "op", "grant.renew", "id", a->operands[0], "reason", args_get(a, "reason"));
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
	json_t *q = json_pack("{s:s,s:I,s:s*}", "op", "grant.list", "limit", (json_int_t)limit, "before",
			      args_get(a, "before"));
	return ask_and_print(c, q, "grants", list_columns);
}

static int revoke_run(struct ctl *c, const struct ctl_args *a)
{
	return ask_and_print(c, json_pack("{s:s,s:s}", "op", "grant.revoke", "id", a->operands[0]), NULL, NULL);
}

static int exchange_run(struct ctl *c, const struct ctl_args *a)
{
	static const struct ctl_wish none = {0};
	struct api_call call = {.method = "POST", .path = "/v1/grants"};
	json_t *answer = NULL;
	long long most = 0, uses = 0;
	struct err e = {0};
	int rc = need(a, "reason", ERR_REASON_REQUIRED, &e);

	if (rc == 0 && !c->token_file)
		rc = err_set(&e, ERR_INVAL, "--token-file is missing: a file with the issuer's token");
	if (rc >= 0 && args_has(a, "file-max"))
		rc = args_number(a, "file-max", 1, INT64_MAX, &most, &e);
	if (rc >= 0 && args_has(a, "uses"))
		rc = args_number(a, "uses", 1, GRANT_USES_MAX, &uses, &e);
	if (rc < 0)
		return ctl_fail(c, &e);
	call.body = json_pack("{s:s,s:s,s:s*,s:s*,s:s*,s:s*}", "issuer", a->operands[0], "reason",
			      args_get(a, "reason"), "target", args_get(a, "agent"), "scopes", args_get(a, "scopes"),
			      "task_id", args_get(a, "task"), "ttl", args_get(a, "ttl"));
	args_patterns(a, "read", call.body);
	args_patterns(a, "write", call.body);
	if (call.body && most)
		json_object_set_new(call.body, "file_max", json_integer(most));
	args_bounds(a, uses, call.body);
	rc = api_ask(c, &none, &call, &answer, &e);
	return ctl_finish(c, rc, &e, answer, NULL, exchanged_columns);
}

const struct ctl_command grant_commands[] = {
    {"grant create", "", 0, 0, "Create a time-boxed grant and print its token once.", create_options,
     .run = create_run},
    {"grant renew", "ID", 1, 1, "Renew a grant: what it holds open goes on, by a new token that is printed once.",
     renew_options, .run = renew_run},
    {"grant exchange", "ISSUER", 1, 1,
     "Exchange a token of an outside issuer, in --token-file, for a grant, and print its token once.", exchange_options,
     .run = exchange_run},
    {"grant list", "", 0, 0, "List grants that have not expired, newest first.", list_options, .run = grant_list_run},
    {"grant revoke", "ID", 1, 1,
     "Revoke a grant, its renewals and all that was made from it, and close their sessions.", .run = revoke_run},
    {0},
};
