/*
 * reviewer.h - the hub's questions about tokens of the cluster, put to the cluster (control/kube/pods/review.h).
 *
 * It knows which pod an agent's name stands for. Owned by net_main(): made after
 * the kube, destroyed after the doors and before hub and kube; what is out then is
 * answered with ERR_CANCELLED.
 */
#ifndef MUXD_NET_REVIEWER_H
#define MUXD_NET_REVIEWER_H

#include "control/kube/pods/spec.h"
#include "muxd/hub/setup.h"

struct kube;
struct reviewer;

/* ns: of the pods of agents, copied. agents_in_cluster: sandbox.backend is kubernetes; hold: how. ERR_NOMEM. */
int reviewer_create(struct kube *k, const char *ns, bool agents_in_cluster, enum kube_hold hold, struct reviewer **out);
void reviewer_destroy(struct reviewer *v); /* NULL-safe */
/* For hub_params; NULL: a hub without a cluster. */
struct hub_reviewer reviewer_for_hub(struct reviewer *v);

#endif
