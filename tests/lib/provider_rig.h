/*
 * provider_rig.h - a provider of pods on the fake cluster: what the hub hears of it, and the turns of its world.
 *
 * begin() or begin_with(), then ops of c.p; end() asserts that nothing is left. Waiting is for conditions, 30 s at the
 * most.
 */
#ifndef TESTS_LIB_PROVIDER_RIG_H
#define TESTS_LIB_PROVIDER_RIG_H

#include "tests/lib/asks.h"
#include "tests/lib/fake_cluster.h"
#include "tests/lib/patience.h"

/* ---- what the hub sees */

struct result {
	int times, rc, fd;
	struct sandbox_info info;
	char message[ERR_MESSAGE_MAX], name[200];
	size_t n;
};

static RIG_UNUSED void on_done(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const struct sandbox_info *info = got->info;
	int fd = got->fd;
	int rc = got->rc;
	struct result *r = arg;

	r->times++;
	r->rc = rc;
	r->fd = fd;
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
	assert_true((rc == 0) == (e == NULL));
	assert_true(rc == 0 || fd == -1);
	if (info)
		r->info = *info;
	if (fd >= 0)
		close(fd);
}

static RIG_UNUSED void on_name(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const char *name = got->name;
	int rc = got->rc;
	struct result *r = arg;

	r->times++;
	r->rc = rc;
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
	snprintf(r->name, sizeof(r->name), "%s", name);
}

static RIG_UNUSED void on_list(void *arg, const struct sandbox_answer *got)
{
	const struct sandbox_info *list = got->info;
	size_t n = got->n;
	int rc = got->rc;
	struct result *r = arg;

	r->times++;
	r->rc = rc;
	r->n = n;
	if (n)
		r->info = list[0];
}

static RIG_UNUSED void on_gone(void *arg, const char *agent, const struct id *id, const char *why)
{
	(void)arg, (void)id;
	c.gone++;
	snprintf(c.gone_agent, sizeof(c.gone_agent), "%s", agent);
	snprintf(c.gone_why, sizeof(c.gone_why), "%s", why);
}

/* ---- turning the world */

/* The first that is not held back. */
static struct kube_call *next_due(void)
{
	struct kube_call *k;

	TAILQ_FOREACH(k, &c.calls, entry)
	if (!c.hold_back || strcmp(k->resource, c.hold_back) != 0)
		return k;
	return NULL;
}

/* Everything that is due: answers in order, and the loop's timers. */
static RIG_UNUSED void settle(void)
{
	struct kube_call *k;

	for (int i = 0; i < 50; i++) {
		while ((k = next_due()))
			answer(k);
		uv_run(&c.loop, UV_RUN_NOWAIT);
	}
}

static RIG_UNUSED bool until(const int *times)
{
	struct patience left = patience_of(30 * NS_PER_SEC);

	while (!*times && !patience_over(&left)) {
		settle();
		usleep(2000);
	}
	return *times > 0;
}

