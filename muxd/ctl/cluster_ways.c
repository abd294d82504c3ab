#include "muxd/ctl/cluster_ways.h"

#define ALL_METHODS                                                                                                    \
	{                                                                                                              \
		"get", "create", "update", "patch", "delete", NULL                                                     \
	}
#define OPEN                                                                                                           \
	{                                                                                                              \
		"get", "create", NULL                                                                                  \
	}
#define MAKE                                                                                                           \
	{                                                                                                              \
		"create", "update", "patch", NULL                                                                      \
	}
#define CHANGE                                                                                                         \
	{                                                                                                              \
		"update", "patch", NULL                                                                                \
	}
#define REMOVE                                                                                                         \
	{                                                                                                              \
		"update", "patch", "delete", NULL                                                                      \
	}
#define CLEAR                                                                                                          \
	{                                                                                                              \
		"deletecollection", NULL                                                                               \
	}
#define INSIDE (WAY_SANDBOXES | WAY_MUXD)
#define ALL    (WAY_CLUSTER | WAY_SANDBOXES | WAY_MUXD)
#define RBAC   "rbac.authorization.k8s.io"
#define GUARDS "admissionregistration.k8s.io"

#define NODES    "give nodes/metrics for scraping instead: the kubelet's port asks no webhook"
#define ENTER    "take it away here: sandboxes are entered with muxctl exec or ssh; the webhook alone holds it off"
#define PODS     "leave the making of pods here to muxd: another pod can mount a sandbox's claim, or be muxd's account"
#define SECRETS  "keep reading of secrets out of muxd's namespace: its certificate and account are there"
#define BECOME   "limit it by resourceNames to whom may be acted for, never muxd's account or system:masters"
#define ESCALATE "leave it to the cluster's administrators: who has it can give himself every other right"
#define GUARD    "leave the webhook, the policies and the namespace's label to the cluster's administrators"
#define TOKEN    "leave tokens of muxd's account to the kubelet"

const struct cluster_way cluster_ways[] = {
    {"node proxy", WAY_CLUSTER, "", "nodes/proxy", ALL_METHODS, WAY_ANY, NODES},
    {"exec", INSIDE, "", "pods/exec", OPEN, WAY_ANY, ENTER},
    {"attach", INSIDE, "", "pods/attach", OPEN, WAY_ANY, ENTER},
    {"port-forward", WAY_SANDBOXES, "", "pods/portforward", OPEN, WAY_ANY, ENTER},
    {"pod proxy", WAY_SANDBOXES, "", "pods/proxy", ALL_METHODS, WAY_ANY, ENTER},
    {"service proxy", WAY_SANDBOXES, "", "services/proxy", ALL_METHODS, WAY_ANY, ENTER},
    {"ephemeral containers", INSIDE, "", "pods/ephemeralcontainers", CHANGE, WAY_ANY, ENTER},
    {"make pods", INSIDE, "", "pods", {"create", NULL}, WAY_ANY, PODS},
    {"change pods", INSIDE, "", "pods", CHANGE, WAY_ANY, PODS},
    {"make pods", INSIDE, "", "replicationcontrollers", MAKE, WAY_ANY, PODS},
    {"make pods", INSIDE, "apps", "deployments", MAKE, WAY_ANY, PODS},
    {"make pods", INSIDE, "apps", "replicasets", MAKE, WAY_ANY, PODS},
    {"make pods", INSIDE, "apps", "statefulsets", MAKE, WAY_ANY, PODS},
    {"make pods", INSIDE, "apps", "daemonsets", MAKE, WAY_ANY, PODS},
    {"make pods", INSIDE, "batch", "jobs", MAKE, WAY_ANY, PODS},
    {"make pods", INSIDE, "batch", "cronjobs", MAKE, WAY_ANY, PODS},
    {"muxd's secrets", WAY_MUXD, "", "secrets", {"get", "list", "watch", NULL}, WAY_ANY, SECRETS},
    {"muxd's configuration", WAY_MUXD, "", "configmaps", CHANGE, WAY_ANY, GUARD},
    {"impersonate", WAY_CLUSTER, "", "users", {"impersonate", NULL}, WAY_ANY, BECOME},
    {"impersonate", WAY_CLUSTER, "", "groups", {"impersonate", NULL}, WAY_ANY, BECOME},
    {"impersonate", WAY_CLUSTER | WAY_MUXD, "", "serviceaccounts", {"impersonate", NULL}, WAY_ACCOUNT, BECOME},
    {"bind", ALL, RBAC, "clusterroles", {"bind", NULL}, WAY_ANY, ESCALATE},
    {"bind", ALL, RBAC, "roles", {"bind", NULL}, WAY_ANY, ESCALATE},
    {"escalate", ALL, RBAC, "clusterroles", {"escalate", NULL}, WAY_ANY, ESCALATE},
    {"escalate", ALL, RBAC, "roles", {"escalate", NULL}, WAY_ANY, ESCALATE},
    {"webhook", WAY_CLUSTER, GUARDS, "validatingwebhookconfigurations", REMOVE, WAY_GUARD, GUARD},
    {"webhook", WAY_CLUSTER, GUARDS, "validatingwebhookconfigurations", CLEAR, WAY_ANY, GUARD},
    {"webhook", WAY_CLUSTER, GUARDS, "mutatingwebhookconfigurations", MAKE, WAY_ANY, GUARD},
    {"policy", WAY_CLUSTER, GUARDS, "validatingadmissionpolicies", REMOVE, WAY_GUARD, GUARD},
    {"policy", WAY_CLUSTER, GUARDS, "validatingadmissionpolicies", CLEAR, WAY_ANY, GUARD},
    {"policy", WAY_CLUSTER, GUARDS, "validatingadmissionpolicybindings", REMOVE, WAY_GUARD, GUARD},
    {"policy", WAY_CLUSTER, GUARDS, "validatingadmissionpolicybindings", CLEAR, WAY_ANY, GUARD},
    {"label", WAY_SANDBOXES, "", "namespaces", CHANGE, WAY_NAMESPACE, GUARD},
    {"muxd's token", WAY_MUXD, "", "serviceaccounts/token", {"create", NULL}, WAY_ACCOUNT, TOKEN},
};
const size_t cluster_nways = sizeof(cluster_ways) / sizeof(cluster_ways[0]);
