/*
 * template_own.h - the pod template that an agent has of its own, over the configured one. Pure.
 *
 * Whoever may give an agent one is not the operator: besides what is muxd's (template.h) it leaves alone what the
 * configured template says of labels, annotations, additional containers and volumes, and it names no priority class
 * and no pull secret that is not listed. Where the pod may run, its resources, and what else the configured one says,
 * it may change.
 */
#ifndef CONTROL_KUBE_PODS_TEMPLATE_OWN_H
#define CONTROL_KUBE_PODS_TEMPLATE_OWN_H

#include "control/kube/pods/template.h"

#define TEMPLATE_OWN_MAX (32 * 1024) /* bytes of its text */

/*
 * own: JSON, "" or NULL: none. *out: both merged, checked like a template that is configured; a new reference, NULL
 * where neither is. ERR_INVAL: "/spec/hostNetwork is ..."; ERR_TOO_LARGE, ERR_NOMEM.
 */
int template_own_merge(const json_t *configured, const char *own, const struct template_rules *r, json_t **out,
		       struct err *e);

#endif
