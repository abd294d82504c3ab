/* A tool's arguments: as a schema for models, as what is checked, and as the call of the API that is made of them. */
#include "base/text.h"
#include "muxd/doors/https/mcp/tools.h"

#include <stdlib.h>
#include <string.h>

/* ---- as a schema */

static json_t *choices_json(const char *choices)
{
	json_t *list = json_array();

	for (const char *p = choices; *p; p += strcspn(p, ","), p += *p == ',')
		json_array_append_new(list, json_stringn(p, strcspn(p, ",")));
	return list;
}

static void put_bounds(json_t *o, const struct mcp_arg *a)
{
	static const char *const least[] = {
	    [ARG_TEXT] = "minLength", [ARG_INTEGER] = "minimum", [ARG_TEXTS] = "minItems"};
	static const char *const most[] = {
	    [ARG_TEXT] = "maxLength", [ARG_INTEGER] = "maximum", [ARG_TEXTS] = "maxItems"};

	if (a->kind != ARG_TEXT && a->kind != ARG_INTEGER && a->kind != ARG_TEXTS)
		return;
	if (a->min || a->kind == ARG_INTEGER)
		json_object_set_new(o, least[a->kind], json_integer((json_int_t)a->min));
	if (a->max && a->max < INT64_C(1) << 53)
		json_object_set_new(o, most[a->kind], json_integer((json_int_t)a->max));
}

static json_t *arg_schema(const struct mcp_arg *a)
{
	static const char *const types[] = {[ARG_TEXT] = "string", [ARG_INTEGER] = "integer", [ARG_BOOL] = "boolean",
					    [ARG_TEXTS] = "array", [ARG_TEXT_MAP] = "object", [ARG_OBJECT] = "object"};
	json_t *o = json_pack("{s:s,s:s}", "type", types[a->kind], "description", a->text);

	if (a->kind == ARG_TEXTS)
		json_object_set_new(o, "items", json_pack("{s:s}", "type", "string"));
	if (a->kind == ARG_TEXT_MAP)
		json_object_set_new(o, "additionalProperties", json_pack("{s:s}", "type", "string"));
	if (a->choices && *a->choices)
		json_object_set_new(o, "enum", choices_json(a->choices));
	put_bounds(o, a);
	return o;
}

static json_t *input_schema(const struct mcp_tool *t)
{
	json_t *members = json_object(), *required = json_array();

	for (size_t i = 0; i < t->nargs; i++) {
		json_object_set_new(members, t->args[i].name, arg_schema(&t->args[i]));
		if (t->args[i].required)
			json_array_append_new(required, json_string(t->args[i].name));
	}
	return json_pack("{s:s,s:o,s:o,s:b}", "type", "object", "properties", members, "required", required,
			 "additionalProperties", 0);
}

static json_t *tool_json(const struct mcp_tool *t)
{
	json_t *output = NULL;

	(void)json_parse(t->output, strlen(t->output), 65536, &output, NULL);
	return json_pack("{s:s,s:s,s:s,s:o,s:o,s:{s:s,s:b,s:b,s:b,s:b}}", "name", t->name, "title", t->title,
			 "description", t->text, "inputSchema", input_schema(t), "outputSchema", output, "annotations",
			 "title", t->title, "readOnlyHint", (t->flags & TOOL_READS) != 0, "destructiveHint",
			 (t->flags & TOOL_DESTROYS) != 0, "idempotentHint", (t->flags & TOOL_IDEMPOTENT) != 0,
			 "openWorldHint", 0);
}

json_t *mcp_tools_make(void)
{
	json_t *made = json_array();
	size_t n;
	const struct mcp_tool *all = mcp_tools(&n);

	for (size_t i = 0; i < n; i++)
		json_array_append_new(made, tool_json(&all[i]));
	if (json_array_size(made) == n)
		return made;
	json_decref(made);
	return NULL;
}

json_t *mcp_tools_list(struct hub *h, const struct request *rq, json_t *made)
{
	json_t *list = json_array();
	size_t n;
	const struct mcp_tool *all = mcp_tools(&n);

	for (size_t i = 0; i < n; i++)
		if (mcp_tool_allowed(&rq->grant, &all[i], NULL) == 0 && mcp_tool_judged(h, rq, &all[i]))
			json_array_append(list, json_array_get(made, i));
	return json_pack("{s:o}", "tools", list);
}

/* ---- as what is checked */

static const struct mcp_arg *arg_find(const struct mcp_tool *t, const char *name)
{
	for (size_t i = 0; i < t->nargs; i++)
		if (strcmp(t->args[i].name, name) == 0)
			return &t->args[i];
	return NULL;
}

