// tier: check
/*
 * Wiped is wiped: data that would outlive its VolumeSnapshot or its claim (deletionPolicy and
 * persistentVolumeReclaimPolicy Retain) is taken over before that goes, or it is named and nothing says "ok". Against a
 * server that does as it is told (tests/lib/fake_apiserver.py): its driver is a stand-in that removes objects; storage
 * is in tests/e2e/k8s.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/workspace_rig.h"

#define C         CONTENTS "/c"
#define V         "/api/v1/persistentvolumes/v"
#define CLAIM     CLAIMS "/muxd-coder"
#define NO_PATCH  "{\"do\":\"rule\",\"method\":\"PATCH\",\"path\":\"%s\",\"times\":0,\"status\":403,\"text\":\"no\"}"
#define NO_DRIVER "{\"do\":\"driver\",\"answers\":false}"

/* Behind the snapshot: a content c that stays, of `of` (a uid; NULL: of the snapshot). */
static void retained_content(struct rig *r, const char *of)
{
	snapshot(r, "1Gi");
	merge(r, C,
	      "{\"spec\":{\"deletionPolicy\":\"Retain\",\"driver\":\"d.example\",\"volumeSnapshotClassName\":\"long-"
	      "gone\"},\"status\":{\"snapshotHandle\":\"snap-42\"}}");
	if (of)
		rig_do(r->k,
		       "{\"do\":\"merge\",\"path\":\"" C
		       "\",\"object\":{\"spec\":{\"volumeSnapshotRef\":{\"uid\":\"%s\"}}}}",
		       of);
}

/* Behind the claim: a volume v with that policy, of that claim or of somebody else's. */
static void volume(struct rig *r, const char *policy, const char *of)
{
	json_t *claim =
	    rig_ask(r->k, "{\"do\":\"merge\",\"path\":\"" CLAIM "\",\"object\":{\"spec\":{\"volumeName\":\"v\"}}}");
	const char *uid = json_string_value(json_object_get(json_object_get(claim, "metadata"), "uid"));

	rig_do(
	    r->k,
	    "{\"do\":\"put\",\"path\":\"" V
	    "\",\"object\":{\"metadata\":{},\"spec\":{\"persistentVolumeReclaimPolicy\":\"%s\",\"storageClassName\":"
	    "\"long-gone\",\"csi\":{\"driver\":\"d.example\",\"volumeHandle\":\"vol-7\"},\"claimRef\":{\"namespace\":"
	    "\"ns\",\"name\":\"muxd-coder\",\"uid\":\"%s\"}}}}",
	    policy, of ? of : uid);
	json_decref(claim);
}

static struct answer dropped(struct rig *r)
{
	struct id id = an_id();
	struct answer a = {0};

	ASK(r->p, on_snapshots, &a, .op = SANDBOX_DROP, .agent = "coder", .snapshot = &id);
	rig_until(r->k, &a.done);
	return a;
}

static struct answer wiped(struct rig *r)
{
	struct answer a = {0};

	ASK(r->p, on_done, &a, .op = SANDBOX_WIPE, .agent = "coder", .reason = "over");
	rig_until(r->k, &a.done);
	return a;
}

/* Time is over while it is looked for there (or was, on a machine that is slow): what the question then is answered. */
static void until_late(struct rig *r, struct answer *a, const char *path)
{
	bool seen = false;
	uv_timer_t t;

	uv_timer_init(&r->k->loop, &t);
	uv_timer_start(&t, rig_tick, 10, 10);
	for (struct patience left = patience_of(RIG_WAIT_S * UINT64_C(1000000000));
	     !seen && !a->done && !patience_over(&left);) {
		seen = rig_seen(r->k, "GET", path) > 0;
		uv_run(&r->k->loop, UV_RUN_ONCE);
	}
	uv_close((uv_handle_t *)&t, NULL);
	clock_test_set(clock_boot_ns() + 3600 * SECONDS, clock_wall_ns());
	rig_until(r->k, &a->done);
	clock_test_reset();
	(void)rig_seen(r->k, "", ""); /* of what comes next alone */
}

