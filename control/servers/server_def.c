#include "control/servers/server_def.h"

#include "base/err.h"
#include "base/loopback.h"
#include "base/schema.h"
#include "base/text.h"
#include "control/servers/digest.h"
#include "control/servers/program_def.h"

#include <string.h>

/* ---- a server */

int server_name_check(const char *name, struct err *e)
{
	return program_name_check(name, "server", e);
}

static int check_scope(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	return strcmp(json_string_value(v), "platform") == 0
		   ? schema_fault(s, at, ERR_PLATFORM_SERVER,
				  "is platform: such a server stays outside of sandboxes, and is none of this list")
		   : 0;
}

static int check_url(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	struct loopback to;
	int rc = program_check_secret(s, at, v);

	if (rc)
		return rc;
	rc = strlen(json_string_value(v)) == json_string_length(v) ? loopback_read(json_string_value(v), &to)
								   : ERR_INVAL;
	if (rc == ERR_EGRESS)
		return schema_fault(s, at, rc,
				    "cannot be reached: there is no way out of a sandbox yet; name a command that runs "
				    "inside, or a server that listens there: 127.0.0.1, [::1] or localhost");
	if (rc == ERR_UNSUPPORTED)
		return schema_fault(s, at, ERR_INVAL,
				    "is https on the sandbox's own loopback, where nobody else can listen in: write "
				    "http://");
	return rc ? schema_fault(s, at, rc, "is no address of HTTP: write http://127.0.0.1:PORT/PATH") : 0;
}

/* Once each. */
static int check_asks(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	static const char *const known[] = {"elicitation", "roots", "sampling"};
	unsigned seen = 0, bit;
	const json_t *name;
	size_t i;

	json_array_foreach(v, i, name)
	{
		bit = 0;
		for (size_t k = 0; k < SCHEMA_COUNT(known); k++)
			if (json_is_string(name) && strcmp(json_string_value(name), known[k]) == 0)
				bit = 1u << k;
		if (!bit || seen & bit)
			return schema_fault(s, at, ERR_INVAL, "takes elicitation, roots and sampling, each once");
		seen |= bit;
	}
	return 0;
}

/* Servers go by their names: whatever is named platform or has a url is refused by that, before anything else. */
static const struct schema_field fields[] = {
    {"scope", SCHEMA_TEXT, false, 1, 32, check_scope, SCHEMA_TO(struct server_def, scope)},
    {"url", SCHEMA_TEXT, false, 1, LOOPBACK_URL_MAX, check_url, SCHEMA_TO(struct server_def, url)},
    {"name", SCHEMA_TEXT, true, 1, SERVER_NAME_MAX, program_check_name, SCHEMA_TO(struct server_def, name)},
    {"command", SCHEMA_LIST, false, 0, 0, program_check_command, SCHEMA_TO(struct server_def, command)},
    {"env", SCHEMA_OBJECT, false, 0, 0, program_check_env, SCHEMA_TO(struct server_def, env)},
    {"cwd", SCHEMA_TEXT, false, 1, 4095, NULL, SCHEMA_TO(struct server_def, cwd)},
    {"start_timeout_ms", SCHEMA_INTEGER, false, 100, SERVER_START_MS_MAX, NULL,
     SCHEMA_TO(struct server_def, start_timeout_ms)},
    {"asks", SCHEMA_LIST, false, 0, 3, check_asks, SCHEMA_TO(struct server_def, asks)},
};

/* One of both, and what belongs to a program with the program alone. */
static int check_kind(const struct schema *s, const struct schema_at *at, const struct server_def *d)
{
	const struct schema_at command = {at, "command", 0}, url = {at, "url", 0}, env = {at, "env", 0},
			       cwd = {at, "cwd", 0};

	if (!d->command && !d->url)
		return schema_fault(s, &command, ERR_INVAL, "is missing: a server has a command or a url");
	if (!d->url)
		return 0;
	if (d->command)
		return schema_fault(s, &url, ERR_INVAL, "stands beside a command: a server has one of them");
	if (d->env || d->cwd)
		return schema_fault(s, d->env ? &env : &cwd, ERR_INVAL, "belongs to a command, and a url has none");
	return 0;
}

static int read_def(const struct schema_at *at, const json_t *o, struct server_def *out, struct err *e)
{
	const struct schema s = {.out = out, .e = e, .null_is_absent = true};
	int rc;

	*out = (struct server_def){.scope = "agent", .start_timeout_ms = SERVER_START_MS};
	rc = schema_object(&s, at, o, SCHEMA_FIELDS(fields));
	return rc ? rc : check_kind(&s, at, out);
}

static json_t *borrowed(const json_t *v)
{
	return json_is_array(v) && !json_array_size(v) ? NULL : (json_t *)(uintptr_t)v;
}

json_t *server_def_json(const struct server_def *d)
{
	return json_pack("{s:s,s:s,s:O*,s:s*,s:O*,s:s*,s:I,s:O*}", "name", d->name, "scope", d->scope, "command",
			 borrowed(d->command), "url", d->url, "env", json_object_size(d->env) ? borrowed(d->env) : NULL,
			 "cwd", d->cwd, "start_timeout_ms", (json_int_t)d->start_timeout_ms, "asks", borrowed(d->asks));
}

/* ---- the list */

static int read_one(const struct schema_at *at, const json_t *o, json_t **out, struct err *e)
{
	struct server_def d;
	int rc = read_def(at, o, &d, e);

	if (!rc && !(*out = server_def_json(&d)))
		rc = err_set(e, ERR_NOMEM, "no memory for a server");
	return rc;
}

int server_list_check(const json_t *list, json_t **out, struct err *e)
{
	static const struct program_list kind = {"servers", read_one};

	return program_list_check(&kind, list, out, e);
}

int server_list_find(const json_t *list, const char *name, struct server_def *out, struct err *e)
{
	const json_t *v = program_list_find(list, name);
	int rc = v ? read_def(NULL, v, out, e) : 0;

	if (!v)
		return err_set(e, ERR_NOT_FOUND, "the agent has no MCP server \"%.64s\"", name);
	return rc ? rc : digest_json(v, out->fingerprint) ? err_set(e, ERR_NOMEM, "no memory") : 0;
}
