#include "muxd/doors/https/route.h"
#include "base/text.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/runtime.h"
#include "muxd/doors/https/scraper.h"
#include "muxd/hub/broker/broker_shown.h"
#include "muxd/hub/core/hub.h"

#include <stdio.h>
#include <string.h>

static const struct route routes[] = {
    {HTTP_GET, "/", web_page, ROUTE_OPEN, BODY_NONE, "none", NULL, NULL},
    {HTTP_GET, "/sandboxes", web_page, ROUTE_OPEN, BODY_NONE, "none", NULL, NULL},
    {HTTP_GET, "/sessions", web_page, ROUTE_OPEN, BODY_NONE, "none", NULL, NULL},
    {HTTP_GET, "/sessions/{id}", web_page, ROUTE_OPEN, BODY_NONE, "none", NULL, NULL},
    {HTTP_GET, "/terminal/{agent}", web_page, ROUTE_OPEN, BODY_NONE, "none", NULL, NULL},
    {HTTP_GET, "/replay/{id}", web_page, ROUTE_OPEN, BODY_NONE, "none", NULL, NULL},
    {HTTP_GET, "/ui/{file}", web_file, ROUTE_OPEN, BODY_NONE, "none", NULL, NULL},
    {HTTP_GET, "/healthz", rest_healthz, ROUTE_OPEN, BODY_NONE, "none", NULL, NULL},
    {HTTP_GET, "/readyz", rest_readyz, ROUTE_OPEN, BODY_NONE, "none", NULL, NULL},
    {HTTP_GET, "/metrics", rest_metrics_show, ROUTE_METRICS, BODY_NONE, "observe or admin, or a scraper's token", NULL,
     NULL},
    {HTTP_POST, "/k8s/admission", rest_admission, ROUTE_OPEN, BODY_REQUIRED, "none", "timeout", NULL},
    {HTTP_GET, "/.well-known/oauth-protected-resource", rest_mcp_resource, ROUTE_OPEN, BODY_NONE, "none", "", NULL},
    {HTTP_GET, "/.well-known/oauth-protected-resource/mcp", rest_mcp_resource, ROUTE_OPEN, BODY_NONE, "none", "", NULL},
    {HTTP_GET, "/.well-known/oauth-protected-resource/mcp/{agent}/{server}", rest_mcp_resource, ROUTE_OPEN, BODY_NONE,
     "none", "", NULL},
    {HTTP_POST, "/mcp", rest_mcp_post, ROUTE_SHOWN, BODY_REQUIRED, "as each tool's call", "", NULL},
    {HTTP_GET, "/mcp", rest_mcp_get, ROUTE_SHOWN, BODY_NONE, "any", "", NULL},
    {HTTP_DELETE, "/mcp", rest_mcp_delete, ROUTE_SHOWN, BODY_NONE, "any", "", NULL},
    {HTTP_POST, "/mcp/{agent}/{server}", rest_mcp_through, ROUTE_SHOWN, BODY_REQUIRED, "rounds", "", NULL},
    {HTTP_GET, "/mcp/{agent}/{server}", rest_mcp_get, ROUTE_SHOWN, BODY_NONE, "any", "", NULL},
    {HTTP_DELETE, "/mcp/{agent}/{server}", rest_mcp_delete, ROUTE_SHOWN, BODY_NONE, "any", "", NULL},
    {HTTP_POST, "/v1/grants", rest_grant_create, ROUTE_CLUSTER, BODY_REQUIRED,
     "grant; none with a token of the cluster or of an outside issuer", "", NULL},
    {HTTP_GET, "/v1/grants", rest_grant_list, ROUTE_GRANT, BODY_NONE, "any; one's own, and those made from it",
     "before,limit", NULL},
    {HTTP_POST, "/v1/grants/renew", rest_grant_renew, ROUTE_GRANT, BODY_REQUIRED, "any; one's own", "", NULL},
    {HTTP_DELETE, "/v1/grants/{id}", rest_grant_revoke, ROUTE_GRANT, BODY_NONE,
     "any; one's own, and those made from it", "", NULL},
    {HTTP_GET, "/v1/agents", rest_agent_list, ROUTE_GRANT, BODY_NONE, "any; those of the grant are shown",
     "state,prefix,app_id,after,limit", NULL},
    /* Before what would take "snapshots" for a pod of that name. */
    {HTTP_DELETE, "/v1/agents/{agent}/snapshots/{id}", rest_snapshot_drop, ROUTE_GRANT, BODY_NONE, "lifecycle or admin",
     "reason", NULL},
    {HTTP_DELETE, "/v1/agents/{agent}/shells/{name}", rest_shell_end, ROUTE_GRANT, BODY_NONE, "rounds; one's own",
     "task_id", NULL},
    {HTTP_POST, "/v1/agents/{agent}/locks/{id}", rest_lock_renew, ROUTE_GRANT, BODY_OPTIONAL, "files; one's own", "",
     NULL},
    {HTTP_DELETE, "/v1/agents/{agent}/locks/{id}", rest_lock_release, ROUTE_GRANT, BODY_NONE, "files; one's own",
     "task_id", NULL},
    {HTTP_GET, "/v1/agents/{agent}/contexts/{id}", rest_context, ROUTE_GRANT, BODY_NONE, "rounds; one's own", "",
     "show"},
    {HTTP_DELETE, "/v1/agents/{agent}/contexts/{id}", rest_context, ROUTE_GRANT, BODY_NONE, "rounds; one's own",
     "task_id", "delete"},
    {HTTP_GET, "/v1/agents/{agent}/mcp/servers/{server}", rest_server, ROUTE_GRANT, BODY_NONE,
     "rounds, lifecycle or admin", "", "show"},
    {HTTP_POST, "/v1/agents/{agent}/mcp/servers/{server}/refresh", rest_server, ROUTE_GRANT, BODY_OPTIONAL, "rounds",
     "", "refresh"},
    {HTTP_POST, "/v1/agents/{agent}/mcp/servers/{server}/approve", rest_server, ROUTE_GRANT, BODY_REQUIRED,
     "lifecycle or admin", "", "approve"},
    {HTTP_GET, "/v1/agents/{agent}/services/{service}/log", rest_service_log, ROUTE_GRANT, BODY_NONE,
     "observe, lifecycle or admin", "bytes", NULL},
    {HTTP_POST, "/v1/agents/{agent}/services/{service}/restart", rest_service_restart, ROUTE_GRANT, BODY_OPTIONAL,
     "lifecycle or admin", "", NULL},
    {HTTP_GET, "/v1/agents/{agent}/services/{service}", rest_service_show, ROUTE_GRANT, BODY_NONE,
     "rounds, lifecycle or admin", "", NULL},
    {HTTP_GET, "/v1/agents/{agent}", rest_agent_show, ROUTE_GRANT, BODY_NONE, "any on the agent", "", NULL},
    {HTTP_DELETE, "/v1/agents/{agent}", rest_agent_destroy, ROUTE_GRANT, BODY_NONE, "lifecycle or admin", "reason,wipe",
     NULL},
    {HTTP_GET, "/v1/agents/{agent}/files", rest_file, ROUTE_GRANT, BODY_NONE, "files", "path,timeout_ms,task_id",
     "get"},
    {HTTP_PUT, "/v1/agents/{agent}/files", rest_file, ROUTE_GRANT, BODY_STREAM, "files",
     "path,timeout_ms,task_id,mode,parents", "put"},
    {HTTP_GET, "/v1/agents/{agent}/locks", rest_lock_list, ROUTE_GRANT, BODY_NONE, "files", "", NULL},
    {HTTP_POST, "/v1/agents/{agent}/locks", rest_lock_take, ROUTE_GRANT, BODY_REQUIRED, "files", "", NULL},
    {HTTP_GET, "/v1/agents/{agent}/fs/watch", rest_file, ROUTE_GRANT, BODY_NONE, "files",
     "path,timeout_ms,task_id,recursive", "watch"},
    {HTTP_GET, "/v1/agents/{agent}/fs/tree", rest_file, ROUTE_GRANT, BODY_NONE, "files",
     "path,timeout_ms,task_id,gitignore", "tree_get"},
    {HTTP_PUT, "/v1/agents/{agent}/fs/tree", rest_file, ROUTE_GRANT, BODY_STREAM, "files",
     "path,timeout_ms,task_id,overwrite,merge,parents", "tree_put"},
    {HTTP_POST, "/v1/agents/{agent}/fs/stat", rest_fs, ROUTE_GRANT, BODY_REQUIRED, "files", "", "stat"},
    {HTTP_POST, "/v1/agents/{agent}/fs/list", rest_fs, ROUTE_GRANT, BODY_REQUIRED, "files", "", "list"},
    {HTTP_POST, "/v1/agents/{agent}/fs/read", rest_fs, ROUTE_GRANT, BODY_REQUIRED, "files", "", "read"},
    {HTTP_POST, "/v1/agents/{agent}/fs/write", rest_fs, ROUTE_GRANT, BODY_REQUIRED, "files", "", "write"},
    {HTTP_POST, "/v1/agents/{agent}/fs/append", rest_fs, ROUTE_GRANT, BODY_REQUIRED, "files", "", "append"},
    {HTTP_POST, "/v1/agents/{agent}/fs/mkdir", rest_fs, ROUTE_GRANT, BODY_REQUIRED, "files", "", "mkdir"},
    {HTTP_POST, "/v1/agents/{agent}/fs/move", rest_fs, ROUTE_GRANT, BODY_REQUIRED, "files", "", "move"},
    {HTTP_POST, "/v1/agents/{agent}/fs/copy", rest_fs, ROUTE_GRANT, BODY_REQUIRED, "files", "", "copy"},
    {HTTP_POST, "/v1/agents/{agent}/fs/delete", rest_fs, ROUTE_GRANT, BODY_REQUIRED, "files", "", "delete"},
    {HTTP_POST, "/v1/agents/{agent}/fs/chmod", rest_fs, ROUTE_GRANT, BODY_REQUIRED, "files", "", "chmod"},
    {HTTP_POST, "/v1/agents/{agent}/fs/patch", rest_fs, ROUTE_GRANT, BODY_REQUIRED, "files", "", "patch"},
    {HTTP_POST, "/v1/agents/{agent}/fs/search", rest_fs, ROUTE_GRANT, BODY_REQUIRED, "files", "", "search"},
    {HTTP_POST, "/v1/agents/{agent}/fs/glob", rest_fs, ROUTE_GRANT, BODY_REQUIRED, "files", "", "glob"},
    {HTTP_POST, "/v1/agents/{agent}/resume", rest_life, ROUTE_GRANT, BODY_OPTIONAL, "terminal, rounds or lifecycle", "",
     "resume"},
    {HTTP_POST, "/v1/agents/{agent}/stop", rest_life, ROUTE_GRANT, BODY_REQUIRED, "lifecycle or admin", "", "stop"},
    {HTTP_POST, "/v1/agents/{agent}/terminate", rest_life, ROUTE_GRANT, BODY_REQUIRED, "lifecycle or admin", "",
     "terminate"},
    {HTTP_POST, "/v1/agents/{agent}/kill", rest_life, ROUTE_GRANT, BODY_REQUIRED, "drive, lifecycle or admin", "",
     "kill"},
    {HTTP_GET, "/v1/agents/{agent}/snapshots", rest_snapshot_list, ROUTE_GRANT, BODY_NONE, "any on the agent", "",
     NULL},
    {HTTP_POST, "/v1/agents/{agent}/snapshots", rest_life, ROUTE_GRANT, BODY_OPTIONAL, "lifecycle or admin", "",
     "snapshot"},
    {HTTP_POST, "/v1/agents/{agent}/restore", rest_life, ROUTE_GRANT, BODY_REQUIRED, "lifecycle or admin", "",
     "restore"},
    {HTTP_POST, "/v1/agents/{agent}/fork", rest_life, ROUTE_GRANT, BODY_OPTIONAL, "lifecycle or admin", "", "fork"},
    {HTTP_GET, "/v1/agents/{agent}/logs", rest_agent_logs, ROUTE_GRANT, BODY_NONE, "observe, lifecycle or admin",
     "bytes", NULL},
    {HTTP_POST, "/v1/agents/{agent}/rounds", rest_round_start, ROUTE_GRANT, BODY_REQUIRED, "rounds", "", NULL},
    {HTTP_GET, "/v1/agents/{agent}/shells", rest_shell_list, ROUTE_GRANT, BODY_NONE, "rounds; one's own", "", NULL},
    {HTTP_POST, "/v1/agents/{agent}/contexts", rest_context, ROUTE_GRANT, BODY_REQUIRED, "rounds; one's own", "",
     "create"},
    {HTTP_GET, "/v1/agents/{agent}/contexts", rest_context, ROUTE_GRANT, BODY_NONE, "rounds; one's own", "", "show"},
    {HTTP_POST, "/v1/agents/{agent}/contexts/{id}/executions", rest_context, ROUTE_GRANT, BODY_REQUIRED,
     "rounds; one's own", "", "execute"},
    {HTTP_POST, "/v1/agents/{agent}/contexts/{id}/interrupt", rest_context, ROUTE_GRANT, BODY_OPTIONAL,
     "rounds; one's own", "", "interrupt"},
    {HTTP_POST, "/v1/agents/{agent}/contexts/{id}/reset", rest_context, ROUTE_GRANT, BODY_OPTIONAL, "rounds; one's own",
     "", "reset"},
    {HTTP_GET, "/v1/agents/{agent}/services", rest_services_show, ROUTE_GRANT, BODY_NONE, "rounds, lifecycle or admin",
     "version", NULL},
    {HTTP_PUT, "/v1/agents/{agent}/services", rest_services_set, ROUTE_GRANT, BODY_REQUIRED, "lifecycle or admin",
     "if_version", NULL},
    {HTTP_GET, "/v1/agents/{agent}/filespace", rest_filespace_show, ROUTE_GRANT, BODY_NONE,
     "rounds, files, lifecycle or admin", "", NULL},
    {HTTP_POST, "/v1/agents/{agent}/filespace/sync", rest_filespace_sync, ROUTE_GRANT, BODY_REQUIRED,
     "files, lifecycle or admin", "", NULL},
    {HTTP_GET, "/v1/agents/{agent}/mcp/servers", rest_servers_show, ROUTE_GRANT, BODY_NONE,
     "rounds, lifecycle or admin", "version", NULL},
    {HTTP_PUT, "/v1/agents/{agent}/mcp/servers", rest_servers_set, ROUTE_GRANT, BODY_REQUIRED, "lifecycle or admin",
     "if_version", NULL},
    {HTTP_POST, "/v1/agents/{agent}/mcp/request", rest_mcp_request, ROUTE_GRANT, BODY_REQUIRED, "rounds", "", NULL},
    {HTTP_POST, "/v1/agents/{agent}/python", rest_context, ROUTE_GRANT, BODY_REQUIRED, "rounds", "", "python"},
    {HTTP_GET, "/v1/agents/{agent}/terminal", rest_websocket, ROUTE_OPEN, BODY_NONE, "terminal", NULL, NULL},
    {HTTP_GET, "/v1/agents/{agent}/exec", rest_websocket, ROUTE_OPEN, BODY_NONE, "rounds; terminal with a pty", NULL,
     NULL},
    {HTTP_GET, "/v1/agents/{agent}/moment", rest_agent_moment, ROUTE_GRANT, BODY_NONE, "any on the agent",
     "opened_at,snapshot_id", NULL},
    /* Before what would take "T/artifacts" for a task. */
    {HTTP_GET, "/v1/tasks/{task}/artifacts/{name}", rest_artifact_get, ROUTE_GRANT, BODY_NONE, "files; the task's own",
     "", NULL},
    {HTTP_PUT, "/v1/tasks/{task}/artifacts/{name}", rest_artifact_put, ROUTE_GRANT, BODY_STREAM,
     "files; the task's own", "sha256,media_type", NULL},
    {HTTP_DELETE, "/v1/tasks/{task}/artifacts/{name}", rest_artifact_delete, ROUTE_GRANT, BODY_NONE,
     "files; the task's own", "", NULL},
    {HTTP_GET, "/v1/tasks/{task}/artifacts", rest_artifact_list, ROUTE_GRANT, BODY_NONE, "files; the task's own",
     "run,round,after,limit", NULL},
    {HTTP_POST, "/v1/tasks/{task}/artifacts", rest_artifact_take, ROUTE_GRANT, BODY_REQUIRED,
     "files, on the agent too; of a round as its output", "", NULL},
    {HTTP_GET, "/v1/recordings", rest_recording_list, ROUTE_GRANT, BODY_NONE, "replay",
     "agent,principal,kind,state,before,limit", NULL},
    {HTTP_GET, "/v1/recordings/{id}", rest_recording_show, ROUTE_GRANT, BODY_NONE, "replay", NULL, NULL},
    {HTTP_GET, "/v1/recordings/{id}/events", rest_recording_events, ROUTE_GRANT, BODY_NONE, "replay",
     "from_ns,after_seq,limit", NULL},
    {HTTP_GET, "/v1/recordings/{id}/screen", rest_recording_screen, ROUTE_GRANT, BODY_NONE, "replay", "at_ns", NULL},
    {HTTP_GET, "/v1/retention", rest_retention_show, ROUTE_GRANT, BODY_NONE, "replay or admin", "", NULL},
    {HTTP_POST, "/v1/retention/apply", rest_keep, ROUTE_GRANT, BODY_REQUIRED, "admin on every agent", "",
     "retention.apply"},
    {HTTP_GET, "/v1/holds", rest_hold_list, ROUTE_GRANT, BODY_NONE, "replay or admin", "all", NULL},
    {HTTP_POST, "/v1/holds", rest_keep, ROUTE_GRANT, BODY_REQUIRED, "replay or admin on what is held", "", "hold.add"},
    {HTTP_DELETE, "/v1/holds/{id}", rest_hold_release, ROUTE_GRANT, BODY_NONE, "admin on every agent", "reason", NULL},
    {HTTP_GET, "/v1/audit", rest_audit_list, ROUTE_GRANT, BODY_NONE, "replay",
     "agent,principal,event,session,lease,run,client_request,after,limit", NULL},
    {HTTP_POST, "/v1/edge/leases", rest_edge_lease, ROUTE_GRANT, BODY_REQUIRED, "grant", "", NULL},
    {HTTP_GET, "/v1/edge/state", rest_edge_state, ROUTE_EDGE, BODY_NONE, "none: the call of an edge of edge.known", "",
     NULL},
    {HTTP_GET, "/v1/policy", rest_policy_show, ROUTE_GRANT, BODY_NONE, "replay or admin", "", NULL},
    {HTTP_GET, "/v1/head", rest_head_show, ROUTE_GRANT, BODY_NONE, "replay", NULL, NULL},
    {HTTP_POST, "/v1/witness/heads", rest_witness_keep, ROUTE_OPEN, BODY_REQUIRED, "none: the signature of a log's key",
     NULL, NULL},
    {HTTP_GET, "/v1/witness/heads", rest_witness_heads, ROUTE_OPEN, BODY_NONE, "none: who knows a log's id",
     "log_id,limit", NULL},
    {HTTP_GET, "/v1/rounds/{id}", rest_round_show, ROUTE_GRANT, BODY_NONE, "rounds (own), observe or replay",
     "wait_ms,yield_ms", NULL},
    {HTTP_GET, "/v1/executions/{id}", rest_execution, ROUTE_GRANT, BODY_NONE, "rounds (own), observe or replay",
     "yield_ms", NULL},
    {HTTP_GET, "/v1/rounds/{id}/output", rest_round_output, ROUTE_GRANT, BODY_NONE, "rounds (own), observe or replay",
     "stream,offset,limit,tail,lines,raw,follow,grep,regex,ignore_case", NULL},
    {HTTP_GET, "/v1/rounds/{id}/events", rest_round_events, ROUTE_GRANT, BODY_NONE, "rounds (own), observe or replay",
     "last_event_id", NULL},
    {HTTP_POST, "/v1/rounds/{id}/stdin", rest_round_stdin, ROUTE_GRANT, BODY_REQUIRED, "rounds (own) or drive", NULL,
     NULL},
    {HTTP_POST, "/v1/rounds/{id}/signal", rest_round_signal, ROUTE_GRANT, BODY_REQUIRED, "rounds (own) or drive", NULL,
     NULL},
    {HTTP_POST, "/v1/rounds/{id}/keys", rest_round_keys, ROUTE_GRANT, BODY_REQUIRED, "rounds (own) or drive", NULL,
     NULL},
    {HTTP_POST, "/v1/rounds/{id}/resize", rest_round_resize, ROUTE_GRANT, BODY_REQUIRED, "rounds (own) or drive", NULL,
     NULL},
    {HTTP_GET, "/v1/rounds/{id}/screen", rest_round_screen, ROUTE_GRANT, BODY_NONE, "rounds (own), observe or replay",
     "format,after,wait_ms", NULL},
    {HTTP_GET, "/v1/sessions", rest_session_list, ROUTE_GRANT, BODY_NONE, "observe, or one's own",
     "agent,state,kind,live,limit", NULL},
    {HTTP_GET, "/v1/sessions/{id}", rest_session_show, ROUTE_GRANT, BODY_NONE, "observe, or one's own", "", NULL},
    {HTTP_POST, "/v1/sessions/{id}/terminate", rest_session_terminate, ROUTE_GRANT, BODY_REQUIRED,
     "terminal or rounds (own), drive or admin", NULL, NULL},
    {HTTP_POST, "/v1/sessions/{id}/fork", rest_life, ROUTE_GRANT, BODY_OPTIONAL,
     "lifecycle or admin on its agent; replay, or one's own", "", "fork"},
    {HTTP_GET, "/v1/sessions/{id}/attach", rest_websocket, ROUTE_OPEN, BODY_NONE, "drive or observe", NULL, NULL},
    {HTTP_GET, "/v1/web/session", web_session_show, ROUTE_GRANT, BODY_NONE, "any", NULL, NULL},
    {HTTP_POST, "/v1/web/session", web_session_create, ROUTE_GRANT, BODY_OPTIONAL, "any", NULL, NULL},
    {HTTP_DELETE, "/v1/web/session", web_session_end, ROUTE_GRANT, BODY_NONE, "any", NULL, NULL},
    {HTTP_POST, "/sandboxes/leases", rest_work, ROUTE_GRANT, BODY_REQUIRED, "lifecycle on every agent", "",
     "lease.create"},
    {HTTP_GET, "/sandboxes/leases", rest_work, ROUTE_GRANT, BODY_NONE, "lifecycle; one's own", "state,limit",
     "lease.list"},
    {HTTP_GET, "/sandboxes/leases/{id}", rest_work, ROUTE_GRANT, BODY_NONE, "lifecycle; one's own", "", "lease.show"},
    {HTTP_DELETE, "/sandboxes/leases/{id}", rest_work, ROUTE_GRANT, BODY_NONE, "lifecycle; one's own", "",
     "lease.release"},
    {HTTP_POST, "/sandboxes/leases/{id}/heartbeat", rest_work, ROUTE_GRANT, BODY_OPTIONAL, "lifecycle; one's own", "",
     "lease.heartbeat"},
    {HTTP_POST, "/sandboxes/runs", rest_work, ROUTE_GRANT, BODY_REQUIRED, "lifecycle and rounds; one's own lease", "",
     "run.start"},
    {HTTP_GET, "/sandboxes/runs", rest_work, ROUTE_GRANT, BODY_NONE, "lifecycle; one's own", "leaseId,limit",
     "run.list"},
    {HTTP_GET, "/sandboxes/runs/{id}", rest_work, ROUTE_GRANT, BODY_NONE, "lifecycle; one's own", "leaseId",
     "run.show"},
    {HTTP_POST, "/sandboxes/workflows", rest_work, ROUTE_GRANT, BODY_REQUIRED, "lifecycle on every agent", "",
     "workflow.put"},
    {HTTP_GET, "/sandboxes/workflows", rest_work, ROUTE_GRANT, BODY_NONE, "lifecycle; one's own", "limit",
     "workflow.list"},
    {HTTP_GET, "/sandboxes/workflows/{id}", rest_work, ROUTE_GRANT, BODY_NONE, "lifecycle; one's own", "",
     "workflow.show"},
    {HTTP_GET, "/sandboxes/pool", rest_work, ROUTE_GRANT, BODY_NONE, "lifecycle on every agent", "", "pool.show"},
};

