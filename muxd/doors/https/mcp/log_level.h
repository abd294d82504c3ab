/*
 * log_level.h - from which severity on a caller wants to hear log messages of a server inside (RFC 5424's names): of
 * the new era each request says it, of the old one its session, with `logging/setLevel`. Who has not said it hears
 * none.
 *
 * Sessions are names that nothing is kept for, but for this: the newest MCP_LEVELS_MAX, until the daemon ends.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_LOG_LEVEL_H
#define MUXD_DOORS_HTTPS_MCP_LOG_LEVEL_H

#include "muxd/doors/https/mcp/session.h"

#define MCP_LEVELS_MAX 1024
#define MCP_LOG_NONE   8

struct mcp_levels {
	struct {
		struct mcp_session session;
		unsigned level;
	} rows[MCP_LEVELS_MAX];
	size_t at; /* rows that were ever set */
};

/* "debug" is 0, "emergency" 7; MCP_LOG_NONE: it is none. */
unsigned mcp_log_level(const char *name);
void mcp_levels_set(struct mcp_levels *l, const struct mcp_session *session, unsigned level);
unsigned mcp_levels_get(const struct mcp_levels *l, const struct mcp_session *session); /* MCP_LOG_NONE: not said */

#endif
