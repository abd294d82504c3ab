/*
 * Pods that end by themselves, or that somebody else ends: one watch on all of ours, one on each pod of others that
 * was reached. A pod that is deleted is gone. Anything else that looks like an end is looked at first: a
 * watch may tell what was true before the stream came up.
 */
#define LOG_SUBSYS "kube"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/pods/provider_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *meta_text(const json_t *o, const char *key)
{
	return json_get_text(json_object_get(o, "metadata"), key);
}

static void gone(struct kname *n, const char *why)
{
	struct kp *kp = n->kp;
	struct id incarnation = n->incarnation;
	bool linked = n->linked;
	char name[AGENT_NAME_MAX + 1];

	log_info(&(struct log_ids){.agent = n->name}, "gone: %s", why);
	text_put(name, sizeof(name), n->name);
	if (n->job)
		kjob_fail(n->job, ERR_NOT_FOUND, "%s: %s", name, why);
	kname_forget(n);
	if (linked && kp->base.gone)
		kp->base.gone(kp->base.gone_arg, name, &incarnation, why);
}

bool watch_is_stuck(const struct pod_view *v)
{
	return v->deleting && v->delete_ns && clock_wall_ns() - v->delete_ns > KP_STUCK_NS;
}

/* ---- a pod that is gone, and was not ended here: what its node says of it */

static void say_node(const char *name, int rc, const json_t *node, char *out, size_t size)
{
	const char *base = "its pod was deleted";
	const json_t *list = json_object_get(json_object_get(node, "status"), "conditions");
	size_t i;
	json_t *o;

	text_put(out, size, base);
	if (rc == ERR_NOT_FOUND)
		text_format(out, size, "%s: node %.100s is no longer in the cluster", base, name);
	json_array_foreach((json_t *)(uintptr_t)(rc ? NULL : list), i, o)
	{
		const char *type = json_string_value(json_object_get(o, "type")),
			   *status = json_string_value(json_object_get(o, "status")),
			   *words = json_string_value(json_object_get(o, "message"));

		if (type && status && strcmp(type, "Ready") == 0 && strcmp(status, "True") != 0)
			text_format(out, size, "%s: node %.100s is not ready: %.150s", base, name,
				    words ? words : status);
	}
	pod_plain_text(out);
}

static void provider_watch_on_lost_time(uv_timer_t *t);

/* No look can be asked for without one: whoever has no memory hears of the end from the socket. */
static void look_later(struct kname *n, uint64_t ms)
{
	if (!n->lost && (n->lost = malloc(sizeof(*n->lost)))) {
		uv_timer_init(n->kp->loop, n->lost);
		n->lost->data = n;
	}
	if (n->lost && (!uv_is_active((uv_handle_t *)n->lost) || uv_timer_get_due_in(n->lost) > ms))
		uv_timer_start(n->lost, provider_watch_on_lost_time, ms, 0);
}

/* What was told while it was out. */
static void look_is_back(struct kname *n)
{
	n->confirm = NULL;
	if (n->missed)
		look_later(n, KP_LOOK_MS);
	n->missed = false;
}

static void provider_watch_on_node(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kname *n = arg;
	char why[400];

	(void)e;
	if (!n->confirm) /* cancelled: the provider goes */
		return;
	look_is_back(n);
	if (!n->ending)
		return;
	n->ending = false;
	say_node(n->view.node, rc, reply->body, why, sizeof(why));
	gone(n, why);
}

/* Whoever may not look at nodes hears the plain cause. */
static void gone_with_node(struct kname *n)
{
	struct kube_ref ref = {.resource = "nodes", .name = n->view.node};
	struct kube_call *look = n->confirm;

	if (n->ending)
		return;
	if (look) { /* at the pod: that is answered */
		n->confirm = NULL;
		kube_cancel(look);
	}
	if (!n->linked || !n->view.node[0] ||
	    kube_get(n->kp->p.kube, &ref, provider_watch_on_node, n, &n->confirm, NULL))
		gone(n, "its pod was deleted");
	else
		n->ending = true;
}

/* Nothing will be told when its time is over. */
static void watch_lost(struct kname *n, const struct pod_view *v)
{
	int64_t left = v->delete_ns + KP_STUCK_NS - clock_wall_ns();

	if (v->delete_ns)
		look_later(n, (left > 0 ? (uint64_t)(left / (int64_t)NS_PER_MS) : 0) + KP_LOOK_MS);
}

void watch_judge(struct kname *n, const json_t *pod)
{
	struct pod_view v;
	char why[400];

	if (!n->linked && !n->job)
		return;
	if (!pod || strcmp(meta_text(pod, "uid"), n->view.uid) != 0) {
		gone_with_node(n);
		return;
	}
	if (pod_view(pod, n->view.container, &v, NULL))
		return;
	if (v.state == POD_RUNNING && strcmp(v.container_id, n->view.container_id) == 0 && watch_is_stuck(&v)) {
		text_format(why, sizeof(why), "its pod was deleted, and its node %.100s does not answer", v.node);
		gone(n, why);
		return;
	}
	if (v.state == POD_RUNNING && strcmp(v.container_id, n->view.container_id) == 0) {
		n->view = v;
		if (v.deleting)
			watch_lost(n, &v);
		return;
	}
	if (v.state == POD_ENDED)
		text_format(why, sizeof(why), "its container ended: %s", v.why);
	else
		text_format(why, sizeof(why), "its container was restarted%s%s", v.why[0] ? ": " : "", v.why);
	gone(n, why);
}

