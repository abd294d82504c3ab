/* From a policy's YAML to what is asked. Whatever is not understood, or cannot be, is refused with its place. */
#include "policy/profile.h"

#include "base/clock.h"
#include "base/conf_table.h"
#include "base/err.h"
#include "base/utf8.h"
#include "base/yamldoc.h"
#include "files/paths.h"
#include "policy/profile_keys.h"
#include "policy/profile_record.h"
#include "policy/profile_shape.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX   1000000
#define PORTS_MAX   64
#define SERVERS_MAX 64
#define NAMES_MAX   64

/* ---- memory */

static void names_finish(struct policy_names *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->list[i]);
	free(n->list);
}

static void rule_finish(struct policy_rule *r)
{
	paths_free(r->paths);
	free(r->ports);
	for (size_t i = 0; i < r->nservers; i++) {
		free(r->servers[i].name);
		names_finish(&r->servers[i].tools);
	}
	free(r->servers);
	names_finish(&r->principals);
}

static void profile_finish(struct policy_profile *p)
{
	names_finish(&p->tasks);
	names_finish(&p->agents);
	names_finish(&p->principals);
	for (size_t i = 0; i < POLICY_OPS; i++)
		rule_finish(&p->rules[i]);
	profile_shape_finish(p);
	profile_record_finish(p);
}

void policy_destroy(struct policy *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->nprofiles; i++)
		profile_finish(&p->profiles[i]);
	free(p->profiles);
	free(p->text);
	free(p->name);
	free(p);
}

static int no_memory(struct err *e)
{
	return err_set(e, ERR_NOMEM, "no memory for the policy");
}

/* ---- words */

/* A name in which `*` stands for any characters, and nothing else for anything. */
static int check_pattern(struct yamlnode at, const char *what, const char *text, struct err *e)
{
	if (!text || !*text)
		return yamlnode_fail(at, e, "%s has an entry that is no name", what);
	if (strlen(text) > GRANT_NAME_MAX)
		return yamlnode_fail(at, e, "%s has a name of %zu bytes, %d are allowed", what, strlen(text),
				     GRANT_NAME_MAX);
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c <= 0x20 || *c == 0x7f || strchr("?[]{}\\", *c))
			return yamlnode_fail(at, e,
					     "%s has a name with a space, a control or one of ?[]{}\\: `*` alone "
					     "stands for other characters",
					     what);
	if (!utf8_valid((const uint8_t *)text, strlen(text)))
		return yamlnode_fail(at, e, "%s has a name that is not UTF-8", what);
	return 0;
}

static int add_name(struct yamlnode at, const char *what, struct policy_names *out, struct err *e)
{
	const char *text = yamlnode_text(at);
	int rc = check_pattern(at, what, text, e);

	if (rc)
		return rc;
	for (size_t i = 0; i < out->n; i++)
		if (strcmp(out->list[i], text) == 0)
			return yamlnode_fail(at, e, "%.64s stands twice in %s", text, what);
	out->list[out->n] = strdup(text);
	return out->list[out->n++] ? 0 : no_memory(e);
}

/* One name or a list of them; absent: any. */
static int take_names(struct yamlnode map, const char *of, const char *key, struct policy_names *out, struct err *e)
{
	struct yamlnode v;
	size_t n;
	int rc = yamlnode_get(map, of, key, &v, e);

	if (rc || yamlnode_absent(v))
		return rc;
	if (yamlnode_form(v) == YAMLNODE_MAP)
		return yamlnode_fail(v, e, "%s of %s is neither a name nor a list of names", key, of);
	n = yamlnode_form(v) == YAMLNODE_LIST ? yamlnode_count(v) : 1;
	if (n == 0)
		return yamlnode_fail(v, e, "%s of %s is empty, which is nobody: leave it out, or name somebody", key,
				     of);
	if (n > NAMES_MAX)
		return yamlnode_fail(v, e, "%s of %s has %zu entries, %d are allowed", key, of, n, NAMES_MAX);
	out->list = calloc(n, sizeof(*out->list));
	if (!out->list)
		return no_memory(e);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = add_name(yamlnode_form(v) == YAMLNODE_LIST ? yamlnode_item(v, i) : v, key, out, e);
	return rc;
}

