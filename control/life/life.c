/* Lifecycle's own life, and who gets what next. At the top: it begins the runs, which mark their agent due when they
 * end. */
#define LOG_SUBSYS "life"
#include "control/life/life.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/text.h"
#include "base/tick.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_MAX_MS  1000
#define TICK_MIN_MS  50
#define RECONCILE_NS (60 * NS_PER_SEC)

/* ---- serving */

static int bad_state_of(const struct life_row *row, const char *name, const char *what, const char *would,
			struct err *e)
{
	if (!row->generation)
		return err_set(e, ERR_NOT_FOUND, "there is no agent %s: a resume makes its sandbox", name);
	return err_set(e, ERR_BAD_STATE, "%s is %s, and cannot be %s: %s would do", name, life_state_name(row->state),
		       what, would);
}

static void bad_state(struct life_agent *a, struct life_waiter *w, const char *what, const char *would)
{
	struct err e = {0};

	life_answer(a, w, bad_state_of(&a->row, a->name, what, would, &e), &e);
}

static int take_options(struct life_agent *a, const struct life_waiter *w, struct life_row *next)
{
	uint64_t idle = w->options.idle_ttl_ns, ttl = w->options.ttl_ns;

	*next = a->row;
	if (w->want != WANT_RESUME || !life_options_set(&w->options))
		return 0;
	if (w->options.sets_resources)
		next->resources = w->options.resources;
	if (w->options.sets_image)
		memcpy(next->image, w->options.image, sizeof(next->image));
	if (w->options.sets_app)
		memcpy(next->app_id, w->options.app_id, sizeof(next->app_id));
	if (idle != UINT64_MAX)
		next->idle_ttl_ns = (int64_t)idle;
	if (ttl != UINT64_MAX)
		next->expires_ns = life_expires(a->life, ttl);
	return 1;
}

/* Another pod template than the one that it has: its pod would have to be made again. */
static bool is_other_template(const struct life_row *row, const char *pod_template)
{
	char digest[SANDBOX_DIGEST_LEN];

	if (!pod_template)
		return false;
	life_template_digest(pod_template, digest);
	return strcmp(digest, row->pod_template) != 0;
}

/* A resume that the agent's row refuses, whatever it waits for. pod_template: that it asks for; NULL: none. */
static int resume_refused(const struct life_row *row, const char *name, const char *pod_template, struct err *e)
{
	if (!row->generation && agent_making(name) != AGENT_CHOSEN)
		return err_set(e, ERR_NOT_FOUND, "there is no fork %s any more, and forks alone have such names", name);
	if (row->generation && row->state == LIFE_RUNNING && is_other_template(row, pod_template))
		return bad_state_of(row, name, "given another pod template", "stopped", e);
	return 0;
}

/* Of the start that is about to begin: the waiter has no more to say of it. */
static void take_template(struct life_agent *a, struct life_waiter *w)
{
	if (w->want != WANT_RESUME || !w->options.pod_template)
		return;
	free(a->own_template);
	a->own_template = (char *)(uintptr_t)w->options.pod_template;
	w->options.pod_template = NULL;
}

static int life_on_options(struct life_agent *a, int rc, const struct err *e)
{
	(void)rc, (void)e;
	life_answer(a, life_first(a, WANTS(WANT_RESUME)), 0, NULL);
	return life_run_end(a);
}

static const struct run_step options_steps[] = {{"options", life_commit_next, life_on_options, .writes = WRITES_ROW}};
static const struct run_kind options_kind = {"options", options_steps, NULL, NULL, NULL, NULL};

static void options_run(struct life_agent *a, const struct life_row *next)
{
	if (!life_run_begin(a, &options_kind, "options"))
		return;
	a->run->next = *next;
	life_run_go(a, 0);
}

/* ---- what is asked of one that is awake */

static bool awake(const struct life_agent *a)
{
	return a->row.generation && (a->row.state == LIFE_RUNNING || a->row.state == LIFE_IDLE_STOPPING);
}

