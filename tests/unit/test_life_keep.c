// tier: check
/* Retention of what sleeps, by the reconciler: time passes, the configuration changes, forks end. */
#include "control/store/store_sql.h"
#include "tests/lib/life_rig.h"

static struct id snapshot(struct rig *r, const char *agent)
{
	rig_clock(r, MINUTE);
	life_snapshot(r->life, agent, 0, rig_answer, r);
	rig_settle(r);
	if (r->rc)
		fail_msg("%s", r->message);
	return rig_row(r, agent).snapshot;
}

/* The reconciler's turns, until so many are left. */
static void assert_left(struct rig *r, const char *agent, unsigned n)
{
	for (int i = 0; i < 20 && world_snaps(&r->world, agent) != n; i++)
		rig_pass(r, MINUTE, MINUTE);
	assert_int_equal(world_snaps(&r->world, agent), n);
	rig_pass(r, 5 * MINUTE, MINUTE); /* and no fewer */
	assert_int_equal(world_snaps(&r->world, agent), n);
}

static void stopped_with_four(struct rig *r, const char *agent)
{
	rig_run(r, agent);
	for (int i = 0; i < 3; i++)
		(void)snapshot(r, agent);
	rig_stop(r, agent);
	rig_settle(r);
	assert_state(r, agent, LIFE_STOPPED);
	assert_int_equal(world_snaps(&r->world, agent), 4);
}

static void what_grows_too_old_asleep_goes_but_the_current_one(void **state)
{
	struct id current, now;
	struct rig *r = *state;

	stopped_with_four(r, "ann");
	current = rig_row(r, "ann").snapshot;
	rig_clock(r, 29 * 24 * HOUR);
	assert_left(r, "ann", 4);
	rig_clock(r, 2 * 24 * HOUR);
	assert_left(r, "ann", 1);
	now = rig_row(r, "ann").snapshot;
	assert_true(id_equal(&now, &current));
	assert_true(world_snap(&r->world, &current)->there);
	assert_state(r, "ann", LIFE_STOPPED);
}

/* A clock that is not believed makes nothing old; what are too many go all the same. */
static void nothing_is_too_old_by_a_clock_that_ran_ahead(void **state)
{
	struct rig *r = *state;

	stopped_with_four(r, "ann");
	r->removals_wait = true;
	rig_clock(r, 400 * 24 * HOUR);
	assert_left(r, "ann", 4);
	r->conf->life_keep_snapshots = 2;
	life_set_conf(r->life, r->conf);
	assert_left(r, "ann", 2);
	r->removals_wait = false;
	assert_left(r, "ann", 1);
}

static void what_is_too_many_by_a_new_configuration_goes(void **state)
{
	struct rig *r = *state;

	stopped_with_four(r, "ann");
	stopped_with_four(r, "ben");
	r->conf->life_keep_snapshots = 1;
	life_set_conf(r->life, r->conf);
	assert_left(r, "ann", 1);
	assert_left(r, "ben", 1);
}

/* Neither shown nor given to whoever has the name now. */
static void assert_nobodys(struct rig *r, const char *agent, const struct id *snapshot)
{
	struct life_fork byid = {.snapshot = *snapshot, .as = "thief", .options = {UINT64_MAX, UINT64_MAX}};
	struct life_fork bytime = {
	    .agent = agent, .at_wall_ns = r->wall, .as = "thief", .options = {UINT64_MAX, UINT64_MAX}};
	json_t *list = NULL, *each;
	char id[ID_STR_LEN];
	size_t i;

	id_format(snapshot, id);
	if (life_snapshots(r->life, agent, &list, NULL) == 0)
		json_array_foreach(json_object_get(list, "snapshots"), i, each)
		    assert_string_not_equal(json_string_value(json_object_get(each, "id")), id);
	json_decref(list);
	life_restore(r->life, agent, snapshot, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_NOT_FOUND);
	life_snapshot_drop(r->life, agent, snapshot, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_NOT_FOUND);
	life_fork(r->life, &byid, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_NOT_FOUND);
	life_fork(r->life, &bytime, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_NOT_FOUND);
	assert_int_equal(rig_row(r, "thief").generation, 0);
}

