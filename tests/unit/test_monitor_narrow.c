// tier: check
/*
 * Children and renewals in the monitor, when net is not what it was: it asks for what is wider or longer than the grant
 * that it holds. Nothing of that is signed, and nothing is kept of it.
 */
#include "muxd/monitor/request.h"
#include "policy/grant_narrow.h"
#include "tests/lib/monitor_rig.h"

#define MINUTE (60 * SECOND)

/* As net's packet has it (netipc.c). */
static int ask_child(struct fixture *f, const struct grant *from, const char *text)
{
	json_t *o = json_loads(text, 0, NULL);
	struct wish w = {.how = WISH_CHILD, .from = from, .via = "grant"};
	int rc;

	assert_non_null(o);
	f->rc = 0;
	rc = request_child(o, &w, NULL);
	rc = rc ? rc : ask(f, &w);
	json_decref(o);
	return rc;
}

static size_t kept(const struct fixture *f)
{
	json_t *list = NULL;
	bool more;
	size_t n;

	assert_int_equal(grants_list(f->m.grants, NULL, NULL, 1000, &list, &more), 0);
	n = json_array_size(list);
	json_decref(list);
	return n;
}

static struct grant make_parent(struct fixture *f, const struct wish *more)
{
	struct wish w = {.via = "admin",
			 .principal = "ci",
			 .agent = "ci-*",
			 .task = "t",
			 .kind = GRANT_SERVICE,
			 .scopes = SCOPE_ROUNDS | SCOPE_FILES | SCOPE_GRANT,
			 .files.read = {.given = true, .text = "src/**\n*.md\n"},
			 .files.write = {.given = true, .text = "src/out/**\n"},
			 .files.size_max = 1000,
			 .bounds.uses = 5,
			 .bounds.operations = UINT64_C(1) << POLICY_ROUND_START | UINT64_C(1) << POLICY_FILE_READ,
			 .ttl_ns = 600 * (uint64_t)SECOND,
			 .reason = "test"};

	assert_int_equal(ask(f, more ? more : &w), 0);
	return f->grant;
}

