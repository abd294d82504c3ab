/*
 * cluster.h - what net is given to reach the Kubernetes API server: a kubeconfig, and files that it may read.
 *
 * The operator's kubeconfig, and what it names, are often root's alone. So the
 * monitor reads them and puts certificate authority, client certificate, key and
 * token into DIR/keys/kube (net's, 0600), also those that stand in the kubeconfig
 * itself; net gets a kubeconfig made of server, proxy, plug-in and these paths.
 * Rotated files are put there anew each minute and at SIGHUP, and net reads them
 * again by itself (control/kube/client/kube_creds.h). Plug-ins are run by net.
 *
 * States: closed -> open (with or without a cluster). Owned by the monitor.
 */
#ifndef MUXD_MONITOR_CLUSTER_H
#define MUXD_MONITOR_CLUSTER_H

#include "muxd/monitor/layout.h"

#include <stdbool.h>
#include <stddef.h>

struct kubeconfig;

struct conf;

struct cluster {
	struct kubeconfig *k; /* NULL: no cluster is configured */
	char *text;           /* for net, as JSON; "" without a cluster */
	size_t len;
	char *pod_template; /* likewise, kubernetes.pod_template as JSON; "" without one */
	bool stale;         /* a file could not be read again: said once */
};

/* Is what the configuration names a kubeconfig, and a pod template? No file of ours is touched. */
int cluster_check(const struct conf *conf, struct err *e);
/*
 * Loads what the configuration names and fills the directory. ERR_CONFIG with file, line and key, ERR_NOT_FOUND,
 * ERR_PERMISSION: one sentence. On failure *c is as it was, and so are the files.
 */
int cluster_open(struct cluster *c, const struct conf *conf, const struct layout *l, const struct identity *who,
		 struct err *e);
/*
 * SIGHUP: the same again. *out_changed: another server, proxy, plug-in or namespace is named, which waits for the
 * daemon's next start, and nothing was changed. A pod template is looked at, and waits as well.
 */
int cluster_reload(struct cluster *c, const struct conf *conf, const struct layout *l, const struct identity *who,
		   bool *out_changed, struct err *e);
/* Each minute: files that were rotated. A file that cannot be read leaves the old one, and is logged once. */
void cluster_refresh(struct cluster *c, const struct layout *l, const struct identity *who);
void cluster_finish(struct cluster *c); /* wipes; NULL-safe */

#endif