static int take_kinds(struct yamlnode map, unsigned *out, struct err *e)
{
	struct policy_names names = {0};
	struct yamlnode v;
	unsigned kinds = 0;
	int rc = take_names(map, "match", "kind", &names, e);

	(void)yamlnode_get(map, "match", "kind", &v, NULL);
	for (size_t i = 0; rc == 0 && i < names.n; i++) {
		struct yamlnode at = yamlnode_form(v) == YAMLNODE_LIST ? yamlnode_item(v, i) : v;
		struct err why = {0};
		enum grant_kind k;

		if (grant_kind_parse(names.list[i], &k, &why))
			rc = yamlnode_fail(at, e, "%s", why.message);
		else
			kinds |= 1u << k;
	}
	names_finish(&names);
	if (rc == 0)
		*out = kinds;
	return rc;
}

/* ---- options of an operation */

static int profile_check_path(struct yamlnode at, const char *text, struct err *e)
{
	struct grant_files f;
	struct err why = {0};
	json_t *o = text ? json_pack("{s:[s]}", "read", text) : NULL;
	int rc = o ? grant_files_take(o, &f, &why) : err_set(&why, ERR_INVAL, "paths holds what is no text");

	json_decref(o);
	/* The check names the member that a grant has it in. */
	return rc ? yamlnode_fail(at, e, "%s", strncmp(why.message, "read: ", 6) == 0 ? why.message + 6 : why.message)
		  : 0;
}

/* Short enough for muxlet to hold them (GRANT_PATHS_TEXT). */
static int take_paths(struct yamlnode v, const char *op, struct policy_rule *r, struct grant_paths *flat, struct err *e)
{
	const char *list[GRANT_PATHS_MAX + 1] = {NULL};
	size_t n = yamlnode_count(v), used = 0;

	if (yamlnode_form(v) != YAMLNODE_LIST || n == 0)
		return yamlnode_fail(v, e,
				     "paths of %s is no list of patterns with an entry: leave the operation out to "
				     "deny it, or paths to allow every path",
				     op);
	if (n > GRANT_PATHS_MAX)
		return yamlnode_fail(v, e, "paths of %s has %zu patterns, %d are allowed", op, n, GRANT_PATHS_MAX);
	for (size_t i = 0; i < n; i++) {
		struct yamlnode at = yamlnode_item(v, i);
		int rc;

		list[i] = yamlnode_text(at);
		rc = profile_check_path(at, list[i], e);
		if (rc)
			return rc;
		for (size_t k = 0; k < i; k++)
			if (strcmp(list[k], list[i]) == 0)
				return yamlnode_fail(at, e, "%.64s stands twice in paths of %s", list[i], op);
		if (used + strlen(list[i]) + 2 > GRANT_PATHS_TEXT)
			return yamlnode_fail(at, e, "paths of %s has more than %d bytes of patterns", op,
					     GRANT_PATHS_TEXT - 2);
		used += (size_t)snprintf(flat->text + used, sizeof(flat->text) - used, "%s\n", list[i]);
	}
	flat->given = true;
	r->paths = paths_new(list);
	return r->paths ? 0 : no_memory(e);
}

static int read_port(const char *text, char **end, unsigned *out)
{
	unsigned long n = strtoul(text, end, 10);

	if (*end == text || *text < '0' || *text > '9' || n < 1 || n > 65535)
		return ERR_INVAL;
	*out = (unsigned)n;
	return 0;
}

static int take_port(struct yamlnode at, struct policy_port_range *out, struct err *e)
{
	const char *text = yamlnode_text(at);
	char *end = NULL;

	if (!text || read_port(text, &end, &out->from))
		return yamlnode_fail(at, e, "ports holds what is neither a port (8080) nor a range (3000-3999)");
	out->to = out->from;
	if (*end == '-' && read_port(end + 1, &end, &out->to))
		return yamlnode_fail(at, e, "\"%.40s\" is no range of ports, as 3000-3999", text);
	if (*end)
		return yamlnode_fail(at, e, "\"%.40s\" is neither a port (8080) nor a range (3000-3999)", text);
	if (out->to < out->from)
		return yamlnode_fail(at, e, "the range %u-%u ends before it begins", out->from, out->to);
	return 0;
}

