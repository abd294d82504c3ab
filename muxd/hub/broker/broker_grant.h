/*
 * broker_grant.h - what a grant's holder does with grants: narrower ones made from it, its renewal, their list and end.
 *
 * The monitor decides and signs; it is given the token as it was presented and looks at it again. What it refuses is
 * audited here as the holder's; what it does has the monitor's own event (grant.create, grant.renew, grant.revoke).
 */
#ifndef MUXD_HUB_BROKER_BROKER_GRANT_H
#define MUXD_HUB_BROKER_BROKER_GRANT_H

#include "muxd/hub/core/request.h"

enum grant_call { GRANT_CHILD, GRANT_RENEW, GRANT_REVOKE, GRANT_LIST };

/* A child: what is NULL or 0 is as the holder's own grant has it, without scope grant. Borrowed. */
struct child_wish {
	const char *principal, *agent, *task, *kind, *reason;
	const char *edge; /* a lease for that edge, a name of edge.known; NULL: a grant */
	uint32_t scopes;
	struct grant_files files;
	struct grant_bounds bounds;
};
struct grant_ask {
	enum grant_call call;
	const struct child_wish *child; /* GRANT_CHILD */
	const char *reason;             /* GRANT_RENEW */
	uint64_t ttl_ns;                /* of a child or a renewal; 0: grants.ttl, as far as it may last */
	const char *id;                 /* GRANT_REVOKE: its own, or one made from it */
	const char *before;             /* GRANT_LIST; NULL: from the newest */
	int64_t limit;
};
/* A token of an outside issuer for a grant (docs/issuers.md). Borrowed. */
struct grant_exchange {
	const char *issuer, *token;    /* issuer NULL: the token is shown as it is (broker_shown.h) */
	const struct child_wish *wish; /* reason, agent, task, scopes, files; NULL with it */
	uint64_t ttl_ns;               /* 0: grants.ttl, as far as the issuer's tokens may */
};
/* {token, grant}. Done once, also when the hub ends (ERR_CANCELLED). The refusal is audited here. */
void broker_exchange(struct hub *h, const struct grant_exchange *x, const struct origin *from, broker_json_done *done,
		     void *arg);
/*
 * {token, grant}, {id}, or {grants, more}. Done once, also when the hub ends (ERR_CANCELLED). ERR_NOT_NARROWER,
 * ERR_FORBIDDEN, ERR_UNSUPPORTED, ERR_NOT_FOUND, ERR_REASON_REQUIRED, ERR_RECORD_UNAVAILABLE.
 */
void broker_grant(struct hub *h, const struct request *rq, const struct grant_ask *ask, broker_json_done *done,
		  void *arg);

#endif
