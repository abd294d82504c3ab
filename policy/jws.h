/*
 * jws.h - compact JWS (RFC 7515) with Ed25519 (RFC 8037) and nothing else.
 *
 * A token has one accepted spelling: its header is compared with the one text
 * that jws_sign() writes, never parsed, so that no byte of an unsigned token
 * reaches a JSON parser and "alg" cannot be argued about. base64url must be
 * canonical. The payload is opaque here and to be read only after jws_verify().
 *
 * Pure. A struct jws borrows the token and owns its decoded payload.
 */
#ifndef POLICY_JWS_H
#define POLICY_JWS_H

#include <stddef.h>
#include <stdint.h>

struct err;

#define JWS_KID_LEN       16 /* lower-case hex */
#define JWS_KEY_LEN       32
#define JWS_SIGNATURE_LEN 64

struct jws {
	const char *signed_text; /* header "." payload, as they stand in the token */
	size_t signed_len;
	char kid[JWS_KID_LEN + 1];
	uint8_t *payload;
	size_t payload_len;
	uint8_t signature[JWS_SIGNATURE_LEN];
};

/*
 * Sign payload; *out_token is to be wiped and freed by the caller. ERR_INVAL for a
 * kid that is not 16 hex digits, ERR_TOO_LARGE when the token would pass max bytes.
 */
int jws_sign(const char *typ, const char *kid, const uint8_t seed[JWS_KEY_LEN], const void *payload, size_t len,
	     size_t max, char **out_token, struct err *e);
/* Take a token apart. ERR_TOKEN_MALFORMED. The caller calls jws_finish() after success only. */
int jws_parse(const char *token, size_t len, size_t max, const char *typ, struct jws *out, struct err *e);
/* ERR_TOKEN_FORGED when the signature is not this key's. */
int jws_verify(const struct jws *j, const uint8_t public_key[JWS_KEY_LEN], struct err *e);
void jws_finish(struct jws *j); /* wipes and frees the payload; NULL-safe */

#endif
