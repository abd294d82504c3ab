/*
 * inside_may.h - may this grant use that tool of that MCP server inside? The one place where it is asked: ahead of each
 * request, and of each tool that a catalogue shows.
 */
#ifndef MUXD_HUB_INSIDE_INSIDE_MAY_H
#define MUXD_HUB_INSIDE_INSIDE_MAY_H

#include "muxd/hub/core/request.h"

/* bytes: of its parameters. A request that begins, which a profile's limits count. */
int inside_may_begin(struct hub *h, struct request *rq, const char *agent, const char *task, const char *server,
		     const char *tool, size_t bytes, struct err *e);
/* The same of one that was begun, or of none. tool NULL: the server as a whole. Refusals are audited, with `what`. rq
 * gets the mark of an allowance. ERR_FORBIDDEN, ERR_POLICY_DENIED. */
int inside_may(struct hub *h, struct request *rq, const char *agent, const char *task, const char *server,
	       const char *tool, const char *what, struct err *e);
/* May that server put a question to this grant's holder? told: a refusal is audited. */
bool inside_may_ask(struct hub *h, const struct request *rq, const char *agent, const char *task, const char *server,
		    const char *tool, bool told);
/* The same as the first without a word to anybody. */
bool inside_may_see(struct hub *h, const struct request *rq, const char *agent, const char *task, const char *server,
		    const char *tool);

#endif
