/*
 * kubeconfig.h - which API server, as whom: one context of kubeconfig files, or what a pod is given.
 *
 * Follows kubectl: several files (separated by ':') are one, the first to say
 * something wins, files that do not exist are passed over; relative paths are
 * relative to the file that names them. Proxy variables of the environment are
 * not looked at: proxy-url says it. Of credentials these are known: client
 * certificate, token, tokenFile, exec plug-in. Passwords, auth-provider and
 * impersonation are refused by name.
 *
 * A kubeconfig is read-only once loaded, owns its strings, and is wiped on
 * destroy. Files that it names are not read here (kube_creds.h does).
 */
#ifndef CONTROL_KUBE_CLIENT_KUBECONFIG_H
#define CONTROL_KUBE_CLIENT_KUBECONFIG_H

#include "control/kube/client/url.h"

#include <stdbool.h>
#include <stddef.h>

struct err;

#define KUBE_POD_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* Bytes that stand in the configuration or in a file. Both NULL: not there; data wins, as in kubectl. */
struct kube_source {
	char *path;
	char *data; /* NUL-terminated besides */
	size_t len;
};

/* An exec credential plug-in (client.authentication.k8s.io). */
struct kube_plugin_conf {
	char **argv; /* [0]: a path, or a name for PATH; NULL-ended */
	char **env;  /* "NAME=value", added to the daemon's; NULL-ended */
	char *api_version;
	char *install_hint; /* "" */
	bool cluster_info;  /* provideClusterInfo */
};

struct kubeconfig {
	char *name;   /* for messages: "/root/.kube/config (context dev)", "the pod's service account" */
	char *server; /* "https://10.0.0.1:6443" as written */
	struct kube_url url;
	struct kube_source ca, cert, key, token;
	bool insecure;
	char *tls_server_name; /* NULL: url.host */
	char *proxy;           /* NULL: none */
	struct kube_url proxy_url;
	char *namespace_;                /* "default" where nothing is said */
	struct kube_plugin_conf *plugin; /* NULL: none */
};

/*
 * files: one path, or several with ':'. context: NULL or "" for current-context.
 * ERR_CONFIG "FILE:LINE:COLUMN: ...", for a wrong context with the names there are; ERR_NOT_FOUND when no file exists.
 */
int kubeconfig_load(const char *files, const char *context, struct kubeconfig **out, struct err *e);
/* The same from memory. name: for messages; dir: what relative paths begin at (NULL: they are left as they are). */
int kubeconfig_parse(const char *text, size_t len, const char *name, const char *dir, const char *context,
		     struct kubeconfig **out, struct err *e);
/*
 * In a pod: host and port as in KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, dir with token, ca.crt and
 * namespace (KUBE_POD_DIR). ERR_CONFIG when one of them is not there.
 */
int kubeconfig_in_cluster(const char *host, const char *port, const char *dir, struct kubeconfig **out, struct err *e);
void kubeconfig_destroy(struct kubeconfig *k); /* NULL-safe */

#endif
