/* muxctl session: what runs (asked of the hub) and what was (recorded.h). */
#include "base/ids.h"
#include "muxd/ctl/entered.h"
#include "muxd/ctl/nouns.h"
#include "muxd/ctl/people.h"
#include "muxd/ctl/record.h"
#include "muxd/ctl/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_DEFAULT 100

static const struct ctl_option list_options[] = {
    {"agent", 0, "AGENT", "Only of this agent."},
    {"kind", 0, "KIND", "terminal, exec or round."},
    {"in", 0, "STATE",
     "In this state. Live ones: opening, running, suspended, ending, ended; recorded: open, ended, sealed."},
    {"all", 'a', NULL, "From the record: those that have ended too."},
    {"principal", 0, "NAME", "Only of this principal (with --all)."},
    {"before", 0, "ID", "Older than this one (with --all)."},
    {"limit", 'n', "N", "At most so many, newest first (default 100)."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option terminate_options[] = {
    {"reason", 0, "TEXT", "Why; required."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_column columns[] = {
    {"id", "ID"},     {"kind", "KIND"},        {"state", "STATE"},   {"agent", "AGENT"}, {"principal", "PRINCIPAL"},
    {"task", "TASK"}, {"opened_at", "OPENED"}, {"reason", "REASON"}, {NULL, NULL},
};

static int filters(const struct ctl_args *a, json_t *q, const char *const *keys, struct err *e)
{
	for (; *keys; keys++) {
		const char *option = strcmp(*keys, "state") == 0 ? "in" : *keys; /* --state is the daemon's directory */
		if (args_has(a, option) && json_object_set_new(q, *keys, json_string(args_get(a, option))) < 0)
			return err_set(e, ERR_NOMEM, "no memory for the question");
	}
	return 0;
}

/* One answer's rows, appended; *out_more: the next question is for what did not fit. */
static int live_page(struct ctl *c, json_t *q, json_t *out, bool *out_more, struct err *e)
{
	struct ctl_wish w = {.kind = "staff", .agent = "*", .scopes = "observe,admin", .reason = "muxctl session list"};
	json_t *answer = NULL;
	size_t before = json_array_size(out);
	int rc = ctl_ask(c, "hub.sock", q, &w, &answer, e);

	if (rc == 0 && json_array_extend(out, json_object_get(answer, "sessions")) < 0)
		rc = err_set(e, ERR_PROTOCOL, "the daemon's answer has no list of sessions");
	*out_more = rc == 0 && json_is_true(json_object_get(answer, "more")) && json_array_size(out) > before;
	json_decref(answer);
	return rc;
}

static int live(struct ctl *c, json_t *q, size_t limit, json_t *out, struct err *e)
{
	bool more = true;
	int rc = 0;

	while (rc == 0 && more && json_array_size(out) < limit) {
		size_t n = json_array_size(out);

		json_object_set_new(q, "limit", json_integer((json_int_t)(limit - n)));
		if (n)
			json_object_set(q, "before", json_object_get(json_array_get(out, n - 1), "id"));
		rc = live_page(c, q, out, &more, e);
	}
	return rc;
}

static int session_list_run(struct ctl *c, const struct ctl_args *a)
{
	static const char *const live_keys[] = {"agent", "kind", "state", NULL};
	static const char *const all_keys[] = {"agent", "kind", "state", "principal", "before", NULL};
	bool all = args_has(a, "all");
	long long limit = LIMIT_DEFAULT;
	struct err e = {0};
	int rc = args_number(a, "limit", 1, 1000, &limit, &e);
	json_t *rows = json_array(), *q = json_pack("{s:s,s:I}", "op", "sessions", "limit", (json_int_t)limit);

	if (rc == 0 && !all && (args_has(a, "principal") || args_has(a, "before")))
		rc = err_set(&e, ERR_INVAL, "--principal and --before go with --all");
	if (rc == 0)
		rc = filters(a, q, all ? all_keys : live_keys, &e);
	/* The hub keeps what ended for a while; the list of live ones shows that only when it is asked for. */
	if (!all && !args_has(a, "in"))
		json_object_set_new(q, "live", json_true());
	if (rc == 0)
		rc = all ? recorded_ask(c, q, rows, &e) : live(c, q, (size_t)limit, rows, &e);
	json_decref(q);
	int status = 0;
	if (rc < 0) {
		status = ctl_fail(c, &e);
	} else if (c->json) {
		json_t *o = json_pack("{s:O}", "sessions", rows);
		status = ctl_print_json(c, o);
		json_decref(o);
	} else {
		status = ctl_print_table(c, rows, columns);
	}
	json_decref(rows);
	return status;
}

/* The hub knows most about a live one; of every other the record knows. */
static int find_live(struct ctl *c, const char *id, json_t **out, struct err *e)
{
	json_t *rows = json_array(), *q = json_pack("{s:s,s:s}", "op", "sessions", "session", id);
	int rc = live(c, q, 1, rows, e);

	json_decref(q);
	if (rc == 0 && json_array_size(rows) == 1)
		*out = json_incref(json_array_get(rows, 0));
	else if (rc == 0)
		rc = err_set(e, ERR_NOT_FOUND, "no session %s is live", id);
	json_decref(rows);
	return rc;
}

/* No daemon: what the recording itself says. */
static int find_file(struct ctl *c, const char *id, json_t **out, struct err *e)
{
	struct record *r = NULL;
	int rc = record_open(c, id, "muxctl session show", &r, e);

	if (rc < 0)
		return rc;
	const struct record_facts *f = record_facts(r);
	*out = json_deep_copy(f->open);
	if (*out) {
		json_object_del(*out, "cwd"); /* of the call: where it really began an event tells */
		json_object_set_new(*out, "id", json_string(f->session));
		json_object_set_new(*out, "state", json_string(f->sealed ? "sealed" : "open"));
	} else {
		rc = err_set(e, ERR_CORRUPT, "the recording of %s has no beginning that can be read", id);
	}
	record_close(r);
	return rc;
}

/* The workspace before and after a recorded one: its record knows the first, the daemon the second. */
static void add_moment(struct ctl *c, json_t *o)
{
	const json_t *open = json_object_get(o, "open");
	const char *agent = json_string_value(json_object_get(o, "agent")),
		   *opened = json_string_value(json_object_get(o, "opened_at")),
		   *snapshot = json_string_value(json_object_get(open ? open : o, "snapshot_id"));
	struct ctl_wish w = {.kind = "staff", .agent = agent, .scopes = "observe", .reason = "muxctl session show"};
	json_t *moment = NULL, *q;
	struct err e = {0};

	if (json_object_get(o, "next_snapshot_id") || !agent || !opened)
		return;
	q = json_pack("{s:s,s:s,s:s,s:s}", "op", "sandbox.moment", "agent", agent, "opened_at", opened, "snapshot_id",
		      snapshot ? snapshot : "");
	if (ctl_ask_object(c, "hub.sock", q, &w, "moment", &moment, &e) == 0)
		json_object_update(o, moment);
	else
		c->hint[0] = '\0'; /* without the daemon the record is shown all the same */
	json_decref(moment);
}

/* Of one that has ended its EXIT has both. */
static void add_begun(json_t *o)
{
	static const char *const keys[] = {"cwd", "program"};
	const json_t *exit = json_object_get(o, "exit");

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!json_object_get(o, keys[i]) && json_object_get(exit, keys[i]))
			json_object_set(o, keys[i], json_object_get(exit, keys[i]));
}

static int print_session(struct ctl *c, const json_t *o)
{
	static const struct ctl_column with_moment[] = {
	    {"id", "ID"},
	    {"kind", "KIND"},
	    {"state", "STATE"},
	    {"agent", "AGENT"},
	    {"principal", "PRINCIPAL"},
	    {"task", "TASK"},
	    {"opened_at", "OPENED"},
	    {"reason", "REASON"},
	    {"cwd", "began in"},
	    {"program", "program file"},
	    {"snapshot_id", "snapshot before"},
	    {"next_snapshot_id", "snapshot after"},
	    {NULL, NULL},
	};
	int status = ctl_print_object(c, o, with_moment);
	const char *id = json_string_value(json_object_get(o, "id"));

	if (!status && id && json_is_string(json_object_get(o, "snapshot_id")))
		printf("%-22s muxctl sandbox fork --from-session %s\n", "to look into it", id);
	return status;
}

static int print_json(struct ctl *c, json_t *o, json_t *people)
{
	if (people)
		json_object_set(o, "people", people);
	return ctl_print_json(c, o);
}

static int show_run(struct ctl *c, const struct ctl_args *a)
{
	const char *id = a->operands[0];
	json_t *o = NULL;
	struct err e = {0};
	struct id parsed;
	bool offline = false;
	int rc = id_parse(id, &parsed) < 0 ? err_set(&e, ERR_INVAL, "\"%.60s\" is not a session id", id) : 0;

	if (rc == 0)
		rc = find_live(c, id, &o, &e);
	if (rc == ERR_NOT_FOUND || rc == ERR_UNAVAILABLE) {
		c->hint[0] = '\0';
		offline = rc == ERR_UNAVAILABLE;
		rc = !offline ? recorded_find(c, id, &o, &e) : find_file(c, id, &o, &e);
	}
	if (rc < 0)
		return ctl_fail(c, &e);
	add_moment(c, o);
	add_begun(o);
	json_t *people = people_read(c, id);
	int status = c->json ? 0 : print_session(c, o);
	if (!c->json && people)
		people_print(people);
	entered_add(c, o, offline);
	if (c->json)
		status = print_json(c, o, people);
	else
		entered_print(o);
	json_decref(people);
	json_decref(o);
	return status;
}

static int terminate_run(struct ctl *c, const struct ctl_args *a)
{
	struct err e = {0};
	json_t *answer = NULL;

	if (!args_has(a, "reason")) {
		err_set(&e, ERR_REASON_REQUIRED, "--reason is missing");
		return ctl_fail(c, &e);
	}
	struct ctl_wish w = {
	    .kind = "staff", .agent = "*", .scopes = "terminal,rounds,drive,admin", .reason = args_get(a, "reason")};
	json_t *q = json_pack("{s:s,s:s,s:s}", "op", "session.terminate", "session", a->operands[0], "reason",
			      args_get(a, "reason"));
	if (ctl_ask_object(c, "hub.sock", q, &w, NULL, &answer, &e) < 0)
		return ctl_fail(c, &e);
	int status = c->json ? ctl_print_json(c, answer) : 0;
	json_decref(answer);
	return status;
}

const struct ctl_command session_list_command = {
    .name = "session list",
    .operands = "",
    .help = "Live sessions; with --all those of the record.",
    .options = list_options,
    .run = session_list_run,
};

const struct ctl_command session_show_command = {
    .name = "session show",
    .operands = "ID",
    .min = 1,
    .max = 1,
    .help = "One session, live or recorded.",
    .run = show_run,
};

const struct ctl_command session_terminate_command = {
    .name = "session terminate",
    .operands = "ID",
    .min = 1,
    .max = 1,
    .help = "End a session: HUP, TERM, KILL.",
    .options = terminate_options,
    .run = terminate_run,
};
