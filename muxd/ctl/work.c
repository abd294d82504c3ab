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

static const struct work_call {
	const char *name, *method, *path;
} calls[] = {
    {"lease create", "POST", "/sandboxes/leases"},
    {"lease list", "GET", "/sandboxes/leases"},
    {"lease show", "GET", "/sandboxes/leases/*"},
    {"lease heartbeat", "POST", "/sandboxes/leases/*/heartbeat"},
    {"lease release", "DELETE", "/sandboxes/leases/*"},
    {"run start", "POST", "/sandboxes/runs"},
    {"run list", "GET", "/sandboxes/runs"},
    {"run show", "GET", "/sandboxes/runs/*"},
    {"workflow put", "POST", "/sandboxes/workflows"},
    {"workflow list", "GET", "/sandboxes/workflows"},
    {"workflow show", "GET", "/sandboxes/workflows/*"},
    {"pool show", "GET", "/sandboxes/pool"},
};

static const struct work_call *find_call(const char *name)
{
	const struct work_call *w = calls;

	while (strcmp(w->name, name) != 0)
		w++;
	return w;
}

/* One command's call, and its object printed: as a table where list names one. body is stolen. */
static int call_for(struct ctl *c, const struct ctl_args *a, json_t *body, unsigned long long ttl_ns, const char *list,
		    const struct ctl_column *columns)
{
	const struct work_call *which = find_call(a->command->name);
	char reason[64];
	struct ctl_wish w = {.kind = "staff", .agent = "*", .scopes = "lifecycle,rounds,admin", .reason = reason};
	const json_t *timeout = json_object_get(body, "timeoutSeconds");
	struct api_call call = {
	    .method = which->method, .path = which->path, .names = {a->noperands ? a->operands[0] : ""}, .body = body};
	json_t *o = NULL;
	struct err e = {0};
	int rc, status;

	snprintf(reason, sizeof(reason), "muxctl %s", which->name);
	/* A run ends before its grant does. */
	w.ttl_ns = ttl_ns;
	w.work_ns = (unsigned long long)json_integer_value(timeout) * 1000000000ull;
	rc = api_ask(c, &w, &call, &o, &e);
	if (rc < 0)
		return ctl_fail(c, &e);
	status = c->json ? ctl_print_json(c, o)
		 : list  ? ctl_print_table(c, json_object_get(o, list), columns)
			 : ctl_print_object(c, o, columns);
	json_decref(o);
	return status;
}

static int call(struct ctl *c, const struct ctl_args *a, json_t *body, const char *list,
		const struct ctl_column *columns)
{
	return call_for(c, a, body, 0, list, columns);
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
	return call(c, a, o, NULL, lease_columns);
}

static int lease_list_run(struct ctl *c, const struct ctl_args *a)
{
	return call(c, a, NULL, "leases", lease_rows);
}

static int lease_show_run(struct ctl *c, const struct ctl_args *a)
{
	return call(c, a, NULL, NULL, lease_columns);
}

static int lease_heartbeat_run(struct ctl *c, const struct ctl_args *a)
{
	return call(c, a, NULL, NULL, lease_columns);
}

static int lease_release_run(struct ctl *c, const struct ctl_args *a)
{
	return call(c, a, NULL, NULL, lease_columns);
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
	rc = slurp_file(strcmp(path, "-") == 0 ? "/dev/stdin" : path, 0, TOKEN_MAX, &text, &len, e);
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
	return call_for(c, a, o, ttl, NULL, NULL);
}

static int run_list_run(struct ctl *c, const struct ctl_args *a)
{
	return call(c, a, NULL, "runs", run_rows);
}

static int run_show_run(struct ctl *c, const struct ctl_args *a)
{
	return call(c, a, NULL, NULL, run_columns);
}

/* ---- workflow, pool */

static int workflow_put_run(struct ctl *c, const struct ctl_args *a)
{
	char *text = NULL;
	size_t len = 0;
	json_t *o = NULL;
	struct err e = {0};
	int rc = slurp_file(a->operands[0], 0, FILE_MAX, &text, &len, &e);

	if (!rc)
		rc = json_parse(text, len, FILE_MAX, &o, &e);
	slurp_free(text, len);
	return rc ? ctl_fail(c, &e) : call(c, a, o, NULL, workflow_columns);
}

static int workflow_list_run(struct ctl *c, const struct ctl_args *a)
{
	return call(c, a, NULL, "workflows", workflow_rows);
}

static int workflow_show_run(struct ctl *c, const struct ctl_args *a)
{
	return call(c, a, NULL, NULL, workflow_columns);
}

static int pool_show_run(struct ctl *c, const struct ctl_args *a)
{
	return call(c, a, NULL, NULL, pool_columns);
}

const struct ctl_command lease_create_command = {
    .name = "lease create",
    .operands = "",
    .help = "Reserve a sandbox of the pool for one user; the same request again gives the same lease.",
    .options = lease_create_options,
    .run = lease_create_run,
};

const struct ctl_command lease_list_command = {
    .name = "lease list",
    .operands = "",
    .help = "Leases, newest first.",
    .run = lease_list_run,
};

const struct ctl_command lease_show_command = {
    .name = "lease show",
    .operands = "LEASE",
    .min = 1,
    .max = 1,
    .help = "One lease: its state, its sandbox, what ended it.",
    .run = lease_show_run,
};

const struct ctl_command lease_heartbeat_command = {
    .name = "lease heartbeat",
    .operands = "LEASE",
    .min = 1,
    .max = 1,
    .help = "Its time begins anew.",
    .run = lease_heartbeat_run,
};

const struct ctl_command lease_release_command = {
    .name = "lease release",
    .operands = "LEASE",
    .min = 1,
    .max = 1,
    .help = "End a lease; its sandbox is wiped, and its run fails.",
    .run = lease_release_run,
};

const struct ctl_command run_start_command = {
    .name = "run start",
    .operands = "",
    .help = "Run a stored workflow in the sandbox of a lease, with a token that nothing keeps.",
    .options = run_start_options,
    .run = run_start_run,
};

const struct ctl_command run_list_command = {
    .name = "run list",
    .operands = "",
    .help = "Runs, newest first.",
    .run = run_list_run,
};

const struct ctl_command run_show_command = {
    .name = "run show",
    .operands = "RUN",
    .min = 1,
    .max = 1,
    .help = "One run: its state, its steps and the rounds they were.",
    .run = run_show_run,
};

const struct ctl_command workflow_put_command = {
    .name = "workflow put",
    .operands = "FILE",
    .any_bytes = true,
    .min = 1,
    .max = 1,
    .help = "Store a version of a workflow, a JSON file.",
    .run = workflow_put_run,
};

const struct ctl_command workflow_list_command = {
    .name = "workflow list",
    .operands = "",
    .help = "Stored workflows and their newest versions.",
    .run = workflow_list_run,
};

const struct ctl_command workflow_show_command = {
    .name = "workflow show",
    .operands = "NAME[@VERSION]",
    .min = 1,
    .max = 1,
    .help = "One stored workflow; its definition with -o json.",
    .run = workflow_show_run,
};

const struct ctl_command pool_show_command = {
    .name = "pool show",
    .operands = "",
    .help = "How many sandboxes are ready, leased, on their way in and out.",
    .run = pool_show_run,
};
