/*
 * restore: looking (nobody runs) -> the snapshot, ready and its own -> the claims -> a new one, "next" -> bound ->
 * "restored", which makes it the workspace -> the one that was it goes. Whoever dies in between asks again and
 * comes to the same end; until the new claim is the workspace the old one is, and a failure takes the new one away.
 *
 * drop_workspace: looking -> the claims go.
 */
#define LOG_SUBSYS "kube"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/pods/provider_state.h"
#include "control/kube/pods/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLL_FIRST_MS 50
#define POLL_LAST_MS  1000

static void restore_look(struct kjob *j);
static void restore_claims(struct kjob *j);

static void poll_again(struct kjob *j, void (*tick)(struct kjob *j))
{
	kjob_poll(j, tick, &j->poll_ms, POLL_LAST_MS);
}

/* ---- what failed goes, and the words stay */

/* j->last says why. */
static void restore_failed(struct kjob *j)
{
	j->tick = NULL;
	free(j->claims);
	j->claims = j->next.uid[0] ? malloc(sizeof(*j->claims)) : NULL;
	j->nclaims = j->claims ? 1 : 0;
	if (j->claims)
		j->claims[0] = j->next;
	j->binding = true;
	claims_tidy(j, NULL, kjob_answer_last);
}

/* The storage's own words: the newest warning of one page, else the newest event. */
static void provider_restore_on_events(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	const char *newest = "";
	char text[300] = "";
	bool warning = false;
	size_t i;
	json_t *o;

	(void)e;
	json_array_foreach(rc ? NULL : json_object_get(reply->body, "items"), i, o)
	{
		bool warns = strcmp(json_get_text(o, "type"), "Warning") == 0;

		if ((warning && !warns) || (warning == warns && strcmp(json_get_text(o, "lastTimestamp"), newest) < 0))
			continue;
		warning = warns;
		newest = json_get_text(o, "lastTimestamp");
		text_format(text, sizeof(text), ": %s: %s", json_get_text(o, "reason"), json_get_text(o, "message"));
	}
	pod_plain_text(text);
	err_set(&j->last, ERR_TIMEOUT, "claim %.100s is not bound after %llu s%.220s", j->next.name,
		(unsigned long long)((j->deadline_ns - j->began_ns) / NS_PER_SEC), text);
	restore_failed(j);
}

static void restore_late(struct kjob *j)
{
	char fields[POD_UID_MAX + 64];
	struct err e = {0};

	text_format(fields, sizeof(fields), "involvedObject.uid=%s", j->next.uid);
	if (kjob_events(j, fields, provider_restore_on_events, &e)) {
		err_set(&j->last, ERR_TIMEOUT, "claim %.100s is not bound in time", j->next.name);
		restore_failed(j);
	}
}

/* ---- the new claim becomes the workspace */

static void committed(struct kjob *j)
{
	j->committed = true;
	j->binding = true; /* whoever was here before may have made a consumer */
	claims_tidy(j, j->next.name, kjob_answer_workspace);
}

/* As the server has it now. */
static int is_committed(const struct kjob *j, const json_t *claim, struct err *e)
{
	struct claim_view v;

	if (claim_view(claim, &v, NULL) == 0 && strcmp(v.uid, j->next.uid) == 0 && v.state == CLAIM_RESTORED)
		return 0;
	return err_set(e, ERR_PROTOCOL, "the API server's answer does not say that claim %.100s is the workspace",
		       j->next.name);
}

/* Its version was another's by then, or the answer was lost: what there is decides. */
static void provider_restore_on_committed(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct err here = {0};

	if (!rc && (rc = is_committed(j, reply->body, &here)))
		e = &here;
	if ((rc == ERR_K8S_CONFLICT || kp_may_pass(rc)) && !kjob_is_late(j)) {
		poll_again(j, restore_claims);
	} else if (kp_may_pass(rc)) {
		(void)claims_are_past(j, e);
	} else if (rc) {
		j->committing = reply->status >= 500; /* it may have been done before the server failed */
		j->last = *e;
		restore_failed(j);
	} else {
		j->committed = true;
		log_info(&(struct log_ids){.agent = j->name}, "claim %s is its workspace, restored from %s",
			 j->next.name, j->copy.name);
		claims_get(j, committed);
	}
}

static void commit(struct kjob *j)
{
	j->committing = true;
	kjob_patch(j, kp_claims(j->ns, j->next.name), claim_patch(&j->next, CLAIM_RESTORED),
		   provider_restore_on_committed);
}

