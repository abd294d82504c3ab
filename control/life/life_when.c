/* When an agent is idle, when its time is over, and so when somebody has to look at it. */
#include "base/clock.h"
#include "control/life/life_state.h"

#include <string.h>

#define LATE_NS (600 * NS_PER_SEC) /* so much later than we the backend ends it */

/* Last activity, of the hub or the row, whichever is later. */
int64_t life_last_activity(struct life_agent *a, struct life_activity *act)
{
	struct life *l = a->life;
	int64_t at = a->row.active_ns, seen;

	memset(act, 0, sizeof(*act));
	if (!l->host.activity)
		return at;
	l->host.activity(l->host.ctx, a->name, act);
	seen = act->last_boot_ns ? life_clock_of_boot(&l->clock, act->last_boot_ns) : 0;
	/*
	 * Of the time before this daemon only what was kept is known, and that each LIFE_KEEP_CLOCK_NS alone: nobody is
	 * cut for what was not written down.
	 */
	if (!seen && at < l->began_ns)
		at += (int64_t)LIFE_KEEP_CLOCK_NS;
	return seen > at ? seen : at;
}

void life_verdict(struct life_agent *a, struct life_verdict *v)
{
	struct life_activity act;
	struct life_wish w;
	int64_t last = life_last_activity(a, &act);

	if (last > a->row.active_ns)
		a->warned = false;
	life_wish(&a->life->policy, a->name, a->row.idle_ttl_ns, &w);
	life_decide(&w, &act, last, life_now(a->life), a->warned, v);
}

bool life_is_idle(struct life_agent *a)
{
	struct life_verdict v;

	life_verdict(a, &v);
	return v.due;
}

int64_t life_earlier(int64_t a, int64_t b)
{
	return !a ? b : !b ? a : a < b ? a : b;
}

int64_t life_expires(const struct life *l, uint64_t ttl_ns)
{
	return ttl_ns ? life_now(l) + (int64_t)life_scaled(&l->policy, ttl_ns) : LIFE_NEVER;
}

void life_tell_end(struct life_agent *a, int64_t expires_ns, bool runs)
{
	struct sandbox_provider *p = a->life->inner;
	int64_t end = 0;

	if (!p->ops->set_end)
		return;
	/* Behind ours, with its snapshot: the backend deletes, which is not what ttl_action may say. */
	if (expires_ns && expires_ns != LIFE_NEVER)
		end = clock_wall_ns() + expires_ns - life_now(a->life) +
		      (int64_t)(a->life->policy.snapshot_timeout_ns + LATE_NS);
	p->ops->set_end(p, a->name, end, runs);
}

/* When to look because of the absolute time: for the warning first. */
int64_t life_expiry_look(const struct life_row *r, const struct life_wish *w, int64_t now)
{
	int64_t warn = r->expires_ns - (int64_t)w->idle_warning_ns;

	if (!r->expires_ns || r->expires_ns == LIFE_NEVER)
		return 0;
	return r->state == LIFE_RUNNING && w->idle_warning_ns && now < warn ? warn : r->expires_ns;
}

void life_set_due(struct life_agent *a, struct life_row *r)
{
	struct life_wish w;
	int64_t look = 0, end;

	r->due_ns = 0;
	life_wish(&a->life->policy, a->name, r->idle_ttl_ns, &w);
	end = r->active_ns + (int64_t)w.idle_ttl_ns;
	if (r->state == LIFE_RUNNING && w.idle_ttl_ns)
		look = w.idle_warning_ns < w.idle_ttl_ns ? end - (int64_t)w.idle_warning_ns : end;
	if (r->state == LIFE_RUNNING || ((r->state == LIFE_STOPPED || r->state == LIFE_ERROR) && w.ttl_delete))
		r->due_ns = life_earlier(look, life_expiry_look(r, &w, life_now(a->life)));
}
