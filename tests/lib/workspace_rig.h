/*
 * workspace_rig.h - a provider of pods with claims on a fake API server (fake_apiserver.py), for tests of workspaces
 * and snapshots: an agent "coder" in namespace ns, its claim, one snapshot, and what is behind them.
 *
 * begin(), then ops of r.p; end(). Waiting is for conditions, 30 s at the most.
 */
#ifndef TESTS_LIB_WORKSPACE_RIG_H
#define TESTS_LIB_WORKSPACE_RIG_H

#include "base/clock.h"
#include "control/kube/pods/claim.h"
#include "control/kube/pods/provider.h"
#include "tests/lib/asks.h"
#include "tests/lib/kube_rig.h"

#define CA       ", certificate-authority: ca.crt"
#define CLAIMS   "/api/v1/namespaces/ns/persistentvolumeclaims"
#define SNAPS    "/apis/snapshot.storage.k8s.io/v1/namespaces/ns/volumesnapshots"
#define CONTENTS "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents"
#define ID       "01010101-0101-4101-8101-0123456789ab"
#define SNAP     SNAPS "/muxd-" ID
#define NEXT     CLAIMS "/muxd-coder.2-456789ab"
#define OF_CODER                                                                                                       \
	"\"labels\":{\"muxd.dev/role\":\"sandbox\",\"agent_id\":\"coder\"},\"annotations\":{\"muxd.dev/"               \
	"agent\":\"coder\"}"
#define BOUND "\"status\":{\"phase\":\"Bound\"}"
#define REFUSE_LIST                                                                                                    \
	"{\"do\":\"rule\",\"method\":\"GET\",\"path\":\"persistentvolumeclaims\\\\?\",\"times\":0,\"status\":403,"     \
	"\"text\":\"no\"}"
#define CUT     "\"body\":{\"a\":\"long enough to be cut\"},\"cut\":5"
#define SECONDS ((uint64_t)1000 * 1000 * 1000)

struct rig {
	struct kube_rig *k;
	struct sandbox_provider *p;
};

struct answer {
	bool done;
	int rc;
	char message[ERR_MESSAGE_MAX];
	struct sandbox_snapshot snapshot;
	struct sandbox_info info;
	size_t n;
};

static RIG_UNUSED struct id an_id(void)
{
	struct id id;

	assert_int_equal(id_parse(ID, &id), 0);
	return id;
}

static RIG_UNUSED void on_snapshots(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const struct sandbox_snapshot *list = got->snapshots;
	size_t n = got->n;
	int rc = got->rc;
	struct answer *a = arg;

	assert_false(a->done);
	a->done = true;
	a->rc = rc;
	a->n = n;
	snprintf(a->message, sizeof(a->message), "%s", e ? e->message : "");
	if (n)
		a->snapshot = list[0];
}

static RIG_UNUSED void on_done(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const struct sandbox_info *info = got->info;
	int fd = got->fd;
	int rc = got->rc;
	struct answer *a = arg;

	assert_false(a->done);
	assert_int_equal(fd, -1);
	a->done = true;
	a->rc = rc;
	snprintf(a->message, sizeof(a->message), "%s", e ? e->message : "");
	if (info)
		a->info = *info;
}

static RIG_UNUSED struct rig begin_with(enum kube_workspace workspace)
{
	struct rig r = {.k = rig_create()};
	struct kube_provider_params p = {.spec = {.ns = "ns",
						  .image = "busybox",
						  .workspace = workspace,
						  .workspace_size = 1 << 30,
						  .storage_class = "fast",
						  .snapshot_class = "copies"}};
	struct err e = {0};

	rig_start_with(r.k, "server.crt", "server.key");
	assert_int_equal(rig_connect_as(r.k, "{token: t}", CA, NULL, NULL, &e), 0);
	p.kube = r.k->kube;
	p.muxlet_fd = open(BUILD_DIR "/muxlet", O_RDONLY | O_CLOEXEC);
	assert_int_equal(kube_provider_create(&p, &r.p, &e), 0);
	close(p.muxlet_fd);
	return r;
}

/* An agent "coder" with a claim that is bound. */
static RIG_UNUSED struct rig begin(void)
{
	struct rig r = begin_with(WORKSPACE_CLAIM);

	rig_do(r.k, "{\"do\":\"put\",\"path\":\"" CLAIMS "/muxd-coder\",\"object\":{\"metadata\":{" OF_CODER "}," BOUND
		    "}}");
	return r;
}

static RIG_UNUSED void end(struct rig *r)
{
	r->p->ops->destroy(r->p);
	rig_destroy(r->k);
}

