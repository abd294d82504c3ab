#define LOG_SUBSYS "agent"
#include "muxd/hub/agent/settings.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "control/servers/lists.h"
#include "control/servers/settings_def.h"
#include "control/store/store.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/hub_ground.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* *out: NULL where there are none; the caller's. */
static int settings_read(struct hub *h, const char *agent, json_t **out, struct err *e)
{
	json_t *list = NULL;
	int rc = !hub_store(h) || strchr(agent, '/') ? 0 : lists_get(hub_store(h), &list_settings, agent, 0, &list, e);

	if (rc)
		return rc;
	*out =
	    json_object_size(json_object_get(list, "settings")) ? json_incref(json_object_get(list, "settings")) : NULL;
	json_decref(list);
	return 0;
}

/* As the store had them at its last change. */
static int settings_of(struct agent *a, const json_t **out, struct err *e)
{
	uint64_t changes = hub_store(a->hub) ? store_changes(hub_store(a->hub)) : 0;
	json_t *now = NULL;
	int rc = 0;

	if (changes != a->settings_at || !changes) {
		if ((rc = settings_read(a->hub, a->name, &now, e)) != 0)
			return rc;
		json_decref(a->settings);
		a->settings = now;
		a->settings_at = changes;
	}
	*out = a->settings;
	return 0;
}

static bool has_variable(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return true;
	return false;
}

static int add_variables(struct launch *io, const json_t *env)
{
	size_t n = 0;
	const char *key;
	char **all;
	json_t *v;

	for (char **p = io->env; p && *p; p++)
		n++;
	all = realloc(io->env, (n + json_object_size(env) + 1) * sizeof(*all));
	if (!all)
		return ERR_NOMEM;
	io->env = all;
	all[n] = NULL;
	json_object_foreach((json_t *)(uintptr_t)env, key, v)
	{
		if (has_variable(all, key))
			continue;
		if (asprintf(&all[n], "%s=%s", key, json_string_value(v)) < 0) {
			all[n] = NULL;
			return ERR_NOMEM;
		}
		all[++n] = NULL;
	}
	return 0;
}

/* The most that the configuration allows of a timeout; *out_key names it. */
static uint64_t most_of(const struct hub *h, bool transfer, const char **out_key)
{
	*out_key = transfer ? SETTINGS_TRANSFER_TIMEOUT : SETTINGS_EXEC_TIMEOUT;
	return transfer ? hub_conf(h)->file_timeout_max_ns : hub_conf(h)->round_timeout_max_ns;
}

static void use_timeout(const struct hub *h, const json_t *s, bool transfer, uint64_t *io_ns)
{
	const char *key;
	uint64_t most = most_of(h, transfer, &key), ns;

	ns = (uint64_t)json_integer_value(json_object_get(s, key)) * NS_PER_MS;
	if (ns)
		*io_ns = ns < most ? ns : most;
}

/* Of what has a time by itself, but what ends a shell or a context. */
static bool takes_timeout(const struct launch *l)
{
	bool ends = l->shell.end || (l->context.role && l->context.role != CONTEXT_EXECUTION);

	return l->timeout_ns && !l->port && !ends;
}

int settings_exec_timeout(struct hub *h, const char *agent, uint64_t *io_ns, struct err *e)
{
	json_t *s = NULL;
	int rc = settings_read(h, agent, &s, e);

	if (!rc)
		use_timeout(h, s, false, io_ns);
	json_decref(s);
	return rc;
}

int settings_apply(struct agent *a, bool timed, struct launch *io, struct err *e)
{
	const json_t *s = NULL;
	const char *workdir;
	int rc = io->port || (io->transfer && timed) ? 0 : settings_of(a, &s, e);

	if (rc || !s)
		return rc;
	if (!timed && takes_timeout(io))
		use_timeout(a->hub, s, io->transfer != NULL, &io->timeout_ns);
	if (io->transfer)
		return 0;
	workdir = json_get_text(s, "workdir");
	if ((!io->cwd && *workdir && !(io->cwd = strdup(workdir))) ||
	    (json_object_size(json_object_get(s, "env")) && add_variables(io, json_object_get(s, "env"))))
		return err_set(e, ERR_NOMEM, "no memory for the settings of %.100s", a->name);
	return 0;
}

/* Each time that is more than the configuration allows: that one counts. */
static void show_timeouts(const struct hub *h, const json_t *s, json_t *o)
{
	json_t *clipped = json_array();

	for (int transfer = 0; transfer < 2; transfer++) {
		const char *key;
		uint64_t most = most_of(h, transfer, &key);
		json_t *v = json_object_get(s, key);

		if (v)
			json_object_set(o, key, v);
		if (clipped && v && (uint64_t)json_integer_value(v) * NS_PER_MS > most)
			json_array_append_new(clipped, json_string(key));
	}
	if (json_array_size(clipped))
		json_object_set(o, "timeouts_clipped", clipped);
	json_decref(clipped);
}

void settings_show(struct hub *h, const char *agent, json_t *o)
{
	json_t *s = NULL, *names, *v;
	struct err e = {0};
	const char *key;

	if (settings_read(h, agent, &s, &e))
		log_error(&(struct log_ids){.agent = agent}, "its settings are not shown: %s", e.message);
	if (!s || !(names = json_array())) {
		json_decref(s);
		return;
	}
	json_object_foreach(json_object_get(s, "env"), key, v) json_array_append_new(names, json_string(key));
	if (json_object_get(s, "workdir"))
		json_object_set(o, "workdir", json_object_get(s, "workdir"));
	if (json_object_get(s, "labels"))
		json_object_set(o, "labels", json_object_get(s, "labels"));
	if (json_array_size(names))
		json_object_set(o, "env_names", names);
	show_timeouts(h, s, o);
	json_decref(names);
	json_decref(s);
}
