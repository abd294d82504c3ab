/*
 * Snapshots of claims and restores of them against a server that does as it is told (tests/lib/fake_apiserver.py):
 * what a real cluster cannot be made to show at will. Nothing is behind its objects; storage that copies is in
 * tests/e2e/k8s.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/kube/claim.h"
#include "control/kube/provider.h"
#include "muxd/base/clock.h"
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

static struct id an_id(void)
{
	struct id id;

	assert_int_equal(id_parse(ID, &id), 0);
	return id;
}

static void on_snapshots(void *arg, int rc, const struct err *e, const struct sandbox_snapshot *list, size_t n)
{
	struct answer *a = arg;

	assert_false(a->done);
	a->done = true;
	a->rc = rc;
	a->n = n;
	snprintf(a->message, sizeof(a->message), "%s", e ? e->message : "");
	if (n)
		a->snapshot = list[0];
}

static void on_done(void *arg, int rc, const struct err *e, const struct sandbox_info *info, int fd)
{
	struct answer *a = arg;

	assert_false(a->done);
	assert_int_equal(fd, -1);
	a->done = true;
	a->rc = rc;
	snprintf(a->message, sizeof(a->message), "%s", e ? e->message : "");
	if (info)
		a->info = *info;
}

static struct rig begin_with(enum kube_workspace workspace)
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
static struct rig begin(void)
{
	struct rig r = begin_with(WORKSPACE_CLAIM);

	rig_do(r.k, "{\"do\":\"put\",\"path\":\"" CLAIMS "/muxd-coder\",\"object\":{\"metadata\":{" OF_CODER "}," BOUND
		    "}}");
	return r;
}

static void end(struct rig *r)
{
	r->p->ops->destroy(r->p);
	rig_destroy(r->k);
}

/* Into an object as soon as it is there; the answer it then is. */
static void merge(struct rig *r, const char *path, const char *object)
{
	uv_timer_t t;
	bool there = false;

	uv_timer_init(&r->k->loop, &t);
	uv_timer_start(&t, rig_tick, 10, 10);
	for (time_t stop = time(NULL) + RIG_WAIT_S; !there && time(NULL) <= stop;) {
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

static bool is_there(struct rig *r, const char *path)
{
	json_t *o = rig_ask(r->k, "{\"do\":\"merge\",\"path\":\"%s\",\"object\":{}}", path);
	bool there = !json_is_null(o);

	json_decref(o);
	return there;
}

/* A text inside what is there: "spec.resources.requests.storage". */
static void expect_text(struct rig *r, const char *path, const char *where, const char *want)
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

static void content(struct rig *r, const char *ns)
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
static void snapshot(struct rig *r, const char *restore_size)
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

static void take(struct rig *r, uint64_t timeout_ns, struct answer *a)
{
	struct id id = an_id();

	memset(a, 0, sizeof(*a));
	r->p->ops->snapshot_take(r->p, "coder", &id, timeout_ns, on_snapshots, a);
}

static void restore(struct rig *r, uint64_t timeout_ns, struct answer *a)
{
	struct id id = an_id();

	memset(a, 0, sizeof(*a));
	r->p->ops->restore(r->p, "coder", "coder", &id, false, timeout_ns, on_done, a);
}

/* Runs the loop until the server was asked so. */
static void until_seen(struct rig *r, const char *method, const char *end)
{
	uv_timer_t t;
	bool seen = false;

	uv_timer_init(&r->k->loop, &t);
	uv_timer_start(&t, rig_tick, 10, 10);
	for (time_t stop = time(NULL) + RIG_WAIT_S; !seen && time(NULL) <= stop;) {
		seen = rig_seen(r->k, method, end) > 0;
		uv_run(&r->k->loop, UV_RUN_ONCE);
	}
	uv_close((uv_handle_t *)&t, NULL);
	uv_run(&r->k->loop, UV_RUN_NOWAIT);
	if (!seen)
		fail_msg("no %s of %s", method, end);
}

/* ---- take */

static void not_known_is_not_ready(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	take(&r, 30 * SECONDS, &a);
	merge(&r, SNAP, "{\"status\":{\"boundVolumeSnapshotContentName\":\"c\"}}");
	content(&r, "ns");
	for (int i = 0; i < 3; i++)
		merge(&r, SNAP, "{\"status\":{\"restoreSize\":\"1Gi\"}}");
	assert_false(a.done);
	expect_text(&r, SNAP, "spec|volumeSnapshotClassName", "copies");
	expect_text(&r, SNAP, "spec|source|persistentVolumeClaimName", "muxd-coder");
	merge(&r, SNAP, "{\"status\":{\"readyToUse\":true}}");
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, 0);
	assert_int_equal(a.n, 1);
	assert_true(a.snapshot.ready);
	assert_int_equal(a.snapshot.size, 1 << 30);
	assert_string_equal(a.snapshot.agent, "coder");
	end(&r);
}

static void an_error_that_stays_is_told_and_leaves_nothing(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	take(&r, 60 * SECONDS, &a);
	merge(&r, SNAP, "{\"status\":{\"readyToUse\":false,\"error\":{\"message\":\"pool is full\"}}}");
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_SNAPSHOT);
	assert_non_null(strstr(a.message, "pool is full"));
	assert_false(is_there(&r, SNAP));
	assert_true(is_there(&r, CLAIMS "/muxd-coder"));
	end(&r);
}