static void serve_connect(struct life_agent *a, struct life_waiter *w)
{
	struct err e = {0};

	if (!a->row.generation || awake(a)) {
		life_connect(a, w);
		return;
	}
	err_set(&e, ERR_NOT_FOUND, "the sandbox of %s is %s%s%s", a->name, life_state_name(a->row.state),
		a->row.cause[0] ? ": " : "", a->row.cause);
	life_answer(a, w, e.code, &e);
}

/* Under a name of muxd's making an empty workspace would pass for a copy, and for that of whom it is named after. */
static void serve_awake(struct life_agent *a, struct life_waiter *w)
{
	struct life_row next;
	struct err e = {0};
	int changed = take_options(a, w, &next);

	if (resume_refused(&a->row, a->name, w->want == WANT_RESUME ? w->options.pod_template : NULL, &e)) {
		life_answer(a, w, e.code, &e);
		return;
	}
	if (a->row.generation && a->row.state == LIFE_RUNNING) {
		if (w->want == WANT_ENSURE)
			life_connect(a, w);
		else if (!changed)
			life_answer(a, w, 0, NULL);
		else
			options_run(a, &next);
		return;
	}
	if (changed) { /* with the start's own swap */
		a->row.idle_ttl_ns = next.idle_ttl_ns;
		a->row.expires_ns = next.expires_ns;
		memcpy(a->row.image, next.image, sizeof(a->row.image));
		memcpy(a->row.app_id, next.app_id, sizeof(a->row.app_id));
		a->row.resources = next.resources;
		w->options.idle_ttl_ns = w->options.ttl_ns = UINT64_MAX;
		w->options.sets_image = w->options.sets_resources = w->options.sets_app = false;
	}
	take_template(a, w);
	life_start(a, w->reason[0] ? w->reason : a->row.generation ? "resumed" : "made");
}

struct row_asked {
	const char *agent;
	struct life_row row;
};

static int life_read_row(struct sqlite3 *db, void *job, struct err *e)
{
	struct row_asked *q = job;

	return row_get(db, q->agent, &q->row, e);
}

int life_resume_check(struct life *l, const char *agent, const struct life_options *o, struct err *e)
{
	const struct life_agent *a = life_known(l, agent);
	struct row_asked q = {.agent = agent};
	int rc = a ? 0 : store_read(l->store, life_read_row, &q, e);

	return rc ? rc : resume_refused(a ? &a->row : &q.row, agent, o->pod_template, e);
}

static void serve_stop(struct life_agent *a, struct life_waiter *w)
{
	if (a->row.generation && a->row.state == LIFE_STOPPED)
		life_answer(a, w, 0, NULL);
	else if (a->row.generation && a->row.state == LIFE_RUNNING)
		life_stop_run(a, w->reason, STOP_FOR_ASKER);
	else
		bad_state(a, w, "stopped", "running");
}

static void serve_end(struct life_agent *a, struct life_waiter *w)
{
	if (w->end == LIFE_END_WIPE)
		life_wipe_run(a, w->reason);
	else if (!a->row.generation || a->row.state == LIFE_STOPPED)
		life_answer(a, w, 0, NULL);
	else if (w->end == LIFE_END_SNAPSHOT && a->row.state == LIFE_RUNNING)
		life_stop_run(a, w->reason, STOP_FOR_END);
	else
		life_end_run(a, w->reason);
}

static void serve_snapshot(struct life_agent *a, struct life_waiter *w)
{
	if (a->row.generation && (a->row.state == LIFE_RUNNING || !id_is_nil(&w->snapshot) ||
				  ((a->row.state == LIFE_STOPPED || a->row.state == LIFE_ERROR) && a->row.workspace)))
		life_snapshot_run(a, id_is_nil(&w->snapshot) ? NULL : &w->snapshot, w->reason);
	else
		bad_state(a, w, "snapshotted",
			  a->row.state == LIFE_STOPPED
			      ? "stopped with its workspace kept (there is a snapshot of it), or running"
			      : "running");
}

