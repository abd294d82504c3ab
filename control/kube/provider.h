/*
 * provider.h - sandboxes as pods, and muxlet in any pod: the provider of control/sandbox.h that speaks to a cluster.
 *
 * An agent without a slash has a pod of ours (spec.h): made when it is ensured, found
 * again by its name and label, ended by destroy_sandbox. ns/pod and
 * ns/pod/container are pods of others: neither made nor deleted here. Either is
 * reached through muxlet on an exec stream (reach.h), delivered as far as the container allows.
 *
 * A pod here: UNKNOWN (nobody asked) -> LOOKING (the API server is asked) ->
 * MAKING | WAITING (until its container runs, or the deadline) -> REACHING ->
 * LINKED (a stream is up) -> READY (its container runs, no stream) -> GONE (removed).
 * The watches tell of pods that end: `gone` of the provider is called at once, with the cluster's reason.
 *
 * Errors besides those of rest.h: ERR_NOT_FOUND (no such pod; or connect, and it has ended), ERR_INVAL (several
 * containers: with the list), ERR_SANDBOX_TIMEOUT (not ready in time: with the pod's own reason), ERR_SANDBOX_CREATE,
 * ERR_BAD_STATE (a pod of others that does not run), ERR_UNSUPPORTED (muxlet cannot run in it).
 */
#ifndef CONTROL_KUBE_PROVIDER_H
#define CONTROL_KUBE_PROVIDER_H

#include "control/kube/spec.h"
#include "control/sandbox.h"

struct err;
struct kube;
struct rc_client;
struct sandbox_provider;

enum kube_pin { KUBE_PIN_AUTO, KUBE_PIN_LINK, KUBE_PIN_PLAIN };

struct kube_provider_params {
	struct kube *kube;    /* REST and watches; outlives the provider, as does rc */
	struct rc_client *rc; /* exec streams */
	struct kube_pod_spec spec;
	const char *muxlet; /* path of the program that is streamed into pods that have none; read when needed */
	/* Every pod's link secret is HMAC-SHA256(master, pod uid | container id): it survives restarts and is in no
	 * cluster. */
	uint8_t master[SANDBOX_SECRET_LEN];
	enum kube_pin pin;
	uint64_t create_timeout_ns; /* until a pod of ours runs; 0: two minutes */
};

/* Everything of p is copied. The loop is the kube's. ERR_NOMEM, ERR_K8S_*. */
int kube_provider_create(const struct kube_provider_params *p, struct sandbox_provider **out, struct err *e);

#endif
