#include "muxd/net/cluster.h"

#include "control/kube/kube_creds.h"
#include "control/kube/kubeconfig.h"
#include "control/kube/rest.h"
#include "muxd/base/conf.h"
#include "muxd/base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX (1024 * 1024)

struct cluster_client {
	struct kube_creds *creds;
	struct kube *kube;
};

static int read_text(int fd, char **out, size_t *out_len, struct err *e)
{
	struct stat st;
	char *text;

	if (fstat(fd, &st) || st.st_size < 0 || st.st_size > TEXT_MAX)
		return err_set(e, ERR_CONFIG, "the kubeconfig did not arrive");
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return err_set(e, ERR_NOMEM, "no memory for the kubeconfig");
	if (pread(fd, text, (size_t)st.st_size, 0) != st.st_size) {
		free(text);
		return err_sys(e, errno, "reading the kubeconfig");
	}
	text[st.st_size] = '\0';
	*out = text;
	*out_len = (size_t)st.st_size;
	return 0;
}

static int connect_to(struct cluster_client *c, struct uv_loop_s *loop, const char *text, size_t len, struct err *e)
{
	struct kubeconfig *k = NULL;
	int rc = kubeconfig_parse(text, len, "the kubeconfig from the monitor", NULL, NULL, &k, e);

	if (rc == 0 && (rc = kube_creds_create(loop, k, NULL, &c->creds, e)))
		kubeconfig_destroy(k);
	return rc ? rc : kube_client_create(loop, c->creds, NULL, &c->kube, e);
}

int cluster_client_create(struct uv_loop_s *loop, int kubeconfig_fd, struct cluster_client **out, struct err *e)
{
	struct cluster_client *c = NULL;
	char *text = NULL;
	size_t len = 0;
	int rc = read_text(kubeconfig_fd, &text, &len, e);

	if (rc)
		return rc;
	if (len) {
		c = calloc(1, sizeof(*c));
		rc = c ? connect_to(c, loop, text, len, e) : err_set(e, ERR_NOMEM, "no memory");
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
	kube_client_destroy(c->kube);
	kube_creds_destroy(c->creds);
	free(c);
}

struct kube *cluster_client_kube(const struct cluster_client *c)
{
	return c->kube;
}

struct kube_creds *cluster_client_creds(const struct cluster_client *c)
{
	return c->creds;
}

const char *cluster_client_namespace(const struct cluster_client *c, const struct conf *conf)
{
	return *conf->kubernetes_namespace ? conf->kubernetes_namespace : kube_creds_config(c->creds)->namespace_;
}
