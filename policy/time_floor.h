/*
 * time_floor.h - wall time that cannot be turned back.
 *
 * now = max(wall clock, floor + CLOCK_BOOTTIME since the floor was taken). The
 * floor is persisted by the monitor, each minute at least, so neither a reset
 * clock nor a restart brings an expired grant back to life. A value; no ownership.
 */
#ifndef POLICY_TIME_FLOOR_H
#define POLICY_TIME_FLOOR_H

#include <stdint.h>

struct time_floor {
	int64_t wall_ns;
	uint64_t boot_ns;
};

/* persisted_wall_ns: what the file said, 0 when there was none. */
void time_floor_init(struct time_floor *f, int64_t persisted_wall_ns, int64_t wall_ns, uint64_t boot_ns);
/* The time is at least wall_ns, by the word of somebody who is believed. */
void time_floor_raise(struct time_floor *f, int64_t wall_ns, uint64_t boot_ns);
int64_t time_floor_now(struct time_floor *f, int64_t wall_ns, uint64_t boot_ns);

#endif
