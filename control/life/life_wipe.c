/*
 * The end of an agent: its sandbox, its workspace, its snapshots, then its row. What cannot go does not keep the rest
 * from going. While something of it stays (ERR_DATA_KEPT) it is destroying, its row says what, and it is tried again:
 * now and then, and whenever somebody asks.
 */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_AGAIN_NS (600 * NS_PER_SEC)

enum wipe_step {
	WIPE_BEGIN,
	WIPE_LEAVE,
	WIPE_WIPE,
	WIPE_END,       /* of a backend that cannot wipe in one: the sandbox, */
	WIPE_WORKSPACE, /* then the workspace */
	WIPE_LIST,
	WIPE_MARK, /* from here to WIPE_DROP once for each snapshot */
	WIPE_REFERS,
	WIPE_DROP,
	WIPE_GONE,
	WIPE_STAYS,
	WIPE_CANNOT,
};

/* ---- the sandbox and its workspace */

static int ask_leave(struct life_agent *a, struct err *e)
{
	return life_ask_leave(a, "ended", e);
}

static int ask_wipe(struct life_agent *a, struct err *e)
{
	if (!sandbox_can(a->life->inner, SANDBOX_WIPE))
		return ERR_UNSUPPORTED;
	return life_ask(a, SANDBOX_WIPE, a->row.cause, e);
}

/* What is kept is told before what is only late. */
static void note_left(struct life_run *r, int rc, const struct err *e)
{
	if (rc == ERR_DATA_KEPT && r->failed.code != ERR_DATA_KEPT)
		r->failed.code = 0;
	if (rc == ERR_DATA_KEPT)
		sandbox_kept_add(&r->failed, e);
	else if (!r->failed.code)
		err_again(&r->failed, rc, e, NULL);
}

static bool add_one(struct life_run *r, const struct id *id)
{
	for (size_t i = 0; i < r->nlist; i++)
		if (id_equal(&r->list[i], id))
			return true;
	/* Without memory the rest goes with the next try. */
	return list_append(&r->list, &r->nlist, id, sizeof(*id)) == 0;
}

static bool add_kept(void *arg, const struct life_snap *s)
{
	return s->status == SNAP_DROPPED || s->orphan || add_one(arg, &s->id);
}

static int find_kept(struct sqlite3 *db, void *job, struct err *e)
{
	struct life_agent *a = job;

	return snaps_of(db, a->name, add_kept, a->run, e);
}

/* Snapshots of the agent's rows are next, and those that no row knows of since control.db was lost. */
static int life_wipe_on_workspace_gone(struct life_agent *a, int rc, const struct err *e)
{
	if (rc == ERR_DATA_KEPT)
		note_left(a->run, rc, e);
	else if (rc && rc != ERR_NOT_FOUND)
		return life_run_break(a, rc, e);
	a->run->nlist = a->run->at = 0;
	(void)store_read(a->life->store, find_kept, a, NULL);
	return WIPE_LIST;
}

static int life_wipe_on_wiped(struct life_agent *a, int rc, const struct err *e)
{
	if (rc != ERR_UNSUPPORTED)
		return life_wipe_on_workspace_gone(a, rc, e);
	if (sandbox_can(a->life->inner, SANDBOX_DROP_WORKSPACE))
		return WIPE_END;
	err_set(&a->run->failed, ERR_UNSUPPORTED, "%.390s",
		e && e->message[0] ? e->message : "this backend does not remove workspaces");
	return WIPE_CANNOT;
}

static int life_wipe_ask_end(struct life_agent *a, struct err *e)
{
	return life_ask(a, SANDBOX_DESTROY, a->row.cause, e);
}

static int life_wipe_on_ended(struct life_agent *a, int rc, const struct err *e)
{
	return rc && rc != ERR_NOT_FOUND ? life_run_break(a, rc, e) : WIPE_WORKSPACE;
}

static int ask_workspace(struct life_agent *a, struct err *e)
{
	return life_ask(a, SANDBOX_DROP_WORKSPACE, NULL, e);
}

/* ---- its snapshots, one after the other */

static void life_wipe_on_listed(void *arg, const struct sandbox_answer *r)
{
	struct life_agent *a = life_called(arg);

	for (size_t i = 0; a && !r->rc && i < r->n; i++)
		(void)add_one(a->run, &r->snapshots[i].id);
	if (a)
		life_run_provided(a, r->rc, r->e);
}

