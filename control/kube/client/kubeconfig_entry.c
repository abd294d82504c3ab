/* One cluster, one user: values into a kubeconfig. Finding them is in kubeconfig.c. */
#include "control/kube/client/kubeconfig_read.h"

#include "base/err.h"
#include "base/json.h"
#include "base/slurp.h"
#include "base/text.h"
#include "control/kube/client/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char cluster_keys[] = "server|tls-server-name|insecure-skip-tls-verify|certificate-authority|"
				   "certificate-authority-data|proxy-url|disable-compression|extensions";
static const char user_keys[] = "client-certificate|client-certificate-data|client-key|client-key-data|token|tokenFile|"
				"as|as-uid|as-groups|as-user-extra|username|password|auth-provider|exec|extensions";
static const char plugin_keys[] = "command|args|env|apiVersion|installHint|provideClusterInfo|interactiveMode";

int kubeconfig_no_memory(struct err *e)
{
	return err_set(e, ERR_NOMEM, "no memory for the kubeconfig");
}

/* --- one value */

int kubeconfig_copy(const char *s, char **out, struct err *e)
{
	*out = strdup(s);
	return *out ? 0 : kubeconfig_no_memory(e);
}

/* A path of the file in dir. */
int kubeconfig_path(const char *dir, const char *path, char **out, struct err *e)
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

bool kubeconfig_clean(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s <= 0x20 || *s == 0x7f)
			return false;
	return true;
}

int kubeconfig_fail_key(const struct kube_entry *en, const char *key, const char *why, struct err *e)
{
	struct yamlnode at = en->node;

	(void)yamlnode_get(en->node, en->what, key, &at, NULL);
	if (yamlnode_absent(at))
		at = en->node;
	return yamlnode_fail(at, e, "%s of %s: %s", key, en->what, why);
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

int kubeconfig_read_cluster(struct kubeconfig *k, const struct kube_entry *en, struct err *e)
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

int kubeconfig_read_user(struct kubeconfig *k, const struct kube_entry *en, struct err *e)
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