static void serve_restore(struct life_agent *a, struct life_waiter *w)
{
	if (!a->row.generation) {
		bad_state(a, w, "restored", "stopped");
	} else if (a->row.state == LIFE_RUNNING) {
		w->tried = true; /* the stop's own snapshot is of all that there is */
		life_stop_run(a, w->reason, STOP_FOR_RESTORE);
	} else if (a->row.workspace && !a->row.read_only && !w->tried && sandbox_can(a->life->inner, SANDBOX_TAKE)) {
		w->tried = true; /* what was written since the last snapshot may be on the disk alone */
		life_snapshot_run(a, NULL, w->reason);
	} else {
		life_restore_run(a, w);
	}
}

static void serve(struct life_agent *a, struct life_waiter *w)
{
	struct id snapshot = w->snapshot;

	switch (w->want) {
	case WANT_CONNECT:
		serve_connect(a, w);
		break;
	case WANT_ENSURE:
	case WANT_RESUME:
		serve_awake(a, w);
		break;
	case WANT_STOP:
		serve_stop(a, w);
		break;
	case WANT_END:
		serve_end(a, w);
		break;
	case WANT_SNAPSHOT:
		serve_snapshot(a, w);
		break;
	case WANT_RESTORE:
		serve_restore(a, w);
		break;
	case WANT_DROP:
		life_drop_run(a, &snapshot, w->reason);
		break;
	case WANT_CHECK:
		life_check_run(a);
		break;
	case WANT_TAKEN:
		life_taken(a, &snapshot);
		break;
	case WANT_IDLE:
		life_idle_look(a, w);
		break;
	}
}

/* A row that was found between two states is brought to the end of what was begun. */
static bool life_go_on(struct life_agent *a)
{
	static const struct run_kind *const found[] = {
	    [LIFE_STARTING] = &life_start_kind,
	    [LIFE_RUNNING] = NULL,
	    [LIFE_IDLE_STOPPING] = &life_stop_kind,
	    [LIFE_STOPPING] = &life_end_kind,
	    [LIFE_DESTROYING] = &life_wipe_kind,
	    [LIFE_STOPPED] = &life_restore_kind,
	    [LIFE_ERROR] = NULL,
	};
	const struct run_kind *k = found[a->row.generation ? a->row.state : LIFE_STOPPED];

	return k && k->again(a);
}

/* A run that is on its way may be taken back for a waiter that came since the last turn. */
static void hear(struct life_agent *a)
{
	struct life_waiter *w = TAILQ_FIRST(&a->waiters);

	while (w && !a->life->dying) {
		if (w->heard) {
			w = TAILQ_NEXT(w, entry);
			continue;
		}
		w->heard = true;
		if (a->run && a->run->kind->heard)
			a->run->kind->heard(a, w);
		w = TAILQ_FIRST(&a->waiters); /* the answer may have changed the list */
	}
}

/*
 * A waiter that was sent on and found that nothing runs there awaits the check, which comes behind the run: sent on
 * once more it would hear the same, and take that for the answer.
 */
static struct life_waiter *first_beside(struct life_agent *a)
{
	struct life_waiter *w;

	if (!a->run || !a->run->kind->beside || a->life->dying)
		return NULL;
	TAILQ_FOREACH(w, &a->waiters, entry)
	if (!w->tried && a->run->kind->beside(a, w))
		return w;
	return NULL;
}

/* Waiters whom the run does not keep waiting are served. */
static void serve_beside(struct life_agent *a)
{
	struct life_waiter *w;

	while ((w = first_beside(a))) {
		if (w->want == WANT_RESUME)
			life_answer(a, w, 0, NULL);
		else
			life_connect(a, w);
	}
}

static void life_turn(struct life_agent *a)
{
	struct life *l = a->life;
	struct life_waiter *w;

	hear(a);
	while (!a->run && !l->dying) {
		if (!l->begun) { /* nothing changes before the record can be written; streams to what runs are given */
			w = life_first(a, WANTS(WANT_CONNECT));
			if (!w || (a->row.generation && !awake(a)))
				return;
			serve_connect(a, w);
			continue;
		}
		if (a->retry_at && clock_boot_ns() < a->retry_at)
			return;
		a->retry_at = 0;
		if (life_go_on(a))
			return;
		w = TAILQ_FIRST(&a->waiters);
		if (!w)
			return;
		serve(a, w);
	}
	serve_beside(a);
}

