// tier: check
/* What runs stands still while it is copied, and nothing begins in what is being stopped. */
#include "tests/lib/life_rig.h"

static const char *last_quiesce(const struct rig *r)
{
	const char *found = "nothing told";
	json_t *o;
	size_t i;

	json_array_foreach(r->audit, i,
			   o) if (strcmp(json_string_value(json_object_get(o, "event")), "snapshot.create") == 0)
	    found = json_string_value(json_object_get(json_object_get(o, "detail"), "quiesce"));
	return found;
}

/* A stop that somebody asked for, under way: its copy is not made before SANDBOX_TAKE is let go. */
static void stopping(struct rig *r)
{
	rig_run(r, "ann");
	r->world.hold[SANDBOX_TAKE] = true;
	rig_stop(r, "ann");
	rig_settle(r);
}

static void copied(struct rig *r)
{
	r->world.hold[SANDBOX_TAKE] = false;
	rig_settle(r);
}

static void what_is_stopped_is_frozen_and_never_goes_on(void **state)
{
	struct rig *r = *state;

	r->quiesce_rc = LIFE_FROZEN;
	rig_run(r, "ann");
	rig_stop(r, "ann");
	rig_settle(r);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_string_equal(last_quiesce(r), "frozen");
	assert_true(r->frozen);
	assert_int_equal(r->thawed, 0);
}

static void what_runs_on_is_frozen_for_the_snapshot_alone(void **state)
{
	struct rig *r = *state;

	r->quiesce_rc = LIFE_FROZEN;
	rig_run(r, "ann");
	r->world.hold[SANDBOX_TAKE] = true;
	life_snapshot(r->life, "ann", 0, rig_answer, r);
	rig_settle(r);
	assert_true(r->frozen);
	copied(r);
	assert_false(r->frozen);
	assert_string_equal(last_quiesce(r), "frozen");
	r->world.fail[SANDBOX_TAKE] = ERR_SNAPSHOT;
	life_snapshot(r->life, "ann", 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_SNAPSHOT);
	assert_false(r->frozen);
	r->world.hold[SANDBOX_TAKE] = true; /* and where it went on by itself, its time being over: */
	life_snapshot(r->life, "ann", 0, rig_answer, r);
	rig_settle(r);
	r->frozen = false;
	copied(r);
	assert_string_equal(last_quiesce(r), "synced");
}

static void a_stop_that_is_taken_back_thaws(void **state)
{
	struct rig *r = *state;

	r->quiesce_rc = LIFE_FROZEN;
	stopping(r);
	assert_true(r->frozen);
	rig_resume(r, "ann");
	rig_settle(r);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_false(r->frozen);
	copied(r);
	assert_false(r->frozen);
}

/* A daemon that died with programs frozen: whoever comes after it lets them go on. */
static void after_a_crash_the_reconciler_thaws(void **state)
{
	struct rig *r = *state;

	r->quiesce_rc = LIFE_FROZEN;
	rig_run(r, "ann");
	r->world.hold[SANDBOX_TAKE] = true;
	life_snapshot(r->life, "ann", 0, rig_answer, r);
	rig_settle(r);
	rig_down(r);
	r->thawed = 0;
	r->world.hold[SANDBOX_TAKE] = false;
	rig_up(r);
	rig_settle(r);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_true(r->thawed > 0);
	assert_false(r->frozen);

	r->world.hold[SANDBOX_TAKE] = true;
	rig_stop(r, "ann");
	rig_settle(r);
	assert_true(r->frozen);
	rig_down(r);
	r->thawed = 0;
	r->world.hold[SANDBOX_TAKE] = false;
	rig_up(r);
	rig_settle(r);
	assert_true(r->thawed > 0);
}

/* What would begin between the copy and the end would be answered, and lost. */
static void nothing_begins_in_what_is_being_stopped(void **state)
{
	struct rig *r = *state;

	stopping(r);
	assert_true(r->held);
	copied(r);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_true(r->held); /* the hub lets go of it with its end */
}

static void who_may_begin_again_finds_nobody_frozen(void **state)
{
	struct rig *r = *state;

	r->quiesce_rc = LIFE_FROZEN;
	stopping(r);
	assert_true(r->held && r->frozen);
	r->freed_frozen = false;
	rig_resume(r, "ann");
	rig_settle(r);
	assert_false(r->held);
	assert_false(r->freed_frozen); /* muxlet, that begins somebody meanwhile, could not be reached any more */
	copied(r);
}

static void a_snapshot_of_what_runs_on_holds_nobody_up(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	r->world.hold[SANDBOX_TAKE] = true;
	life_snapshot(r->life, "ann", 0, rig_answer, r);
	rig_settle(r);
	assert_false(r->held);
	copied(r);
}

/* A round that comes is no word against a stop that somebody asked for; against the timer it is. */
static void work_waits_for_a_stop_that_was_asked_for(void **state)
{
	struct rig *r = *state;

	stopping(r);
	world_agent(&r->world, "ann")->content = 7; /* written before its copy */
	r->answers = 0;
	life_need(r->life, "ann", NULL, rig_answer, r);
	rig_settle(r);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	assert_int_equal(r->answers, 0);
	copied(r);
	assert_int_equal(r->answers, 2);
	assert_int_equal(r->rc, 0);
	assert_int_equal(r->left, 1);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(world_agent(&r->world, "ann")->content, 7);
}

