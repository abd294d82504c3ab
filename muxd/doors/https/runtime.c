#include "muxd/doors/https/runtime.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/doors/https/body.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/multipart.h"
#include "muxd/doors/https/route.h"
#include "muxd/doors/https/stream_text.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_PAGE      10000
#define LIST_MAX       50000 /* names of one answer, which is held whole */
#define TIMEOUT_MAX_S  86400
#define EXIT_TIMED_OUT 124 /* as timeout(1) has it */

struct runtime_call {
	struct runtime_fields head;
	char *path;                  /* of a file, relative; NULL: the call has none */
	struct multipart_file *file; /* upload: in the exchange's body; NULL else */
	json_t *entries;             /* list: of the pages so far */
	bool begun; /* execute: the command may have run, so the client must not be told to try again */
	bool ended; /* execute: with exit_code, which is told even where its output cannot be */
	int exit_code;
	char round_id[ID_STR_LEN]; /* of what has ended */
};

struct runtime_row {
	struct route route;
	uint32_t scope;
	int (*ask)(struct http_exchange *x, struct runtime_call *r, struct err *e); /* the request, as ours take it */
	void (*go)(struct http_exchange *x);                                        /* ours */
	json_t *(*tell)(struct http_exchange *x, struct runtime_call *r, const json_t *ours,
			bool *later); /* later: the answer is still to come */
};

static void runtime_enter(struct http_exchange *x);

/* ---- words */

/* Where ours has no value for it: memory. */
static void runtime_reply(struct http_exchange *x, json_t *o)
{
	if (o)
		http_reply_json_as(x, 200, o);
	else
		http_reply_error(x, ERR_NOMEM, NULL);
	json_decref(o);
}

static const struct runtime_row *runtime_row_of(const struct http_exchange *x);

static void runtime_on_result(struct http_exchange *x, int status, const json_t *ours)
{
	bool later = false;
	json_t *theirs = runtime_row_of(x)->tell(x, x->dialect_arg, ours, &later);

	(void)status;
	if (!later)
		runtime_reply(x, theirs);
}

/* The command failed as far as anybody knows; or it has ended, and only its output is missing here. */
static json_t *untold_command(const struct runtime_call *r, const char *message)
{
	char text[ERR_MESSAGE_MAX + 160];

	if (r->ended)
		text_format(text, sizeof(text), "[muxd: the output is left out; GET /v1/rounds/%s/output has it. %s]\n",
			    r->round_id, message);
	else
		text_format(text, sizeof(text), "Failed to execute command: %s", message);
	return json_pack("{s:s,s:s,s:i}", "stdout", "", "stderr", text, "exit_code", r->ended ? r->exit_code : 1);
}

/*
 * Their SDK sends a POST again up to five times behind a 5xx: a command that may have run is answered as one that
 * failed, one that has ended with its exit code.
 */
static json_t *runtime_on_error(struct http_exchange *x, int rc, const char *message, int *status)
{
	struct runtime_call *r = x->dialect_arg;
	const char *call = x->route ? x->route->call : NULL;
	char text[ERR_MESSAGE_MAX + 64];

	if (r->begun) {
		*status = 200;
		return untold_command(r, message);
	}
	if (call && strcmp(call, "stat") == 0 && (rc == ERR_NO_FILE || rc == ERR_NOT_A_DIRECTORY)) {
		*status = 200;
		return json_pack("{s:s,s:b}", "path", r->path, "exists", 0);
	}
	bool begun = x->begun.id[0];
	text_format(text, sizeof(text), "%s: %s%s%s%s", err_name(rc), message, begun ? " (round " : "", x->begun.id,
		    begun ? ")" : "");
	return json_pack("{s:s}", "detail", text);
}

static void runtime_drop(struct http_exchange *x)
{
	struct runtime_call *r = x->dialect_arg;

	free(r->path);
	free(r->file);
	json_decref(r->entries);
	free(r);
}

static const struct http_dialect dialect = {runtime_on_result, runtime_on_error, runtime_drop};

int runtime_adopt(struct http_exchange *x, const struct runtime_fields *f)
{
	struct runtime_call *r = calloc(1, sizeof(*r));

	if (!r)
		return ERR_NOMEM;
	r->head = *f;
	x->dialect = &dialect;
	x->dialect_arg = r;
	return 0;
}

/* ---- execute */

