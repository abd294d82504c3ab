/*
 * cluster.h - net's clients of the Kubernetes API server, made of the kubeconfig that the monitor handed over: REST and
 * watches, exec streams, the plain backend, and the provider of sandboxes on them.
 *
 * Owned by net_main(); outlives whatever asks through it (provider, reviewer). Its
 * handles close in the loop's next turns: run it before uv_loop_close().
 */
#ifndef MUXD_NET_CLUSTER_H
#define MUXD_NET_CLUSTER_H

#include "control/kube/pods/spec.h"

struct cluster_client;
struct conf;
struct err;
struct kube;
struct sandbox_provider;
struct uv_loop_s;

/* kubeconfig_fd: stays the caller's; an empty one means no cluster, and *out is NULL. ERR_CONFIG, ERR_NOMEM, ERR_SYS.
 */
int cluster_client_create(struct uv_loop_s *loop, const struct conf *conf, int kubeconfig_fd,
			  struct cluster_client **out, struct err *e);
void cluster_client_destroy(struct cluster_client *c); /* NULL-safe */
struct kube *cluster_client_kube(const struct cluster_client *c);
/* Where agents' pods are: kubernetes.namespace, else the kubeconfig's. Lives as long as both. */
const char *cluster_client_namespace(const struct cluster_client *c, const struct conf *conf);
enum kube_hold cluster_client_hold(const struct conf *conf);
/* Pods in ns as the configuration has them, but for images of agents and the template. Borrows all of it;
 * labels: conf->kubernetes_nlabels of them. */
void cluster_spec(const struct conf *conf, const char *ns, const struct kube_label *labels, struct kube_pod_spec *out);

/*
 * The sandboxes there. All of f stay the caller's. The provider must be destroyed before c.
 */
struct cluster_fds {
	int muxlet;       /* the program, for containers that have none */
	int secret;       /* what the secrets of links are made of */
	int pod_template; /* JSON; empty: there is none */
};
int cluster_client_provider(struct cluster_client *c, const struct conf *conf, const struct cluster_fds *f,
			    struct sandbox_provider **out, struct err *e);
/* A later configuration: its provider, which has to be there still, takes sandbox.images, requests and limits from
 * that. c NULL: nothing happens. ERR_NOMEM: it goes by the one before. */
int cluster_client_set_conf(struct cluster_client *c, const struct conf *conf, struct err *e);

#endif
