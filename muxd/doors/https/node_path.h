/*
 * node_path.h - where a path behind nodes/proxy leads: the API server hands it to the node's kubelet as it is.
 *
 * A kubelet runs programs in pods by paths of its own: /run, /exec, /attach and /portForward with namespace, pod and
 * container behind them, /cri with a token that names nobody. Between the client and that kubelet several parties
 * clean the path, and each in its own way, so a path that any of them may read as another one (escapes, empty steps,
 * dots, backslashes, what is no printable ASCII) is not followed: it is not clear where it leads. Letters count as
 * small ones, in namespaces too.
 *
 * deploy/kustomize/policy says the same in CEL, and a test holds both against each other. Pure; no state.
 */
#ifndef MUXD_DOORS_HTTPS_NODE_PATH_H
#define MUXD_DOORS_HTTPS_NODE_PATH_H

#define NODE_PATH_NS_MAX 63

enum node_way {
	NODE_PATH_OTHER,   /* nothing that a pod is entered by: metrics, logs, healthz */
	NODE_PATH_ENTERS,  /* into a pod of the namespace that is told */
	NODE_PATH_UNCLEAR, /* perhaps into one, and nobody can say of which namespace */
};

/* path: as NodeProxyOptions has it; "" for the kubelet's root. out_ns is "" but for NODE_PATH_ENTERS. */
enum node_way node_path_read(const char *path, char out_ns[NODE_PATH_NS_MAX + 1]);

#endif
