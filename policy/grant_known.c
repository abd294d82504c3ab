#include "policy/grant_known.h"

#include "base/err.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define DIGEST_LEN 32

struct grant_known_one {
	uint8_t digest[DIGEST_LEN];
	struct grant_public_key key;
	struct grant grant;
};

static bool key_in(const struct grant_keyset *keys, const struct grant_public_key *key)
{
	for (size_t i = 0; i < keys->n; i++)
		if (strcmp(keys->keys[i].kid, key->kid) == 0)
			return memcmp(keys->keys[i].key, key->key, sizeof key->key) == 0;
	return false;
}

/* Without memory for it the token is looked at again the next time. */
static void known_remember(struct grant_known_one **place, const uint8_t digest[DIGEST_LEN], const struct grant *g,
			   const struct grant_public_key *key)
{
	if (!*place)
		*place = malloc(sizeof **place);
	if (!*place)
		return;
	memcpy((*place)->digest, digest, DIGEST_LEN);
	(*place)->key = *key;
	(*place)->grant = *g;
}

int grants_known_verify(struct grants_known *known, const char *token, size_t len, const struct grant_trust *t,
			int64_t now_ns, struct grant *out, struct err *e)
{
	struct grant_known_one **place, *one;
	uint8_t digest[EVP_MAX_MD_SIZE];
	struct grant_public_key key;
	struct grant g;
	int rc = 0;

	if (len > GRANT_TOKEN_MAX || EVP_Digest(token, len, digest, NULL, EVP_sha256(), NULL) != 1)
		return grant_trusted(token, len, t, now_ns, out, e);
	place = &known->places[digest[0] % GRANT_KNOWN_MAX];
	one = *place;
	if (one && CRYPTO_memcmp(one->digest, digest, DIGEST_LEN) == 0 && key_in(t->keys, &one->key)) {
		g = one->grant;
	} else {
		rc = grant_open(token, len, t, &g, &key, e);
		if (rc == 0)
			known_remember(place, digest, &g, &key);
	}
	if (rc == 0)
		rc = grant_hold(&g, t, now_ns, e);
	if (rc == 0 || rc == ERR_TOKEN_EXPIRED || rc == ERR_TOKEN_NOT_YET)
		*out = g;
	return rc;
}

void grants_known_finish(struct grants_known *known)
{
	for (size_t i = 0; i < GRANT_KNOWN_MAX; i++)
		free(known->places[i]);
	*known = (struct grants_known){0};
}
