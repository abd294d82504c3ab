/*
 * The end of an agent: its sandbox, its workspace, its snapshots, then its row. What cannot go does not keep the rest
 * from going. While something of it stays (ERR_DATA_KEPT) it is destroying, its row says what, and it is tried again:
 * now and then, and whenever somebody asks.
 */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_AGAIN_NS (600 * NS_PER_SEC)

static void next_drop(struct life_agent *a);

/* What is kept is told before what is only late. */
static void note_left(struct life_run *r, int rc, const struct err *e)
{
	if (rc == ERR_DATA_KEPT && r->failed.code != ERR_DATA_KEPT)
		r->failed.code = 0;
	if (rc == ERR_DATA_KEPT)
		sandbox_kept_add(&r->failed, e);
	else if (!r->failed.code)
		err_set(&r->failed, rc, "%s", e && e->message[0] ? e->message : err_name(rc));
}

static void on_left_noted(struct life_agent *a, int rc, const struct err *e)
{
	struct err why = a->run->failed;

	if (life_run_broke(a, rc, e))
		return;
	a->retry_at = clock_boot_ns() + KEPT_AGAIN_NS;
	life_count_failure(a->life, why.code);
	life_answer_wants(a, ~0u, why.code, &why);
	life_run_end(a);
}

static void something_stays(struct life_agent *a)
{
	const struct err *why = &a->run->failed;
	struct life_row next = a->row;

	text_format(next.detail, sizeof(next.detail), "%.250s", why->message);
	if (strcmp(next.detail, a->row.detail) == 0) { /* it was told before */
		on_left_noted(a, 0, NULL);
		return;
	}
	(void)life_audit(a->life, "sandbox.wipe", a->name, err_name(why->code),
			 json_pack("{s:s,s:s}", "cause", a->run->cause, "message", why->message));
	life_commit(a, &next, NULL, on_left_noted);
}

static void finish(struct life_agent *a, life_next *deleted)
{
	struct err why = a->run->failed;

	if (!why.code)
		life_commit_delete(a, deleted);
	else if (why.code == ERR_DATA_KEPT)
		something_stays(a);
	else
		life_run_break(a, why.code, &why);
}

static void on_deleted(struct life_agent *a, int rc, const struct err *e)
{
	struct life_waiter *w;
	json_t *o;

	if (life_run_broke(a, rc, e))
		return;
	o = json_pack("{s:s,s:s}", "agent", a->name, "state", "absent");
	while ((w = life_first(a, WANTS(WANT_END) | WANTS(WANT_STOP)))) {
		TAILQ_REMOVE(&a->waiters, w, entry);
		if (w->done)
			w->done(w->arg, 0, NULL, o);
		else if (w->stream)
			w->stream(w->arg, 0, NULL, NULL, -1);
		free(w);
	}
	json_decref(o);
	life_run_end(a);
}

/* Nobody restores from it any more; what it is kept for is told once. */
static void one_stays(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;
	struct life_snap s = {0};
	char detail[sizeof(s.detail)];

	note_left(r, rc, e);
	text_format(detail, sizeof(detail), LIFE_DETAIL_KEPT "%.180s", e && e->message[0] ? e->message : err_name(rc));
	if (rc == ERR_DATA_KEPT && !life_snap_load(a->life, &r->list[r->at], &s, NULL) &&
	    strcmp(s.detail, detail) != 0) {
		text_put(s.detail, sizeof(s.detail), detail);
		s.ended_wall_ns = clock_wall_ns();
		life_put_snap(a->life, &s);
		life_tell_drop(a, &r->list[r->at], r->cause, e);
	}
	r->at++;
	next_drop(a);
}