static void an_error_that_passes_is_none(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	take(&r, 60 * SECONDS, &a);
	merge(&r, SNAP, "{\"status\":{\"error\":{\"message\":\"busy\"}}}");
	merge(&r, SNAP, "{\"status\":{\"error\":null,\"readyToUse\":true,\"boundVolumeSnapshotContentName\":\"c\"}}");
	content(&r, "ns");
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, 0);
	end(&r);
}

static void one_that_is_never_ready_is_given_up(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	take(&r, 1 * SECONDS, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_TIMEOUT);
	assert_non_null(strstr(a.message, "readyToUse is not set yet"));
	assert_false(is_there(&r, SNAP));
	end(&r);
}

static void a_content_of_somebody_else_is_refused(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	take(&r, 30 * SECONDS, &a);
	merge(&r, SNAP, "{}");
	content(&r, "elsewhere");
	merge(&r, SNAP, "{\"status\":{\"readyToUse\":true,\"boundVolumeSnapshotContentName\":\"c\"}}");
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_SNAPSHOT);
	assert_non_null(strstr(a.message, "belongs to elsewhere/"));
	assert_false(is_there(&r, SNAP));
	end(&r);
}

/* Whoever may not look at what is behind a snapshot has none, and none that becomes ready unseen. */
static void a_snapshot_that_cannot_be_looked_at_goes(void **state)
{
	static const char *const refused[] = {"volumesnapshotcontents", "volumesnapshots/"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct rig r = begin();
		struct answer a;

		take(&r, 30 * SECONDS, &a);
		merge(&r, SNAP, "{}");
		content(&r, "ns");
		rig_do(
		    r.k,
		    "{\"do\":\"rule\",\"method\":\"GET\",\"path\":\"%s\",\"times\":0,\"status\":403,\"text\":\"no\"}",
		    refused[i]);
		merge(&r, SNAP, "{\"status\":{\"readyToUse\":true,\"boundVolumeSnapshotContentName\":\"c\"}}");
		rig_until(r.k, &a.done);
		assert_int_equal(a.rc, ERR_K8S_FORBIDDEN);
		assert_false(is_there(&r, SNAP));
		end(&r);
	}
}

static void a_snapshot_of_somebody_else_stays(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	snapshot(&r, "1Gi");
	merge(&r, SNAP, "{\"metadata\":{\"annotations\":{\"muxd.dev/agent\":\"other\"}}}");
	take(&r, 30 * SECONDS, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_CONFLICT);
	assert_true(is_there(&r, SNAP));
	end(&r);
}

static void a_cluster_without_snapshots_says_so(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	rig_do(r.k, "{\"do\":\"rule\",\"path\":\"volumesnapshots\",\"times\":0,\"status\":404,\"text\":\"404 page not "
		    "found\"}");
	take(&r, 30 * SECONDS, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_UNSUPPORTED);
	assert_non_null(strstr(a.message, "snapshot.storage.k8s.io/v1"));
	memset(&a, 0, sizeof(a));
	r.p->ops->snapshot_list(r.p, NULL, on_snapshots, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_UNSUPPORTED); /* not "there are none" */
	end(&r);
}

static void what_goes_with_its_pod_cannot_be_copied(void **state)
{
	struct rig r = begin_with(WORKSPACE_MEMORY);
	struct answer a;

	(void)state;
	take(&r, 30 * SECONDS, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_UNSUPPORTED);
	assert_non_null(strstr(a.message, "kubernetes.workspace is memory"));
	restore(&r, 30 * SECONDS, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_UNSUPPORTED);
	end(&r);
}

static void an_answer_that_is_lost_is_asked_for_again(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	rig_do(r.k, "{\"do\":\"rule\",\"method\":\"POST\",\"path\":\"volumesnapshots\",\"times\":1,\"status\":201,"
		    "\"body\":{\"a\":"
		    "\"long enough to be cut\"},\"cut\":5}");
	take(&r, 30 * SECONDS, &a);
	merge(&r, SNAP, "{\"status\":{\"readyToUse\":true,\"boundVolumeSnapshotContentName\":\"c\"}}");
	content(&r, "ns");
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, 0);
	end(&r);
}

