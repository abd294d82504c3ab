// tier: check
#include "policy/time_floor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void time_goes_on_with_the_wall_clock(void **state)
{
	struct time_floor f;

	(void)state;
	time_floor_init(&f, 0, 1000, 10);
	assert_int_equal(time_floor_now(&f, 1000, 10), 1000);
	assert_int_equal(time_floor_now(&f, 1500, 510), 1500);
	assert_int_equal(time_floor_now(&f, 9000, 520), 9000); /* set forward: followed */
}

static void a_clock_that_was_turned_back_is_not_believed(void **state)
{
	struct time_floor f;

	(void)state;
	time_floor_init(&f, 0, 1000, 10);
	assert_int_equal(time_floor_now(&f, 400, 110), 1100);
	assert_int_equal(time_floor_now(&f, 401, 111), 1101); /* and time still passes */
	assert_int_equal(time_floor_now(&f, 5000, 112), 5000);
	assert_int_equal(time_floor_now(&f, 1, 212), 5100); /* the floor is the latest time seen */
}

static void a_restart_does_not_forget_the_floor(void **state)
{
	struct time_floor f;

	(void)state;
	time_floor_init(&f, 7000, 1000, 10); /* the file says 7000, the clock 1000, the machine was booted anew */
	assert_int_equal(time_floor_now(&f, 1000, 10), 7000);
	assert_int_equal(time_floor_now(&f, 1500, 510), 7500);
}

static void odd_values_saturate(void **state)
{
	struct time_floor f;

	(void)state;
	time_floor_init(&f, INT64_MAX - 5, 0, 0);
	assert_true(time_floor_now(&f, 0, 100) == INT64_MAX);
	time_floor_init(&f, -50, -60, 1000);
	assert_int_equal(time_floor_now(&f, -60, 900), 0); /* boot clock behind the floor's: no time has passed */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(time_goes_on_with_the_wall_clock),
	    cmocka_unit_test(a_clock_that_was_turned_back_is_not_believed),
	    cmocka_unit_test(a_restart_does_not_forget_the_floor),
	    cmocka_unit_test(odd_values_saturate),
	};
	return cmocka_run_group_tests_name("time_floor", tests, NULL, NULL);
}