static void work_takes_an_idle_stop_back(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	r->world.hold[SANDBOX_TAKE] = true;
	rig_pass(r, 61 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	assert_true(r->held);
	r->answers = 0;
	life_need(r->life, "ann", NULL, rig_answer, r);
	rig_settle(r);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(r->answers, 1);
	assert_false(r->held);
	copied(r);
}

/* A round writes and ends while a first copy of what was there before is made; the second is not made yet. */
static void ended_behind_a_copy(struct rig *r)
{
	r->world.no_disk = true; /* what is not in a copy is gone */
	stopping(r);
	rig_clock(r, SECOND);
	r->world.hold[SANDBOX_TAKE] = false;
	world_step(&r->world);
	r->world.hold[SANDBOX_TAKE] = true;
	world_agent(&r->world, "ann")->content = 7;
	r->act.exit_boot_ns = r->boot;
	rig_clock(r, SECOND);
	rig_settle(r);
}

static void what_ends_while_it_is_copied_is_copied_again(void **state)
{
	struct rig *r = *state;

	ended_behind_a_copy(r);
	assert_int_equal(r->left, 0);
	assert_true(r->held);
	copied(r);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_int_equal(r->quiesced, 2);
	assert_int_equal(world_snaps(&r->world, "ann"), 1); /* the first one is nobody's workspace */
	rig_run(r, "ann");
	assert_int_equal(world_agent(&r->world, "ann")->content, 7);
}

static void a_second_copy_that_fails_stops_nothing(void **state)
{
	struct rig *r = *state;

	ended_behind_a_copy(r);
	r->world.fail[SANDBOX_TAKE] = ERR_SNAPSHOT;
	copied(r);
	assert_int_equal(r->rc, ERR_SNAPSHOT);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(world_agent(&r->world, "ann")->content, 7);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
}

/* Nothing of it is left where that stop is taken back, either. */
static void the_outdated_copy_goes_with_a_stop_that_is_taken_back(void **state)
{
	struct rig *r = *state;

	ended_behind_a_copy(r);
	r->world.hold[SANDBOX_TAKE] = false;
	world_step(&r->world); /* the second copy is whole, and not noted yet */
	rig_resume(r, "ann");
	rig_settle(r);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(r->left, 0);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
	assert_int_equal(rig_audited(r, "snapshot.drop", "ok"), 1);
}

static void what_stood_still_is_copied_once(void **state)
{
	struct rig *r = *state;

	r->quiesce_rc = LIFE_FROZEN;
	stopping(r);
	rig_clock(r, SECOND);
	r->act.exit_boot_ns = r->boot; /* heard of now, it ended before */
	copied(r);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
}

/* The link that is to ask for the quiet comes while the stop is under way. */
static void a_link_is_found_during_a_stop(void **state)
{
	struct rig *r = *state;
	struct sandbox_provider *p;

	stopping(r);
	r->answers = 0;
	p = life_provider(r->life);
	ASK(p, rig_stream, r, .op = SANDBOX_CONNECT, .agent = "ann");
	rig_settle(r);
	assert_int_equal(r->answers, 1);
	assert_int_equal(r->rc, 0);
	copied(r);
	assert_state(r, "ann", LIFE_STOPPED);
}

/* A program inside that has its sandbox end just then: whoever has work for it waits for the next one, and hears no
 * 404. */
static void what_ends_while_it_is_copied_is_made_again_behind_that(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	r->world.hold[SANDBOX_TAKE] = true;
	life_snapshot(r->life, "ann", 0, rig_answer, r);
	rig_settle(r);
	world_agent(&r->world, "ann")->running = false;
	r->answers = 0;
	rig_ensure(r, "ann");
	rig_settle(r);
	rig_ensure(r, "ann"); /* nor does one who comes later find another answer */
	rig_settle(r);
	assert_int_equal(r->answers, 0);
	r->world.hold[SANDBOX_TAKE] = false;
	rig_settle(r);
	assert_int_equal(r->answers, 3);
	assert_int_equal(r->rc, 0);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_true(world_agent(&r->world, "ann")->running);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(what_is_stopped_is_frozen_and_never_goes_on),
	    T(what_runs_on_is_frozen_for_the_snapshot_alone),
	    T(a_stop_that_is_taken_back_thaws),
	    T(after_a_crash_the_reconciler_thaws),
	    T(nothing_begins_in_what_is_being_stopped),
	    T(who_may_begin_again_finds_nobody_frozen),
	    T(a_snapshot_of_what_runs_on_holds_nobody_up),
	    T(work_waits_for_a_stop_that_was_asked_for),
	    T(work_takes_an_idle_stop_back),
	    T(what_ends_while_it_is_copied_is_copied_again),
	    T(a_second_copy_that_fails_stops_nothing),
	    T(the_outdated_copy_goes_with_a_stop_that_is_taken_back),
	    T(what_stood_still_is_copied_once),
	    T(a_link_is_found_during_a_stop),
	    T(what_ends_while_it_is_copied_is_made_again_behind_that),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
