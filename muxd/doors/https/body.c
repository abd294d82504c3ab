#include "muxd/doors/https/body.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/schema.h"
#include "base/text.h"
#include "base/wire.h"
#include "muxd/hub/broker/broker_artifact.h"
#include "muxd/hub/session/shells.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_DEFAULT_NS (10 * NS_PER_SEC)
#define MS_MAX          (INT64_C(365) * 24 * 3600 * 1000)

void round_limits_from_conf(const struct conf *c, struct round_limits *out)
{
	out->body_max = c->api_max_body;
	out->argv_max = c->round_argv_max;
	out->timeout_max_ns = c->round_timeout_max_ns;
	out->wait_max_ns = c->round_wait_max_ns;
	out->wait_default_ns = WAIT_DEFAULT_NS < c->round_wait_max_ns ? WAIT_DEFAULT_NS : c->round_wait_max_ns;
}

/* What the fields of a body hold, as its table reads them. */
struct fields {
	const char *task, *exec_id, *command, *cwd, *encoding, *term, *op, *shell;
	const json_t *argv, *env, *stdin_, *data, *pty, *file, *path, *artifacts;
	int64_t timeout_ms, idle_ms, wait_ms, yield_ms, head, tail, cols, rows, xpixel, ypixel, mode, size;
	bool stdin_open, parents, fresh;
	bool round; /* not START */
};

int body_check_name(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	struct err why = {0};

	return token_name_check("it", json_string_value(v), &why)
		   ? schema_fault(s, at, ERR_INVAL, "%.160s", why.message)
		   : 0;
}

static int check_argv(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	return schema_texts(s, at, v, 0);
}

static bool env_name_ok(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	while (isalnum((unsigned char)*s) || *s == '_')
		s++;
	return *s == '\0';
}

int body_check_env(const struct schema *s, const struct schema_at *at, const json_t *o)
{
	static const struct schema_field text = {.kind = SCHEMA_TEXT};
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		struct schema_at here = {.up = at, .key = key};
		int rc = env_name_ok(key) && strlen(key) <= 64
			     ? schema_value(s, &here, &text, v)
			     : schema_fault(s, &here, ERR_INVAL,
					    "is no name: up to 64 letters, digits and _, no digit first");

		if (rc)
			return rc;
	}
	return 0;
}

int body_check_timeout(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	const struct round_limits *l = s->limit;
	uint64_t most = l->timeout_max_ns / NS_PER_MS;

	if (most && (uint64_t)json_integer_value(v) > most)
		return schema_fault(s, at, ERR_INVAL, "is over the limit of %llu (rounds.timeout_max)",
				    (unsigned long long)most);
	return 0;
}

/* Text of any characters, or {data, encoding}. */
static int check_stdin(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	static const struct schema_field fields[] = {
	    {"data", SCHEMA_ANY, true, 0, 0, NULL, SCHEMA_TO(struct fields, data)},
	    {"encoding", SCHEMA_TEXT, false, 0, 0, NULL, SCHEMA_TO(struct fields, encoding)},
	};
	struct fields *out = s->out;
	int rc = json_is_object(v) ? schema_object(s, at, v, SCHEMA_FIELDS(fields)) : 0;

	if (rc || json_is_null(v))
		return rc;
	out->data = json_is_object(v) ? out->data : v;
	return json_is_string(out->data) ? 0 : schema_fault(s, at, ERR_INVAL, "is neither text nor {data, encoding}");
}

static int check_limits(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	static const struct schema_field fields[] = {
	    {"head_bytes", SCHEMA_INTEGER, false, 0, ROUND_KEEP_MAX, NULL, SCHEMA_TO(struct fields, head)},
	    {"tail_bytes", SCHEMA_INTEGER, false, 0, ROUND_KEEP_MAX, NULL, SCHEMA_TO(struct fields, tail)},
	};

	return schema_object(s, at, v, SCHEMA_FIELDS(fields));
}

static int check_pty(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	static const struct schema_field fields[] = {
	    {"cols", SCHEMA_INTEGER, false, 1, WIRE_SIZE_MAX, NULL, SCHEMA_TO(struct fields, cols)},
	    {"rows", SCHEMA_INTEGER, false, 1, WIRE_SIZE_MAX, NULL, SCHEMA_TO(struct fields, rows)},
	    {"xpixel", SCHEMA_INTEGER, false, 0, UINT16_MAX, NULL, SCHEMA_TO(struct fields, xpixel)},
	    {"ypixel", SCHEMA_INTEGER, false, 0, UINT16_MAX, NULL, SCHEMA_TO(struct fields, ypixel)},
	    {"term", SCHEMA_TEXT, false, 0, 0, NULL, SCHEMA_TO(struct fields, term)},
	};

	return schema_object(s, at, v, SCHEMA_FIELDS(fields));
}

