/*
 * grant_news.h - what the hub knows of grants since they were signed: which were taken back, which were renewed.
 */
#ifndef MUXD_HUB_CORE_GRANT_NEWS_H
#define MUXD_HUB_CORE_GRANT_NEWS_H

#include "base/ids.h"
#include "policy/grant.h"
#include "policy/grant_kin.h"

struct hub;
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
int grants_keep_token(struct hub *h, const struct hub_renewal *r); /* of a renewal; copied. ERR_NOMEM */
/* The token that a request would present now: that of its grant's newest renewal, or its own. Borrowed until the loop.
 */
const char *hub_grant_token(const struct hub *h, const struct request *rq);
void grants_forget_tokens(struct hub *h, int64_t now); /* of renewals that ended; INT64_MAX: all */

#endif
