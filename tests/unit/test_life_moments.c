// tier: check
/* Snapshots as moments to go back to: restore, fork, retention. */
#include "tests/lib/life_rig.h"

static struct id snapshot(struct rig *r, const char *agent, int content)
{
	world_agent(&r->world, agent)->content = content;
	rig_clock(r, MINUTE);
	life_snapshot(r->life, agent, 0, rig_answer, r);
	rig_settle(r);
	if (r->rc)
		fail_msg("%s", r->message);
	return rig_row(r, agent).snapshot;
}

static int current_content(struct rig *r, const char *agent)
{
	return world_agent(&r->world, agent)->content;
}

static void back_to_a_snapshot_of_its_own(void **state)
{
	struct rig *r = *state;
	struct id first;

	rig_run(r, "ann");
	first = snapshot(r, "ann", 1);
	(void)snapshot(r, "ann", 2);
	world_agent(&r->world, "ann")->content = 3;
	life_restore(r->life, "ann", &first, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_state(r, "ann", LIFE_STOPPED);
	assert_int_equal(world_snaps(&r->world, "ann"), 3); /* what was there is in one, too */
	rig_run(r, "ann");
	assert_int_equal(current_content(r, "ann"), 1);
}

/* Nobody waits for it any more, and what was begun goes on. */
static void a_restore_that_takes_longer_than_its_caller_waits(void **state)
{
	struct rig *r = *state;
	struct id first, now;

	rig_run(r, "ann");
	first = snapshot(r, "ann", 1);
	world_agent(&r->world, "ann")->content = 2;
	r->world.hold[SANDBOX_TAKE] = true;
	life_restore(r->life, "ann", &first, 5 * (uint64_t)SECOND, rig_answer, r);
	rig_settle(r);
	r->answers = 0;
	rig_pass(r, 6 * SECOND, SECOND);
	assert_int_equal(r->answers, 1);
	assert_int_equal(r->rc, ERR_SANDBOX_TIMEOUT);
	assert_state(r, "ann", LIFE_IDLE_STOPPING);
	r->world.hold[SANDBOX_TAKE] = false;
	rig_settle(r);
	assert_int_equal(r->answers, 1);
	assert_state(r, "ann", LIFE_STOPPED);
	now = rig_row(r, "ann").snapshot;
	assert_true(id_equal(&now, &first));
	rig_run(r, "ann");
	assert_int_equal(current_content(r, "ann"), 1);
}

/* Ended without a snapshot: what was written since the last one is on the disk alone. */
static struct id ended_with_its_workspace_kept(struct rig *r)
{
	struct id first;

	rig_run(r, "ann");
	first = snapshot(r, "ann", 1);
	world_agent(&r->world, "ann")->content = 2;
	life_terminate(r->life, "ann", "enough", LIFE_END_KEEP, 0, rig_answer, r);
	rig_settle(r);
	assert_state(r, "ann", LIFE_STOPPED);
	return first;
}

static void what_is_in_no_snapshot_is_copied_before_a_restore(void **state)
{
	struct rig *r = *state;
	struct id first = ended_with_its_workspace_kept(r), last = {0};

	life_restore(r->life, "ann", &first, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_int_equal(current_content(r, "ann"), 1);
	assert_int_equal(world_snaps(&r->world, "ann"), 2);
	for (int i = 0; i < WORLD_SNAPS; i++)
		if (r->world.snaps[i].there && !id_equal(&r->world.snaps[i].id, &first))
			last = r->world.snaps[i].id;
	life_restore(r->life, "ann", &last, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_int_equal(current_content(r, "ann"), 2);
}

static void what_cannot_be_copied_is_not_restored_over(void **state)
{
	struct rig *r = *state;
	struct id first = ended_with_its_workspace_kept(r), now;

	r->world.fail[SANDBOX_TAKE] = ERR_DISK_FULL;
	r->answers = 0;
	life_restore(r->life, "ann", &first, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->answers, 1);
	assert_int_equal(r->rc, ERR_DISK_FULL);
	assert_int_equal(r->world.made[SANDBOX_RESTORE], 0);
	assert_int_equal(current_content(r, "ann"), 2);
	now = rig_row(r, "ann").snapshot;
	assert_true(id_equal(&now, &first));
	world_agent(&r->world, "ann")->disk = false; /* what is not there needs no copy */
	life_restore(r->life, "ann", &first, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_int_equal(current_content(r, "ann"), 1);
}

/* The stop's own snapshot is enough where the workspace stays on the disk. */
static void what_a_stop_has_copied_is_not_copied_again(void **state)
{
	struct rig *r = *state;
	struct id first;

	free(r->conf->life_at_rest);
	r->conf->life_at_rest = strdup("keep");
	life_set_conf(r->life, r->conf);
	rig_run(r, "ann");
	first = snapshot(r, "ann", 1);
	world_agent(&r->world, "ann")->content = 2;
	life_restore(r->life, "ann", &first, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_int_equal(current_content(r, "ann"), 1);
	assert_int_equal(r->world.made[SANDBOX_TAKE], 2);
}

static void a_restore_that_fails_changes_nothing(void **state)
{
	struct rig *r = *state;
	struct life_row before, after;
	struct id first;

	rig_run(r, "ann");
	first = snapshot(r, "ann", 1);
	world_agent(&r->world, "ann")->content = 4;
	rig_stop(r, "ann");
	rig_settle(r);
	before = rig_row(r, "ann");
	r->world.fail[SANDBOX_RESTORE] = ERR_SNAPSHOT;
	life_restore(r->life, "ann", &first, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_SNAPSHOT);
	after = rig_row(r, "ann");
	assert_int_equal(after.state, LIFE_STOPPED);
	assert_true(id_equal(&before.snapshot, &after.snapshot));
	rig_run(r, "ann");
	assert_int_equal(current_content(r, "ann"), 4);
}

/* The daemon dies in the middle, and the next one's try fails: the workspace that was there is what it wakes with. */
static void a_restore_that_dies_and_then_fails_changes_nothing(void **state)
{
	struct rig *r = *state;
	struct id first, last;
	struct life_row row;

	rig_run(r, "ann");
	first = snapshot(r, "ann", 1);
	world_agent(&r->world, "ann")->content = 2;
	free(r->conf->life_at_rest);
	r->conf->life_at_rest = strdup("keep");
	life_set_conf(r->life, r->conf);
	r->world.hold[SANDBOX_RESTORE] = true;
	life_restore(r->life, "ann", &first, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->world.made[SANDBOX_RESTORE], 1);
	last = rig_row(r, "ann").next;
	assert_false(id_is_nil(&last));
	rig_down(r);
	r->world.hold[SANDBOX_RESTORE] = false;
	r->world.fail[SANDBOX_RESTORE] = ERR_SNAPSHOT;
	rig_up(r);
	rig_pass(r, 10 * SECOND, SECOND);
	assert_int_equal(r->world.made[SANDBOX_RESTORE], 2);
	assert_state(r, "ann", LIFE_STOPPED);
	row = rig_row(r, "ann");
	assert_true(id_equal(&row.snapshot, &last));
	assert_true(row.workspace);
	assert_true(id_is_nil(&row.next));
	rig_run(r, "ann");
	assert_int_equal(r->world.made[SANDBOX_RESTORE], 2);
	assert_int_equal(world_agent(&r->world, "ann")->content, 2);
}

/* Done, and not noted: nobody hears that nothing was changed, and it comes to its end by itself. */
static void a_restore_that_may_have_been_done_is_looked_at_again(void **state)
{
	struct rig *r = *state;
	struct life_row row;
	struct id first;

	rig_run(r, "ann");
	first = snapshot(r, "ann", 1);
	world_agent(&r->world, "ann")->content = 2;
	r->world.fail[SANDBOX_RESTORE] = ERR_CANCELLED;
	life_restore(r->life, "ann", &first, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_CANCELLED);
	rig_pass(r, 10 * SECOND, SECOND);
	assert_state(r, "ann", LIFE_STOPPED);
	row = rig_row(r, "ann");
	assert_true(id_equal(&row.snapshot, &first));
	rig_run(r, "ann");
	assert_int_equal(world_agent(&r->world, "ann")->content, 1);
}

static void a_snapshot_that_cannot_be_taken_first_stops_a_restore(void **state)
{
	struct rig *r = *state;
	struct id first;

	rig_run(r, "ann");
	first = snapshot(r, "ann", 1);
	world_agent(&r->world, "ann")->content = 2;
	r->world.fail[SANDBOX_TAKE] = ERR_SNAPSHOT;
	life_restore(r->life, "ann", &first, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_SNAPSHOT);
	assert_state(r, "ann", LIFE_RUNNING);
	assert_int_equal(current_content(r, "ann"), 2);
}

static void what_is_not_there_or_of_another_is_refused(void **state)
{
	struct rig *r = *state;
	struct id of_bob, none;

	rig_run(r, "ann");
	rig_run(r, "bob");
	of_bob = snapshot(r, "bob", 1);
	assert_int_equal(id_new(&none), 0);
	life_restore(r->life, "ann", &none, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_NOT_FOUND);
	life_restore(r->life, "ann", &of_bob, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_INVAL);
	assert_non_null(strstr(r->message, "bob"));
	life_snapshot_drop(r->life, "ann", &of_bob, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_INVAL);
	life_snapshot_drop(r->life, "bob", &of_bob, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_BAD_STATE); /* its current one */
	assert_state(r, "ann", LIFE_RUNNING);
}

static void who_comes_later_gets_one_of_its_own(void **state)
{
	struct rig *r = *state;

	rig_run(r, "ann");
	r->world.hold[SANDBOX_TAKE] = true;
	r->answers = 0;
	life_snapshot(r->life, "ann", 0, rig_answer, r);
	rig_settle(r);
	life_snapshot(r->life, "ann", 0, rig_answer, r); /* while the first one is begun: too late to share it */
	rig_settle(r);
	world_agent(&r->world, "ann")->content = 2;
	r->world.hold[SANDBOX_TAKE] = false;
	rig_settle(r);
	assert_int_equal(r->answers, 2);
	assert_int_equal(r->rc, 0);
	assert_int_equal(world_snaps(&r->world, "ann"), 2);
}

static void fork_it(struct rig *r, struct life_fork *f)
{
	if (!f->options.idle_ttl_ns)
		f->options = (struct life_options){.idle_ttl_ns = UINT64_MAX, .ttl_ns = UINT64_MAX};
	life_fork(r->life, f, 0, rig_answer, r);
	rig_settle(r);
}

static void a_fork_is_an_agent_of_its_own(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.as = "look"};
	struct world_agent *look;

	rig_run(r, "ann");
	f.snapshot = snapshot(r, "ann", 1);
	(void)snapshot(r, "ann", 2);
	fork_it(r, &f);
	if (r->rc)
		fail_msg("%s", r->message);
	look = world_agent(&r->world, "look");
	assert_true(look->running && look->read_only);
	assert_int_equal(look->content, 1);
	assert_int_equal(current_content(r, "ann"), 2);
	assert_string_equal(json_string_value(json_object_get(json_object_get(r->result, "forked_from"), "agent")),
			    "ann");
	fork_it(r, &f);
	assert_int_equal(r->rc, ERR_CONFLICT); /* the name is taken */
	rig_stop(r, "look");                   /* nothing can have changed: no copy is made of it */
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_int_equal(world_snaps(&r->world, "look"), 0);
	rig_run(r, "look");
	assert_int_equal(look->content, 1);
}

static bool is_wanted(void *arg, const char *agent)
{
	return strcmp(agent, arg) != 0;
}

/* Names of muxd's making are forks' alone: nobody chooses one, and what is gone is not made anew, empty, by its name.
 */
static void nobody_makes_a_fork_by_its_name(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.as = "ann-fork-0123456789ab"};
	char made[AGENT_NAME_MAX + 1], origin[AGENT_NAME_MAX + 1], big[64], ann[] = "ann";
	json_t *list = NULL;

	rig_run(r, "ann");
	f.snapshot = snapshot(r, "ann", 1);
	fork_it(r, &f);
	assert_int_equal(r->rc, ERR_INVAL);
	rig_resume(r, f.as);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_NOT_FOUND);
	f.as = NULL;
	fork_it(r, &f);
	assert_int_equal(r->rc, 0);
	snprintf(made, sizeof(made), "%s", json_string_value(json_object_get(r->result, "agent")));
	assert_string_equal(target_origin(made, origin), "ann");
	/* An agent that one may not know of is on no page, and leaves its place to others. */
	assert_int_equal(life_list(r->life,
				   &(struct life_filter){.prefix = "ann", .limit = 1, .wanted = is_wanted, .arg = ann},
				   &list, NULL),
			 0);
	assert_string_equal(
	    json_string_value(json_object_get(json_array_get(json_object_get(list, "agents"), 0), "agent")), made);
	assert_true(json_is_false(json_object_get(list, "more")));
	json_decref(list);
	life_terminate(r->life, made, "over", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	rig_resume(r, made);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_NOT_FOUND);
	memset(big, 'b', 63);
	big[63] = '\0';
	rig_run(r, big);
	f.snapshot = snapshot(r, big, 1);
	fork_it(r, &f);
	assert_int_equal(r->rc, ERR_INVAL);
	assert_non_null(strstr(r->message, "a name of its own"));
}

static void a_moment_finds_the_snapshot_before_it(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.agent = "ann", .writable = true};
	int64_t early, between;
	const char *name;

	rig_run(r, "ann");
	early = r->wall;
	(void)snapshot(r, "ann", 1);
	rig_clock(r, MINUTE);
	between = r->wall;
	(void)snapshot(r, "ann", 2);
	f.at_wall_ns = between;
	fork_it(r, &f);
	if (r->rc)
		fail_msg("%s", r->message);
	name = json_string_value(json_object_get(r->result, "agent"));
	assert_non_null(strstr(name, "ann-fork-"));
	assert_int_equal(world_agent(&r->world, name)->content, 1);
	assert_false(world_agent(&r->world, name)->read_only);
	f.at_wall_ns = early;
	fork_it(r, &f);
	assert_int_equal(r->rc, ERR_NOT_FOUND);
	assert_non_null(strstr(r->message, "no snapshot yet"));
}

/* Ready after its stop was taken back, it is like any other: when it is dropped, its moment is known to be gone. */
static void a_moment_whose_snapshot_was_late(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.agent = "ann"};
	struct life_snap s;
	struct id late;

	rig_run(r, "ann");
	(void)snapshot(r, "ann", 1);
	rig_clock(r, MINUTE);
	r->world.hold[SANDBOX_TAKE] = true;
	rig_stop(r, "ann");
	rig_settle(r);
	rig_resume(r, "ann");
	rig_settle(r);
	r->world.hold[SANDBOX_TAKE] = false;
	rig_settle(r);
	late = rig_row(r, "ann").snapshot;
	assert_int_equal(life_snap_load(r->life, &late, &s, NULL), 0);
	assert_int_equal(s.status, SNAP_READY);
	assert_string_equal(s.name, "fake");
	assert_string_equal(s.how, "fake");
	rig_clock(r, MINUTE);
	f.at_wall_ns = r->wall;
	(void)snapshot(r, "ann", 3);
	life_snapshot_drop(r->life, "ann", &late, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	fork_it(r, &f);
	assert_int_equal(r->rc, ERR_NOT_FOUND);
	assert_non_null(strstr(r->message, "no longer there"));
}

/* While a snapshot is taken it runs: who wants no more than that does not wait. */
static void a_resume_of_what_runs_does_not_wait_for_a_snapshot(void **state)
{
	struct life_options o = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = 2 * HOUR};
	struct rig *r = *state;

	rig_run(r, "ann");
	r->world.hold[SANDBOX_TAKE] = true;
	life_snapshot(r->life, "ann", 0, rig_answer, r);
	rig_settle(r);
	r->answers = 0;
	rig_resume(r, "ann");
	rig_settle(r);
	assert_int_equal(r->answers, 1);
	assert_int_equal(r->rc, 0);
	life_resume(r->life, "ann", &o, 0, rig_answer, r); /* this one changes the row, which the snapshot does, too */
	rig_settle(r);
	assert_int_equal(r->answers, 1);
	r->world.hold[SANDBOX_TAKE] = false;
	rig_settle(r);
	assert_int_equal(r->answers, 3);
	assert_int_equal(r->rc, 0);
}

