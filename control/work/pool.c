#define LOG_SUBSYS "pool"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/store/store.h"
#include "control/work/state.h"

#include <stdlib.h>
#include <string.h>

#define BACKOFF_MIN NS_PER_SEC
#define BACKOFF_MAX (60 * NS_PER_SEC)
#define LIST_AGAIN  (10 * NS_PER_SEC)

static const char *const state_names[] = {"filling", "ready", "claimed", "leased", "discarding"};

static uint64_t doubled(uint64_t ns)
{
	return ns < BACKOFF_MIN ? BACKOFF_MIN : ns * 2 > BACKOFF_MAX ? BACKOFF_MAX : ns * 2;
}

static struct log_ids ids_of(const struct pool_entry *p)
{
	return (struct log_ids){.agent = p->name, .lease = p->lease[0] ? p->lease : NULL};
}

void pool_set_state(struct pool_entry *p, enum pool_state s)
{
	struct log_ids ids = ids_of(p);

	log_debug(&ids, "%s -> %s", state_names[p->state], state_names[s]);
	p->state = s;
}

struct pool_entry *pool_add(struct work *w, const char *name, enum pool_state s)
{
	struct pool_entry *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->w = w;
	p->state = s;
	text_put(p->name, sizeof(p->name), name);
	HASH_ADD_STR(w->pool, name, p);
	return p;
}

struct pool_entry *pool_find(const struct work *w, const char *name)
{
	struct pool_entry *p = NULL;

	HASH_FIND_STR(w->pool, name, p);
	return p;
}

unsigned pool_count(const struct work *w, enum pool_state s)
{
	struct pool_entry *p, *next;
	unsigned n = 0;

	HASH_ITER(hh, w->pool, p, next)
	n += p->state == s;
	return n;
}

/* ---- the end of one: wiped, then its row goes */

struct pool_job {
	struct job j;
	char name[WORK_SANDBOX_MAX];
	char why[200];
};

static struct pool_job *pool_job_create(struct pool_entry *p)
{
	struct pool_job *k = job_create(p->w, sizeof(*k), NULL, NULL);

	if (!k)
		return NULL;
	memcpy(k->name, p->name, sizeof(k->name));
	memcpy(k->why, p->why, sizeof(k->why));
	return k;
}

static void try_later(struct pool_entry *p)
{
	p->backoff_ns = doubled(p->backoff_ns);
	p->retry_at = clock_boot_ns() + p->backoff_ns;
}

static int remove_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	return db_pool_remove(db, ((struct pool_job *)j)->name, e);
}

static void on_removed(struct job *j, int rc, const struct err *e)
{
	struct pool_entry *p = pool_find(j->w, ((struct pool_job *)j)->name);

	(void)e;
	if (!p)
		return;
	if (rc) {
		p->out = false;
		try_later(p);
		return;
	}
	HASH_DEL(j->w->pool, p);
	free(p);
	pool_tick(j->w, clock_boot_ns());
}

static void on_discarded(void *arg, int rc, const struct err *e)
{
	struct pool_entry *p = arg;
	struct log_ids ids = ids_of(p);
	struct pool_job *k;

	if (p->w->stopped)
		return;
	audit(p->w, "pool.discard", p->name, rc ? err_name(rc) : "ok",
	      json_pack("{s:s,s:s}", "why", p->why, "message", e ? e->message : ""));
	if (!rc && (k = pool_job_create(p))) {
		log_info(&ids, "wiped: %s", p->why);
		job_write(&k->j, remove_in_db, on_removed);
		return;
	}
	log_warn(&ids, "it could not be wiped, and is tried again: %s", e ? e->message : err_name(rc));
	p->out = false;
	try_later(p);
}

/* Who tries again hands in the cause that is there. */
static void keep_why(struct pool_entry *p, const char *why)
{
	if (why != p->why)
		text_put(p->why, sizeof(p->why), why);
}

static void wipe(struct pool_entry *p)
{
	p->out = true;
	p->retry_at = 0;
	p->w->host.discard(p->w->host.ctx, p->name, p->why, on_discarded, p);
}

void pool_discard(struct pool_entry *p, const char *why)
{
	keep_why(p, why);
	if (p->state != POOL_DISCARDING)
		pool_set_state(p, POOL_DISCARDING);
	if (!p->out)
		wipe(p);
}

static int discard_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	struct pool_job *k = (struct pool_job *)j;

	return db_pool_discard(db, k->name, k->why, e);
}

static void on_discard_stored(struct job *j, int rc, const struct err *e)
{
	struct pool_entry *p = pool_find(j->w, ((struct pool_job *)j)->name);

	(void)e;
	if (!p)
		return;
	p->out = false;
	if (rc) /* the row keeps its state: the next start puts it in order, if not the next try */
		try_later(p);
	else
		wipe(p);
}

