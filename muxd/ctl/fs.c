/* muxctl fs: operations on files in a sandbox, asked of the API. */
#include "base/buf.h"
#include "base/ids.h"
#include "base/slurp.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/content.h"
#include "muxd/ctl/nouns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONTENT_MAX (64 * 1024 * 1024) /* the daemon's limit is lower, and says so */
#define PIECE       (1024 * 1024)

/* How an option stands in the question. */
enum kind { KIND_FLAG, KIND_NUMBER, KIND_TEXT };

static const struct field {
	const char *option, *key;
	enum kind kind;
} fields[] = {
    {"parents", "parents", KIND_FLAG},       {"recursive", "recursive", KIND_FLAG},
    {"force", "overwrite", KIND_FLAG},       {"new", "create_only", KIND_FLAG},
    {"follow", "follow", KIND_FLAG},         {"sha256", "sha256", KIND_FLAG},
    {"if-match", "if_match", KIND_TEXT},     {"mode", "mode", KIND_TEXT},
    {"task", "task_id", KIND_TEXT},          {"depth", "depth", KIND_NUMBER},
    {"context", "context", KIND_NUMBER},     {"limit", "limit", KIND_NUMBER},
    {"regex", "regex", KIND_FLAG},           {"ignore-case", "ignore_case", KIND_FLAG},
    {"gitignore", "gitignore", KIND_FLAG},   {"dry-run", "dry_run", KIND_FLAG},
    {"offset", "offset", KIND_NUMBER},       {"length", "length", KIND_NUMBER},
    {"from-line", "from_line", KIND_NUMBER}, {"to-line", "to_line", KIND_NUMBER},
};

static const struct ctl_column entry_columns[] = {
    {"path", "path"}, {"type", "type"}, {"size", "size"}, {"mode", "mode"}, {"mtime", "changed"}, {NULL, NULL},
};

static const struct ctl_column list_columns[] = {
    {"mode", "MODE"}, {"size", "SIZE"}, {"mtime", "CHANGED"}, {"type", "TYPE"}, {"path", "PATH"}, {NULL, NULL},
};

static const struct ctl_column done_columns[] = {
    {"path", "path"}, {"size", "size"}, {"sha256", "sha256"}, {"deleted", "deleted"}, {NULL, NULL},
};

static const struct ctl_column change_columns[] = {{"path", "CHANGED"}, {NULL, NULL}};

static int set_number(json_t *o, const struct ctl_args *a, const struct field *f, struct err *e)
{
	long long v = 0;
	int rc = args_number(a, f->option, -(1ll << 60), 1ll << 60, &v, e);

	if (rc == 0)
		json_object_set_new(o, f->key, json_integer(v));
	return rc;
}

/* The question: a path, and what options say. */
static int fs_question(const struct ctl_args *a, const char *path, json_t **out, struct err *e)
{
	json_t *o = json_pack("{s:o}", "path", json_text_or_base64(path));
	unsigned long long timeout_ns = 0;
	int rc = o ? args_duration(a, "timeout", &timeout_ns, e) : err_set(e, ERR_NOMEM, "no memory for the question");

	for (size_t i = 0; !rc && i < sizeof(fields) / sizeof(fields[0]); i++) {
		const struct field *f = &fields[i];

		if (!args_has(a, f->option))
			continue;
		if (f->kind == KIND_NUMBER)
			rc = set_number(o, a, f, e);
		else
			json_object_set_new(o, f->key,
					    f->kind == KIND_FLAG ? json_true() : json_string(args_get(a, f->option)));
	}
	if (!rc && timeout_ns)
		json_object_set_new(o, "timeout_ms", json_integer((json_int_t)(timeout_ns / 1000000)));
	if (rc)
		json_decref(o);
	else
		*out = o;
	return rc;
}

/* body is stolen. */
static int fs_ask(struct ctl *c, const struct ctl_args *a, const char *op, json_t *body, json_t **out, struct err *e)
{
	const char *agent = a->operands[0], *reason = args_has(a, "reason") ? args_get(a, "reason") : "muxctl fs";
	struct ctl_wish w = {
	    .kind = "staff", .agent = agent, .scopes = "files", .task = args_get(a, "task"), .reason = reason};
	struct api_call call = {.method = "POST", .path = "/v1/agents/*/fs/*", .names = {agent, op}, .body = body};
	int rc = target_name_check(agent, e);

	if (rc < 0) {
		json_decref(body);
		return rc;
	}
	return api_ask(c, &w, &call, out, e);
}

