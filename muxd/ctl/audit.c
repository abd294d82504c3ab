/* muxctl audit and head: the log over everything, off recorder.sock, or off the disk when no daemon runs. */
#include "base/clock.h"
#include "muxd/ctl/nouns.h"
#include "muxd/ctl/recorded.h"
#include "recorder/chain/chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_DEFAULT 100

static const struct ctl_option audit_options[] = {
    {"follow", 'f', NULL, "Go on with what comes."},
    {"since", 0, "SEQ", "Only events after this one; default: the newest."},
    {"limit", 'n', "N", "At most so many (default 100)."},
    {"agent", 0, "AGENT", "Only of this agent."},
    {"principal", 0, "NAME", "Only of this principal."},
    {"event", 0, "NAME", "Only events of this name, as grant.create."},
    {"lease", 0, "ID", "Only of this lease."},
    {"run", 0, "ID", "Only of this run."},
    {"request", 0, "ID", "Only of the lease that was asked for with this request id."},
    {"session", 0, "ID", "Only events about this session that have it as a field of their own."},
    {"reason", 0, "TEXT", "Reason in the audit log (default: muxctl audit)."},
    {NULL, 0, NULL, NULL},
};

static const struct {
	const char *option, *asked, *field;
} of_lease[] = {
    {"lease", "lease", "lease_id"}, {"run", "run", "run_id"}, {"request", "client_request", "client_request_id"}};

static void print_field(const json_t *record, const char *key, bool named)
{
	char *s = ctl_text(json_object_get(record, key));

	if (s && *s)
		printf(named ? "  %s=%s" : "  %s", named ? key : s, s);
	free(s);
}

/* The rules that let the call through; -o json has their version, too. */
static void print_rules(const json_t *policy)
{
	char *rule = ctl_text(json_object_get(policy, "rule"));
	size_t i;
	json_t *v;

	if (rule && *rule)
		printf("  policy=%s", rule);
	json_array_foreach(json_object_get(policy, "also"), i, v)
	{
		char *also = ctl_text(v);

		printf(",%s", also ? also : "");
		free(also);
	}
	free(rule);
}

/* One line: sequence, time, event, who, on what, outcome; then what else is worth a look. */
static void print_event(const json_t *row)
{
	static const char *const named[] = {"agent",  "outcome", "session", "lease_id", "run_id", "client_request_id",
					    "scopes", "door",    "peer",    "task",     "by",     "detail",
					    "reason"};
	const json_t *record = json_object_get(row, "record");
	char *seq = ctl_text(json_object_get(row, "seq")), *at = ctl_text(json_object_get(row, "at"));
	char *event = ctl_text(json_object_get(record, "event"));

	printf("%6s  %s  %-18s", seq ? seq : "", at ? at : "", event ? event : "");
	print_field(record, "principal", false);
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		print_field(json_object_get(record, named[i]) ? record : row, named[i], true);
	print_rules(json_object_get(record, "policy"));
	putchar('\n');
	free(seq);
	free(at);
	free(event);
}

/* Lines of JSON with -o json: a stream that may never end has no closing bracket. */
static int audit_show(struct ctl *c, const json_t *row)
{
	if (!c->json) {
		print_event(row);
		return fflush(stdout);
	}
	char *text = ctl_json_text(row, JSON_COMPACT);
	if (text)
		puts(text);
	free(text);
	return fflush(stdout);
}

/* *last_seq: the newest event that was shown, from where to go on. */
static int show_all(struct ctl *c, struct ctl_peer *p, json_int_t *last_seq, struct err *e)
{
	for (;;) {
		json_t *row = NULL;
		int rc = ctl_peer_json(c, p, &row, e);
		if (rc < 0)
			return rc;
		bool end = json_is_true(json_object_get(row, "end"));
		if (end)
			recorded_warn(row);
		if (!end && audit_show(c, row) != 0)
			end = true; /* nobody reads any more */
		if (!end)
			*last_seq = json_integer_value(json_object_get(row, "seq"));
		json_decref(row);
		if (end)
			return 0;
	}
}