static int take_ports(struct yamlnode v, struct policy_rule *r, struct err *e)
{
	size_t n = yamlnode_count(v);
	int rc = 0;

	if (yamlnode_form(v) != YAMLNODE_LIST || n == 0 || n > PORTS_MAX)
		return yamlnode_fail(v, e, "ports is no list of 1 to %d ports", PORTS_MAX);
	r->ports = calloc(n, sizeof(*r->ports));
	if (!r->ports)
		return no_memory(e);
	for (; rc == 0 && r->nports < n; r->nports++)
		rc = take_port(yamlnode_item(v, r->nports), &r->ports[r->nports], e);
	return rc;
}

static int take_servers(struct yamlnode v, struct policy_rule *r, struct err *e)
{
	size_t n = yamlnode_count(v);
	int rc = 0;

	if (yamlnode_form(v) != YAMLNODE_MAP || n == 0 || n > SERVERS_MAX)
		return yamlnode_fail(v, e, "servers is no mapping of 1 to %d servers to lists of tools", SERVERS_MAX);
	r->servers = calloc(n, sizeof(*r->servers));
	if (!r->servers)
		return no_memory(e);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct yamlnode key, value;
		struct policy_server *s = &r->servers[i];

		rc = yamlnode_pair(v, "servers", i, &key, &value, e);
		if (rc == 0)
			rc = check_pattern(key, "servers", yamlnode_text(key), e);
		if (rc)
			return rc;
		s->name = strdup(yamlnode_text(key));
		r->nservers++;
		rc = s->name ? take_names(v, "servers", s->name, &s->tools, e) : no_memory(e);
	}
	return rc;
}

static const char *option_names(unsigned options)
{
	switch (options) {
	case POLICY_PATHS:
		return "paths";
	case POLICY_PORTS:
		return "ports";
	case POLICY_SERVERS:
		return "servers";
	case POLICY_PRINCIPALS:
		return "principals";
	default:
		return "";
	}
}

static int take_options(struct policy_profile *p, enum policy_op op, struct yamlnode v, struct err *e)
{
	struct policy_rule *r = &p->rules[op];
	const char *name = policy_op_name(op), *known = option_names(policy_op_options(op));
	struct yamlnode o;
	int rc;

	if (yamlnode_absent(v))
		return 0;
	if (!*known)
		return yamlnode_fail(v, e, "%s has no options: write it by itself", name);
	rc = profile_check_keys(v, name, known, NULL, e);
	if (rc == 0)
		rc = yamlnode_get(v, name, known, &o, e);
	if (rc || yamlnode_absent(o))
		return rc ? rc : yamlnode_fail(v, e, "%s of %s is empty", known, name);
	switch (policy_op_options(op)) {
	case POLICY_PATHS:
		return take_paths(o, name, r, op == POLICY_FILE_READ ? &p->files.read : &p->files.write, e);
	case POLICY_PORTS:
		return take_ports(o, r, e);
	case POLICY_SERVERS:
		return take_servers(o, r, e);
	default:
		return take_names(v, name, "principals", &r->principals, e);
	}
}

/* ---- allow */

static int unknown_op(struct yamlnode at, const char *name, struct err *e)
{
	const char *near = policy_op_nearest(name);

	if (near)
		return yamlnode_fail(at, e, "there is no operation \"%.64s\", did you mean %s?", name, near);
	return yamlnode_fail(at, e, "there is no operation \"%.64s\": muxctl policy operations lists them", name);
}

/* "file.*", "*": all of that beginning that are not named by themselves. */
static int allow_some(struct policy_profile *p, struct yamlnode at, const char *name, struct err *e)
{
	size_t n = strlen(name) - 1;
	bool any = false;

	if (n && name[n - 1] != '.')
		return yamlnode_fail(at, e, "\"%.64s\" is no group of operations, as file.* or *", name);
	for (size_t i = 0; i < POLICY_OPS; i++) {
		if (strncmp(policy_op_name((enum policy_op)i), name, n) != 0)
			continue;
		any = true;
		if (!p->rules[i].named)
			p->rules[i] = (struct policy_rule){.named = true, .line = yamlnode_line(at)};
	}
	return any ? 0 : unknown_op(at, name, e);
}

