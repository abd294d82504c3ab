/*
 * kubernetes.warm_pool: an agent's sandbox comes from a SandboxClaim. Each question first looks at the claim, then at
 * the Sandbox that the claim was given, which is the claim's by its owner reference and by nothing else, and only then
 * at the pod, whose name is that Sandbox's. ensure makes the claim, waits on what its controller tries again and fails
 * on what it does not; destroy puts the Sandbox to sleep, so that another start wakes the same one; wipe does the same,
 * then deletes the claim, which stays and names all of it until everything of it is gone.
 */
#define LOG_SUBSYS "kube"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/client/status.h"
#include "control/kube/pods/agentsandbox.h"
#include "control/kube/pods/provider_state.h"
#include "control/kube/pods/sandboxclaim.h"

#include <stdlib.h>
#include <string.h>

bool kp_pooled(const struct kp *kp)
{
	return kp->p.spec.warm_pool && *kp->p.spec.warm_pool;
}

/* ---- the claim's name, which is not that of its Sandbox */

static struct kube_ref claim_ref(const struct kjob *j, char name[KUBE_NAME_MAX + 1])
{
	(void)kube_pod_name(KUBE_HOLD_SANDBOX, j->t.agent, name, NULL);
	return (struct kube_ref){.group = SANDBOXCLAIM_GROUP,
				 .version = SANDBOXCLAIM_VERSION,
				 .resource = "sandboxclaims",
				 .namespace_ = j->ns,
				 .name = name};
}

/* While it is wiped it has none: what is kept would lose the claim that names it. */
static int64_t end_of(const struct kjob *j)
{
	const struct kname *n = kname_find(j->kp, j->name);

	return n && j->op != SANDBOX_WIPE ? n->end_ns : 0;
}

static bool is_for_end(const struct kjob *j)
{
	return j->op == SANDBOX_DESTROY || j->op == SANDBOX_WIPE;
}

static void look_at_claim(struct kjob *j);

static void wait_ms(struct kjob *j, uint64_t ms)
{
	kjob_set_state(j, is_for_end(j) ? KJOB_ENDING : KJOB_WAITING);
	j->tick = look_at_claim;
	kjob_wait(j, ms);
}

void pool_wait(struct kjob *j)
{
	wait_ms(j, KP_JUDGE_MS);
}

/* The kind itself is not served; the object alone being absent is another matter. */
static bool is_unknown(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (rc != ERR_NOT_FOUND || *kube_status_object(reply->body))
		return false;
	kjob_fail(j, ERR_UNSUPPORTED,
		  "the cluster knows no SandboxClaim (" SANDBOXCLAIM_GROUP "/" SANDBOXCLAIM_VERSION
		  "): install agent-sandbox with its extensions, or leave kubernetes.warm_pool empty: %.150s",
		  e->message);
	return true;
}

/* Whatever a call may bring that needs no thought of its own. */
static bool is_answered(struct kjob *j, int rc, const struct err *e)
{
	if (!rc)
		return false;
	if (kjob_may_wait(j, rc)) {
		j->last = *e;
		wait_ms(j, KP_AGAIN_MS);
	} else {
		kjob_answer(j, rc, e, NULL, -1);
	}
	return true;
}

/* ---- a start */

static void provider_pool_on_claimed(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (is_unknown(j, rc, e, reply))
		return;
	if (rc == ERR_K8S_CONFLICT || rc == ERR_EOF || rc == ERR_TIMEOUT) { /* made already, or the answer was lost */
		j->last = *e;
		wait_ms(j, KP_AGAIN_MS);
	} else if (!is_answered(j, rc, e)) {
		log_info(&(struct log_ids){.agent = j->name}, "a sandbox of warm pool %s is claimed",
			 j->kp->p.spec.warm_pool);
		wait_ms(j, KP_AGAIN_MS);
	}
}

