// tier: check
/* Leases, runs and the pool when their store takes its time, refuses, or holds a great deal. */
#include "control/store/store_sql.h"
#include "tests/lib/work_rig.h"

#include <semaphore.h>

struct gate {
	sem_t held, let_go;
};

static int stand_still(struct sqlite3 *db, void *job, struct err *e)
{
	struct gate *g = job;

	(void)db, (void)e;
	sem_post(&g->held);
	sem_wait(&g->let_go);
	return 0;
}

static int execute(struct sqlite3 *db, void *job, struct err *e)
{
	return store_exec(db, job, e);
}

static void executed(void *job, int rc, const struct err *e)
{
	(void)job;
	if (rc)
		fail_msg("%s", e->message);
}

/* Behind what was asked of the store before. */
static void sql(struct rig *r, const char *text)
{
	store_write(r->store, execute, executed, (void *)(uintptr_t)text);
}

static int count_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int64_t *n = arg;
	int rc = store_prepare(db, &st, e, *n ? "SELECT count(*) FROM runs" : "SELECT count(*) FROM leases", "");

	if (!rc && (rc = store_step(db, st, e)) > 0)
		*n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return rc < 0 ? rc : 0;
}

static int64_t count(struct rig *r, const char *table)
{
	int64_t n = strcmp(table, "runs") == 0;

	assert_int_equal(store_read(r->store, count_in_db, &n, NULL), 0);
	return n;
}

static void a_heartbeat_on_its_way_keeps_the_lease(void **state)
{
	uint64_t boot = clock_boot_ns();
	int64_t wall = clock_wall_ns();
	char id[40], sandbox[64];
	struct rig *r = *state;
	struct gate g;

	clock_test_set(boot, wall);
	lease(r, "r1", "long", 60, id, sandbox);
	assert_int_equal(run(r, id, "long", "a"), 0);
	settle(r, 2);
	sem_init(&g.held, 0, 0);
	sem_init(&g.let_go, 0, 0);
	store_write(r->store, stand_still, NULL, &g);
	while (sem_trywait(&g.held))
		turn(r);
	clock_test_set(boot + 59 * NS_PER_SEC, wall);
	begin_ask(r, WORK_LEASE_HEARTBEAT, "service", id, NULL);
	clock_test_set(boot + 61 * NS_PER_SEC, wall);
	for (int i = 0; i < 3; i++)
		turn(r); /* the timer's turns: nothing else can come */
	sem_post(&g.let_go);
	while (r->answers < r->asked)
		turn(r);
	assert_int_equal(r->rc, 0);
	assert_string_equal(text(r, "runId"), "a");
	/* what was asked of the store behind it has happened when this one is answered */
	assert_int_equal(ask(r, WORK_LEASE_HEARTBEAT, "service", id, NULL), 0);
	assert_string_equal(lease_state(r, id), "ACTIVE");
	assert_string_equal(run_state(r, "a"), "RUNNING");
	clock_test_set(boot + 200 * NS_PER_SEC, wall);
	while (strcmp(lease_state(r, id), "EXPIRED") != 0)
		turn(r);
	r->exec_done(r->exec_arg, 0, NULL, &(struct work_result){.cause = "lost", .code = -1});
	sem_destroy(&g.held);
	sem_destroy(&g.let_go);
}

static void refuse_ends(struct rig *r)
{
	sql(r, "CREATE TRIGGER refuse BEFORE UPDATE OF state ON leases BEGIN SELECT RAISE(ABORT, 'no'); END");
}

static void a_good_run_whose_end_is_refused_once(void **state)
{
	char id[40], sandbox[64];
	struct rig *r = *state;

	lease(r, "r1", "good", 60, id, sandbox);
	refuse_ends(r);
	assert_int_equal(run(r, id, "good", "a"), 0);
	sql(r, "DROP TRIGGER refuse"); /* behind the end, as the steps of this host end at once */
	while (strcmp(run_state(r, "a"), "RUNNING") == 0)
		turn(r);
	assert_string_equal(text(r, "state"), "SUCCEEDED");
	assert_string_equal(text(r, "reason"), "");
	assert_int_equal(json_array_size(json_object_get(r->result, "steps")), 2);
	assert_string_equal(lease_state(r, id), "RELEASED");
	assert_string_equal(text(r, "cause"), "its run succeeded");
}

/* The same, and the next that ends the lease is its caller: what came of the run stays. */
static void a_good_run_whose_end_is_refused_and_that_is_released(void **state)
{
	char id[40], sandbox[64];
	struct rig *r = *state;

	lease(r, "r1", "good", 60, id, sandbox);
	refuse_ends(r);
	assert_int_equal(run(r, id, "good", "a"), 0);
	sql(r, "DROP TRIGGER refuse");
	assert_int_equal(ask(r, WORK_LEASE_RELEASE, "service", id, NULL), 0);
	assert_string_equal(text(r, "cause"), "released");
	assert_string_equal(run_state(r, "a"), "SUCCEEDED");
}

