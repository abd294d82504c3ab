/*
 * The end of a sandbox, with a snapshot (running -> idle_stopping -> stopped) or as it is (running, error -> stopping
 * -> stopped): one table of steps, which the two begin at different places. A stop that may be taken back is taken back
 * until its sessions are told to leave; a snapshot that came of it by then is kept.
 */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"

#include <stdlib.h>
#include <string.h>

#define LEAVE_NS  (60 * NS_PER_SEC)  /* from the snapshot to the sandbox's end */
#define AGAIN_NS  (300 * NS_PER_SEC) /* from an end whose time had come, and that failed, to the next */
#define LATE_NS   (10 * NS_PER_SEC)  /* a copy that takes longer holds up no work: its driver may be down */
#define ROW_COPY  "snapshot"
#define ROW_LEAVE "leave" /* its end was begun, the workspace is whole */
#define ROW_DROP  "drop"  /* it has ended, the workspace goes: what is left of it does not count */

enum stop_step {
	STOP_BEGIN,
	STOP_LOOK,
	STOP_SETTLE,
	STOP_PUSH,
	STOP_QUIESCE,
	STOP_TAKE,
	STOP_NOTE,
	STOP_AGAIN,
	STOP_LEAVE,
	STOP_END,
	STOP_DROPPING,
	STOP_DROP,
	STOP_OVER,
	STOP_BACK,
	STOP_FOUND_LOOK,
	END_BEGIN,
	END_LOOK,
};

/* What is read-only is still the snapshot that it was made from: nothing is taken of it. */
static bool stop_copies(const struct life_run *r)
{
	return !id_is_nil(&r->snap.id);
}

static bool stop_row_is(const struct life_agent *a, const char *step)
{
	return strcmp(a->row.step, step) == 0;
}

/* ---- the row says that it stops */

static int ask_begin(struct life_agent *a, struct err *e)
{
	return life_commit(a, &a->run->next, stop_copies(a->run) ? &a->run->snap : NULL, e);
}

static int life_stop_on_begun(struct life_agent *a, int rc, const struct err *e)
{
	(void)rc, (void)e;
	a->run->runs = true;
	return STOP_LOOK;
}

/* ---- is it there? */

static int ask_look(struct life_agent *a, struct err *e)
{
	return life_ask(a, SANDBOX_STAT, NULL, e);
}

static int stop_back(struct life_agent *a, const char *cause, const char *detail)
{
	text_put(a->run->cause, sizeof(a->run->cause), cause);
	text_put(a->run->detail, sizeof(a->run->detail), detail);
	return STOP_BACK;
}

static int life_stop_on_looked(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	if (rc && rc != ERR_NOT_FOUND) {
		err_again(&r->failed, rc, e, NULL);
		return stop_back(a, "its backend cannot be asked", r->failed.message);
	}
	r->runs = !rc && r->info.state == SANDBOX_RUNNING;
	r->has_workspace = !rc && r->info.has_workspace;
	if (r->runs || r->has_workspace)
		return STOP_SETTLE;
	err_set(&r->failed, ERR_NOT_FOUND, "its sandbox and its workspace were gone when it was to be stopped");
	r->snap.status = SNAP_DROPPED;
	return STOP_NOTE;
}

/* ---- its services end in order, and nothing begins any more */

static int ask_settle(struct life_agent *a, struct err *e)
{
	struct life_run *r = a->run;

	if (!r->runs)
		return 0;
	if (!r->held)
		life_hold(a);
	return life_ask_settle(a, e);
}

static int life_stop_on_settled(struct life_agent *a, int rc, const struct err *e)
{
	if (rc)
		log_info(&(struct log_ids){.agent = a->name}, "its services end with it: %s",
			 e && e->message[0] ? e->message : err_name(rc));
	return a->run->kind == &life_end_kind ? STOP_LEAVE : STOP_PUSH;
}

/* ---- the filespace goes out */

static int ask_push(struct life_agent *a, struct err *e)
{
	return a->run->runs && !a->life->steps[STEP_PUSH].run ? life_ask_push(a, e) : life_step_run(a, STEP_PUSH, e);
}