_Static_assert(sizeof(routes) / sizeof(routes[0]) < ROUTES_MAX, "raise ROUTES_MAX");

static int wants_heads(const struct conf *c, struct err *e)
{
	return c->npushers ? 0 : err_set(e, ERR_UNSUPPORTED, "this daemon keeps no heads: witness.pushers is empty");
}

static int wants_reviews(const struct conf *c, struct err *e)
{
	return *c->kubernetes_admission_user
		   ? 0
		   : err_set(e, ERR_UNSUPPORTED,
			     "this daemon is no admission webhook: kubernetes.admission_user is not set");
}

/* Tokens of a cluster, and of outside issuers: the body says which. */
static int wants_outside(const struct conf *c, struct err *e)
{
	return c->kubernetes_staff || c->nissuers
		   ? 0
		   : err_set(e, ERR_UNSUPPORTED, "tokens of a cluster open no grants here: kubernetes.staff");
}

/* route_authorize() has looked. */
static int wants_shown(const struct conf *c, struct err *e)
{
	(void)c, (void)e;
	return 0;
}

static const struct route_open opens[] = {
    {rest_witness_keep, 512u << 10, wants_heads}, /* a batch of entries: the recorder takes no more */
    {rest_admission, 4u << 20, wants_reviews},    /* two objects, of which etcd takes 1.5 MiB each */
    {rest_grant_create, 32u << 10, wants_outside},
    {rest_mcp_post, 256u << 10, wants_shown}, /* until its token is known: clients begin with a short message */
    {rest_mcp_through, 256u << 10, wants_shown},
};