static bool is_one_of(const char *text, const char *choices)
{
	size_t n = strlen(text);

	for (const char *p = choices; *p; p += strcspn(p, ","), p += *p == ',')
		if (strcspn(p, ",") == n && strncmp(p, text, n) == 0)
			return true;
	return false;
}

static int text_check(const struct mcp_arg *a, const json_t *v, struct err *e)
{
	size_t n = json_string_length(v);

	if (!json_is_string(v))
		return err_set(e, ERR_INVAL, "%s must be text", a->name);
	if (strlen(json_string_value(v)) != n)
		return err_set(e, ERR_INVAL, "%s holds a NUL character", a->name);
	if (a->choices && !*a->choices)
		return err_set(e, ERR_UNSUPPORTED, "%s is not applied here: leave it out", a->name);
	if (a->choices && !is_one_of(json_string_value(v), a->choices))
		return err_set(e, ERR_INVAL, "%s must be one of %s", a->name, a->choices);
	if (n < (size_t)a->min || (a->max && n > (size_t)a->max))
		return err_set(e, ERR_INVAL, "%s has %zu bytes: %lld to %lld are allowed", a->name, n,
			       (long long)a->min, (long long)a->max);
	return 0;
}

static int texts_check(const struct mcp_arg *a, const json_t *v, struct err *e)
{
	const char *key;
	json_t *item;
	size_t i;

	if (a->kind == ARG_TEXTS ? !json_is_array(v) : !json_is_object(v))
		return err_set(e, ERR_INVAL, "%s must be %s", a->name,
			       a->kind == ARG_TEXTS ? "a list of texts" : "an object of texts");
	if (json_array_size(v) < (size_t)a->min || (a->max && json_array_size(v) > (size_t)a->max))
		return err_set(e, ERR_INVAL, "%s has %zu items", a->name, json_array_size(v));
	json_array_foreach(v, i, item) if (!json_is_string(item)) return err_set(e, ERR_INVAL, "%s[%zu] must be text",
										 a->name, i);
	json_object_foreach((json_t *)(uintptr_t)v, key, item) if (!json_is_string(item)) return err_set(
	    e, ERR_INVAL, "%s: each value must be text", a->name);
	return 0;
}

/* An object whose members are of the call's body: those that it knows. */
static int members_check(const struct mcp_arg *a, const json_t *v, struct err *e)
{
	const char *key;
	json_t *item;

	if (!json_is_object(v))
		return err_set(e, ERR_INVAL, "%s must be an object", a->name);
	if (a->to != TO_ALL)
		return 0;
	json_object_foreach((json_t *)(uintptr_t)v, key, item) if (!is_one_of(key, a->as)) return err_set(
	    e, ERR_UNSUPPORTED, "%s: \"%.64s\" cannot be applied here, and nothing was done; %s can", a->name, key,
	    a->as);
	return 0;
}

static int arg_check(const struct mcp_arg *a, const json_t *v, struct err *e)
{
	switch (a->kind) {
	case ARG_TEXT:
		return text_check(a, v, e);
	case ARG_BOOL:
		return json_is_boolean(v) ? 0 : err_set(e, ERR_INVAL, "%s must be true or false", a->name);
	case ARG_INTEGER:
		if (!json_is_integer(v))
			return err_set(e, ERR_INVAL, "%s must be a whole number", a->name);
		if (json_integer_value(v) < a->min || json_integer_value(v) > a->max)
			return err_set(e, ERR_INVAL, "%s must be from %lld to %lld", a->name, (long long)a->min,
				       (long long)a->max);
		return 0;
	case ARG_TEXTS:
	case ARG_TEXT_MAP:
		return texts_check(a, v, e);
	default:
		return members_check(a, v, e);
	}
}

int mcp_args_check(const struct mcp_tool *t, const json_t *args, struct err *e)
{
	const char *key;
	json_t *v;
	int rc;

	if (args && !json_is_object(args))
		return err_set(e, ERR_INVAL, "arguments must be an object");
	json_object_foreach((json_t *)(uintptr_t)args, key, v)
	{
		const struct mcp_arg *a = arg_find(t, key);

		if (!a)
			return err_set(e, ERR_INVAL, "%s has no argument \"%.64s\"", t->name, key);
		rc = json_is_null(v) && !a->required ? 0 : arg_check(a, v, e);
		if (rc)
			return rc;
	}
	for (size_t i = 0; i < t->nargs; i++)
		if (t->args[i].required && !json_object_get(args, t->args[i].name))
			return err_set(e, strcmp(t->args[i].name, "task_id") == 0 ? ERR_TASK_REQUIRED : ERR_INVAL,
				       "%s needs the argument %s", t->name, t->args[i].name);
	return 0;
}

