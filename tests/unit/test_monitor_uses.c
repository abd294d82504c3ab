// tier: check
/*
 * Grants with a number of uses in the monitor, when net is not what it was: it asks for uses by tokens that are none,
 * for children and leases with more than there is, and again and again. It gets what the number says, at the edge as at
 * home.
 */
#include "muxd/monitor/uses.h"
#include "tests/lib/monitor_rig.h"

#define EDGE "01890a5d-ac96-774b-bcce-b302099a8058"

static int make(struct fixture *f, uint32_t uses)
{
	const struct wish w = {.via = "admin",
			       .principal = "ci",
			       .agent = "box",
			       .task = "t",
			       .kind = GRANT_SERVICE,
			       .scopes = SCOPE_ROUNDS | SCOPE_GRANT,
			       .bounds.uses = uses,
			       .reason = "test"};

	return ask(f, &w);
}

static int child(struct fixture *f, const struct grant *from, const char *edge, uint32_t uses)
{
	const struct wish w = {
	    .how = WISH_CHILD, .via = "grant", .from = from, .edge = edge, .bounds.uses = uses, .reason = "test"};

	return ask(f, &w);
}

static int use(struct fixture *f, const char *token, unsigned char key)
{
	return uses_count(&f->m, token, &(struct id){{key}}, NULL);
}

static void a_use_is_by_a_token_that_counts(void **state)
{
	struct fixture *f = *state;
	uint8_t seed[GRANT_KEY_LEN];
	struct grant_public_key key;
	struct grants_revoked out;
	struct grant unknown;
	char *forged = NULL;

	assert_int_equal(make(f, 2), 0);
	assert_int_equal(use(f, "nonsense", 0), ERR_TOKEN_MALFORMED);
	assert_int_equal(grant_key_create(seed, &key), 0);
	assert_int_equal(grant_sign(&f->grant, f->m.keys.kid, seed, &forged, NULL), 0);
	assert_int_equal(use(f, forged, 0), ERR_TOKEN_FORGED);
	grant_token_free(forged);
	unknown = f->grant;
	assert_int_equal(id_new(&unknown.id), 0);
	assert_int_equal(grant_sign(&unknown, f->m.keys.kid, f->m.keys.seed, &forged, NULL), 0);
	assert_int_equal(use(f, forged, 0), ERR_TOKEN_FORGED); /* signed, and never given */
	grant_token_free(forged);
	assert_int_equal(use(f, f->token, 0), 0);
	assert_int_equal(use(f, f->token, 9), 0);
	assert_int_equal(use(f, f->token, 9), 0); /* the same start */
	assert_int_equal(use(f, f->token, 0), ERR_TOKEN_USED);
	assert_int_equal(
	    grants_revoke(f->m.grants, &f->grant.id, GRANTS_WITH_ALL, NOW * SECOND, "admin", "test", &out, NULL), 0);
	assert_int_equal(use(f, f->token, 9), ERR_TOKEN_REVOKED);
}

static void no_child_and_no_lease_gets_more_than_there_is(void **state)
{
	struct fixture *f = *state;
	struct grant parent;
	char token[sizeof f->token], lease[sizeof f->token];

	assert_int_equal(make(f, 5), 0);
	parent = f->grant;
	strcpy(token, f->token);
	assert_int_equal(child(f, &parent, NULL, 6), ERR_NOT_NARROWER);
	assert_int_equal(child(f, &parent, NULL, 0), 0);
	assert_int_equal(f->grant.bounds.uses, 5);
	assert_int_equal(use(f, f->token, 0), 0);
	assert_int_equal(grants_spent(f->m.grants, &parent), 1);
	assert_int_equal(child(f, &parent, EDGE, 5), ERR_TOKEN_USED); /* four are left */
	assert_int_equal(child(f, &parent, EDGE, 2), 0);
	strcpy(lease, f->token);
	assert_int_equal(grants_spent(f->m.grants, &parent), 3);
	assert_int_equal(child(f, &parent, EDGE, 0), 0); /* the rest */
	assert_int_equal(f->grant.bounds.uses, 2);
	assert_int_equal(child(f, &parent, EDGE, 0), ERR_TOKEN_USED);
	assert_int_equal(use(f, token, 0), ERR_TOKEN_USED);
	assert_int_equal(use(f, lease, 0), ERR_TOKEN_FOREIGN); /* here */

	/* The same monitor as the edge's, which has nothing but the centre's keys and its own log. */
	f->m.edge.on = true;
	strcpy(f->m.edge.centre, OWN);
	strcpy(f->m.layout.instance, EDGE);
	assert_int_equal(use(f, token, 0), ERR_TOKEN_FOREIGN);
	assert_int_equal(use(f, lease, 0), 0);
	assert_int_equal(use(f, lease, 0), 0);
	assert_int_equal(use(f, lease, 0), ERR_TOKEN_USED);
	strcpy(f->m.layout.instance, OWN); /* another edge's */
	assert_int_equal(use(f, lease, 0), ERR_TOKEN_FOREIGN);
}

static void a_renewal_has_the_same_number_and_the_same_count(void **state)
{
	struct fixture *f = *state;
	struct grant first;

	assert_int_equal(make(f, 1), 0);
	first = f->grant;
	assert_int_equal(use(f, f->token, 0), 0);
	const struct wish w = {
	    .how = WISH_RENEWAL, .via = "grant", .from = &first, .ttl_ns = 1800 * (uint64_t)SECOND, .reason = "test"};

	assert_int_equal(ask(f, &w), 0);
	assert_int_equal(f->grant.bounds.uses, 1);
	assert_int_equal(use(f, f->token, 0), ERR_TOKEN_USED);
	clock_test_set(2000 * (uint64_t)SECOND, NOW * SECOND + 1000 * SECOND); /* past the first one's end */
	assert_int_equal(grants_expire(f->m.grants, floor_now(&f->m.floor), NULL), 0);
	assert_int_equal(use(f, f->token, 0), ERR_TOKEN_USED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_use_is_by_a_token_that_counts, setup, teardown),
	    cmocka_unit_test_setup_teardown(no_child_and_no_lease_gets_more_than_there_is, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_renewal_has_the_same_number_and_the_same_count, setup, teardown),
	};

	return cmocka_run_group_tests_name("monitor_uses", tests, NULL, NULL);
}