static void expect(const struct answer *a, int rc, const char *words[])
{
	if (a->rc != rc)
		fail_msg("%s: %s", err_name(a->rc), a->message);
	for (; *words; words++)
		if (!strstr(a->message, *words))
			fail_msg("no \"%s\" in: %s", *words, a->message);
}
#define EXPECT(a, rc, ...) expect((a), (rc), (const char *[]){__VA_ARGS__, NULL})

/* ---- snapshots */

static void a_content_that_would_stay_goes_with_its_snapshot(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	retained_content(&r, NULL);
	a = dropped(&r);
	EXPECT(&a, 0, "");
	assert_false(is_there(&r, SNAP));
	assert_false(is_there(&r, C));
	a = dropped(&r);
	EXPECT(&a, 0, ""); /* gone already */
	end(&r);
}

/* Patch refused: nothing goes that would leave data behind, and the answer says what is missing. */
static void who_may_not_patch_is_told_what_stays(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	retained_content(&r, NULL);
	rig_do(r.k, NO_PATCH, "volumesnapshotcontents");
	for (int i = 0; i < 2; i++) {
		a = dropped(&r);
		EXPECT(&a, ERR_DATA_KEPT, "VolumeSnapshotContent c stays with VolumeSnapshot muxd-" ID,
		       "(deletionPolicy Retain, driver d.example, handle snap-42)",
		       "patch volumesnapshotcontents.snapshot.storage.k8s.io", "403");
	}
	assert_true(is_there(&r, SNAP));
	expect_text(&r, C, "spec|deletionPolicy", "Retain");
	rig_do(r.k, "{\"do\":\"unrule\"}"); /* somebody gave the right */
	a = dropped(&r);
	EXPECT(&a, 0, "");
	assert_false(is_there(&r, C));
	end(&r);
}

static void who_may_not_look_is_not_told_that_it_is_gone(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	retained_content(&r, NULL);
	rig_do(r.k, "{\"do\":\"rule\",\"method\":\"GET\",\"path\":\"volumesnapshotcontents\",\"times\":0,\"status\":"
		    "403,\"text\":\"no\"}");
	a = dropped(&r);
	EXPECT(&a, ERR_DATA_KEPT, "VolumeSnapshotContent c stays",
	       "get volumesnapshotcontents.snapshot.storage.k8s.io");
	assert_true(is_there(&r, SNAP));
	end(&r);
}

static void a_content_that_changed_meanwhile_is_looked_at_again(void **state)
{
	struct rig r = begin();
	struct id id = an_id();
	struct answer a = {0};

	(void)state;
	retained_content(&r, NULL);
	rig_do(r.k, "{\"do\":\"rule\",\"method\":\"GET\",\"path\":\"volumesnapshotcontents\",\"delay_ms\":300,\"pass\":"
		    "true}");
	rig_do(r.k,
	       "{\"do\":\"rule\",\"method\":\"PATCH\",\"path\":\"volumesnapshotcontents\",\"times\":2,\"status\":409,"
	       "\"text\":\"changed\"}");
	a = dropped(&r);
	EXPECT(&a, 0, "");
	assert_false(is_there(&r, C));
	/* and by whom: it is another snapshot's by then */
	retained_content(&r, NULL);
	memset(&a, 0, sizeof(a));
	rig_do(r.k,
	       "{\"do\":\"rule\",\"method\":\"PATCH\",\"path\":\"volumesnapshotcontents\",\"status\":409,\"delay_ms\":"
	       "500,\"text\":\"changed\"}");
	ASK(r.p, on_snapshots, &a, .op = SANDBOX_DROP, .agent = "coder", .snapshot = &id);
	until_seen(&r, "PATCH", "/volumesnapshotcontents/c");
	rig_do(r.k, "{\"do\":\"merge\",\"path\":\"" C
		    "\",\"object\":{\"spec\":{\"volumeSnapshotRef\":{\"uid\":\"another\"}}}}");
	rig_until(r.k, &a.done);
	EXPECT(&a, ERR_DATA_KEPT, "VolumeSnapshotContent c stays", "left alone");
	expect_text(&r, C, "spec|deletionPolicy", "Retain");
	end(&r);
}

