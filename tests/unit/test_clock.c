// tier: check
#include "base/clock.h"
#include "base/clock_guard.h"
#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SEC INT64_C(1000000000)

static void formats_utc(void **state)
{
	(void)state;
	static const struct {
		int64_t ns;
		const char *text;
	} rows[] = {
	    {0, "1970-01-01T00:00:00.000Z"},
	    {INT64_C(1795248100) * SEC + 123999999, "2026-11-21T08:01:40.123Z"},
	    {-1, "1969-12-31T23:59:59.999Z"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char out[40];
		clock_format_utc(rows[i].ns, out, sizeof(out));
		assert_string_equal(out, rows[i].text);
	}
}

static void parses_rfc3339(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t ns;
	} rows[] = {
	    {"1970-01-01T00:00:00Z", 0},
	    {"2026-11-21T08:01:40.123Z", INT64_C(1795248100) * SEC + 123000000},
	    {"2026-11-21t08:01:40z", INT64_C(1795248100) * SEC},
	    {"2026-11-21T10:31:40+02:30", INT64_C(1795248100) * SEC},
	    {"2026-11-20T20:01:40.000000001-12:00", INT64_C(1795248100) * SEC + 1},
	    {"2024-02-29 00:00:00Z", INT64_C(1709164800) * SEC},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int64_t ns = 42;
		assert_int_equal(clock_parse_utc(rows[i].text, &ns), 0);
		assert_int_equal(ns, rows[i].ns);
	}
}

static void refuses_what_is_no_time(void **state)
{
	(void)state;
	static const char *const wrong[] = {
	    "",
	    "2026-11-21",
	    "2026-11-21T08:01:40",
	    "2026-11-21T08:01Z",
	    "2026-13-21T08:01:40Z",
	    "2026-02-29T08:01:40Z",
	    "2026-11-21T24:00:00Z",
	    "2026-11-21T08:01:40.Z",
	    "2026-11-21T08:01:40.1234567890Z",
	    "2026-11-21T08:01:40Zx",
	    "2026-11-21T08:01:40+0200",
	    "2026-11-21T08:01:40+24:00",
	    "9999-01-01T00:00:00Z",
	    " 2026-11-21T08:01:40Z",
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		int64_t ns = 42;
		assert_int_equal(clock_parse_utc(wrong[i], &ns), ERR_INVAL);
		assert_int_equal(ns, 42);
	}
	int64_t ns;
	assert_int_equal(clock_parse_utc(NULL, &ns), ERR_INVAL);
}

static void parses_and_formats_durations(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t ns;
		const char *back;
	} rows[] = {
	    {"15m", 900 * NS_PER_SEC, "15m"},
	    {"90s", 90 * NS_PER_SEC, "1m30s"},
	    {"1h30m", 5400 * NS_PER_SEC, "1h30m"},
	    {"250ms", 250 * NS_PER_MS, "250ms"},
	    {"2d", 172800 * NS_PER_SEC, "2d"},
	    {"1m500ms", 60500 * NS_PER_MS, "1m500ms"},
	    {"0s", 0, "0s"},
	    {"3650d", UINT64_C(3650) * 86400 * NS_PER_SEC, "3650d"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t ns = 42;
		char back[64];
		assert_int_equal(clock_parse_duration(rows[i].text, &ns), 0);
		assert_int_equal(ns, rows[i].ns);
		clock_format_duration(ns, back, sizeof(back));
		assert_string_equal(back, rows[i].back);
	}
}

static void refuses_what_is_no_duration(void **state)
{
	(void)state;
	static const char *const wrong[] = {"",
					    "15",
					    "m",
					    "15 m",
					    "1.5h",
					    "-5m",
					    "15x",
					    "30m1h",
					    "1m1m",
					    "3651d",
					    "5ms1s",
					    "1hm",
					    "999999999999999d",
					    "1msm",
					    "15min"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint64_t ns = 42;
		assert_int_equal(clock_parse_duration(wrong[i], &ns), ERR_INVAL);
		assert_int_equal(ns, 42);
	}
}

static void stands_still_for_tests(void **state)
{
	(void)state;
	clock_test_set(7, -3);
	assert_int_equal(clock_boot_ns(), 7);
	assert_int_equal(clock_wall_ns(), -3);
	clock_test_reset();
	uint64_t a = clock_boot_ns();
	assert_true(a > 7);
	assert_true(clock_boot_ns() >= a);
	assert_int_equal(strlen(clock_boot_id()), CLOCK_BOOT_ID_LEN - 1);
	assert_ptr_equal(clock_boot_id(), clock_boot_id());
}

#define HOUR (3600 * SEC)
#define DAY  (24 * HOUR)

