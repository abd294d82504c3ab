/*
 * watch.h - which resources of servers inside a session wants to hear of (`resources/subscribe`), of the old era.
 *
 * The server was asked, and said yes, ahead of the row; here is who hears its notices: the stream that the session
 * keeps open. Each row has the grant that it was made under, which has to be in force, and to reach the agent, when a
 * notice comes. Nothing of it outlives the daemon, as the server's own knowledge of it does not. Where there is no room
 * a principal's oldest row gives way to its own next one, and to nobody else's.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_WATCH_H
#define MUXD_DOORS_HTTPS_MCP_WATCH_H

#include "muxd/doors/https/mcp/session.h"

#define MCP_WATCHES_MAX   1024
#define MCP_WATCHES_SHARE (MCP_WATCHES_MAX / 2) /* of one principal, under all of its names */
#define MCP_WATCHES_OWN   64                    /* of one session */
#define MCP_WATCH_URI     2048

struct mcp_watches;
int mcp_watches_create(struct mcp_watches **out); /* ERR_NOMEM */
void mcp_watches_free(struct mcp_watches *w);     /* NULL-safe */

/* server: "agent/server". ERR_LIMIT: the session has as many; ERR_UNAVAILABLE: there is no room, and no row of that
 * principal's gives way; ERR_TOO_LARGE: of the address; ERR_NOMEM. The first one asks, and changes nothing. */
int mcp_watch_may(const struct mcp_watches *w, const struct mcp_holder *who, const char *server, const char *uri);
int mcp_watch_add(struct mcp_watches *w, const struct mcp_holder *who, const char *server, const char *uri);
/* True: it watched that, and no other session does. */
bool mcp_watch_remove(struct mcp_watches *w, const struct mcp_session *session, const char *server, const char *uri);
void mcp_watch_forget(struct mcp_watches *w, const struct mcp_session *session); /* all of its */
void mcp_watches_sweep(struct mcp_watches *w, mcp_holds_fn *holds, void *arg);   /* those whose grant has ended */
/* The holders that watch it: the next one from *at (0 to begin), or NULL. */
const struct mcp_holder *mcp_watch_next(const struct mcp_watches *w, const char *server, const char *uri, size_t *at);

#endif
