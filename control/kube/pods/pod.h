/*
 * pod.h - what a Pod object of the API server says about one container of it. Pure.
 *
 * A view is a copy; nothing of the JSON is kept. `why` holds the cluster's own words
 * for people: the reason and message of whatever keeps the container from running,
 * or of how it ended.
 */
#ifndef CONTROL_KUBE_PODS_POD_H
#define CONTROL_KUBE_PODS_POD_H

#include "base/ids.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/*
 * POD_WAITING    not yet: unscheduled, pulling, initialising; or between two runs of a container that is restarted
 * POD_HOPELESS   not yet, and it never will be as the pod is (a wrong image name)
 * POD_RUNNING    the container runs
 * POD_ENDED      the container has ended and is not started again, or the pod has as a whole
 */
enum pod_state { POD_WAITING, POD_HOPELESS, POD_RUNNING, POD_ENDED };

#define POD_UID_MAX 63
#define POD_CID_MAX 191

struct pod_view {
	enum pod_state state;
	bool deleting;      /* has a deletionTimestamp */
	int64_t delete_ns;  /* when it was to be gone, its grace included; wall clock, 0: not deleting */
	bool started;       /* some container of it has run, or runs: it is more than a plan */
	char container[64]; /* which one this is about */
	char uid[POD_UID_MAX + 1];
	char container_id[POD_CID_MAX + 1]; /* "containerd://..."; "" until it has run */
	char agent[AGENT_NAME_MAX + 1];     /* the annotation; "" */
	char spec[65];                      /* the annotation; "" */
	char pod_template[65];              /* likewise: a digest */
	char why[256];      /* plain ASCII: a container writes its own last message, and it may be cut anywhere */
	int64_t created_ns; /* wall clock */
	bool memory_limit, cpu_limit;
	bool muxlet_dir;    /* mounts KUBE_MUXLET_DIR */
	bool has_workspace; /* mounts KUBE_WORKSPACE */
	char claim[254];    /* that is mounted there; "": none */
	bool read_only;     /* and so */
	char node[254];     /* "" until it is scheduled */
};

/*
 * container NULL or "": the one that the annotation kubectl.kubernetes.io/default-container names, else the only one;
 * several: ERR_INVAL with the list. ERR_NOT_FOUND when the pod has none of that name; ERR_K8S when this is no pod.
 */
int pod_view(const json_t *pod, const char *container, struct pod_view *out, struct err *e);
/* The name of the volume that a container mounts there; "": none. Lives as long as the container. */
const char *pod_volume_at(const json_t *container, const char *path);
/* Controlled by the owner of this uid. */
bool pod_is_owned_by(const json_t *pod, const char *uid);
/* Labelled as a sandbox of muxd's. */
bool pod_has_role(const json_t *pod);
/* The object of a list that has that name; NULL: none. */
const json_t *pod_named(const json_t *list, const char *name);
/* What is not printable ASCII becomes '?': in place. */
void pod_plain_text(char *s);
/* Labelled as a sandbox, and annotated as this agent's. */
bool pod_is_sandbox_of(const json_t *pod, const char *agent);
/* Labelled likewise, and annotated as the first consumer of this agent's new claim. */
bool pod_is_binder_of(const json_t *pod, const char *agent);
/* The incarnation of a sandbox: a digest of pod and container ids as a UUID of version 8 (RFC 9562). */
void pod_incarnation(const struct pod_view *v, struct id *out);
/* "waiting", "hopeless", "running", "ended" */
const char *pod_state_name(enum pod_state s);

#endif
