/*
 * After a start: what a crash left is put in order, what is stored is read, and the pool is compared with what runs.
 * Nothing is served before that; where it fails (a full disk) it is done again until it does not.
 */
#define LOG_SUBSYS "work"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/store/store.h"
#include "control/work/state.h"

#include <string.h>

#define LIST_AGAIN (10 * NS_PER_SEC)
#define MEND_FIRST NS_PER_SEC
#define MEND_MOST  (10 * NS_PER_SEC)

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
static void recover_on_reached(void *arg, int rc, const struct err *e)
{
	struct pool_entry *p = arg;
	struct log_ids ids = {.agent = p->name};

	if (p->w->stopped)
		return;
	work_log_ids(&p->ids, &ids);
	p->out = false;
	if (p->state == POOL_DISCARDING) /* its lease has ended meanwhile */
		pool_discard(p, p->why);
	else if (rc)
		log_warn(&ids, "leased, and not reached after a start: %s", e ? e->message : err_name(rc));
}

static void recover_reach(struct pool_entry *p)
{
	p->out = true;
	p->w->host.prepare(p->w->host.ctx, p->name, recover_on_reached, p);
}

static void look_for_orphans(struct work *w, const struct work_seen *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char sandbox[AGENT_NAME_MAX + 1]; /* a fork that was left ends with it */

		target_origin(list[i].name, sandbox);
		if (work_is_pool_name(sandbox) && !pool_find(w, sandbox))
			adopt_orphan(w, sandbox);
	}
}

/* A lease that was granted after the start is not judged: the list may be older than its sandbox. */
static void look_for_leased(struct work *w, const struct work_seen *list, size_t n)
{
	struct lease *l, *next;

	HASH_ITER(hh, w->leases, l, next)
	{
		struct pool_entry *p = pool_find(w, l->row.sandbox);

		if (!l->unseen)
			continue;
		l->unseen = false;
		if (!runs(list, n, l->row.sandbox))
			work_sandbox_gone(w, l->row.sandbox, "it does not run after a start");
		else if (p && !p->out)
			recover_reach(p);
	}
}

static void recover_on_list(void *arg, int rc, const struct err *e, const struct work_seen *list, size_t n)
{
	struct work *w = arg;

	if (w->stopped)
		return;
	w->listing = false;
	if (rc) {
		log_warn(NULL, "which sandboxes of the pool run is not known, and is asked again: %s",
			 e ? e->message : err_name(rc));
		w->list_at = clock_boot_ns() + LIST_AGAIN;
	} else {
		look_for_orphans(w, list, n);
		look_for_leased(w, list, n);
	}
	pool_forget_gone(w);
}

static void recover_ask_list(struct work *w)
{
	w->listing = true;
	w->host.list(w->host.ctx, recover_on_list, w);
}

/* What was ready is reached again before it is handed out; what was leased has to be there. */
static void reconcile(struct work *w)
{
	struct pool_entry *p, *next;

	recover_ask_list(w);
	HASH_ITER(hh, w->pool, p, next)
	if (p->state == POOL_FILLING && !p->out)
		fill_prepare(p);
	else if (p->state == POOL_DISCARDING && !p->out)
		pool_discard(p, "left by a crash");
	fill_tick(w, clock_boot_ns());
}

struct mend_job {
	struct job j;
	struct db_mended mended;
};

static int mend(struct sqlite3 *db, struct job *j, struct err *e)
{
	return db_mend(db, j->now_ns, &((struct mend_job *)j)->mended, e);
}

static int load_lease(void *arg, const struct lease_row *l)
{
	int rc = lease_add(arg, l);

	if (!rc)
		lease_find(arg, l->id)->unseen = true;
	return rc;
}

static int load_pool(void *arg, const char *sandbox, const char *state, const struct work_ids *ids)
{
	enum pool_state s = strcmp(state, "ready") == 0    ? POOL_FILLING /* until it is reached again */
			    : strcmp(state, "leased") == 0 ? POOL_LEASED
							   : POOL_DISCARDING;
	struct pool_entry *p = pool_add(arg, sandbox, s);

	if (!p)
		return ERR_NOMEM;
	p->ids = *ids;
	return 0;
}

static int recover_load(struct sqlite3 *db, void *arg, struct err *e)
{
	int rc = db_pool_all(db, load_pool, arg, e);

	return rc ? rc : db_leases_active(db, load_lease, arg, e);
}

/* Said once for each reason, and not for each try. */
static void mend_failed(struct work *w, int rc, const struct err *e)
{
	leases_forget(w); /* as much as was read */
	pool_forget(w);
	w->mend.at = clock_boot_ns() + backoff(++w->mend.failures, MEND_FIRST, MEND_MOST);
	if (rc != w->mend.code)
		log_error(NULL, "leases and pool are not served, and tried again: %s", e ? e->message : err_name(rc));
	w->mend.code = rc;
}

static void recover_on_mended(struct job *j, int rc, const struct err *e)
{
	struct db_mended *m = &((struct mend_job *)j)->mended;
	struct work *w = j->w;
	struct err here = {0};

	if (!rc)
		rc = store_read(w->store, recover_load, w, &here), e = &here;
	if (rc) {
		mend_failed(w, rc, e);
		return;
	}
	if (w->mend.failures)
		log_info(NULL, "leases and pool are served, after %u tries that failed", w->mend.failures);
	w->mend.failures = 0;
	w->n.runs_failed[1] += (uint64_t)m->runs;
	if (m->runs || m->leases || m->sandboxes) {
		log_warn(NULL, "left by the last end: %d runs, %d leases, %d sandboxes", m->runs, m->leases,
			 m->sandboxes);
		audit(w, "work.mend", NULL, "ok",
		      json_pack("{s:i,s:i,s:i}", "runs_failed", m->runs, "leases_ended", m->leases, "sandboxes",
				m->sandboxes));
	}
	outbox_tell(w);
	w->ready = true;
	reconcile(w);
}

void recover_begin(struct work *w)
{
	struct mend_job *j = job_create(w, sizeof(*j), NULL, NULL);

	w->mend.at = UINT64_MAX; /* until this one has ended */
	if (j)
		job_write(&j->j, mend, recover_on_mended);
	else
		mend_failed(w, ERR_NOMEM, NULL);
}

void recover_tick(struct work *w, uint64_t now)
{
	if (!w->ready && now >= w->mend.at)
		recover_begin(w);
	if (!w->list_at || now < w->list_at)
		return;
	w->list_at = 0;
	recover_ask_list(w);
}
