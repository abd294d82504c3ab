// tier: check
/* Who may do what by roles and bindings. Rules are made of every part that each of their fields may have. */
#include "control/kube/pods/rbac.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const exec_verbs[] = {"get", "create", NULL};

struct seen {
	int n;
	char who[4096];
	bool everything, built_in;
};

static void on_found(void *arg, const struct rbac_grant *g)
{
	struct seen *s = arg;
	size_t at = strlen(s->who);

	s->n++;
	s->everything = g->everything;
	s->built_in = g->built_in;
	snprintf(s->who + at, sizeof(s->who) - at, "%s:%s%s%s by %s%s%s=%s;", g->kind, g->ns, *g->ns ? "/" : "",
		 g->name, g->binding_ns, *g->binding_ns ? "/" : "", g->binding, g->verb);
}

static json_t *parsed(const char *text)
{
	json_t *o = json_loads(text, 0, NULL);

	if (!o)
		fail_msg("no JSON: %s", text);
	return o;
}

static struct seen ask(const char *roles, const char *cluster_roles, const char *role_bindings,
		       const char *cluster_bindings, const struct rbac_want *w)
{
	json_t *a = parsed(roles), *b = parsed(cluster_roles), *c = parsed(role_bindings),
	       *d = parsed(cluster_bindings);
	const struct rbac r = {a, b, c, d};
	struct seen s = {0, "", false, false};

	rbac_who(&r, w, on_found, &s);
	json_decref(a);
	json_decref(b);
	json_decref(c);
	json_decref(d);
	return s;
}

#define BOUND                                                                                                          \
	"[{\"metadata\":{\"name\":\"b\"},\"roleRef\":{\"kind\":\"ClusterRole\",\"name\":\"r\"},\"subjects\":["         \
	"{\"kind\":\"User\",\"name\":\"eve\"}]}]"

/* ---- every rule that can be made of these */

static const struct part {
	const char *text;
	bool fits;
} groups[] = {{"[\"\"]", true}, {"[\"*\"]", true}, {"[\"apps\",\"\"]", true}, {"[\"apps\"]", false}, {"[]", false}},
  resources[] = {{"[\"pods/exec\"]", true}, {"[\"*\"]", true},
		 {"[\"*/exec\"]", true},    {"[\"pods\",\"pods/exec\"]", true},
		 {"[\"pods\"]", false},     {"[\"*/attach\"]", false},
		 {"[\"pods/*\"]", false},   {"[7]", false}},
  verbs[] = {{"[\"get\"]", true},
	     {"[\"*\"]", true},
	     {"[\"list\",\"create\"]", true},
	     {"[\"list\"]", false},
	     {"null", false}},
  names[] = {{"", true},
	     {",\"resourceNames\":[]", true},
	     {",\"resourceNames\":[\"p\"]", true},
	     {",\"resourceNames\":[\"q\"]", false}};

#define EACH(i, of) for (size_t i = 0; i < sizeof(of) / sizeof((of)[0]); i++)

static void every_rule_counts_as_the_server_counts_it(void **state)
{
	const struct rbac_want named = {
	    .group = "", .resource = "pods/exec", .verbs = exec_verbs, .ns = "box", .name = "p"};
	struct rbac_want any = named;
	int n = 0;

	(void)state;
	any.name = NULL;
	EACH(g, groups) EACH(r, resources) EACH(v, verbs) EACH(k, names)
	{
		bool fits = groups[g].fits && resources[r].fits && verbs[v].fits;
		char text[512];

		snprintf(text, sizeof(text),
			 "[{\"metadata\":{\"name\":\"r\"},\"rules\":[{\"apiGroups\":[\"x\"],\"resources\":[\"y\"],"
			 "\"verbs\":[\"z\"]},"
			 "{\"apiGroups\":%s,\"resources\":%s,\"verbs\":%s%s}]}]",
			 groups[g].text, resources[r].text, verbs[v].text, names[k].text);
		if ((ask("[]", text, "[]", BOUND, &named).n == 1) != (fits && names[k].fits) ||
		    (ask("[]", text, "[]", BOUND, &any).n == 1) != fits)
			fail_msg("%s", text);
		n++;
	}
	assert_int_equal(n, 5 * 8 * 5 * 4);
}

