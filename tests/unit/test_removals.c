// tier: check
/* Whether net's side removes by age: told once, and over restarts. */
#include "base/clock.h"
#include "muxd/hub/core/removals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SEC  INT64_C(1000000000)
#define HOUR (3600 * SEC)
#define DAY  (24 * HOUR)

struct rig {
	char path[64];
	struct removals *removals;
	int64_t boot, wall;
	unsigned told;
};

static void on_wait(void *arg)
{
	((struct rig *)arg)->told++;
}

static void set_clocks(struct rig *r, int64_t boot, int64_t wall)
{
	r->boot += boot;
	r->wall += wall;
	clock_test_set((uint64_t)r->boot, r->wall);
}

static void up(struct rig *r)
{
	assert_int_equal(removals_create(r->path, on_wait, r, &r->removals), 0);
	removals_begin(r->removals);
}

static void restart(struct rig *r)
{
	removals_destroy(r->removals);
	up(r);
}

static int setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	int fd;

	snprintf(r->path, sizeof(r->path), "/tmp/muxd-removals.XXXXXX");
	fd = mkstemp(r->path);
	close(fd);
	set_clocks(r, 1000 * SEC, INT64_C(1795248100) * SEC);
	up(r);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;

	removals_destroy(r->removals);
	clock_test_reset();
	unlink(r->path);
	free(r);
	return 0;
}

static void it_waits_and_says_so_once(void **state)
{
	struct rig *r = *state;

	assert_false(removals_wait(r->removals));
	set_clocks(r, 2 * SEC, 40 * DAY);
	assert_true(removals_wait(r->removals) && removals_wait(r->removals));
	assert_int_equal(r->told, 1);
	restart(r);
	assert_true(removals_wait(r->removals));
	set_clocks(r, 0, -40 * DAY); /* somebody sets it right: the day goes on */
	restart(r);
	assert_true(removals_wait(r->removals));
	assert_int_equal(r->told, 1);
	set_clocks(r, DAY, DAY);
	assert_false(removals_wait(r->removals));
	restart(r);
	assert_false(removals_wait(r->removals));
	assert_int_equal(r->told, 1);
}

static void a_clock_that_is_ahead_at_the_start(void **state)
{
	struct rig *r = *state;

	removals_destroy(r->removals);
	set_clocks(r, 60 * SEC, 40 * DAY);
	up(r);
	assert_int_equal(r->told, 1);
	assert_true(removals_wait(r->removals));
}

/* The file of this boot becomes one of another. left: false is as an older daemon wrote it, without. */
static void boot_anew(struct rig *r, bool left)
{
	char text[512] = "", *at;
	FILE *f;

	removals_destroy(r->removals);
	f = fopen(r->path, "r+");
	assert_non_null(f);
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	at = strstr(text, clock_boot_id());
	assert_non_null(at);
	*at = *at == '0' ? '1' : '0';
	at = strstr(text, "left_ns");
	assert_non_null(at);
	if (!left)
		*at = 'L';
	rewind(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	r->boot = 60 * SEC;
	set_clocks(r, 0, 0);
	up(r);
}

static void boots_go_on_with_what_is_left(void **state)
{
	struct rig *r = *state;

	set_clocks(r, 2 * SEC, 40 * DAY);
	assert_true(removals_wait(r->removals));
	for (int day = 0; day < 2; day++) {
		/* Said hourly, but for the first that is of a clean end. */
		for (int hour = 0; hour < 10; hour++) {
			set_clocks(r, HOUR, HOUR);
			if (day || hour == 9)
				assert_true(removals_wait(r->removals));
		}
		set_clocks(r, 0, 14 * HOUR);
		boot_anew(r, true);
	}
	set_clocks(r, 4 * HOUR - 1, 4 * HOUR);
	assert_true(removals_wait(r->removals));
	set_clocks(r, 1, 0);
	assert_false(removals_wait(r->removals));
	assert_int_equal(r->told, 1);
}

static void an_older_file_waits_from_the_beginning(void **state)
{
	struct rig *r = *state;

	set_clocks(r, 2 * SEC, 40 * DAY);
	assert_true(removals_wait(r->removals));
	set_clocks(r, 10 * HOUR, 10 * HOUR);
	boot_anew(r, false);
	set_clocks(r, DAY - 1, DAY);
	assert_true(removals_wait(r->removals));
	set_clocks(r, 1, 0);
	assert_false(removals_wait(r->removals));
}

static void a_file_that_says_nothing_is_no_wait(void **state)
{
	static const char *const texts[] = {"", "{", "[1]", "{\"seen_ns\":\"x\",\"until_ns\":[]}"};
	struct rig *r = *state;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		FILE *f;

		removals_destroy(r->removals);
		f = fopen(r->path, "w");
		assert_non_null(f);
		fputs(texts[i], f);
		fclose(f);
		up(r);
		assert_false(removals_wait(r->removals));
	}
	assert_int_equal(r->told, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(it_waits_and_says_so_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_clock_that_is_ahead_at_the_start, setup, teardown),
	    cmocka_unit_test_setup_teardown(boots_go_on_with_what_is_left, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_older_file_waits_from_the_beginning, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_file_that_says_nothing_is_no_wait, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