static int fs_finish(struct ctl *c, int rc, const struct err *e, json_t *o)
{
	json_t *entry = json_object_get(o, "entry"), *sum = json_object_get(o, "sha256");
	int status;

	if (rc < 0)
		return ctl_fail(c, e);
	if (entry && sum && !c->json)
		json_object_set(entry, "sha256", sum);
	if (c->json)
		status = ctl_print_json(c, o);
	else if (entry)
		status = ctl_print_object(c, entry, entry_columns);
	else
		status = ctl_print_object(c, o, done_columns);
	json_decref(o);
	return status;
}

/* For a person what matters of it: changes are the audit log's. */
static void leave_out(json_t *o)
{
	static const char *const rest[] = {"op",   "agent",  "session", "duration_ms", "changes", "changes_left_out",
					   "type", "created"};

	for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
		json_object_del(o, rest[i]);
}

/* One question and its answer. body NULL: with what follows from the operands and options. */
static int fs_once(struct ctl *c, const struct ctl_args *a, const char *op, const char *path, const char *to,
		   const char *mode)
{
	json_t *body = NULL, *o = NULL;
	struct err e = {0};
	int rc = fs_question(a, path, &body, &e);

	if (rc == 0 && to)
		json_object_set_new(body, "to", json_text_or_base64(to));
	if (rc == 0 && mode)
		json_object_set_new(body, "mode", json_string(mode));
	if (rc == 0)
		rc = fs_ask(c, a, op, body, &o, &e);
	if (rc == 0 && !c->json)
		leave_out(o);
	return fs_finish(c, rc, &e, o);
}

static int stat_run(struct ctl *c, const struct ctl_args *a)
{
	return fs_once(c, a, "stat", a->operands[1], NULL, NULL);
}

static int mkdir_run(struct ctl *c, const struct ctl_args *a)
{
	return fs_once(c, a, "mkdir", a->operands[1], NULL, NULL);
}

static int rm_run(struct ctl *c, const struct ctl_args *a)
{
	return fs_once(c, a, "delete", a->operands[1], NULL, NULL);
}

static int mv_run(struct ctl *c, const struct ctl_args *a)
{
	return fs_once(c, a, "move", a->operands[1], a->operands[2], NULL);
}

static int cp_run(struct ctl *c, const struct ctl_args *a)
{
	return fs_once(c, a, "copy", a->operands[1], a->operands[2], NULL);
}

static int chmod_run(struct ctl *c, const struct ctl_args *a)
{
	return fs_once(c, a, "chmod", a->operands[2], NULL, a->operands[1]);
}

/* ---- ls and glob: all pages */

/* pattern NULL: every name. */
static int ls_page(struct ctl *c, const struct ctl_args *a, const char *path, const char *pattern, const json_t *cursor,
		   json_t **out, struct err *e)
{
	json_t *body = NULL;
	int rc = fs_question(a, path, &body, e);

	if (rc == 0)
		json_object_set_new(body, "limit", json_integer(10000));
	if (rc == 0 && cursor)
		json_object_set(body, "cursor", (json_t *)(uintptr_t)cursor);
	if (rc == 0 && pattern)
		json_object_set_new(body, "pattern", json_string(pattern));
	return rc ? rc : fs_ask(c, a, pattern ? "glob" : "list", body, out, e);
}

static int ls_pages(struct ctl *c, const struct ctl_args *a, const char *path, const char *pattern)
{
	json_t *all = json_array(), *page = NULL, *cursor = NULL;
	struct err e = {0};
	int rc = all ? 0 : err_set(&e, ERR_NOMEM, "no memory for the list"), status;

	do {
		if (rc == 0)
			rc = ls_page(c, a, path, pattern, cursor, &page, &e);
		json_decref(cursor);
		cursor = rc ? NULL : json_incref(json_object_get(page, "cursor"));
		if (rc == 0)
			json_array_extend(all, json_object_get(page, "entries"));
		json_decref(page);
		page = NULL;
	} while (rc == 0 && cursor);
	if (rc < 0) {
		json_decref(all);
		return ctl_fail(c, &e);
	}
	if (c->json) {
		json_t *o = json_pack("{s:O}", "entries", all);

		status = o ? ctl_print_json(c, o) : err_exit_code(ERR_NOMEM);
		json_decref(o);
	} else {
		status = ctl_print_table(c, all, list_columns);
	}
	json_decref(all);
	return status;
}

