/*
 * audit.h - events on their way into the journal; of those that repeat a flood is few (repeats.h).
 */
#ifndef MUXD_HUB_RECORD_AUDIT_H
#define MUXD_HUB_RECORD_AUDIT_H

#include "base/json.h"
#include "muxd/hub/core/request.h"

struct audit_repeats;

/* One event, about a request (NULL), with detail (stolen, NULL). ERR_*: it is not in the record. */
int audit_event(struct hub *h, const char *event, const struct request *rq, const char *agent, const char *outcome,
		json_t *detail);

/* The same, for audit_journal(). NULL: no memory. */
json_t *audit_event_json(struct hub *h, const char *event, const struct request *rq, const char *agent,
			 const char *outcome, json_t *detail);

/* The record of an event as it is, with the lease of its agent where it names none. */
int audit_journal(struct hub *h, json_t *record);
/* Fields of an event, or of OPEN: lease_id, run_id, client_request_id; those that are there. NULL: none. */
void audit_set_lease(json_t *o, const struct work_ids *i);
/* One event about a session (its id as text, NULL), by which the log is asked for it. */
int audit_session_event(struct hub *h, const char *event, const char *session, const char *agent, const char *outcome,
			json_t *detail);
/* The members by which an event names its call: door, peer, endpoint, ids, principal, reason. NULL: no memory. */
json_t *audit_request_json(const struct request *rq);

void audit_failure(struct hub *h, const struct request *rq, const char *what, const struct err *e);
/* A valid grant was refused; detail (stolen): what, message and more. The same again is counted for a minute. */
void audit_verdict(struct hub *h, const struct request *rq, const char *agent, const char *outcome, json_t *detail);
/* The policy denied what a valid grant asked for: event policy.deny; detail as there. */
void audit_denial(struct hub *h, const struct request *rq, const char *agent, json_t *detail);
/* The policy let a look through that leaves no event of its own: policy.allow; rq has the mark, detail as there. */
void audit_allowance(struct hub *h, const struct request *rq, const char *agent, json_t *detail);
/* From here on repeats are counted, and those that an earlier process counted are written. path: where counts outlive a
 * kill; NULL: nowhere. ERR_NOMEM. */
int audit_repeats_create(struct hub *h, const char *path, struct audit_repeats **out, struct err *e);
void audit_repeats_tick(struct hub *h, bool all);
void audit_repeats_destroy(struct audit_repeats *r); /* NULL-safe; writes nothing */
/* An audit record of the monitor's (grants made and revoked). */
int hub_audit(struct hub *h, const json_t *record);

#endif
