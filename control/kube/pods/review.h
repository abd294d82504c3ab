/*
 * review.h - whose a token of the cluster is, and whether the cluster lets him exec into a pod.
 *
 * A TokenReview (authentication.k8s.io/v1), its audience checked, then two
 * SubjectAccessReviews (authorization.k8s.io/v1), for create and get on pods/exec
 * of the pod: exec over SPDY is a POST, over WebSocket a GET, and who may only
 * one of them may not exec everywhere. Nothing is remembered between reviews.
 *
 * States: TOKEN -> CREATE -> GET -> done. It ends by itself, at the latest by the
 * deadline of the kube's calls; when the kube is destroyed, with ERR_CANCELLED.
 */
#ifndef CONTROL_KUBE_PODS_REVIEW_H
#define CONTROL_KUBE_PODS_REVIEW_H

struct err;
struct kube;
struct kube_review;

/* Copied as far as it is needed; the token goes into the question alone. */
struct kube_review_wish {
	const char *token;
	const char *audience; /* that the token must be meant for; NULL or "": the API server's own */
	const char *ns, *pod;
};

/*
 * rc 0: username is who may. ERR_UNAUTHENTICATED: no token of this cluster, or for another audience. ERR_FORBIDDEN:
 * his, but he may not. Others as in rest.h: the reviews could not be asked for (ERR_K8S_FORBIDDEN: muxd itself may
 * not). username is borrowed.
 */
typedef void kube_review_done(void *arg, int rc, const struct err *e, const char *username);

/*
 * done is called exactly once, never from inside this call; not at all when this fails (ERR_NOMEM, ERR_CANCELLED).
 * out: NULL when nobody will cancel; good until done.
 */
int kube_review_start(struct kube *k, const struct kube_review_wish *w, kube_review_done *done, void *arg,
		      struct kube_review **out, struct err *e);
/* done is called with ERR_CANCELLED before this returns. */
void kube_review_cancel(struct kube_review *r);

#endif