const struct route_open *route_open_find(const struct route *r)
{
	for (size_t i = 0; i < sizeof(opens) / sizeof(opens[0]); i++)
		if (opens[i].handle == r->handle)
			return &opens[i];
	return NULL;
}

int route_body_max(const struct http_exchange *x, size_t *out, struct err *e)
{
	const struct conf *c = hub_conf(x->hub);
	const struct route_open *open = x->authenticated ? NULL : route_open_find(x->route);

	*out = c->api_max_body;
	if (x->authenticated || x->route->body == BODY_NONE)
		return 0;
	*out = open && open->body_max < c->api_max_body ? open->body_max : open ? c->api_max_body : 0;
	return open ? open->wanted(c, e) : 0;
}

const char *route_body_hint(const struct http_exchange *x)
{
	return x->route->auth == ROUTE_SHOWN && !x->authenticated ? ROUTE_FIRST_SMALL : "";
}

const struct route *route_table(size_t *out_n)
{
	*out_n = sizeof(routes) / sizeof(routes[0]);
	return routes;
}

#define AGENT_PARAM    "{agent}"
#define AGENT_SEGMENTS 3 /* namespace/pod/container */
#define TASK_PARAM     "{task}"
#define TASK_SEGMENTS  8 /* a task's id may have slashes */