void pool_give_up(struct pool_entry *p, const char *why)
{
	struct pool_job *k;

	if (p->state == POOL_DISCARDING)
		return;
	keep_why(p, why);
	pool_set_state(p, POOL_DISCARDING);
	if (p->out) /* the host's answer leads on */
		return;
	if (!(k = pool_job_create(p))) {
		try_later(p);
		return;
	}
	p->out = true;
	job_write(&k->j, discard_in_db, on_discard_stored);
}

/* ---- making one */

static int ready_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	return db_pool_ready(db, ((struct pool_job *)j)->name, e);
}

static void on_ready_stored(struct job *j, int rc, const struct err *e)
{
	struct pool_entry *p = pool_find(j->w, ((struct pool_job *)j)->name);

	(void)e;
	if (!p)
		return;
	p->out = false;
	if (rc || p->state != POOL_FILLING) {
		pool_set_state(p, POOL_READY);
		pool_give_up(p, p->why[0] ? p->why : "its row could not be stored");
		return;
	}
	pool_set_state(p, POOL_READY);
	lease_pump(j->w);
	pool_tick(j->w, clock_boot_ns());
}

static void fill_failed(struct pool_entry *p, int rc, const struct err *e)
{
	struct work *w = p->w;
	struct log_ids ids = ids_of(p);
	char why[200];

	log_warn(&ids, "no sandbox for the pool: %s", e ? e->message : err_name(rc));
	w->n.pool_fill_failed++;
	w->fill_backoff_ns = doubled(w->fill_backoff_ns);
	w->fill_at = clock_boot_ns() + w->fill_backoff_ns;
	audit(w, "pool.fill", p->name, err_name(rc), json_pack("{s:s}", "message", e ? e->message : ""));
	text_format(why, sizeof(why), "it could not be made: %.160s", e ? e->message : err_name(rc));
	pool_give_up(p, why);
	lease_fail_first(w, rc, e);
}

static void on_prepared(void *arg, int rc, const struct err *e)
{
	struct pool_entry *p = arg;
	struct pool_job *k;

	if (p->w->stopped)
		return;
	p->out = false;
	if (p->state != POOL_FILLING) { /* given up meanwhile */
		pool_set_state(p, POOL_FILLING);
		pool_give_up(p, p->why);
	} else if (rc) {
		fill_failed(p, rc, e);
	} else if ((k = pool_job_create(p))) {
		p->w->fill_backoff_ns = 0;
		p->out = true;
		audit(p->w, "pool.fill", p->name, "ok", NULL);
		job_write(&k->j, ready_in_db, on_ready_stored);
	} else {
		pool_give_up(p, "no memory");
	}
}

void pool_prepare(struct pool_entry *p)
{
	p->out = true;
	p->w->host.prepare(p->w->host.ctx, p->name, on_prepared, p);
}

static int insert_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	return db_pool_insert(db, ((struct pool_job *)j)->name, "filling", j->now_ns, e);
}

/* Its row is there before it is: a crash in between leaves nothing that nobody knows of. */
static void on_inserted(struct job *j, int rc, const struct err *e)
{
	struct pool_entry *p = pool_find(j->w, ((struct pool_job *)j)->name);

	if (!p)
		return;
	p->out = false;
	if (!rc) {
		pool_prepare(p);
		return;
	}
	log_warn(NULL, "the pool cannot be filled: %s", e ? e->message : err_name(rc));
	j->w->fill_backoff_ns = doubled(j->w->fill_backoff_ns);
	j->w->fill_at = clock_boot_ns() + j->w->fill_backoff_ns;
	HASH_DEL(j->w->pool, p);
	free(p);
	lease_fail_first(j->w, rc, e);
}

static void fill_one(struct work *w)
{
	char name[WORK_SANDBOX_MAX] = WORK_POOL_PREFIX;
	struct pool_entry *p;
	struct pool_job *k;
	struct id id;

	if (id_new(&id))
		return;
	id_format(&id, name + sizeof(WORK_POOL_PREFIX) - 1);
	p = pool_add(w, name, POOL_FILLING);
	if (!p || !(k = pool_job_create(p)))
		return;
	p->out = true;
	job_write(&k->j, insert_in_db, on_inserted);
}

/* ---- how many there should be */

static unsigned wishes_waiting(const struct work *w)
{
	const struct wish *each;
	unsigned n = 0;

	TAILQ_FOREACH(each, &w->wishes, entry)
	n++;
	return n;
}

static void shrink(struct work *w, unsigned surplus)
{
	struct pool_entry *p, *next;

	HASH_ITER(hh, w->pool, p, next)
	{
		if (!surplus)
			return;
		if (p->state == POOL_READY) {
			surplus--;
			pool_give_up(p, "more are ready than are needed");
		}
	}
}

static void on_list(void *arg, int rc, const struct err *e, const struct work_seen *list, size_t n);

