// tier: check
/* Times that say never, that change while sandboxes run, and that end what cannot be ended. */
#include "tests/lib/life_rig.h"

static void ttl_action(struct rig *r, const char *action)
{
	free(r->conf->life_ttl_action);
	r->conf->life_ttl_action = strdup(action);
	life_set_conf(r->life, r->conf);
}

static void resume_with(struct rig *r, const char *agent, uint64_t idle_ttl_ns, uint64_t ttl_ns)
{
	struct life_options o = {.idle_ttl_ns = idle_ttl_ns, .ttl_ns = ttl_ns};

	life_resume(r->life, agent, &o, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
}

static void assert_no_end(struct rig *r, const char *agent)
{
	json_t *o = NULL;

	assert_int_equal(life_show(r->life, agent, &o, NULL), 0);
	assert_true(json_is_null(json_object_get(o, "lease_expires_at")));
	json_decref(o);
}

/* Times are written beside everything else: the clock stands still until the timer has seen them, or 30 s are over. */
static void look_again(struct rig *r)
{
	life_tick(r->life);
	rig_settle(r);
	usleep(10000);
}

static void assert_stops(struct rig *r, const char *agent)
{
	for (int i = 0; i < 3000 && rig_row(r, agent).state != LIFE_STOPPED; i++)
		look_again(r);
	assert_state(r, agent, LIFE_STOPPED);
}

static void assert_goes(struct rig *r, const char *agent)
{
	for (int i = 0; i < 3000 && rig_row(r, agent).generation; i++)
		look_again(r);
	assert_int_equal(rig_row(r, agent).generation, 0);
}

static void never_is_not_what_the_configuration_says(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.as = "copy", .options = {.idle_ttl_ns = 0, .ttl_ns = 0}};

	r->conf->life_ttl_ns = 10 * MINUTE;
	ttl_action(r, "delete");
	resume_with(r, "ann", 0, 0);
	assert_no_end(r, "ann");
	rig_pass(r, 11 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_RUNNING);
	rig_stop(r, "ann");
	rig_settle(r);
	f.snapshot = rig_row(r, "ann").snapshot;
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	rig_run(r, "ann");
	rig_run(r, "ben");
	rig_pass(r, 11 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_RUNNING); /* and by its next start, too */
	assert_state(r, "copy", LIFE_RUNNING);
	assert_no_end(r, "copy");
	assert_goes(r, "ben"); /* who said nothing */
	rig_down(r);
	rig_up(r);
	rig_settle(r);
	rig_pass(r, 11 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_RUNNING);
	resume_with(r, "ann", UINT64_MAX, 5 * MINUTE); /* until somebody sets one */
	rig_pass(r, 6 * MINUTE, MINUTE);
	assert_goes(r, "ann");
}

static void assert_takes(struct rig *r, unsigned least)
{
	for (int i = 0; i < 3000 && r->world.made[SANDBOX_TAKE] < least; i++)
		look_again(r);
	assert_true(r->world.made[SANDBOX_TAKE] >= least);
}

static unsigned failed_snapshots(struct rig *r, const char *agent)
{
	json_t *list = NULL, *o;
	unsigned n = 0;
	size_t i;

	assert_int_equal(life_snapshots(r->life, agent, &list, NULL), 0);
	json_array_foreach(json_object_get(list, "snapshots"), i, o) n +=
	    strcmp(json_string_value(json_object_get(o, "status")), "failed") == 0;
	json_decref(list);
	return n;
}

static void an_end_that_cannot_come_is_tried_now_and_then(void **state)
{
	struct rig *r = *state;

	r->conf->life_keep_snapshots = 3;
	life_set_conf(r->life, r->conf);
	r->world.no_disk = true; /* its workspace goes with it, and no copy can be made */
	r->world.fail[SANDBOX_TAKE] = ERR_NOT_FOUND;
	r->world.fail_always[SANDBOX_TAKE] = true;
	resume_with(r, "ann", 0, 2 * MINUTE);
	rig_pass(r, 121 * SECOND, SECOND);
	assert_takes(r, 1);
	rig_pass(r, 2 * MINUTE, SECOND);
	assert_int_equal(r->world.made[SANDBOX_TAKE], 1);
	assert_state(r, "ann", LIFE_RUNNING);
	rig_pass(r, HOUR, 10 * SECOND);
	assert_takes(r, 2);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_in_range(r->world.made[SANDBOX_TAKE], 2, 13);
	assert_in_range(failed_snapshots(r, "ann"), 1, 3);
	r->world.no_disk = r->world.fail_always[SANDBOX_TAKE] = false;
	r->world.fail[SANDBOX_TAKE] = 0;
	rig_pass(r, 6 * MINUTE, 10 * SECOND);
	assert_stops(r, "ann");
}