static void nothing_wider_is_signed(void **state)
{
	static const struct {
		const char *what, *text;
		int rc;
	} asked[] = {
	    {"nothing but a reason", "{\"reason\":\"r\"}", 0},
	    {"all that it has",
	     "{\"reason\":\"r\",\"scopes\":\"rounds,files\",\"agent\":\"ci-*\",\"kind\":\"service\"}", 0},
	    {"a scope", "{\"reason\":\"r\",\"scopes\":\"rounds,terminal\"}", ERR_NOT_NARROWER},
	    {"all scopes", "{\"reason\":\"r\",\"scopes\":\"admin\"}", ERR_NOT_NARROWER},
	    {"every agent", "{\"reason\":\"r\",\"agent\":\"*\"}", ERR_NOT_NARROWER},
	    {"more agents", "{\"reason\":\"r\",\"agent\":\"c*\"}", ERR_NOT_NARROWER},
	    {"another agent", "{\"reason\":\"r\",\"agent\":\"demo\"}", ERR_NOT_NARROWER},
	    {"a pod", "{\"reason\":\"r\",\"agent\":\"prod/ci-1\"}", ERR_NOT_NARROWER},
	    {"a principal", "{\"reason\":\"r\",\"principal\":\"ada\"}", ERR_NOT_NARROWER},
	    {"a name with an empty part", "{\"reason\":\"r\",\"principal\":\"ci//x\"}", ERR_NOT_NARROWER},
	    {"a name that ends with a slash", "{\"reason\":\"r\",\"principal\":\"ci/x/\"}", ERR_NOT_NARROWER},
	    {"a name that goes up", "{\"reason\":\"r\",\"principal\":\"ci/../ada\"}", ERR_NOT_NARROWER},
	    {"a name that goes nowhere", "{\"reason\":\"r\",\"principal\":\"ci/.\"}", ERR_NOT_NARROWER},
	    {"a name that begins so", "{\"reason\":\"r\",\"principal\":\"cinema\"}", ERR_NOT_NARROWER},
	    {"staff", "{\"reason\":\"r\",\"kind\":\"staff\",\"agent\":\"ci-1\"}", ERR_NOT_NARROWER},
	    {"an auditor", "{\"reason\":\"r\",\"kind\":\"auditor\",\"agent\":\"ci-1\"}", ERR_NOT_NARROWER},
	    {"another task", "{\"reason\":\"r\",\"task\":\"t2\"}", ERR_NOT_NARROWER},
	    {"any task", "{\"reason\":\"r\",\"task\":\"\"}", ERR_NOT_NARROWER},
	    {"every file to read", "{\"reason\":\"r\",\"read\":[\"**\"]}", ERR_NOT_NARROWER},
	    {"a file to read", "{\"reason\":\"r\",\"read\":[\"src/a\",\"etc/passwd\"]}", ERR_NOT_NARROWER},
	    {"every file to write", "{\"reason\":\"r\",\"write\":[\"**\"]}", ERR_NOT_NARROWER},
	    {"to write what it reads", "{\"reason\":\"r\",\"write\":[\"src/**\"]}", ERR_NOT_NARROWER},
	    {"larger files", "{\"reason\":\"r\",\"file_max\":1001}", ERR_NOT_NARROWER},
	    {"more uses", "{\"reason\":\"r\",\"uses\":6}", ERR_NOT_NARROWER},
	    {"an operation", "{\"reason\":\"r\",\"operations\":\"round.start,file.write\"}", ERR_NOT_NARROWER},
	    {"a second", "{\"reason\":\"r\",\"ttl_ns\":601000000000}", ERR_NOT_NARROWER},
	    {"longer than any", "{\"reason\":\"r\",\"ttl_ns\":3601000000000}", ERR_INVAL},
	    {"no reason", "{\"reason\":\"\"}", ERR_REASON_REQUIRED},
	};
	struct fixture *f = *state;
	struct grant parent = make_parent(f, NULL);

	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		size_t before = kept(f);
		int rc = ask_child(f, &parent, asked[i].text);

		if (rc != asked[i].rc)
			fail_msg("%s: %s, not %s", asked[i].what, err_name(rc), err_name(asked[i].rc));
		assert_int_equal(kept(f), before + (rc == 0));
		if (rc == 0)
			assert_int_equal(grant_narrow(&parent, parent.expires_ns, &f->grant, NULL), 0);
	}
}

/* The word of net on a line, times and issuer counts for nothing: the monitor has them from the parent. */
static void net_names_no_line_and_no_times(void **state)
{
	static const char *const lies[] = {
	    "{\"reason\":\"r\",\"above\":[]}",
	    "{\"reason\":\"r\",\"first\":\"" OWN "\"}",
	    "{\"reason\":\"r\",\"expires_ns\":9000000000000000000}",
	    "{\"reason\":\"r\",\"issuer\":\"else\",\"id\":\"" OWN "\",\"since_ns\":1}",
	};
	struct fixture *f = *state;
	struct grant parent = make_parent(f, NULL);

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct grant_line line;

		if (ask_child(f, &parent, lies[i]))
			continue; /* refused by name */
		line = grant_line(&f->grant);
		assert_int_equal(line.kin.depth, 1);
		assert_true(id_equal(&line.kin.above[0], &parent.id));
		assert_true(id_is_nil(&line.kin.first));
		assert_true(f->grant.expires_ns <= parent.expires_ns);
		assert_string_equal(f->grant.issuer, parent.issuer);
		assert_int_equal(f->grant.since_ns, 0);
	}
}

static void one_that_may_not_makes_none(void **state)
{
	const struct wish plain = {.via = "admin",
				   .principal = "ci",
				   .agent = "box",
				   .task = "t",
				   .kind = GRANT_SERVICE,
				   .scopes = SCOPE_ROUNDS,
				   .reason = "r"};
	struct fixture *f = *state;
	struct grant parent = make_parent(f, &plain), child;

	assert_int_equal(ask_child(f, &parent, "{\"reason\":\"r\"}"), ERR_FORBIDDEN);
	parent = make_parent(f, NULL);
	for (int depth = 0; depth < GRANT_DEPTH_MAX; depth++) {
		assert_int_equal(ask_child(f, &parent, "{\"reason\":\"r\",\"scopes\":\"rounds,grant\"}"), 0);
		parent = child = f->grant;
	}
	assert_int_equal(ask_child(f, &child, "{\"reason\":\"r\"}"), ERR_NOT_NARROWER);
}