/* ---- bindings */

#define EXEC(name, ns)                                                                                                 \
	"{\"metadata\":{\"name\":\"" name "\"" ns "},\"rules\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods/exec\"],"  \
	"\"verbs\":[\"create\"]}]}"
#define BINDING(name, ns, kind, role, subjects)                                                                        \
	"{\"metadata\":{\"name\":\"" name "\"" ns "},\"roleRef\":{\"kind\":\"" kind "\",\"name\":\"" role              \
	"\"},\"subjects\":" subjects "}"
#define IN(ns) ",\"namespace\":\"" ns "\""

static void bindings_hold_where_they_are(void **state)
{
	static const char role_bindings[] =
	    "[" BINDING("a", IN("box"), "Role", "r", "[{\"kind\":\"User\",\"name\":\"u\"}]") "," BINDING(
		"b", IN("box"), "ClusterRole", "c",
		"[{\"kind\":\"Group\",\"name\":\"g\"},{\"kind\":\"ServiceAccount\",\"name\":\"s\",\"namespace\":\"n\"}"
		"]") "," BINDING("x", IN("other"), "ClusterRole", "c",
				 "[{\"kind\":\"User\",\"name\":\"no\"}]") "," BINDING("y", IN("other"), "Role", "r",
										      "[{\"kind\":\"User\",\"name\":"
										      "\"no\"}]") "," BINDING("z",
													      IN("box"),
													      "Role",
													      "gone",
													      "[{"
													      "\"kind\""
													      ":\"User"
													      "\","
													      "\"name\""
													      ":\"no\"}"
													      "]") "]";
	static const char cluster_bindings[] =
	    "[" BINDING("w", "", "ClusterRole", "c", "[{\"kind\":\"User\",\"name\":\"everywhere\"}]") "," BINDING(
		"v", "", "Role", "r", "[{\"kind\":\"User\",\"name\":\"no\"}]") "," BINDING("n", "", "ClusterRole", "c",
											   "null") "]";
	struct rbac_want w = {.group = "", .resource = "pods/exec", .verbs = exec_verbs, .ns = "box"};
	struct seen s;

	(void)state;
	s = ask("[" EXEC("r", IN("box")) "," EXEC("r2", IN("other")) "]", "[" EXEC("c", "") "]", role_bindings,
		cluster_bindings, &w);
	assert_string_equal(s.who, "User:everywhere by w=create;User:u by box/a=create;Group:g by box/b=create;"
				   "ServiceAccount:n/s by box/b=create;");
	w.ns = NULL;
	s = ask("[" EXEC("r", IN("box")) "]", "[" EXEC("c", "") "]", role_bindings, cluster_bindings, &w);
	assert_string_equal(s.who, "User:everywhere by w=create;");
}

static void aggregated_roles_have_what_they_select(void **state)
{
	static const struct {
		const char *selector;
		int n;
	} cases[] = {
	    {"{\"matchLabels\":{\"a\":\"1\"}}", 1},
	    {"{\"matchLabels\":{\"a\":\"2\"}}", 0},
	    {"{\"matchLabels\":{\"b\":\"\"}}", 0},
	    {"{\"matchLabels\":{}}", 1}, /* all */
	    {"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[\"0\",\"1\"]}]}", 1},
	    {"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"NotIn\",\"values\":[\"1\"]}]}", 0},
	    {"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Exists\"}]}", 1},
	    {"{\"matchExpressions\":[{\"key\":\"b\",\"operator\":\"DoesNotExist\"}]}", 1},
	    {"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Like\"}]}", 0},
	    {"{\"matchLabels\":{\"a\":\"1\"},\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"DoesNotExist\"}]}", 0},
	};
	const struct rbac_want w = {.group = "", .resource = "pods/exec", .verbs = exec_verbs, .ns = "box"};

	(void)state;
	EACH(i, cases)
	{
		char text[1024];

		/* r selects m, which selects the part: what nobody has filled in yet */
		snprintf(
		    text, sizeof(text),
		    "[{\"metadata\":{\"name\":\"r\"},\"rules\":null,\"aggregationRule\":{\"clusterRoleSelectors\":["
		    "{\"matchLabels\":{\"m\":\"1\"}}]}},{\"metadata\":{\"name\":\"m\",\"labels\":{\"m\":\"1\",\"a\":"
		    "\"no\"}},"
		    "\"aggregationRule\":{\"clusterRoleSelectors\":[%s]}},"
		    "{\"metadata\":{\"name\":\"part\",\"labels\":{\"a\":\"1\"}},\"rules\":[{\"apiGroups\":[\"\"],"
		    "\"resources\":[\"pods/exec\"],\"verbs\":[\"get\"]}]}]",
		    cases[i].selector);
		if (ask("[]", text, "[]", BOUND, &w).n != cases[i].n)
			fail_msg("%s", text);
	}
}

