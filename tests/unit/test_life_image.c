// tier: check
/* The image of an agent, and how much it asks for: kept, told ahead of each start, changed for the next one, taken over
 * by forks. */
#include "tests/lib/life_rig.h"

#include "base/text.h"

static struct life_options with(const char *image)
{
	struct life_options o = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = UINT64_MAX, .sets_image = image != NULL};

	snprintf(o.image, sizeof(o.image), "%s", image ? image : "");
	o.sets_resources = o.sets_image; /* another size for each name, and none for none */
	o.resources.pids = (uint32_t)strlen(o.image) + (unsigned char)o.image[0];
	o.resources.memory = (uint64_t)o.resources.pids << 20;
	return o;
}

static void resume_with(struct rig *r, const char *agent, const char *image)
{
	struct life_options o = with(image);

	life_resume(r->life, agent, &o, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
}

static void stop(struct rig *r, const char *agent)
{
	rig_stop(r, agent);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_state(r, agent, LIFE_STOPPED);
}

static void assert_made_with(struct rig *r, const char *agent, const char *image)
{
	const struct life_options o = with(image);

	assert_string_equal(world_agent(&r->world, agent)->image, image);
	assert_true(resources_equal(&world_agent(&r->world, agent)->resources, &o.resources));
}

static void assert_shown(struct rig *r, const char *agent, const char *image)
{
	const struct life_options asked = with(image);
	json_t *o = NULL, *resources = resources_json(&asked.resources);

	assert_int_equal(life_show(r->life, agent, &o, NULL), 0);
	assert_string_equal(json_get_text(o, "image"), image);
	assert_true(json_equal(json_object_get(o, "resources"), resources));
	json_decref(resources);
	json_decref(o);
}

/* Work that needs it may bring what its profile gives, and is work still: a stop that was asked for is not taken back.
 */
static void work_brings_what_its_profile_gives(void **state)
{
	struct life_options two = with("two");
	struct rig *r = *state;

	resume_with(r, "ann", "one");
	stop(r, "ann");
	life_need(r->life, "ann", &two, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_made_with(r, "ann", "two");
	assert_shown(r, "ann", "two");
	r->world.hold[SANDBOX_TAKE] = true;
	rig_stop(r, "ann");
	rig_settle(r);
	life_need(r->life, "ann", &two, rig_answer, r);
	rig_settle(r);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	r->world.hold[SANDBOX_TAKE] = false;
	rig_settle(r);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_made_with(r, "ann", "two");
}

static void each_wake_has_it(void **state)
{
	struct rig *r = *state;

	resume_with(r, "ann", "one");
	assert_made_with(r, "ann", "one");
	assert_shown(r, "ann", "one");
	for (int restarted = 0; restarted < 2; restarted++) {
		stop(r, "ann");
		if (restarted) {
			rig_down(r);
			rig_up(r);
			rig_settle(r);
		}
		rig_ensure(r, "ann"); /* nobody's word: work that needs it */
		rig_settle(r);
		assert_int_equal(r->rc, 0);
		assert_made_with(r, "ann", "one");
	}
	stop(r, "ann");
	resume_with(r, "ann", "");
	assert_made_with(r, "ann", "");
	assert_shown(r, "ann", "");
	rig_run(r, "bob");
	assert_made_with(r, "bob", "");
}

static void a_change_counts_from_the_next_start_on(void **state)
{
	struct rig *r = *state;

	resume_with(r, "ann", "one");
	resume_with(r, "ann", "two");
	assert_state(r, "ann", LIFE_RUNNING);
	assert_made_with(r, "ann", "one");
	assert_shown(r, "ann", "two");
	resume_with(r, "ann", NULL); /* says nothing of it */
	assert_shown(r, "ann", "two");
	rig_down(r);
	rig_up(r);
	rig_settle(r);
	assert_shown(r, "ann", "two");
	stop(r, "ann");
	rig_ensure(r, "ann");
	rig_settle(r);
	assert_made_with(r, "ann", "two");
}

/* A daemon that dies between any two steps of the start: whoever goes on with it makes it of the same. */
static void a_start_that_is_gone_on_with_has_it(void **state)
{
	struct rig *r = *state;

	for (int steps = 0; steps < 8; steps++) {
		struct life_options o = with("one");
		char name[16];

		snprintf(name, sizeof(name), "a%d", steps);
		life_resume(r->life, name, &o, 0, rig_answer, r);
		for (int i = 0; i < steps; i++)
			rig_step(r);
		rig_down(r);
		rig_up(r);
		rig_settle(r);
		if (rig_row(r, name).generation == 0)
			continue; /* nothing of it was noted, and its caller has heard so */
		rig_ensure(r, name);
		rig_settle(r);
		assert_made_with(r, name, "one");
	}
}

static void forks_have_it_too(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.agent = "ann", .as = "ben", .options = with(NULL)};

	resume_with(r, "ann", "one");
	stop(r, "ann");
	f.snapshot = rig_row(r, "ann").snapshot;
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_made_with(r, "ben", "one");
	f.as = "cid";
	f.options = with("two");
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	assert_made_with(r, "cid", "two");
	f.as = "dan";
	f.options = with("");
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	assert_made_with(r, "dan", "");
}

/* Of copies that muxd names there are so many of one agent; a wipe of one makes room, and a name needs none. */
static void copies_without_a_name_are_bounded(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.agent = "ann", .options = with(NULL)};
	char first[AGENT_NAME_MAX + 1] = "";

	r->conf->life_forks_max = 3;
	life_set_conf(r->life, r->conf);
	resume_with(r, "ann", "one");
	stop(r, "ann");
	f.snapshot = rig_row(r, "ann").snapshot;
	for (int i = 0; i < 4; i++) {
		life_fork(r->life, &f, 0, rig_answer, r);
		rig_settle(r);
		assert_int_equal(r->rc, i < 3 ? 0 : ERR_LIMIT);
		if (i == 0)
			text_put(first, sizeof(first), json_get_text(r->result, "agent"));
	}
	assert_non_null(strstr(r->message, "lifecycle.forks_max"));
	f.as = "ann-fork-of-mine";
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	life_terminate(r->life, first, "no more", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	f.as = NULL;
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(work_brings_what_its_profile_gives, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(each_wake_has_it, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(a_change_counts_from_the_next_start_on, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(a_start_that_is_gone_on_with_has_it, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(forks_have_it_too, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(copies_without_a_name_are_bounded, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("life_image", tests, NULL, NULL);
}