static bool is_group(const char *name)
{
	return *name && name[strlen(name) - 1] == '*';
}

static int allow_one(struct policy_profile *p, struct yamlnode at, const char *name, struct yamlnode options,
		     struct err *e)
{
	enum policy_op op = policy_op_find(name);

	if (op == POLICY_OPS)
		return unknown_op(at, name, e);
	if (p->rules[op].named)
		return yamlnode_fail(at, e, "%s stands twice in allow of profile \"%s\": first in line %u", name,
				     p->name, p->rules[op].line);
	p->rules[op] = (struct policy_rule){.named = true, .line = yamlnode_line(at)};
	return take_options(p, op, options, e);
}

/* An entry is a name, or a name with its options. */
static int allow_entry(struct policy_profile *p, struct yamlnode item, bool groups, struct err *e)
{
	struct yamlnode key = item, options = {item.doc, 0};
	const char *name;
	int rc = 0;

	if (yamlnode_form(item) == YAMLNODE_MAP) {
		if (yamlnode_count(item) != 1)
			return yamlnode_fail(item, e,
					     "an entry of allow names one operation: begin the next with a dash");
		rc = yamlnode_pair(item, "allow", 0, &key, &options, e);
	}
	if (rc)
		return rc;
	name = yamlnode_text(key);
	if (!name || !*name)
		return yamlnode_fail(item, e, "an entry of allow is no operation");
	if (is_group(name) && !yamlnode_absent(options))
		return yamlnode_fail(options, e, "options are of one operation: name it in place of %.64s", name);
	if (is_group(name) != groups)
		return 0;
	return groups ? allow_some(p, key, name, e) : allow_one(p, key, name, options, e);
}

/* A principal that may start a round may read its answer. */
static void allow_answers(struct policy_profile *p)
{
	static const enum policy_op starts[] = {POLICY_ROUND_START, POLICY_CONTEXT_EXECUTE, POLICY_PYTHON_EXECUTE};
	struct policy_rule *r = &p->rules[POLICY_ROUND_READ];

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]) && !r->named; i++)
		if (p->rules[starts[i]].named)
			*r = (struct policy_rule){.named = true, .line = p->rules[starts[i]].line};
}

static int take_allow(struct policy_profile *p, struct yamlnode map, struct err *e)
{
	struct yamlnode list = {0};
	int rc = yamlnode_get(map, "a profile", "allow", &list, e);

	if (rc == 0 && yamlnode_form(list) != YAMLNODE_LIST)
		return yamlnode_fail(yamlnode_absent(list) ? map : list, e,
				     "allow of profile \"%s\" is no list of operations: [] allows nothing", p->name);
	if (rc == 0 && yamlnode_count(list) > 2 * POLICY_OPS)
		return yamlnode_fail(list, e, "allow of profile \"%s\" has more entries than there are operations",
				     p->name);
	for (int groups = 0; groups < 2; groups++)
		for (size_t i = 0; rc == 0 && i < yamlnode_count(list); i++)
			rc = allow_entry(p, yamlnode_item(list, i), groups, e);
	if (rc == 0)
		allow_answers(p);
	return rc;
}

/* ---- limits */

static bool allows_any(const struct policy_profile *p, const enum policy_op *ops)
{
	for (; *ops != POLICY_OPS; ops++)
		if (p->rules[*ops].named)
			return true;
	return false;
}

static const enum policy_op of_rounds[] = {POLICY_ROUND_START, POLICY_CONTEXT_EXECUTE, POLICY_PYTHON_EXECUTE,
					   POLICY_OPS};