/* ---- the timer */

/* Its caller hears that it takes longer. What is known to this waiter alone goes on: where a restore is to go back to.
 */
static void answer_late(struct life_agent *a, struct life_waiter *w, const struct err *e)
{
	life_done *done = w->done;

	life_count_failure(a->life, e->code);
	if (w->want != WANT_RESTORE || !w->tried || !done) {
		life_answer(a, w, e->code, e);
		return;
	}
	w->done = NULL;
	w->deadline = UINT64_MAX;
	done(w->arg, e->code, e, NULL);
}

static void deadlines(struct life_agent *a, uint64_t now)
{
	struct life_waiter *w, *next;
	struct err e = {0};

	for (w = TAILQ_FIRST(&a->waiters); w; w = next) {
		next = TAILQ_NEXT(w, entry);
		if (now < w->deadline)
			continue;
		err_set(&e, ERR_SANDBOX_TIMEOUT, "%s is %s still%s%s: that goes on, ask again", a->name,
			life_state_name(a->row.state), a->row.step[0] ? ", step " : "", a->row.step);
		answer_late(a, w, &e);
		next = TAILQ_FIRST(&a->waiters); /* the answer may have changed the list */
	}
}

/* Work that came early in a stop, and waits still when its snapshot is late. */
static void waits_for_copy(struct life_agent *a)
{
	struct life_waiter *w;

	if (!a->run || !a->run->kind->heard)
		return;
	TAILQ_FOREACH(w, &a->waiters, entry)
	{
		if (!w->implied || w->want == WANT_CONNECT)
			continue;
		a->run->kind->heard(a, w);
		return; /* one stands for all, and may be gone now */
	}
}

void life_tick(struct life *l)
{
	uint64_t now = clock_boot_ns();
	struct life_agent *a, *next;

	if (!l->begun || l->dying)
		return;
	HASH_ITER(hh, l->agents, a, next)
	{
		deadlines(a, now);
		if (a->run && a->run->again_at)
			life_run_put_again(a, now);
		waits_for_copy(a);
		life_turn(a);
	}
	life_idle_due(l);
	life_sweep(l);
	if (now >= l->keep_at) {
		l->keep_at = now + LIFE_KEEP_CLOCK_NS;
		life_keep_clock(l);
	}
	if (now >= l->reconcile_at) {
		l->reconcile_at = now + RECONCILE_NS;
		life_reckon(l);
		life_reconcile(l);
	}
}

static void life_on_prepare(uv_prepare_t *p)
{
	struct life *l = p->data;
	struct life_agent *a;

	while ((a = TAILQ_FIRST(&l->due))) {
		TAILQ_REMOVE(&l->due, a, of_due);
		a->due = false;
		life_turn(a);
	}
}

/* ---- making and ending it */

static void life_free_handle(uv_handle_t *h)
{
	free(h);
}

static int read_clock(struct sqlite3 *db, void *job, struct err *e)
{
	return life_clock_get(db, job, e);
}

static void start_timer(struct life *l);

static void life_on_tick(uv_timer_t *t)
{
	start_timer(t->data);
	life_tick(t->data);
}

static void start_timer(struct life *l)
{
	uint64_t ms = TICK_MAX_MS / (l->policy.speed ? l->policy.speed : 1);

	if (ms < TICK_MIN_MS)
		ms = TICK_MIN_MS;
	tick_start(l->tick, life_on_tick, ms);
}

/* Told once, at the start: each idle stop would be refused, and the sandboxes run on for ever. */
static void warn_of_sleepless(const struct life *l)
{
	struct life_wish w = {.idle_ttl_ns = l->policy.idle_ttl_ns};

	for (size_t i = 0; i < l->policy.nagents && !w.idle_ttl_ns; i++)
		life_wish(&l->policy, l->policy.agents[i].agent, LIFE_TTL_CONF, &w);
	if (*life_cannot_sleep(l, &w))
		log_warn(
		    NULL,
		    "no sandbox will sleep when it is idle (lifecycle.idle_ttl), that would lose its workspace: %s",
		    life_cannot_sleep(l, &w));
}

