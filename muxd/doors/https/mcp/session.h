/*
 * session.h - the name of a session of the old era (Mcp-Session-Id), which is all that there is of it. Pure.
 *
 * "UUID.VERSION.DIGEST": which version of the protocol was agreed on, and a digest over that and who made it. Nothing
 * is kept for it, so a session outlives the daemon that began it; the grant that comes with each request decides what
 * may be done. The digest keeps one caller's session from being taken for another's; it is no secret, and who makes a
 * name up by himself gains nothing by it.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_SESSION_H
#define MUXD_DOORS_HTTPS_MCP_SESSION_H

#include "base/ids.h"
#include "muxd/doors/https/mcp/message.h"

#define MCP_SESSION_SZ 56

struct mcp_session {
	struct id id;
	enum mcp_version version;
};

int mcp_session_new(enum mcp_version v, struct mcp_session *out);
void mcp_session_format(const struct mcp_session *s, const char *principal, char out[MCP_SESSION_SZ]);
/* ERR_NOT_FOUND: it is none of this principal's. */
int mcp_session_parse(const char *text, const char *principal, struct mcp_session *out);

#endif
