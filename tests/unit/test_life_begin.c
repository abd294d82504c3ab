// tier: check
/* Agents that begin with what was no snapshot: a passing sandbox is filled and copied, and the agent keeps the copy. */
#include "tests/lib/life_rig.h"

#define PASSING "ann-begin-0123456789ab"
#define SHA     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void make_passing(struct rig *r)
{
	struct life_fork f = {.as = PASSING,
			      .writable = true,
			      .passing = true,
			      .empty = true,
			      .options = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = HOUR}};

	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	if (r->rc)
		fail_msg("%s", r->message);
	assert_state(r, PASSING, LIFE_RUNNING);
	assert_int_equal(world_agent(&r->world, PASSING)->content, 0);
}

static struct id fill(struct rig *r)
{
	make_passing(r);
	world_agent(&r->world, PASSING)->content = 55;
	life_snapshot(r->life, PASSING, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	return rig_row(r, PASSING).snapshot;
}

static void fork_it(struct rig *r, const struct id *snapshot)
{
	struct life_fork f = {.snapshot = *snapshot,
			      .as = "ann",
			      .writable = true,
			      .began = "artifact:t/tree.tar",
			      .began_sha256 = SHA,
			      .options = {UINT64_MAX, UINT64_MAX}};

	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
}

static void wipe(struct rig *r, const char *agent)
{
	life_terminate(r->life, agent, "copied", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_int_equal(rig_row(r, agent).generation, 0);
}

static void assert_began(struct rig *r, const char *agent, const char *with)
{
	json_t *o = NULL, *began;

	assert_int_equal(life_show(r->life, agent, &o, NULL), 0);
	began = json_object_get(o, "began_with");
	assert_string_equal(json_get_text(began, "workspace"), with);
	assert_string_equal(json_get_text(began, "sha256"), *with ? SHA : "");
	json_decref(o);
}

static void the_copy_is_kept_for_as_long_as_it_is_the_current_one(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.as = "ben", .writable = true, .options = {UINT64_MAX, UINT64_MAX}};
	struct id snapshot = fill(r), now;

	fork_it(r, &snapshot);
	assert_int_equal(r->rc, 0);
	assert_int_equal(world_agent(&r->world, "ann")->content, 55);
	assert_began(r, "ann", "artifact:t/tree.tar");
	wipe(r, PASSING);
	rig_pass(r, 5 * MINUTE, MINUTE);
	assert_int_equal(world_snaps(&r->world, PASSING), 1);
	now = rig_row(r, "ann").snapshot;
	assert_true(id_equal(&now, &snapshot));
	/* Another call for the same: it is there. */
	fork_it(r, &snapshot);
	assert_int_not_equal(r->rc, 0);
	/* With one of its own it needs that no more. */
	rig_clock(r, MINUTE);
	life_snapshot(r->life, "ann", 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	rig_pass(r, 5 * MINUTE, MINUTE);
	assert_int_equal(world_snaps(&r->world, PASSING), 0);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
	assert_began(r, "ann", "artifact:t/tree.tar");
	f.snapshot = rig_row(r, "ann").snapshot;
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_began(r, "ben", "");
	/* The next one of its name begins with nothing. */
	wipe(r, "ann");
	rig_run(r, "ann");
	assert_began(r, "ann", "");
}

static void a_workspace_that_was_lost_is_made_of_it_again(void **state)
{
	struct rig *r = *state;
	struct id snapshot = fill(r);

	fork_it(r, &snapshot);
	wipe(r, PASSING);
	life_terminate(r->life, "ann", "the test wants it", LIFE_END_KEEP, 0, rig_answer, r);
	rig_settle(r);
	world_agent(&r->world, "ann")->content = 0;
	world_agent(&r->world, "ann")->disk = false;
	rig_run(r, "ann");
	assert_int_equal(world_agent(&r->world, "ann")->content, 55);
}

static void without_a_fork_all_of_it_goes(void **state)
{
	struct rig *r = *state;

	(void)fill(r);
	assert_int_equal(world_snaps(&r->world, PASSING), 1);
	wipe(r, PASSING);
	assert_int_equal(world_snaps(&r->world, PASSING), 0);
}

/* The daemon dies while it is filled, or copied; or when the agent has its row, and no more. */
static void the_next_start_takes_it_away(void **state)
{
	struct rig *r = *state;
	struct id snapshot;

	make_passing(r);
	rig_down(r);
	rig_up(r);
	rig_settle(r);
	assert_int_equal(rig_row(r, PASSING).generation, 0);
	snapshot = fill(r);
	rig_down(r);
	rig_up(r);
	rig_settle(r);
	assert_int_equal(rig_row(r, PASSING).generation, 0);
	assert_int_equal(world_snaps(&r->world, PASSING), 0);
	snapshot = fill(r);
	r->world.fail[SANDBOX_RESTORE] = ERR_SYS;
	fork_it(r, &snapshot);
	assert_int_not_equal(r->rc, 0);
	rig_down(r);
	rig_up(r);
	rig_settle(r);
	assert_int_equal(rig_row(r, PASSING).generation, 0);
	assert_int_equal(world_snaps(&r->world, PASSING), 1);
	assert_began(r, "ann", "artifact:t/tree.tar");
	rig_run(r, "ann");
	assert_int_equal(world_agent(&r->world, "ann")->content, 55);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_copy_is_kept_for_as_long_as_it_is_the_current_one),
	    TEST(a_workspace_that_was_lost_is_made_of_it_again),
	    TEST(without_a_fork_all_of_it_goes),
	    TEST(the_next_start_takes_it_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
