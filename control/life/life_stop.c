/*
 * running -> idle_stopping -> stopped: look, quiesce, push, take (again, where something ended meanwhile), life_end.c.
 * A resume takes it back until the sessions are told to leave; a snapshot that came of it by then is kept.
 */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"

#include <stdlib.h>
#include <string.h>

#define LEAVE_NS   (60 * NS_PER_SEC)  /* from the snapshot to the sandbox's end */
#define AGAIN_NS   (300 * NS_PER_SEC) /* from an end whose time had come, and that failed, to the next */
#define LATE_NS    (10 * NS_PER_SEC)  /* a copy that takes longer holds up no work: its driver may be down */
#define STEP_COPY  "snapshot"
#define STEP_LEAVE "leave" /* its end was begun, the workspace is whole */

static void quiesce(struct life_agent *a);

static void nobody(struct life_agent *a, int rc, const struct err *e)
{
	(void)a, (void)rc, (void)e;
}

/* What a failed take may have left; nobody waits for the answer. */
static void discard(struct life_agent *a, const struct id *id)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c = p->ops->snapshot_drop ? life_call(a, nobody) : NULL;

	if (!c)
		return;
	c->run = 0;
	p->ops->snapshot_drop(p, a->name, id, life_on_snapshots, c);
}

/* Whoever looks for the workspace behind a session must not find them. Where no copy came after, the last is current.
 */
/* ---- taken back: it runs on */

static void on_back(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;
	struct err why = {0};

	if (life_run_broke(a, rc, e))
		return;
	if (r->failed.code)
		life_answer_wants(a, WANTS(WANT_STOP) | WANTS(WANT_END) | WANTS(WANT_RESTORE), r->failed.code,
				  &r->failed);
	else if (!r->idle) {
		err_set(&why, ERR_CANCELLED, "the stop of %s was taken back: %s", a->name, a->row.cause);
		life_answer_wants(a, WANTS(WANT_STOP), why.code, &why);
	}
	life_drop_outdated(a);
	if (r->snap.status == SNAP_FAILED)
		life_keep(a);
	life_run_end(a);
}

static void back(struct life_agent *a, const char *cause, const char *detail)
{
	struct life_run *r = a->run;
	struct life_row next = a->row;
	int64_t now = life_now(a->life);

	life_thaw(a);
	if (r->taking) {
		a->taking++; /* its end is heard of by life_taken() */
		r->taking = false;
	} else if (r->snap.status == SNAP_TAKING) {
		r->snap.status = SNAP_DROPPED;
		r->snap.ended_wall_ns = clock_wall_ns();
		text_format(r->snap.detail, sizeof(r->snap.detail), "not taken: %.200s", cause);
	}
	next.state = LIFE_RUNNING;
	next.step[0] = '\0';
	text_format(next.cause, sizeof(next.cause), "%.190s", cause);
	text_format(next.detail, sizeof(next.detail), "%.250s", detail);
	next.next = (struct id){0};
	next.active_ns = now;
	if (r->failed.code && next.expires_ns && next.expires_ns <= now)
		next.expires_ns = now + (int64_t)life_scaled(&a->life->policy, AGAIN_NS);
	if (r->snap.status == SNAP_READY)
		next.snapshot = r->snap.id;
	r->may_cancel = false;
	a->warned = false;
	life_commit(a, &next, r->snap.status == SNAP_TAKING || id_is_nil(&r->snap.id) ? NULL : &r->snap, on_back);
}

static void cancel(struct life_agent *a, const char *cause)
{
	if (a->run->cancel)
		return;
	a->run->cancel = true;
	text_put(a->run->cause, sizeof(a->run->cause), cause);
	if (!a->run->writing) {
		a->run->id = ++a->life->next_run; /* the question that is out finds nobody */
		back(a, cause, "");
	}
}

