// tier: check
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

#include "tests/lib/workspace_rig.h"

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
	merge(&r, SNAP, "{}");
	/* One write, one answer for both: how long the error stands is not this machine's load. */
	static const char both[] =
	    "{\"do\":\"merge\",\"path\":\"" SNAP "\",\"object\":{\"status\":{\"error\":{\"message\":\"busy\"}}}}\n"
	    "{\"do\":\"merge\",\"path\":\"" SNAP "\",\"object\":{\"status\":{\"error\":null,\"readyToUse\":true,"
	    "\"boundVolumeSnapshotContentName\":\"c\"}}}\n";
	assert_int_equal(write(r.k->to, both, sizeof(both) - 1), sizeof(both) - 1);
	json_decref(rig_answer(r.k));
	json_decref(rig_answer(r.k));
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
	ASK(r.p, on_snapshots, &a, .op = SANDBOX_SNAPSHOTS);
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

/* A proxy between them says something, and nothing was done: the old claim goes when the new one is the workspace. */
static void an_answer_that_is_none_commits_nothing(void **state)
{
	static const char *const said[] = {"\"status\":302,\"text\":\"\"", "\"text\":\"\"",
					   "\"body\":{\"kind\":\"Status\"}"};

	(void)state;
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		struct rig r = begin();
		struct answer a;

		snapshot(&r, "1Gi");
		restore(&r, 30 * SECONDS, &a);
		merge(&r, NEXT, "{}");
		rig_do(r.k, "{\"do\":\"rule\",\"method\":\"PATCH\",\"path\":\"muxd-coder.2\",%s}", said[i]);
		merge(&r, NEXT, "{" BOUND "}");
		rig_until(r.k, &a.done);
		assert_int_equal(a.rc, 0);
		expect_text(&r, NEXT, "metadata|labels|muxd.dev/workspace", "restored");
		assert_false(is_there(&r, CLAIMS "/muxd-coder"));
		end(&r);
	}
}

/* A list without its items is no list: a second workspace beside the one that there is would lose either's files. */
static void half_a_list_makes_no_second_workspace(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	snapshot(&r, "1Gi");
	rig_do(r.k, "{\"do\":\"rule\",\"method\":\"GET\",\"path\":\"persistentvolumeclaims\\\\?\",\"body\":{"
		    "\"metadata\":{}}}");
	restore(&r, 30 * SECONDS, &a);
	merge(&r, NEXT, "{" BOUND "}");
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, 0);
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

/* The daemon dies behind the patch: the next one, that asks again, does not take for undone what it cannot see, nor
 * what is done for impossible because the snapshot has gone since. */
static void a_restore_whose_daemon_died_is_seen_first(void **state)
{
	struct rig r = begin();
	struct id id = an_id();
	struct answer a;

	(void)state;
	snapshot(&r, "1Gi");
	restore(&r, 30 * SECONDS, &a);
	merge(&r, NEXT, "{}");
	rig_do(r.k, "{\"do\":\"rule\",\"method\":\"DELETE\",\"path\":\"\",\"times\":0,\"status\":403,\"text\":\"no\"}");
	merge(&r, NEXT, "{" BOUND "}");
	rig_until(r.k, &a.done);
	expect_text(&r, NEXT, "metadata|labels|muxd.dev/workspace", "restored");
	rig_do(r.k, "{\"do\":\"remove\",\"path\":\"%s\"}", SNAP);
	rig_do(r.k, REFUSE_LIST);
	memset(&a, 0, sizeof(a));
	ASK(r.p, on_done, &a, .op = SANDBOX_RESTORE, .agent = "coder", .from = "coder", .snapshot = &id,
	    .timeout_ns = 30 * SECONDS, .again = true);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_CANCELLED);
	assert_non_null(strstr(a.message, "is not known"));
	rig_do(r.k, "{\"do\":\"unrule\"}");
	memset(&a, 0, sizeof(a));
	ASK(r.p, on_done, &a, .op = SANDBOX_RESTORE, .agent = "coder", .from = "coder", .snapshot = &id,
	    .timeout_ns = 30 * SECONDS, .again = true);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, 0);
	assert_true(is_there(&r, NEXT));
	assert_false(is_there(&r, CLAIMS "/muxd-coder"));
	end(&r);
}

/* The same at the deadline, and with a server that says 500: it may have done it before. */
/* A start that was not told so begins nothing on it; for one that was the claim stays, as nobody's workspace. */
static void a_claim_that_has_lost_its_volume(void **state)
{
	struct rig r = begin();
	struct answer a = {0};

	(void)state;
	merge(&r, CLAIMS "/muxd-coder", "{\"status\":{\"phase\":\"Lost\"}}");
	ASK(r.p, on_done, &a, .op = SANDBOX_STAT, .agent = "coder");
	rig_until(r.k, &a.done);
	assert_true(a.info.workspace_lost);
	memset(&a, 0, sizeof(a));
	ASK(r.p, on_done, &a, .op = SANDBOX_ENSURE, .agent = "coder");
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_SANDBOX_CREATE);
	memset(&a, 0, sizeof(a));
	ASK(r.p, on_done, &a, .op = SANDBOX_ENSURE, .agent = "coder", .empty = true);
	until_seen(&r, "POST", "/pods");
	expect_text(&r, CLAIMS "/muxd-coder", "metadata|labels|muxd.dev/workspace", "kept");
	expect_text(&r, CLAIMS "/muxd-coder.2", "metadata|labels|agent_id", "coder");
	end(&r);
	assert_int_equal(a.rc, ERR_CANCELLED);
}

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
	ASK(r.p, on_done, &a, .op = SANDBOX_WIPE, .agent = "coder", .reason = "over");
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
	ASK(r.p, on_done, &a, .op = SANDBOX_STAT, .agent = "coder");
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
	ASK(r.p, on_done, &a, .op = SANDBOX_RESTORE, .agent = "coder", .from = "other", .snapshot = &id,
	    .timeout_ns = 30 * SECONDS);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_NOT_FOUND);
	merge(&r, SNAP, "{\"status\":{\"readyToUse\":null}}");
	restore(&r, 30 * SECONDS, &a);
	rig_until(r.k, &a.done);
	assert_int_equal(a.rc, ERR_SNAPSHOT);
	memset(&a, 0, sizeof(a));
	ASK(r.p, on_snapshots, &a, .op = SANDBOX_DROP, .agent = "other", .snapshot = &id);
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
	    cmocka_unit_test(an_answer_that_is_none_commits_nothing),
	    cmocka_unit_test(half_a_list_makes_no_second_workspace),
	    cmocka_unit_test(what_is_not_known_is_not_called_a_failure),
	    cmocka_unit_test(a_restore_whose_daemon_died_is_seen_first),
	    cmocka_unit_test(a_lost_answer_at_the_deadline_is_no_failure),
	    cmocka_unit_test(a_claim_that_has_lost_its_volume),
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
