// tier: check
/* A kubeconfig: whatever stands in it, a whole one or a complaint. */
#include "base/err.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/client/kubeconfig.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
	if (!truth)
		abort();
}

static void require_source(const struct kube_source *s)
{
	require(!s->path || !s->data);
	require(!s->data || (s->len > 0 && s->data[s->len] == '\0'));
}

static void require_whole(const struct kubeconfig *k)
{
	require(k->name && k->server && k->url.host && *k->url.host && k->url.port && k->url.path && k->namespace_);
	require(!strcmp(k->url.scheme, "https") || !strcmp(k->url.scheme, "http"));
	require(!strpbrk(k->url.host, " \r\n") && !strpbrk(k->url.path, " \r\n"));
	require(!k->proxy || (k->proxy_url.host && k->proxy_url.port));
	require_source(&k->ca);
	require_source(&k->cert);
	require_source(&k->key);
	require_source(&k->token);
	require((k->cert.path || k->cert.data) == (k->key.path || k->key.data));
	require(!k->token.data || (k->token.len <= KUBE_TOKEN_MAX && !strpbrk(k->token.data, " \r\n")));
	require(!k->plugin ||
		(k->plugin->argv[0] && k->plugin->env && k->plugin->api_version && k->plugin->install_hint));
	/* nothing secret in clear */
	require(k->url.scheme[4] == 's' ||
		(!k->cert.path && !k->cert.data && !k->token.path && !k->token.data && !k->plugin));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kubeconfig *k = NULL;
	struct err e = {0};
	int rc = kubeconfig_parse((const char *)data, size, "fuzz", "/dir", NULL, &k, &e);

	if (rc < 0) {
		require(!k && rc == ERR_CONFIG && strncmp(e.message, "fuzz:", 5) == 0);
		return 0;
	}
	require_whole(k);
	kubeconfig_destroy(k);
	return 0;
}
