/* Who waits for a sandbox: the call for a lease, and the claim that makes one of a wish and a ready sandbox. */
#define LOG_SUBSYS "lease"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "control/store/store.h"
#include "control/work/state.h"

#include <stdlib.h>
#include <string.h>

#define WISHES_MAX 1000

/* Exactly the three fields while it lives; a repeated call hears what became of it. */
static json_t *granted_json(const struct lease_row *l)
{
	char expires[40];
	json_t *o;

	clock_format_utc(l->expires_ns, expires, sizeof(expires));
	o = json_pack("{s:s,s:s,s:s}", "leaseId", l->id, "sandboxId", l->sandbox, "expiresAt", expires);
	if (o && strcmp(l->state, "ACTIVE") != 0)
		json_object_set_new(o, "state", json_string(l->state));
	return o;
}

/* The same key again: the same lease, or a conflict that names it. */
static void answer_seen(work_done *done, void *arg, const struct lease_row *asked, const struct lease_row *first)
{
	struct err e = {0};

	if (asked->asked_ttl_s == first->asked_ttl_s) {
		answer(done, arg, 0, NULL, granted_json(first));
		return;
	}
	err_set(&e, ERR_CONFLICT, "requestId %.64s was used with another ttlSeconds: lease %s", asked->request,
		first->id);
	answer(done, arg, e.code, &e, NULL);
}

struct lookup {
	const struct work_caller *caller;
	const struct lease_row *key;
	struct lease_row *found;
	bool seen;
};

static int look_up(struct sqlite3 *db, void *arg, struct err *e)
{
	struct lookup *k = arg;
	struct workflow_row wf = {0};
	int rc = db_lease_by_key(db, k->key, k->found, &k->seen, e);

	if (rc || k->seen)
		return rc;
	rc = workflow_find(db, k->caller, k->key->workflow, &wf, e);
	free(wf.body);
	return rc;
}

static int wish_add(struct work *w, const struct lease_row *row, work_done *done, void *arg, struct err *e)
{
	size_t waiting = pool_waiting(w), live = HASH_COUNT(w->leases) + pool_count(w, POOL_CLAIMED) + waiting;
	struct wish *wish;

	if (live >= w->conf.leases_max)
		return err_limit(e, ERR_LIMIT, &(struct err_share){"leases.max", "daemon", w->conf.leases_max, live, 5},
				 "%u leases are live: leases.max is reached", w->conf.leases_max);
	if (waiting >= WISHES_MAX)
		return err_limit(e, ERR_LIMIT,
				 &(struct err_share){"fixed.lease_waits", "daemon", WISHES_MAX, waiting, 5},
				 "%zu calls wait for a sandbox of the pool already", waiting);
	if (!(wish = calloc(1, sizeof(*wish))))
		return err_set(e, ERR_NOMEM, "no memory");
	wish->row = *row;
	wish->done = done;
	wish->arg = arg;
	wish->asked = clock_boot_ns();
	wish->until = wish->asked + w->conf.wait_ns;
	TAILQ_INSERT_TAIL(&w->wishes, wish, entry);
	return 0;
}

/* ---- the claim: lease and sandbox in one transaction */

struct claim {
	struct job j;
	struct wish *wish;
	struct lease_row row, first;
	bool seen;
};

static int claim_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	struct claim *k = (struct claim *)j;
	int rc = db_lease_by_key(db, &k->row, &k->first, &k->seen, e);

	return rc || k->seen ? rc : db_lease_claim(db, &k->row, e);
}

static void claim_granted(struct claim *k)
{
	struct work *w = k->j.w;
	struct pool_entry *p = pool_find(w, k->row.sandbox);
	struct log_ids ids = lease_ids(&k->row);
	uint64_t took = clock_boot_ns() - k->wish->asked;

	snprintf(k->row.state, sizeof(k->row.state), "ACTIVE");
	if (lease_add(w, &k->row))
		log_error(&ids, "granted, and not watched for want of memory: it ends at the next start");
	pool_set_state(p, POOL_LEASED);
	w->n.leases_granted++;
	w->n.claim_duration_ns += took;
	count_time(w->n.claim_buckets, work_claim_bucket_ms, took);
	log_info(&ids, "granted to %s for %lld s", k->row.user, (long long)k->row.ttl_s);
	job_answer(&k->j, 0, NULL, granted_json(&k->row));
}

