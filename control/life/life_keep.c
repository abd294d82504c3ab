/* Retention: an agent's snapshots by count and age. Its current one never goes, nor one that is gone back to, nor one
 * that a fork needs. */
#define LOG_SUBSYS "life"
#include "control/life/life_state.h"
#include "control/store/store.h"
#include "muxd/base/clock.h"

#include <stdio.h>

#define DROPS_AT_ONCE 16

struct keep {
	struct life_agent *a;
	int64_t oldest_wall_ns; /* 0: any age */
	unsigned ready, failed, kept_most;
	struct id drop[DROPS_AT_ONCE];
	bool aged[DROPS_AT_ONCE];
	size_t n;
};

bool life_keep_restores(const struct life_agent *a, const struct id *snapshot)
{
	const struct life_waiter *w;

	TAILQ_FOREACH(w, &a->waiters, entry)
	if (w->want == WANT_RESTORE && id_equal(&w->snapshot, snapshot))
		return true;
	return false;
}

static bool judge(void *arg, const struct life_snap *s)
{
	struct keep *k = arg;
	bool old = k->oldest_wall_ns && s->created_wall_ns < k->oldest_wall_ns, used;
	unsigned n;

	if (s->status != SNAP_READY && s->status != SNAP_FAILED)
		return true;
	used = id_equal(&s->id, &k->a->row.snapshot) || life_keep_restores(k->a, &s->id);
	/* Failed ones are counted by themselves: they must not push out what can be gone back to. */
	n = s->status == SNAP_READY ? ++k->ready : ++k->failed;
	if (used || (n <= k->kept_most && !old))
		return true;
	k->aged[k->n] = old;
	k->drop[k->n++] = s->id;
	return k->n < DROPS_AT_ONCE;
}

static int look(struct sqlite3 *db, void *job, struct err *e)
{
	struct keep *k = job;
	bool needed = false;
	size_t left = 0;
	int rc = snaps_of(db, k->a->name, judge, k, e);

	for (size_t i = 0; !rc && i < k->n; i++) {
		rc = snap_needed(db, &k->drop[i], k->a->name, &needed, e);
		if (needed)
			continue; /* for the next time */
		k->aged[left] = k->aged[i];
		k->drop[left++] = k->drop[i];
	}
	k->n = left;
	return rc;
}

void life_keep(struct life_agent *a)
{
	const struct life_policy *p = &a->life->policy;
	uint64_t age = life_scaled(p, p->keep_age_ns);
	struct keep k = {.a = a, .kept_most = p->keep_snapshots};

	if (age)
		k.oldest_wall_ns = clock_wall_ns() - (int64_t)age;
	if (store_read(a->life->store, look, &k, NULL))
		return;
	for (size_t i = 0; i < k.n; i++)
		life_want_nobody(a, WANT_DROP, &k.drop[i],
				 k.aged[i] ? "retention: older than lifecycle.keep_age"
					   : "retention: more than lifecycle.keep_snapshots");
}
