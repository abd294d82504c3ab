/*
 * kill_tally.h - which kills for want of memory ended a program that somebody knows.
 *
 * The kernel counts the kills of a group and does not say whom each one ended: a child whose parent goes on, or the
 * program itself. Kills have numbers, from 1 on. A program that ended by KILL takes the first that came since it began
 * and that nobody has taken; where there is none, somebody else sent its KILL. A value without ownership; the newest
 * KILLS_KNOWN are told apart, older ones count as taken.
 */
#ifndef MUXD_LINK_KILL_TALLY_H
#define MUXD_LINK_KILL_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#define KILLS_KNOWN 64u

struct kill_tally {
	uint64_t count; /* as the kernel said it last; what begins now has it as its base */
	uint64_t taken; /* a bit for each of the newest */
};

static inline void kill_tally_heard(struct kill_tally *t, uint64_t count)
{
	if (count > t->count && count - t->count > KILLS_KNOWN)
		t->count = count - KILLS_KNOWN;
	while (t->count < count)
		t->taken &= ~(UINT64_C(1) << (++t->count % KILLS_KNOWN));
}

/* base: the count when the program began. */
static inline bool kill_tally_take(struct kill_tally *t, uint64_t base)
{
	uint64_t n = t->count > KILLS_KNOWN && base < t->count - KILLS_KNOWN ? t->count - KILLS_KNOWN : base;

	while (n < t->count) {
		uint64_t bit = UINT64_C(1) << (++n % KILLS_KNOWN);

		if (!(t->taken & bit)) {
			t->taken |= bit;
			return true;
		}
	}
	return false;
}

#endif