static RIG_UNUSED void set_status(const char *pod, const char *status)
{
	char text[2000];
	json_t *o = NULL;

	snprintf(text, sizeof(text), "%s", status);
	for (char *p = text; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	assert_int_equal(json_parse(text, strlen(text), sizeof(text), &o, NULL), 0);
	json_object_set_new(json_object_get(c.pods, pod), "status", o);
}

static RIG_UNUSED void set_running(const char *pod, const char *container, const char *id)
{
	char text[400];

	snprintf(
	    text, sizeof(text),
	    "{'phase':'Running','containerStatuses':[{'name':'%s','containerID':'%s','ready':true,'state':{'running':"
	    "{}}}]}",
	    container, id);
	set_status(pod, text);
}

/* The watches tell of it as it is now. */
static RIG_UNUSED void tell(const char *pod)
{
	struct kube_watch *w, *next;

	for (w = LIST_FIRST(&c.watches); w; w = next) {
		next = LIST_NEXT(w, entry);
		if (!w->fields[0] || strstr(w->fields, pod))
			w->ops->modified(w->arg, json_object_get(c.pods, pod));
	}
	settle();
}

static RIG_UNUSED void tell_deleted(const char *pod)
{
	json_t *last = json_incref(json_object_get(c.pods, pod));
	struct kube_watch *w, *next;

	json_object_del(c.pods, pod);
	for (w = LIST_FIRST(&c.watches); w; w = next) {
		next = LIST_NEXT(w, entry);
		if (!w->fields[0] || strstr(w->fields, pod))
			w->ops->deleted(w->arg, last);
	}
	json_decref(last);
	settle();
}

/* A pod of somebody's in namespace ns. */
static RIG_UNUSED void other_pod(const char *name, const char *restart)
{
	char uid[20];

	snprintf(uid, sizeof(uid), "uid-%d", ++c.serial);
	json_object_set_new(c.pods, name,
			    json_pack("{s:{s:s,s:s,s:s},s:{s:s,s:[{s:s}]},s:{s:s}}", "metadata", "name", name,
				      "namespace", "ns", "uid", uid, "spec", "restartPolicy", restart, "containers",
				      "name", "main", "status", "phase", "Pending"));
}

static enum kube_hold hold;        /* of the next provider */
static const json_t *pod_template; /* likewise */
static RIG_UNUSED enum kube_sandbox_api sandbox_api;
static RIG_UNUSED const char *warm_pool, *ephemeral_image;
static RIG_UNUSED const struct kube_pod_spec *whole_spec; /* in place of all that is said of one */

static RIG_UNUSED void begin_with(enum kube_workspace workspace, enum kube_pin pin, uint64_t timeout_ns, bool plain)
{
	struct kube_provider_params p = {
	    .spec = {.ns = "agents",
		     .image = "busybox",
		     .ephemeral_image = ephemeral_image,
		     .limit_memory = "1Gi",
		     .request_memory = "256Mi",
		     .workspace = workspace,
		     .workspace_size = 1 << 30,
		     .hold = hold,
		     .sandbox_api = sandbox_api,
		     .warm_pool = warm_pool,
		     .pod_template = pod_template,
		     .images = (const struct kube_label[]){{"py", "registry.example/py:3"}},
		     .nimages = 1},
	    .muxlet_fd = open(BUILD_DIR "/muxlet", O_RDONLY | O_CLOEXEC),
	    .master = {42},
	    .pin = pin,
	    .create_timeout_ns = timeout_ns,
	    .plain = plain ? fake_plain : NULL,
	    .plain_arg = &c};
	struct err e = {0};

	if (whole_spec)
		p.spec = *whole_spec;
	memset(&c, 0, sizeof(c));
	TAILQ_INIT(&c.calls);
	c.pods = json_object();
	c.claims = json_object();
	c.boxes = json_object();
	c.wants = json_object();
	c.served = "v1alpha1";
	assert_int_equal(uv_loop_init(&c.loop), 0);
	assert_int_equal(kube_provider_create(&p, &c.p, &e), 0);
	close(p.muxlet_fd);
	c.p->gone = on_gone;
}

static RIG_UNUSED void begin(void)
{
	begin_with(WORKSPACE_EMPTYDIR, KUBE_PIN_AUTO, 0, true);
}

static RIG_UNUSED void end(void)
{
	c.p->ops->destroy(c.p);
	assert_int_equal(c.reaches_alive, 0);
	assert_true(LIST_EMPTY(&c.watches));
	assert_true(TAILQ_EMPTY(&c.calls));
	uv_run(&c.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&c.loop), 0);
	json_decref(c.pods);
	json_decref(c.claims);
	json_decref(c.boxes);
	json_decref(c.wants);
	json_decref(c.patch);
	json_decref(c.node);
}

static RIG_UNUSED struct result ensured(const char *agent, const char *pod)
{
	struct result r = {0};

	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = agent);
	settle();
	set_running(pod, KUBE_CONTAINER, "containerd://1");
	tell(pod);
	reach_up(0);
	assert_int_equal(r.times, 1);
	assert_int_equal(r.rc, 0);
	return r;
}

#endif
