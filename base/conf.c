#include "base/conf.h"

#include "base/conf_node.h"
#include "base/err.h"
#include "base/slurp.h"
#include "base/text.h"
#include "base/yamldoc.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX (1024 * 1024)

static int unknown_key(const struct conf_reader *r, const yaml_mark_t *at, const char *path)
{
	const char *near = conf_key_nearest(path);

	if (near && strcmp(near, path) == 0)
		return conf_fail(r, at, "key \"%.64s\" is written as a section with the name inside it, not with a dot",
				 path);
	if (near)
		return conf_fail(r, at, "unknown key \"%.64s\", did you mean %s?", path, near);
	return conf_fail(r, at, "unknown key \"%.64s\" (muxd serve --print-config shows all)", path);
}

static int read_key(struct conf_reader *r, const char *path, const yaml_node_t *key, const yaml_node_t *value,
		    bool dotted)
{
	size_t n, i = 0;
	const struct conf_key *keys = conf_keys(&n);
	struct err why = {0};
	const char *text = "";

	while (i < n && strcmp(keys[i].path, path) != 0)
		i++;
	if (i == n || dotted)
		return unknown_key(r, &key->start_mark, path);
	if (r->seen[i])
		return conf_fail(r, &key->start_mark, "%s stands twice, first at line %zu", path, r->marks[i].line + 1);
	r->seen[i] = true;
	r->marks[i] = value->start_mark;
	if (keys[i].type == CONF_LIST)
		return conf_read_list(r, path, value);
	int rc = conf_need_scalar(r, value, path, &text);
	if (rc < 0)
		return rc;
	rc = conf_key_set(r->conf, &keys[i], text, &why);
	if (rc == ERR_NOMEM)
		return conf_fail_memory(r);
	return rc < 0 ? conf_fail(r, &value->start_mark, "%s %s", path, why.message) : 0;
}

static bool is_section(const char *name)
{
	size_t n, len = strlen(name);
	const struct conf_key *keys = conf_keys(&n);

	for (size_t i = 0; i < n; i++)
		if (strncmp(keys[i].path, name, len) == 0 && keys[i].path[len] == '.')
			return true;
	return false;
}

static int unknown_section(const struct conf_reader *r, const yaml_mark_t *at, const char *name)
{
	size_t len = 0;
	const char *near = conf_choice_nearest("listen|log|journal|record|grants|staff|ssh|api|sessions|rounds|files|"
					       "router|pool|leases|sandbox|kubernetes|"
					       "lifecycle|witnesses|witness|privsep",
					       name, &len);

	if (near)
		return conf_fail(r, at, "unknown key \"%.64s\", did you mean %.*s?", name, (int)len, near);
	return unknown_key(r, at, name);
}

static int read_section(struct conf_reader *r, const char *name, const yaml_node_t *n)
{
	char path[160];
	int rc = 0;

	if (yamldoc_is_null(n))
		return 0;
	if (n->type != YAML_MAPPING_NODE)
		return conf_fail(r, &n->start_mark, "%s is not a section with keys inside it", name);
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; rc == 0 && p < n->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = conf_node_at(r, p->key);
		const char *text = yamldoc_scalar(key);
		if (!text)
			return conf_fail(r, &key->start_mark, "a key in %s is not a name", name);
		text_format(path, sizeof(path), "%s.%.100s", name, text);
		rc = read_key(r, path, key, conf_node_at(r, p->value), false);
	}
	return rc;
}

static int read_root(struct conf_reader *r, const yaml_node_t *n)
{
	int rc = 0;

	if (yamldoc_is_null(n))
		return 0;
	if (n->type != YAML_MAPPING_NODE)
		return conf_fail(r, &n->start_mark, "the configuration is not a mapping of sections");
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; rc == 0 && p < n->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = conf_node_at(r, p->key), *value = conf_node_at(r, p->value);
		const char *text = yamldoc_scalar(key);
		if (!text)
			return conf_fail(r, &key->start_mark, "a key is not a name");
		if (is_section(text))
			rc = read_section(r, text, value);
		else if (strcmp(text, "staff") == 0 || strcmp(text, "witnesses") == 0 || strchr(text, '.'))
			rc = read_key(r, text, key, value, strchr(text, '.') != NULL);
		else
			rc = unknown_section(r, &key->start_mark, text);
	}
	return rc;
}