/* ---- until it is bound */

static void await_bound(struct kjob *j);

static void old_binder_gone(struct kjob *j)
{
	kjob_set_state(j, KJOB_COPYING);
	poll_again(j, await_bound);
}

static void provider_restore_on_binder(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	(void)reply;
	if (rc == ERR_K8S_CONFLICT && !j->forced) { /* of an earlier restore, and perhaps for another claim */
		j->forced = true;
		j->nclaims = 0;
		claims_tidy(j, NULL, old_binder_gone);
	} else if (rc && rc != ERR_K8S_CONFLICT && !kp_may_pass(rc)) {
		j->last = *e;
		restore_failed(j);
	} else {
		poll_again(j, await_bound);
	}
}

/* Storage that waits for its first consumer gets one: a pod that does nothing, and goes when the claim is bound. */
static void make_binder(struct kjob *j)
{
	struct err e = {0};
	struct kube_pod_spec spec = kjob_spec(j);

	j->binding = true;
	kjob_create(j, kp_pods(j->ns, NULL), kube_spec_binder(&spec, j->t.agent, j->next.name, &e), &e,
		    provider_restore_on_binder);
}

static void next_seen(struct kjob *j)
{
	bool waited = clock_boot_ns() - j->error_ns >= KP_BIND_MS * NS_PER_MS;

	if (j->next.bound) {
		j->kp->late_binding = j->kp->late_binding || j->binding;
		commit(j);
	} else if (j->next.lost || j->next.deleting) {
		err_set(&j->last, ERR_SNAPSHOT, "claim %.100s, the copy of VolumeSnapshot %.80s, %s", j->next.name,
			j->copy.name, j->next.lost ? "has lost its volume" : "is being deleted by somebody else");
		restore_failed(j);
	} else if (kjob_is_late(j)) {
		restore_late(j);
	} else if (!j->binding && (waited || j->kp->late_binding)) {
		make_binder(j);
	} else {
		poll_again(j, await_bound);
	}
}

static void provider_restore_on_next(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct err here = {0};

	if (!rc && (rc = claim_view(reply->body, &j->next, &here)))
		e = &here;
	if (kp_may_pass(rc) && !kjob_is_late(j)) {
		poll_again(j, await_bound);
	} else if (rc) {
		j->last = *e;
		restore_failed(j);
	} else {
		next_seen(j);
	}
}

static void await_bound(struct kjob *j)
{
	kjob_get(j, kp_claims(j->ns, j->next.name), provider_restore_on_next);
}

/* ---- the new claim */

static void provider_restore_on_next_made(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if ((rc == ERR_K8S_CONFLICT || kp_may_pass(rc)) && !kjob_is_late(j)) {
		poll_again(j, restore_claims);
	} else if (rc) {
		kjob_answer(j, rc, e, NULL, -1); /* quota, forbidden: nothing was made */
	} else {
		j->error_ns = clock_boot_ns();
		provider_restore_on_next(j, 0, NULL, reply);
	}
}

static void make_next(struct kjob *j)
{
	struct kube_claim_plan plan = {.snapshot = &j->snapshot,
				       .source = j->copy.name,
				       .size_min = j->copy.restore_size,
				       .read_only = j->read_only};

	claims_make(j, &plan, provider_restore_on_next_made);
}

/* ---- what there is of it already */

static bool is_this(const struct kjob *j, const struct claim_view *c)
{
	return !c->deleting && !c->lost && id_equal(&c->snapshot, &j->snapshot) && c->read_only == j->read_only;
}

static bool is_done(const struct kjob *j)
{
	return j->claim.name[0] && j->claim.state == CLAIM_RESTORED && is_this(j, &j->claim);
}

static void strays_gone(struct kjob *j)
{
	poll_again(j, restore_claims);
}

static void claims_seen(struct kjob *j)
{
	const struct claim_view *mine = NULL, *stray = NULL;

	j->committing = false; /* what was asked for before is seen now */
	for (size_t i = 0; i < j->nclaims; i++) {
		struct claim_view *c = &j->claims[i];

		if (c->state == CLAIM_NEXT && is_this(j, c) && (!mine || c->generation > mine->generation))
			mine = c;
		else if (c->state == CLAIM_NEXT && !c->deleting)
			stray = c;
	}
	if (is_done(j)) {
		j->next = j->claim;
		committed(j);
	} else if (mine) {
		j->next = *mine;
		j->binding = false;
		j->error_ns = clock_boot_ns();
		next_seen(j);
	} else if (stray) { /* of another restore, which nobody waits for any more; the workspace stays */
		for (size_t i = 0; i < j->nclaims; i++)
			j->claims[i].deleting = j->claims[i].deleting || j->claims[i].state != CLAIM_NEXT;
		j->binding = true;
		claims_tidy(j, NULL, strays_gone);
	} else {
		j->binding = false;
		make_next(j);
	}
}

