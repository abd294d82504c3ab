/* stat and list: what there is, and what a pod promises. */
#define LOG_SUBSYS "kube"
#include "base/text.h"
#include "control/kube/pods/provider_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a pod promises */

static void say_size(char *out, size_t size, uint64_t bytes)
{
	if (bytes % (1 << 20) == 0 && bytes)
		snprintf(out, size, "%llu MiB", (unsigned long long)(bytes >> 20));
	else
		snprintf(out, size, "%llu bytes", (unsigned long long)bytes);
}

/* What does not hold, in words. The cap is true where the file system itself is no larger: muxlet has looked. */
static void describe_limits(const struct kp *kp, const struct pod_view *v, uint64_t measured, struct sandbox_info *out)
{
	uint64_t cap = kp->p.spec.workspace_size;
	char size[32], text[200] = "";

	out->memory_enforced = v->memory_limit;
	out->cpu_enforced = v->cpu_limit;
	out->cap_enforced = measured && measured <= cap + cap / 16;
	say_size(size, sizeof(size), cap);
	if (measured && !out->cap_enforced)
		text_format(text, sizeof(text), "workspace cap not enforced: its file system holds %llu MiB, not %s; ",
			    (unsigned long long)(measured >> 20), size);
	else if (!measured && kp_pooled(kp))
		text_format(text, sizeof(text), "workspace and limits as the template of warm pool %.60s has them; ",
			    kp->p.spec.warm_pool);
	else if (!measured && kp->p.spec.workspace == WORKSPACE_EMPTYDIR)
		text_format(
		    text, sizeof(text),
		    "workspace cap not enforced at the write: it is on the node's disk, and past %s the kubelet "
		    "evicts the pod; ",
		    size);
	text_format(out->detail, sizeof(out->detail), "%s%s%s", text, v->memory_limit ? "" : "no memory limit; ",
		    "processes: what the node allows");
}

static void describe_unguarded(struct sandbox_info *out)
{
	char text[sizeof(out->detail)];

	text_format(text, sizeof(text), "programs can reach for muxlet: the runtime refuses seccomp(); %s",
		    out->detail);
	text_put(out->detail, sizeof(out->detail), text);
}

void kp_describe(const struct kp *kp, const char *name, bool ours, const struct pod_view *v, struct sandbox_info *out)
{
	static const enum sandbox_state states[] = {SANDBOX_STOPPED, SANDBOX_ERROR, SANDBOX_RUNNING, SANDBOX_STOPPED};
	struct kname *n = kname_find((struct kp *)(uintptr_t)kp, name);
	char ns[AGENT_NAME_MAX + 1], pod[AGENT_NAME_MAX + 1];
	struct id incarnation;
	struct target t;
	bool own, reached;

	memset(out, 0, sizeof(*out));
	if (kp_locate(kp, name, &t, ns, pod, &own, NULL) == 0) {
		text_format(out->ns, sizeof(out->ns), "%.63s", ns);
		text_format(out->pod, sizeof(out->pod), "%.63s", n ? n->pod : pod);
	}
	text_put(out->agent, sizeof(out->agent), name);
	out->state = states[v->state];
	out->ending = v->deleting;
	out->backend = SANDBOX_LINK;
	out->created_wall_ns = v->created_ns;
	pod_incarnation(v, &incarnation);
	if (v->container_id[0])
		out->sandbox_id = incarnation;
	out->has_workspace = ours && v->claim[0];
	if (ours)
		text_put(out->pod_template, sizeof(out->pod_template), v->pod_template);
	reached = v->state == POD_RUNNING && n && n->linked && id_equal(&n->incarnation, &incarnation);
	if (v->state != POD_RUNNING) {
		text_format(out->detail, sizeof(out->detail), "%.255s", v->why);
	} else if (ours) {
		describe_limits(kp, v, reached ? n->reached.joined.workspace_size : 0, out);
	} else {
		out->memory_enforced = v->memory_limit;
		out->cpu_enforced = v->cpu_limit;
		snprintf(out->detail, sizeof(out->detail), "a pod of others: its limits are theirs");
	}
	if (reached && n->reached.joined.unguarded)
		describe_unguarded(out);
}

/* ---- one */

/* What is there without a pod that runs. */
static void describe_absent(const struct kjob *j, struct sandbox_info *info)
{
	text_put(info->agent, sizeof(info->agent), j->name);
	info->backend = SANDBOX_LINK;
}

static void stat_answer(struct kjob *j)
{
	struct sandbox_info info = {0};
	struct kname *n;

	if (j->there)
		kp_describe(j->kp, j->name, j->ours, &j->view, &info);
	else
		describe_absent(j, &info);
	info.has_workspace = (j->claim.name[0] && !j->claim.lost) || j->keeps[0];
	info.workspace_lost = j->claim.name[0] && j->claim.lost;
	if (!j->there && j->box[0])
		info.state = SANDBOX_STOPPED;
	if (!j->there && j->claim.name[0]) {
		info.state = SANDBOX_STOPPED;
		if (j->claim.lost)
			text_format(info.detail, sizeof(info.detail), "the volume of claim %.180s is lost",
				    j->claim.name);
	}
	n = kname_find(j->kp, j->name);
	if (n && n->linked && id_equal(&n->incarnation, &info.sandbox_id)) {
		info.backend = n->plain_why[0] ? SANDBOX_PLAIN : SANDBOX_LINK;
		text_format(info.why, sizeof(info.why), "%.399s", n->plain_why);
		text_put(info.delivery, sizeof(info.delivery), n->visitor[0] ? "ephemeral" : n->reached.delivery);
		text_put(info.visitor, sizeof(info.visitor), n->visitor);
	}
	kjob_answer(j, 0, NULL, &info, -1);
}

