// tier: check, slice TOKENS=20000, whole TOKENS=1000000
/*
 * What a token of an outside issuer is worth, of random claims under random words of the operator's: never more than
 * these words, whoever says it. Two subjects never have one principal, and none has a name below another's.
 */
#include "base/conf.h"
#include "base/err.h"
#include "policy/outside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed = 1;

static unsigned pick(unsigned n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33) % n;
}

static const char *one_of(const char *const *list, unsigned n)
{
	return list[pick(n)];
}

static const char *const scopes[] = {"rounds", "rounds,files", "terminal,observe", "files,grant", "admin"};
static const char *const kinds[] = {"agent", "agent,service", "service", "auditor,agent"};
static const char *const agents[] = {"*", "ci-*", "ci-a", "demo", "ci-a*", "prod/web-0", "", "ci*-x", "a b"};
static const char *const words[] = {"rounds", "rounds openid", "files,admin",
				    "openid", "grant rounds",  "terminal observe"};
static const char *const subjects[] = {"a", "a/b",        "a+2Fb",     "a:b",      "a b",
				       "",  "repo:org/x", "../../ada", "\xc3\xa9", "a.b"};

/* Words of an operator; strings are the tables'. */
static struct conf_issuer random_issuer(char *bounds[2])
{
	struct conf_issuer x = {.name = (char *)(uintptr_t) "x",
				.principal = (char *)(uintptr_t) "x/{sub}",
				.kinds = (char *)(uintptr_t)one_of(kinds, 4),
				.scopes = (char *)(uintptr_t)one_of(scopes, 5),
				.agents = bounds,
				.nagents = 1 + pick(2)};

	bounds[0] = (char *)(uintptr_t)one_of(agents, 6);
	bounds[1] = (char *)(uintptr_t)one_of(agents, 6);
	x.kind_claim = pick(2) ? (char *)(uintptr_t) "kind" : NULL;
	x.agents_claim = pick(2) ? (char *)(uintptr_t) "agents" : NULL;
	x.scopes_claim = pick(2) ? (char *)(uintptr_t) "scope" : NULL;
	return x;
}

static json_t *random_claims(const char *subject)
{
	static const char *const said[] = {"agent", "service", "staff", "auditor", "agent,service", ""};
	json_t *o = json_pack("{s:s}", "sub", subject);

	if (pick(4))
		json_object_set_new(o, "kind", json_string(one_of(said, 6)));
	if (pick(4))
		json_object_set_new(o, "scope", json_string(one_of(words, 6)));
	if (pick(3) == 0)
		json_object_set_new(o, "agents", json_string(one_of(agents, 9)));
	else if (pick(3))
		json_object_set_new(o, "agents", json_pack("[s,s]", one_of(agents, 9), one_of(agents, 9)));
	return o;
}

static bool covered(const struct conf_issuer *x, const char *agent)
{
	for (size_t i = 0; i < x->nagents; i++)
		if (grant_covers(x->agents[i], agent))
			return true;
	return false;
}

static void check(const struct conf_issuer *x, const json_t *claims, const struct outside_grant *g)
{
	static const char *const probes[] = {"ci-a", "ci-b", "demo", "prod/web-0", "prod/web-0/app", "other"};
	uint32_t most = 0, said = 0;

	assert_int_equal(grant_scopes_parse(x->scopes, &most, NULL), 0);
	assert_int_equal(g->scopes & ~most, 0);
	assert_int_not_equal(g->scopes, 0);
	for (uint32_t bit = 1; x->scopes_claim && bit <= SCOPE_GRANT; bit <<= 1) {
		char name[GRANT_SCOPES_TEXT];

		grant_scopes_format(bit, name, sizeof(name));
		said |= strstr(json_get_text(claims, "scope"), name) ? bit : 0;
	}
	assert_true(!x->scopes_claim || !(g->scopes & ~said));
	assert_non_null(strstr(x->kinds, grant_kind_name(g->kind)));
	assert_true(!x->kind_claim || strcmp(json_get_text(claims, "kind"), grant_kind_name(g->kind)) == 0);
	assert_true(strncmp(g->principal, "x/", 2) == 0 && g->principal[2] && !strchr(g->principal + 2, '/'));
	assert_int_equal(token_name_check("principal", g->principal, NULL), 0);
	for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++)
		assert_true(!grant_covers(g->agent, probes[i]) || covered(x, probes[i]));
}

