/* muxctl artifact: files of a task that outlive their sandbox, asked of the API. */
#include "base/ids.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/content.h"
#include "muxd/ctl/nouns.h"
#include "muxd/ctl/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE "1000"

static const struct ctl_column one_columns[] = {
    {"name", "name"}, {"size", "size"}, {"sha256", "sha256"}, {"expires_at", "expires"}, {NULL, NULL},
};

static const struct ctl_column list_columns[] = {
    {"name", "NAME"},   {"size", "SIZE"},           {"created_at", "CREATED"}, {"expires_at", "EXPIRES"},
    {"agent", "AGENT"}, {"principal", "PRINCIPAL"}, {"sha256", "SHA256"},      {NULL, NULL},
};

/* Every agent's: the task decides what is reached. */
static struct ctl_wish artifact_wish(const struct ctl_args *a, const char *scopes)
{
	return (struct ctl_wish){.kind = "service",
				 .agent = "*",
				 .scopes = scopes,
				 .task = a->operands[0],
				 .reason = args_get_or(a, "reason", "muxctl artifact")};
}

/* For a person what matters of it. */
static int artifact_finish(struct ctl *c, int rc, const struct err *e, json_t *o)
{
	static const char *const rest[] = {"task",   "media_type", "base",       "agent",   "round_id",
					   "run_id", "principal",  "created_at", "replaced"};

	for (size_t i = 0; rc == 0 && !c->json && i < sizeof(rest) / sizeof(rest[0]); i++)
		json_object_del(o, rest[i]);
	return ctl_finish(c, rc, e, o, NULL, one_columns);
}

/* ---- put */

static int open_local(const char *local, int *out_fd, struct err *e)
{
	struct stat st;

	*out_fd = strcmp(local, "-") == 0 ? STDIN_FILENO : open(local, O_RDONLY | O_CLOEXEC);
	if (*out_fd < 0 || fstat(*out_fd, &st) < 0)
		return err_sys(e, errno, "open %s", local);
	if (S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVAL, "%s is a directory", local);
	return 0;
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int artifact_put_run(struct ctl *c, const struct ctl_args *a)
{
	const char *local = a->operands[1], *name = a->noperands > 2 ? a->operands[2] : last_name(local);
	struct ctl_wish w = artifact_wish(a, "files");
	struct api_call call = {.method = "PUT",
				.path = "/v1/tasks/*/artifacts/*",
				.names = {a->operands[0], name},
				.query = json_object()};
	json_t *o = NULL;
	struct err e = {0};
	int fd = -1, rc = open_local(local, &fd, &e);

	if (rc == 0 && args_has(a, "sha256"))
		json_object_set_new(call.query, "sha256", json_string(args_get(a, "sha256")));
	if (rc == 0 && args_has(a, "type"))
		json_object_set_new(call.query, "media_type", json_string(args_get(a, "type")));
	if (rc == 0)
		rc = api_stream(c, &w, &call, &(struct api_flow){.in_fd = fd}, &o, &e);
	else
		json_decref(call.query);
	if (fd > STDIN_FILENO)
		close(fd);
	return artifact_finish(c, rc, &e, o);
}

/* ---- get */

static int artifact_get_run(struct ctl *c, const struct ctl_args *a)
{
	const char *name = a->operands[1];
	struct ctl_wish w = artifact_wish(a, "files");
	struct api_call call = {.method = "GET", .path = "/v1/tasks/*/artifacts/*", .names = {a->operands[0], name}};
	char *local = sink_into(a->noperands > 2 ? a->operands[2] : "./", name);
	struct sink sink = {.fd = -1};
	struct content to;
	struct err e = {0};
	int rc = local ? sink_open(local, &sink, &e) : err_set(&e, ERR_NOMEM, "no memory");

	content_open(&to, sink.fd, args_has(a, "raw"));
	if (rc == 0)
		rc = api_stream(c, &w, &call, &(struct api_flow){.in_fd = -1, .take = content_take, .arg = &to}, NULL,
				&e);
	content_close(&to);
	if (rc == 0)
		rc = sink_settle(&sink, -1, &e);
	if (local)
		sink_close(&sink);
	free(local);
	return rc < 0 ? ctl_fail(c, &e) : 0;
}

/* ---- list, rm */

static int list_page(struct ctl *c, const struct ctl_args *a, const char *after, json_t **out, struct err *e)
{
	static const char *const filters[] = {"run", "round"};
	struct ctl_wish w = artifact_wish(a, "files");
	struct api_call call = {.method = "GET",
				.path = "/v1/tasks/*/artifacts",
				.names = {a->operands[0]},
				.query = json_pack("{s:s, s:s*}", "limit", PAGE, "after", after)};

	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
		if (args_has(a, filters[i]))
			json_object_set_new(call.query, filters[i], json_string(args_get(a, filters[i])));
	return api_ask(c, &w, &call, out, e);
}

static int artifact_list_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *all = json_array(), *page = NULL, *o;
	const char *after = NULL;
	struct err e = {0};
	bool more = true;
	int rc = all ? 0 : err_set(&e, ERR_NOMEM, "no memory for the list");

	while (rc == 0 && more) {
		rc = list_page(c, a, after, &page, &e);
		more = rc == 0 && json_is_true(json_object_get(page, "more"));
		if (rc == 0)
			json_array_extend(all, json_object_get(page, "artifacts"));
		json_decref(page);
		page = NULL;
		after = json_string_value(
		    json_object_get(json_array_get(all, json_array_size(all) ? json_array_size(all) - 1 : 0), "name"));
	}
	o = rc ? NULL : json_pack("{s:O}", "artifacts", all);
	json_decref(all);
	return ctl_finish(c, rc, &e, o, "artifacts", list_columns);
}

