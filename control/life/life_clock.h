/*
 * life_clock.h - lifecycle's clock: wall time that only ever goes forward, one second a second.
 *
 * Within a run it follows CLOCK_BOOTTIME alone, so that setting the wall clock moves no timer. Over a
 * restart it goes on from what was kept: by CLOCK_BOOTTIME in the same boot, else by the
 * wall clock where that is ahead. A value; nanoseconds since 1970.
 */
#ifndef CONTROL_LIFE_LIFE_CLOCK_H
#define CONTROL_LIFE_LIFE_CLOCK_H

#include <stdint.h>

struct life_clock {
	int64_t life_ns;
	uint64_t boot_ns; /* when it was that */
};

/* kept_*: what was kept last; kept_life 0: nothing. */
void life_clock_begin(struct life_clock *c, int64_t kept_life, uint64_t kept_boot, const char *kept_boot_id);
int64_t life_clock_now(const struct life_clock *c);
/* The boot clock's moment on this clock's scale. */
int64_t life_clock_of_boot(const struct life_clock *c, uint64_t boot_ns);
/* For people: a moment of this clock as the wall clock would show it. */
int64_t life_clock_wall(const struct life_clock *c, int64_t life_ns);

#endif
