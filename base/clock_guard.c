#include "base/clock_guard.h"

static enum clock_guard_news wait_anew(struct clock_guard *g)
{
	g->until_ns = g->boot_ns + CLOCK_GUARD_WAIT_NS;
	return CLOCK_GUARD_JUMPED;
}

enum clock_guard_news clock_guard_start(struct clock_guard *g, int64_t seen_ns, uint64_t until_ns, bool same_boot)
{
	*g = (struct clock_guard){.boot_ns = clock_boot_ns(), .wall_ns = clock_wall_ns()};
	if (until_ns && same_boot)
		g->until_ns = until_ns;
	if ((!until_ns || same_boot) && (!seen_ns || g->wall_ns - seen_ns <= CLOCK_GUARD_AHEAD_NS))
		return CLOCK_GUARD_AS_BEFORE;
	return wait_anew(g);
}

enum clock_guard_news clock_guard_check(struct clock_guard *g)
{
	uint64_t boot = clock_boot_ns();
	int64_t wall = clock_wall_ns(), ahead = wall - g->wall_ns - (int64_t)(boot - g->boot_ns);

	g->boot_ns = boot;
	g->wall_ns = wall;
	if (ahead > CLOCK_GUARD_JUMP_NS)
		return wait_anew(g);
	if (!g->until_ns || boot < g->until_ns)
		return CLOCK_GUARD_AS_BEFORE;
	g->until_ns = 0;
	return CLOCK_GUARD_OVER;
}