static int life_stop_on_pushed(struct life_agent *a, int rc, const struct err *e)
{
	if (rc == ERR_UNSUPPORTED && a->run->runs && !a->life->steps[STEP_PUSH].run) {
		(void)life_step_run(a, STEP_PUSH, NULL); /* which says that nothing is configured */
	} else if (rc) {
		err_set(&a->run->failed, rc, "the filespace is not in step: %.300s",
			e && e->message[0] ? e->message : err_name(rc));
		life_count_failure(a->life, a->run->failed.code);
	}
	return STOP_QUIESCE;
}

/* ---- its programs stand still */

static int ask_quiesce(struct life_agent *a, struct err *e)
{
	struct life_run *r = a->run;

	r->looked = clock_boot_ns();
	if (!r->runs)
		return 0;
	return stop_copies(r) ? life_ask_quiesce(a, a->life->policy.snapshot_timeout_ns + LEAVE_NS, e)
			      : ERR_UNSUPPORTED;
}

static int life_stop_on_quiesced(struct life_agent *a, int rc, const struct err *e)
{
	if (rc < 0)
		log_info(&(struct log_ids){.agent = a->name}, "not quiesced, the snapshot is as after a power cut: %s",
			 e && e->message[0] ? e->message : err_name(rc));
	life_quiesced(a, rc);
	return stop_copies(a->run) ? STOP_TAKE : STOP_NOTE;
}

/* ---- the snapshot */

/* The sandbox's end would be the end of the workspace: the sandbox runs on, and its state says so. */
static int stays(struct life_agent *a, int rc, const char *why)
{
	char detail[256];

	err_set(&a->run->failed, rc, "%s is not stopped, that would lose its workspace: %.250s", a->name, why);
	text_format(detail, sizeof(detail), "not stopped, that would lose its workspace: %.200s", why);
	return stop_back(a, "it cannot be stopped", detail);
}

static int no_snapshot(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;
	const char *why = e && e->message[0] ? e->message : err_name(rc);

	r->snap.status = rc == ERR_UNSUPPORTED ? SNAP_DROPPED : SNAP_FAILED;
	r->snap.ended_wall_ns = clock_wall_ns();
	text_format(r->snap.detail, sizeof(r->snap.detail), "%.250s", why);
	life_count_failure(a->life, rc);
	if (rc != ERR_UNSUPPORTED)
		life_discard(a, &r->snap.id); /* a failed take may have left something */
	if (!r->has_workspace || r->stop_for == STOP_FOR_RESTORE)
		return stays(a, rc, why);
	if (rc == ERR_UNSUPPORTED)
		text_format(a->row.detail, sizeof(a->row.detail), "no snapshot, the workspace stays as it is: %.180s",
			    why);
	else
		err_set(&r->failed, rc, "the snapshot failed, the workspace and the last good one are kept: %.250s",
			why);
	return STOP_NOTE;
}

static int ask_take(struct life_agent *a, struct err *e)
{
	if (!sandbox_can(a->life->inner, SANDBOX_TAKE))
		return err_set(e, ERR_UNSUPPORTED, "this backend has no snapshots");
	return life_ask(a, SANDBOX_TAKE, NULL, e);
}

static int life_stop_on_taken(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;
	struct err why = {0};

	life_frozen_until_now(a);
	if (!rc && !r->copy.ready)
		rc = err_set(&why, ERR_SNAPSHOT, "the snapshot is not ready: %.300s", r->copy.detail), e = &why;
	if (rc)
		return no_snapshot(a, rc, e);
	life_time(a->life, TIME_SNAPSHOT, r->step_began);
	life_snap_whole(&r->snap, &r->copy);
	r->snap.ended_wall_ns = clock_wall_ns();
	return STOP_NOTE;
}

/* ---- the row names it: from here on the end has begun */