static void claims_on_their_way_count(void **state)
{
	char body[200];
	struct rig *r = *state;

	r->conf->leases_max = 1;
	work_set_conf(r->work, r->conf);
	for (int i = 0; i < 5; i++) {
		snprintf(body, sizeof(body), "{\"userId\":\"alice\",\"workflowId\":\"good\",\"requestId\":\"r%d\"}", i);
		begin_ask(r, WORK_LEASE_CREATE, "service", NULL, body);
	}
	assert_int_equal(r->answers, r->asked - 1); /* refused at once */
	assert_int_equal(r->rc, ERR_LIMIT);
	while (r->answers < r->asked)
		turn(r);
	assert_int_equal(r->rc, 0);
	assert_int_equal(count(r, "leases"), 1);
}

static void all_that_is_too_old_goes(void **state)
{
	struct rig *r = *state;

	sql(r, "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 2500)"
	       " INSERT INTO leases(id, principal, user, workflow, request, ttl_s, asked_ttl_s, sandbox, state, call,"
	       " created_ns, expires_ns, ended_ns) SELECT 'l' || i, 'service', 'alice', 'good', 'r' || i, 60, 60,"
	       " 's' || i, 'EXPIRED', 'c', 1, 1, 1 FROM n");
	sql(r, "INSERT INTO runs(id, lease, run, principal, user, workflow, version, timeout_s, asked_timeout_s, state,"
	       " call, created_ns) SELECT 'r' || id, id, 'a', 'service', 'alice', 'good', 1, 60, 60, 'FAILED', 'c', 1"
	       " FROM leases");
	while (count(r, "runs") != 2500)
		turn(r);
	r->removals_wait = true; /* by a clock that is not believed none is old */
	clock_test_set(clock_boot_ns() + 3601 * NS_PER_SEC, clock_wall_ns());
	for (int i = 0; i < 3; i++)
		turn(r);
	assert_int_equal(ask(r, WORK_POOL_SHOW, "service", NULL, NULL), 0);
	assert_int_equal(count(r, "leases"), 2500);
	r->removals_wait = false;
	clock_test_set(clock_boot_ns() + 3601 * NS_PER_SEC, clock_wall_ns());
	while (count(r, "leases") == 2500)
		turn(r);
	/* the rest in the turns that follow, not in an hour: the clock stands still */
	for (int i = 0; i < 100 && count(r, "leases"); i++)
		turn(r);
	assert_int_equal(count(r, "leases"), 0);
	assert_int_equal(count(r, "runs"), 0);
}

static void the_cause_of_a_wipe_stays(void **state)
{
	char id[40], sandbox[64];
	unsigned heard = 0;
	struct rig *r = *state;
	json_t *o;
	size_t i;

	lease(r, "r1", "good", 60, id, sandbox);
	r->fail_discard = 2;
	assert_int_equal(ask(r, WORK_LEASE_RELEASE, "service", id, NULL), 0);
	gone(r, sandbox);
	json_array_foreach(r->told, i, o)
	{
		if (strcmp(json_string_value(json_object_get(o, "event")), "pool.discard") != 0)
			continue;
		heard++;
		assert_string_equal(json_string_value(json_object_get(json_object_get(o, "detail"), "why")),
				    "released");
	}
	assert_int_equal(heard, 3);
}

/* A lease whose time was over while no daemon ran, and a store that takes nothing at the start: as on a full disk. Who
 * asks hears so, and there is no need of another start once there is room. */
static void a_start_that_cannot_store_is_tried_again(void **state)
{
	uint64_t boot = clock_boot_ns();
	int64_t wall = clock_wall_ns();
	char id[40], sandbox[64];
	struct rig *r = *state;

	clock_test_set(boot, wall);
	lease(r, "r1", "good", 60, id, sandbox);
	refuse_ends(r);
	finish(r);
	clock_test_set(boot, wall + 61 * (int64_t)NS_PER_SEC);
	start(r);
	for (int i = 0; i < 2; i++) {
		while (work_state(r->work) != WORK_FAILING)
			turn(r);
		assert_int_equal(ask(r, WORK_LEASE_LIST, "service", NULL, NULL), ERR_UNAVAILABLE);
		assert_non_null(strstr(r->e.message, "tried again"));
		boot += 31 * NS_PER_SEC;
		clock_test_set(boot, wall + 61 * (int64_t)NS_PER_SEC);
		turn(r);
	}
	sql(r, "DROP TRIGGER refuse");
	boot += 31 * NS_PER_SEC;
	clock_test_set(boot, wall + 61 * (int64_t)NS_PER_SEC);
	while (work_state(r->work) != WORK_READY) {
		turn(r);
		boot += NS_PER_SEC; /* a try of before may be under way still */
		clock_test_set(boot, wall + 61 * (int64_t)NS_PER_SEC);
	}
	assert_string_equal(lease_state(r, id), "EXPIRED");
	settle(r, 2); /* the pool is filled, and what was leased is wiped */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    WORK_TEST(a_heartbeat_on_its_way_keeps_the_lease),
	    WORK_TEST(a_good_run_whose_end_is_refused_once),
	    WORK_TEST(a_good_run_whose_end_is_refused_and_that_is_released),
	    WORK_TEST(claims_on_their_way_count),
	    WORK_TEST(all_that_is_too_old_goes),
	    WORK_TEST(the_cause_of_a_wipe_stays),
	    WORK_TEST(a_start_that_cannot_store_is_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
