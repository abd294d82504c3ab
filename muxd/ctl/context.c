/* muxctl context, muxctl python: code that runs in a sandbox's interpreters, asked of the API. */
#include "base/clock.h"
#include "base/slurp.h"
#include "base/text.h"
#include "base/visible.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/content.h"
#include "muxd/ctl/nouns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CODE_MAX  (1024 * 1024)
#define SHOWN_MAX (64 * 1024)
#define YIELD_MS  20000 /* one question waits so long for the end */

static const struct ctl_column list_columns[] = {
    {"context_id", "ID"},      {"language", "LANGUAGE"},      {"state", "STATE"},   {"generation", "GENERATION"},
    {"created_at", "CREATED"}, {"last_used_at", "LAST USED"}, {"reason", "REASON"}, {NULL, NULL},
};
static const struct ctl_column one_columns[] = {
    {"context_id", "id"}, {"language", "language"}, {"state", "state"}, {"reason", "reason"}, {NULL, NULL},
};

static struct ctl_wish context_wish(const struct ctl_args *a, unsigned long long ttl)
{
	return (struct ctl_wish){.kind = "staff",
				 .agent = a->operands[0],
				 .scopes = "rounds",
				 .ttl_ns = ttl,
				 .reason = args_get_or(a, "reason", "muxctl context")};
}

static int context_ask(struct ctl *c, const struct ctl_args *a, const char *method, const char *path, json_t *body,
		       json_t **out, struct err *e)
{
	unsigned long long ttl = 0;
	int rc = args_duration(a, "ttl", &ttl, e);
	struct ctl_wish w = context_wish(a, ttl);
	struct api_call call = {
	    .method = method,
	    .path = path,
	    .names = {a->operands[0], a->noperands > 1 && strstr(path, "contexts/") ? a->operands[1] : NULL},
	    .body = body};

	if (rc == 0)
		rc = api_ask(c, &w, &call, out, e);
	else
		json_decref(body);
	return rc;
}

/* ---- of contexts */

static int create_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *env = json_object(), *o = NULL;
	json_t *body = json_pack("{s:s,s:o,s:s*}", "language", a->operands[1], "env", env, "cwd", args_get(a, "cwd"));
	struct err e = {0};
	int rc = body ? args_env(a, env, &e) : err_set(&e, ERR_NOMEM, "no memory");

	if (rc == 0)
		rc = context_ask(c, a, "POST", "/v1/agents/*/contexts", json_incref(body), &o, &e);
	json_decref(body);
	return ctl_finish(c, rc, &e, o, NULL, one_columns);
}

static int context_list_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *o = NULL;
	struct err e = {0};
	int rc = context_ask(c, a, "GET", "/v1/agents/*/contexts", NULL, &o, &e);

	return ctl_finish(c, rc, &e, o, "contexts", list_columns);
}

static int context_one(struct ctl *c, const struct ctl_args *a, const char *method, const char *path, json_t *body)
{
	json_t *o = NULL;
	struct err e = {0};
	int rc = context_ask(c, a, method, path, body, &o, &e);

	return ctl_finish(c, rc, &e, o, NULL, one_columns);
}

static int interrupt_run(struct ctl *c, const struct ctl_args *a)
{
	return context_one(c, a, "POST", "/v1/agents/*/contexts/*/interrupt", json_object());
}

static int delete_run(struct ctl *c, const struct ctl_args *a)
{
	return context_one(c, a, "DELETE", "/v1/agents/*/contexts/*", NULL);
}

static int reset_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *body = json_object(), *env = json_object();
	struct err e = {0};
	int rc = args_env(a, env, &e);

	if (rc) {
		json_decref(env);
		json_decref(body);
		return ctl_fail(c, &e);
	}
	if (json_object_size(env))
		json_object_set(body, "env", env);
	json_decref(env);
	return context_one(c, a, "POST", "/v1/agents/*/contexts/*/reset", body);
}

/* ---- code */

