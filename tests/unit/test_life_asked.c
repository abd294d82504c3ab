// tier: check
/* A caller that asks much about sandboxes hears what is there, and keeps none from its start, its end or its copy. */
#include "tests/lib/life_rig.h"

static void ask_stat(struct rig *r, const char *agent)
{
	struct sandbox_provider *p = life_provider(r->life);

	ASK(p, rig_stream, r, .op = SANDBOX_STAT, .agent = agent);
}

/* The answer that is under way may be older than what was done since: who comes meanwhile hears the next one. */
static void equal_questions_share_an_answer(void **state)
{
	struct rig *r = *state;
	struct sandbox_provider *p;
	unsigned before;

	rig_run(r, "ann");
	p = life_provider(r->life);
	before = r->world.made[SANDBOX_STAT];
	r->answers = 0;
	r->world.hold[SANDBOX_STAT] = r->world.hold[SANDBOX_LIST] = true;
	for (int i = 0; i < 1000; i++) {
		ask_stat(r, "ann");
		ASK(p, rig_stream, r, .op = SANDBOX_LIST);
	}
	ask_stat(r, "bob");
	rig_settle(r);
	assert_int_equal(r->answers, 0);
	assert_int_equal(r->world.made[SANDBOX_STAT], before + 2);
	r->world.hold[SANDBOX_STAT] = r->world.hold[SANDBOX_LIST] = false;
	rig_settle(r);
	assert_int_equal(r->answers, 2001);
	assert_int_equal(r->world.made[SANDBOX_STAT], before + 3);
	assert_true(LIST_EMPTY(&r->life->questions));
	/* The daemon ends while they wait: each hears so. */
	r->world.hold[SANDBOX_STAT] = true;
	ask_stat(r, "ann");
	ask_stat(r, "ann");
	rig_down(r);
	assert_int_equal(r->answers, 2003);
	assert_int_equal(r->rc, ERR_CANCELLED);
	rig_up(r);
	rig_settle(r);
}

static void refuse(struct rig *r, enum sandbox_op op, bool on)
{
	r->world.fail[op] = on ? ERR_AGAIN : 0;
	r->world.fail_always[op] = on;
}

/* A provider that has no place for a question of a run is asked again, however long; nothing of it is an error. */
static void what_has_no_place_is_asked_again(void **state)
{
	static const enum sandbox_op start[] = {SANDBOX_STAT, SANDBOX_ENSURE};
	static const enum sandbox_op stop[] = {SANDBOX_STAT, SANDBOX_TAKE, SANDBOX_DESTROY, SANDBOX_DROP_WORKSPACE};
	struct rig *r = *state;

	for (size_t i = 0; i < 2; i++)
		refuse(r, start[i], true);
	rig_resume(r, "ann");
	for (size_t i = 0; i < 2; i++) {
		rig_pass(r, 20 * SECOND, SECOND);
		assert_state(r, "ann", LIFE_STARTING);
		assert_int_equal(r->answers, 0);
		refuse(r, start[i], false);
	}
	rig_pass(r, 10 * SECOND, SECOND);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(r->answers, 1);
	assert_int_equal(r->rc, 0);
	world_agent(&r->world, "ann")->content = 42;

	for (size_t i = 0; i < 4; i++)
		refuse(r, stop[i], true);
	rig_stop(r, "ann");
	for (size_t i = 0; i < 4; i++) {
		rig_pass(r, 20 * SECOND, SECOND);
		assert_state(r, "ann", LIFE_IDLE_STOPPING);
		refuse(r, stop[i], false);
	}
	rig_pass(r, 10 * SECOND, SECOND);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_false(world_agent(&r->world, "ann")->disk);
	refuse(r, SANDBOX_RESTORE, true);
	rig_resume(r, "ann");
	rig_pass(r, 20 * SECOND, SECOND);
	assert_state(r, "ann", LIFE_STARTING);
	refuse(r, SANDBOX_RESTORE, false);
	rig_pass(r, 10 * SECOND, SECOND);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(world_agent(&r->world, "ann")->content, 42);
}

/* A stop that waits for a place is taken back like any other. */
static void a_refused_stop_is_taken_back(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	refuse(r, SANDBOX_TAKE, true);
	rig_stop(r, "ann");
	rig_pass(r, 5 * SECOND, SECOND);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	rig_run(r, "ann");
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(life_agent(r->life, "ann", NULL)->taking, 0); /* no copy is on its way */
	rig_pass(r, 20 * SECOND, SECOND);
	assert_state(r, "ann", LIFE_RUNNING);
	refuse(r, SANDBOX_TAKE, false);
	rig_stop(r, "ann");
	rig_settle(r);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(equal_questions_share_an_answer),
	    T(what_has_no_place_is_asked_again),
	    T(a_refused_stop_is_taken_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
