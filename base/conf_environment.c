/* Settings by the environment, as one gives them to a container. */
#include "base/conf_table.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *path, *unit;
} variables[] = {
    {"POOL_SIZE", "pool.size", ""},
    {"SANDBOX_IMAGE", "kubernetes.image", ""},
    {"SANDBOX_TIMEOUT_SECONDS", "leases.run_timeout", "s"},
    {"LEASE_TTL_SECONDS", "leases.ttl", "s"},
};

static const struct conf_key *conf_environment_key_of(const char *path)
{
	size_t n, i = 0;
	const struct conf_key *keys = conf_keys(&n);

	while (i + 1 < n && strcmp(keys[i].path, path) != 0)
		i++;
	return &keys[i];
}

static int set_one(struct conf *c, size_t i, const char *value, struct err *e)
{
	char text[300];
	struct err why = {0};

	if (*variables[i].unit && value[strspn(value, "0123456789")])
		return err_set(e, ERR_CONFIG, "the environment's %s is not a number of seconds", variables[i].name);
	if ((size_t)snprintf(text, sizeof(text), "%s%s", value, variables[i].unit) >= sizeof(text))
		return err_set(e, ERR_CONFIG, "the environment's %s is too long", variables[i].name);
	if (conf_key_set(c, conf_environment_key_of(variables[i].path), text, &why))
		return err_set(e, ERR_CONFIG, "the environment's %s (%s) %.200s", variables[i].name, variables[i].path,
			       why.message);
	return 0;
}

int conf_environment(struct conf *c, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = getenv(variables[i].name);

		if (value && *value)
			rc = set_one(c, i, value, e);
	}
	/* Who shortens or stretches the default means the bound as well. */
	if (!rc && c->lease_ttl_ns > c->lease_ttl_max_ns)
		c->lease_ttl_max_ns = c->lease_ttl_ns;
	if (!rc && c->run_timeout_ns > c->run_timeout_max_ns)
		c->run_timeout_max_ns = c->run_timeout_ns;
	return rc;
}