/* The operand, or with "-" and without one the standard input. */
static int read_code(const struct ctl_args *a, size_t at, json_t **out, struct err *e)
{
	const char *given = a->noperands > at ? a->operands[at] : "-";
	char *text = NULL;
	size_t n = 0;
	int rc = 0;

	if (strcmp(given, "-") != 0) {
		*out = json_string(given);
		return *out ? 0 : err_set(e, ERR_NOMEM, "no memory");
	}
	rc = slurp_fd(STDIN_FILENO, "the code", CODE_MAX, &text, &n, e);
	if (rc)
		return rc;
	*out = json_stringn(text, n);
	slurp_free(text, n);
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory");
}

static int wait_end(struct ctl *c, const struct ctl_args *a, json_t **io, struct err *e)
{
	char id[64];
	int rc = 0;

	while (rc == 0 && strcmp(json_get_text(*io, "state"), "running") == 0) {
		struct ctl_wish w = context_wish(a, 0);
		struct api_call call = {
		    .method = "GET", .path = "/v1/executions/*", .query = json_pack("{s:s}", "yield_ms", "20000")};

		text_put(id, sizeof(id), json_get_text(*io, "execution_id"));
		call.names[0] = id;
		json_decref(*io);
		*io = NULL;
		rc = api_ask(c, &w, &call, io, e);
	}
	return rc;
}

/* Of a stranger's text what a terminal would act on is made visible. */
static void say_text(FILE *to, const char *text, size_t n)
{
	char *shown = visible_dup(text, n, SHOWN_MAX, VISIBLE_LINES);

	fprintf(to, "%s%s", shown ?: "", n && text[n - 1] == '\n' ? "" : "\n");
	free(shown);
}

/* Onto a terminal what draws: whoever ran the code need not have written it. */
static int print_printed(const json_t *o, const char *name, int fd, bool raw, struct err *e)
{
	struct content to;
	int rc;

	content_open(&to, fd, raw);
	rc = content_data(&to, json_object_get(o, name), e);
	content_close(&to);
	return rc;
}

/* Text is printed; of what is none its type and size are named. */
static void print_result(const json_t *r)
{
	const json_t *data = json_object_get(r, "data"), *text = json_object_get(data, "text/plain"), *v;
	const char *media;

	json_object_foreach((json_t *)(uintptr_t)data, media, v)
	{
		char *shown = strcmp(media, "text/plain") != 0 ? visible_dup(media, strlen(media), SHOWN_MAX, 0) : NULL;

		if (shown)
			fprintf(stderr, "muxctl: also as %s (see -o json)\n", shown);
		free(shown);
	}
	if (text)
		say_text(stdout, json_string_value(text), json_string_length(text));
}

static int execution_status(const json_t *o)
{
	static const struct {
		const char *cause;
		int status;
	} ends[] = {{"error", 1}, {"timeout", 124}, {"interrupted", 130}};
	const json_t *code = json_object_get(o, "exit_code");
	const char *cause = json_get_text(o, "cause");

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (strcmp(cause, ends[i].cause) == 0)
			return ends[i].status;
	if (strcmp(cause, "done") != 0 && strcmp(cause, "exited") != 0)
		return 69;
	return strcmp(cause, "done") == 0 && strcmp(json_get_text(o, "language"), "bash") != 0
		   ? 0
		   : (int)json_integer_value(code);
}

static int print_execution(struct ctl *c, const struct ctl_args *a, json_t *o)
{
	const json_t *error = json_object_get(o, "error"), *r;
	const char *cause = json_get_text(o, "cause");
	char *why = ctl_text(json_object_get(o, "message")), *shown = ctl_clean(cause);
	struct err e = {0};
	size_t i;

	if (print_printed(o, "stdout", STDOUT_FILENO, args_has(a, "raw"), &e) ||
	    print_printed(o, "stderr", STDERR_FILENO, args_has(a, "raw"), &e)) {
		free(why);
		free(shown);
		return ctl_fail(c, &e);
	}
	json_array_foreach(json_object_get(o, "results"), i, r) print_result(r);
	for (i = 0; i < 2; i++)
		if (json_is_true(json_object_get(json_object_get(o, i ? "stderr" : "stdout"), "truncated")))
			fprintf(stderr, "muxctl: %s was cut\n", i ? "stderr" : "stdout");
	if (json_is_object(error))
		say_text(stderr, json_get_text(error, "traceback"), strlen(json_get_text(error, "traceback")));
	if (strcmp(cause, "done") != 0 && strcmp(cause, "error") != 0)
		fprintf(stderr, "muxctl: the code ended: %s%s%s\n", shown ?: "", why && *why ? ": " : "", why ?: "");
	free(why);
	free(shown);
	return fflush(stdout) ? 71 : execution_status(o);
}

