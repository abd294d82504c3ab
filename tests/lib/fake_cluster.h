/*
 * fake_cluster.h - a cluster that does as it is told, for tests of the provider of pods.
 *
 * The verbs and watches of the REST client and the way into a container are defined here instead of in the library, so
 * that every refusal, loss and late answer can be had at will. Everything static, of one test program: the state is
 * `c`.
 */
#ifndef TESTS_LIB_FAKE_CLUSTER_H
#define TESTS_LIB_FAKE_CLUSTER_H

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "control/kube/pods/provider.h"
#include "control/kube/pods/provider_state.h"

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

#define RIG_UNUSED __attribute__((unused))

/* ---- the fake cluster */

struct kube_call {
	kube_done *done;
	void *arg;
	int rc;
	json_t *body;
	char message[200], resource[64]; /* resource: of a GET */
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
	TAILQ_HEAD(calls, kube_call) calls;
	LIST_HEAD(, kube_watch) watches;
	json_t *pods; /* name -> pod */
	json_t *claims;
	json_t *boxes;       /* Sandbox objects */
	json_t *wants;       /* SandboxClaim objects */
	const char *unknown; /* a resource that no API serves; NULL: none */
	const char *refused; /* why the next creation is refused; NULL: no words */
	const char *served;  /* their versions, as "v1alpha1 v1beta1"; NULL: nobody knows them */
	int groups;          /* times that was asked */
	char version[16];    /* in which a Sandbox was spoken of last */
	json_t *patch;       /* the last */
	json_t *node;        /* every node there is */
	int gets, creates, deletes, patches, serial;
	int fail_patch;                         /* ERR_* for all of pods/ephemeralcontainers */
	bool lose_patch;                        /* the next one of these is done, and its answer lost */
	int fail_get, fail_create, fail_delete; /* ERR_* for the next one of its kind */
	bool lingering;                         /* a deleted pod stays, with a deletionTimestamp */
	int64_t last_grace;
	char last_uid[64]; /* that a deletion was bound to */
	const char *event, *log;
	const char *dropping;  /* a field of a pod's spec that this server drops */
	const char *hold_back; /* GETs of this resource are not answered by settle() */
	struct reach *reach;   /* the newest */
	int reaches, reaches_alive;
	char gone_agent[200], gone_why[300];
	int gone;
	int plain_opens;
	char plain_container[64], plain_visitor[64], plain_muxlet[64];
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

static RIG_UNUSED int later(int rc, json_t *body, const char *message, kube_done *done, void *arg,
			    struct kube_call **out)
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

static RIG_UNUSED void answer(struct kube_call *k)
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

/* As the API server answers for an object that is not there, and for a path that nobody serves. */
static RIG_UNUSED int absent(const struct kube_ref *r, const char *name, kube_done *done, void *arg,
			     struct kube_call **out)
{
	return later(ERR_NOT_FOUND,
		     json_pack("{s:s,s:i,s:s,s:{s:s,s:s}}", "kind", "Status", "code", 404, "reason", "NotFound",
			       "details", "name", name, "kind", r->resource),
		     "the API server said so", done, arg, out);
}

/* A Sandbox is spoken of in a version that is not served. */
static RIG_UNUSED bool unserved(const struct kube_ref *r)
{
	if (c.unknown && strcmp(r->resource, c.unknown) == 0)
		return true;
	if (strcmp(r->resource, "sandboxes") != 0)
		return false;
	snprintf(c.version, sizeof(c.version), "%s", r->version);
	return !c.served || !strstr(c.served, r->version);
}

static RIG_UNUSED json_t *store_of(const struct kube_ref *r)
{
	return strcmp(r->resource, "pods") == 0            ? c.pods
	       : strcmp(r->resource, "sandboxes") == 0     ? c.boxes
	       : strcmp(r->resource, "sandboxclaims") == 0 ? c.wants
							   : c.claims;
}

static RIG_UNUSED int nowhere(kube_done *done, void *arg, struct kube_call **out)
{
	return later(ERR_NOT_FOUND, NULL, "404 page not found", done, arg, out);
}

int kube_get_group(struct kube *k, const char *group, kube_done *done, void *arg, struct kube_call **out, struct err *e)
{
	json_t *list = json_array();
	char copy[100], *save = NULL;

	(void)k, (void)e;
	assert_string_equal(group, "agents.x-k8s.io");
	c.groups++;
	snprintf(copy, sizeof(copy), "%s", c.served ? c.served : "");
	for (char *v = strtok_r(copy, " ", &save); v; v = strtok_r(NULL, " ", &save))
		json_array_append_new(list, json_pack("{s:s}", "version", v));
	if (c.served)
		return later(0, json_pack("{s:s,s:o}", "kind", "APIGroup", "versions", list), "", done, arg, out);
	json_decref(list);
	return nowhere(done, arg, out);
}

static RIG_UNUSED int take(int *what)
{
	int rc = *what;

	*what = 0;
	return rc;
}

void kube_ref_right(const char *verb, const struct kube_ref *r, char *out, size_t size)
{
	snprintf(out, size, "%s %s", verb, r->resource);
}

int kube_get(struct kube *k, const struct kube_ref *r, kube_done *done, void *arg, struct kube_call **out,
	     struct err *e)
{
	json_t *pod = strcmp(r->resource, "nodes") == 0 ? c.node : json_object_get(store_of(r), r->name);
	struct kube_call *call;
	int rc = take(&c.fail_get);