/* ---- renewals: grants.renew_max, an hour here, from the beginning of the first */

static void at(int64_t minutes)
{
	clock_test_set(1000 * (uint64_t)SECOND + (uint64_t)(minutes * MINUTE), NOW * SECOND + minutes * MINUTE);
}

static int renew(struct fixture *f, const struct grant *from, int64_t ttl_ns)
{
	const struct wish w = {
	    .how = WISH_RENEWAL, .via = "grant", .from = from, .ttl_ns = (uint64_t)ttl_ns, .reason = "test"};

	return ask(f, &w);
}

static void all_renewals_together_are_bounded(void **state)
{
	const int64_t end = (NOW + 3600) * SECOND;
	struct fixture *f = *state;
	struct grant first = make_parent(f, NULL), second, third;
	size_t n;

	at(9);
	assert_int_equal(renew(f, &first, 30 * MINUTE), 0);
	second = f->grant;
	assert_int_equal(second.expires_ns, (NOW + 39 * 60) * SECOND);
	at(30);
	assert_int_equal(renew(f, &second, 30 * MINUTE + SECOND), ERR_FORBIDDEN); /* a second beyond */
	assert_int_equal(renew(f, &second, 30 * MINUTE), 0);                      /* to the very end */
	third = f->grant;
	assert_int_equal(third.expires_ns, end);
	n = kept(f);
	at(59);
	assert_int_equal(renew(f, &third, MINUTE), ERR_FORBIDDEN); /* the same end */
	assert_int_equal(renew(f, &third, MINUTE + SECOND), ERR_FORBIDDEN);
	assert_int_equal(renew(f, &third, 0), ERR_FORBIDDEN);
	assert_int_equal(renew(f, &first, 10 * MINUTE), ERR_FORBIDDEN); /* by an older token of the same */
	clock_test_set(1000 * (uint64_t)SECOND + 3599 * (uint64_t)SECOND, end - SECOND);
	assert_int_equal(renew(f, &third, SECOND), ERR_FORBIDDEN);
	assert_int_equal(renew(f, &third, 2 * SECOND), ERR_FORBIDDEN);
	assert_int_equal(kept(f), n);
	assert_int_equal(grants_ends(f->m.grants, &first.id), end);
}

/* A child is renewed until its parent's end, and no longer, however often. */
static void a_child_is_renewed_within_its_parent(void **state)
{
	struct fixture *f = *state;
	struct grant parent = make_parent(f, NULL), child;

	assert_int_equal(ask_child(f, &parent, "{\"reason\":\"r\",\"ttl_ns\":60000000000}"), 0);
	child = f->grant;
	assert_int_equal(renew(f, &child, 10 * MINUTE + SECOND), ERR_FORBIDDEN);
	assert_int_equal(renew(f, &child, 10 * MINUTE), 0);
	assert_int_equal(renew(f, &parent, 20 * MINUTE), 0); /* then it may */
	assert_int_equal(renew(f, &child, 20 * MINUTE + SECOND), ERR_FORBIDDEN);
	assert_int_equal(renew(f, &child, 20 * MINUTE), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(nothing_wider_is_signed, setup, teardown),
	    cmocka_unit_test_setup_teardown(net_names_no_line_and_no_times, setup, teardown),
	    cmocka_unit_test_setup_teardown(one_that_may_not_makes_none, setup, teardown),
	    cmocka_unit_test_setup_teardown(all_renewals_together_are_bounded, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_child_is_renewed_within_its_parent, setup, teardown),
	};

	return cmocka_run_group_tests_name("monitor_narrow", tests, NULL, NULL);
}
