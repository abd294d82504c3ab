#include "control/work/workflow.h"

#include "base/err.h"
#include "base/ids.h"
#include "base/schema.h"
#include "base/text.h"
#include "control/artifacts/artifact_wish.h"

#include <stdlib.h>
#include <string.h>

#define NAME_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/* ---- leaves */

static int workflow_check_name(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	struct err why = {0};

	return workflow_name_check(json_string_value(v), &why) ? schema_fault(c, at, ERR_INVAL, "%.160s", why.message)
							       : 0;
}

static int check_token_name(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	struct err why = {0};

	return token_name_check("it", json_string_value(v), &why)
		   ? schema_fault(c, at, ERR_INVAL, "%.160s", why.message)
		   : 0;
}

static int check_cwd(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	return json_string_value(v)[0] == '/' ? 0 : schema_fault(c, at, ERR_INVAL, "is not an absolute path");
}

static int check_argv(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	return schema_texts(c, at, v, WORKFLOW_TEXT_MAX);
}

static int check_env(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)v, key, value)
	{
		struct schema_at here = {.up = at, .key = key};
		struct schema_field f = {.kind = SCHEMA_TEXT, .max = WORKFLOW_TEXT_MAX};
		int rc;

		if (!*key || key[strspn(key, NAME_BYTES "_")] || (*key >= '0' && *key <= '9'))
			return schema_fault(c, &here, ERR_INVAL, "is not the name of a variable");
		if (strncmp(key, "MUXD_", 5) == 0)
			return schema_fault(c, &here, ERR_INVAL, "names that begin with MUXD_ are muxd's own");
		if ((rc = schema_value(c, &here, &f, value)))
			return rc;
	}
	return 0;
}

static const struct workflow_limits *limits_of(const struct schema *c)
{
	return c->limit;
}

static int check_timeout(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	if ((uint64_t)json_integer_value(v) > limits_of(c)->timeout_max_s)
		return schema_fault(c, at, ERR_INVAL, "%lld: over the limit of %llu (leases.run_timeout_max)",
				    (long long)json_integer_value(v), (unsigned long long)limits_of(c)->timeout_max_s);
	return 0;
}

static int check_memory(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	if (limits_of(c)->memory_max && (uint64_t)json_integer_value(v) > limits_of(c)->memory_max)
		return schema_fault(c, at, ERR_INVAL, "%lld: a sandbox has %llu (sandbox.memory)",
				    (long long)json_integer_value(v), (unsigned long long)limits_of(c)->memory_max);
	return 0;
}

/* ---- code, steps */

static const char *const python[] = {"python3", "-", NULL};
static const char *const javascript[] = {"node", "-", NULL};

const char *const *workflow_runner(const char *language)
{
	return strcmp(language, "python") == 0 ? python : strcmp(language, "javascript") == 0 ? javascript : NULL;
}

static int check_language(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	return workflow_runner(json_string_value(v))
		   ? 0
		   : schema_fault(c, at, ERR_INVAL, "is neither python nor javascript");
}

static int check_code(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	static const struct schema_field fields[] = {
	    {"language", SCHEMA_TEXT, true, 1, 32, check_language, 0},
	    {"source", SCHEMA_TEXT, true, 1, 2 * WORKFLOW_TEXT_MAX, NULL, 0},
	};

	return schema_object(c, at, v, SCHEMA_FIELDS(fields));
}

static int check_later(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	(void)v;
	return schema_fault(c, at, ERR_UNSUPPORTED,
			    "steps of this kind are not run by this version: use argv, shell or code");
}

static int check_step(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	static const struct schema_field fields[] = {
	    {"name", SCHEMA_TEXT, false, 1, 128, check_token_name, 0},
	    {"argv", SCHEMA_LIST, false, 1, 1024, check_argv, 0},
	    {"shell", SCHEMA_TEXT, false, 1, WORKFLOW_TEXT_MAX, NULL, 0},
	    {"code", SCHEMA_OBJECT, false, 0, 0, check_code, 0},
	    {"tool", SCHEMA_OBJECT, false, 0, 0, check_later, 0},
	    {"mcp", SCHEMA_OBJECT, false, 0, 0, check_later, 0},
	    {"cwd", SCHEMA_TEXT, false, 1, 4095, check_cwd, 0},
	    {"env", SCHEMA_OBJECT, false, 0, 0, check_env, 0},
	    {"timeoutSeconds", SCHEMA_INTEGER, false, 1, INT32_MAX, check_timeout, 0},
	    {"continueOnError", SCHEMA_BOOL, false, 0, 0, NULL, 0},
	    {"artifacts", SCHEMA_LIST, false, 1, ARTIFACT_WISHES_MAX, artifact_wishes_check, 0},
	};
	int rc = schema_object(c, at, v, SCHEMA_FIELDS(fields)), kinds = 0;

	if (rc)
		return rc;
	for (size_t i = 1; i <= 3; i++)
		kinds += json_object_get(v, fields[i].key) != NULL;
	return kinds == 1 ? 0
			  : schema_fault(c, at, ERR_INVAL, "has %s of argv, shell and code: it needs one",
					 kinds ? "more than one" : "none");
}

static int check_steps(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	size_t i;
	json_t *step;

	json_array_foreach((json_t *)v, i, step)
	{
		struct schema_at here = {.up = at, .index = i};
		int rc = check_step(c, &here, step);

		if (rc)
			return rc;
	}
	return 0;
}

/* ---- hints and schedule */

