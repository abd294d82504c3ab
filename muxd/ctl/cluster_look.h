/*
 * cluster_look.h - who can enter sandboxes past muxd: the ways that there are, held against a cluster's rules.
 *
 * By three sources: the roles and bindings that the caller may read, reviews of the caller's own access, and reviews
 * of what everybody may (who is authenticated, who is not), which see other authorizers than RBAC as well. Whatever
 * cannot be asked or read is kept as unknown, by name: absence from `can` means nobody only where nothing is unknown.
 */
#ifndef MUXD_CTL_CLUSTER_LOOK_H
#define MUXD_CTL_CLUSTER_LOOK_H

#include "base/json.h"

struct cluster_api;
struct err;

struct cluster_wish {
	const char *muxd, *account; /* muxd's namespace and service account */
	json_t *sandboxes;          /* names of namespaces; NULL: those that carry muxd's label. Borrowed */
};

/* New references, freed by cluster_found_finish(). */
struct cluster_found {
	json_t *sandboxes; /* names of namespaces */
	char me[256];      /* as the cluster calls the caller; "": it does not say */
	/* {who, kind, name, namespace, way, rights, where, by, fix, component}; where "" is the whole cluster,
	 * component a part of Kubernetes that has it from Kubernetes */
	json_t *can;
	json_t *unknown; /* {what, why} */
};

/* ERR_FORBIDDEN: the caller is muxd's own account, whose view says nothing of others. Else as in rest.h. */
int cluster_look(struct cluster_api *api, const struct cluster_wish *wish, struct cluster_found *out, struct err *e);
void cluster_found_finish(struct cluster_found *f);

#endif