static int check_op(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	const char *op = json_string_value(v);

	return strcmp(op, "put") == 0 || strcmp(op, "get") == 0
		   ? 0
		   : schema_fault(s, at, ERR_INVAL, "is neither put nor get");
}

static int check_file(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	static const struct schema_field fields[] = {
	    {"op", SCHEMA_TEXT, true, 1, 8, check_op, SCHEMA_TO(struct fields, op)},
	    {"path", SCHEMA_ANY, true, 0, 0, NULL, SCHEMA_TO(struct fields, path)},
	    {"mode", SCHEMA_INTEGER, false, 0, 07777, NULL, SCHEMA_TO(struct fields, mode)},
	    {"size", SCHEMA_INTEGER, false, 0, INT64_MAX, NULL, SCHEMA_TO(struct fields, size)},
	    {"parents", SCHEMA_BOOL, false, 0, 0, NULL, SCHEMA_TO(struct fields, parents)},
	};

	return schema_object(s, at, v, SCHEMA_FIELDS(fields));
}

static int check_shell_name(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	struct err why = {0};

	return shell_name_check("it", json_string_value(v), &why)
		   ? schema_fault(s, at, ERR_INVAL, "%.160s", why.message)
		   : 0;
}

/* Its name, or {name, fresh}. */
static int check_shell(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	static const struct schema_field fields[] = {
	    {"name", SCHEMA_TEXT, true, 0, 0, check_shell_name, SCHEMA_TO(struct fields, shell)},
	    {"fresh", SCHEMA_BOOL, false, 0, 0, NULL, SCHEMA_TO(struct fields, fresh)},
	};
	struct fields *out = s->out;

	if (json_is_object(v))
		return schema_object(s, at, v, SCHEMA_FIELDS(fields));
	if (!json_is_string(v))
		return schema_fault(s, at, ERR_INVAL, "is neither a name nor {name, fresh}");
	out->shell = json_string_value(v);
	return check_shell_name(s, at, v);
}

/* Of a round's body all but the last, of START all but the first ones, which ask for an answer; their number stands at
 * the first of the others, too, so that the compiler holds it. */
enum { ROUND_ALONE = 6, START_ALONE = 1 };
static const struct schema_field fields[] = {
    {"shell", SCHEMA_ANY, false, 0, 0, check_shell, 0},
    {"artifacts", SCHEMA_LIST, false, 1, ARTIFACT_WISHES_MAX, artifact_wishes_check,
     SCHEMA_TO(struct fields, artifacts)},
    {"stdin", SCHEMA_ANY, false, 0, 0, check_stdin, SCHEMA_TO(struct fields, stdin_)},
    {"wait_ms", SCHEMA_INTEGER, false, 0, MS_MAX, NULL, SCHEMA_TO(struct fields, wait_ms)},
    {"yield_ms", SCHEMA_INTEGER, false, 0, MS_MAX, NULL, SCHEMA_TO(struct fields, yield_ms)},
    {"limits", SCHEMA_OBJECT, false, 0, 0, check_limits, 0},
    [ROUND_ALONE] = {"task_id", SCHEMA_TEXT, false, 1, 0, body_check_name, SCHEMA_TO(struct fields, task)},
    {"exec_id", SCHEMA_TEXT, false, 1, 0, body_check_name, SCHEMA_TO(struct fields, exec_id)},
    {"argv", SCHEMA_LIST, false, 1, 0, check_argv, SCHEMA_TO(struct fields, argv)},
    {"command", SCHEMA_TEXT, false, 1, 0, NULL, SCHEMA_TO(struct fields, command)},
    {"cwd", SCHEMA_TEXT, false, 1, 0, NULL, SCHEMA_TO(struct fields, cwd)},
    {"env", SCHEMA_OBJECT, false, 0, 0, body_check_env, SCHEMA_TO(struct fields, env)},
    {"timeout_ms", SCHEMA_INTEGER, false, 1, MS_MAX, body_check_timeout, SCHEMA_TO(struct fields, timeout_ms)},
    {"idle_timeout_ms", SCHEMA_INTEGER, false, 1, MS_MAX, body_check_timeout, SCHEMA_TO(struct fields, idle_ms)},
    {"stdin_open", SCHEMA_BOOL, false, 0, 0, NULL, SCHEMA_TO(struct fields, stdin_open)},
    {"pty", SCHEMA_OBJECT, false, 0, 0, check_pty, SCHEMA_TO(struct fields, pty)},
    {"file", SCHEMA_OBJECT, false, 0, 0, check_file, SCHEMA_TO(struct fields, file)},
};
#define ROUND_FIELDS fields, SCHEMA_COUNT(fields) - START_ALONE
#define START_FIELDS fields + ROUND_ALONE, SCHEMA_COUNT(fields) - ROUND_ALONE