/* What stands behind an agent in some pattern: at the end of a path it is meant, and not a pod of that name. */
static bool is_operation(const char *word, size_t len)
{
	static const char under[] = "/v1/agents/" AGENT_PARAM "/";

	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		const char *p = routes[i].pattern;

		if (strncmp(p, under, sizeof(under) - 1) == 0 && strlen(p + sizeof(under) - 1) == len &&
		    memcmp(p + sizeof(under) - 1, word, len) == 0)
			return true;
	}
	return false;
}

/* The length of the first n segments of path; 0 when there are not as many, or one is empty. */
static size_t segments(const char *path, unsigned n)
{
	const char *p = path;

	for (unsigned i = 0; i < n; i++) {
		size_t len;

		if (i && *p++ != '/')
			return 0;
		len = strcspn(p, "/");
		if (len == 0)
			return 0;
		p += len;
	}
	return (size_t)(p - path);
}

static bool take_param(struct http_exchange *x, size_t n, const char *path, size_t len)
{
	if (len == 0 || n >= HTTP_PARAMS_MAX || len >= sizeof(x->params[0]))
		return false;
	memcpy(x->params[n], path, len);
	x->params[n][len] = '\0';
	return true;
}

static bool ends_with_operation(const char *path, size_t len)
{
	for (size_t at = len; at; at--)
		if (path[at - 1] == '/' && is_operation(path + at, len - at))
			return true;
	return false;
}

