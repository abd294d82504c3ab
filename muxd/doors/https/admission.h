/*
 * admission.h - the verdict of muxd's validating webhook on an AdmissionReview (admission.k8s.io/v1).
 *
 * The API server asks before it opens an exec, attach, port-forward or proxy
 * stream (CONNECT) into a pod, or adds an ephemeral container to it. Such a review
 * has no labels of the pod: which pods are meant is the matter of the webhook's
 * namespaceSelector, and everything that is asked here is about a sandbox. One user
 * may: muxd itself. Whoever else is told how to come in so that the record has it. An ephemeral container passes when
 * muxd adds it, and only such a one as muxd makes (control/kube/pods/visitor.h): whoever holds muxd's credentials gets
 * no other program in by that.
 *
 * A proxy stream to a node (nodes/proxy) belongs to no namespace, so all of them are
 * asked about. Their path tells (node_path.h): into a sandboxes' namespace, or where
 * nobody can tell which one, it is refused; metrics, logs and the like pass.
 *
 * Pure; it keeps nothing. Nobody proves here that he is the API server: an answer
 * tells no secret and changes nothing.
 */
#ifndef MUXD_DOORS_HTTPS_ADMISSION_H
#define MUXD_DOORS_HTTPS_ADMISSION_H

#include "base/json.h"

struct err;

/* Borrowed. */
struct admission_rules {
	const char *user;       /* who muxd is to the cluster, never "" */
	const char *namespace_; /* of its sandboxes; "": not known, so every namespace counts as one */
	const char *more;       /* further ones with sandboxes, "a,b"; "" */
	const char *image;      /* of muxd's own ephemeral containers; "": it adds none */
	const char *muxlet;     /* where muxlet lies in that */
};

struct admission_verdict {
	bool allowed;
	char user[192]; /* for the log, cut */
	char what[384]; /* "CONNECT pods/exec ns/name", of nodes with the path, cut; may hold any byte but NUL: the log
			   escapes it */
};

/*
 * text: len bytes, max at most. *out_answer: the AdmissionReview to send back with 200, a new reference. ERR_INVAL,
 * ERR_TOO_LARGE, ERR_NOMEM: no review of this version; the API server takes any other status as no answer, which the
 * webhook's failurePolicy makes a refusal.
 */
int admission_review(const void *text, size_t len, size_t max, const struct admission_rules *rules, json_t **out_answer,
		     struct admission_verdict *out, struct err *e);

#endif
