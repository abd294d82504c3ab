// tier: check
/*
 * The hub of an edge: a lease of its centre lets in, and nothing else; to the second, whatever the wall clock says; and
 * no longer than the hub has heard of revocations, which ends what is open, too.
 */
#include "muxd/hub/access/broker_auth.h"
#include "muxd/hub/core/request.h"
#include "muxd/hub/setup.h"
#include "tests/lib/hub_rig.h"

#define CENTRE "01890a5d-ac96-774b-bcce-b302099a8057"
#define EDGE   "01890a5d-ac96-774b-bcce-b302099a8058"
#define S      ((int64_t)NS_PER_SEC)

struct edge_world {
	struct hub_rig *r;
	uint8_t seed[GRANT_KEY_LEN];
	struct grant_public_key key;
	struct grant lease;
};

static void edge_begin(struct edge_world *w)
{
	struct hub *h;
	int64_t now;

	w->r = hub_rig_create(NULL);
	h = w->r->hub;
	strcpy(h->p.instance, EDGE);
	strcpy(h->p.centre, CENTRE);
	assert_int_equal(grant_key_create(w->seed, &w->key), 0);
	assert_int_equal(hub_set_grant_keys(h, &w->key, 1), 0);
	now = hub_now_wall(h) / S * S;
	w->lease = (struct grant){.kind = GRANT_AGENT,
				  .scopes = SCOPE_ROUNDS,
				  .issued_ns = now,
				  .not_before_ns = now,
				  .expires_ns = now + 300 * S,
				  .issuer = CENTRE,
				  .edge = EDGE,
				  .principal = "bot",
				  .agent = "box",
				  .task = "t",
				  .reason = "test"};
	assert_int_equal(id_new(&w->lease.id), 0);
}

static int let_in(struct edge_world *w, const struct grant *g)
{
	const struct origin from = {.door = "rest", .peer = "test", .endpoint = "GET /"};
	struct request rq;
	struct err e = {0};
	char *token = NULL;
	int rc;

	assert_int_equal(grant_sign(g, w->key.kid, w->seed, &token, NULL), 0);
	rc = broker_authenticate(w->r->hub, token, strlen(token), &from, &rq, &e);
	if (rc == 0)
		request_finish(&rq);
	grant_token_free(token);
	return rc;
}

static void a_lease_lets_in_and_a_grant_does_not(void **state)
{
	struct edge_world w;
	struct grant other;

	(void)state;
	edge_begin(&w);
	assert_int_equal(let_in(&w, &w.lease), ERR_REVOCATIONS_OLD); /* nothing was heard yet */
	hub_set_edge_state(w.r->hub, w.lease.issued_ns);
	assert_int_equal(let_in(&w, &w.lease), 0);
	other = w.lease;
	other.edge[0] = '\0';
	assert_int_equal(let_in(&w, &other), ERR_TOKEN_FOREIGN);
	other = w.lease;
	strcpy(other.edge, CENTRE);
	assert_int_equal(let_in(&w, &other), ERR_TOKEN_FOREIGN);
	other = w.lease;
	other.expires_ns += 24 * 3600 * S;
	assert_int_equal(let_in(&w, &other), ERR_FORBIDDEN);
	assert_int_equal(hub_revoke(w.r->hub, &w.lease.id, w.lease.expires_ns), 0);
	assert_int_equal(let_in(&w, &w.lease), ERR_TOKEN_REVOKED);
	hub_rig_destroy(w.r);
}

/* The clock is turned back by an hour while the daemon runs: the time since boot is what counts. */
static void a_clock_that_is_turned_back_makes_no_lease_longer(void **state)
{
	struct edge_world w;
	uint64_t boot = clock_boot_ns();
	int64_t wall, ends;

	(void)state;
	edge_begin(&w);
	hub_set_edge_state(w.r->hub, w.lease.issued_ns);
	wall = hub_now_wall(w.r->hub);
	ends = w.lease.expires_ns;
	boot = clock_boot_ns();
	clock_test_set(boot + (uint64_t)(ends - wall) - (uint64_t)S, wall - 3600 * S);
	assert_int_equal(let_in(&w, &w.lease), 0);
	clock_test_set(boot + (uint64_t)(ends - wall), wall - 3600 * S);
	assert_int_equal(let_in(&w, &w.lease), ERR_TOKEN_EXPIRED);
	clock_test_set(boot + (uint64_t)(ends - wall), wall - 7200 * S);
	assert_int_equal(let_in(&w, &w.lease), ERR_TOKEN_EXPIRED);
	clock_test_reset();
	hub_rig_destroy(w.r);
}

/* The clock runs on for a day without a word: nothing is taken, neither what was known nor what was minted since; then
 * all that is in force is. */
static void a_centre_that_is_away_for_a_day(void **state)
{
	struct edge_world w;
	struct grant later;
	int64_t wall;
	uint64_t boot;

	(void)state;
	edge_begin(&w);
	hub_set_edge_state(w.r->hub, w.lease.issued_ns);
	assert_int_equal(let_in(&w, &w.lease), 0);
	wall = hub_now_wall(w.r->hub) + 24 * 3600 * S;
	boot = clock_boot_ns() + 24 * 3600 * (uint64_t)S;
	clock_test_set(boot, wall);
	assert_int_equal(let_in(&w, &w.lease), ERR_TOKEN_EXPIRED);
	later = w.lease;
	later.issued_ns = later.not_before_ns = wall / S * S;
	later.expires_ns = later.issued_ns + 300 * S;
	assert_int_equal(id_new(&later.id), 0);
	assert_int_equal(let_in(&w, &later), ERR_REVOCATIONS_OLD);
	hub_set_edge_state(w.r->hub, wall);
	assert_int_equal(let_in(&w, &later), 0);
	assert_int_equal(let_in(&w, &w.lease), ERR_TOKEN_EXPIRED);
	clock_test_reset();
	hub_rig_destroy(w.r);
}

/* Sessions end, and new calls are refused, until the centre speaks. */
static void what_is_open_ends_when_nothing_is_heard(void **state)
{
	struct hub_client c;
	struct edge_world w;
	struct request rq = hub_request();

	(void)state;
	edge_begin(&w);
	hub_set_edge_state(w.r->hub, hub_now_wall(w.r->hub));
	rq.grant = w.lease;
	rq.grant.scopes = UINT32_MAX;
	hub_ask(w.r, &c, SESSION_EXEC, "echo begun; sleep 100", &rq);
	assert_true(hub_until(w.r, c.opened));
	assert_int_equal(c.rc, 0);
	hub_set_edge_state(w.r->hub, hub_now_wall(w.r->hub) - (int64_t)w.r->hub->conf->edge_state_max_ns);
	assert_int_equal(let_in(&w, &w.lease), ERR_REVOCATIONS_OLD);
	assert_true(hub_until(w.r, c.cuts || c.ends));
	hub_set_edge_state(w.r->hub, hub_now_wall(w.r->hub));
	assert_int_equal(let_in(&w, &w.lease), 0);
	buf_finish(&c.got);
	hub_rig_destroy(w.r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_lease_lets_in_and_a_grant_does_not),
	    cmocka_unit_test(a_clock_that_is_turned_back_makes_no_lease_longer),
	    cmocka_unit_test(a_centre_that_is_away_for_a_day),
	    cmocka_unit_test(what_is_open_ends_when_nothing_is_heard),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