/* ---- restore */

static void a_restore_makes_a_new_claim_and_then_the_old_one_goes(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	snapshot(&r, "3Gi");
	restore(&r, 30 * SECONDS, &a);
	merge(&r, NEXT, "{}");
	assert_true(is_there(&r, CLAIMS "/muxd-coder"));
	expect_text(&r, NEXT, "spec|resources|requests|storage", "3221225472");
	expect_text(&r, NEXT, "spec|dataSource|name", "muxd-" ID);
	expect_text(&r, NEXT, "spec|dataSource|apiGroup", "snapshot.storage.k8s.io");
	expect_text(&r, NEXT, "metadata|labels|muxd.dev/workspace", "next");
	merge(&r, NEXT, "{" BOUND "}");
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, 0);
	assert_true(a.info.has_workspace);
	expect_text(&r, NEXT, "metadata|labels|muxd.dev/workspace", "restored");
	assert_false(is_there(&r, CLAIMS "/muxd-coder"));
	restore(&r, 30 * SECONDS, &a); /* whoever asks again gets the same */
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, 0);
	assert_true(is_there(&r, NEXT));
	end(&r);
}

/* The new claim is the workspace, and what there is besides it cannot be seen: done, and the next start tidies up. */
static void a_restore_that_is_done_stays_done(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	snapshot(&r, "1Gi");
	restore(&r, 30 * SECONDS, &a);
	merge(&r, NEXT, "{}");
	rig_do(r.k, REFUSE_LIST);
	merge(&r, NEXT, "{" BOUND "}");
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, 0);
	assert_true(a.info.has_workspace);
	expect_text(&r, NEXT, "metadata|labels|muxd.dev/workspace", "restored");
	end(&r);
}

/* The answer to the patch is lost and nobody can look: neither done nor failed, and nothing is taken away. */
static void what_is_not_known_is_not_called_a_failure(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	snapshot(&r, "1Gi");
	restore(&r, 30 * SECONDS, &a);
	merge(&r, NEXT, "{}");
	rig_do(r.k, "{\"do\":\"rule\",\"method\":\"PATCH\",\"path\":\"muxd-coder.2\"," CUT "}");
	rig_do(r.k, REFUSE_LIST);
	merge(&r, NEXT, "{" BOUND "}");
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_CANCELLED);
	assert_non_null(strstr(a.message, "is not known"));
	assert_true(is_there(&r, NEXT) && is_there(&r, CLAIMS "/muxd-coder"));
	rig_do(r.k, "{\"do\":\"unrule\"}");
	restore(&r, 30 * SECONDS, &a); /* whoever asks again is told */
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, 0);
	expect_text(&r, NEXT, "metadata|labels|muxd.dev/workspace", "restored");
	assert_false(is_there(&r, CLAIMS "/muxd-coder"));
	end(&r);
}

/* The same at the deadline, and with a server that says 500: it may have done it before. */
static void a_lost_answer_at_the_deadline_is_no_failure(void **state)
{
	static const char *const patched[] = {CUT ",\"delay_ms\":500", "\"status\":500,\"text\":\"no\""};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct rig r = begin();
		struct answer a;

		snapshot(&r, "1Gi");
		restore(&r, 600 * SECONDS, &a);
		merge(&r, NEXT, "{}");
		rig_do(r.k, "{\"do\":\"rule\",\"method\":\"PATCH\",\"path\":\"muxd-coder.2\",%s}", patched[i]);
		rig_do(r.k, "{\"do\":\"rule\",\"method\":\"DELETE\",\"path\":\"\",\"times\":0,\"status\":403,"
			    "\"text\":\"no\"}");
		merge(&r, NEXT, "{" BOUND "}");
		if (i == 0) {
			until_seen(&r, "PATCH", "/muxd-coder.2-456789ab");
			clock_test_set(clock_boot_ns() + 601 * SECONDS, clock_wall_ns());
		}
		rig_until(r.k, &a.done);
		clock_test_reset();
		assert_int_equal(a.rc, ERR_CANCELLED);
		assert_non_null(strstr(a.message, "is not known"));
		assert_true(is_there(&r, NEXT) && is_there(&r, CLAIMS "/muxd-coder"));
		end(&r);
	}
}