static void a_content_of_another_snapshot_is_left_alone_and_named(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	retained_content(&r, "uid-of-another");
	a = dropped(&r);
	EXPECT(&a, ERR_DATA_KEPT, "VolumeSnapshotContent c stays", "uid uid-of-another", "left alone");
	expect_text(&r, C, "spec|deletionPolicy", "Retain");
	assert_true(is_there(&r, SNAP));
	end(&r);
}

/* Nothing is bound yet: the content that is being made is found by the name that a snapshot controller gives. */
static void a_content_that_is_not_bound_yet_is_found(void **state)
{
	struct rig r = begin();
	struct answer a;
	char path[300];
	json_t *o;

	(void)state;
	snapshot(&r, "1Gi");
	o = rig_ask(r.k, "{\"do\":\"merge\",\"path\":\"" SNAP "\",\"object\":{\"status\":null}}");
	snprintf(path, sizeof(path), CONTENTS "/snapcontent-%s",
		 json_string_value(json_object_get(json_object_get(o, "metadata"), "uid")));
	rig_do(r.k,
	       "{\"do\":\"put\",\"path\":\"%s\",\"object\":{\"metadata\":{},\"spec\":{\"deletionPolicy\":\"Retain\","
	       "\"driver\":\"d.example\",\"volumeSnapshotRef\":{\"name\":\"muxd-" ID
	       "\",\"namespace\":\"ns\",\"uid\":\"%s\"}}}}",
	       path, json_string_value(json_object_get(json_object_get(o, "metadata"), "uid")));
	json_decref(o);
	a = dropped(&r);
	EXPECT(&a, 0, "");
	assert_false(is_there(&r, path));
	end(&r);
}

static void a_driver_that_answers_late_is_waited_for(void **state)
{
	struct rig r = begin();
	struct id id = an_id();
	struct answer a = {0};

	(void)state;
	retained_content(&r, NULL);
	rig_do(r.k, NO_DRIVER);
	clock_test_set(clock_boot_ns(), clock_wall_ns()); /* no deadline comes, however slow the machine is */
	ASK(r.p, on_snapshots, &a, .op = SANDBOX_DROP, .agent = "coder", .snapshot = &id);
	until_seen(&r, "DELETE", "/muxd-" ID);
	until_seen(&r, "GET", "/volumesnapshotcontents/c");
	assert_false(a.done);
	rig_do(r.k, "{\"do\":\"remove\",\"path\":\"" C "\"}");
	rig_until(r.k, &a.done);
	clock_test_reset();
	EXPECT(&a, 0, "");
	end(&r);
}

/* Neither the first who asks nor one who asks again hears that it is gone. */
static void one_that_never_answers_is_named(void **state)
{
	struct rig r = begin();
	struct id id = an_id();
	struct answer a;

	(void)state;
	retained_content(&r, NULL);
	rig_do(r.k, NO_DRIVER);
	for (int i = 0; i < 2; i++) {
		memset(&a, 0, sizeof(a));
		ASK(r.p, on_snapshots, &a, .op = SANDBOX_DROP, .agent = "coder", .snapshot = &id);
		if (i == 0)
			until_seen(&r, "DELETE", "/muxd-" ID);
		until_late(&r, &a, "/volumesnapshotcontents/c");
		EXPECT(&a, ERR_TIMEOUT, "VolumeSnapshotContent c of VolumeSnapshot muxd-" ID,
		       "driver d.example has not said");
	}
	rig_do(r.k, "{\"do\":\"remove\",\"path\":\"" C "\"}");
	a = dropped(&r);
	EXPECT(&a, 0, "");
	end(&r);
}

