/*
 * grant_news.h - what the hub knows of grants since they were signed: whose signatures count, which were taken back,
 * which were renewed. What it shares of them, and what it has verified, is kept with that.
 *
 * Owner: the hub.
 */
#ifndef MUXD_HUB_CORE_GRANT_NEWS_H
#define MUXD_HUB_CORE_GRANT_NEWS_H

#include "base/ids.h"
#include "policy/grant.h"
#include "policy/grant_kin.h"

struct hub;
struct hub_grants;
struct request;

/* A renewal holds what its grant, and the renewals before it, hold open; first as in grant_kin.h. */
struct hub_renewal {
	struct id first, grant;
	int64_t expires_ns;
	const char *by, *reason; /* NULL: told before, and only known again */
	const char *token;       /* NULL likewise; copied, and wiped when it is over */
};

/* Until when what is known of revocations may be used; 0: for ever, as at whoever takes back itself. */
int64_t hub_known_until(const struct hub *h);
/* Whose tokens count. Borrowed. */
struct grant_trust hub_trust(const struct hub *h);
/* Borrowed. */
struct grant_news hub_grant_news(const struct hub *h);
/* The token that a request would present now: that of its grant's newest renewal, or its own. Borrowed until the loop.
 */
const char *hub_grant_token(const struct hub *h, const struct request *rq);
/* As grant_trusted(), with the same answers; a signature that was good before is not looked at again. */
int hub_grant_verify(struct hub *h, const char *token, size_t len, const struct grant_trust *t, int64_t now,
		     struct grant *out, struct err *e);
/* The hub's one copy of g, for as long as something goes on under it. NULL: no memory. */
const struct grant *hub_grant_share(struct hub *h, const struct grant *g);
void hub_grant_unshare(struct hub *h, const struct grant *g); /* NULL-safe */

/* The news itself, as grants.c hears it: it is kept, and nothing is done about it. Copied. ERR_NOMEM. */
int grants_keep_keys(struct hub *h, const struct grant_public_key *keys, size_t n);
void grants_keep_edge(struct hub *h, int64_t at_ns);
int grants_keep_revoked(struct hub *h, const struct id *grant, int64_t expires_ns);
int grants_keep_renewed(struct hub *h, const struct hub_renewal *r);
void hub_grants_expire(struct hub *h, int64_t now); /* what counts no longer is forgotten */

/* floor_ns: the wall clock is not before that, whatever it says (policy/time_floor.h). ERR_NOMEM. */
int hub_grants_create(int64_t floor_ns, struct hub_grants **out);
void hub_grants_destroy(struct hub_grants *g); /* NULL-safe; wipes tokens */

#endif