static void on_one_dropped(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;
	struct life_snap s = {0};

	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	if (rc && rc != ERR_NOT_FOUND) {
		one_stays(a, rc, e);
		return;
	}
	if (!life_snap_load(a->life, &r->list[r->at], &s, NULL)) {
		s.status = SNAP_DROPPED;
		s.ended_wall_ns = clock_wall_ns();
		text_format(s.detail, sizeof(s.detail), "dropped with its agent: %.150s", r->cause);
		life_put_snap(a->life, &s);
	}
	life_tell_drop(a, &r->list[r->at], r->cause, NULL);
	r->at++;
	next_drop(a);
}

static bool add_one(struct life_run *r, const struct id *id)
{
	struct id *list;

	for (size_t i = 0; i < r->nlist; i++)
		if (id_equal(&r->list[i], id))
			return true;
	list = realloc(r->list, (r->nlist + 1) * sizeof(*list));
	if (!list)
		return false; /* what is left goes with the next try */
	r->list = list;
	r->list[r->nlist++] = *id;
	return true;
}

static bool add_kept(void *arg, const struct life_snap *s)
{
	return s->status == SNAP_DROPPED || add_one(arg, &s->id);
}

static int find_kept(struct sqlite3 *db, void *job, struct err *e)
{
	struct life_agent *a = job;

	return snaps_of(db, a->name, add_kept, a->run, e);
}

/* The snapshot stays, and the answer says so. The hold on it has an end of its own, after which the sweep of snapshots
 * without an agent removes it. */
static void keep_one(struct life_agent *a, const char *why)
{
	struct life_run *r = a->run;
	char text[ID_STR_LEN];

	id_format(&r->list[r->at], text);
	(void)life_audit(a->life, "snapshot.drop", a->name, "kept", json_pack("{s:s,s:s}", "id", text, "why", why));
	r->at++;
	next_drop(a);
}

static void on_referred(struct life_agent *a, int rc, const struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_run *r = a->run;
	struct life_call *c;

	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	if (life_must_stay(a, rc)) {
		r->snap.status = r->was;
		life_put_snap(a->life, &r->snap);
		keep_one(a, e && e->message[0] ? e->message : "whether it is held is not known");
		return;
	}
	r->refers = rc;
	c = life_call(a, on_one_dropped);
	if (c)
		p->ops->snapshot_drop(p, a->name, &r->list[r->at], life_on_snapshots, c);
}

static void on_dropping(struct life_agent *a, int rc, const struct err *e)
{
	if (!rc)
		life_ask_refers(a, on_referred);
	else if (rc == ERR_BAD_STATE)
		keep_one(a, "a fork of it needs it");
	else
		life_run_break(a, rc, e);
}

static void next_drop(struct life_agent *a)
{
	struct life_run *r = a->run;
	struct err e = {0};
	int rc;

	if (r->at == r->nlist || !a->life->inner->ops->snapshot_drop) {
		finish(a, on_deleted);
		return;
	}
	rc = life_snap_load(a->life, &r->list[r->at], &r->snap, &e);
	if (rc == ERR_NOT_FOUND) {
		r->snap = (struct life_snap){.id = r->list[r->at], .created_wall_ns = clock_wall_ns()};
		memcpy(r->snap.agent, a->name, sizeof(r->snap.agent));
	}
	r->was = r->snap.status;
	if (rc && rc != ERR_NOT_FOUND)
		life_run_break(a, rc, &e);
	else if (r->snap.status == SNAP_DROPPING)
		on_dropping(a, 0, NULL);
	else
		life_commit_dropping(a, &r->snap, on_dropping);
}

static void on_all_found(struct life_agent *a, int rc, const struct err *e)
{
	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	if (rc && rc != ERR_UNSUPPORTED && rc != ERR_NOT_FOUND)
		log_warn(&(struct log_ids){.agent = a->name},
			 "its snapshots cannot be listed, those of its rows go: %s",
			 e && e->message[0] ? e->message : err_name(rc));
	next_drop(a);
}

static void on_listed(void *arg, int rc, const struct err *e, const struct sandbox_snapshot *list, size_t n)
{
	life_next *next;
	struct life_agent *a = life_called(arg, &next);

	for (size_t i = 0; a && !rc && i < n; i++)
		(void)add_one(a->run, &list[i].id);
	if (a)
		next(a, rc, e);
}

