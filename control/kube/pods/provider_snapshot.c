/*
 * Snapshots of agents' claims: taken, listed, dropped. What is asked of the cluster is looked at again and again until
 * it is ready, or an error has stood for a while, or the time is over; what failed is taken away, so
 * that it cannot become ready behind anybody's back.
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

#define POLL_FIRST_MS 100
#define POLL_LAST_MS  2000

struct kube_ref kp_snapshots(const char *ns, const char *name)
{
	return (struct kube_ref){
	    .group = KUBE_SNAPSHOT_GROUP, .resource = "volumesnapshots", .namespace_ = ns, .name = name};
}

int snapshots_allowed(const struct kp *kp, struct err *e)
{
	if (kp->p.spec.workspace == WORKSPACE_CLAIM)
		return 0;
	if (kp_pooled(kp))
		return err_set(
		    e, ERR_UNSUPPORTED,
		    "kubernetes.warm_pool: workspaces are the pool's template's, and muxd makes no copies of them");
	return err_set(e, ERR_UNSUPPORTED,
		       "kubernetes.workspace is %s: it goes with its pod and cannot be copied. Set it to claim, and "
		       "kubernetes.storage_class to one whose driver makes snapshots",
		       kp->p.spec.workspace == WORKSPACE_MEMORY ? "memory" : "emptydir");
}

static int no_such_kind(struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED,
		       "the cluster knows no VolumeSnapshot (" KUBE_SNAPSHOT_GROUP
		       "/v1): install its definitions, a snapshot controller and a driver that makes snapshots");
}

/* ---- the content behind one */

static void take_failed(struct kjob *j);

/* A look failed. What was asked for here, and seen, may become ready all the same: it goes. */
static void look_failed(struct kjob *j, int rc, const struct err *e)
{
	if (j->op == SANDBOX_TAKE && j->copy.uid[0]) {
		j->last = *e;
		take_failed(j);
	} else {
		kjob_answer(j, rc, e, NULL, -1);
	}
}

static void provider_snapshot_on_content(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct err here = {0};

	if (!rc && (rc = snapshot_is_content_of(reply->body, &j->copy, j->ns, &here)))
		e = &here;
	if (kp_may_pass(rc) && j->tick && !kjob_is_late(j))
		kjob_wait(j, j->poll_ms);
	else if (rc)
		look_failed(j, rc, e);
	else
		j->step(j);
}

void content_check(struct kjob *j, void (*step)(struct kjob *j))
{
	struct kube_ref ref = {
	    .group = KUBE_SNAPSHOT_GROUP, .resource = "volumesnapshotcontents", .name = j->copy.content};

	j->step = step;
	kjob_get(j, ref, provider_snapshot_on_content);
}

/* ---- take */

static void answer_copy(struct kjob *j)
{
	j->snapshots = calloc(1, sizeof(*j->snapshots));
	if (!j->snapshots) {
		kjob_fail(j, ERR_NOMEM, "no memory for the snapshot of %s", j->name);
		return;
	}
	snapshot_describe(&j->copy, j->snapshots);
	j->nsnapshots = 1;
	log_info(&(struct log_ids){.agent = j->name}, "VolumeSnapshot %s is ready", j->copy.name);
	kjob_answer(j, 0, NULL, NULL, -1);
}

static void provider_snapshot_on_failed_gone(struct kjob *j, int rc, const struct err *e,
					     const struct kube_reply *reply)
{
	(void)reply;
	if (rc && rc != ERR_NOT_FOUND)
		log_warn(&(struct log_ids){.agent = j->name}, "VolumeSnapshot %s failed and is still there: %s",
			 j->copy.name, e->message);
	kjob_answer_last(j);
}

