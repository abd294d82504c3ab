/*
 * kubeconfig_read.h - inside kubeconfig.c and kubeconfig_entry.c: one cluster or user of a kubeconfig, value by value.
 */
#ifndef CONTROL_KUBE_CLIENT_KUBECONFIG_READ_H
#define CONTROL_KUBE_CLIENT_KUBECONFIG_READ_H

#include "base/yamldoc.h"
#include "control/kube/client/kubeconfig.h"

/* A cluster, a user or a context: where it stands, and its name for complaints. */
struct kube_entry {
	struct yamlnode node;
	const char *dir;
	char what[160];
};

/* Each fills its part of k. ERR_CONFIG with the place, ERR_NOMEM. The cluster comes first: what a user may hold depends
 * on it. */
int kubeconfig_read_cluster(struct kubeconfig *k, const struct kube_entry *en, struct err *e);
int kubeconfig_read_user(struct kubeconfig *k, const struct kube_entry *en, struct err *e);

/* ERR_CONFIG "FILE:LINE:COLUMN: KEY of WHAT: WHY", at the key's value where it has one. */
int kubeconfig_fail_key(const struct kube_entry *en, const char *key, const char *why, struct err *e);
/* path as seen from dir (NULL: as it is). ERR_NOMEM. */
int kubeconfig_path(const char *dir, const char *path, char **out, struct err *e);
int kubeconfig_copy(const char *s, char **out, struct err *e);
int kubeconfig_no_memory(struct err *e);
/* No space and no control character in it. */
bool kubeconfig_clean(const char *s);

#endif