static int ask_note(struct life_agent *a, struct err *e)
{
	struct life_run *r = a->run;
	struct life_row next = a->row;

	if (r->snap.status == SNAP_READY)
		next.snapshot = r->snap.id;
	next.next = (struct id){0};
	snprintf(next.step, sizeof(next.step), ROW_LEAVE);
	return life_commit(a, &next, stop_copies(r) ? &r->snap : NULL, e);
}

/*
 * Whether what ended is in the copy is not known. What stood still, meanwhile, may be heard of later: it ended before.
 */
static bool ended_meanwhile(struct life_agent *a)
{
	struct life_host *h = &a->life->host;
	struct life_run *r = a->run;
	struct life_activity act = {0};

	if (!stop_copies(r) || r->snap.status != SNAP_READY || r->snap.quiesced == SNAP_FROZEN || !h->activity)
		return false;
	h->activity(h->ctx, a->name, &act);
	return act.exit_boot_ns > r->looked;
}

static int life_stop_on_noted(struct life_agent *a, int rc, const struct err *e)
{
	(void)rc, (void)e;
	return ended_meanwhile(a) ? STOP_AGAIN : STOP_LEAVE;
}

/* A whole copy comes after it, with what it lacks. Without memory for that it is retention's. */
static void outdate(struct life_run *r)
{
	(void)list_append(&r->list, &r->nlist, &r->snap.id, sizeof(r->snap.id));
}

/*
 * Who waited for what ended has its answer, and what it wrote last is not in the copy: it is copied again. This comes
 * to an end: nothing begins meanwhile, so that each time there is less that could end.
 */
static int ask_again(struct life_agent *a, struct err *e)
{
	struct life_row next = a->row;

	log_info(&(struct log_ids){.agent = a->name}, "work ended while it was copied: it is copied again");
	outdate(a->run);
	life_snap_new(a, &next, next.cause);
	snprintf(next.step, sizeof(next.step), ROW_COPY);
	return life_commit(a, &next, &a->run->snap, e);
}

static void drop_outdated(struct life_agent *a)
{
	const struct life_run *r = a->run;

	for (size_t i = 0; i < r->nlist; i++)
		if (!id_equal(&r->list[i], &a->row.snapshot))
			life_want_nobody(a, WANT_DROP, &r->list[i], LIFE_CAUSE_OUTDATED);
}

/* ---- no way back: sessions, sandbox, and the workspace where that is to go */

static int ask_leave(struct life_agent *a, struct err *e)
{
	a->run->course = RUN_NO_WAY_BACK;
	return life_ask_leave(a, "stopped", e);
}

static int life_stop_ask_end(struct life_agent *a, struct err *e)
{
	return life_ask(a, SANDBOX_DESTROY, a->row.cause, e);
}

/* The workspace goes where it is in the row's snapshot, and is not to be kept beside it. */
static bool may_drop(const struct life_agent *a)
{
	const struct life_run *r = a->run;
	bool copied =
	    stop_copies(r) ? r->snap.status == SNAP_READY : r->stop_for != STOP_FOUND && !id_is_nil(&a->row.snapshot);
	struct life_wish wish;

	life_wish(&a->life->policy, a->name, a->row.idle_ttl_ns, &wish);
	return r->kind == &life_stop_kind && copied && wish.at_rest_drop &&
	       sandbox_can(a->life->inner, SANDBOX_DROP_WORKSPACE);
}

static int life_stop_on_ended(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	if (rc && rc != ERR_NOT_FOUND) {
		err_set(&r->failed, rc, "it could not be ended: %.300s",
			e && e->message[0] ? e->message : err_name(rc));
		life_count_failure(a->life, rc);
	}
	if (r->failed.code)
		return STOP_OVER;
	if (stop_row_is(a, ROW_DROP))
		return STOP_DROP;
	return r->has_workspace && may_drop(a) ? STOP_DROPPING : STOP_OVER;
}

static int ask_dropping(struct life_agent *a, struct err *e)
{
	struct life_row next = a->row;

	snprintf(next.step, sizeof(next.step), ROW_DROP);
	return life_commit(a, &next, NULL, e);
}

