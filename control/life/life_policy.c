#include "control/life/life_policy.h"

#include "base/conf.h"
#include "base/err.h"
#include "control/life/life_row.h"

#include <stdlib.h>
#include <string.h>

/* To make very many small files takes longer than to read them, into an archive and once more as its proof. */
#define RESTORE_TIMES 4

static char *copy_or_null(const char *s, bool *failed)
{
	char *out = s ? strdup(s) : NULL;

	*failed = *failed || (s && !out);
	return out;
}

int life_policy_init(struct life_policy *p, const struct conf *c)
{
	bool failed = false;

	*p = (struct life_policy){.idle_ttl_ns = c->life_idle_ttl_ns,
				  .idle_warning_ns = c->life_idle_warning_ns,
				  .ttl_ns = c->life_ttl_ns,
				  .keep_age_ns = c->life_keep_age_ns,
				  .hold_attached = c->life_hold_attached,
				  .ttl_delete = strcmp(c->life_ttl_action, "delete") == 0,
				  .at_rest_drop = strcmp(c->life_at_rest, "drop") == 0,
				  .end_snapshot = strcmp(c->life_terminate, "snapshot") == 0,
				  .keep_snapshots = c->life_keep_snapshots,
				  .forks_max = c->life_forks_max,
				  .speed = c->life_speed ? c->life_speed : 1,
				  .start_timeout_ns = c->life_start_timeout_ns,
				  .snapshot_timeout_ns = c->life_snapshot_timeout_ns,
				  .restore_timeout_ns = RESTORE_TIMES * c->life_snapshot_timeout_ns};
	p->snapshot_reasons = copy_or_null(c->life_snapshot_reasons, &failed);
	p->keep_reasons = copy_or_null(c->life_keep_reasons, &failed);
	p->agents = calloc(c->life_nagents + 1, sizeof(*p->agents));
	failed = failed || !p->agents;
	for (size_t i = 0; !failed && i < c->life_nagents; i++) {
		p->agents[i] = c->life_agents[i];
		p->agents[i].agent = copy_or_null(c->life_agents[i].agent, &failed);
		p->agents[i].ttl_action = copy_or_null(c->life_agents[i].ttl_action, &failed);
		p->agents[i].at_rest = copy_or_null(c->life_agents[i].at_rest, &failed);
		p->nagents = i + 1;
	}
	if (failed)
		life_policy_finish(p);
	return failed ? ERR_NOMEM : 0;
}

void life_policy_finish(struct life_policy *p)
{
	for (size_t i = 0; p->agents && i < p->nagents; i++) {
		free(p->agents[i].agent);
		free(p->agents[i].ttl_action);
		free(p->agents[i].at_rest);
	}
	free(p->agents);
	free(p->snapshot_reasons);
	free(p->keep_reasons);
	memset(p, 0, sizeof(*p));
}

uint64_t life_scaled(const struct life_policy *p, uint64_t ns)
{
	return ns && ns / p->speed == 0 ? 1 : ns / p->speed;
}

static bool life_policy_fits(const char *pattern, const char *agent)
{
	size_t n = strlen(pattern);

	if (n && pattern[n - 1] == '*')
		return strncmp(pattern, agent, n - 1) == 0;
	return strcmp(pattern, agent) == 0;
}

void life_wish(const struct life_policy *p, const char *agent, int64_t own_idle_ttl, struct life_wish *out)
{
	const struct conf_life_agent *a = NULL;
	uint64_t idle = p->idle_ttl_ns, ttl = p->ttl_ns;

	for (size_t i = 0; i < p->nagents && !a; i++)
		if (life_policy_fits(p->agents[i].agent, agent))
			a = &p->agents[i];
	if (a && a->idle_ttl_ns != UINT64_MAX)
		idle = a->idle_ttl_ns;
	if (own_idle_ttl != LIFE_TTL_CONF)
		idle = (uint64_t)own_idle_ttl;
	if (a && a->ttl_ns != UINT64_MAX)
		ttl = a->ttl_ns;
	*out =
	    (struct life_wish){.idle_ttl_ns = life_scaled(p, idle),
			       .idle_warning_ns = life_scaled(p, p->idle_warning_ns),
			       .ttl_ns = life_scaled(p, ttl),
			       .hold_attached = a && a->hold_attached >= 0 ? a->hold_attached : p->hold_attached,
			       .ttl_delete = a && a->ttl_action ? strcmp(a->ttl_action, "delete") == 0 : p->ttl_delete,
			       .at_rest_drop = a && a->at_rest ? strcmp(a->at_rest, "drop") == 0 : p->at_rest_drop};
}

/* Is the first word of the reason (or all of it) in "a,b,c"? */
static bool life_policy_listed(const char *list, const char *reason)
{
	size_t word = strcspn(reason, " :"), whole = strlen(reason);

	while (list && *list) {
		size_t n;

		list += strspn(list, " ,");
		n = strcspn(list, ",");
		if (n &&
		    ((n == word && strncmp(list, reason, n) == 0) || (n == whole && strncmp(list, reason, n) == 0)))
			return true;
		list += n;
	}
	return false;
}

enum life_end life_end_by_reason(const struct life_policy *p, const char *reason)
{
	if (life_policy_listed(p->keep_reasons, reason))
		return LIFE_END_KEEP;
	if (life_policy_listed(p->snapshot_reasons, reason))
		return LIFE_END_SNAPSHOT;
	return p->end_snapshot ? LIFE_END_SNAPSHOT : LIFE_END_KEEP;
}

/*
 * Activity is what moved `last`: any call at its start and end, attach, input, resize, detach. While a round, a
 * transfer or a forwarded connection runs the timer stands still; an attached and silent terminal holds it only where
 * that is wanted, and is warned else. A job in the background that nobody watches is none.
 */
void life_decide(const struct life_wish *w, const struct life_activity *act, int64_t active, int64_t now, bool warned,
		 struct life_verdict *out)
{
	int64_t ttl = (int64_t)w->idle_ttl_ns, end = active + ttl, warn;

	memset(out, 0, sizeof(*out));
	if (!ttl)
		return;
	if (act->holding || (w->hold_attached && act->attached)) {
		out->look_at = now + ttl; /* what ends it is activity: it cannot be due before */
		return;
	}
	out->stops_at = end;
	out->due = now >= end;
	warn = w->idle_warning_ns && (int64_t)w->idle_warning_ns < ttl ? end - (int64_t)w->idle_warning_ns : end;
	out->warn = !out->due && act->attached && !warned && warn < end && now >= warn;
	out->look_at = now < warn ? warn : end;
}
