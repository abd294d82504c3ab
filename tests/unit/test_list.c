// tier: check
/* list.h: arrays that grow, and keep what is in them. */
#include "base/list.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void entries_stay_in_order(void **state)
{
	(void)state;
	int *list = NULL;
	size_t n = 0;

	for (int i = 0; i < 1000; i++)
		assert_int_equal(list_append(&list, &n, &i, sizeof(i)), 0);
	assert_int_equal(n, 1000);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(list[i], i);
	free(list);
}

static void one_goes_between_others(void **state)
{
	(void)state;
	int *list = NULL;
	size_t n = 0;

	for (int i = 100; i > 0; i -= 2)
		assert_int_equal(list_insert(&list, &n, 0, &i, sizeof(i)), 0);
	for (int i = 1; i < 100; i += 2)
		assert_int_equal(list_insert(&list, &n, (size_t)i - 1, &i, sizeof(i)), 0);
	assert_int_equal(n, 100);
	for (int i = 0; i < 100; i++)
		assert_int_equal(list[i], i + 1);
	free(list);
}

/* A lower count takes entries away; what comes then stands behind the others, whatever room there was. */
static void what_was_taken_away_leaves_room(void **state)
{
	(void)state;
	int *list = NULL;
	size_t n = 0;

	for (int i = 0; i < 100; i++)
		assert_int_equal(list_append(&list, &n, &i, sizeof(i)), 0);
	for (n = 3; n < 200;) {
		int next = (int)n;
		assert_int_equal(list_append(&list, &n, &next, sizeof(next)), 0);
	}
	for (int i = 0; i < 200; i++)
		assert_int_equal(list[i], i);
	n = 0;
	assert_int_equal(list_append(&list, &n, &(int){7}, sizeof(int)), 0);
	assert_int_equal(list[0], 7);
	free(list);
}

static void too_much_is_refused(void **state)
{
	(void)state;
	int *list = NULL;
	size_t n = (size_t)1 << 62;

	assert_int_equal(list_append(&list, &n, &(int){1}, sizeof(int)), ERR_NOMEM);
	assert_null(list);
	assert_int_equal(n, (size_t)1 << 62);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(entries_stay_in_order),
	    cmocka_unit_test(one_goes_between_others),
	    cmocka_unit_test(what_was_taken_away_leaves_room),
	    cmocka_unit_test(too_much_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
