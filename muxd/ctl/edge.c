/* muxctl edge: leases at the centre and at the edge, asked of the monitor on admin.sock. */
#include "muxd/ctl/nouns.h"

#include <string.h>

static const struct ctl_option mint_options[] = {
    {"agent", 0, "AGENT", "Agent of the edge that the lease covers; ci-*: those that begin so; *: all."},
    {"principal", 0, "NAME", "Principal that holds the lease."},
    {"kind", 0, "KIND", "agent (default), service, staff or auditor."},
    {"scopes", 0, "LIST", "As of a grant, without grant; default by kind."},
    {"task", 0, "ID", "Task of every call made with it; required."},
    {"ttl", 0, "DURATION", "Lifetime of the lease; edge.lease_max is the default and the limit."},
    {"read", 0, "PATTERNS", "Paths that file operations may read, as src/**,*.md; none: \"\". Default: any."},
    {"write", 0, "PATTERNS", "Paths that they may write; in the workspace, without links. Default: any."},
    {"file-max", 0, "BYTES", "Largest file that they move or write, and largest patch."},
    {"reason", 0, "TEXT", "Reason for the lease; required."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_column minted_columns[] = {
    {"id", "id"}, {"token", "token"}, {"expires_at", "expires at"}, {"edge", "edge"}, {NULL, NULL},
};

static int edge_print(struct ctl *c, json_t *question, const struct ctl_column *columns)
{
	json_t *answer = NULL;
	struct err e = {0};
	int rc = ctl_admin_ask(c, question, &answer, &e);

	return ctl_finish(c, rc, &e, answer, NULL, columns);
}

static int mint_check(const struct ctl_args *a, struct err *e)
{
	static const char *const needed[] = {"agent", "principal", "task", NULL};

	if (!args_has(a, "reason"))
		return err_set(e, ERR_REASON_REQUIRED, "--reason is missing");
	for (size_t i = 0; needed[i]; i++)
		if (!args_has(a, needed[i]))
			return err_set(e, ERR_INVAL, "--%s is missing", needed[i]);
	return 0;
}

static int mint_run(struct ctl *c, const struct ctl_args *a)
{
	unsigned long long ttl = 0;
	long long most = 0;
	struct err e = {0};
	json_t *q;
	int rc = mint_check(a, &e);

	if (rc == 0)
		rc = args_duration(a, "ttl", &ttl, &e);
	if (rc >= 0 && args_has(a, "ttl") && ttl == 0)
		rc = err_set(&e, ERR_INVAL, "--ttl is 0: the minimum is 1s");
	if (rc >= 0 && args_has(a, "file-max"))
		rc = args_number(a, "file-max", 1, INT64_MAX, &most, &e);
	if (rc < 0)
		return ctl_fail(c, &e);
	q = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s*,s:s,s:s}", "op", "edge.mint", "edge", a->operands[0], "kind",
		      args_get_or(a, "kind", "agent"), "agent", args_get(a, "agent"), "principal",
		      args_get(a, "principal"), "scopes", args_get(a, "scopes"), "task", args_get(a, "task"), "reason",
		      args_get(a, "reason"));
	args_patterns(a, "read", q);
	args_patterns(a, "write", q);
	if (q && most)
		json_object_set_new(q, "file_max", json_integer(most));
	if (q && ttl)
		json_object_set_new(q, "ttl_ns", json_integer((json_int_t)ttl));
	return edge_print(c, q, minted_columns);
}

static int edge_revoke_run(struct ctl *c, const struct ctl_args *a)
{
	return edge_print(c, json_pack("{s:s,s:s}", "op", "edge.revoke", "id", a->operands[0]), NULL);
}

static int edge_show_run(struct ctl *c, const struct ctl_args *a)
{
	(void)a;
	return edge_print(c, json_pack("{s:s}", "op", "edge.show"), NULL);
}

const struct ctl_command edge_commands[] = {
    {"edge mint", "EDGE", 1, 1, "At the centre: mint a lease for an edge of edge.known, and print its token once.",
     mint_options, .run = mint_run},
    {"edge revoke", "LEASE", 1, 1,
     "Revoke a lease and close its sessions: at the edge at once, centre or not; at the centre for all that it made.",
     .run = edge_revoke_run},
    {"edge show", "", 0, 0,
     "Of an edge: its id and keys, for edge.known, and how old what it knows of revocations is. Of a centre: its id "
     "and "
     "keys, which with -o json are the file edge.centre_keys.",
     .run = edge_show_run},
    {0},
};
