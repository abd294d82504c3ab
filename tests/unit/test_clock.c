// tier: check
#include "base/clock.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(formats_utc),
	    cmocka_unit_test(parses_rfc3339),
	    cmocka_unit_test(refuses_what_is_no_time),
	    cmocka_unit_test(parses_and_formats_durations),
	    cmocka_unit_test(refuses_what_is_no_duration),
	    cmocka_unit_test(stands_still_for_tests),
	};
	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
