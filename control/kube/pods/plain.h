/*
 * plain.h - how a provider hands a container to the plain backend, where muxlet cannot run.
 *
 * The plain backend (muxd/plain) stands above control, so the provider gets it as a function. What comes back is what
 * a muxlet would have given: a connected descriptor whose other end speaks muxlet's side of the link protocol, here
 * inside the daemon, with an exec for each channel. sandbox_info says SANDBOX_PLAIN, and why.
 */
#ifndef CONTROL_KUBE_PODS_PLAIN_H
#define CONTROL_KUBE_PODS_PLAIN_H

#include "control/sandbox.h"

struct err;
struct kube_creds;
struct rc_client;

struct kube_plain_target {
	const char *agent; /* for logs */
	const char *ns, *pod;
	const char *container;    /* NULL: the only one */
	const char *visitor;      /* an ephemeral container beside it (visitor.h); NULL: none */
	const char *muxlet;       /* where muxlet lies in that; NULL with it */
	struct kube_creds *creds; /* outlives the backend, as does rc */
	struct rc_client *rc;
	uint8_t
	    secret[SANDBOX_SECRET_LEN]; /* of this incarnation, as in sandbox_info: proves both ends to each other */
};

/*
 * Never asks the cluster: that is done when the first session begins, whose refusal holds the cluster's own words.
 * Everything of t is copied. *out_fd is the caller's, and what stands behind it goes when it is closed; nothing is
 * known there of sessions of an earlier descriptor. ERR_NOMEM, ERR_SYS.
 */
typedef int kube_plain_open(void *arg, const struct kube_plain_target *t, int *out_fd, struct err *e);

#endif
