// tier: check
/* The pod template that an agent has of its own: kept, told ahead of each start, and gone with the last who has it. */
#include "control/store/store_schema.h"
#include "control/store/store_sql.h"
#include "tests/lib/life_rig.h"

#define ONE "{\"spec\":{\"nodeSelector\":{\"a\":\"1\"}}}"
#define TWO "{\"spec\":{\"nodeSelector\":{\"a\":\"2\"}}}"

static void resume_with(struct rig *r, const char *agent, const char *template)
{
	struct life_options o = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = UINT64_MAX, .pod_template = template};

	life_resume(r->life, agent, &o, 0, rig_answer, r);
	rig_settle(r);
}

/* The answer that a resume is about to get, for a caller who asks first; nothing is changed by that. */
static int would_hear(struct rig *r, const char *agent, const char *template)
{
	struct life_options o = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = UINT64_MAX, .pod_template = template};
	struct err e = {0};
	int rc = life_resume_check(r->life, agent, &o, &e);

	assert_int_equal(rc, e.code);
	return rc;
}

static void stop(struct rig *r, const char *agent)
{
	rig_stop(r, agent);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_state(r, agent, LIFE_STOPPED);
}

static const char *of_pod(struct rig *r, const char *agent)
{
	return world_agent(&r->world, agent)->template;
}

static const char *shown(struct rig *r, const char *agent, const char *key)
{
	static char out[ERR_MESSAGE_MAX];
	json_t *o = NULL;
	struct err e = {0};

	if (life_show(r->life, agent, &o, &e))
		fail_msg("%s", e.message);
	snprintf(out, sizeof(out), "%s",
		 json_is_string(json_object_get(o, key)) ? json_string_value(json_object_get(o, key)) : "");
	json_decref(o);
	return out;
}

static int count_kept(struct sqlite3 *db, void *job, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = store_prepare(db, &st, e, "SELECT count(*) FROM pod_templates", "");

	if (!rc && (rc = store_step(db, st, e)) > 0) {
		*(int *)job = sqlite3_column_int(st, 0);
		rc = 0;
	}
	sqlite3_finalize(st);
	return rc;
}

static int kept(struct rig *r)
{
	int n = -1;

	assert_int_equal(store_read(r->store, count_kept, &n, NULL), 0);
	return n;
}

static void each_wake_has_it(void **state)
{
	struct rig *r = *state;
	char digest[SANDBOX_DIGEST_LEN];

	resume_with(r, "ann", ONE);
	assert_int_equal(r->rc, 0);
	assert_string_equal(of_pod(r, "ann"), ONE);
	life_template_digest(ONE, digest);
	assert_int_equal(strlen(digest), 64);
	assert_string_equal(shown(r, "ann", "own_pod_template"), digest);
	assert_string_equal(shown(r, "ann", "pod_template"), ONE); /* as the world says it */
	for (int restarted = 0; restarted < 2; restarted++) {
		stop(r, "ann");
		world_agent(&r->world, "ann")->template[0] = '\0';
		if (restarted) {
			rig_down(r);
			rig_up(r);
			rig_settle(r);
		}
		rig_ensure(r, "ann"); /* nobody's word: work that needs it */
		rig_settle(r);
		assert_int_equal(r->rc, 0);
		assert_string_equal(of_pod(r, "ann"), ONE);
	}
	stop(r, "ann");
	resume_with(r, "ann", TWO);
	assert_string_equal(of_pod(r, "ann"), TWO);
	assert_int_equal(kept(r), 1);
	stop(r, "ann");
	resume_with(r, "ann", "");
	assert_string_equal(of_pod(r, "ann"), "");
	assert_string_equal(shown(r, "ann", "own_pod_template"), "");
	assert_int_equal(kept(r), 0);
	rig_run(r, "bob");
	assert_string_equal(of_pod(r, "bob"), "");
}

/* A daemon that dies between any two steps of the start: whoever goes on with it makes the pod from both. */
static void a_start_that_is_gone_on_with_has_it(void **state)
{
	struct rig *r = *state;

	for (int steps = 0; steps < 8; steps++) {
		struct life_options o = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = UINT64_MAX, .pod_template = ONE};
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
		assert_string_equal(of_pod(r, name), ONE);
	}
}