static const enum policy_op of_sessions[] = {POLICY_TERMINAL_OPEN, POLICY_EXEC_OPEN, POLICY_PORT_OPEN, POLICY_OPS};
static const enum policy_op of_contexts[] = {POLICY_CONTEXT_CREATE, POLICY_OPS};
static const enum policy_op of_requests[] = {POLICY_MCP_CALL, POLICY_OPS};
static const enum policy_op of_files[] = {POLICY_FILE_READ, POLICY_FILE_WRITE, POLICY_ARTIFACT_WRITE, POLICY_OPS};

/* The value of a limit, and whether the profile allows what it limits. 0: it is not there. */
static int take_limit(const struct policy_profile *p, struct yamlnode map, const char *key, const enum policy_op *of,
		      int (*parse)(const char *text, uint64_t *out), const char *form, uint64_t *out, struct err *e)
{
	struct yamlnode v;
	int rc = yamlnode_get(map, "limits", key, &v, e);
	uint64_t n = 0;

	if (rc || yamlnode_absent(v))
		return rc;
	if (!yamlnode_text(v) || parse(yamlnode_text(v), &n))
		return yamlnode_fail(v, e, "%s is no %s", key, form);
	if (n == 0)
		return yamlnode_fail(v, e, "%s is 0, which allows nothing: leave the operation out of allow", key);
	if (!allows_any(p, of))
		return yamlnode_fail(v, e, "%s limits what profile \"%s\" does not allow: name %s under allow", key,
				     p->name, policy_op_name(*of));
	*out = n;
	return 0;
}

static int parse_count(const char *text, uint64_t *out)
{
	size_t n = strspn(text, "0123456789");

	if (!n || n > 7 || text[n] || strtoul(text, NULL, 10) > COUNT_MAX)
		return ERR_INVAL;
	*out = strtoul(text, NULL, 10);
	return 0;
}

static int take_count(const struct policy_profile *p, struct yamlnode map, const char *key, const enum policy_op *of,
		      uint32_t *out, struct err *e)
{
	uint64_t n = 0;
	int rc = take_limit(p, map, key, of, parse_count, "number from 1 to 1000000", &n, e);

	*out = (uint32_t)n;
	return rc;
}

static const struct profile_later limits_later[] = {
    {"cpu", "is written under resources of the profile, as resources: {most: {cpu: 500m}}"},
    {"memory", "is written under resources of the profile, as resources: {most: {memory: 512Mi}}"},
    {"pids", "is written under resources of the profile, as resources: {most: {pids: 200}}"},
    {NULL, NULL}};

static int take_limits(struct policy_profile *p, struct yamlnode map, struct err *e)
{
	struct yamlnode limits = {0};
	struct policy_limits *l = &p->limits;
	int rc = yamlnode_map(map, "a profile", "limits", &limits, e);

	if (rc || yamlnode_absent(limits))
		return rc;
	if ((rc =
		 profile_check_keys(limits, "limits", "round_time|file_size|rounds|sessions|contexts|mcp_rate|mcp_size",
				    limits_later, e)) ||
	    (rc = take_limit(p, limits, "round_time", of_rounds, clock_parse_duration, "duration, as 90s or 10m",
			     &l->round_time_ns, e)) ||
	    (rc = take_limit(p, limits, "file_size", of_files, conf_parse_size, "size, as 512KiB or 1MiB",
			     &l->file_size, e)) ||
	    (rc = take_limit(p, limits, "mcp_size", of_requests, conf_parse_size, "size, as 512KiB or 1MiB",
			     &l->mcp_size, e)) ||
	    (rc = take_count(p, limits, "mcp_rate", of_requests, &l->mcp_rate, e)) ||
	    (rc = take_count(p, limits, "rounds", of_rounds, &l->rounds, e)) ||
	    (rc = take_count(p, limits, "sessions", of_sessions, &l->sessions, e)))
		return rc;
	p->files.size_max = l->file_size;
	return take_count(p, limits, "contexts", of_contexts, &l->contexts, e);
}

/* ---- profiles */

