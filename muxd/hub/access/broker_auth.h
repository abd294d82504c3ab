/*
 * broker_auth.h - who calls: a token becomes a request, and what goes on under a grant is asked about again.
 *
 * The first call of every door, and the one by which a door tells of what it refuses itself.
 */
#ifndef MUXD_HUB_ACCESS_BROKER_AUTH_H
#define MUXD_HUB_ACCESS_BROKER_AUTH_H

#include "muxd/hub/core/request.h"
#include "muxd/hub/session/attachment.h"

/*
 * A request from a token: signature, times, revocation, audit of failures. token NULL: none was sent, which is refused
 * (ERR_UNAUTHENTICATED, *e as the door put it, or what it lacks) and audited like the others.
 * Synchronous. On failure *e is what the client may know.
 */
int broker_authenticate(struct hub *h, const char *token, size_t len, const struct origin *from, struct request *out,
			struct err *e);
/*
 * The same for who showed the token while it was in force, as a page's cookie did: good until the end of its grant's
 * newest renewal. What is asked beyond the hub is asked by that one's token (hub_grant_token()).
 */
int broker_authenticate_held(struct hub *h, const char *token, size_t len, const struct origin *from,
			     struct request *out, struct err *e);
/* The door refuses a call with this token for a reason of its own (a foreign page): audited with whose token it was. */
void broker_refuse(struct hub *h, const char *token, size_t len, const struct origin *from, const char *what,
		   const struct err *e);
/*
 * Has this grant neither ended, renewals counted, nor been revoked? For who showed it before; nothing is audited.
 * ERR_TOKEN_EXPIRED, ERR_TOKEN_REVOKED.
 */
int broker_grant_check(struct hub *h, const struct grant_line *grant, struct err *e);
/* The same for what goes on under a grant; what: its name in the audit log, which has a refusal. ERR_TOKEN_EXPIRED,
 * ERR_TOKEN_REVOKED. */
int broker_in_force(struct hub *h, const struct request *rq, const char *what, struct err *e);
/* The door refuses what this grant asks for: a verdict, as the broker's own are. Returns e's code. */
int broker_verdict(struct hub *h, const struct request *rq, const char *what, const struct err *e);
/*
 * Failed log-ins (wrong key, too many tries, a token that does not serve): an audit event. who: whose grant it was,
 * where a good signature says so; NULL: nobody is known.
 */
void broker_audit_refused(struct hub *h, const struct origin *from, const char *what, const struct grant *who,
			  const struct err *e);
/* Would the policy allow the operation, for whatever it is about? For lists of what can be called; nothing is audited.
 */
bool broker_policy_may(struct hub *h, const struct request *rq, enum policy_op op);
/* The role of who asks for none: driver where the grant may type on it. A session that is not at hand: observer. */
enum attachment_role broker_attach_role(struct hub *h, const struct request *rq, const struct id *session);

#endif
