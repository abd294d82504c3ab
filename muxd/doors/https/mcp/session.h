/*
 * session.h - the name of a session of the old era (Mcp-Session-Id), which is all that there is of it. Pure.
 *
 * "UUID.VERSION.DIGEST": which version of the protocol was agreed on (and in a second digit what the client can be
 * asked, where that is anything), and a digest over that and over whose it is: the principal, and the kind, agent, task
 * and scopes of the grant. So a renewed grant is in the same session, and so is another one for the same. Nothing is
 * kept for it: a session outlives the daemon that began it, and the grant that comes with each request decides what may
 * be done. The digest is no secret: who knows the UUID of another caller's session can make a name with it, but that
 * name is another session, since sessions are compared with their digests.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_SESSION_H
#define MUXD_DOORS_HTTPS_MCP_SESSION_H

#include "base/ids.h"
#include "muxd/doors/https/mcp/message.h"
#include "policy/grant.h"

#define MCP_SESSION_SZ     57
#define MCP_SESSION_DIGEST 8 /* bytes */

struct mcp_session {
	struct id id;
	enum mcp_version version;
	unsigned asked; /* enum question_kind: what its client declared that it answers */
	uint8_t digest[MCP_SESSION_DIGEST];
};

/* A session that something is kept for, and the grant that it spoke under last. */
struct mcp_holder {
	struct mcp_session session;
	struct grant_line grant;
	char principal[GRANT_NAME_MAX + 1], agent[AGENT_NAME_MAX + 1]; /* agent: as a grant has it */
};
struct mcp_holder mcp_holder_of(const struct mcp_session *session, const struct grant *whose);
typedef bool mcp_holds_fn(void *arg, const struct mcp_holder *who); /* is its grant in force? */

int mcp_session_new(enum mcp_version v, unsigned asked, const struct grant *whose,
		    struct mcp_session *out); /* ERR_SYS */
bool mcp_session_equal(const struct mcp_session *a, const struct mcp_session *b);
void mcp_session_format(const struct mcp_session *s, char out[MCP_SESSION_SZ]);
/* ERR_NOT_FOUND: it is none of this grant's. */
int mcp_session_parse(const char *text, const struct grant *whose, struct mcp_session *out);

#endif
