/* One context of kubeconfig files: its cluster and its user are found, and read value by value. */
#include "control/kube/client/kubeconfig.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/slurp.h"
#include "base/text.h"
#include "base/yamldoc.h"
#include "control/kube/client/endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX 32
#define NAMES_MAX 200 /* bytes of a list of contexts in a message */

static const char root_keys[] = "apiVersion|kind|preferences|clusters|users|contexts|current-context|extensions";
static const char cluster_keys[] = "server|tls-server-name|insecure-skip-tls-verify|certificate-authority|"
				   "certificate-authority-data|proxy-url|disable-compression|extensions";
static const char user_keys[] = "client-certificate|client-certificate-data|client-key|client-key-data|token|tokenFile|"
				"as|as-uid|as-groups|as-user-extra|username|password|auth-provider|exec|extensions";
static const char plugin_keys[] = "command|args|env|apiVersion|installHint|provideClusterInfo|interactiveMode";

/* A cluster, a user or a context: where it stands, and its name for complaints. */
struct kube_entry {
	struct yamlnode node;
	const char *dir;
	char what[160];
};

static int kubeconfig_no_memory(struct err *e)
{
	return err_set(e, ERR_NOMEM, "no memory for the kubeconfig");
}

/* --- one value */

static int kubeconfig_copy(const char *s, char **out, struct err *e)
{
	*out = strdup(s);
	return *out ? 0 : kubeconfig_no_memory(e);
}

/* path as seen from dir (NULL: as it is). */
static int kubeconfig_path(const char *dir, const char *path, char **out, struct err *e)
{
	if (path[0] == '/' || !dir)
		return kubeconfig_copy(path, out, e);
	if (asprintf(out, "%s/%s", dir, path) < 0) {
		*out = NULL;
		return kubeconfig_no_memory(e);
	}
	return 0;
}

/* Base64 is often wrapped in YAML. */
static int decode(const char *text, uint8_t **out, size_t *out_len)
{
	size_t n = 0, len = strlen(text);
	char *packed = malloc(len + 1);

	if (!packed)
		return ERR_NOMEM;
	for (const char *p = text; *p; p++)
		if (!strchr(" \t\r\n", *p))
			packed[n++] = *p;
	int rc = base64_decode(packed, n, false, out, out_len);
	slurp_free(packed, len);
	return rc;
}

/* ERR_CONFIG "FILE:LINE:COLUMN: KEY of WHAT: WHY", at the key's value where it has one. */
static int kubeconfig_fail_key(const struct kube_entry *en, const char *key, const char *why, struct err *e)
{
	struct yamlnode at = en->node;

	(void)yamlnode_get(en->node, en->what, key, &at, NULL);
	if (yamlnode_absent(at))
		at = en->node;
	return yamlnode_fail(at, e, "%s of %s: %s", key, en->what, why);
}

static int read_data(const struct kube_entry *en, const char *key, const char *text, struct kube_source *out,
		     struct err *e)
{
	uint8_t *data = NULL;
	size_t len = 0;
	int rc = decode(text, &data, &len);

	if (rc == ERR_NOMEM)
		return kubeconfig_no_memory(e);
	if (rc < 0 || len == 0 || memchr(data, 0, len)) {
		slurp_free((char *)data, len);
		return kubeconfig_fail_key(en, key, "it is not base64 of a PEM text", e);
	}
	out->data = (char *)data;
	out->len = len;
	return 0;
}

/* "KEY-data" in base64, else the file that "KEY" names. */
static int read_source(const struct kube_entry *en, const char *key, struct kube_source *out, struct err *e)
{
	const char *path = NULL, *data = NULL;
	char data_key[64];

	text_format(data_key, sizeof(data_key), "%s-data", key);
	int rc = yamlnode_str(en->node, en->what, key, &path, e);
	if (rc == 0)
		rc = yamlnode_str(en->node, en->what, data_key, &data, e);
	if (rc == 0 && data && *data)
		return read_data(en, data_key, data, out, e);
	if (rc == 0 && path && *path)
		rc = kubeconfig_path(en->dir, path, &out->path, e);
	return rc;
}

/* No space and no control character in it. */
static bool kubeconfig_clean(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s <= 0x20 || *s == 0x7f)
			return false;
	return true;
}