void life_stop_asked(struct life_agent *a, const struct life_waiter *w)
{
	const struct life_run *r = a->run;

	if (!r || r->kind != RUN_STOP || !r->may_cancel || r->left ||
	    (w->want != WANT_ENSURE && w->want != WANT_RESUME) || w->options.pod_template)
		return; /* another template is for a pod that is made anew */
	if (r->idle || !w->implied)
		cancel(a, "resumed while it was stopping");
	else if (r->taking && clock_boot_ns() - r->step_began >= LATE_NS)
		cancel(a, "work waited for it, and its snapshot was not made within 10 s");
}

/* Before each step that could not be taken back: did somebody come meanwhile? */
static bool turned_back(struct life_agent *a)
{
	if (a->run->cancel)
		back(a, a->run->cause, "");
	else if (a->run->idle && a->run->running && !life_is_idle(a))
		back(a, "there was activity while it was stopping", "");
	else
		return false;
	return true;
}

/* ---- the snapshot */

/* A snapshot that is to be made, beside the row that is to name it. */
static void new_copy(struct life_agent *a, struct life_row *next)
{
	struct life_run *r = a->run;

	r->snap = (struct life_snap){.id = life_fresh_id(),
				     .status = SNAP_TAKING,
				     .previous = a->row.snapshot,
				     .created_wall_ns = clock_wall_ns()};
	memcpy(r->snap.agent, a->name, sizeof(r->snap.agent));
	text_format(r->snap.cause, sizeof(r->snap.cause), "%.190s", next->cause);
	next->next = r->snap.id;
}

/* Whether it is in the copy is not known. What stood still, meanwhile, may be heard of later: it ended before. */
static bool ended_meanwhile(struct life_agent *a)
{
	struct life_host *h = &a->life->host;
	struct life_run *r = a->run;
	struct life_activity act = {0};

	if (r->snap.status != SNAP_READY || r->snap.quiesced == SNAP_FROZEN || !h->activity)
		return false;
	h->activity(h->ctx, a->name, &act);
	return act.exit_boot_ns > r->looked;
}

/* A whole copy comes after it, with what it lacks. Without memory for that it is retention's. */
static void outdate(struct life_run *r)
{
	struct id *list = realloc(r->list, (r->nlist + 1) * sizeof(*list));

	if (!list)
		return;
	r->list = list;
	r->list[r->nlist++] = r->snap.id;
}

static void on_again(struct life_agent *a, int rc, const struct err *e)
{
	if (!life_run_broke(a, rc, e) && !turned_back(a))
		quiesce(a);
}

/*
 * Who waited for what ended has its answer, and what it wrote last is not in the copy. This comes to an end: nothing
 * begins meanwhile, so that each time there is less that could end.
 */
static void again(struct life_agent *a)
{
	struct life_row next = a->row;

	log_info(&(struct log_ids){.agent = a->name}, "work ended while it was copied: it is copied again");
	outdate(a->run);
	new_copy(a, &next);
	snprintf(next.step, sizeof(next.step), STEP_COPY);
	life_commit(a, &next, &a->run->snap, on_again);
}

static void on_noted(struct life_agent *a, int rc, const struct err *e)
{
	if (life_run_broke(a, rc, e) || turned_back(a))
		return;
	if (ended_meanwhile(a))
		again(a);
	else
		life_leave(a);
}

static void note(struct life_agent *a)
{
	struct life_run *r = a->run;
	struct life_row next = a->row;

	if (turned_back(a))
		return;
	if (r->snap.status == SNAP_READY)
		next.snapshot = r->snap.id;
	next.next = (struct id){0};
	snprintf(next.step, sizeof(next.step), STEP_LEAVE);
	life_commit(a, &next, id_is_nil(&r->snap.id) ? NULL : &r->snap, on_noted);
}

