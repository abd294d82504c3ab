/* Making, freeing and describing a conf; reading one is in conf.c. */
#include "base/conf.h"

#include "base/buf.h"
#include "base/conf_table.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

#define RULES_MAX    256
#define DESCRIBE_MAX (64 * 1024)

int conf_rule_add(struct conf *c, const char *kind, const char *session, enum conf_rule_kind rule, uint64_t head,
		  uint64_t tail)
{
	if (c->nrules >= RULES_MAX)
		return ERR_LIMIT;
	struct conf_rule *rules = realloc(c->rules, (c->nrules + 1) * sizeof(*rules));
	if (!rules)
		return ERR_NOMEM;
	c->rules = rules;
	struct conf_rule r = {
	    .kind = strdup(kind), .session = strdup(session), .rule = rule, .head = head, .tail = tail};
	if (!r.kind || !r.session) {
		free(r.kind);
		free(r.session);
		return ERR_NOMEM;
	}
	rules[c->nrules++] = r;
	return 0;
}

int conf_rules_close(struct conf *c)
{
	const struct conf_rule *last = c->nrules ? &c->rules[c->nrules - 1] : NULL;

	if (last && strcmp(last->kind, "*") == 0 && strcmp(last->session, "*") == 0)
		return 0;
	return conf_rule_add(c, "*", "*", RULE_TRUNCATED, CONF_RULE_HEAD, CONF_RULE_TAIL);
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
	    strcmp(k->path, "witnesses") == 0 || strcmp(k->path, "witness.pushers") == 0)
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
		if (rc == 0)
			rc = describe_value(&b, &keys[i], indent, dot ? dot + 1 : keys[i].path);
	}
	if (rc == 0 && buf_cstr(&b))
		out = strdup(buf_cstr(&b));
	buf_finish(&b);
	return out;
}
