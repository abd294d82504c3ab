#include "control/work/workflow.h"

#include "base/err.h"
#include "base/ids.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define NAME_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define PATH_SIZE  200

/* Where a value stands: a chain on the stack, from the value up to the root. */
struct at {
	const struct at *up;
	const char *key; /* NULL: a place in a list */
	size_t index;
};

/* RFC 6901, made from the end of the buffer. Keys are peers' words: what is not printable becomes '?'. */
static char *work_workflow_put(char *p, const char *begin, char c)
{
	unsigned char u = (unsigned char)c;

	if (p > begin)
		*--p = u < 0x20 || u > 0x7e ? '?' : c;
	return p;
}

static char *put_key(char *p, const char *begin, const char *key)
{
	size_t n = strlen(key);

	if (n > 64)
		n = 64;
	while (n--) {
		if (key[n] == '/' || key[n] == '~') {
			p = work_workflow_put(p, begin, key[n] == '/' ? '1' : '0');
			p = work_workflow_put(p, begin, '~');
		} else {
			p = work_workflow_put(p, begin, key[n]);
		}
	}
	return p;
}

static const char *pointer(const struct at *at, char buf[PATH_SIZE])
{
	char *p = buf + PATH_SIZE - 1, number[24];

	*p = '\0';
	for (; at; at = at->up) {
		snprintf(number, sizeof(number), "%zu", at->index);
		p = put_key(p, buf, at->key ? at->key : number);
		p = work_workflow_put(p, buf, '/');
	}
	return *p ? p : "/";
}

__attribute__((format(printf, 4, 5))) static int fault(const struct at *at, int code, struct err *e, const char *fmt,
						       ...)
{
	char text[180], path[PATH_SIZE];
	va_list ap;

	va_start(ap, fmt);
	text_vformat(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(e, code, "%s: %s", pointer(at, path), text);
}

enum type { T_STRING, T_INTEGER, T_BOOL, T_LIST, T_OBJECT };

struct check {
	const struct workflow_limits *limits;
	struct err *e;
};

struct field {
	const char *key;
	enum type type;
	bool required;
	int64_t min, max; /* of a number, of a text's bytes, of a list's length */
	int (*check)(const struct check *c, const struct at *at, const json_t *v);
};

static const char *type_name(enum type t)
{
	static const char *const names[] = {"a string", "an integer", "true or false", "a list", "an object"};

	return names[t];
}

static bool is_type(const json_t *v, enum type t)
{
	switch (t) {
	case T_STRING:
		return json_is_string(v);
	case T_INTEGER:
		return json_is_integer(v);
	case T_BOOL:
		return json_is_boolean(v);
	case T_LIST:
		return json_is_array(v);
	default:
		return json_is_object(v);
	}
}

static int check_value(const struct check *c, const struct at *at, const struct field *f, const json_t *v)
{
	int64_t n = f->type == T_STRING    ? (int64_t)json_string_length(v)
		    : f->type == T_INTEGER ? json_integer_value(v)
		    : f->type == T_LIST    ? (int64_t)json_array_size(v)
					   : f->min;
	const char *unit = f->type == T_STRING ? " bytes" : f->type == T_LIST ? " items" : "";

	if (!is_type(v, f->type))
		return fault(at, ERR_INVAL, c->e, "is not %s", type_name(f->type));
	if (n < f->min && n == 0 && f->type != T_INTEGER)
		return fault(at, ERR_INVAL, c->e, "is empty");
	if (n < f->min || n > f->max)
		return fault(at, f->type != T_INTEGER && n > f->max ? ERR_TOO_LARGE : ERR_INVAL, c->e,
			     "%lld%s: from %lld to %lld are allowed", (long long)n, unit, (long long)f->min,
			     (long long)f->max);
	return f->check ? f->check(c, at, v) : 0;
}

/* An object with these fields and no others. */
static int check_object(const struct check *c, const struct at *at, const json_t *o, const struct field *fields,
			size_t nfields)
{
	const char *key;
	json_t *v;

	if (!json_is_object(o))
		return fault(at, ERR_INVAL, c->e, "is not an object");
	json_object_foreach((json_t *)o, key, v)
	{
		struct at here = {.up = at, .key = key};
		size_t i = 0;

		while (i < nfields && strcmp(fields[i].key, key) != 0)
			i++;
		if (i == nfields)
			return fault(&here, ERR_INVAL, c->e, "is not a field of this");
		int rc = check_value(c, &here, &fields[i], v);
		if (rc)
			return rc;
	}
	for (size_t i = 0; i < nfields; i++) {
		struct at here = {.up = at, .key = fields[i].key};

		if (fields[i].required && !json_object_get(o, fields[i].key))
			return fault(&here, ERR_INVAL, c->e, "is missing");
	}
	return 0;
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- leaves */

static int check_name(const struct check *c, const struct at *at, const json_t *v)
{
	struct err why = {0};

	return workflow_name_check(json_string_value(v), &why) ? fault(at, ERR_INVAL, c->e, "%.160s", why.message) : 0;
}

static int check_token_name(const struct check *c, const struct at *at, const json_t *v)
{
	struct err why = {0};

	return token_name_check("it", json_string_value(v), &why) ? fault(at, ERR_INVAL, c->e, "%.160s", why.message)
								  : 0;
}

static int check_cwd(const struct check *c, const struct at *at, const json_t *v)
{
	return json_string_value(v)[0] == '/' ? 0 : fault(at, ERR_INVAL, c->e, "is not an absolute path");
}

static int check_argv(const struct check *c, const struct at *at, const json_t *v)
{
	size_t i;
	json_t *word;

	json_array_foreach((json_t *)v, i, word)
	{
		struct at here = {.up = at, .index = i};
		struct field f = {.type = T_STRING, .min = i == 0, .max = WORKFLOW_TEXT_MAX};
		int rc = check_value(c, &here, &f, word);

		if (rc)
			return rc;
	}
	return 0;
}

static int check_env(const struct check *c, const struct at *at, const json_t *v)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)v, key, value)
	{
		struct at here = {.up = at, .key = key};
		struct field f = {.type = T_STRING, .max = WORKFLOW_TEXT_MAX};
		int rc;

		if (!*key || key[strspn(key, NAME_BYTES "_")] || (*key >= '0' && *key <= '9'))
			return fault(&here, ERR_INVAL, c->e, "is not the name of a variable");
		if (strncmp(key, "MUXD_", 5) == 0)
			return fault(&here, ERR_INVAL, c->e, "names that begin with MUXD_ are muxd's own");
		if ((rc = check_value(c, &here, &f, value)))
			return rc;
	}
	return 0;
}

