/* The first message of a conversation on the local door: who asks, and for what. */
#define LOG_SUBSYS "local"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/msg.h"
#include "muxd/doors/local/local.h"

#include <stdlib.h>
#include <string.h>

#define LIST_MAX   1000
#define LIST_FRAME 256 /* of a message with a list: what is not the rows */

/* ---- exec */

static int read_list(const json_t *a, const char *what, const char ***out, struct err *e)
{
	size_t n = json_array_size(a);
	const char **v;

	if (!json_is_array(a))
		return err_set(e, ERR_INVAL, "%s is not a list", what);
	v = calloc(n + 1, sizeof(*v));
	if (!v)
		return err_set(e, ERR_NOMEM, "no memory");
	for (size_t i = 0; i < n; i++)
		if (!(v[i] = json_string_value(json_array_get(a, i)))) {
			free(v);
			return err_set(e, ERR_INVAL, "%s[%zu] is not a string", what, i);
		}
	*out = v;
	return 0;
}

static void free_env(char **v)
{
	for (char **p = v; p && *p; p++)
		free(*p);
	free(v);
}

static int read_env(json_t *o, char ***out, struct err *e)
{
	const char *key;
	json_t *value;
	char **v = calloc(json_object_size(o) + 1, sizeof(*v));
	size_t n = 0;

	if (!v)
		return err_set(e, ERR_NOMEM, "no memory");
	json_object_foreach(o, key, value)
	{
		if (!json_is_string(value) || asprintf(&v[n], "%s=%s", key, json_string_value(value)) < 0) {
			v[n] = NULL;
			free_env(v);
			return err_set(e, ERR_INVAL, "env.%s is not a string", key);
		}
		n++;
	}
	*out = v;
	return 0;
}

static void ask_on_open(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			const struct id *seen)
{
	struct local_ticket *t = arg;
	struct local_conn *c = local_redeem(t);
	struct err here = {0};

	if (!c) {
		attachment_detach(a);
		return;
	}
	local_conn_set_state(c, LOCAL_OPEN);
	if (!rc && !s) {
		char id[ID_STR_LEN];

		id_format(seen, id);
		rc = err_set(&here, ERR_ENDED, "this exec_id was round %s; its result is in the record", id);
		e = &here;
	}
	if (rc)
		local_conn_error(c, rc, e);
	else if (a)
		local_attached(c, s, a);
	else /* the same exec_id as before: its result, as far as there is one */
		local_conn_result(c, "round", session_round_brief(s));
}

static int read_size(const json_t *o, struct exec_spec *spec, struct err *e)
{
	int64_t cols = 80, rows = 24, timeout = 0;
	int rc;

	if ((rc = json_opt_int(o, "cols", 1, 4096, &cols, e)) || (rc = json_opt_int(o, "rows", 1, 4096, &rows, e)) ||
	    (rc = json_opt_int(o, "timeout_ms", 0, INT64_MAX / 1000000, &timeout, e)))
		return rc;
	spec->cols = (unsigned)cols;
	spec->rows = (unsigned)rows;
	spec->timeout_ns = (uint64_t)timeout * NS_PER_MS;
	return 0;
}

static int read_exec(const json_t *o, struct exec_spec *spec, const char ***out_argv, char ***out_env, struct err *e)
{
	json_t *argv = json_object_get(o, "argv"), *env = json_object_get(o, "env");
	int rc;

	if ((rc = json_need_str(o, "agent", &spec->agent, e)) || (rc = json_opt_str(o, "task", &spec->task, e)) ||
	    (rc = json_opt_str(o, "command", &spec->command, e)) || (rc = json_opt_str(o, "cwd", &spec->cwd, e)) ||
	    (rc = json_opt_str(o, "exec_id", &spec->exec_id, e)) || (rc = json_opt_str(o, "term", &spec->term, e)) ||
	    (rc = json_opt_bool(o, "pty", &spec->pty, e)) || (rc = json_opt_bool(o, "stdin", &spec->stdin_open, e)) ||
	    (rc = read_size(o, spec, e)))
		return rc;
	if (argv && !json_is_null(argv) && (rc = read_list(argv, "argv", out_argv, e)))
		return rc;
	if (env && !json_is_null(env) && (rc = read_env(env, out_env, e)))
		return rc;
	spec->argv = *out_argv;
	spec->env = (const char *const *)*out_env;
	spec->head = spec->tail = UINT64_MAX;
	spec->kind = !spec->pty ? SESSION_ROUND : spec->argv || spec->command ? SESSION_EXEC : SESSION_TERMINAL;
	return 0;
}

static void ask_exec(struct local_conn *c, const json_t *o)
{
	struct exec_spec spec = {0};
	const char **argv = NULL;
	char **env = NULL;
	struct err e = {0};
	int rc = read_exec(o, &spec, &argv, &env, &e);

	if (rc) {
		local_conn_error(c, rc, &e);
	} else {
		local_conn_set_state(c, LOCAL_ASKED);
		broker_open(c->door->hub, &c->rq, &spec, &local_attachment_ops, c, ask_on_open, c->ticket);
	}
	free(argv);
	free_env(env);
}