static int ls_run(struct ctl *c, const struct ctl_args *a)
{
	return ls_pages(c, a, a->noperands > 1 ? a->operands[1] : ".", NULL);
}

static int glob_run(struct ctl *c, const struct ctl_args *a)
{
	return ls_pages(c, a, a->noperands > 2 ? a->operands[2] : ".", a->operands[1]);
}

/* ---- cat */

/* Without bounds all of it, piece by piece. */
static int cat_run(struct ctl *c, const struct ctl_args *a)
{
	bool whole =
	    !args_has(a, "offset") && !args_has(a, "length") && !args_has(a, "from-line") && !args_has(a, "to-line");
	json_t *body = NULL, *o = NULL;
	struct err e = {0};
	json_int_t at = 0;
	bool more = true;
	struct content to;
	int rc = 0;

	content_open(&to, STDOUT_FILENO, args_has(a, "raw"));
	while (rc == 0 && more) {
		rc = fs_question(a, a->operands[1], &body, &e);
		if (rc == 0 && whole) {
			json_object_set_new(body, "length", json_integer(PIECE));
			json_object_set_new(body, "offset", json_integer(at));
		}
		if (rc == 0)
			rc = fs_ask(c, a, "read", body, &o, &e);
		if (rc == 0)
			rc = c->json ? ctl_print_json(c, o) : content_data(&to, o, &e);
		more = whole && !c->json && json_is_true(json_object_get(o, "truncated"));
		at += json_integer_value(json_object_get(o, "length"));
		json_decref(o);
		o = NULL;
	}
	content_close(&to);
	return rc < 0 ? ctl_fail(c, &e) : rc;
}

/* ---- write */

static int set_data(json_t *body, struct err *e)
{
	char *data = NULL;
	size_t n = 0;
	int rc = slurp_fd(STDIN_FILENO, "the standard input", CONTENT_MAX, &data, &n, e);

	if (rc == 0)
		rc = json_set_bytes(body, "data", "encoding", (const uint8_t *)data, n);
	slurp_free(data, n);
	return rc;
}

static int write_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *body = NULL, *o = NULL;
	struct err e = {0};
	int rc = fs_question(a, a->operands[1], &body, &e);

	if (rc == 0 && (rc = set_data(body, &e)))
		json_decref(body);
	if (rc == 0)
		rc = fs_ask(c, a, args_has(a, "append") ? "append" : "write", body, &o, &e);
	if (rc == 0 && !c->json)
		leave_out(o);
	return fs_finish(c, rc, &e, o);
}

/* ---- grep, patch */

/* "path:line:text", with - in place of : beside a match, as grep has it. */
static void print_lines(const json_t *file)
{
	char *path = ctl_text(json_object_get(file, "path"));
	const json_t *line;
	size_t i;

	json_array_foreach(json_object_get(file, "lines"), i, line)
	{
		char sign = json_is_true(json_object_get(line, "match")) ? ':' : '-';
		char *text = ctl_text(json_object_get(line, "text"));

		printf("%s%c%lld%c%s\n", path ? path : "", sign,
		       (long long)json_integer_value(json_object_get(line, "line")), sign, text ? text : "");
		free(text);
	}
	free(path);
}

static void print_binary(const json_t *list)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		char *path = ctl_text(v);

		printf("binary file %s matches\n", path ? path : "");
		free(path);
	}
}

static int print_found(const json_t *o)
{
	char *by = ctl_text(json_object_get(o, "stopped_by"));
	const json_t *v;
	size_t i;

	json_array_foreach(json_object_get(o, "results"), i, v)
	{
		print_lines(v);
	}
	print_binary(json_object_get(o, "binary"));
	if (by && *by)
		fprintf(stderr, "muxctl: there may be more: the search was stopped (%s)\n", by);
	free(by);
	return json_integer_value(json_object_get(o, "matches")) ? 0 : 1;
}