/* Snapshots of the agent's rows, and those that no row knows of since control.db was lost. */
static void on_wiped(struct life_agent *a, int rc, const struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c;

	if (rc == ERR_DATA_KEPT) {
		note_left(a->run, rc, e);
	} else if (rc && rc != ERR_NOT_FOUND) {
		life_run_break(a, rc, e);
		return;
	}
	a->run->nlist = a->run->at = 0;
	(void)store_read(a->life->store, find_kept, a, NULL);
	if (!p->ops->snapshot_list) {
		next_drop(a);
		return;
	}
	c = life_call(a, on_all_found);
	if (c)
		p->ops->snapshot_list(p, a->name, on_listed, c);
}

static void on_wipe_ended(struct life_agent *a, int rc, const struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c;

	if (rc && rc != ERR_NOT_FOUND) {
		life_run_break(a, rc, e);
		return;
	}
	c = life_call(a, on_wiped);
	if (c)
		p->ops->drop_workspace(p, a->name, life_on_sandbox, c);
}

static void on_not_wiped(struct life_agent *a, int rc, const struct err *e)
{
	if (life_run_broke(a, rc, e))
		return;
	life_answer_wants(a, WANTS(WANT_END), a->run->failed.code, &a->run->failed);
	life_want_nobody(a, WANT_CHECK, NULL, "");
	life_run_end(a);
}

static void cannot_wipe(struct life_agent *a, const struct err *e)
{
	struct life_row next = a->row;

	err_set(&a->run->failed, ERR_UNSUPPORTED, "%.390s",
		e && e->message[0] ? e->message : "this backend does not remove workspaces");
	next.state = LIFE_ERROR;
	snprintf(next.cause, sizeof(next.cause), "it cannot be wiped");
	text_format(next.detail, sizeof(next.detail), "%.250s", a->run->failed.message);
	life_commit(a, &next, NULL, on_not_wiped);
}

static void on_wipe_asked(struct life_agent *a, int rc, const struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c;

	if (rc == ERR_UNSUPPORTED && !p->ops->drop_workspace) {
		cannot_wipe(a, e);
		return;
	}
	if (rc != ERR_UNSUPPORTED) {
		on_wiped(a, rc, e);
		return;
	}
	c = life_call(a, on_wipe_ended);
	if (c)
		p->ops->destroy_sandbox(p, a->name, a->row.cause, life_on_sandbox, c);
}

static void on_wipe_left(struct life_agent *a, int rc, const struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c;

	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	if (!p->ops->wipe) {
		on_wipe_asked(a, ERR_UNSUPPORTED, NULL);
		return;
	}
	c = life_call(a, on_wipe_asked);
	if (c)
		p->ops->wipe(p, a->name, a->row.cause, life_on_sandbox, c);
}

static void on_destroying(struct life_agent *a, int rc, const struct err *e)
{
	struct life_host *h = &a->life->host;
	struct life_call *c;
	char why[256];

	if (life_run_broke(a, rc, e))
		return;
	if (!h->leave) {
		on_wipe_left(a, 0, NULL);
		return;
	}
	text_format(why, sizeof(why), "its sandbox was ended: %.200s", a->row.cause);
	c = life_call(a, on_wipe_left);
	if (c)
		h->leave(h->ctx, a->name, why, life_on_host, c);
}

void life_wipe_run(struct life_agent *a, const char *cause)
{
	struct life_row next = a->row;

	if (!life_run_begin(a, RUN_WIPE, cause))
		return;
	if (a->row.generation && a->row.state == LIFE_DESTROYING) {
		on_destroying(a, 0, NULL);
		return;
	}
	next.state = LIFE_DESTROYING;
	next.step[0] = '\0';
	text_format(next.cause, sizeof(next.cause), "%.190s", cause);
	life_commit(a, &next, NULL, on_destroying);
}
