// tier: check
/*
 * Tokens of issuers that are shown: requests with one wait for one exchange, its grant stands for it until that ends, a
 * grant that is taken back shuts it out, and a principal, an issuer and what waits have so much room. The monitor is
 * the test.
 */
#include "tests/lib/hub_rig.h"

#include "base/clock.h"
#include "muxd/hub/broker/broker_shown.h"
#include "muxd/hub/setup.h"

#define OWN  "01890a5d-ac96-774b-bcce-b302099a8057"
#define HOUR (3600 * (int64_t)NS_PER_SEC)

static struct {
	unsigned asked;
	char token[80];
	hub_ask_done *done[SHOWN_ASKED_MAX];
	void *arg[SHOWN_ASKED_MAX];
	const char *issuer;
} monitor;

static struct {
	unsigned told;
	int rc;
	char principal[GRANT_NAME_MAX + 1];
} heard;

static uint8_t seed[GRANT_KEY_LEN];
static struct grant_public_key key;
static const struct origin from = {.door = "rest", .peer = "127.0.0.1:5", .endpoint = "POST /mcp"};

static void monitor_ask(void *ctx, json_t *question, hub_ask_done *done, void *arg)
{
	(void)ctx;
	assert_string_equal(json_get_text(question, "op"), "grant.exchange");
	assert_true(json_is_true(json_object_get(question, "shown")));
	assert_null(json_object_get(question, "grant"));
	snprintf(monitor.token, sizeof(monitor.token), "%s", json_get_text(question, "token"));
	monitor.done[monitor.asked] = done;
	monitor.arg[monitor.asked++] = arg;
	json_decref(question);
}

static void on_entered(void *arg, int rc, const struct err *e, const struct request *rq)
{
	(void)arg, (void)e;
	heard.told++;
	heard.rc = rc;
	assert_int_equal(rc == 0, rq != NULL);
	if (rq)
		snprintf(heard.principal, sizeof(heard.principal), "%s", rq->grant.principal);
}

/* The monitor answers the question that came first: a grant of that principal, or a refusal. */
static struct id answer(struct hub_rig *r, const char *principal, int64_t lasts_ns, int rc)
{
	int64_t now = hub_now_wall(r->hub) / (int64_t)NS_PER_SEC * (int64_t)NS_PER_SEC;
	struct grant g = {
	    .kind = GRANT_AGENT, .scopes = SCOPE_ROUNDS, .issued_ns = now - HOUR, .not_before_ns = now - HOUR};
	struct err e = {0};
	char *token = NULL;
	json_t *o = NULL;

	assert_int_equal(id_new(&g.id), 0);
	g.expires_ns = now + lasts_ns;
	snprintf(g.issuer, sizeof(g.issuer), OWN);
	snprintf(g.principal, sizeof(g.principal), "%s", principal);
	snprintf(g.agent, sizeof(g.agent), "box");
	snprintf(g.reason, sizeof(g.reason), "MCP");
	if (rc)
		err_set(&e, rc, "refused");
	else
		assert_int_equal(grant_sign(&g, key.kid, seed, &token, &e), 0);
	o = rc ? NULL : json_pack("{s:s,s:s}", "token", token, "by", monitor.issuer ? monitor.issuer : "issuer x");
	assert_true(monitor.asked > 0);
	monitor.asked = 0;
	monitor.done[0](monitor.arg[0], rc, rc ? &e : NULL, o);
	json_decref(o);
	grant_token_free(token);
	return g.id;
}

static void enter_with(struct hub_rig *r, const char *token, size_t held)
{
	broker_shown_enter(r->hub, token, held, &from, on_entered, NULL);
}

static void enter(struct hub_rig *r, const char *token)
{
	enter_with(r, token, 1024);
}

static unsigned refusals(struct hub_rig *r)
{
	hub_record(r);
	return hub_audited(r, "auth.fail");
}

static int setup(void **state)
{
	struct hub_rig *r = hub_rig_create(NULL);

	memset(&monitor, 0, sizeof(monitor));
	memset(&heard, 0, sizeof(heard));
	snprintf(r->hub->p.instance, sizeof(r->hub->p.instance), OWN);
	r->hub->p.issuer = (struct hub_issuer){.ask = monitor_ask};
	assert_int_equal(grant_key_create(seed, &key), 0);
	assert_int_equal(hub_set_grant_keys(r->hub, &key, 1), 0);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	hub_rig_destroy(*state);
	return 0;
}