static int artifact_rm_run(struct ctl *c, const struct ctl_args *a)
{
	struct ctl_wish w = artifact_wish(a, "files");
	struct api_call call = {
	    .method = "DELETE", .path = "/v1/tasks/*/artifacts/*", .names = {a->operands[0], a->operands[1]}};
	json_t *o = NULL;
	struct err e = {0};
	int rc = api_ask(c, &w, &call, &o, &e);

	return artifact_finish(c, rc, &e, o);
}

/* ---- take */

static int artifact_take_run(struct ctl *c, const struct ctl_args *a)
{
	bool file = args_has(a, "agent");
	struct ctl_wish w = artifact_wish(a, file ? "files" : "files,replay");
	json_t *body = json_pack("{s:s, s:s*, s:s*, s:s*}", "name", a->operands[1], "agent", args_get(a, "agent"),
				 "round", args_get(a, "round"), "stream", args_get(a, "stream"));
	struct api_call call = {.method = "POST", .path = "/v1/tasks/*/artifacts", .names = {a->operands[0]}};
	json_t *o = NULL;
	struct err e = {0};
	int rc;

	if (body && args_has(a, "path"))
		json_object_set_new(body, "path", json_text_or_base64(args_get(a, "path")));
	call.body = body;
	rc = api_ask(c, &w, &call, &o, &e);
	return artifact_finish(c, rc, &e, o);
}

/* ---- export */

static int export_body(const struct ctl_args *a, json_t **out, struct err *e)
{
	json_t *changes = json_pack("{s:s*, s:s*, s:s*}", "snapshot", args_get(a, "snapshot"), "git",
				    args_get(a, "git"), "form", args_has(a, "bundle") ? "bundle" : NULL);
	long long max = 0;
	int rc = changes ? 0 : err_set(e, ERR_NOMEM, "no memory for the call");

	if (rc == 0 && args_has(a, "max-bytes"))
		rc = args_number(a, "max-bytes", 1, INT64_MAX, &max, e);
	if (rc == 0 && args_has(a, "path"))
		json_object_set_new(changes, "path", json_text_or_base64(args_get(a, "path")));
	if (rc == 0 && args_has(a, "text-only"))
		json_object_set_new(changes, "text_only", json_true());
	if (rc == 0 && args_has(a, "ignore"))
		json_object_set_new(changes, "ignore", json_pack("[s]", args_get(a, "ignore")));
	if (rc < 0) {
		json_decref(changes);
		return rc;
	}
	*out = json_pack("{s:s, s:s, s:o}", "name", a->operands[1], "agent", args_get_or(a, "agent", ""), "changes",
			 changes);
	if (*out && max)
		json_object_set_new(*out, "max_bytes", json_integer(max));
	return 0;
}