static void claim(struct kjob *j)
{
	char name[KUBE_NAME_MAX + 1];
	struct kube_ref ref = claim_ref(j, name);
	struct err e = {0};

	kjob_set_state(j, KJOB_MAKING);
	ref.name = NULL;
	kjob_create(j, ref, sandboxclaim_object(&j->kp->p.spec, j->t.agent, end_of(j), &e), &e,
		    provider_pool_on_claimed);
}

static void provider_pool_on_mode_set(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (served_is_gone(j, rc, e, reply))
		return;
	if (rc == ERR_K8S_CONFLICT || rc == ERR_NOT_FOUND) { /* another one by now */
		j->last = *e;
		wait_ms(j, KP_AGAIN_MS);
	} else if (!is_answered(j, rc, e)) {
		log_info(&(struct log_ids){.agent = j->name}, "Sandbox %s/%s is told to %s", j->ns, j->box,
			 is_for_end(j) ? "sleep" : "run");
		j->kp->pod_look(j);
	}
}

static void set_mode(struct kjob *j, const struct agentsandbox_view *v, bool awake)
{
	struct kube_pod_spec spec = j->kp->p.spec;

	spec.sandbox_api = j->api;
	kjob_patch(j, served_ref(j, j->box), agentsandbox_mode(&spec, v, awake), provider_pool_on_mode_set);
}

/* ---- the end of everything: what keeps its data first, for nothing names it when the claim is gone */

static void await_box(struct kjob *j);
static void await_claim(struct kjob *j);

/* False: it is answered. */
static bool goes_on_waiting(struct kjob *j, int rc, const struct err *e, const char *what)
{
	if (rc && !kjob_may_wait(j, rc))
		kjob_answer(j, rc, e, NULL, -1);
	else if (kjob_is_late(j))
		kjob_fail(j, ERR_TIMEOUT, "SandboxClaim of %s in %s is deleted, and %s%s%s does not go away", j->name,
			  j->ns, what, *what ? " " : "", j->box[0] ? j->box : "what it was given");
	else
		return true;
	return false;
}

static void provider_pool_on_box_awaited(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (served_is_gone(j, rc, e, reply))
		return;
	if (rc == ERR_NOT_FOUND)
		j->then(j);
	else if (goes_on_waiting(j, rc, e, "its Sandbox"))
		kjob_again(j, await_box);
}

static void await_box(struct kjob *j)
{
	kjob_get(j, served_ref(j, j->box), provider_pool_on_box_awaited);
}

/* Deleted in the foreground it goes last; where its Sandbox does not hold it up, that is awaited by its name. */
static void provider_pool_on_claim_awaited(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct sandboxclaim_view v = {0};

	if (is_unknown(j, rc, e, reply))
		return;
	if (rc == ERR_NOT_FOUND || (!rc && !sandboxclaim_view(reply->body, &v, NULL) && strcmp(v.uid, j->owner) != 0)) {
		if (j->box[0])
			await_box(j);
		else
			j->then(j);
	} else if (goes_on_waiting(j, rc, e, "")) {
		kjob_again(j, await_claim);
	}
}

static void await_claim(struct kjob *j)
{
	char name[KUBE_NAME_MAX + 1];

	kjob_get(j, claim_ref(j, name), provider_pool_on_claim_awaited);
}

static void provider_pool_on_unclaimed(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (is_unknown(j, rc, e, reply))
		return;
	if (rc == ERR_NOT_FOUND || rc == ERR_K8S_CONFLICT || !is_answered(j, rc, e))
		await_claim(j);
}

static void unclaim(struct kjob *j)
{
	char name[KUBE_NAME_MAX + 1];
	struct kcall c = {KCALL_DELETE, claim_ref(j, name),
			  .del = {.uid = j->owner, .propagation = "Foreground", .grace_s = -1}};

	kjob_put(j, &c, provider_pool_on_unclaimed, &(struct err){0});
}

