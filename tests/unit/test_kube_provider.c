/*
 * The provider of pods against a cluster that does as it is told.
 *
 * What it speaks to is fake: the verbs and watches of the REST client and the way into a container are defined here
 * instead of in the library, so that every refusal, loss and late answer can be had at will. Real pods
 * are in tests/e2e/k8s.
 */
#include "control/kube/provider.h"
#include "control/kube/provider_state.h"
#include "muxd/base/clock.h"
#include "muxd/base/json.h"
#include "muxd/base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the fake cluster */

struct kube_call {
	kube_done *done;
	void *arg;
	int rc;
	json_t *body;
	char message[200];
	TAILQ_ENTRY(kube_call) entry;
};
struct kube_watch {
	const struct kube_watch_ops *ops;
	void *arg;
	char fields[200], labels[200];
	LIST_ENTRY(kube_watch) entry;
};
struct reach {
	const struct reach_ops *ops;
	void *arg;
	char known[256], name[64], container[64], workdir[64];
	uint8_t secret[SANDBOX_SECRET_LEN];
	bool muxlet_dir;
	unsigned leave_s;
};

static struct {
	uv_loop_t loop;
	TAILQ_HEAD(, kube_call) calls;
	LIST_HEAD(, kube_watch) watches;
	json_t *pods; /* name -> pod */
	json_t *claims;
	json_t *boxes; /* Sandbox objects */
	json_t *patch; /* the last */
	json_t *node;  /* every node there is */
	int gets, creates, deletes, serial;
	int fail_get, fail_create, fail_delete; /* ERR_* for the next one of its kind */
	bool lingering;                         /* a deleted pod stays, with a deletionTimestamp */
	int64_t last_grace;
	const char *event, *log;
	struct reach *reach; /* the newest */
	int reaches, reaches_alive;
	char gone_agent[200], gone_why[300];
	int gone;
	int plain_opens;
	char plain_container[64];
	struct sandbox_provider *p;
} c;

struct uv_loop_s *kube_client_loop(const struct kube *k)
{
	(void)k;
	return &c.loop;
}

struct kube_creds *kube_client_creds(const struct kube *k)
{
	(void)k;
	return NULL;
}

static int later(int rc, json_t *body, const char *message, kube_done *done, void *arg, struct kube_call **out)
{
	struct kube_call *k = calloc(1, sizeof(*k));

	k->done = done;
	k->arg = arg;
	k->rc = rc;
	k->body = body;
	snprintf(k->message, sizeof(k->message), "%s", message);
	TAILQ_INSERT_TAIL(&c.calls, k, entry);
	if (out)
		*out = k;
	return 0;
}

static void answer(struct kube_call *k)
{
	struct kube_reply reply = {.body = k->body};
	struct err e = {0};

	TAILQ_REMOVE(&c.calls, k, entry);
	if (k->rc)
		err_set(&e, k->rc, "%s", k->message);
	k->done(k->arg, k->rc, &e, &reply);
	json_decref(k->body);
	free(k);
}

void kube_cancel(struct kube_call *k)
{
	if (!k)
		return;
	k->rc = ERR_CANCELLED;
	answer(k);
}

static int take(int *what)
{
	int rc = *what;

	*what = 0;
	return rc;
}

int kube_get(struct kube *k, const struct kube_ref *r, kube_done *done, void *arg, struct kube_call **out,
	     struct err *e)
{
	bool node = strcmp(r->resource, "nodes") == 0, box = strcmp(r->resource, "sandboxes") == 0;
	json_t *pod = node ? c.node : json_object_get(box ? c.boxes : c.pods, r->name);
	int rc = take(&c.fail_get);

	(void)k, (void)e;
	c.gets++;
	if (!rc && !pod)
		rc = ERR_NOT_FOUND;
	return later(rc, rc ? NULL : json_deep_copy(pod), "the API server said so", done, arg, out);
}

int kube_create(struct kube *k, const struct kube_ref *r, const json_t *object, kube_done *done, void *arg,
		struct kube_call **out, struct err *e)
{
	json_t *to = strcmp(r->resource, "pods") == 0        ? c.pods
		     : strcmp(r->resource, "sandboxes") == 0 ? c.boxes
							     : c.claims,
	       *made, *meta;
	const char *name = json_string_value(json_object_get(json_object_get(object, "metadata"), "name"));
	int rc = take(&c.fail_create);
	char uid[20];

	(void)k, (void)e;
	c.creates++;
	if (!rc && json_object_get(to, name))
		rc = ERR_K8S_CONFLICT;
	if (rc)
		return later(rc, NULL, "refused", done, arg, out);
	made = json_deep_copy(object);
	meta = json_object_get(made, "metadata");
	snprintf(uid, sizeof(uid), "uid-%d", ++c.serial);
	json_object_set_new(meta, "uid", json_string(uid));
	json_object_set_new(meta, "creationTimestamp", json_string("2026-11-21T08:00:00Z"));
	json_object_set_new(made, "status", json_pack("{s:s}", "phase", "Pending"));
	json_object_set_new(to, name, made);
	return later(0, json_deep_copy(made), "", done, arg, out);
}

static const char *uid_of(const char *name)
{
	return json_string_value(json_object_get(json_object_get(json_object_get(c.pods, name), "metadata"), "uid"));
}

int kube_delete(struct kube *k, const struct kube_ref *r, const struct kube_delete_options *o, kube_done *done,
		void *arg, struct kube_call **out, struct err *e)
{
	json_t *from = strcmp(r->resource, "pods") == 0 ? c.pods : c.claims, *it = json_object_get(from, r->name);
	int rc = take(&c.fail_delete);

	(void)k, (void)e;
	c.deletes++;
	c.last_grace = o ? o->grace_s : -1;
	if (!rc && !it)
		rc = ERR_NOT_FOUND;
	else if (!rc && o && o->uid && from == c.pods && strcmp(o->uid, uid_of(r->name)) != 0)
		rc = ERR_K8S_CONFLICT;
	else if (!rc && c.lingering && from == c.pods && c.last_grace != 0)
		json_object_set_new(json_object_get(it, "metadata"), "deletionTimestamp",
				    json_string("2026-11-21T08:00:00Z"));
	else if (!rc)
		json_object_del(from, r->name);
	return later(rc, NULL, "not deleted", done, arg, out);
}