static int artifact_export_run(struct ctl *c, const struct ctl_args *a)
{
	struct ctl_wish w = artifact_wish(a, args_has(a, "git") ? "files,rounds" : "files");
	struct api_call call = {.method = "POST", .path = "/v1/tasks/*/artifacts", .names = {a->operands[0]}};
	json_t *o = NULL;
	struct err e = {0};
	int rc = args_has(a, "agent") ? export_body(a, &call.body, &e) : err_set(&e, ERR_INVAL, "--agent is missing");

	if (rc == 0)
		rc = api_ask(c, &w, &call, &o, &e);
	return artifact_finish(c, rc, &e, o);
}

#define REASON                                                                                                         \
	{"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl artifact)."},                       \
	{                                                                                                              \
		NULL, 0, NULL, NULL                                                                                    \
	}

static const struct ctl_option put_options[] = {{"sha256", 0, "SHA256", "Refused unless the content has this digest."},
						{"type", 0, "TYPE", "Its media type."},
						REASON};
static const struct ctl_option get_options[] = {CONTENT_RAW, REASON};
static const struct ctl_option list_options[] = {
    {"run", 0, "ID", "Only of this run."}, {"round", 0, "ID", "Only of this round."}, REASON};
static const struct ctl_option rm_options[] = {REASON};
static const struct ctl_option take_options[] = {{"agent", 0, "AGENT", "Whose file it is; with --path."},
						 {"path", 0, "PATH", "The file in its sandbox."},
						 {"round", 0, "ID", "Whose output it is, instead."},
						 {"stream", 0, "NAME", "stdout (default) or stderr."},
						 REASON};
static const struct ctl_option export_options[] = {
    {"agent", 0, "AGENT", "Whose workspace it is."},
    {"snapshot", 0, "ID", "The base: a snapshot of the agent."},
    {"git", 0, "REVISION", "The base: a revision that the repository in the workspace knows."},
    {"path", 0, "DIR", "Where the repository is (default: the workspace)."},
    {"bundle", 0, NULL, "With --git: the commits since the base, as git bundle makes it."},
    {"text-only", 0, NULL, "With --snapshot: binary files are named and left out."},
    {"ignore", 0, "PATTERN", "With --snapshot: leave out what matches, as in .gitignore."},
    {"max-bytes", 0, "N", "Refuse one that is larger."},
    REASON};

#define ARTIFACT_COMMAND(verb, operands, min, max, help, more_text)                                                    \
	{                                                                                                              \
		"artifact " #verb, operands, min, max, help, verb##_options, .run = artifact_##verb##_run,             \
									     .more = more_text, .any_bytes = true      \
	}

const struct ctl_command artifact_commands[] = {
    ARTIFACT_COMMAND(put, "TASK LOCAL [NAME]", 2, 3, "Keep a file as an artifact of a task: whole, or not at all.",
		     "LOCAL - is the standard input, of 100 MiB at most. What has the name is replaced.\n"),
    ARTIFACT_COMMAND(get, "TASK NAME [LOCAL]", 2, 3, "Copy an artifact of a task into a file: whole, or not at all.",
		     "LOCAL - is the standard output; a trailing / names a directory.\n"),
    ARTIFACT_COMMAND(list, "TASK", 1, 1, "List the artifacts of a task.", NULL),
    ARTIFACT_COMMAND(rm, "TASK NAME", 2, 2, "Delete an artifact of a task.", NULL),
    ARTIFACT_COMMAND(take, "TASK NAME", 2, 2, "Keep a sandbox's file, or a round's whole output, as an artifact.",
		     "Either --agent and --path, or --round of one that has ended.\n"),
    ARTIFACT_COMMAND(export, "TASK NAME", 2, 2, "Keep the changes since a snapshot or a git revision as an artifact.",
		     "A patch for git apply and patch -p1, or with --bundle commits. Never in it: .git,\n"
		     ".netrc, .git-credentials.\n"),
    {0},
};