void pool_tick(struct work *w, uint64_t now)
{
	unsigned ready = pool_count(w, POOL_READY), filling = pool_count(w, POOL_FILLING), waiting = wishes_waiting(w);
	unsigned target = demand_target(&w->demand, now, w->conf.pool_size, w->conf.pool_max);
	struct pool_entry *p, *next;

	if (!w->ready || w->stopped)
		return;
	if (w->list_at && now >= w->list_at) {
		w->list_at = 0;
		w->host.list(w->host.ctx, on_list, w);
	}
	w->n.pool_target = target;
	while (ready + filling < target + waiting && filling < w->conf.fill && now >= w->fill_at) {
		unsigned before = HASH_COUNT(w->pool);

		fill_one(w);
		if (HASH_COUNT(w->pool) == before)
			break; /* no memory: the next tick tries again */
		filling++;
	}
	if (!waiting && ready > target)
		shrink(w, ready - target);
	HASH_ITER(hh, w->pool, p, next)
	if (p->state == POOL_DISCARDING && !p->out && now >= p->retry_at) {
		pool_set_state(p, POOL_READY);
		pool_give_up(p, p->why);
	}
}

/* ---- after a start */

static bool runs(const struct work_seen *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i].name, name) == 0)
			return list[i].running;
	return false;
}

static void adopt_orphan(struct work *w, const char *name)
{
	struct pool_entry *p = pool_add(w, name, POOL_FILLING);
	struct log_ids ids = {.agent = name};

	log_warn(&ids, "a sandbox of the pool that no row knows of: wiped");
	if (p)
		pool_discard(p, "no row knows of it");
}

/* What is leased is reached again after a start: so its end is noticed, and who leased it does not wait. */
static void on_reached(void *arg, int rc, const struct err *e)
{
	struct pool_entry *p = arg;
	struct log_ids ids = ids_of(p);

	if (p->w->stopped)
		return;
	p->out = false;
	if (p->state == POOL_DISCARDING) /* its lease has ended meanwhile */
		wipe(p);
	else if (rc)
		log_warn(&ids, "leased, and not reached after a start: %s", e ? e->message : err_name(rc));
}

static void reach(struct pool_entry *p)
{
	p->out = true;
	p->w->host.prepare(p->w->host.ctx, p->name, on_reached, p);
}

static void on_list(void *arg, int rc, const struct err *e, const struct work_seen *list, size_t n)
{
	struct work *w = arg;
	struct lease *l, *next;

	if (w->stopped)
		return;
	if (rc) {
		log_warn(NULL, "which sandboxes of the pool run is not known, and is asked again: %s",
			 e ? e->message : err_name(rc));
		w->list_at = clock_boot_ns() + LIST_AGAIN;
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (work_is_pool_name(list[i].name) && !pool_find(w, list[i].name))
			adopt_orphan(w, list[i].name);
	HASH_ITER(hh, w->leases, l, next)
	{
		struct pool_entry *p = pool_find(w, l->row.sandbox);

		if (!runs(list, n, l->row.sandbox))
			work_sandbox_gone(w, l->row.sandbox, "it does not run after a start");
		else if (p && !p->out)
			reach(p);
	}
}

/* What was ready is reached again before it is handed out; what was leased has to be there. */
void pool_reconcile(struct work *w)
{
	struct pool_entry *p, *next;

	w->host.list(w->host.ctx, on_list, w);
	HASH_ITER(hh, w->pool, p, next)
	if (p->state == POOL_FILLING && !p->out)
		pool_prepare(p);
	else if (p->state == POOL_DISCARDING && !p->out)
		pool_discard(p, "left by a crash");
	pool_tick(w, clock_boot_ns());
}

void work_sandbox_gone(struct work *w, const char *agent, const char *why)
{
	char cause[200];
	struct lease_end end = {
	    .state = "RELEASED", .cause = cause, .run_state = "FAILED", .run_reason = "lost", .run_message = cause};
	struct pool_entry *p = w && w->ready && !w->stopped ? pool_find(w, agent) : NULL;
	struct lease *l;

	if (!p)
		return;
	text_format(cause, sizeof(cause), "lost: its sandbox ended: %.160s", why);
	if (p->state == POOL_READY)
		pool_give_up(p, cause);
	else if (p->state == POOL_LEASED && (l = lease_find(w, p->lease)) && !l->ending)
		lease_end(w, l, &end);
}

json_t *pool_json(struct work *w)
{
	json_t *list = json_array();
	struct pool_entry *p, *next;

	HASH_ITER(hh, w->pool, p, next)
	json_array_append_new(list, json_pack("{s:s,s:s,s:s?}", "sandboxId", p->name, "state", state_names[p->state],
					      "leaseId", p->lease[0] ? p->lease : NULL));
	return json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:o}", "size", (int)w->conf.pool_size, "max",
			 (int)w->conf.pool_max, "target", (int)w->n.pool_target, "ready",
			 (int)pool_count(w, POOL_READY), "filling", (int)pool_count(w, POOL_FILLING), "leased",
			 (int)(pool_count(w, POOL_LEASED) + pool_count(w, POOL_CLAIMED)), "discarding",
			 (int)pool_count(w, POOL_DISCARDING), "waiting", (int)wishes_waiting(w), "sandboxes", list);
}
