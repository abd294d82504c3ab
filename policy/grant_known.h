/*
 * grant_known.h - grants whose signature was looked at before.
 *
 * A client sends the same token with each call, and an Ed25519 signature costs more than all else that a call needs.
 * The claims of a token whose signature was good are remembered, by the SHA-256 of the token, never the token. What may
 * change meanwhile is asked again each time: the key, who it is of and for, the times; revocation is the caller's next
 * question, as of grant_verify().
 *
 * A value of its owner's, zeros to begin with; one thread at a time. GRANT_KNOWN_MAX tokens at most, each in the place
 * that its digest gives it; only who has a good token can take the place of another.
 */
#ifndef POLICY_GRANT_KNOWN_H
#define POLICY_GRANT_KNOWN_H

#include "policy/grant.h"

#define GRANT_KNOWN_MAX 128

struct grant_known_one;
struct grants_known {
	struct grant_known_one *places[GRANT_KNOWN_MAX];
};

/* As grant_trusted(), with the same answers. */
int grants_known_verify(struct grants_known *known, const char *token, size_t len, const struct grant_trust *t,
			int64_t now_ns, struct grant *out, struct err *e);
/* Frees what is remembered. */
void grants_known_finish(struct grants_known *known);

#endif
