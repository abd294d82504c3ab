/* ensure and connect: from a name to a running container and a stream into it. */
#define LOG_SUBSYS "kube"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/pods/provider_state.h"
#include "control/kube/pods/template.h"

#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what only this hub and this container know */

static int derive(const struct kp *kp, const char *what, const struct pod_view *v, uint8_t out[SANDBOX_SECRET_LEN])
{
	char text[POD_UID_MAX + POD_CID_MAX + 64];
	unsigned n = 0;
	int len = snprintf(text, sizeof(text), "%s|%s|%s", what, v->uid, v->container_id);

	return HMAC(EVP_sha256(), kp->p.master, sizeof(kp->p.master), (const uint8_t *)text, (size_t)len, out, &n)
		   ? 0
		   : ERR_NOMEM;
}

/* The socket's name says nothing of the secret, and two hubs never have one name. */
static int socket_name(const struct kp *kp, const struct pod_view *v, char out[64])
{
	uint8_t digest[SANDBOX_SECRET_LEN];
	int rc = derive(kp, "socket", v, digest), at = snprintf(out, 64, "muxd-");

	for (int i = 0; i < 12; i++)
		snprintf(out + at + 2 * i, 3, "%02x", digest[i]);
	return rc;
}

/* Wall clock, because muxlet may outlive this machine's boot; never twice the same. */
static uint64_t next_epoch(struct kp *kp)
{
	int64_t wall = clock_wall_ns();
	uint64_t now = wall > 0 ? (uint64_t)wall : 0;

	kp->epoch = now > kp->epoch ? now : kp->epoch + 1;
	return kp->epoch;
}

/* ---- the last steps: a stream, and the answer */

static void answer_with(struct kjob *j, struct kname *n, int fd)
{
	struct sandbox_info info;
	struct err e = {0};

	kp_describe(j->kp, j->name, j->ours, &n->view, &info);
	info.epoch = next_epoch(j->kp);
	info.backend = n->plain_why[0] ? SANDBOX_PLAIN : SANDBOX_LINK;
	text_format(info.why, sizeof(info.why), "%.399s",
		    n->plain_why[0] ? n->plain_why : "muxlet runs in the container");
	text_put(info.delivery, sizeof(info.delivery), n->visitor[0] ? "ephemeral" : n->reached.delivery);
	text_put(info.visitor, sizeof(info.visitor), n->visitor);
	text_put(info.visitors_added, sizeof(info.visitors_added), n->visitors_added);
	if (derive(j->kp, "link", &n->view, info.secret)) {
		close(fd);
		err_set(&e, ERR_NOMEM, "no memory for the link's secret");
		kjob_answer(j, e.code, &e, NULL, -1);
		return;
	}
	n->visitors_added[0] = '\0';
	kjob_answer(j, 0, NULL, &info, fd);
	explicit_bzero(&info, sizeof(info));
}

/* What was known of another incarnation is not true of this one. */
static struct kname *take_name(struct kjob *j)
{
	struct kname *n;
	struct id incarnation;

	kname_sweep(j->kp);
	n = kname_get(j->kp, j->name);
	if (!n)
		return NULL;
	n->used_ns = clock_boot_ns();
	if (n->job)
		kjob_fail(n->job, ERR_CONFLICT, "a newer question about %s took its place", j->name);
	pod_incarnation(&j->view, &incarnation);
	if (!id_equal(&incarnation, &n->incarnation))
		kname_forget(n);
	reach_destroy(n->reach); /* the hub asks for a stream because it has none */
	n->reach = NULL;
	n->incarnation = incarnation;
	n->view = j->view;
	return n;
}

static void begin_plain(struct kjob *j, struct kname *n, const char *why)
{
	struct kube_plain_target t = {.agent = j->name,
				      .ns = j->ns,
				      .pod = j->pod,
				      .container = j->view.container,
				      .visitor = n->visitor[0] ? n->visitor : NULL,
				      .muxlet = kube_spec_muxlet(&j->kp->p.spec),
				      .creds = j->kp->creds,
				      .rc = j->kp->p.rc};
	struct err e = {0};
	int fd = -1, rc = derive(j->kp, "link", &j->view, t.secret);

	if (!rc)
		rc = j->kp->p.plain(j->kp->p.plain_arg, &t, &fd, &e);
	explicit_bzero(&t, sizeof(t));
	if (rc) {
		kjob_answer(j, rc, &e, NULL, -1);
		return;
	}
	if (why != n->plain_why)
		text_format(n->plain_why, sizeof(n->plain_why), "%.399s", why);
	pod_plain_text(n->plain_why);
	n->linked = true;
	answer_with(j, n, fd);
}