/* ---- what they become */

static int take_argv(struct round_body *b, const json_t *a, size_t *bytes)
{
	size_t i;
	json_t *v;

	if (!a)
		return 0;
	b->argv = calloc(json_array_size(a) + 1, sizeof(*b->argv));
	if (!b->argv)
		return ERR_NOMEM;
	json_array_foreach((json_t *)(uintptr_t)a, i, v)
	{
		b->argv[i] = json_string_value(v);
		*bytes += json_string_length(v) + 1;
	}
	b->spec.argv = b->argv;
	return 0;
}

int body_env(const json_t *o, char ***out)
{
	char **env = calloc(json_object_size(o) + 1, sizeof(*env));
	const char *key;
	json_t *v;
	size_t i = 0;

	if (!env)
		return ERR_NOMEM;
	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		if (asprintf(&env[i], "%s=%s", key, json_string_value(v)) < 0) {
			env[i] = NULL;
			body_env_free(env);
			return ERR_NOMEM;
		}
		i++;
	}
	*out = env;
	return 0;
}

void body_env_free(char **env)
{
	for (size_t i = 0; env && env[i]; i++)
		free(env[i]);
	free(env);
}

static int take_env(struct round_body *b, const json_t *o, size_t *bytes)
{
	if (!o)
		return 0;
	if (body_env(o, &b->env))
		return ERR_NOMEM;
	for (size_t i = 0; b->env[i]; i++)
		*bytes += strlen(b->env[i]) + 1;
	b->spec.env = (const char *const *)b->env;
	return 0;
}

/* A program and its surroundings. */
static int take_program(struct round_body *b, const struct fields *f, const struct round_limits *l, struct err *e)
{
	size_t bytes = f->command ? strlen(f->command) + 1 : 0;

	if (f->pty && !f->round ? f->argv && f->command : !f->argv == !f->command)
		return err_set(e, ERR_INVAL, "give one of argv (array) and command (string)");
	if (take_argv(b, f->argv, &bytes) || take_env(b, f->env, &bytes))
		return err_set(e, ERR_NOMEM, "out of memory");
	b->spec.command = f->command;
	if (bytes > l->argv_max)
		return err_set(e, ERR_TOO_LARGE, "argv, command and env hold %zu bytes; rounds.argv_max allows %zu",
			       bytes, l->argv_max);
	return 0;
}

int body_bytes(const char *what, const char *data, size_t len, const char *encoding, const uint8_t **out,
	       size_t *out_len, uint8_t **out_owned, struct err *e)
{
	*out_owned = NULL;
	if (!encoding || strcmp(encoding, "utf-8") == 0) {
		*out = (const uint8_t *)data;
		*out_len = len;
		return 0;
	}
	if (strcmp(encoding, "base64") != 0)
		return err_set(e, ERR_INVAL, "%s.encoding must be utf-8 or base64", what);
	if (base64_decode(data, len, false, out_owned, out_len))
		return err_set(e, ERR_INVAL, "%s.data is not base64", what);
	*out = *out_owned;
	return 0;
}

static int take_stdin(struct round_body *b, const struct fields *f, struct err *e)
{
	const uint8_t *p = NULL;
	int rc = f->data ? body_bytes("stdin", json_string_value(f->data), json_string_length(f->data), f->encoding, &p,
				      &b->spec.stdin_len, &b->stdin_bytes, e)
			 : 0;

	b->spec.stdin_data = p;
	return rc;
}

/* More may be typed after its start, and the end of input is a key. */
static void take_pty(struct round_body *b, const struct fields *f)
{
	b->spec.pty = true;
	b->spec.cols = (unsigned)f->cols;
	b->spec.rows = (unsigned)f->rows;
	b->spec.xpixel = (unsigned)f->xpixel;
	b->spec.ypixel = (unsigned)f->ypixel;
	b->spec.term = f->term;
	b->spec.stdin_open = b->spec.stdin_open || f->round;
	if (!f->round)
		b->spec.kind = f->argv || f->command ? SESSION_EXEC : SESSION_TERMINAL;
}

int body_path(const json_t *v, char **out)
{
	const char *text = json_string_value(v), *b64 = json_string_value(json_object_get(v, "base64"));
	uint8_t *bytes = (uint8_t *)(text ? strndup(text, json_string_length(v)) : NULL);
	size_t n = json_string_length(v);
	char *path = NULL;

	if (!text && b64)
		(void)base64_decode(b64, strlen(b64), false, &bytes, &n);
	if (bytes && !memchr(bytes, 0, n))
		path = strndup((char *)bytes, n);
	free(bytes);
	if (!path)
		return ERR_INVAL;
	*out = path;
	return 0;
}

