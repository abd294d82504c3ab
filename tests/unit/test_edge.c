// tier: check
/*
 * Leases, and what an edge and its centre say to each other: each is good for those it names, for its time, and as no
 * other thing. A table of who presents what to whom; then states, calls, and what is known for too long.
 */
#include "base/err.h"
#include "policy/edge.h"
#include "policy/grant_known.h"
#include "policy/id_times.h"
#include "policy/time_floor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)
#define NOW    (INT64_C(1800000000) * SECOND)
#define MOST   (600 * SECOND)
#define CENTRE "01890a5d-ac96-774b-bcce-b302099a8057"
#define EDGE   "01890a5d-ac96-774b-bcce-b302099a8058"
#define OTHER  "01890a5d-ac96-774b-bcce-b302099a8059"

struct fixture {
	uint8_t seed[GRANT_KEY_LEN], other_seed[GRANT_KEY_LEN];
	struct grant_public_key key, other_key;
	struct grant_keyset keys;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || grant_key_create(f->seed, &f->key) || grant_key_create(f->other_seed, &f->other_key))
		return -1;
	f->keys = (struct grant_keyset){&f->key, 1};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static struct grant lease(void)
{
	struct grant g = {.kind = GRANT_AGENT,
			  .scopes = SCOPE_ROUNDS | SCOPE_FILES,
			  .issued_ns = NOW,
			  .not_before_ns = NOW,
			  .expires_ns = NOW + MOST,
			  .issuer = CENTRE,
			  .edge = EDGE,
			  .principal = "bot",
			  .agent = "ci-*",
			  .task = "fix-1",
			  .reason = "a table"};

	strcpy(g.agent, "ci-1");
	g.files.write.given = true;
	strcpy(g.files.write.text, "src/**\n");
	assert_int_equal(id_new(&g.id), 0);
	return g;
}

static const struct grant_trust *at_edge(const struct fixture *f)
{
	static struct grant_trust t;

	t = (struct grant_trust){.keys = &f->keys, .issuer = CENTRE, .edge = EDGE, .lease_max_ns = MOST};
	return &t;
}

static void a_lease_comes_back_whole(void **state)
{
	const struct fixture *f = *state;
	struct grant g = lease(), back;
	char *token = NULL;

	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &token, NULL), 0);
	assert_int_equal(grant_trusted(token, strlen(token), at_edge(f), NOW, &back, NULL), 0);
	assert_true(id_equal(&g.id, &back.id));
	assert_string_equal(back.edge, EDGE);
	assert_string_equal(back.task, "fix-1");
	assert_string_equal(back.files.write.text, "src/**\n");
	assert_int_equal(grant_trusted(token, strlen(token), at_edge(f), NOW - 1, &back, NULL), ERR_TOKEN_NOT_YET);
	assert_int_equal(grant_trusted(token, strlen(token), at_edge(f), NOW + MOST - 1, &back, NULL), 0);
	assert_int_equal(grant_trusted(token, strlen(token), at_edge(f), NOW + MOST, &back, NULL), ERR_TOKEN_EXPIRED);
	grant_token_free(token);
}