/* The n-th parameter begins; the fewest segments that fit are its. */
static bool matches_from(struct http_exchange *x, const char *pattern, const char *path, size_t n)
{
	while (*pattern && *pattern != '{')
		if (*pattern++ != *path++)
			return false;
	if (!*pattern)
		return *path == '\0';
	bool agent = strncmp(pattern, AGENT_PARAM, sizeof(AGENT_PARAM) - 1) == 0;
	const char *after = strchr(pattern, '}') + 1;
	bool task = strncmp(pattern, TASK_PARAM, sizeof(TASK_PARAM) - 1) == 0;
	for (unsigned k = 1; k <= (agent ? AGENT_SEGMENTS : task ? TASK_SEGMENTS : 1); k++) {
		size_t len = segments(path, k);

		if (len == 0 || (k > 1 && !*after && ends_with_operation(path, len)))
			return false;
		if (take_param(x, n, path, len) && matches_from(x, after, path + len, n + 1))
			return true;
	}
	return false;
}

static bool pattern_matches(struct http_exchange *x, const char *pattern)
{
	return matches_from(x, pattern, x->path, 0);
}

static void allow_add(struct http_exchange *x, enum http_method m)
{
	size_t len = strlen(x->allow);

	text_format(x->allow + len, sizeof(x->allow) - len, "%s%s", len ? ", " : "",
		    m == HTTP_GET ? "GET, HEAD" : http_method_name(m));
}