static int execute(struct ctl *c, const struct ctl_args *a, const char *path, size_t at, json_t *body)
{
	unsigned long long timeout = 0;
	json_t *code = NULL, *o = NULL;
	struct err e = {0};
	int rc = args_duration(a, "timeout", &timeout, &e), status;

	if (rc == 0)
		rc = read_code(a, at, &code, &e);
	if (rc == 0) {
		json_object_set_new(body, "code", code);
		json_object_set_new(body, "yield_ms", json_integer(YIELD_MS));
		if (timeout)
			json_object_set_new(body, "timeout_ms", json_integer((json_int_t)(timeout / NS_PER_MS)));
		rc = context_ask(c, a, "POST", path, json_incref(body), &o, &e);
	}
	if (rc == 0)
		rc = wait_end(c, a, &o, &e);
	json_decref(body);
	if (rc || c->json) {
		status = rc ? 0 : execution_status(o);
		rc = ctl_finish(c, rc, &e, o, NULL, NULL);
		return rc ? rc : status;
	}
	status = print_execution(c, a, o);
	json_decref(o);
	return status;
}

static int run_run(struct ctl *c, const struct ctl_args *a)
{
	return execute(c, a, "/v1/agents/*/contexts/*/executions", 2, json_object());
}

static int python_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *env = json_object(), *body = json_pack("{s:o,s:s*}", "env", env, "cwd", args_get(a, "cwd"));
	struct err e = {0};

	if (args_env(a, env, &e)) {
		json_decref(body);
		return ctl_fail(c, &e);
	}
	return execute(c, a, "/v1/agents/*/python", 1, body);
}

#define REASON                                                                                                         \
	{"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl context)."},                        \
	{                                                                                                              \
		NULL, 0, NULL, NULL                                                                                    \
	}
#define TIMEOUT                                                                                                        \
	{                                                                                                              \
		"timeout", 't', "DURATION", "Past it the code is interrupted."                                         \
	}
#define ENV                                                                                                            \
	{                                                                                                              \
		"env", 'e', "K=V", "Add to its environment; may be given many times."                                  \
	}
#define CWD                                                                                                            \
	{                                                                                                              \
		"cwd", 'C', "DIRECTORY", "Where it begins (default: /workspace)."                                      \
	}

#define TTL                                                                                                            \
	{                                                                                                              \
		"ttl", 0, "DURATION", "How long the grant lasts, and with it the context (default: as configured)."    \
	}

static const struct ctl_option create_options[] = {CWD, ENV, TTL, REASON};
static const struct ctl_option only_reason[] = {REASON};
static const struct ctl_option reset_options[] = {ENV, TTL, REASON};
static const struct ctl_option run_options[] = {TIMEOUT, CONTENT_RAW, REASON};
static const struct ctl_option python_options[] = {TIMEOUT, CWD, ENV, CONTENT_RAW, REASON};

static const char code_text[] =
    "CODE - is the standard input, as is none. Status: 0; 1: an exception; 124: its time was up; 130: interrupted.\n";

const struct ctl_command context_commands[] = {
    {"context create", "AGENT python|javascript|bash", 2, 2, "Make an interpreter that keeps its variables.",
     create_options, .run = create_run},
    {"context list", "AGENT", 1, 1, "List your contexts in a sandbox.", only_reason, .run = context_list_run},
    {"context run", "AGENT ID [CODE]", 2, 3, "Run code in a context.", run_options, .run = run_run, .more = code_text},
    {"context interrupt", "AGENT ID", 2, 2, "Interrupt what runs in a context.", only_reason, .run = interrupt_run},
    {"context reset", "AGENT ID", 2, 2, "Give a context a fresh interpreter.", reset_options, .run = reset_run},
    {"context delete", "AGENT ID", 2, 2, "Delete a context.", only_reason, .run = delete_run},
    {"python", "AGENT [CODE]", 1, 2, "Run Python code once: 30 s, 120 s at the most, 1 MB of output.", python_options,
     .run = python_run, .more = code_text},
    {0},
};