static void requests_wait_for_one_exchange(void **state)
{
	struct hub_rig *r = *state;

	assert_null(broker_shown_find(r->hub, "a.b.c"));
	for (int i = 0; i < 3; i++)
		enter(r, "a.b.c");
	assert_int_equal(monitor.asked, 1);
	assert_string_equal(monitor.token, "a.b.c");
	assert_null(broker_shown_find(r->hub, "a.b.c"));
	(void)answer(r, "people:ada", HOUR, 0);
	assert_int_equal(heard.told, 3);
	assert_int_equal(heard.rc, 0);
	assert_string_equal(heard.principal, "people:ada");
	assert_non_null(broker_shown_find(r->hub, "a.b.c"));
	assert_null(broker_shown_find(r->hub, "a.b.d"));
	enter(r, "a.b.c"); /* its head was looked at before the answer came */
	assert_int_equal(heard.told, 4);
	assert_int_equal(monitor.asked, 0);
}

static void a_refusal_is_everybodys_and_stands_for_nothing(void **state)
{
	struct hub_rig *r = *state;

	enter(r, "a.b.c");
	enter(r, "a.b.c");
	(void)answer(r, "x", HOUR, ERR_TOKEN_FOREIGN);
	assert_int_equal(heard.told, 2);
	assert_int_equal(heard.rc, ERR_TOKEN_FOREIGN);
	assert_null(broker_shown_find(r->hub, "a.b.c"));
	enter(r, "a.b.c");
	(void)answer(r, "x", HOUR, 0);
	assert_int_equal(heard.rc, 0);
}

static void it_ends_with_its_grant_and_is_shut_out_with_it(void **state)
{
	struct hub_rig *r = *state;
	struct conf_issuer one = {.name = (char[]){"x"}, .lifetime_ns = 2 * HOUR};
	struct conf *c = r->hub->conf;
	struct id id;

	c->issuers = &one;
	c->nissuers = 1;
	enter(r, "short");
	(void)answer(r, "x", -(int64_t)NS_PER_SEC, 0);
	assert_int_not_equal(heard.rc, 0); /* over before it was there */
	assert_null(broker_shown_find(r->hub, "short"));
	enter(r, "long");
	id = answer(r, "x", HOUR, 0);
	assert_int_equal(heard.rc, 0);
	assert_int_equal(hub_revoke(r->hub, &id, hub_now_wall(r->hub) + HOUR), 0);
	assert_non_null(broker_shown_find(r->hub, "long")); /* whose token is refused as a grant's that was revoked */
	enter(r, "long");
	assert_int_equal(monitor.asked, 0);
	assert_int_equal(heard.rc, ERR_TOKEN_REVOKED);
	c->issuers = NULL;
	c->nissuers = 0;
}

static void a_principal_has_so_many(void **state)
{
	struct hub_rig *r = *state;
	char token[32], principal[32];

	for (int i = 0; i <= SHOWN_OF_ONE; i++) {
		snprintf(token, sizeof(token), "t%d", i);
		snprintf(principal, sizeof(principal), "team/%d", i); /* one, to all that is counted */
		enter(r, token);
		(void)answer(r, principal, HOUR, 0);
	}
	assert_null(broker_shown_find(r->hub, "t0"));
	for (int i = 1; i <= SHOWN_OF_ONE; i++) {
		snprintf(token, sizeof(token), "t%d", i);
		assert_non_null(broker_shown_find(r->hub, token));
	}
	enter(r, "other");
	(void)answer(r, "others/1", HOUR, 0);
	assert_non_null(broker_shown_find(r->hub, "t1"));
}

/* The first of two issuers has very many principals, and so has its half of all: the second's tokens stay. */
static void an_issuer_has_its_part(void **state)
{
	struct hub_rig *r = *state;
	struct conf_issuer two[] = {{.name = (char[]){"x"}, .reason = (char[]){"r"}},
				    {.name = (char[]){"y"}, .reason = (char[]){"r"}}};
	char token[32], principal[32];

	r->hub->conf->issuers = two;
	r->hub->conf->nissuers = 2;
	monitor.issuer = "issuer y";
	enter(r, "theirs");
	(void)answer(r, "ada", HOUR, 0);
	monitor.issuer = "issuer x";
	for (int i = 0; i <= SHOWN_MAX / 2; i++) {
		snprintf(token, sizeof(token), "t%d", i);
		snprintf(principal, sizeof(principal), "p%d", i);
		enter(r, token);
		(void)answer(r, principal, HOUR, 0);
	}
	assert_int_equal(heard.rc, 0);
	assert_null(broker_shown_find(r->hub, "t0"));
	assert_non_null(broker_shown_find(r->hub, "t1"));
	assert_non_null(broker_shown_find(r->hub, token));
	assert_non_null(broker_shown_find(r->hub, "theirs"));
	r->hub->conf->issuers = NULL;
	r->hub->conf->nissuers = 0;
}