static int check_timeout(const struct check *c, const struct at *at, const json_t *v)
{
	if ((uint64_t)json_integer_value(v) > c->limits->timeout_max_s)
		return fault(at, ERR_INVAL, c->e, "%lld: over the limit of %llu (leases.run_timeout_max)",
			     (long long)json_integer_value(v), (unsigned long long)c->limits->timeout_max_s);
	return 0;
}

static int check_memory(const struct check *c, const struct at *at, const json_t *v)
{
	if (c->limits->memory_max && (uint64_t)json_integer_value(v) > c->limits->memory_max)
		return fault(at, ERR_INVAL, c->e, "%lld: a sandbox has %llu (sandbox.memory)",
			     (long long)json_integer_value(v), (unsigned long long)c->limits->memory_max);
	return 0;
}

/* ---- code, steps */

static const char *const python[] = {"python3", "-", NULL};
static const char *const javascript[] = {"node", "-", NULL};

const char *const *workflow_runner(const char *language)
{
	return strcmp(language, "python") == 0 ? python : strcmp(language, "javascript") == 0 ? javascript : NULL;
}

static int check_language(const struct check *c, const struct at *at, const json_t *v)
{
	return workflow_runner(json_string_value(v)) ? 0
						     : fault(at, ERR_INVAL, c->e, "is neither python nor javascript");
}

static int check_code(const struct check *c, const struct at *at, const json_t *v)
{
	static const struct field fields[] = {
	    {"language", T_STRING, true, 1, 32, check_language},
	    {"source", T_STRING, true, 1, 2 * WORKFLOW_TEXT_MAX, NULL},
	};

	return check_object(c, at, v, fields, COUNT(fields));
}

static int check_later(const struct check *c, const struct at *at, const json_t *v)
{
	(void)v;
	return fault(at, ERR_UNSUPPORTED, c->e,
		     "steps of this kind are not run by this version: use argv, shell or code");
}

