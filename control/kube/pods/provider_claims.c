/* The claims of one agent: listed, the workspace among them chosen; made when there is none; taken away. */
#define LOG_SUBSYS "kube"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/pods/provider_state.h"
#include "control/kube/pods/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLAIMS_PAGE 100 /* of one agent */

/* From here on a failure is none, or not known to be one: the next start takes the new claim if it is the workspace. */
bool claims_are_past(struct kjob *j, const struct err *e)
{
	bool past = j->committed || j->committing; /* of one that is answered nothing is left */

	if (j->committed) {
		log_warn(&(struct log_ids){.agent = j->name}, "restored, and the earlier claim may be there still: %s",
			 e->message);
		kjob_answer_workspace(j);
	} else if (j->committing) {
		kjob_fail(j, ERR_CANCELLED, "whether %.63s was restored is not known: %.300s", j->name, e->message);
	}
	return past;
}

/* ---- listing */

static void claims_page(struct kjob *j, const char *next);

static int read_claims(struct kjob *j, const json_t *items, struct err *e)
{
	struct claim_view *all = realloc(j->claims, (j->nclaims + json_array_size(items) + 1) * sizeof(*all));
	size_t i;
	json_t *o;
	int rc;

	if (!all)
		return err_set(e, ERR_NOMEM, "no memory for the claims of %s", j->name);
	j->claims = all;
	json_array_foreach((json_t *)(uintptr_t)items, i, o)
	{
		rc = claim_view(o, &j->claims[j->nclaims], e);
		if (rc)
			return rc;
		if (strcmp(j->claims[j->nclaims].agent, j->t.agent) == 0) /* else labelled like ours by somebody else */
			j->nclaims++;
	}
	return 0;
}

static int provider_claims_choose(struct kjob *j, struct err *e)
{
	const struct claim_view *chosen = NULL;
	int rc = claim_choose(j->claims, j->nclaims, &chosen, e);

	if (!rc && chosen)
		j->claim = *chosen;
	return rc;
}

static void claims_again(struct kjob *j)
{
	claims_get(j, j->step);
}

static void claims_failed(struct kjob *j, int rc, const struct err *e)
{
	if (!claims_are_past(j, e))
		kjob_answer(j, rc, e, NULL, -1);
}

static void provider_claims_on_claims(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct err here = {0};
	char next[KP_CONTINUE_MAX];

	if (!rc && (rc = read_claims(j, json_object_get(reply->body, "items"), &here)))
		e = &here;
	if (!rc && kjob_next_page(reply, next)) {
		claims_page(j, next);
		return;
	}
	if (!rc && (rc = provider_claims_choose(j, &here)))
		e = &here;
	if (kjob_may_wait(j, rc)) {
		kjob_again(j, claims_again);
	} else if (rc) {
		claims_failed(j, rc, e);
	} else {
		j->step(j);
	}
}

static void claims_page(struct kjob *j, const char *next)
{
	char labels[AGENT_NAME_MAX + 64];
	struct kcall c = {KCALL_LIST, kp_claims(j->ns, NULL),
			  .list = {.labels = labels, .limit = CLAIMS_PAGE, .continue_ = next}};
	struct err e = {0};
	int rc;

	text_format(labels, sizeof(labels), KUBE_SELECTOR ",agent_id=%s", j->t.agent);
	rc = next && kjob_is_late(j)
		 ? err_set(&e, ERR_TIMEOUT, "the list of claims of %.63s did not end in time", j->name)
		 : kjob_call(j, &c, provider_claims_on_claims, &e);
	if (rc)
		claims_failed(j, rc, &e);
}

void claims_get(struct kjob *j, void (*step)(struct kjob *j))
{
	free(j->claims);
	j->claims = NULL;
	j->nclaims = 0;
	memset(&j->claim, 0, sizeof(j->claim));
	j->step = step;
	claims_page(j, NULL);
}

/* ---- taking away: the first consumer of a new claim, which would hold it, then claims */

static void tidy_next(struct kjob *j);

/* From the beginning: what is gone by now is no error. */
static void tidy_again(struct kjob *j)
{
	j->at = 0;
	j->kept.code = 0;
	j->binding = true;
	tidy_next(j);
}

