// tier: check
/* Syncs share a bounded memory: as many run as have room, the others in their order, pulls first. */
#include "muxd/hub/core/filespace_places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KIB 1024u
#define MIB (1024u * KIB)

static const struct conf usual = {.filespace_max_files = 20000, .filespace_max_file_size = 16 * MIB};
static const struct conf largest = {.filespace_max_files = 100000, .filespace_max_file_size = 64 * MIB};

/* The largest configuration does not make one sync larger than all may be. */
static void whatever_is_configured_one_has_room(void **state)
{
	struct filespace_places all;
	struct filespace_place p[2] = {{0}};

	(void)state;
	filespace_places_init(&all);
	assert_true(filespace_sync_bytes(&largest) <= FILESPACE_MEMORY);
	assert_int_equal(filespace_list_bytes(&largest), 64 * MIB);
	assert_true(filespace_place_take(&all, &p[0], false, &largest));
	assert_true(filespace_place_take(&all, &p[0], true, &largest)); /* it has it */
	assert_false(filespace_place_take(&all, &p[1], true, &largest));
	filespace_place_leave(&all, &p[0]);
	assert_true(filespace_place_take(&all, &p[1], true, &largest));
	assert_false(filespace_places_wanted(&all));
}

static void as_many_run_as_have_room(void **state)
{
	struct filespace_places all;
	struct filespace_place p[20] = {{0}};
	unsigned n = 0;

	(void)state;
	filespace_places_init(&all);
	while (n < 20 && filespace_place_take(&all, &p[n], false, &usual))
		n++;
	assert_int_equal(n, 6);
	assert_true(n * filespace_sync_bytes(&usual) <= FILESPACE_MEMORY);
	filespace_place_leave(&all, &p[n]); /* it is gone while it waits */
	assert_false(filespace_places_wanted(&all));
}

/* Nobody overtakes, but whoever waits for a pull those who push. */
static void they_wait_in_their_order(void **state)
{
	struct filespace_places all;
	struct filespace_place a = {0}, b = {0}, c = {0}, d = {0};

	(void)state;
	filespace_places_init(&all);
	assert_true(filespace_place_take(&all, &a, false, &largest));
	assert_false(filespace_place_take(&all, &b, false, &largest));
	assert_false(filespace_place_take(&all, &c, false, &largest));
	assert_false(filespace_place_take(&all, &d, true, &largest));
	assert_false(filespace_place_take(&all, &b, false, &largest)); /* asked again it keeps its turn */
	filespace_place_leave(&all, &a);
	assert_false(filespace_place_take(&all, &a, false, &largest)); /* once more: behind them */
	assert_false(filespace_place_take(&all, &b, false, &largest));
	assert_true(filespace_place_take(&all, &d, true, &largest));
	filespace_place_leave(&all, &d);
	assert_false(filespace_place_take(&all, &c, false, &largest));
	assert_true(filespace_place_take(&all, &b, false, &largest));
	filespace_place_leave(&all, &b);
	assert_false(filespace_place_take(&all, &a, false, &largest));
	assert_true(filespace_place_take(&all, &a, true, &largest)); /* a pull by now: ahead of c */
	filespace_place_leave(&all, &a);
	assert_true(filespace_place_take(&all, &c, false, &largest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(whatever_is_configured_one_has_room),
	    cmocka_unit_test(as_many_run_as_have_room),
	    cmocka_unit_test(they_wait_in_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
