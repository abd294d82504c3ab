/*
 * kubernetes.hold: sandbox. ensure makes or wakes the agent's Sandbox and waits for the pod that its controller makes;
 * destroy puts it to sleep first, wipe deletes it, so that no controller makes again what we end. One that is another
 * agent's, or nobody's here, is left alone by all of them.
 */
#define LOG_SUBSYS "kube"
#include "base/clock.h"
#include "base/log.h"
#include "control/kube/client/status.h"
#include "control/kube/pods/agentsandbox.h"
#include "control/kube/pods/provider_state.h"

#include <stdio.h>
#include <string.h>

static int not_ours(const struct kjob *j, struct err *e)
{
	return err_set(e, ERR_K8S_CONFLICT, "Sandbox %s in %s is not that of %s: muxd did not make it", j->pod, j->ns,
		       j->t.agent);
}

/* The end that its agent has by now, whatever it was when the object was made. */
static int64_t shutdown_at(const struct kjob *j)
{
	const struct kname *n = kname_find(j->kp, j->name);

	return n ? n->end_ns : 0;
}

static void wait_for_pod(struct kjob *j)
{
	j->held = true;
	kjob_set_state(j, KJOB_WAITING);
	kjob_wait(j, KP_AGAIN_MS);
}

static void provider_hold_on_woken(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (served_is_gone(j, rc, e, reply))
		return;
	if (!rc) {
		log_info(&(struct log_ids){.agent = j->name}, "Sandbox %s/%s is awake", j->ns, j->pod);
		wait_for_pod(j);
	} else if (rc == ERR_K8S_CONFLICT || rc == ERR_NOT_FOUND || kp_may_pass(rc)) {
		kjob_look_again(j, e); /* once more from the beginning */
	} else {
		kjob_answer(j, rc, e, NULL, -1);
	}
}

static void provider_hold_fill(const struct kjob *j, struct kube_pod_spec *spec)
{
	*spec = kjob_spec(j);
	spec->claim = j->claim.name;
	spec->read_only = j->claim.read_only;
	spec->sandbox_api = j->api;
}

static void provider_hold_on_there(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kcall c = {KCALL_PATCH, served_ref(j, j->pod), .kind = KUBE_PATCH_MERGE};
	struct agentsandbox_view v = {0};
	struct kube_pod_spec spec;
	struct id session = {0};
	struct err here = {0};

	if (served_is_gone(j, rc, e, reply))
		return;
	if (!rc && (rc = agentsandbox_view(reply->body, &v, &here)))
		e = &here;
	if (!rc && strcmp(v.agent, j->t.agent) != 0) {
		rc = not_ours(j, &here);
		kjob_answer(j, rc, &here, NULL, -1);
		return;
	}
	if (!rc && !v.deleting) {
		provider_hold_fill(j, &spec);
		(void)id_new(&session);
		c.body = agentsandbox_wake(&spec, reply->body, &v, &session, shutdown_at(j), &here);
		rc = kjob_call(j, &c, provider_hold_on_woken, &here);
		if (rc)
			kjob_answer(j, rc, &here, NULL, -1);
		return;
	}
	provider_hold_on_woken(j, rc ? rc : ERR_K8S_CONFLICT, rc ? e : &here, reply);
}

static void provider_hold_on_made(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (rc == ERR_NOT_FOUND && *kube_status_object(reply->body)) /* its namespace, say */
		kjob_answer(j, rc, e, NULL, -1);
	else if (rc == ERR_K8S_CONFLICT)
		kjob_get(j, served_ref(j, j->pod), provider_hold_on_there);
	else
		provider_hold_on_woken(j, rc, e, reply);
}

static void provider_hold_make(struct kjob *j)
{
	struct kube_pod_spec spec;
	struct id session;
	struct err e = {0};

	if (id_new(&session)) {
		kjob_fail(j, ERR_SYS, "no randomness for the sandbox of %s", j->name);
		return;
	}
	provider_hold_fill(j, &spec);
	kjob_set_state(j, KJOB_MAKING);
	kjob_create(j, served_ref(j, NULL), agentsandbox_object(&spec, j->t.agent, &session, shutdown_at(j), &e), &e,
		    provider_hold_on_made);
}

void hold_make(struct kjob *j)
{
	served_ask(j, provider_hold_make);
}

/* ---- the controller's words: a verdict while it is awaited */

static void fail_with_words(struct kjob *j, const struct agentsandbox_view *v)
{
	if (v->verdict == AGENTSANDBOX_FAILED)
		kjob_fail(j, ERR_SANDBOX_CREATE, "Sandbox %s in %s cannot begin: %.200s", j->pod, j->ns, v->why);
	else
		kjob_fail(j, ERR_SANDBOX_CREATE, "the pod of Sandbox %s in %s ended at its start: %.150s%s%.150s",
			  j->pod, j->ns, j->view.why, v->verdict == AGENTSANDBOX_ENDED ? "; " : "",
			  v->verdict == AGENTSANDBOX_ENDED ? v->why : "");
}

/* One out of a pool is known by its claim. */
static bool is_its(const struct kjob *j, const struct agentsandbox_view *v)
{
	return j->box[0] ? strcmp(v->uid, j->box_uid) == 0 : strcmp(v->agent, j->t.agent) == 0;
}

