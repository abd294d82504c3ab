/* What is done about snapshots beside a stop: taking one, dropping one, making one the workspace; and the end of all.
 */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>

#define HOLD_NS (30 * NS_PER_SEC) /* programs that go on afterwards stand still no longer than that */

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

/* ---- a snapshot of what runs, or rests */

static void is_whole(struct life_snap *s, const struct sandbox_snapshot *copy)
{
	s->status = SNAP_READY;
	s->size = copy->size;
	memcpy(s->name, copy->name, sizeof(s->name));
	memcpy(s->how, copy->how, sizeof(s->how));
	memcpy(s->digest, copy->digest, sizeof(s->digest));
	s->stored = copy->stored;
	s->mtime_ns = copy->mtime_ns;
}

static void on_copy_noted(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	if (life_run_broke(a, rc, e))
		return;
	answer_snapshot(a, &r->snap, &r->failed);
	answer_restore(a, &r->failed);
	if (r->snap.status == SNAP_READY)
		life_keep(a);
	life_run_end(a);
}

static void on_copied(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;
	struct life_row next = a->row;

	r->taking = false;
	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	life_frozen_until_now(a);
	life_thaw(a);
	next.next = (struct id){0};
	r->snap.ended_wall_ns = clock_wall_ns();
	if (!rc && r->copy.ready) {
		life_time(a->life, TIME_SNAPSHOT, r->step_began);
		is_whole(&r->snap, &r->copy);
		/* Ids order by time: one from before a crash does not take the place of a newer one. */
		if (memcmp(&r->snap.id, &a->row.snapshot, sizeof(r->snap.id)) > 0)
			next.snapshot = r->snap.id;
	} else {
		err_set(&r->failed, rc ? rc : ERR_SNAPSHOT, "%.390s",
			rc ? e && e->message[0] ? e->message : err_name(rc) : r->copy.detail);
		r->snap.status = SNAP_FAILED;
		text_format(r->snap.detail, sizeof(r->snap.detail), "%.250s", r->failed.message);
		life_count_failure(a->life, r->failed.code);
	}
	life_commit(a, &next, &r->snap, on_copy_noted);
}

static void copy(struct life_agent *a)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c;

	a->run->step_began = clock_boot_ns();
	c = life_call(a, on_copied);
	if (!c)
		return;
	c->take = true;
	c->snapshot = a->run->snap.id;
	a->run->taking = true;
	p->ops->snapshot_take(p, a->name, &a->run->snap.id, a->life->policy.snapshot_timeout_ns, life_on_snapshots, c);
}

static void on_copy_quiesced(struct life_agent *a, int rc, const struct err *e)
{
	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	life_quiesced(a, rc);
	copy(a);
}

static void quiesce(struct life_agent *a)
{
	if (a->row.state != LIFE_RUNNING || !life_quiesce(a, HOLD_NS, on_copy_quiesced))
		on_copy_quiesced(a, a->row.state == LIFE_RUNNING ? ERR_UNSUPPORTED : 0, NULL);
}

static void on_copy_begun(struct life_agent *a, int rc, const struct err *e)
{
	if (!life_run_broke(a, rc, e))
		quiesce(a);
}

/* again: one that a crash interrupted; its take is asked for once more, and answered when it is ready. */
void life_snapshot_run(struct life_agent *a, const struct id *again, const char *cause)
{
	struct life_row next = a->row;
	struct err e = {0};
	struct life_run *r;

	if (!a->life->inner->ops->snapshot_take) {
		err_set(&e, ERR_UNSUPPORTED, "this backend has no snapshots");
		life_answer_wants(a, WANTS(WANT_SNAPSHOT), e.code, &e);
		life_due(a);
		return;
	}
	r = life_run_begin(a, RUN_SNAPSHOT, cause);
	if (!r)
		return;
	mark_sharers(a, again);
	if (again && life_snap_load(a->life, again, &r->snap, &e)) {
		r->failed = e;
		answer_snapshot(a, &r->snap, &r->failed);
		life_run_end(a);
		return;
	}
	if (again) {
		r->frozen = a->row.state == LIFE_RUNNING; /* maybe, by the daemon that began it */
		copy(a);
		return;
	}
	r->snap = (struct life_snap){.id = life_fresh_id(),
				     .status = SNAP_TAKING,
				     .previous = a->row.snapshot,
				     .created_wall_ns = clock_wall_ns()};
	memcpy(r->snap.agent, a->name, sizeof(r->snap.agent));
	text_format(r->snap.cause, sizeof(r->snap.cause), "%.190s", cause);
	next.next = r->snap.id;
	life_commit(a, &next, &r->snap, on_copy_begun);
}

/* ---- one that became ready when its run was over */

static void on_taken_noted(struct life_agent *a, int rc, const struct err *e)
{
	if (!life_run_broke(a, rc, e))
		life_run_end(a);
}