static int check_step(const struct check *c, const struct at *at, const json_t *v)
{
	static const struct field fields[] = {
	    {"name", T_STRING, false, 1, 128, check_token_name},
	    {"argv", T_LIST, false, 1, 1024, check_argv},
	    {"shell", T_STRING, false, 1, WORKFLOW_TEXT_MAX, NULL},
	    {"code", T_OBJECT, false, 0, 0, check_code},
	    {"tool", T_OBJECT, false, 0, 0, check_later},
	    {"mcp", T_OBJECT, false, 0, 0, check_later},
	    {"cwd", T_STRING, false, 1, 4095, check_cwd},
	    {"env", T_OBJECT, false, 0, 0, check_env},
	    {"timeoutSeconds", T_INTEGER, false, 1, INT32_MAX, check_timeout},
	    {"continueOnError", T_BOOL, false, 0, 0, NULL},
	};
	int rc = check_object(c, at, v, fields, COUNT(fields)), kinds = 0;

	if (rc)
		return rc;
	for (size_t i = 1; i <= 3; i++)
		kinds += json_object_get(v, fields[i].key) != NULL;
	return kinds == 1 ? 0
			  : fault(at, ERR_INVAL, c->e, "has %s of argv, shell and code: it needs one",
				  kinds ? "more than one" : "none");
}

static int check_steps(const struct check *c, const struct at *at, const json_t *v)
{
	size_t i;
	json_t *step;

	json_array_foreach((json_t *)v, i, step)
	{
		struct at here = {.up = at, .index = i};
		int rc = check_step(c, &here, step);

		if (rc)
			return rc;
	}
	return 0;
}

/* ---- hints and schedule */

static int check_hints(const struct check *c, const struct at *at, const json_t *v)
{
	static const struct field fields[] = {
	    {"timeoutSeconds", T_INTEGER, false, 1, INT32_MAX, check_timeout},
	    {"memoryBytes", T_INTEGER, false, 1, INT64_MAX, check_memory},
	};

	return check_object(c, at, v, fields, COUNT(fields));
}

static int check_cron(const struct check *c, const struct at *at, const json_t *v)
{
	const char *s = json_string_value(v);
	size_t n = 0;

	for (;;) {
		s += strspn(s, " ");
		if (!*s)
			break;
		size_t len = strspn(s, NAME_BYTES "*,/-?#");
		if (!len)
			return fault(at, ERR_INVAL, c->e, "has a character that no cron field has");
		s += len;
		n++;
	}
	return n == 5 ? 0 : fault(at, ERR_INVAL, c->e, "has %zu fields: minute hour day month weekday are wanted", n);
}

static int check_zone(const struct check *c, const struct at *at, const json_t *v)
{
	const char *s = json_string_value(v);

	return s[strspn(s, NAME_BYTES "/_+-")] ? fault(at, ERR_INVAL, c->e, "is not the name of a time zone") : 0;
}

static int check_enabled(const struct check *c, const struct at *at, const json_t *v)
{
	if (!json_is_true(v))
		return 0;
	return fault(at, ERR_UNSUPPORTED, c->e,
		     "schedules are stored and not run by this version: store it with enabled false");
}

static int check_schedule(const struct check *c, const struct at *at, const json_t *v)
{
	static const struct field fields[] = {
	    {"cron", T_STRING, true, 1, 128, check_cron},
	    {"timeZone", T_STRING, false, 1, 64, check_zone},
	    {"enabled", T_BOOL, false, 0, 0, check_enabled},
	};

	return check_object(c, at, v, fields, COUNT(fields));
}

int workflow_check(const json_t *o, const struct workflow_limits *l, struct err *e)
{
	static const struct field fields[] = {
	    {"name", T_STRING, true, 1, WORKFLOW_NAME_MAX, check_name},
	    {"owner", T_STRING, true, 1, 128, check_token_name},
	    {"version", T_INTEGER, true, 1, INT32_MAX, NULL},
	    {"description", T_STRING, false, 0, 1024, NULL},
	    {"steps", T_LIST, true, 1, WORKFLOW_STEPS_MAX, check_steps},
	    {"hints", T_OBJECT, false, 0, 0, check_hints},
	    {"schedule", T_OBJECT, false, 0, 0, check_schedule},
	};
	struct check c = {.limits = l, .e = e};

	return check_object(&c, NULL, o, fields, COUNT(fields));
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
