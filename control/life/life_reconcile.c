/*
 * Rows and what the provider has, compared: at start, each minute, when an end is told of, and when a stream is
 * refused. A list is only a hint, it may be old when it comes; an agent that differs is asked for by itself before
 * anything is changed.
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

/* So long it is known that there was a snapshot, when, and why it went. */
#define FORGET_NS ((int64_t)(400 * 24 * 3600 * NS_PER_SEC))
/* A drop that cannot be done before somebody changes the cluster's rules is tried again so often. */
#define KEPT_NS ((int64_t)(3600 * NS_PER_SEC))

void life_on_gone(void *arg, const char *agent, const struct id *sandbox, const char *why)
{
	struct life *l = arg;
	struct life_agent *a;

	if (l->dying)
		return;
	if (l->base.gone)
		l->base.gone(l->base.gone_arg, agent, sandbox, why);
	if (target_is_pod(agent) || !(a = life_agent(l, agent, NULL)))
		return;
	if (!a->row.generation || a->row.state != LIFE_RUNNING || !id_equal(&a->row.sandbox, sandbox))
		return; /* an end that was asked for */
	text_put(a->gone, sizeof(a->gone), why);
	life_want_nobody(a, WANT_CHECK, NULL, why);
}

/* ---- all */

struct names {
	char (*list)[AGENT_NAME_MAX + 1];
	size_t n;
};

static bool life_reconcile_names_add(struct names *s, const char *name)
{
	char entry[sizeof(*s->list)];

	text_put(entry, sizeof(entry), name);
	return list_append(&s->list, &s->n, entry, sizeof(entry)) == 0;
}

static bool add_awake(void *arg, const struct life_row *r)
{
	return life_reconcile_names_add(arg, r->agent);
}

static int find_awake(struct sqlite3 *db, void *job, struct err *e)
{
	return rows_awake(db, add_awake, job, e);
}

static const struct sandbox_info *life_reconcile_listed(const struct sandbox_info *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i].agent, name) == 0)
			return &list[i];
	return NULL;
}

static int find_restoring(struct sqlite3 *db, void *job, struct err *e)
{
	return rows_restoring(db, add_awake, job, e);
}

/* A restore that was begun before a crash; it may have left half of its work in the backend. */
static void finish_restores(struct life *l)
{
	struct names names = {0};

	(void)store_read(l->store, find_restoring, &names, NULL);
	for (size_t i = 0; i < names.n; i++) {
		struct life_agent *a = life_agent(l, names.list[i], NULL);

		if (a)
			life_due(a);
	}
	free(names.list);
}

static int find_passing(struct sqlite3 *db, void *job, struct err *e)
{
	return rows_passing(db, add_awake, job, e);
}

static void life_reconcile_on_passed(void *arg, int rc, const struct err *e, json_t *result)
{
	(void)arg, (void)rc, (void)e,
	    (void)result; /* the audit log has the transition, and the next start tries again */
}

/* Forks whose readers died with the daemon before. */
static void end_passing(struct life *l)
{
	struct names names = {0};

	(void)store_read(l->store, find_passing, &names, NULL);
	for (size_t i = 0; i < names.n; i++)
		life_terminate(l, names.list[i], "it was made to be read, and its reader has gone", LIFE_END_WIPE, 0,
			       life_reconcile_on_passed, NULL);
	free(names.list);
}

/* Everything that is awake by its row, and is not listed as running; what is between two states goes on. */
static void compare_awake(struct life *l, const struct sandbox_info *list, size_t n)
{
	struct names names = {0};

	(void)store_read(l->store, find_awake, &names, NULL);
	for (size_t i = 0; i < names.n; i++) {
		const struct sandbox_info *s = life_reconcile_listed(list, n, names.list[i]);
		struct life_agent *a = life_agent(l, names.list[i], NULL);

		if (!a || a->run)
			continue;
		if (a->row.state == LIFE_RUNNING &&
		    (!s || s->state != SANDBOX_RUNNING || !id_equal(&s->sandbox_id, &a->row.sandbox)))
			life_want_nobody(a, WANT_CHECK, NULL, "it is not there any more");
		else
			life_due(a);
	}
	free(names.list);
}

/* What is there and has no row, in one question for all. */
struct unknown {
	const struct sandbox_info *list;
	size_t n;
	bool stopped_too;
	struct names names;
};

