/*
 * grant_bounds.h - what a grant bounds beside scopes and paths: which operations, by the names that a policy has for
 * them (operation.h), and how often it opens something.
 *
 * Each bound narrows and never widens. They travel in the token, so that whoever verifies it knows them; how often a
 * grant has been used its monitor counts (muxd/monitor/grants.h). Values, no ownership. Pure.
 */
#ifndef POLICY_GRANT_BOUNDS_H
#define POLICY_GRANT_BOUNDS_H

#include "base/json.h"
#include "policy/operation.h"

#include <stdint.h>

struct err;

#define GRANT_USES_MAX 1000000

struct grant_bounds {
	uint32_t uses;       /* how often it opens something; 0: as often as its holder likes */
	uint64_t operations; /* 1 << enum policy_op; 0: all that its scopes allow */
};

/* May a grant hold it? ERR_INVAL. */
int grant_bounds_check(const struct grant_bounds *b, struct err *e);
/*
 * Members uses (a number) and operations ("round.start,file.read") of an object, where they are; absent or null: no
 * bound. ERR_INVAL names the operation that is none, and the one that was likely meant.
 */
int grant_bounds_take(const json_t *o, struct grant_bounds *out, struct err *e);
/* Comma-separated names; "" is refused. */
int grant_operations_parse(const char *text, uint64_t *out, struct err *e);
/* The same into an object: bounds alone. 0, ERR_NOMEM. */
int grant_bounds_put(json_t *o, const struct grant_bounds *b);
/* Is the operation one of those? ERR_FORBIDDEN names it. */
int grant_bounds_allow(const struct grant_bounds *b, enum policy_op op, struct err *e);
/* Is `child` within `parent`? ERR_NOT_NARROWER. A child of a grant with a number of uses has one. */
int grant_bounds_narrow(const struct grant_bounds *parent, const struct grant_bounds *child, struct err *e);

#endif
