/*
 * muxctl sandbox: listed, shown, made, led through their lives, ended. Asked of the hub, which knows every backend. One
 * table of what each command of a life sends.
 */
#include "base/clock.h"
#include "base/ids.h"
#include "base/resources.h"
#include "base/slurp.h"
#include "base/text.h"
#include "base/visible.h"
#include "base/yamldoc.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/nouns.h"
#include "policy/grant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_LINE_MAX      (64 * 1024)
#define TEMPLATE_MAX      (64 * 1024) /* bytes of a file; the daemon's own bound is over the JSON of it */
#define TEMPLATE_NODES    10000
#define PAGE              500
#define REASON            "reason", 0, "TEXT", "Why; required."
#define REASON_OR_COMMAND "reason", 0, "TEXT", "Reason in the grant and the record (default: the command)."
#define TIMEOUT           "timeout", 0, "DURATION", "How long to wait for it; it goes on all the same."
#define CHECK(when)       "check", 0, NULL, "Compare the snapshot with the record's log first" when
#define ACCEPT            "accept-differs", 0, NULL, "Go on where it is not what the log says."
#define OWN_TEMPLATE      "pod-template", 0, "FILE", "Pod template of the agent's own from now on, YAML or JSON."
#define OWN_IMAGE         "image", 0, "NAME", "Image from its next start on, of sandbox.images."
#define BEGINS_WITH                                                                                                    \
	"workspace", 0, "WHAT", "A new one begins with it: snapshot:ID, artifact:TASK/NAME, bundle:TASK/NAME#REF."
#define NO_IMAGE     "no-image", 0, NULL, "Take its image away: the configured one, or the host's programs."
#define CPU          "cpu", 0, "QUANTITY", "Processors that it asks for from its next start on, as 500m or 2."
#define MEMORY       "memory", 0, "QUANTITY", "Memory that it asks for, as 512Mi; more than is configured is clipped."
#define PIDS         "pids", 0, "N", "Processes of its programs; what of the three is not given is the configured limit."
#define NO_RESOURCES "no-resources", 0, NULL, "Ask for the configured limits again."
#define APP_ID       "app-id", 0, "NAME", "App that it belongs to from now on; a pod has it from its next start on."
#define NO_APP_ID    "no-app-id", 0, NULL, "It belongs to none."
#define CLUSTER      "cluster", 0, "NAME", "Cluster where it is to be; one that is not served is refused."
#define NAMESPACE    "namespace", 0, "NAME", "The same of a namespace."
#define NO_TEMPLATE  "no-pod-template", 0, NULL, "Take the agent's own pod template away."