static int read_url(const struct kube_entry *en, const char *key, const char *text, const char *schemes,
		    struct kube_url *out, struct err *e)
{
	struct err why = {0};
	int rc = kubeconfig_clean(text) ? kube_url_parse(text, schemes, out, &why)
					: err_set(&why, ERR_INVAL, "a space or a control character stands in it");

	return rc < 0 ? kubeconfig_fail_key(en, key, why.message, e) : 0;
}

/* --- the cluster */

static int read_server(struct kubeconfig *k, const struct kube_entry *en, struct err *e)
{
	const char *text = NULL;
	int rc = yamlnode_str(en->node, en->what, "server", &text, e);

	if (rc < 0)
		return rc;
	if (!text || !*text)
		return yamlnode_fail(en->node, e, "%s has no server", en->what);
	rc = read_url(en, "server", text, "https|http", &k->url, e);
	if (rc == 0 && k->url.credentials)
		return kubeconfig_fail_key(en, "server", "a user or a password has no place in it", e);
	return rc == 0 ? kubeconfig_copy(text, &k->server, e) : rc;
}

static int read_proxy(struct kubeconfig *k, const struct kube_entry *en, struct err *e)
{
	const char *text = NULL;
	int rc = yamlnode_str(en->node, en->what, "proxy-url", &text, e);

	if (rc < 0 || !text || !*text)
		return rc;
	rc = read_url(en, "proxy-url", text, "http|https|socks5|socks5h", &k->proxy_url, e);
	return rc == 0 ? kubeconfig_copy(text, &k->proxy, e) : rc;
}

static int kubeconfig_read_cluster(struct kubeconfig *k, const struct kube_entry *en, struct err *e)
{
	const char *name = NULL;
	int rc = yamlnode_check_keys(en->node, en->what, cluster_keys, e);

	if (rc == 0)
		rc = read_server(k, en, e);
	if (rc == 0)
		rc = read_proxy(k, en, e);
	if (rc == 0)
		rc = yamlnode_bool(en->node, en->what, "insecure-skip-tls-verify", &k->insecure, e);
	if (rc == 0)
		rc = read_source(en, "certificate-authority", &k->ca, e);
	if (rc == 0)
		rc = yamlnode_str(en->node, en->what, "tls-server-name", &name, e);
	if (rc < 0)
		return rc;
	if (name && *name && !kubeconfig_clean(name))
		return kubeconfig_fail_key(en, "tls-server-name", "a space or a control character stands in it", e);
	if (k->insecure && (k->ca.path || k->ca.data))
		return kubeconfig_fail_key(en, "insecure-skip-tls-verify",
					   "a certificate-authority is given too; only one of them can be meant", e);
	return name && *name ? kubeconfig_copy(name, &k->tls_server_name, e) : 0;
}

/* --- the user */

static int refuse_known(const struct kube_entry *en, struct err *e)
{
	static const struct {
		const char *key, *why;
	} refused[] = {
	    {"username", "Kubernetes knows no passwords any more; give a token, a client certificate or exec"},
	    {"password", "Kubernetes knows no passwords any more; give a token, a client certificate or exec"},
	    {"auth-provider", "Kubernetes has given it up; give exec with the cloud's credential plug-in"},
	    {"as", "impersonation is not supported"},
	    {"as-uid", "impersonation is not supported"},
	    {"as-groups", "impersonation is not supported"},
	    {"as-user-extra", "impersonation is not supported"},
	};
	struct yamlnode n = {0};

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		int rc = yamlnode_get(en->node, en->what, refused[i].key, &n, e);
		if (rc < 0)
			return rc;
		if (!yamlnode_absent(n))
			return kubeconfig_fail_key(en, refused[i].key, refused[i].why, e);
	}
	return 0;
}

static int kubeconfig_entry_read_token(struct kubeconfig *k, const struct kube_entry *en, struct err *e)
{
	const char *token = NULL, *path = NULL;
	int rc = yamlnode_str(en->node, en->what, "token", &token, e);

	if (rc == 0)
		rc = yamlnode_str(en->node, en->what, "tokenFile", &path, e);
	if (rc < 0)
		return rc;
	/* As in client-go: the file, which may be rotated, wins over the value. */
	if (path && *path)
		return kubeconfig_path(en->dir, path, &k->token.path, e);
	if (!token || !*token)
		return 0;
	if (!kubeconfig_clean(token) || strlen(token) > KUBE_TOKEN_MAX)
		return kubeconfig_fail_key(en, "token",
					   "it is longer than 16384 bytes, or holds a space or a control character", e);
	k->token.len = strlen(token);
	return kubeconfig_copy(token, &k->token.data, e);
}