/* The daemon before may have committed it: that is seen ahead of all that may fail, and be told as if it had not. */
static void restore_resumed(struct kjob *j)
{
	j->committing = false;
	if (is_done(j)) {
		j->next = j->claim;
		committed(j);
	} else {
		j->kp->pod_look(j);
	}
}

static void restore_claims(struct kjob *j)
{
	kjob_set_state(j, KJOB_COPYING);
	if (kjob_is_late(j) && !j->next.uid[0])
		kjob_fail(j, ERR_TIMEOUT, "no claim for the workspace of %s in time: %.250s", j->name, j->last.message);
	else
		claims_get(j, claims_seen);
}

/* ---- the snapshot */

static void provider_restore_on_snapshot(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct sandbox_snapshot d;
	struct err here = {0};
	char hex[ID_STR_LEN];

	if (kp_may_pass(rc) && !kjob_is_late(j)) {
		poll_again(j, restore_look);
		return;
	}
	id_format(&j->snapshot, hex);
	if (!rc && (rc = snapshot_view(reply->body, &j->copy, &here)))
		e = &here;
	if (rc == ERR_NOT_FOUND || (!rc && strcmp(j->copy.agent, j->from) != 0)) {
		rc = err_set(&here, ERR_NOT_FOUND, "%.63s has no snapshot %s", j->from, hex);
		e = &here;
	} else if (!rc) {
		snapshot_describe(&j->copy, &d);
		if (!d.ready) {
			rc = err_set(&here, ERR_SNAPSHOT, "snapshot %s is not ready: %.250s", hex, d.detail);
			e = &here;
		}
	}
	if (rc)
		kjob_answer(j, rc, e, NULL, -1);
	else
		content_check(j, restore_claims);
}

static void restore_look(struct kjob *j)
{
	char name[KUBE_OBJECT_MAX + 1] = "";

	snapshot_name(&j->snapshot, name);
	j->tick = restore_look;
	kjob_get(j, kp_snapshots(j->ns, name), provider_restore_on_snapshot);
}

static void workspace_tidied(struct kjob *j)
{
	struct err why = j->kept;

	if (why.code)
		kjob_answer(j, why.code, &why, NULL, -1);
	else
		kjob_answer_workspace(j);
}

static void workspace_listed(struct kjob *j)
{
	j->binding = true;
	claims_tidy(j, NULL, workspace_tidied);
}

void restore_seen(struct kjob *j, const json_t *pod)
{
	struct err e = {0};
	int rc = pod ? kjob_view(j, pod, &j->view, &e) : 0;

	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
	else if (pod && j->view.state != POD_ENDED)
		kjob_fail(j, ERR_BAD_STATE, "pod %s holds the workspace of %s: stop it first", j->pod, j->name);
	else if (j->op == SANDBOX_DROP_WORKSPACE)
		claims_get(j, workspace_listed);
	else
		restore_look(j);
}

/* ---- the calls */

void restore_begin(struct kjob *j, const struct sandbox_ask *q)
{
	struct err e = {0};

	j->snapshot = *q->snapshot;
	j->read_only = q->read_only;
	j->poll_ms = POLL_FIRST_MS / 2;
	text_put(j->from, sizeof(j->from), q->from);
	if (!j->ours)
		kjob_fail(j, ERR_UNSUPPORTED, "%s is a pod of others: its volumes are theirs", j->name);
	else if (snapshots_allowed(j->kp, &e))
		kjob_answer(j, e.code, &e, NULL, -1);
	else if (q->again)
		j->committing = true, claims_get(j, restore_resumed);
	else
		j->kp->pod_look(j);
}

void drop_workspace_begin(struct kjob *j, const struct sandbox_ask *q)
{
	(void)q;
	if (!j->ours)
		kjob_fail(j, ERR_UNSUPPORTED, "%s is a pod of others: its volumes are theirs", j->name);
	else if (j->kp->p.spec.workspace != WORKSPACE_CLAIM)
		kjob_answer_workspace(j); /* it went with its pod */
	else
		j->kp->pod_look(j);
}