int kube_patch(struct kube *k, const struct kube_ref *r, enum kube_patch_kind kind, const json_t *patch,
	       kube_done *done, void *arg, struct kube_call **out, struct err *e)
{
	json_t *box = json_object_get(c.boxes, r->name);

	(void)k, (void)e;
	assert_int_equal(kind, KUBE_PATCH_MERGE);
	assert_string_equal(r->resource, "sandboxes");
	json_decref(c.patch);
	c.patch = json_deep_copy(patch);
	if (box)
		json_object_update(json_object_get(box, "spec"), json_object_get(c.patch, "spec"));
	return later(box ? 0 : ERR_NOT_FOUND, json_deep_copy(box), "", done, arg, out);
}

int kube_list(struct kube *k, const struct kube_ref *r, const struct kube_list_options *o, kube_done *done, void *arg,
	      struct kube_call **out, struct err *e)
{
	json_t *items = json_array(), *v;
	const char *name;

	(void)k, (void)e;
	if (strcmp(r->resource, "events") == 0) {
		assert_non_null(strstr(o->fields, "involvedObject.uid=uid-"));
		if (c.event)
			json_array_append_new(items, json_pack("{s:s,s:s,s:s}", "lastTimestamp", "2026-11-21T08:00:01Z",
							       "reason", "FailedMount", "message", c.event));
	} else if (strcmp(r->resource, "persistentvolumeclaims") == 0) {
		const char *agent = strstr(o->labels, ",agent_id=");

		assert_int_equal(strncmp(o->labels, KUBE_SELECTOR, strlen(KUBE_SELECTOR)), 0);
		json_object_foreach(c.claims, name, v)
		{
			const char *whose = json_string_value(
			    json_object_get(json_object_get(json_object_get(v, "metadata"), "labels"), "agent_id"));

			if (!agent || strcmp(agent + strlen(",agent_id="), whose) == 0)
				json_array_append(items, v);
		}
	} else {
		assert_string_equal(o->labels, KUBE_SELECTOR);
		json_object_foreach(c.pods, name, v) json_array_append(items, v);
	}
	return later(0, json_pack("{s:o,s:{}}", "items", items, "metadata"), "", done, arg, out);
}

/* In pieces of seven bytes. */
int kube_logs(struct kube *k, const struct kube_ref *r, const struct kube_log_options *o, kube_done *done, void *arg,
	      struct kube_call **out, struct err *e)
{
	bool there = json_object_get(c.pods, r->name) != NULL;

	(void)k, (void)e;
	snprintf(c.plain_container, sizeof(c.plain_container), "%s", o->container ? o->container : "");
	later(there ? 0 : ERR_NOT_FOUND, NULL, "the API server said so", done, arg, out);
	for (size_t at = 0, n = there && c.log ? strlen(c.log) : 0; at < n; at += 7)
		o->data(arg, (const uint8_t *)c.log + at, n - at < 7 ? n - at : 7);
	return 0;
}

int kube_watch_create(struct kube *k, const struct kube_ref *r, const struct kube_watch_options *o,
		      const struct kube_watch_ops *ops, void *arg, struct kube_watch **out, struct err *e)
{
	struct kube_watch *w = calloc(1, sizeof(*w));

	(void)k, (void)r, (void)e;
	w->ops = ops;
	w->arg = arg;
	snprintf(w->fields, sizeof(w->fields), "%s", o->fields ? o->fields : "");
	snprintf(w->labels, sizeof(w->labels), "%s", o->labels ? o->labels : "");
	LIST_INSERT_HEAD(&c.watches, w, entry);
	*out = w;
	return 0;
}

void kube_watch_destroy(struct kube_watch *w)
{
	if (w) {
		LIST_REMOVE(w, entry);
		free(w);
	}
}

/* ---- the fake way into a container */

int reach_create(const struct reach_params *p, const struct reach_ops *ops, void *arg, struct reach **out)
{
	struct reach *r = calloc(1, sizeof(*r));

	r->ops = ops;
	r->arg = arg;
	snprintf(r->known, sizeof(r->known), "%s", p->known);
	snprintf(r->name, sizeof(r->name), "%s", p->name);
	snprintf(r->container, sizeof(r->container), "%s", p->container);
	snprintf(r->workdir, sizeof(r->workdir), "%s", p->workdir ? p->workdir : "-");
	memcpy(r->secret, p->secret, sizeof(r->secret));
	r->muxlet_dir = p->muxlet_dir;
	r->leave_s = p->leave_s;
	c.reach = *out = r;
	c.reaches++;
	c.reaches_alive++;
	return 0;
}

void reach_destroy(struct reach *r)
{
	if (!r)
		return;
	if (c.reach == r)
		c.reach = NULL;
	c.reaches_alive--;
	free(r);
}

static void reach_up(uint64_t workspace_size)
{
	struct reach_result res = {.path = "/tmp/.muxd-1/muxlet",
				   .delivery = "stream",
				   .joined = {.version = "0.1.0", .workspace_size = workspace_size}};
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_non_null(c.reach);
	c.reach->ops->done(c.reach->arg, 0, NULL, &res, fd);
}

static void reach_fails(int rc, const char *text)
{
	struct err e = {0};

	assert_non_null(c.reach);
	err_set(&e, rc, "%s", text);
	c.reach->ops->done(c.reach->arg, rc, &e, NULL, -1);
}

static int fake_plain(void *arg, const struct kube_plain_target *t, int *out_fd, struct err *e)
{
	assert_ptr_equal(arg, &c);
	(void)e;
	c.plain_opens++;
	snprintf(c.plain_container, sizeof(c.plain_container), "%s", t->container);
	*out_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	return 0;
}

/* ---- what the hub sees */

struct result {
	int times, rc, fd;
	struct sandbox_info info;
	char message[ERR_MESSAGE_MAX], name[200];
	size_t n;
};

