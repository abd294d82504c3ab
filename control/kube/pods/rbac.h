/*
 * rbac.h - who may do what, read off a cluster's roles and bindings (rbac.authorization.k8s.io/v1).
 *
 * Pure: the lists are the caller's, as the API server gave them. Rules count as the API server counts them: "*", the
 * resources of a subresource ("pods/exec", "*" and "*" with "/exec"), names, Roles and ClusterRoles by either
 * binding, and aggregated ClusterRoles, by what their selectors match, too, where nobody has filled them in. Other
 * authorizers of a cluster are not seen here: access reviews are for those.
 */
#ifndef CONTROL_KUBE_PODS_RBAC_H
#define CONTROL_KUBE_PODS_RBAC_H

#include "base/json.h"

#include <stdbool.h>

/* Arrays of objects, borrowed; NULL: none. */
struct rbac {
	const json_t *roles, *cluster_roles, *role_bindings, *cluster_role_bindings;
};

struct rbac_want {
	const char *group, *resource; /* "", "pods/exec" */
	const char *const *verbs;     /* NULL-ended; one of them is enough */
	const char *ns;               /* NULL: what has no namespace, or in all of them */
	const char *name;             /* of the object; NULL: any: a rule for one of them counts */
};

/* Borrowed for the call. */
struct rbac_grant {
	const char *kind, *name, *ns;     /* of the subject: "User", "Group", "ServiceAccount" (ns, else "") */
	const char *binding, *binding_ns; /* "" for a ClusterRoleBinding */
	const char *role_kind, *role;     /* "ClusterRole", "admin" */
	const char *verb;                 /* the first of the wanted that the rule has */
	bool everything;                  /* the rule is all verbs on all resources of all groups */
	bool built_in;                    /* the binding came with Kubernetes, by its label */
};

/* found is called for each subject of each binding that gives it, in the order of the lists. */
void rbac_who(const struct rbac *r, const struct rbac_want *w, void (*found)(void *arg, const struct rbac_grant *g),
	      void *arg);

#endif
