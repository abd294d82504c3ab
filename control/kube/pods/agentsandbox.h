/*
 * agentsandbox.h - Sandbox objects of agents.x-k8s.io (kubernetes-sigs/agent-sandbox), as a second way to hold a pod.
 * Pure.
 *
 * One for each agent, "investigation-AGENT", with the label thread-id. That project's controller makes a pod of the
 * same name from its template, which is our pod (spec.h) word for word; who finds and reaches it does not see the
 * difference. Asleep it is `replicas: 0` in v1alpha1, `operatingMode: Suspended` in v1beta1; a spec in here names one
 * of the two. With a TTL it carries shutdownTime, a while behind the end that muxd has for it, and shutdownPolicy
 * Delete: the controller ends it even when muxd does not run. Nothing happens where no controller runs.
 */
#ifndef CONTROL_KUBE_PODS_AGENTSANDBOX_H
#define CONTROL_KUBE_PODS_AGENTSANDBOX_H

#include "control/kube/pods/pod.h"
#include "control/kube/pods/spec.h"

#define AGENTSANDBOX_GROUP "agents.x-k8s.io"

/*
 * What the conditions say of a start. Only those count whose observedGeneration is the object's own: what the
 * controller said of an earlier wish is no verdict. Suspended is never one, since it lingers; Ready is.
 *
 * AGENTSANDBOX_WAITS  nothing yet, ready, or what may pass: no node for it, a Service that is not there yet
 * AGENTSANDBOX_ENDED  its pod has succeeded or failed, and stays (Finished)
 * AGENTSANDBOX_FAILED nothing comes of it: several pods of its own, its end is past
 */
enum agentsandbox_verdict { AGENTSANDBOX_WAITS, AGENTSANDBOX_ENDED, AGENTSANDBOX_FAILED };

struct agentsandbox_view {
	char uid[POD_UID_MAX + 1], version[64];
	char agent[AGENT_NAME_MAX + 1];
	bool deleting;
	int64_t shutdown_ns; /* wall clock; 0: none */
	enum agentsandbox_verdict verdict;
	char why[256]; /* the controller's words; "" where it has said nothing yet */
	/* Of one that a claim was given: the uid of its controlling owner, "" none; its pod's name; what is mounted at
	 * KUBE_WORKSPACE where that outlives the pod, "" nothing does. */
	char owner[POD_UID_MAX + 1], pod[AGENT_NAME_MAX + 1], claim[254];
	bool asleep;
};

/* ERR_K8S when this is none. */
int agentsandbox_view(const json_t *o, struct agentsandbox_view *out, struct err *e);
const char *agentsandbox_version(enum kube_sandbox_api api); /* "v1alpha1"; AUTO: "" */
/* Of what an APIGroup lists the one that muxd speaks best: v1beta1, else v1alpha1, else AUTO. */
enum kube_sandbox_api agentsandbox_served(const json_t *group);
/* "v2, v3" of the same list, for messages: bounded. */
void agentsandbox_versions(const json_t *group, char *out, size_t size);

/*
 * The whole object, awake. shutdown_ns: wall clock, 0: none. NULL with ERR_NOMEM or ERR_INVAL in e.
 * The patches are for a merge (RFC 7386), and for the object `there` that v saw: awake with the template of now and
 * nothing of the one before it, in that version alone; awake or asleep, and nothing else; and with another end.
 */
json_t *agentsandbox_object(const struct kube_pod_spec *s, const char *agent, const struct id *session,
			    int64_t shutdown_ns, struct err *e);
json_t *agentsandbox_wake(const struct kube_pod_spec *s, const json_t *there, const struct agentsandbox_view *v,
			  const struct id *session, int64_t shutdown_ns, struct err *e);
json_t *agentsandbox_mode(const struct kube_pod_spec *s, const struct agentsandbox_view *v, bool awake);
/* Into what has shutdownTime and shutdownPolicy: nothing where there is no end. ERR_NOMEM. */
int agentsandbox_put_end(json_t *spec, int64_t shutdown_ns);
json_t *agentsandbox_end(const struct agentsandbox_view *v, int64_t shutdown_ns);

#endif
