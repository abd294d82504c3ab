/*
 * cluster_ways.h - the ways into a cluster's sandboxes past muxd, each as a right that Kubernetes gives.
 *
 * A constant table; where says in which namespaces the right leads in: those of sandboxes, muxd's own (its keys, its
 * account), or the cluster's as a whole.
 */
#ifndef MUXD_CTL_CLUSTER_WAYS_H
#define MUXD_CTL_CLUSTER_WAYS_H

#include <stddef.h>

enum { WAY_CLUSTER = 1, WAY_SANDBOXES = 2, WAY_MUXD = 4 };

/* Whose name a rule has to allow to count. */
enum way_name { WAY_ANY, WAY_GUARD, WAY_ACCOUNT, WAY_NAMESPACE };

#define WAY_VERBS_MAX 6
/* as deploy/ names the webhook and the policies */
#define CLUSTER_GUARD       "muxd-sandboxes"
#define CLUSTER_NODES_GUARD "muxd-nodes"

struct cluster_way {
	const char *name; /* "exec" */
	int where;
	const char *group, *resource;
	const char *verbs[WAY_VERBS_MAX]; /* NULL-ended */
	enum way_name of;
	const char *fix;
};

extern const struct cluster_way cluster_ways[];
extern const size_t cluster_nways;

#endif