/* The table: a token, and the daemon to which it is shown. */
static void each_counts_where_it_is_for_and_nowhere_else(void **state)
{
	const struct fixture *f = *state;
	const struct grant_keyset others = {(struct grant_public_key *)&f->other_key, 1};
	const struct {
		const char *what, *edge, *issuer; /* of the token; edge NULL: a grant */
		bool forged;                      /* by a key that the verifier does not have */
		const char *at_edge, *at_issuer;  /* of the verifier; at_edge NULL: a centre */
		int64_t most_ns;
		int want;
	} cases[] = {
	    {"a lease at its edge", EDGE, CENTRE, false, EDGE, CENTRE, MOST, 0},
	    {"a lease at another edge", EDGE, CENTRE, false, OTHER, CENTRE, MOST, ERR_TOKEN_FOREIGN},
	    {"a lease at its centre", EDGE, CENTRE, false, NULL, CENTRE, 0, ERR_TOKEN_FOREIGN},
	    {"a lease of another centre", EDGE, OTHER, false, EDGE, CENTRE, MOST, ERR_TOKEN_FORGED},
	    {"a forged lease", EDGE, CENTRE, true, EDGE, CENTRE, MOST, ERR_TOKEN_FORGED},
	    {"a lease for too long", EDGE, CENTRE, false, EDGE, CENTRE, MOST - 1, ERR_FORBIDDEN},
	    {"a grant at its daemon", NULL, CENTRE, false, NULL, CENTRE, 0, 0},
	    {"a grant of the centre at an edge", NULL, CENTRE, false, EDGE, CENTRE, MOST, ERR_TOKEN_FOREIGN},
	    {"a grant that the edge's own id issued", NULL, EDGE, false, EDGE, CENTRE, MOST, ERR_TOKEN_FOREIGN},
	    {"a grant that a stranger forged, at an edge", NULL, CENTRE, true, EDGE, CENTRE, MOST, ERR_TOKEN_FOREIGN},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct grant_trust t = {.keys = &f->keys,
					      .issuer = cases[i].at_issuer,
					      .edge = cases[i].at_edge,
					      .lease_max_ns = cases[i].most_ns};
		struct grants_known known = {0};
		struct grant g = lease(), back;
		char *token = NULL;
		int rc;

		strcpy(g.issuer, cases[i].issuer);
		strcpy(g.edge, cases[i].edge ? cases[i].edge : "");
		assert_int_equal(cases[i].forged ? grant_sign(&g, others.keys[0].kid, f->other_seed, &token, NULL)
						 : grant_sign(&g, f->key.kid, f->seed, &token, NULL),
				 0);
		rc = grant_trusted(token, strlen(token), &t, NOW, &back, NULL);
		if (rc != cases[i].want)
			fail_msg("%s: %s", cases[i].what, err_name(rc));
		for (int again = 0; again < 2; again++)
			assert_int_equal(grants_known_verify(&known, token, strlen(token), &t, NOW, &back, NULL), rc);
		grants_known_finish(&known);
		grant_token_free(token);
	}
}

/* The same claims under the other type of token: what says edge in its claims is no grant, and the other way round. */
static void a_remembered_lease_is_no_grant(void **state)
{
	const struct fixture *f = *state;
	const struct grant_trust centre = {.keys = &f->keys, .issuer = CENTRE};
	struct grant g = lease(), back;
	char *token = NULL;

	struct grants_known known = {0};

	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &token, NULL), 0);
	assert_int_equal(grants_known_verify(&known, token, strlen(token), at_edge(f), NOW, &back, NULL), 0);
	assert_int_equal(grants_known_verify(&known, token, strlen(token), &centre, NOW, &back, NULL),
			 ERR_TOKEN_FOREIGN);
	assert_int_equal(grants_known_verify(&known, token, strlen(token), at_edge(f), NOW, &back, NULL), 0);
	grants_known_finish(&known);
	grant_token_free(token);
}

static void what_a_lease_may_not_hold_is_not_signed(void **state)
{
	const struct fixture *f = *state;
	struct grant bad[4];
	char *token = NULL;

	for (size_t i = 0; i < 4; i++)
		bad[i] = lease();
	bad[0].task[0] = '\0';
	bad[1].scopes |= SCOPE_GRANT;
	strcpy(bad[2].edge, "here");
	bad[3].kin.first = bad[3].id;
	bad[3].since_ns = NOW;
	for (size_t i = 0; i < 4; i++)
		assert_true(grant_sign(&bad[i], f->key.kid, f->seed, &token, NULL) < 0);
}

/* ---- states */

static struct edge_state state_of(size_t n)
{
	struct edge_state s = {.centre = CENTRE, .edge = EDGE, .at_ns = NOW, .n = n};