/* The claim stays with what it names, and its Sandbox sleeps. */
static void provider_pool_on_shed(struct kjob *j, int rc, const struct err *e)
{
	if (rc == ERR_DATA_KEPT)
		log_warn(&(struct log_ids){.agent = j->name}, "%s", e->message);
	if (rc) {
		kjob_answer(j, rc, e, NULL, -1);
		return;
	}
	shed_leave(j);
	unclaim(j);
}

static int take_kept(struct kjob *j, const json_t *o, struct err *e)
{
	free(j->claims);
	j->nclaims = 0;
	j->claims = calloc(1, sizeof(*j->claims));
	if (!j->claims)
		return err_set(e, ERR_NOMEM, "no memory for the claims of %s", j->name);
	j->nclaims = 1;
	return claim_view(o, j->claims, e);
}

static void provider_pool_on_kept_seen(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct err here = {0};

	if (rc == ERR_NOT_FOUND) {
		unclaim(j);
		return;
	}
	if (is_answered(j, rc, e))
		return;
	rc = take_kept(j, reply->body, &here);
	if (rc)
		kjob_answer(j, rc, &here, NULL, -1);
	else
		shed_claim(j, j->claims, provider_pool_on_shed);
}

/* Its pod is gone. */
void pool_wipe(struct kjob *j, void (*then)(struct kjob *j))
{
	kjob_set_state(j, KJOB_TIDYING);
	j->then = then;
	if (!j->owner[0])
		then(j);
	else if (j->keeps[0])
		kjob_get(j, kp_claims(j->ns, j->keeps), provider_pool_on_kept_seen);
	else
		unclaim(j);
}

/* ---- the Sandbox that the claim was given */

static void provider_pool_start(struct kjob *j, const struct agentsandbox_view *v)
{
	if (v->verdict == AGENTSANDBOX_FAILED && !v->asleep)
		kjob_fail(j, ERR_SANDBOX_CREATE, "Sandbox %s in %s cannot begin: %.200s", j->box, j->ns, v->why);
	else if (v->asleep)
		set_mode(j, v, true);
	else
		j->kp->pod_look(j);
}

static void box_seen(struct kjob *j, const struct agentsandbox_view *v)
{
	text_put(j->box_uid, sizeof(j->box_uid), v->uid);
	text_put(j->pod, sizeof(j->pod), v->pod);
	text_put(j->keeps, sizeof(j->keeps), v->claim);
	text_put(j->last.message, sizeof(j->last.message), v->why);
	if (j->op == SANDBOX_ENSURE)
		provider_pool_start(j, v);
	else if (is_for_end(j) && !v->asleep && !v->deleting)
		set_mode(j, v, false);
	else
		j->kp->pod_look(j);
}

static void provider_pool_on_box(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct agentsandbox_view v = {0};
	struct err here = {0};

	if (served_is_gone(j, rc, e, reply))
		return;
	if (rc == ERR_NOT_FOUND) {
		j->box[0] = '\0';
		if (j->op == SANDBOX_ENSURE) /* its controller makes another, or says why not */
			pool_wait(j);
		else
			j->kp->pod_look(j);
		return;
	}
	if (is_answered(j, rc, e))
		return;
	rc = agentsandbox_view(reply->body, &v, &here);
	if (!rc && strcmp(v.owner, j->owner) != 0)
		rc = err_set(&here, ERR_K8S_CONFLICT, "Sandbox %s in %s is not that of the SandboxClaim of %s", j->box,
			     j->ns, j->t.agent);
	if (rc)
		kjob_answer(j, rc, &here, NULL, -1);
	else
		box_seen(j, &v);
}

/* ---- the claim */

static bool is_late(struct kjob *j, const char *why)
{
	if (j->op != SANDBOX_ENSURE || !kjob_is_late(j))
		return false;
	kjob_fail(j, ERR_SANDBOX_TIMEOUT, "the SandboxClaim of %s in %s has no pod in time: %.200s", j->name, j->ns,
		  *why ? why : "its status is empty: do the controllers of agent-sandbox and its extensions run?");
	return true;
}