static int find_unknown(struct sqlite3 *db, void *job, struct err *e)
{
	struct unknown *u = job;
	struct life_row r;
	int rc = 0;

	for (size_t i = 0; !rc && i < u->n; i++) {
		const struct sandbox_info *s = &u->list[i];

		if (target_is_pod(s->agent) || (s->state != SANDBOX_RUNNING && !u->stopped_too))
			continue;
		rc = row_get(db, s->agent, &r, e);
		if (!rc && (!r.generation ||
			    (s->state == SANDBOX_RUNNING && (r.state == LIFE_STOPPED || r.state == LIFE_ERROR))))
			(void)life_reconcile_names_add(&u->names, s->agent);
	}
	return rc;
}

static void life_reconcile_on_list(void *arg, const struct sandbox_answer *r)
{
	struct life_call *c = arg;
	struct life *l = c->life;
	struct unknown u = {.list = r->info, .n = r->n};

	if (l)
		LIST_REMOVE(c, entry);
	u.stopped_too = c->take; /* the first one */
	free(c);
	if (!l || l->dying)
		return;
	l->reconciling = false;
	if (r->rc) {
		log_warn(NULL, "the sandboxes cannot be compared: %s",
			 r->e && r->e->message[0] ? r->e->message : err_name(r->rc));
		compare_awake(l, NULL, 0); /* each is asked for by itself */
		return;
	}
	compare_awake(l, r->info, r->n);
	(void)store_read(l->store, find_unknown, &u, NULL);
	for (size_t i = 0; i < u.names.n; i++) {
		struct life_agent *a = life_agent(l, u.names.list[i], NULL);

		if (a && !a->run)
			life_want_nobody(a, WANT_CHECK, NULL, "");
	}
	free(u.names.list);
}

/* ---- snapshots that were being taken or dropped, outcomes that nobody told */

static bool is_kept(const struct life_snap *s)
{
	int64_t since = clock_wall_ns() - s->ended_wall_ns;

	return s->status == SNAP_DROPPING && strncmp(s->detail, LIFE_DETAIL_KEPT, strlen(LIFE_DETAIL_KEPT)) == 0 &&
	       since >= 0 && since < KEPT_NS;
}

static bool life_reconcile_go_on(void *arg, const struct life_snap *s)
{
	struct life *l = arg;
	struct life_agent *a = is_kept(s) ? NULL : life_agent(l, s->agent, NULL);

	if (!a || a->run || a->taking)
		return true;
	if (s->status == SNAP_DROPPING)
		life_want_nobody(a, WANT_DROP, &s->id, "a drop that was begun");
	else if (!a->row.generation || s->orphan)
		life_want_nobody(a, WANT_DROP, &s->id, "its agent is gone");
	else if (a->row.state == LIFE_RUNNING || a->row.state == LIFE_STOPPED || a->row.state == LIFE_ERROR)
		life_want_nobody(a, WANT_SNAPSHOT, &s->id, s->cause);
	return true;
}

static int find_open(struct sqlite3 *db, void *job, struct err *e)
{
	return snaps_open(db, life_reconcile_go_on, job, e);
}

static bool life_reconcile_tell(void *arg, const struct life_row *r)
{
	struct life *l = arg;

	if ((r->state == LIFE_STOPPED || r->state == LIFE_RUNNING || r->state == LIFE_ERROR) &&
	    life_audit(l, "sandbox.state", r->agent, "ok",
		       json_pack("{s:s,s:s,s:I,s:s}", "to", life_state_name(r->state), "cause", r->cause, "generation",
				 (json_int_t)r->generation, "told", "after a restart of the daemon")) == 0)
		life_note_told(l, r);
	return true;
}

static int find_untold(struct sqlite3 *db, void *job, struct err *e)
{
	return rows_untold(db, life_reconcile_tell, job, e);
}

static int forget_snaps(struct sqlite3 *db, void *job, struct err *e)
{
	(void)job;
	return snaps_forget(db, clock_wall_ns() - FORGET_NS, e);
}

static void forgotten(void *job, int rc, const struct err *e)
{
	(void)job, (void)rc, (void)e;
}

void life_reconcile(struct life *l)
{
	bool first = !l->compared;
	struct life_call *c;

	if (l->reconciling)
		return;
	if (first) {
		(void)store_read(l->store, find_untold, l, NULL);
		if (!life_removals_wait(l))
			store_write(l->store, forget_snaps, forgotten, NULL);
		finish_restores(l);
		end_passing(l);
	}
	(void)store_read(l->store, find_open, l, NULL);
	life_keep_some(l);
	life_left(l);
	c = calloc(1, sizeof(*c));
	if (!c)
		return;
	c->life = l;
	c->take = first;
	LIST_INSERT_HEAD(&l->calls, c, entry);
	l->reconciling = true;
	l->compared = true;
	sandbox_ask(l->inner, &(struct sandbox_ask){.op = SANDBOX_LIST, .run = true}, life_reconcile_on_list, c);
}
