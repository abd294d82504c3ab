#include "policy/time_floor.h"

/* The floor carried forward by the time that passed since, which no clock setting can shorten. */
static int64_t carried(const struct time_floor *f, uint64_t boot_ns)
{
	uint64_t passed = boot_ns > f->boot_ns ? boot_ns - f->boot_ns : 0;

	if (passed > (uint64_t)(INT64_MAX - f->wall_ns))
		return INT64_MAX;
	return f->wall_ns + (int64_t)passed;
}

void time_floor_init(struct time_floor *f, int64_t persisted_wall_ns, int64_t wall_ns, uint64_t boot_ns)
{
	f->wall_ns = persisted_wall_ns > wall_ns ? persisted_wall_ns : wall_ns;
	if (f->wall_ns < 0)
		f->wall_ns = 0;
	f->boot_ns = boot_ns;
}

void time_floor_raise(struct time_floor *f, int64_t wall_ns, uint64_t boot_ns)
{
	(void)time_floor_now(f, wall_ns, boot_ns);
}

int64_t time_floor_now(struct time_floor *f, int64_t wall_ns, uint64_t boot_ns)
{
	int64_t floor_ns = carried(f, boot_ns);

	f->wall_ns = wall_ns > floor_ns ? wall_ns : floor_ns;
	if (boot_ns > f->boot_ns)
		f->boot_ns = boot_ns;
	return f->wall_ns;
}
