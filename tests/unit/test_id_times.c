// tier: check
#include "policy/id_times.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct id numbered(unsigned n)
{
	struct id id = {{0}};

	id.b[0] = (uint8_t)(n * 37); /* out of order on purpose */
	id.b[14] = (uint8_t)(n >> 8);
	id.b[15] = (uint8_t)n;
	return id;
}

static void a_revoked_grant_is_found_and_no_other(void **state)
{
	struct id_times *r = NULL;

	(void)state;
	assert_int_equal(id_times_create(&r), 0);
	for (unsigned n = 0; n < 1000; n += 2) {
		struct id id = numbered(n);
		assert_int_equal(id_times_add(r, &id, 100), 0);
	}
	assert_int_equal(id_times_count(r), 500);
	for (unsigned n = 0; n < 1000; n++) {
		struct id id = numbered(n);
		assert_int_equal(id_times_has(r, &id), n % 2 == 0);
	}
	id_times_destroy(r);
}

static void revoking_twice_keeps_one_entry_and_the_later_expiry(void **state)
{
	struct id_times *r = NULL;
	struct id id = numbered(7);

	(void)state;
	assert_int_equal(id_times_create(&r), 0);
	assert_int_equal(id_times_add(r, &id, 100), 0);
	assert_int_equal(id_times_add(r, &id, 200), 0);
	assert_int_equal(id_times_add(r, &id, 50), 0);
	assert_int_equal(id_times_count(r), 1);
	id_times_expire(r, 199);
	assert_true(id_times_has(r, &id));
	id_times_expire(r, 200);
	assert_false(id_times_has(r, &id));
	id_times_destroy(r);
}

static void only_what_has_expired_is_dropped(void **state)
{
	struct id_times *r = NULL;

	(void)state;
	assert_int_equal(id_times_create(&r), 0);
	for (unsigned n = 0; n < 300; n++) {
		struct id id = numbered(n);
		assert_int_equal(id_times_add(r, &id, n), 0);
	}
	id_times_expire(r, 149);
	assert_int_equal(id_times_count(r), 150);
	for (unsigned n = 0; n < 300; n++) {
		struct id id = numbered(n);
		assert_int_equal(id_times_has(r, &id), n >= 150);
	}
	id_times_destroy(r);
	id_times_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_revoked_grant_is_found_and_no_other),
	    cmocka_unit_test(revoking_twice_keeps_one_entry_and_the_later_expiry),
	    cmocka_unit_test(only_what_has_expired_is_dropped),
	};
	return cmocka_run_group_tests_name("revocation", tests, NULL, NULL);
}
