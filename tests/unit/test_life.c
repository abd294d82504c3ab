// tier: check
/* The life of a sandbox, seen from outside: it is made when wanted, sleeps when idle, and comes back as it was. */
#include "tests/lib/life_rig.h"

static void one_start_for_all_who_want_it(void **state)
{
	struct rig *r = *state;

	for (int i = 0; i < 5; i++)
		rig_ensure(r, "ann");
	rig_settle(r);
	assert_int_equal(r->answers, 5);
	assert_int_equal(r->rc, 0);
	assert_int_equal(r->world.made[SANDBOX_ENSURE], 1);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(rig_audited(r, "sandbox.state", "ok"), 2);
	assert_int_equal(rig_audited(r, "filespace.pull", "skipped"), 1);
	assert_int_equal(rig_audited(r, "mcp.start", "skipped"), 1);
}

static void an_id_says_whose_sandbox_it_is(void **state)
{
	struct rig *r = *state;
	char name[AGENT_NAME_MAX + 1];
	struct id none, sandbox;

	rig_run(r, "ann");
	rig_run(r, "bob");
	sandbox = rig_row(r, "bob").sandbox;
	assert_int_equal(life_find(r->life, &sandbox, name, NULL), 0);
	assert_string_equal(name, "bob");
	assert_int_equal(id_new(&none), 0);
	assert_int_equal(life_find(r->life, &none, name, NULL), 0);
	assert_string_equal(name, "");
}

