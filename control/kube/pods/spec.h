/*
 * spec.h - the pod of an agent and its claim, as JSON for the API server. Pure.
 *
 * One agent has one pod, of the name kube_spec_name() gives, and one claim, whose name changes with each restore
 * (claim.h); the agent's own name stands in an annotation, and whoever finds an object by
 * name or label looks at it. Labels: agent_id and compute_session_id, KUBE_LABEL_APP where it has one, KUBE_LABEL_ROLE
 * to be found by, and the configured ones. The pod satisfies the restricted Pod Security
 * Standard, whatever is configured: uid 1000, no capability, no privilege
 * escalation, no service account token; a template over it (template.h) takes none of that away.
 */
#ifndef CONTROL_KUBE_PODS_SPEC_H
#define CONTROL_KUBE_PODS_SPEC_H

#include "base/ids.h"
#include "base/json.h"
#include "control/kube/pods/own.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define KUBE_NAME_MAX            63
#define KUBE_LABEL_ROLE          "muxd.dev/role"
#define KUBE_ROLE_SANDBOX        "sandbox"
#define KUBE_ROLE_BINDER         "binder"
#define KUBE_SELECTOR            KUBE_LABEL_ROLE "=" KUBE_ROLE_SANDBOX
#define KUBE_LABEL_APP           "muxd.dev/app-id"
#define KUBE_ANNOTATION_AGENT    "muxd.dev/agent"
#define KUBE_ANNOTATION_SPEC     "muxd.dev/spec"         /* digest of what the pod was made from */
#define KUBE_ANNOTATION_TEMPLATE "muxd.dev/pod-template" /* digest of the template that was merged into it */
#define KUBE_UID                 1000

enum kube_workspace { WORKSPACE_CLAIM, WORKSPACE_EMPTYDIR, WORKSPACE_MEMORY };
/* What an agent's sandbox is to the cluster: a pod, or a Sandbox whose controller makes one (agentsandbox.h). */
enum kube_hold { KUBE_HOLD_POD, KUBE_HOLD_SANDBOX };
/* AUTO: the newest of those that the cluster serves (provider_served.c) */
enum kube_sandbox_api { KUBE_SANDBOX_AUTO, KUBE_SANDBOX_V1ALPHA1, KUBE_SANDBOX_V1BETA1 };

struct kube_label {
	const char *key, *value;
};

/* Quantities as Kubernetes writes them; NULL or "" leaves a field out. Everything is the caller's. */
struct kube_pod_spec {
	const char *ns;
	const char *image, *pull_policy;
	const char *init_image;      /* holds muxlet at muxlet_path; "": none, muxlet is in image or is streamed */
	const char *ephemeral_image; /* holds it too: of a container beside one of others (visitor.h); "": none */
	const char *muxlet_path;     /* in init_image and in image; "": /usr/local/bin/muxlet */
	const char *runtime_class;   /* gvisor */
	const char *request_cpu, *request_memory, *request_ephemeral;
	const char *limit_cpu, *limit_memory, *limit_ephemeral;
	enum kube_workspace workspace;
	uint64_t workspace_size; /* bytes */
	const char *storage_class, *snapshot_class;
	const char *claim; /* that the pod mounts; "": kube_spec_name() */
	bool read_only;    /* the pod mounts it so */
	/* A node that is lost holds a pod so long, then the cluster deletes it; 0: the cluster's default, five minutes
	 */
	uint64_t node_timeout_s;
	enum kube_hold hold;
	enum kube_sandbox_api sandbox_api;
	const char *warm_pool; /* whose Sandboxes are claimed (sandboxclaim.h); "": none, with hold sandbox */
	const char *app_id;    /* of the agent; "": none. No label of the configuration or a template is called so */
	const struct kube_label *labels;
	size_t nlabels;
	const struct kube_label *images; /* that a sandbox may have in place of `image`: name and reference */
	size_t nimages;
	const json_t *pod_template; /* checked (template.h), merged over every pod; NULL: none */
	/* Names that a template may have: struct template_rules, for those that agents have of their own. */
	const char *template_config_maps, *template_secrets, *template_claims, *template_priorities;
};

/* Where muxlet lies in the images. */
const char *kube_spec_muxlet(const struct kube_pod_spec *s);
/* Everything, for a spec that lasts. ERR_NOMEM. */
int kube_spec_copy(const struct kube_pod_spec *from, struct kube_pod_spec *out);
/* Of a copy: its images, requests and limits are those of another spec. ERR_NOMEM: as it was. */
int kube_spec_renew(struct kube_pod_spec *s, const struct kube_pod_spec *from);
void kube_spec_finish(struct kube_pod_spec *s); /* of a copy; of a zeroed one, too */

/*
 * The name of an agent's objects, a DNS label: "muxd-" and the agent's name; of a long one or one with capitals the
 * beginning and ten digits of its SHA-256. Two agents never have one name of the same form, and the forms differ in
 * length. ERR_INVAL for what is no agent's name.
 */
int kube_spec_name(const char *agent, char out[KUBE_NAME_MAX + 1], struct err *e);
/* The pod's name: the same, or "investigation-" and the agent's name in the same way, where a Sandbox holds it. */
int kube_pod_name(enum kube_hold hold, const char *agent, char out[KUBE_NAME_MAX + 1], struct err *e);
/* A new reference, or NULL with ERR_NOMEM or ERR_INVAL in e. session: compute_session_id of this pod. */
json_t *kube_spec_pod(const struct kube_pod_spec *s, const char *agent, const struct id *session, struct err *e);

struct kube_claim_plan {
	const char *name;
	uint64_t generation;
	/* A copy: of this snapshot of ours, by the name of its object, and no smaller than that wants. NULL: empty */
	const struct id *snapshot;
	const char *source;
	uint64_t size_min; /* bytes */
	bool read_only;
};
/* plan NULL: the first one of an agent. */
json_t *kube_spec_claim(const struct kube_pod_spec *s, const char *agent, const struct kube_claim_plan *plan,
			struct err *e);
/*
 * A pod that does nothing but mount a claim, so that storage which waits for its first consumer (WaitForFirstConsumer)
 * provides it. Its name is "NAME.bind".
 */
json_t *kube_spec_binder(const struct kube_pod_spec *s, const char *agent, const char *claim, struct err *e);
/* muxd's labels and the configured ones, for an object of that role. */
json_t *kube_spec_labels(const struct kube_pod_spec *s, const char *agent, const char *role);

#endif