static int check_hints(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	static const struct schema_field fields[] = {
	    {"timeoutSeconds", SCHEMA_INTEGER, false, 1, INT32_MAX, check_timeout, 0},
	    {"memoryBytes", SCHEMA_INTEGER, false, 1, INT64_MAX, check_memory, 0},
	};

	return schema_object(c, at, v, SCHEMA_FIELDS(fields));
}

static int check_cron(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	const char *s = json_string_value(v);
	size_t n = 0;

	for (;;) {
		s += strspn(s, " ");
		if (!*s)
			break;
		size_t len = strspn(s, NAME_BYTES "*,/-?#");
		if (!len)
			return schema_fault(c, at, ERR_INVAL, "has a character that no cron field has");
		s += len;
		n++;
	}
	return n == 5 ? 0
		      : schema_fault(c, at, ERR_INVAL, "has %zu fields: minute hour day month weekday are wanted", n);
}

static int check_zone(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	const char *s = json_string_value(v);

	return s[strspn(s, NAME_BYTES "/_+-")] ? schema_fault(c, at, ERR_INVAL, "is not the name of a time zone") : 0;
}

static int check_enabled(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	if (!json_is_true(v))
		return 0;
	return schema_fault(c, at, ERR_UNSUPPORTED,
			    "schedules are stored and not run by this version: store it with enabled false");
}

static int check_schedule(const struct schema *c, const struct schema_at *at, const json_t *v)
{
	static const struct schema_field fields[] = {
	    {"cron", SCHEMA_TEXT, true, 1, 128, check_cron, 0},
	    {"timeZone", SCHEMA_TEXT, false, 1, 64, check_zone, 0},
	    {"enabled", SCHEMA_BOOL, false, 0, 0, check_enabled, 0},
	};

	return schema_object(c, at, v, SCHEMA_FIELDS(fields));
}

int workflow_check(const json_t *o, const struct workflow_limits *l, struct err *e)
{
	static const struct schema_field fields[] = {
	    {"name", SCHEMA_TEXT, true, 1, WORKFLOW_NAME_MAX, workflow_check_name, 0},
	    {"owner", SCHEMA_TEXT, true, 1, 128, check_token_name, 0},
	    {"version", SCHEMA_INTEGER, true, 1, INT32_MAX, NULL, 0},
	    {"description", SCHEMA_TEXT, false, 0, 1024, NULL, 0},
	    {"steps", SCHEMA_LIST, true, 1, WORKFLOW_STEPS_MAX, check_steps, 0},
	    {"hints", SCHEMA_OBJECT, false, 0, 0, check_hints, 0},
	    {"schedule", SCHEMA_OBJECT, false, 0, 0, check_schedule, 0},
	};
	struct schema c = {.limit = l, .e = e};

	return schema_object(&c, NULL, o, SCHEMA_FIELDS(fields));
}

/* ---- reading a checked one */

size_t workflow_steps(const json_t *o)
{
	return json_array_size(json_object_get(o, "steps"));
}

void workflow_step(const json_t *o, size_t i, struct workflow_step *out)
{
	const json_t *s = json_array_get(json_object_get(o, "steps"), i), *code = json_object_get(s, "code");
	const char *name = json_string_value(json_object_get(s, "name"));

	*out = (struct workflow_step){.name = name ? name : "",
				      .argv = json_object_get(s, "argv"),
				      .env = json_object_get(s, "env"),
				      .shell = json_string_value(json_object_get(s, "shell")),
				      .language = json_string_value(json_object_get(code, "language")),
				      .source = json_string_value(json_object_get(code, "source")),
				      .cwd = json_string_value(json_object_get(s, "cwd")),
				      .artifacts = json_object_get(s, "artifacts"),
				      .go_on = json_is_true(json_object_get(s, "continueOnError"))};
	out->timeout_s = (uint64_t)json_integer_value(json_object_get(s, "timeoutSeconds"));
}

uint64_t workflow_timeout_s(const json_t *o)
{
	return (uint64_t)json_integer_value(json_object_get(json_object_get(o, "hints"), "timeoutSeconds"));
}

int workflow_name_check(const char *name, struct err *e)
{
	size_t n = strlen(name);

	if (n == 0 || n > WORKFLOW_NAME_MAX || strspn(name, NAME_BYTES "._-") != n || !strchr(NAME_BYTES, name[0]))
		return err_set(
		    e, ERR_INVAL,
		    "\"%.64s\" is not the name of a workflow: 1 to %d of A-Z a-z 0-9 . _ -, a letter or digit first",
		    name, WORKFLOW_NAME_MAX);
	return 0;
}

int workflow_id_parse(const char *id, char out_name[WORKFLOW_NAME_MAX + 1], int64_t *out_version, struct err *e)
{
	const char *sign = strchr(id, '@');
	size_t n = sign ? (size_t)(sign - id) : strlen(id);
	char name[WORKFLOW_NAME_MAX + 2];
	long long version = 0;
	int rc;

	text_format(name, sizeof(name), "%.*s", n > sizeof(name) ? (int)sizeof(name) : (int)n, id);
	if ((rc = workflow_name_check(name, e)))
		return rc;
	if (sign) {
		size_t digits = strspn(sign + 1, "0123456789");

		version = strtoll(sign + 1, NULL, 10);
		if (digits == 0 || digits > 9 || sign[1 + digits] || version < 1)
			return err_set(e, ERR_INVAL, "the version of a workflow is a number from 1: NAME@3");
	}
	memcpy(out_name, name, strlen(name) + 1); /* checked: it fits */
	*out_version = version;
	return 0;
}
