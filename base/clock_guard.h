/*
 * clock_guard.h - whether ages by the wall clock may remove anything. A clock that is wrong would remove everything at
 * once, and the right time brings nothing back: so one that ran ahead of the uptime is not believed for 24 hours of
 * uptime, in which somebody can set it right. Pure but for the two clocks; a value.
 *
 * Whoever removes by age asks: recordings and the whole output of rounds (recorder), artifacts, snapshots, ended leases
 * and runs (muxd/hub/core/removals.h). What the owner keeps over a restart is the newest time that was seen, the end of
 *the wait, and how much uptime is left of it, which another boot goes on with: a machine that is booted each morning
 *comes to the end as well.
 *
 *	believed -> waits (jumped) -> believed (24 h of uptime later)
 */
#ifndef BASE_CLOCK_GUARD_H
#define BASE_CLOCK_GUARD_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_GUARD_JUMP_NS  ((int64_t)(3600 * NS_PER_SEC))      /* while it runs: wall against uptime */
#define CLOCK_GUARD_AHEAD_NS ((int64_t)(24 * 3600 * NS_PER_SEC)) /* at the start: wall against what was seen last */
#define CLOCK_GUARD_WAIT_NS  (24 * 3600 * NS_PER_SEC)
#define CLOCK_GUARD_KEEP_NS  (3600 * NS_PER_SEC)

struct clock_guard {
	uint64_t boot_ns; /* both clocks when they were looked at last */
	int64_t wall_ns;
	uint64_t until_ns; /* uptime until which nothing is removed; 0: no wait */
	uint64_t keep_ns;  /* uptime at which the owner keeps again what is left of it */
};

/* KEEP: of a wait that goes on an hour has passed, and the owner keeps what is left. */
enum clock_guard_news { CLOCK_GUARD_AS_BEFORE, CLOCK_GUARD_KEEP, CLOCK_GUARD_JUMPED, CLOCK_GUARD_OVER };

/*
 * seen_ns: the newest wall clock of before, 0: nothing was seen. until_ns: of a wait of before, 0: none; same_boot: of
 * this boot. Else it goes on for left_ns (0: nobody kept it, or more than 24 h: for all of them). CLOCK_GUARD_JUMPED: a
 * wait begins now; one that the machine was off in for too long begins anew.
 */
enum clock_guard_news clock_guard_start(struct clock_guard *g, int64_t seen_ns, uint64_t until_ns, bool same_boot,
					uint64_t left_ns);
/* Before each removal. */
enum clock_guard_news clock_guard_check(struct clock_guard *g);
static inline bool clock_guard_waits(const struct clock_guard *g)
{
	return g->until_ns != 0;
}
uint64_t clock_guard_left(const struct clock_guard *g); /* ns of uptime, at least 1 while it waits; 0: it does not */

#endif
