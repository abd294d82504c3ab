/*
 * provider.h - sandboxes as pods, and muxlet in any pod: the provider of control/sandbox.h that speaks to a cluster.
 *
 * An agent without a slash has a pod of ours (spec.h): made when it is ensured, found
 * again by its name and label, ended by destroy_sandbox. ns/pod and
 * ns/pod/container are pods of others: neither made nor deleted here. Either is
 * reached through muxlet on an exec stream (reach.h), delivered as far as the container allows.
 *
 * A question about a name: looking (GET) -> making | replacing | waiting (until its container runs, or the deadline)
 * -> reaching -> answered. What was reached last is remembered for each name, and watched:
 * when that incarnation ends, `gone` of the provider is called at once, with the cluster's reason.
 *
 * Errors besides those of rest.h: ERR_NOT_FOUND (no such pod; or connect, and it has ended), ERR_INVAL (several
 * containers: with the list), ERR_SANDBOX_TIMEOUT (not ready in time: with the pod's own reason), ERR_SANDBOX_CREATE,
 * ERR_BAD_STATE (a pod of others that does not run), ERR_UNSUPPORTED (muxlet cannot run in it).
 */
#ifndef CONTROL_KUBE_PODS_PROVIDER_H
#define CONTROL_KUBE_PODS_PROVIDER_H

#include "control/kube/pods/plain.h"
#include "control/kube/pods/spec.h"
#include "control/sandbox.h"

struct err;
struct kube;
struct rc_client;
struct sandbox_provider;

/* AUTO: muxlet where it can run, else an exec for each session. */
enum kube_pin { KUBE_PIN_AUTO, KUBE_PIN_LINK, KUBE_PIN_PLAIN };

struct kube_provider_params {
	struct kube *kube;    /* REST and watches; outlives the provider, as does rc */
	struct rc_client *rc; /* exec streams */
	struct kube_pod_spec spec;
	int muxlet_fd; /* the program that is streamed into containers which have none; read now, stays the caller's */
	/* Every container's link secret is an HMAC-SHA256 of its ids by this: it survives restarts and is in no
	 * cluster. */
	uint8_t master[SANDBOX_SECRET_LEN];
	enum kube_pin pin;
	uint64_t create_timeout_ns; /* until a pod of ours runs; 0: two minutes */
	kube_plain_open *plain;     /* where muxlet cannot run; NULL: there is no such backend, and that is an error */
	void *plain_arg;
};

/* Everything of p is copied. The loop is the kube's. ERR_NOMEM; ERR_INVAL, ERR_SYS for muxlet. */
int kube_provider_create(const struct kube_provider_params *p, struct sandbox_provider **out, struct err *e);
/* Pods that are made from now on have the images, requests and limits of that spec, copied. ERR_NOMEM: as it was. */
int kube_provider_renew(struct sandbox_provider *p, const struct kube_pod_spec *spec);

#endif