static void on_done(void *arg, int rc, const struct err *e, const struct sandbox_info *info, int fd)
{
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

static void on_name(void *arg, int rc, const struct err *e, const char *name)
{
	struct result *r = arg;

	r->times++;
	r->rc = rc;
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
	snprintf(r->name, sizeof(r->name), "%s", name);
}

static void on_list(void *arg, int rc, const struct err *e, const struct sandbox_info *list, size_t n)
{
	struct result *r = arg;

	(void)e;
	r->times++;
	r->rc = rc;
	r->n = n;
	if (n)
		r->info = list[0];
}

static void on_gone(void *arg, const char *agent, const struct id *id, const char *why)
{
	(void)arg, (void)id;
	c.gone++;
	snprintf(c.gone_agent, sizeof(c.gone_agent), "%s", agent);
	snprintf(c.gone_why, sizeof(c.gone_why), "%s", why);
}

/* ---- turning the world */

/* Everything that is due: answers in order, and the loop's timers. */
static void settle(void)
{
	struct kube_call *k;

	for (int i = 0; i < 50; i++) {
		while ((k = TAILQ_FIRST(&c.calls)))
			answer(k);
		uv_run(&c.loop, UV_RUN_NOWAIT);
	}
}

static bool until(const int *times)
{
	uint64_t end = clock_boot_ns() + 30 * NS_PER_SEC;

	while (!*times && clock_boot_ns() < end) {
		settle();
		usleep(2000);
	}
	return *times > 0;
}

static void set_status(const char *pod, const char *status)
{
	char text[2000];
	json_t *o = NULL;

	snprintf(text, sizeof(text), "%s", status);
	for (char *p = text; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	assert_int_equal(json_parse(text, strlen(text), sizeof(text), &o, NULL), 0);
	json_object_set_new(json_object_get(c.pods, pod), "status", o);
}

static void set_running(const char *pod, const char *container, const char *id)
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
static void tell(const char *pod)
{
	struct kube_watch *w, *next;

	for (w = LIST_FIRST(&c.watches); w; w = next) {
		next = LIST_NEXT(w, entry);
		if (!w->fields[0] || strstr(w->fields, pod))
			w->ops->modified(w->arg, json_object_get(c.pods, pod));
	}
	settle();
}

static void tell_deleted(const char *pod)
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
static void other_pod(const char *name, const char *restart)
{
	char uid[20];

	snprintf(uid, sizeof(uid), "uid-%d", ++c.serial);
	json_object_set_new(c.pods, name,
			    json_pack("{s:{s:s,s:s,s:s},s:{s:s,s:[{s:s}]},s:{s:s}}", "metadata", "name", name,
				      "namespace", "ns", "uid", uid, "spec", "restartPolicy", restart, "containers",
				      "name", "main", "status", "phase", "Pending"));
}

static enum kube_hold hold; /* of the next provider */

static void begin_with(enum kube_workspace workspace, enum kube_pin pin, uint64_t timeout_ns, bool plain)
{
	struct kube_provider_params p = {.spec = {.ns = "agents",
						  .image = "busybox",
						  .limit_memory = "1Gi",
						  .workspace = workspace,
						  .workspace_size = 1 << 30,
						  .hold = hold,
						  .ttl_ns = 7200 * NS_PER_SEC},
					 .muxlet_fd = open(BUILD_DIR "/muxlet", O_RDONLY | O_CLOEXEC),
					 .master = {42},
					 .pin = pin,
					 .create_timeout_ns = timeout_ns,
					 .plain = plain ? fake_plain : NULL,
					 .plain_arg = &c};
	struct err e = {0};

	memset(&c, 0, sizeof(c));
	TAILQ_INIT(&c.calls);
	c.pods = json_object();
	c.claims = json_object();
	c.boxes = json_object();
	assert_int_equal(uv_loop_init(&c.loop), 0);
	assert_int_equal(kube_provider_create(&p, &c.p, &e), 0);
	close(p.muxlet_fd);
	c.p->gone = on_gone;
}

static void begin(void)
{
	begin_with(WORKSPACE_EMPTYDIR, KUBE_PIN_AUTO, 0, true);
}

static void end(void)
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
	json_decref(c.patch);
	json_decref(c.node);
}

static struct result ensured(const char *agent, const char *pod)
{
	struct result r = {0};

	c.p->ops->ensure(c.p, agent, on_done, &r);
	settle();
	set_running(pod, KUBE_CONTAINER, "containerd://1");
	tell(pod);
	reach_up(0);
	assert_int_equal(r.times, 1);
	assert_int_equal(r.rc, 0);
	return r;
}

/* ---- ensure and connect */

static void a_pod_is_made_awaited_and_reached(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	c.p->ops->ensure(c.p, "coder", on_done, &r);
	settle();
	assert_int_equal(c.creates, 1);
	assert_non_null(json_object_get(c.pods, "muxd-coder"));
	assert_int_equal(r.times, 0);
	assert_int_equal(c.reaches, 0);
	set_running("muxd-coder", KUBE_CONTAINER, "containerd://1");
	tell("muxd-coder"); /* at once, not at the next poll */
	assert_int_equal(c.reaches, 1);
	assert_string_equal(c.reach->workdir, "/workspace");
	assert_string_equal(c.reach->known, "");
	assert_int_equal(c.reach->leave_s, 0);
	reach_up(1 << 30);
	assert_int_equal(r.times, 1);
	assert_int_equal(r.rc, 0);
	assert_string_equal(r.info.agent, "coder");
	assert_int_equal(r.info.state, SANDBOX_RUNNING);
	assert_int_equal(r.info.backend, SANDBOX_LINK);
	assert_string_equal(r.info.delivery, "stream");
	assert_true(r.info.cap_enforced && r.info.memory_enforced && !r.info.cpu_enforced && !r.info.pids_enforced);
	assert_true(r.info.epoch > 1700000000000000000ULL);
	end();
}

/* Two streams to one container: the same secret, socket and id, a higher epoch, and the place is known. */
static void a_stream_is_made_again(void **state)
{
	struct result a, b = {0};
	char socket[64];

	(void)state;
	begin();
	a = ensured("coder", "muxd-coder");
	snprintf(socket, sizeof(socket), "%s", c.reach->name);
	c.reach->ops->ended(c.reach->arg, "cut");
	assert_int_equal(c.reaches_alive, 0);
	c.p->ops->connect(c.p, "coder", on_done, &b);
	settle();
	assert_string_equal(c.reach->known, "/tmp/.muxd-1/muxlet");
	assert_string_equal(c.reach->name, socket);
	assert_memory_equal(c.reach->secret, a.info.secret, sizeof(a.info.secret));
	reach_up(0);
	assert_int_equal(b.rc, 0);
	assert_true(id_equal(&a.info.sandbox_id, &b.info.sandbox_id));
	assert_memory_equal(a.info.secret, b.info.secret, sizeof(a.info.secret));
	assert_true(b.info.epoch > a.info.epoch);
	assert_int_equal(c.gone, 0);
	end();
}

/* Another daemon with the same master, as after kill -9: the same secret; with another master: another. */
static void secrets_come_from_the_master_and_the_ids(void **state)
{
	struct result a, b, d;

	(void)state;
	begin();
	a = ensured("coder", "muxd-coder");
	end();
	begin();
	b = ensured("coder", "muxd-coder"); /* the fake's ids are the same */
	assert_memory_equal(a.info.secret, b.info.secret, sizeof(a.info.secret));
	d = ensured("other", "muxd-other");
	assert_memory_not_equal(a.info.secret, d.info.secret, sizeof(a.info.secret));
	end();
}

static void a_clock_that_is_set_back_does_not_lower_an_epoch(void **state)
{
	struct result a, b = {0};
	uint64_t boot = clock_boot_ns();
	int64_t wall = clock_wall_ns();

	(void)state;
	begin();
	clock_test_set(boot, wall);
	a = ensured("coder", "muxd-coder");
	clock_test_set(boot, wall - 3600 * (int64_t)NS_PER_SEC);
	c.p->ops->connect(c.p, "coder", on_done, &b);
	settle();
	reach_up(0);
	assert_true(b.info.epoch == a.info.epoch + 1);
	clock_test_reset();
	end();
}

static void claims_come_before_pods(void **state)
{
	struct result r;

	(void)state;
	begin_with(WORKSPACE_CLAIM, KUBE_PIN_AUTO, 0, true);
	r = ensured("coder", "muxd-coder");
	assert_int_equal(c.creates, 2);
	assert_non_null(json_object_get(c.claims, "muxd-coder"));
	tell_deleted("muxd-coder");
	r = ensured("coder", "muxd-coder"); /* the claim is there: the agent's workspace */
	assert_int_equal(r.rc, 0);
	assert_int_equal(c.creates, 3);
	c.fail_create = ERR_K8S_FORBIDDEN;
	tell_deleted("muxd-coder");
	memset(&r, 0, sizeof(r));
	c.p->ops->ensure(c.p, "coder", on_done, &r);
	settle();
	assert_int_equal(r.rc, ERR_K8S_FORBIDDEN);
	assert_null(json_object_get(c.pods, "muxd-coder"));
	end();
}

static void what_is_over_is_replaced(void **state)
{
	struct result r = {0};
	char first[40];

	(void)state;
	begin();
	ensured("coder", "muxd-coder");
	snprintf(first, sizeof(first), "%s", uid_of("muxd-coder"));
	set_status("muxd-coder", "{'phase':'Failed','reason':'Evicted','message':'disk pressure'}");
	tell("muxd-coder");
	assert_int_equal(c.gone, 1);
	assert_string_equal(c.gone_why, "its container ended: Evicted: disk pressure");
	c.p->ops->connect(c.p, "coder", on_done, &r);
	settle();
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	memset(&r, 0, sizeof(r));
	c.p->ops->ensure(c.p, "coder", on_done, &r);
	assert_true(until(&c.deletes));
	assert_int_equal(c.last_grace, 1);
	while (!uid_of("muxd-coder"))
		settle();
	assert_string_not_equal(uid_of("muxd-coder"), first);
	set_running("muxd-coder", KUBE_CONTAINER, "containerd://2");
	tell("muxd-coder");
	reach_up(0);
	assert_int_equal(r.rc, 0);
	end();
}

/* A pod that never began is made anew when the configuration has changed; one that ran is not. */
static void an_outdated_plan_is_replaced(void **state)
{
	struct result r = {0};
	json_t *notes;

	(void)state;
	begin();
	c.p->ops->ensure(c.p, "coder", on_done, &r);
	settle();
	assert_int_equal(c.deletes, 0);
	notes = json_object_get(json_object_get(json_object_get(c.pods, "muxd-coder"), "metadata"), "annotations");
	json_object_set_new(notes, KUBE_ANNOTATION_SPEC, json_string("0123"));
	tell("muxd-coder");
	assert_true(until(&c.deletes));
	end();
	assert_int_equal(r.rc, ERR_CANCELLED);
	begin();
	ensured("coder", "muxd-coder");
	notes = json_object_get(json_object_get(json_object_get(c.pods, "muxd-coder"), "metadata"), "annotations");
	json_object_set_new(notes, KUBE_ANNOTATION_SPEC, json_string("0123"));
	memset(&r, 0, sizeof(r));
	c.p->ops->ensure(c.p, "coder", on_done, &r);
	settle();
	reach_up(0);
	assert_int_equal(r.rc, 0);
	assert_int_equal(c.deletes, 0);
	end();
}

static void the_deadline_tells_the_pods_own_reason(void **state)
{
	struct result r = {0};

	(void)state;
	begin_with(WORKSPACE_EMPTYDIR, KUBE_PIN_AUTO, NS_PER_SEC, true);
	c.event = "Unable to attach or mount volumes";
	c.p->ops->ensure(c.p, "coder", on_done, &r);
	settle();
	set_status("muxd-coder",
		   "{'phase':'Pending','containerStatuses':[{'name':'sandbox','state':{'waiting':{'reason':"
		   "'ImagePullBackOff','message':'Back-off pulling image nosuch'}}}]}");
	assert_true(until(&r.times));
	assert_int_equal(r.rc, ERR_SANDBOX_TIMEOUT);
	assert_non_null(strstr(r.message, "ImagePullBackOff: Back-off pulling image nosuch"));
	assert_non_null(strstr(r.message, "FailedMount: Unable to attach or mount volumes"));
	assert_non_null(json_object_get(c.pods, "muxd-coder")); /* to look at, or to become ready later */
	end();
}

static void what_cannot_begin_is_told_at_once(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	c.p->ops->ensure(c.p, "coder", on_done, &r);
	settle();
	set_status("muxd-coder",
		   "{'phase':'Pending','containerStatuses':[{'name':'sandbox','state':{'waiting':{'reason':"
		   "'InvalidImageName','message':'bad'}}}]}");
	tell("muxd-coder");
	assert_int_equal(r.rc, ERR_SANDBOX_CREATE);
	assert_non_null(strstr(r.message, "InvalidImageName: bad"));
	end();
}

static void refusals_are_the_servers_own(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	c.fail_get = ERR_K8S_UNREACHABLE;
	c.p->ops->connect(c.p, "coder", on_done, &r);
	settle();
	assert_int_equal(r.rc, ERR_K8S_UNREACHABLE); /* not ERR_NOT_FOUND: sessions wait */
	assert_string_equal(r.message, "the API server said so");
	memset(&r, 0, sizeof(r));
	c.p->ops->connect(c.p, "coder", on_done, &r);
	settle();
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	memset(&r, 0, sizeof(r));
	c.fail_create = ERR_K8S_FORBIDDEN;
	c.p->ops->ensure(c.p, "coder", on_done, &r);
	settle();
	assert_int_equal(r.rc, ERR_K8S_FORBIDDEN);
	memset(&r, 0, sizeof(r));
	c.p->ops->ensure(c.p, "No Agent", on_done, &r);
	assert_int_equal(r.rc, ERR_INVAL);
	end();
}

/* The answer to the creation is lost, or somebody else was quicker: one pod, and no error. */
static void a_lost_answer_makes_no_second_pod(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	c.fail_create = ERR_EOF;
	c.p->ops->ensure(c.p, "coder", on_done, &r);
	while (c.creates < 2)
		settle();
	assert_int_equal(json_object_size(c.pods), 1);
	set_running("muxd-coder", KUBE_CONTAINER, "containerd://1");
	tell("muxd-coder");
	reach_up(0);
	assert_int_equal(r.rc, 0);
	end();
}

static void somebody_elses_pod_is_not_taken(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	other_pod("muxd-coder", "Always");
	set_running("muxd-coder", "main", "containerd://1");
	c.p->ops->ensure(c.p, "coder", on_done, &r);
	settle();
	assert_int_equal(r.rc, ERR_K8S_CONFLICT);
	assert_int_equal(c.reaches, 0);
	memset(&r, 0, sizeof(r));
	c.p->ops->destroy_sandbox(c.p, "coder", "x", on_done, &r);
	settle();
	assert_int_equal(r.rc, ERR_K8S_CONFLICT);
	assert_int_equal(c.deletes, 0);
	end();
}

/* ---- pods of others */

static void pods_of_others_are_neither_made_nor_ended(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	c.p->ops->ensure(c.p, "ns/web/main", on_done, &r);
	settle();
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	assert_int_equal(c.creates, 0);
	other_pod("web", "Always");
	set_status("web", "{'phase':'Pending','containerStatuses':[{'name':'main','state':{'waiting':{'reason':"
			  "'ErrImagePull','message':'no such image'}}}]}");
	memset(&r, 0, sizeof(r));
	c.p->ops->ensure(c.p, "ns/web/main", on_done, &r);
	settle();
	assert_int_equal(r.rc, ERR_BAD_STATE); /* at once: nobody waits for what others may never do */
	assert_non_null(strstr(r.message, "ErrImagePull: no such image"));
	set_running("web", "main", "containerd://1");
	memset(&r, 0, sizeof(r));
	c.p->ops->ensure(c.p, "ns/web/main", on_done, &r);
	settle();
	assert_int_equal(c.reach->leave_s, KP_LEAVE_S);
	assert_string_equal(c.reach->workdir, "-");
	reach_up(0);
	assert_int_equal(r.rc, 0);
	assert_false(r.info.cap_enforced);
	memset(&r, 0, sizeof(r));
	c.p->ops->destroy_sandbox(c.p, "ns/web/main", "x", on_done, &r);
	settle();
	assert_int_equal(r.rc, ERR_UNSUPPORTED);
	assert_int_equal(c.deletes, 0);
	end();
}

static void names_become_whole(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	other_pod("web", "Always");
	c.p->ops->resolve(c.p, "ns/web", on_name, &r);
	settle();
	assert_int_equal(r.rc, 0);
	assert_string_equal(r.name, "ns/web/main");
	json_array_append_new(json_object_get(json_object_get(json_object_get(c.pods, "web"), "spec"), "containers"),
			      json_pack("{s:s}", "name", "proxy"));
	c.p->ops->resolve(c.p, "ns/web", on_name, &r);
	settle();
	assert_int_equal(r.rc, ERR_INVAL);
	assert_string_equal(r.message, "pod web has the containers main and proxy: name one of them");
	c.p->ops->resolve(c.p, "ns/gone", on_name, &r);
	settle();
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	c.p->ops->resolve(c.p, "coder", on_name, &r);
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.times, 4);
	end();
}