/* One step of it was answered. A server that is away is waited for: nobody else would come back to what is left. */
static void tidied(struct kjob *j, int rc, const struct err *e)
{
	if (rc == ERR_NOT_FOUND || rc == ERR_K8S_CONFLICT)
		rc = 0;
	if (kjob_may_wait(j, rc)) {
		kjob_again(j, tidy_again);
		return;
	}
	if (rc && j->op == SANDBOX_RESTORE) { /* the next start tidies up, unless it would take the new one for good */
		if (!j->committed && claims_are_past(j, e))
			return;
		log_warn(&(struct log_ids){.agent = j->name}, "%s", e->message);
		rc = 0;
	}
	if (rc)
		kjob_answer(j, rc, e, NULL, -1);
	else
		tidy_next(j);
}

static void provider_claims_on_tidied(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	(void)reply;
	tidied(j, rc, e);
}

/* A pod of that name that is not ours is somebody else's. */
static void provider_claims_on_binder_seen(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	const json_t *meta;
	const char *name;

	if (rc || !pod_is_binder_of(reply->body, j->t.agent)) {
		if (!rc)
			log_warn(&(struct log_ids){.agent = j->name},
				 "a pod has the name of its first consumer, and is not ours: it is left alone");
		tidied(j, rc, e);
		return;
	}
	meta = json_object_get(reply->body, "metadata");
	name = json_string_value(json_object_get(meta, "name"));
	kjob_delete(j, kp_pods(j->ns, name ? name : ""), json_string_value(json_object_get(meta, "uid")), 0,
		    provider_claims_on_tidied);
}

static void look_for_binder(struct kjob *j)
{
	char name[KUBE_OBJECT_MAX + 1] = "", own[KUBE_NAME_MAX + 1] = "";

	j->binding = false;
	(void)kube_spec_name(j->t.agent, own, NULL);
	text_format(name, sizeof(name), "%s.bind", own);
	kjob_get(j, kp_pods(j->ns, name), provider_claims_on_binder_seen);
}

static void provider_claims_on_claim_deleted(struct kjob *j, int rc, const struct err *e,
					     const struct kube_reply *reply)
{
	if (j->op == SANDBOX_WIPE && (!rc || rc == ERR_NOT_FOUND || rc == ERR_K8S_CONFLICT))
		shed_leave(j);
	provider_claims_on_tidied(j, rc, e, reply);
}

static void delete_claim(struct kjob *j, const struct claim_view *c)
{
	log_info(&(struct log_ids){.agent = j->name}, "claim %s (%s) goes", c->name, claim_state_name(c->state));
	kjob_delete(j, kp_claims(j->ns, c->name), c->uid, -1, provider_claims_on_claim_deleted);
}

static void note_kept(struct kjob *j, const struct err *e)
{
	log_warn(&(struct log_ids){.agent = j->name}, "%s", e->message);
	sandbox_kept_add(&j->kept, e);
}

static void provider_claims_on_claim_kept(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	(void)reply;
	if (rc && rc != ERR_NOT_FOUND)
		log_warn(&(struct log_ids){.agent = j->name}, "a claim that stays is not labelled so: %s", e->message);
	tidy_next(j);
}

/* From now on it is nobody's workspace: what was wiped or replaced does not come back by itself. */
static void keep_claim(struct kjob *j, const struct claim_view *c)
{
	struct kcall call = {KCALL_PATCH, kp_claims(j->ns, c->name), .kind = KUBE_PATCH_MERGE};
	struct err e = {0};

	call.body = c->state == CLAIM_KEPT || c->deleting ? NULL : claim_patch(c, CLAIM_KEPT);
	if (kjob_call(j, &call, provider_claims_on_claim_kept, &e))
		tidy_next(j);
}

static void provider_claims_on_shed(struct kjob *j, int rc, const struct err *e)
{
	const struct claim_view *c = &j->claims[j->at++];

	if (rc == ERR_DATA_KEPT) {
		note_kept(j, e);
		keep_claim(j, c);
	} else if (rc) {
		tidied(j, rc, e);
	} else {
		delete_claim(j, c);
	}
}

/* One on its way out is looked at by whoever wipes: it takes its volume with it only where that goes. */
static bool is_left_alone(const struct kjob *j, const struct claim_view *c)
{
	bool settled = c->deleting || c->state == CLAIM_KEPT;

	return (settled && j->op != SANDBOX_WIPE) || (j->keep && strcmp(c->name, j->keep) == 0);
}