static void provider_wake_on_reached(void *arg, int rc, const struct err *e, const struct reach_result *r, int fd)
{
	struct kname *n = arg;
	struct kjob *j = n->job;

	n->job = NULL;
	if (rc) {
		reach_destroy(n->reach);
		n->reach = NULL;
	}
	if (rc == ERR_UNSUPPORTED && j->kp->p.pin == KUBE_PIN_AUTO && j->kp->p.plain) {
		visit_begin(j, n, e->message, begin_plain);
	} else if (rc == ERR_NOT_FOUND || rc == ERR_BAD_STATE || (j->op == SANDBOX_ENSURE && kjob_may_wait(j, rc))) {
		kjob_look_again(j, e); /* the kubelet knows of an end that the API server has not been told of yet */
	} else if (rc) {
		kjob_answer(j, rc, e, NULL, -1);
	} else {
		n->reached = *r;
		n->plain_why[0] = n->visitor[0] = '\0';
		n->linked = true;
		log_info(&(struct log_ids){.agent = n->name}, "muxlet %s at %s (%s), %s", r->joined.version, r->path,
			 r->delivery, r->joined.started ? "begun now" : "runs already");
		if (r->joined.unguarded)
			log_warn(
			    &(struct log_ids){.agent = n->name},
			    "its container's runtime refuses seccomp(): programs can change muxlet's limits and end "
			    "it; allow seccomp and prctl(PR_SET_SECCOMP) in the pod's seccomp profile");
		answer_with(j, n, fd);
	}
}

static void provider_wake_on_ended(void *arg, const char *why)
{
	struct kname *n = arg;

	log_info(&(struct log_ids){.agent = n->name}, "exec stream: %s", why);
	n->used_ns = clock_boot_ns();
	reach_destroy(n->reach);
	n->reach = NULL;
}

static const struct reach_ops reach_ops = {provider_wake_on_reached, provider_wake_on_ended};

static void begin_link(struct kjob *j, struct kname *n)
{
	char name[64];
	uint8_t secret[SANDBOX_SECRET_LEN];
	struct reach_params p = {.loop = j->kp->loop,
				 .creds = j->kp->creds,
				 .rc = j->kp->p.rc,
				 .program = &j->kp->program,
				 .ns = j->ns,
				 .pod = j->pod,
				 .container = j->view.container,
				 .name = name,
				 .secret = secret,
				 .known = n->reached.path,
				 .known_delivery = n->reached.delivery,
				 .muxlet_dir = j->view.muxlet_dir,
				 .image_path = j->kp->p.spec.muxlet_path,
				 .workdir = j->ours ? KUBE_WORKSPACE : NULL,
				 .leave_s = j->ours ? 0 : KP_LEAVE_S,
				 .deadline_ms = KP_REACH_MS};
	int rc = derive(j->kp, "link", &j->view, secret);

	if (!rc)
		rc = socket_name(j->kp, &j->view, name);
	if (!rc)
		rc = reach_create(&p, &reach_ops, n, &n->reach);
	explicit_bzero(secret, sizeof(secret));
	if (rc)
		kjob_fail(j, rc, "no memory to reach %s", j->name);
	else
		n->job = j;
}

static void provider_wake_reach(struct kjob *j)
{
	struct kname *n;
	struct err e = {0};
	int rc;

	uv_timer_stop(j->timer); /* from here on the reach has its own time */
	kjob_set_state(j, KJOB_REACHING);
	n = take_name(j);
	if (!n) {
		kjob_fail(j, ERR_NOMEM, "no memory to reach %s", j->name);
		return;
	}
	text_put(n->pod, sizeof(n->pod), j->pod); /* one out of a pool has a name of its own */
	rc = j->ours ? 0 : watch_name(n, &e);
	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
	else if (j->kp->p.pin == KUBE_PIN_PLAIN && j->kp->p.plain)
		begin_plain(j, n, "kubernetes.backend is plain");
	else if (j->kp->p.pin == KUBE_PIN_PLAIN)
		kjob_fail(j, ERR_UNSUPPORTED, "kubernetes.backend is plain, which this daemon does not have");
	else if (n->linked && n->plain_why[0]) /* the same container: muxlet has not learnt to run in it */
		begin_plain(j, n, n->plain_why);
	else
		begin_link(j, n);
}

