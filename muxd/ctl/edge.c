/* muxctl edge: leases at the centre and at the edge, asked of the monitor on admin.sock. */
#include "base/clock.h"
#include "muxd/ctl/nouns.h"
#include "policy/grant_bounds.h"
#include "recorder/chain/merged.h"
#include "recorder/verify/verify_merged.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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
    {"uses", 0, "N", "How often it may open something; default: no number."},
    {"operations", 0, "LIST", "Operations by name, as round.start,file.read (muxctl policy operations). Default: all."},
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
	long long most = 0, uses = 0;
	struct err e = {0};
	json_t *q;
	int rc = mint_check(a, &e);

	if (rc == 0)
		rc = args_duration(a, "ttl", &ttl, &e);
	if (rc >= 0 && args_has(a, "ttl") && ttl == 0)
		rc = err_set(&e, ERR_INVAL, "--ttl is 0: the minimum is 1s");
	if (rc >= 0 && args_has(a, "file-max"))
		rc = args_number(a, "file-max", 1, INT64_MAX, &most, &e);
	if (rc >= 0 && args_has(a, "uses"))
		rc = args_number(a, "uses", 1, GRANT_USES_MAX, &uses, &e);
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
	args_bounds(a, uses, q);
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

/* ---- what edges recorded, as the centre has it; offline */

struct records {
	struct ctl *c;
	const char *name; /* of the log that is asked for; NULL: all */
	const struct merged_batch *batch;
	int64_t after;
};

static int one_record(void *arg, const struct chain_entry *en)
{
	const struct records *r = arg;
	char id[ID_STR_LEN], at[40], *text;
	json_t *event = NULL, *o;

	if (en->type != CHAIN_AUDIT || (int64_t)en->seq <= r->after || chain_entry_json(en, &event))
		return 0;
	id_format(&r->batch->from.log_id, id);
	clock_format_utc(en->wall_ns, at, sizeof(at));
	o = json_pack("{s:s,s:s,s:I,s:s,s:o}", "edge", r->batch->name, "log_id", id, "seq", (json_int_t)en->seq, "time",
		      at, "event", event);
	text = o ? ctl_json_text(o, JSON_COMPACT) : NULL;
	json_decref(o);
	if (!text)
		return ERR_NOMEM;
	puts(text);
	free(text);
	return 0;
}

/* Batches in the order of this log. Another that cannot be read ends the list: verify says which. */
static int each_batch(struct records *r, const char *dir, struct verify_merged *v, struct err *e)
{
	struct chain_reader *reader = NULL;
	struct merged_batch b;
	struct chain_entry en;
	int rc = chain_reader_create(dir, 0, &reader, e);

	while (rc == 0 && (rc = chain_reader_next(reader, &en, e)) == 1) {
		rc = 0;
		if (en.type != CHAIN_MERGED)
			continue;
		rc = verify_merged_take(v, dir, &en, e);
		if (rc == 0)
			rc = merged_of(&en, &b);
		if (rc || (r->name && strcmp(r->name, b.name) != 0))
			continue;
		r->batch = &b;
		rc = merged_each_of(dir, &b, one_record, r, e);
	}
	chain_reader_destroy(reader);
	return rc;
}

static int edge_records_run(struct ctl *c, const struct ctl_args *a)
{
	struct records r = {.c = c, .name = a->noperands ? a->operands[0] : NULL};
	struct verify_merged v = {0};
	long long after = 0;
	char dir[4096];
	struct err e = {0};
	int rc = args_number(a, "after", 0, INT64_MAX, &after, &e);

	r.after = after;
	if (rc >= 0)
		rc = ctl_path(c, "record", dir, sizeof(dir), &e);
	if (rc == 0)
		rc = each_batch(&r, dir, &v, &e);
	verify_merged_finish(&v);
	return rc < 0 ? ctl_fail(c, &e) : 0;
}

static const struct ctl_option records_options[] = {
    {"after", 0, "SEQ", "Only entries of that log behind this one."},
    {NULL, 0, NULL, NULL},
};

const struct ctl_command edge_commands[] = {
    {"edge mint", "EDGE", 1, 1, "At the centre: mint a lease for an edge of edge.known, and print its token once.",
     mint_options, .run = mint_run},
    {"edge revoke", "LEASE", 1, 1,
     "Revoke a lease and close its sessions: at the edge at once, centre or not; at the centre for all that it made.",
     .run = edge_revoke_run},
    {"edge records", "[NAME]", 0, 1,
     "At the centre, offline: audit events of edges as they were merged here, in their order, a JSON object a line.",
     records_options, .run = edge_records_run},
    {"edge show", "", 0, 0,
     "Of an edge: its id and keys, for edge.known, and how old what it knows of revocations is. Of a centre: its id "
     "and "
     "keys, which with -o json are the file edge.centre_keys.",
     .run = edge_show_run},
    {0},
};