static void a_fork_ends_when_its_time_is_over(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.as = "look", .options = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = 10 * MINUTE}};

	free(r->conf->life_ttl_action);
	r->conf->life_ttl_action = strdup("delete");
	life_set_conf(r->life, r->conf);
	rig_run(r, "ann");
	f.snapshot = snapshot(r, "ann", 1);
	fork_it(r, &f);
	assert_int_equal(r->rc, 0);
	rig_pass(r, 11 * MINUTE, MINUTE);
	assert_int_equal(rig_row(r, "look").generation, 0);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
	assert_state(r, "ann", LIFE_RUNNING);
}

static void the_oldest_go_first_and_the_current_never(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.agent = "ann"};
	struct id first = {0}, last = {0}, now;
	int64_t then = 0;
	json_t *list = NULL;

	r->conf->life_keep_snapshots = 3;
	life_set_conf(r->life, r->conf);
	rig_run(r, "ann");
	for (int i = 1; i <= 6; i++) {
		last = snapshot(r, "ann", i);
		if (i == 1)
			first = last, then = r->wall;
	}
	assert_int_equal(world_snaps(&r->world, "ann"), 3);
	assert_int_equal(rig_audited(r, "snapshot.drop", "ok"), 3);
	assert_int_equal(life_snapshots(r->life, "ann", &list, NULL), 0);
	assert_int_equal(json_array_size(json_object_get(list, "snapshots")), 3);
	assert_true(json_is_true(json_object_get(json_array_get(json_object_get(list, "snapshots"), 0), "current")));
	json_decref(list);
	f.at_wall_ns = then; /* a session of that time: its snapshot is gone, and why is known */
	fork_it(r, &f);
	assert_int_equal(r->rc, ERR_NOT_FOUND);
	assert_non_null(strstr(r->message, "keep_snapshots"));
	f.snapshot = first;
	fork_it(r, &f);
	assert_int_equal(r->rc, ERR_NOT_FOUND);
	r->conf->life_keep_snapshots = 10;
	r->conf->life_keep_age_ns = HOUR;
	r->conf->life_idle_ttl_ns = 0;
	life_set_conf(r->life, r->conf);
	rig_clock(r, 3 * HOUR);
	last = snapshot(r, "ann", 7);
	assert_int_equal(world_snaps(&r->world, "ann"), 1); /* age */
	now = rig_row(r, "ann").snapshot;
	assert_true(id_equal(&now, &last));
}