/* ---- files */

/* A text, or {"base64": ...} for names that are not UTF-8. *out_owned is the caller's. */
static int read_path(const json_t *o, const char **out, char **out_owned, struct err *e)
{
	const json_t *v = json_object_get(o, "path");
	const char *b64 = json_string_value(json_object_get(v, "base64"));
	uint8_t *bytes = NULL;
	size_t n = 0;

	if (json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v)) {
		*out = json_string_value(v);
		return 0;
	}
	if (!b64 || base64_decode(b64, strlen(b64), false, &bytes, &n) < 0 || memchr(bytes, 0, n)) {
		free(bytes);
		return err_set(e, ERR_INVAL, "path is neither a text without NUL nor {\"base64\": ...}");
	}
	*out_owned = realloc(bytes, n + 1);
	if (!*out_owned) {
		free(bytes);
		return err_set(e, ERR_NOMEM, "no memory");
	}
	(*out_owned)[n] = '\0';
	*out = *out_owned;
	return 0;
}

static int read_file(const json_t *o, struct exec_spec *spec, struct file_spec *file, char **out_owned, struct err *e)
{
	static const char *const keys[] = {"op",   "token",   "agent",      "task", "path",
					   "mode", "parents", "timeout_ms", "size", NULL};
	int64_t timeout = 0, size = -1;
	int rc;

	if ((rc = json_only_keys(o, keys, e)) || (rc = json_need_str(o, "agent", &spec->agent, e)) ||
	    (rc = json_opt_str(o, "task", &spec->task, e)) || (rc = read_path(o, &file->path, out_owned, e)) ||
	    (rc = json_opt_int(o, "mode", 0, 07777, &file->mode, e)) ||
	    (rc = json_opt_int(o, "size", 0, INT64_MAX, &size, e)) ||
	    (rc = json_opt_bool(o, "parents", &file->parents, e)) ||
	    (rc = json_opt_int(o, "timeout_ms", 0, INT64_MAX / 1000000, &timeout, e)))
		return rc;
	file->size = size < 0 ? UINT64_MAX : (uint64_t)size;
	spec->timeout_ns = (uint64_t)timeout * NS_PER_MS;
	spec->stdin_open = file->op == FILE_PUT;
	return 0;
}

static void ask_file(struct local_conn *c, const json_t *o, enum file_op op)
{
	struct file_spec file = {.op = op, .mode = -1};
	struct exec_spec spec = {.kind = SESSION_FILE, .file = &file, .head = UINT64_MAX, .tail = UINT64_MAX};
	char *owned = NULL;
	struct err e = {0};
	int rc = read_file(o, &spec, &file, &owned, &e);

	if (rc) {
		local_conn_error(c, rc, &e);
	} else {
		local_conn_set_state(c, LOCAL_ASKED);
		broker_open(c->door->hub, &c->rq, &spec, &local_attachment_ops, c, ask_on_open, c->ticket);
	}
	free(owned);
}

/* ---- the other questions */

static void ask_attach(struct local_conn *c, const json_t *o)
{
	const char *session = "", *agent = NULL, *role = "driver";
	struct attachment *a = NULL;
	struct err e = {0};
	int64_t cols = 0, rows = 0;
	bool screen = false;
	int rc;

	(void)json_opt_bool(o, "screen", &screen, &e);
	(void)json_opt_str(o, "session", &session, &e);
	(void)json_opt_str(o, "agent", &agent, &e);
	(void)json_opt_str(o, "role", &role, &e);
	if ((rc = json_opt_int(o, "cols", 1, 4096, &cols, &e)) || (rc = json_opt_int(o, "rows", 1, 4096, &rows, &e))) {
		local_conn_error(c, rc, &e);
		return;
	}
	rc = broker_attach(c->door->hub, &c->rq, agent, session,
			   strcmp(role, "observer") == 0 ? ROLE_OBSERVER : ROLE_DRIVER,
			   screen ? &local_terminal_ops : &local_attachment_ops, c, &a, &e);
	if (rc) {
		local_conn_error(c, rc, &e);
		return;
	}
	if (cols && rows)
		(void)attachment_resize(a, (unsigned)cols, (unsigned)rows, 0, 0);
	local_attached(c, attachment_session(a), a);
}

static int opt_session(const json_t *o, const char *key, struct id *out, struct err *e)
{
	const char *text = NULL;
	int rc = json_opt_str(o, key, &text, e);

	return !rc && text && id_parse(text, out) ? err_set(e, ERR_INVAL, "%s is not a session id", key) : rc;
}