int life_create(const struct life_params *p, struct life **out, struct err *e)
{
	static const char *const names[STEPS] = {"filespace.pull", "filespace.push", "mcp.start"};
	struct life *l = calloc(1, sizeof(*l));
	int rc;

	if (!l || !(l->tick = malloc(sizeof(*l->tick))) || !(l->prepare = malloc(sizeof(*l->prepare))) ||
	    life_policy_init(&l->policy, p->conf)) {
		free(l ? l->tick : NULL);
		free(l ? l->prepare : NULL);
		free(l);
		return err_set(e, ERR_NOMEM, "no memory for lifecycle");
	}
	l->loop = p->loop;
	l->store = p->store;
	for (int i = 0; i < STEPS; i++)
		l->steps[i].name = names[i];
	TAILQ_INIT(&l->due);
	STAILQ_INIT(&l->told);
	LIST_INIT(&l->calls);
	LIST_INIT(&l->questions);
	LIST_INIT(&l->forks);
	LIST_INIT(&l->checks);
	rc = store_read(l->store, read_clock, &l->clock, e);
	if (rc) {
		life_policy_finish(&l->policy);
		free(l->tick);
		free(l->prepare);
		free(l);
		return rc;
	}
	l->inner = p->inner;
	l->inner->gone = life_on_gone;
	l->inner->gone_arg = l;
	l->base.ops = &life_provider_ops;
	l->base.can = LIFE_PROVIDER_CAN;
	warn_of_sleepless(l);
	uv_timer_init(l->loop, l->tick);
	l->tick->data = l;
	uv_prepare_init(l->loop,
			l->prepare); /* before the loop sleeps: whatever marked an agent due, its turn comes then */
	l->prepare->data = l;
	uv_prepare_start(l->prepare, life_on_prepare);
	uv_unref((uv_handle_t *)l->prepare);
	*out = l;
	return 0;
}

static void life_let_go(struct life *l)
{
	struct err e = {0};
	struct life_agent *a, *next;
	struct life_call *c;

	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	HASH_ITER(hh, l->agents, a, next)
	life_answer_wants(a, ~0u, e.code, &e);
	l->inner->gone = NULL;
	l->inner->ops->destroy(l->inner); /* what is out there answers now */
	while ((c = LIST_FIRST(&l->calls))) {
		LIST_REMOVE(c, entry);
		c->life = NULL; /* answered later, to nobody */
	}
	life_forks_let_go(l);
	life_digests_let_go(l);
	HASH_ITER(hh, l->agents, a, next)
	{
		life_run_free(a->run);
		life_forget(a);
	}
}

void life_destroy(struct life *l)
{
	struct life_failure *f, *next;

	if (!l)
		return;
	l->dying = true;
	life_let_go(l);
	HASH_ITER(hh, l->failures, f, next)
	{
		HASH_DEL(l->failures, f);
		free(f);
	}
	life_told_finish(l);
	life_policy_finish(&l->policy);
	uv_close((uv_handle_t *)l->tick, life_free_handle);
	uv_close((uv_handle_t *)l->prepare, life_free_handle);
	free(l);
}

void life_set_host(struct life *l, const struct life_host *h)
{
	l->host = *h;
}

void life_set_conf(struct life *l, const struct conf *c)
{
	struct life_policy fresh;

	if (life_policy_init(&fresh, c)) {
		log_error(NULL, "lifecycle's configuration is not reloaded: no memory");
		return;
	}
	life_policy_finish(&l->policy);
	l->policy = fresh;
	l->reconcile_at = 0; /* times are reckoned anew, too */
	l->keep_after[0] = '\0';
	if (l->begun)
		start_timer(l);
}

void life_begin(struct life *l)
{
	if (l->begun)
		return;
	l->begun = true;
	l->began_ns = life_now(l);
	start_timer(l);
	l->reconcile_at = clock_boot_ns();
	l->keep_at = 0;
	life_tick(l);
	life_hash_all(l);
}

struct sandbox_provider *life_provider(struct life *l)
{
	return &l->base;
}
