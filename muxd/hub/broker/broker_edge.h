/*
 * broker_edge.h - what edges ask of their centre (docs/edge.md).
 *
 * An edge shows a call signed by its key, of edge.known, in a grant's place; that opens these questions and nothing
 * else.
 */
#ifndef MUXD_HUB_BROKER_BROKER_EDGE_H
#define MUXD_HUB_BROKER_BROKER_EDGE_H

#include "muxd/hub/core/request.h"

struct conf_edge;

/* Looks whose call it is. token NULL: none was sent. Refusals are audited. *out is borrowed until the configuration
 * changes.
 */
int broker_edge(struct hub *h, const char *token, const struct origin *from, const struct conf_edge **out,
		struct err *e);
/* {"state"}: which leases of that edge were taken back, signed by the monitor. ERR_UNAUTHENTICATED, ERR_TOKEN_*. */
void broker_edge_state(struct hub *h, const char *token, const struct origin *from, broker_json_done *done, void *arg);

#endif