static void nothing_is_wider_than_the_operators_words(void **state)
{
	const char *text = getenv("TOKENS");
	unsigned long n = text ? strtoul(text, NULL, 10) : 20000, given = 0;

	(void)state;
	seed = 20261126;
	for (unsigned long i = 0; i < n; i++) {
		char *bounds[2];
		struct conf_issuer x = random_issuer(bounds);
		json_t *claims = random_claims(one_of(subjects, 10));
		struct outside_grant g;
		struct err e = {0};
		int rc = outside_map(&x, claims, pick(2) ? one_of(agents, 9) : NULL, pick(3) ? 0 : pick(1024), &g, &e);

		if (rc == 0) {
			check(&x, claims, &g);
			given++;
		} else {
			assert_true(rc == ERR_TOKEN_CLAIMS || rc == ERR_FORBIDDEN || rc == ERR_INVAL);
			assert_string_not_equal(e.message, "");
		}
		json_decref(claims);
	}
	assert_true(given > n / 50);
}

static void no_two_subjects_have_one_principal(void **state)
{
	char *bounds[] = {(char *)(uintptr_t) "*"};
	const struct conf_issuer x = {.name = bounds[0],
				      .principal = (char *)(uintptr_t) "x/{sub}",
				      .kinds = (char *)(uintptr_t) "agent",
				      .scopes = (char *)(uintptr_t) "rounds",
				      .agents = bounds,
				      .nagents = 1};
	struct outside_grant a, b;

	(void)state;
	for (size_t i = 0; i < 10; i++)
		for (size_t k = 0; k < 10; k++) {
			json_t *one = json_pack("{s:s}", "sub", subjects[i]),
			       *two = json_pack("{s:s}", "sub", subjects[k]);

			if (i != k && outside_map(&x, one, NULL, 0, &a, NULL) == 0 &&
			    outside_map(&x, two, NULL, 0, &b, NULL) == 0)
				assert_string_not_equal(a.principal, b.principal);
			json_decref(one);
			json_decref(two);
		}
}

static void a_rule_of_the_operators_holds(void **state)
{
	static const struct {
		const char *rule, *value;
		bool holds;
	} rules[] = {{"repo=org/a", "org/a", true},  {"repo=org/a", "org/ab", false},
		     {"repo=org/*", "org/ab", true}, {"repo=org/*", "organ/a", false},
		     {"repo=org/*", "", false},      {"other=org/*", "org/a", false}};
	char *bounds[] = {(char *)(uintptr_t) "*"};
	struct conf_issuer x = {.name = bounds[0],
				.principal = (char *)(uintptr_t) "x/{sub}",
				.kinds = (char *)(uintptr_t) "agent",
				.scopes = (char *)(uintptr_t) "rounds",
				.agents = bounds,
				.nagents = 1,
				.nrequire = 1};
	struct outside_grant g;

	(void)state;
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		char *rule[] = {(char *)(uintptr_t)rules[i].rule};
		json_t *claims = json_pack("{s:s,s:s}", "sub", "s", "repo", rules[i].value);

		x.require = rule;
		assert_int_equal(outside_map(&x, claims, NULL, 0, &g, NULL), rules[i].holds ? 0 : ERR_TOKEN_CLAIMS);
		json_decref(claims);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_wider_than_the_operators_words),
	    cmocka_unit_test(no_two_subjects_have_one_principal),
	    cmocka_unit_test(a_rule_of_the_operators_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
