#include "control/servers/service_def.h"

#include "base/err.h"

#include <string.h>

#define START_MS       30000
#define START_MS_MAX   300000
#define STOP_MS        10000
#define STOP_MS_MAX    60000
#define INTERVAL_MS    10000
#define TIMEOUT_MS     2000
#define BACKOFF_MS     500
#define BACKOFF_MS_MAX 30000
#define BACKOFF_MS_TOP 3600000
#define ATTEMPTS       5
#define PATH_MAX_LEN   1024

static const char *const restart_names[] = {"always", "on_failure", "never"};

const char *service_restart_name(enum service_restart r)
{
	return restart_names[r];
}

/* Fields in the order in which they are read; objects within are read by the tables below. */
struct service_parts {
	struct service_def def;
	const json_t *health, *restart;
	const char *policy;
};

/* The path goes into a request as it is. */
static int service_def_check_path(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	const char *text = json_string_value(v);

	if (text[0] != '/' || strlen(text) != json_string_length(v))
		return schema_fault(s, at, ERR_INVAL, "is no path that begins with /");
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p >= 0x7f || *p == '#')
			return schema_fault(s, at, ERR_INVAL,
					    "has a blank, a # or what is not ASCII in it: write it as %%XX");
	return 0;
}

static int check_policy(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	for (size_t i = 0; i < SCHEMA_COUNT(restart_names); i++)
		if (strcmp(json_string_value(v), restart_names[i]) == 0)
			return 0;
	return schema_fault(s, at, ERR_INVAL, "is not always, on_failure or never");
}

#define TO(member) SCHEMA_TO(struct service_parts, member)
static const struct schema_field health_fields[] = {
    {"path", SCHEMA_TEXT, false, 1, PATH_MAX_LEN, service_def_check_path, TO(def.path)},
    {"interval_ms", SCHEMA_INTEGER, false, 1000, 3600000, NULL, TO(def.interval_ms)},
    {"timeout_ms", SCHEMA_INTEGER, false, 100, 60000, NULL, TO(def.timeout_ms)},
};
static const struct schema_field restart_fields[] = {
    {"policy", SCHEMA_TEXT, false, 1, 32, check_policy, TO(policy)},
    {"backoff_ms", SCHEMA_INTEGER, false, 100, BACKOFF_MS_TOP, NULL, TO(def.backoff_ms)},
    {"backoff_max_ms", SCHEMA_INTEGER, false, 100, BACKOFF_MS_TOP, NULL, TO(def.backoff_max_ms)},
    {"attempts", SCHEMA_INTEGER, false, 1, 100, NULL, TO(def.attempts)},
};
static const struct schema_field fields[] = {
    {"name", SCHEMA_TEXT, true, 1, SERVICE_NAME_MAX, program_check_name, TO(def.name)},
    {"argv", SCHEMA_LIST, true, 0, 0, program_check_command, TO(def.argv)},
    {"env", SCHEMA_OBJECT, false, 0, 0, program_check_env, TO(def.env)},
    {"cwd", SCHEMA_TEXT, false, 1, 4095, NULL, TO(def.cwd)},
    {"port", SCHEMA_INTEGER, false, 1, 65535, NULL, TO(def.port)},
    {"health", SCHEMA_OBJECT, false, 0, 0, NULL, TO(health)},
    {"restart", SCHEMA_OBJECT, false, 0, 0, NULL, TO(restart)},
    {"start_timeout_ms", SCHEMA_INTEGER, false, 100, START_MS_MAX, NULL, TO(def.start_timeout_ms)},
    {"stop_timeout_ms", SCHEMA_INTEGER, false, 100, STOP_MS_MAX, NULL, TO(def.stop_timeout_ms)},
};

static int check_together(const struct schema *s, const struct schema_at *at, const struct service_parts *p)
{
	const struct schema_at health = {at, "health", 0}, restart = {at, "restart", 0};

	if (p->health && !p->def.port)
		return schema_fault(s, &health, ERR_INVAL, "is of no port: name the port that the service listens on");
	if (p->def.backoff_max_ms < p->def.backoff_ms)
		return schema_fault(s, &restart, ERR_INVAL, "has a backoff_max_ms below its backoff_ms");
	return 0;
}

