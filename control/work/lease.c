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

#define LIST_MAX   1000
#define WISHES_MAX 1000

struct lease *lease_find(const struct work *w, const char *id)
{
	struct lease *l = NULL;

	HASH_FIND_STR(w->leases, id, l);
	return l;
}

static struct log_ids ids_of(const struct lease_row *l)
{
	return (struct log_ids){.request = l->call, .agent = l->sandbox, .lease = l->id};
}

/* Into memory, with the time that is left of it on the boot clock. */
static struct lease *take(struct work *w, const struct lease_row *row)
{
	struct lease *l = calloc(1, sizeof(*l));
	int64_t left = row->expires_ns - now_wall(w);
	struct pool_entry *p = pool_find(w, row->sandbox);

	if (!l)
		return NULL;
	l->row = *row;
	l->deadline = clock_boot_ns() + (uint64_t)(left > 0 ? left : 0);
	HASH_ADD(hh, w->leases, row.id[0], strlen(l->row.id), l);
	if (p) {
		text_put(p->lease, sizeof(p->lease), row->id);
		text_put(p->principal, sizeof(p->principal), row->principal);
	}
	return l;
}

int lease_load(struct work *w, const struct lease_row *row)
{
	return take(w, row) ? 0 : ERR_NOMEM;
}

/* ---- asking for one */

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
	struct wish *wish, *each;
	size_t waiting = 0;

	TAILQ_FOREACH(each, &w->wishes, entry)
	waiting++;
	if (HASH_COUNT(w->leases) + pool_count(w, POOL_CLAIMED) + waiting >= w->conf.leases_max)
		return err_set(e, ERR_LIMIT, "%u leases are live: leases.max is reached", w->conf.leases_max);
	if (waiting >= WISHES_MAX || !(wish = calloc(1, sizeof(*wish))))
		return err_set(e, ERR_NOMEM, "too many wait for a sandbox");
	wish->row = *row;
	wish->done = done;
	wish->arg = arg;
	wish->asked = clock_boot_ns();
	wish->until = wish->asked + w->conf.wait_ns;
	TAILQ_INSERT_TAIL(&w->wishes, wish, entry);
	return 0;
}

void lease_create(struct work *w, const struct work_caller *c, const json_t *body, work_done *done, void *arg)
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
	lease_pump(w);
	pool_tick(w, clock_boot_ns());
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
	struct log_ids ids = ids_of(&k->row);
	uint64_t took = clock_boot_ns() - k->wish->asked;

	pool_set_state(p, POOL_LEASED);
	snprintf(k->row.state, sizeof(k->row.state), "ACTIVE");
	if (!take(w, &k->row)) {
		log_error(&ids, "granted, and not watched for want of memory: it ends at the next start");
	}
	w->n.leases_granted++;
	w->n.claim_duration_ns += took;
	count_time(w->n.claim_buckets, work_claim_bucket_ms, took);
	log_info(&ids, "granted to %s for %lld s", k->row.user, (long long)k->row.ttl_s);
	job_answer(&k->j, 0, NULL, granted_json(&k->row));
}

static void on_claimed(struct job *j, int rc, const struct err *e)
{
	struct claim *k = (struct claim *)j;
	struct work *w = j->w;
	struct pool_entry *p = pool_find(w, k->row.sandbox);

	if (!rc && !k->seen) {
		claim_granted(k);
		pool_tick(w, clock_boot_ns());
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
	lease_pump(w);
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
	job_write(&k->j, claim_in_db, on_claimed);
}

void lease_pump(struct work *w)
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

static void wish_fail(struct work *w, struct wish *wish, int rc, const struct err *e)
{
	TAILQ_REMOVE(&w->wishes, wish, entry);
	answer(wish->done, wish->arg, rc, e, NULL);
	free(wish);
}

void lease_fail_first(struct work *w, int rc, const struct err *e)
{
	if (!TAILQ_EMPTY(&w->wishes))
		wish_fail(w, TAILQ_FIRST(&w->wishes), rc, e);
}

/* ---- heartbeat */

struct beat {
	struct job j;
	char id[ID_STR_LEN];
	int64_t expires_ns;
	bool counted; /* its lease knows of it */
};

static int beat_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	struct beat *b = (struct beat *)j;

	return db_lease_extend(db, b->id, b->expires_ns, e);
}

static void on_beaten(struct job *j, int rc, const struct err *e)
{
	struct beat *b = (struct beat *)j;
	struct lease *l = lease_find(j->w, b->id);
	struct err here = {0};

	if (l && b->counted)
		l->beats--;
	if (!rc && !l)
		rc = err_set(&here, ERR_BAD_STATE, "the lease has ended"), e = &here;
	if (!rc) {
		uint64_t left = (uint64_t)l->row.ttl_s * NS_PER_SEC, until = clock_boot_ns() + left;

		if (b->expires_ns > l->row.expires_ns)
			l->row.expires_ns = b->expires_ns;
		l->deadline = until > l->deadline ? until : l->deadline;
	}
	job_answer(j, rc, e, rc ? NULL : lease_row_json(&l->row));
}

