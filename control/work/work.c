/* Leases, runs and the pool as the rest sees them: made, begun, asked, stopped. */
#define LOG_SUBSYS "work"
#include "control/work/work.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/tick.h"
#include "control/work/state.h"
#include "control/work/workflow.h"

#include <stdlib.h>
#include <string.h>

#define TICK_MS  500
#define REST_MS  1000 /* whatever begins meanwhile has a second or more to go */
#define PURGE_NS (3600 * NS_PER_SEC)

static const char *const call_names[WORK_CALLS] = {
    [WORK_LEASE_CREATE] = "lease.create",   [WORK_LEASE_LIST] = "lease.list",
    [WORK_LEASE_SHOW] = "lease.show",       [WORK_LEASE_HEARTBEAT] = "lease.heartbeat",
    [WORK_LEASE_RELEASE] = "lease.release", [WORK_RUN_START] = "run.start",
    [WORK_RUN_LIST] = "run.list",           [WORK_RUN_SHOW] = "run.show",
    [WORK_WORKFLOW_PUT] = "workflow.put",   [WORK_WORKFLOW_LIST] = "workflow.list",
    [WORK_WORKFLOW_SHOW] = "workflow.show", [WORK_POOL_SHOW] = "pool.show",
};

const char *work_call_name(enum work_call c)
{
	return call_names[c];
}

int work_call_parse(const char *name, enum work_call *out)
{
	for (int i = 0; i < WORK_CALLS; i++)
		if (strcmp(call_names[i], name) == 0) {
			*out = (enum work_call)i;
			return 0;
		}
	return ERR_INVAL;
}

bool work_call_changes(enum work_call c)
{
	return c == WORK_LEASE_CREATE || c == WORK_LEASE_HEARTBEAT || c == WORK_LEASE_RELEASE || c == WORK_RUN_START ||
	       c == WORK_WORKFLOW_PUT;
}

/* ---- making and ending */

static void read_conf(struct work *w, const struct conf *c)
{
	w->conf = (struct work_conf){
	    .pool_size = c->pool_size,
	    .pool_max = c->pool_max > c->pool_size ? c->pool_max : c->pool_size,
	    .leases_max = c->leases_max,
	    .fill = c->pool_fill,
	    .wait_ns = c->lease_wait_ns,
	    .retain_ns = c->lease_retain_ns,
	    .memory_max = c->memory_max,
	    .limits = {.ttl_s = (int64_t)(c->lease_ttl_ns / NS_PER_SEC),
		       .ttl_max_s = (int64_t)(c->lease_ttl_max_ns / NS_PER_SEC),
		       .run_timeout_s = (int64_t)(c->run_timeout_ns / NS_PER_SEC),
		       .run_timeout_max_s = (int64_t)(c->run_timeout_max_ns / NS_PER_SEC)},
	};
}

int work_create(const struct work_params *p, struct work **out, struct err *e)
{
	struct work *w = calloc(1, sizeof(*w));

	if (!w)
		return err_set(e, ERR_NOMEM, "no memory");
	w->loop = p->loop;
	w->store = p->store;
	TAILQ_INIT(&w->runs);
	TAILQ_INIT(&w->wishes);
	LIST_INIT(&w->jobs);
	read_conf(w, p->conf);
	*out = w;
	return 0;
}

void work_set_conf(struct work *w, const struct conf *c)
{
	if (w)
		read_conf(w, c);
}

struct purge_job {
	struct job j;
	int64_t before_ns;
	bool more;
};

static int purge_in_db(struct sqlite3 *db, struct job *j, struct err *e)
{
	struct purge_job *k = (struct purge_job *)j;

	return db_purge(db, k->before_ns, &k->more, e);
}

static void work_on_purged(struct job *j, int rc, const struct err *e)
{
	(void)e;
	if (!rc && ((struct purge_job *)j)->more)
		j->w->purge_at = 0; /* the next tick goes on */
}

static void purge(struct work *w, uint64_t now)
{
	struct purge_job *k;

	if (now < w->purge_at || !w->conf.retain_ns)
		return;
	w->purge_at = now + PURGE_NS;
	if (w->host.removals_wait && w->host.removals_wait(w->host.ctx))
		return;
	if (!(k = job_create(w, sizeof(*k), NULL, NULL)))
		return;
	/* Not by the floor of time, which stays ahead for good once the clock was. */
	k->before_ns = clock_wall_ns() - (int64_t)w->conf.retain_ns;
	job_write(&k->j, purge_in_db, work_on_purged);
}

static bool work_rests(const struct work *w)
{
	return w->ready && !w->leases && !w->pool && TAILQ_EMPTY(&w->runs) && TAILQ_EMPTY(&w->wishes) &&
	       LIST_EMPTY(&w->jobs);
}

static void tick(uv_timer_t *t)
{
	struct work *w = t->data;
	uint64_t now = clock_boot_ns();

	tick_start(t, tick, work_rests(w) ? REST_MS : TICK_MS);
	if (!w->ready) {
		recover_tick(w, now);
		return;
	}
	lease_tick(w, now);
	wishes_tick(w, now);
	runs_tick(w, now);
	recover_tick(w, now);
	fill_tick(w, now);
	purge(w, now);
	outbox_tell(w);
}

void work_begin(struct work *w, const struct work_host *h)
{
	if (!w || w->begun)
		return;
	w->begun = true;
	w->host = *h;
	w->timer = malloc(sizeof(*w->timer));
	if (!w->timer) {
		log_error(NULL, "leases and pool are not served: no memory");
		return;
	}
	uv_timer_init(w->loop, w->timer);
	w->timer->data = w;
	tick_start(w->timer, tick, TICK_MS);
	w->purge_at = clock_boot_ns() + PURGE_NS;
	recover_begin(w);
}