static void what_a_fork_still_needs_stays(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.as = "look"};

	r->conf->life_keep_snapshots = 1;
	life_set_conf(r->life, r->conf);
	rig_run(r, "ann");
	f.snapshot = snapshot(r, "ann", 1);
	r->world.fail[SANDBOX_RESTORE] = ERR_SNAPSHOT;
	fork_it(r, &f);
	assert_int_equal(r->rc, ERR_SNAPSHOT);
	assert_state(r, "look", LIFE_ERROR);
	(void)snapshot(r, "ann", 2);
	assert_int_equal(world_snaps(&r->world, "ann"), 2);
	life_terminate(r->life, "ann", "gone", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(world_snaps(&r->world, "ann"), 1);
	assert_int_equal(rig_audited(r, "snapshot.drop", "kept"), 1);
	rig_run(r, "look");
	assert_int_equal(current_content(r, "look"), 1);
}

/* It is never copied: what it is made of is all there is of it. */
static void what_a_read_only_fork_is_made_of_stays_while_it_is_there(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.as = "look"};

	r->conf->life_keep_snapshots = 1;
	life_set_conf(r->life, r->conf);
	rig_run(r, "ann");
	f.snapshot = snapshot(r, "ann", 1);
	fork_it(r, &f);
	assert_int_equal(r->rc, 0);
	(void)snapshot(r, "ann", 2);
	life_snapshot_drop(r->life, "ann", &f.snapshot, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_BAD_STATE);
	life_terminate(r->life, "ann", "gone", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	rig_stop(r, "look");
	rig_settle(r);
	assert_false(world_agent(&r->world, "look")->disk);
	rig_run(r, "look");
	assert_int_equal(current_content(r, "look"), 1);
	assert_int_equal(world_snaps(&r->world, "look"), 0);
}