static json_t *audit_question(const struct ctl_args *a, long long limit, struct err *e)
{
	long long since = 0;
	json_t *q;

	if (args_number(a, "since", 0, INT64_MAX, &since, e) < 0)
		return NULL;
	q = json_pack("{s:s,s:I,s:b,s:s*,s:s*,s:s*,s:s*}", "op", "audit", "limit", (json_int_t)limit, "follow",
		      (int)args_has(a, "follow"), "agent", args_get(a, "agent"), "principal", args_get(a, "principal"),
		      "event", args_get(a, "event"), "session", args_get(a, "session"));
	for (size_t i = 0; q && i < sizeof(of_lease) / sizeof(of_lease[0]); i++)
		if (args_has(a, of_lease[i].option))
			json_object_set_new(q, of_lease[i].asked, json_string(args_get(a, of_lease[i].option)));
	if (q && args_has(a, "since"))
		json_object_set_new(q, "since_seq", json_integer(since));
	return q;
}

static bool audit_has(const struct ctl_args *a, const char *option, const json_t *record, const char *key)
{
	const char *want = args_get(a, option), *have = json_string_value(json_object_get(record, key));

	return !want || (have && strcmp(want, have) == 0);
}

static bool matches(const struct ctl_args *a, const json_t *record)
{
	static const char *const keys[] = {"agent", "principal", "event", "session"};
	bool all = true;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		all = all && audit_has(a, keys[i], record, keys[i]);
	for (size_t i = 0; i < sizeof(of_lease) / sizeof(of_lease[0]); i++)
		all = all && audit_has(a, of_lease[i].option, record, of_lease[i].field);
	return all;
}

/* What cannot be read is named, each time; what stands behind it is still told. */
static int next_sound(struct chain_reader *r, struct chain_entry *en, bool *damaged, struct err *e)
{
	struct err why = {0};
	int rc;

	while ((rc = chain_reader_next(r, en, &why)) == ERR_CORRUPT) {
		char *text = ctl_clean(why.message);
		fprintf(stderr, "muxctl: the log is damaged: %s\n", text ? text : "");
		free(text);
		*damaged = true;
	}
	return rc < 0 ? err_set(e, rc, "%s", why.message) : rc;
}

/* Without a daemon: the log's files. The newest `limit` that match, unless --since. */
static int audit_offline(struct ctl *c, const struct ctl_args *a, long long limit, struct err *e)
{
	struct chain_reader *r = NULL;
	struct chain_entry en;
	char dir[4096], at[40];
	long long since = 0;
	json_t *rows = json_array(), *record;
	bool damaged = false;
	int rc = ctl_path(c, "record", dir, sizeof(dir), e);

	if (rc == 0)
		rc = args_number(a, "since", 0, INT64_MAX, &since, e);
	if (rc == 0)
		rc = chain_reader_create(dir, 0, &r, e);
	while (rc == 0 && (rc = next_sound(r, &en, &damaged, e)) == 1) {
		record = NULL;
		rc = 0;
		if (en.type != CHAIN_AUDIT || json_parse(en.payload, en.len, MSG_MAX, &record, NULL) < 0)
			continue;
		clock_format_utc(en.wall_ns, at, sizeof(at));
		json_t *row = json_pack("{s:I,s:s,s:o}", "seq", (json_int_t)en.journal_seq, "at", at, "record", record);
		if (row && (long long)en.journal_seq > since && matches(a, record))
			json_array_append(rows, row);
		json_decref(row);
		if ((long long)json_array_size(rows) > limit)
			json_array_remove(rows, args_has(a, "since") ? (size_t)limit : 0);
	}
	for (size_t i = 0; rc == 0 && i < json_array_size(rows); i++)
		if (audit_show(c, json_array_get(rows, i)) != 0)
			break;
	chain_reader_destroy(r);
	json_decref(rows);
	return rc ? rc : damaged ? err_set(e, ERR_CORRUPT, "the log is damaged: events may be missing or changed") : 0;
}

/* With one grant. */
static int audit_turn(struct ctl *c, const struct ctl_args *a, json_t *q, json_int_t *last_seq, struct err *e)
{
	struct ctl_wish w = {
	    .kind = "auditor", .agent = "*", .scopes = "replay", .reason = args_get_or(a, "reason", "muxctl audit")};
	struct ctl_peer p;
	int rc = ctl_peer_ask(c, q, &w, &p, e);

	if (rc == 0)
		rc = show_all(c, &p, last_seq, e);
	ctl_peer_close(&p);
	return rc;
}

