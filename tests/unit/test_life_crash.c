// tier: check, slice EVERY=12, whole EVERY=1
/*
 * A daemon that dies between any two steps: lifecycle is dropped after each number of steps of a story and made again
 * on the same control.db, with the world as it was then, once with calls that were heard before the end and once with
 * calls that were not. Afterwards everything comes right by itself: one state, one sandbox or none, no snapshot lost,
 * the content what it was.
 */
#define LOG_SUBSYS "test"
#include "base/log.h"
#include "tests/lib/life_rig.h"

#include <sqlite3.h>

static void make(struct rig *r)
{
	rig_resume(r, "ann");
}
static void stop(struct rig *r)
{
	rig_stop(r, "ann");
}
static void end_it(struct rig *r)
{
	life_terminate(r->life, "ann", "the story ends", LIFE_END_KEEP, 0, rig_answer, r);
}
static void wipe(struct rig *r)
{
	life_terminate(r->life, "ann", "the story ends", LIFE_END_WIPE, 0, rig_answer, r);
}
static void copy(struct rig *r)
{
	life_snapshot(r->life, "ann", 0, rig_answer, r);
}
static void restore(struct rig *r)
{
	struct id id = rig_row(r, "ann").snapshot;

	life_restore(r->life, "ann", &id, 0, rig_answer, r);
}
static void fork_it(struct rig *r)
{
	struct life_fork f = {.snapshot = rig_row(r, "ann").snapshot,
			      .as = "look",
			      .options = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = UINT64_MAX}};

	life_fork(r->life, &f, 0, rig_answer, r);
}

struct story {
	const char *name;
	bool awake, copied; /* ann runs before it; has a snapshot */
	void (*tell)(struct rig *r);
	bool wiped;
	bool fails; /* the snapshot of what was written since the last one */
};

static bool stable(enum life_state s)
{
	return s == LIFE_STOPPED || s == LIFE_RUNNING || s == LIFE_ERROR;
}

static void set_scene(struct rig *r, const struct story *s)
{
	if (!s->awake)
		return;
	rig_run(r, "ann");
	world_agent(&r->world, "ann")->content = s->fails ? 12 : 77;
	if (s->copied) {
		life_snapshot(r->life, "ann", 0, rig_answer, r);
		rig_settle(r);
	}
	world_agent(&r->world, "ann")->content = 77;
	r->world.fail[SANDBOX_TAKE] = s->fails ? ERR_TIMEOUT : 0;
	r->world.fail_always[SANDBOX_TAKE] = s->fails;
}

static void check(struct rig *r, const struct story *s, int at)
{
	struct world_agent *ann = world_agent(&r->world, "ann");
	struct life_row row;
	json_t *list = NULL;
	unsigned ready = 0;
	json_t *o;
	size_t i;

	rig_pass(r, 200 * SECOND, 10 * SECOND); /* by itself */
	row = rig_row(r, "ann");
	if (row.generation && !stable(row.state))
		fail_msg("%s, %d: ann is %s", s->name, at, life_state_name(row.state));
	if (row.generation && row.step[0])
		fail_msg("%s, %d: ann is %s, and never came to the end of \"%s\"", s->name, at,
			 life_state_name(row.state), row.step);
	if (ann->running != (row.generation && row.state == LIFE_RUNNING))
		fail_msg("%s, %d: a sandbox %s and its row says %s", s->name, at,
			 ann->running ? "runs" : "does not run", life_state_name(row.state));
	if (life_snapshots(r->life, "ann", &list, NULL) == 0) {
		json_array_foreach(json_object_get(list, "snapshots"), i, o)
		{
			const char *status = json_string_value(json_object_get(o, "status"));

			ready += strcmp(status, "ready") == 0;
			if (strcmp(status, "taking") == 0 || strcmp(status, "dropping") == 0)
				fail_msg("%s, %d: a snapshot is still %s", s->name, at, status);
		}
		json_decref(list);
	}
	if (ready > world_snaps(&r->world, "ann"))
		fail_msg("%s, %d: %u snapshots are said to be ready, there are %u", s->name, at, ready,
			 world_snaps(&r->world, "ann"));
	assert_int_equal(r->world.violations, 0);
	if (s->wiped && !row.generation)
		return;
	rig_run(r, "ann");
	if (s->awake && ann->content != 77)
		fail_msg("%s, %d: the workspace holds %d", s->name, at, ann->content);
	if (s->tell == fork_it && rig_row(r, "look").generation) {
		rig_run(r, "look");
		assert_int_equal(world_agent(&r->world, "look")->content, 77);
	}
}

