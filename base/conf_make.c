/* Making, freeing and describing a conf, and settings by the environment; reading one is in conf.c. */
#include "base/conf.h"

#include "base/buf.h"
#include "base/conf_start.h"
#include "base/conf_table.h"
#include "base/err.h"
#include "base/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DESCRIBE_MAX (64 * 1024)

int conf_rule_add(struct conf *c, const char *kind, const char *session, enum conf_rule_kind rule, uint64_t head,
		  uint64_t tail, bool floor)
{
	if (c->nrules > CONF_RULES_MAX)
		return ERR_LIMIT;
	struct conf_rule r = {
	    .kind = strdup(kind), .session = strdup(session), .rule = rule, .head = head, .tail = tail, .floor = floor};
	if (r.kind && r.session && list_append(&c->rules, &c->nrules, &r, sizeof(r)) == 0)
		return 0;
	free(r.kind);
	free(r.session);
	return ERR_NOMEM;
}

int conf_rules_close(struct conf *c)
{
	const struct conf_rule *last = c->nrules ? &c->rules[c->nrules - 1] : NULL;

	if (last && strcmp(last->kind, "*") == 0 && strcmp(last->session, "*") == 0)
		return 0;
	return conf_rule_add(c, "*", "*", RULE_TRUNCATED, CONF_RULE_HEAD, CONF_RULE_TAIL, false);
}

void conf_rules_clear(struct conf *c)
{
	for (size_t i = 0; i < c->nrules; i++) {
		free(c->rules[i].kind);
		free(c->rules[i].session);
	}
	free(c->rules);
	c->rules = NULL;
	c->nrules = 0;
}

void conf_life_agent_finish(struct conf_life_agent *a)
{
	free(a->agent);
	free(a->ttl_action);
	free(a->at_rest);
}

int conf_life_agent_add(struct conf *c, const struct conf_life_agent *a)
{
	return list_append(&c->life_agents, &c->life_nagents, a, sizeof(*a));
}

static void conf_life_agents_clear(struct conf *c)
{
	for (size_t i = 0; i < c->life_nagents; i++)
		conf_life_agent_finish(&c->life_agents[i]);
	free(c->life_agents);
	c->life_agents = NULL;
	c->life_nagents = 0;
}

static void strings_free(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

static void staff_finish(struct conf_staff *s)
{
	free(s->principal);
	free(s->scopes);
	strings_free(s->keys, s->nkeys);
	strings_free(s->agents, s->nagents);
}

static void conf_staff_clear(struct conf *c)
{
	for (size_t i = 0; i < c->nstaff; i++)
		staff_finish(&c->staff[i]);
	free(c->staff);
	c->staff = NULL;
	c->nstaff = 0;
}

void conf_destroy(struct conf *c)
{
	size_t n;
	const struct conf_key *keys = conf_keys(&n);

	if (!c)
		return;
	for (size_t i = 0; i < n; i++)
		if (keys[i].type == CONF_STRING || keys[i].type == CONF_CHOICE)
			free(*(char **)((char *)c + keys[i].offset));
	conf_rules_clear(c);
	conf_labels_clear(c);
	conf_life_agents_clear(c);
	conf_witnesses_clear(c);
	conf_issuers_clear(c);
	conf_images_clear(c);
	conf_edges_clear(c);
	conf_staff_clear(c);
	free(c);
}

int conf_create(struct conf **out)
{
	size_t n;
	const struct conf_key *keys = conf_keys(&n);
	struct conf *c = calloc(1, sizeof(*c));
	int rc = c ? 0 : ERR_NOMEM;

	for (size_t i = 0; i < n && rc == 0; i++)
		if (keys[i].type != CONF_LIST)
			rc = conf_key_set(c, &keys[i], keys[i].value, NULL);
	if (rc == 0)
		rc = conf_rules_close(c);
	if (rc < 0) {
		conf_destroy(c);
		return rc;
	}
	*out = c;
	return 0;
}

/* "# help", broken at about 100 columns. */
static int describe_help(struct buf *b, const char *indent, const char *help)
{
	while (*help) {
		size_t len = strlen(help);
		if (len > 100) {
			len = 100;
			while (len && help[len] != ' ')
				len--;
		}
		int rc = buf_printf(b, "%s# %.*s\n", indent, (int)len, help);
		if (rc < 0)
			return rc;
		help += len + (help[len] == ' ');
	}
	return 0;
}

static int describe_value(struct buf *b, const struct conf_key *k, const char *indent, const char *name)
{
	if (k->type != CONF_LIST)
		return buf_printf(b, "%s%s: %s%s%s\n", indent, name, k->type == CONF_STRING ? "\"" : "", k->value,
				  k->type == CONF_STRING ? "\"" : "");
	if (strcmp(k->path, "staff") == 0 || strcmp(k->path, "lifecycle.agents") == 0 ||
	    strcmp(k->path, "witnesses") == 0 || strcmp(k->path, "witness.pushers") == 0 ||
	    strcmp(k->path, "edge.known") == 0 || strcmp(k->path, "sandbox.images") == 0 ||
	    strcmp(k->path, "issuers") == 0)
		return buf_printf(b, "%s%s: []\n", indent, name);
	if (strcmp(k->path, "kubernetes.labels") == 0)
		return buf_printf(b, "%s%s: {}\n", indent, name);
	return buf_printf(
	    b, "%s%s:\n%s  - {kind: \"*\", session: \"*\", rule: truncated, head: %lluKiB, tail: %lluKiB}\n", indent,
	    name, indent, (unsigned long long)(CONF_RULE_HEAD / 1024), (unsigned long long)(CONF_RULE_TAIL / 1024));
}

char *conf_describe(void)
{
	size_t n, section_len = 0;
	const struct conf_key *keys = conf_keys(&n);
	const char *section = "";
	struct buf b;
	int rc = 0;
	char *out = NULL;

	buf_init(&b, DESCRIBE_MAX);
	for (size_t i = 0; i < n && rc == 0; i++) {
		const char *dot = strchr(keys[i].path, '.');
		const char *indent = dot ? "  " : "";
		size_t len = dot ? (size_t)(dot - keys[i].path) : 0;
		if (dot && (len != section_len || strncmp(section, keys[i].path, len) != 0))
			rc = buf_printf(&b, "%.*s:\n", (int)len, keys[i].path);
		section = keys[i].path;
		section_len = len;
		if (rc == 0)
			rc = describe_help(&b, indent, keys[i].help);
		if (rc == 0 && conf_key_waits(&keys[i]))
			rc = describe_help(&b, indent, "A change waits for the daemon's next start.");
		if (rc == 0)
			rc = describe_value(&b, &keys[i], indent, dot ? dot + 1 : keys[i].path);
	}
	if (rc == 0 && buf_cstr(&b))
		out = strdup(buf_cstr(&b));
	buf_finish(&b);
	return out;
}

/* ---- settings by the environment, as one gives them to a container */

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
	if (!rc)
		rc = conf_issuer_environment(c, getenv("AUTH_TOKEN_ISSUER"), getenv("JWKS_URL"), e);
	if (!rc)
		rc = conf_check_issuers(c, e);
	/* A default that the operator shortens or stretches moves the bound as well. */
	if (!rc && c->lease_ttl_ns > c->lease_ttl_max_ns)
		c->lease_ttl_max_ns = c->lease_ttl_ns;
	if (!rc && c->run_timeout_ns > c->run_timeout_max_ns)
		c->run_timeout_max_ns = c->run_timeout_ns;
	return rc;
}
