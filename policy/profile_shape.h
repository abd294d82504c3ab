/*
 * profile_shape.h - `image` and `resources` of a profile, as its file has them (docs/policy.md).
 *
 * For profile.c alone. What was read is the profile's, until profile_shape_finish().
 */
#ifndef POLICY_PROFILE_SHAPE_H
#define POLICY_PROFILE_SHAPE_H

#include "base/yamldoc.h"
#include "policy/profile.h"

/* ERR_CONFIG: with line and column. */
int profile_take_shape(struct policy_profile *p, struct yamlnode map, struct err *e);
void profile_shape_finish(struct policy_profile *p);

#endif