/* With a content that is known to be its own, and to stay, it stays: a drop that comes later names it. */
static void provider_snapshot_on_failed_shed(struct kjob *j, int rc, const struct err *e)
{
	struct kcall c = {KCALL_DELETE, kp_snapshots(j->ns, j->copy.name), .del = {.uid = j->copy.uid, .grace_s = -1}};
	struct err here = {0};

	if (rc == ERR_DATA_KEPT && j->shed.seen.name[0] && backing_is_of(&j->shed.seen, &j->shed.owner)) {
		log_warn(&(struct log_ids){.agent = j->name}, "VolumeSnapshot %s failed, and is not deleted: %s",
			 j->copy.name, e->message);
		kjob_answer_last(j);
	} else if (kjob_call(j, &c, provider_snapshot_on_failed_gone, &here)) {
		kjob_answer_last(j);
	}
}

static void shed_copy(struct kjob *j, shed_next *next)
{
	struct backing_owner o = {.type = BACKING_CONTENT};

	text_put(o.ns, sizeof(o.ns), j->ns);
	text_put(o.name, sizeof(o.name), j->copy.name);
	text_put(o.uid, sizeof(o.uid), j->copy.uid);
	text_put(o.backing, sizeof(o.backing), j->copy.content);
	shed_take_over(j, &o, next);
}

/* j->last says why. */
static void take_failed(struct kjob *j)
{
	kjob_set_state(j, KJOB_TIDYING);
	if (j->copy.uid[0])
		shed_copy(j, provider_snapshot_on_failed_shed);
	else
		kjob_answer_last(j);
}

static void take_look(struct kjob *j);

static void take_again(struct kjob *j)
{
	kjob_poll(j, take_look, &j->poll_ms, POLL_LAST_MS);
}

static void take_late(struct kjob *j)
{
	unsigned long long s = (j->deadline_ns - j->began_ns) / NS_PER_SEC;
	struct sandbox_snapshot d;

	snapshot_describe(&j->copy, &d);
	if (j->copy.error[0])
		err_set(&j->last, ERR_SNAPSHOT, "VolumeSnapshot %.60s of claim %.80s: %.200s", j->copy.name,
			j->copy.claim, j->copy.error);
	else if (j->copy.uid[0])
		err_set(
		    &j->last, ERR_TIMEOUT,
		    "VolumeSnapshot %.60s of claim %.80s is not ready after %llu s: %.60s. Does a snapshot controller "
		    "run, and serve its class?",
		    j->copy.name, j->copy.claim, s, d.detail);
	else if (!j->last.code)
		err_set(&j->last, ERR_TIMEOUT, "no VolumeSnapshot could be made in %llu s", s);
	take_failed(j);
}

/* An error that has stood long enough counts; controllers mend what passes by themselves. */
static bool has_failed(struct kjob *j)
{
	uint64_t now = clock_boot_ns();

	if (!j->copy.error[0])
		j->error_ns = 0;
	else if (!j->error_ns)
		j->error_ns = now;
	return j->error_ns && now - j->error_ns >= KP_GRACE_MS * NS_PER_MS;
}

static void take_seen(struct kjob *j, const json_t *o)
{
	struct err e = {0};
	int rc = snapshot_view(o, &j->copy, &e);

	j->tick = take_look;
	if (!rc && (strcmp(j->copy.agent, j->t.agent) != 0 || !id_equal(&j->copy.id, &j->snapshot)))
		rc = err_set(&e, ERR_CONFLICT, "VolumeSnapshot %.100s is of agent %.63s, not of %.63s", j->copy.name,
			     j->copy.agent, j->t.agent);
	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
	else if (j->copy.ready == SNAPSHOT_READY && *j->copy.content && !j->copy.deleting)
		content_check(j, answer_copy);
	else if (kjob_is_late(j) || (!j->copy.deleting && has_failed(j)))
		take_late(j);
	else
		take_again(j);
}

static void provider_snapshot_on_take_made(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct err here = {0};

	if (rc == ERR_NOT_FOUND) {
		rc = no_such_kind(&here);
		e = &here;
	}
	if (!rc) {
		take_seen(j, reply->body);
	} else if ((rc == ERR_K8S_CONFLICT || kp_may_pass(rc)) && !kjob_is_late(j)) {
		j->last = *e; /* it may be there: what there is decides */
		take_again(j);
	} else {
		kjob_answer(j, rc, e, NULL, -1);
	}
}