static void forks_have_it_too(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {
	    .agent = "ann", .as = "ben", .options = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = UINT64_MAX}};

	resume_with(r, "ann", ONE);
	stop(r, "ann");
	f.snapshot = rig_row(r, "ann").snapshot;
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_string_equal(of_pod(r, "ben"), ONE);
	f.as = "cid";
	f.options.pod_template = TWO;
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	assert_string_equal(of_pod(r, "cid"), TWO);
	f.as = "dan";
	f.options.pod_template = "";
	life_fork(r->life, &f, 0, rig_answer, r);
	rig_settle(r);
	assert_string_equal(of_pod(r, "dan"), "");
	assert_int_equal(kept(r), 2);
	life_terminate(r->life, "cid", "over", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_int_equal(kept(r), 1); /* ann's and ben's is one */
	life_terminate(r->life, "ann", "over", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(kept(r), 1);
	stop(r, "ben");
	rig_run(r, "ben");
	assert_string_equal(of_pod(r, "ben"), ONE);
	life_terminate(r->life, "ben", "over", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(kept(r), 0);
	rig_run(r, "ann"); /* another one of that name */
	assert_string_equal(of_pod(r, "ann"), "");
}

static void one_that_runs_keeps_its_pod(void **state)
{
	struct rig *r = *state;

	assert_int_equal(would_hear(r, "ann", TWO), 0);
	assert_int_equal(would_hear(r, "ann-fork-0123456789ab", NULL), ERR_NOT_FOUND);
	resume_with(r, "ann", ONE);
	assert_int_equal(would_hear(r, "ann", TWO), ERR_BAD_STATE);
	assert_int_equal(would_hear(r, "ann", ONE), 0);
	assert_int_equal(would_hear(r, "ann", NULL), 0);
	resume_with(r, "ann", TWO);
	assert_int_equal(r->rc, ERR_BAD_STATE);
	assert_string_equal(r->message, "ann is running, and cannot be given another pod template: stopped would do");
	resume_with(r, "ann", "");
	assert_int_equal(r->rc, ERR_BAD_STATE);
	resume_with(r, "ann", ONE);
	assert_int_equal(r->rc, 0);
	/* Of two at once the first is heard. */
	stop(r, "ann");
	assert_int_equal(would_hear(r, "ann", TWO), 0);
	r->world.hold[SANDBOX_ENSURE] = true;
	resume_with(r, "ann", TWO);
	resume_with(r, "ann", ONE);
	r->answers = 0;
	r->world.hold[SANDBOX_ENSURE] = false;
	rig_settle(r);
	assert_int_equal(r->answers, 2);
	assert_int_equal(r->rc, ERR_BAD_STATE);
	assert_string_equal(of_pod(r, "ann"), TWO);
	assert_int_equal(kept(r), 1);
}

/* It is stopped to the end: its pod is to be made anew. */
static void a_stop_is_not_taken_back_for_another_one(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	r->world.hold[SANDBOX_TAKE] = true;
	rig_stop(r, "ann");
	rig_settle(r);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	resume_with(r, "ann", ONE);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	r->world.hold[SANDBOX_TAKE] = false;
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_string_equal(of_pod(r, "ann"), ONE);
}

static void one_that_may_not_be_is_refused(void **state)
{
	struct rig *r = *state;
	struct err e = {0};

	assert_int_equal(life_template_check(r->life, "ann", "{\"bad\":1}", &e), ERR_INVAL);
	assert_string_equal(e.message, "pod_template: /spec/bad is not for a template");
	/* One that was taken, and is refused by what is configured now: the start says so, and another one helps. */
	resume_with(r, "ann", "{\"bad\":1}");
	assert_int_equal(r->rc, ERR_INVAL);
	assert_state(r, "ann", LIFE_ERROR);
	assert_int_equal(r->world.made[SANDBOX_ENSURE], 0);
	assert_string_equal(shown(r, "ann", "pod_template_refused"), "pod_template: /spec/bad is not for a template");
	resume_with(r, "ann", "");
	assert_int_equal(r->rc, 0);
	assert_state(r, "ann", LIFE_RUNNING);
}

/* What the record cannot hold does not happen: nor does the next start have what was refused. */
static void nothing_stays_of_a_start_that_was_not_noted(void **state)
{
	struct rig *r = *state;

	r->audit_rc = ERR_RECORD_UNAVAILABLE;
	resume_with(r, "ann", ONE);
	assert_int_equal(r->rc, ERR_RECORD_UNAVAILABLE);
	r->audit_rc = 0;
	rig_pass(r, 5 * SECOND, SECOND);
	rig_run(r, "ann");
	assert_string_equal(of_pod(r, "ann"), "");
	assert_int_equal(kept(r), 0);
}

static void where_there_are_no_pods_it_is_refused(void **state)
{
	struct rig *r = *state;
	struct err e = {0};

	r->world.no_pods = true;
	rig_down(r);
	rig_up(r);
	rig_settle(r);
	assert_int_equal(life_template_check(r->life, "ann", ONE, &e), ERR_UNSUPPORTED);
	assert_string_equal(e.message, "the sandbox of ann is no pod here, and has no pod template");
	rig_run(r, "ann");
	assert_string_equal(shown(r, "ann", "pod_template"), "");
}

/* ---- a database as the release before left it */

static void exec(const char *path, const char *sql)
{
	sqlite3 *db = NULL;
	char *why = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &why))
		fail_msg("%s: %s", sql, why);
	sqlite3_close(db);
}

static void a_database_of_before_is_opened(void **state)
{
	static const char *const steps[] = {store_schema_life_1, store_schema_work_1, store_schema_outbox_1,
					    store_schema_life_2, store_schema_life_3, store_schema_life_4};
	struct rig *r = *state;

	rig_down(r);
	snprintf(r->path, sizeof(r->path), "%s/older.db", r->dir);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		exec(r->path, steps[i]);
	exec(r->path, "INSERT INTO agents(agent, state, generation, told, workspace, since_wall_ns, created_wall_ns, "
		      "updated_wall_ns) VALUES('old', 0, 7, 7, 1, 1, 1, 1); PRAGMA application_id = 1836415075; "
		      "PRAGMA user_version = 6");
	world_agent(&r->world, "old")->disk = true;
	rig_up(r);
	rig_settle(r);
	assert_int_equal(rig_row(r, "old").generation, 7);
	assert_string_equal(rig_row(r, "old").pod_template, "");
	assert_string_equal(shown(r, "old", "own_pod_template"), "");
	resume_with(r, "old", ONE);
	assert_int_equal(r->rc, 0);
	assert_string_equal(of_pod(r, "old"), ONE);
	rig_down(r);
	rig_up(r);
	rig_settle(r);
	assert_int_equal(kept(r), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(each_wake_has_it, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(a_start_that_is_gone_on_with_has_it, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(forks_have_it_too, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(one_that_runs_keeps_its_pod, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(a_stop_is_not_taken_back_for_another_one, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(one_that_may_not_be_is_refused, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(nothing_stays_of_a_start_that_was_not_noted, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(where_there_are_no_pods_it_is_refused, rig_setup, rig_teardown),
	    cmocka_unit_test_setup_teardown(a_database_of_before_is_opened, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("life_template", tests, NULL, NULL);
}