/* The exit status is grep's: 1 when nothing matches. */
static int grep_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *body = NULL, *o = NULL;
	struct err e = {0};
	int status, rc = fs_question(a, a->noperands > 2 ? a->operands[2] : ".", &body, &e);

	if (rc == 0)
		json_object_set_new(body, "pattern", json_string(a->operands[1]));
	if (rc == 0)
		rc = fs_ask(c, a, "search", body, &o, &e);
	if (rc < 0)
		return ctl_fail(c, &e);
	status = c->json ? ctl_print_json(c, o) : print_found(o);
	json_decref(o);
	return status;
}

static int patch_run(struct ctl *c, const struct ctl_args *a)
{
	const char *key = args_has(a, "dry-run") ? "would_change" : "changes";
	json_t *body = NULL, *o = NULL;
	struct err e = {0};
	int rc = fs_question(a, a->noperands > 1 ? a->operands[1] : ".", &body, &e);

	if (rc == 0 && (rc = set_data(body, &e)))
		json_decref(body);
	if (rc == 0)
		rc = fs_ask(c, a, "patch", body, &o, &e);
	if (rc < 0)
		return ctl_fail(c, &e);
	rc = c->json ? ctl_print_json(c, o) : ctl_print_table(c, json_object_get(o, key), change_columns);
	json_decref(o);
	return rc;
}

/* ---- watch, pack, unpack: content that streams */

/* The path and the flags that are on. NULL: no memory. */
static json_t *stream_query(const struct ctl_args *a, const char *path)
{
	static const struct {
		const char *option, *key;
	} flags[] = {{"recursive", "recursive"},
		     {"gitignore", "gitignore"},
		     {"force", "overwrite"},
		     {"merge", "merge"},
		     {"parents", "parents"}};
	char *encoded = base64_encode(path, strlen(path), true);
	json_t *q = encoded ? json_pack("{s:s, s:s*}", "path_base64", encoded, "task_id", args_get(a, "task")) : NULL;

	free(encoded);
	for (size_t i = 0; q && i < sizeof(flags) / sizeof(flags[0]); i++)
		if (args_has(a, flags[i].option))
			json_object_set_new(q, flags[i].key, json_string("true"));
	return q;
}

static int fs_stream(struct ctl *c, const struct ctl_args *a, const char *method, const char *what, const char *path,
		     const struct api_flow *flow, json_t **out, struct err *e)
{
	const char *agent = a->operands[0], *reason = args_has(a, "reason") ? args_get(a, "reason") : "muxctl fs";
	struct ctl_wish w = {
	    .kind = "staff", .agent = agent, .scopes = "files", .task = args_get(a, "task"), .reason = reason};
	struct api_call call = {.method = method, .path = "/v1/agents/*/fs/*", .names = {agent, what}};
	unsigned long long timeout_ns = 0;
	char ms[24];
	int rc = target_name_check(agent, e);

	if (rc == 0)
		rc = args_duration(a, "timeout", &timeout_ns, e);
	if (rc == 0 && !(call.query = stream_query(a, path)))
		rc = err_set(e, ERR_NOMEM, "no memory for the question");
	if (rc)
		return rc;
	snprintf(ms, sizeof(ms), "%llu", timeout_ns / 1000000);
	if (timeout_ns)
		json_object_set_new(call.query, "timeout_ms", json_string(ms));
	return api_stream(c, &w, &call, flow, out, e);
}

static int write_out(void *arg, const void *p, size_t n, struct err *e)
{
	(void)arg;
	return fwrite(p, 1, n, stdout) == n ? 0 : err_set(e, ERR_SYS, "the archive could not be written");
}

static int pack_run(struct ctl *c, const struct ctl_args *a)
{
	struct api_flow flow = {.in_fd = -1, .take = write_out};
	struct err e = {0};
	int rc = isatty(STDOUT_FILENO)
		     ? err_set(&e, ERR_INVAL, "an archive is not for a terminal: send it to a file or a pipe")
		     : fs_stream(c, a, "GET", "tree", a->noperands > 1 ? a->operands[1] : ".", &flow, NULL, &e);

	if (rc == 0 && fflush(stdout))
		rc = err_set(&e, ERR_SYS, "the archive could not be written");
	return rc < 0 ? ctl_fail(c, &e) : 0;
}