static int take_name(struct policy *p, struct policy_profile *to, struct yamlnode map, struct err *e)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
	struct yamlnode v = {0};
	const char *text;
	int rc = yamlnode_get(map, "a profile", "name", &v, e);

	if (rc)
		return rc;
	text = yamlnode_text(v);
	if (!text || !*text)
		return yamlnode_fail(yamlnode_absent(v) ? map : v, e, "a profile has no name");
	if (strlen(text) > POLICY_NAME_MAX || strspn(text, allowed) != strlen(text) || strcmp(text, "otherwise") == 0)
		return yamlnode_fail(v, e, "\"%.64s\" is no name of a profile: up to %d of a-z, 0-9, - _ and .", text,
				     POLICY_NAME_MAX);
	for (const struct policy_profile *q = p->profiles; q < to; q++)
		if (strcmp(q->name, text) == 0)
			return yamlnode_fail(v, e, "profile \"%s\" stands twice: first in line %u", text, q->line);
	memcpy(to->name, text, strlen(text) + 1);
	return 0;
}

static int take_match(struct policy_profile *p, struct yamlnode map, struct err *e)
{
	static const struct profile_later later[] = {{"tasks", "is written task, for one or a list"},
						     {"agents", "is written agent, for one or a list"},
						     {"principals", "is written principal, for one or a list"},
						     {"kinds", "is written kind, for one or a list"},
						     {"reason", "is not supported: who asks chooses it"},
						     {NULL, NULL}};
	struct yamlnode m = {0};
	int rc = yamlnode_get(map, "a profile", "match", &m, e);

	if (rc)
		return rc;
	if (yamlnode_form(m) != YAMLNODE_MAP || yamlnode_count(m) == 0)
		return yamlnode_fail(yamlnode_absent(m) ? map : m, e,
				     "match of profile \"%s\" says nothing: give it task, agent, principal or kind",
				     p->name);
	if ((rc = profile_check_keys(m, "match", "task|agent|principal|kind", later, e)) ||
	    (rc = take_names(m, "match", "task", &p->tasks, e)) ||
	    (rc = take_names(m, "match", "agent", &p->agents, e)) ||
	    (rc = take_names(m, "match", "principal", &p->principals, e)))
		return rc;
	return take_kinds(m, &p->kinds, e);
}

/* Does each text that `narrow` matches match `wide`? A `*` of narrow is matched by one of wide alone. */
static bool names_cover(const struct policy_names *wide, const struct policy_names *narrow)
{
	if (wide->n == 0)
		return true;
	for (size_t i = 0; i < narrow->n; i++) {
		bool found = false;

		for (size_t k = 0; k < wide->n; k++)
			found = found || policy_name_match(wide->list[k], narrow->list[i]);
		if (!found)
			return false;
	}
	if (narrow->n)
		return true;
	for (size_t k = 0; k < wide->n; k++)
		if (strspn(wide->list[k], "*") == strlen(wide->list[k]))
			return true;
	return false;
}

static bool profile_covers(const struct policy_profile *wide, const struct policy_profile *narrow)
{
	bool kinds = !wide->kinds || (narrow->kinds && !(narrow->kinds & ~wide->kinds));

	return kinds && names_cover(&wide->tasks, &narrow->tasks) && names_cover(&wide->agents, &narrow->agents) &&
	       names_cover(&wide->principals, &narrow->principals);
}

static int check_reached(const struct policy *p, const struct policy_profile *q, struct yamlnode at, struct err *e)
{
	for (const struct policy_profile *first = p->profiles; first < q; first++)
		if (profile_covers(first, q))
			return yamlnode_fail(
			    at, e,
			    "profile \"%s\" can never match: \"%s\" in line %u comes first and matches "
			    "all that it does",
			    q->name, first->name, first->line);
	return 0;
}

static const struct profile_later profile_later[] = {{"deny", "is not needed: what allow does not name is denied"},
						     {"images", "is written image, for one or a list"},
						     {"watch", "is written session.watch under allow, with principals"},
						     {"drive", "is written session.drive under allow, with principals"},
						     {NULL, NULL}};