/* With finalizers the VolumeSnapshot stays until its content is gone. */
static void a_snapshot_that_is_on_its_way_is_not_gone(void **state)
{
	struct rig r = begin();
	struct id id = an_id();
	struct answer a = {0};

	(void)state;
	retained_content(&r, NULL);
	merge(&r, SNAP, "{\"metadata\":{\"deletionTimestamp\":\"2026-11-23T08:00:00Z\"}}");
	ASK(r.p, on_snapshots, &a, .op = SANDBOX_DROP, .agent = "coder", .snapshot = &id);
	until_seen(&r, "PATCH",
		   "/volumesnapshotcontents/c"); /* it was deleted by somebody who left the content as it was */
	until_late(&r, &a, "/muxd-" ID);
	EXPECT(&a, ERR_TIMEOUT, "VolumeSnapshot muxd-" ID, "is there still", "content c", "d.example");
	assert_int_equal(rig_seen(r.k, "DELETE", "/muxd-" ID), 0);
	rig_do(r.k, "{\"do\":\"remove\",\"path\":\"" SNAP "\"}");
	a = dropped(&r);
	EXPECT(&a, 0, "");
	assert_false(is_there(&r, C));
	end(&r);
}

/* A take that failed is taken away, and not without what it may have made. */
static void what_failed_leaves_no_content_behind(void **state)
{
	(void)state;
	for (int may = 0; may < 2; may++) {
		struct rig r = begin();
		struct answer a;

		if (!may)
			rig_do(r.k, NO_PATCH, "volumesnapshotcontents");
		take(&r, 60 * SECONDS, &a);
		merge(&r, SNAP, "{}");
		content(&r, "ns");
		merge(&r, C, "{\"spec\":{\"deletionPolicy\":\"Retain\",\"driver\":\"d.example\"}}");
		merge(&r, SNAP,
		      "{\"status\":{\"readyToUse\":false,\"boundVolumeSnapshotContentName\":\"c\",\"error\":{"
		      "\"message\":\"pool is full\"}}}");
		rig_until(r.k, &a.done);
		EXPECT(&a, ERR_SNAPSHOT, "pool is full");
		assert_int_equal(is_there(&r, SNAP), !may);
		assert_int_equal(is_there(&r, C), !may);
		end(&r);
	}
}

/* ---- what has outlived its snapshot */

static struct {
	unsigned asked;
	bool yes;
	size_t n;
	struct sandbox_snapshot list[4];
} swept;

static bool may_go(void *arg, const struct id *snapshot, const char *name)
{
	struct id id = an_id();

	(void)arg;
	assert_true(id_equal(snapshot, &id));
	assert_string_equal(name, "left");
	swept.asked++;
	return swept.yes;
}

static void on_swept(void *arg, const struct sandbox_answer *got)
{
	const struct sandbox_snapshot *list = got->snapshots;
	size_t n = got->n;

	on_snapshots(arg, got);
	swept.n = n;
	assert_true(n <= 4);
	if (n)
		memcpy(swept.list, list, n * sizeof(*list));
}

static struct answer sweep(struct rig *r, bool yes)
{
	struct answer a = {0};

	memset(&swept, 0, sizeof(swept));
	swept.yes = yes;
	ASK(r->p, on_swept, &a, .op = SANDBOX_SWEEP, .may_go = may_go);
	rig_until(r->k, &a.done);
	return a;
}

