/* muxctl services: services inside sandboxes, asked of the API. */
#include "base/err.h"
#include "base/text.h"
#include "base/visible.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/listed.h"
#include "muxd/ctl/nouns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ctl_column list_columns[] = {
    {"name", "SERVICE"}, {"state", "STATE"}, {"port", "PORT"}, {"restarts", "RESTARTS"},
    {"argv", "ARGV"},    {"why", "WHY"},     {NULL, NULL},
};
static const struct ctl_column one_columns[] = {
    {"name", "service"},    {"state", "state"},       {"why", "why"},
    {"program", "program"}, {"failures", "failures"}, {"restarts", "restarts"},
    {"port", "port"},       {"argv", "argv"},         {"retry_in_ms", "retry ms"},
    {NULL, NULL},
};

static int services_ask(struct ctl *c, const struct ctl_args *a, const char *scopes, const struct api_call *call,
			json_t **out, struct err *e)
{
	const struct ctl_wish w = {.kind = "staff",
				   .agent = a->operands[0],
				   .scopes = scopes,
				   .reason = args_get_or(a, "reason", "muxctl services")};

	return api_ask(c, &w, call, out, e);
}

static int services_list_run(struct ctl *c, const struct ctl_args *a)
{
	const char *version = args_get(a, "version");
	struct api_call call = {.method = "GET",
				.path = "/v1/agents/*/services",
				.names = {a->operands[0]},
				.query = version ? json_pack("{s:s}", "version", version) : NULL};
	json_t *o = NULL;
	struct err e = {0};
	int rc = services_ask(c, a, "rounds", &call, &o, &e);

	return ctl_finish(c, rc, &e, o, "services", list_columns);
}

/* Of one that is shown: its own object, that of JSON the whole answer. */
static int one_finish(struct ctl *c, int rc, const struct err *e, json_t *o)
{
	json_t *one;

	if (rc || c->json)
		return ctl_finish(c, rc, e, o, NULL, one_columns);
	one = json_incref(json_object_get(o, "service"));
	json_decref(o);
	return ctl_finish(c, 0, e, one, NULL, one_columns);
}

static int services_show_run(struct ctl *c, const struct ctl_args *a)
{
	struct api_call call = {
	    .method = "GET", .path = "/v1/agents/*/services/*", .names = {a->operands[0], a->operands[1]}};
	json_t *o = NULL;
	struct err e = {0};
	int rc = services_ask(c, a, "rounds", &call, &o, &e);

	return one_finish(c, rc, &e, o);
}

/* A list, or what `muxctl -o json services list` prints. */
static int set_run(struct ctl *c, const struct ctl_args *a)
{
	static const char *const states[] = {"state",    "why",      "program",     "healthy", "failures",
					     "restarts", "since_ms", "retry_in_ms", NULL};
	const char *version = args_get(a, "if-version");
	struct api_call call = {.method = "PUT", .path = "/v1/agents/*/services", .names = {a->operands[0]}};
	json_t *from = NULL, *list = NULL, *o = NULL;
	struct err e = {0};
	int rc = listed_read(a->operands[1], LISTED_MAX, "the list", &from, &e);

	if (!rc) {
		list = json_incref(json_is_array(from) ? from : json_object_get(from, "services"));
		if (!list)
			rc = err_set(&e, ERR_INVAL, "%.200s: is no list of services", a->operands[1]);
	}
	if (!rc) {
		listed_forget(list, states);
		call.body = json_pack("{s:O}", "services", list);
		call.query = version ? json_pack("{s:s}", "if_version", version) : NULL;
		rc = services_ask(c, a, "lifecycle", &call, &o, &e);
	}
	json_decref(list);
	json_decref(from);
	return ctl_finish(c, rc, &e, o, "services", list_columns);
}

static int log_run(struct ctl *c, const struct ctl_args *a)
{
	long long bytes = LISTED_MAX;
	char most[24];
	struct api_call call = {
	    .method = "GET", .path = "/v1/agents/*/services/*/log", .names = {a->operands[0], a->operands[1]}};
	json_t *o = NULL;
	struct err e = {0};
	int rc = args_number(a, "bytes", 1, LISTED_MAX, &bytes, &e);

	text_format(most, sizeof(most), "%lld", bytes);
	if (!rc) {
		call.query = json_pack("{s:s}", "bytes", most);
		rc = services_ask(c, a, "observe", &call, &o, &e);
	}
	if (!rc && !c->json) {
		const char *text = json_get_text(o, "data");
		char *shown = visible_dup(text, strlen(text), LISTED_MAX * 4, VISIBLE_LINES);

		if (shown && *shown)
			printf("%s%s", shown, shown[strlen(shown) - 1] == '\n' ? "" : "\n");
		free(shown);
	}
	return ctl_finish_quietly(c, rc, &e, o);
}

static int restart_run(struct ctl *c, const struct ctl_args *a)
{
	const char *reason = args_get(a, "reason");
	struct api_call call = {.method = "POST",
				.path = "/v1/agents/*/services/*/restart",
				.names = {a->operands[0], a->operands[1]},
				.body = json_pack("{s:s*}", "reason", reason)};
	json_t *o = NULL;
	struct err e = {0};
	int rc = services_ask(c, a, "lifecycle", &call, &o, &e);

	return one_finish(c, rc, &e, o);
}

#define REASON                                                                                                         \
	{"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl services)."},                       \
	{                                                                                                              \
		NULL, 0, NULL, NULL                                                                                    \
	}

static const struct ctl_option only_reason[] = {REASON};
static const struct ctl_option list_options[] = {{"version", 0, "N", "A version that was before, without states."},
						 REASON};
static const struct ctl_option set_options[] = {
    {"if-version", 0, "N", "Only where the list is at this version; 0: where there is none."}, REASON};
static const struct ctl_option log_options[] = {{"bytes", 'n', "N", "The last so many (default and most: 65536)."},
						REASON};

const struct ctl_command services_commands[] = {
    {"services list", "AGENT", 1, 1, "List the services inside a sandbox and their states.", list_options,
     .run = services_list_run},
    {"services set", "AGENT FILE", 2, 2, "Set the services of an agent.", set_options, .run = set_run,
     .more = "FILE (- for standard input) is a list of services, or what `muxctl -o json services list` prints.\n"},
    {"services show", "AGENT SERVICE", 2, 2, "Show one service inside a sandbox.", only_reason,
     .run = services_show_run},
    {"services log", "AGENT SERVICE", 2, 2, "Print the end of what a service said.", log_options, .run = log_run},
    {"services restart", "AGENT SERVICE", 2, 2, "Begin a service anew, also one that is held.", only_reason,
     .run = restart_run},
    {0},
};
