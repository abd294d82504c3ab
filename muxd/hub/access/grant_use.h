/*
 * grant_use.h - a use of a grant that has a number of them, before something is opened under it.
 *
 * What is one: all that broker_open() begins for a caller (a terminal, an exec, a round, a run in a context, a transfer
 * or an operation on files, a connection to a port), a request to an MCP server inside, a look at its tools that has to
 * be made there, and what begins services. The monitor counts, behind all that net checks and before anything is
 * journaled; so what then fails has been a use all the same, and the same start with the same exec_id is no further
 * one.
 */
#ifndef MUXD_HUB_ACCESS_GRANT_USE_H
#define MUXD_HUB_ACCESS_GRANT_USE_H

#include "muxd/hub/access/gate.h"

/*
 * 0: the grant has no number, go on. GATE_WAITS: go is called once, with 0, ERR_TOKEN_USED, another refusal of the
 * monitor's, or ERR_CANCELLED, when the hub may be gone; possibly from inside the call.
 */
struct grant_use_of {
	const char *agent;
	const char *exec_id; /* its agent has to be awake, so that the life that it counts in is known; NULL: none */
	const char *digest;  /* of the call, with an exec_id: what else it begins */
};
int grant_use(struct hub *h, const struct request *rq, const struct grant_use_of *of, gate_go *go, void *arg,
	      struct err *e);

#endif