	s.revoked = calloc(n + 1, sizeof(*s.revoked));
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(id_new(&s.revoked[i].id), 0);
		s.revoked[i].until_ns = NOW + (int64_t)(i + 1) * SECOND;
	}
	return s;
}

static void a_state_comes_back_whole(void **state)
{
	const struct fixture *f = *state;
	static const size_t sizes[] = {0, 1, EDGE_LEASES_MAX};

	for (size_t i = 0; i < 3; i++) {
		struct edge_state s = state_of(sizes[i]), back;
		char *token = NULL;

		assert_int_equal(edge_state_sign(&s, f->key.kid, f->seed, &token, NULL), 0);
		assert_int_equal(edge_state_verify(token, strlen(token), &f->keys, CENTRE, EDGE, &back, NULL), 0);
		assert_true(back.at_ns == NOW && back.n == s.n);
		for (size_t k = 0; k < s.n; k++)
			assert_true(id_equal(&s.revoked[k].id, &back.revoked[k].id) &&
				    s.revoked[k].until_ns == back.revoked[k].until_ns);
		edge_state_finish(&back);
		edge_state_finish(&s);
		grant_token_free(token);
	}
}

static void a_state_for_another_edge_or_of_another_key_is_none(void **state)
{
	const struct fixture *f = *state;
	struct edge_state s = state_of(2), back;
	struct grant g = lease();
	char *token = NULL, *forged = NULL, *wrong = NULL;
	size_t len;

	assert_int_equal(edge_state_sign(&s, f->key.kid, f->seed, &token, NULL), 0);
	assert_int_equal(edge_state_sign(&s, f->other_key.kid, f->other_seed, &forged, NULL), 0);
	assert_int_equal(grant_sign(&g, f->key.kid, f->seed, &wrong, NULL), 0);
	len = strlen(token);
	assert_int_equal(edge_state_verify(token, len, &f->keys, CENTRE, OTHER, &back, NULL), ERR_TOKEN_FOREIGN);
	assert_int_equal(edge_state_verify(token, len, &f->keys, OTHER, EDGE, &back, NULL), ERR_TOKEN_FOREIGN);
	assert_int_equal(edge_state_verify(forged, strlen(forged), &f->keys, CENTRE, EDGE, &back, NULL),
			 ERR_TOKEN_FORGED);
	assert_int_equal(edge_state_verify(wrong, strlen(wrong), &f->keys, CENTRE, EDGE, &back, NULL),
			 ERR_TOKEN_MALFORMED);
	for (size_t i = 0; i < len; i += 7) {
		char was = token[i];

		token[i] = was == 'A' ? 'B' : 'A';
		assert_true(edge_state_verify(token, len, &f->keys, CENTRE, EDGE, &back, NULL) < 0 || was == token[i]);
		assert_true(edge_state_verify(token, i, &f->keys, CENTRE, EDGE, &back, NULL) < 0);
		token[i] = was;
	}
	/* Nor is it a lease, or a call. */
	assert_int_equal(grant_trusted(token, len, at_edge(f), NOW, &g, NULL), ERR_TOKEN_MALFORMED);
	assert_int_equal(edge_call_verify(token, len, &f->key, EDGE, CENTRE, NOW, NULL), ERR_TOKEN_MALFORMED);
	edge_state_finish(&s);
	grant_token_free(token);
	grant_token_free(forged);
	grant_token_free(wrong);
}

/* ---- calls */

