/*
 * watch.h - which resources of servers inside a session wants to hear of (`resources/subscribe`), of the old era.
 *
 * The server was asked, and said yes; here is who hears its notices: the stream that the session keeps open. Nothing of
 * it outlives the daemon, as the server's own knowledge of it does not. The newest MCP_WATCHES_MAX are kept.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_WATCH_H
#define MUXD_DOORS_HTTPS_MCP_WATCH_H

#include "muxd/doors/https/mcp/session.h"

#define MCP_WATCHES_MAX 1024
#define MCP_WATCHES_OWN 64 /* of one session */
#define MCP_WATCH_URI   2048

struct mcp_watches;
int mcp_watches_create(struct mcp_watches **out); /* ERR_NOMEM */
void mcp_watches_free(struct mcp_watches *w);     /* NULL-safe */

/* server: "agent/server". ERR_LIMIT: the session has as many; ERR_TOO_LARGE: of the address; ERR_NOMEM. */
int mcp_watch_add(struct mcp_watches *w, const struct mcp_session *session, const char *server, const char *uri);
/* True: another session watches it still. */
bool mcp_watch_remove(struct mcp_watches *w, const struct mcp_session *session, const char *server, const char *uri);
void mcp_watch_forget(struct mcp_watches *w, const struct mcp_session *session); /* all of its */
/* The sessions that watch it: the next one from *at (0 to begin), or NULL. */
const struct mcp_session *mcp_watch_next(const struct mcp_watches *w, const char *server, const char *uri, size_t *at);

#endif