/* Where one of two keys stood, the first if both; the top of the file when both kept their defaults. */
static const yaml_mark_t *mark_of(const struct conf_reader *r, const char *path, const char *other)
{
	static const yaml_mark_t top;
	const yaml_mark_t *found = &top;
	size_t n;
	const struct conf_key *keys = conf_keys(&n);

	for (size_t i = 0; i < n; i++) {
		if (!r->seen[i])
			continue;
		if (strcmp(keys[i].path, path) == 0)
			return &r->marks[i];
		if (strcmp(keys[i].path, other) == 0)
			found = &r->marks[i];
	}
	return found;
}

/* What one key alone cannot tell. */
static int check_together(struct conf_reader *r)
{
	struct conf *c = r->conf;

	if (c->grant_ttl_ns > c->grant_ttl_max_ns)
		return conf_fail(r, mark_of(r, "grants.ttl", "grants.ttl_max"),
				 "grants.ttl is longer than grants.ttl_max");
	if (c->round_timeout_ns > c->round_timeout_max_ns)
		return conf_fail(r, mark_of(r, "rounds.timeout", "rounds.timeout_max"),
				 "rounds.timeout is longer than rounds.timeout_max");
	if (!c->listen_tls_cert[0] != !c->listen_tls_key[0])
		return conf_fail(r, mark_of(r, "listen.tls_cert", "listen.tls_key"),
				 "listen.tls_cert and listen.tls_key go together");
	if (strcmp(c->sandbox_backend, "kubernetes") == 0 && !c->kubernetes_kubeconfig[0])
		return conf_fail(r, mark_of(r, "sandbox.backend", "sandbox.backend"),
				 "sandbox.backend is kubernetes, and kubernetes.kubeconfig names no cluster");
	if (strcmp(c->kubernetes_kubeconfig, CONF_IN_CLUSTER) == 0 && c->kubernetes_context[0])
		return conf_fail(r, mark_of(r, "kubernetes.context", "kubernetes.context"),
				 "kubernetes.context goes with a kubeconfig; " CONF_IN_CLUSTER " has none");
	if (c->file_timeout_ns > c->file_timeout_max_ns)
		return conf_fail(r, mark_of(r, "files.timeout", "files.timeout_max"),
				 "files.timeout is longer than files.timeout_max");
	if (c->lease_ttl_ns > c->lease_ttl_max_ns)
		return conf_fail(r, mark_of(r, "leases.ttl", "leases.ttl_max"),
				 "leases.ttl is longer than leases.ttl_max");
	if (c->run_timeout_ns > c->run_timeout_max_ns)
		return conf_fail(r, mark_of(r, "leases.run_timeout", "leases.run_timeout_max"),
				 "leases.run_timeout is longer than leases.run_timeout_max");
	for (size_t i = 0; i < c->nstaff; i++) {
		if (c->staff[i].ttl_ns == 0)
			c->staff[i].ttl_ns = c->grant_ttl_ns;
		if (c->staff[i].ttl_ns > c->grant_ttl_max_ns)
			return conf_fail(r, mark_of(r, "staff", "staff"), "the ttl of %s is longer than grants.ttl_max",
					 c->staff[i].principal);
	}
	return conf_rules_close(c) < 0 ? conf_fail_memory(r) : 0;
}

static int too_large(const char *name, struct err *e)
{
	return err_set(e, ERR_CONFIG, "%s: larger than %d bytes", name, TEXT_MAX);
}

int conf_parse(const char *text, size_t len, const char *name, struct conf **out, struct err *e)
{
	struct conf_reader r = {.name = name, .e = e};
	struct yamldoc *doc = NULL;

	if (len > TEXT_MAX)
		return too_large(name, e);
	int rc = conf_create(&r.conf);
	if (rc < 0)
		return conf_fail_memory(&r);
	rc = yamldoc_parse(text, len, name, &doc, e);
	r.doc = rc == 0 ? yamldoc_document(doc) : NULL;
	if (r.doc)
		rc = read_root(&r, yaml_document_get_root_node(r.doc));
	if (rc == 0)
		rc = check_together(&r);
	yamldoc_destroy(doc);
	if (rc < 0)
		conf_destroy(r.conf);
	else
		*out = r.conf;
	return rc;
}

int conf_load(const char *path, struct conf **out, struct err *e)
{
	char *text = NULL;
	size_t len = 0;
	int rc = slurp_file(path, 0, TEXT_MAX, &text, &len, e);

	if (rc == ERR_TOO_LARGE)
		rc = too_large(path, e);
	if (rc == 0)
		rc = conf_parse(text, len, path, out, e);
	slurp_free(text, len);
	return rc;
}