/* False: the story was over before. */
static bool die_after(const struct story *s, int steps, bool late)
{
	void *state = NULL;
	struct rig *r;
	bool over = false;

	assert_int_equal(rig_setup(&state), 0);
	r = state;
	set_scene(r, s);
	r->world.late = late;
	r->answers = 0;
	s->tell(r);
	for (int i = 0; i < steps && !over; i++) {
		rig_step(r);
		over = r->answers > 0;
	}
	rig_down(r);
	r->world.late = false;
	r->world.fail[SANDBOX_TAKE] = 0;
	r->world.fail_always[SANDBOX_TAKE] = false;
	rig_up(r);
	rig_settle(r);
	check(r, s, steps);
	assert_int_equal(rig_teardown(&state), 0);
	return !over;
}

/* EVERY=3: dies at each third step, beginning at one by chance. */
static void from_each_step(void **state)
{
	static const struct story stories[] = {
	    {.name = "make", .tell = make},
	    {.name = "stop", .awake = true, .tell = stop},
	    {.name = "stop again", .awake = true, .copied = true, .tell = stop},
	    {.name = "terminate", .awake = true, .copied = true, .tell = end_it},
	    {.name = "wipe", .awake = true, .copied = true, .tell = wipe, .wiped = true},
	    {.name = "snapshot", .awake = true, .tell = copy},
	    {.name = "restore", .awake = true, .copied = true, .tell = restore},
	    {.name = "fork", .awake = true, .copied = true, .tell = fork_it},
	    {.name = "stop without a copy", .awake = true, .copied = true, .tell = stop, .fails = true},
	};
	const char *text = getenv("EVERY");
	int every = text ? atoi(text) : 1, first = every > 1 ? (int)(clock_boot_ns() % (unsigned)every) : 0, deaths = 0;

	(void)state;
	(void)log_setup("test", "error", LOG_TEXT, 2, NULL);
	for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++)
		for (int late = 0; late < 2; late++)
			for (int n = first; n < 60; n += every) {
				deaths++;
				if (!die_after(&stories[i], n, late))
					break;
			}
	print_message("%d deaths in %zu stories, every %d from %d\n", deaths, sizeof(stories) / sizeof(stories[0]),
		      every, first);
}

/* Between the sandbox's end and the row that says so: the snapshot it names is not of what is in the workspace. */
static void what_could_not_be_copied_outlives_a_crash(void **state)
{
	static const struct story s = {.awake = true, .copied = true, .fails = true};
	struct rig *r = *state;

	set_scene(r, &s);
	r->world.hold[SANDBOX_DESTROY] = true;
	stop(r);
	rig_settle(r);
	assert_int_equal(r->world.made[SANDBOX_DESTROY], 1);
	world_end(&r->world, world_agent(&r->world, "ann")); /* it was done, and nobody heard */
	rig_down(r);
	r->world.hold[SANDBOX_DESTROY] = false;
	r->world.fail[SANDBOX_TAKE] = 0;
	r->world.fail_always[SANDBOX_TAKE] = false;
	rig_up(r);
	rig_settle(r);
	assert_state(r, "ann", LIFE_STOPPED);
	rig_run(r, "ann");
	assert_int_equal(world_agent(&r->world, "ann")->content, 77);
}

/* The daemon dies once it has asked for the end; what runs goes on and writes. */
static struct world_agent *left_behind(struct rig *r)
{
	struct world_agent *ann = world_agent(&r->world, "ann");

	rig_run(r, "ann");
	ann->content = 4;
	r->world.late = true;
	r->world.hold[SANDBOX_DESTROY] = true;
	stop(r);
	rig_settle(r);
	assert_string_equal(rig_row(r, "ann").step, "leave");
	rig_down(r);
	ann->content = 5;
	return ann;
}

/* The snapshot was whole and the row said so; what ran went on while nobody looked, and ended by itself. */
static void what_was_written_while_no_daemon_ran_is_kept(void **state)
{
	struct rig *r = *state;
	struct world_agent *ann = left_behind(r);

	world_end(&r->world, ann);
	r->world.hold[SANDBOX_DESTROY] = r->world.late = false;
	rig_up(r);
	rig_settle(r);
	assert_state(r, "ann", LIFE_STOPPED);
	rig_run(r, "ann");
	assert_int_equal(ann->content, 5);
}