/* Seconds that the client waits, in which the answer has to be there: a little less for the command. 0: none named. */
static int read_timeout(const char *text, int64_t *out_ms, struct err *e)
{
	char *end;
	double s = strtod(text, &end);

	*out_ms = 0;
	if (!*text)
		return 0;
	if (*end || !(s > 0 && s <= TIMEOUT_MAX_S))
		return err_set(e, ERR_INVAL, "X-Sandbox-Timeout must be seconds, more than 0 and at most %d",
			       TIMEOUT_MAX_S);
	*out_ms = (int64_t)(s * 900) + 1;
	return 0;
}

static int ask_execute(struct http_exchange *x, struct runtime_call *r, struct err *e)
{
	json_t *o = NULL, *ours = NULL;
	const char *command;
	int64_t ms;
	int rc = json_parse_values(buf_ptr(&x->body), buf_len(&x->body), hub_conf(x->hub)->api_max_body,
				   JSON_VALUES_BODY, &o, e);

	if (rc)
		return rc;
	command = json_string_value(json_object_get(o, "command"));
	if (!command)
		rc = err_set(e, ERR_INVAL, "/command is missing, or is no string");
	if (rc == 0)
		rc = read_timeout(r->head.timeout, &ms, e);
	if (rc == 0) {
		ours = json_pack("{s:s}", "command", command);
		if (ours && ms)
			json_object_set_new(ours, "timeout_ms", json_integer(ms));
		buf_clear(&x->body);
		rc = ours ? json_append(&x->body, ours) : ERR_NOMEM;
	}
	json_decref(ours);
	json_decref(o);
	return rc;
}

static void runtime_on_round(void *arg, int rc, const struct err *e, json_t *round)
{
	struct http_exchange *x = arg;

	if (rc)
		http_reply_error(x, rc, e);
	else
		http_reply_json(x, 200, round);
}

static void await_round(struct http_exchange *x, const struct id *id)
{
	x->waits = *id;
	broker_round_wait(x->hub, &x->rq, id, hub_conf(x->hub)->round_wait_max_ns, runtime_on_round, x);
}

static void runtime_on_opened(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			      const struct id *seen)
{
	struct http_exchange *x = arg;
	struct runtime_call *r = x->dialect_arg;

	(void)a, (void)seen; /* nobody attaches, and there is no exec_id */
	if (rc) {
		http_reply_error(x, rc, e);
		return;
	}
	r->begun = true;
	await_round(x, session_id(s));
}

static void go_execute(struct http_exchange *x)
{
	rest_round_open(x, runtime_on_opened);
}

static json_t *runtime_text_of(const json_t *round, const char *name, const char *more)
{
	const json_t *s = json_object_get(round, name);
	char gap[160];

	text_format(gap, sizeof(gap), "\n[muxd: of %lld bytes some are left out; GET /v1/rounds/%s/output has them]\n",
		    (long long)json_integer_value(json_object_get(s, "total_bytes")), json_get_text(round, "round_id"));
	return stream_text(s, HTTP_RESPONSE_MAX, gap, more);
}

static int signal_number(const char *name)
{
	for (int i = 1; i < 32; i++) {
		const char *known = sigabbrev_np(i);

		if (known && strcmp(known, name) == 0)
			return i;
	}
	return 0;
}

static json_t *tell_execute(struct http_exchange *x, struct runtime_call *r, const json_t *round, bool *later)
{
	const json_t *exit = json_object_get(round, "exit"), *code = json_object_get(exit, "code");
	const char *cause = json_get_text(exit, "cause");
	bool late = strcmp(json_get_text(exit, "error"), err_name(ERR_EXEC_TIMEOUT)) == 0;
	int signal = signal_number(json_get_text(exit, "signal"));
	char why[160] = "";
	struct id id;

	if (!json_is_object(exit) && !x->gone && id_parse(json_get_text(round, "round_id"), &id) == 0) {
		*later = true;
		await_round(x, &id);
		return NULL;
	}
	if (strcmp(cause, "exit") != 0)
		text_format(why, sizeof(why), "muxd: the command ended with cause %s\n", *cause ? cause : "unknown");
	r->ended = json_is_object(exit);
	r->exit_code = late                    ? EXIT_TIMED_OUT
		       : json_is_integer(code) ? (int)json_integer_value(code)
		       : signal                ? 128 + signal
					       : 1;
	text_put(r->round_id, sizeof(r->round_id), json_get_text(round, "round_id"));
	return json_pack("{s:o,s:o,s:i}", "stdout", runtime_text_of(round, "stdout", ""), "stderr",
			 runtime_text_of(round, "stderr", why), "exit_code", r->exit_code);
}

/* ---- files */