/* The one that is meant, from memory or the store, when the caller may touch it. */
struct get {
	const char *id;
	struct lease_row *row;
	bool found;
};

static int get_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct get *g = arg;

	return db_lease_get(db, g->id, g->row, &g->found, e);
}

static int find_row(struct work *w, const struct work_caller *c, const char *id, struct lease_row *out, struct err *e)
{
	char text[ID_STR_LEN];
	struct get g = {.id = text, .row = out};
	struct id parsed;
	int rc;

	if (id_parse(id, &parsed))
		return err_set(e, ERR_INVAL, "\"%.64s\" is not the id of a lease", id);
	id_format(&parsed, text);
	rc = store_read(w->store, get_in_db, &g, e);
	if (!rc && !g.found)
		rc = err_set(e, ERR_NOT_FOUND, "there is no lease %s", text);
	return rc ? rc : may_touch(c, out->principal, "lease", text, e);
}

static int must_live(const struct lease_row *l, struct err *e)
{
	char when[40];

	if (strcmp(l->state, "ACTIVE") == 0)
		return 0;
	clock_format_utc(l->ended_ns, when, sizeof(when));
	return err_set(e, ERR_BAD_STATE, "the lease is %s since %s (%.100s): it has to be ACTIVE", l->state, when,
		       l->cause);
}

void lease_heartbeat(struct work *w, const struct work_caller *c, const char *id, work_done *done, void *arg)
{
	struct lease_row row;
	struct err e = {0};
	struct lease *l;
	struct beat *b;
	int rc = find_row(w, c, id, &row, &e);

	if (!rc)
		rc = must_live(&row, &e);
	if (rc) {
		answer(done, arg, rc, &e, NULL);
		return;
	}
	if (!(b = job_create(w, sizeof(*b), done, arg)))
		return;
	memcpy(b->id, row.id, sizeof(b->id));
	b->expires_ns = now_wall(w) + row.ttl_s * (int64_t)NS_PER_SEC;
	if ((l = lease_find(w, b->id)))
		l->beats++, b->counted = true;
	job_write(&b->j, beat_in_db, on_beaten);
}

/* ---- the end: by release, by time, with its run, with its sandbox */

struct ending {
	struct job j;
	struct lease_row row; /* as it is after the transaction */
	bool ended;           /* by this one */
	bool released;        /* asked for by a call */
	char state[12], cause[200], run_state[12], run_reason[12], run_message[200];
	char *steps;
};

static int end_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	struct ending *x = (struct ending *)j;
	struct db_end end = {.lease = x->row.id,
			     .state = x->state,
			     .cause = x->cause,
			     .run_state = x->run_state,
			     .run_reason = x->run_reason[0] ? x->run_reason : NULL,
			     .run_message = x->run_message[0] ? x->run_message : NULL,
			     .steps = x->steps,
			     .now_ns = j->now_ns};
	char id[ID_STR_LEN];
	bool found = false;
	int rc;

	memcpy(id, x->row.id, sizeof(id));
	rc = db_lease_get(db, id, &x->row, &found, e);
	if (rc || !found)
		return rc ? rc : err_set(e, ERR_NOT_FOUND, "there is no lease %s", id);
	if (strcmp(x->row.state, "ACTIVE") != 0)
		return 0;
	end.lease = id;
	rc = db_lease_end(db, &end, e);
	x->ended = !rc;
	return rc ? rc : db_lease_get(db, id, &x->row, &found, e);
}

/* Memory follows: the run is over, the sandbox is wiped. */
static void apply_end(struct work *w, struct ending *x)
{
	struct lease *l = lease_find(w, x->row.id);
	struct pool_entry *p = pool_find(w, x->row.sandbox);
	struct log_ids ids = ids_of(&x->row);

	log_info(&ids, "%s: %s", x->row.state, x->row.cause);
	w->n.leases_expired += strcmp(x->row.state, "EXPIRED") == 0;
	w->n.leases_released += strcmp(x->row.state, "RELEASED") == 0;
	if (l) {
		if (l->run)
			run_over(l->run, x->run_state, x->run_reason);
		HASH_DEL(w->leases, l);
		free(l);
	}
	if (p)
		pool_discard(p, x->row.cause);
}

static void on_ended(struct job *j, int rc, const struct err *e)
{
	struct ending *x = (struct ending *)j;
	struct lease *l = lease_find(j->w, x->row.id);
	struct err here = {0};

	if (!rc && x->ended)
		apply_end(j->w, x);
	else if (rc && l)
		l->ending = false; /* the next tick, or call, tries again */
	if (rc && !x->released)
		log_error(&(struct log_ids){.lease = x->row.id}, "its end could not be stored: %s",
			  e ? e->message : err_name(rc));
	if (!rc && !x->ended && strcmp(x->row.state, "EXPIRED") == 0)
		rc = must_live(&x->row, &here), e = &here;
	job_answer(j, rc, e, rc ? NULL : lease_row_json(&x->row));
}