static void one_left(struct rig *r, const char *name, const char *ns, const char *owner)
{
	rig_do(r->k,
	       "{\"do\":\"put\",\"path\":\"" CONTENTS
	       "/%s\",\"object\":{\"metadata\":{},\"spec\":{\"deletionPolicy\":\"Retain\",\"driver\":\"d.example\","
	       "\"volumeSnapshotRef\":{\"name\":\"%s\",\"namespace\":\"%s\",\"uid\":\"uid-of-one-that-is-gone\"}}}}",
	       name, owner, ns);
}

/* Ours is what names a snapshot of ours that is gone, by namespace, name and uid; it goes when it is said that it may.
 */
static void what_outlived_its_snapshot_is_found_and_goes(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	retained_content(&r, NULL); /* of one that is there */
	one_left(&r, "left", "ns", "muxd-" ID);
	one_left(&r, "elsewhere", "other", "muxd-" ID);
	one_left(&r, "theirs", "ns", "backup-of-monday");
	a = sweep(&r, false);
	EXPECT(&a, 0, "");
	assert_int_equal(swept.asked, 1);
	assert_int_equal(swept.n, 1);
	assert_string_equal(swept.list[0].name, "left");
	assert_non_null(strstr(swept.list[0].detail, "does not know that it was to go"));
	assert_int_equal(swept.list[0].rc, 0);
	expect_text(&r, CONTENTS "/left", "spec|deletionPolicy", "Retain");
	rig_do(r.k, NO_PATCH, "volumesnapshotcontents");
	a = sweep(&r, true);
	EXPECT(&a, 0, "");
	assert_non_null(strstr(swept.list[0].detail, "patch volumesnapshotcontents"));
	assert_int_equal(swept.list[0].rc, ERR_K8S_FORBIDDEN);
	assert_true(is_there(&r, CONTENTS "/left"));
	rig_do(r.k, "{\"do\":\"unrule\"}");
	(void)rig_seen(r.k, "", "");
	a = sweep(&r, true);
	EXPECT(&a, 0, "");
	assert_string_equal(swept.list[0].detail, "");
	assert_int_equal(rig_seen(r.k, "PATCH", "/left"), 1); /* a driver removes what its policy lets it remove */
	assert_false(is_there(&r, CONTENTS "/left"));
	assert_true(is_there(&r, C) && is_there(&r, CONTENTS "/elsewhere") && is_there(&r, CONTENTS "/theirs"));
	a = sweep(&r, true);
	EXPECT(&a, 0, "");
	assert_int_equal(swept.n, 0);
	rig_do(r.k, "{\"do\":\"rule\",\"method\":\"GET\",\"path\":\"volumesnapshotcontents\",\"status\":403,\"text\":"
		    "\"no\"}");
	a = sweep(&r, true);
	EXPECT(&a, ERR_K8S_FORBIDDEN, "list volumesnapshotcontents");
	end(&r);
}

/* ---- claims */

static void a_volume_that_would_stay_goes_with_its_claim(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	volume(&r, "Retain", NULL);
	a = wiped(&r);
	EXPECT(&a, 0, "");
	assert_false(is_there(&r, CLAIM));
	assert_false(is_there(&r, V));
	end(&r);
}

static void who_may_not_patch_volumes_is_told_which_stays(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	volume(&r, "Retain", NULL);
	rig_do(r.k, NO_PATCH, "persistentvolumes/");
	for (int i = 0; i < 2; i++) {
		a = wiped(&r);
		EXPECT(&a, ERR_DATA_KEPT, "PersistentVolume v stays with claim muxd-coder",
		       "(persistentVolumeReclaimPolicy Retain, driver d.example, handle vol-7)",
		       "patch persistentvolumes", "403");
	}
	expect_text(&r, CLAIM, "metadata|labels|muxd.dev/workspace", "kept");
	memset(&a, 0, sizeof(a));
	ASK(r.p, on_done, &a, .op = SANDBOX_STAT, .agent = "coder"); /* what was wiped is nobody's workspace */
	rig_until(r.k, &a.done);
	EXPECT(&a, 0, "");
	assert_false(a.info.has_workspace);
	assert_int_equal(a.info.state, SANDBOX_ABSENT);
	rig_do(r.k, "{\"do\":\"unrule\"}");
	a = wiped(&r);
	EXPECT(&a, 0, "");
	assert_false(is_there(&r, CLAIM));
	assert_false(is_there(&r, V));
	end(&r);
}

