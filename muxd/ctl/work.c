/* muxctl lease, run, workflow and pool: asked of the hub. */
#include "base/slurp.h"
#include "base/utf8.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/nouns.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX  (1024 * 1024)
#define TOKEN_MAX (16 * 1024)

static const struct ctl_column lease_columns[] = {
    {"leaseId", "lease"},     {"sandboxId", "sandbox"},   {"state", "state"},       {"cause", "cause"},
    {"userId", "user"},       {"workflowId", "workflow"}, {"requestId", "request"}, {"runId", "run"},
    {"expiresAt", "expires"}, {"createdAt", "created"},   {"endedAt", "ended"},     {NULL, NULL},
};

static const struct ctl_column lease_rows[] = {
    {"leaseId", "LEASE"},       {"state", "STATE"}, {"userId", "USER"},
    {"workflowId", "WORKFLOW"}, {"runId", "RUN"},   {"sandboxId", "SANDBOX"},
    {"expiresAt", "EXPIRES"},   {"cause", "CAUSE"}, {NULL, NULL},
};

static const struct ctl_column run_columns[] = {
    {"runId", "run"},       {"state", "state"},         {"reason", "reason"},   {"message", "message"},
    {"leaseId", "lease"},   {"workflowId", "workflow"}, {"version", "version"}, {"userId", "user"},
    {"createdAt", "began"}, {"endedAt", "ended"},       {NULL, NULL},
};

static const struct ctl_column run_rows[] = {
    {"runId", "RUN"},           {"state", "STATE"},     {"reason", "REASON"},
    {"workflowId", "WORKFLOW"}, {"version", "VERSION"}, {"userId", "USER"},
    {"createdAt", "BEGAN"},     {"endedAt", "ENDED"},   {NULL, NULL},
};

static const struct ctl_column workflow_columns[] = {
    {"workflowId", "workflow"}, {"version", "version"}, {"owner", "owner"}, {"createdAt", "stored"}, {NULL, NULL},
};

static const struct ctl_column workflow_rows[] = {
    {"workflowId", "WORKFLOW"}, {"version", "VERSION"}, {"owner", "OWNER"}, {"createdAt", "STORED"}, {NULL, NULL},
};

static const struct ctl_column pool_columns[] = {
    {"size", "size"},       {"max", "max"},       {"target", "target"},         {"ready", "ready"},
    {"filling", "filling"}, {"leased", "leased"}, {"discarding", "discarding"}, {"waiting", "waiting"},
    {NULL, NULL},
};

/* A command's question; the rows under `list` are printed as a table. */
static const struct work_call {
	const char *name, *method, *path, *list;
	const struct ctl_column *columns;
} calls[] = {
    {"lease create", "POST", "/sandboxes/leases", NULL, lease_columns},
    {"lease list", "GET", "/sandboxes/leases", "leases", lease_rows},
    {"lease show", "GET", "/sandboxes/leases/*", NULL, lease_columns},
    {"lease heartbeat", "POST", "/sandboxes/leases/*/heartbeat", NULL, lease_columns},
    {"lease release", "DELETE", "/sandboxes/leases/*", NULL, lease_columns},
    {"run start", "POST", "/sandboxes/runs", NULL, NULL},
    {"run list", "GET", "/sandboxes/runs", "runs", run_rows},
    {"run show", "GET", "/sandboxes/runs/*", NULL, run_columns},
    {"workflow put", "POST", "/sandboxes/workflows", NULL, workflow_columns},
    {"workflow list", "GET", "/sandboxes/workflows", "workflows", workflow_rows},
    {"workflow show", "GET", "/sandboxes/workflows/*", NULL, workflow_columns},
    {"pool show", "GET", "/sandboxes/pool", NULL, pool_columns},
};

static const struct work_call *find_call(const char *name)
{
	const struct work_call *w = calls;

	while (strcmp(w->name, name) != 0)
		w++;
	return w;
}

/* One command's call, and its answer printed. body is stolen. */
static int work_call(struct ctl *c, const struct ctl_args *a, json_t *body, unsigned long long ttl_ns)
{
	const struct work_call *which = find_call(a->command->name);
	char reason[64];
	struct ctl_wish w = {.kind = "staff", .agent = "*", .scopes = "lifecycle,rounds,admin", .reason = reason};
	const json_t *timeout = json_object_get(body, "timeoutSeconds");
	struct api_call call = {
	    .method = which->method, .path = which->path, .names = {a->noperands ? a->operands[0] : ""}, .body = body};
	json_t *o = NULL;
	struct err e = {0};
	int rc;

	snprintf(reason, sizeof(reason), "muxctl %s", which->name);
	/* A run ends before its grant does. */
	w.ttl_ns = ttl_ns;
	w.work_ns = (unsigned long long)json_integer_value(timeout) * 1000000000ull;
	rc = api_ask(c, &w, &call, &o, &e);
	return ctl_finish(c, rc, &e, o, which->list, which->columns);
}

/* Of a command that says no more than its operand. */
static int work_run(struct ctl *c, const struct ctl_args *a)
{
	return work_call(c, a, NULL, 0);
}

static int work_set_text(json_t *o, const char *key, const struct ctl_args *a, const char *option, struct err *e)
{
	if (!args_has(a, option))
		return err_set(e, ERR_INVAL, "--%s is missing", option);
	if (json_object_set_new(o, key, json_string(args_get(a, option))))
		return err_set(e, ERR_NOMEM, "no memory for the question");
	return 0;
}

