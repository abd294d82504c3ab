/*
 * auth.h - who may ask the recorder what.
 *
 * The recorder verifies tokens itself (public keys, revocations and the time floor
 * come from the monitor) and trusts nobody's word about them. Internally locked.
 */
#ifndef RECORDER_SERVE_AUTH_H
#define RECORDER_SERVE_AUTH_H

#include "base/json.h"
#include "policy/grant.h"

struct auth;
struct err;

/*
 * instance: issuer of valid tokens; centre: at an edge the issuer of its leases, which then count in place of grants
 * (docs/edge.md), else ""; floor_ns: persisted time floor, 0 = none.
 */
int auth_create(const char *instance, const char *centre, int64_t floor_ns, struct auth **out);
/* At an edge: the longest lease, and how old what is known of revocations may be. */
void auth_set_edge(struct auth *a, int64_t lease_max_ns, int64_t state_max_ns);
/* At an edge: {"at_ns"}, when the centre last spoke of revocations; 0: never. */
int auth_set_edge_state(struct auth *a, const json_t *state, struct err *e);
void auth_destroy(struct auth *a);
/* [{"kid","key"(base64url)}]: the whole list, replaces what was there. */
int auth_set_keys(struct auth *a, const json_t *keys, struct err *e);
/* {"id","expires_ns"} */
int auth_revoke(struct auth *a, const json_t *revocation, struct err *e);
/* Signature, times, revocation; *out says whose it is wherever the signature is good, as of grant_verify(). */
int auth_verify(struct auth *a, const char *token, struct grant *out, struct err *e);

#endif
