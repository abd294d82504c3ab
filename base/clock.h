/*
 * clock.h - the two clocks of muxd.
 *
 * Order and durations come from CLOCK_BOOTTIME together with the boot id; wall
 * time is for people and for grants. Tests replace both (clock_test_set); the
 * product never does.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define CLOCK_BOOT_ID_LEN 37 /* 36 characters and NUL */
#define NS_PER_SEC        UINT64_C(1000000000)
#define NS_PER_MS         UINT64_C(1000000)

uint64_t clock_boot_ns(void);
/*
 * From now to the next multiple of period_ns (> 0) on CLOCK_MONOTONIC, the clock of libuv's loops: 1 to period_ns. What
 * looks around at rest waits so long, and all threads of the daemon wake a machine together and not each for itself
 * (base/tick.h does the same for timers).
 */
uint64_t clock_to_tick_ns(uint64_t period_ns);
int64_t clock_wall_ns(void); /* since 1970-01-01T00:00:00Z */
/* Kernel's random boot id, read once. */
const char *clock_boot_id(void);
/* "2026-11-21T08:01:40.123Z" into out (at least 32 bytes). */
void clock_format_utc(int64_t wall_ns, char *out, size_t size);
/* RFC 3339 in, ERR_INVAL when it is not. */
int clock_parse_utc(const char *s, int64_t *out_wall_ns);
/* "15m", "90s", "1h30m", "250ms", "2d"; ERR_INVAL otherwise or over 10 years. */
int clock_parse_duration(const char *s, uint64_t *out_ns);
void clock_format_duration(uint64_t ns, char *out, size_t size);
/* Tests only: both clocks stand still at these values until clock_test_reset(). */
void clock_test_set(uint64_t boot_ns, int64_t wall_ns);
void clock_test_reset(void);

#endif