static int set_seconds(json_t *o, const char *key, const struct ctl_args *a, const char *option, struct err *e)
{
	unsigned long long ns = 0;
	int rc = args_duration(a, option, &ns, e);

	if (!rc && args_has(a, option))
		json_object_set_new(o, key, json_integer((json_int_t)(ns / 1000000000ull)));
	return rc;
}

/* ---- lease */

static const struct ctl_option lease_create_options[] = {
    {"user", 0, "ID", "Who it is for; required."},
    {"workflow", 0, "NAME", "Workflow that will run in it, or NAME@VERSION; required."},
    {"request", 0, "ID", "The same again gives the same lease; required."},
    {"ttl", 0, "DURATION", "How long it lasts from now, and from each heartbeat; default by configuration."},
    {NULL, 0, NULL, NULL},
};

static int lease_create_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *o = json_object();
	struct err e = {0};

	if (work_set_text(o, "userId", a, "user", &e) || work_set_text(o, "workflowId", a, "workflow", &e) ||
	    work_set_text(o, "requestId", a, "request", &e) || set_seconds(o, "ttlSeconds", a, "ttl", &e)) {
		json_decref(o);
		return ctl_fail(c, &e);
	}
	return work_call(c, a, o, 0);
}

/* ---- run */

static const struct ctl_option run_start_options[] = {
    {"lease", 0, "ID", "In whose sandbox; required."},
    {"workflow", 0, "NAME", "As the lease has it; required."},
    {"run-id", 0, "ID", "The same again is the same run; required."},
    {"token-file", 0, "FILE", "What its programs find at MUXD_TOKEN_FD; - is standard input; required."},
    {"timeout", 0, "DURATION", "All of its steps together; default by workflow and configuration."},
    {"ttl", 0, "DURATION", "How long the grant behind it lasts; the run ends before it does."},
    {NULL, 0, NULL, NULL},
};

/* A token is read, never an argument: arguments are seen by everybody on the machine. */
static int set_token(json_t *o, const struct ctl_args *a, struct err *e)
{
	const char *path = args_get(a, "token-file");
	char *text = NULL;
	size_t len = 0;
	int rc;

	if (!args_has(a, "token-file"))
		return err_set(e, ERR_INVAL, "--token-file is missing");
	rc = slurp_operand(strcmp(path, "-") == 0 ? "/dev/stdin" : path, TOKEN_MAX, &text, &len, e);
	if (rc)
		return rc;
	while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	if (!utf8_valid((const uint8_t *)text, len)) /* JSON would have another one */
		rc = err_set(e, ERR_INVAL, "the token is not UTF-8");
	else if (json_object_set_new(o, "token", json_stringn(text, len)))
		rc = err_set(e, ERR_NOMEM, "no memory for the question");
	slurp_free(text, len);
	return rc;
}

static int run_start_run(struct ctl *c, const struct ctl_args *a)
{
	unsigned long long ttl = 0;
	json_t *o = json_object();
	struct err e = {0};

	if (work_set_text(o, "leaseId", a, "lease", &e) || work_set_text(o, "workflowId", a, "workflow", &e) ||
	    work_set_text(o, "runId", a, "run-id", &e) || set_seconds(o, "timeoutSeconds", a, "timeout", &e) ||
	    args_duration(a, "ttl", &ttl, &e) || set_token(o, a, &e)) {
		json_decref(o);
		return ctl_fail(c, &e);
	}
	return work_call(c, a, o, ttl);
}

/* ---- workflow */

static int workflow_put_run(struct ctl *c, const struct ctl_args *a)
{
	char *text = NULL;
	size_t len = 0;
	json_t *o = NULL;
	struct err e = {0};
	int rc = slurp_operand(a->operands[0], FILE_MAX, &text, &len, &e);

	if (!rc)
		rc = json_parse(text, len, FILE_MAX, &o, &e);
	slurp_free(text, len);
	return rc ? ctl_fail(c, &e) : work_call(c, a, o, 0);
}

const struct ctl_command work_commands[] = {
    {"lease create", "", 0, 0,
     "Lease a sandbox of the pool to one user; the same request again returns the same lease.", lease_create_options,
     .run = lease_create_run},
    {"lease list", "", 0, 0, "List leases, newest first.", .run = work_run},
    {"lease show", "LEASE", 1, 1, "Show one lease: its state, its sandbox, why it ended.", .run = work_run},
    {"lease heartbeat", "LEASE", 1, 1, "Renew the lease.", .run = work_run},
    {"lease release", "LEASE", 1, 1, "Release a lease; its sandbox is wiped, and its run fails.", .run = work_run},
    {"run start", "", 0, 0, "Run a stored workflow in a leased sandbox, with a token that is stored nowhere.",
     run_start_options, .run = run_start_run},
    {"run list", "", 0, 0, "List runs, newest first.", .run = work_run},
    {"run show", "RUN", 1, 1, "Show one run: its state, its steps and their rounds.", .run = work_run},
    {"workflow put", "FILE", 1, 1, "Store a version of a workflow from a JSON file.", .run = workflow_put_run,
     .any_bytes = true},
    {"workflow list", "", 0, 0, "List stored workflows and their newest versions.", .run = work_run},
    {"workflow show", "NAME[@VERSION]", 1, 1, "Show one stored workflow; with -o json, its definition.",
     .run = work_run},
    {"pool show", "", 0, 0, "Show how many sandboxes are ready, leased, starting and ending.", .run = work_run},
    {0},
};
