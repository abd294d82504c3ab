#include "base/backoff.h"

#include "base/ids.h"

static uint64_t upto(uint64_t n)
{
	uint64_t r = 0;

	/* without randomness everybody comes at once: worse, not wrong */
	(void)random_bytes(&r, sizeof(r));
	return n ? r % (n + 1) : 0;
}

uint64_t backoff_after(uint64_t last, uint64_t first, uint64_t most)
{
	uint64_t next = last ? last * 2 : first;

	return next < most ? next : most;
}

uint64_t backoff(unsigned failures, uint64_t first, uint64_t most)
{
	uint64_t wait = backoff_after(0, first, most);

	while (failures-- > 1 && wait < most)
		wait = backoff_after(wait, first, most);
	return wait;
}

uint64_t backoff_spread(unsigned failures, uint64_t first, uint64_t most)
{
	uint64_t wait = backoff(failures, first, most);

	return wait / 2 + upto(wait - wait / 2);
}

uint64_t backoff_jitter(uint64_t base)
{
	return base + upto(base / 4);
}