static void who_may_not_see_volumes_is_not_told_that_they_are_gone(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	volume(&r, "Delete", NULL);
	rig_do(r.k, "{\"do\":\"rule\",\"method\":\"GET\",\"path\":\"persistentvolumes/\",\"times\":0,\"status\":403,"
		    "\"text\":\"no\"}");
	a = wiped(&r);
	EXPECT(&a, ERR_DATA_KEPT, "PersistentVolume v stays", "get persistentvolumes");
	assert_true(is_there(&r, CLAIM));
	end(&r);
}

static void a_volume_of_another_claim_is_left_alone_and_named(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	volume(&r, "Retain", "uid-of-another");
	a = wiped(&r);
	EXPECT(&a, ERR_DATA_KEPT, "PersistentVolume v stays", "left alone");
	expect_text(&r, V, "spec|persistentVolumeReclaimPolicy", "Retain");
	end(&r);
}

/* A local disk that somebody offered: its policy could be changed, and nothing would come of it. */
static void a_volume_made_by_hand_is_named(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	volume(&r, "Retain", NULL);
	merge(&r, V, "{\"spec\":{\"csi\":null,\"local\":{\"path\":\"/mnt/disk7\"}}}");
	a = wiped(&r);
	EXPECT(&a, ERR_DATA_KEPT, "PersistentVolume v stays with claim muxd-coder: no driver made it",
	       "(persistentVolumeReclaimPolicy Retain, handle /mnt/disk7)");
	expect_text(&r, V, "spec|persistentVolumeReclaimPolicy", "Retain");
	expect_text(&r, CLAIM, "metadata|labels|muxd.dev/workspace", "kept");
	end(&r);
}

static void a_wipe_waits_for_the_volume(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	volume(&r, "Delete", NULL);
	merge(&r, V, "{\"status\":{\"phase\":\"Failed\",\"message\":\"the pool is offline\"}}");
	rig_do(r.k, NO_DRIVER);
	for (int i = 0; i < 2; i++) {
		memset(&a, 0, sizeof(a));
		ASK(r.p, on_done, &a, .op = SANDBOX_WIPE, .agent = "coder", .reason = "over");
		if (i == 0)
			until_seen(&r, "DELETE", "/persistentvolumeclaims/muxd-coder");
		until_late(&r, &a, "/persistentvolumes/v");
		EXPECT(&a, ERR_TIMEOUT, "PersistentVolume v of claim muxd-coder", "d.example", "the pool is offline");
	}
	rig_do(r.k, "{\"do\":\"remove\",\"path\":\"" V "\"}");
	a = wiped(&r);
	EXPECT(&a, 0, "");
	end(&r);
}

/* A restore replaces a workspace whose volume may not go: it is done, what was replaced is nobody's, and a wipe finds
 * it.
 */
static void what_a_restore_replaced_is_found_by_the_wipe(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	volume(&r, "Retain", NULL);
	snapshot(&r, "1Gi");
	rig_do(r.k, NO_PATCH, "persistentvolumes/");
	restore(&r, 30 * SECONDS, &a);
	merge(&r, NEXT, "{" BOUND "}");
	rig_until(r.k, &a.done);
	EXPECT(&a, 0, "");
	assert_true(a.info.has_workspace);
	expect_text(&r, CLAIM, "metadata|labels|muxd.dev/workspace", "kept");
	a = wiped(&r);
	EXPECT(&a, ERR_DATA_KEPT, "PersistentVolume v stays");
	assert_false(is_there(&r, NEXT));
	rig_do(r.k, "{\"do\":\"unrule\"}");
	a = wiped(&r);
	EXPECT(&a, 0, "");
	assert_false(is_there(&r, CLAIM));
	assert_false(is_there(&r, V));
	end(&r);
}

