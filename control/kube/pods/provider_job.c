/*
 * What every job does by itself: its beginning, its state, its waits, its answer. What the provider is asked is not
 * known here; a wait for a pod that is over is told by kp->pod_tick.
 */
#define LOG_SUBSYS "kube"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/pods/provider_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const state_names[] = {"looking",    "making",   "replacing", "waiting", "ending",
					  "asking why", "reaching", "visiting",  "copying", "tidying"};

void kjob_set_state(struct kjob *j, enum kjob_state s)
{
	if (j->state != s)
		log_debug(&(struct log_ids){.agent = j->name}, "%s: %s -> %s",
			  j->op < SANDBOX_OPS ? sandbox_op_name(j->op) : "set end", state_names[j->state],
			  state_names[s]);
	j->state = s;
}

/* An answer that is none (a proxy's page, say) tells nothing, not whether something was done either. */
bool kp_may_pass(int rc)
{
	return rc == ERR_K8S_UNREACHABLE || rc == ERR_K8S_BUSY || rc == ERR_TIMEOUT || rc == ERR_EOF ||
	       rc == ERR_LINK_LOST || rc == ERR_PROTOCOL;
}

static void provider_job_on_timer(uv_timer_t *t)
{
	struct kjob *j = t->data;
	void (*tick)(struct kjob *) = j->tick ? j->tick : j->kp->pod_tick;

	j->tick = NULL;
	tick(j);
}

bool kjob_is_late(const struct kjob *j)
{
	return clock_boot_ns() >= j->deadline_ns;
}

bool kjob_may_wait(const struct kjob *j, int rc)
{
	if (!kp_may_pass(rc) || kjob_is_late(j))
		return false;
	switch (j->op) {
	case SANDBOX_DESTROY:
	case SANDBOX_WIPE:
	case SANDBOX_TAKE:
	case SANDBOX_RESTORE:
	case SANDBOX_DROP_WORKSPACE:
	case KJOB_SET_END:
		return true;
	case SANDBOX_ENSURE:
	case SANDBOX_STAT: /* a start whose pod lacks something is an end by now */
		return j->dropped.code || (j->ours && clock_boot_ns() - j->began_ns < KP_AWAY_MS * NS_PER_MS);
	default:
		return false; /* whoever asked asks again */
	}
}

void kjob_wait(struct kjob *j, uint64_t ms)
{
	uint64_t now = clock_boot_ns(), left = j->deadline_ns > now ? (j->deadline_ns - now) / NS_PER_MS : 0;

	uv_timer_start(j->timer, provider_job_on_timer, ms < left ? ms : left, 0);
}

void kjob_again(struct kjob *j, void (*tick)(struct kjob *j))
{
	j->tick = tick;
	kjob_wait(j, KP_AGAIN_MS);
}

void kjob_look_again(struct kjob *j, const struct err *why)
{
	j->last = *why;
	kjob_set_state(j, KJOB_LOOKING);
	j->again_ms = !j->again_ms ? KP_AGAIN_MS : j->again_ms * 2 < KP_POLL_MS ? j->again_ms * 2 : KP_POLL_MS;
	kjob_wait(j, j->again_ms);
}

void kjob_poll(struct kjob *j, void (*tick)(struct kjob *j), uint64_t *ms, uint64_t most_ms)
{
	j->tick = tick;
	*ms = *ms * 2 < most_ms ? *ms * 2 : most_ms;
	kjob_wait(j, *ms);
}

/* ---- calls to the API server */

static void provider_job_on_reply(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kjob *j = arg;

	j->call = NULL;
	if (!j->cancelled)
		j->heard(j, rc, e, reply);
}

int kjob_call(struct kjob *j, const struct kcall *c, kjob_heard *heard, struct err *e)
{
	struct kube *k = j->kp->p.kube;
	int rc = ERR_INTERNAL;

	if ((c->verb == KCALL_CREATE || c->verb == KCALL_PATCH) && !c->body)
		return e->code ? e->code
			       : err_set(e, ERR_NOMEM, "no memory for what the cluster is told of %s", j->name);
	j->heard = heard;
	switch (c->verb) {
	case KCALL_GET:
		rc = kube_get(k, &c->ref, provider_job_on_reply, j, &j->call, e);
		break;
	case KCALL_GROUP:
		rc = kube_get_group(k, c->ref.group, provider_job_on_reply, j, &j->call, e);
		break;
	case KCALL_LIST:
		rc = kube_list(k, &c->ref, &c->list, provider_job_on_reply, j, &j->call, e);
		break;
	case KCALL_CREATE:
		rc = kube_create(k, &c->ref, c->body, provider_job_on_reply, j, &j->call, e);
		break;
	case KCALL_PATCH:
		rc = kube_patch(k, &c->ref, c->kind, c->body, provider_job_on_reply, j, &j->call, e);
		break;
	case KCALL_DELETE:
		rc = kube_delete(k, &c->ref, &c->del, provider_job_on_reply, j, &j->call, e);
		break;
	}
	json_decref(c->body);
	return rc;
}

