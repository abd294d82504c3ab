#include "policy/verdict.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "files/paths.h"
#include "policy/profile.h"
#include "policy/shape.h"

#include <inttypes.h>
#include <string.h>

/* Linear in the text for each `*`: what a later one cannot match, an earlier one would not either. */
bool policy_name_match(const char *pattern, const char *text)
{
	const char *star = NULL, *from = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			from = text;
		} else if (*pattern == *text) {
			pattern++, text++;
		} else if (star) {
			pattern = star;
			text = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

static bool names_have(const struct policy_names *names, const char *text)
{
	for (size_t i = 0; i < names->n; i++)
		if (policy_name_match(names->list[i], text ? text : ""))
			return true;
	return names->n == 0;
}

static bool profile_matches(const struct policy_profile *p, const struct policy_question *q)
{
	char origin[AGENT_NAME_MAX + 1];

	/* A copy is under the profile of what it is a copy of. */
	return (!p->kinds || p->kinds & 1u << q->kind) && names_have(&p->tasks, q->task) &&
	       names_have(&p->principals, q->principal) &&
	       names_have(&p->agents, q->agent ? target_origin(q->agent, origin) : NULL);
}

const struct policy_profile *policy_profile_for(const struct policy *p, const struct policy_question *q)
{
	for (size_t i = 0; i < p->nprofiles; i++)
		if (profile_matches(&p->profiles[i], q))
			return &p->profiles[i];
	return NULL;
}

/* ---- what an operation's options say */

static bool port_is_named(const struct policy_rule *r, unsigned port)
{
	for (size_t i = 0; i < r->nports; i++)
		if (port >= r->ports[i].from && port <= r->ports[i].to)
			return true;
	return r->nports == 0;
}

static enum verdict_why judge_server(const struct policy_rule *r, const struct policy_question *q)
{
	if (r->nservers == 0 || q->some_server)
		return VERDICT_NAMED;
	for (size_t i = 0; q->server && i < r->nservers; i++)
		if (policy_name_match(r->servers[i].name, q->server))
			return !q->tool || names_have(&r->servers[i].tools, q->tool) ? VERDICT_NAMED : VERDICT_TOOL;
	return VERDICT_SERVER;
}

static enum verdict_why judge_rule(const struct policy_rule *r, const struct policy_question *q)
{
	if (!r->named)
		return VERDICT_NOT_NAMED;
	if (r->paths && q->path && !(*q->path && paths_have(r->paths, q->path, q->tree)))
		return VERDICT_PATH;
	if (q->port && !port_is_named(r, q->port))
		return VERDICT_PORT;
	if (!names_have(&r->principals, q->principal))
		return VERDICT_PRINCIPAL;
	return judge_server(r, q);
}

/* ---- limits */

static bool is_session(enum policy_op op)
{
	return op == POLICY_TERMINAL_OPEN || op == POLICY_EXEC_OPEN || op == POLICY_PORT_OPEN;
}

static bool runs_code(enum policy_op op)
{
	return op == POLICY_ROUND_START || op == POLICY_CONTEXT_EXECUTE || op == POLICY_PYTHON_EXECUTE;
}

static bool has_size(enum policy_op op)
{
	return op == POLICY_FILE_WRITE || op == POLICY_FILE_READ || op == POLICY_ARTIFACT_WRITE;
}

static enum verdict_why judge_limits(const struct policy_limits *l, const struct policy_question *q)
{
	bool runs = runs_code(q->op) && !q->interpreter && !q->opens_nothing;
	bool opens = is_session(q->op) && !q->opens_nothing;

	if (runs && l->round_time_ns && q->timeout_ns > l->round_time_ns)
		return VERDICT_ROUND_TIME;
	if (runs && l->rounds && q->rounds >= l->rounds)
		return VERDICT_ROUNDS;
	if (opens && l->sessions && q->sessions >= l->sessions)
		return VERDICT_SESSIONS;
	if ((q->op == POLICY_CONTEXT_CREATE || q->interpreter) && l->contexts && q->contexts >= l->contexts)
		return VERDICT_CONTEXTS;
	if (has_size(q->op) && l->file_size && q->bytes > l->file_size)
		return VERDICT_FILE_SIZE;
	if (q->op != POLICY_MCP_CALL || q->opens_nothing)
		return VERDICT_NAMED;
	if (l->mcp_size && q->bytes > l->mcp_size)
		return VERDICT_MCP_SIZE;
	if (l->mcp_rate && q->requests >= l->mcp_rate)
		return VERDICT_MCP_RATE;
	return VERDICT_NAMED;
}

struct verdict policy_verdict(const struct policy *p, const struct policy_question *q)
{
	struct verdict v = {.allowed = true, .why = VERDICT_NO_POLICY, .policy = p};

	if (!p)
		return v;
	v.profile = policy_profile_for(p, q);
	if (!v.profile)
		v.why = p->otherwise_deny && !q->judged ? VERDICT_NO_PROFILE : VERDICT_AS_GRANTED;
	else
		v.why = q->judged ? VERDICT_NAMED : judge_rule(&v.profile->rules[q->op], q);
	if (v.why == VERDICT_NAMED && !q->judged)
		v.why = judge_limits(&v.profile->limits, q);
	if (v.why == VERDICT_NAMED)
		v.why = policy_shape_judge(v.profile, q);
	v.allowed = v.why <= VERDICT_NAMED;
	return v;
}

/* ---- in words */

static const char *limit_name(enum verdict_why why)
{
	switch (why) {
	case VERDICT_ROUND_TIME:
		return "round_time";
	case VERDICT_FILE_SIZE:
		return "file_size";
	case VERDICT_ROUNDS:
		return "rounds";
	case VERDICT_SESSIONS:
		return "sessions";
	case VERDICT_CONTEXTS:
		return "contexts";
	case VERDICT_MCP_RATE:
		return "mcp_rate";
	case VERDICT_MCP_SIZE:
		return "mcp_size";
	default:
		return NULL;
	}
}

bool verdict_limit(const struct verdict *v, const struct policy_question *q, struct err_share *out)
{
	const struct policy_limits *l = v->profile ? &v->profile->limits : NULL;
	struct err_share s = {.of = "task", .retry_s = 1};

	if (!l)
		return false;
	if (v->why == VERDICT_ROUNDS)
		s.value = l->rounds, s.in_use = q->rounds;
	else if (v->why == VERDICT_SESSIONS)
		s.value = l->sessions, s.in_use = q->sessions;
	else if (v->why == VERDICT_CONTEXTS)
		s.value = l->contexts, s.in_use = q->contexts;
	else if (v->why == VERDICT_MCP_RATE)
		s.value = l->mcp_rate, s.in_use = q->requests, s.retry_s = 60 / l->mcp_rate + 1;
	else
		return false;
	text_format(s.limit, sizeof(s.limit), "limits.%s", limit_name(v->why));
	*out = s;
	return true;
}

void verdict_rule(const struct verdict *v, const struct policy_question *q, char out[POLICY_RULE_MAX])
{
	const char *limit = limit_name(v->why), *shape = policy_shape_name(v->why);

	if (!v->policy)
		out[0] = '\0';
	else if (!v->profile)
		text_put(out, POLICY_RULE_MAX, "otherwise");
	else
		text_format(out, POLICY_RULE_MAX, "%s/%s%s", v->profile->name, limit ? "limits." : "",
			    limit   ? limit
			    : shape ? shape
				    : policy_op_name(q->op));
}

const char *verdict_version(const struct verdict *v)
{
	return v->policy ? v->policy->version : "";
}

static const char *or_none(const char *text)
{
	return text && *text ? text : "(none)";
}

static void limit_message(const struct policy_profile *p, enum verdict_why why, const struct policy_question *q,
			  char *out, size_t size)
{
	const struct policy_limits none = {0}, *l = p ? &p->limits : &none;
	const char *name = p ? p->name : "";
	char asked[64], most[64];

	if (why == VERDICT_ROUND_TIME) {
		clock_format_duration(q->timeout_ns, asked, sizeof(asked));
		clock_format_duration(l->round_time_ns, most, sizeof(most));
		text_format(out, size, "a timeout of %s is over the %s that profile \"%s\" allows", asked, most, name);
	} else if (why == VERDICT_FILE_SIZE && q->bytes == UINT64_MAX) {
		text_format(out, size,
			    "nothing says how large it is, and profile \"%s\" lets a file have %" PRIu64
			    " bytes: send a Content-Length",
			    name, l->file_size);
	} else if (why == VERDICT_FILE_SIZE) {
		text_format(out, size,
			    "%" PRIu64 " bytes are over the %" PRIu64 " that profile \"%s\" lets a file have", q->bytes,
			    l->file_size, name);
	} else if (why == VERDICT_MCP_SIZE) {
		text_format(out, size,
			    "parameters of %" PRIu64 " bytes are over the %" PRIu64
			    " that profile \"%s\" lets a request have",
			    q->bytes, l->mcp_size, name);
	} else if (why == VERDICT_MCP_RATE) {
		text_format(out, size,
			    "task %.60s made %u requests in the last minute, and profile \"%s\" allows %u: wait a few "
			    "seconds",
			    or_none(q->task), q->requests, name, l->mcp_rate);
	} else {
		unsigned most_of = why == VERDICT_ROUNDS     ? l->rounds
				   : why == VERDICT_SESSIONS ? l->sessions
							     : l->contexts;

		text_format(out, size, "task %.60s has %u live %s already, and profile \"%s\" allows no more",
			    or_none(q->task), most_of, limit_name(why), name);
	}
}

void verdict_message(const struct verdict *v, const struct policy_question *q, char *out, size_t size)
{
	const char *op = policy_op_name(q->op), *profile = v->profile ? v->profile->name : "";

	switch (v->why) {
	case VERDICT_NO_PROFILE:
		text_format(out, size, "the policy denies %s: no profile is for task %.60s of %.60s", op,
			    or_none(q->task), or_none(q->principal));
		return;
	case VERDICT_NOT_NAMED:
		text_format(out, size, "profile \"%s\" does not allow %s", profile, op);
		return;
	case VERDICT_PATH:
		text_format(out, size, "profile \"%s\" does not allow %s of %.120s", profile, op,
			    *q->path ? q->path : "a path outside /workspace");
		return;
	case VERDICT_PORT:
		text_format(out, size, "profile \"%s\" does not allow port %u", profile, q->port);
		return;
	case VERDICT_SERVER:
		text_format(out, size, "profile \"%s\" does not allow MCP server %.60s", profile, or_none(q->server));
		return;
	case VERDICT_TOOL:
		text_format(out, size, "profile \"%s\" does not allow tool %.60s of MCP server %.60s", profile,
			    or_none(q->tool), or_none(q->server));
		return;
	case VERDICT_PRINCIPAL:
		text_format(out, size, "profile \"%s\" does not allow %s for %.60s", profile, op,
			    or_none(q->principal));
		return;
	case VERDICT_IMAGE:
	case VERDICT_RESOURCES:
		policy_shape_message(v->profile, v->why, q, out, size);
		return;
	case VERDICT_NO_POLICY:
	case VERDICT_AS_GRANTED:
	case VERDICT_NAMED:
		text_format(out, size, "%s is allowed", op);
		return;
	default:
		limit_message(v->profile, v->why, q, out, size);
	}
}

/* The words as they would stand in the file. */
void verdict_hint(const struct verdict *v, const struct policy_question *q, char *out, size_t size)
{
	const char *op = policy_op_name(q->op), *profile = v->profile ? v->profile->name : "",
		   *limit = limit_name(v->why);

	if (v->why == VERDICT_NO_PROFILE)
		text_format(out, size, "a profile whose match has task %.60s, and %s under its allow", or_none(q->task),
			    op);
	else if (v->why == VERDICT_NOT_NAMED)
		text_format(out, size, "%s under allow of profile %s", op, profile);
	else if (v->why == VERDICT_PATH)
		text_format(out, size, "%.120s%s in paths of %s of profile %s", *q->path ? q->path : "no list",
			    q->tree && *q->path ? "/**" : "", op, profile);
	else if (v->why == VERDICT_PORT)
		text_format(out, size, "%u in ports of %s of profile %s", q->port, op, profile);
	else if (v->why == VERDICT_SERVER)
		text_format(out, size, "%.60s in servers of %s of profile %s", or_none(q->server), op, profile);
	else if (v->why == VERDICT_TOOL)
		text_format(out, size, "%.60s in the tools of server %.60s of %s of profile %s", or_none(q->tool),
			    or_none(q->server), op, profile);
	else if (v->why == VERDICT_PRINCIPAL)
		text_format(out, size, "%.60s in principals of %s of profile %s", or_none(q->principal), op, profile);
	else if (policy_shape_name(v->why))
		policy_shape_hint(v->profile, v->why, q, out, size);
	else if (limit)
		text_format(out, size, "more in limits.%s of profile %s", limit, profile);
	else
		text_put(out, size, "");
}