static void provider_hold_on_judged(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct agentsandbox_view v = {0};
	struct err here = {0};
	bool ended = j->view.uid[0] && j->view.state == POD_ENDED;

	if (served_is_gone(j, rc, e, reply))
		return;
	if (!rc)
		rc = agentsandbox_view(reply->body, &v, &here);
	if (!rc && !is_its(j, &v)) {
		rc = not_ours(j, &here);
		kjob_answer(j, rc, &here, NULL, -1);
	} else if (!rc && (v.verdict == AGENTSANDBOX_FAILED || ended)) {
		fail_with_words(j, &v);
	} else {
		if (rc == ERR_NOT_FOUND) /* made again, unless it is late */
			j->held = false;
		kjob_set_state(j, KJOB_WAITING);
		kjob_wait(j, KP_JUDGE_MS);
	}
}

void hold_judge(struct kjob *j)
{
	kjob_get(j, served_ref(j, j->box[0] ? j->box : j->pod), provider_hold_on_judged);
}

/* ---- the same at the deadline */

static void provider_hold_on_why(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct agentsandbox_view v = {0};

	if (served_is_gone(j, rc, e, reply))
		return;
	if (!rc)
		rc = agentsandbox_view(reply->body, &v, NULL);
	if (rc)
		kjob_fail(j, ERR_SANDBOX_TIMEOUT,
			  "Sandbox %s in %s has no pod in time, and cannot be looked at: %.150s", j->pod, j->ns,
			  e ? e->message : "");
	else
		kjob_fail(j, ERR_SANDBOX_TIMEOUT, "Sandbox %s in %s has no pod in time: %.200s", j->pod, j->ns,
			  v.why[0] ? v.why : "its status is empty: does the controller of agent-sandbox run?");
}

void hold_late(struct kjob *j)
{
	kjob_set_state(j, KJOB_ASKING_WHY);
	kjob_get(j, served_ref(j, j->pod), provider_hold_on_why);
}

/* ---- asleep, or gone */

static void provider_hold_on_let_go(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (served_is_gone(j, rc, e, reply))
		return;
	if (kjob_may_wait(j, rc) || (rc == ERR_K8S_CONFLICT && !kjob_is_late(j))) { /* a conflict: another one's name */
		kjob_again(j, hold_let_go);
	} else if (rc && rc != ERR_NOT_FOUND) {
		kjob_answer(j, rc, e, NULL, -1);
	} else {
		j->kp->pod_look(j);
	}
}

static void provider_hold_let_go(struct kjob *j, const struct agentsandbox_view *v)
{
	struct kube_pod_spec spec;

	if (j->op == SANDBOX_WIPE) {
		kjob_delete(j, served_ref(j, j->pod), v->uid, -1, provider_hold_on_let_go);
		return;
	}
	provider_hold_fill(j, &spec);
	kjob_patch(j, served_ref(j, j->pod), agentsandbox_mode(&spec, v, false), provider_hold_on_let_go);
}

static void provider_hold_on_held(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct agentsandbox_view v = {0};
	struct err here = {0};

	if (rc) { /* absent, away or forbidden: as after the word itself */
		provider_hold_on_let_go(j, rc, e, reply);
		return;
	}
	rc = agentsandbox_view(reply->body, &v, &here);
	if (!rc && strcmp(v.agent, j->t.agent) != 0)
		rc = not_ours(j, &here);
	if (rc)
		kjob_answer(j, rc, &here, NULL, -1);
	else
		provider_hold_let_go(j, &v);
}

static void look_and_let_go(struct kjob *j)
{
	kjob_get(j, served_ref(j, j->pod), provider_hold_on_held);
}

void hold_let_go(struct kjob *j)
{
	served_ask(j, look_and_let_go);
}

/* ---- another end, of one that is awake */

static void provider_hold_on_end_set(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (served_is_gone(j, rc, e, reply))
		return;
	if (kjob_may_wait(j, rc)) {
		kjob_again(j, hold_set_end);
		return;
	}
	if (rc && rc != ERR_NOT_FOUND) /* the next start of its pod says it again */
		log_warn(&(struct log_ids){.agent = j->name}, "Sandbox %s/%s keeps the shutdownTime that it had: %s",
			 j->ns, j->pod, e->message);
	kjob_answer(j, rc, e, NULL, -1);
}

static void provider_hold_on_end_looked(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kcall c = {KCALL_PATCH, served_ref(j, j->pod), .kind = KUBE_PATCH_MERGE};
	struct agentsandbox_view v = {0};
	struct err here = {0};

	if (rc) {
		provider_hold_on_end_set(j, rc, e, reply);
		return;
	}
	rc = agentsandbox_view(reply->body, &v, &here);
	if (!rc && strcmp(v.agent, j->t.agent) != 0)
		rc = not_ours(j, &here);
	if (!rc && v.shutdown_ns / (int64_t)NS_PER_SEC == shutdown_at(j) / (int64_t)NS_PER_SEC) {
		kjob_answer(j, 0, NULL, NULL, -1);
		return;
	}
	if (!rc) {
		c.body = agentsandbox_end(&v, shutdown_at(j));
		rc = kjob_call(j, &c, provider_hold_on_end_set, &here);
	}
	if (rc)
		provider_hold_on_end_set(j, rc, &here, reply);
}

static void look_and_set_end(struct kjob *j)
{
	kjob_get(j, served_ref(j, j->pod), provider_hold_on_end_looked);
}

void hold_set_end(struct kjob *j)
{
	served_ask(j, look_and_set_end);
}