static const struct ctl_column unpacked_columns[] = {
    {"path", "path"}, {"files", "files"}, {"bytes", "bytes"}, {NULL, NULL}};

static int unpack_run(struct ctl *c, const struct ctl_args *a)
{
	struct api_flow flow = {.in_fd = STDIN_FILENO, .type = "application/x-tar"};
	struct err e = {0};
	json_t *o = NULL;
	int rc = fs_stream(c, a, "PUT", "tree", a->operands[1], &flow, &o, &e);

	if (rc < 0)
		return ctl_fail(c, &e);
	rc = c->json ? ctl_print_json(c, o) : ctl_print_object(c, o, unpacked_columns);
	json_decref(o);
	return rc;
}

/* Lines of a watch, as far as they are whole. */
struct watch_lines {
	struct ctl *c;
	struct buf line;
};

static void print_watched(struct ctl *c, const json_t *o)
{
	char *event = ctl_text(json_object_get(o, "event")), *path = ctl_text(json_object_get(o, "path"));
	char *text = c->json ? ctl_json_text(o, JSON_COMPACT) : NULL;

	if (c->json)
		puts(text ? text : "");
	else
		printf("%-10s  %s%s\n", event ? event : "", path ? path : "",
		       json_is_true(json_object_get(o, "directory")) ? "/" : "");
	free(event);
	free(path);
	free(text);
}

static int watch_take(void *arg, const void *bytes, size_t n, struct err *e)
{
	struct watch_lines *l = arg;
	const uint8_t *p = bytes;

	while (n) {
		const uint8_t *end = memchr(p, '\n', n);
		size_t part = end ? (size_t)(end - p) : n;
		json_t *o = NULL;

		if (buf_append(&l->line, p, part))
			return err_set(e, ERR_PROTOCOL, "a line of the watch is too long");
		p += part + (end != NULL);
		n -= part + (end != NULL);
		if (!end)
			continue;
		if (json_parse(buf_ptr(&l->line), buf_len(&l->line), l->line.max, &o, NULL))
			return err_set(e, ERR_PROTOCOL, "a line of the watch is not JSON");
		print_watched(l->c, o);
		json_decref(o);
		buf_clear(&l->line);
	}
	return fflush(stdout) ? err_set(e, ERR_SYS, "nobody reads any more") : 0;
}

static int watch_run(struct ctl *c, const struct ctl_args *a)
{
	struct watch_lines l = {.c = c};
	struct api_flow flow = {.in_fd = -1, .take = watch_take, .arg = &l};
	struct err e = {0};
	int rc;

	buf_init(&l.line, 64 * 1024);
	rc = fs_stream(c, a, "GET", "watch", a->noperands > 1 ? a->operands[1] : ".", &flow, NULL, &e);
	buf_finish(&l.line);
	return rc < 0 ? ctl_fail(c, &e) : 0;
}

/* ---- the commands */

/* ---- locks */

static const struct ctl_column lock_columns[] = {
    {"id", "id"}, {"path", "path"}, {"principal", "holder"}, {"label", "label"}, {"expires_at", "expires at"},
    {NULL, NULL},
};
static const struct ctl_column locks_columns[] = {
    {"path", "PATH"},      {"principal", "HOLDER"},   {"task_id", "TASK"}, {"label", "LABEL"},
    {"taken_at", "TAKEN"}, {"expires_at", "EXPIRES"}, {"id", "ID"},        {NULL, NULL},
};

/* id: of a lock that is there; NULL: none. body is stolen. */
static int lock_ask(struct ctl *c, const struct ctl_args *a, const char *method, const char *id, json_t *body,
		    const char *list)
{
	const char *agent = a->operands[0], *reason = args_has(a, "reason") ? args_get(a, "reason") : "muxctl fs";
	struct ctl_wish w = {
	    .kind = "staff", .agent = agent, .scopes = "files", .task = args_get(a, "task"), .reason = reason};
	struct api_call call = {.method = method,
				.path = id ? "/v1/agents/*/locks/*" : "/v1/agents/*/locks",
				.names = {agent, id},
				.body = body};
	json_t *o = NULL;
	struct err e = {0};
	int rc = target_name_check(agent, &e);

	if (rc < 0)
		json_decref(body);
	else
		rc = api_ask(c, &w, &call, &o, &e);
	return ctl_finish(c, rc, &e, o, list, list ? locks_columns : lock_columns);
}