/* The sandbox's end would be the end of the workspace: the sandbox runs on, and its state says so. */
static void stays(struct life_agent *a, int rc, const char *why)
{
	char detail[256];

	err_set(&a->run->failed, rc, "%s is not stopped, that would lose its workspace: %.250s", a->name, why);
	text_format(detail, sizeof(detail), "not stopped, that would lose its workspace: %.200s", why);
	back(a, "it cannot be stopped", detail);
}

static void no_snapshot(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;
	const char *why = e && e->message[0] ? e->message : err_name(rc);

	r->snap.status = rc == ERR_UNSUPPORTED ? SNAP_DROPPED : SNAP_FAILED;
	r->snap.ended_wall_ns = clock_wall_ns();
	text_format(r->snap.detail, sizeof(r->snap.detail), "%.250s", why);
	life_count_failure(a->life, rc);
	if (rc != ERR_UNSUPPORTED)
		discard(a, &r->snap.id);
	if (!r->has_workspace || r->strict) {
		stays(a, rc, why);
		return;
	}
	if (rc == ERR_UNSUPPORTED)
		text_format(a->row.detail, sizeof(a->row.detail), "no snapshot, the workspace stays as it is: %.180s",
			    why);
	else
		err_set(&r->failed, rc, "the snapshot failed, the workspace and the last good one are kept: %.250s",
			why);
	note(a);
}

static void on_taken(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;
	struct err why = {0};

	r->taking = false;
	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	life_frozen_until_now(a);
	if (!rc && !r->copy.ready)
		rc = err_set(&why, ERR_SNAPSHOT, "the snapshot is not ready: %.300s", r->copy.detail), e = &why;
	if (rc) {
		no_snapshot(a, rc, e);
		return;
	}
	life_time(a->life, TIME_SNAPSHOT, r->step_began);
	r->snap.status = SNAP_READY;
	r->snap.size = r->copy.size;
	r->snap.ended_wall_ns = clock_wall_ns();
	memcpy(r->snap.name, r->copy.name, sizeof(r->snap.name));
	memcpy(r->snap.how, r->copy.how, sizeof(r->snap.how));
	memcpy(r->snap.digest, r->copy.digest, sizeof(r->snap.digest));
	r->snap.stored = r->copy.stored;
	r->snap.mtime_ns = r->copy.mtime_ns;
	note(a);
}

static void take(struct life_agent *a)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_run *r = a->run;
	struct life_call *c;
	struct err e = {0};

	if (turned_back(a))
		return;
	if (r->no_copy) {
		note(a);
		return;
	}
	if (!p->ops->snapshot_take) {
		err_set(&e, ERR_UNSUPPORTED, "this backend has no snapshots");
		no_snapshot(a, e.code, &e);
		return;
	}
	r->step_began = clock_boot_ns();
	c = life_call(a, on_taken);
	if (!c)
		return;
	c->take = true;
	c->snapshot = r->snap.id;
	r->taking = true;
	p->ops->snapshot_take(p, a->name, &r->snap.id, a->life->policy.snapshot_timeout_ns, life_on_snapshots, c);
}

static void on_quiesced(struct life_agent *a, int rc, const struct err *e)
{
	struct err why = {0};

	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	if (rc < 0)
		log_info(&(struct log_ids){.agent = a->name}, "not quiesced, the snapshot is as after a power cut: %s",
			 e && e->message[0] ? e->message : err_name(rc));
	life_quiesced(a, rc);
	if (life_step_run(a, STEP_PUSH, &why)) {
		err_set(&a->run->failed, why.code ? why.code : ERR_INTERNAL, "the filespace was not pushed: %.300s",
			why.message);
		life_count_failure(a->life, a->run->failed.code);
	}
	take(a);
}

static void quiesce(struct life_agent *a)
{
	struct life_run *r = a->run;

	r->looked = clock_boot_ns();
	if (!r->running || r->no_copy || !life_quiesce(a, a->life->policy.snapshot_timeout_ns + LEAVE_NS, on_quiesced))
		on_quiesced(a, r->running ? ERR_UNSUPPORTED : 0, NULL);
}