/* ---- ends */

static struct result reached_web(void)
{
	struct result r = {0};

	other_pod("web", "Always");
	set_running("web", "main", "containerd://1");
	c.p->ops->ensure(c.p, "ns/web/main", on_done, &r);
	settle();
	reach_up(0);
	assert_int_equal(r.rc, 0);
	return r;
}

static void a_restart_or_a_deletion_is_told_at_once(void **state)
{
	struct result a, b = {0};

	(void)state;
	begin();
	a = reached_web();
	tell("web"); /* nothing new */
	assert_int_equal(c.gone, 0);
	set_status("web",
		   "{'phase':'Running','containerStatuses':[{'name':'main','containerID':'containerd://1','state':"
		   "{'terminated':{'exitCode':137,'reason':'OOMKilled'}}}]}");
	tell("web");
	assert_int_equal(c.gone, 1);
	assert_string_equal(c.gone_agent, "ns/web/main");
	assert_string_equal(c.gone_why, "its container was restarted: OOMKilled: exit code 137");
	assert_int_equal(c.reaches_alive, 0); /* the stream is cut */
	tell("web");
	assert_int_equal(c.gone, 1); /* once */
	set_running("web", "main", "containerd://2");
	tell("web");
	c.p->ops->connect(c.p, "ns/web/main", on_done, &b);
	settle();
	assert_string_equal(c.reach->known, ""); /* another container: what was known of the first is not true of it */
	reach_up(0);
	assert_false(id_equal(&a.info.sandbox_id, &b.info.sandbox_id));
	assert_memory_not_equal(a.info.secret, b.info.secret, sizeof(a.info.secret));
	tell_deleted("web");
	assert_int_equal(c.gone, 2);
	assert_string_equal(c.gone_why, "its pod was deleted");
	end();
}

