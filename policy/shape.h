/*
 * shape.h - image and resources of the sandbox that a call would make: does its profile allow them, and which does it
 * get?
 *
 * For verdict.c; doors ask policy_verdict(), then verdict_shape() of what it allowed. What a caller names counts, or
 * else what the agent has from before where the profile allows that, or else the profile's own. Pure.
 */
#ifndef POLICY_SHAPE_H
#define POLICY_SHAPE_H

#include "policy/profile.h"

/* VERDICT_NAMED where nothing is to be said against it, VERDICT_IMAGE, VERDICT_RESOURCES. */
enum verdict_why policy_shape_judge(const struct policy_profile *p, const struct policy_question *q);
/* "image", "resources"; NULL: it is a denial for something else, or none. */
const char *policy_shape_name(enum verdict_why why);
void policy_shape_message(const struct policy_profile *p, enum verdict_why why, const struct policy_question *q,
			  char *out, size_t size);
void policy_shape_hint(const struct policy_profile *p, enum verdict_why why, const struct policy_question *q, char *out,
		       size_t size);

#endif
