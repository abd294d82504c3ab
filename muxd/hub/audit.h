/*
 * audit.h - events on their way into the journal, and failed log-ins, of which a flood is few events.
 */
#ifndef MUXD_HUB_AUDIT_H
#define MUXD_HUB_AUDIT_H

#include "base/json.h"
#include "muxd/hub/broker.h"

/* One event, about a request (NULL), with detail (stolen, NULL). ERR_*: it is not in the record. */
int audit_event(struct hub *h, const char *event, const struct request *rq, const char *agent, const char *outcome,
		json_t *detail);

/* What an event says of the call that it is about: door, peer, endpoint, ids, principal, reason. NULL: no memory. */
json_t *audit_request_json(const struct request *rq);

void audit_failure(struct hub *h, const struct request *rq, const char *what, const struct err *e);
/* A valid grant was refused; detail (stolen): what, message and more. The same again is counted for a minute. */
void audit_verdict(struct hub *h, const struct request *rq, const char *agent, const char *outcome, json_t *detail);
int audit_failures_begin(struct hub *h, struct err *e);
void audit_failures_tick(struct hub *h, bool all);
void audit_failures_end(struct hub *h);

#endif
