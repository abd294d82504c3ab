/* One snapshot goes: asked for, by retention, or outdated by a better one. */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/text.h"
#include "control/life/life_state.h"

#include <stdlib.h>
#include <string.h>

enum drop_step { DROP_MARK, DROP_REFERS, DROP_DROP, DROP_NOTE, DROP_STAY };

/* The caller who asked for the drop may have gone; other callers wait for other snapshots. */
static int drop_over(struct life_agent *a, int rc, const struct err *e)
{
	struct life_waiter *w;

	TAILQ_FOREACH(w, &a->waiters, entry)
	if (w->want == WANT_DROP && id_equal(&w->snapshot, &a->run->snap.id))
		break;
	life_answer(a, w, rc, e);
	return life_run_end(a);
}

static int ask_mark(struct life_agent *a, struct err *e)
{
	return life_commit_dropping(a, &a->run->snap, e);
}

static int life_drop_on_marked(struct life_agent *a, int rc, const struct err *e)
{
	if (rc == ERR_BAD_STATE)
		return drop_over(a, rc, e);
	return rc ? life_run_break(a, rc, e) : DROP_REFERS;
}

/* As it was before: whoever asked hears why, and by retention it is looked at again. */
static int drop_stays(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;
	char text[ID_STR_LEN];

	id_format(&r->snap.id, text);
	err_set(&r->failed, rc, "snapshot %s stays: %.300s", text,
		e && e->message[0] ? e->message : "whether a legal hold keeps it is not known now");
	r->snap.status = r->was;
	return DROP_STAY;
}

static int ask_refers(struct life_agent *a, struct err *e)
{
	return life_ask_refers(a, e);
}

static int life_drop_on_referred(struct life_agent *a, int rc, const struct err *e)
{
	if (life_must_stay(a, rc))
		return drop_stays(a, rc, e);
	a->run->refers = rc;
	return DROP_DROP;
}

static int ask_drop(struct life_agent *a, struct err *e)
{
	return life_ask(a, SANDBOX_DROP, NULL, e);
}

static int life_drop_on_dropped(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	if (rc && rc != ERR_NOT_FOUND) /* the reconciler tries again */
		err_again(&r->failed, rc, e, NULL);
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
	return DROP_NOTE;
}

static int ask_note(struct life_agent *a, struct err *e)
{
	return life_commit_snap(a, &a->run->snap, e);
}

static int life_drop_on_noted(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	(void)rc, (void)e;
	life_tell_drop(a, &r->snap.id, r->cause, r->failed.code ? &r->failed : NULL);
	return drop_over(a, r->failed.code, &r->failed);
}

static int life_drop_on_stay_noted(struct life_agent *a, int rc, const struct err *e)
{
	(void)rc, (void)e;
	return drop_over(a, a->run->failed.code, &a->run->failed);
}

static const struct run_step steps[] = {
    [DROP_MARK] = {"mark", ask_mark, life_drop_on_marked, .writes = WRITES_MARK},
    [DROP_REFERS] = {"refers", ask_refers, life_drop_on_referred},
    [DROP_DROP] = {"drop", ask_drop, life_drop_on_dropped},
    [DROP_NOTE] = {"note", ask_note, life_drop_on_noted, .writes = WRITES_ROW},
    [DROP_STAY] = {"stay", ask_note, life_drop_on_stay_noted, .writes = WRITES_ROW},
};
const struct run_kind life_drop_kind = {"drop", steps, NULL, NULL, NULL, NULL};

/* The snapshot may be needed again since the drop was asked for. */
static int drop_may_go(struct life_agent *a, const struct id *snapshot, struct err *e)
{
	char text[ID_STR_LEN];

	id_format(snapshot, text);
	if (!sandbox_can(a->life->inner, SANDBOX_DROP))
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
	struct life_run *r = life_run_begin(a, &life_drop_kind, cause);
	struct err e = {0};
	int rc;

	if (!r)
		return;
	rc = life_snap_load(a->life, snapshot, &r->snap, &e);
	r->was = r->snap.status;
	if (!rc && r->snap.status == SNAP_DROPPING) { /* begun by a run before */
		life_run_go(a, DROP_REFERS);
		return;
	}
	if (!rc && r->snap.status != SNAP_DROPPED)
		rc = drop_may_go(a, snapshot, &e);
	if (rc || r->snap.status == SNAP_DROPPED)
		(void)drop_over(a, rc, &e);
	else
		life_run_go(a, DROP_MARK);
}