static int read_filter(const json_t *o, struct session_filter *f, struct err *e)
{
	int64_t limit = LIST_MAX;
	int rc;

	if ((rc = json_opt_str(o, "agent", &f->agent, e)) || (rc = json_opt_str(o, "state", &f->state, e)) ||
	    (rc = json_opt_str(o, "kind", &f->kind, e)) || (rc = json_opt_bool(o, "live", &f->live, e)) ||
	    (rc = opt_session(o, "session", &f->only, e)) || (rc = opt_session(o, "before", &f->before, e)) ||
	    (rc = json_opt_int(o, "limit", 1, LIST_MAX, &limit, e)))
		return rc;
	f->limit = (size_t)limit;
	return 0;
}

/* What one message has no room for is left to the next question. True: something was. */
static bool cut_list(json_t *list)
{
	size_t room = MSG_MAX - LIST_FRAME, i;
	json_t *row;

	json_array_foreach(list, i, row)
	{
		size_t n = json_dumpb(row, NULL, 0, JSON_COMPACT) + 1;

		if (n > room)
			break;
		room -= n;
	}
	if (i == json_array_size(list))
		return false;
	while (json_array_size(list) > i)
		json_array_remove(list, json_array_size(list) - 1);
	return true;
}

static void ask_sessions(struct local_conn *c, const json_t *o)
{
	struct session_filter f = {0};
	struct err e = {0};
	json_t *list = NULL;
	int rc = read_filter(o, &f, &e);

	if (!rc)
		rc = broker_sessions(c->door->hub, &c->rq, &f, &list, &e);
	if (rc) {
		local_conn_error(c, rc, &e);
	} else {
		bool more = cut_list(list);

		local_conn_object(c, json_pack("{s:o,s:b}", "sessions", list, "more", (int)more));
	}
}

static void ask_terminate(struct local_conn *c, const json_t *o)
{
	const char *text = "", *reason = "";
	struct err e = {0};
	struct id id;
	int rc = json_need_str(o, "session", &text, &e);

	(void)json_opt_str(o, "reason", &reason, &e);
	if (!rc && id_parse(text, &id))
		rc = err_set(&e, ERR_INVAL, "\"%.64s\" is not a session id", text);
	if (!rc)
		rc = broker_terminate(c->door->hub, &c->rq, &id, reason, &e);
	if (rc)
		local_conn_error(c, rc, &e);
	else
		local_conn_result(c, "session", json_string(text));
}

/* {"op":"work","call":"lease.create","id","body"}: {"object": what the call answers}. */
static void ask_on_work(void *arg, int rc, const struct err *e, json_t *result)
{
	local_conn_answer(arg, "object", rc, e, result);
}

static void ask_work(struct local_conn *c, const json_t *o)
{
	static const char *const keys[] = {"op", "token", "call", "id", "body", NULL};
	const char *call = "", *id = NULL;
	struct err e = {0};
	int rc;

	if ((rc = json_only_keys(o, keys, &e)) || (rc = json_need_str(o, "call", &call, &e)) ||
	    (rc = json_opt_str(o, "id", &id, &e))) {
		local_conn_error(c, rc, &e);
		return;
	}
	local_conn_set_state(c, LOCAL_ASKED);
	broker_work(c->door->hub, &c->rq, call, id, json_object_get(o, "body"), ask_on_work, c->ticket);
}

static void ask_put(struct local_conn *c, const json_t *o)
{
	ask_file(c, o, FILE_PUT);
}

static void ask_get(struct local_conn *c, const json_t *o)
{
	ask_file(c, o, FILE_GET);
}

static const struct local_op ops[] = {
    {"exec", ask_exec},         {"put", ask_put},
    {"get", ask_get},           {"attach", ask_attach},
    {"sessions", ask_sessions}, {"session.terminate", ask_terminate},
    {"work", ask_work},         {0},
};

static const struct local_op *find_op(const struct local_op *op, const char *name)
{
	while (op->name && strcmp(op->name, name) != 0)
		op++;
	return op->name ? op : NULL;
}

void local_ask(struct local_conn *c, const json_t *o)
{
	struct origin from = {.door = "local", .peer = c->peer, .endpoint = "unknown"};
	const char *op = "", *token = NULL;
	const struct local_op *known;
	struct err e = {0};
	int rc = json_need_str(o, "op", &op, &e);

	known = find_op(ops, op);
	if (!known)
		known = find_op(local_life_ops, op);
	if (known)
		from.endpoint = known->name;
	if (!rc && json_object_get(o, "token"))
		rc = json_need_str(o, "token", &token, &e);
	if (!rc)
		rc = broker_authenticate(c->door->hub, token, token ? strlen(token) : 0, &from, &c->rq, &e);
	if (!rc && !known)
		rc = err_set(&e, ERR_INVAL, "unknown op \"%.40s\"", op);
	if (rc)
		local_conn_error(c, rc, &e);
	else
		known->ask(c, o);
}
