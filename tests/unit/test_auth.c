// tier: check
/* The recorder remembers tokens whose signature was good. What is remembered is no right: each question looks at the
 * grant's times, at revocations, and at the keys as they are. */
#include "base/clock.h"
#include "base/err.h"
#include "recorder/serve/auth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ISSUER "01890a5d-ac96-774b-bcce-b302099a8057"
#define SECOND INT64_C(1000000000)

struct fixture {
	uint8_t seed[GRANT_KEY_LEN];
	struct grant_public_key key;
	struct auth *auth;
};

static void use_keys(struct fixture *f, const struct grant_public_key *key)
{
	char *text = base64_encode(key->key, GRANT_KEY_LEN, true);
	json_t *keys = json_pack("[{s:s,s:s}]", "kid", key->kid, "key", text);

	assert_int_equal(auth_set_keys(f->auth, keys, NULL), 0);
	json_decref(keys);
	free(text);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	if (!f || grant_key_create(f->seed, &f->key) || auth_create(ISSUER, "", 0, &f->auth))
		return -1;
	use_keys(f, &f->key);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	auth_destroy(f->auth);
	free(f);
	return 0;
}

/* From this second on, for so many. */
static char *token_of(struct fixture *f, const char *agent, int64_t seconds, struct id *out_id)
{
	int64_t now = clock_wall_ns() / SECOND * SECOND;
	struct grant g = {.kind = GRANT_STAFF,
			  .scopes = SCOPE_ROUNDS,
			  .issued_ns = now,
			  .not_before_ns = now,
			  .expires_ns = now + seconds * SECOND,
			  .issuer = ISSUER,
			  .principal = "ada",
			  .reason = "test"};
	char *token = NULL;

	snprintf(g.agent, sizeof(g.agent), "%s", agent);
	assert_int_equal(id_new(&g.id), 0);
	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &token, NULL), 0);
	*out_id = g.id;
	return token;
}

static int verify(struct fixture *f, const char *token, struct grant *out)
{
	struct err e = {0};

	return auth_verify(f->auth, token, out, &e);
}

static void test_revoked_and_of_other_keys(void **state)
{
	struct fixture *f = *state;
	struct grant_public_key other;
	uint8_t seed[GRANT_KEY_LEN];
	struct grant g = {0};
	struct id id, left;
	char *token = token_of(f, "demo", 900, &id), *second = token_of(f, "demo", 900, &left), text[ID_STR_LEN];

	for (int i = 0; i < 3; i++)
		assert_int_equal(verify(f, token, &g), 0);
	assert_true(id_equal(&g.id, &id));
	assert_int_equal(verify(f, second, &g), 0);
	id_format(&id, text);
	json_t *revocation =
	    json_pack("{s:s,s:I}", "id", text, "expires_ns", (json_int_t)(clock_wall_ns() + 900 * SECOND));
	assert_int_equal(auth_revoke(f->auth, revocation, NULL), 0);
	json_decref(revocation);
	assert_int_equal(verify(f, token, &g), ERR_TOKEN_REVOKED);
	assert_true(id_equal(&g.id, &id));
	assert_int_equal(verify(f, second, &g), 0);

	assert_int_equal(grant_key_create(seed, &other), 0);
	use_keys(f, &other);
	assert_int_equal(verify(f, second, &g), ERR_TOKEN_FORGED);
	use_keys(f, &f->key);
	assert_int_equal(verify(f, second, &g), 0);
	grant_token_free(token);
	grant_token_free(second);
}

static void test_expired(void **state)
{
	struct fixture *f = *state;
	struct grant g = {0};
	struct id id;
	char *token = token_of(f, "demo", 2, &id);
	int rc;

	assert_int_equal(verify(f, token, &g), 0);
	while ((rc = verify(f, token, &g)) == 0)
		usleep(20000);
	assert_int_equal(rc, ERR_TOKEN_EXPIRED);
	assert_true(id_equal(&g.id, &id));
	grant_token_free(token);
}

/* More of them than are remembered, in turns: each stays its own. A byte that is changed is no token. */
static void test_many(void **state)
{
	struct fixture *f = *state;
	char *tokens[40], agent[32];
	struct grant g = {0};
	struct id id;

	for (int i = 0; i < 40; i++) {
		snprintf(agent, sizeof(agent), "agent-%d", i);
		tokens[i] = token_of(f, agent, 900, &id);
	}
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 40; i++) {
			snprintf(agent, sizeof(agent), "agent-%d", i);
			assert_int_equal(verify(f, tokens[i], &g), 0);
			assert_string_equal(g.agent, agent);
		}
	tokens[39][strlen(tokens[39]) - 10] ^= 1;
	assert_int_not_equal(verify(f, tokens[39], &g), 0);
	for (int i = 0; i < 40; i++)
		grant_token_free(tokens[i]);
}

/* At an edge a lease counts in a grant's place, to the second, and no longer than what is known of revocations. */
static void test_edge(void **state)
{
	static const char edge[] = "01890a5d-ac96-774b-bcce-b302099a8058";
	struct fixture *f = *state;
	int64_t wall = INT64_C(1800000000) * SECOND;
	uint64_t boot = 1000 * (uint64_t)SECOND;
	struct grant g = {.kind = GRANT_AUDITOR,
			  .scopes = SCOPE_REPLAY,
			  .issued_ns = wall,
			  .not_before_ns = wall,
			  .expires_ns = wall + 300 * SECOND,
			  .issuer = ISSUER,
			  .principal = "ada",
			  .agent = "*",
			  .task = "t",
			  .reason = "test"},
		     back = {0};
	json_t *heard = json_pack("{s:I}", "at_ns", (json_int_t)wall);
	char *lease = NULL, *grant = NULL;

	clock_test_set(boot, wall);
	assert_int_equal(id_new(&g.id), 0);
	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &grant, NULL), 0);
	strcpy(g.edge, edge);
	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &lease, NULL), 0);
	auth_destroy(f->auth);
	assert_int_equal(auth_create(edge, ISSUER, 0, &f->auth), 0);
	auth_set_edge(f->auth, 600 * SECOND, 100 * SECOND);
	use_keys(f, &f->key);
	assert_int_equal(verify(f, lease, &back), ERR_REVOCATIONS_OLD); /* nothing was heard yet */
	assert_int_equal(auth_set_edge_state(f->auth, heard, NULL), 0);
	assert_int_equal(verify(f, lease, &back), 0);
	assert_int_equal(verify(f, grant, &back), ERR_TOKEN_FOREIGN);
	clock_test_set(boot + 100 * (uint64_t)SECOND - 1, wall - 3600 * SECOND); /* turned back */
	assert_int_equal(verify(f, lease, &back), 0);
	clock_test_set(boot + 100 * (uint64_t)SECOND, wall - 3600 * SECOND);
	assert_int_equal(verify(f, lease, &back), ERR_REVOCATIONS_OLD);
	json_object_set_new(heard, "at_ns", json_integer(wall + 250 * SECOND)); /* the centre's time is a floor */
	assert_int_equal(auth_set_edge_state(f->auth, heard, NULL), 0);
	assert_int_equal(verify(f, lease, &back), 0);
	clock_test_set(boot + 150 * (uint64_t)SECOND, wall - 3600 * SECOND);
	assert_int_equal(verify(f, lease, &back), ERR_TOKEN_EXPIRED);
	clock_test_reset();
	json_decref(heard);
	grant_token_free(lease);
	grant_token_free(grant);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_revoked_and_of_other_keys, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_expired, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_many, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_edge, setup, teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
