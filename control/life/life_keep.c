/* Retention: an agent's snapshots by count and age. Its current one never goes, nor one that is gone back to, nor one
 * that a fork needs. Looked at when it got one, and all in their turn: time passes, and the configuration changes. Of
 * an agent that is gone none is kept, once no fork needs it. */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdio.h>
#include <string.h>

#define DROPS_AT_ONCE 16

struct keep {
	struct life_agent *a;
	int64_t oldest_wall_ns; /* 0: any age */
	unsigned ready, failed, kept_most;
	struct id drop[DROPS_AT_ONCE];
	const char *why[DROPS_AT_ONCE];
	size_t n;
	struct sqlite3 *db;
	struct err *e;
	int rc;
};

bool life_keep_restores(const struct life_agent *a, const struct id *snapshot)
{
	const struct life_waiter *w;

	TAILQ_FOREACH(w, &a->waiters, entry)
	if (w->want == WANT_RESTORE && id_equal(&w->snapshot, snapshot))
		return true;
	return false;
}

/* One that stays does not stand in the way of those behind it. */
static bool life_keep_judge(void *arg, const struct life_snap *s)
{
	struct keep *k = arg;
	bool gone = s->orphan || !k->a->row.generation, needed = false;
	bool old = k->oldest_wall_ns && s->created_wall_ns < k->oldest_wall_ns;
	unsigned n = 0;

	if (s->status != SNAP_READY && s->status != SNAP_FAILED)
		return true;
	/* Failed ones are counted by themselves: they must not push out what can be gone back to. */
	if (!s->orphan)
		n = s->status == SNAP_READY ? ++k->ready : ++k->failed;
	if (!gone &&
	    (id_equal(&s->id, &k->a->row.snapshot) || life_keep_restores(k->a, &s->id) || (n <= k->kept_most && !old)))
		return true;
	k->rc = snap_needed(k->db, &s->id, s->orphan ? NULL : s->agent, &needed, k->e);
	if (k->rc)
		return false;
	if (needed)
		return true; /* for the next time */
	k->why[k->n] = gone  ? "its agent is gone"
		       : old ? "retention: older than lifecycle.keep_age"
			     : "retention: more than lifecycle.keep_snapshots";
	k->drop[k->n++] = s->id;
	return k->n < DROPS_AT_ONCE;
}

static int life_keep_look(struct sqlite3 *db, void *job, struct err *e)
{
	struct keep *k = job;
	int rc;

	k->db = db;
	k->e = e;
	rc = snaps_of(db, k->a->name, life_keep_judge, k, e);
	return rc ? rc : k->rc;
}

bool life_removals_wait(const struct life *l)
{
	return l->host.removals_wait && l->host.removals_wait(l->host.ctx);
}

/* 0: any age. */
static int64_t oldest(const struct life *l)
{
	uint64_t age = life_scaled(&l->policy, l->policy.keep_age_ns);

	return age && !life_removals_wait(l) ? clock_wall_ns() - (int64_t)age : 0;
}

void life_keep(struct life_agent *a)
{
	struct keep k = {.a = a, .oldest_wall_ns = oldest(a->life), .kept_most = a->life->policy.keep_snapshots};

	if (store_read(a->life->store, life_keep_look, &k, NULL))
		return;
	for (size_t i = 0; i < k.n; i++)
		life_want_nobody(a, WANT_DROP, &k.drop[i], k.why[i]);
}

/* ---- all, some at a time: those that sleep cost no timer */

struct some {
	struct life *l;
	char name[SNAP_AGENTS][AGENT_NAME_MAX + 1];
	size_t n;
};

static int look_on(struct sqlite3 *db, void *job, struct err *e)
{
	struct some *s = job;

	return snaps_surplus(db, oldest(s->l), s->l->policy.keep_snapshots, s->l->keep_after, s->name, &s->n, e);
}

void life_keep_some(struct life *l)
{
	struct some s = {.l = l};

	life_hash(l); /* what a moment ago could not be told of */
	if (store_read(l->store, look_on, &s, NULL))
		return;
	for (size_t i = 0; i < s.n; i++) {
		struct life_agent *a = life_agent(l, s.name[i], NULL);

		if (a && !a->run)
			life_keep(a);
	}
}
