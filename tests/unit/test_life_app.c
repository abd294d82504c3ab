// tier: check
/* The app that an agent belongs to: told and listed at once, in its sandbox from the next start on, and no copy's. */
#include "tests/lib/life_rig.h"

static struct life_options of_app(const char *app)
{
	struct life_options o = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = UINT64_MAX, .sets_app = app != NULL};

	snprintf(o.app_id, sizeof(o.app_id), "%s", app ? app : "");
	return o;
}

static void resume_of(struct rig *r, const char *agent, const char *app)
{
	struct life_options o = of_app(app);

	life_resume(r->life, agent, &o, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_state(r, agent, LIFE_RUNNING);
}

static void stop(struct rig *r, const char *agent)
{
	rig_stop(r, agent);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_state(r, agent, LIFE_STOPPED);
}

static void assert_made_with(struct rig *r, const char *agent, const char *app)
{
	assert_string_equal(world_agent(&r->world, agent)->app_id, app);
}

static void assert_shown(struct rig *r, const char *agent, const char *app)
{
	json_t *o = NULL;

	assert_int_equal(life_show(r->life, agent, &o, NULL), 0);
	assert_string_equal(json_get_text(o, "app_id"), app);
	json_decref(o);
}

static void assert_listed(struct rig *r, const char *app, const char *state, const char *names)
{
	const struct life_filter f = {.app_id = app, .state = state, .limit = 10};
	char got[200] = "";
	json_t *o = NULL, *one;
	size_t i;

	assert_int_equal(life_list(r->life, &f, &o, NULL), 0);
	json_array_foreach(json_object_get(o, "agents"), i, one)
	{
		size_t n = strlen(got);

		snprintf(got + n, sizeof(got) - n, "%s%s", n ? " " : "", json_get_text(one, "agent"));
	}
	assert_string_equal(got, names);
	json_decref(o);
}

static void each_wake_has_it(void **state)
{
	struct rig *r = *state;

	resume_of(r, "ann", "billing");
	assert_made_with(r, "ann", "billing");
	for (int restarted = 0; restarted < 2; restarted++) {
		stop(r, "ann");
		if (restarted) {
			rig_down(r);
			rig_up(r);
			rig_settle(r);
		}
		assert_shown(r, "ann", "billing");
		rig_ensure(r, "ann"); /* nobody's word: work that needs it */
		rig_settle(r);
		assert_made_with(r, "ann", "billing");
	}
}

static void a_change_is_told_at_once_and_made_at_the_next_start(void **state)
{
	struct rig *r = *state;

	resume_of(r, "ann", "billing");
	resume_of(r, "ann", "search");
	assert_made_with(r, "ann", "billing");
	assert_shown(r, "ann", "search");
	resume_of(r, "ann", NULL); /* says nothing of it */
	assert_shown(r, "ann", "search");
	stop(r, "ann");
	resume_of(r, "ann", NULL);
	assert_made_with(r, "ann", "search");
	resume_of(r, "ann", "");
	assert_shown(r, "ann", "");
	stop(r, "ann");
	resume_of(r, "ann", "billing"); /* with the start itself */
	assert_made_with(r, "ann", "billing");
	assert_shown(r, "ann", "billing");
}

/* A stop is not taken back for who asks for another: it ends, and what is made anew has it. */
static void another_app_is_for_what_is_made_anew(void **state)
{
	struct life_options o = of_app("search");
	struct rig *r = *state;

	resume_of(r, "ann", "billing");
	r->world.hold[SANDBOX_TAKE] = true;
	rig_stop(r, "ann");
	rig_settle(r);
	life_resume(r->life, "ann", &o, 0, rig_answer, r);
	rig_settle(r);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	r->world.hold[SANDBOX_TAKE] = false;
	rig_settle(r);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_made_with(r, "ann", "search");
}

static void a_copy_has_what_it_is_given_and_a_restore_keeps_it(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.agent = "ann", .as = "ben", .options = of_app(NULL)};

	resume_of(r, "ann", "billing");
	stop(r, "ann");
	f.snapshot = rig_row(r, "ann").snapshot;
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_made_with(r, "ben", "");
	assert_shown(r, "ben", "");
	f.as = "cid";
	f.options = of_app("search");
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_made_with(r, "cid", "search");
	life_restore(r->life, "ann", &f.snapshot, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_shown(r, "ann", "billing");
	life_terminate(r->life, "ann", "no more", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	resume_of(r, "ann", NULL);
	assert_shown(r, "ann", "");
}

static void a_list_is_of_one_app(void **state)
{
	struct rig *r = *state;

	resume_of(r, "cid", "billing");
	resume_of(r, "ann", "billing");
	resume_of(r, "ben", "billing-2");
	resume_of(r, "dan", NULL);
	stop(r, "cid");
	assert_listed(r, "billing", NULL, "ann cid");
	assert_listed(r, "billing", "stopped", "cid");
	assert_listed(r, "billing-2", NULL, "ben");
	assert_listed(r, "search", NULL, "");
	assert_listed(r, NULL, NULL, "ann ben cid dan");
}

/* A resume that changes something does not pass a snapshot that is being taken: it waits, and then it counts. */
static void a_change_waits_for_a_snapshot(void **state)
{
	struct life_options o = of_app("billing");
	struct rig *r = *state;

	rig_run(r, "ann");
	r->world.hold[SANDBOX_TAKE] = true;
	life_snapshot(r->life, "ann", 0, NULL, NULL);
	rig_settle(r);
	r->answers = 0;
	rig_resume(r, "ann"); /* it changes nothing: she runs, and that is the answer */
	rig_settle(r);
	assert_int_equal(r->answers, 1);
	snprintf(o.image, sizeof(o.image), "python");
	o.sets_image = true;
	life_resume(r->life, "ann", &o, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->answers, 1);
	r->world.hold[SANDBOX_TAKE] = false;
	rig_settle(r);
	assert_int_equal(r->answers, 2);
	assert_int_equal(r->rc, 0);
	assert_shown(r, "ann", "billing");
	assert_string_equal(rig_row(r, "ann").image, "python");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_change_waits_for_a_snapshot, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(each_wake_has_it, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(a_change_is_told_at_once_and_made_at_the_next_start, rig_setup,
					    rig_teardown),
	    cmocka_unit_test_setup_teardown(another_app_is_for_what_is_made_anew, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(a_copy_has_what_it_is_given_and_a_restore_keeps_it, rig_setup,
					    rig_teardown),
	    cmocka_unit_test_setup_teardown(a_list_is_of_one_app, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("life_app", tests, NULL, NULL);
}