/* A backend that has none to drop, any more, is done with it. */
static int ask_drop(struct life_agent *a, struct err *e)
{
	if (!sandbox_can(a->life->inner, SANDBOX_DROP_WORKSPACE))
		return 0;
	return life_ask(a, SANDBOX_DROP_WORKSPACE, NULL, e);
}

/* What may be left of it is half of it: the next start restores. */
static int life_stop_on_dropped(struct life_agent *a, int rc, const struct err *e)
{
	if (rc)
		text_format(a->row.detail, sizeof(a->row.detail), "its workspace could not be removed: %.200s",
			    e && e->message[0] ? e->message : err_name(rc));
	return STOP_OVER;
}

static int ask_over(struct life_agent *a, struct err *e)
{
	struct life_run *r = a->run;
	struct life_row next = a->row;

	next.state = r->failed.code ? LIFE_ERROR : LIFE_STOPPED;
	next.workspace = r->has_workspace && !stop_row_is(a, ROW_DROP);
	next.step[0] = '\0';
	next.sandbox = (struct id){0};
	if (r->failed.code)
		text_format(next.detail, sizeof(next.detail), "%.250s", r->failed.message);
	return life_commit(a, &next, NULL, e);
}

static int life_stop_on_over(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	(void)rc, (void)e;
	life_time(a->life, TIME_STOP, r->began);
	if (r->failed.code)
		life_answer_wants(a, WANTS(WANT_STOP) | WANTS(WANT_END) | WANTS(WANT_RESTORE), r->failed.code,
				  &r->failed);
	drop_outdated(a);
	life_keep(a);
	return life_run_end(a);
}

/* ---- taken back: it runs on */

static int ask_back(struct life_agent *a, struct err *e)
{
	struct life_run *r = a->run;
	struct life_row next = a->row;
	int64_t now = life_now(a->life);
	bool out = r->from == STOP_TAKE && r->snap.status == SNAP_TAKING && !r->unasked;

	life_thaw(a);
	r->course = RUN_TURNS_BACK;
	if (out) { /* its end is heard of by life_taken() */
		a->taking++;
	} else if (r->snap.status == SNAP_TAKING) {
		r->snap.status = SNAP_DROPPED;
		r->snap.ended_wall_ns = clock_wall_ns();
		text_format(r->snap.detail, sizeof(r->snap.detail), "not taken: %.200s", r->cause);
	}
	next.state = LIFE_RUNNING;
	next.step[0] = '\0';
	text_format(next.cause, sizeof(next.cause), "%.190s", r->cause);
	text_format(next.detail, sizeof(next.detail), "%.250s", r->detail);
	next.next = (struct id){0};
	next.active_ns = now;
	if (r->failed.code && next.expires_ns && next.expires_ns <= now)
		next.expires_ns = now + (int64_t)life_scaled(&a->life->policy, AGAIN_NS);
	if (r->snap.status == SNAP_READY)
		next.snapshot = r->snap.id;
	a->warned = false;
	return life_commit(a, &next, out || !stop_copies(r) ? NULL : &r->snap, e);
}

static int life_stop_on_back(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;
	struct err why = {0};

	(void)rc, (void)e;
	if (r->failed.code) {
		life_answer_wants(a, WANTS(WANT_STOP) | WANTS(WANT_END) | WANTS(WANT_RESTORE), r->failed.code,
				  &r->failed);
	} else if (r->stop_for != STOP_FOR_IDLE && r->stop_for != STOP_FOUND) {
		err_set(&why, ERR_CANCELLED, "the stop of %s was taken back: %s", a->name, a->row.cause);
		life_answer_wants(a, WANTS(WANT_STOP), why.code, &why);
	}
	drop_outdated(a);
	if (r->snap.status == SNAP_FAILED)
		life_keep(a);
	return life_run_end(a);
}

/* Before each step that could not be taken back: did somebody come meanwhile? */
static bool stop_turned(struct life_agent *a)
{
	struct life_run *r = a->run;

	if (r->course == RUN_TURNS_BACK)
		return true;
	if (r->stop_for != STOP_FOR_IDLE || !r->runs || life_is_idle(a))
		return false;
	(void)stop_back(a, "there was activity while it was stopping", "");
	return true;
}