/* More than a page of them: each goes. */
static void every_page_of_claims_goes(void **state)
{
	struct rig r = begin();
	struct answer a;

	(void)state;
	for (int i = 0; i < 130; i++)
		rig_do(
		    r.k,
		    "{\"do\":\"put\",\"path\":\"" CLAIMS
		    "/a%d\",\"object\":{\"metadata\":{\"labels\":{\"muxd.dev/role\":\"sandbox\",\"agent_id\":\"coder\","
		    "\"muxd.dev/workspace\":\"kept\"},\"annotations\":{\"muxd.dev/agent\":\"coder\","
		    "\"muxd.dev/generation\":\"%d\"}}}}",
		    i, i + 1);
	a = wiped(&r);
	EXPECT(&a, 0, "");
	assert_false(is_there(&r, CLAIMS "/a0"));
	assert_false(is_there(&r, CLAIMS "/a129"));
	assert_false(is_there(&r, CLAIM));
	end(&r);
}

/* ---- pure */

static void every_object_that_stays_is_named(void **state)
{
	struct err all = {0}, one = {0};
	char name[40];

	(void)state;
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "PersistentVolume pvc-%d", i);
		err_set(&one, ERR_DATA_KEPT, "%s stays (policy): a reason", name);
		sandbox_kept_add(&all, &one);
	}
	assert_int_equal(all.code, ERR_DATA_KEPT);
	assert_string_equal(all.message, "PersistentVolume pvc-3, PersistentVolume pvc-2, PersistentVolume pvc-1, "
					 "PersistentVolume pvc-0 stays (policy): a reason");
	for (int i = 4; i < 100; i++) {
		snprintf(name, sizeof(name), "PersistentVolume pvc-%d", i);
		err_set(&one, ERR_DATA_KEPT, "%s stays (policy): a reason", name);
		sandbox_kept_add(&all, &one);
	}
	assert_int_equal(strncmp(all.message, "others, PersistentVolume pvc-", 29), 0);
	assert_non_null(strstr(all.message, "pvc-0 stays (policy): a reason"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_content_that_would_stay_goes_with_its_snapshot),
	    cmocka_unit_test(who_may_not_patch_is_told_what_stays),
	    cmocka_unit_test(who_may_not_look_is_not_told_that_it_is_gone),
	    cmocka_unit_test(a_content_that_changed_meanwhile_is_looked_at_again),
	    cmocka_unit_test(a_content_of_another_snapshot_is_left_alone_and_named),
	    cmocka_unit_test(a_content_that_is_not_bound_yet_is_found),
	    cmocka_unit_test(a_driver_that_answers_late_is_waited_for),
	    cmocka_unit_test(one_that_never_answers_is_named),
	    cmocka_unit_test(a_snapshot_that_is_on_its_way_is_not_gone),
	    cmocka_unit_test(what_failed_leaves_no_content_behind),
	    cmocka_unit_test(what_outlived_its_snapshot_is_found_and_goes),
	    cmocka_unit_test(a_volume_that_would_stay_goes_with_its_claim),
	    cmocka_unit_test(who_may_not_patch_volumes_is_told_which_stays),
	    cmocka_unit_test(who_may_not_see_volumes_is_not_told_that_they_are_gone),
	    cmocka_unit_test(a_volume_of_another_claim_is_left_alone_and_named),
	    cmocka_unit_test(a_volume_made_by_hand_is_named),
	    cmocka_unit_test(a_wipe_waits_for_the_volume),
	    cmocka_unit_test(what_a_restore_replaced_is_found_by_the_wipe),
	    cmocka_unit_test(every_page_of_claims_goes),
	    cmocka_unit_test(every_object_that_stays_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
