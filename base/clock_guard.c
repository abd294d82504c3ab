#include "base/clock_guard.h"

static void wait_for(struct clock_guard *g, uint64_t left_ns)
{
	g->until_ns = g->boot_ns + left_ns;
	g->keep_ns = g->boot_ns + CLOCK_GUARD_KEEP_NS;
}

static enum clock_guard_news wait_anew(struct clock_guard *g)
{
	wait_for(g, CLOCK_GUARD_WAIT_NS);
	return CLOCK_GUARD_JUMPED;
}

enum clock_guard_news clock_guard_start(struct clock_guard *g, int64_t seen_ns, uint64_t until_ns, bool same_boot,
					uint64_t left_ns)
{
	*g = (struct clock_guard){.boot_ns = clock_boot_ns(), .wall_ns = clock_wall_ns()};
	if (seen_ns && g->wall_ns - seen_ns > CLOCK_GUARD_AHEAD_NS)
		return wait_anew(g);
	if (!until_ns)
		return CLOCK_GUARD_AS_BEFORE;
	if (same_boot)
		left_ns = until_ns > g->boot_ns ? until_ns - g->boot_ns : 1;
	if (!left_ns || left_ns > CLOCK_GUARD_WAIT_NS)
		return wait_anew(g);
	wait_for(g, left_ns);
	return CLOCK_GUARD_AS_BEFORE;
}

uint64_t clock_guard_left(const struct clock_guard *g)
{
	uint64_t boot = clock_boot_ns();

	if (!g->until_ns)
		return 0;
	return g->until_ns > boot ? g->until_ns - boot : 1;
}

enum clock_guard_news clock_guard_check(struct clock_guard *g)
{
	uint64_t boot = clock_boot_ns();
	int64_t wall = clock_wall_ns(), ahead = wall - g->wall_ns - (int64_t)(boot - g->boot_ns);

	g->boot_ns = boot;
	g->wall_ns = wall;
	if (ahead > CLOCK_GUARD_JUMP_NS)
		return wait_anew(g);
	if (!g->until_ns || boot < (g->until_ns < g->keep_ns ? g->until_ns : g->keep_ns))
		return CLOCK_GUARD_AS_BEFORE;
	if (boot < g->until_ns) {
		g->keep_ns = boot + CLOCK_GUARD_KEEP_NS;
		return CLOCK_GUARD_KEEP;
	}
	g->until_ns = 0;
	return CLOCK_GUARD_OVER;
}