static const struct ctl_option resume_options[] = {
    {"idle-ttl", 0, "DURATION", "Stop it after so long without activity; 0s: never."},
    {"ttl", 0, "DURATION", "End it so long from now, whatever happens in it; 0s: no end."},
    {"workdir", 0, "PATH", "Where its programs begin from now on, where a call names no directory."},
    {"env", 'e', "K=V", "Of its programs from now on; may be given many times."},
    {"label", 0, "K=V", "Keep with it, and show; may be given many times."},
    {"exec-timeout", 0, "DURATION", "Of its rounds that name none, from now on; 0s: as configured."},
    {"transfer-timeout", 0, "DURATION", "The same of transfers of files."},
    {APP_ID},
    {NO_APP_ID},
    {CLUSTER},
    {NAMESPACE},
    {OWN_TEMPLATE},
    {NO_TEMPLATE},
    {OWN_IMAGE},
    {BEGINS_WITH},
    {NO_IMAGE},
    {CPU},
    {MEMORY},
    {PIDS},
    {NO_RESOURCES},
    {REASON_OR_COMMAND},
    {TIMEOUT},
    {NULL, 0, NULL, NULL},
};
static const struct ctl_option kill_options[] = {{REASON}, {TIMEOUT}, {NULL, 0, NULL, NULL}};
static const struct ctl_option stop_options[] = {{REASON_OR_COMMAND}, {TIMEOUT}, {NULL, 0, NULL, NULL}};
static const struct ctl_option terminate_options[] = {
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: the command); required with --how wipe."},
    {"how", 0, "HOW", "snapshot, keep (the workspace stays), or wipe (all of it goes); default: by the reason."},
    {TIMEOUT},
    {NULL, 0, NULL, NULL},
};
static const struct ctl_option restore_options[] = {{REASON}, {CHECK(".")}, {ACCEPT}, {TIMEOUT}, {NULL, 0, NULL, NULL}};
static const struct ctl_option drop_options[] = {{REASON}, {NULL, 0, NULL, NULL}};
static const struct ctl_option fork_options[] = {
    {"from-session", 0, "ID", "The workspace as it was in that session; no AGENT then."},
    {"snapshot", 0, "ID", "The workspace of that snapshot of AGENT."},
    {"at", 0, "MOMENT", "When: a time (2026-11-21T08:01:40Z), or with --from-session so long after its beginning."},
    {"as", 0, "NAME", "Name of the new agent (default: made from the first one's)."},
    {"writable", 'w', NULL, "Programs inside may write; else the copy is read-only."},
    {CHECK(" (read-only copies, and those of a session, always are).")},
    {"no-check", 0, NULL, "Do not."},
    {ACCEPT},
    {"idle-ttl", 0, "DURATION", "As of resume."},
    {"ttl", 0, "DURATION", "As of resume."},
    {OWN_TEMPLATE},
    {NO_TEMPLATE},
    {OWN_IMAGE},
    {NO_IMAGE},
    {CPU},
    {MEMORY},
    {PIDS},
    {NO_RESOURCES},
    {REASON_OR_COMMAND},
    {TIMEOUT},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_column snapshot_columns[] = {
    {"id", "SNAPSHOT"},        {"status", "STATUS"},
    {"current", "CURRENT"},    {"how", "HOW"},
    {"size", "SIZE"},          {"digest_state", "DIGEST"},
    {"created_at", "CREATED"}, {"cause", "CAUSE"},
    {"detail", "DETAIL"},      {NULL, NULL},
};

static const struct ctl_option destroy_options[] = {
    {REASON},
    {"wipe", 0, NULL, "Remove its workspace too: what is in it is lost."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option list_options[] = {
    {"in", 0, "STATE",
     "Only those in this state: running, idle_stopping, stopped, error, starting, stopping or destroying."},
    {"prefix", 0, "TEXT", "Only names that begin so."},
    {"app-id", 0, "NAME", "Only those of that app."},
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
    {"app_id", "APP"},
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
    {"reference", "reference"},
    {"namespace", "namespace"},
    {"pod", "pod"},
    {"image", "image"},
    {"image_made_with", "made with"},
    {"image_digest", "digest"},
    {"resources", "asks for"},
    {"resources_clipped", "clipped"},
    {"resources_made_with", "has"},
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

static json_t *list_query(const struct ctl_args *a, const char *after, long long limit)
{
	char most[24];

	snprintf(most, sizeof(most), "%lld", limit < PAGE ? limit : PAGE);
	return json_pack("{s:s,s:s*,s:s*,s:s*,s:s*}", "limit", most, "state", args_get(a, "in"), "prefix",
			 args_get(a, "prefix"), "app_id", args_get(a, "app-id"), "after", after);
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

/* {cpu: "500m", pids: 64} as words; what is null is left out. */
static void members_words(json_t *agent, const char *name)
{
	json_t *value, *list = json_array();
	const char *key;

	json_object_foreach(json_object_get(agent, name), key, value)
	{
		char words[AGENT_NAME_MAX + 24], number[24];

		if (json_is_null(value))
			continue;
		snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		text_format(words, sizeof(words), "%s %s", key,
			    json_is_string(value) ? json_string_value(value) : number);
		json_array_append_new(list, json_string(words));
	}
	if (json_array_size(list))
		json_object_set(agent, name, list);
	json_decref(list);
}

static int sandbox_print(struct ctl *c, json_t *o)
{
	if (!c->json && json_is_object(json_object_get(o, "enforced")))
		enforced_words(o);
	if (!c->json) {
		members_words(o, "resources");
		members_words(o, "resources_made_with");
		members_words(o, "reference");
	}
	return c->json ? ctl_print_json(c, o) : ctl_print_object(c, o, show_columns);
}

/* The reason of an interactive command whose caller gives none. */
static void default_reason(const struct ctl_args *a, char *out, size_t size)
{
	snprintf(out, size, "muxctl %s", a->command->name);
}

/* One agent's rows. query: stolen; NULL: none. */
static int agent_get(struct ctl *c, const struct ctl_args *a, const char *scopes, const char *path, json_t *query,
		     json_t **out, struct err *e)
{
	const char *agent = a->operands[0];
	char reason[80];
	struct ctl_wish w = {.kind = "staff", .agent = agent, .scopes = scopes, .reason = reason};
	int rc = target_name_check(agent, e);

	default_reason(a, reason, sizeof(reason));
	if (rc == 0)
		return api_ask(
		    c, &w, &(struct api_call){.method = "GET", .path = path, .names = {agent}, .query = query}, out, e);
	json_decref(query);
	return rc;
}

static int sandbox_show_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *o = NULL;
	struct err e = {0};

	if (agent_get(c, a, "lifecycle", "/v1/agents/*", NULL, &o, &e) < 0)
		return ctl_fail(c, &e);
	int status = sandbox_print(c, o);
	json_decref(o);
	return status;
}

/* ---- what a command sends */

static int put_text(json_t *q, const struct ctl_args *a, const char *option, const char *key, struct err *e)
{
	const char *value = args_get(a, option);

	if (value && json_object_set_new(q, key, json_string(value)) < 0)
		return err_set(e, ERR_NOMEM, "no memory for the question");
	return 0;
}

static int put_duration(json_t *q, const struct ctl_args *a, const char *option, const char *key, struct err *e)
{
	unsigned long long ns;
	int rc = args_duration(a, option, &ns, e);

	return rc ? rc : put_text(q, a, option, key, e);
}

static int put_timeout(json_t *q, const struct ctl_args *a, struct err *e)
{
	unsigned long long ns = 0;
	int rc = args_duration(a, "timeout", &ns, e);

	if (rc || !args_has(a, "timeout"))
		return rc;
	if (ns < NS_PER_MS)
		return err_set(e, ERR_INVAL, "--timeout is less than a millisecond");
	return json_object_set_new(q, "timeout_ms", json_integer((json_int_t)(ns / NS_PER_MS)));
}

/* One of the agent's own, which 0s takes away. */
static int put_own_timeout(json_t *q, const struct ctl_args *a, const char *option, const char *key, struct err *e)
{
	unsigned long long ns = 0;
	int rc = args_duration(a, option, &ns, e);

	if (rc || !args_has(a, option))
		return rc;
	if (ns && ns < NS_PER_MS)
		return err_set(e, ERR_INVAL, "--%s is less than a millisecond; 0s takes it away", option);
	return json_object_set_new(q, key, ns ? json_integer((json_int_t)(ns / NS_PER_MS)) : json_null());
}

static int put_id(json_t *q, const char *what, const char *text, const char *key, struct err *e)
{
	struct id id;

	if (id_parse(text, &id))
		return err_set(e, ERR_INVAL, "\"%.60s\" is not the id of a %s", text, what);
	return json_object_set_new(q, key, json_string(text)) ? ERR_NOMEM : 0;
}

/* --at: a time of the clock, or how far into the session. */
static int put_moment(json_t *q, const struct ctl_args *a, struct err *e)
{
	unsigned long long ns = 0;
	int64_t wall;
	int rc;

	if (!args_has(a, "at"))
		return 0;
	if (args_has(a, "from-session")) {
		rc = args_duration(a, "at", &ns, e);
		return rc ? rc : json_object_set_new(q, "at_ms", json_integer((json_int_t)(ns / NS_PER_MS)));
	}
	if (clock_parse_utc(args_get(a, "at"), &wall))
		return err_set(e, ERR_INVAL, "--at is \"%.40s\", not a time as 2026-11-21T08:01:40Z",
			       args_get(a, "at"));
	return put_text(q, a, "at", "at", e);
}

static int put_fork(json_t *q, const struct ctl_args *a, struct err *e)
{
	const char *session = args_get(a, "from-session"), *as = args_get(a, "as");
	struct id id;
	int rc = 0;

	if (!session == !a->noperands)
		return err_set(e, ERR_INVAL, "name an AGENT or --from-session, one of the two");
	if (args_has(a, "snapshot") && args_has(a, "at"))
		return err_set(e, ERR_INVAL, "--snapshot is a moment already: no --at with it");
	if (as)
		rc = agent_name_check(as, e);
	if (!rc && session && id_parse(session, &id))
		rc = err_set(e, ERR_INVAL, "\"%.60s\" is not the id of a session", session);
	if (!rc && args_has(a, "snapshot"))
		rc = put_id(q, "snapshot", args_get(a, "snapshot"), "snapshot_id", e);
	if (!rc && args_has(a, "writable"))
		json_object_set_new(q, "writable", json_true());
	if (!rc)
		rc = put_text(q, a, "as", "as", e);
	return rc ? rc : put_moment(q, a, e);
}

static bool is(const struct ctl_args *a, const char *verb)
{
	const char *space = strchr(a->command->name, ' ');

	return strcmp(space ? space + 1 : a->command->name, verb) == 0;
}

static int read_template(const char *path, json_t **out, struct err *e)
{
	struct yamldoc *doc = NULL;
	char *text = NULL;
	size_t len = 0;
	int rc = slurp_operand(path, TEMPLATE_MAX, &text, &len, e);

	if (!rc)
		rc = yamldoc_parse(text, len, path, &doc, e);
	if (!rc)
		rc = yamldoc_json(doc, TEMPLATE_NODES, out, e);
	yamldoc_destroy(doc);
	slurp_free(text, len);
	return rc;
}

/* An empty file says nothing, which is not the same as to take a template away. */
/* Pairs of an option that may be given many times, where it was. */
static int put_pairs(json_t *q, const struct ctl_args *a, const char *option, const char *key, struct err *e)
{
	json_t *o = json_object();
	int rc = args_pairs(a, option, o, e);

	if (!rc && json_object_size(o) && json_object_set(q, key, o))
		rc = err_set(e, ERR_NOMEM, "no memory for the question");
	json_decref(o);
	return rc;
}

static int put_template(json_t *q, const struct ctl_args *a, struct err *e)
{
	const char *path = args_get(a, "pod-template");
	json_t *t = NULL;
	int rc = 0;

	if (path && args_has(a, "no-pod-template"))
		return err_set(e, ERR_INVAL, "--pod-template or --no-pod-template, one of the two");
	if (path && (rc = read_template(path, &t, e)))
		return rc;
	if (path && !json_is_object(t))
		rc = err_set(e, ERR_INVAL, "%s is no mapping: a pod template has metadata and spec", path);
	else if ((path || args_has(a, "no-pod-template")) && json_object_set(q, "pod_template", path ? t : json_null()))
		rc = err_set(e, ERR_NOMEM, "no memory for the question");
	json_decref(t);
	return rc;
}

static int put_image(json_t *q, const struct ctl_args *a, struct err *e)
{
	const char *name = args_get(a, "image");

	if (name && args_has(a, "no-image"))
		return err_set(e, ERR_INVAL, "--image or --no-image, one of the two");
	if ((name || args_has(a, "no-image")) &&
	    json_object_set_new(q, "image", name ? json_string(name) : json_null()))
		return err_set(e, ERR_NOMEM, "no memory for the question");
	return 0;
}

static int put_app(json_t *q, const struct ctl_args *a, struct err *e)
{
	const char *app = args_get(a, "app-id");

	if (app && args_has(a, "no-app-id"))
		return err_set(e, ERR_INVAL, "--app-id or --no-app-id, one of the two");
	if (args_has(a, "no-app-id") && json_object_set_new(q, "app_id", json_null()))
		return err_set(e, ERR_NOMEM, "no memory for the question");
	return put_text(q, a, "app-id", "app_id", e);
}

/* All three together, as the API has them. */
static int put_resources(json_t *q, const struct ctl_args *a, struct err *e)
{
	const char *cpu = args_get(a, "cpu"), *memory = args_get(a, "memory");
	bool none = args_has(a, "no-resources");
	long long pids = 0;
	json_t *o;
	int rc = args_has(a, "pids") ? args_number(a, "pids", RESOURCES_PIDS_MIN, RESOURCES_PIDS_MAX, &pids, e) : 0;

	if (rc || !(none || cpu || memory || pids))
		return rc;
	if (none && (cpu || memory || pids))
		return err_set(e, ERR_INVAL, "--no-resources, or --cpu, --memory and --pids");
	o = none ? json_null() : json_pack("{s:s*,s:s*}", "cpu", cpu, "memory", memory);
	if (pids)
		json_object_set_new(o, "pids", json_integer((json_int_t)pids));
	return json_object_set_new(q, "resources", o) ? err_set(e, ERR_NOMEM, "no memory for the question") : 0;
}

static bool makes(const struct ctl_args *a)
{
	return is(a, "resume") || is(a, "create");
}

static int put_all(json_t *q, const struct ctl_args *a, struct err *e)
{
	const char *how = args_get(a, "how");
	int rc = a->noperands ? target_name_check(a->operands[0], e) : 0;

	if (!rc && how && strcmp(how, "snapshot") != 0 && strcmp(how, "keep") != 0 && strcmp(how, "wipe") != 0)
		rc = err_set(e, ERR_INVAL, "--how is \"%.40s\", not snapshot, keep or wipe", how);
	if (!rc && a->noperands > 1)
		rc = put_id(q, "snapshot", a->operands[1], "snapshot_id", e);
	if (!rc && is(a, "fork"))
		rc = put_fork(q, a, e);
	if (!rc && args_has(a, "check") && args_has(a, "no-check"))
		rc = err_set(e, ERR_INVAL, "--check or --no-check, one of the two");
	if (!rc && (args_has(a, "check") || args_has(a, "no-check")))
		json_object_set_new(q, "check", json_boolean(args_has(a, "check")));
	if (!rc && args_has(a, "accept-differs"))
		json_object_set_new(q, "accept_differs", json_true());
	if (!rc)
		rc = put_text(q, a, "how", "how", e);
	if (!rc && !makes(a))
		rc = put_text(q, a, "reason", "reason", e);
	if (!rc)
		rc = put_duration(q, a, "idle-ttl", "idle_ttl", e);
	if (!rc)
		rc = put_duration(q, a, "ttl", "ttl", e);
	if (!rc)
		rc = put_template(q, a, e);
	if (!rc)
		rc = put_image(q, a, e);
	if (!rc)
		rc = put_resources(q, a, e);
	if (!rc)
		rc = put_text(q, a, "workspace", "workspace", e);
	if (!rc)
		rc = put_text(q, a, "workdir", "workdir", e);
	if (!rc)
		rc = put_pairs(q, a, "env", "env", e);
	if (!rc)
		rc = put_pairs(q, a, "label", "labels", e);
	if (!rc)
		rc = put_own_timeout(q, a, "exec-timeout", "exec_timeout_ms", e);
	if (!rc)
		rc = put_own_timeout(q, a, "transfer-timeout", "transfer_timeout_ms", e);
	if (!rc)
		rc = put_app(q, a, e);
	if (!rc)
		rc = put_text(q, a, "cluster", "cluster", e);
	if (!rc)
		rc = put_text(q, a, "namespace", "namespace", e);
	return rc ? rc : put_timeout(q, a, e);
}

/* ---- what comes back */

static int print_snapshots(struct ctl *c, json_t *answer)
{
	json_t *list = json_object_get(answer, "snapshots"), *one = json_object_get(answer, "snapshot"), *rows;
	int status;

	if (c->json)
		return ctl_print_json(c, answer);
	rows = list ? json_incref(list) : json_array();
	if (one)
		json_array_append(rows, one);
	status = ctl_print_table(c, rows, snapshot_columns);
	json_decref(rows);
	return status;
}

static int print_answer(struct ctl *c, const struct ctl_args *a, json_t *o)
{
	if (is(a, "snapshot"))
		return print_snapshots(c, o);
	if (is(a, "drop"))
		return c->json ? ctl_print_json(c, o) : ctl_print_object(c, o, NULL);
	return sandbox_print(c, o);
}

/* Of the artifact that a workspace begins with. What is none is the daemon's to say. */
static bool task_of(const char *from, char out[GRANT_NAME_MAX + 1])
{
	const char *at = from ? strchr(from, ':') : NULL, *slash;

	if (!at || strncmp(from, "snapshot:", 9) == 0)
		return false;
	slash = memrchr(at + 1, '/', strcspn(at + 1, "#"));
	if (!slash || slash == at + 1 || slash - at > GRANT_NAME_MAX)
		return false;
	text_put_bytes(out, GRANT_NAME_MAX + 1, at + 1, (size_t)(slash - at) - 1);
	return token_name_check("the task", out, NULL) == 0;
}

/* A grant for this one call, as for every command: of the agent where one is named. */
static int sandbox_life_ask(struct ctl *c, const struct ctl_args *a, const struct api_call *call, json_t **out,
			    struct err *e)
{
	char task[GRANT_NAME_MAX + 1];
	bool artifact = task_of(args_get(a, "workspace"), task),
	     all = !a->noperands || args_has(a, "as") || (args_has(a, "workspace") && !artifact),
	     template = args_has(a, "pod-template") || args_has(a, "no-pod-template");
	char reason[80];
	struct ctl_wish w = {.kind = "staff",
			     .agent = all ? "*" : a->operands[0],
			     .scopes = all        ? "lifecycle,replay,observe,admin"
				       : artifact ? "lifecycle,files,admin"
				       : template ? "lifecycle,admin"
						  : "lifecycle",
			     .task = artifact ? task : NULL,
			     .reason = args_get(a, "reason")};

	if (!w.reason) {
		default_reason(a, reason, sizeof(reason));
		w.reason = reason;
	}
	return api_ask(c, &w, call, out, e);
}

/* A stopped sandbox comes back; a loss for ever needs a reason in somebody's own words. */
static int put_needed_reason(json_t *q, const struct ctl_args *a, struct err *e)
{
	const char *how = args_get(a, "how");
	bool wipes = how && strcmp(how, "wipe") == 0;
	char reason[80];

	if (args_has(a, "reason"))
		return 0;
	if (wipes || is(a, "kill") || is(a, "restore") || is(a, "drop"))
		return err_set(e, ERR_REASON_REQUIRED, "--reason is missing");
	if (!is(a, "stop") && !is(a, "terminate"))
		return 0;
	default_reason(a, reason, sizeof(reason));
	return json_object_set_new(q, "reason", json_string(reason))
		   ? err_set(e, ERR_NOMEM, "no memory for the question")
		   : 0;
}

static const char *const paths[][2] = {
    {"resume", "/v1/agents/*/resume"},       {"create", "/v1/agents/*/resume"}, {"stop", "/v1/agents/*/stop"},
    {"terminate", "/v1/agents/*/terminate"}, {"kill", "/v1/agents/*/kill"},     {"snapshot", "/v1/agents/*/snapshots"},
    {"restore", "/v1/agents/*/restore"},     {"fork", "/v1/agents/*/fork"},     {"drop", "/v1/agents/*/snapshots/*"},
};

/* q: stolen. */
static struct api_call call_of(const struct ctl_args *a, json_t *q)
{
	const char *session = args_get(a, "from-session"), *agent = a->noperands ? a->operands[0] : "";
	struct api_call call = {.method = "POST", .names = {agent}, .body = q};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (is(a, paths[i][0]))
			call.path = paths[i][1];
	if (is(a, "fork") && session) {
		call.path = "/v1/sessions/*/fork";
		call.names[0] = session;
	} else if (is(a, "drop")) {
		json_object_del(q, "snapshot_id");
		call = (struct api_call){
		    .method = "DELETE", .path = call.path, .names = {agent, a->operands[1]}, .query = q};
	}
	return call;
}

static int life_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *q = json_object(), *o = NULL;
	struct err e = {0};
	int rc = put_needed_reason(q, a, &e);

	if (!rc)
		rc = put_all(q, a, &e);
	if (rc) {
		json_decref(q);
	} else {
		struct api_call call = call_of(a, q);

		rc = sandbox_life_ask(c, a, &call, &o, &e);
	}
	if (rc < 0)
		return ctl_fail(c, &e);
	int status = print_answer(c, a, o);
	json_decref(o);
	return status;
}

static int snapshots_run(struct ctl *c, const struct ctl_args *a)
{
	struct err e = {0};
	json_t *o = NULL;

	if (agent_get(c, a, "lifecycle", "/v1/agents/*/snapshots", NULL, &o, &e) < 0)
		return ctl_fail(c, &e);
	int status = print_snapshots(c, o);
	json_decref(o);
	return status;
}

/* ---- logs */

static const struct ctl_option logs_options[] = {
    {"bytes", 'n', "N", "The last so many (default 65536, at most 262144)."},
    {NULL, 0, NULL, NULL},
};

/* Line by line, and nothing of it can speak to the terminal. */
static int print_log(const json_t *o)
{
	const char *data = json_string_value(json_object_get(o, "data")), *encoding = NULL;
	uint8_t *bytes = NULL;
	size_t n = 0;

	json_opt_str(o, "encoding", &encoding, NULL);
	if (data && encoding && strcmp(encoding, "base64") == 0) {
		if (base64_decode(data, strlen(data), false, &bytes, &n))
			return ERR_PROTOCOL;
	} else if (data) {
		n = strlen(data);
		bytes = (uint8_t *)strdup(data);
	}
	for (size_t at = 0; bytes && at < n;) {
		const uint8_t *end = memchr(bytes + at, '\n', n - at);
		size_t len = end ? (size_t)(end - bytes) - at : n - at;
		char *clean = visible_dup(bytes + at, len, LOG_LINE_MAX, VISIBLE_LINES);

		printf("%s\n", clean ? clean : "");
		free(clean);
		at += len + 1;
	}
	free(bytes);
	return fflush(stdout) == 0 ? 0 : ERR_SYS;
}

/* Behind it, what each of its services said. */
static void print_services(const json_t *list)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		const char *text = json_get_text(v, "data");
		char *shown = visible_dup(text, strlen(text), LOG_LINE_MAX * 64, VISIBLE_LINES);

		/* own: a name that the API took for one, and a state */
		printf("==> service %s (%s)\n%s%s", json_get_text(v, "service"), json_get_text(v, "state"),
		       shown ? shown : "", shown && *shown && shown[strlen(shown) - 1] != '\n' ? "\n" : "");
		free(shown);
	}
}

static int logs_run(struct ctl *c, const struct ctl_args *a)
{
	long long bytes = 65536;
	char most[24];
	json_t *o = NULL;
	struct err e = {0};
	int rc = args_number(a, "bytes", 1, 262144, &bytes, &e);

	snprintf(most, sizeof(most), "%lld", bytes);
	if (rc == 0)
		rc = agent_get(c, a, "observe", "/v1/agents/*/logs", json_pack("{s:s}", "bytes", most), &o, &e);
	if (rc == 0 && !c->json && (rc = print_log(o)))
		err_set(&e, rc, "the log could not be shown");
	if (rc == 0 && !c->json)
		print_services(json_object_get(o, "services"));
	return ctl_finish_quietly(c, rc, &e, o);
}

/* ---- the end */

static int destroy_run(struct ctl *c, const struct ctl_args *a)
{
	const char *agent = a->operands[0], *reason = args_get(a, "reason");
	struct ctl_wish w = {.kind = "staff", .agent = agent, .scopes = "lifecycle", .reason = reason};
	struct api_call call = {.method = "DELETE", .path = "/v1/agents/*", .names = {agent}};
	json_t *answer = NULL;
	struct err e = {0};
	int rc = reason ? target_name_check(agent, &e) : err_set(&e, ERR_REASON_REQUIRED, "--reason is missing");

	if (rc == 0) {
		call.query = json_pack("{s:s,s:s}", "reason", reason, "wipe", args_has(a, "wipe") ? "true" : "false");
		rc = api_ask(c, &w, &call, &answer, &e);
	}
	return ctl_finish(c, rc, &e, answer, NULL, NULL);
}

const struct ctl_command sandbox_commands[] = {
    {"sandbox list", "", 0, 0, "List agents, their sandboxes on this machine and in the cluster, and their states.",
     list_options, .run = sandbox_list_run},
    {"sandbox show", "AGENT", 1, 1,
     "Show one sandbox: state, backend and why, enforced limits, what its mode cannot promise.",
     .run = sandbox_show_run},
    {"sandbox create", "AGENT", 1, 1, "Create the agent's sandbox, or find it, and wait until it runs.", resume_options,
     .run = life_run},
    {"sandbox resume", "AGENT", 1, 1, "Create or wake the agent's sandbox.", resume_options, .run = life_run},
    {"sandbox stop", "AGENT", 1, 1, "Snapshot the workspace, then stop the sandbox.", stop_options, .run = life_run},
    {"sandbox kill", "AGENT", 1, 1, "Kill every program inside, however full it is; the sandbox runs on.", kill_options,
     .run = life_run},
    {"sandbox terminate", "AGENT", 1, 1, "Terminate the sandbox: with a snapshot, without one, or with its workspace.",
     terminate_options, .run = life_run},
    {"sandbox destroy", "AGENT", 1, 1, "Destroy a sandbox and everything that runs in it; no error if there is none.",
     destroy_options, .run = destroy_run},
    {"sandbox snapshot", "AGENT", 1, 1, "Take a snapshot of the workspace.", stop_options, .run = life_run},
    {"sandbox snapshots", "AGENT", 1, 1, "List snapshots of the workspace, newest first.", .run = snapshots_run},
    {"sandbox restore", "AGENT SNAPSHOT", 2, 2, "Restore the workspace from a snapshot.", restore_options,
     .run = life_run},
    {"sandbox drop", "AGENT SNAPSHOT", 2, 2, "Delete a snapshot.", drop_options, .run = life_run},
    {"sandbox fork", "[AGENT]", 0, 1, "Create an agent with the workspace of a session, a snapshot or a moment.",
     fork_options, .run = life_run},
    {"sandbox logs", "AGENT", 1, 1, "Print the end of the sandbox's log.", logs_options, .run = logs_run},
    {"resume", "AGENT", 1, 1, "Create or wake the agent's sandbox.", resume_options, .run = life_run},
    {0},
};