static void stop_cancel(struct life_agent *a, const char *cause)
{
	(void)stop_back(a, cause, "");
	a->run->course = RUN_TURNS_BACK;
	if (life_run_writes(a->run))
		return;
	a->run->id = ++a->life->next_run; /* the question that is out finds nobody */
	life_run_go(a, STOP_BACK);
}

/*
 * Somebody wants the sandbox while it is being stopped: an idle stop is taken back for anybody, one that was asked for
 * is taken back for a resume, and for work once its snapshot is late. Another template, image, app or size is for what
 * is made anew.
 */
static void stop_heard(struct life_agent *a, const struct life_waiter *w)
{
	const struct life_run *r = a->run;

	if (r->course != RUN_GOES_ON || (r->stop_for != STOP_FOR_IDLE && r->stop_for != STOP_FOR_ASKER) ||
	    (w->want != WANT_ENSURE && w->want != WANT_RESUME) || w->options.pod_template ||
	    (w->options.sets_image && strcmp(w->options.image, a->row.image) != 0) ||
	    (w->options.sets_app && strcmp(w->options.app_id, a->row.app_id) != 0) ||
	    (w->options.sets_resources && !resources_equal(&w->options.resources, &a->row.resources)))
		return;
	if (r->stop_for == STOP_FOR_IDLE || !w->implied)
		stop_cancel(a, "resumed while it was stopping");
	else if (r->step == STOP_TAKE && clock_boot_ns() - r->step_began >= LATE_NS)
		stop_cancel(a, "work waited for it, and its snapshot was not made within 10 s");
	else if (r->step == STOP_SETTLE && clock_boot_ns() - r->step_began >= LATE_NS)
		stop_cancel(a, "work waited for it, and its services did not end within 10 s");
	else if (r->step == STOP_PUSH && clock_boot_ns() - r->step_began >= LATE_NS)
		stop_cancel(a, "work waited for it, and its files were not pushed within 10 s");
}

/* A stop asks what runs to stand still, for which a link may have to come first. */
static bool stop_beside(const struct life_agent *a, const struct life_waiter *w)
{
	return a->run->held && a->run->course != RUN_NO_WAY_BACK && w->want == WANT_CONNECT;
}

/* ---- found in idle_stopping after a crash */

static int life_stop_on_found(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;
	bool leaving = stop_row_is(a, ROW_LEAVE);

	if (rc && rc != ERR_NOT_FOUND)
		return life_run_break(a, rc, e);
	r->runs = !rc && r->info.state == SANDBOX_RUNNING && !(leaving && r->info.ending);
	r->has_workspace = !rc && r->info.has_workspace;
	/*
	 * What its end may have left is taken away once more. The workspace stays: programs went on while nobody
	 * looked, and what they wrote is in no snapshot. Only one whose removal was begun goes, after its end was heard
	 * of.
	 */
	if (stop_row_is(a, ROW_DROP) || (!r->runs && leaving))
		return STOP_END;
	r->frozen = r->runs; /* by the daemon that began it */
	life_thaw(a);
	if (!r->runs)
		life_want_nobody(a, WANT_CHECK, NULL, "");
	else if (strcmp(r->cause, LIFE_CAUSE_IDLE) != 0 && strcmp(r->cause, LIFE_CAUSE_TTL) != 0)
		life_want_nobody(a, WANT_STOP, NULL, r->cause);
	/* Programs may have gone on while nobody looked: what was taken before is not what is there now. */
	return stop_back(
	    a, r->runs ? "found running after a restart of the daemon" : "found stopped after a restart of the daemon",
	    "");
}

/* ---- as it is, without a snapshot */

static int life_stop_on_end_looked(struct life_agent *a, int rc, const struct err *e)
{
	if (rc && rc != ERR_NOT_FOUND)
		return life_run_break(a, rc, e);
	a->run->has_workspace = !rc && a->run->info.has_workspace;
	a->run->runs = !rc && a->run->info.state == SANDBOX_RUNNING;
	return STOP_SETTLE;
}

