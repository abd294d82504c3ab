/*
 * jwk.h - the public keys that an issuer shows (RFC 7517, 7518, 8037): RSA of 2048 bits and more for RS256, P-256 for
 * ES256, Ed25519 for EdDSA, each for signatures and with a kid. What else stands there does not count, and why is kept.
 *
 * Pure. A set owns its keys.
 */
#ifndef MUXD_ISSUER_JWK_H
#define MUXD_ISSUER_JWK_H

#include "base/json.h"

#include <openssl/types.h>

struct err;

#define JWK_KID_MAX  200
#define JWK_KEYS_MAX 64
#define JWK_SET_MAX  (256 * 1024) /* bytes of the document */

enum jwk_alg { JWK_RS256, JWK_ES256, JWK_EDDSA };

struct jwk {
	char kid[JWK_KID_MAX + 1];
	enum jwk_alg alg;
	EVP_PKEY *key;   /* NULL: it does not count */
	const char *why; /* static; then why not */
};

struct jwk_set {
	struct jwk *keys;
	size_t n, usable;
};

/* "RS256", ... ; false: none of the three. */
bool jwk_alg_parse(const char *name, enum jwk_alg *out);
const char *jwk_alg_name(enum jwk_alg alg);
/* The document {"keys": [...]}. ERR_ISSUER: it is none, or no key in it counts. */
int jwk_set_parse(const void *p, size_t len, struct jwk_set *out, struct err *e);
void jwk_set_finish(struct jwk_set *s);
const struct jwk *jwk_find(const struct jwk_set *s, const char *kid); /* NULL: it is not there */

#endif