	(void)k, (void)e;
	c.gets++;
	if (!rc && unserved(r))
		nowhere(done, arg, out);
	else if (!rc && !pod)
		absent(r, r->name, done, arg, out);
	else
		later(rc, rc ? NULL : json_deep_copy(pod), "the API server said so", done, arg, out);
	call = TAILQ_LAST(&c.calls, calls);
	snprintf(call->resource, sizeof(call->resource), "%s", r->resource);
	return 0;
}

int kube_create(struct kube *k, const struct kube_ref *r, const json_t *object, kube_done *done, void *arg,
		struct kube_call **out, struct err *e)
{
	json_t *to = store_of(r), *made, *meta;
	const char *name = json_string_value(json_object_get(json_object_get(object, "metadata"), "name"));
	int rc = take(&c.fail_create);
	char uid[20];

	(void)k, (void)e;
	c.creates++;
	if (!rc && unserved(r))
		return nowhere(done, arg, out);
	if (!rc && json_object_get(to, name))
		rc = ERR_K8S_CONFLICT;
	if (rc)
		return later(rc, NULL, c.refused ? c.refused : "refused", done, arg, out);
	made = json_deep_copy(object);
	meta = json_object_get(made, "metadata");
	snprintf(uid, sizeof(uid), "uid-%d", ++c.serial);
	json_object_set_new(meta, "uid", json_string(uid));
	json_object_set_new(meta, "generation", json_integer(1));
	json_object_set_new(meta, "creationTimestamp", json_string("2026-11-21T08:00:00Z"));
	json_object_set_new(made, "status", json_pack("{s:s}", "phase", "Pending"));
	if (c.dropping && to == c.pods)
		(void)json_object_del(json_object_get(made, "spec"), c.dropping);
	json_object_set_new(to, name, made);
	return later(0, json_deep_copy(made), "", done, arg, out);
}

static RIG_UNUSED const char *uid_of(const char *name)
{
	return json_string_value(json_object_get(json_object_get(json_object_get(c.pods, name), "metadata"), "uid"));
}

/* Deleted in the foreground a SandboxClaim stays until its Sandbox is gone: the garbage collector is the test. */
static RIG_UNUSED bool holds_up(const struct kube_ref *r, const struct kube_delete_options *o)
{
	return store_of(r) == c.wants && o && o->propagation && strcmp(o->propagation, "Foreground") == 0 &&
	       json_object_size(c.boxes);
}

int kube_delete(struct kube *k, const struct kube_ref *r, const struct kube_delete_options *o, kube_done *done,
		void *arg, struct kube_call **out, struct err *e)
{
	json_t *from = store_of(r), *it = json_object_get(from, r->name);
	int rc = take(&c.fail_delete);

	(void)k, (void)e;
	c.deletes++;
	c.last_grace = o ? o->grace_s : -1;
	snprintf(c.last_uid, sizeof(c.last_uid), "%s", o && o->uid ? o->uid : "");
	if (!rc && unserved(r))
		return nowhere(done, arg, out);
	if (!rc && !it)
		return absent(r, r->name, done, arg, out);
	if (!rc && o && o->uid && from == c.pods && strcmp(o->uid, uid_of(r->name)) != 0)
		rc = ERR_K8S_CONFLICT;
	else if (!rc && ((c.lingering && from == c.pods && c.last_grace != 0) || holds_up(r, o)))
		json_object_set_new(json_object_get(it, "metadata"), "deletionTimestamp",
				    json_string("2026-11-21T08:00:00Z"));
	else if (!rc)
		json_object_del(from, r->name);
	return later(rc, NULL, "not deleted", done, arg, out);
}

/* pods/ephemeralcontainers: by name, never changed once there; 404 where the server has no such thing. */
static RIG_UNUSED int add_ephemeral(const struct kube_ref *r, enum kube_patch_kind kind, const json_t *patch,
				    kube_done *done, void *arg, struct kube_call **out)
{
	json_t *pod = json_object_get(c.pods, r->name), *spec = json_object_get(pod, "spec"), *list;

	assert_string_equal(r->resource, "pods");
	assert_string_equal(r->subresource, "ephemeralcontainers");
	assert_int_equal(kind, KUBE_PATCH_STRATEGIC);
	c.patches++;
	if (c.fail_patch)
		return later(c.fail_patch, NULL, "the API server said so: patch pods/ephemeralcontainers", done, arg,
			     out);
	list = json_object_get(spec, "ephemeralContainers");
	if (!list)
		json_object_set_new(spec, "ephemeralContainers", list = json_array());
	json_array_extend(list, json_object_get(json_object_get(patch, "spec"), "ephemeralContainers"));
	if (c.lose_patch) {
		c.lose_patch = false;
		return later(ERR_EOF, NULL, "the answer was broken off", done, arg, out);
	}
	return later(0, json_deep_copy(pod), "", done, arg, out);
}

int kube_patch(struct kube *k, const struct kube_ref *r, enum kube_patch_kind kind, const json_t *patch,
	       kube_done *done, void *arg, struct kube_call **out, struct err *e)
{
	json_t *box = json_object_get(store_of(r), r->name), *meta;

	(void)k, (void)e;
	if (r->subresource)
		return add_ephemeral(r, kind, patch, done, arg, out);
	assert_int_equal(kind, KUBE_PATCH_MERGE);
	assert_int_equal(strncmp(r->resource, "sandbox", 7), 0);
	c.patches++;
	json_decref(c.patch);
	c.patch = json_deep_copy(patch);
	if (unserved(r))
		return nowhere(done, arg, out);
	if (!box)
		return absent(r, r->name, done, arg, out);
	meta = json_object_get(box, "metadata");
	json_object_update(json_object_get(box, "spec"), json_object_get(c.patch, "spec"));
	json_object_set_new(meta, "generation",
			    json_integer(json_integer_value(json_object_get(meta, "generation")) + 1));
	return later(0, json_deep_copy(box), "", done, arg, out);
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

static RIG_UNUSED void reach_up(uint64_t workspace_size)
{
	struct reach_result res = {.path = "/tmp/.muxd-1/muxlet",
				   .delivery = "stream",
				   .joined = {.version = "0.1.0", .workspace_size = workspace_size}};
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_non_null(c.reach);
	c.reach->ops->done(c.reach->arg, 0, NULL, &res, fd);
}

static RIG_UNUSED void reach_fails(int rc, const char *text)
{
	struct err e = {0};

	assert_non_null(c.reach);
	err_set(&e, rc, "%s", text);
	c.reach->ops->done(c.reach->arg, rc, &e, NULL, -1);
}

static RIG_UNUSED int fake_plain(void *arg, const struct kube_plain_target *t, int *out_fd, struct err *e)
{
	assert_ptr_equal(arg, &c);
	(void)e;
	c.plain_opens++;
	snprintf(c.plain_container, sizeof(c.plain_container), "%s", t->container);
	snprintf(c.plain_visitor, sizeof(c.plain_visitor), "%s", t->visitor ? t->visitor : "");
	snprintf(c.plain_muxlet, sizeof(c.plain_muxlet), "%s", t->visitor ? t->muxlet : "");
	*out_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	return 0;
}

#endif
