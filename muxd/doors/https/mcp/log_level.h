/*
 * log_level.h - from which severity on a caller wants to hear log messages of a server inside (RFC 5424's names): of
 * the new era each request says it, of the old one its session, with `logging/setLevel`. Who has not said it hears
 * none.
 *
 * Sessions are names that nothing is kept for, but for this: MCP_LEVELS_MAX, until the session, its grant or the daemon
 * ends. Where there is no room a principal's oldest gives way to its own next one, and to nobody else's.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_LOG_LEVEL_H
#define MUXD_DOORS_HTTPS_MCP_LOG_LEVEL_H

#include "muxd/doors/https/mcp/session.h"

#define MCP_LEVELS_MAX   1024
#define MCP_LEVELS_SHARE (MCP_LEVELS_MAX / 2) /* of one principal, under all of its names */
#define MCP_LOG_NONE     8

struct mcp_levels {
	struct {
		struct mcp_holder who;
		uint64_t made; /* how many were before; 0: the row is free */
		unsigned level;
	} rows[MCP_LEVELS_MAX];
	uint64_t made;
};

/* "debug" is 0, "emergency" 7; MCP_LOG_NONE: it is none. */
unsigned mcp_log_level(const char *name);
/* ERR_LIMIT: there is no room, and no row of that principal's gives way. */
int mcp_levels_set(struct mcp_levels *l, const struct mcp_holder *who, unsigned level);
unsigned mcp_levels_get(const struct mcp_levels *l, const struct mcp_session *session); /* MCP_LOG_NONE: not said */
void mcp_levels_forget(struct mcp_levels *l, const struct mcp_session *session);
void mcp_levels_sweep(struct mcp_levels *l, mcp_holds_fn *holds, void *arg); /* those whose grant has ended */

#endif
