// tier: check
/*
 * A wipe of what the backend will not let go (ERR_DATA_KEPT): whatever can go does, what stays is named, nobody hears
 * "ok", and it goes on by itself once it may. In a fake world: what storage and clusters do there is in
 * test_kube_retained.c.
 */
#include "tests/lib/life_rig.h"

#define STAYS "VolumeSnapshotContent c stays (deletionPolicy Retain): who may not"

static void wipe(struct rig *r)
{
	r->answers = 0;
	life_terminate(r->life, "ann", "the story ends", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
}

static void take(struct rig *r)
{
	life_snapshot(r->life, "ann", 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
}

static void refuse(struct rig *r, enum sandbox_op op, int rc, bool always)
{
	r->world.fail[op] = rc;
	r->world.fail_always[op] = always;
	snprintf(r->world.words, sizeof(r->world.words), "%s", STAYS);
}

static void may_go(struct rig *r)
{
	for (int i = 0; i < SANDBOX_OPS; i++)
		refuse(r, (enum sandbox_op)i, 0, false);
}

static void assert_not_wiped(struct rig *r)
{
	assert_int_equal(r->answers, 1);
	assert_int_equal(r->rc, ERR_DATA_KEPT);
	assert_non_null(strstr(r->message, "VolumeSnapshotContent c stays"));
	assert_state(r, "ann", LIFE_DESTROYING);
	assert_non_null(strstr(rig_row(r, "ann").detail, "VolumeSnapshotContent c stays"));
}

static void assert_wiped(struct rig *r)
{
	assert_int_equal(rig_row(r, "ann").generation, 0);
	assert_int_equal(world_snaps(&r->world, "ann"), 0);
}

static void a_snapshot_that_stays_is_named_and_goes_later(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	take(r);
	take(r);
	refuse(r, SANDBOX_DROP, ERR_DATA_KEPT, true);
	wipe(r);
	assert_not_wiped(r);
	assert_false(world_agent(&r->world, "ann")->disk);
	assert_int_equal(rig_audited(r, "sandbox.wipe", "data_kept"), 1);
	assert_int_equal(rig_audited(r, "snapshot.drop", "data_kept"), 2);
	rig_pass(r, 30 * MINUTE, MINUTE); /* tried again, and not told again */
	assert_state(r, "ann", LIFE_DESTROYING);
	assert_true(r->world.made[SANDBOX_DROP] > 2 && r->world.made[SANDBOX_DROP] <= 2 * 5);
	assert_int_equal(rig_audited(r, "sandbox.wipe", "data_kept"), 1);
	assert_int_equal(rig_audited(r, "snapshot.drop", "data_kept"), 2);
	may_go(r);
	rig_pass(r, 11 * MINUTE, MINUTE);
	assert_wiped(r);
	assert_int_equal(rig_audited(r, "snapshot.drop", "ok"), 2);
}

/* The first is refused, the second is not: that one goes, and whoever asks again need not wait. */
static void what_can_go_goes_and_who_asks_again_is_heard(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	take(r);
	take(r);
	refuse(r, SANDBOX_DROP, ERR_DATA_KEPT, false);
	wipe(r);
	assert_not_wiped(r);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
	wipe(r);
	assert_int_equal(r->answers, 1);
	assert_int_equal(r->rc, 0);
	assert_wiped(r);
}

static void a_workspace_that_stays_keeps_no_snapshot(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	take(r);
	refuse(r, SANDBOX_WIPE, ERR_DATA_KEPT, true);
	wipe(r);
	assert_not_wiped(r);
	assert_int_equal(world_snaps(&r->world, "ann"), 0);
	rig_resume(r, "ann"); /* nobody works in it meanwhile */
	rig_settle(r);
	assert_int_equal(r->answers, 2);
	assert_int_equal(r->rc, ERR_DATA_KEPT);
	rig_down(r); /* nor is it forgotten with the daemon */
	rig_up(r);
	rig_settle(r);
	assert_state(r, "ann", LIFE_DESTROYING);
	may_go(r);
	wipe(r);
	assert_int_equal(r->rc, 0);
	assert_wiped(r);
}

/* A snapshot that is only late does not hide one that stays, nor does it keep others. */
static void what_is_late_is_not_gone(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	take(r);
	take(r);
	refuse(r, SANDBOX_DROP, ERR_TIMEOUT, false);
	wipe(r);
	assert_int_equal(r->rc, ERR_TIMEOUT);
	assert_state(r, "ann", LIFE_DESTROYING);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
	rig_pass(r, MINUTE, SECOND);
	assert_wiped(r);
}

/* Retention: asked for by itself, and again after an hour; nobody restores from it meanwhile. */
static void what_retention_cannot_drop_is_tried_each_hour(void **state)
{
	struct rig *r = *state;
	struct id first;
	unsigned before;

	rig_run(r, "ann");
	take(r);
	first = rig_row(r, "ann").snapshot;
	take(r);
	refuse(r, SANDBOX_DROP, ERR_DATA_KEPT, true);
	life_snapshot_drop(r->life, "ann", &first, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_DATA_KEPT);
	assert_non_null(strstr(r->message, "VolumeSnapshotContent c stays"));
	assert_int_equal(rig_audited(r, "snapshot.drop", "data_kept"), 1);
	before = r->world.made[SANDBOX_DROP];
	rig_pass(r, 50 * MINUTE, MINUTE);
	assert_int_equal(r->world.made[SANDBOX_DROP], before);
	may_go(r);
	rig_pass(r, 15 * MINUTE, MINUTE);
	assert_int_equal(r->world.made[SANDBOX_DROP], before + 1);
	assert_false(world_snap(&r->world, &first)->there);
	assert_int_equal(rig_audited(r, "snapshot.drop", "ok"), 1);
}

/* A content whose snapshot is gone: dropped by muxd it goes, deleted by somebody's hand it stays. */
static void what_has_outlived_its_snapshot_goes_if_that_was_to(void **state)
{
	struct rig *r = *state;
	struct id first;

	rig_run(r, "ann");
	take(r);
	first = rig_row(r, "ann").snapshot;
	take(r);
	r->world.left = first; /* ready, as far as anybody knows */
	rig_pass(r, 61 * MINUTE, MINUTE);
	assert_int_equal(r->world.swept, 0);
	assert_int_equal(rig_audited(r, "snapshot.drop", "intended"), 0);
	life_snapshot_drop(r->life, "ann", &first, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	r->audit_rc = ERR_DISK_FULL; /* what the record cannot hold does not happen */
	r->life->left_at = 0;
	life_left(r->life);
	assert_int_equal(r->world.swept, 0);
	r->audit_rc = 0;
	r->world.fail[SANDBOX_SWEEP] = ERR_K8S_FORBIDDEN;
	r->life->left_at = 0;
	life_left(r->life);
	assert_int_equal(r->world.swept, 0);
	assert_int_equal(rig_audited(r, "snapshot.drop", "intended"), 1); /* each has its outcome */
	assert_int_equal(rig_audited(r, "snapshot.drop", "k8s_forbidden"), 1);
	rig_pass(r, 61 * MINUTE, MINUTE);
	assert_int_equal(r->world.swept, 1);
	assert_true(r->world.sweeps >= 3 && r->world.sweeps <= 6);
	assert_int_equal(rig_audited(r, "snapshot.drop", "intended"), 2);
	assert_int_equal(rig_audited(r, "snapshot.drop", "ok"), 2);
	r->world.left = life_fresh_id(); /* no row knows it */
	rig_pass(r, 61 * MINUTE, MINUTE);
	assert_int_equal(r->world.swept, 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(a_snapshot_that_stays_is_named_and_goes_later), T(what_can_go_goes_and_who_asks_again_is_heard),
	    T(a_workspace_that_stays_keeps_no_snapshot),      T(what_is_late_is_not_gone),
	    T(what_retention_cannot_drop_is_tried_each_hour), T(what_has_outlived_its_snapshot_goes_if_that_was_to),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