int route_find(struct http_exchange *x, struct err *e)
{
	enum http_method want = x->method == HTTP_HEAD ? HTTP_GET : x->method;

	if (x->dialect)
		return runtime_route(x, e);
	x->route = NULL;
	x->allow[0] = '\0';
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		if (!pattern_matches(x, routes[i].pattern))
			continue;
		if (routes[i].method == want) {
			x->route = &routes[i];
			x->allow[0] = '\0';
			return 0;
		}
		allow_add(x, routes[i].method);
	}
	if (x->allow[0])
		return err_set(e, ERR_INVAL, "%s is not possible here; allowed: %s", http_method_name(x->method),
			       x->allow);
	return err_set(e, ERR_NOT_FOUND, "no such path in this API: see docs/api.md");
}

/* The parameters of the path: an agent's name, a UUID. Those below /sandboxes are control's own. */
static int check_params(struct http_exchange *x, struct err *e)
{
	const char *pattern = x->route->pattern, *agent = strstr(pattern, AGENT_PARAM), *id = strstr(pattern, "{id}");
	bool ours = strncmp(pattern, "/v1/", 4) == 0 || strncmp(pattern, "/mcp/", 5) == 0;
	int rc = ours && agent ? target_name_check(x->params[0], e) : 0;

	if (rc == 0 && id && strncmp(pattern, "/v1/", 4) == 0 && id_parse(x->params[agent ? 1 : 0], &x->object))
		rc = err_set(e, ERR_INVAL, "the id in the path is not a UUID");
	return rc;
}