/* A fork needs one, a legal hold keeps the other: somebody else has made an agent of the name before either is over. */
static void what_outlived_its_agent_is_not_of_the_next_one_with_its_name(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.as = "look", .options = {UINT64_MAX, UINT64_MAX}};
	struct id held;

	rig_run(r, "ann");
	f.snapshot = snapshot(r, "ann");
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	held = snapshot(r, "ann");
	r->refers_rc = ERR_BAD_STATE;
	life_terminate(r->life, "ann", "gone", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_int_equal(world_snaps(&r->world, "ann"), 2);
	assert_nobodys(r, "ann", &f.snapshot);

	rig_run(r, "ann");
	assert_int_equal(world_agent(&r->world, "ann")->content, 0);
	for (int i = 0; i < 2; i++) {
		assert_nobodys(r, "ann", &f.snapshot);
		assert_nobodys(r, "ann", &held);
		rig_pass(r, 5 * MINUTE, MINUTE);
		assert_int_equal(world_snaps(&r->world, "ann"), 2);
		rig_down(r);
		rig_up(r);
		rig_settle(r);
	}
	/* Its own are its own, beside them: also the end of it. */
	(void)snapshot(r, "ann");
	assert_int_equal(world_snaps(&r->world, "ann"), 3);
	r->refers_rc = 0;
	rig_pass(r, 5 * MINUTE, MINUTE);
	assert_int_equal(world_snaps(&r->world, "ann"), 2); /* the hold is over */
	life_terminate(r->life, "ann", "gone", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
	rig_run(r, "ann");
	life_terminate(r->life, "look", "gone", LIFE_END_WIPE, 0, rig_answer, r);
	rig_pass(r, 5 * MINUTE, MINUTE);
	assert_int_equal(world_snaps(&r->world, "ann"), 0);
	assert_state(r, "ann", LIFE_RUNNING);
}

static void what_a_fork_kept_of_a_wiped_agent_goes_with_the_fork(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.as = "look", .options = {UINT64_MAX, UINT64_MAX}};
	struct life_snap s;

	rig_run(r, "ann");
	f.snapshot = snapshot(r, "ann");
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	life_terminate(r->life, "ann", "gone", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(rig_row(r, "ann").generation, 0);
	assert_left(r, "ann", 1);
	life_terminate(r->life, "look", "gone", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_left(r, "ann", 0);
	assert_int_equal(life_snap_load(r->life, &f.snapshot, &s, NULL), 0);
	assert_int_equal(s.status, SNAP_DROPPED);
	assert_non_null(strstr(s.detail, "its agent is gone"));
}

static int put_many(struct sqlite3 *db, void *job, struct err *e)
{
	(void)job;
	return store_exec(db,
			  "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 1200)"
			  " INSERT INTO snapshots(id, agent, how, size, status, detail, cause, quiesced,"
			  " created_wall_ns) SELECT printf('x%05d', i), printf('agent-%05d', i), '', 0,"
			  " CASE WHEN i % 2 THEN 1 ELSE 4 END, '', '', 0, 1 FROM n",
			  e);
}

static void put(void *job, int rc, const struct err *e)
{
	if (rc)
		fail_msg("%s", e->message);
	*(bool *)job = true;
}

struct page {
	char after[AGENT_NAME_MAX + 1], name[SNAP_AGENTS][AGENT_NAME_MAX + 1];
	size_t n;
};

static int read_page(struct sqlite3 *db, void *job, struct err *e)
{
	struct page *p = job;

	return snaps_surplus(db, 0, 10, p->after, p->name, &p->n, e);
}

/* Page by page, each once. */
static void all_have_their_turn(void **state)
{
	struct rig *r = *state;
	struct page p = {0};
	unsigned found = 0;
	bool there = false;
	char want[32];

	store_write(r->store, put_many, put, &there);
	while (!there)
		uv_run(&r->loop, UV_RUN_ONCE);
	do {
		assert_int_equal(store_read(r->store, read_page, &p, NULL), 0);
		for (size_t i = 0; i < p.n; i++) {
			snprintf(want, sizeof(want), "agent-%05u", 1 + 2 * found++);
			assert_string_equal(p.name[i], want);
		}
	} while (p.after[0]);
	assert_int_equal(found, 600);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(what_grows_too_old_asleep_goes_but_the_current_one),
	    T(nothing_is_too_old_by_a_clock_that_ran_ahead),
	    T(what_is_too_many_by_a_new_configuration_goes),
	    T(what_a_fork_kept_of_a_wiped_agent_goes_with_the_fork),
	    T(what_outlived_its_agent_is_not_of_the_next_one_with_its_name),
	    T(all_have_their_turn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