/* A follower that outlasts its grant asks for the next one, which is audited like the first. */
static int audit_online(struct ctl *c, const struct ctl_args *a, json_t *q, struct err *e)
{
	json_int_t last_seq = -1;
	int rc;

	for (;;) {
		rc = audit_turn(c, a, q, &last_seq, e);
		if (rc != ERR_TOKEN_EXPIRED || !args_has(a, "follow"))
			return rc;
		if (last_seq >= 0 && json_object_set_new(q, "since_seq", json_integer(last_seq)) < 0)
			return err_set(e, ERR_NOMEM, "no memory for the question");
		*e = (struct err){0};
		c->hint[0] = '\0';
	}
}

static int audit_run(struct ctl *c, const struct ctl_args *a)
{
	long long limit = LIMIT_DEFAULT;
	struct err e = {0};
	int rc = args_number(a, "limit", 1, 1000, &limit, &e);
	json_t *q = rc < 0 ? NULL : audit_question(a, limit, &e);

	if (!q && e.code == 0)
		err_set(&e, ERR_NOMEM, "no memory for the question");
	rc = q ? audit_online(c, a, q, &e) : e.code;
	json_decref(q);
	if (rc == ERR_UNAVAILABLE && !args_has(a, "follow")) {
		struct err offline = {0};
		rc = audit_offline(c, a, limit, &offline);
		if (rc != ERR_NOT_FOUND && rc != ERR_SYS) /* no log here: then that nobody answers is what counts */
			e = offline, c->hint[0] = '\0';
	}
	return rc < 0 ? ctl_fail(c, &e) : 0;
}

/* The last head in the files; it was signed when it was written. */
static int last_head(struct ctl *c, struct chain_head *out, struct err *e)
{
	struct chain_reader *r = NULL;
	struct chain_entry en;
	char dir[4096];
	bool found = false;
	int rc = ctl_path(c, "record", dir, sizeof(dir), e);

	if (rc == 0)
		rc = chain_reader_create(dir, 0, &r, e);
	while (rc == 0 && (rc = chain_reader_next(r, &en, e)) == 1)
		rc = en.type == CHAIN_HEAD && chain_entry_head(r, &en, out) == 0 ? (found = true, 0) : 0;
	chain_reader_destroy(r);
	return rc == 0 && !found ? err_set(e, ERR_NOT_FOUND, "the log has no signed head yet") : rc;
}

static int head_offline(struct ctl *c, json_t **out, struct err *e)
{
	struct chain_head head;
	int rc = last_head(c, &head, e);

	if (rc < 0)
		return rc;
	char *text = chain_head_export(&head);
	rc = text ? json_parse(text, strlen(text), MSG_MAX, out, e) : err_set(e, ERR_NOMEM, "no memory");
	free(text);
	return rc;
}

static const struct ctl_option head_options[] = {
    {"witness", 0, NULL, "Whom it is carried to, and how far each is behind."},
    {NULL, 0, NULL, NULL},
};

static int head_run(struct ctl *c, const struct ctl_args *a)
{
	struct ctl_wish w = {.kind = "auditor", .agent = "*", .scopes = "replay", .reason = "muxctl head"};
	json_t *head = NULL;
	struct err e = {0};
	bool witness = args_has(a, "witness");
	int rc = ctl_ask(c, json_pack("{s:s}", "op", witness ? "witnesses" : "head"), &w, "head", &head, &e);

	if (rc == 0)
		json_object_del(head, "end");
	if (rc == ERR_UNAVAILABLE && !witness)
		rc = head_offline(c, &head, &e);
	int status = rc < 0 ? ctl_fail(c, &e) : ctl_print_json(c, head);
	json_decref(head);
	return status;
}

const struct ctl_command audit_commands[] = {
    {"head", "", 0, 0, "Print the record's signed head, to keep elsewhere for verify --expect-head.", head_options,
     .run = head_run},
    {"audit", "", 0, 0, "Show the audit log: the newest events, or new ones as they come (--follow).", audit_options,
     .run = audit_run},
    {0},
};
