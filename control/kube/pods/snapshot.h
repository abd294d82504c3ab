/*
 * snapshot.h - VolumeSnapshot objects (snapshot.storage.k8s.io/v1) of agents' claims. Pure.
 *
 * The object of snapshot ID is called KUBE_SNAPSHOT_PREFIX ID, carries the agent's labels with the role
 * "snapshot", and its name and the id in annotations, so that it is found again by either.
 * Ready is what says so and is bound: an absent readyToUse means that nobody knows yet. The content that a
 * snapshot names is its own only when that says the same (snapshot_is_content_of()).
 */
#ifndef CONTROL_KUBE_PODS_SNAPSHOT_H
#define CONTROL_KUBE_PODS_SNAPSHOT_H

#include "control/kube/pods/claim.h"
#include "control/sandbox.h"

struct kube_pod_spec;

#define KUBE_SNAPSHOT_GROUP  "snapshot.storage.k8s.io"
#define KUBE_SNAPSHOT_PREFIX "muxd-"
#define KUBE_ROLE_SNAPSHOT   "snapshot"

enum snapshot_ready { SNAPSHOT_UNKNOWN, SNAPSHOT_NOT_READY, SNAPSHOT_READY };

struct snapshot_view {
	char name[KUBE_OBJECT_MAX + 1];
	char uid[POD_UID_MAX + 1];
	char agent[AGENT_NAME_MAX + 1];
	char claim[KUBE_OBJECT_MAX + 1]; /* what it is of */
	struct id id;
	enum snapshot_ready ready;
	bool deleting;
	char content[KUBE_OBJECT_MAX + 1]; /* "" until it is bound */
	uint64_t restore_size;             /* bytes; 0: not known */
	int64_t created_ns;                /* wall clock: when the copy was cut, else when it was asked for */
	char error[256];                   /* the controller's words; "" */
};

/* ERR_K8S when this is no snapshot of ours. */
int snapshot_view(const json_t *o, struct snapshot_view *out, struct err *e);
void snapshot_name(const struct id *id, char out[KUBE_OBJECT_MAX + 1]);
/* What the hub is told. */
void snapshot_describe(const struct snapshot_view *v, struct sandbox_snapshot *out);
/* Does this VolumeSnapshotContent belong to that snapshot in namespace ns, by name and uid? ERR_SNAPSHOT says whose. */
int snapshot_is_content_of(const json_t *content, const struct snapshot_view *v, const char *ns, struct err *e);

/* New objects; NULL with ERR_NOMEM or ERR_INVAL in e. */
json_t *snapshot_object(const struct kube_pod_spec *s, const char *agent, const struct id *id, const char *claim,
			struct err *e);

#endif