/* Into an object as soon as it is there; the answer it then is. */
static RIG_UNUSED void merge(struct rig *r, const char *path, const char *object)
{
	uv_timer_t t;
	bool there = false;

	uv_timer_init(&r->k->loop, &t);
	uv_timer_start(&t, rig_tick, 10, 10);
	for (struct patience left = patience_of(RIG_WAIT_S * UINT64_C(1000000000)); !there && !patience_over(&left);) {
		json_t *o = rig_ask(r->k, "{\"do\":\"merge\",\"path\":\"%s\",\"object\":%s}", path, object);

		there = !json_is_null(o);
		json_decref(o);
		uv_run(&r->k->loop, UV_RUN_ONCE);
	}
	uv_close((uv_handle_t *)&t, NULL);
	uv_run(&r->k->loop, UV_RUN_NOWAIT);
	if (!there)
		fail_msg("%s was never made", path);
}

static RIG_UNUSED bool is_there(struct rig *r, const char *path)
{
	json_t *o = rig_ask(r->k, "{\"do\":\"merge\",\"path\":\"%s\",\"object\":{}}", path);
	bool there = !json_is_null(o);

	json_decref(o);
	return there;
}

/* A text inside what is there: "spec.resources.requests.storage". */
static RIG_UNUSED void expect_text(struct rig *r, const char *path, const char *where, const char *want)
{
	json_t *o = rig_ask(r->k, "{\"do\":\"merge\",\"path\":\"%s\",\"object\":{}}", path);
	const json_t *at = o;
	char *copy = strdup(where), *save = NULL;

	for (char *p = strtok_r(copy, "|", &save); p; p = strtok_r(NULL, "|", &save))
		at = json_object_get(at, p);
	assert_non_null(at);
	assert_string_equal(json_string_value(at), want);
	json_decref(o);
	free(copy);
}

static RIG_UNUSED void content(struct rig *r, const char *ns)
{
	json_t *o = rig_ask(r->k, "{\"do\":\"merge\",\"path\":\"" SNAP "\",\"object\":{}}");
	const char *uid = json_string_value(json_object_get(json_object_get(o, "metadata"), "uid"));

	rig_do(r->k,
	       "{\"do\":\"put\",\"path\":\"" CONTENTS
	       "/c\",\"object\":{\"metadata\":{},\"spec\":{\"volumeSnapshotRef\":"
	       "{\"name\":\"muxd-" ID "\",\"namespace\":\"%s\",\"uid\":\"%s\"}}}}",
	       ns, uid);
	json_decref(o);
}

/* A snapshot of coder's that is ready. */
static RIG_UNUSED void snapshot(struct rig *r, const char *restore_size)
{
	rig_do(
	    r->k,
	    "{\"do\":\"put\",\"path\":\"" SNAP
	    "\",\"object\":{\"metadata\":{\"labels\":{\"muxd.dev/role\":\"snapshot\",\"agent_id\":\"coder\"},"
	    "\"annotations\":{\"muxd.dev/agent\":\"coder\",\"muxd.dev/snapshot\":\"" ID
	    "\"}},\"spec\":{\"source\":{\"persistentVolumeClaimName\":\"muxd-coder\"}},\"status\":{\"readyToUse\":true,"
	    "\"restoreSize\":\"%s\",\"boundVolumeSnapshotContentName\":\"c\"}}}",
	    restore_size);
	content(r, "ns");
}

static RIG_UNUSED void take(struct rig *r, uint64_t timeout_ns, struct answer *a)
{
	struct id id = an_id();

	memset(a, 0, sizeof(*a));
	ASK(r->p, on_snapshots, a, .op = SANDBOX_TAKE, .agent = "coder", .snapshot = &id, .timeout_ns = timeout_ns);
}

static RIG_UNUSED void restore(struct rig *r, uint64_t timeout_ns, struct answer *a)
{
	struct id id = an_id();

	memset(a, 0, sizeof(*a));
	ASK(r->p, on_done, a, .op = SANDBOX_RESTORE, .agent = "coder", .from = "coder", .snapshot = &id,
	    .timeout_ns = timeout_ns);
}

/* Runs the loop until the server was asked so. */
static RIG_UNUSED void until_seen(struct rig *r, const char *method, const char *end)
{
	uv_timer_t t;
	bool seen = false;

	uv_timer_init(&r->k->loop, &t);
	uv_timer_start(&t, rig_tick, 10, 10);
	for (struct patience left = patience_of(RIG_WAIT_S * UINT64_C(1000000000)); !seen && !patience_over(&left);) {
		seen = rig_seen(r->k, method, end) > 0;
		uv_run(&r->k->loop, UV_RUN_ONCE);
	}
	uv_close((uv_handle_t *)&t, NULL);
	uv_run(&r->k->loop, UV_RUN_NOWAIT);
	if (!seen)
		fail_msg("no %s of %s", method, end);
}

#endif
