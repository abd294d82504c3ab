/*
 * What holds the data goes with its owner, or the owner stays. Before a VolumeSnapshot or a claim of ours is deleted,
 * the content or volume behind it is looked at: one that would outlive its owner is taken over (its policy becomes
 * Delete, for this version of it and for one that is bound to that owner alone). Where that cannot be done the owner is
 * not deleted either (ERR_DATA_KEPT, which names what stays), so that whoever comes later finds the data by it.
 *
 * take over: looking -> patching -> it goes with its owner. Behind it, await: deleted by name until it is gone.
 */
#define LOG_SUBSYS "kube"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/pods/provider_state.h"

#include <stdlib.h>
#include <string.h>

#define POLL_FIRST_MS 100
#define POLL_LAST_MS  1000

static void provider_shed_look(struct kjob *j);
static void look_behind(struct kjob *j);

static void provider_shed_again(struct kjob *j, void (*tick)(struct kjob *j))
{
	kjob_poll(j, tick, &j->shed.poll_ms, POLL_LAST_MS);
}

static void shed_over(struct kjob *j, int rc, const struct err *e)
{
	j->tick = NULL;
	j->shed.next(j, rc, e);
}

/* The object stays: what, whose, why and where; the cluster's words come last, where they may be cut off. */
static void kept(struct kjob *j, const char *why, const char *words)
{
	const struct backing_owner *o = &j->shed.owner;
	char name[KUBE_OBJECT_MAX + 1], where[256] = "";
	struct err e = {0};

	backing_name(o, name);
	if (j->shed.seen.name[0])
		backing_where(&j->shed.seen, where, sizeof(where));
	err_set(&e, ERR_DATA_KEPT, "%s %.80s stays with %s %.80s: %s%s%s%s", backing_kind(o->type), name,
		backing_owner_kind(o->type), o->name, why, where, *words ? ": " : "", words);
	shed_over(j, e.code, &e);
}

static void not_allowed(struct kjob *j, const char *verb, const struct err *e)
{
	struct kube_ref ref = backing_ref(j->shed.owner.type, NULL);
	char right[160], why[200];

	kube_ref_right(verb, &ref, right, sizeof(right));
	text_format(why, sizeof(why), "muxd has no right to %s", right);
	kept(j, why, e->message);
}

/* Somebody else's is left alone; one that only has the name which ours would have is nothing to us. */
static void foreign(struct kjob *j)
{
	const struct backing_view *v = &j->shed.seen;
	char why[300];

	if (!j->shed.owner.backing[0]) {
		j->shed.seen.name[0] = '\0';
		shed_over(j, 0, NULL);
		return;
	}
	text_format(why, sizeof(why), "it belongs to %.63s/%.80s (uid %.40s) and is left alone",
		    v->owner.ns[0] ? v->owner.ns : "nobody", v->owner.name, v->owner.uid[0] ? v->owner.uid : "none");
	kept(j, why, "");
}

/* ---- take over */

static void provider_shed_on_taken(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	(void)reply;
	if ((rc == ERR_K8S_CONFLICT || kp_may_pass(rc)) && !kjob_is_late(j)) {
		provider_shed_again(j,
				    provider_shed_look); /* it changed meanwhile, or may have: what it is now decides */
	} else if (rc == ERR_NOT_FOUND) {
		shed_over(j, 0, NULL);
	} else if (rc == ERR_K8S_FORBIDDEN) {
		not_allowed(j, "patch", e);
	} else if (rc == ERR_K8S_CONFLICT || rc == ERR_K8S_INVALID) {
		kept(j, "its policy cannot be changed", e->message);
	} else if (rc) {
		shed_over(j, rc, e);
	} else {
		log_info(&(struct log_ids){.agent = j->name}, "%s %s goes with %s %s: it would have stayed",
			 backing_kind(j->shed.seen.type), j->shed.seen.name, backing_owner_kind(j->shed.seen.type),
			 j->shed.owner.name);
		shed_over(j, 0, NULL);
	}
}

static void take_it(struct kjob *j)
{
	struct kcall c = {KCALL_PATCH, backing_ref(j->shed.seen.type, j->shed.seen.name),
			  backing_take_over(&j->shed.seen), .kind = KUBE_PATCH_MERGE};
	struct err e = {0};
	int rc = kjob_call(j, &c, provider_shed_on_taken, &e);

	if (rc)
		shed_over(j, rc, &e);
}

static void provider_shed_on_look(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct err here = {0};

	if (!rc && (rc = backing_view(j->shed.owner.type, reply->body, &j->shed.seen, &here)))
		e = &here;
	if (rc == ERR_NOT_FOUND || (rc == ERR_K8S_FORBIDDEN && !j->shed.owner.backing[0]))
		shed_over(j, 0, NULL); /* there is none, or its owner says of none */
	else if (rc == ERR_K8S_FORBIDDEN)
		not_allowed(j, "get", e);
	else if (kp_may_pass(rc) && !kjob_is_late(j))
		provider_shed_again(j, provider_shed_look);
	else if (rc)
		shed_over(j, rc, e);
	else if (!backing_is_of(&j->shed.seen, &j->shed.owner))
		foreign(j);
	else if (backing_goes(&j->shed.seen))
		shed_over(j, 0, NULL);
	else if (j->shed.seen.by_hand)
		kept(j, "no driver made it, so none deletes what is in it: that is for whoever did", "");
	else
		take_it(j);
}

