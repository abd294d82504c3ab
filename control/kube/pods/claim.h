/*
 * claim.h - the claims of an agent: which of them is its workspace. Pure.
 *
 * An agent's claims carry its labels and its annotation like its pod (spec.h). There is
 * one, but while a restore replaces it. Label KUBE_LABEL_WORKSPACE says how far that is:
 *
 *   next      a copy that is being made: nobody's workspace yet, and worth nothing when the restore fails
 *   restored  whole, the agent's workspace, and not given to a pod since
 *   current   the workspace. One without the label is one, too (made before there were restores)
 *   kept      was one of these, and was to go; its volume would have stayed, so it did, too. Nobody's workspace
 *
 * The annotation KUBE_ANNOTATION_GENERATION orders them: of several that are restored or current the highest is the
 * workspace and the others are what a restore had no time to delete. Two of one generation
 * are nobody's doing here: claim_choose() refuses, and names them.
 */
#ifndef CONTROL_KUBE_PODS_CLAIM_H
#define CONTROL_KUBE_PODS_CLAIM_H

#include "control/kube/pods/pod.h"

#define KUBE_LABEL_WORKSPACE       "muxd.dev/workspace"
#define KUBE_ANNOTATION_GENERATION "muxd.dev/generation"
#define KUBE_ANNOTATION_SNAPSHOT   "muxd.dev/snapshot" /* the id it was restored from */
#define KUBE_ANNOTATION_READ_ONLY  "muxd.dev/read-only"
#define KUBE_OBJECT_MAX            253 /* RFC 1123 subdomain */

enum claim_state { CLAIM_NEXT, CLAIM_RESTORED, CLAIM_CURRENT, CLAIM_KEPT };

struct claim_view {
	char name[KUBE_OBJECT_MAX + 1];
	char uid[POD_UID_MAX + 1], version[64];
	char agent[AGENT_NAME_MAX + 1];
	char volume[KUBE_OBJECT_MAX + 1]; /* "" until it is bound */
	enum claim_state state;
	uint64_t generation; /* 0: not said */
	struct id snapshot;  /* nil: not restored from any */
	bool read_only;      /* programs inside may not write */
	bool bound, lost;    /* lost: its volume is gone, and what was in it */
	bool deleting;
};

/* ERR_K8S when this is no claim, or nobody's. */
int claim_view(const json_t *claim, struct claim_view *out, struct err *e);
const char *claim_state_name(enum claim_state s); /* the label's value */
/* The workspace among an agent's claims; NULL: there is none. ERR_K8S_CONFLICT as above. */
int claim_choose(const struct claim_view *all, size_t n, const struct claim_view **out, struct err *e);
/* One more than any of them. */
uint64_t claim_next_generation(const struct claim_view *all, size_t n);
/*
 * The name of a claim: base for the first generation, "base.generation" for others, "base.generation-snapshot" (8
 * digits of it) for a restored one. No agent's name has a dot, so it is never another agent's.
 */
int claim_name(const char *base, uint64_t generation, const struct id *snapshot, char out[KUBE_OBJECT_MAX + 1]);
/* {"metadata": {...}} for a merge patch that only this version takes. NULL: no memory. */
json_t *claim_patch(const struct claim_view *v, enum claim_state s);

/* resource.Quantity ("1Gi", "1500M", "1e9", "0.5Gi") as a whole number, rounded up. ERR_INVAL, ERR_TOO_LARGE. */
int kube_quantity(const char *text, uint64_t *out);

#endif