static void provider_watch_on_confirmed(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kname *n = arg;

	(void)e;
	if (!n->confirm) /* cancelled: the provider goes */
		return;
	look_is_back(n);
	if (rc == 0 || rc == ERR_NOT_FOUND)
		watch_judge(n, rc ? NULL : reply->body);
	else /* it was told of once: nobody will tell again */
		look_later(n, kp_may_pass(rc) ? KP_LOOK_MS : KP_REFUSED_MS);
}

static void provider_watch_on_lost_time(uv_timer_t *t)
{
	struct kname *n = t->data;
	struct kube_ref ref = kp_pods(n->ns, n->pod);

	if ((n->linked || n->job) && !n->confirm &&
	    kube_get(n->kp->p.kube, &ref, provider_watch_on_confirmed, n, &n->confirm, NULL))
		n->confirm = NULL;
}

static bool looks_alive(const struct kname *n, const json_t *pod)
{
	struct pod_view v;

	return strcmp(meta_text(pod, "uid"), n->view.uid) == 0 && pod_view(pod, n->view.container, &v, NULL) == 0 &&
	       v.state == POD_RUNNING && !v.deleting && strcmp(v.container_id, n->view.container_id) == 0;
}

static void consider(struct kname *n, const json_t *pod)
{
	struct kube_ref ref = kp_pods(n->ns, n->pod);

	if ((!n->linked && !n->job) || looks_alive(n, pod))
		return;
	n->missed = n->confirm != NULL;
	if (!n->missed && kube_get(n->kp->p.kube, &ref, provider_watch_on_confirmed, n, &n->confirm, NULL))
		n->confirm = NULL; /* out of memory: the socket will tell */
}

/* Whoever waits for this pod looks again now. */
static void nudge(struct kp *kp, const json_t *pod)
{
	struct kjob *j, *next;

	for (j = TAILQ_FIRST(&kp->jobs); j; j = next) {
		next = TAILQ_NEXT(j, entry);
		if (!j->call && (j->state == KJOB_WAITING || j->state == KJOB_REPLACING || j->state == KJOB_ENDING) &&
		    strcmp(j->pod, meta_text(pod, "name")) == 0 && strcmp(j->ns, meta_text(pod, "namespace")) == 0)
			kjob_wait(j, 0);
	}
}

static struct kname *provider_watch_name_of(struct kp *kp, const json_t *pod)
{
	struct kname *n, *next;

	HASH_ITER(hh, kp->names, n, next)
	if (n->ours && strcmp(n->pod, meta_text(pod, "name")) == 0)
		return n;
	return NULL;
}

/* ---- all pods of ours */

static void provider_watch_on_our_change(void *arg, const json_t *pod)
{
	struct kname *n = provider_watch_name_of(arg, pod);

	nudge(arg, pod);
	if (n)
		consider(n, pod);
}

static void provider_watch_on_our_end(void *arg, const json_t *pod)
{
	struct kname *n = provider_watch_name_of(arg, pod);

	nudge(arg, pod);
	if (n && (n->linked || n->job) && strcmp(meta_text(pod, "uid"), n->view.uid) == 0)
		gone_with_node(n);
}

static void provider_watch_on_synced(void *arg, bool resync)
{
	(void)arg, (void)resync;
}

static void provider_watch_on_our_trouble(void *arg, int rc, const struct err *e)
{
	(void)arg;
	if (rc)
		log_warn(NULL, "pods of ours cannot be watched now: %s", e->message);
	else
		log_info(NULL, "pods of ours are watched again");
}

static const struct kube_watch_ops our_ops = {.added = provider_watch_on_our_change,
					      .modified = provider_watch_on_our_change,
					      .deleted = provider_watch_on_our_end,
					      .synced = provider_watch_on_synced,
					      .trouble = provider_watch_on_our_trouble};

int watch_start(struct kp *kp, struct err *e)
{
	struct kube_ref ref = kp_pods(kp->p.spec.ns, NULL);
	struct kube_watch_options o = {.labels = KUBE_SELECTOR};

	return kube_watch_create(kp->p.kube, &ref, &o, &our_ops, kp, &kp->watch, e);
}

/* ---- one pod of others */

static void provider_watch_on_their_change(void *arg, const json_t *pod)
{
	consider(arg, pod);
}

static void provider_watch_on_their_end(void *arg, const json_t *pod)
{
	struct kname *n = arg;

	if ((n->linked || n->job) && strcmp(meta_text(pod, "uid"), n->view.uid) == 0)
		gone_with_node(n);
}

static void provider_watch_on_their_trouble(void *arg, int rc, const struct err *e)
{
	struct kname *n = arg;

	if (rc)
		log_warn(&(struct log_ids){.agent = n->name}, "its pod cannot be watched now: %s", e->message);
}

static const struct kube_watch_ops their_ops = {.added = provider_watch_on_their_change,
						.modified = provider_watch_on_their_change,
						.deleted = provider_watch_on_their_end,
						.synced = provider_watch_on_synced,
						.trouble = provider_watch_on_their_trouble};

int watch_name(struct kname *n, struct err *e)
{
	struct kube_ref ref = kp_pods(n->ns, NULL);
	char fields[AGENT_NAME_MAX + 32];
	struct kube_watch_options o = {.fields = fields};

	if (n->watch)
		return 0;
	text_format(fields, sizeof(fields), "metadata.name=%s", n->pod);
	return kube_watch_create(n->kp->p.kube, &ref, &o, &their_ops, n, &n->watch, e);
}
