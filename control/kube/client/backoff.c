#include "control/kube/client/backoff.h"

#include "base/ids.h"

static uint64_t upto(uint64_t n)
{
	uint64_t r = 0;

	/* without randomness everybody comes at once: worse, not wrong */
	(void)random_bytes(&r, sizeof(r));
	return n ? r % (n + 1) : 0;
}

uint64_t kube_backoff_ms(unsigned failures, uint64_t min_ms, uint64_t max_ms)
{
	uint64_t ms = min_ms;

	while (failures-- > 1 && ms < max_ms)
		ms *= 2;
	if (ms > max_ms)
		ms = max_ms;
	return ms / 2 + upto(ms - ms / 2);
}

uint64_t kube_jitter(uint64_t base)
{
	return base + upto(base / 4);
}