static void provider_shed_ask(struct kjob *j, kjob_heard *heard)
{
	char name[KUBE_OBJECT_MAX + 1] = "";
	struct kcall c = {.ref = backing_ref(j->shed.owner.type, name)};
	struct err e = {0};
	int rc;

	backing_name(&j->shed.owner, name);
	rc = kjob_call(j, &c, heard, &e);
	if (rc)
		shed_over(j, rc, &e);
}

static void provider_shed_look(struct kjob *j)
{
	j->tick = NULL;
	provider_shed_ask(j, provider_shed_on_look);
}

void shed_take_over(struct kjob *j, const struct backing_owner *o, shed_next *next)
{
	j->shed = (struct kshed){.owner = *o, .next = next, .poll_ms = POLL_FIRST_MS / 2};
	provider_shed_look(j);
}

void shed_claim(struct kjob *j, const struct claim_view *c, shed_next *next)
{
	struct backing_owner o = {.type = BACKING_VOLUME};

	text_put(o.ns, sizeof(o.ns), j->ns);
	text_put(o.name, sizeof(o.name), c->name);
	text_put(o.uid, sizeof(o.uid), c->uid);
	text_put(o.backing, sizeof(o.backing), c->volume);
	shed_take_over(j, &o, next);
}

/* ---- until it is gone */

static void late(struct kjob *j)
{
	const struct backing_view *v = &j->shed.seen;
	struct err e = {0};

	err_set(&e, ERR_TIMEOUT,
		"%s %.80s of %s %.80s is being deleted, and is there still: driver %.63s has not said that its data is "
		"gone%s%.120s",
		backing_kind(v->type), v->name, backing_owner_kind(v->type), j->shed.owner.name,
		v->driver[0] ? v->driver : "(not said)", v->why[0] ? ": " : "", v->why);
	shed_over(j, e.code, &e);
}

static void provider_shed_on_behind(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct backing_view v;
	struct err here = {0};

	if (!rc && (rc = backing_view(j->shed.owner.type, reply->body, &v, &here)))
		e = &here;
	if (rc == ERR_NOT_FOUND || (!rc && (strcmp(v.uid, j->shed.seen.uid) != 0)))
		shed_over(j, 0, NULL);
	else if (rc && !kp_may_pass(rc))
		shed_over(j, rc, e);
	else if (kjob_is_late(j))
		late(j);
	else {
		text_put(j->shed.seen.why, sizeof(j->shed.seen.why), v.why);
		provider_shed_again(j, look_behind);
	}
}

static void look_behind(struct kjob *j)
{
	j->tick = NULL;
	provider_shed_ask(j, provider_shed_on_behind);
}

void shed_await(struct kjob *j, const struct backing_view *v, shed_next *next)
{
	j->shed = (struct kshed){.owner = v->owner, .seen = *v, .next = next, .poll_ms = POLL_FIRST_MS / 2};
	look_behind(j);
}

/* ---- what owners have left behind */

void shed_leave(struct kjob *j)
{
	struct kgoing *g;

	LIST_FOREACH(g, &j->kp->going, entry)
	if (strcmp(g->backing.uid, j->shed.seen.uid) == 0)
		return;
	g = j->shed.seen.name[0] ? calloc(1, sizeof(*g)) : NULL;
	if (!g)
		return;
	text_put(g->agent, sizeof(g->agent), j->t.agent);
	g->backing = j->shed.seen;
	LIST_INSERT_HEAD(&j->kp->going, g, entry);
}

static struct kgoing *next_left(struct kjob *j)
{
	const char *snapshot = j->left_by;
	struct kgoing *g;

	LIST_FOREACH(g, &j->kp->going, entry)
	if (strcmp(g->agent, j->t.agent) == 0 &&
	    (*snapshot ? g->backing.type == BACKING_CONTENT && strcmp(g->backing.owner.name, snapshot) == 0
		       : g->backing.type == BACKING_VOLUME))
		return g;
	return NULL;
}

static void await_left(struct kjob *j);

static void provider_shed_on_left_gone(struct kjob *j, int rc, const struct err *e)
{
	struct kgoing *g = rc ? NULL : next_left(j);

	if (g) {
		LIST_REMOVE(g, entry);
		free(g);
	}
	if (rc)
		j->left_next(j, rc, e);
	else
		await_left(j);
}

static void await_left(struct kjob *j)
{
	struct kgoing *g = next_left(j);

	if (g)
		shed_await(j, &g->backing, provider_shed_on_left_gone);
	else
		j->left_next(j, 0, NULL);
}

void shed_await_left(struct kjob *j, const char *snapshot, shed_next *next)
{
	text_put(j->left_by, sizeof(j->left_by), snapshot ? snapshot : "");
	j->left_next = next;
	await_left(j);
}
