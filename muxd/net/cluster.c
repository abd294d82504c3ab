#include "muxd/net/cluster.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "control/kube/client/kube_creds.h"
#include "control/kube/client/kubeconfig.h"
#include "control/kube/client/rest.h"
#include "control/kube/exec/remotecommand.h"
#include "control/kube/pods/provider.h"
#include "muxd/plain/plain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX (1024 * 1024)

struct cluster_client {
	struct kube_creds *creds;
	struct kube *kube;
	struct rc_client *rc;
	struct plain *plain;
	struct sandbox_provider *provider; /* its owner's; NULL: not yet */
};

static int read_text(int fd, const char *what, char **out, size_t *out_len, struct err *e)
{
	struct stat st;
	char *text;

	if (fstat(fd, &st) || st.st_size < 0 || st.st_size > TEXT_MAX)
		return err_set(e, ERR_CONFIG, "the %s did not arrive", what);
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return err_set(e, ERR_NOMEM, "no memory for the %s", what);
	if (pread(fd, text, (size_t)st.st_size, 0) != st.st_size) {
		free(text);
		return err_sys(e, errno, "reading the %s", what);
	}
	text[st.st_size] = '\0';
	*out = text;
	*out_len = (size_t)st.st_size;
	return 0;
}

static int connect_to(struct cluster_client *c, struct uv_loop_s *loop, const struct conf *conf, const char *text,
		      size_t len, struct err *e)
{
	struct kubeconfig *k = NULL;
	int rc = kubeconfig_parse(text, len, "the kubeconfig from the monitor", NULL, NULL, &k, e);

	if (rc == 0 && (rc = kube_creds_create(loop, k, NULL, &c->creds, e)))
		kubeconfig_destroy(k);
	if (rc == 0)
		rc = kube_client_create(loop, c->creds, NULL, &c->kube, e);
	if (rc == 0)
		rc = rc_client_create(loop, &c->rc, e);
	if (rc == 0 &&
	    (rc = plain_create(loop, conf->kubernetes_plain_programs, conf->kubernetes_plain_wait_ns, &c->plain)))
		err_set(e, rc, "no memory");
	return rc;
}

int cluster_client_create(struct uv_loop_s *loop, const struct conf *conf, int kubeconfig_fd,
			  struct cluster_client **out, struct err *e)
{
	struct cluster_client *c = NULL;
	char *text = NULL;
	size_t len = 0;
	int rc = read_text(kubeconfig_fd, "kubeconfig", &text, &len, e);

	if (rc)
		return rc;
	if (len) {
		c = calloc(1, sizeof(*c));
		rc = c ? connect_to(c, loop, conf, text, len, e) : err_set(e, ERR_NOMEM, "no memory");
	}
	explicit_bzero(text, len);
	free(text);
	if (rc)
		cluster_client_destroy(c);
	else
		*out = c;
	return rc;
}

void cluster_client_destroy(struct cluster_client *c)
{
	if (!c)
		return;
	plain_destroy(c->plain);
	rc_client_destroy(c->rc);
	kube_client_destroy(c->kube);
	kube_creds_destroy(c->creds);
	free(c);
}

struct kube *cluster_client_kube(const struct cluster_client *c)
{
	return c->kube;
}

const char *cluster_client_namespace(const struct cluster_client *c, const struct conf *conf)
{
	return *conf->kubernetes_namespace ? conf->kubernetes_namespace : kube_creds_config(c->creds)->namespace_;
}

enum kube_hold cluster_client_hold(const struct conf *conf)
{
	return strcmp(conf->kubernetes_hold, "sandbox") == 0 ? KUBE_HOLD_SANDBOX : KUBE_HOLD_POD;
}

static enum kube_workspace workspace_of(const struct conf *conf)
{
	if (strcmp(conf->kubernetes_workspace, "claim") == 0)
		return WORKSPACE_CLAIM;
	return strcmp(conf->kubernetes_workspace, "memory") == 0 ? WORKSPACE_MEMORY : WORKSPACE_EMPTYDIR;
}

static enum kube_sandbox_api sandbox_api_of(const char *name)
{
	if (strcmp(name, "auto") == 0)
		return KUBE_SANDBOX_AUTO;
	return strcmp(name, "v1beta1") == 0 ? KUBE_SANDBOX_V1BETA1 : KUBE_SANDBOX_V1ALPHA1;
}

static enum kube_pin pin_of(const struct conf *conf)
{
	if (strcmp(conf->kubernetes_backend, "link") == 0)
		return KUBE_PIN_LINK;
	return strcmp(conf->kubernetes_backend, "plain") == 0 ? KUBE_PIN_PLAIN : KUBE_PIN_AUTO;
}