/* ---- making */

/* Somebody else was quicker, or the answer was lost: what there is now decides. */
static bool is_worth_a_look(const struct kjob *j, int rc)
{
	return rc == ERR_K8S_CONFLICT || rc == ERR_EOF || rc == ERR_TIMEOUT || kjob_may_wait(j, rc);
}

static void provider_wake_on_pod_made(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	if (rc && is_worth_a_look(j, rc)) {
		kjob_look_again(j, e);
	} else if (rc) {
		kjob_answer(j, rc, e, NULL, -1);
	} else {
		log_info(&(struct log_ids){.agent = j->name}, "pod %s/%s is made", j->ns, j->pod);
		j->made = true;
		wake_seen(j, reply->body);
	}
}

static void make_pod(struct kjob *j)
{
	struct kube_pod_spec spec = kjob_spec(j);
	struct err e = {0};
	struct id session;

	if (id_new(&session)) {
		kjob_fail(j, ERR_SYS, "no randomness for the sandbox of %s", j->name);
		return;
	}
	spec.claim = j->claim.name;
	spec.read_only = j->claim.read_only;
	kjob_set_state(j, KJOB_MAKING);
	kjob_create(j, kp_pods(j->ns, NULL), kube_spec_pod(&spec, j->t.agent, &session, &e), &e,
		    provider_wake_on_pod_made);
}

static void make_all(struct kjob *j)
{
	void (*make)(struct kjob *) = j->kp->p.spec.hold == KUBE_HOLD_SANDBOX ? hold_make : make_pod;

	memset(&j->view, 0, sizeof(j->view)); /* of one that is gone */
	if (kp_pooled(j->kp))
		pool_wait(j);
	else if (j->held) /* its controller has the word */
		hold_judge(j);
	else if (j->kp->p.spec.workspace == WORKSPACE_CLAIM)
		claims_ensure(j, make);
	else
		make(j);
}

/* ---- what was there before, and has to go first */

static void provider_wake_on_old_deleted(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	(void)reply;
	if (rc && rc != ERR_NOT_FOUND && rc != ERR_K8S_CONFLICT && !kjob_may_wait(j, rc)) {
		kjob_answer(j, rc, e, NULL, -1);
		return;
	}
	if (rc && rc != ERR_NOT_FOUND)
		j->forced = false; /* it was not done, or that is not known */
	kjob_wait(j, KP_AGAIN_MS);
}

static void replace(struct kjob *j)
{
	int64_t grace_s = 1;

	kjob_set_state(j, KJOB_REPLACING);
	j->held = false; /* a Sandbox is told again, once this one is gone */
	if (!j->view.deleting)
		text_put(j->uid, sizeof(j->uid), j->view.uid);
	if (watch_is_stuck(&j->view) && !j->forced) {
		log_warn(&(struct log_ids){.agent = j->name},
			 "node %s of pod %s does not answer: the pod is taken out of the cluster", j->view.node,
			 j->pod);
		j->forced = true;
		grace_s = 0;
	} else if (j->view.deleting) {
		kjob_wait(j, KP_AGAIN_MS);
		return;
	}
	kjob_delete(j, kp_pods(j->ns, j->pod), j->view.uid, grace_s, provider_wake_on_old_deleted);
}

/* Made from another configuration, and nothing has run in it yet. Its claim is no matter of that. */
static bool is_outdated(const struct kjob *j)
{
	struct kube_pod_spec spec = kjob_spec(j);
	struct id any = {0};
	const char *now;
	bool differs;
	json_t *o;

	if (j->view.started || !j->view.spec[0])
		return false;
	spec.claim = j->view.claim;
	spec.read_only = j->view.read_only;
	o = kube_spec_pod(&spec, j->t.agent, &any, NULL);
	now = json_string_value(
	    json_object_get(json_object_get(json_object_get(o, "metadata"), "annotations"), KUBE_ANNOTATION_SPEC));
	differs = now && strcmp(now, j->view.spec) != 0;
	json_decref(o);
	return differs;
}