/* The stream breaks first and the hub comes back before the watch has told: the cause is told all the same, and once.
 */
static void who_comes_back_first_hears_the_cause(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	reached_web();
	c.reach->ops->ended(c.reach->arg, "cut");
	set_status("web",
		   "{'phase':'Running','containerStatuses':[{'name':'main','containerID':'containerd://1','state':"
		   "{'terminated':{'exitCode':137,'reason':'Error'}}}]}");
	c.p->ops->connect(c.p, "ns/web/main", on_done, &r);
	settle();
	assert_int_equal(c.gone, 1);
	assert_string_equal(c.gone_why, "its container was restarted: Error: exit code 137");
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	tell("web");
	assert_int_equal(c.gone, 1);
	end();
}

/* The kubelet says first that the container is gone; the API server learns it later, and says why. */
static void the_kubelet_knows_before_the_api_server(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	reached_web();
	c.reach->ops->ended(c.reach->arg, "cut");
	c.p->ops->connect(c.p, "ns/web/main", on_done, &r);
	settle();
	reach_fails(ERR_NOT_FOUND, "container not found");
	settle();
	assert_int_equal(r.times, 0);
	set_status("web",
		   "{'phase':'Running','containerStatuses':[{'name':'main','containerID':'containerd://1','state':"
		   "{'terminated':{'exitCode':137,'reason':'Error'}}}]}");
	assert_true(until(&r.times));
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	assert_int_equal(c.gone, 1);
	assert_string_equal(c.gone_why, "its container was restarted: Error: exit code 137");
	end();
}

