/*
 * demand.h - how many sandboxes the pool keeps ready: the most leases that were asked for within ten
 * seconds, of the last ten minutes, and not less than pool.size nor more than pool.max.
 *
 * A burst is what a pool is for; ten seconds are about what it takes to make the next ones.
 * Values, no clock of its own.
 */
#ifndef CONTROL_WORK_DEMAND_H
#define CONTROL_WORK_DEMAND_H

#include <stdint.h>

#define DEMAND_SLOT_NS UINT64_C(10000000000)
#define DEMAND_SLOTS   60

struct demand {
	uint64_t slot; /* number of the newest one */
	uint32_t asked[DEMAND_SLOTS];
};

void demand_note(struct demand *d, uint64_t now_ns); /* one more was asked for */
uint32_t demand_target(struct demand *d, uint64_t now_ns, uint32_t min, uint32_t max);

#endif
