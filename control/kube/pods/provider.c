/* The provider of pods: its calls, and who takes what a job's look at its pod has found. */
#define LOG_SUBSYS "kube"
#include "control/kube/pods/provider.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/pods/provider_state.h"
#include "control/kube/pods/template_own.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- jobs */

static void resolve_seen(struct kjob *j, const json_t *pod)
{
	struct pod_view v = {0};
	struct err e = {0};
	int rc;

	if (!pod) {
		kjob_fail(j, ERR_NOT_FOUND, "there is no pod %s in %s", j->pod, j->ns);
		return;
	}
	rc = kjob_view(j, pod, &v, &e);
	if (!rc && snprintf(j->name, sizeof(j->name), "%s/%s/%s", j->ns, j->pod, v.container) >= (int)sizeof(j->name))
		rc = err_set(&e, ERR_INVAL, "the name of pod %.64s... is too long", j->pod);
	kjob_answer(j, rc, &e, NULL, -1);
}

/* Of each operation: how long it may take, how it begins, and who takes what a look at its pod has found. */
struct call {
	uint64_t limit_ms;
	void (*begin)(struct kjob *j, const struct sandbox_ask *q);
	void (*seen)(struct kjob *j, const json_t *pod);
};
static const struct call *call_of(const struct kjob *j);

static void provider_on_look(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (rc == ERR_NOT_FOUND) {
		call_of(j)->seen(j, NULL);
	} else if (kjob_may_wait(j, rc)) {
		j->last = *e;
		kjob_again(j, j->kp->pod_look);
	} else if (rc) {
		kjob_answer(j, rc, e, NULL, -1);
	} else {
		call_of(j)->seen(j, reply->body);
	}
}

static void kjob_look(struct kjob *j)
{
	if (!j->call)
		kjob_get(j, kp_pods(j->ns, j->pod), provider_on_look);
}

/* A wait for a pod is over. */
static void pod_tick(struct kjob *j)
{
	if (j->op == SANDBOX_DESTROY || j->op == SANDBOX_WIPE)
		end_tick(j);
	else
		wake_tick(j);
}

/* What is about a pod, or about a Sandbox that holds one. */
static void pod_begin(struct kjob *j, const struct sandbox_ask *q)
{
	(void)q;
	if (j->ours && kp_pooled(j->kp))
		pool_begin(j);
	else if (j->ours && j->kp->p.spec.hold == KUBE_HOLD_SANDBOX &&
		 (j->op == SANDBOX_DESTROY || j->op == SANDBOX_WIPE)) /* the hub has audited its reason */
		hold_let_go(j);
	else
		kjob_look(j);
}

static void resolve_begin(struct kjob *j, const struct sandbox_ask *q)
{
	(void)q;
	if (j->ours)
		kjob_answer(j, 0, NULL, NULL, -1);
	else
		kjob_look(j);
}

/* ---- the calls */

static const struct call calls[SANDBOX_OPS] = {
    [SANDBOX_ENSURE] = {KP_CREATE_MS, pod_begin, wake_seen},
    [SANDBOX_CONNECT] = {KP_CONNECT_MS, pod_begin, wake_seen},
    [SANDBOX_STAT] = {KP_CONNECT_MS, pod_begin, stat_seen},
    [SANDBOX_DESTROY] = {KP_END_MS, pod_begin, end_seen},
    [SANDBOX_WIPE] = {KP_WIPE_MS, pod_begin, end_seen},
    [SANDBOX_LIST] = {KP_CONNECT_MS, list_begin, NULL},
    [SANDBOX_RESOLVE] = {KP_CONNECT_MS, resolve_begin, resolve_seen},
    [SANDBOX_TAKE] = {KP_COPY_MS, take_begin, NULL},
    [SANDBOX_SNAPSHOTS] = {KP_CONNECT_MS, snapshots_begin, NULL},
    [SANDBOX_DROP] = {KP_CONNECT_MS, drop_begin, NULL},
    [SANDBOX_SWEEP] = {KP_SWEEP_MS, sweep_begin, NULL},
    [SANDBOX_RESTORE] = {KP_COPY_MS, restore_begin, restore_seen},
    [SANDBOX_DROP_WORKSPACE] = {KP_CONNECT_MS, drop_workspace_begin, restore_seen},
};

static const struct call *call_of(const struct kjob *j)
{
	return &calls[j->op];
}