/* A watch that is behind tells of the time before the stream came up: a look at the pod says what is true. */
static void an_old_word_ends_nothing(void **state)
{
	json_t *old;

	(void)state;
	begin();
	reached_web();
	old = json_deep_copy(json_object_get(c.pods, "web"));
	json_object_set_new(old, "status", json_pack("{s:s}", "phase", "Pending"));
	for (struct kube_watch *w = LIST_FIRST(&c.watches); w; w = LIST_NEXT(w, entry))
		if (w->fields[0])
			w->ops->modified(w->arg, old);
	settle();
	assert_int_equal(c.gone, 0);
	json_object_set_new(json_object_get(old, "metadata"), "uid", json_string("uid-of-an-earlier-one"));
	for (struct kube_watch *w = LIST_FIRST(&c.watches); w; w = LIST_NEXT(w, entry))
		if (w->fields[0])
			w->ops->deleted(w->arg, old);
	settle();
	assert_int_equal(c.gone, 0);
	json_decref(old);
	end();
}

static void a_pod_that_ends_while_it_is_reached(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	other_pod("web", "Never");
	set_running("web", "main", "containerd://1");
	c.p->ops->ensure(c.p, "ns/web/main", on_done, &r);
	settle();
	assert_int_equal(c.reaches_alive, 1);
	tell_deleted("web");
	assert_int_equal(r.times, 1);
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	assert_int_equal(c.reaches_alive, 0);
	assert_int_equal(c.gone, 0); /* nothing was linked: there is nothing to end */
	end();
}

static int watches(void)
{
	struct kube_watch *w;
	int n = 0;

	LIST_FOREACH(w, &c.watches, entry)
	n++;
	return n;
}

/* Names that nobody comes back to cost nothing: no watch, no memory. One with a stream stays. */
static void names_are_forgotten_in_the_end(void **state)
{
	uint64_t boot = clock_boot_ns();
	int64_t wall = clock_wall_ns();
	struct result r = {0};

	(void)state;
	begin();
	clock_test_set(boot, wall);
	reached_web();
	assert_int_equal(watches(), 2);
	clock_test_set(boot + 3600 * NS_PER_SEC, wall);
	ensured("coder", "muxd-coder");
	assert_int_equal(watches(), 2); /* an hour of use */
	c.p->ops->connect(c.p, "ns/web/main", on_done, &r);
	settle();
	reach_fails(ERR_K8S_UNREACHABLE, "no route");
	clock_test_set(boot + 2 * 3600 * NS_PER_SEC, wall);
	ensured("other", "muxd-other");
	assert_int_equal(watches(), 1);
	clock_test_reset();
	end();
}

static void destroying_waits_for_the_kubelet(void **state)
{
	struct result r = {0};

	(void)state;
	begin_with(WORKSPACE_CLAIM, KUBE_PIN_AUTO, 0, true);
	c.p->ops->destroy_sandbox(c.p, "coder", "x", on_done, &r);
	settle();
	assert_int_equal(r.rc, 0); /* gone already is no error */
	ensured("coder", "muxd-coder");
	c.lingering = true;
	memset(&r, 0, sizeof(r));
	c.p->ops->destroy_sandbox(c.p, "coder", "x", on_done, &r);
	settle();
	assert_int_equal(c.deletes, 1);
	assert_int_equal(c.last_grace, 1);
	assert_int_equal(r.times, 0);
	tell_deleted("muxd-coder");
	assert_true(until(&r.times));
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.info.state, SANDBOX_ABSENT);
	assert_non_null(json_object_get(c.claims, "muxd-coder")); /* the workspace stays */
	memset(&r, 0, sizeof(r));
	c.p->ops->wipe(c.p, "coder", "x", on_done, &r);
	settle();
	assert_int_equal(r.rc, 0);
	assert_null(json_object_get(c.claims, "muxd-coder"));
	memset(&r, 0, sizeof(r));
	c.p->ops->wipe(c.p, "coder", "x", on_done, &r);
	settle();
	assert_int_equal(r.rc, 0);
	end();
}

/* The pod went and another of its name came, between the look and the deletion: the other is not touched. */
static void only_the_pod_that_was_seen_is_ended(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	ensured("coder", "muxd-coder");
	c.fail_delete = ERR_K8S_CONFLICT;
	c.p->ops->destroy_sandbox(c.p, "coder", "x", on_done, &r);
	settle();
	assert_int_equal(r.rc, 0);
	assert_non_null(json_object_get(c.pods, "muxd-coder"));
	end();
}

/* ---- the backend */

