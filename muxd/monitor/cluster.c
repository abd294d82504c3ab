#define LOG_SUBSYS "monitor"
#include "muxd/monitor/cluster.h"

#include "base/conf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/slurp.h"
#include "control/kube/client/kubeconfig.h"
#include "control/kube/pods/own.h"
#include "control/kube/pods/template.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOURCE_MAX (1024 * 1024)
#define NAME       "muxd" /* of cluster, user and context in what net gets */

/* The four things that may be a file, and what they are called there. */
static const struct {
	const char *file, *key;
	size_t at;
	bool user;
} sources[] = {
    {"ca.crt", "certificate-authority", offsetof(struct kubeconfig, ca), false},
    {"client.crt", "client-certificate", offsetof(struct kubeconfig, cert), true},
    {"client.key", "client-key", offsetof(struct kubeconfig, key), true},
    {"token", "tokenFile", offsetof(struct kubeconfig, token), true},
};
#define NSOURCES (sizeof sources / sizeof sources[0])

static const struct kube_source *source_of(const struct kubeconfig *k, size_t i)
{
	return (const struct kube_source *)(const void *)((const char *)k + sources[i].at);
}

static bool is_there(const struct kube_source *s)
{
	return s->path || s->data;
}

static void cluster_wipe(char *p, size_t n)
{
	if (p)
		OPENSSL_cleanse(p, n);
	free(p);
}

static int copy_path(const struct layout *l, size_t i, char out[PATH_MAX], struct err *e)
{
	char folder[PATH_MAX];
	int rc = layout_path(l, "keys/kube", folder, e);

	return rc ? rc : file_join(out, PATH_MAX, folder, sources[i].file, e);
}

/* ---- the files */

/* The bytes of a source, to be wiped by the caller. */
static int read_source(const struct kube_source *s, char **out, size_t *out_len, struct err *e)
{
	if (!s->data)
		return file_read_given(s->path, SOURCE_MAX, out, out_len, e);
	*out = malloc(s->len + 1);
	if (!*out)
		return err_set(e, ERR_NOMEM, "no memory for the cluster's credentials");
	memcpy(*out, s->data, s->len);
	(*out)[s->len] = '\0';
	*out_len = s->len;
	return 0;
}

static bool same_file(const char *path, const char *data, size_t len)
{
	char *old = NULL;
	size_t n = 0;
	bool same = file_read(path, SOURCE_MAX, &old, &n, NULL) == 0 && n == len && memcmp(old, data, n) == 0;

	cluster_wipe(old, n);
	return same;
}

static int put_source(const struct kubeconfig *k, size_t i, const struct layout *l, const struct identity *who,
		      struct err *e)
{
	const struct kube_source *s = source_of(k, i);
	char path[PATH_MAX], *data = NULL;
	size_t len = 0;
	int rc = copy_path(l, i, path, e);

	if (rc)
		return rc;
	if (!is_there(s)) {
		if (unlink(path) < 0 && errno != ENOENT)
			return err_sys(e, errno, "remove %s", path);
		return 0;
	}
	rc = read_source(s, &data, &len, e);
	if (rc == 0 && len == 0)
		rc = err_set(e, ERR_CONFIG, "%s is empty: %s of the kubeconfig", s->path ? s->path : "?",
			     sources[i].key);
	if (rc == 0 && !same_file(path, data, len))
		rc = file_publish(path, data, len, 0600, who->net, true, e);
	cluster_wipe(data, len);
	return rc;
}

/* Every source is read before the first file is put: a half of a new set is worse than the old one. */
static int check_sources(const struct kubeconfig *k, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < NSOURCES; i++) {
		const struct kube_source *s = source_of(k, i);
		struct err why = {0};
		char *data = NULL;
		size_t len = 0;

		if (!is_there(s))
			continue;
		rc = read_source(s, &data, &len, &why);
		cluster_wipe(data, len);
		if (rc)
			rc = err_set(e, rc, "%s of %s: %s", sources[i].key, k->name, why.message);
	}
	return rc;
}

static int put_all(const struct kubeconfig *k, const struct layout *l, const struct identity *who, struct err *e)
{
	char folder[PATH_MAX];
	int rc = layout_path(l, "keys/kube", folder, e);

	if (rc == 0)
		rc = file_mkdir(folder, 0700, who->net, e);
	if (rc == 0)
		rc = check_sources(k, e);
	for (size_t i = 0; rc == 0 && i < NSOURCES; i++)
		rc = put_source(k, i, l, who, e);
	return rc;
}

