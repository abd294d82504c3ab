/* A snapshot of what runs, or rests: taken beside a stop, while its programs stand still for a moment. */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/text.h"
#include "control/life/life_state.h"

#include <stdlib.h>
#include <string.h>

#define HOLD_NS (30 * NS_PER_SEC) /* programs that go on afterwards stand still no longer than that */

enum snapshot_step { SNAPSHOT_BEGIN, SNAPSHOT_QUIESCE, SNAPSHOT_TAKE, SNAPSHOT_NOTE };

/* ---- who waits for it */

static json_t *snapshot_answer(const struct life_snap *s)
{
	return json_pack("{s:o}", "snapshot", life_describe_snap(s));
}

/* Callers who wanted a snapshot before this one began share it; a later caller has written later, and gets the next. */
static void mark_sharers(struct life_agent *a, const struct id *again)
{
	static const struct id nil;
	struct life_waiter *w;

	TAILQ_FOREACH(w, &a->waiters, entry)
	if (w->want == WANT_SNAPSHOT)
		w->tried = id_equal(&w->snapshot, again ? again : &nil);
}

static struct life_waiter *sharer(struct life_agent *a)
{
	struct life_waiter *w;

	TAILQ_FOREACH(w, &a->waiters, entry)
	if (w->want == WANT_SNAPSHOT && w->tried)
		return w;
	return NULL;
}

static void answer_snapshot(struct life_agent *a, const struct life_snap *s, const struct err *failed)
{
	struct life_waiter *w;

	while ((w = sharer(a))) {
		json_t *o = failed->code ? NULL : snapshot_answer(s);

		TAILQ_REMOVE(&a->waiters, w, entry);
		if (w->done)
			w->done(w->arg, failed->code, failed->code ? failed : NULL, o);
		json_decref(o);
		free(w);
	}
}

/*
 * A restore had it taken first (life_restore_run()). Nothing is overwritten that could not be copied; what is not there
 * needs no copy.
 */
static void answer_restore(struct life_agent *a, const struct err *failed)
{
	struct life_waiter *w = life_first(a, WANTS(WANT_RESTORE));
	struct err e = {0};

	if (!w || !w->tried || !failed->code || failed->code == ERR_NOT_FOUND)
		return;
	err_set(&e, failed->code,
		"nothing was restored: the workspace of %s is in no snapshot, and one could not be taken: %.250s",
		a->name, failed->message);
	life_answer(a, w, e.code, &e);
}

/* ---- its steps */

static int ask_begin(struct life_agent *a, struct err *e)
{
	return life_commit(a, &a->run->next, &a->run->snap, e);
}

static int ask_quiesce(struct life_agent *a, struct err *e)
{
	return a->row.state == LIFE_RUNNING ? life_ask_quiesce(a, HOLD_NS, e) : 0;
}

static int life_snapshot_on_quiesced(struct life_agent *a, int rc, const struct err *e)
{
	(void)e;
	life_quiesced(a, rc);
	return SNAPSHOT_TAKE;
}

static int ask_take(struct life_agent *a, struct err *e)
{
	return life_ask(a, SANDBOX_TAKE, NULL, e);
}

static int life_snapshot_on_taken(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	life_frozen_until_now(a);
	life_thaw(a);
	r->snap.ended_wall_ns = clock_wall_ns();
	if (!rc && r->copy.ready) {
		life_time(a->life, TIME_SNAPSHOT, r->step_began);
		life_snap_whole(&r->snap, &r->copy);
		return SNAPSHOT_NOTE;
	}
	err_set(&r->failed, rc ? rc : ERR_SNAPSHOT, "%.390s",
		rc ? e && e->message[0] ? e->message : err_name(rc) : r->copy.detail);
	r->snap.status = SNAP_FAILED;
	text_format(r->snap.detail, sizeof(r->snap.detail), "%.250s", r->failed.message);
	life_count_failure(a->life, r->failed.code);
	return SNAPSHOT_NOTE;
}

/* Ids order by time: one from before a crash does not take the place of a newer one. */
static void row_names(struct life_row *next, const struct life_snap *s)
{
	if (s->status == SNAP_READY && !s->orphan && memcmp(&s->id, &next->snapshot, sizeof(s->id)) > 0)
		next->snapshot = s->id;
}

