/*
 * policy.h - the policy in force: put there once the audit log has its text, and taken away.
 *
 * The monitor reads the file and hands its text to net; what does not parse never comes here. NONE -> NEXT (it waits
 * for room in the journal) -> IN FORCE; a policy that waits leaves the one before it in force. The first of a process
 * has none before it, and until it is journaled nothing is allowed but ends, which it decides already.
 */
#ifndef MUXD_HUB_ACCESS_POLICY_H
#define MUXD_HUB_ACCESS_POLICY_H

#include "base/json.h"

#include <stdbool.h>

struct err;
struct hub;
struct policies;
struct policy;
/*
 * The policy from now on, the hub's then; NULL: everything is as granted. by: who loaded it (muxd/monitor/loader.h),
 * NULL: nobody is known; borrowed.
 */
void hub_set_policy(struct hub *h, struct policy *p, json_t *by);
/* A policy that waits is journaled and comes in force. 0; ERR_RECORD_UNAVAILABLE: the first one waits still. */
int hub_policy_settle(struct hub *h, struct err *e);
/* {version, sha256, bytes, profiles, otherwise}. NULL: no memory. */
json_t *policy_describe(const struct policy *p);
const struct policy *hub_policy(const struct hub *h);         /* in force; NULL: none. Borrowed until the loop */
const struct policy *hub_policy_of_ends(const struct hub *h); /* the same, or the first one that waits */
bool hub_policy_waits(const struct hub *h);
struct policies *policies_create(void);    /* those of a hub; NULL: no memory */
void policies_destroy(struct policies *x); /* NULL-safe */

#endif