void stat_seen(struct kjob *j, const json_t *pod)
{
	struct err e = {0};
	int rc = pod ? kjob_view(j, pod, &j->view, &e) : 0;

	j->there = pod != NULL;
	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
	else if (j->ours && j->kp->p.spec.workspace == WORKSPACE_CLAIM)
		claims_get(j, stat_answer);
	else
		stat_answer(j);
}

/* ---- all, page by page: first the pods, then the claims */

static int list_room(struct kjob *j, size_t n)
{
	struct sandbox_info *all = realloc(j->list, (j->nlist + n + 1) * sizeof(*all));

	if (all)
		j->list = all;
	return all ? 0 : ERR_NOMEM;
}

static int list_pods(struct kjob *j, const json_t *items)
{
	size_t i;
	json_t *o;

	if (list_room(j, json_array_size(items)))
		return ERR_NOMEM;
	json_array_foreach((json_t *)(uintptr_t)items, i, o)
	{
		struct pod_view v;

		if (pod_view(o, KUBE_CONTAINER, &v, NULL) || !v.agent[0] || agent_name_check(v.agent, NULL))
			continue; /* labelled like ours by somebody else */
		kp_describe(j->kp, v.agent, true, &v, &j->list[j->nlist++]);
	}
	return 0;
}

static int by_agent(const void *a, const void *b)
{
	const struct sandbox_info *x = a, *y = b;

	return strcmp(x->agent, y->agent);
}

/* j->at: how many of the list are pods, and sorted. Agents without one come behind them, once for each claim. */
static int list_claims(struct kjob *j, const json_t *items)
{
	size_t i;
	json_t *o;

	if (list_room(j, json_array_size(items)))
		return ERR_NOMEM;
	json_array_foreach((json_t *)(uintptr_t)items, i, o)
	{
		struct sandbox_info key = {.backend = SANDBOX_LINK, .state = SANDBOX_STOPPED, .has_workspace = true},
				    *it;
		struct claim_view c;

		if (claim_view(o, &c, NULL) || agent_name_check(c.agent, NULL) || c.state == CLAIM_NEXT ||
		    c.state == CLAIM_KEPT || c.deleting || c.lost)
			continue;
		text_put(key.agent, sizeof(key.agent), c.agent);
		it = j->at ? bsearch(&key, j->list, j->at, sizeof(key), by_agent) : NULL;
		if (it)
			it->has_workspace = true;
		else
			j->list[j->nlist++] = key;
	}
	return 0;
}

static void list_finish(struct kjob *j)
{
	size_t n = 0;

	qsort(j->list + j->at, j->nlist - j->at, sizeof(*j->list), by_agent);
	for (size_t i = 0; i < j->nlist; i++)
		if (i <= j->at || strcmp(j->list[i].agent, j->list[n - 1].agent) != 0)
			j->list[n++] = j->list[i];
	j->nlist = n;
	kjob_answer(j, 0, NULL, NULL, -1);
}

static void provider_view_list_page(struct kjob *j, const char *next);

static void pods_listed(struct kjob *j)
{
	if (j->nlist)
		qsort(j->list, j->nlist, sizeof(*j->list), by_agent);
	j->at = j->nlist;
	j->there = true;
	if (j->kp->p.spec.workspace == WORKSPACE_CLAIM)
		provider_view_list_page(j, NULL);
	else
		kjob_answer(j, 0, NULL, NULL, -1);
}

static void provider_view_on_page(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	const json_t *items = json_object_get(reply->body, "items");
	struct err nomem = {0};
	char next[KP_CONTINUE_MAX];

	if (!rc && (rc = j->there ? list_claims(j, items) : list_pods(j, items))) {
		err_set(&nomem, rc, "no memory for the list of sandboxes");
		e = &nomem;
	}
	if (rc)
		kjob_answer(j, rc, e, NULL, -1);
	else if (kjob_next_page(reply, next))
		provider_view_list_page(j, next);
	else if (j->there)
		list_finish(j);
	else
		pods_listed(j);
}

/* there: the pods are. */
static void provider_view_list_page(struct kjob *j, const char *next)
{
	const char *ns = j->kp->p.spec.ns;

	kjob_list(j, j->there ? kp_claims(ns, NULL) : kp_pods(ns, NULL), KUBE_SELECTOR, next, provider_view_on_page);
}

void list_begin(struct kjob *j, const struct sandbox_ask *q)
{
	(void)q;
	provider_view_list_page(j, NULL);
}
