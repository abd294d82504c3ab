// tier: check
/* Ten thousand agents that sleep: what a start and a list cost, and that no timer looks at them. Figures are printed,
 * not judged. */
#include "tests/lib/life_rig.h"

#include "control/store/store_sql.h"

#define MANY 10000

static double ms_since(const struct timespec *t)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - t->tv_sec) * 1e3 + (double)(now.tv_nsec - t->tv_nsec) / 1e6;
}

static int fill(sqlite3 *db, void *job, struct err *e)
{
	int rc = 0;

	(void)job;
	for (int i = 0; i < MANY && !rc; i++) {
		struct life_row r = {
		    .state = LIFE_STOPPED, .generation = 1, .workspace = false, .idle_ttl_ns = LIFE_TTL_CONF};
		struct life_snap s = {.status = SNAP_READY, .created_wall_ns = i + 1};

		snprintf(r.agent, sizeof(r.agent), "agent-%05d", i);
		snprintf(r.app_id, sizeof(r.app_id), "%s", i % 100 == 7 ? "app-7" : "");
		memcpy(s.agent, r.agent, sizeof(s.agent));
		rc = id_new(&s.id);
		r.snapshot = s.id;
		if (!rc)
			rc = row_swap(db, 0, &r, e);
		if (!rc)
			rc = snap_put(db, &s, e);
	}
	return rc ? rc : store_run(db, NULL, e, "UPDATE agents SET told = generation", "");
}

static void filled(void *job, int rc, const struct err *e)
{
	if (rc)
		fail_msg("%s", e ? e->message : "?");
	*(bool *)job = true;
}

/* What SQLite did for the statements that ended, as it counts it: no clock. */
struct work_done_by_sql {
	int scanned, sorted;
};

static int on_statement(unsigned what, void *ctx, void *st, void *ns)
{
	struct work_done_by_sql *w = ctx;

	(void)what, (void)ns;
	w->scanned += sqlite3_stmt_status(st, SQLITE_STMTSTATUS_FULLSCAN_STEP, 0);
	w->sorted += sqlite3_stmt_status(st, SQLITE_STMTSTATUS_SORT, 0);
	return 0;
}

static int trace(sqlite3 *db, void *job, struct err *e)
{
	(void)e;
	return sqlite3_trace_v2(db, job ? SQLITE_TRACE_PROFILE : 0, job ? on_statement : NULL, job);
}

static void listed(struct rig *r, const char *what, const struct life_filter *f, size_t expected)
{
	struct work_done_by_sql w = {0};
	struct timespec t;
	json_t *o = NULL;
	double ms;

	assert_int_equal(store_read(r->store, trace, &w, NULL), 0);
	clock_gettime(CLOCK_MONOTONIC, &t);
	assert_int_equal(life_list(r->life, f, &o, NULL), 0);
	ms = ms_since(&t);
	assert_int_equal(store_read(r->store, trace, NULL, NULL), 0);
	assert_int_equal(w.scanned, 0); /* every filter has its index, which has the order, too */
	assert_int_equal(w.sorted, 0);
	assert_int_equal(json_array_size(json_object_get(o, "agents")), expected);
	json_decref(o);
	print_message("list, %-34s %6.2f ms\n", what, ms);
}

static void on_all(void *arg, const struct sandbox_answer *a)
{
	unsigned *seen = arg;

	assert_int_equal(a->rc, 0);
	assert_null(a->e);
	assert_int_equal(a->n, MANY + 1);
	for (size_t i = 0; i < a->n; i++)
		seen[a->info[i].state == SANDBOX_RUNNING]++;
}

/* The provider knows one of them, and the list has each once. */
static void all_are_listed(struct rig *r)
{
	unsigned seen[2] = {0};
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	ASK(life_provider(r->life), on_all, seen, .op = SANDBOX_LIST);
	rig_settle(r);
	print_message("list, all with what the provider has      %6.2f ms\n", ms_since(&t));
	assert_int_equal(seen[true], 1);
	assert_int_equal(seen[false], MANY);
}

static void ten_thousand_that_sleep(void **state)
{
	struct rig *r = *state;
	struct timespec t;
	bool done = false;
	unsigned stats;

	store_write(r->store, fill, filled, &done);
	while (!done)
		uv_run(&r->loop, UV_RUN_ONCE);
	rig_run(r, "one-awake");
	rig_down(r);
	clock_gettime(CLOCK_MONOTONIC, &t);
	rig_up(r);
	rig_settle(r);
	print_message("open, check, reconcile with %d agents     %6.2f ms\n", MANY, ms_since(&t));
	all_are_listed(r);
	listed(r, "100 of all", &(struct life_filter){.limit = 100}, 100);
	listed(r, "1000 stopped", &(struct life_filter){.limit = 1000, .state = "stopped"}, 1000);
	listed(r, "running, of all of them", &(struct life_filter){.limit = 1000, .state = "running"}, 1);
	listed(r, "by prefix", &(struct life_filter){.limit = 1000, .prefix = "agent-001"}, 100);
	listed(r, "stopped, by prefix", &(struct life_filter){.limit = 1000, .state = "stopped", .prefix = "agent-002"},
	       100);
	listed(r, "of one app", &(struct life_filter){.limit = 1000, .app_id = "app-7"}, 100);
	listed(r, "of one app, stopped, by prefix",
	       &(struct life_filter){.limit = 1000, .app_id = "app-7", .state = "stopped", .prefix = "agent-001"}, 1);
	listed(r, "of one app, running", &(struct life_filter){.limit = 1000, .app_id = "app-7", .state = "running"},
	       0);
	listed(r, "of an app that has none", &(struct life_filter){.limit = 1000, .app_id = "app"}, 0);
	listed(r, "the last page", &(struct life_filter){.limit = 100, .after = "agent-09949"}, 51);
	stats = r->world.made[SANDBOX_STAT];
	clock_gettime(CLOCK_MONOTONIC, &t);
	for (int i = 0; i < 1000; i++) {
		rig_clock(r, SECOND / 100);
		life_tick(r->life);
	}
	print_message("a tick of the timer                       %6.4f ms\n", ms_since(&t) / 1000);
	assert_int_equal(r->world.made[SANDBOX_STAT], stats); /* nobody was looked at */
	assert_int_equal(HASH_COUNT(r->life->agents), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(ten_thousand_that_sleep, rig_setup, rig_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