static int ask_note(struct life_agent *a, struct err *e)
{
	struct life_row next = a->row;

	next.next = (struct id){0};
	row_names(&next, &a->run->snap);
	return life_commit(a, &next, &a->run->snap, e);
}

static int life_snapshot_on_noted(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	(void)rc, (void)e;
	answer_snapshot(a, &r->snap, &r->failed);
	answer_restore(a, &r->failed);
	if (r->snap.status == SNAP_READY)
		life_keep(a);
	return life_run_end(a);
}

/* While a snapshot is taken of what runs, it runs: for who needs no more than that. */
static bool snapshot_beside(const struct life_agent *a, const struct life_waiter *w)
{
	return a->row.state == LIFE_RUNNING &&
	       (w->want == WANT_CONNECT || w->want == WANT_ENSURE ||
		(w->want == WANT_RESUME && !life_options_set(&w->options) && !w->options.pod_template));
}

static const struct run_step steps[] = {
    [SNAPSHOT_BEGIN] = {"begin", ask_begin, .then = SNAPSHOT_QUIESCE, .writes = WRITES_ROW},
    [SNAPSHOT_QUIESCE] = {"quiesce", ask_quiesce, life_snapshot_on_quiesced},
    [SNAPSHOT_TAKE] = {"take", ask_take, life_snapshot_on_taken},
    [SNAPSHOT_NOTE] = {"note", ask_note, life_snapshot_on_noted, .writes = WRITES_ROW},
};
const struct run_kind life_snapshot_kind = {"snapshot", steps, NULL, NULL, NULL, snapshot_beside};

/* The take of one that a crash interrupted is asked for once more, and answered when it is ready. */
static void take_again(struct life_agent *a, const struct id *again)
{
	struct life_run *r = a->run;

	if (life_snap_load(a->life, again, &r->snap, &r->failed)) {
		answer_snapshot(a, &r->snap, &r->failed);
		(void)life_run_end(a);
		return;
	}
	r->frozen = a->row.state == LIFE_RUNNING; /* maybe, by the daemon that began it */
	life_run_go(a, SNAPSHOT_TAKE);
}

void life_snapshot_run(struct life_agent *a, const struct id *again, const char *cause)
{
	struct err e = {0};
	struct life_run *r;

	if (!sandbox_can(a->life->inner, SANDBOX_TAKE)) {
		err_set(&e, ERR_UNSUPPORTED, "this backend has no snapshots");
		life_answer_wants(a, WANTS(WANT_SNAPSHOT), e.code, &e);
		life_due(a);
		return;
	}
	r = life_run_begin(a, &life_snapshot_kind, cause);
	if (!r)
		return;
	mark_sharers(a, again);
	if (again) {
		take_again(a, again);
		return;
	}
	life_snap_new(a, &r->next, cause);
	life_run_go(a, SNAPSHOT_BEGIN);
}

/* ---- one that became ready when its run was over */

static const struct run_step late_steps[] = {{"note", ask_begin, life_run_over, .writes = WRITES_ROW}};
static const struct run_kind late_kind = {"late snapshot", late_steps, NULL, NULL, NULL, NULL};

static void late(struct life_run *r, const struct life_waiter *w)
{
	if (w && w->tried)
		life_snap_whole(&r->snap, &w->copy);
	else
		r->snap.status = SNAP_FAILED;
	r->snap.ended_wall_ns = clock_wall_ns();
	if (w)
		text_format(r->snap.detail, sizeof(r->snap.detail), "%.150s", w->reason);
	row_names(&r->next, &r->snap);
}

void life_taken(struct life_agent *a, const struct id *snapshot)
{
	struct life_waiter *w = life_first(a, WANTS(WANT_TAKEN));
	struct life_run *r = life_run_begin(a, &late_kind, "a snapshot became ready");
	bool open;

	if (!r)
		return;
	open = !life_snap_load(a->life, snapshot, &r->snap, NULL) && r->snap.status == SNAP_TAKING;
	if (open)
		late(r, w);
	if (w)
		life_answer(a, w, 0, NULL);
	if (open && a->row.generation && !r->snap.orphan) {
		life_run_go(a, 0);
		return;
	}
	if (open)
		life_put_snap(a->life, &r->snap);
	(void)life_run_end(a);
}