void life_taken(struct life_agent *a, const struct id *snapshot)
{
	struct life_waiter *w = life_first(a, WANTS(WANT_TAKEN));
	struct life_run *r = life_run_begin(a, RUN_NOTE, "a snapshot became ready");
	struct life_row next = a->row;
	bool ready = w && w->tried;

	if (!r)
		return;
	if (life_snap_load(a->life, snapshot, &r->snap, NULL) || r->snap.status != SNAP_TAKING) {
		if (w)
			life_answer(a, w, 0, NULL);
		life_run_end(a);
		return;
	}
	if (ready)
		is_whole(&r->snap, &w->copy);
	else
		r->snap.status = SNAP_FAILED;
	r->snap.ended_wall_ns = clock_wall_ns();
	if (w)
		text_format(r->snap.detail, sizeof(r->snap.detail), "%.150s", w->reason);
	/* Ids order by time: an older one never takes the place of a newer one. */
	if (ready && a->row.generation && memcmp(snapshot, &a->row.snapshot, sizeof(*snapshot)) > 0)
		next.snapshot = *snapshot;
	if (w)
		life_answer(a, w, 0, NULL);
	if (!a->row.generation) {
		life_put_snap(a->life, &r->snap);
		life_run_end(a);
		return;
	}
	life_commit(a, &next, &r->snap, on_taken_noted);
}

/* ---- back to a snapshot of its own */

static void on_restore_over(struct life_agent *a, int rc, const struct err *e)
{
	struct life_waiter *w = life_first(a, WANTS(WANT_RESTORE));
	struct life_run *r = a->run;

	if (life_run_broke(a, rc, e))
		return;
	if (w && id_equal(&w->snapshot, &r->snap.id)) /* one of another snapshot gets a run of its own */
		life_answer(a, w, r->failed.code, r->failed.code ? &r->failed : NULL);
	life_run_end(a);
}

static void on_put_back(struct life_agent *a, int rc, const struct err *e)
{
	struct life_row next = a->row;
	char id[ID_STR_LEN];

	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	id_format(&a->row.snapshot, id);
	(void)life_audit(a->life, "snapshot.restore", a->name, rc ? err_name(rc) : "ok",
			 json_pack("{s:s,s:s*}", "id", id, "message", rc && e ? e->message : NULL));
	if (rc) { /* the workspace that was there is there still */
		err_set(&a->run->failed, rc, "%.390s", e && e->message[0] ? e->message : err_name(rc));
		life_count_failure(a->life, rc);
		next.workspace = a->run->before.workspace;
		next.snapshot = a->run->before.snapshot;
		text_format(next.detail, sizeof(next.detail), "the restore failed: %.220s", a->run->failed.message);
	} else {
		life_time(a->life, TIME_RESTORE, a->run->began);
		next.workspace = true;
	}
	next.step[0] = '\0';
	life_commit(a, &next, NULL, on_restore_over);
}

static void on_restore_begun(struct life_agent *a, int rc, const struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct err why = {0};
	struct life_call *c;

	if (life_run_broke(a, rc, e))
		return;
	if (life_template_tell(a, &why)) {
		on_put_back(a, why.code, &why);
		return;
	}
	c = life_call(a, on_put_back);
	if (c)
		p->ops->restore(p, a->name, a->run->snap.agent, &a->run->snap.id, a->row.read_only,
				a->life->policy.restore_timeout_ns, life_on_sandbox, c);
}

/*
 * The row names the snapshot first, with no workspace: whatever dies from here on, the next start restores it. What it
 * was before comes back only with the provider's word that nothing was changed.
 */
static void restore_it(struct life_agent *a, struct life_waiter *w)
{
	struct life_row next = a->row;
	struct life_run *r = life_run_begin(a, RUN_RESTORE, w->reason);
	struct err e = {0};
	int rc;

	if (!r)
		return;
	rc = life_snap_load(a->life, &w->snapshot, &r->snap, &e);
	if (!rc && r->snap.status != SNAP_READY) /* since it was asked for */
		rc = err_set(&e, ERR_BAD_STATE, "the snapshot is %s: ready would do", snap_status_name(r->snap.status));
	if (!rc && !a->life->inner->ops->restore)
		rc = err_set(&e, ERR_UNSUPPORTED, "this backend cannot restore snapshots");
	if (rc) {
		life_answer(a, w, rc, &e);
		life_run_end(a);
		return;
	}
	next.state = LIFE_STOPPED;
	next.snapshot = w->snapshot;
	next.workspace = false;
	next.detail[0] = '\0';
	snprintf(next.step, sizeof(next.step), LIFE_STEP_RESTORE);
	text_format(next.cause, sizeof(next.cause), "%.190s", w->reason);
	life_commit(a, &next, NULL, on_restore_begun);
}

void life_restore_run(struct life_agent *a, struct life_waiter *w)
{
	/* What was written since the last snapshot may be on the disk alone. */
	if (a->row.workspace && !a->row.read_only && !w->tried && a->life->inner->ops->snapshot_take) {
		w->tried = true;
		life_snapshot_run(a, NULL, w->reason);
	} else {
		restore_it(a, w);
	}
}

