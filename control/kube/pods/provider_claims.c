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
	j->tick = NULL;
	claims_get(j, j->step);
}

static void claims_failed(struct kjob *j, int rc, const struct err *e)
{
	if (!claims_are_past(j, e))
		kjob_answer(j, rc, e, NULL, -1);
}

static void provider_claims_on_claims(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;
	const char *next;
	struct err here = {0};
	char copy[4096];

	j->call = NULL;
	if (j->cancelled)
		return;
	next = rc ? NULL : json_string_value(json_object_get(json_object_get(reply->body, "metadata"), "continue"));
	if (!rc && (rc = read_claims(j, json_object_get(reply->body, "items"), &here)))
		e = &here;
	if (!rc && next && *next && text_put(copy, sizeof(copy), next) == strlen(next)) {
		claims_page(j, copy);
		return;
	}
	if (!rc && (rc = provider_claims_choose(j, &here)))
		e = &here;
	if (kjob_may_wait(j, rc)) {
		j->tick = claims_again;
		kjob_wait(j, KP_AGAIN_MS);
	} else if (rc) {
		claims_failed(j, rc, e);
	} else {
		j->step(j);
	}
}

static void claims_page(struct kjob *j, const char *next)
{
	struct kube_ref ref = kp_claims(j->ns, NULL);
	char labels[AGENT_NAME_MAX + 64];
	struct kube_list_options o = {.labels = labels, .limit = CLAIMS_PAGE, .continue_ = next};
	struct err e = {0};
	int rc;

	text_format(labels, sizeof(labels), KUBE_SELECTOR ",agent_id=%s", j->t.agent);
	rc = kube_list(j->kp->p.kube, &ref, &o, provider_claims_on_claims, j, &j->call, &e);
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
	j->tick = NULL;
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
		j->tick = tidy_again;
		kjob_wait(j, KP_AGAIN_MS);
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

static void provider_claims_on_tidied(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;

	(void)reply;
	j->call = NULL;
	if (!j->cancelled)
		tidied(j, rc, e);
}

/* A pod of that name that is not ours is somebody else's. */
static void provider_claims_on_binder_seen(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kube_delete_options o = {.grace_s = 0};
	struct kjob *j = arg;
	const json_t *meta;
	const char *name;
	struct kube_ref ref;
	struct err here = {0};

	j->call = NULL;
	if (j->cancelled)
		return;
	if (rc || !pod_is_binder_of(reply->body, j->t.agent)) {
		if (!rc)
			log_warn(&(struct log_ids){.agent = j->name},
				 "a pod has the name of its first consumer, and is not ours: it is left alone");
		tidied(j, rc, e);
		return;
	}
	meta = json_object_get(reply->body, "metadata");
	name = json_string_value(json_object_get(meta, "name"));
	o.uid = json_string_value(json_object_get(meta, "uid"));
	ref = kp_pods(j->ns, name ? name : "");
	rc = kube_delete(j->kp->p.kube, &ref, &o, provider_claims_on_tidied, j, &j->call, &here);
	if (rc)
		kjob_answer(j, rc, &here, NULL, -1);
}

static int look_for_binder(struct kjob *j, struct err *e)
{
	char name[KUBE_OBJECT_MAX + 1] = "", own[KUBE_NAME_MAX + 1] = "";
	struct kube_ref ref = kp_pods(j->ns, name);

	j->binding = false;
	(void)kube_spec_name(j->t.agent, own, NULL);
	text_format(name, sizeof(name), "%s.bind", own);
	return kube_get(j->kp->p.kube, &ref, provider_claims_on_binder_seen, j, &j->call, e);
}

static void provider_claims_on_claim_deleted(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;

	if (!j->cancelled && j->op == SANDBOX_WIPE && (!rc || rc == ERR_NOT_FOUND || rc == ERR_K8S_CONFLICT))
		shed_leave(j);
	provider_claims_on_tidied(arg, rc, e, reply);
}

static void delete_claim(struct kjob *j, const struct claim_view *c)
{
	struct kube_delete_options o = {.uid = c->uid, .grace_s = -1};
	struct kube_ref ref = kp_claims(j->ns, c->name);
	struct err e = {0};
	int rc;

	log_info(&(struct log_ids){.agent = j->name}, "claim %s (%s) goes", c->name, claim_state_name(c->state));
	rc = kube_delete(j->kp->p.kube, &ref, &o, provider_claims_on_claim_deleted, j, &j->call, &e);
	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
}

static void note_kept(struct kjob *j, const struct err *e)
{
	log_warn(&(struct log_ids){.agent = j->name}, "%s", e->message);
	sandbox_kept_add(&j->kept, e);
}

static void provider_claims_on_claim_kept(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;

	(void)reply;
	j->call = NULL;
	if (j->cancelled)
		return;
	if (rc && rc != ERR_NOT_FOUND)
		log_warn(&(struct log_ids){.agent = j->name}, "a claim that stays is not labelled so: %s", e->message);
	tidy_next(j);
}

/* From now on it is nobody's workspace: what was wiped or replaced does not come back by itself. */
static void keep_claim(struct kjob *j, const struct claim_view *c)
{
	struct kube_ref ref = kp_claims(j->ns, c->name);
	json_t *patch = c->state == CLAIM_KEPT || c->deleting ? NULL : claim_patch(c, CLAIM_KEPT);
	int rc = patch ? kube_patch(j->kp->p.kube, &ref, KUBE_PATCH_MERGE, patch, provider_claims_on_claim_kept, j,
				    &j->call, NULL)
		       : ERR_NOT_FOUND;

	json_decref(patch);
	if (rc)
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

static void shed_claim(struct kjob *j, const struct claim_view *c)
{
	struct backing_owner o = {.type = BACKING_VOLUME};

	text_put(o.ns, sizeof(o.ns), j->ns);
	text_put(o.name, sizeof(o.name), c->name);
	text_put(o.uid, sizeof(o.uid), c->uid);
	text_put(o.backing, sizeof(o.backing), c->volume);
	shed_take_over(j, &o, provider_claims_on_shed);
}

/* One on its way out is looked at by whoever wipes: it takes its volume with it only where that goes. */
static bool is_left_alone(const struct kjob *j, const struct claim_view *c)
{
	bool settled = c->deleting || c->state == CLAIM_KEPT;

	return (settled && j->op != SANDBOX_WIPE) || (j->keep && strcmp(c->name, j->keep) == 0);
}

static void tidy_next(struct kjob *j)
{
	struct err e = {0};
	int rc;

	while (j->at < j->nclaims && is_left_alone(j, &j->claims[j->at]))
		j->at++;
	if (j->binding) {
		rc = look_for_binder(j, &e);
		if (rc)
			kjob_answer(j, rc, &e, NULL, -1);
	} else if (j->at < j->nclaims) {
		shed_claim(j, &j->claims[j->at]);
	} else {
		j->step(j);
	}
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

/* Somebody else was quicker, or the answer was lost: what there is now decides. */
static void once_more(struct kjob *j)
{
	kjob_set_state(j, KJOB_LOOKING);
	kjob_wait(j, KP_AGAIN_MS);
}

static void provider_claims_on_written(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;

	j->call = NULL;
	if (j->cancelled)
		return;
	if (rc == ERR_K8S_CONFLICT || kp_may_pass(rc)) {
		j->last = *e;
		once_more(j);
	} else if (rc) {
		kjob_answer(j, rc, e, NULL, -1);
	} else {
		if (claim_view(reply->body, &j->claim, NULL))
			once_more(j);
		else
			j->step(j);
	}
}

static void make_first(struct kjob *j)
{
	char name[KUBE_OBJECT_MAX + 1];
	struct kube_claim_plan plan = {.name = name, .generation = claim_next_generation(j->claims, j->nclaims)};
	struct kube_ref ref = kp_claims(j->ns, NULL);
	struct err e = {0};
	json_t *o = NULL;
	char base[KUBE_NAME_MAX + 1] = "";
	int rc =
	    kube_spec_name(j->t.agent, base, NULL) || claim_name(base, plan.generation, NULL, name) ? ERR_INVAL : 0;

	kjob_set_state(j, KJOB_MAKING);
	if (rc)
		err_set(&e, rc, "claims of %s have no name any more: wipe it", j->name);
	else if (!(o = kube_spec_claim(&j->kp->p.spec, j->t.agent, &plan, &e)))
		rc = e.code;
	else
		rc = kube_create(j->kp->p.kube, &ref, o, provider_claims_on_written, j, &j->call, &e);
	json_decref(o);
	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
}

/* From now on a pod may change it: the same restore, asked for again, is another one. */
static void mark_used(struct kjob *j)
{
	struct kube_ref ref = kp_claims(j->ns, j->claim.name);
	json_t *patch = claim_patch(&j->claim, CLAIM_CURRENT);
	struct err e = {0};
	int rc = patch ? kube_patch(j->kp->p.kube, &ref, KUBE_PATCH_MERGE, patch, provider_claims_on_written, j,
				    &j->call, &e)
		       : err_set(&e, ERR_NOMEM, "no memory for the claim of %s", j->name);

	json_decref(patch);
	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
}

static void ensure_chosen(struct kjob *j)
{
	j->step = j->then;
	if (!j->claim.name[0])
		make_first(j);
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
