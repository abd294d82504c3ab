/*
 * profile_record.h - what recordings of a profile's sessions keep: `record` in its YAML, for profile.c. It fills
 * p->record, whose names it owns.
 */
#ifndef POLICY_PROFILE_RECORD_H
#define POLICY_PROFILE_RECORD_H

#include "base/yamldoc.h"
#include "policy/profile.h"

/* map: the profile. ERR_CONFIG with line and column. */
int profile_take_record(struct policy_profile *p, struct yamlnode map, struct err *e);
void profile_record_finish(struct policy_profile *p);

#endif
