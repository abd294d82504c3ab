/*
 * visitor.h - an ephemeral container of ours in a pod of others, which carries muxlet where the target cannot. Pure.
 *
 * The target's processes are its own as well (targetContainerName), so their first has number 1 and muxlet reads its
 * root as /proc/1/root; the network is the pod's. The same user and group as the target, nothing else that the target
 * may. A pod keeps an ephemeral container for as long as it is there, ended or not: the name is a digest of what the
 * container is made from, so that the one which is there is found, and another only where something differs.
 */
#ifndef CONTROL_KUBE_PODS_VISITOR_H
#define CONTROL_KUBE_PODS_VISITOR_H

#include "base/json.h"

struct err;

#define VISITOR_PREFIX "muxd-visitor-"
#define VISITOR_TRIES  3 /* of one making in one pod: who was ended from outside is made again so often */

/*
 * VISITOR_ABSENT   to be added: plan.container
 * VISITOR_WAITING  added, and does not run yet
 * VISITOR_RUNNING  it runs, and has seen the target's root
 * VISITOR_ENDED    it cannot do its work here: why
 */
enum visitor_state { VISITOR_ABSENT, VISITOR_WAITING, VISITOR_RUNNING, VISITOR_ENDED };

struct visitor_params {
	const char *target; /* container */
	const char *image, *pull_policy;
	const char *muxlet; /* path in the image */
};

struct visitor_plan {
	enum visitor_state state;
	char name[40];
	char why[160];     /* the cluster's words, for what waits or has ended */
	json_t *container; /* ABSENT: a new reference; else NULL */
};

/*
 * What there is to be done in a pod. ERR_UNSUPPORTED: none can be there, e says why; ERR_K8S: that is no pod;
 * ERR_NOMEM.
 */
int visitor_plan(const json_t *pod, const struct visitor_params *p, struct visitor_plan *out, struct err *e);
/* A strategic merge patch of pods/ephemeralcontainers. Takes the reference. NULL: no memory. */
json_t *visitor_patch(json_t *container);

#endif
