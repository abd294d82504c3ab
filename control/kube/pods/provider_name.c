/* One sandbox by its name: the provider's knowledge of it, between two questions about it. */
#define LOG_SUBSYS "kube"
#include "base/clock.h"
#include "base/text.h"
#include "control/kube/pods/provider_state.h"

#include <stdlib.h>
#include <string.h>

int kp_locate(const struct kp *kp, const char *name, struct target *t, char ns[AGENT_NAME_MAX + 1],
	      char pod[AGENT_NAME_MAX + 1], bool *out_ours, struct err *e)
{
	char own[KUBE_NAME_MAX + 1];
	int rc = target_parse(name, t, e);

	if (rc)
		return rc;
	*out_ours = !t->pod[0];
	if (*out_ours && (rc = kube_pod_name(kp->p.spec.hold, t->agent, own, e)))
		return rc;
	text_put(ns, AGENT_NAME_MAX + 1, *out_ours ? kp->p.spec.ns : t->ns);
	text_put(pod, AGENT_NAME_MAX + 1, *out_ours ? own : t->pod);
	if (*out_ours)
		text_put(t->container, sizeof(t->container), KUBE_CONTAINER);
	return 0;
}

struct kname *kname_find(struct kp *kp, const char *name)
{
	struct kname *n = NULL;

	HASH_FIND_STR(kp->names, name, n);
	return n;
}

struct kname *kname_get(struct kp *kp, const char *name)
{
	struct kname *n = kname_find(kp, name);

	if (n)
		return n;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->kp = kp;
	text_put(n->name, sizeof(n->name), name);
	if (kp_locate(kp, name, &n->t, n->ns, n->pod, &n->ours, NULL)) {
		free(n);
		return NULL;
	}
	HASH_ADD_STR(kp->names, name, n);
	return n;
}

void kname_forget(struct kname *n)
{
	reach_destroy(n->reach);
	n->reach = NULL;
	n->linked = false;
	memset(&n->incarnation, 0, sizeof(n->incarnation));
	memset(&n->reached, 0, sizeof(n->reached));
	n->plain_why[0] = n->visitor[0] = '\0';
	n->missed = n->ending = false;
	if (n->lost)
		uv_timer_stop(n->lost);
}

static void provider_name_free_timer(uv_handle_t *h)
{
	free(h);
}

void kname_free(struct kname *n)
{
	kname_forget(n);
	kube_watch_destroy(n->watch);
	json_decref(n->to_be);
	if (n->lost)
		uv_close((uv_handle_t *)n->lost, provider_name_free_timer);
	if (n->confirm) {
		struct kube_call *c = n->confirm;

		n->confirm = NULL;
		kube_cancel(c);
	}
	HASH_DEL(n->kp->names, n);
	free(n);
}

/*
 * Names that nobody came back to. A hub with sessions behind one would have asked within seconds; the plain backend
 * has no stream of ours, and keeps its name until the container ends.
 */
void kname_sweep(struct kp *kp)
{
	uint64_t now = clock_boot_ns();
	struct kname *n, *next;

	HASH_ITER(hh, kp->names, n, next)
	if (!n->reach && !n->job && !(n->linked && n->plain_why[0]) && now - n->used_ns > KP_IDLE_NS)
		kname_free(n);
}
