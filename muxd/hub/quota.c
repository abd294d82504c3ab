#include "muxd/hub/quota.h"

#include "base/conf.h"
#include "base/err.h"
#include "policy/grant.h"

bool quota_is_staff(const struct grant *g)
{
	return g->kind == GRANT_STAFF && (g->scopes & SCOPE_TERMINAL);
}

/* The sessions that everybody may fill of a sandbox. */
static unsigned sandbox_limit(const struct conf *c)
{
	const unsigned most = QUOTA_CHANNELS - QUOTA_LIFECYCLE - QUOTA_SANDBOX_RESERVE;

	return c->sessions_max_per_agent < most ? c->sessions_max_per_agent : most;
}

static unsigned with_reserve(unsigned limit, unsigned reserve, bool staff, unsigned mine)
{
	if (!staff)
		return limit;
	return limit + (mine < QUOTA_FEW ? reserve : reserve / 2);
}

unsigned quota_share(const struct conf *c)
{
	return c->sessions_max - c->sessions_max / 4;
}

unsigned quota_most(const struct conf *c)
{
	return c->sessions_max + QUOTA_DAEMON_RESERVE;
}

int quota_check(const struct conf *c, bool staff, const struct quota_load *l, struct err *e)
{
	if (l->all >= with_reserve(c->sessions_max, QUOTA_DAEMON_RESERVE, staff, l->mine))
		return err_set(e, ERR_LIMIT, "%u sessions are open: sessions.max is reached", l->all);
	if (!staff && l->mine >= quota_share(c))
		return err_set(e, ERR_LIMIT,
			       "%u sessions of %s are open: one principal's share of sessions.max is reached", l->mine,
			       l->principal);
	if (l->here >= with_reserve(sandbox_limit(c), QUOTA_SANDBOX_RESERVE, staff, l->mine_here))
		return err_set(e, ERR_LIMIT, "%u sessions of %s are open: sessions.max_per_agent is reached", l->here,
			       l->agent);
	return 0;
}