static int plugin_command(const struct kube_entry *en, char **out, struct err *e)
{
	const char *command = NULL;
	int rc = yamlnode_str(en->node, en->what, "command", &command, e);

	if (rc < 0)
		return rc;
	if (!command || !*command)
		return yamlnode_fail(en->node, e, "%s has no command", en->what);
	return strchr(command, '/') ? kubeconfig_path(en->dir, command, out, e) : kubeconfig_copy(command, out, e);
}

static int plugin_argv(struct kubeconfig *k, const struct kube_entry *en, struct err *e)
{
	struct kube_plugin_conf *p = k->plugin;
	struct yamlnode list = {0};
	const char *arg = NULL;
	size_t n = 0;
	int rc = yamlnode_list(en->node, en->what, "args", &list, &n, e);

	if (rc < 0)
		return rc;
	p->argv = calloc(n + 2, sizeof(*p->argv));
	if (!p->argv)
		return kubeconfig_no_memory(e);
	rc = plugin_command(en, &p->argv[0], e);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = yamlnode_item_str(list, "args", i, &arg, e);
		if (rc == 0)
			rc = kubeconfig_copy(arg, &p->argv[i + 1], e);
	}
	return rc;
}

static int plugin_variable(struct yamlnode item, char **out, struct err *e)
{
	const char *name = NULL, *value = NULL;
	int rc = yamlnode_str(item, "env", "name", &name, e);

	if (rc == 0)
		rc = yamlnode_str(item, "env", "value", &value, e);
	if (rc < 0)
		return rc;
	if (!name || !*name || strchr(name, '='))
		return yamlnode_fail(item, e, "an entry of env has no name, or one with '='");
	if (asprintf(out, "%s=%s", name, value ? value : "") < 0) {
		*out = NULL;
		return kubeconfig_no_memory(e);
	}
	return 0;
}

static int plugin_env(struct kubeconfig *k, const struct kube_entry *en, struct err *e)
{
	struct kube_plugin_conf *p = k->plugin;
	struct yamlnode list = {0};
	size_t n = 0;
	int rc = yamlnode_list(en->node, en->what, "env", &list, &n, e);

	if (rc < 0)
		return rc;
	p->env = calloc(n + 1, sizeof(*p->env));
	if (!p->env)
		return kubeconfig_no_memory(e);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = plugin_variable(yamlnode_item(list, i), &p->env[i], e);
	return rc;
}

static int plugin_api(struct kubeconfig *k, const struct kube_entry *en, struct err *e)
{
	const char *version = NULL, *mode = NULL;
	int rc = yamlnode_str(en->node, en->what, "apiVersion", &version, e);

	if (rc == 0)
		rc = yamlnode_str(en->node, en->what, "interactiveMode", &mode, e);
	if (rc < 0)
		return rc;
	if (!version || (strcmp(version, "client.authentication.k8s.io/v1") != 0 &&
			 strcmp(version, "client.authentication.k8s.io/v1beta1") != 0))
		return kubeconfig_fail_key(en, "apiVersion", "client.authentication.k8s.io/v1 and v1beta1 are known",
					   e);
	if (mode && strcmp(mode, "Always") == 0)
		return kubeconfig_fail_key(en, "interactiveMode", "a daemon has no terminal for it", e);
	return kubeconfig_copy(version, &k->plugin->api_version, e);
}

static int read_plugin(struct kubeconfig *k, const struct kube_entry *user, struct err *e)
{
	struct kube_entry en = {.dir = user->dir};
	const char *hint = NULL;
	int rc = yamlnode_map(user->node, user->what, "exec", &en.node, e);

	if (rc < 0 || yamlnode_absent(en.node))
		return rc;
	text_format(en.what, sizeof(en.what), "exec of %.120s", user->what);
	k->plugin = calloc(1, sizeof(*k->plugin));
	if (!k->plugin)
		return kubeconfig_no_memory(e);
	rc = yamlnode_check_keys(en.node, en.what, plugin_keys, e);
	if (rc == 0)
		rc = plugin_argv(k, &en, e);
	if (rc == 0)
		rc = plugin_env(k, &en, e);
	if (rc == 0)
		rc = plugin_api(k, &en, e);
	if (rc == 0)
		rc = yamlnode_bool(en.node, en.what, "provideClusterInfo", &k->plugin->cluster_info, e);
	if (rc == 0)
		rc = yamlnode_str(en.node, en.what, "installHint", &hint, e);
	return rc == 0 ? kubeconfig_copy(hint ? hint : "", &k->plugin->install_hint, e) : rc;
}

