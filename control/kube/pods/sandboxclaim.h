/*
 * sandboxclaim.h - SandboxClaim objects of extensions.agents.x-k8s.io: a Sandbox out of a warm pool. Pure.
 *
 * One for each agent, of the name that its Sandbox has elsewhere (kube_pod_name). That project's controller gives it a
 * Sandbox that runs already, or makes one from the pool's template, and says which in status.sandbox.name: the claim's
 * name is not the Sandbox's. The Sandbox is then the claim's (owner reference) and goes with it. Env and volumes are
 * never asked for: both would make a cold start of every claim. Of what muxd marks its pods with, the agent's
 * annotation alone is in the claim, since a claim's labels are refused unless that project's controller was told to
 * allow their domain; the role's label has to be in the pool's template.
 */
#ifndef CONTROL_KUBE_PODS_SANDBOXCLAIM_H
#define CONTROL_KUBE_PODS_SANDBOXCLAIM_H

#include "control/kube/pods/pod.h"
#include "control/kube/pods/spec.h"

#define SANDBOXCLAIM_GROUP   "extensions.agents.x-k8s.io"
#define SANDBOXCLAIM_VERSION "v1beta1"

struct sandboxclaim_view {
	char uid[POD_UID_MAX + 1];
	char agent[AGENT_NAME_MAX + 1];
	char sandbox[AGENT_NAME_MAX + 1]; /* that it was given; "": none yet */
	bool deleting;
	bool failed;         /* nothing comes of it: its controller says so of this very generation */
	int64_t shutdown_ns; /* wall clock; 0: none */
	char why[256];       /* the controller's words on Ready; "" */
};

/* ERR_K8S when this is none. */
int sandboxclaim_view(const json_t *o, struct sandboxclaim_view *out, struct err *e);
/* A new one of s->warm_pool. shutdown_ns: wall clock, 0: none. NULL with ERR_NOMEM or ERR_INVAL in e. */
json_t *sandboxclaim_object(const struct kube_pod_spec *s, const char *agent, int64_t shutdown_ns, struct err *e);
/* A merge patch: another end, for the object that v saw. NULL: no memory. */
json_t *sandboxclaim_end(const struct sandboxclaim_view *v, int64_t shutdown_ns);

#endif
