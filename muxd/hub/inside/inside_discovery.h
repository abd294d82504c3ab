/*
 * inside_discovery.h - the tools of an MCP server whose sandbox sleeps, read without waking it: in a read-only fork of
 * its last snapshot, which lives for as long as that takes and goes with it; after a crash the next start wipes it
 * (struct life_fork, passing).
 *
 * FORKING -> READING (the server is begun there, and what it offers is stored as the sleeping agent's) -> answered.
 * Owns itself. One at a time for each server.
 */
#ifndef MUXD_HUB_INSIDE_INSIDE_DISCOVERY_H
#define MUXD_HUB_INSIDE_INSIDE_DISCOVERY_H

#include "muxd/hub/core/request.h"

struct server_def;

/* Does it sleep, so that what is only looked at has to be looked at elsewhere? False of one that there is none of. */
bool inside_sleeps(struct hub *h, const char *agent);
/* done: as that of inside_refresh(). ERR_AGAIN: it is under way; ERR_UNSUPPORTED: there are no snapshots. */
int inside_discover(struct hub *h, const struct request *rq, const char *agent, const char *task,
		    const struct server_def *def, broker_json_done *done, void *arg, struct err *e);

void inside_discoveries_leave(struct hub *h); /* the hub goes: callers hear ERR_CANCELLED */

#endif