/* The path behind the row's prefix, as theirs has it: relative, whatever slashes are in front. */
static int runtime_take_path(struct runtime_call *r, const char *path, struct err *e)
{
	path += strspn(path, "/");
	for (const char *p = path; *p; p += strcspn(p, "/"), p += strspn(p, "/"))
		if (strncmp(p, "..", 2) == 0 && strchr("/", p[2]))
			return err_set(e, ERR_PATH_OUTSIDE, "the path leads out of the workspace");
	r->path = strdup(*path ? path : ".");
	return r->path ? 0 : ERR_NOMEM;
}

static int ask_path(struct http_exchange *x, struct runtime_call *r, struct err *e)
{
	return runtime_take_path(r, x->path + strlen(x->route->pattern), e);
}

/* The body of POST .../fs/OPERATION. more: its further fields; taken over. */
static int put_request(struct http_exchange *x, const struct runtime_call *r, json_t *more)
{
	int rc = more ? json_object_set_new(more, "path", json_text_or_base64(r->path)) : ERR_NOMEM;

	buf_clear(&x->body);
	if (rc == 0)
		rc = json_append(&x->body, more);
	json_decref(more);
	return rc ? ERR_NOMEM : 0;
}

static int ask_list(struct http_exchange *x, struct runtime_call *r, struct err *e)
{
	int rc = ask_path(x, r, e);

	r->entries = json_array();
	return rc ? rc : put_request(x, r, json_pack("{s:i,s:i}", "depth", 1, "limit", LIST_PAGE));
}

static int ask_exists(struct http_exchange *x, struct runtime_call *r, struct err *e)
{
	int rc = ask_path(x, r, e);

	return rc ? rc : put_request(x, r, json_pack("{s:b}", "follow", 1));
}

static int ask_download(struct http_exchange *x, struct runtime_call *r, struct err *e)
{
	int rc = ask_path(x, r, e);

	if (rc)
		return rc;
	x->file_path = strdup(r->path);
	return x->file_path ? 0 : ERR_NOMEM;
}

static int ask_upload(struct http_exchange *x, struct runtime_call *r, struct err *e)
{
	int rc;

	r->file = calloc(1, sizeof(*r->file));
	if (!r->file)
		return ERR_NOMEM;
	rc = multipart_find(r->head.type, buf_ptr(&x->body), buf_len(&x->body), "file", r->file, e);
	return rc ? rc : runtime_take_path(r, r->file->name, e);
}

static void go_upload(struct http_exchange *x)
{
	const struct runtime_call *r = x->dialect_arg;

	rest_fs_write(x, r->path, r->file->content, r->file->len);
}

static json_t *tell_upload(struct http_exchange *x, struct runtime_call *r, const json_t *ours, bool *later)
{
	char text[MULTIPART_NAME_MAX + 64];

	(void)x, (void)ours, (void)later;
	text_format(text, sizeof(text), "File '%s' uploaded successfully.", r->path);
	return json_pack("{s:s}", "message", text);
}

static json_t *tell_exists(struct http_exchange *x, struct runtime_call *r, const json_t *ours, bool *later)
{
	(void)x, (void)ours, (void)later;
	return json_pack("{s:s,s:b}", "path", r->path, "exists", 1);
}

/* {"base64"} where the name is no UTF-8: theirs are texts. */
static json_t *name_of(const json_t *path)
{
	const char *text = json_string_value(path), *b64 = json_get_text(path, "base64"), *slash;
	uint8_t *raw = NULL;
	size_t n = 0;
	json_t *o;

	if (!text && base64_decode(b64, strlen(b64), false, &raw, &n))
		return NULL;
	slash = text ? strrchr(text, '/') : memrchr(raw, '/', n);
	if (text)
		o = json_string(slash ? slash + 1 : text);
	else
		o = json_stringn(slash ? slash + 1 : (char *)raw, slash ? n - (size_t)(slash + 1 - (char *)raw) : n);
	free(raw);
	return o;
}

static json_t *entry_of(const json_t *ours)
{
	bool directory = strcmp(json_get_text(ours, "type"), "directory") == 0;
	int64_t ns = 0;

	(void)clock_parse_utc(json_get_text(ours, "mtime"), &ns);
	return json_pack("{s:o,s:I,s:s,s:o}", "name", name_of(json_object_get(ours, "path")), "size",
			 (json_int_t)json_integer_value(json_object_get(ours, "size")), "type",
			 directory ? "directory" : "file", "mod_time", json_real((double)ns / 1e9));
}

