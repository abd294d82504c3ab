// tier: check
/* Bounds of a grant from text: what is taken, what is refused and how, and that they come back as they were. */
#include "base/err.h"
#include "policy/grant_bounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int take(const char *text, struct grant_bounds *out, struct err *e)
{
	json_t *o = json_loads(text, 0, NULL);
	int rc;

	assert_non_null(o);
	rc = grant_bounds_take(o, out, e);
	json_decref(o);
	return rc;
}

static void what_is_none_is_refused_by_name(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
	    {"{\"uses\":0}", "uses"},
	    {"{\"uses\":-1}", "uses"},
	    {"{\"uses\":1000001}", "uses"},
	    {"{\"uses\":1.5}", "uses"},
	    {"{\"uses\":\"3\"}", "uses"},
	    {"{\"operations\":\"\"}", "operations"},
	    {"{\"operations\":[\"round.start\"]}", "operations"},
	    {"{\"operations\":\"round.start,\"}", "operations: \"\""},
	    {"{\"operations\":\",round.start\"}", "operations: \"\""},
	    {"{\"operations\":\"round.start, round.read\"}", "operations: \" round.read\""},
	    {"{\"operations\":\"round.strat\"}", "did you mean round.start?"},
	    {"{\"operations\":\"*\"}", "operations: \"*\""},
	    {"{\"operations\":"
	     "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
	     "is none"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct grant_bounds b = {7, 7};
		struct err e = {0};

		assert_int_not_equal(take(bad[i].text, &b, &e), 0);
		if (!strstr(e.message, bad[i].says))
			fail_msg("%s: %s", bad[i].text, e.message);
		assert_true(b.uses == 7 && b.operations == 7);
	}
}

static void bounds_come_back_as_they_were(void **state)
{
	struct grant_bounds all = {GRANT_USES_MAX, ((uint64_t)1 << POLICY_OPS) - 1}, none = {0}, got;
	json_t *o = json_object();

	(void)state;
	assert_int_equal(grant_bounds_put(o, &none), 0);
	assert_int_equal(json_object_size(o), 0);
	assert_int_equal(grant_bounds_take(o, &got, NULL), 0);
	assert_true(got.uses == 0 && got.operations == 0);
	assert_int_equal(grant_bounds_put(o, &all), 0);
	assert_int_equal(grant_bounds_take(o, &got, NULL), 0);
	assert_true(got.uses == all.uses && got.operations == all.operations);
	json_decref(o);
	assert_int_equal(grant_bounds_check(&all, NULL), 0);
	all.operations |= (uint64_t)1 << POLICY_OPS;
	assert_int_equal(grant_bounds_check(&all, NULL), ERR_INVAL);
}

static void a_child_is_within(void **state)
{
	const uint64_t start = (uint64_t)1 << POLICY_ROUND_START, read = (uint64_t)1 << POLICY_FILE_READ;
	const struct {
		struct grant_bounds parent, child;
		int rc;
	} rows[] = {
	    {{0, 0}, {0, 0}, 0},
	    {{0, 0}, {3, start}, 0},
	    {{3, 0}, {3, 0}, 0},
	    {{3, 0}, {4, 0}, ERR_NOT_NARROWER},
	    {{3, 0}, {0, 0}, ERR_NOT_NARROWER},
	    {{0, start | read}, {0, start}, 0},
	    {{0, start}, {0, start | read}, ERR_NOT_NARROWER},
	    {{0, start}, {0, 0}, ERR_NOT_NARROWER},
	};
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(grant_bounds_narrow(&rows[i].parent, &rows[i].child, NULL), rows[i].rc);
	assert_int_equal(grant_bounds_allow(&rows[5].child, POLICY_ROUND_START, NULL), 0);
	assert_int_equal(grant_bounds_allow(&rows[5].child, POLICY_FILE_READ, &e), ERR_FORBIDDEN);
	assert_non_null(strstr(e.message, "file.read"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_none_is_refused_by_name),
	    cmocka_unit_test(bounds_come_back_as_they_were),
	    cmocka_unit_test(a_child_is_within),
	};

	return cmocka_run_group_tests_name("grant_bounds", tests, NULL, NULL);
}