static void on_looked(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	if (rc && rc != ERR_NOT_FOUND) {
		err_set(&r->failed, rc, "%.300s", e && e->message[0] ? e->message : err_name(rc));
		back(a, "its backend cannot be asked", r->failed.message);
		return;
	}
	r->running = !rc && r->info.state == SANDBOX_RUNNING;
	r->has_workspace = !rc && r->info.has_workspace;
	if (!r->running && !r->has_workspace) {
		err_set(&r->failed, ERR_NOT_FOUND, "its sandbox and its workspace were gone when it was to be stopped");
		r->snap.status = SNAP_DROPPED;
		note(a);
		return;
	}
	if (turned_back(a))
		return;
	if (r->running)
		life_hold(a);
	quiesce(a);
}

static void look(struct life_agent *a)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c = life_call(a, on_looked);

	if (c)
		p->ops->stat(p, a->name, life_on_sandbox, c);
}

static void on_stopping(struct life_agent *a, int rc, const struct err *e)
{
	if (life_run_broke(a, rc, e))
		return;
	a->run->running = true;
	if (!turned_back(a))
		look(a);
}

/* What is read-only is still the snapshot that it was made from, where that is there to go back to. */
static bool nothing_to_take(struct life_agent *a)
{
	struct life_snap s;

	return a->row.read_only && life_snap_load(a->life, &a->row.snapshot, &s, NULL) == 0 && s.status == SNAP_READY;
}

void life_stop_run(struct life_agent *a, const char *cause, bool idle, bool may_cancel, bool strict)
{
	struct life_row next = a->row;
	struct life_run *r = life_run_begin(a, RUN_STOP, cause);

	if (!r)
		return;
	r->idle = idle;
	r->may_cancel = may_cancel;
	r->strict = strict;
	r->no_copy = nothing_to_take(a);
	next.state = LIFE_IDLE_STOPPING;
	snprintf(next.step, sizeof(next.step), STEP_COPY);
	text_format(next.cause, sizeof(next.cause), "%.190s", cause);
	next.detail[0] = '\0';
	if (!r->no_copy)
		new_copy(a, &next);
	life_commit(a, &next, r->no_copy ? NULL : &r->snap, on_stopping);
}

/* ---- found in idle_stopping after a crash */

static void on_found(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;
	bool leaving = strcmp(a->row.step, STEP_LEAVE) == 0;

	if (rc && rc != ERR_NOT_FOUND) {
		life_run_break(a, rc, e);
		return;
	}
	r->running = !rc && r->info.state == SANDBOX_RUNNING && !(leaving && r->info.ending);
	r->has_workspace = !rc && r->info.has_workspace;
	/*
	 * What its end may have left is taken away once more. The workspace stays: programs went on while nobody
	 * looked, and what they wrote is in no snapshot. Only one whose removal was begun goes, after its end was heard
	 * of.
	 */
	if (life_end_drops(a) || (!r->running && leaving)) {
		life_end_again(a);
		return;
	}
	r->frozen = r->running; /* by the daemon that began it */
	life_thaw(a);
	if (!r->running)
		life_want_nobody(a, WANT_CHECK, NULL, "");
	else if (strcmp(r->cause, LIFE_CAUSE_IDLE) != 0 && strcmp(r->cause, LIFE_CAUSE_TTL) != 0)
		life_want_nobody(a, WANT_STOP, NULL, r->cause);
	/* Programs may have gone on while nobody looked: what was taken before is not what is there now. */
	back(a,
	     r->running ? "found running after a restart of the daemon" : "found stopped after a restart of the daemon",
	     "");
}

void life_stop_again(struct life_agent *a)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c;

	if (!life_run_begin(a, RUN_STOP, a->row.cause))
		return;
	a->run->idle = true; /* nobody waits for it any more */
	c = life_call(a, on_found);
	if (c)
		p->ops->stat(p, a->name, life_on_sandbox, c);
}