/* A call that opens something by a stream or a WebSocket finds the whole name itself (broker_open()); no other does. */
static bool is_about_agent(const struct http_exchange *x)
{
	static const char agents[] = "/v1/agents/" AGENT_PARAM;

	return strncmp(x->route->pattern, agents, sizeof(agents) - 1) == 0 && x->authenticated &&
	       x->route->body != BODY_STREAM;
}

static void route_on_named(void *arg, int rc, const struct err *e, const char *name)
{
	struct http_exchange *x = arg;

	if (rc) {
		http_reply_error(x, rc, e);
		return;
	}
	if (name != x->params[0])
		text_put(x->params[0], sizeof(x->params[0]), name);
	x->route->handle(x);
}

void route_enter(struct http_exchange *x)
{
	const char *query = x->route->query;
	struct err e = {0};
	int rc = x->route->handle == rest_websocket ? 0 : check_params(x, &e);

	if (rc == 0 && query)
		rc = http_query_only(x, query, &e);
	if (rc)
		http_reply_error(x, rc, &e);
	else if (is_about_agent(x) && target_is_pod(x->params[0]))
		broker_whole_name(x->hub, &x->rq, x->params[0], route_on_named, x);
	else
		x->route->handle(x);
}

const struct http_api route_api = {route_find, route_enter};