/* ---- as a call */

struct making {
	struct mcp_ask *ask;
	json_t *body; /* members */
	const json_t *bytes;
	const char *encoding;
	size_t nnames;
	int64_t first, count; /* of a range; -1: not said */
};

static void put_query(struct mcp_ask *ask, const char *key, const json_t *v)
{
	if (ask->nquery == sizeof(ask->query) / sizeof(ask->query[0]))
		return;
	if (json_is_string(v))
		text_format(ask->query[ask->nquery++], sizeof(ask->query[0]), "%s=%s", key, json_string_value(v));
	else
		text_format(ask->query[ask->nquery++], sizeof(ask->query[0]), "%s=%lld", key,
			    (long long)json_integer_value(v));
}

static int arg_put(struct making *m, const struct mcp_arg *a, json_t *v)
{
	const char *as = a->as ? a->as : a->name;

	switch (a->to) {
	case TO_BODY:
		return json_object_set(m->body, as, v);
	case TO_ALL:
		return json_object_update(m->body, v);
	case TO_NAME:
		m->ask->names[m->nnames++] = json_string_value(v);
		return 0;
	case TO_QUERY:
		put_query(m->ask, as, v);
		return 0;
	case TO_RANGE:
		*(strcmp(a->name, "offset") == 0 ? &m->first : &m->count) = json_integer_value(v);
		return 0;
	case TO_BYTES:
		m->bytes = v;
		return 0;
	case TO_ENCODING:
		m->encoding = json_string_value(v);
		return 0;
	default:
		return 0;
	}
}

static int bytes_make(const struct making *m, struct err *e)
{
	const char *text = json_string_value(m->bytes);
	uint8_t *raw = NULL;
	size_t n = json_string_length(m->bytes);
	int rc;

	if (!m->encoding || strcmp(m->encoding, "base64") != 0)
		return buf_append(&m->ask->body, text, n);
	rc = base64_decode(text, n, false, &raw, &n);
	if (rc == 0)
		rc = buf_append(&m->ask->body, raw, n);
	else
		rc = err_set(e, ERR_INVAL, "content is not base64");
	free(raw);
	return rc;
}

static void range_make(const struct making *m)
{
	long long first = m->first < 0 ? 0 : m->first;

	if (m->count >= 0)
		text_format(m->ask->range, sizeof(m->ask->range), "bytes=%lld-%lld", first, first + m->count - 1);
	else if (m->first > 0)
		text_format(m->ask->range, sizeof(m->ask->range), "bytes=%lld-", first);
}

static int ask_fill(const struct mcp_tool *t, const json_t *args, const char *exec_id, struct making *m, struct err *e)
{
	json_t *fixed = NULL;
	int rc = t->fixed ? json_parse(t->fixed, strlen(t->fixed), 4096, &fixed, e) : 0;

	if (rc == 0 && fixed)
		rc = json_object_update(m->body, fixed);
	json_decref(fixed);
	for (size_t i = 0; rc == 0 && i < t->nargs; i++) {
		json_t *v = json_object_get(args, t->args[i].name);

		if (v && !json_is_null(v))
			rc = arg_put(m, &t->args[i], v);
	}
	if (rc == 0 && exec_id && t->flags & TOOL_EXEC_ID)
		rc = json_object_set_new(m->body, "exec_id", json_string(exec_id));
	return rc ? ERR_NOMEM : 0;
}

int mcp_ask_make(const struct mcp_tool *t, const json_t *args, const char *exec_id, size_t max, struct mcp_ask *out,
		 struct err *e)
{
	struct making m = {.ask = out, .body = json_object(), .first = -1, .count = -1};
	int rc;

	memset(out, 0, sizeof(*out));
	buf_init(&out->body, max);
	out->task = json_string_value(json_object_get(args, "task_id"));
	out->only_new = t->flags & TOOL_NEW_ONLY && json_is_true(json_object_get(args, "create_only"));
	rc = m.body ? ask_fill(t, args, exec_id, &m, e) : ERR_NOMEM;
	range_make(&m);
	if (rc == 0 && m.bytes)
		rc = bytes_make(&m, e);
	else if (rc == 0 && t->method == HTTP_POST)
		rc = json_append(&out->body, m.body);
	json_decref(m.body);
	if (rc == ERR_TOO_LARGE)
		return err_set(e, rc, "the arguments are over a limit (api.max_body)");
	return rc;
}

void mcp_ask_finish(struct mcp_ask *a)
{
	buf_finish_secret(&a->body);
}
