#include "control/life/life_clock.h"

#include "base/clock.h"

#include <string.h>

void life_clock_begin(struct life_clock *c, int64_t kept_life, uint64_t kept_boot, const char *kept_boot_id)
{
	int64_t wall = clock_wall_ns();

	c->boot_ns = clock_boot_ns();
	if (kept_life && strcmp(kept_boot_id, clock_boot_id()) == 0 && c->boot_ns >= kept_boot)
		c->life_ns = kept_life + (int64_t)(c->boot_ns - kept_boot);
	else
		c->life_ns = wall > kept_life ? wall : kept_life;
}

int64_t life_clock_of_boot(const struct life_clock *c, uint64_t boot_ns)
{
	return c->life_ns + (int64_t)(boot_ns - c->boot_ns);
}

int64_t life_clock_now(const struct life_clock *c)
{
	return life_clock_of_boot(c, clock_boot_ns());
}

int64_t life_clock_wall(const struct life_clock *c, int64_t life_ns)
{
	return clock_wall_ns() + (life_ns - life_clock_now(c));
}
