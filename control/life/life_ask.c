/* The questions of a run's steps, and the way of their answers to the run that waits for them. */
#define LOG_SUBSYS "life"
#include "control/life/life_ask.h"

#include "base/clock.h"
#include "base/text.h"
#include "control/life/life_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUIESCE_NS (10 * NS_PER_SEC)

/* ---- answers */

static void life_ask_on_sandbox(void *arg, const struct sandbox_answer *r)
{
	struct life_agent *a = life_called(arg);

	if (!a) {
		if (r->fd >= 0)
			close(r->fd);
		return;
	}
	if (a->run->fd >= 0)
		close(a->run->fd);
	a->run->fd = r->fd;

	memset(&a->run->info, 0, sizeof(a->run->info));
	if (!r->rc && r->info)
		a->run->info = *r->info;
	life_run_provided(a, r->rc, r->e);
}

/* A take that nobody waits for any more: what became of it is noted all the same. */
static void take_was_late(const struct life_call *c, const struct sandbox_answer *r)
{
	struct life_agent *a = life_agent(c->life, c->agent, NULL);
	bool ready = !r->rc && r->n && r->snapshots->ready;
	struct life_waiter w = {.want = WANT_TAKEN, .deadline = UINT64_MAX, .snapshot = c->snapshot, .tried = ready};

	if (a && a->taking)
		a->taking--;
	if (!r->rc && r->n)
		w.copy = *r->snapshots;
	text_format(w.reason, sizeof(w.reason), "%.150s",
		    r->rc   ? r->e && r->e->message[0] ? r->e->message : err_name(r->rc)
		      : ready ? ""
			    : w.copy.detail);
	life_want(c->life, c->agent, &w);
}

static void life_ask_on_snapshots(void *arg, const struct sandbox_answer *r)
{
	struct life_call asked = *(struct life_call *)arg;
	struct life_agent *a = life_called(arg);

	if (!a) {
		if (asked.take && asked.life && !asked.life->dying)
			take_was_late(&asked, r);
		return;
	}
	memset(&a->run->copy, 0, sizeof(a->run->copy));
	if (!r->rc && r->n)
		a->run->copy = r->snapshots[0];
	life_run_provided(a, r->rc, r->e);
}

static void life_ask_on_host(void *arg, int rc, const struct err *e)
{
	struct life_agent *a = life_called(arg);

	if (a)
		life_run_answer(a, rc, e);
}

/* ---- to the provider */

static bool is_of_snapshots(enum sandbox_op op)
{
	return op == SANDBOX_TAKE || op == SANDBOX_DROP;
}

int life_ask(struct life_agent *a, enum sandbox_op op, const char *reason, struct err *e)
{
	const struct life_policy *p = &a->life->policy;
	const struct life_snap *s = &a->run->snap;
	struct sandbox_ask q = {.op = op, .agent = a->name, .reason = reason, .run = true};
	struct life_call *c = life_call(a, e);

	if (!c)
		return e->code;
	c->take = op == SANDBOX_TAKE;
	c->snapshot = s->id;
	if (is_of_snapshots(op) || op == SANDBOX_RESTORE)
		q.snapshot = &s->id;
	if (op == SANDBOX_ENSURE || op == SANDBOX_RESTORE)
		q.image = a->row.image, q.resources = a->row.resources, q.app_id = a->row.app_id;
	q.empty = op == SANDBOX_ENSURE && a->run->empty;
	if (op == SANDBOX_TAKE)
		q.timeout_ns = p->snapshot_timeout_ns;
	if (op == SANDBOX_RESTORE) {
		q.from = s->agent;
		q.read_only = a->row.read_only;
		q.again = a->run->again;
		q.timeout_ns = p->restore_timeout_ns;
	}
	sandbox_ask(a->life->inner, &q, is_of_snapshots(op) ? life_ask_on_snapshots : life_ask_on_sandbox, c);
	return RUN_ASKED;
}

void life_discard(struct life_agent *a, const struct id *snapshot)
{
	struct err e = {0};
	struct life_call *c = sandbox_can(a->life->inner, SANDBOX_DROP) ? life_call(a, &e) : NULL;

	if (!c)
		return;
	c->run = 0;
	sandbox_ask(a->life->inner,
		    &(struct sandbox_ask){.op = SANDBOX_DROP, .agent = a->name, .snapshot = snapshot, .run = true},
		    life_ask_on_snapshots, c);
}

/* ---- to the hub */

int life_ask_refers(struct life_agent *a, struct err *e)
{
	struct life_host *h = &a->life->host;
	struct life_call *c;

	a->run->refers = ERR_UNAVAILABLE;
	if (!h->refers) /* nobody records */
		return ERR_UNSUPPORTED;
	c = life_call(a, e);
	if (!c)
		return e->code;
	h->refers(h->ctx, a->name, &a->run->snap.id, &a->run->snap.previous, life_ask_on_host, c);
	return RUN_ASKED;
}

bool life_must_stay(const struct life_agent *a, int rc)
{
	return rc < 0 && rc != ERR_UNSUPPORTED && a->run->was != SNAP_FAILED;
}

int life_ask_leave(struct life_agent *a, const char *verb, struct err *e)
{
	struct life_host *h = &a->life->host;
	struct life_call *c;
	char why[256];

	if (!h->leave)
		return 0;
	c = life_call(a, e);
	if (!c)
		return e->code;
	text_format(why, sizeof(why), "its sandbox was %s: %.200s", verb, a->row.cause);
	h->leave(h->ctx, a->name, why, life_ask_on_host, c);
	return RUN_ASKED;
}

int life_ask_settle(struct life_agent *a, struct err *e)
{
	struct life_host *h = &a->life->host;
	struct life_call *c;

	if (!h->settle)
		return 0;
	c = life_call(a, e);
	if (!c)
		return e->code;
	h->settle(h->ctx, a->name, life_ask_on_host, c);
	return RUN_ASKED;
}

int life_ask_push(struct life_agent *a, struct err *e)
{
	struct life_host *h = &a->life->host;
	struct life_call *c;

	if (!h->push)
		return ERR_UNSUPPORTED;
	c = life_call(a, e);
	if (!c)
		return e->code;
	h->push(h->ctx, a->name, a->row.cause, life_ask_on_host, c);
	return RUN_ASKED;
}

int life_ask_quiesce(struct life_agent *a, uint64_t hold_ns, struct err *e)
{
	struct life_host *h = &a->life->host;
	struct life_call *c;

	if (!h->quiesce)
		return ERR_UNSUPPORTED;
	c = life_call(a, e);
	if (!c)
		return e->code;
	a->run->frozen = true; /* from the question on: its answer may come when nobody listens any more */
	h->quiesce(h->ctx, a->name, QUIESCE_NS, hold_ns, life_ask_on_host, c);
	return RUN_ASKED;
}

void life_quiesced(struct life_agent *a, int rc)
{
	a->run->snap.quiesced = rc == LIFE_FROZEN ? SNAP_FROZEN : rc ? SNAP_NOT_QUIESCED : SNAP_SYNCED;
	a->run->frozen = rc == LIFE_FROZEN;
}

void life_frozen_until_now(struct life_agent *a)
{
	struct life_host *h = &a->life->host;

	if (a->run->snap.quiesced == SNAP_FROZEN && !(h->frozen && h->frozen(h->ctx, a->name)))
		a->run->snap.quiesced = SNAP_SYNCED;
}
