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

#define CREATE_TIMEOUT_NS (120 * NS_PER_SEC)

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

static void seen(struct kjob *j, const json_t *pod)
{
	switch (j->kind) {
	case KJOB_ENSURE:
	case KJOB_CONNECT:
		wake_seen(j, pod);
		break;
	case KJOB_STAT:
		stat_seen(j, pod);
		break;
	case KJOB_DESTROY:
	case KJOB_WIPE:
		end_seen(j, pod);
		break;
	case KJOB_RESOLVE:
		resolve_seen(j, pod);
		break;
	case KJOB_RESTORE:
	case KJOB_DROP_WORKSPACE:
		restore_seen(j, pod);
		break;
	case KJOB_LIST:
	case KJOB_TAKE:
	case KJOB_SNAPSHOTS:
	case KJOB_DROP:
	case KJOB_SWEEP:
	case KJOB_SET_END:
		break;
	}
}

static void look_again(struct kjob *j)
{
	j->tick = NULL;
	j->kp->pod_look(j);
}

static void on_look(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;

	j->call = NULL;
	if (j->cancelled)
		return;
	if (rc == ERR_NOT_FOUND) {
		seen(j, NULL);
	} else if (kjob_may_wait(j, rc)) {
		j->last = *e;
		j->tick = look_again;
		kjob_wait(j, KP_AGAIN_MS);
	} else if (rc) {
		kjob_answer(j, rc, e, NULL, -1);
	} else {
		seen(j, reply->body);
	}
}

static void kjob_look(struct kjob *j)
{
	struct kube_ref ref = kp_pods(j->ns, j->pod);
	struct err e = {0};
	int rc;

	if (j->call)
		return;
	rc = kube_get(j->kp->p.kube, &ref, on_look, j, &j->call, &e);
	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
}

/* A wait for a pod is over. */
static void pod_tick(struct kjob *j)
{
	if (j->kind == KJOB_DESTROY || j->kind == KJOB_WIPE)
		end_tick(j);
	else
		wake_tick(j);
}

static void ask(struct sandbox_provider *p, enum kjob_kind kind, const char *name, uint64_t limit_ns,
		sandbox_done *done, void *arg)
{
	struct kjob *j = kjob_begin(p, kind, name, limit_ns, &(struct kjob){.done = done, .arg = arg});

	if (j && j->ours && kp_pooled(j->kp))
		pool_begin(j);
	else if (j && j->ours && j->kp->p.spec.hold == KUBE_HOLD_SANDBOX && (kind == KJOB_DESTROY || kind == KJOB_WIPE))
		hold_let_go(j);
	else if (j)
		kjob_look(j);
}

/* ---- the calls */

static void ensure(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	const struct kube_provider_params *params = &((struct kp *)p)->p;
	uint64_t limit = params->create_timeout_ns ? params->create_timeout_ns : CREATE_TIMEOUT_NS;

	if (params->spec.hold == KUBE_HOLD_SANDBOX && limit > KP_HOLD_NS)
		limit = KP_HOLD_NS;
	ask(p, KJOB_ENSURE, agent, limit, done, arg);
}

static void connect_to(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	ask(p, KJOB_CONNECT, agent, KP_CONNECT_MS * NS_PER_MS, done, arg);
}

static void stat_one(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	ask(p, KJOB_STAT, agent, KP_CONNECT_MS * NS_PER_MS, done, arg);
}

static void end_one(struct sandbox_provider *p, const char *agent, const char *reason, sandbox_done *done, void *arg)
{
	(void)reason; /* the hub has audited it */
	ask(p, KJOB_DESTROY, agent, KP_END_MS * NS_PER_MS, done, arg);
}

static void wipe_one(struct sandbox_provider *p, const char *agent, const char *reason, sandbox_done *done, void *arg)
{
	(void)reason;
	ask(p, KJOB_WIPE, agent, KP_WIPE_MS * NS_PER_MS, done, arg);
}

static void resolve(struct sandbox_provider *p, const char *name, sandbox_name_done *done, void *arg)
{
	struct kjob *j =
	    kjob_begin(p, KJOB_RESOLVE, name, KP_CONNECT_MS * NS_PER_MS, &(struct kjob){.name_done = done, .arg = arg});

	if (!j)
		return;
	if (j->ours)
		kjob_answer(j, 0, NULL, NULL, -1);
	else
		kjob_look(j);
}

static void list_all(struct sandbox_provider *p, sandbox_list_done *done, void *arg)
{
	struct kjob *j =
	    kjob_begin(p, KJOB_LIST, "", KP_CONNECT_MS * NS_PER_MS, &(struct kjob){.list_done = done, .arg = arg});

	if (j)
		list_begin(j);
}

static void set_end(struct sandbox_provider *p, const char *agent, int64_t end_wall_ns, bool runs)
{
	static const struct kjob nobody;
	struct kp *kp = (struct kp *)p;
	struct kname *n = kp->p.spec.hold == KUBE_HOLD_SANDBOX ? kname_get(kp, agent) : NULL;
	struct kjob *j;

	if (!n || !n->ours)
		return;
	n->used_ns = clock_boot_ns();
	n->end_ns = end_wall_ns;
	if (runs && (j = kjob_begin(p, KJOB_SET_END, agent, KP_END_MS * NS_PER_MS, &nobody)))
		kp_pooled(kp) ? pool_set_end(j) : hold_set_end(j);
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

static void destroy(struct sandbox_provider *p)
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

static const struct sandbox_provider_ops provider_ops = {.ensure = ensure,
							 .connect = connect_to,
							 .stat = stat_one,
							 .destroy_sandbox = end_one,
							 .wipe = wipe_one,
							 .list = list_all,
							 .resolve = resolve,
							 .log = kp_log,
							 .snapshot_take = provider_take,
							 .snapshot_list = provider_snapshots,
							 .snapshot_drop = provider_drop,
							 .snapshot_sweep = provider_sweep,
							 .restore = provider_restore,
							 .drop_workspace = provider_drop_workspace,
							 .set_end = set_end,
							 .pod_template = pod_template,
							 .destroy = destroy};

int kube_provider_create(const struct kube_provider_params *p, struct sandbox_provider **out, struct err *e)
{
	struct kp *kp = calloc(1, sizeof(*kp));
	int rc = ERR_NOMEM;

	if (!kp)
		return err_set(e, rc, "no memory for sandboxes in the cluster");
	kp->base.ops = &provider_ops;
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
		destroy(&kp->base);
		return rc;
	}
	*out = &kp->base;
	return 0;
}