void cluster_spec(const struct conf *conf, const char *ns, const struct kube_label *labels, struct kube_pod_spec *out)
{
	*out = (struct kube_pod_spec){
	    .ns = ns,
	    .image = conf->kubernetes_image,
	    .pull_policy = conf->kubernetes_pull_policy,
	    .init_image = conf->kubernetes_init_image,
	    .muxlet_path = conf->kubernetes_muxlet_path,
	    .ephemeral_image = conf->kubernetes_ephemeral_image,
	    .runtime_class = conf->kubernetes_runtime_class,
	    .request_cpu = conf->kubernetes_request_cpu,
	    .request_memory = conf->kubernetes_request_memory,
	    .request_ephemeral = conf->kubernetes_request_ephemeral,
	    .limit_cpu = conf->kubernetes_limit_cpu,
	    .limit_memory = conf->kubernetes_limit_memory,
	    .limit_ephemeral = conf->kubernetes_limit_ephemeral,
	    .workspace = workspace_of(conf),
	    .workspace_size = conf->workspace_size,
	    .storage_class = conf->kubernetes_storage_class,
	    .snapshot_class = conf->kubernetes_snapshot_class,
	    .node_timeout_s = (conf->kubernetes_node_timeout_ns + NS_PER_SEC - 1) / NS_PER_SEC,
	    .hold = cluster_client_hold(conf),
	    .sandbox_api = sandbox_api_of(conf->kubernetes_sandbox_api),
	    .warm_pool = conf->kubernetes_warm_pool,
	    .template_config_maps = conf->kubernetes_template_config_maps,
	    .template_secrets = conf->kubernetes_template_secrets,
	    .template_claims = conf->kubernetes_template_claims,
	    .template_priorities = conf->kubernetes_template_priorities,
	    .labels = labels,
	    .nlabels = conf->kubernetes_nlabels,
	};
}

/* Images that pods may have; how many. out: room for conf->nimages. */
static size_t images_of(const struct conf *conf, struct kube_label *out)
{
	size_t n = 0;

	for (size_t i = 0; i < conf->nimages; i++)
		if (conf->images[i].ref)
			out[n++] = (struct kube_label){conf->images[i].name, conf->images[i].ref};
	return n;
}

/* Checked by the monitor, against the configuration that it was read with, which may be older than the one here. */
static int read_template(int fd, json_t **out, struct err *e)
{
	json_t *t = NULL;
	char *text = NULL;
	size_t len = 0;
	int rc = read_text(fd, "pod template", &text, &len, e);

	if (!rc && len)
		rc = json_parse(text, len, TEXT_MAX, &t, e);
	free(text);
	if (!rc)
		*out = t;
	return rc;
}

int cluster_client_provider(struct cluster_client *c, const struct conf *conf, const struct cluster_fds *f,
			    struct sandbox_provider **out, struct err *e)
{
	struct kube_provider_params p = {
	    .kube = c->kube,
	    .rc = c->rc,
	    .muxlet_fd = f->muxlet,
	    .pin = pin_of(conf),
	    .create_timeout_ns = conf->kubernetes_create_timeout_ns,
	    .plain = plain_open,
	    .plain_arg = c->plain,
	};
	struct kube_label *labels = calloc(conf->kubernetes_nlabels + conf->nimages + 1, sizeof(*labels));
	json_t *t = NULL;
	int rc = labels ? read_template(f->pod_template, &t, e) : err_set(e, ERR_NOMEM, "no memory");

	if (rc || !labels) {
		free(labels);
		return rc;
	}
	for (size_t i = 0; i < conf->kubernetes_nlabels; i++)
		labels[i] = (struct kube_label){conf->kubernetes_labels[i].key, conf->kubernetes_labels[i].value};
	cluster_spec(conf, cluster_client_namespace(c, conf), labels, &p.spec);
	p.spec.images = labels + conf->kubernetes_nlabels;
	p.spec.nimages = images_of(conf, labels + conf->kubernetes_nlabels);
	p.spec.pod_template = t;
	if (pread(f->secret, p.master, sizeof(p.master), 0) == (ssize_t)sizeof(p.master))
		rc = kube_provider_create(&p, out, e);
	else
		rc = err_set(e, ERR_CORRUPT, "the secret of links did not arrive");
	explicit_bzero(&p, sizeof(p));
	json_decref(t);
	free(labels);
	if (!rc)
		c->provider = *out;
	return rc;
}

int cluster_client_set_conf(struct cluster_client *c, const struct conf *conf, struct err *e)
{
	struct kube_label *images = c && c->provider ? calloc(conf->nimages + 1, sizeof(*images)) : NULL;
	struct kube_pod_spec spec;
	int rc = c && c->provider && !images ? ERR_NOMEM : 0;

	if (images) {
		cluster_spec(conf, NULL, NULL, &spec);
		spec.images = images;
		spec.nimages = images_of(conf, images);
		rc = kube_provider_renew(c->provider, &spec);
	}
	free(images);
	return rc ? err_set(e, rc, "no memory for the images and limits of pods") : 0;
}
