/* Agents in memory, and who waits for what of them: served in the loop's next turn, one after the other. */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>

struct life_agent *life_known(struct life *l, const char *name)
{
	struct life_agent *a = NULL;

	HASH_FIND_STR(l->agents, name, a);
	return a;
}

static int life_agent_load(struct sqlite3 *db, void *job, struct err *e)
{
	struct life_agent *a = job;

	return row_get(db, a->name, &a->row, e);
}

struct life_agent *life_agent(struct life *l, const char *name, struct err *e)
{
	struct life_agent *a = life_known(l, name);

	if (a)
		return a;
	a = calloc(1, sizeof(*a));
	if (!a) {
		err_set(e, ERR_NOMEM, "no memory");
		return NULL;
	}
	a->life = l;
	TAILQ_INIT(&a->waiters);
	text_put(a->name, sizeof(a->name), name);
	if (store_read(l->store, life_agent_load, a, e)) {
		free(a);
		return NULL;
	}
	HASH_ADD_STR(l->agents, name, a);
	return a;
}

void life_forget(struct life_agent *a)
{
	HASH_DEL(a->life->agents, a);
	if (a->due)
		TAILQ_REMOVE(&a->life->due, a, of_due);
	free(a->own_template);
	free(a);
}

void life_sweep(struct life *l)
{
	struct life_agent *a, *next;

	HASH_ITER(hh, l->agents, a, next)
	if (!a->run && TAILQ_EMPTY(&a->waiters) && !a->due && !a->taking && !a->retry_at && !a->warned)
		life_forget(a);
}

void life_due(struct life_agent *a)
{
	if (a->due)
		return;
	a->due = true;
	TAILQ_INSERT_TAIL(&a->life->due, a, of_due);
}

/* ---- waiters */

struct life_waiter *life_first(struct life_agent *a, unsigned wants)
{
	struct life_waiter *w;

	TAILQ_FOREACH(w, &a->waiters, entry)
	if (wants & WANTS(w->want))
		return w;
	return NULL;
}

bool life_options_set(const struct life_options *o)
{
	return o->idle_ttl_ns != UINT64_MAX || o->ttl_ns != UINT64_MAX || o->sets_image || o->sets_resources ||
	       o->sets_app;
}

void life_answer(struct life_agent *a, struct life_waiter *w, int rc, const struct err *e)
{
	struct err here = {0};
	json_t *o = NULL;

	if (!w)
		return;
	TAILQ_REMOVE(&a->waiters, w, entry);
	if (!rc && w->done)
		rc = (o = life_describe(a->life, &a->row)) ? 0 : ERR_NOMEM;
	if (rc && (!e || !e->message[0]))
		err_set(&here, rc, "%s: %s", a->name, err_name(rc)), e = &here;
	if (w->stream)
		sandbox_answer(w->stream, w->arg, rc, e, NULL, -1);
	else if (w->done)
		w->done(w->arg, rc, rc ? e : NULL, o);
	json_decref(o);
	free((char *)(uintptr_t)w->options.pod_template);
	free(w);
}

void life_answer_wants(struct life_agent *a, unsigned wants, int rc, const struct err *e)
{
	struct life_waiters now = TAILQ_HEAD_INITIALIZER(now);
	struct life_waiter *w, *next;

	/* A waiter that comes while these are told waits for the next turn. */
	for (w = TAILQ_FIRST(&a->waiters); w; w = next) {
		next = TAILQ_NEXT(w, entry);
		if (!(wants & WANTS(w->want)))
			continue;
		TAILQ_REMOVE(&a->waiters, w, entry);
		TAILQ_INSERT_TAIL(&now, w, entry);
	}
	while ((w = TAILQ_FIRST(&now))) {
		TAILQ_REMOVE(&now, w, entry);
		TAILQ_INSERT_HEAD(&a->waiters, w, entry);
		life_answer(a, w, rc, e);
	}
}

static void life_agent_refuse(const struct life_waiter *w, int rc, const struct err *e)
{
	if (w->stream)
		sandbox_answer(w->stream, w->arg, rc, e, NULL, -1);
	else if (w->done)
		w->done(w->arg, rc, e, NULL);
}

static struct life_waiter *waiter_copy(const struct life_waiter *w)
{
	struct life_waiter *copy = malloc(sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *w;
	if (w->options.pod_template && !(copy->options.pod_template = strdup(w->options.pod_template))) {
		free(copy);
		return NULL;
	}
	return copy;
}

void life_want(struct life *l, const char *agent, const struct life_waiter *w)
{
	struct life_waiter *copy = NULL;
	struct life_agent *a;
	struct err e = {0};

	if (l->dying) {
		err_set(&e, ERR_CANCELLED, "the daemon is stopping");
		life_agent_refuse(w, e.code, &e);
		return;
	}
	a = life_agent(l, agent, &e);
	if (a && !(copy = waiter_copy(w)))
		err_set(&e, ERR_NOMEM, "no memory");
	if (!copy) {
		life_agent_refuse(w, e.code, &e);
		return;
	}
	TAILQ_INSERT_TAIL(&a->waiters, copy, entry);
	if ((w->done || w->stream) && a->row.generation && a->row.state == LIFE_DESTROYING)
		a->retry_at = 0; /* somebody asks: what kept it may be gone */
	life_due(a);
}

void life_want_nobody(struct life_agent *a, enum life_want want, const struct id *snapshot, const char *reason)
{
	struct life_waiter w = {.want = want, .deadline = UINT64_MAX}, *there;

	if (snapshot)
		w.snapshot = *snapshot;
	TAILQ_FOREACH(there, &a->waiters, entry)
	if (there->want == want && !there->done && !there->stream && id_equal(&there->snapshot, &w.snapshot))
		return;
	text_put(w.reason, sizeof(w.reason), reason);
	life_want(a->life, a->name, &w);
}