/* Found after a crash: what is half made in the backend does not wait for the next resume. */
bool life_restore_again(struct life_agent *a)
{
	struct life_run *r;
	struct err e = {0};
	int rc;

	if (!a->row.generation || strcmp(a->row.step, LIFE_STEP_RESTORE) != 0)
		return false;
	r = life_run_begin(a, RUN_RESTORE, a->row.cause);
	if (!r)
		return true;
	rc = life_snap_load(a->life, &a->row.snapshot, &r->snap, &e);
	if (!rc && !a->life->inner->ops->restore)
		rc = err_set(&e, ERR_UNSUPPORTED, "this backend cannot restore snapshots");
	if (rc)
		on_put_back(a, rc, &e);
	else
		on_restore_begun(a, 0, NULL);
	return true;
}

/* ---- one snapshot goes */

/* The caller who asked for the drop may have gone; other callers wait for other snapshots. */
static void drop_over(struct life_agent *a, int rc, const struct err *e)
{
	struct life_waiter *w;

	TAILQ_FOREACH(w, &a->waiters, entry)
	if (w->want == WANT_DROP && id_equal(&w->snapshot, &a->run->snap.id))
		break;
	life_answer(a, w, rc, e);
	life_run_end(a);
}

static void on_drop_noted(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	if (life_run_broke(a, rc, e))
		return;
	life_tell_drop(a, &r->snap.id, r->cause, r->failed.code ? &r->failed : NULL);
	drop_over(a, r->failed.code, &r->failed);
}

static void on_drop_done(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	if (rc && rc != ERR_NOT_FOUND) /* the reconciler tries again */
		err_set(&r->failed, rc, "%.390s", e && e->message[0] ? e->message : err_name(rc));
	else
		r->snap.status = SNAP_DROPPED;
	/* Of no moment was that the snapshot: as one that was not taken. */
	if (strcmp(r->cause, LIFE_CAUSE_OUTDATED) == 0)
		r->snap.name[0] = '\0';
	text_format(r->snap.detail, sizeof(r->snap.detail), "%s%.180s",
		    r->failed.code == ERR_DATA_KEPT ? LIFE_DETAIL_KEPT
		    : r->failed.code                ? "it could not be dropped: "
						    : "dropped: ",
		    r->failed.code ? r->failed.message : r->cause);
	r->snap.ended_wall_ns = clock_wall_ns();
	life_commit_snap(a, &r->snap, on_drop_noted);
}

static void on_stay_noted(struct life_agent *a, int rc, const struct err *e)
{
	if (!life_run_broke(a, rc, e))
		drop_over(a, a->run->failed.code, &a->run->failed);
}

/* As it was before: whoever asked hears why, and by retention it is looked at again. */
static void stay(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;
	char text[ID_STR_LEN];

	id_format(&r->snap.id, text);
	err_set(&r->failed, rc, "snapshot %s stays: %.300s", text,
		e && e->message[0] ? e->message : "whether a legal hold keeps it is not known now");
	r->snap.status = r->was;
	life_commit_snap(a, &r->snap, on_stay_noted);
}

static void on_referred(struct life_agent *a, int rc, const struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c;

	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	if (life_must_stay(a, rc)) {
		stay(a, rc, e);
		return;
	}
	a->run->refers = rc;
	c = life_call(a, on_drop_done);
	if (c)
		p->ops->snapshot_drop(p, a->name, &a->run->snap.id, life_on_snapshots, c);
}

static void on_dropping(struct life_agent *a, int rc, const struct err *e)
{
	if (rc == ERR_BAD_STATE)
		drop_over(a, rc, e);
	else if (!life_run_broke(a, rc, e))
		life_ask_refers(a, on_referred);
}

/* The snapshot may be needed again since the drop was asked for. */
static int may_go(struct life_agent *a, const struct id *snapshot, struct err *e)
{
	char text[ID_STR_LEN];

	id_format(snapshot, text);
	if (!a->life->inner->ops->snapshot_drop)
		return err_set(e, ERR_UNSUPPORTED, "this backend has no snapshots");
	if (a->row.generation && id_equal(snapshot, &a->row.snapshot))
		return err_set(e, ERR_BAD_STATE,
			       "snapshot %s is the current one of %s: take another first, or wipe the agent", text,
			       a->name);
	if (life_keep_restores(a, snapshot))
		return err_set(e, ERR_BAD_STATE, "%s is about to go back to snapshot %s", a->name, text);
	return 0;
}

void life_drop_run(struct life_agent *a, const struct id *snapshot, const char *cause)
{
	struct life_run *r = life_run_begin(a, RUN_DROP, cause);
	struct err e = {0};
	int rc;

	if (!r)
		return;
	rc = life_snap_load(a->life, snapshot, &r->snap, &e);
	r->was = r->snap.status;
	if (!rc && r->snap.status == SNAP_DROPPING) { /* begun by a run before */
		on_dropping(a, 0, NULL);
		return;
	}
	if (!rc && r->snap.status != SNAP_DROPPED)
		rc = may_go(a, snapshot, &e);
	if (rc || r->snap.status == SNAP_DROPPED)
		drop_over(a, rc, &e);
	else
		life_commit_dropping(a, &r->snap, on_dropping);
}