static void idle_for_an_hour_sleeps_and_wakes_as_it_was(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	world_agent(&r->world, "ann")->content = 42;
	rig_pass(r, 59 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_RUNNING);
	rig_pass(r, 2 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_false(world_agent(&r->world, "ann")->disk); /* at_rest: drop */
	assert_int_equal(r->quiesced, 1);
	assert_int_equal(r->left, 1);
	assert_non_null(strstr(r->last_leave, "idle"));
	assert_int_equal(rig_audited(r, "snapshot.create", "ok"), 1);
	/* What was taken is in the log with its digest. */
	json_t *told;
	size_t i;
	json_array_foreach(r->audit, i,
			   told) if (strcmp(json_string_value(json_object_get(told, "event")), "snapshot.create") == 0)
	{
		const json_t *detail = json_object_get(told, "detail");
		assert_string_equal(json_string_value(json_object_get(detail, "digest")), "0f0f");
	}
	rig_run(r, "ann");
	assert_int_equal(world_agent(&r->world, "ann")->content, 42);
	assert_int_equal(rig_audited(r, "snapshot.restore", "ok"), 1);
}

/* Very many small files: packed and proven just within the limit, and unpacked in three times as long. */
static void what_was_proven_within_the_limit_wakes_again(void **state)
{
	struct rig *r = *state;

	r->world.take_ns = r->conf->life_snapshot_timeout_ns - NS_PER_MS;
	r->world.restore_ns = 3 * r->world.take_ns;
	rig_run(r, "ann");
	world_agent(&r->world, "ann")->content = 42;
	rig_pass(r, 61 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_false(world_agent(&r->world, "ann")->disk);
	rig_run(r, "ann");
	assert_int_equal(world_agent(&r->world, "ann")->content, 42);
	/* What takes too long to pack does not take the only copy along. */
	r->world.take_ns = r->conf->life_snapshot_timeout_ns + NS_PER_MS;
	rig_stop(r, "ann");
	rig_settle(r);
	assert_true(world_agent(&r->world, "ann")->disk);
	assert_int_equal(world_agent(&r->world, "ann")->content, 42);
}

static void what_holds_is_never_cut(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	r->act.holding = 1;
	rig_pass(r, 10 * HOUR, 10 * MINUTE);
	assert_state(r, "ann", LIFE_RUNNING);
	r->act.holding = 0;
	r->act.last_boot_ns = r->boot; /* its end is activity */
	rig_pass(r, 55 * MINUTE, 5 * MINUTE);
	assert_state(r, "ann", LIFE_RUNNING);
	rig_pass(r, 70 * MINUTE, 5 * MINUTE);
	assert_state(r, "ann", LIFE_STOPPED);
}

static void who_is_attached_is_warned_and_a_key_keeps_it(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	r->act.attached = 1;
	rig_pass(r, 59 * MINUTE + 10 * SECOND, 10 * SECOND);
	assert_int_equal(r->warned, 1);
	assert_non_null(strstr(r->last_warning, "60 s"));
	r->act.last_boot_ns = r->boot;
	rig_pass(r, 50 * MINUTE, 10 * SECOND);
	assert_int_equal(r->warned, 1);
	assert_state(r, "ann", LIFE_RUNNING);
	rig_pass(r, 11 * MINUTE, 10 * SECOND);
	assert_int_equal(r->warned, 2);
	assert_state(r, "ann", LIFE_STOPPED);
}

static void hold_attached_holds(void **state)
{
	struct rig *r = *state;

	r->conf->life_hold_attached = true;
	life_set_conf(r->life, r->conf);
	rig_run(r, "ann");
	r->act.attached = 1;
	rig_pass(r, 5 * HOUR, 10 * MINUTE);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(r->warned, 0);
}

static void a_resume_takes_a_stop_back_while_the_snapshot_is_made(void **state)
{
	struct rig *r = *state;
	struct life_row row;

	rig_run(r, "ann");
	world_agent(&r->world, "ann")->content = 7;
	r->world.hold[SANDBOX_TAKE] = true;
	rig_stop(r, "ann");
	rig_settle(r);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	r->answers = 0;
	rig_resume(r, "ann");
	rig_settle(r);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(r->answers, 2); /* the stop hears that it was taken back, the resume that it runs */
	assert_true(world_agent(&r->world, "ann")->running);
	assert_int_equal(r->left, 0);
	r->world.hold[SANDBOX_TAKE] = false; /* what was begun becomes ready after all: it is kept, and current */
	rig_settle(r);
	row = rig_row(r, "ann");
	assert_int_equal(row.state, LIFE_RUNNING);
	assert_false(id_is_nil(&row.snapshot));
	assert_true(id_is_nil(&row.next));
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
}

/* A driver that is down never says that its snapshot is made, nor that it failed. */
static void work_awaits_a_stop_but_not_a_driver_that_is_down(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	world_agent(&r->world, "ann")->content = 7;
	r->world.hold[SANDBOX_TAKE] = true;
	rig_stop(r, "ann");
	rig_settle(r);
	r->answers = 0;
	life_need(r->life, "ann", NULL, rig_answer, r);
	rig_pass(r, 9 * SECOND, SECOND);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	assert_int_equal(r->answers, 0);
	rig_pass(r, 2 * SECOND, SECOND);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(r->answers, 2); /* the stop hears why, the work goes on */
	assert_int_equal(r->rc, 0);
	assert_int_equal(r->left, 0);
	assert_non_null(strstr(rig_row(r, "ann").cause, "snapshot was not made within 10 s"));

	/* Work that comes when the snapshot is late already does not wait at all. */
	rig_stop(r, "ann");
	rig_pass(r, 20 * SECOND, SECOND);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	r->answers = 0;
	life_need(r->life, "ann", NULL, rig_answer, r);
	rig_settle(r);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(r->answers, 2);
	assert_int_equal(world_agent(&r->world, "ann")->content, 7);
}

static void an_end_with_a_snapshot_gives_way_to_nobody(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	r->world.hold[SANDBOX_TAKE] = true;
	life_terminate(r->life, "ann", "runaway", LIFE_END_SNAPSHOT, 0, rig_answer, r);
	rig_settle(r);
	r->answers = 0;
	life_need(r->life, "ann", NULL, rig_answer, r);
	rig_pass(r, 30 * SECOND, SECOND);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	r->world.hold[SANDBOX_TAKE] = false;
	rig_settle(r);
	assert_state(r, "ann", LIFE_RUNNING); /* ended, and woken for the work */
	assert_int_equal(r->left, 1);
	assert_int_equal(r->answers, 2);
}

static json_t *last_drop(const struct rig *r)
{
	json_t *found = NULL, *o;
	size_t i;

	json_array_foreach(r->audit, i, o) if (strcmp(json_string_value(json_object_get(o, "event")),
						      "snapshot.drop") == 0) found = json_object_get(o, "detail");
	return found;
}

static void what_goes_says_how_many_recordings_name_it(void **state)
{
	struct rig *r = *state;
	struct id snapshot;
	json_t *d;

	r->refers_rc = 3;
	rig_run(r, "ann");
	rig_stop(r, "ann");
	rig_settle(r);
	snapshot = rig_row(r, "ann").snapshot;
	rig_run(r, "ann");
	rig_stop(r, "ann");
	rig_settle(r);
	life_snapshot_drop(r->life, "ann", &snapshot, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	d = last_drop(r);
	assert_int_equal(json_integer_value(json_object_get(d, "recordings")), 3);
	assert_non_null(json_object_get(d, "id"));
}

static enum snap_status snap_status(struct rig *r, const struct id *id)
{
	struct life_snap s;

	assert_int_equal(life_snap_load(r->life, id, &s, NULL), 0);
	return s.status;
}

/* What a legal hold keeps stays, by hand, by retention and with its agent; and so does what nobody knows of now. */
static void what_is_held_stays(void **state)
{
	static const int kept[] = {ERR_BAD_STATE, ERR_UNAVAILABLE, ERR_NOMEM, ERR_PROTOCOL};
	struct rig *r = *state;
	struct id first, second;

	rig_run(r, "ann");
	rig_stop(r, "ann");
	rig_settle(r);
	first = rig_row(r, "ann").snapshot;
	rig_run(r, "ann");
	rig_stop(r, "ann");
	rig_settle(r);
	second = rig_row(r, "ann").snapshot;
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		r->refers_rc = kept[i];
		life_snapshot_drop(r->life, "ann", &first, rig_answer, r);
		rig_settle(r);
		assert_int_equal(r->rc, kept[i]);
		assert_int_equal(rig_audited(r, "snapshot.drop", "ok"), 0);
		assert_int_equal(snap_status(r, &first), SNAP_READY);
	}
	life_terminate(r->life, "ann", "test", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0); /* the agent goes all the same */
	assert_int_equal(rig_audited(r, "snapshot.drop", "ok"), 0);
	assert_int_equal(rig_audited(r, "snapshot.drop", "kept"), 2);
	assert_int_equal(snap_status(r, &first), SNAP_READY);
	assert_int_equal(snap_status(r, &second), SNAP_READY);
	r->refers_rc = 0; /* released: they go as what is without an agent does */
	for (int i = 0; i < 10 && rig_audited(r, "snapshot.drop", "ok") < 2; i++) {
		rig_pass(r, 60 * (int64_t)NS_PER_SEC, 10 * (int64_t)NS_PER_SEC);
	}
	assert_int_equal(rig_audited(r, "snapshot.drop", "ok"), 2);
}

static void after_the_point_of_no_return_a_resume_waits_and_wakes(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	world_agent(&r->world, "ann")->content = 9;
	r->world.hold[SANDBOX_DESTROY] = true;
	rig_stop(r, "ann");
	rig_settle(r);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	assert_int_equal(r->left, 1);
	r->answers = 0;
	rig_ensure(r, "ann");
	rig_settle(r);
	assert_int_equal(r->answers, 0);
	r->world.hold[SANDBOX_DESTROY] = false;
	rig_settle(r);
	assert_int_equal(r->answers, 2);
	assert_int_equal(r->rc, 0);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(world_agent(&r->world, "ann")->content, 9);
}

static void activity_during_a_stop_takes_it_back(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	r->world.hold[SANDBOX_TAKE] = true;
	rig_pass(r, 61 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	r->act.last_boot_ns = r->boot; /* somebody typed through the link that is up */
	r->world.hold[SANDBOX_TAKE] = false;
	rig_settle(r);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(r->left, 0);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
}

static void a_snapshot_that_fails_keeps_the_last_good_one(void **state)
{
	struct rig *r = *state;
	struct life_row row;
	struct id good;

	rig_run(r, "ann");
	life_snapshot(r->life, "ann", 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_non_null(json_object_get(r->result, "snapshot"));
	good = rig_row(r, "ann").snapshot;
	world_agent(&r->world, "ann")->content = 5;
	r->world.fail[SANDBOX_TAKE] = ERR_SNAPSHOT;
	snprintf(r->world.words, sizeof(r->world.words), "the disk said no");
	rig_stop(r, "ann");
	rig_settle(r);
	assert_int_equal(r->rc, ERR_SNAPSHOT);
	row = rig_row(r, "ann");
	assert_int_equal(row.state, LIFE_ERROR);
	assert_non_null(strstr(row.detail, "the disk said no"));
	assert_true(id_equal(&row.snapshot, &good));
	assert_true(world_agent(&r->world, "ann")->disk); /* nothing of it is lost */
	assert_int_equal(rig_audited(r, "snapshot.create", "failed"), 1);
	rig_run(r, "ann");
	assert_int_equal(world_agent(&r->world, "ann")->content, 5);
}

static void a_snapshot_that_is_never_ready_is_the_same(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	r->world.fail[SANDBOX_TAKE] = ERR_TIMEOUT;
	rig_pass(r, 61 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_ERROR);
	assert_true(world_agent(&r->world, "ann")->disk);
	rig_run(r, "ann");
}

static void what_would_lose_its_workspace_is_not_stopped(void **state)
{
	struct rig *r = *state;

	r->world.no_takes = r->world.no_disk = true;
	snprintf(r->world.words, sizeof(r->world.words), "an emptyDir cannot be copied");
	rig_run(r, "ann");
	rig_pass(r, 61 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_non_null(strstr(rig_row(r, "ann").detail, "an emptyDir cannot be copied"));
	rig_stop(r, "ann");
	rig_settle(r);
	assert_int_equal(r->rc, ERR_UNSUPPORTED);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(r->left, 0);
}

static void assert_sleepless(struct rig *r, const char *why, double sandboxes)
{
	json_t *o = NULL, *list = life_metrics(r->life), *family, *samples;
	const char *told;
	double n = -1;
	size_t i;

	assert_int_equal(life_show(r->life, "ann", &o, NULL), 0);
	told = json_string_value(json_object_get(o, "cannot_sleep"));
	if (why)
		assert_string_equal(told, why);
	else
		assert_null(told);
	json_array_foreach(list, i, family) if (strcmp(json_string_value(json_object_get(family, "name")),
						       "muxd_agents_cannot_sleep") == 0)
	{
		samples = json_object_get(family, "samples");
		n = json_number_value(json_object_get(json_array_get(samples, 0), "value"));
	}
	assert_true(n == sandboxes);
	json_decref(list);
	json_decref(o);
}

static void what_can_never_sleep_says_so(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	assert_sleepless(r, NULL, 0);
	r->world.provider->workspace_goes = "it goes with its pod";
	assert_sleepless(r, "it goes with its pod", 1);
}

static void without_snapshots_a_stop_keeps_the_workspace(void **state)
{
	struct rig *r = *state;

	r->world.no_takes = true;
	rig_run(r, "ann");
	world_agent(&r->world, "ann")->content = 3;
	rig_pass(r, 61 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_true(world_agent(&r->world, "ann")->disk);
	rig_run(r, "ann");
	assert_int_equal(world_agent(&r->world, "ann")->content, 3);
}

static void a_start_that_stays_pending_is_a_named_error_and_goes_on(void **state)
{
	struct rig *r = *state;

	r->world.hold[SANDBOX_ENSURE] = true;
	rig_ensure(r, "ann");
	rig_settle(r);
	rig_pass(r, 3 * MINUTE, MINUTE);
	assert_int_equal(r->answers, 1);
	assert_int_equal(r->rc, ERR_SANDBOX_TIMEOUT);
	assert_non_null(strstr(r->message, "starting"));
	assert_state(r, "ann", LIFE_STARTING);
	r->world.hold[SANDBOX_ENSURE] = false;
	rig_settle(r);
	assert_state(r, "ann", LIFE_RUNNING);
}

static void a_start_that_fails_is_told_to_all_and_can_be_tried_again(void **state)
{
	struct rig *r = *state;

	r->world.fail[SANDBOX_ENSURE] = ERR_K8S_FORBIDDEN;
	snprintf(r->world.words, sizeof(r->world.words), "pods is forbidden: exceeded quota");
	rig_ensure(r, "ann");
	rig_ensure(r, "ann");
	rig_settle(r);
	assert_int_equal(r->answers, 2);
	assert_int_equal(r->rc, ERR_K8S_FORBIDDEN);
	assert_non_null(strstr(r->message, "exceeded quota"));
	assert_state(r, "ann", LIFE_ERROR);
	assert_non_null(strstr(rig_row(r, "ann").detail, "exceeded quota"));
	rig_run(r, "ann");
}

static int push_fails(void *ctx, const char *agent, struct err *e)
{
	struct rig *r = ctx;

	(void)agent;
	return r->pushes++ < (unsigned)r->push_fails ? err_set(e, ERR_TIMEOUT, "the store of files is away") : 0;
}

static void a_sync_that_fails_once_is_tried_again(void **state)
{
	struct rig *r = *state;

	r->life->steps[STEP_PUSH].run = push_fails;
	r->life->steps[STEP_PUSH].ctx = r;
	r->push_fails = 1;
	rig_run(r, "ann");
	rig_stop(r, "ann");
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_int_equal(r->pushes, 2);
	assert_state(r, "ann", LIFE_STOPPED);
}

static void a_sync_that_fails_twice_stops_and_says_so(void **state)
{
	struct rig *r = *state;

	r->life->steps[STEP_PUSH].run = push_fails;
	r->life->steps[STEP_PUSH].ctx = r;
	r->push_fails = 2;
	rig_run(r, "ann");
	world_agent(&r->world, "ann")->content = 11;
	rig_stop(r, "ann");
	rig_settle(r);
	assert_int_equal(r->rc, ERR_TIMEOUT);
	assert_int_equal(r->pushes, 2);
	assert_state(r, "ann", LIFE_ERROR);
	assert_non_null(strstr(rig_row(r, "ann").detail, "the store of files is away"));
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
	assert_true(world_agent(&r->world, "ann")->disk); /* what was not pushed is there */
	rig_run(r, "ann");
	assert_int_equal(world_agent(&r->world, "ann")->content, 11);
}

static void gone(struct rig *r, const char *why, bool disk)
{
	struct world_agent *a = world_agent(&r->world, "ann");
	struct sandbox_provider *p = r->world.provider;
	struct id was = a->sandbox;

	a->running = false;
	a->disk = disk;
	p->gone(p->gone_arg, "ann", &was, why);
	rig_settle(r);
}

static void a_node_that_is_gone_is_an_error_and_wakes_elsewhere(void **state)
{
	struct rig *r = *state;
	struct life_row row;

	rig_run(r, "ann");
	world_agent(&r->world, "ann")->content = 1;
	life_snapshot(r->life, "ann", 0, rig_answer, r);
	rig_settle(r);
	world_agent(&r->world, "ann")->content = 2;
	gone(r, "node worker-3 is gone", true);
	row = rig_row(r, "ann");
	assert_int_equal(row.state, LIFE_ERROR);
	assert_non_null(strstr(row.cause, "worker-3"));
	assert_non_null(strstr(row.detail, "its workspace is there"));
	rig_run(r, "ann"); /* the claim survived */
	assert_int_equal(world_agent(&r->world, "ann")->content, 2);
	gone(r, "node worker-4 is gone", false);
	assert_non_null(strstr(rig_row(r, "ann").detail, "lost"));
	rig_run(r, "ann"); /* and now it did not */
	assert_int_equal(world_agent(&r->world, "ann")->content, 1);
}

/* Without a snapshot it begins empty, as the record says; at each start that comes so far, until one has begun. */
static void a_claim_without_its_volume_begins_empty(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	world_agent(&r->world, "ann")->content = 1;
	gone(r, "node worker-3 is gone", false);
	world_agent(&r->world, "ann")->lost = true;
	r->world.fail[SANDBOX_ENSURE] = ERR_K8S_FORBIDDEN;
	rig_resume(r, "ann");
	rig_settle(r);
	assert_int_equal(r->rc, ERR_K8S_FORBIDDEN);
	assert_int_equal(rig_audited(r, "workspace.lost", "ok"), 1);
	rig_run(r, "ann");
	assert_int_equal(rig_audited(r, "workspace.lost", "ok"), 2);
	assert_non_null(strstr(rig_row(r, "ann").detail, "it begins empty"));
	assert_int_equal(world_agent(&r->world, "ann")->content, 0);
	assert_false(world_agent(&r->world, "ann")->lost);
}

static void an_end_by_itself_is_found_by_the_next_who_comes(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	world_agent(&r->world, "ann")->running = false;
	r->answers = 0;
	rig_ensure(r, "ann");
	rig_settle(r);
	assert_int_equal(r->answers, 1);
	assert_int_equal(r->rc, 0);
	assert_true(world_agent(&r->world, "ann")->running);
	assert_state(r, "ann", LIFE_RUNNING);
}

static void a_minute_later_the_reconciler_knows(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	world_agent(&r->world, "ann")->running = false;
	world_agent(&r->world, "bob")->disk = world_agent(&r->world, "bob")->running = true;
	(void)id_new(&world_agent(&r->world, "bob")->sandbox);
	rig_pass(r, 70 * SECOND, 10 * SECOND);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_state(r, "bob", LIFE_RUNNING); /* nobody's: it has an owner now */
}

static void without_a_record_nothing_changes(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	r->audit_rc = ERR_RECORD_UNAVAILABLE;
	rig_stop(r, "ann");
	rig_settle(r);
	assert_int_equal(r->rc, ERR_RECORD_UNAVAILABLE);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_true(world_agent(&r->world, "ann")->running);
	assert_int_equal(r->world.made[SANDBOX_TAKE], 0);
}

static void the_clock_may_jump(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	rig_pass(r, 10 * MINUTE, MINUTE);
	r->wall += 30 * 24 * HOUR; /* somebody set it */
	rig_pass(r, 10 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_RUNNING);
	r->wall -= 60 * 24 * HOUR;
	rig_pass(r, 39 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_RUNNING);
	rig_pass(r, 3 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_STOPPED);
}

static void timers_survive_a_restart(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	rig_pass(r, 30 * MINUTE, MINUTE);
	rig_down(r);
	rig_clock(r, 10 * MINUTE);
	r->wall -= 5 * HOUR; /* and the clock was set back meanwhile */
	rig_up(r);
	rig_settle(r);
	assert_state(r, "ann", LIFE_RUNNING);
	rig_pass(r, 18 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_RUNNING);
	rig_pass(r, 4 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_STOPPED);
}

static void an_absolute_time_ends_what_is_busy_too(void **state)
{
	struct rig *r = *state;
	struct life_options o = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = 2 * HOUR};

	life_resume(r->life, "ann", &o, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	r->act.holding = 1;
	rig_pass(r, 119 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_RUNNING);
	rig_run(r, "ann"); /* coming again does not shorten it, nor make it longer */
	rig_pass(r, 2 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
}

static void or_deletes_it(void **state)
{
	struct rig *r = *state;
	struct life_options o = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = 2 * HOUR};

	free(r->conf->life_ttl_action);
	r->conf->life_ttl_action = strdup("delete");
	life_set_conf(r->life, r->conf);
	life_resume(r->life, "ann", &o, 0, rig_answer, r);
	rig_settle(r);
	rig_pass(r, 70 * MINUTE, MINUTE);
	assert_state(r, "ann", LIFE_STOPPED); /* idle before */
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
	rig_pass(r, 60 * MINUTE, MINUTE);
	assert_int_equal(rig_row(r, "ann").generation, 0);
	assert_int_equal(world_snaps(&r->world, "ann"), 0);
}

static void speed_makes_only_lifecycles_clock_faster(void **state)
{
	struct rig *r = *state;

	r->conf->life_speed = 3600;
	life_set_conf(r->life, r->conf);
	rig_run(r, "ann");
	rig_pass(r, SECOND * 9 / 10, SECOND / 10);
	assert_state(r, "ann", LIFE_RUNNING);
	rig_pass(r, SECOND / 5, SECOND / 10);
	assert_state(r, "ann", LIFE_STOPPED);
}

static void ends_by_reason(void **state)
{
	struct rig *r = *state;

	r->conf->life_snapshot_reasons = (free(r->conf->life_snapshot_reasons), strdup("end_of_task, handover"));
	life_set_conf(r->life, r->conf);
	rig_run(r, "ann");
	life_terminate(r->life, "ann", "end_of_task: all done", LIFE_END_BY_REASON, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
	rig_run(r, "ann");
	life_terminate(r->life, "ann", "abandoned", LIFE_END_BY_REASON, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_true(world_agent(&r->world, "ann")->disk);
	life_terminate(r->life, "ann", "gone for good", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_string_equal(json_string_value(json_object_get(r->result, "state")), "absent");
	assert_int_equal(world_snaps(&r->world, "ann"), 0);
	assert_int_equal(rig_row(r, "ann").generation, 0);
}

static void what_a_state_does_not_allow_is_said(void **state)
{
	struct rig *r = *state;

	rig_stop(r, "nobody");
	rig_settle(r);
	assert_int_equal(r->rc, ERR_NOT_FOUND);
	rig_run(r, "ann");
	rig_stop(r, "ann");
	rig_settle(r);
	rig_stop(r, "ann"); /* stopped already is fine */
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	life_snapshot(r->life, "ann", 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_BAD_STATE);
	assert_non_null(strstr(r->message, "running"));
	life_stop(r->life, "ns/pod", "x", 0, rig_answer, r);
	assert_int_equal(r->rc, ERR_UNSUPPORTED);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(one_start_for_all_who_want_it),
	    T(an_id_says_whose_sandbox_it_is),
	    T(idle_for_an_hour_sleeps_and_wakes_as_it_was),
	    T(what_was_proven_within_the_limit_wakes_again),
	    T(what_holds_is_never_cut),
	    T(who_is_attached_is_warned_and_a_key_keeps_it),
	    T(hold_attached_holds),
	    T(a_resume_takes_a_stop_back_while_the_snapshot_is_made),
	    T(work_awaits_a_stop_but_not_a_driver_that_is_down),
	    T(an_end_with_a_snapshot_gives_way_to_nobody),
	    T(after_the_point_of_no_return_a_resume_waits_and_wakes),
	    T(what_goes_says_how_many_recordings_name_it),
	    T(what_is_held_stays),
	    T(activity_during_a_stop_takes_it_back),
	    T(a_snapshot_that_fails_keeps_the_last_good_one),
	    T(a_snapshot_that_is_never_ready_is_the_same),
	    T(what_would_lose_its_workspace_is_not_stopped),
	    T(what_can_never_sleep_says_so),
	    T(without_snapshots_a_stop_keeps_the_workspace),
	    T(a_start_that_stays_pending_is_a_named_error_and_goes_on),
	    T(a_start_that_fails_is_told_to_all_and_can_be_tried_again),
	    T(a_sync_that_fails_once_is_tried_again),
	    T(a_sync_that_fails_twice_stops_and_says_so),
	    T(a_node_that_is_gone_is_an_error_and_wakes_elsewhere),
	    T(a_claim_without_its_volume_begins_empty),
	    T(an_end_by_itself_is_found_by_the_next_who_comes),
	    T(a_minute_later_the_reconciler_knows),
	    T(without_a_record_nothing_changes),
	    T(the_clock_may_jump),
	    T(timers_survive_a_restart),
	    T(an_absolute_time_ends_what_is_busy_too),
	    T(or_deletes_it),
	    T(speed_makes_only_lifecycles_clock_faster),
	    T(ends_by_reason),
	    T(what_a_state_does_not_allow_is_said),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
