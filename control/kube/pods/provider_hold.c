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

static void provider_hold_on_woken(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;

	j->call = NULL;
	if (j->cancelled || served_is_gone(j, rc, e, reply))
		return;
	if (!rc) {
		log_info(&(struct log_ids){.agent = j->name}, "Sandbox %s/%s is awake", j->ns, j->pod);
		wait_for_pod(j);
	} else if (rc == ERR_K8S_CONFLICT || rc == ERR_NOT_FOUND || kp_may_pass(rc)) {
		j->last = *e; /* once more from the beginning */
		kjob_set_state(j, KJOB_LOOKING);
		kjob_wait(j, KP_AGAIN_MS);
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

static void provider_hold_on_there(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;
	struct kube_ref ref = served_ref(j, j->pod);
	struct agentsandbox_view v = {0};
	struct kube_pod_spec spec;
	struct id session = {0};
	struct err here = {0};
	json_t *patch = NULL;

	j->call = NULL;
	if (j->cancelled || served_is_gone(j, rc, e, reply))
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
		patch = agentsandbox_wake(&spec, reply->body, &v, &session, shutdown_at(j), &here);
		rc = patch ? kube_patch(j->kp->p.kube, &ref, KUBE_PATCH_MERGE, patch, provider_hold_on_woken, j,
					&j->call, &here)
			   : here.code;
		json_decref(patch);
		if (rc)
			kjob_answer(j, rc, &here, NULL, -1);
		return;
	}
	provider_hold_on_woken(j, rc ? rc : ERR_K8S_CONFLICT, rc ? e : &here, reply);
}

static void provider_hold_on_made(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;
	struct kube_ref ref = served_ref(j, j->pod);
	struct err here = {0};

	if (j->cancelled) {
		j->call = NULL;
	} else if (rc == ERR_NOT_FOUND && *kube_status_object(reply->body)) { /* its namespace, say */
		j->call = NULL;
		kjob_answer(j, rc, e, NULL, -1);
	} else if (rc == ERR_K8S_CONFLICT) {
		j->call = NULL;
		rc = kube_get(j->kp->p.kube, &ref, provider_hold_on_there, j, &j->call, &here);
		if (rc)
			kjob_answer(j, rc, &here, NULL, -1);
	} else {
		provider_hold_on_woken(j, rc, e, reply);
	}
}

static void provider_hold_make(struct kjob *j)
{
	struct kube_ref ref = served_ref(j, NULL);
	struct kube_pod_spec spec;
	struct id session;
	struct err e = {0};
	json_t *o;
	int rc;

	if (id_new(&session)) {
		kjob_fail(j, ERR_SYS, "no randomness for the sandbox of %s", j->name);
		return;
	}
	provider_hold_fill(j, &spec);
	kjob_set_state(j, KJOB_MAKING);
	o = agentsandbox_object(&spec, j->t.agent, &session, shutdown_at(j), &e);
	rc = o ? kube_create(j->kp->p.kube, &ref, o, provider_hold_on_made, j, &j->call, &e) : e.code;
	json_decref(o);
	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
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

static void provider_hold_on_judged(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;
	struct agentsandbox_view v = {0};
	struct err here = {0};
	bool ended = j->view.uid[0] && j->view.state == POD_ENDED;

	j->call = NULL;
	if (j->cancelled || served_is_gone(j, rc, e, reply))
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
	struct kube_ref ref = served_ref(j, j->box[0] ? j->box : j->pod);
	struct err e = {0};
	int rc = kube_get(j->kp->p.kube, &ref, provider_hold_on_judged, j, &j->call, &e);

	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
}

/* ---- the same at the deadline */

static void provider_hold_on_why(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;
	struct agentsandbox_view v = {0};

	j->call = NULL;
	if (j->cancelled || served_is_gone(j, rc, e, reply))
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
	struct kube_ref ref = served_ref(j, j->pod);
	struct err e = {0};
	int rc;

	kjob_set_state(j, KJOB_ASKING_WHY);
	rc = kube_get(j->kp->p.kube, &ref, provider_hold_on_why, j, &j->call, &e);
	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
}

/* ---- asleep, or gone */

static void let_go_again(struct kjob *j)
{
	j->tick = NULL;
	hold_let_go(j);
}

static void provider_hold_on_let_go(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;

	j->call = NULL;
	if (j->cancelled || served_is_gone(j, rc, e, reply))
		return;
	if (kjob_may_wait(j, rc) || (rc == ERR_K8S_CONFLICT && !kjob_is_late(j))) { /* a conflict: another one's name */
		j->tick = let_go_again;
		kjob_wait(j, KP_AGAIN_MS);
	} else if (rc && rc != ERR_NOT_FOUND) {
		kjob_answer(j, rc, e, NULL, -1);
	} else {
		j->kp->pod_look(j);
	}
}

static int provider_hold_let_go(struct kjob *j, const struct agentsandbox_view *v, struct err *e)
{
	struct kube_delete_options o = {.uid = v->uid, .grace_s = -1};
	struct kube_ref ref = served_ref(j, j->pod);
	struct kube_pod_spec spec;
	json_t *patch;
	int rc;

	if (j->op == SANDBOX_WIPE)
		return kube_delete(j->kp->p.kube, &ref, &o, provider_hold_on_let_go, j, &j->call, e);
	provider_hold_fill(j, &spec);
	patch = agentsandbox_mode(&spec, v, false);
	rc = patch ? kube_patch(j->kp->p.kube, &ref, KUBE_PATCH_MERGE, patch, provider_hold_on_let_go, j, &j->call, e)
		   : err_set(e, ERR_NOMEM, "no memory for the Sandbox of %s", j->name);
	json_decref(patch);
	return rc;
}

static void provider_hold_on_held(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;
	struct agentsandbox_view v = {0};
	struct err here = {0};

	if (rc) { /* absent, away or forbidden: as after the word itself */
		provider_hold_on_let_go(j, rc, e, reply);
		return;
	}
	j->call = NULL;
	if (j->cancelled)
		return;
	rc = agentsandbox_view(reply->body, &v, &here);
	if (!rc && strcmp(v.agent, j->t.agent) != 0)
		rc = not_ours(j, &here);
	if (!rc)
		rc = provider_hold_let_go(j, &v, &here);
	if (rc)
		kjob_answer(j, rc, &here, NULL, -1);
}

static void look_and_let_go(struct kjob *j)
{
	struct kube_ref ref = served_ref(j, j->pod);
	struct err e = {0};
	int rc = kube_get(j->kp->p.kube, &ref, provider_hold_on_held, j, &j->call, &e);

	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
}

void hold_let_go(struct kjob *j)
{
	served_ask(j, look_and_let_go);
}

/* ---- another end, of one that is awake */

static void set_end_again(struct kjob *j)
{
	j->tick = NULL;
	hold_set_end(j);
}

static void provider_hold_on_end_set(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;

	j->call = NULL;
	if (j->cancelled || served_is_gone(j, rc, e, reply))
		return;
	if (kjob_may_wait(j, rc)) {
		j->tick = set_end_again;
		kjob_wait(j, KP_AGAIN_MS);
		return;
	}
	if (rc && rc != ERR_NOT_FOUND) /* the next start of its pod says it again */
		log_warn(&(struct log_ids){.agent = j->name}, "Sandbox %s/%s keeps the shutdownTime that it had: %s",
			 j->ns, j->pod, e->message);
	kjob_answer(j, rc, e, NULL, -1);
}

static void provider_hold_on_end_looked(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;
	struct kube_ref ref = served_ref(j, j->pod);
	struct agentsandbox_view v = {0};
	struct err here = {0};
	json_t *patch = NULL;

	if (rc) {
		provider_hold_on_end_set(j, rc, e, reply);
		return;
	}
	j->call = NULL;
	if (j->cancelled)
		return;
	rc = agentsandbox_view(reply->body, &v, &here);
	if (!rc && strcmp(v.agent, j->t.agent) != 0)
		rc = not_ours(j, &here);
	if (!rc && v.shutdown_ns / (int64_t)NS_PER_SEC == shutdown_at(j) / (int64_t)NS_PER_SEC) {
		kjob_answer(j, 0, NULL, NULL, -1);
		return;
	}
	if (!rc && !(patch = agentsandbox_end(&v, shutdown_at(j))))
		rc = err_set(&here, ERR_NOMEM, "no memory for the Sandbox of %s", j->name);
	if (!rc)
		rc = kube_patch(j->kp->p.kube, &ref, KUBE_PATCH_MERGE, patch, provider_hold_on_end_set, j, &j->call,
				&here);
	json_decref(patch);
	if (rc)
		provider_hold_on_end_set(j, rc, &here, reply);
}

static void look_and_set_end(struct kjob *j)
{
	struct kube_ref ref = served_ref(j, j->pod);
	struct err e = {0};
	int rc = kube_get(j->kp->p.kube, &ref, provider_hold_on_end_looked, j, &j->call, &e);

	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
}

void hold_set_end(struct kjob *j)
{
	served_ask(j, look_and_set_end);
}