/* As an earlier muxd may have left it. */
static void a_read_only_fork_whose_snapshot_is_gone_is_copied(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.as = "look"};
	struct life_snap s;

	rig_run(r, "ann");
	f.snapshot = snapshot(r, "ann", 1);
	fork_it(r, &f);
	assert_int_equal(life_snap_load(r->life, &f.snapshot, &s, NULL), 0);
	s.status = SNAP_DROPPED;
	life_put_snap(r->life, &s);
	world_snap(&r->world, &f.snapshot)->there = false;
	rig_run(r, "bob"); /* written after it: then that is written, too */
	rig_stop(r, "look");
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	rig_run(r, "look");
	assert_int_equal(current_content(r, "look"), 1);
}

/* The stop ahead of a restore takes one more: retention must not take what is gone back to. */
static void what_a_restore_goes_back_to_stays(void **state)
{
	struct rig *r = *state;
	struct id first, now;

	r->conf->life_keep_snapshots = 3;
	life_set_conf(r->life, r->conf);
	rig_run(r, "ann");
	first = snapshot(r, "ann", 1);
	(void)snapshot(r, "ann", 2);
	(void)snapshot(r, "ann", 3);
	r->world.fail[SANDBOX_RESTORE] = ERR_SNAPSHOT;
	life_restore(r->life, "ann", &first, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, ERR_SNAPSHOT);
	assert_true(world_snap(&r->world, &first)->there); /* to be tried again */
	life_restore(r->life, "ann", &first, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	now = rig_row(r, "ann").snapshot;
	assert_true(id_equal(&now, &first));
	assert_true(world_snap(&r->world, &first)->there);
	rig_run(r, "ann");
	assert_int_equal(current_content(r, "ann"), 1);
}

/* Asked for, and then its time comes when it is needed again: by a restore, by a fork. */
static void a_drop_that_is_late_does_no_harm(void **state)
{
	struct rig *r = *state;
	struct life_fork f = {.as = "look", .options = {UINT64_MAX, UINT64_MAX}};
	struct id second;

	rig_run(r, "ann");
	f.snapshot = snapshot(r, "ann", 1);
	second = snapshot(r, "ann", 2);
	(void)snapshot(r, "ann", 3);
	r->world.hold[SANDBOX_TAKE] = r->world.hold[SANDBOX_RESTORE] = true;
	life_snapshot(r->life, "ann", 0, rig_answer, r); /* until it is taken, whatever comes waits */
	rig_settle(r);
	life_snapshot_drop(r->life, "ann", &f.snapshot, rig_answer, r);
	life_fork(r->life, &f, 0, rig_answer, r);
	life_snapshot_drop(r->life, "ann", &second, rig_answer, r);
	life_restore(r->life, "ann", &second, 0, rig_answer, r);
	rig_settle(r);
	r->world.hold[SANDBOX_TAKE] = r->world.hold[SANDBOX_RESTORE] = false;
	r->answers = 0;
	rig_settle(r);
	assert_int_equal(r->answers, 5);
	assert_int_equal(r->rc, 0);
	assert_true(world_snap(&r->world, &f.snapshot)->there);
	assert_true(world_snap(&r->world, &second)->there);
	assert_int_equal(current_content(r, "look"), 1);
	rig_run(r, "ann");
	assert_int_equal(current_content(r, "ann"), 2);
}

/* Who waited for another one is not told of this one. */
static void who_waits_for_a_drop_hears_of_his_own(void **state)
{
	struct rig *r = *state;
	struct id first, second;

	rig_run(r, "ann");
	first = snapshot(r, "ann", 1);
	second = snapshot(r, "ann", 2);
	(void)snapshot(r, "ann", 3);
	r->world.hold[SANDBOX_DROP] = true;
	life_snapshot_drop(r->life, "ann", &first, rig_answer, r);
	rig_settle(r);
	r->answers = 0;
	rig_pass(r, HOUR / 2, HOUR / 2); /* he does not wait any longer */
	assert_int_equal(r->answers, 1);
	assert_int_equal(r->rc, ERR_SANDBOX_TIMEOUT);
	life_snapshot_drop(r->life, "ann", &second, rig_answer, r);
	rig_step(r);
	r->world.hold[SANDBOX_DROP] = false;
	while (r->answers == 1)
		rig_step(r);
	assert_int_equal(r->rc, 0);
	assert_false(world_snap(&r->world, &second)->there);
}

/* As after control.db was lost. */
static void a_wipe_takes_snapshots_that_no_row_knows_of(void **state)
{
	struct rig *r = *state;
	struct world_snap *stray = &r->world.snaps[WORLD_SNAPS - 1];

	rig_run(r, "ann");
	(void)snapshot(r, "ann", 1);
	*stray = (struct world_snap){.id = life_fresh_id(), .agent = "ann", .there = true};
	life_terminate(r->life, "ann", "gone", LIFE_END_WIPE, 0, rig_answer, r);
	rig_settle(r);
	assert_int_equal(r->rc, 0);
	assert_int_equal(rig_row(r, "ann").generation, 0);
	assert_int_equal(world_snaps(&r->world, "ann"), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(back_to_a_snapshot_of_its_own),
	    T(a_restore_that_takes_longer_than_its_caller_waits),
	    T(a_moment_whose_snapshot_was_late),
	    T(a_resume_of_what_runs_does_not_wait_for_a_snapshot),
	    T(what_is_in_no_snapshot_is_copied_before_a_restore),
	    T(what_cannot_be_copied_is_not_restored_over),
	    T(what_a_stop_has_copied_is_not_copied_again),
	    T(a_restore_that_fails_changes_nothing),
	    T(a_restore_that_dies_and_then_fails_changes_nothing),
	    T(a_restore_that_may_have_been_done_is_looked_at_again),
	    T(a_snapshot_that_cannot_be_taken_first_stops_a_restore),
	    T(what_is_not_there_or_of_another_is_refused),
	    T(who_comes_later_gets_one_of_its_own),
	    T(a_fork_is_an_agent_of_its_own),
	    T(nobody_makes_a_fork_by_its_name),
	    T(a_moment_finds_the_snapshot_before_it),
	    T(a_fork_ends_when_its_time_is_over),
	    T(the_oldest_go_first_and_the_current_never),
	    T(what_a_fork_still_needs_stays),
	    T(what_a_read_only_fork_is_made_of_stays_while_it_is_there),
	    T(a_read_only_fork_whose_snapshot_is_gone_is_copied),
	    T(what_a_restore_goes_back_to_stays),
	    T(a_drop_that_is_late_does_no_harm),
	    T(who_waits_for_a_drop_hears_of_his_own),
	    T(a_wipe_takes_snapshots_that_no_row_knows_of),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