/* Behind the cluster: what a user may hold depends on it. */
static int kubeconfig_read_user(struct kubeconfig *k, const struct kube_entry *en, struct err *e)
{
	int rc = yamlnode_check_keys(en->node, en->what, user_keys, e);

	if (rc == 0)
		rc = refuse_known(en, e);
	if (rc == 0)
		rc = read_source(en, "client-certificate", &k->cert, e);
	if (rc == 0)
		rc = read_source(en, "client-key", &k->key, e);
	if (rc == 0)
		rc = kubeconfig_entry_read_token(k, en, e);
	if (rc == 0)
		rc = read_plugin(k, en, e);
	if (rc < 0)
		return rc;
	bool cert = k->cert.path || k->cert.data, key = k->key.path || k->key.data,
	     token = k->token.path || k->token.data;
	if (cert != key)
		return yamlnode_fail(en->node, e, "%s has a client-%s without a client-%s", en->what,
				     cert ? "certificate" : "key", cert ? "key" : "certificate");
	if (k->plugin && (cert || token))
		return yamlnode_fail(en->node, e, "%s has exec beside a certificate or a token: only one can be meant",
				     en->what);
	if (strcmp(k->url.scheme, "https") != 0 && (cert || token || k->plugin))
		return yamlnode_fail(en->node, e, "%s would send its credentials in clear: server is not https",
				     en->what);
	return 0;
}

/* --- the files */

/* One file of the list. */
struct source_file {
	struct yamldoc *doc;
	char *dir; /* what relative paths begin at; NULL: nothing */
};

struct reader {
	struct source_file files[FILES_MAX];
	size_t n;
	struct kubeconfig *k;
	struct err *e;
};

static void source_finish(struct kube_source *s)
{
	free(s->path);
	slurp_free(s->data, s->len);
	*s = (struct kube_source){0};
}

static void strings_free(char **list)
{
	for (char **s = list; s && *s; s++)
		slurp_free_text(*s);
	free(list);
}

static void plugin_destroy(struct kube_plugin_conf *p)
{
	if (!p)
		return;
	strings_free(p->argv);
	strings_free(p->env);
	free(p->api_version);
	free(p->install_hint);
	free(p);
}

void kubeconfig_destroy(struct kubeconfig *k)
{
	if (!k)
		return;
	free(k->name);
	free(k->server);
	kube_url_finish(&k->url);
	source_finish(&k->ca);
	source_finish(&k->cert);
	source_finish(&k->key);
	source_finish(&k->token);
	free(k->tls_server_name);
	slurp_free_text(k->proxy);
	kube_url_finish(&k->proxy_url);
	free(k->namespace_);
	plugin_destroy(k->plugin);
	free(k);
}

/* --- finding */

/* Entry `name` of a list such as "clusters"; the first file that has it wins. ERR_NOT_FOUND, without a message. */
static int find_in(struct reader *r, const struct source_file *f, const char *list_key, const char *key,
		   const char *name, struct kube_entry *out)
{
	struct yamlnode list = {0}, item = {0};
	const char *found = NULL;
	size_t n = 0;
	int rc = yamlnode_list(yamldoc_root(f->doc), "the kubeconfig", list_key, &list, &n, r->e);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		item = yamlnode_item(list, i);
		rc = yamlnode_str(item, list_key, "name", &found, r->e);
		if (rc < 0 || !found || strcmp(found, name) != 0)
			continue;
		text_format(out->what, sizeof(out->what), "%s \"%.100s\"", key, name);
		out->dir = f->dir;
		rc = yamlnode_map(item, out->what, key, &out->node, r->e);
		if (rc == 0 && yamlnode_absent(out->node))
			rc = yamlnode_fail(item, r->e, "%s is empty", out->what);
		return rc;
	}
	return rc < 0 ? rc : ERR_NOT_FOUND;
}

static int kubeconfig_find(struct reader *r, const char *list_key, const char *key, const char *name,
			   struct kube_entry *out)
{
	int rc = ERR_NOT_FOUND;

	for (size_t i = 0; i < r->n && rc == ERR_NOT_FOUND; i++)
		rc = find_in(r, &r->files[i], list_key, key, name, out);
	return rc;
}