/* Roles that select each other have an end. */
static void circles_end(void **state)
{
	static const char roles[] = "[{\"metadata\":{\"name\":\"r\",\"labels\":{\"a\":\"1\"}},\"aggregationRule\":{"
				    "\"clusterRoleSelectors\":[{}]}},"
				    "{\"metadata\":{\"name\":\"s\",\"labels\":{\"a\":\"1\"}},\"aggregationRule\":{"
				    "\"clusterRoleSelectors\":[{}]}}]";
	const struct rbac_want w = {.group = "", .resource = "pods/exec", .verbs = exec_verbs, .ns = "box"};

	(void)state;
	assert_int_equal(ask("[]", roles, "[]", BOUND, &w).n, 0);
}

static void who_has_everything_is_told_so(void **state)
{
	static const char roles[] =
	    "[{\"metadata\":{\"name\":\"r\"},\"rules\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods/exec\"],"
	    "\"verbs\":[\"get\"]},{\"apiGroups\":[\"*\"],\"resources\":[\"*\"],\"verbs\":[\"*\"]}]}]";
	static const char bound[] =
	    "[{\"metadata\":{\"name\":\"b\",\"labels\":{\"kubernetes.io/bootstrapping\":\"rbac-defaults\"}},"
	    "\"roleRef\":{\"kind\":\"ClusterRole\",\"name\":\"r\"},\"subjects\":[{\"kind\":\"User\",\"name\":\"eve\"}]}"
	    "]";
	const struct rbac_want w = {.group = "", .resource = "pods/exec", .verbs = exec_verbs, .ns = "box"};
	struct seen s = ask("[]", roles, "[]", bound, &w);

	(void)state;
	assert_int_equal(s.n, 1);
	assert_true(s.everything && s.built_in);
}

/* Objects that are none of these: nobody has anything, and nothing breaks. */
static void what_makes_no_sense_gives_nothing(void **state)
{
	static const char *const odd[] = {
	    "[1,null,\"x\",{}]", "[{\"metadata\":7,\"rules\":[[],{},7]}]",
	    "[{\"metadata\":{\"name\":\"r\"},\"rules\":{\"verbs\":[\"*\"]}}]",
	    "[{\"metadata\":{\"name\":\"r\"},\"aggregationRule\":{\"clusterRoleSelectors\":[7,{}]}}]"};
	const struct rbac_want w = {.group = "", .resource = "pods/exec", .verbs = exec_verbs, .ns = "box"};

	(void)state;
	EACH(i, odd)
	{
		EACH(k, odd)
		{
			assert_int_equal(ask(odd[k], odd[i], odd[k], BOUND, &w).n, 0);
			assert_int_equal(ask("[]", odd[i], odd[k], odd[k], &w).n, 0);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_rule_counts_as_the_server_counts_it),
	    cmocka_unit_test(bindings_hold_where_they_are),
	    cmocka_unit_test(aggregated_roles_have_what_they_select),
	    cmocka_unit_test(circles_end),
	    cmocka_unit_test(who_has_everything_is_told_so),
	    cmocka_unit_test(what_makes_no_sense_gives_nothing),
	};

	return cmocka_run_group_tests_name("kube_rbac", tests, NULL, NULL);
}
