/*
 * sign.h - the record-signing key (Ed25519) and its signatures.
 *
 * A signer is immutable after creation and may be used by several threads; its
 * seed is wiped with it. What is signed always begins with a text that says what
 * it is, so that a signature for one purpose fits no other.
 */
#ifndef RECORDER_CHAIN_SIGN_H
#define RECORDER_CHAIN_SIGN_H

#include "policy/grant.h"

#define SIGN_LEN        64
#define RECORD_KEYS_MAX 1024 /* of one record: in keys/record, named in a log, given to verify */

struct signer;

int signer_create(const uint8_t seed[GRANT_KEY_LEN], struct signer **out, struct err *e);
void signer_destroy(struct signer *s);
const struct grant_public_key *signer_public(const struct signer *s);
/* purpose: the text in front ("muxd recording 1"), signed with its NUL. */
int signer_sign(const struct signer *s, const char *purpose, const void *p, size_t n, uint8_t out[SIGN_LEN],
		struct err *e);
/* A secret of this key for one purpose: what is keyed with it can be made and checked by its holder alone. */
int signer_derive(const struct signer *s, const char *purpose, uint8_t out[32], struct err *e);
/* 0, ERR_TOKEN_FORGED when it is not this key's signature. */
int sign_verify(const uint8_t key[GRANT_KEY_LEN], const char *purpose, const void *p, size_t n,
		const uint8_t signature[SIGN_LEN]);
/* NULL when the set has no such key. kid need not end in NUL. */
const struct grant_public_key *keyset_find(const struct grant_keyset *keys, const char kid[16]);
/* Every <kid>.pub (base64url or 32 raw bytes) of a folder, or one such file. free(out->keys) afterwards. */
int keyset_load(const char *path, struct grant_keyset *out, struct err *e);

#endif
