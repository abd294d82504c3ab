/*
 * jwt.h - a token of an outside issuer (RFC 7519, compact JWS of RFC 7515), taken apart and checked.
 *
 * Algorithms: RS256, ES256, EdDSA, and the key's type has to be the algorithm's. A header that wants something looked
 * up, unpacked or understood beyond alg, kid and typ is refused. Names stand once in each object, base64url is written
 * in one way.
 *
 * Pure. A struct jwt borrows the token and owns its claims, which count after jwt_verify() and jwt_claims() alone.
 */
#ifndef MUXD_ISSUER_JWT_H
#define MUXD_ISSUER_JWT_H

#include "muxd/issuer/jwk.h"

#define JWT_MAX 8192

struct jwt {
	enum jwk_alg alg;
	char kid[JWK_KID_MAX + 1];
	const char *signed_text; /* header "." payload, as they stand in the token */
	size_t signed_len;
	uint8_t *signature;
	size_t signature_len;
	json_t *claims;
};

/* The configuration's wishes of an issuer's tokens; times in seconds. typ NULL: JWT, or none. */
struct jwt_wanted {
	const char *issuer, *audience, *typ;
	int64_t now, skew, lifetime;
};

/* ERR_TOKEN_MALFORMED, ERR_TOKEN_ALGORITHM, ERR_TOKEN_KEY (no kid). jwt_finish() after success alone. */
int jwt_parse(const char *token, size_t len, const char *typ, struct jwt *out, struct err *e);
/* ERR_TOKEN_FORGED; ERR_TOKEN_ALGORITHM: the key is for another. */
int jwt_verify(const struct jwt *j, const struct jwk *key, struct err *e);
/* Is it of that issuer, for that audience, and now? ERR_TOKEN_FOREIGN, _EXPIRED, _NOT_YET, _CLAIMS, _MALFORMED. */
int jwt_claims(const struct jwt *j, const struct jwt_wanted *w, struct err *e);
/* Is it of that issuer at all, by what it says itself? Before anything is fetched for it. ERR_TOKEN_FOREIGN. */
int jwt_of(const struct jwt *j, const struct jwt_wanted *w, struct err *e);
/*
 * {kid, alg, subject, jti, seen, issued, expires, claims}: seen stands for this token alone (its jti, or else what was
 * signed), in the form of an id; claims: those of the set `names` that are texts, numbers, truths or lists of texts,
 * as texts. NULL: no memory.
 */
json_t *jwt_answer(const struct jwt *j, const char *issuer, const json_t *names);
void jwt_finish(struct jwt *j);

#endif