static bool peer_is_loopback(const char *peer)
{
	return strncmp(peer, "127.", 4) == 0 || strncmp(peer, "[::1]", 5) == 0 ||
	       strncmp(peer, "[::ffff:127.", 12) == 0;
}

static bool metrics_open(const struct http_exchange *x, const char *token)
{
	const struct conf *c = hub_conf(x->hub);

	return (c->metrics_open_on_loopback && peer_is_loopback(x->peer)) ||
	       (token && scraper_knows(c->metrics_token_file, token));
}

int route_authenticate(struct http_exchange *x, const char *token, size_t len, struct err *e)
{
	struct origin from = http_origin(x, "rest");
	int rc;

	if (!token)
		err_set(e, ERR_UNAUTHENTICATED, "send a grant: Authorization: Bearer TOKEN");
	rc = x->marked ? broker_authenticate_held(x->hub, token, len, &from, &x->rq, e)
		       : broker_authenticate(x->hub, token, len, &from, &x->rq, e);
	if (rc)
		return rc;
	x->rq.id = x->id;
	x->authenticated = true;
	return 0;
}

/* None may be sent: its handler says so. */
static int take_call(struct http_exchange *x, const char *token, struct err *e)
{
	x->token = token ? strdup(token) : NULL;
	return token && !x->token ? err_set(e, ERR_NOMEM, "out of memory") : 0;
}

static int take_token(struct http_exchange *x, const char *token, struct err *e)
{
	/* RFC 6750, 2.1 */
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";

	if (!token)
		return err_set(e, ERR_UNAUTHENTICATED,
			       "send a token of the cluster or of an issuer: Authorization: Bearer TOKEN");
	if (!*token || strspn(token, allowed) != strlen(token))
		return err_set(e, ERR_TOKEN_MALFORMED, "that is no bearer token");
	x->token = strdup(token);
	return x->token ? 0 : err_set(e, ERR_NOMEM, "out of memory");
}

static int take_outside(struct http_exchange *x, const char *token, struct err *e)
{
	struct origin from = http_origin(x, "rest");
	int rc = take_token(x, token, e);

	if (rc)
		broker_refuse(x->hub, NULL, 0, &from, token ? "token" : "no token", e);
	return rc;
}

/* No grant, and there are issuers whose tokens open the door as they are: by HTTPS, under a name of the daemon's. */
static bool is_shown(const struct http_exchange *x, const char *token)
{
	return token && !x->local && x->own_url[0] && !grant_is_token(token, strlen(token)) &&
	       conf_issuer_shown(hub_conf(x->hub), NULL);
}

int route_authorize(struct http_exchange *x, const char *token, struct err *e)
{
	int rc;

	if (x->route->auth == ROUTE_EDGE)
		return take_call(x, token, e);
	if (x->route->auth == ROUTE_SHOWN && is_shown(x, token)) {
		const char *held = broker_shown_find(x->hub, token);

		return held ? route_authenticate(x, held, strlen(held), e) : take_outside(x, token, e);
	}
	if (x->route->auth == ROUTE_CLUSTER && !(token && grant_is_token(token, strlen(token))))
		return take_outside(x, token, e);
	if (x->route->auth == ROUTE_OPEN || (x->route->auth == ROUTE_METRICS && metrics_open(x, token)))
		return 0;
	rc = route_authenticate(x, token, token ? strlen(token) : 0, e);
	if (rc == 0 && x->route->auth == ROUTE_METRICS && !(x->rq.grant.scopes & (SCOPE_OBSERVE | SCOPE_ADMIN)))
		rc = broker_verdict(x->hub, &x->rq, "metrics",
				    (err_set(e, ERR_FORBIDDEN, "the grant lacks scope observe or admin"), e));
	return rc;
}