static json_t *tell_list(struct http_exchange *x, struct runtime_call *r, const json_t *ours, bool *later)
{
	const json_t *entry, *cursor = json_object_get(ours, "cursor");
	struct err too_many = {0};
	size_t i;

	json_array_foreach(json_object_get(ours, "entries"), i, entry)
	    json_array_append_new(r->entries, entry_of(entry));
	if (!cursor || x->gone)
		return json_incref(r->entries);
	*later = true;
	if (json_array_size(r->entries) >= LIST_MAX) {
		err_set(&too_many, ERR_TOO_LARGE, "the directory has more than %d names: list it with a command",
			LIST_MAX);
		http_reply_error(x, ERR_TOO_LARGE, &too_many);
		return NULL;
	}
	if (put_request(
		x, r,
		json_pack("{s:i,s:i,s:O}", "depth", 1, "limit", LIST_PAGE, "cursor", (json_t *)(uintptr_t)cursor)))
		http_reply_error(x, ERR_NOMEM, NULL);
	else
		rest_fs(x);
	return NULL;
}

/* ---- the calls */

static void go_health(struct http_exchange *x)
{
	runtime_reply(x, json_pack("{s:s,s:s}", "status", "ok", "message", "Sandbox Runtime is active."));
}

#define GRANTED ROUTE_BASIC
#define ANY     (SCOPE_ROUNDS | SCOPE_FILES)

/* A pattern that ends with a slash stands for all that begin so. */
static const struct runtime_row rows[] = {
    {{HTTP_GET, "/", runtime_enter, GRANTED, BODY_NONE, "rounds or files", "", NULL}, ANY, NULL, go_health, NULL},
    {{HTTP_POST, "/execute", runtime_enter, GRANTED, BODY_REQUIRED, "rounds", "", NULL},
     SCOPE_ROUNDS,
     ask_execute,
     go_execute,
     tell_execute},
    {{HTTP_POST, "/upload", runtime_enter, GRANTED, BODY_REQUIRED, "files", "", "write"},
     SCOPE_FILES,
     ask_upload,
     go_upload,
     tell_upload},
    {{HTTP_GET, "/download/", runtime_enter, GRANTED, BODY_NONE, "files", "", "get"},
     SCOPE_FILES,
     ask_download,
     rest_file,
     NULL},
    {{HTTP_GET, "/list/", runtime_enter, GRANTED, BODY_NONE, "files", "", "list"},
     SCOPE_FILES,
     ask_list,
     rest_fs,
     tell_list},
    {{HTTP_GET, "/exists/", runtime_enter, GRANTED, BODY_NONE, "files", "", "stat"},
     SCOPE_FILES,
     ask_exists,
     rest_fs,
     tell_exists},
};

static const struct runtime_row *runtime_row_of(const struct http_exchange *x)
{
	return (const struct runtime_row *)x->route; /* its first member */
}

static bool runtime_matches(const char *pattern, const char *path)
{
	size_t n = strlen(pattern);

	return n > 1 && pattern[n - 1] == '/' ? strncmp(path, pattern, n) == 0 : strcmp(path, pattern) == 0;
}

int runtime_route(struct http_exchange *x, struct err *e)
{
	enum http_method want = x->method == HTTP_HEAD ? HTTP_GET : x->method;

	x->route = NULL;
	x->allow[0] = '\0';
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!runtime_matches(rows[i].route.pattern, x->path))
			continue;
		x->route = &rows[i].route;
		if (rows[i].route.method == want)
			return 0;
		text_put(x->allow, sizeof(x->allow), http_method_name(rows[i].route.method));
		return err_set(e, ERR_INVAL, "%s is not possible here; allowed: %s", http_method_name(x->method),
			       x->allow);
	}
	return err_set(e, ERR_NOT_FOUND, "no such call: POST /execute, /upload, GET /download, /list, /exists");
}

static void runtime_on_located(void *arg, int rc, const struct err *e, const char *name)
{
	struct http_exchange *x = arg;

	if (rc) {
		http_reply_error(x, rc, e);
		return;
	}
	text_put(x->params[0], sizeof(x->params[0]), name);
	runtime_row_of(x)->go(x);
}

/* The request is whole, and its caller is known. */
static void runtime_enter(struct http_exchange *x)
{
	const struct runtime_row *row = runtime_row_of(x);
	struct runtime_call *r = x->dialect_arg;
	struct err e = {0};
	int rc = row->ask ? row->ask(x, r, &e) : 0;

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_locate(x->hub, &x->rq, row->scope, r->head.id, r->head.space, runtime_on_located, x);
}