static void where_muxlet_cannot_run(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	other_pod("web", "Always");
	set_running("web", "main", "containerd://1");
	c.p->ops->ensure(c.p, "ns/web/main", on_done, &r);
	settle();
	reach_fails(ERR_UNSUPPORTED, "there is no shell");
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.info.backend, SANDBOX_PLAIN);
	assert_string_equal(r.info.why, "there is no shell");
	assert_string_equal(c.plain_container, "main");
	memset(&r, 0, sizeof(r));
	c.p->ops->connect(c.p, "ns/web/main", on_done, &r);
	settle();
	assert_int_equal(r.info.backend, SANDBOX_PLAIN); /* it is not tried again in the same container */
	assert_int_equal(c.reaches, 1);
	assert_int_equal(c.plain_opens, 2);
	set_running("web", "main", "containerd://2");
	tell("web");
	assert_int_equal(c.gone, 1);
	c.p->ops->connect(c.p, "ns/web/main", on_done, &r);
	settle();
	assert_int_equal(c.reaches, 2); /* but in the next one it is */
	end();

	begin_with(WORKSPACE_EMPTYDIR, KUBE_PIN_LINK, 0, true);
	other_pod("web", "Always");
	set_running("web", "main", "containerd://1");
	memset(&r, 0, sizeof(r));
	c.p->ops->ensure(c.p, "ns/web/main", on_done, &r);
	settle();
	reach_fails(ERR_UNSUPPORTED, "there is no shell");
	assert_int_equal(r.rc, ERR_UNSUPPORTED);
	assert_int_equal(c.plain_opens, 0);
	end();

	begin_with(WORKSPACE_EMPTYDIR, KUBE_PIN_PLAIN, 0, true);
	other_pod("web", "Always");
	set_running("web", "main", "containerd://1");
	memset(&r, 0, sizeof(r));
	c.p->ops->ensure(c.p, "ns/web/main", on_done, &r);
	settle();
	assert_int_equal(r.info.backend, SANDBOX_PLAIN);
	assert_int_equal(c.reaches, 0);
	end();

	begin_with(WORKSPACE_EMPTYDIR, KUBE_PIN_AUTO, 0, false);
	other_pod("web", "Always");
	set_running("web", "main", "containerd://1");
	memset(&r, 0, sizeof(r));
	c.p->ops->ensure(c.p, "ns/web/main", on_done, &r);
	settle();
	reach_fails(ERR_UNSUPPORTED, "there is no shell");
	assert_int_equal(r.rc, ERR_UNSUPPORTED);
	end();
}

/* ---- looking */

static void looks(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	c.p->ops->stat(c.p, "coder", on_done, &r);
	settle();
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.info.state, SANDBOX_ABSENT);
	ensured("coder", "muxd-coder");
	c.p->ops->stat(c.p, "coder", on_done, &r);
	settle();
	assert_int_equal(r.info.state, SANDBOX_RUNNING);
	assert_string_equal(r.info.delivery, "stream");
	assert_int_equal(r.fd, -1);
	other_pod("stranger", "Always");
	c.p->ops->list(c.p, on_list, &r);
	settle();
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.n, 1);
	assert_string_equal(r.info.agent, "coder");
	end();
}

static void an_end_answers_every_question_once(void **state)
{
	struct result r[6] = {{0}};

	(void)state;
	begin();
	c.p->ops->ensure(c.p, "a", on_done, &r[0]); /* waits for its pod */
	c.p->ops->ensure(c.p, "b", on_done, &r[1]); /* is being reached */
	settle();
	set_running("muxd-b", KUBE_CONTAINER, "containerd://1");
	tell("muxd-b");
	c.p->ops->connect(c.p, "c", on_done, &r[2]); /* has just been asked */
	c.p->ops->list(c.p, on_list, &r[3]);
	c.p->ops->resolve(c.p, "ns/pod", on_name, &r[4]);
	c.p->ops->destroy_sandbox(c.p, "a", "x", on_done, &r[5]);
	end();
	for (int i = 0; i < 6; i++) {
		assert_int_equal(r[i].times, 1);
		assert_int_equal(r[i].rc, ERR_CANCELLED);
	}
}

struct log_result {
	int times, rc;
	char text[100], message[ERR_MESSAGE_MAX];
};

static void on_log(void *arg, int rc, const struct err *e, const uint8_t *text, size_t n)
{
	struct log_result *r = arg;

	r->times++;
	r->rc = rc;
	snprintf(r->text, sizeof(r->text), "%.*s", (int)n, text ? (const char *)text : "");
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
}

static void the_end_of_a_log(void **state)
{
	struct log_result r = {0}, absent = {0}, bad = {0};

	(void)state;
	begin();
	json_object_set_new(c.pods, "web-0", json_object());
	c.log = "one line\nanother line\nthe last line\n";
	c.p->ops->log(c.p, "prod/web-0/app", 14, on_log, &r);
	settle();
	assert_int_equal(r.times, 1);
	assert_int_equal(r.rc, 0);
	assert_string_equal(r.text, "the last line\n");
	assert_string_equal(c.plain_container, "app");
	c.p->ops->log(c.p, "asleep", 14, on_log, &absent);
	c.p->ops->log(c.p, "Not a name", 14, on_log, &bad);
	settle();
	assert_int_equal(absent.rc, ERR_NOT_FOUND);
	assert_non_null(strstr(absent.message, "asleep"));
	assert_int_equal(bad.rc, ERR_INVAL);
	c.log = NULL;
	end();
}

/* ---- nodes that are lost */

static struct result ensured_on_a_node(const char *agent, const char *pod)
{
	struct result r = {0};

	c.p->ops->ensure(c.p, agent, on_done, &r);
	settle();
	json_object_set_new(json_object_get(json_object_get(c.pods, pod), "spec"), "nodeName", json_string("node-1"));
	set_running(pod, KUBE_CONTAINER, "containerd://1");
	tell(pod);
	reach_up(0);
	assert_int_equal(r.rc, 0);
	return r;
}

static void a_pod_that_went_with_its_node_says_so(void **state)
{
	(void)state;
	begin();
	ensured_on_a_node("coder", "muxd-coder");
	tell_deleted("muxd-coder");
	assert_int_equal(c.gone, 1);
	assert_string_equal(c.gone_why, "its pod was deleted: node node-1 is no longer in the cluster");
	c.node = json_pack("{s:{s:[{s:s,s:s,s:s}]}}", "status", "conditions", "type", "Ready", "status", "Unknown",
			   "message", "Kubelet stopped posting node status.");
	ensured_on_a_node("coder", "muxd-coder");
	tell_deleted("muxd-coder");
	assert_int_equal(c.gone, 2);
	assert_string_equal(c.gone_why,
			    "its pod was deleted: node node-1 is not ready: Kubelet stopped posting node status.");
	ensured_on_a_node("coder", "muxd-coder");
	c.fail_get = ERR_K8S_FORBIDDEN; /* who may not look at nodes */
	tell_deleted("muxd-coder");
	assert_int_equal(c.gone, 3);
	assert_string_equal(c.gone_why, "its pod was deleted");
	end();
}

