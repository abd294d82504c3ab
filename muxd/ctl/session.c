/* muxctl session: what runs (asked of the hub) and what was (recorded.h). */
#include "base/ids.h"
#include "muxd/ctl/api.h"
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

/* q: filters, which become the query. */
static int live(struct ctl *c, json_t *q, long long limit, json_t *out, struct err *e)
{
	struct ctl_wish w = {.kind = "staff", .agent = "*", .scopes = "observe,admin", .reason = "muxctl session list"};
	struct api_call call = {.method = "GET", .path = "/v1/sessions", .query = json_incref(q)};
	char most[24];
	json_t *answer = NULL;
	int rc;

	snprintf(most, sizeof(most), "%lld", limit);
	json_object_set_new(q, "limit", json_string(most));
	rc = api_ask(c, &w, &call, &answer, e);
	if (rc == 0 && json_array_extend(out, json_object_get(answer, "sessions")) < 0)
		rc = err_set(e, ERR_PROTOCOL, "the daemon's answer has no list of sessions");
	json_decref(answer);
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
	json_t *rows = json_array(), *q = json_object();

	if (rc == 0 && !all && (args_has(a, "principal") || args_has(a, "before")))
		rc = err_set(&e, ERR_INVAL, "--principal and --before go with --all");
	if (rc == 0)
		rc = filters(a, q, all ? all_keys : live_keys, &e);
	/* The hub keeps what ended for a while; the list of live ones shows that only when it is asked for. */
	if (!all && !args_has(a, "in"))
		json_object_set_new(q, "live", json_string("true"));
	if (rc == 0 && all) {
		json_object_set_new(q, "op", json_string("sessions"));
		json_object_set_new(q, "limit", json_integer(limit));
		rc = recorded_ask(c, q, rows, &e);
	} else if (rc == 0) {
		rc = live(c, q, limit, rows, &e);
	}
	json_decref(q);
	return ctl_finish(c, rc, &e, json_pack("{s:o}", "sessions", rows), "sessions", columns);
}

/* The hub knows most about a live one; of every other the record knows. */
static int find_live(struct ctl *c, const char *id, json_t **out, struct err *e)
{
	struct ctl_wish w = {.kind = "staff", .agent = "*", .scopes = "observe,admin", .reason = "muxctl session list"};

	return api_ask(c, &w, &(struct api_call){.method = "GET", .path = "/v1/sessions/*", .names = {id}}, out, e);
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
	struct api_call call = {.method = "GET", .path = "/v1/agents/*/moment", .names = {agent}};
	json_t *moment = NULL;
	struct err e = {0};

	if (json_object_get(o, "next_snapshot_id") || !agent || !opened)
		return;
	call.query = json_pack("{s:s,s:s}", "opened_at", opened, "snapshot_id", snapshot ? snapshot : "");
	if (api_ask(c, &w, &call, &moment, &e) == 0)
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
	char *id = ctl_text(json_object_get(o, "id"));

	if (!status && id && *id && json_is_string(json_object_get(o, "snapshot_id")))
		printf("%-22s muxctl sandbox fork --from-session %s\n", "to look into it", id);
	free(id);
	return status;
}

static int print_json(struct ctl *c, json_t *o, json_t *people)
{
	if (people)
		json_object_set(o, "people", people);
	return ctl_print_json(c, o);
}

static int session_show_run(struct ctl *c, const struct ctl_args *a)
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
	struct api_call call = {.method = "POST",
				.path = "/v1/sessions/*/terminate",
				.names = {a->operands[0]},
				.body = json_pack("{s:s}", "reason", args_get(a, "reason"))};
	int rc = api_ask(c, &w, &call, &answer, &e);
	json_decref(answer);
	return ctl_finish_quietly(c, rc, &e, rc ? NULL : json_pack("{s:s}", "session", a->operands[0]));
}

const struct ctl_command session_commands[] = {
    {"session list", "", 0, 0, "List live sessions; with --all, past ones too.", list_options, .run = session_list_run},
    {"session show", "ID", 1, 1, "Show one session, live or past.", .run = session_show_run},
    {"session terminate", "ID", 1, 1, "Terminate a session: HUP, then TERM, then KILL.", terminate_options,
     .run = terminate_run},
    {0},
};