/* A guard that saw both clocks, and then both as they are in the row: who removes by age asks at that moment. */
static void ages_count_unless_the_clock_ran_ahead(void **state)
{
	(void)state;
	static const struct {
		int64_t boot, wall; /* later by so much */
		bool waits;
	} rows[] = {
	    {2 * SEC, 2 * SEC, false},   {2 * SEC, 2 * SEC + HOUR, false}, {2 * SEC, 3 * SEC + HOUR, true},
	    {2 * SEC, 3650 * DAY, true}, {2 * SEC, -3650 * DAY, false}, /* behind: nothing is older for it */
	    {30 * DAY, 30 * DAY, false},                                /* the machine slept: uptime counts that */
	    {30 * DAY, 31 * DAY, true},
	};
	const int64_t wall = INT64_C(1795248100) * SEC, boot = 1000 * SEC;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct clock_guard g;
		clock_test_set((uint64_t)boot, wall);
		assert_int_equal(clock_guard_start(&g, wall, 0, true, 0), CLOCK_GUARD_AS_BEFORE);
		assert_false(clock_guard_waits(&g));
		clock_test_set((uint64_t)(boot + rows[i].boot), wall + rows[i].wall);
		assert_int_equal(clock_guard_check(&g), rows[i].waits ? CLOCK_GUARD_JUMPED : CLOCK_GUARD_AS_BEFORE);
		assert_int_equal(clock_guard_waits(&g), rows[i].waits);
		if (!rows[i].waits)
			continue;
		/* set right again or not: a day of uptime, and not of that clock */
		clock_test_set((uint64_t)(boot + rows[i].boot + DAY - 1), wall + rows[i].boot + DAY);
		assert_int_equal(clock_guard_check(&g), CLOCK_GUARD_KEEP);
		assert_int_equal(clock_guard_check(&g), CLOCK_GUARD_AS_BEFORE);
		assert_true(clock_guard_waits(&g));
		assert_int_equal(clock_guard_left(&g), 1);
		clock_test_set((uint64_t)(boot + rows[i].boot + DAY), wall + rows[i].boot + DAY);
		assert_int_equal(clock_guard_check(&g), CLOCK_GUARD_OVER);
		assert_false(clock_guard_waits(&g));
	}
	clock_test_reset();
}

static void a_start_goes_on_with_what_was_kept(void **state)
{
	(void)state;
	static const struct {
		int64_t seen;   /* so long before the start; 0: nothing was kept */
		uint64_t until; /* uptime */
		bool same_boot;
		uint64_t left;
		uint64_t waits; /* until then */
	} rows[] = {
	    {0, 0, false, 0, 0},
	    {23 * HOUR, 0, false, 0, 0},
	    {25 * HOUR, 0, true, 0, 1000 * SEC + DAY},
	    {25 * HOUR, 0, false, 0, 1000 * SEC + DAY},
	    {-40 * DAY, 0, true, 0, 0},                                 /* seen by the clock that was wrong */
	    {HOUR, 5000 * SEC, true, 7 * HOUR, 5000 * SEC},             /* goes on */
	    {HOUR, 500 * SEC, true, 0, 1000 * SEC + 1},                 /* its end came meanwhile */
	    {HOUR, 9000 * DAY, true, 0, 1000 * SEC + DAY},              /* never longer */
	    {HOUR, 5000 * SEC, false, 7 * HOUR, 1000 * SEC + 7 * HOUR}, /* the next boot goes on with what is left */
	    {HOUR, 5000 * SEC, false, 0, 1000 * SEC + DAY},             /* which nobody kept */
	    {HOUR, 5000 * SEC, false, 9000 * DAY, 1000 * SEC + DAY},    /* nor longer */
	    {25 * HOUR, 5000 * SEC, false, 7 * HOUR, 1000 * SEC + DAY}, /* off for too long again */
	    {25 * HOUR, 5000 * SEC, true, 7 * HOUR, 1000 * SEC + DAY},
	};
	const int64_t wall = INT64_C(1795248100) * SEC;
	clock_test_set(1000 * SEC, wall);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct clock_guard g;
		(void)clock_guard_start(&g, rows[i].seen ? wall - rows[i].seen : 0, rows[i].until, rows[i].same_boot,
					rows[i].left);
		assert_int_equal(g.until_ns, rows[i].waits);
	}
	clock_test_reset();
}

/* A machine that is on for eight hours a day, and was off for a week once. */
static void a_machine_that_is_booted_each_morning_comes_to_the_end(void **state)
{
	(void)state;
	int64_t wall = INT64_C(1795248100) * SEC, seen = wall - 7 * DAY;
	uint64_t until = 0, left = 0;
	for (int day = 1; day <= 4; day++) {
		struct clock_guard g;
		enum clock_guard_news news;
		int kept = 0;
		clock_test_set(60 * SEC, wall);
		news = clock_guard_start(&g, seen, until, false, left);
		assert_int_equal(news, day == 1 ? CLOCK_GUARD_JUMPED : CLOCK_GUARD_AS_BEFORE);
		assert_int_equal(clock_guard_waits(&g), day <= 3);
		for (int minute = 1; minute <= 8 * 60; minute++) {
			clock_test_set((uint64_t)(60 + minute * 60) * SEC, wall + minute * 60 * SEC);
			news = clock_guard_check(&g);
			kept += news == CLOCK_GUARD_KEEP;
			assert_int_equal(news == CLOCK_GUARD_OVER, day == 3 && minute == 8 * 60);
		}
		assert_int_equal(kept, day <= 2 ? 8 : day == 3 ? 7 : 0);
		seen = g.wall_ns;
		until = g.until_ns;
		left = clock_guard_left(&g);
		assert_int_equal(left, day <= 2 ? DAY - day * 8 * HOUR : 0);
		wall += DAY;
	}
	clock_test_reset();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(formats_utc),
	    cmocka_unit_test(parses_rfc3339),
	    cmocka_unit_test(refuses_what_is_no_time),
	    cmocka_unit_test(parses_and_formats_durations),
	    cmocka_unit_test(refuses_what_is_no_duration),
	    cmocka_unit_test(stands_still_for_tests),
	    cmocka_unit_test(ages_count_unless_the_clock_ran_ahead),
	    cmocka_unit_test(a_start_goes_on_with_what_was_kept),
	    cmocka_unit_test(a_machine_that_is_booted_each_morning_comes_to_the_end),
	};
	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
