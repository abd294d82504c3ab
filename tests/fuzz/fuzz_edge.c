// tier: check
/*
 * Messages of an edge and its centre, from anybody. The input is tried as a whole token of each type, and as
 * the claims of correctly signed ones. What is accepted must survive being signed and verified again.
 */
#include "base/err.h"
#include "policy/edge.h"
#include "policy/jws.h"

#include <stdlib.h>
#include <string.h>

#define CENTRE "01890a5d-ac96-774b-bcce-b302099a8057"
#define EDGE   "01890a5d-ac96-774b-bcce-b302099a8058"
#define NOW    (INT64_C(1800000000) * 1000000000)

static const uint8_t seed[GRANT_KEY_LEN] = "not a secret: a key of the tests";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_state(const char *token, size_t len, const struct grant_keyset *keys)
{
	struct edge_state s, again;
	char *text = NULL;

	if (edge_state_verify(token, len, keys, CENTRE, EDGE, &s, NULL))
		return;
	if (edge_state_sign(&s, keys->keys[0].kid, seed, &text, NULL) ||
	    edge_state_verify(text, strlen(text), keys, CENTRE, EDGE, &again, NULL) || again.n != s.n ||
	    again.at_ns != s.at_ns)
		abort();
	edge_state_finish(&s);
	edge_state_finish(&again);
	grant_token_free(text);
}

static void try_lease(const char *token, size_t len, const struct grant_keyset *keys)
{
	const struct grant_trust t = {.keys = keys, .issuer = CENTRE, .edge = EDGE, .lease_max_ns = INT64_MAX};
	const struct grant_trust centre = {.keys = keys, .issuer = CENTRE};
	struct grant g, no;

	if (grant_trusted(token, len, &t, NOW, &g, NULL) == 0 &&
	    (strcmp(g.edge, EDGE) != 0 || !g.task[0] || g.scopes & SCOPE_GRANT ||
	     grant_trusted(token, len, &centre, NOW, &no, NULL) == 0))
		abort();
}

static void try_call(const char *token, size_t len, const struct grant_keyset *keys)
{
	char kid[17];

	if (edge_call_verify(token, len, &keys->keys[0], EDGE, CENTRE, NOW, NULL) == 0 &&
	    edge_call_kid(token, len, kid, NULL))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const types[] = {"muxd-lease", "muxd-edge-state", "muxd-edge-call"};
	struct grant_public_key key;
	struct grant_keyset keys = {&key, 1};

	if (grant_key_public(seed, &key))
		abort();
	try_state((const char *)data, size, &keys);
	try_lease((const char *)data, size, &keys);
	try_call((const char *)data, size, &keys);
	for (size_t i = 0; i < 3; i++) {
		char *token = NULL;

		if (jws_sign(types[i], key.kid, seed, data, size, EDGE_STATE_MAX, &token, NULL))
			continue;
		try_state(token, strlen(token), &keys);
		try_lease(token, strlen(token), &keys);
		try_call(token, strlen(token), &keys);
		grant_token_free(token);
	}
	return 0;
}