static int lock_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *body = json_object();
	unsigned long long ttl_ns = 0;
	struct err e = {0};
	int rc = body ? args_duration(a, "ttl", &ttl_ns, &e) : err_set(&e, ERR_NOMEM, "no memory for the question");

	if (rc < 0) {
		json_decref(body);
		return ctl_fail(c, &e);
	}
	if (ttl_ns)
		json_object_set_new(body, "ttl_ms", json_integer((json_int_t)(ttl_ns / 1000000)));
	if (args_has(a, "renew"))
		return lock_ask(c, a, "POST", args_get(a, "renew"), body, NULL);
	json_object_set_new(body, "path", json_text_or_base64(a->noperands > 1 ? a->operands[1] : "."));
	if (args_has(a, "label"))
		json_object_set_new(body, "label", json_string(args_get(a, "label")));
	return lock_ask(c, a, "POST", NULL, body, NULL);
}

static int unlock_run(struct ctl *c, const struct ctl_args *a)
{
	return lock_ask(c, a, "DELETE", a->operands[1], NULL, NULL);
}

static int locks_run(struct ctl *c, const struct ctl_args *a)
{
	return lock_ask(c, a, "GET", NULL, NULL, "locks");
}

#define COMMON                                                                                                         \
	{"timeout", 0, "DURATION", "Give up after this time."},                                                        \
	    {"task", 0, "ID", "Task that it belongs to (default: console)."},                                          \
	    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl fs)."},                         \
	{                                                                                                              \
		NULL, 0, NULL, NULL                                                                                    \
	}
#define PARENTS                                                                                                        \
	{                                                                                                              \
		"parents", 'p', NULL, "Make missing directories."                                                      \
	}
#define IF_MATCH                                                                                                       \
	{                                                                                                              \
		"if-match", 0, "SHA256", "Only while its content has this digest."                                     \
	}

static const struct ctl_option stat_options[] = {{"follow", 'L', NULL, "What a link leads to, in place of the link."},
						 {"sha256", 0, NULL, "With the digest of its content."},
						 COMMON};
static const struct ctl_option ls_options[] = {{"depth", 0, "N", "Directories in one another (default: 1)."},
					       {"gitignore", 0, NULL, "Leave out what .gitignore files name."},
					       COMMON};
static const struct ctl_option cat_options[] = {{"offset", 0, "BYTES", "From here on; below 0 from the end."},
						{"length", 0, "BYTES", "As much at most, up to 1 MiB."},
						{"from-line", 0, "N", "From this line on."},
						{"to-line", 0, "N", "Up to this line."},
						CONTENT_RAW,
						COMMON};
static const struct ctl_option write_options[] = {{"append", 'a', NULL, "Behind what it holds."},
						  {"new", 0, NULL, "Refused where the name is taken."},
						  {"mode", 0, "OCTAL", "Permissions (default: as it has, else 0644)."},
						  PARENTS,
						  IF_MATCH,
						  COMMON};
static const struct ctl_option mkdir_options[] = {
    PARENTS, {"mode", 0, "OCTAL", "Permissions (default: 0755)."}, COMMON};
static const struct ctl_option mv_options[] = {
    {"force", 'f', NULL, "Replace what has the name."}, PARENTS, IF_MATCH, COMMON};
static const struct ctl_option cp_options[] = {{"recursive", 'r', NULL, "A directory with what is in it."},
					       {"force", 'f', NULL, "Replace what has the name."},
					       PARENTS,
					       COMMON};
static const struct ctl_option rm_options[] = {
    {"recursive", 'r', NULL, "A directory with what is in it."}, IF_MATCH, COMMON};
static const struct ctl_option chmod_options[] = {COMMON};
static const struct ctl_option grep_options[] = {{"regex", 'E', NULL, "PATTERN is a regular expression, not text."},
						 {"ignore-case", 'i', NULL, "Either case of a letter."},
						 {"context", 'C', "N", "Lines around each (default: none)."},
						 {"limit", 0, "N", "Matching lines at most (default: 200)."},
						 {"gitignore", 0, NULL, "Leave out what .gitignore files name."},
						 COMMON};