/* No cluster any more: what was put there is of use to a thief alone. */
static void remove_all(const struct layout *l)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < NSOURCES; i++)
		if (copy_path(l, i, path, NULL) == 0)
			(void)unlink(path);
	if (layout_path(l, "keys/kube", path, NULL) == 0)
		(void)rmdir(path);
}

/* ---- the kubeconfig that net gets */

static int cluster_set_text(json_t *o, const char *key, const char *value)
{
	return value && *value ? json_object_set_new(o, key, json_string(value)) : 0;
}

static int set_sources(const struct kubeconfig *k, const struct layout *l, bool user, json_t *o)
{
	char path[PATH_MAX];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < NSOURCES; i++) {
		if (sources[i].user != user || !is_there(source_of(k, i)))
			continue;
		rc = copy_path(l, i, path, NULL);
		if (rc == 0)
			rc = cluster_set_text(o, sources[i].key, path);
	}
	return rc;
}

static json_t *plugin_json(const struct kube_plugin_conf *p)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:b, s:[], s:[]}", "command", p->argv[0], "apiVersion", p->api_version,
			      "interactiveMode", "Never", "provideClusterInfo", p->cluster_info, "args", "env");

	for (char **a = p->argv + 1; o && *a; a++)
		json_array_append_new(json_object_get(o, "args"), json_string(*a));
	for (char **v = p->env; o && v && *v; v++) {
		const char *eq = strchr(*v, '=');

		json_array_append_new(json_object_get(o, "env"),
				      json_pack("{s:s%, s:s}", "name", *v, eq ? (size_t)(eq - *v) : strlen(*v), "value",
						eq ? eq + 1 : ""));
	}
	if (o && cluster_set_text(o, "installHint", p->install_hint)) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static int cluster_fill(const struct kubeconfig *k, const struct layout *l, json_t *cluster, json_t *user,
			json_t *context)
{
	json_t *plugin = k->plugin ? plugin_json(k->plugin) : NULL;

	if (!cluster || !user || !context || (k->plugin && !plugin) ||
	    (plugin && json_object_set_new(user, "exec", plugin)) || cluster_set_text(cluster, "server", k->server) ||
	    cluster_set_text(cluster, "tls-server-name", k->tls_server_name) ||
	    cluster_set_text(cluster, "proxy-url", k->proxy) ||
	    (k->insecure && json_object_set_new(cluster, "insecure-skip-tls-verify", json_true())) ||
	    cluster_set_text(context, "namespace", k->namespace_) || set_sources(k, l, false, cluster) ||
	    set_sources(k, l, true, user))
		return ERR_NOMEM;
	return 0;
}

static int make_text(const struct kubeconfig *k, const struct layout *l, char **out, struct err *e)
{
	json_t *cluster = json_object(), *user = json_object();
	json_t *context = json_pack("{s:s, s:s}", "cluster", NAME, "user", NAME), *o = NULL;
	int rc = cluster_fill(k, l, cluster, user, context);

	if (rc == 0)
		o = json_pack("{s:s, s:[{s:s, s:O}], s:[{s:s, s:O}], s:[{s:s, s:O}]}", "current-context", NAME,
			      "clusters", "name", NAME, "cluster", cluster, "users", "name", NAME, "user", user,
			      "contexts", "name", NAME, "context", context);
	*out = o ? json_text(o) : NULL;
	json_decref(o);
	json_decref(cluster);
	json_decref(user);
	json_decref(context);
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory for the kubeconfig");
}

/* ---- both together */

static int cluster_load(const struct conf *conf, struct kubeconfig **out, struct err *e)
{
	const char *files = conf->kubernetes_kubeconfig;
	struct err why = {0};
	int rc;

	if (strcmp(files, CONF_IN_CLUSTER) == 0)
		rc = kubeconfig_in_cluster(getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT"),
					   KUBE_POD_DIR, out, &why);
	else
		rc = kubeconfig_load(files, conf->kubernetes_context, out, &why);
	return rc ? err_set(e, rc == ERR_NOMEM ? rc : ERR_CONFIG, "kubernetes.kubeconfig: %s", why.message) : 0;
}