static void take_make(struct kjob *j)
{
	struct err e = {0};

	if (!j->claim.name[0] || j->claim.lost || !j->claim.bound) {
		kjob_fail(j, ERR_NOT_FOUND, "%s has no workspace%s%.100s%s", j->name, *j->claim.name ? ": claim " : "",
			  j->claim.name, *j->claim.name ? j->claim.lost ? " is lost" : " is not bound" : "");
		return;
	}
	kjob_create(j, kp_snapshots(j->ns, NULL),
		    snapshot_object(&j->kp->p.spec, j->t.agent, &j->snapshot, j->claim.name, &e), &e,
		    provider_snapshot_on_take_made);
}

static void provider_snapshot_on_take_look(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (rc == ERR_NOT_FOUND && !kjob_is_late(j)) {
		claims_get(j, take_make);
	} else if (rc == ERR_NOT_FOUND) { /* of the snapshot, and not of the workspace */
		take_late(j);
	} else if (kp_may_pass(rc) && !kjob_is_late(j)) {
		j->last = *e;
		take_again(j);
	} else if (rc) {
		look_failed(j, rc, e);
	} else {
		take_seen(j, reply->body);
	}
}

static void take_look(struct kjob *j)
{
	char name[KUBE_OBJECT_MAX + 1] = "";

	snapshot_name(&j->snapshot, name);
	kjob_get(j, kp_snapshots(j->ns, name), provider_snapshot_on_take_look);
}

void take_begin(struct kjob *j, const struct sandbox_ask *q)
{
	struct err e = {0};

	j->snapshot = *q->snapshot;
	j->poll_ms = POLL_FIRST_MS / 2;
	kjob_set_state(j, KJOB_COPYING);
	if (!j->ours)
		kjob_fail(j, ERR_UNSUPPORTED, "%s is a pod of others: its volumes are theirs", j->name);
	else if (snapshots_allowed(j->kp, &e))
		kjob_answer(j, e.code, &e, NULL, -1);
	else
		take_look(j);
}

/* ---- list */

static void provider_snapshot_list_page(struct kjob *j, const char *next);

static int list_add(struct kjob *j, const json_t *items)
{
	size_t i, n = json_array_size(items);
	struct sandbox_snapshot *all = realloc(j->snapshots, (j->nsnapshots + n + 1) * sizeof(*all));
	json_t *o;

	if (!all)
		return ERR_NOMEM;
	j->snapshots = all;
	json_array_foreach((json_t *)(uintptr_t)items, i, o)
	{
		struct snapshot_view v;

		if (snapshot_view(o, &v, NULL) || v.deleting || (j->t.agent[0] && strcmp(v.agent, j->t.agent) != 0))
			continue;
		snapshot_describe(&v, &j->snapshots[j->nsnapshots++]);
	}
	return 0;
}

static void provider_snapshot_on_page(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct err here = {0};
	char next[KP_CONTINUE_MAX];

	if (rc == ERR_NOT_FOUND) {
		rc = no_such_kind(&here);
		e = &here;
	} else if (!rc && (rc = list_add(j, json_object_get(reply->body, "items")))) {
		err_set(&here, rc, "no memory for the list of snapshots");
		e = &here;
	}
	if (!rc && kjob_next_page(reply, next))
		provider_snapshot_list_page(j, next);
	else
		kjob_answer(j, rc, e, NULL, -1);
}

static void provider_snapshot_list_page(struct kjob *j, const char *next)
{
	char labels[AGENT_NAME_MAX + 64];

	text_format(labels, sizeof(labels), KUBE_LABEL_ROLE "=" KUBE_ROLE_SNAPSHOT "%s%s",
		    j->t.agent[0] ? ",agent_id=" : "", j->t.agent);
	kjob_list(j, kp_snapshots(j->kp->p.spec.ns, NULL), labels, next, provider_snapshot_on_page);
}

void snapshots_begin(struct kjob *j, const struct sandbox_ask *q)
{
	(void)q;
	if ((j->name[0] && !j->ours) || j->kp->p.spec.workspace != WORKSPACE_CLAIM)
		kjob_answer(j, 0, NULL, NULL, -1); /* there are none */
	else
		provider_snapshot_list_page(j, NULL);
}