static uint64_t limit_of(const struct kp *kp, const struct sandbox_ask *q)
{
	uint64_t ns = calls[q->op].limit_ms * NS_PER_MS;

	if (q->op == SANDBOX_ENSURE && kp->p.create_timeout_ns)
		ns = kp->p.create_timeout_ns;
	if (q->op == SANDBOX_ENSURE && kp->p.spec.hold == KUBE_HOLD_SANDBOX && ns > KP_HOLD_NS)
		ns = KP_HOLD_NS;
	return q->timeout_ns ? q->timeout_ns : ns;
}

/* The reference that a name stands for; NULL: none, and none for pods of a pool. */
static const char *image_of(const struct kp *kp, const char *name)
{
	const struct kube_pod_spec *s = &kp->p.spec;

	for (size_t i = 0; !kp_pooled(kp) && i < s->nimages; i++)
		if (strcmp(s->images[i].key, name) == 0)
			return s->images[i].value;
	return NULL;
}

/* A reload may take the list away while the job goes on. On an error the job has failed. */
static int take_image(struct kjob *j, const char *name)
{
	const char *ref = image_of(j->kp, name);
	int rc = !ref ? ERR_IMAGE_DENIED : (j->image = strdup(ref)) ? 0 : ERR_NOMEM;

	if (rc == ERR_IMAGE_DENIED)
		kjob_fail(j, rc, "sandbox.images has no ref for %.128s", name);
	else if (rc)
		kjob_fail(j, rc, "no memory for the image of %s", j->name);
	return rc;
}

/* Limits as asked, at most those of every pod; a request above its limit would be refused, so it follows. */
static void take_resources(struct kjob *j, const struct resources *asked)
{
	const struct kube_pod_spec *s = &j->kp->p.spec;
	const struct resources most = resources_quantities(s->limit_cpu, s->limit_memory);
	const struct resources r = resources_clip(asked, &most);
	const struct resources request = resources_quantities(s->request_cpu, s->request_memory);

	if (asked->cpu_milli) {
		resources_cpu_text(r.cpu_milli, j->cpu);
		if (request.cpu_milli)
			resources_cpu_text(resources_clip(&request, &r).cpu_milli, j->cpu_asked);
	}
	if (asked->memory) {
		resources_memory_text(r.memory, j->memory);
		if (request.memory)
			resources_memory_text(resources_clip(&request, &r).memory, j->memory_asked);
	}
}

static void provider_ask(struct sandbox_provider *p, const struct sandbox_ask *q, sandbox_done *done, void *arg)
{
	struct kp *kp = (struct kp *)p;
	struct kjob *j;

	if (q->op == SANDBOX_LOG) {
		kp_log(kp, q, done, arg);
		return;
	}
	j = kjob_begin(kp, q->op, q->agent ? q->agent : "", limit_of(kp, q), done, arg);
	if (j && q->image && *q->image && take_image(j, q->image))
		return;
	if (j && !resources_none(&q->resources) && kp_pooled(kp))
		kjob_fail(
		    j, ERR_UNSUPPORTED,
		    "pods of kubernetes.warm_pool have the resources of their template: take the agent's own away, "
		    "resources: null");
	else if (j) {
		take_resources(j, &q->resources);
		j->empty = q->empty;
		text_put(j->app_id, sizeof(j->app_id), q->app_id ? q->app_id : "");
		calls[q->op].begin(j, q);
	}
}

static void set_end(struct sandbox_provider *p, const char *agent, int64_t end_wall_ns, bool runs)
{
	struct kp *kp = (struct kp *)p;
	struct kname *n = kp->p.spec.hold == KUBE_HOLD_SANDBOX ? kname_get(kp, agent) : NULL;
	struct kjob *j;

	if (!n || !n->ours)
		return;
	n->used_ns = clock_boot_ns();
	n->end_ns = end_wall_ns;
	if (runs && (j = kjob_begin(kp, KJOB_SET_END, agent, KP_END_MS * NS_PER_MS, NULL, NULL)))
		kp_pooled(kp) ? pool_begin(j) : hold_set_end(j);
}

