/*
 * cluster.h - net's clients of the Kubernetes API server, made of the kubeconfig that the monitor handed over.
 *
 * Owned by net_main(); outlives whatever asks through it (provider, reviewer). Its
 * handles close in the loop's next turns: run it before uv_loop_close().
 */
#ifndef MUXD_NET_CLUSTER_H
#define MUXD_NET_CLUSTER_H

struct cluster_client;
struct conf;
struct err;
struct kube;
struct kube_creds;
struct uv_loop_s;

/* kubeconfig_fd: stays the caller's; an empty one means no cluster, and *out is NULL. ERR_CONFIG, ERR_NOMEM, ERR_SYS.
 */
int cluster_client_create(struct uv_loop_s *loop, int kubeconfig_fd, struct cluster_client **out, struct err *e);
void cluster_client_destroy(struct cluster_client *c); /* NULL-safe */
struct kube *cluster_client_kube(const struct cluster_client *c);
struct kube_creds *cluster_client_creds(const struct cluster_client *c);
/* Where agents' pods are: kubernetes.namespace, else the kubeconfig's. Lives as long as both. */
const char *cluster_client_namespace(const struct cluster_client *c, const struct conf *conf);

#endif