/* ---- the table, and where one begins in it */

static const struct run_step steps[] = {
    [STOP_BEGIN] = {"idle_stopping", ask_begin, life_stop_on_begun, .writes = WRITES_ROW},
    [STOP_LOOK] = {"look", ask_look, life_stop_on_looked, .undo = STOP_BACK},
    [STOP_SETTLE] = {"settle", ask_settle, life_stop_on_settled, .undo = STOP_BACK},
    [STOP_PUSH] = {"push", ask_push, life_stop_on_pushed, .undo = STOP_BACK},
    [STOP_QUIESCE] = {"quiesce", ask_quiesce, life_stop_on_quiesced, .undo = STOP_BACK},
    [STOP_TAKE] = {"take", ask_take, life_stop_on_taken, .undo = STOP_BACK},
    [STOP_NOTE] = {"note", ask_note, life_stop_on_noted, .undo = STOP_BACK, .writes = WRITES_ROW},
    [STOP_AGAIN] = {"again", ask_again, .then = STOP_QUIESCE, .undo = STOP_BACK, .writes = WRITES_ROW},
    [STOP_LEAVE] = {"leave", ask_leave, .then = STOP_END, .undo = STOP_BACK},
    [STOP_END] = {"end", life_stop_ask_end, life_stop_on_ended},
    [STOP_DROPPING] = {"dropping", ask_dropping, .then = STOP_DROP, .writes = WRITES_ROW},
    [STOP_DROP] = {"drop", ask_drop, life_stop_on_dropped},
    [STOP_OVER] = {"stopped", ask_over, life_stop_on_over, .writes = WRITES_ROW},
    [STOP_BACK] = {"running", ask_back, life_stop_on_back, .writes = WRITES_ROW},
    [STOP_FOUND_LOOK] = {"found", ask_look, life_stop_on_found},
    [END_BEGIN] = {"stopping", life_commit_next, .then = END_LOOK, .writes = WRITES_ROW},
    [END_LOOK] = {"look", ask_look, life_stop_on_end_looked},
};

/* What is read-only can be taken for its snapshot where that is there to go back to. */
static bool nothing_to_take(struct life_agent *a)
{
	struct life_snap s;

	return a->row.read_only && life_snap_load(a->life, &a->row.snapshot, &s, NULL) == 0 && s.status == SNAP_READY;
}

static void stopping(struct life_row *next, enum life_state state, const char *step, const char *cause)
{
	next->state = state;
	text_put(next->step, sizeof(next->step), step);
	text_format(next->cause, sizeof(next->cause), "%.190s", cause);
	next->detail[0] = '\0';
}

void life_stop_run(struct life_agent *a, const char *cause, enum stop_for why)
{
	struct life_run *r = life_run_begin(a, &life_stop_kind, cause);

	if (!r)
		return;
	r->stop_for = why;
	stopping(&r->next, LIFE_IDLE_STOPPING, ROW_COPY, cause);
	if (!nothing_to_take(a))
		life_snap_new(a, &r->next, r->next.cause);
	life_run_go(a, STOP_BEGIN);
}

static bool stop_again(struct life_agent *a)
{
	if (!life_run_begin(a, &life_stop_kind, a->row.cause))
		return true;
	a->run->stop_for = STOP_FOUND;
	life_run_go(a, STOP_FOUND_LOOK);
	return true;
}

void life_end_run(struct life_agent *a, const char *cause)
{
	if (!life_run_begin(a, &life_end_kind, cause))
		return;
	a->run->stop_for = STOP_FOR_END;
	stopping(&a->run->next, LIFE_STOPPING, "", cause);
	life_run_go(a, a->row.state == LIFE_STOPPING ? END_LOOK : END_BEGIN);
}

static bool end_again(struct life_agent *a)
{
	life_end_run(a, a->row.cause);
	return true;
}

const struct run_kind life_stop_kind = {"stop", steps, stop_again, stop_turned, stop_heard, stop_beside};
const struct run_kind life_end_kind = {"end", steps, end_again, stop_turned, NULL, NULL};