static void tidy_next(struct kjob *j)
{
	while (j->at < j->nclaims && is_left_alone(j, &j->claims[j->at]))
		j->at++;
	if (j->binding)
		look_for_binder(j);
	else if (j->at < j->nclaims)
		shed_claim(j, &j->claims[j->at], provider_claims_on_shed);
	else
		j->step(j);
}

void claims_tidy(struct kjob *j, const char *keep, void (*step)(struct kjob *j))
{
	kjob_set_state(j, KJOB_TIDYING);
	j->at = 0;
	j->kept.code = 0;
	j->keep = keep;
	j->step = step;
	tidy_next(j);
}

/* ---- ensure's */

static void provider_claims_on_written(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (rc == ERR_K8S_CONFLICT || kp_may_pass(rc)) /* somebody else was quicker, or the answer was lost */
		kjob_look_again(j, e);
	else if (rc)
		kjob_answer(j, rc, e, NULL, -1);
	else if (claim_view(reply->body, &j->claim, NULL))
		kjob_look_again(j, &j->last);
	else
		j->step(j);
}

void claims_make(struct kjob *j, const struct kube_claim_plan *asked, kjob_heard *heard)
{
	struct kube_claim_plan plan = *asked;
	char name[KUBE_OBJECT_MAX + 1], base[KUBE_NAME_MAX + 1] = "";
	struct err e = {0};
	json_t *o = NULL;

	plan.name = name;
	plan.generation = claim_next_generation(j->claims, j->nclaims);
	if (kube_spec_name(j->t.agent, base, NULL) || claim_name(base, plan.generation, plan.snapshot, name))
		err_set(&e, ERR_INVAL, "claims of %s have no name any more: wipe it", j->name);
	else
		o = kube_spec_claim(&j->kp->p.spec, j->t.agent, &plan, &e);
	kjob_create(j, kp_claims(j->ns, NULL), o, &e, heard);
}

static void make_first(struct kjob *j)
{
	struct kube_claim_plan plan = {0};

	kjob_set_state(j, KJOB_MAKING);
	claims_make(j, &plan, provider_claims_on_written);
}

/* From now on a pod may change it: the same restore, asked for again, is another one. */
static void mark_used(struct kjob *j)
{
	kjob_patch(j, kp_claims(j->ns, j->claim.name), claim_patch(&j->claim, CLAIM_CURRENT),
		   provider_claims_on_written);
}

static void provider_claims_on_lost_kept(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	(void)reply;
	if (rc == ERR_K8S_CONFLICT || rc == ERR_NOT_FOUND || kp_may_pass(rc)) {
		kjob_look_again(j, e);
	} else if (rc) {
		kjob_answer(j, rc, e, NULL, -1);
	} else {
		log_warn(&(struct log_ids){.agent = j->name}, "the volume of claim %s is lost: an empty one follows it",
			 j->claim.name);
		make_first(j);
	}
}

/* Not deleted: it names the volume, for whoever finds that again. */
static void follow_lost(struct kjob *j)
{
	kjob_patch(j, kp_claims(j->ns, j->claim.name), claim_patch(&j->claim, CLAIM_KEPT),
		   provider_claims_on_lost_kept);
}

static void ensure_chosen(struct kjob *j)
{
	j->step = j->then;
	if (!j->claim.name[0])
		make_first(j);
	else if (j->claim.lost && j->empty)
		follow_lost(j);
	else if (j->claim.lost)
		kjob_fail(j, ERR_SANDBOX_CREATE,
			  "the volume of claim %.120s, the workspace of %.63s, is lost: restore it from a snapshot",
			  j->claim.name, j->name);
	else if (j->claim.state == CLAIM_RESTORED)
		mark_used(j);
	else
		j->step(j);
}

/* What an interrupted restore has left goes: nobody restores what is being started. */
static void ensure_listed(struct kjob *j)
{
	size_t live = 0;

	for (size_t i = 0; i < j->nclaims; i++)
		live += j->claims[i].state != CLAIM_KEPT;
	j->binding = true;
	if (!live || (live == 1 && j->claim.name[0] && j->claim.state == CLAIM_CURRENT))
		ensure_chosen(j);
	else
		claims_tidy(j, j->claim.name, ensure_chosen);
}

void claims_ensure(struct kjob *j, void (*step)(struct kjob *j))
{
	j->then = step;
	claims_get(j, ensure_listed);
}