void kjob_put(struct kjob *j, const struct kcall *c, kjob_heard *heard, struct err *e)
{
	int rc = kjob_call(j, c, heard, e);

	if (rc)
		kjob_answer(j, rc, e, NULL, -1);
}

void kjob_get(struct kjob *j, struct kube_ref ref, kjob_heard *heard)
{
	kjob_put(j, &(struct kcall){.ref = ref}, heard, &(struct err){0});
}

void kjob_create(struct kjob *j, struct kube_ref ref, json_t *object, struct err *e, kjob_heard *heard)
{
	kjob_put(j, &(struct kcall){.verb = KCALL_CREATE, .ref = ref, .body = object}, heard, e);
}

void kjob_patch(struct kjob *j, struct kube_ref ref, json_t *merge, kjob_heard *heard)
{
	kjob_put(j, &(struct kcall){.verb = KCALL_PATCH, .ref = ref, .body = merge, .kind = KUBE_PATCH_MERGE}, heard,
		 &(struct err){0});
}

void kjob_delete(struct kjob *j, struct kube_ref ref, const char *uid, int64_t grace_s, kjob_heard *heard)
{
	kjob_put(j, &(struct kcall){.verb = KCALL_DELETE, .ref = ref, .del = {.uid = uid, .grace_s = grace_s}}, heard,
		 &(struct err){0});
}

void kjob_list(struct kjob *j, struct kube_ref ref, const char *labels, const char *next, kjob_heard *heard)
{
	struct kcall c = {KCALL_LIST, ref, .list = {.labels = labels, .limit = KP_PAGE, .continue_ = next}};

	if (next && kjob_is_late(j)) {
		kjob_fail(j, ERR_TIMEOUT, "the list of %s did not end in time", ref.resource);
		return;
	}
	kjob_put(j, &c, heard, &(struct err){0});
}

int kjob_events(struct kjob *j, const char *fields, kjob_heard *heard, struct err *e)
{
	struct kube_ref ref = {.resource = "events", .namespace_ = j->ns};

	return kjob_call(j, &(struct kcall){KCALL_LIST, ref, .list = {.fields = fields, .limit = 100}}, heard, e);
}

bool kjob_next_page(const struct kube_reply *reply, char out[KP_CONTINUE_MAX])
{
	const char *next = json_string_value(json_object_get(json_object_get(reply->body, "metadata"), "continue"));

	return next && *next && text_put(out, KP_CONTINUE_MAX, next) == strlen(next);
}

/* ---- names */

struct kube_ref kp_pods(const char *ns, const char *pod)
{
	return (struct kube_ref){.resource = "pods", .namespace_ = ns, .name = pod};
}

struct kube_ref kp_claims(const char *ns, const char *claim)
{
	return (struct kube_ref){.resource = "persistentvolumeclaims", .namespace_ = ns, .name = claim};
}

/* ---- what its pod is made from */

/* Said ahead of each start (sandbox_provider_ops.pod_template), and good for that one. */
static void take_template(struct kjob *j)
{
	struct kname *n = j->op == SANDBOX_ENSURE || j->op == SANDBOX_RESTORE ? kname_find(j->kp, j->name) : NULL;

	if (!n)
		return;
	j->template = n->to_be;
	n->to_be = NULL;
}

struct kube_pod_spec kjob_spec(const struct kjob *j)
{
	struct kube_pod_spec spec = j->kp->p.spec;

	if (j->template)
		spec.pod_template = j->template;
	if (j->image)
		spec.image = j->image;
	spec.app_id = j->app_id;
	if (*j->cpu)
		spec.limit_cpu = j->cpu, spec.request_cpu = j->cpu_asked;
	if (*j->memory)
		spec.limit_memory = j->memory, spec.request_memory = j->memory_asked;
	return spec;
}

/* ---- beginning and answer */

struct kjob *kjob_begin(struct kp *kp, enum sandbox_op op, const char *name, uint64_t limit_ns, sandbox_done *done,
			void *arg)
{
	struct kjob *j = calloc(1, sizeof(*j));
	struct err e = {0};
	int rc = ERR_NOMEM;

	if (j) {
		j->kp = kp;
		j->op = op;
		j->done = done;
		j->arg = arg;
		text_put(j->name, sizeof(j->name), name);
	}
	if (j && (j->timer = malloc(sizeof(*j->timer))))
		rc = *name ? kp_locate(kp, name, &j->t, j->ns, j->pod, &j->ours, &e) : 0;
	if (!rc && kp->stopping)
		rc = err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	if (!rc) {
		uv_timer_init(kp->loop, j->timer);
		j->timer->data = j;
		j->began_ns = clock_boot_ns();
		j->deadline_ns = j->began_ns + limit_ns;
		take_template(j);
		TAILQ_INSERT_TAIL(&kp->jobs, j, entry);
		return j;
	}
	if (rc == ERR_NOMEM)
		err_set(&e, rc, "no memory for a question about %s", name);
	if (done)
		done(arg, &(struct sandbox_answer){.rc = rc, .e = &e, .name = name, .fd = -1});
	free(j ? j->timer : NULL);
	free(j);
	return NULL;
}