static void provider_pool_on_end_followed(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	(void)reply;
	if (j->op == KJOB_SET_END) {
		if (rc && rc != ERR_NOT_FOUND) /* the next start says it again */
			log_warn(&(struct log_ids){.agent = j->name},
				 "its SandboxClaim keeps the shutdownTime that it had: %s", e->message);
		kjob_answer(j, rc, e, NULL, -1);
	} else if (rc == ERR_K8S_CONFLICT || rc == ERR_NOT_FOUND || !is_answered(j, rc, e)) {
		wait_ms(j, 0);
	}
}

/* The end that its agent has by now; false: the claim has it. */
static bool follow_end(struct kjob *j, const struct sandboxclaim_view *v)
{
	char name[KUBE_NAME_MAX + 1];

	if (j->end_told || v->shutdown_ns / (int64_t)NS_PER_SEC == end_of(j) / (int64_t)NS_PER_SEC)
		return false;
	j->end_told = true; /* once: somebody's policy may have it otherwise */
	kjob_patch(j, claim_ref(j, name), sandboxclaim_end(v, end_of(j)), provider_pool_on_end_followed);
	return true;
}

static void claim_seen(struct kjob *j, const struct sandboxclaim_view *v)
{
	text_put(j->owner, sizeof(j->owner), v->uid);
	text_put(j->box, sizeof(j->box), v->sandbox);
	if (j->op == SANDBOX_ENSURE && v->deleting) {
		if (!is_late(j, "an earlier one does not go away"))
			wait_ms(j, KP_AGAIN_MS);
	} else if ((j->op == SANDBOX_ENSURE || j->op == KJOB_SET_END || (j->op == SANDBOX_WIPE && !v->deleting)) &&
		   follow_end(j, v)) {
		return; /* looked at again */
	} else if (j->op == KJOB_SET_END) {
		kjob_answer(j, 0, NULL, NULL, -1);
	} else if (j->op == SANDBOX_ENSURE && v->failed) {
		kjob_fail(j, ERR_SANDBOX_CREATE, "the SandboxClaim of %s in %s cannot be served: %.200s", j->name,
			  j->ns, v->why);
	} else if (is_late(j, v->why)) {
		return;
	} else if (j->box[0]) {
		kjob_get(j, served_ref(j, j->box), provider_pool_on_box);
	} else if (j->op == SANDBOX_ENSURE) {
		pool_wait(j);
	} else {
		j->kp->pod_look(j); /* nothing of that name */
	}
}

static void provider_pool_on_claim(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct sandboxclaim_view v = {0};
	struct err here = {0};

	if (is_unknown(j, rc, e, reply))
		return;
	if (rc == ERR_NOT_FOUND && j->op == SANDBOX_ENSURE) {
		if (!is_late(j, j->last.message))
			claim(j);
		return;
	}
	if (rc == ERR_NOT_FOUND && j->op != KJOB_SET_END) {
		j->kp->pod_look(j);
		return;
	}
	if (is_answered(j, rc, e))
		return;
	rc = sandboxclaim_view(reply->body, &v, &here);
	if (!rc && strcmp(v.agent, j->t.agent) != 0)
		rc =
		    err_set(&here, ERR_K8S_CONFLICT,
			    "a SandboxClaim in %s has the name of that of %s: muxd did not make it", j->ns, j->t.agent);
	if (rc)
		kjob_answer(j, rc, &here, NULL, -1);
	else
		claim_seen(j, &v);
}

static void look_at_claim(struct kjob *j)
{
	char name[KUBE_NAME_MAX + 1];

	kjob_get(j, claim_ref(j, name), provider_pool_on_claim);
}

void pool_begin(struct kjob *j)
{
	served_ask(j, look_at_claim);
}
