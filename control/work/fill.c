/* How many sandboxes there should be in the pool, and the making of them. */
#define LOG_SUBSYS "pool"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/work/state.h"

#include <stdlib.h>
#include <string.h>

static int ready_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	return db_pool_ready(db, ((struct pool_job *)j)->name, e);
}

static void fill_on_ready_stored(struct job *j, int rc, const struct err *e)
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
	wishes_pump(j->w);
	fill_tick(j->w, clock_boot_ns());
}

static void fill_failed(struct pool_entry *p, int rc, const struct err *e)
{
	struct work *w = p->w;
	struct log_ids ids = {.agent = p->name};
	char why[200];

	log_warn(&ids, "no sandbox for the pool: %s", e ? e->message : err_name(rc));
	w->n.pool_fill_failed++;
	w->fill_backoff_ns = pool_back_off(w->fill_backoff_ns);
	w->fill_at = clock_boot_ns() + w->fill_backoff_ns;
	audit(w, "pool.fill", p->name, err_name(rc), json_pack("{s:s}", "message", e ? e->message : ""));
	text_format(why, sizeof(why), "it could not be made: %.160s", e ? e->message : err_name(rc));
	pool_give_up(p, why);
	wishes_fail_first(w, rc, e);
}

static void fill_on_prepared(void *arg, int rc, const struct err *e)
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
		job_write(&k->j, ready_in_db, fill_on_ready_stored);
	} else {
		pool_give_up(p, "no memory");
	}
}

void fill_prepare(struct pool_entry *p)
{
	p->out = true;
	p->w->host.prepare(p->w->host.ctx, p->name, fill_on_prepared, p);
}

static int insert_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	return db_pool_insert(db, ((struct pool_job *)j)->name, "filling", j->now_ns, e);
}

/* Its row is there before it is: a crash in between leaves nothing that nobody knows of. */
static void fill_on_inserted(struct job *j, int rc, const struct err *e)
{
	struct pool_entry *p = pool_find(j->w, ((struct pool_job *)j)->name);

	if (!p)
		return;
	p->out = false;
	if (!rc) {
		fill_prepare(p);
		return;
	}
	log_warn(NULL, "the pool cannot be filled: %s", e ? e->message : err_name(rc));
	j->w->fill_backoff_ns = pool_back_off(j->w->fill_backoff_ns);
	j->w->fill_at = clock_boot_ns() + j->w->fill_backoff_ns;
	HASH_DEL(j->w->pool, p);
	free(p);
	wishes_fail_first(j->w, rc, e);
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
	job_write(&k->j, insert_in_db, fill_on_inserted);
}

/* ---- how many */

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

void fill_tick(struct work *w, uint64_t now)
{
	unsigned ready = pool_count(w, POOL_READY), filling = pool_count(w, POOL_FILLING), waiting = pool_waiting(w);
	unsigned target = demand_target(&w->demand, now, w->conf.pool_size, w->conf.pool_max);
	struct pool_entry *p, *next;

	if (!w->ready || w->stopped)
		return;
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
