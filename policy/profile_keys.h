/*
 * profile_keys.h - keys of a policy's mappings: which are known, and what is said to those that are not.
 *
 * For the files that read a policy, profile.c and profile_shape.c. ERR_CONFIG has line and column.
 */
#ifndef POLICY_PROFILE_KEYS_H
#define POLICY_PROFILE_KEYS_H

#include "base/yamldoc.h"

struct err;

/* Keys that somebody may look for, and what is said then. A list ends with {NULL, NULL}. */
struct profile_later {
	const char *key, *why;
};

/* Each key of the map is one of known ("a|b"). what: names the map. later may be NULL. */
int profile_check_keys(struct yamlnode map, const char *what, const char *known, const struct profile_later *later,
		       struct err *e);

#endif
