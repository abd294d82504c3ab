/* muxctl retention and hold: how long recordings are kept, and what is kept whatever that says; off recorder.sock. */
#include "muxd/ctl/nouns.h"
#include "muxd/ctl/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ctl_option reason_options[] = {
    {"reason", 0, "TEXT", "Why; required."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option apply_options[] = {
    {"now", 0, NULL, "Without the rest of the waiting time; required, so that nobody does it by mistake."},
    {"reason", 0, "TEXT", "Why; required."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option add_options[] = {
    {"session", 0, "ID", "This session."},
    {"agent", 0, "AGENT", "What ran in this agent's sandbox; a pod covers its containers."},
    {"principal", 0, "NAME", "What this principal did."},
    {"from", 0, "TIME", "Sessions that ran then or later, as 2026-11-21T08:00:00Z."},
    {"until", 0, "TIME", "Sessions that ran then or before."},
    {"reason", 0, "TEXT", "Why; required."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option list_options[] = {
    {"all", 'a', NULL, "Those that were released, too."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_column hold_columns[] = {
    {"id", "ID"},     {"state", "STATE"}, {"session", "SESSION"}, {"agent", "AGENT"}, {"principal", "PRINCIPAL"},
    {"from", "FROM"}, {"until", "UNTIL"}, {"by", "SET BY"},       {"set_at", "SET"},  {"reason", "REASON"},
    {NULL, NULL},
};

/* The reason of the act is the reason of the grant too. */
static const char *reason_of(const struct ctl_args *a, struct err *e)
{
	const char *reason = args_get(a, "reason");

	if (!reason || !*reason)
		err_set(e, ERR_REASON_REQUIRED, "--reason is missing: say why");
	return reason;
}

static void print_term(const char *name, const json_t *term)
{
	const json_t *next = json_object_get(term, "next");
	char *now = ctl_text(json_object_get(term, "now")), *by = ctl_text(json_object_get(term, "by"));

	bool ever = now && strcmp(now, "0") == 0 && strcmp(name, "retain:") == 0;

	printf("%-13s %s%s%s\n", name, ever ? "for ever" : now ? now : "", by && *by ? ", by " : "", by ? by : "");
	free(now);
	free(by);
	if (!next)
		return;
	char *value = ctl_text(json_object_get(next, "value")), *at = ctl_text(json_object_get(next, "applies_at"));
	char *who = ctl_text(json_object_get(next, "by"));
	printf("%-13s %s from %s on, by %s\n", "  then:", value ? value : "", at ? at : "", who ? who : "");
	free(value);
	free(at);
	free(who);
}

static int print_retention(struct ctl *c, const json_t *o)
{
	if (c->json)
		return ctl_print_json(c, o);
	print_term("retain:", json_object_get(o, "retain"));
	print_term("retain_wait:", json_object_get(o, "retain_wait"));
	printf("%-13s %lld\n", "holds:", (long long)json_integer_value(json_object_get(o, "holds")));
	if (json_is_true(json_object_get(o, "clock_waits")))
		puts("The wall clock ran ahead: nothing is removed for a day of uptime.");
	return fflush(stdout) == 0 ? 0 : err_exit_code(ERR_SYS);
}

static int finish_retention(struct ctl *c, int rc, const struct err *e, json_t *o)
{
	int status = rc < 0 ? ctl_fail(c, e) : print_retention(c, o);

	json_decref(o);
	return status;
}

static int keep_show_run(struct ctl *c, const struct ctl_args *a)
{
	struct ctl_wish w = {.kind = "auditor", .agent = "*", .scopes = "replay", .reason = "muxctl retention show"};
	json_t *o = NULL;
	struct err e = {0};
	int rc = ctl_ask(c, json_pack("{s:s}", "op", "retention"), &w, "retention", &o, &e);

	(void)a;
	return finish_retention(c, rc, &e, o);
}

static int apply_run(struct ctl *c, const struct ctl_args *a)
{
	struct ctl_wish w = {.kind = "staff", .agent = "*", .scopes = "admin"};
	json_t *o = NULL;
	struct err e = {0};
	int rc = args_has(a, "now")
		     ? 0
		     : err_set(&e, ERR_INVAL,
			       "without --now nothing is to be done: a shorter retention comes into force by itself");

	w.reason = rc ? NULL : reason_of(a, &e);
	rc = rc ? rc : e.code;
	if (rc == 0)
		rc = ctl_ask(c, json_pack("{s:s,s:s}", "op", "retention.apply", "reason", w.reason), &w, "retention",
			     &o, &e);
	return finish_retention(c, rc, &e, o);
}

static int add_run(struct ctl *c, const struct ctl_args *a)
{
	struct ctl_wish w = {.kind = "auditor", .agent = "*", .scopes = "replay"};
	json_t *o = NULL, *q;
	struct err e = {0};

	w.reason = reason_of(a, &e);
	if (e.code)
		return ctl_fail(c, &e);
	q = json_pack("{s:s,s:s,s:s*,s:s*,s:s*,s:s*,s:s*}", "op", "hold.add", "reason", w.reason, "session",
		      args_get(a, "session"), "agent", args_get(a, "agent"), "principal", args_get(a, "principal"),
		      "from", args_get(a, "from"), "until", args_get(a, "until"));
	int rc = ctl_ask(c, q, &w, NULL, &o, &e);
	char *id = ctl_text(json_object_get(o, "hold"));
	int status = rc < 0 ? ctl_fail(c, &e) : c->json ? ctl_print_json(c, o) : puts(id ? id : "") < 0;
	free(id);
	json_decref(o);
	return status;
}

static int keep_list_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *rows = json_array(), *q = json_pack("{s:s,s:b}", "op", "holds", "all", (int)args_has(a, "all"));
	struct err e = {0};
	int rc = rows && q ? recorded_rows(c, "muxctl hold list", "id", q, rows, &e)
			   : err_set(&e, ERR_NOMEM, "no memory for the question");
	int status = rc < 0    ? ctl_fail(c, &e)
		     : c->json ? ctl_print_json(c, rows)
			       : ctl_print_table(c, rows, hold_columns);

	json_decref(rows);
	json_decref(q);
	return status;
}

static int release_run(struct ctl *c, const struct ctl_args *a)
{
	struct ctl_wish w = {.kind = "staff", .agent = "*", .scopes = "admin"};
	json_t *o = NULL;
	struct err e = {0};

	w.reason = reason_of(a, &e);
	if (e.code)
		return ctl_fail(c, &e);
	int rc =
	    ctl_ask(c, json_pack("{s:s,s:s,s:s}", "op", "hold.release", "hold", a->operands[0], "reason", w.reason), &w,
		    NULL, &o, &e);
	return ctl_finish_quietly(c, rc, &e, o);
}

const struct ctl_command keep_commands[] = {
    {"retention show", "", 0, 0, "Show how long recordings are kept, and which changes are due.", .run = keep_show_run},
    {"retention apply", "", 0, 0, "Apply a pending shorter retention now.", apply_options, .run = apply_run},
    {"hold add", "", 0, 0,
     "Place a legal hold: matching recordings are kept whatever retention says. All options given must match.",
     add_options, .run = add_run},
    {"hold list", "", 0, 0, "List legal holds, who placed them and why.", list_options, .run = keep_list_run},
    {"hold release", "ID", 1, 1, "Release a legal hold; retention applies again.", reason_options, .run = release_run},
    {0},
};