static int take_profile(struct policy *p, struct yamlnode map, struct err *e)
{
	struct policy_profile *to = &p->profiles[p->nprofiles];
	int rc = profile_check_keys(map, "a profile", "name|match|allow|limits|image|resources|record|about",
				    profile_later, e);

	if (rc)
		return rc;
	to->line = yamlnode_line(map);
	p->nprofiles++; /* from here on it is freed with the others */
	if ((rc = take_name(p, to, map, e)) || (rc = take_match(to, map, e)) || (rc = take_allow(to, map, e)) ||
	    (rc = take_limits(to, map, e)) || (rc = profile_take_shape(to, map, e)) ||
	    (rc = profile_take_record(to, map, e)))
		return rc;
	return check_reached(p, to, map, e);
}

static int take_otherwise(struct policy *p, struct yamlnode root, struct err *e)
{
	const char *text = NULL;
	struct yamlnode v = {0};
	int rc = yamlnode_get(root, "the policy", "otherwise", &v, e);

	if (rc)
		return rc;
	text = yamlnode_text(v);
	if (!text || (strcmp(text, "deny") != 0 && strcmp(text, "as_granted") != 0))
		return yamlnode_fail(yamlnode_absent(v) ? root : v, e,
				     "otherwise says what holds where no profile matches: deny, or as_granted");
	p->otherwise_deny = strcmp(text, "deny") == 0;
	return 0;
}

static int take_form(struct yamlnode root, struct err *e)
{
	struct yamlnode v = {0};
	int rc = yamlnode_get(root, "the policy", "policy", &v, e);
	const char *text = rc ? NULL : yamlnode_text(v);

	if (rc == 0 && (!text || strcmp(text, "1") != 0))
		rc = yamlnode_fail(yamlnode_absent(v) ? root : v, e, "the file begins with its form: policy: 1");
	return rc;
}

static int take_policy(struct policy *p, struct yamlnode root, struct err *e)
{
	struct yamlnode list = {0};
	size_t n = 0;
	int rc;

	if (yamlnode_absent(root))
		return yamlnode_fail(root, e, "there is nothing in the policy: it begins with policy: 1");
	if ((rc = profile_check_keys(root, "the policy", "policy|otherwise|profiles|about", NULL, e)) ||
	    (rc = take_form(root, e)) || (rc = take_otherwise(p, root, e)) ||
	    (rc = yamlnode_list(root, "the policy", "profiles", &list, &n, e)))
		return rc;
	if (n > POLICY_PROFILES_MAX)
		return yamlnode_fail(list, e, "profiles has %zu entries, %d are allowed", n, POLICY_PROFILES_MAX);
	p->profiles = calloc(n ? n : 1, sizeof(*p->profiles));
	if (!p->profiles)
		return no_memory(e);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = take_profile(p, yamlnode_item(list, i), e);
	return rc;
}

static void set_version(struct policy *p, const char *text, size_t len)
{
	uint8_t sum[SHA256_DIGEST_LENGTH];

	SHA256((const uint8_t *)text, len, sum);
	for (size_t i = 0; i < sizeof(sum); i++)
		snprintf(p->sha256 + 2 * i, 3, "%02x", sum[i]);
	memcpy(p->version, p->sha256, POLICY_VERSION_LEN - 1);
}

int policy_parse(const char *text, size_t len, const char *name, struct policy **out, struct err *e)
{
	struct yamldoc *doc = NULL;
	struct policy *p = NULL;
	int rc;

	if (len > POLICY_TEXT_MAX)
		return err_set(e, ERR_CONFIG, "%s: %zu bytes, %d are allowed", name, len, POLICY_TEXT_MAX);
	if (!utf8_valid((const uint8_t *)text, len) || memchr(text, 0, len))
		return err_set(e, ERR_CONFIG, "%s: is not UTF-8 text", name);
	rc = yamldoc_parse(text, len, name, &doc, e);
	if (rc)
		return rc;
	p = calloc(1, sizeof(*p));
	if (!p || !(p->text = malloc(len + 1)) || !(p->name = strdup(name)))
		rc = no_memory(e);
	if (rc == 0) {
		memcpy(p->text, text, len);
		p->text[len] = '\0';
		p->text_len = len;
		set_version(p, text, len);
		rc = take_policy(p, yamldoc_root(doc), e);
	}
	yamldoc_destroy(doc);
	if (rc)
		policy_destroy(p);
	else
		*out = p;
	return rc;
}