/* Whoever comes back hears of the end first, even before the watch does. */
static void the_cause_comes_before_the_next_start(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	ensured_on_a_node("coder", "muxd-coder");
	json_object_del(c.pods, "muxd-coder");
	c.creates = 0;
	c.p->ops->ensure(c.p, "coder", on_done, &r);
	assert_true(until(&c.gone));
	assert_non_null(strstr(c.gone_why, "no longer in the cluster"));
	assert_int_equal(c.creates, 0);
	assert_true(until(&c.creates));
	assert_int_equal(c.gone, 1);
	end();
}

static void a_pod_that_its_node_never_confirms_is_not_waited_for(void **state)
{
	struct result r = {0};
	char first[40];

	(void)state;
	begin();
	ensured_on_a_node("coder", "muxd-coder");
	snprintf(first, sizeof(first), "%s", uid_of("muxd-coder"));
	c.lingering = true;
	json_object_set_new(json_object_get(json_object_get(c.pods, "muxd-coder"), "metadata"), "deletionTimestamp",
			    json_string("2020-11-21T08:00:00Z"));
	tell("muxd-coder");
	assert_int_equal(c.gone, 1);
	assert_string_equal(c.gone_why, "its pod was deleted, and its node node-1 does not answer");
	c.p->ops->connect(c.p, "coder", on_done, &r);
	settle();
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	memset(&r, 0, sizeof(r));
	c.creates = 0;
	c.p->ops->ensure(c.p, "coder", on_done, &r);
	assert_true(until(&c.creates));
	assert_int_equal(c.last_grace, 0);
	settle();
	assert_string_not_equal(uid_of("muxd-coder"), first);
	end();
}

/* ---- held by a Sandbox, whose controller is the test */

static const char *str_at(const json_t *o, const char *a, const char *b, const char *d)
{
	return json_string_value(json_object_get(json_object_get(json_object_get(o, a), b), d));
}

static json_int_t replicas(const json_t *o)
{
	const json_t *n = json_object_get(json_object_get(o, "spec"), "replicas");

	assert_true(json_is_integer(n));
	return json_integer_value(n);
}

static void a_sandbox_holds_the_pod(void **state)
{
	struct result r = {0};
	json_t *box, *pod, *spec;

	(void)state;
	hold = KUBE_HOLD_SANDBOX;
	begin();
	hold = KUBE_HOLD_POD;
	c.p->ops->ensure(c.p, "coder", on_done, &r);
	settle();
	assert_int_equal(json_object_size(c.pods), 0);
	box = json_object_get(c.boxes, "investigation-coder");
	assert_non_null(box);
	spec = json_object_get(box, "spec");
	assert_string_equal(str_at(box, "metadata", "labels", "thread-id"), "coder");
	assert_int_equal(replicas(box), 1);
	assert_string_equal(json_string_value(json_object_get(spec, "shutdownPolicy")), "Delete");
	assert_int_equal(strlen(json_string_value(json_object_get(spec, "shutdownTime"))),
			 strlen("2026-11-21T08:00:00Z"));
	pod = json_deep_copy(json_object_get(spec, "podTemplate"));
	json_object_update_new(
	    json_object_get(pod, "metadata"),
	    json_pack("{s:s,s:s,s:s}", "name", "investigation-coder", "namespace", "agents", "uid", "uid-pod"));
	json_object_set_new(c.pods, "investigation-coder", pod);
	set_running("investigation-coder", KUBE_CONTAINER, "containerd://1");
	tell("investigation-coder");
	reach_up(0);
	assert_int_equal(r.rc, 0);
	memset(&r, 0, sizeof(r));
	c.p->ops->destroy_sandbox(c.p, "coder", "test", on_done, &r);
	assert_true(until(&r.times));
	assert_int_equal(r.rc, 0);
	assert_int_equal(replicas(c.patch), 0);
	assert_int_equal(c.gone, 0);
	memset(&r, 0, sizeof(r));
	c.p->ops->ensure(c.p, "coder", on_done, &r); /* there already: woken */
	settle();
	assert_int_equal(replicas(c.patch), 1);
	end();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_pod_is_made_awaited_and_reached),
	    cmocka_unit_test(a_stream_is_made_again),
	    cmocka_unit_test(secrets_come_from_the_master_and_the_ids),
	    cmocka_unit_test(a_clock_that_is_set_back_does_not_lower_an_epoch),
	    cmocka_unit_test(claims_come_before_pods),
	    cmocka_unit_test(what_is_over_is_replaced),
	    cmocka_unit_test(an_outdated_plan_is_replaced),
	    cmocka_unit_test(the_deadline_tells_the_pods_own_reason),
	    cmocka_unit_test(what_cannot_begin_is_told_at_once),
	    cmocka_unit_test(refusals_are_the_servers_own),
	    cmocka_unit_test(a_lost_answer_makes_no_second_pod),
	    cmocka_unit_test(somebody_elses_pod_is_not_taken),
	    cmocka_unit_test(pods_of_others_are_neither_made_nor_ended),
	    cmocka_unit_test(names_become_whole),
	    cmocka_unit_test(a_restart_or_a_deletion_is_told_at_once),
	    cmocka_unit_test(who_comes_back_first_hears_the_cause),
	    cmocka_unit_test(the_kubelet_knows_before_the_api_server),
	    cmocka_unit_test(an_old_word_ends_nothing),
	    cmocka_unit_test(a_pod_that_ends_while_it_is_reached),
	    cmocka_unit_test(names_are_forgotten_in_the_end),
	    cmocka_unit_test(destroying_waits_for_the_kubelet),
	    cmocka_unit_test(only_the_pod_that_was_seen_is_ended),
	    cmocka_unit_test(where_muxlet_cannot_run),
	    cmocka_unit_test(looks),
	    cmocka_unit_test(an_end_answers_every_question_once),
	    cmocka_unit_test(the_end_of_a_log),
	    cmocka_unit_test(a_pod_that_went_with_its_node_says_so),
	    cmocka_unit_test(the_cause_comes_before_the_next_start),
	    cmocka_unit_test(a_pod_that_its_node_never_confirms_is_not_waited_for),
	    cmocka_unit_test(a_sandbox_holds_the_pod),
	};

	(void)log_setup("test", "error", LOG_TEXT, 2, NULL);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
