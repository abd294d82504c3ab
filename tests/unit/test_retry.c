// tier: check
/* When the recorder tries again: seldom, the longer it fails; at once where that mends something, but not for ever. */
#include "base/clock.h"
#include "recorder/write/retry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static uint64_t s(uint64_t n)
{
	return 1000 * NS_PER_SEC + n * NS_PER_SEC;
}

static void each_wait_is_twice_the_last_up_to_a_bound(void **state)
{
	static const unsigned waits[] = {1, 2, 4, 8, 16, 16, 16};
	struct retry r = {0};
	uint64_t now = s(0);

	(void)state;
	assert_true(retry_due(&r, now, false));
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
			retry_failed(&r, now, 0);
			assert_false(retry_due(&r, now + waits[i] * NS_PER_SEC - 1, false));
			assert_true(retry_due(&r, now + waits[i] * NS_PER_SEC, false));
			assert_false(
			    retry_due(&r, now + NS_PER_SEC - 1, true)); /* who waits for it does not wait longer */
			assert_true(retry_due(&r, now + NS_PER_SEC, true));
			now += waits[i] * NS_PER_SEC;
		}
		assert_true(retry_worked(&r, now, true));
		assert_false(retry_worked(&r, now, true));
	}
}

/* What fails is not the first thing to be done: a try that has not come to it is no reason to begin at a second again.
 */
static void half_of_the_work_is_no_success(void **state)
{
	struct retry r = {0};
	uint64_t now = s(0);

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		retry_failed(&r, now, 0);
		now += 16 * NS_PER_SEC;
		assert_false(retry_worked(&r, now, false));
	}
	retry_failed(&r, now, 0);
	assert_int_equal(r.failures, 7);
	assert_false(retry_due(&r, now + 15 * NS_PER_SEC, false));
	assert_true(retry_worked(&r, now + RETRY_STEADY_NS, false));
	assert_int_equal(r.failures, 0);
}

/* A day in a fake clock: as many tries as that makes, and no more. */
static void a_day_of_failing_is_not_many_tries(void **state)
{
	struct retry r = {0};
	unsigned tries = 0;

	(void)state;
	for (uint64_t now = s(0); now < s(24 * 3600); now += NS_PER_SEC / 10) {
		if (!retry_due(&r, now, false))
			continue;
		tries++;
		retry_failed(&r, now, 3);
	}
	assert_in_range(tries, 24 * 3600 / 16, 24 * 3600 / 16 + 10);
}

static void what_the_next_try_mends_does_not_wait(void **state)
{
	struct retry r = {0};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		retry_failed(&r, s(0), 3);
		assert_true(retry_due(&r, s(0), false));
	}
	retry_failed(&r, s(0), 3);
	assert_false(retry_due(&r, s(0), false));
	assert_true(retry_due(&r, s(1), false));
	(void)retry_worked(&r, s(1), false);
	retry_failed(&r, s(5), 1);
	assert_true(retry_due(&r, s(5), false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_wait_is_twice_the_last_up_to_a_bound),
	    cmocka_unit_test(half_of_the_work_is_no_success),
	    cmocka_unit_test(a_day_of_failing_is_not_many_tries),
	    cmocka_unit_test(what_the_next_try_mends_does_not_wait),
	};

	return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
