#include "muxd/doors/https/mcp/log_level.h"

#include "base/err.h"
#include "policy/grant_narrow.h"

#include <string.h>

unsigned mcp_log_level(const char *name)
{
	static const char *const names[MCP_LOG_NONE] = {"debug", "info",     "notice", "warning",
							"error", "critical", "alert",  "emergency"};

	for (unsigned i = 0; i < MCP_LOG_NONE; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return MCP_LOG_NONE;
}

static size_t log_level_row_of(const struct mcp_levels *l, const struct mcp_session *session)
{
	size_t i = 0;

	while (i < MCP_LEVELS_MAX && !(l->rows[i].made && mcp_session_equal(&l->rows[i].who.session, session)))
		i++;
	return i;
}

/* A free row, or the oldest one of the same principal: MCP_LEVELS_MAX where neither is. */
static size_t row_for(const struct mcp_levels *l, const struct mcp_holder *who)
{
	size_t empty = MCP_LEVELS_MAX, oldest = MCP_LEVELS_MAX, own = 0;

	for (size_t i = 0; i < MCP_LEVELS_MAX; i++) {
		if (!l->rows[i].made) {
			empty = empty == MCP_LEVELS_MAX ? i : empty;
		} else if (grant_same_root(l->rows[i].who.principal, who->principal)) {
			own++;
			if (oldest == MCP_LEVELS_MAX || l->rows[i].made < l->rows[oldest].made)
				oldest = i;
		}
	}
	return own >= MCP_LEVELS_SHARE || empty == MCP_LEVELS_MAX ? oldest : empty;
}

int mcp_levels_set(struct mcp_levels *l, const struct mcp_holder *who, unsigned level)
{
	size_t i = log_level_row_of(l, &who->session);

	if (i == MCP_LEVELS_MAX) {
		i = row_for(l, who);
		if (i == MCP_LEVELS_MAX)
			return ERR_LIMIT;
		l->rows[i].made = ++l->made;
	}
	l->rows[i].who = *who;
	l->rows[i].level = level;
	return 0;
}

unsigned mcp_levels_get(const struct mcp_levels *l, const struct mcp_session *session)
{
	size_t i = log_level_row_of(l, session);

	return i < MCP_LEVELS_MAX ? l->rows[i].level : MCP_LOG_NONE;
}

void mcp_levels_forget(struct mcp_levels *l, const struct mcp_session *session)
{
	size_t i = log_level_row_of(l, session);

	if (i < MCP_LEVELS_MAX)
		l->rows[i].made = 0;
}

void mcp_levels_sweep(struct mcp_levels *l, mcp_holds_fn *holds, void *arg)
{
	for (size_t i = 0; i < MCP_LEVELS_MAX; i++)
		if (l->rows[i].made && !holds(arg, &l->rows[i].who))
			l->rows[i].made = 0;
}