static int ask_list(struct life_agent *a, struct err *e)
{
	struct life_call *c = life_call(a, e);

	if (!c)
		return e->code;
	sandbox_ask(a->life->inner, &(struct sandbox_ask){.op = SANDBOX_SNAPSHOTS, .agent = a->name, .run = true},
		    life_wipe_on_listed, c);
	return RUN_ASKED;
}

/* The row goes, or stays with what is left. */
static int wipe_finish(struct life_agent *a)
{
	struct err why = a->run->failed;

	if (!why.code)
		return WIPE_GONE;
	return why.code == ERR_DATA_KEPT ? WIPE_STAYS : life_run_break(a, why.code, &why);
}

static int wipe_next(struct life_agent *a)
{
	struct life_run *r = a->run;
	struct err e = {0};
	int rc;

	do {
		if (r->at == r->nlist || !sandbox_can(a->life->inner, SANDBOX_DROP))
			return wipe_finish(a);
		rc = life_snap_load(a->life, &r->list[r->at], &r->snap, &e);
	} while (!rc && r->snap.orphan && ++r->at); /* of one before it: it goes once nobody needs it */
	if (rc == ERR_NOT_FOUND) {
		r->snap = (struct life_snap){.id = r->list[r->at], .created_wall_ns = clock_wall_ns()};
		memcpy(r->snap.agent, a->name, sizeof(r->snap.agent));
	}
	r->was = r->snap.status;
	if (rc && rc != ERR_NOT_FOUND)
		return life_run_break(a, rc, &e);
	return r->snap.status == SNAP_DROPPING ? WIPE_REFERS : WIPE_MARK;
}

static int life_wipe_on_all_listed(struct life_agent *a, int rc, const struct err *e)
{
	if (rc && rc != ERR_UNSUPPORTED && rc != ERR_NOT_FOUND)
		log_warn(&(struct log_ids){.agent = a->name},
			 "its snapshots cannot be listed, those of its rows go: %s",
			 e && e->message[0] ? e->message : err_name(rc));
	return wipe_next(a);
}

/* The snapshot stays, and the answer says so. The hold on it has an end of its own, after which the sweep of snapshots
 * without an agent removes it. */
static int keep_one(struct life_agent *a, const char *why)
{
	struct life_run *r = a->run;
	char text[ID_STR_LEN];

	id_format(&r->list[r->at], text);
	(void)life_audit(a->life, "snapshot.drop", a->name, "kept", json_pack("{s:s,s:s}", "id", text, "why", why));
	r->at++;
	return wipe_next(a);
}

static int ask_mark(struct life_agent *a, struct err *e)
{
	return life_commit_dropping(a, &a->run->snap, e);
}

static int life_wipe_on_marked(struct life_agent *a, int rc, const struct err *e)
{
	if (rc == ERR_BAD_STATE)
		return keep_one(a, "a fork of it needs it");
	return rc ? life_run_break(a, rc, e) : WIPE_REFERS;
}

static int ask_refers(struct life_agent *a, struct err *e)
{
	return life_ask_refers(a, e);
}

static int life_wipe_on_referred(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	if (!life_must_stay(a, rc)) {
		r->refers = rc;
		return WIPE_DROP;
	}
	r->snap.status = r->was;
	life_put_snap(a->life, &r->snap);
	return keep_one(a, e && e->message[0] ? e->message : "whether it is held is not known");
}

static int ask_drop(struct life_agent *a, struct err *e)
{
	return life_ask(a, SANDBOX_DROP, NULL, e);
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
}

static void one_gone(struct life_agent *a)
{
	struct life_run *r = a->run;
	struct life_snap s = {0};

	if (!life_snap_load(a->life, &r->list[r->at], &s, NULL)) {
		s.status = SNAP_DROPPED;
		s.ended_wall_ns = clock_wall_ns();
		text_format(s.detail, sizeof(s.detail), "dropped with its agent: %.150s", r->cause);
		life_put_snap(a->life, &s);
	}
	life_tell_drop(a, &r->list[r->at], r->cause, NULL);
}

static int life_wipe_on_dropped(struct life_agent *a, int rc, const struct err *e)
{
	if (rc && rc != ERR_NOT_FOUND)
		one_stays(a, rc, e);
	else
		one_gone(a);
	a->run->at++;
	return wipe_next(a);
}

/* ---- its row */

/* A snapshot of whom this fork was made of, which it alone kept, goes now. */
static void free_source(struct life *l, const char *agent)
{
	struct life_agent *a = *agent ? life_agent(l, agent, NULL) : NULL;

	if (a && !a->run)
		life_keep(a);
}

