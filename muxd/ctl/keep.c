/* muxctl retention and hold: how long recordings are kept, and what is kept whatever that says; off recorder.sock. */
#include "muxd/ctl/nouns.h"
#include "muxd/ctl/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ctl_option show_options[] = {
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

static const struct ctl_option release_options[] = {
    {"reason", 0, "TEXT", "Why; required."},
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

static int show_run(struct ctl *c, const struct ctl_args *a)
{
	struct ctl_wish w = {.kind = "auditor", .agent = "*", .scopes = "replay", .reason = "muxctl retention show"};
	json_t *o = NULL;
	struct err e = {0};
	int rc = ctl_ask_object(c, "recorder.sock", json_pack("{s:s}", "op", "retention"), &w, "retention", &o, &e);

	(void)a;
	int status = rc < 0 ? ctl_fail(c, &e) : print_retention(c, o);
	json_decref(o);
	return status;
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
		rc = ctl_ask_object(c, "recorder.sock",
				    json_pack("{s:s,s:s}", "op", "retention.apply", "reason", w.reason), &w,
				    "retention", &o, &e);
	int status = rc < 0 ? ctl_fail(c, &e) : print_retention(c, o);
	json_decref(o);
	return status;
}

static int add_run(struct ctl *c, const struct ctl_args *a)
{
	static const char *const keys[] = {"session", "agent", "principal", "from", "until"};
	struct ctl_wish w = {.kind = "auditor", .agent = "*", .scopes = "replay"};
	json_t *o = NULL, *q;
	struct err e = {0};

	w.reason = reason_of(a, &e);
	if (e.code)
		return ctl_fail(c, &e);
	q = json_pack("{s:s,s:s}", "op", "hold.add", "reason", w.reason);
	for (size_t i = 0; q && i < sizeof(keys) / sizeof(keys[0]); i++)
		if (args_has(a, keys[i]))
			json_object_set_new(q, keys[i], json_string(args_get(a, keys[i])));
	int rc = ctl_ask_object(c, "recorder.sock", q, &w, NULL, &o, &e);
	const char *id = json_string_value(json_object_get(o, "hold"));
	int status = rc < 0 ? ctl_fail(c, &e) : c->json ? ctl_print_json(c, o) : puts(id ? id : "") < 0;
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
	    ctl_ask_object(c, "recorder.sock",
			   json_pack("{s:s,s:s,s:s}", "op", "hold.release", "hold", a->operands[0], "reason", w.reason),
			   &w, NULL, &o, &e);
	int status = rc < 0 ? ctl_fail(c, &e) : c->json ? ctl_print_json(c, o) : 0;
	json_decref(o);
	return status;
}

const struct ctl_command retention_show_command = {
    .name = "retention show",
    .operands = "",
    .help = "How long recordings are kept, and what will change when.",
    .options = show_options,
    .run = show_run,
};

const struct ctl_command retention_apply_command = {
    .name = "retention apply",
    .operands = "",
    .help = "Let a shorter retention that waits come into force now.",
    .options = apply_options,
    .run = apply_run,
};

const struct ctl_command hold_add_command = {
    .name = "hold add",
    .operands = "",
    .help = "Keep recordings whatever retention says (legal hold). Options that are given together must all fit.",
    .options = add_options,
    .run = add_run,
};

const struct ctl_command hold_list_command = {
    .name = "hold list",
    .operands = "",
    .help = "What is held, by whom and why.",
    .options = list_options,
    .run = keep_list_run,
};

const struct ctl_command hold_release_command = {
    .name = "hold release",
    .operands = "ID",
    .min = 1,
    .max = 1,
    .help = "Release a legal hold: retention decides again.",
    .options = release_options,
    .run = release_run,
};
