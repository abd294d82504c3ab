#include "muxd/doors/https/mcp/log_level.h"

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

static size_t rows_of(const struct mcp_levels *l)
{
	return l->at < MCP_LEVELS_MAX ? l->at : MCP_LEVELS_MAX;
}

void mcp_levels_set(struct mcp_levels *l, const struct mcp_session *session, unsigned level)
{
	size_t i = 0;

	while (i < rows_of(l) && !mcp_session_equal(&l->rows[i].session, session))
		i++;
	if (i == rows_of(l))
		i = l->at++ % MCP_LEVELS_MAX;
	l->rows[i].session = *session;
	l->rows[i].level = level;
}

unsigned mcp_levels_get(const struct mcp_levels *l, const struct mcp_session *session)
{
	for (size_t i = 0; i < rows_of(l); i++)
		if (mcp_session_equal(&l->rows[i].session, session))
			return l->rows[i].level;
	return MCP_LOG_NONE;
}