static int pod_template(struct sandbox_provider *p, const char *agent, const char *own, bool to_be,
			char effective[SANDBOX_DIGEST_LEN], struct err *e)
{
	struct kp *kp = (struct kp *)p;
	const struct kube_pod_spec *s = &kp->p.spec;
	const struct template_rules rules = {s->template_config_maps, s->template_secrets, s->template_claims,
					     s->template_priorities, kube_spec_muxlet(s)};
	struct kname *n = to_be ? kname_get(kp, agent) : NULL;
	json_t *t = NULL;
	int rc = to_be && !n ? err_set(e, ERR_NOMEM, "no memory for the pod template of %.100s", agent) : 0;

	if (!rc && kp_pooled(kp) && *own)
		rc = err_set(e, ERR_UNSUPPORTED,
			     "a pod template of an agent's own says nothing to the pods of kubernetes.warm_pool, which "
			     "have one of their own");
	if (!rc)
		rc = template_own_merge(s->pod_template, own, &rules, &t, e);
	if (rc)
		return rc;
	template_digest(t, effective);
	if (n) {
		json_decref(n->to_be);
		n->to_be = *own ? json_incref(t) : NULL;
		n->used_ns = clock_boot_ns();
	}
	json_decref(t);
	return 0;
}

/* ---- life */

static void provider_destroy(struct sandbox_provider *p)
{
	struct kp *kp = (struct kp *)p;
	struct kname *n, *next;
	struct kgoing *g;
	struct kjob *j;

	kp->stopping = true;
	kp->base.gone = NULL;
	while ((j = TAILQ_FIRST(&kp->jobs)))
		kjob_fail(j, ERR_CANCELLED, "the daemon is stopping");
	HASH_ITER(hh, kp->names, n, next)
	kname_free(n);
	while ((g = LIST_FIRST(&kp->going))) {
		LIST_REMOVE(g, entry);
		free(g);
	}
	kube_watch_destroy(kp->watch);
	program_finish(&kp->program);
	explicit_bzero(kp->p.master, sizeof(kp->p.master));
	kube_spec_finish(&kp->p.spec);
	free(kp);
}

static const struct sandbox_provider_ops provider_ops = {
    .ask = provider_ask, .set_end = set_end, .pod_template = pod_template, .destroy = provider_destroy};

int kube_provider_renew(struct sandbox_provider *p, const struct kube_pod_spec *spec)
{
	return kube_spec_renew(&((struct kp *)p)->p.spec, spec);
}

int kube_provider_create(const struct kube_provider_params *p, struct sandbox_provider **out, struct err *e)
{
	struct kp *kp = calloc(1, sizeof(*kp));
	int rc = ERR_NOMEM;

	if (!kp)
		return err_set(e, rc, "no memory for sandboxes in the cluster");
	kp->base.ops = &provider_ops;
	kp->base.can = SANDBOX_CAN_ALL & ~SANDBOX_CAN(SANDBOX_HASH);
	if (p->spec.workspace != WORKSPACE_CLAIM && !(p->spec.warm_pool && *p->spec.warm_pool))
		kp->base.workspace_goes =
		    p->spec.workspace == WORKSPACE_MEMORY
			? "kubernetes.workspace is memory, which goes with the pod; claim outlives it"
			: "kubernetes.workspace is emptydir, which goes with the pod; claim outlives it";
	kp->p = *p;
	kp->pod_look = kjob_look;
	kp->pod_tick = pod_tick;
	memset(&kp->p.spec, 0, sizeof(kp->p.spec));
	kp->loop = kube_client_loop(p->kube);
	kp->creds = kube_client_creds(p->kube);
	TAILQ_INIT(&kp->jobs);
	LIST_INIT(&kp->going);
	if (p->spec.warm_pool && *p->spec.warm_pool && p->spec.hold != KUBE_HOLD_SANDBOX)
		rc = err_set(e, ERR_CONFIG, "kubernetes.warm_pool needs kubernetes.hold: sandbox");
	else if (p->spec.warm_pool && *p->spec.warm_pool && p->spec.pod_template)
		rc = err_set(e, ERR_CONFIG,
			     "kubernetes.pod_template says nothing to the pods of kubernetes.warm_pool: put it into "
			     "the SandboxTemplate of %.100s, and leave it empty",
			     p->spec.warm_pool);
	else if (kube_spec_copy(&p->spec, &kp->p.spec))
		err_set(e, rc, "no memory for sandboxes in the cluster");
	else
		rc = program_read(p->muxlet_fd, &kp->program, e);
	if (kp_pooled(kp)) /* its workspace is the template's own: no claim of it is made, found or copied here */
		kp->p.spec.workspace = WORKSPACE_EMPTYDIR;
	if (!rc)
		rc = watch_start(kp, e);
	if (rc) {
		provider_destroy(&kp->base);
		return rc;
	}
	*out = &kp->base;
	return 0;
}
