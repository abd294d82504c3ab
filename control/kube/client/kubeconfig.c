#include "control/kube/client/kubeconfig.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/slurp.h"
#include "base/text.h"
#include "control/kube/client/kubeconfig_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX 32
#define NAMES_MAX 200 /* bytes of a list of contexts in a message */

static const char root_keys[] = "apiVersion|kind|preferences|clusters|users|contexts|current-context|extensions";
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

static void secret_free(char *s)
{
	slurp_free(s, s ? strlen(s) : 0);
}

static void strings_free(char **list)
{
	for (char **s = list; s && *s; s++)
		secret_free(*s);
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
	secret_free(k->proxy);
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
	int rc = slurp_file(path, O_NONBLOCK, YAMLDOC_MAX, &text, &len, r->e);
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
		rc = slurp_file(path, O_NONBLOCK, 256, &text, &len, e);
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