/* ---- what the server made of the pod template */

static void dropped_late(struct kjob *j)
{
	kjob_fail(j, ERR_TIMEOUT, "pod %s in %s does not go away: %s", j->pod, j->ns, j->view.why);
}

/* A pod that came of this start, or has not begun. */
static bool is_new(const struct kjob *j)
{
	return j->made || j->held || !j->view.started;
}

/*
 * A pod of the template that is in force. One that has begun, too: whoever made it may have had no time to compare it.
 */
static bool is_to_be_compared(const struct kjob *j)
{
	char digest[TEMPLATE_DIGEST_HEX + 1];

	if (j->op != SANDBOX_ENSURE || !j->ours || j->view.deleting || (!is_new(j) && j->view.state == POD_ENDED))
		return false;
	template_digest(kjob_spec(j).pod_template, digest);
	return digest[0] && strcmp(digest, j->view.pod_template) == 0;
}

/* Labels and annotations of one that has begun are anybody's by now. */
static bool is_whole(const struct kjob *j, const json_t *pod, char at[TEMPLATE_PATH_MAX])
{
	const json_t *t = kjob_spec(j).pod_template;
	json_t *spec = json_pack("{s:O*}", "spec", json_object_get(t, "spec"));
	bool kept = template_kept(is_new(j) || !spec ? t : spec, pod, at);

	json_decref(spec);
	return kept;
}

/* Until the pod is gone, so that the next start finds nothing of it. */
static void dropped_seen(struct kjob *j, const json_t *pod)
{
	kjob_set_state(j, KJOB_ENDING);
	if (!pod)
		kjob_answer(j, j->dropped.code, &j->dropped, NULL, -1);
	else if (kjob_is_late(j))
		dropped_late(j);
	else if (j->view.deleting)
		kjob_wait(j, KP_AGAIN_MS);
	else
		kjob_delete(j, kp_pods(j->ns, j->pod), j->view.uid, 1, provider_wake_on_old_deleted);
}

/* True: it lacks what the template asks for, and goes again. */
static bool has_dropped(struct kjob *j, const json_t *pod)
{
	char at[TEMPLATE_PATH_MAX];

	if (!is_to_be_compared(j) || is_whole(j, pod, at))
		return false;
	err_set(&j->dropped, ERR_FIELD_DROPPED,
		"the API server has dropped %.200s, which the pod template asks for: pod %s in %s is removed again", at,
		j->pod, j->ns);
	log_warn(&(struct log_ids){.agent = j->name}, "%s", j->dropped.message);
	if (j->kp->p.spec.hold == KUBE_HOLD_SANDBOX)
		hold_let_go(j);
	else
		dropped_seen(j, pod);
	return true;
}

/* ---- what was seen decides */

/* A pod that was over before is replaced; one of a Sandbox that came after and is over by now tells how this start
 * went. */
static bool ended_at_its_start(const struct kjob *j)
{
	bool another = j->uid[0] && strcmp(j->uid, j->view.uid) != 0;

	return j->kp->p.spec.hold == KUBE_HOLD_SANDBOX && j->view.state == POD_ENDED && !j->view.deleting &&
	       (j->held || another);
}

static void seen_ours(struct kjob *j)
{
	bool over = j->view.deleting || j->view.state == POD_ENDED;

	if (ended_at_its_start(j)) {
		hold_judge(j);
	} else if (over || ((j->view.state == POD_WAITING || j->view.state == POD_HOPELESS) && is_outdated(j))) {
		replace(j);
	} else if (j->view.state == POD_HOPELESS) {
		kjob_fail(j, ERR_SANDBOX_CREATE, "the pod of %s cannot begin: %s", j->name, j->view.why);
	} else if (j->held) {
		hold_judge(j);
	} else {
		kjob_set_state(j, KJOB_WAITING);
		kjob_wait(j, KP_POLL_MS);
	}
}