static int life_wipe_on_gone(struct life_agent *a, int rc, const struct err *e)
{
	struct life_waiter *w;
	json_t *o = json_pack("{s:s,s:s}", "agent", a->name, "state", "absent");

	(void)rc, (void)e;
	while ((w = life_first(a, WANTS(WANT_END) | WANTS(WANT_STOP)))) {
		TAILQ_REMOVE(&a->waiters, w, entry);
		if (w->done)
			w->done(w->arg, 0, NULL, o);
		else if (w->stream)
			sandbox_answer(w->stream, w->arg, 0, NULL, NULL, -1);
		free(w);
	}
	json_decref(o);
	free_source(a->life, a->run->before.fork_agent);
	return life_run_end(a);
}

static int ask_stays(struct life_agent *a, struct err *e)
{
	const struct err *why = &a->run->failed;
	struct life_row next = a->row;

	text_format(next.detail, sizeof(next.detail), "%.250s", why->message);
	if (strcmp(next.detail, a->row.detail) == 0) /* it was told before */
		return 0;
	(void)life_audit(a->life, "sandbox.wipe", a->name, err_name(why->code),
			 json_pack("{s:s,s:s}", "cause", a->run->cause, "message", why->message));
	return life_commit(a, &next, NULL, e);
}

static int life_wipe_on_stays(struct life_agent *a, int rc, const struct err *e)
{
	struct err why = a->run->failed;

	(void)rc, (void)e;
	a->retry_at = clock_boot_ns() + KEPT_AGAIN_NS;
	life_count_failure(a->life, why.code);
	life_answer_wants(a, ~0u, why.code, &why);
	return life_run_end(a);
}

static int ask_cannot(struct life_agent *a, struct err *e)
{
	struct life_row next = a->row;

	next.state = LIFE_ERROR;
	snprintf(next.cause, sizeof(next.cause), "it cannot be wiped");
	text_format(next.detail, sizeof(next.detail), "%.250s", a->run->failed.message);
	return life_commit(a, &next, NULL, e);
}

static int life_wipe_on_cannot(struct life_agent *a, int rc, const struct err *e)
{
	(void)rc, (void)e;
	life_answer_wants(a, WANTS(WANT_END), a->run->failed.code, &a->run->failed);
	life_want_nobody(a, WANT_CHECK, NULL, "");
	return life_run_end(a);
}

static const struct run_step steps[] = {
    [WIPE_BEGIN] = {"destroying", life_commit_next, .then = WIPE_LEAVE, .writes = WRITES_ROW},
    [WIPE_LEAVE] = {"leave", ask_leave, .then = WIPE_WIPE},
    [WIPE_WIPE] = {"wipe", ask_wipe, life_wipe_on_wiped},
    [WIPE_END] = {"end", life_wipe_ask_end, life_wipe_on_ended},
    [WIPE_WORKSPACE] = {"workspace", ask_workspace, life_wipe_on_workspace_gone},
    [WIPE_LIST] = {"list", ask_list, life_wipe_on_all_listed},
    [WIPE_MARK] = {"mark", ask_mark, life_wipe_on_marked, .writes = WRITES_MARK},
    [WIPE_REFERS] = {"refers", ask_refers, life_wipe_on_referred},
    [WIPE_DROP] = {"drop", ask_drop, life_wipe_on_dropped},
    [WIPE_GONE] = {"gone", life_commit_delete, life_wipe_on_gone, .writes = WRITES_ROW},
    [WIPE_STAYS] = {"stays", ask_stays, life_wipe_on_stays, .writes = WRITES_ROW},
    [WIPE_CANNOT] = {"cannot", ask_cannot, life_wipe_on_cannot, .writes = WRITES_ROW},
};

void life_wipe_run(struct life_agent *a, const char *cause)
{
	struct life_run *r = life_run_begin(a, &life_wipe_kind, cause);

	if (!r)
		return;
	r->next.state = LIFE_DESTROYING;
	r->next.step[0] = '\0';
	text_format(r->next.cause, sizeof(r->next.cause), "%.190s", cause);
	life_run_go(a, a->row.generation && a->row.state == LIFE_DESTROYING ? WIPE_LEAVE : WIPE_BEGIN);
}

static bool wipe_again(struct life_agent *a)
{
	life_wipe_run(a, a->row.cause);
	return true;
}

const struct run_kind life_wipe_kind = {"wipe", steps, wipe_again, NULL, NULL, NULL};
