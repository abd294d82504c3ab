// tier: check
/* How much a sandbox asks for: read from JSON, told as quantities, clipped by the configuration. */
#include "base/conf.h"
#include "base/err.h"
#include "base/resources.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void quantities_are_read(void **state)
{
	static const struct {
		const char *json;
		struct resources r;
		const char *told; /* NULL: the same */
	} rows[] = {
	    {"{\"cpu\":\"500m\",\"memory\":\"512Mi\",\"pids\":200}", {512 << 20, 500, 200}, NULL},
	    {"{\"cpu\":\"2\"}", {0, 2000, 0}, NULL},
	    {"{\"cpu\":2}", {0, 2000, 0}, "{\"cpu\":\"2\"}"},
	    {"{\"cpu\":\"0.5\"}", {0, 500, 0}, "{\"cpu\":\"500m\"}"},
	    {"{\"cpu\":\"0.0125\"}", {0}, "no"},
	    {"{\"cpu\":\"1.25\"}", {0, 1250, 0}, "{\"cpu\":\"1250m\"}"},
	    {"{\"cpu\":\"10m\"}", {0, 10, 0}, NULL},
	    {"{\"cpu\":\"9m\"}", {0}, "no"},
	    {"{\"cpu\":\"1024\"}", {0, 1024000, 0}, NULL},
	    {"{\"cpu\":\"1025\"}", {0}, "no"},
	    {"{\"memory\":\"1G\"}", {1000000000, 0, 0}, "{\"memory\":\"1000000000\"}"},
	    {"{\"memory\":\"1.5Gi\"}", {UINT64_C(1536) << 20, 0, 0}, "{\"memory\":\"1536Mi\"}"},
	    {"{\"memory\":\"512MiB\"}", {512 << 20, 0, 0}, "{\"memory\":\"512Mi\"}"},
	    {"{\"memory\":16777216}", {16 << 20, 0, 0}, "{\"memory\":\"16Mi\"}"},
	    {"{\"memory\":16777215}", {0}, "no"},
	    {"{\"memory\":\"16Ti\"}", {UINT64_C(16) << 40, 0, 0}, NULL},
	    {"{\"memory\":\"17Ti\"}", {0}, "no"},
	    {"{\"memory\":\"999999999999999Ti\"}", {0}, "no"},
	    {"{\"memory\":\"9999999999999999\"}", {0}, "no"},
	    {"{\"memory\":\"\"}", {0}, "no"},
	    {"{\"memory\":\"Mi\"}", {0}, "no"},
	    {"{\"memory\":\"512mi\"}", {0}, "no"},
	    {"{\"memory\":\"512Mi \"}", {0}, "no"},
	    {"{\"memory\":\"-512Mi\"}", {0}, "no"},
	    {"{\"memory\":\"1e9\"}", {0}, "no"},
	    {"{\"memory\":\"512.Mi\"}", {0}, "no"},
	    {"{\"memory\":\"512Mi\\u0000\"}", {0}, "no"},
	    {"{\"memory\":-1}", {0}, "no"},
	    {"{\"memory\":1.5}", {0}, "no"},
	    {"{\"memory\":true}", {0}, "no"},
	    {"{\"pids\":7}", {0}, "no"},
	    {"{\"pids\":8}", {0, 0, 8}, NULL},
	    {"{\"pids\":\"8\"}", {0}, "no"},
	    {"{\"pids\":4194305}", {0}, "no"},
	    {"{\"disk\":\"1Gi\"}", {0}, "no"},
	    {"[]", {0}, "no"},
	    {"\"1Gi\"", {0}, "no"},
	    {"{}", {0}, "null"},
	    {"null", {0}, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *o = json_loads(rows[i].json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL), *told;
		struct resources r = {1, 2, 3};
		struct err e = {0};
		bool wrong = rows[i].told && strcmp(rows[i].told, "no") == 0;
		char *text;

		assert_non_null(o);
		if (resources_read(o, &r, &e)) {
			if (!wrong)
				fail_msg("%s: %s", rows[i].json, e.message);
			assert_int_equal(e.code, ERR_INVAL);
			assert_true(r.memory == 1 && r.cpu_milli == 2 && r.pids == 3);
			json_decref(o);
			continue;
		}
		if (wrong || !resources_equal(&r, &rows[i].r))
			fail_msg("%s was read as %llu, %u, %u", rows[i].json, (unsigned long long)r.memory, r.cpu_milli,
				 r.pids);
		told = resources_json(&r);
		text = json_dumps(told, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
		assert_string_equal(text, rows[i].told ? rows[i].told : rows[i].json);
		free(text);
		json_decref(told);
		json_decref(o);
	}
}

static void nobody_gets_more_than_the_most(void **state)
{
	static const struct {
		struct resources asked, most, got;
		const char *clipped;
	} rows[] = {
	    {{0}, {1 << 30, 2000, 512}, {1 << 30, 2000, 512}, "null"},
	    {{1 << 29, 500, 64}, {1 << 30, 2000, 512}, {1 << 29, 500, 64}, "null"},
	    {{1 << 30, 2000, 512}, {1 << 30, 2000, 512}, {1 << 30, 2000, 512}, "null"},
	    {{(1 << 30) + 1, 2001, 513}, {1 << 30, 2000, 512}, {1 << 30, 2000, 512}, "[\"cpu\",\"memory\",\"pids\"]"},
	    {{UINT64_C(1) << 40, 0, 0}, {1 << 30, 2000, 512}, {1 << 30, 2000, 512}, "[\"memory\"]"},
	    {{UINT64_C(1) << 40, 4000, 9}, {0}, {UINT64_C(1) << 40, 4000, 9}, "null"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct resources got = resources_clip(&rows[i].asked, &rows[i].most);
		json_t *list = resources_clipped(&rows[i].asked, &rows[i].most);
		char *text = json_dumps(list, JSON_COMPACT | JSON_ENCODE_ANY);

		assert_true(resources_equal(&got, &rows[i].got));
		assert_string_equal(text, rows[i].clipped);
		free(text);
		json_decref(list);
	}
}

/* Of pods the limits are texts, which may be missing. */
static void the_most_is_that_of_the_backend(void **state)
{
	struct resources r = resources_quantities("1500m", "2Gi");

	(void)state;
	assert_true(resources_equal(&r, &(struct resources){UINT64_C(2) << 30, 1500, 0}));
	r = resources_quantities("1.2501", "1.50000000Gi");
	assert_true(resources_equal(&r, &(struct resources){UINT64_C(1536) << 20, 1251, 0}));
	r = resources_quantities("0.000000000000001", "500m");
	assert_true(resources_equal(&r, &(struct resources){1, 1, 0}));
	r = resources_quantities("", NULL);
	assert_true(resources_none(&r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(quantities_are_read),
	    cmocka_unit_test(nobody_gets_more_than_the_most),
	    cmocka_unit_test(the_most_is_that_of_the_backend),
	};

	return cmocka_run_group_tests_name("resources", tests, NULL, NULL);
}
