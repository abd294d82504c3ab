/*
 * revocation.h - the set of grant ids that were taken back before their time.
 *
 * Owned by each process that verifies tokens; loaded before its doors open and
 * told of every new one by the monitor, which made it durable first. Entries are
 * dropped once the grant would have expired anyway.
 */
#ifndef POLICY_REVOCATION_H
#define POLICY_REVOCATION_H

#include "base/ids.h"

struct revocations;

int revocations_create(struct revocations **out);
void revocations_destroy(struct revocations *r);
int revocations_add(struct revocations *r, const struct id *grant, int64_t expires_ns);
bool revocations_has(const struct revocations *r, const struct id *grant);
void revocations_expire(struct revocations *r, int64_t now_ns);
size_t revocations_count(const struct revocations *r);

#endif