/* What current-context could have been. */
static void put_contexts(struct reader *r, struct buf *b)
{
	struct yamlnode list = {0};
	const char *name;
	size_t n;

	for (size_t i = 0; i < r->n; i++) {
		if (yamlnode_list(yamldoc_root(r->files[i].doc), "the kubeconfig", "contexts", &list, &n, NULL) < 0)
			continue;
		for (size_t j = 0; j < n; j++)
			if (yamlnode_str(yamlnode_item(list, j), "contexts", "name", &name, NULL) == 0 && name &&
			    buf_printf(b, "%s%.64s", buf_len(b) ? ", " : "", name) < 0)
				return;
	}
}

static int no_context(struct reader *r, const char *wanted)
{
	const char *name = yamldoc_name(r->files[0].doc);
	struct buf b;

	buf_init(&b, NAMES_MAX);
	put_contexts(r, &b);
	const char *list = buf_cstr(&b);
	if (!list || !*list)
		list = "none";
	if (wanted)
		err_set(r->e, ERR_CONFIG, "%s: there is no context \"%.64s\"; there are: %s", name, wanted, list);
	else
		err_set(r->e, ERR_CONFIG, "%s: no current-context, and none was chosen; there are: %s", name, list);
	buf_finish(&b);
	return ERR_CONFIG;
}

static int current_context(struct reader *r, const char **out)
{
	for (size_t i = 0; i < r->n; i++) {
		const char *name = NULL;
		int rc = yamlnode_str(yamldoc_root(r->files[i].doc), "the kubeconfig", "current-context", &name, r->e);
		if (rc < 0)
			return rc;
		if (name && *name) {
			*out = name;
			return 0;
		}
	}
	return no_context(r, NULL);
}

/* The cluster or user that a context names. */
static int follow(struct reader *r, const struct kube_entry *context, const char *list_key, const char *key,
		  struct kube_entry *out, bool optional)
{
	const char *name = NULL;
	int rc = yamlnode_str(context->node, context->what, key, &name, r->e);

	if (rc < 0)
		return rc;
	if (!name || !*name)
		return optional ? ERR_NOT_FOUND
				: yamlnode_fail(context->node, r->e, "%s names no %s", context->what, key);
	rc = kubeconfig_find(r, list_key, key, name, out);
	if (rc != ERR_NOT_FOUND)
		return rc;
	char why[160];
	text_format(why, sizeof(why), "there is no %s \"%.100s\"", key, name);
	return kubeconfig_fail_key(context, key, why, r->e);
}

static int kubeconfig_choose(struct reader *r, const char *wanted)
{
	struct kube_entry context = {0}, cluster = {0}, user = {0};
	const char *ns = NULL, *name = wanted;
	int rc = name && *name ? 0 : current_context(r, &name);

	if (rc == 0)
		rc = kubeconfig_find(r, "contexts", "context", name, &context);
	if (rc == ERR_NOT_FOUND)
		return no_context(r, name);
	if (rc == 0)
		rc = yamlnode_check_keys(context.node, context.what, "cluster|user|namespace|extensions", r->e);
	if (rc == 0)
		rc = follow(r, &context, "clusters", "cluster", &cluster, false);
	if (rc == 0)
		rc = kubeconfig_read_cluster(r->k, &cluster, r->e);
	if (rc == 0) {
		rc = follow(r, &context, "users", "user", &user, true);
		rc = rc == ERR_NOT_FOUND ? 0 : rc < 0 ? rc : kubeconfig_read_user(r->k, &user, r->e);
	}
	if (rc == 0)
		rc = yamlnode_str(context.node, context.what, "namespace", &ns, r->e);
	if (rc == 0)
		rc = kubeconfig_copy(ns && *ns ? ns : "default", &r->k->namespace_, r->e);
	if (rc == 0 && asprintf(&r->k->name, "%s (context %s)", yamldoc_name(context.node.doc), name) < 0) {
		r->k->name = NULL;
		rc = kubeconfig_no_memory(r->e);
	}
	return rc;
}

/* --- reading */

static int add_text(struct reader *r, const char *text, size_t len, const char *name, const char *dir)
{
	struct source_file *f = &r->files[r->n];
	int rc = yamldoc_parse(text, len, name, &f->doc, r->e);

	if (rc < 0)
		return rc;
	r->n++;
	if (dir && !(f->dir = strdup(dir)))
		return kubeconfig_no_memory(r->e);
	return yamlnode_check_keys(yamldoc_root(f->doc), "the kubeconfig", root_keys, r->e);
}