/* *out: JSON, "" where none is configured. */
static int load_template(const struct conf *conf, char **out, struct err *e)
{
	const struct template_rules rules = {.muxlet = *conf->kubernetes_muxlet_path ? conf->kubernetes_muxlet_path
										     : KUBE_MUXLET_PATH,
					     .config_maps = conf->kubernetes_template_config_maps,
					     .secrets = conf->kubernetes_template_secrets,
					     .claims = conf->kubernetes_template_claims};
	const char *path = conf->kubernetes_pod_template;
	char *text = NULL, *json = NULL;
	struct err why = {0};
	json_t *t = NULL;
	size_t len = 0;
	int rc = 0;

	if (*path && *conf->kubernetes_warm_pool)
		return err_set(
		    e, ERR_CONFIG,
		    "kubernetes.pod_template counts for no pod of kubernetes.warm_pool, which has a template of "
		    "its own: leave one of the two out");
	if (*path)
		rc = slurp_file(path, 0, TEMPLATE_TEXT_MAX, &text, &len, &why);

	if (!rc && *path)
		rc = template_parse(text, len, path, &rules, &t, &why);
	if (!rc)
		json = t ? json_text(t) : strdup("");
	json_decref(t);
	slurp_free(text, len);
	if (rc)
		return err_set(e, ERR_CONFIG, "kubernetes.pod_template: %s", why.message);
	if (!json)
		return err_set(e, ERR_NOMEM, "no memory for the pod template");
	*out = json;
	return 0;
}

int cluster_check(const struct conf *conf, struct err *e)
{
	struct kubeconfig *k = NULL;
	char *text = NULL;
	int rc = conf->kubernetes_kubeconfig[0] ? cluster_load(conf, &k, e) : 0;

	if (rc == 0 && k)
		rc = check_sources(k, e);
	if (rc == 0)
		rc = load_template(conf, &text, e);
	free(text);
	kubeconfig_destroy(k);
	return rc;
}

/* What the configuration says, without a file touched. */
static int cluster_make(struct cluster *out, const struct conf *conf, const struct layout *l, struct err *e)
{
	struct cluster c = {0};
	int rc = 0;

	if (conf->kubernetes_kubeconfig[0]) {
		rc = cluster_load(conf, &c.k, e);
		if (rc == 0)
			rc = make_text(c.k, l, &c.text, e);
	} else {
		c.text = strdup("");
		rc = c.text ? 0 : err_set(e, ERR_NOMEM, "no memory");
	}
	if (rc == 0)
		rc = load_template(conf, &c.pod_template, e);
	if (rc) {
		cluster_finish(&c);
		return rc;
	}
	c.len = strlen(c.text);
	*out = c;
	return 0;
}

int cluster_open(struct cluster *c, const struct conf *conf, const struct layout *l, const struct identity *who,
		 struct err *e)
{
	struct cluster fresh;
	int rc = cluster_make(&fresh, conf, l, e);

	if (rc)
		return rc;
	if (!fresh.k)
		remove_all(l);
	else if ((rc = put_all(fresh.k, l, who, e)))
		goto fail;
	*c = fresh;
	return 0;
fail:
	cluster_finish(&fresh);
	return rc;
}

int cluster_reload(struct cluster *c, const struct conf *conf, const struct layout *l, const struct identity *who,
		   bool *out_changed, struct err *e)
{
	struct cluster fresh;
	int rc = cluster_make(&fresh, conf, l, e);

	if (rc)
		return rc;
	/* Another server must not be shown to a net that goes on with the old one's credentials, nor the other way. */
	*out_changed = strcmp(fresh.text, c->text) != 0;
	if (!*out_changed && fresh.k)
		rc = put_all(fresh.k, l, who, e);
	if (rc || *out_changed) {
		cluster_finish(&fresh);
		return rc;
	}
	/* The template waits for the daemon's next start; that it can be read has been seen. */
	free(fresh.pod_template);
	fresh.pod_template = c->pod_template;
	c->pod_template = NULL;
	cluster_finish(c);
	*c = fresh;
	return 0;
}

void cluster_refresh(struct cluster *c, const struct layout *l, const struct identity *who)
{
	struct err e = {0};

	if (!c->k)
		return;
	if (put_all(c->k, l, who, &e) == 0) {
		c->stale = false;
		return;
	}
	if (!c->stale)
		log_error(NULL, "the cluster's credentials stay as they were: %s", e.message);
	c->stale = true;
}

void cluster_finish(struct cluster *c)
{
	if (!c)
		return;
	kubeconfig_destroy(c->k);
	cluster_wipe(c->text, c->len);
	free(c->pod_template);
	*c = (struct cluster){0};
}
