/*
 * cluster_api.h - questions of muxctl to an API server, as whoever the kubeconfig says: one at a time, each awaited.
 *
 * The daemon's client (control/kube) on a loop of its own. One struct cluster_api per run, owned by the command.
 */
#ifndef MUXD_CTL_CLUSTER_API_H
#define MUXD_CTL_CLUSTER_API_H

#include "base/json.h"

struct cluster_api;
struct err;
struct kube_ref;

/* files NULL: $KUBECONFIG, else ~/.kube/config. ERR_NOT_FOUND when there is none; what a pod is given is never used. */
int cluster_api_open(const char *files, const char *context, struct cluster_api **out, struct err *e);
void cluster_api_close(struct cluster_api *a); /* NULL-safe */

/* Every page of a collection: a new array of its items. labels: a selector, NULL. Errors as in rest.h. */
int cluster_api_list(struct cluster_api *a, const struct kube_ref *r, const char *labels, json_t **out, struct err *e);
/* An object that is a question (a review), and its answer. */
int cluster_api_review(struct cluster_api *a, const struct kube_ref *r, const json_t *question, json_t **out,
		       struct err *e);
/* The subject of the kubeconfig's token, where it is a JWT that says so; "" else. */
void cluster_api_token_subject(struct cluster_api *a, char *out, size_t size);

#endif
