#include "muxd/doors/https/body.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/text.h"
#include "base/wire.h"

#include <ctype.h>
#include <stdio.h>
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

/* A JSON string can hold U+0000; nothing that becomes a C string may. */
static int check_text(const char *what, const json_t *v, struct err *e)
{
	if (!json_is_string(v))
		return err_set(e, ERR_INVAL, "%s must be a string", what);
	if (strlen(json_string_value(v)) != json_string_length(v))
		return err_set(e, ERR_INVAL, "%s must not hold a NUL character", what);
	return 0;
}

static int parse_argv(struct round_body *b, size_t *bytes, struct err *e)
{
	const json_t *a = json_object_get(b->root, "argv");
	size_t n = json_array_size(a);
	char what[40];
	int rc;

	if (!a || json_is_null(a))
		return 0;
	if (!json_is_array(a) || n == 0)
		return err_set(e, ERR_INVAL, "argv must be an array of strings that is not empty");
	b->argv = calloc(n + 1, sizeof(*b->argv));
	if (!b->argv)
		return err_set(e, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(a, i);

		snprintf(what, sizeof(what), "argv[%zu]", i);
		rc = check_text(what, v, e);
		if (rc)
			return rc;
		b->argv[i] = json_string_value(v);
		*bytes += json_string_length(v) + 1;
	}
	if (!b->argv[0][0])
		return err_set(e, ERR_INVAL, "argv[0] must name a program");
	b->spec.argv = b->argv;
	return 0;
}

static int parse_what(struct round_body *b, size_t *bytes, struct err *e)
{
	const json_t *c = json_object_get(b->root, "command");
	int rc = parse_argv(b, bytes, e);

	if (rc)
		return rc;
	if (c && !json_is_null(c)) {
		rc = check_text("command", c, e);
		if (rc)
			return rc;
		if (!json_string_length(c))
			return err_set(e, ERR_INVAL, "command must not be empty");
		b->spec.command = json_string_value(c);
		*bytes += json_string_length(c) + 1;
	}
	if (b->spec.pty ? b->spec.argv && b->spec.command : !b->spec.argv == !b->spec.command)
		return err_set(e, ERR_INVAL, "give one of argv (array) and command (string)");
	return 0;
}

static bool env_name_ok(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	while (isalnum((unsigned char)*s) || *s == '_')
		s++;
	return *s == '\0';
}