static void a_call_is_good_for_its_centre_and_a_minute(void **state)
{
	const struct fixture *f = *state;
	char *token = NULL, kid[17];
	size_t len;

	assert_int_equal(edge_call_sign(EDGE, CENTRE, NOW, f->key.kid, f->seed, &token, NULL), 0);
	len = strlen(token);
	assert_int_equal(edge_call_kid(token, len, kid, NULL), 0);
	assert_string_equal(kid, f->key.kid);
	assert_int_equal(edge_call_verify(token, len, &f->key, EDGE, CENTRE, NOW, NULL), 0);
	assert_int_equal(edge_call_verify(token, len, &f->key, EDGE, CENTRE, NOW + EDGE_CALL_NS, NULL), 0);
	assert_int_equal(edge_call_verify(token, len, &f->key, EDGE, CENTRE, NOW + EDGE_CALL_NS + 1, NULL),
			 ERR_TOKEN_EXPIRED);
	assert_int_equal(edge_call_verify(token, len, &f->key, EDGE, CENTRE, NOW - EDGE_CALL_NS - 1, NULL),
			 ERR_TOKEN_NOT_YET);
	assert_int_equal(edge_call_verify(token, len, &f->key, OTHER, CENTRE, NOW, NULL), ERR_TOKEN_FOREIGN);
	assert_int_equal(edge_call_verify(token, len, &f->key, EDGE, OTHER, NOW, NULL), ERR_TOKEN_FOREIGN);
	assert_int_equal(edge_call_verify(token, len, &f->other_key, EDGE, CENTRE, NOW, NULL), ERR_TOKEN_FORGED);
	grant_token_free(token);
}

/* ---- what is known, and for how long */

static void what_is_known_for_too_long_ends_every_lease(void **state)
{
	struct grant g = lease();
	struct grant_line l = grant_line(&g);
	struct id_times *none = NULL;
	struct grant_news news;

	(void)state;
	assert_int_equal(id_times_create(&none), 0);
	news = (struct grant_news){.revoked = none};
	assert_true(grant_line_ends(&l, &news) == NOW + MOST);
	news.known_until_ns = NOW + 30 * SECOND;
	assert_true(grant_line_ends(&l, &news) == NOW + 30 * SECOND);
	assert_int_equal(grant_line_check(&l, &news, NOW + 30 * SECOND - 1, NULL), 0);
	assert_int_equal(grant_line_check(&l, &news, NOW + 30 * SECOND, NULL), ERR_REVOCATIONS_OLD);
	assert_int_equal(grant_line_check(&l, &news, NOW + MOST, NULL), ERR_TOKEN_EXPIRED);
	news.known_until_ns = 1; /* nothing was ever heard */
	assert_int_equal(grant_line_check(&l, &news, NOW, NULL), ERR_REVOCATIONS_OLD);
	news.known_until_ns = NOW + 2 * MOST; /* it is no longer than it was minted for */
	assert_true(grant_line_ends(&l, &news) == NOW + MOST);
	assert_int_equal(id_times_add(none, &g.id, NOW + MOST), 0);
	news.known_until_ns = NOW;
	assert_int_equal(grant_line_check(&l, &news, NOW, NULL), ERR_TOKEN_REVOKED);
	id_times_destroy(none);
}

/* The centre's word on the time is a floor; a clock that is turned back is not followed. */
static void the_time_of_a_state_is_a_floor(void **state)
{
	struct time_floor f;

	(void)state;
	time_floor_init(&f, 0, NOW, 1);
	time_floor_raise(&f, NOW + 5 * SECOND, 1);
	assert_true(time_floor_now(&f, NOW, 1) == NOW + 5 * SECOND);
	assert_true(time_floor_now(&f, NOW - 3600 * SECOND, 1 + (uint64_t)SECOND) == NOW + 6 * SECOND);
	time_floor_raise(&f, NOW, 1 + (uint64_t)SECOND);
	assert_true(time_floor_now(&f, NOW, 1 + (uint64_t)SECOND) == NOW + 6 * SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_lease_comes_back_whole, setup, teardown),
	    cmocka_unit_test_setup_teardown(each_counts_where_it_is_for_and_nowhere_else, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_remembered_lease_is_no_grant, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_a_lease_may_not_hold_is_not_signed, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_state_comes_back_whole, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_state_for_another_edge_or_of_another_key_is_none, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_call_is_good_for_its_centre_and_a_minute, setup, teardown),
	    cmocka_unit_test(what_is_known_for_too_long_ends_every_lease),
	    cmocka_unit_test(the_time_of_a_state_is_a_floor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
