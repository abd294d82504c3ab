/* muxctl filespace: the files of an agent in step with the owner's store, asked of the API. */
#include "base/err.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/nouns.h"

#include <string.h>

static const struct ctl_column sync_columns[] = {
    {"direction", "direction"}, {"copied", "copied"},       {"deleted", "deleted"},
    {"bytes", "bytes"},         {"conflicts", "conflicts"}, {"left_out", "left out"},
    {"files", "files"},         {"duration_ms", "ms"},      {NULL, NULL},
};
static const struct ctl_column status_columns[] = {
    {"synced", "synced"}, {"state", "state"}, {"agreed_at", "agreed at"},
    {"pull", "pull"},     {"push", "push"},   {NULL, NULL},
};

static int filespace_ask(struct ctl *c, const struct ctl_args *a, const char *scopes, const struct api_call *call,
			 json_t **out, struct err *e)
{
	const struct ctl_wish w = {.kind = "staff",
				   .agent = a->operands[0],
				   .scopes = scopes,
				   .reason = args_get_or(a, "reason", "muxctl filespace")};

	return api_ask(c, &w, call, out, e);
}

static int sync_run(struct ctl *c, const struct ctl_args *a)
{
	const char *direction = args_get_or(a, "direction", "push");
	struct api_call call = {.method = "POST",
				.path = "/v1/agents/*/filespace/sync",
				.names = {a->operands[0]},
				.body = json_pack("{s:s}", "direction", direction)};
	json_t *o = NULL;
	struct err e = {0};
	int rc = filespace_ask(c, a, "files", &call, &o, &e);

	return ctl_finish(c, rc, &e, o, NULL, sync_columns);
}

static int status_run(struct ctl *c, const struct ctl_args *a)
{
	struct api_call call = {.method = "GET", .path = "/v1/agents/*/filespace", .names = {a->operands[0]}};
	json_t *o = NULL;
	struct err e = {0};
	int rc = filespace_ask(c, a, "files", &call, &o, &e);

	return ctl_finish(c, rc, &e, o, NULL, status_columns);
}

#define REASON                                                                                                         \
	{"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl filespace)."},                      \
	{                                                                                                              \
		NULL, 0, NULL, NULL                                                                                    \
	}

static const struct ctl_option only_reason[] = {REASON};
static const struct ctl_option sync_options[] = {
    {"direction", 0, "WAY", "push: to the store (default); pull: from there."}, REASON};

const struct ctl_command filespace_commands[] = {
    {"filespace sync", "AGENT", 1, 1, "Bring the files of an agent and the owner's store in step.", sync_options,
     .run = sync_run},
    {"filespace status", "AGENT", 1, 1, "Show how the last syncs of an agent went.", only_reason, .run = status_run},
    {0},
};