static int body_take_path(struct round_body *b, const json_t *v, struct err *e)
{
	int rc = body_path(v, &b->file_path);

	b->file.path = b->file_path;
	return rc ? err_set(e, rc, "/file/path: is neither a text without NUL nor {\"base64\": ...}") : 0;
}

static int take_file(struct round_body *b, const struct fields *f, struct err *e)
{
	if (f->argv || f->command || f->pty || f->env || f->cwd || f->exec_id)
		return err_set(e, ERR_INVAL,
			       "a transfer (file) has no program: no argv, command, env, cwd, exec_id or pty");
	b->file = (struct file_spec){.op = *f->op == 'p' ? FILE_PUT : FILE_GET,
				     .mode = f->mode,
				     .size = f->size < 0 ? UINT64_MAX : (uint64_t)f->size,
				     .parents = f->parents};
	b->spec.kind = SESSION_FILE;
	b->spec.stdin_open = b->file.op == FILE_PUT;
	return body_take_path(b, f->path, e);
}

static void take_wait(struct round_body *b, int64_t wait_ms, const struct round_limits *l)
{
	b->wait_ns = wait_ms < 0 ? l->wait_default_ns : (uint64_t)wait_ms * NS_PER_MS;
	if (b->wait_ns > l->wait_max_ns)
		b->wait_ns = l->wait_max_ns;
}

static int take_all(struct round_body *b, const struct fields *f, const struct round_limits *l, struct err *e)
{
	b->spec.task = f->task;
	b->spec.timeout_ns = (uint64_t)f->timeout_ms * NS_PER_MS;
	if (f->file)
		return take_file(b, f, e);
	b->spec.exec_id = f->exec_id;
	b->spec.artifacts = f->artifacts;
	b->spec.cwd = f->cwd;
	b->spec.stdin_open = f->stdin_open;
	b->spec.head = f->head < 0 ? UINT64_MAX : (uint64_t)f->head;
	b->spec.tail = f->tail < 0 ? UINT64_MAX : (uint64_t)f->tail;
	if (f->shell && !f->command)
		return err_set(e, ERR_INVAL, "/shell: runs a command (string), and there is none");
	b->spec.shell = f->shell;
	b->spec.shell_anew = f->fresh;
	b->spec.idle_ns = (uint64_t)f->idle_ms * NS_PER_MS;
	if (f->wait_ms >= 0 && f->yield_ms >= 0)
		return err_set(e, ERR_INVAL, "/yield_ms: is another name of wait_ms, which is given too: send one");
	take_wait(b, f->yield_ms >= 0 ? f->yield_ms : f->wait_ms, l);
	if (f->pty)
		take_pty(b, f);
	int rc = take_program(b, f, l, e);
	return rc ? rc : take_stdin(b, f, e);
}

static int body_parse(const void *p, size_t n, const struct round_limits *l, const struct schema_field *table,
		      size_t rows, struct round_body *out, struct err *e)
{
	struct round_body b = {.spec = {.kind = SESSION_ROUND, .head = UINT64_MAX, .tail = UINT64_MAX}};
	struct fields f = {.wait_ms = -1,
			   .yield_ms = -1,
			   .round = table == fields,
			   .head = -1,
			   .tail = -1,
			   .cols = 80,
			   .rows = 24,
			   .mode = -1,
			   .size = -1};
	struct schema s = {.out = &f, .limit = l, .e = e, .null_is_absent = true};
	int rc;

	if (n == 0)
		return err_set(e, ERR_INVAL, "the body is empty; send a JSON object with argv or command");
	rc = json_parse_values(p, n, l->body_max, JSON_VALUES_BODY, &b.root, e);
	if (rc == 0)
		rc = schema_object(&s, NULL, b.root, table, rows);
	if (rc == 0)
		rc = take_all(&b, &f, l, e);
	if (rc) {
		round_body_finish(&b);
		return rc;
	}
	*out = b;
	return 0;
}

int round_body_parse(const void *p, size_t n, const struct round_limits *l, struct round_body *out, struct err *e)
{
	return body_parse(p, n, l, ROUND_FIELDS, out, e);
}

int start_body_parse(const void *p, size_t n, const struct round_limits *l, struct round_body *out, struct err *e)
{
	int rc = body_parse(p, n, l, START_FIELDS, out, e);

	if (rc == 0 && out->spec.kind == SESSION_FILE)
		out->spec.file = &out->file;
	return rc;
}

void round_body_finish(struct round_body *b)
{
	if (!b)
		return;
	body_env_free(b->env);
	free((void *)b->argv);
	free(b->stdin_bytes);
	free(b->file_path);
	json_decref(b->root);
	memset(b, 0, sizeof(*b));
}