static int env_one(struct round_body *b, size_t i, const char *key, const json_t *v, size_t *bytes, struct err *e)
{
	char what[80];
	int rc;

	if (!env_name_ok(key) || strlen(key) > 64)
		return err_set(e, ERR_INVAL,
			       "env: \"%.64s\" is no name: up to 64 letters, digits and _, no digit first", key);
	text_format(what, sizeof(what), "env.%s", key);
	rc = check_text(what, v, e);
	if (rc)
		return rc;
	if (asprintf(&b->env[i], "%s=%s", key, json_string_value(v)) < 0) {
		b->env[i] = NULL;
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	*bytes += strlen(b->env[i]) + 1;
	return 0;
}

static int parse_env(struct round_body *b, size_t *bytes, struct err *e)
{
	json_t *o = json_object_get(b->root, "env");
	const char *key;
	json_t *v;
	size_t i = 0;

	if (!o || json_is_null(o))
		return 0;
	if (!json_is_object(o))
		return err_set(e, ERR_INVAL, "env must be an object of strings");
	b->env = calloc(json_object_size(o) + 1, sizeof(*b->env));
	if (!b->env)
		return err_set(e, ERR_NOMEM, "out of memory");
	json_object_foreach(o, key, v)
	{
		int rc = env_one(b, i++, key, v, bytes, e);

		if (rc)
			return rc;
	}
	b->spec.env = (const char *const *)b->env;
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

static int parse_stdin(struct round_body *b, struct err *e)
{
	static const char *const keys[] = {"data", "encoding", NULL};
	const json_t *v = json_object_get(b->root, "stdin");
	const char *encoding = NULL;
	const uint8_t *p = NULL;
	int rc;

	if (!v || json_is_null(v))
		return 0;
	if (json_is_object(v)) {
		rc = json_only_keys(v, keys, e);
		if (rc == 0)
			rc = json_opt_str(v, "encoding", &encoding, e);
		if (rc)
			return rc;
		v = json_object_get(v, "data");
	}
	if (!json_is_string(v))
		return err_set(e, ERR_INVAL, "stdin must be a string, or {data, encoding}");
	rc = body_bytes("stdin", json_string_value(v), json_string_length(v), encoding, &p, &b->spec.stdin_len,
			&b->stdin_bytes, e);
	if (rc == 0)
		b->spec.stdin_data = p;
	return rc;
}

static int parse_limits(struct round_body *b, struct err *e)
{
	static const char *const keys[] = {"head_bytes", "tail_bytes", NULL};
	const json_t *o = json_object_get(b->root, "limits");
	int64_t head = -1, tail = -1;
	int rc;

	if (!o || json_is_null(o))
		return 0;
	if (!json_is_object(o))
		return err_set(e, ERR_INVAL, "limits must be an object {head_bytes, tail_bytes}");
	rc = json_only_keys(o, keys, e);
	if (rc == 0)
		rc = json_opt_int(o, "head_bytes", 0, ROUND_KEEP_MAX, &head, e);
	if (rc == 0)
		rc = json_opt_int(o, "tail_bytes", 0, ROUND_KEEP_MAX, &tail, e);
	if (rc)
		return rc;
	if (head >= 0)
		b->spec.head = (uint64_t)head;
	if (tail >= 0)
		b->spec.tail = (uint64_t)tail;
	return 0;
}

static int parse_times(struct round_body *b, const struct round_limits *l, struct err *e)
{
	int64_t timeout_ms = 0, wait_ms = -1;
	int rc = json_opt_int(b->root, "timeout_ms", 1, MS_MAX, &timeout_ms, e);

	if (rc == 0)
		rc = json_opt_int(b->root, "wait_ms", 0, MS_MAX, &wait_ms, e);
	if (rc)
		return rc;
	b->spec.timeout_ns = (uint64_t)timeout_ms * NS_PER_MS;
	if (l->timeout_max_ns && b->spec.timeout_ns > l->timeout_max_ns)
		return err_set(e, ERR_INVAL, "timeout_ms is over the limit of %llu (rounds.timeout_max)",
			       (unsigned long long)(l->timeout_max_ns / NS_PER_MS));
	b->wait_ns = wait_ms < 0 ? l->wait_default_ns : (uint64_t)wait_ms * NS_PER_MS;
	if (b->wait_ns > l->wait_max_ns)
		b->wait_ns = l->wait_max_ns;
	return 0;
}

static int parse_names(struct round_body *b, struct err *e)
{
	int rc = json_opt_str(b->root, "task_id", &b->spec.task, e);

	if (rc == 0 && b->spec.task)
		rc = token_name_check("task_id", b->spec.task, e);
	if (rc == 0)
		rc = json_opt_str(b->root, "exec_id", &b->spec.exec_id, e);
	if (rc == 0 && b->spec.exec_id)
		rc = token_name_check("exec_id", b->spec.exec_id, e);
	if (rc == 0)
		rc = json_opt_str(b->root, "cwd", &b->spec.cwd, e);
	if (rc == 0 && b->spec.cwd)
		rc = check_text("cwd", json_object_get(b->root, "cwd"), e);
	if (rc == 0 && b->spec.cwd && !b->spec.cwd[0])
		rc = err_set(e, ERR_INVAL, "cwd must not be empty");
	return rc ? rc : json_opt_bool(b->root, "stdin_open", &b->spec.stdin_open, e);
}

/* A text, or {"base64": ...} for a name that is not UTF-8. */
static int parse_path(struct round_body *b, const json_t *v, struct err *e)
{
	const char *b64 = json_string_value(json_object_get(v, "base64"));
	uint8_t *bytes = NULL;
	size_t n = 0;

	if (json_is_string(v) || !b64) {
		b->file.path = json_string_value(v);
		return check_text("file.path", v, e);
	}
	if (base64_decode(b64, strlen(b64), false, &bytes, &n) || memchr(bytes, 0, n) ||
	    !(b->file_path = strndup((char *)bytes, n))) {
		free(bytes);
		return err_set(e, ERR_INVAL, "file.path is neither a text without NUL nor {\"base64\": ...}");
	}
	free(bytes);
	b->file.path = b->file_path;
	return 0;
}

static int parse_file(struct round_body *b, struct err *e)
{
	static const char *const keys[] = {"op", "path", "mode", "size", "parents", NULL};
	const json_t *o = json_object_get(b->root, "file");
	const char *op = NULL;
	int64_t size = -1;
	int rc;

	b->file = (struct file_spec){.mode = -1};
	if (!json_is_object(o))
		return err_set(e, ERR_INVAL, "file must be an object {op, path}");
	if ((rc = json_only_keys(o, keys, e)) || (rc = json_need_str(o, "op", &op, e)) ||
	    (rc = parse_path(b, json_object_get(o, "path"), e)) ||
	    (rc = json_opt_int(o, "mode", 0, 07777, &b->file.mode, e)) ||
	    (rc = json_opt_int(o, "size", 0, INT64_MAX, &size, e)) ||
	    (rc = json_opt_bool(o, "parents", &b->file.parents, e)))
		return rc;
	if (strcmp(op, "put") != 0 && strcmp(op, "get") != 0)
		return err_set(e, ERR_INVAL, "file.op must be put or get");
	b->file.op = *op == 'p' ? FILE_PUT : FILE_GET;
	b->file.size = size < 0 ? UINT64_MAX : (uint64_t)size;
	b->spec.kind = SESSION_FILE;
	b->spec.stdin_open = b->file.op == FILE_PUT;
	return 0;
}

static int parse_pty(struct round_body *b, struct err *e)
{
	static const char *const keys[] = {"cols", "rows", "xpixel", "ypixel", "term", NULL};
	const json_t *o = json_object_get(b->root, "pty");
	int64_t cols = 80, rows = 24, x = 0, y = 0;
	int rc;

	if (!o || json_is_null(o))
		return 0;
	if (!json_is_object(o))
		return err_set(e, ERR_INVAL, "pty must be an object {cols, rows, term}");
	rc = json_only_keys(o, keys, e);
	if (rc || (rc = json_opt_int(o, "cols", 1, WIRE_SIZE_MAX, &cols, e)) ||
	    (rc = json_opt_int(o, "rows", 1, WIRE_SIZE_MAX, &rows, e)) ||
	    (rc = json_opt_int(o, "xpixel", 0, UINT16_MAX, &x, e)) ||
	    (rc = json_opt_int(o, "ypixel", 0, UINT16_MAX, &y, e)) || (rc = json_opt_str(o, "term", &b->spec.term, e)))
		return rc;
	b->spec.pty = true;
	b->spec.cols = (unsigned)cols;
	b->spec.rows = (unsigned)rows;
	b->spec.xpixel = (unsigned)x;
	b->spec.ypixel = (unsigned)y;
	return b->spec.term ? check_text("pty.term", json_object_get(o, "term"), e) : 0;
}

static int parse_all(struct round_body *b, const struct round_limits *l, const char *const *keys, struct err *e)
{
	size_t bytes = 0;
	int rc;

	if (!json_is_object(b->root))
		return err_set(e, ERR_INVAL, "the body must be a JSON object");
	rc = json_only_keys(b->root, keys, e);
	if (rc == 0)
		rc = parse_names(b, e);
	if (rc == 0 && json_object_get(b->root, "file"))
		return (rc = parse_file(b, e)) ? rc : parse_times(b, l, e);
	if (rc == 0)
		rc = parse_pty(b, e);
	if (rc == 0)
		rc = parse_what(b, &bytes, e);
	if (rc == 0)
		rc = parse_env(b, &bytes, e);
	if (rc == 0 && bytes > l->argv_max)
		rc = err_set(e, ERR_TOO_LARGE, "argv, command and env hold %zu bytes; rounds.argv_max allows %zu",
			     bytes, l->argv_max);
	if (rc == 0)
		rc = parse_stdin(b, e);
	if (rc == 0)
		rc = parse_times(b, l, e);
	return rc ? rc : parse_limits(b, e);
}

static int body_parse(const void *p, size_t n, const struct round_limits *l, const char *const *keys,
		      struct round_body *out, struct err *e)
{
	struct round_body b = {.spec = {.kind = SESSION_ROUND, .head = UINT64_MAX, .tail = UINT64_MAX}};
	int rc;

	if (n == 0)
		return err_set(e, ERR_INVAL, "the body is empty; send a JSON object with argv or command");
	rc = json_parse(p, n, l->body_max, &b.root, e);
	if (rc == 0)
		rc = parse_all(&b, l, keys, e);
	if (rc) {
		round_body_finish(&b);
		return rc;
	}
	if (b.spec.pty)
		b.spec.kind = b.spec.argv || b.spec.command ? SESSION_EXEC : SESSION_TERMINAL;
	*out = b;
	return 0;
}

int round_body_parse(const void *p, size_t n, const struct round_limits *l, struct round_body *out, struct err *e)
{
	static const char *const keys[] = {"task_id", "exec_id",    "argv",    "command", "cwd",        "env",
					   "stdin",   "timeout_ms", "wait_ms", "limits",  "stdin_open", NULL};

	return body_parse(p, n, l, keys, out, e);
}

int start_body_parse(const void *p, size_t n, const struct round_limits *l, struct round_body *out, struct err *e)
{
	static const char *const keys[] = {"task_id",    "exec_id", "argv",       "command", "cwd", "env",
					   "timeout_ms", "pty",     "stdin_open", "file",    NULL};
	int rc = body_parse(p, n, l, keys, out, e);

	if (rc == 0 && out->spec.kind == SESSION_FILE)
		out->spec.file = &out->file;
	return rc;
}

void round_body_finish(struct round_body *b)
{
	if (!b)
		return;
	for (size_t i = 0; b->env && b->env[i]; i++)
		free(b->env[i]);
	free(b->env);
	free((void *)b->argv);
	free(b->stdin_bytes);
	free(b->file_path);
	json_decref(b->root);
	memset(b, 0, sizeof(*b));
}
