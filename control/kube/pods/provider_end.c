/*
 * destroy and wipe: the pod of an agent goes, and with wipe its claims and their volumes. Gone already is fine. Wiped
 * is what is gone, or named as kept (ERR_DATA_KEPT) or as late (ERR_TIMEOUT).
 */
#define LOG_SUBSYS "kube"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/pods/provider_state.h"

#include <stdio.h>
#include <string.h>

/* The answer, and nobody is told of it as of an end by itself. */
static void pod_ended(struct kjob *j)
{
	struct kname *n = kname_find(j->kp, j->name);
	struct sandbox_info info = {.state = SANDBOX_ABSENT, .backend = SANDBOX_LINK};

	if (n && n->job) /* nothing else would: its reach goes without a word */
		kjob_fail(n->job, ERR_NOT_FOUND, "the sandbox of %s was ended", j->name);
	n = kname_find(j->kp, j->name);
	if (n)
		kname_forget(n);
	text_put(info.agent, sizeof(info.agent), j->name);
	info.has_workspace = j->op == SANDBOX_DESTROY && (j->view.claim[0] || j->keeps[0]);
	kjob_answer(j, 0, NULL, &info, -1);
}

static void provider_end_on_volumes_gone(struct kjob *j, int rc, const struct err *e)
{
	if (rc)
		kjob_answer(j, rc, e, NULL, -1);
	else
		pod_ended(j);
}

static void wipe_volumes(struct kjob *j)
{
	struct err why = j->kept;

	if (why.code)
		kjob_answer(j, why.code, &why, NULL, -1);
	else
		shed_await_left(j, NULL, provider_end_on_volumes_gone);
}

static void claims_listed(struct kjob *j)
{
	j->binding = true; /* a restore that was cut short may have left one */
	claims_tidy(j, NULL, wipe_volumes);
}

static void wipe_claims(struct kjob *j)
{
	if (j->nclaims) /* of one out of a pool */
		claims_tidy(j, NULL, wipe_volumes);
	else if (j->kp->p.spec.workspace != WORKSPACE_CLAIM)
		wipe_volumes(j);
	else
		claims_get(j, claims_listed);
}

static void pod_is_gone(struct kjob *j)
{
	if (j->op == SANDBOX_DESTROY)
		pod_ended(j);
	else if (kp_pooled(j->kp))
		pool_wipe(j, wipe_claims);
	else
		wipe_claims(j);
}

static void provider_end_on_deleted(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	(void)reply;
	if (rc == ERR_NOT_FOUND || rc == ERR_K8S_CONFLICT) { /* a conflict: the name is another pod's by now */
		pod_is_gone(j);
	} else if (rc && !kjob_may_wait(j, rc)) {
		kjob_answer(j, rc, e, NULL, -1);
	} else {
		if (rc)
			j->forced = false; /* whether it was done is not known */
		kjob_wait(j, KP_AGAIN_MS);
	}
}

/* A second of grace, so that the object goes when the kubelet has said that the container has ended, and not before. */
static void delete_pod(struct kjob *j, int64_t grace_s)
{
	kjob_delete(j, kp_pods(j->ns, j->pod), j->uid, grace_s, provider_end_on_deleted);
}

/* From then on the pod's node has its time. */
static void tell_to_go(struct kjob *j)
{
	kjob_set_state(j, KJOB_ENDING);
	text_put(j->uid, sizeof(j->uid), j->view.uid);
	j->force_ns = clock_boot_ns() + KP_FORCE_MS * NS_PER_MS;
	delete_pod(j, 1);
}

void end_seen(struct kjob *j, const json_t *pod)
{
	struct err e = {0};
	int rc;

	if (!j->ours) {
		kjob_fail(j, ERR_UNSUPPORTED, "%s is a pod of others: muxd does not end it", j->name);
		return;
	}
	rc = pod ? kjob_view(j, pod, &j->view, &e) : 0;
	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
	else if (!pod || (j->uid[0] && strcmp(j->uid, j->view.uid) != 0))
		pod_is_gone(j);
	else if (!j->uid[0] || !j->view.deleting) /* not told yet, or the server did not hear it */
		tell_to_go(j);
	else if (!j->forced && clock_boot_ns() >= j->force_ns) {
		log_warn(&(struct log_ids){.agent = j->name},
			 "the node of pod %s does not answer: it is taken out of the cluster", j->pod);
		j->forced = true;
		delete_pod(j, 0);
	} else {
		kjob_wait(j, KP_AGAIN_MS);
	}
}

void end_tick(struct kjob *j)
{
	if (j->call)
		return;
	if (kjob_is_late(j))
		kjob_fail(j, ERR_TIMEOUT, "pod %s in %s does not go away: %s", j->pod, j->ns, j->view.why);
	else
		j->kp->pod_look(j);
}
