/*
 * filespace_due.h - who has changed files since the last push: the causes that the next one is told with.
 *
 * A round, a command, a terminal, an MCP request or a call that wrote files has ended, and its answer is on its way;
 * the push begins at the next tick (filespace.h). However many end meanwhile, it is one.
 */
#ifndef MUXD_HUB_AGENT_FILESPACE_DUE_H
#define MUXD_HUB_AGENT_FILESPACE_DUE_H

#include "base/json.h"

struct agent;
struct session;

void filespace_session_ended(const struct session *s);
/* A request to an MCP server inside has been answered. */
/* a NULL: it is gone. */
void filespace_caused(struct agent *a, const char *kind, const char *session, const char *principal, const char *task);
/* The causes that have gathered, for the caller; NULL: nothing. */
json_t *filespace_causes_take(struct agent *a);

#endif