static void work_free_timer(uv_handle_t *t)
{
	free(t);
}

void work_stop(struct work *w)
{
	struct err e = {0};
	struct wish *wish;
	struct job *j;

	if (!w || w->stopped)
		return;
	w->stopped = true;
	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	while ((wish = TAILQ_FIRST(&w->wishes))) {
		TAILQ_REMOVE(&w->wishes, wish, entry);
		answer(wish->done, wish->arg, ERR_CANCELLED, &e, NULL);
		free(wish);
	}
	LIST_FOREACH(j, &w->jobs, entry)
	job_answer(j, ERR_CANCELLED, &e, NULL);
	if (w->timer)
		uv_close((uv_handle_t *)w->timer, work_free_timer);
	w->timer = NULL;
}

enum work_state work_state(const struct work *w)
{
	if (!w || w->ready)
		return WORK_READY;
	return w->mend.failures ? WORK_FAILING : WORK_STARTING;
}

void work_destroy(struct work *w)
{
	struct run *r;

	if (!w)
		return;
	work_stop(w);
	while ((r = TAILQ_FIRST(&w->runs)))
		run_free(r);
	leases_forget(w);
	pool_forget(w);
	free(w);
}

/* ---- calls */

static int ask_now(struct work *w, enum work_call call, const struct work_caller *c, const char *id, const json_t *body,
		   json_t **out, struct err *e)
{
	switch (call) {
	case WORK_LEASE_LIST:
		return lease_list(w, c, body, out, e);
	case WORK_LEASE_SHOW:
		return lease_show(w, c, id, out, e);
	case WORK_RUN_LIST:
		return run_list(w, c, body, out, e);
	case WORK_RUN_SHOW:
		return run_show(w, c, id, body, out, e);
	case WORK_WORKFLOW_LIST:
		return workflow_list(w, c, body, out, e);
	case WORK_WORKFLOW_SHOW:
		return workflow_show(w, c, id, out, e);
	default:
		*out = pool_json(w);
		return *out ? 0 : ERR_NOMEM;
	}
}

static bool takes_id(enum work_call c)
{
	return c == WORK_LEASE_SHOW || c == WORK_LEASE_HEARTBEAT || c == WORK_LEASE_RELEASE || c == WORK_RUN_SHOW ||
	       c == WORK_WORKFLOW_SHOW;
}

static int not_ready(const struct work *w, struct err *e)
{
	if (w && w->mend.failures && !w->stopped)
		return err_set(e, ERR_UNAVAILABLE,
			       "leases and pool are not ready: what is stored of them cannot be "
			       "put in order (%s), and that is tried again",
			       err_name(w->mend.code));
	return err_set(e, ERR_UNAVAILABLE, "leases and pool are not ready yet");
}

static int check_call(const struct work *w, enum work_call call, const char *id, const json_t *body, struct err *e)
{
	bool needs = call == WORK_LEASE_CREATE || call == WORK_RUN_START || call == WORK_WORKFLOW_PUT;

	if (!w || !w->ready || w->stopped)
		return not_ready(w, e);
	if (takes_id(call) && (!id || !*id))
		return err_set(e, ERR_INVAL, "%s needs an id", work_call_name(call));
	if (needs && !json_is_object(body))
		return err_set(e, ERR_INVAL, "send a JSON object");
	return 0;
}

void work_ask(struct work *w, enum work_call call, const struct work_caller *c, const char *id, json_t *body,
	      work_done *done, void *arg)
{
	json_t *result = NULL;
	struct err e = {0};
	int rc = check_call(w, call, id, body, &e);

	if (rc) {
		answer(done, arg, rc, &e, NULL);
		return;
	}
	switch (call) {
	case WORK_LEASE_CREATE:
		wish_create(w, c, body, done, arg);
		fill_tick(w, clock_boot_ns());
		break;
	case WORK_LEASE_HEARTBEAT:
		lease_heartbeat(w, c, id, done, arg);
		break;
	case WORK_LEASE_RELEASE:
		lease_release(w, c, id, done, arg);
		break;
	case WORK_RUN_START:
		run_start(w, c, body, done, arg);
		break;
	case WORK_WORKFLOW_PUT:
		workflow_put(w, c, body, done, arg);
		break;
	default:
		rc = ask_now(w, call, c, id, body, &result, &e);
		answer(done, arg, rc, &e, result);
	}
}

/* ---- who may enter */

int work_may_enter(const struct work *w, const char *agent, const char *principal, bool only_looks, struct err *e)
{
	char origin[AGENT_NAME_MAX + 1];
	const struct pool_entry *p;

	if (!work_is_pool_name(target_origin(agent, origin)))
		return 0;
	if (w && !w->ready) /* it was asked right after the start, and is being read */
		return not_ready(w, e);
	p = w ? pool_find(w, origin) : NULL;
	if (!p)
		return err_set(e, ERR_NOT_FOUND, "%s is no sandbox of the pool", origin);
	if (only_looks || (p->state == POOL_LEASED && strcmp(p->principal, principal) == 0))
		return 0;
	return err_set(e, p->state == POOL_LEASED ? ERR_FORBIDDEN : ERR_BAD_STATE,
		       p->state == POOL_LEASED ? "%s is leased to another principal" : "%s is not leased", agent);
}