static int add_file(struct reader *r, const char *path)
{
	const char *slash = strrchr(path, '/');
	char *text = NULL, *dir = NULL;
	size_t len = 0;

	if (r->n == FILES_MAX)
		return err_set(r->e, ERR_CONFIG, "%s: more than %d kubeconfig files", path, FILES_MAX);
	int rc = slurp_file(path, 0, YAMLDOC_MAX, &text, &len, r->e);
	if (rc == ERR_NOT_FOUND)
		return 0;
	if (rc == 0) {
		dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
		rc = dir ? add_text(r, text, len, path, dir) : kubeconfig_no_memory(r->e);
	}
	slurp_free(text, len);
	free(dir);
	return rc;
}

static int kubeconfig_finish(struct reader *r, int rc, const char *context, struct kubeconfig **out)
{
	r->k = rc == 0 ? calloc(1, sizeof(*r->k)) : NULL;
	if (rc == 0)
		rc = r->k ? kubeconfig_choose(r, context) : kubeconfig_no_memory(r->e);
	for (size_t i = 0; i < r->n; i++) {
		yamldoc_destroy(r->files[i].doc);
		free(r->files[i].dir);
	}
	if (rc < 0)
		kubeconfig_destroy(r->k);
	else
		*out = r->k;
	return rc;
}

int kubeconfig_load(const char *files, const char *context, struct kubeconfig **out, struct err *e)
{
	struct reader r = {.e = e};
	char *list = strdup(files), *rest = list, *path;
	int rc = list ? 0 : kubeconfig_no_memory(e);

	while (rc == 0 && (path = strsep(&rest, ":")))
		if (*path)
			rc = add_file(&r, path);
	if (rc == 0 && r.n == 0)
		rc = err_set(e, ERR_NOT_FOUND, "there is no kubeconfig %s", *files ? files : "(no path was given)");
	free(list);
	return kubeconfig_finish(&r, rc, context, out);
}

int kubeconfig_parse(const char *text, size_t len, const char *name, const char *dir, const char *context,
		     struct kubeconfig **out, struct err *e)
{
	struct reader r = {.e = e};
	int rc = add_text(&r, text, len, name, dir);

	return kubeconfig_finish(&r, rc, context, out);
}

/* --- in a pod */

static int pod_file(const char *dir, const char *name, char **out, struct err *e)
{
	int rc = kubeconfig_path(dir, name, out, e);

	if (rc == 0 && access(*out, R_OK) < 0)
		rc = err_set(e, ERR_CONFIG, "%s: %s; is a service account mounted into this pod?", *out,
			     strerror(errno));
	return rc;
}

static int pod_namespace(const char *dir, char **out, struct err *e)
{
	char *path = NULL, *text = NULL;
	size_t len = 0;
	int rc = kubeconfig_path(dir, "namespace", &path, e);

	if (rc == 0)
		rc = slurp_file(path, 0, 256, &text, &len, e);
	free(path);
	if (!text)
		return rc;
	text[strcspn(text, " \t\r\n")] = '\0';
	*out = text;
	return 0;
}

int kubeconfig_in_cluster(const char *host, const char *port, const char *dir, struct kubeconfig **out, struct err *e)
{
	struct kubeconfig *k = NULL;
	struct err why = {0};
	int rc = 0;

	if (!host || !*host || !port || !*port)
		return err_set(e, ERR_CONFIG,
			       "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are empty");
	k = calloc(1, sizeof(*k));
	if (!k || asprintf(&k->server, strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port) < 0) {
		free(k);
		return kubeconfig_no_memory(e);
	}
	if (!kubeconfig_clean(k->server) || kube_url_parse(k->server, "https", &k->url, &why) < 0)
		rc = err_set(e, ERR_CONFIG, "KUBERNETES_SERVICE_HOST and _PORT give no address: %s", why.message);
	if (rc == 0)
		rc = kubeconfig_copy("the pod's service account", &k->name, e);
	if (rc == 0)
		rc = pod_file(dir, "token", &k->token.path, e);
	if (rc == 0)
		rc = pod_file(dir, "ca.crt", &k->ca.path, e);
	if (rc == 0)
		rc = pod_namespace(dir, &k->namespace_, e);
	if (rc < 0)
		kubeconfig_destroy(k);
	else
		*out = k;
	return rc;
}