/* Bodies wait for a slow issuer: so many and no more, and a small request finds room where long ones have filled it. */
static void what_waits_has_one_room(void **state)
{
	struct hub_rig *r = *state;
	size_t quarter = SHOWN_WAITING_MAX / 4;

	enter_with(r, "a", quarter);
	enter_with(r, "a", quarter);
	enter_with(r, "b", SHOWN_SMALL + 1);
	assert_int_equal(heard.told, 1);
	assert_int_equal(heard.rc, ERR_LIMIT);
	enter_with(r, "a", SHOWN_SMALL + 1); /* the same token's, too */
	assert_int_equal(heard.told, 2);
	assert_int_equal(heard.rc, ERR_LIMIT);
	assert_int_equal(refusals(r), 1); /* the second is counted */
	assert_int_equal(monitor.asked, 1);
	enter_with(r, "a", SHOWN_SMALL);
	assert_int_equal(heard.told, 2);
	(void)answer(r, "x", HOUR, 0);
	assert_int_equal(heard.told, 5);
	assert_int_equal(heard.rc, 0);
	enter_with(r, "b", 2 * quarter); /* what was held is free again */
	assert_int_equal(monitor.asked, 1);
	(void)answer(r, "x", HOUR, ERR_TOKEN_FOREIGN);
	enter_with(r, "a", SHOWN_WAITING_MAX); /* known: nothing waits */
	assert_int_equal(heard.rc, 0);
}

static void so_many_are_exchanged_at_once(void **state)
{
	struct hub_rig *r = *state;
	char token[32];

	for (int i = 0; i <= SHOWN_ASKED_MAX; i++) {
		snprintf(token, sizeof(token), "t%d", i);
		enter(r, token);
	}
	assert_int_equal(monitor.asked, SHOWN_ASKED_MAX);
	assert_int_equal(heard.told, 1);
	assert_int_equal(heard.rc, ERR_LIMIT);
	assert_int_equal(refusals(r), 1);
	for (unsigned i = SHOWN_ASKED_MAX; i-- > 0;)
		monitor.done[i](monitor.arg[i], ERR_CANCELLED, &(struct err){.code = ERR_CANCELLED}, NULL);
	monitor.asked = 0;
	enter(r, "one");
	(void)answer(r, "x", HOUR, 0);
	assert_int_equal(heard.rc, 0);
}

/* The monitor is killed; the hub lives on. Whoever waited hears of it, and the token is asked for anew. */
static void an_end_of_the_monitor_leaves_no_row(void **state)
{
	struct hub_rig *r = *state;
	struct err e = {0};

	enter(r, "a.b.c");
	err_set(&e, ERR_CANCELLED, "the monitor has ended");
	monitor.asked = 0;
	monitor.done[0](monitor.arg[0], ERR_CANCELLED, &e, NULL);
	assert_int_equal(heard.told, 1);
	assert_int_equal(heard.rc, ERR_CANCELLED);
	enter(r, "a.b.c");
	assert_int_equal(monitor.asked, 1);
	(void)answer(r, "x", HOUR, 0);
	assert_int_equal(heard.told, 2);
	assert_int_equal(heard.rc, 0);
}

static void an_end_of_the_hub_answers_who_waits(void **state)
{
	struct hub_rig *r = *state;
	struct err e = {0};

	enter(r, "a.b.c");
	hub_rig_again(r);
	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	monitor.done[0](monitor.arg[0], ERR_CANCELLED, &e, NULL);
	assert_int_equal(heard.told, 1);
	assert_int_equal(heard.rc, ERR_CANCELLED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(requests_wait_for_one_exchange, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_refusal_is_everybodys_and_stands_for_nothing, setup, teardown),
	    cmocka_unit_test_setup_teardown(it_ends_with_its_grant_and_is_shut_out_with_it, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_principal_has_so_many, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_issuer_has_its_part, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_waits_has_one_room, setup, teardown),
	    cmocka_unit_test_setup_teardown(so_many_are_exchanged_at_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_end_of_the_monitor_leaves_no_row, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_end_of_the_hub_answers_who_waits, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
