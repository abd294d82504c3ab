/* Where muxlet cannot run: an ephemeral container that carries it, where that may be; then plain, which says why. */
#define LOG_SUBSYS "kube"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/pods/provider_state.h"
#include "control/kube/pods/visitor.h"

#include <string.h>

#define POLL_MS 500
#define WAIT_NS (30 * NS_PER_SEC) /* until it runs: an image is fetched, perhaps */

static void provider_visit_look(struct kjob *j);

/* Its name is kept as long as n->job says who waits. */
static struct kname *provider_visit_name_of(const struct kjob *j)
{
	struct kname *n = kname_find(j->kp, j->name);

	return n && n->job == j ? n : NULL;
}

/* The pod has it for good, or may have it. */
static void note_added(struct kname *n)
{
	size_t len = strlen(n->visitors_added);

	if (n->visitor_asked[0])
		text_format(n->visitors_added + len, sizeof(n->visitors_added) - len, " %s", n->visitor_asked);
	n->visitor_asked[0] = '\0';
}

static void provider_visit_finish(struct kjob *j, const char *visitor, const char *words)
{
	struct kname *n = provider_visit_name_of(j);
	char why[sizeof(n->plain_why)];

	uv_timer_stop(j->timer);
	j->tick = NULL;
	if (!n) {
		kjob_fail(j, ERR_CONFLICT, "what was known of %s is forgotten", j->name);
		return;
	}
	n->job = NULL;
	text_put(n->visitor, sizeof(n->visitor), visitor);
	note_added(n);
	text_format(why, sizeof(why), "%.220s; ephemeral container: %.150s", n->plain_why, words);
	log_info(&(struct log_ids){.agent = j->name}, "an exec for each session: %s", why);
	j->visited(j, n, why);
}

static void provider_visit_give_up(struct kjob *j, const char *words)
{
	provider_visit_finish(j, "", words);
}

static void wait_on(struct kjob *j, const char *words)
{
	char text[200];

	if (clock_boot_ns() < j->visit_until_ns && !kjob_is_late(j)) {
		j->tick = provider_visit_look;
		kjob_wait(j, POLL_MS);
		return;
	}
	text_format(text, sizeof(text), "it does not run within %u s: %s", (unsigned)(WAIT_NS / NS_PER_SEC), words);
	provider_visit_give_up(j, text);
}

static void provider_visit_on_added(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kname *n = provider_visit_name_of(j);

	(void)reply;
	if (n && !rc)
		note_added(n);
	else if (n && (rc == ERR_K8S_UNREACHABLE || !kp_may_pass(rc))) /* never sent, or refused */
		n->visitor_asked[0] = '\0';
	if (rc == ERR_NOT_FOUND) {
		provider_visit_give_up(j, "this cluster has no ephemeral containers");
	} else if (rc && rc != ERR_K8S_CONFLICT && !kp_may_pass(rc)) {
		provider_visit_give_up(j, e->message);
	} else {
		wait_on(j, rc ? e->message : "it was added just now");
	}
}

static void provider_visit_add(struct kjob *j, struct visitor_plan *plan)
{
	struct kcall c = {KCALL_PATCH, kp_pods(j->ns, j->pod), visitor_patch(plan->container),
			  .kind = KUBE_PATCH_STRATEGIC};
	struct kname *n = provider_visit_name_of(j);
	struct err e = {0};

	if (n)
		text_put(n->visitor_asked, sizeof(n->visitor_asked), plan->name);
	c.ref.subresource = "ephemeralcontainers";
	log_info(&(struct log_ids){.agent = j->name}, "ephemeral container %s is added to pod %s in %s", plan->name,
		 j->pod, j->ns);
	if (kjob_call(j, &c, provider_visit_on_added, &e)) {
		if (n)
			n->visitor_asked[0] = '\0';
		provider_visit_give_up(j, e.message);
	}
}

static void seen(struct kjob *j, const json_t *pod)
{
	const struct visitor_params p = {.target = j->view.container,
					 .image = j->kp->p.spec.ephemeral_image,
					 .pull_policy = j->kp->p.spec.pull_policy,
					 .muxlet = kube_spec_muxlet(&j->kp->p.spec)};
	struct visitor_plan plan = {0};
	struct err e = {0};
	struct kname *n = provider_visit_name_of(j);
	char text[160];
	int rc = visitor_plan(pod, &p, &plan, &e);

	if (n && pod_named(json_object_get(json_object_get(pod, "spec"), "ephemeralContainers"), n->visitor_asked))
		note_added(n); /* the answer was lost, and it was done */
	if (rc) {
		provider_visit_give_up(j, e.message);
	} else if (plan.state == VISITOR_ABSENT) {
		provider_visit_add(j, &plan);
	} else if (plan.state == VISITOR_WAITING) {
		wait_on(j, plan.why);
	} else if (plan.state == VISITOR_RUNNING) {
		text_format(text, sizeof(text), "%s moves files and connects to ports; it stays as long as its pod",
			    plan.name);
		provider_visit_finish(j, plan.name, text);
	} else {
		text_format(text, sizeof(text), "%s: %.110s", plan.name, plan.why);
		provider_visit_give_up(j, text);
	}
}

static void provider_visit_on_pod(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (rc && kp_may_pass(rc))
		wait_on(j, e->message);
	else if (rc)
		provider_visit_give_up(j, e->message);
	else
		seen(j, reply->body);
}

static void provider_visit_look(struct kjob *j)
{
	struct kcall c = {.ref = kp_pods(j->ns, j->pod)};
	struct err e = {0};

	if (!j->call && kjob_call(j, &c, provider_visit_on_pod, &e))
		provider_visit_give_up(j, e.message);
}

void visit_begin(struct kjob *j, struct kname *n, const char *why, visit_next *next)
{
	text_format(n->plain_why, sizeof(n->plain_why), "%.399s", why);
	if (j->ours) { /* they have their init container */
		next(j, n, n->plain_why);
		return;
	}
	n->job = j;
	j->visited = next;
	j->visit_until_ns = clock_boot_ns() + WAIT_NS;
	kjob_set_state(j, KJOB_VISITING);
	if (j->kp->p.spec.ephemeral_image && *j->kp->p.spec.ephemeral_image)
		provider_visit_look(j);
	else
		provider_visit_give_up(j, "kubernetes.ephemeral_image names no image");
}
