/*
 * grant_shared.h - one copy of a grant for all that goes on under it.
 *
 * A session keeps the grant that opened it, each attachment its own; most have it in common. A value of its owner's,
 * zeros to begin with; one thread at a time. Who shares a grant holds it until grant_unshare(); it never changes: a
 * renewal is news of it (grant_kin.h).
 */
#ifndef POLICY_GRANT_SHARED_H
#define POLICY_GRANT_SHARED_H

#include "policy/grant.h"

struct grant_shared;
struct grants_shared {
	struct grant_shared *all;
};

/* The copy of g. NULL: no memory. */
const struct grant *grant_share(struct grants_shared *s, const struct grant *g);
/* The last holder frees it. NULL-safe. */
void grant_unshare(struct grants_shared *s, const struct grant *g);

#endif
