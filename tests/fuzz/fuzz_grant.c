// tier: check
/*
 * Tokens from anybody. The input is tried as a whole token, and as the claims of
 * a correctly signed one (so that the fuzzer gets past the signature). What is
 * accepted must survive being signed and verified again.
 */
#include "base/err.h"
#include "policy/grant.h"
#include "policy/jws.h"

#include <stdlib.h>
#include <string.h>

#define ISSUER "01890a5d-ac96-774b-bcce-b302099a8057"
#define NOW    (INT64_C(1800000000) * 1000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void accepted(const struct grant *g, const struct grant_keyset *keys, const uint8_t *seed)
{
	struct grant again;
	char *token = NULL;

	if (grant_check(g, NULL))
		abort();
	if (grant_sign(g, keys->keys[0].kid, seed, &token, NULL))
		return; /* JSON escapes can make it longer than it came */
	if (grant_verify(token, strlen(token), keys, ISSUER, NOW, &again, NULL) || !id_equal(&again.id, &g->id) ||
	    strcmp(again.reason, g->reason) != 0 || again.expires_ns != g->expires_ns)
		abort();
	grant_token_free(token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t seed[GRANT_KEY_LEN] = "not a secret: a key of the tests";
	struct grant_public_key key;
	struct grant_keyset keys = {&key, 1};
	struct grant g;
	char *token = NULL;

	if (grant_key_public(seed, &key))
		abort();
	if (grant_verify((const char *)data, size, &keys, ISSUER, NOW, &g, NULL) == 0)
		accepted(&g, &keys, seed);
	if (jws_sign("muxd-grant", key.kid, seed, data, size, GRANT_TOKEN_MAX, &token, NULL) == 0 &&
	    grant_verify(token, strlen(token), &keys, ISSUER, NOW, &g, NULL) == 0)
		accepted(&g, &keys, seed);
	grant_token_free(token);
	return 0;
}