static void a_claim_that_stays_pending_leaves_the_old_one(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	snapshot(&r, "1Gi");
	rig_do(r.k, "{\"do\":\"put\",\"path\":\"/api/v1/namespaces/ns/events/"
		    "e\",\"object\":{\"metadata\":{},\"type\":\"Warning\","
		    "\"reason\":\"ProvisioningFailed\",\"message\":\"no room in zone "
		    "b\",\"lastTimestamp\":\"2026-11-21T08:00:00Z\"}}");
	restore(&r, 2 * SECONDS, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_TIMEOUT);
	assert_non_null(strstr(a.message, "ProvisioningFailed: no room in zone b"));
	assert_true(is_there(&r, CLAIMS "/muxd-coder"));
	assert_false(is_there(&r, NEXT));
	assert_false(is_there(&r, "/api/v1/namespaces/ns/pods/muxd-coder.bind")); /* which was there meanwhile */
	end(&r);
}

#define BINDER "/api/v1/namespaces/ns/pods/muxd-coder.bind"

static void binder(struct rig *r, const char *role, const char *claim)
{
	rig_do(r->k,
	       "{\"do\":\"put\",\"path\":\"" BINDER
	       "\",\"object\":{\"metadata\":{\"labels\":{\"muxd.dev/role\":\"%s\"},\"annotations\":{\"muxd.dev/agent\":"
	       "\"coder\"}},\"spec\":{\"volumes\":[{\"persistentVolumeClaim\":{\"claimName\":\"%s\"}}]}}}",
	       role, claim);
}

/* The daemon that made it died before the claim was bound; and the server is away when it is to go. */
static void what_an_interrupted_restore_has_left_goes_with_the_next(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	snapshot(&r, "1Gi");
	rig_do(r.k,
	       "{\"do\":\"put\",\"path\":\"" NEXT
	       "\",\"object\":{\"metadata\":{\"labels\":{\"muxd.dev/role\":\"sandbox\","
	       "\"agent_id\":\"coder\",\"muxd.dev/workspace\":\"next\"},\"annotations\":{\"muxd.dev/agent\":\"coder\","
	       "\"muxd.dev/generation\":\"2\",\"muxd.dev/snapshot\":\"" ID "\"}}," BOUND "}}");
	binder(&r, "binder", "muxd-coder.2-456789ab");
	rig_do(r.k, "{\"do\":\"rule\",\"method\":\"DELETE\",\"path\":\"\",\"times\":3,\"close\":true}");
	restore(&r, 30 * SECONDS, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, 0);
	assert_true(is_there(&r, NEXT));
	assert_false(is_there(&r, CLAIMS "/muxd-coder"));
	assert_false(is_there(&r, BINDER));
	end(&r);
}

static void a_consumer_of_an_earlier_restore_makes_room(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	snapshot(&r, "1Gi");
	binder(&r, "binder", "muxd-coder.2-00000000");
	restore(&r, 30 * SECONDS, &a);
	for (bool right = false; !right;) {
		json_t *o = rig_ask(r.k, "{\"do\":\"merge\",\"path\":\"" BINDER "\",\"object\":{}}");
		char *text = json_is_null(o) ? NULL : json_dumps(o, 0);

		right = text && strstr(text, "muxd-coder.2-456789ab");
		free(text);
		json_decref(o);
		assert_false(a.done);
		uv_run(&r.k->loop, UV_RUN_ONCE);
	}
	merge(&r, NEXT, "{" BOUND "}");
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, 0);
	assert_false(is_there(&r, BINDER));
	end(&r);
}

static void a_pod_that_has_only_its_name_is_left_alone(void **state)
{
	struct rig r = begin();
	struct answer a = {0};

	(void)state;
	binder(&r, "somebody-elses", "theirs");
	r.p->ops->wipe(r.p, "coder", "over", on_done, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, 0);
	assert_false(is_there(&r, CLAIMS "/muxd-coder"));
	assert_true(is_there(&r, BINDER));
	end(&r);
}

static void a_quota_is_told_in_the_servers_words(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	snapshot(&r, "1Gi");
	rig_do(r.k, "{\"do\":\"rule\",\"method\":\"POST\",\"path\":\"persistentvolumeclaims\",\"status\":403,\"body\":{"
		    "\"kind\":\"Status\","
		    "\"reason\":\"Forbidden\",\"message\":\"exceeded quota: few\",\"code\":403}}");
	restore(&r, 30 * SECONDS, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_K8S_FORBIDDEN);
	assert_non_null(strstr(a.message, "exceeded quota: few"));
	assert_true(is_there(&r, CLAIMS "/muxd-coder"));
	end(&r);
}