static void drop_ending(struct job *j)
{
	free(((struct ending *)j)->steps);
}

static void fill_run(struct ending *x, const char *state, const char *reason, const char *message, const json_t *steps)
{
	text_put(x->run_state, sizeof(x->run_state), state);
	text_put(x->run_reason, sizeof(x->run_reason), reason);
	text_put(x->run_message, sizeof(x->run_message), message);
	x->steps = steps ? json_dumps(steps, JSON_COMPACT) : NULL;
}

static void begin_end(struct work *w, const char *id, const struct lease_end *by, bool released, work_done *done,
		      void *arg)
{
	struct ending *x = job_create(w, sizeof(*x), done, arg);
	struct lease *l = lease_find(w, id);

	if (!x)
		return;
	if (l)
		l->ending = true;
	x->j.drop = drop_ending;
	x->released = released;
	text_put(x->row.id, sizeof(x->row.id), id);
	text_put(x->state, sizeof(x->state), by->state);
	text_put(x->cause, sizeof(x->cause), by->cause);
	if (l && l->run && l->run->ending) /* what came of it is known, and could not be stored so far */
		fill_run(x, l->run->row.state, l->run->row.reason, l->run->row.message, l->run->results);
	else
		fill_run(x, by->run_state, by->run_reason, by->run_message, NULL);
	job_write(&x->j, end_in_db, on_ended);
}

void lease_end(struct work *w, struct lease *l, const struct lease_end *x)
{
	begin_end(w, l->row.id, x, false, NULL, NULL);
}

void lease_release(struct work *w, const struct work_caller *c, const char *id, work_done *done, void *arg)
{
	static const struct lease_end by = {.state = "RELEASED",
					    .cause = "released",
					    .run_state = "FAILED",
					    .run_reason = "released",
					    .run_message = "its lease was released"};
	struct lease_row row;
	struct err e = {0};
	int rc = find_row(w, c, id, &row, &e);

	if (!rc && strcmp(row.state, "EXPIRED") == 0)
		rc = must_live(&row, &e);
	if (rc)
		answer(done, arg, rc, &e, NULL);
	else
		begin_end(w, row.id, &by, true, done, arg);
}

void lease_tick(struct work *w, uint64_t now)
{
	static const struct lease_end by = {.state = "EXPIRED",
					    .cause = "its time was over",
					    .run_state = "FAILED",
					    .run_reason = "expired",
					    .run_message = "its lease expired"};
	struct lease *l, *next;
	struct wish *wish, *after;
	struct err e = {0};

	HASH_ITER(hh, w->leases, l, next)
	if (!l->ending && !l->beats && now >= l->deadline)
		lease_end(w, l, &by);
	err_set(&e, ERR_SANDBOX_TIMEOUT, "no sandbox of the pool became ready in time (leases.wait): try again");
	for (wish = TAILQ_FIRST(&w->wishes); wish; wish = after) {
		after = TAILQ_NEXT(wish, entry);
		if (now >= wish->until)
			wish_fail(w, wish, e.code, &e);
	}
}

/* ---- looking */

int lease_show(struct work *w, const struct work_caller *c, const char *id, json_t **out, struct err *e)
{
	struct lease_row row;
	int rc = find_row(w, c, id, &row, e);

	if (rc)
		return rc;
	*out = lease_row_json(&row);
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory");
}

struct listing {
	const char *principal, *state;
	int64_t limit;
	json_t *list;
};

static int list_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct listing *k = arg;

	return db_leases_json(db, k->principal, k->state, (size_t)k->limit, k->list, e);
}

int lease_list(struct work *w, const struct work_caller *c, const json_t *body, json_t **out, struct err *e)
{
	static const char *const keys[] = {"state", "limit", NULL};
	struct listing k = {.principal = c->sees_all ? NULL : c->principal, .limit = 100};
	int rc = body ? json_only_keys(body, keys, e) : 0;

	if (!rc && body)
		rc = json_opt_str(body, "state", &k.state, e);
	if (!rc && body)
		rc = json_opt_int(body, "limit", 1, LIST_MAX, &k.limit, e);
	if (!rc && k.state && strcmp(k.state, "ACTIVE") != 0 && strcmp(k.state, "EXPIRED") != 0 &&
	    strcmp(k.state, "RELEASED") != 0)
		rc = err_set(e, ERR_INVAL, "state is none of ACTIVE, EXPIRED, RELEASED");
	if (rc)
		return rc;
	k.list = json_array();
	rc = k.list ? store_read(w->store, list_in_db, &k, e) : err_set(e, ERR_NOMEM, "no memory");
	*out = rc ? NULL : json_pack("{s:O}", "leases", k.list);
	json_decref(k.list);
	return rc;
}