/* Its pod is deleted and its programs run for a moment yet: nobody is sent there again, the stop goes on to its end. */
static void an_end_that_was_begun_is_not_taken_back(void **state)
{
	struct rig *r = *state;
	struct world_agent *ann = left_behind(r);

	ann->ending = true;
	rig_up(r);
	rig_settle(r);
	assert_string_equal(rig_row(r, "ann").step, "leave");
	assert_int_equal(r->world.made[SANDBOX_DESTROY], 2);
	r->world.hold[SANDBOX_DESTROY] = r->world.late = false;
	rig_settle(r);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_int_equal(r->world.made[SANDBOX_TAKE], 1);
	rig_run(r, "ann");
	assert_int_equal(ann->content, 5);
}

/* Half of the workspace is gone: the snapshot is what counts, with a daemon that hears of it and with the next one. */
static void a_workspace_half_removed_does_not_count(void **state)
{
	struct world_agent *ann;
	struct rig *r = *state;

	rig_run(r, "ann");
	ann = world_agent(&r->world, "ann");
	for (int crash = 0; crash < 2; crash++) {
		ann->content = 4;
		r->world.fail[SANDBOX_DROP_WORKSPACE] = ERR_SYS;
		r->world.hold[SANDBOX_DROP_WORKSPACE] = crash;
		stop(r);
		rig_settle(r);
		if (crash)
			rig_down(r);
		ann->content = 99;
		r->world.hold[SANDBOX_DROP_WORKSPACE] = false;
		if (crash)
			rig_up(r);
		rig_settle(r);
		assert_state(r, "ann", LIFE_STOPPED);
		rig_run(r, "ann");
		assert_int_equal(ann->content, 4);
	}
}

/* An outcome that nobody could tell is told by the next start. */
static void what_was_done_and_not_told_is_told(void **state)
{
	struct rig *r = *state;
	unsigned before;

	rig_run(r, "ann");
	rig_down(r);
	{
		sqlite3 *db = NULL;

		assert_int_equal(sqlite3_open(r->path, &db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db, "UPDATE agents SET told = 0", NULL, NULL, NULL), SQLITE_OK);
		sqlite3_close(db);
	}
	before = rig_audited(r, "sandbox.state", "ok");
	rig_up(r);
	rig_settle(r);
	assert_int_equal(rig_audited(r, "sandbox.state", "ok"), before + 1);
	rig_down(r);
	rig_up(r);
	rig_settle(r);
	assert_int_equal(rig_audited(r, "sandbox.state", "ok"), before + 1); /* once */
}

/* The disk of the record is full, so the journal alone has the outcome, and the machine ends: the next start tells it.
 */
static void what_was_told_and_not_durable_is_told_again(void **state)
{
	struct rig *r = *state;

	r->disk_full = true;
	rig_run(r, "ann");
	assert_true(rig_audited(r, "sandbox.state", "ok") > 0);
	rig_down(r);
	json_array_clear(r->audit);
	rig_up(r);
	rig_settle(r);
	assert_int_equal(rig_audited(r, "sandbox.state", "ok"), 1);
	rig_down(r); /* still nothing of it is durable */
	json_array_clear(r->audit);
	rig_up(r);
	rig_settle(r);
	assert_int_equal(rig_audited(r, "sandbox.state", "ok"), 1);
	r->disk_full = false;
	life_recorded(r->life);
	rig_settle(r);
	rig_down(r);
	rig_up(r);
	rig_settle(r);
	assert_int_equal(rig_audited(r, "sandbox.state", "ok"), 1); /* once */
}

/* A row that another hand changed is not overwritten. */
static void a_swap_needs_the_generation(void **state)
{
	struct rig *r = *state;
	struct life_row row;
	sqlite3 *db = NULL;
	struct err e = {0};

	rig_run(r, "ann");
	row = rig_row(r, "ann");
	assert_int_equal(sqlite3_open(r->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_busy_timeout(db, 30000), SQLITE_OK); /* lifecycle may be writing still */
	row.generation += 5;
	assert_int_equal(row_swap(db, row.generation - 1, &row, &e), ERR_CONFLICT);
	assert_int_equal(row_get(db, "ann", &row, &e), 0);
	assert_int_equal(row.generation, rig_row(r, "ann").generation);
	sqlite3_close(db);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(from_each_step),
	    cmocka_unit_test_setup_teardown(what_could_not_be_copied_outlives_a_crash, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(what_was_written_while_no_daemon_ran_is_kept, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(an_end_that_was_begun_is_not_taken_back, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(a_workspace_half_removed_does_not_count, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(what_was_done_and_not_told_is_told, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(what_was_told_and_not_durable_is_told_again, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(a_swap_needs_the_generation, rig_setup, rig_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
