/* Back to a snapshot of its own, of an agent whose sandbox does not run. */
#define LOG_SUBSYS "life"
#include "base/text.h"
#include "control/life/life_state.h"

#include <stdlib.h>
#include <string.h>

enum restore_step { RESTORE_BEGIN, RESTORE_PUT_BACK, RESTORE_OVER };

static int ask_put_back(struct life_agent *a, struct err *e)
{
	int rc = 0;

	if (a->run->failed.code)
		*e = a->run->failed, rc = e->code;
	if (!rc)
		rc = life_template_tell(a, e);
	return rc ? rc : life_ask(a, SANDBOX_RESTORE, NULL, e);
}

static int life_restore_on_put_back(struct life_agent *a, int rc, const struct err *e)
{
	struct life_row *next = &a->run->next;
	char id[ID_STR_LEN];

	id_format(&a->row.snapshot, id);
	(void)life_audit(a->life, "snapshot.restore", a->name, rc ? err_name(rc) : "ok",
			 json_pack("{s:s,s:s*}", "id", id, "message", rc && e ? e->message : NULL));
	*next = a->row;
	next->step[0] = '\0';
	next->next = (struct id){0};
	if (!rc) {
		life_time(a->life, TIME_RESTORE, a->run->began);
		next->workspace = true;
		return RESTORE_OVER;
	}
	/* The workspace that was there is there still. */
	err_again(&a->run->failed, rc, e, NULL);
	life_count_failure(a->life, rc);
	next->workspace = a->run->before.workspace;
	next->snapshot = a->run->before.snapshot;
	text_format(next->detail, sizeof(next->detail), "the restore failed: %.220s", a->run->failed.message);
	return RESTORE_OVER;
}

static int life_restore_on_over(struct life_agent *a, int rc, const struct err *e)
{
	struct life_waiter *w = life_first(a, WANTS(WANT_RESTORE));
	struct life_run *r = a->run;

	(void)rc, (void)e;
	if (w && id_equal(&w->snapshot, &r->snap.id)) /* one of another snapshot gets a run of its own */
		life_answer(a, w, r->failed.code, r->failed.code ? &r->failed : NULL);
	return life_run_end(a);
}

static const struct run_step steps[] = {
    [RESTORE_BEGIN] = {"begin", life_commit_next, .then = RESTORE_PUT_BACK, .writes = WRITES_ROW},
    [RESTORE_PUT_BACK] = {"put back", ask_put_back, life_restore_on_put_back},
    [RESTORE_OVER] = {"over", life_commit_next, life_restore_on_over, .writes = WRITES_ROW},
};

/*
 * The row names the snapshot first, with no workspace: whatever dies from here on, the next start restores it. What it
 * was before is in the row as well, and comes back only with the provider's word that nothing was changed.
 */
void life_restore_run(struct life_agent *a, struct life_waiter *w)
{
	struct life_run *r = life_run_begin(a, &life_restore_kind, w->reason);
	struct err e = {0};
	int rc;

	if (!r)
		return;
	rc = life_snap_load(a->life, &w->snapshot, &r->snap, &e);
	if (!rc && r->snap.orphan)
		rc = err_set(&e, ERR_NOT_FOUND, "the snapshot is of an agent of that name which was wiped");
	if (!rc && r->snap.status != SNAP_READY) /* since it was asked for */
		rc = err_set(&e, ERR_BAD_STATE, "the snapshot is %s: ready would do", snap_status_name(r->snap.status));
	if (!rc && !sandbox_can(a->life->inner, SANDBOX_RESTORE))
		rc = err_set(&e, ERR_UNSUPPORTED, "this backend cannot restore snapshots");
	if (rc) {
		life_answer(a, w, rc, &e);
		(void)life_run_end(a);
		return;
	}
	r->next.state = LIFE_STOPPED;
	r->next.snapshot = w->snapshot;
	r->next.workspace = false;
	r->next.next = a->row.snapshot;
	r->next.detail[0] = '\0';
	text_put(r->next.step, sizeof(r->next.step), a->row.workspace ? LIFE_STEP_RESTORE_OVER : LIFE_STEP_RESTORE);
	text_format(r->next.cause, sizeof(r->next.cause), "%.190s", w->reason);
	life_run_go(a, RESTORE_BEGIN);
}

/* Found after a crash: what is half made in the backend does not wait for the next resume. */
static bool restore_again(struct life_agent *a)
{
	struct life_run *r;
	int rc;

	bool over = strcmp(a->row.step, LIFE_STEP_RESTORE_OVER) == 0;

	if (!a->row.generation || (!over && strcmp(a->row.step, LIFE_STEP_RESTORE) != 0))
		return false;
	r = life_run_begin(a, &life_restore_kind, a->row.cause);
	if (!r)
		return true;
	r->again = true;
	if (!id_is_nil(&a->row.next)) {
		r->before.snapshot = a->row.next;
		r->before.workspace = over;
	}
	rc = life_snap_load(a->life, &a->row.snapshot, &r->snap, &r->failed);
	if (!rc && !sandbox_can(a->life->inner, SANDBOX_RESTORE))
		err_set(&r->failed, ERR_UNSUPPORTED, "this backend cannot restore snapshots");
	life_run_go(a, RESTORE_PUT_BACK);
	return true;
}

const struct run_kind life_restore_kind = {"restore", steps, restore_again, NULL, NULL, NULL};