static void seen_not_running(struct kjob *j)
{
	const struct pod_view *v = &j->view;

	if (j->op == SANDBOX_ENSURE && j->ours)
		seen_ours(j);
	else if (j->op == SANDBOX_CONNECT)
		kjob_fail(j, ERR_NOT_FOUND, "the container of %s is %s: %s", j->name, pod_state_name(v->state), v->why);
	else
		kjob_fail(j, ERR_BAD_STATE, "container %s of pod %s in %s does not run: %s", v->container, j->pod,
			  j->ns, v->why[0] ? v->why : pod_state_name(v->state));
}

void wake_seen(struct kjob *j, const json_t *pod)
{
	struct err e = {0};
	int rc = pod ? kjob_view(j, pod, &j->view, &e) : 0;
	struct kname *n = kname_find(j->kp, j->name);

	if (n && n->linked && !n->job) /* the stream broke before the watch told: the cause is told first */
		watch_judge(n, pod);
	if (n && (n = kname_find(j->kp, j->name)) && n->ending) { /* `gone` comes first */
		kjob_look_again(j, &j->last);
		return;
	}
	if (rc)
		kjob_answer(j, rc, &e, NULL, -1);
	else if (j->dropped.code)
		dropped_seen(j, pod);
	else if (pod && has_dropped(j, pod))
		return;
	else if (!pod && j->op == SANDBOX_ENSURE && j->ours)
		make_all(j);
	else if (!pod)
		kjob_fail(j, ERR_NOT_FOUND, "there is no pod %s in %s", j->pod, j->ns);
	else if (j->view.state == POD_RUNNING && watch_is_stuck(&j->view) && !(j->op == SANDBOX_ENSURE && j->ours))
		kjob_fail(j, ERR_NOT_FOUND, "pod %s was deleted, and its node %s does not answer", j->pod,
			  j->view.node);
	else if (j->view.state == POD_RUNNING && !(j->op == SANDBOX_ENSURE && j->ours && j->view.deleting))
		provider_wake_reach(j);
	else
		seen_not_running(j);
}

/* ---- the deadline, and the last words of the cluster */

static void fail_late(struct kjob *j, const char *event)
{
	if (j->state == KJOB_REPLACING || (j->view.deleting && j->view.uid[0]))
		kjob_fail(j, ERR_SANDBOX_TIMEOUT, "the earlier pod %s in %s does not go away: %s", j->pod, j->ns,
			  j->view.why[0] ? j->view.why : "its node has not said that it ended");
	else
		kjob_fail(j, ERR_SANDBOX_TIMEOUT, "pod %s in %s is not ready in time: %.150s%s%.180s", j->pod, j->ns,
			  j->view.why[0] ? j->view.why : j->last.message, *event ? ". Last event: " : "", event);
}

/* The newest of one page: good enough for words. */
static void provider_wake_on_events(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	const char *newest = "", *text = "";
	char event[300] = "";
	size_t i;
	json_t *o;

	(void)e;
	json_array_foreach(rc ? NULL : json_object_get(reply->body, "items"), i, o)
	{
		const char *when = json_string_value(json_object_get(o, "lastTimestamp"));

		when = when ? when : "";
		if (strcmp(when, newest) < 0)
			continue;
		newest = when;
		text = json_string_value(json_object_get(o, "message"));
		text_format(event, sizeof(event), "%s: %s", json_string_value(json_object_get(o, "reason")),
			    text ? text : "");
	}
	fail_late(j, event);
}

static void ask_why(struct kjob *j)
{
	char fields[POD_UID_MAX + 64];
	struct err e = {0};

	text_format(fields, sizeof(fields), "involvedObject.uid=%s,type=Warning", j->view.uid);
	kjob_set_state(j, KJOB_ASKING_WHY);
	if (kjob_events(j, fields, provider_wake_on_events, &e))
		fail_late(j, "");
}

void wake_tick(struct kjob *j)
{
	bool late = kjob_is_late(j);

	if (j->call) /* its answer comes here again */
		return;
	if (late && j->dropped.code)
		dropped_late(j);
	else if (late && j->state == KJOB_WAITING && j->view.uid[0])
		ask_why(j);
	else if (late && j->held)
		hold_late(j);
	else if (late)
		fail_late(j, "");
	else
		j->kp->pod_look(j);
}