/* ---- drop */

static void drop_await(struct kjob *j);

static void provider_snapshot_on_content_gone(struct kjob *j, int rc, const struct err *e)
{
	kjob_answer(j, rc, e, NULL, -1);
}

static void drop_late(struct kjob *j)
{
	const struct backing_view *v = &j->shed.seen;

	kjob_fail(j, ERR_TIMEOUT,
		  "VolumeSnapshot %.60s is being deleted, and is there still%s%.80s%s%.63s: does a snapshot controller "
		  "run, and its driver?",
		  j->copy.name, v->name[0] ? ", as is content " : "", v->name, v->driver[0] ? " of driver " : "",
		  v->driver);
}

static void provider_snapshot_on_drop_again(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct snapshot_view v;

	if (rc == ERR_NOT_FOUND || (!rc && !snapshot_view(reply->body, &v, NULL) && strcmp(v.uid, j->copy.uid) != 0))
		shed_await_left(j, j->copy.name, provider_snapshot_on_content_gone);
	else if (rc && !kp_may_pass(rc))
		kjob_answer(j, rc, e, NULL, -1);
	else if (kjob_is_late(j)) {
		drop_late(j);
	} else {
		kjob_poll(j, drop_await, &j->poll_ms, POLL_LAST_MS);
	}
}

static void drop_await(struct kjob *j)
{
	kjob_get(j, kp_snapshots(j->ns, j->copy.name), provider_snapshot_on_drop_again);
}

/* Dropped is what is gone: the snapshot controller deletes a VolumeSnapshot when its content is. */
static void await_drop(struct kjob *j, uint64_t ms)
{
	kjob_set_state(j, KJOB_TIDYING);
	j->poll_ms = POLL_FIRST_MS / 2;
	j->deadline_ns = clock_boot_ns() + ms * NS_PER_MS;
	drop_await(j);
}

static void provider_snapshot_on_dropped(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	(void)reply;
	if (rc && rc != ERR_NOT_FOUND && rc != ERR_K8S_CONFLICT) {
		kjob_answer(j, rc, e, NULL, -1);
		return;
	}
	shed_leave(j);
	await_drop(j, KP_GONE_MS);
}

static void provider_snapshot_on_drop_shed(struct kjob *j, int rc, const struct err *e)
{
	if (rc) {
		kjob_answer(j, rc, e, NULL, -1);
	} else if (j->copy.deleting) {
		shed_leave(j);
		await_drop(j, KP_GOING_MS);
	} else {
		kjob_delete(j, kp_snapshots(j->ns, j->copy.name), j->copy.uid, -1, provider_snapshot_on_dropped);
	}
}

static void provider_snapshot_on_drop_look(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct err here = {0};

	if (rc == ERR_NOT_FOUND) {
		j->deadline_ns = clock_boot_ns() + KP_GOING_MS * NS_PER_MS;
		shed_await_left(j, j->copy.name, provider_snapshot_on_content_gone);
		return;
	}
	if (!rc && (rc = snapshot_view(reply->body, &j->copy, &here)))
		e = &here;
	if (!rc && strcmp(j->copy.agent, j->t.agent) != 0) {
		rc = err_set(&here, ERR_NOT_FOUND, "snapshot %.60s is of agent %.63s, not of %.63s", j->copy.name,
			     j->copy.agent, j->t.agent);
		e = &here;
	}
	if (rc)
		kjob_answer(j, rc, e, NULL, -1);
	else
		shed_copy(j, provider_snapshot_on_drop_shed);
}

void drop_begin(struct kjob *j, const struct sandbox_ask *q)
{
	char name[KUBE_OBJECT_MAX + 1];

	snapshot_name(q->snapshot, name);
	text_put(j->copy.name, sizeof(j->copy.name), name);
	if (!j->ours || j->kp->p.spec.workspace != WORKSPACE_CLAIM)
		kjob_answer(j, 0, NULL, NULL, -1);
	else
		kjob_get(j, kp_snapshots(j->ns, name), provider_snapshot_on_drop_look);
}