static void a_backend_that_cannot_be_asked_is_asked_now_and_then(void **state)
{
	struct rig *r = *state;
	unsigned audited;

	resume_with(r, "ann", 0, 2 * MINUTE);
	r->world.fail[SANDBOX_STAT] = ERR_UNAVAILABLE;
	r->world.fail_always[SANDBOX_STAT] = true;
	rig_pass(r, 121 * SECOND, SECOND);
	for (int i = 0; i < 3000 && !strstr(rig_row(r, "ann").cause, "cannot be asked"); i++)
		look_again(r);
	assert_state(r, "ann", LIFE_RUNNING);
	audited = rig_audited(r, "sandbox.state", "ok");
	rig_pass(r, 2 * MINUTE, SECOND);
	assert_int_equal(rig_audited(r, "sandbox.state", "ok"), audited);
}

static void who_runs_gets_the_new_times(void **state)
{
	struct rig *r = *state;

	r->conf->life_idle_ttl_ns = 0;
	life_set_conf(r->life, r->conf);
	rig_run(r, "ann");
	rig_run(r, "ben");
	rig_pass(r, 2 * HOUR, 10 * MINUTE);
	assert_state(r, "ann", LIFE_RUNNING);
	r->conf->life_idle_ttl_ns = 3 * HOUR;
	life_set_conf(r->life, r->conf);
	rig_pass(r, 61 * MINUTE, MINUTE);
	assert_stops(r, "ann");
	assert_stops(r, "ben");
	rig_run(r, "ann");
	rig_pass(r, 10 * MINUTE, MINUTE);
	r->conf->life_idle_ttl_ns = 20 * MINUTE; /* sooner than it was to be looked at */
	life_set_conf(r->life, r->conf);
	rig_pass(r, 11 * MINUTE, MINUTE);
	assert_stops(r, "ann");
	r->conf->life_idle_ttl_ns = 0;
	life_set_conf(r->life, r->conf);
	rig_run(r, "ann");
	rig_down(r);
	r->conf->life_idle_ttl_ns = HOUR; /* or at a start of the daemon */
	rig_up(r);
	rig_settle(r);
	rig_pass(r, 62 * MINUTE, MINUTE);
	assert_stops(r, "ann");
}

static void what_was_to_be_deleted_and_is_not_any_more_stays_as_it_is(void **state)
{
	struct rig *r = *state;
	int64_t generation;

	ttl_action(r, "delete");
	resume_with(r, "ann", UINT64_MAX, 2 * HOUR);
	rig_pass(r, 70 * MINUTE, MINUTE);
	assert_stops(r, "ann");
	generation = rig_row(r, "ann").generation;
	ttl_action(r, "stop");
	rig_pass(r, HOUR, MINUTE);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_int_equal(rig_row(r, "ann").generation, generation);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
}

/* It deletes, whatever ttl_action says: so it is behind ours, with what our end needs. */
static void assert_backend_ends(struct rig *r, int64_t ttl)
{
	assert_in_range(r->world.end_wall_ns - r->wall, ttl + (int64_t)r->conf->life_snapshot_timeout_ns + MINUTE,
			ttl + (int64_t)r->conf->life_snapshot_timeout_ns + HOUR);
}

static void the_backends_own_end_is_behind_that_of_the_row(void **state)
{
	struct rig *r = *state;

	r->conf->life_ttl_ns = 2 * HOUR;
	life_set_conf(r->life, r->conf);
	rig_run(r, "ann");
	assert_backend_ends(r, 2 * HOUR);
	assert_int_equal(r->world.ends, 1);
	resume_with(r, "ann", UINT64_MAX, 8 * HOUR);
	assert_backend_ends(r, 8 * HOUR);
	assert_int_equal(r->world.ends_running, 1);
	resume_with(r, "ann", 0, UINT64_MAX); /* another time */
	assert_int_equal(r->world.ends, 2);
	rig_pass(r, HOUR, 10 * MINUTE);
	rig_stop(r, "ann");
	rig_settle(r);
	rig_run(r, "ann");
	assert_backend_ends(r, 7 * HOUR);
	resume_with(r, "ann", UINT64_MAX, 0);
	assert_int_equal(r->world.end_wall_ns, 0);
	rig_stop(r, "ann");
	rig_settle(r);
	rig_run(r, "ann");
	assert_int_equal(r->world.end_wall_ns, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(never_is_not_what_the_configuration_says),
	    T(an_end_that_cannot_come_is_tried_now_and_then),
	    T(a_backend_that_cannot_be_asked_is_asked_now_and_then),
	    T(who_runs_gets_the_new_times),
	    T(the_backends_own_end_is_behind_that_of_the_row),
	    T(what_was_to_be_deleted_and_is_not_any_more_stays_as_it_is),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