static void provider_job_free_timer(uv_handle_t *h)
{
	free(h);
}

static void kjob_free(struct kjob *j)
{
	struct kname *n;

	if (j->call) {
		struct kube_call *c = j->call;

		j->cancelled = true;
		kube_cancel(c);
	}
	if ((j->state == KJOB_REACHING || j->state == KJOB_VISITING) && (n = kname_find(j->kp, j->name)) &&
	    n->job == j) {
		n->job = NULL;
		reach_destroy(n->reach);
		n->reach = NULL;
	}
	if (j->timer)
		uv_close((uv_handle_t *)j->timer, provider_job_free_timer);
	TAILQ_REMOVE(&j->kp->jobs, j, entry);
	json_decref(j->template);
	free(j->image);
	free(j->list);
	free(j->claims);
	free(j->left);
	free(j->snapshots);
	free(j);
}

/* A field that was dropped is the answer, however the removal of its pod went: that comes behind it. */
static int add_removal(struct err *dropped, const struct err *e)
{
	size_t len = strlen(dropped->message);

	if (e && e->code != dropped->code)
		text_format(dropped->message + len, sizeof(dropped->message) - len, "; it may be there still: %s",
			    e->message);
	return dropped->code;
}

void kjob_answer(struct kjob *j, int rc, const struct err *why, const struct sandbox_info *info, int fd)
{
	struct err dropped = j->dropped;
	const struct err *e = dropped.code ? &dropped : why;
	struct sandbox_answer a;
	struct sandbox_info *list = j->list;
	struct sandbox_snapshot *snapshots = j->snapshots;
	char name[AGENT_NAME_MAX + 1];
	sandbox_done *done = j->done;
	void *arg = j->arg;

	if (dropped.code)
		rc = add_removal(&dropped, why);
	a = (struct sandbox_answer){.rc = rc, .e = rc ? e : NULL, .name = name, .fd = rc ? -1 : fd};
	text_put(name, sizeof(name), j->name);
	if (!rc && j->op == SANDBOX_LIST)
		a.info = list, a.n = j->nlist;
	else if (!rc && info)
		a.info = info, a.n = 1;
	else if (!rc)
		a.snapshots = snapshots, a.n = j->nsnapshots;
	j->list = NULL;
	j->snapshots = NULL;
	kjob_free(j); /* the callee may ask again, or destroy the provider */
	if (done)
		done(arg, &a);
	free(list);
	free(snapshots);
}

void kjob_answer_last(struct kjob *j)
{
	struct err why = j->last; /* the job goes with its answer */

	kjob_answer(j, why.code, &why, NULL, -1);
}

void kjob_fail(struct kjob *j, int rc, const char *fmt, ...)
{
	char text[ERR_MESSAGE_MAX];
	struct err e = {0};
	va_list ap;

	va_start(ap, fmt);
	text_vformat(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(&e, rc, "%s", text);
	kjob_answer(j, rc, &e, NULL, -1);
}

/* A pod out of a pool is known by its Sandbox; its agent's annotation comes a little later. */
static int pooled_view(const struct kjob *j, const json_t *pod, struct pod_view *out, struct err *e)
{
	if (!pod_is_owned_by(pod, j->box_uid))
		return err_set(e, ERR_K8S_CONFLICT, "pod %s in %s is not that of Sandbox %s", j->pod, j->ns, j->box);
	if ((j->op == SANDBOX_ENSURE || j->op == SANDBOX_CONNECT) && !pod_has_role(pod))
		return err_set(e, ERR_UNSUPPORTED,
			       "pod %s in %s lacks the label " KUBE_SELECTOR
			       ", by which it is watched and fenced: the template of warm pool %s has to carry it",
			       j->pod, j->ns, j->kp->p.spec.warm_pool);
	return pod_view(pod, j->t.container, out, e);
}

int kjob_view(const struct kjob *j, const json_t *pod, struct pod_view *out, struct err *e)
{
	if (j->ours && j->box[0])
		return pooled_view(j, pod, out, e);
	if (j->ours && !pod_is_sandbox_of(pod, j->t.agent))
		return err_set(e, ERR_K8S_CONFLICT, "pod %s in %s is not the sandbox of %s: muxd did not make it",
			       j->pod, j->ns, j->t.agent);
	return pod_view(pod, j->t.container, out, e);
}

void kjob_answer_workspace(struct kjob *j)
{
	struct sandbox_info info = {.backend = SANDBOX_LINK};

	text_put(info.agent, sizeof(info.agent), j->name);
	info.has_workspace = j->op == SANDBOX_RESTORE;
	info.state = info.has_workspace ? SANDBOX_STOPPED : SANDBOX_ABSENT;
	kjob_answer(j, 0, NULL, &info, -1);
}