static int read_parts(const struct schema_at *at, const json_t *o, struct service_parts *out, struct err *e)
{
	const struct schema s = {.out = out, .e = e, .null_is_absent = true};
	const struct schema_at health = {at, "health", 0}, restart = {at, "restart", 0};
	int rc;

	*out = (struct service_parts){.policy = restart_names[SERVICE_ALWAYS],
				      .def = {.interval_ms = INTERVAL_MS,
					      .timeout_ms = TIMEOUT_MS,
					      .backoff_ms = BACKOFF_MS,
					      .backoff_max_ms = BACKOFF_MS_MAX,
					      .attempts = ATTEMPTS,
					      .start_timeout_ms = START_MS,
					      .stop_timeout_ms = STOP_MS}};
	rc = schema_object(&s, at, o, SCHEMA_FIELDS(fields));
	if (!rc && out->health)
		rc = schema_object(&s, &health, out->health, SCHEMA_FIELDS(health_fields));
	if (!rc && out->restart)
		rc = schema_object(&s, &restart, out->restart, SCHEMA_FIELDS(restart_fields));
	while (!rc && strcmp(restart_names[out->def.restart], out->policy) != 0)
		out->def.restart++;
	return rc ? rc : check_together(&s, at, out);
}

int service_def_read(const json_t *entry, struct service_def *out, struct err *e)
{
	struct service_parts p;
	int rc = read_parts(NULL, entry, &p, e);

	if (!rc)
		*out = p.def;
	return rc;
}

static json_t *health_json(const struct service_def *d)
{
	return d->port ? json_pack("{s:s*,s:I,s:I}", "path", d->path, "interval_ms", (json_int_t)d->interval_ms,
				   "timeout_ms", (json_int_t)d->timeout_ms)
		       : NULL;
}

static json_t *def_json(const struct service_def *d)
{
	return json_pack("{s:s,s:O,s:O*,s:s*,s:o*,s:o*,s:{s:s,s:I,s:I,s:I},s:I,s:I}", "name", d->name, "argv", d->argv,
			 "env", json_object_size(d->env) ? (json_t *)(uintptr_t)d->env : NULL, "cwd", d->cwd, "port",
			 d->port ? json_integer((json_int_t)d->port) : NULL, "health", health_json(d), "restart",
			 "policy", restart_names[d->restart], "backoff_ms", (json_int_t)d->backoff_ms, "backoff_max_ms",
			 (json_int_t)d->backoff_max_ms, "attempts", (json_int_t)d->attempts, "start_timeout_ms",
			 (json_int_t)d->start_timeout_ms, "stop_timeout_ms", (json_int_t)d->stop_timeout_ms);
}

static int read_one(const struct schema_at *at, const json_t *o, json_t **out, struct err *e)
{
	struct service_parts p;
	int rc = read_parts(at, o, &p, e);

	if (!rc && !(*out = def_json(&p.def)))
		rc = err_set(e, ERR_NOMEM, "no memory for a service");
	return rc;
}

/* A request to a port waits for one service. */
static int check_ports(const json_t *list, struct err *e)
{
	const struct schema s = {.e = e};
	const struct schema_at root = {NULL, "services", 0};
	json_t *v;
	size_t i;

	json_array_foreach(list, i, v) for (size_t k = 0; k < i; k++)
	{
		json_int_t port = json_integer_value(json_object_get(v, "port"));

		if (port && port == json_integer_value(json_object_get(json_array_get(list, k), "port")))
			return schema_fault(&s, &(struct schema_at){&root, NULL, i}, ERR_CONFLICT,
					    "has the port of another, %d", (int)port);
	}
	return 0;
}

int service_list_check(const json_t *list, json_t **out, struct err *e)
{
	static const struct program_list kind = {"services", read_one};
	int rc = program_list_check(&kind, list, out, e);

	if (!rc && (rc = check_ports(*out, e))) {
		json_decref(*out);
		*out = NULL;
	}
	return rc;
}
