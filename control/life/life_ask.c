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

struct life_call *life_call(struct life_agent *a, struct err *e)
{
	struct life_call *c = calloc(1, sizeof(*c));

	if (!c) {
		err_set(e, ERR_NOMEM, "no memory");
		return NULL;
	}
	c->life = a->life;
	text_put(c->agent, sizeof(c->agent), a->name);
	c->run = a->run ? a->run->id : 0;
	LIST_INSERT_HEAD(&a->life->calls, c, entry);
	return c;
}

struct life_agent *life_called(struct life_call *c)
{
	struct life *l = c->life;
	struct life_agent *a = l ? life_known(l, c->agent) : NULL;

	if (a && (!a->run || a->run->id != c->run))
		a = NULL;
	if (l)
		LIST_REMOVE(c, entry);
	free(c);
	return l && l->dying ? NULL : a;
}

/* ---- answers */

void life_on_sandbox(void *arg, int rc, const struct err *e, const struct sandbox_info *info, int fd)
{
	struct life_agent *a = life_called(arg);

	if (!a) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (a->run->fd >= 0)
		close(a->run->fd);
	a->run->fd = fd;
	memset(&a->run->info, 0, sizeof(a->run->info));
	if (!rc && info)
		a->run->info = *info;
	life_run_answer(a, rc, e);
}

/* A take that nobody waits for any more: what became of it is noted all the same. */
static void take_was_late(struct life *l, const char *agent, const struct id *snapshot, int rc, const struct err *e,
			  const struct sandbox_snapshot *copy)
{
	struct life_agent *a = life_agent(l, agent, NULL);
	bool ready = !rc && copy && copy->ready;
	struct life_waiter w = {.want = WANT_TAKEN, .deadline = UINT64_MAX, .snapshot = *snapshot, .tried = ready};

	if (a && a->taking)
		a->taking--;
	if (copy && !rc)
		w.copy = *copy;
	text_format(w.reason, sizeof(w.reason), "%.150s",
		    rc      ? e && e->message[0] ? e->message : err_name(rc)
			 : ready ? ""
			    : w.copy.detail);
	life_want(l, agent, &w);
}

void life_on_snapshots(void *arg, int rc, const struct err *e, const struct sandbox_snapshot *list, size_t n)
{
	struct life_call asked = *(struct life_call *)arg;
	struct life_agent *a = life_called(arg);

	if (!a) {
		if (asked.take && asked.life && !asked.life->dying)
			take_was_late(asked.life, asked.agent, &asked.snapshot, rc, e, n ? list : NULL);
		return;
	}
	memset(&a->run->copy, 0, sizeof(a->run->copy));
	if (!rc && n)
		a->run->copy = list[0];
	life_run_answer(a, rc, e);
}

static void on_host(void *arg, int rc, const struct err *e)
{
	struct life_agent *a = life_called(arg);

	if (a)
		life_run_answer(a, rc, e);
}

/* ---- to the provider */

int life_ask_stat(struct life_agent *a, struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c = life_call(a, e);

	if (!c)
		return e->code;
	p->ops->stat(p, a->name, life_on_sandbox, c);
	return RUN_ASKED;
}

int life_ask_destroy(struct life_agent *a, const char *cause, struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c = life_call(a, e);

	if (!c)
		return e->code;
	p->ops->destroy_sandbox(p, a->name, cause, life_on_sandbox, c);
	return RUN_ASKED;
}

int life_ask_drop_workspace(struct life_agent *a, struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c;

	if (!p->ops->drop_workspace)
		return 0;
	c = life_call(a, e);
	if (!c)
		return e->code;
	p->ops->drop_workspace(p, a->name, life_on_sandbox, c);
	return RUN_ASKED;
}

int life_ask_take(struct life_agent *a, struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c;

	if (!p->ops->snapshot_take)
		return err_set(e, ERR_UNSUPPORTED, "this backend has no snapshots");
	a->run->step_began = clock_boot_ns();
	c = life_call(a, e);
	if (!c)
		return e->code;
	c->take = true;
	c->snapshot = a->run->snap.id;
	p->ops->snapshot_take(p, a->name, &a->run->snap.id, a->life->policy.snapshot_timeout_ns, life_on_snapshots, c);
	return RUN_ASKED;
}

int life_ask_drop(struct life_agent *a, const struct id *snapshot, struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c = life_call(a, e);

	if (!c)
		return e->code;
	p->ops->snapshot_drop(p, a->name, snapshot, life_on_snapshots, c);
	return RUN_ASKED;
}

int life_ask_restore(struct life_agent *a, struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	const struct life_snap *s = &a->run->snap;
	struct life_call *c = life_call(a, e);

	if (!c)
		return e->code;
	a->run->step_began = clock_boot_ns();
	p->ops->restore(p, a->name, s->agent, &s->id, a->row.read_only, a->life->policy.restore_timeout_ns,
			life_on_sandbox, c);
	return RUN_ASKED;
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
	h->refers(h->ctx, a->name, &a->run->snap.id, &a->run->snap.previous, on_host, c);
	return RUN_ASKED;
}

bool life_must_stay(const struct life_agent *a, int rc)
{
	return (rc == ERR_BAD_STATE || rc == ERR_UNAVAILABLE) && a->run->was != SNAP_FAILED;
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
	h->leave(h->ctx, a->name, why, on_host, c);
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
	h->quiesce(h->ctx, a->name, QUIESCE_NS, hold_ns, on_host, c);
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