static void two_workspaces_are_nobodys(void **state)
{
	struct rig r = begin();
	struct answer a = {0};

	(void)state;
	rig_do(r.k,
	       "{\"do\":\"put\",\"path\":\"" CLAIMS "/another\",\"object\":{\"metadata\":{" OF_CODER "}," BOUND "}}");
	r.p->ops->stat(r.p, "coder", on_done, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_K8S_CONFLICT);
	assert_non_null(strstr(a.message, "another"));
	snapshot(&r, "1Gi");
	restore(&r, 30 * SECONDS, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_K8S_CONFLICT);
	assert_true(is_there(&r, CLAIMS "/another") && is_there(&r, CLAIMS "/muxd-coder"));
	end(&r);
}

static void a_snapshot_that_is_not_ready_or_anothers_is_refused(void **state)
{
	struct rig r = begin();
	struct answer a = {0};
	struct id id = an_id();

	(void)state;
	snapshot(&r, "1Gi");
	r.p->ops->restore(r.p, "coder", "other", &id, false, 30 * SECONDS, on_done, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_NOT_FOUND);
	merge(&r, SNAP, "{\"status\":{\"readyToUse\":null}}");
	restore(&r, 30 * SECONDS, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_SNAPSHOT);
	memset(&a, 0, sizeof(a));
	r.p->ops->snapshot_drop(r.p, "other", &id, on_snapshots, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_NOT_FOUND);
	assert_true(is_there(&r, SNAP));
	assert_false(is_there(&r, NEXT));
	end(&r);
}

/* ---- pure */

static void the_highest_generation_is_the_workspace(void **state)
{
	struct claim_view c[4] = {{.name = "a", .state = CLAIM_CURRENT, .generation = 1},
				  {.name = "b", .state = CLAIM_RESTORED, .generation = 2},
				  {.name = "c", .state = CLAIM_NEXT, .generation = 3},
				  {.name = "d", .state = CLAIM_CURRENT, .generation = 4, .deleting = true}};
	const struct claim_view *best = NULL;
	char name[KUBE_OBJECT_MAX + 1];
	struct id id = an_id();
	struct err e = {0};

	(void)state;
	assert_int_equal(claim_choose(c, 4, &best, &e), 0);
	assert_string_equal(best->name, "b");
	assert_int_equal(claim_next_generation(c, 4), 5);
	assert_int_equal(claim_next_generation(c, 0), 1);
	c[0].generation = 2;
	assert_int_equal(claim_choose(c, 4, &best, &e), ERR_K8S_CONFLICT);
	assert_int_equal(claim_name("muxd-coder", 1, NULL, name), 0);
	assert_string_equal(name, "muxd-coder");
	assert_int_equal(claim_name("muxd-coder", 5, NULL, name), 0);
	assert_string_equal(name, "muxd-coder.5");
	assert_int_equal(claim_name("muxd-coder", 5, &id, name), 0);
	assert_string_equal(name, "muxd-coder.5-456789ab");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(not_known_is_not_ready),
	    cmocka_unit_test(an_error_that_stays_is_told_and_leaves_nothing),
	    cmocka_unit_test(an_error_that_passes_is_none),
	    cmocka_unit_test(one_that_is_never_ready_is_given_up),
	    cmocka_unit_test(a_content_of_somebody_else_is_refused),
	    cmocka_unit_test(a_snapshot_that_cannot_be_looked_at_goes),
	    cmocka_unit_test(a_snapshot_of_somebody_else_stays),
	    cmocka_unit_test(a_cluster_without_snapshots_says_so),
	    cmocka_unit_test(what_goes_with_its_pod_cannot_be_copied),
	    cmocka_unit_test(an_answer_that_is_lost_is_asked_for_again),
	    cmocka_unit_test(a_restore_makes_a_new_claim_and_then_the_old_one_goes),
	    cmocka_unit_test(a_restore_that_is_done_stays_done),
	    cmocka_unit_test(what_is_not_known_is_not_called_a_failure),
	    cmocka_unit_test(a_lost_answer_at_the_deadline_is_no_failure),
	    cmocka_unit_test(a_claim_that_stays_pending_leaves_the_old_one),
	    cmocka_unit_test(what_an_interrupted_restore_has_left_goes_with_the_next),
	    cmocka_unit_test(a_consumer_of_an_earlier_restore_makes_room),
	    cmocka_unit_test(a_pod_that_has_only_its_name_is_left_alone),
	    cmocka_unit_test(a_quota_is_told_in_the_servers_words),
	    cmocka_unit_test(two_workspaces_are_nobodys),
	    cmocka_unit_test(a_snapshot_that_is_not_ready_or_anothers_is_refused),
	    cmocka_unit_test(the_highest_generation_is_the_workspace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