static void wish_on_claimed(struct job *j, int rc, const struct err *e)
{
	struct claim *k = (struct claim *)j;
	struct work *w = j->w;
	struct pool_entry *p = pool_find(w, k->row.sandbox);

	if (!rc && !k->seen) {
		claim_granted(k);
		return;
	}
	if (rc == ERR_BAD_STATE) /* the row is elsewhere than memory: it is not to be trusted */
		pool_give_up(p, "its row and memory differed");
	else
		pool_set_state(p, POOL_READY);
	if (!rc) {
		work_done *done = j->done;

		j->done = NULL;
		answer_seen(done, j->arg, &k->row, &k->first);
	} else {
		job_answer(j, rc, e, NULL);
	}
	wishes_pump(w);
}

static void drop_claim(struct job *j)
{
	free(((struct claim *)j)->wish);
}

/* The wish becomes the job's. */
static void claim(struct work *w, struct wish *wish, struct pool_entry *p)
{
	struct claim *k = job_create(w, sizeof(*k), wish->done, wish->arg);
	struct id id;

	TAILQ_REMOVE(&w->wishes, wish, entry);
	if (!k) {
		free(wish);
		return;
	}
	pool_set_state(p, POOL_CLAIMED);
	k->wish = wish;
	k->row = wish->row;
	k->j.drop = drop_claim;
	(void)id_new(&id);
	id_format(&id, k->row.id);
	text_put(k->row.sandbox, sizeof(k->row.sandbox), p->name);
	k->row.created_ns = now_wall(w);
	k->row.expires_ns = k->row.created_ns + k->row.ttl_s * (int64_t)NS_PER_SEC;
	job_write(&k->j, claim_in_db, wish_on_claimed);
}

void wishes_pump(struct work *w)
{
	struct pool_entry *p, *next;

	HASH_ITER(hh, w->pool, p, next)
	{
		if (TAILQ_EMPTY(&w->wishes))
			return;
		if (p->state == POOL_READY)
			claim(w, TAILQ_FIRST(&w->wishes), p);
	}
}

/* ---- the call, and its wait */

void wish_create(struct work *w, const struct work_caller *c, const json_t *body, work_done *done, void *arg)
{
	struct lease_row row = {0}, found;
	struct lookup k = {.caller = c, .key = &row, .found = &found};
	struct err e = {0};
	int rc = lease_body(body, &w->conf.limits, &row, &e);

	text_put(row.principal, sizeof(row.principal), c->principal);
	text_put(row.call, sizeof(row.call), c->request);
	if (!rc)
		rc = may_act_for(c, row.user, &e);
	if (!rc)
		rc = store_read(w->store, look_up, &k, &e);
	if (!rc && k.seen) {
		answer_seen(done, arg, &row, &found);
		return;
	}
	if (!rc)
		rc = wish_add(w, &row, done, arg, &e);
	if (rc) {
		answer(done, arg, rc, &e, NULL);
		return;
	}
	demand_note(&w->demand, clock_boot_ns());
	wishes_pump(w);
}

static void wish_fail(struct work *w, struct wish *wish, int rc, const struct err *e)
{
	TAILQ_REMOVE(&w->wishes, wish, entry);
	answer(wish->done, wish->arg, rc, e, NULL);
	free(wish);
}

void wishes_fail_first(struct work *w, int rc, const struct err *e)
{
	if (!TAILQ_EMPTY(&w->wishes))
		wish_fail(w, TAILQ_FIRST(&w->wishes), rc, e);
}

void wishes_tick(struct work *w, uint64_t now)
{
	struct wish *wish, *after;
	struct err e = {0};

	err_set(&e, ERR_SANDBOX_TIMEOUT, "no sandbox of the pool became ready in time (leases.wait): try again");
	for (wish = TAILQ_FIRST(&w->wishes); wish; wish = after) {
		after = TAILQ_NEXT(wish, entry);
		if (now >= wish->until)
			wish_fail(w, wish, e.code, &e);
	}
}