static const struct ctl_option glob_options[] = {{"gitignore", 0, NULL, "Leave out what .gitignore files name."},
						 COMMON};
static const struct ctl_option patch_options[] = {{"dry-run", 'n', NULL, "Say what would change, and change nothing."},
						  COMMON};

static const struct ctl_option watch_options[] = {
    {"recursive", 'r', NULL, "Directories below, too, and those that come."}, COMMON};
static const struct ctl_option pack_options[] = {{"gitignore", 0, NULL, "Leave out what .gitignore files name."},
						 COMMON};
static const struct ctl_option unpack_options[] = {{"force", 'f', NULL, "Replace what has the name, in one step."},
						   {"merge", 'm', NULL, "Into the directory that is there."},
						   PARENTS,
						   COMMON};

static const struct ctl_option lock_options[] = {
    {"ttl", 0, "DURATION", "Its time from now on (default: 5m; at most 24h)."},
    {"label", 0, "TEXT", "Tells holders of one principal and task apart."},
    {"renew", 0, "ID", "Prolong this lock, instead of taking one."},
    COMMON};
static const struct ctl_option unlock_options[] = {COMMON};
static const struct ctl_option locks_options[] = {COMMON};

#define INSIDE "PATH is below /workspace; what leads out of it is refused (get and put reach other places).\n"
#define FS_COMMAND(verb, operands, min, max, help)                                                                     \
	{                                                                                                              \
		"fs " #verb, operands, min, max, help, verb##_options, .run = verb##_run, .more = INSIDE,              \
								       .any_bytes = true                               \
	}

const struct ctl_command fs_commands[] = {
    {"ls", "AGENT [PATH]", 1, 2, "muxctl fs ls.", ls_options, .run = ls_run, .more = INSIDE, .any_bytes = true},
    {"cat", "AGENT PATH", 2, 2, "muxctl fs cat.", cat_options, .run = cat_run, .more = INSIDE, .any_bytes = true},
    FS_COMMAND(ls, "AGENT [PATH]", 1, 2, "List files in an agent's sandbox."),
    FS_COMMAND(cat, "AGENT PATH", 2, 2, "Print a file of a sandbox, or a part of it."),
    FS_COMMAND(stat, "AGENT PATH", 2, 2, "Show what a name in a sandbox is."),
    FS_COMMAND(write, "AGENT PATH", 2, 2, "Write the standard input to a file in a sandbox: whole, or not at all."),
    FS_COMMAND(mkdir, "AGENT PATH", 2, 2, "Make a directory in a sandbox."),
    FS_COMMAND(mv, "AGENT PATH TO", 3, 3, "Give a file or directory in a sandbox another name."),
    FS_COMMAND(cp, "AGENT PATH TO", 3, 3, "Copy a file or directory in a sandbox."),
    FS_COMMAND(rm, "AGENT PATH", 2, 2, "Delete a file or directory in a sandbox."),
    FS_COMMAND(chmod, "AGENT MODE PATH", 3, 3, "Set permissions of a file in a sandbox."),
    FS_COMMAND(grep, "AGENT PATTERN [PATH]", 2, 3, "Print the lines of files in a sandbox that match."),
    FS_COMMAND(glob, "AGENT PATTERN [PATH]", 2, 3, "List names in a sandbox that match."),
    FS_COMMAND(patch, "AGENT [PATH]", 1, 2, "Apply a patch, the standard input, in a sandbox: all of it, or nothing."),
    FS_COMMAND(watch, "AGENT [PATH]", 1, 2, "Print what happens to files in a sandbox, as it happens."),
    FS_COMMAND(pack, "AGENT [PATH]", 1, 2, "Print a directory of a sandbox as a tar archive."),
    FS_COMMAND(unpack, "AGENT PATH", 2, 2,
	       "Unpack the standard input, a tar archive, in a sandbox: whole, or not at all."),
    FS_COMMAND(lock, "AGENT [PATH]", 1, 2, "Take an advisory lock on a path of a shared workspace, and all below it."),
    FS_COMMAND(unlock, "AGENT ID", 2, 2, "Release a lock."),
    FS_COMMAND(locks, "AGENT", 1, 1, "List locks: who holds what, until when."),
    {0},
};
