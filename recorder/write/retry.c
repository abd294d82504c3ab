#include "recorder/write/retry.h"

#include "base/backoff.h"
#include "base/clock.h"

#include <string.h>

#define FIRST_NS (1 * NS_PER_SEC)
#define MOST_NS  (16 * NS_PER_SEC)

void retry_failed(struct retry *r, uint64_t now, unsigned at_once)
{
	bool hurry = r->hurried < at_once;

	r->last_ns = now;
	r->soon_ns = hurry ? now : now + FIRST_NS;
	r->at_ns = hurry ? now : now + backoff(r->failures + 1, FIRST_NS, MOST_NS);
	r->hurried += hurry;
	r->failures += !hurry;
}

bool retry_due(const struct retry *r, uint64_t now, bool awaited)
{
	return now >= (awaited ? r->soon_ns : r->at_ns);
}

bool retry_worked(struct retry *r, uint64_t now, bool all_done)
{
	r->hurried = 0;
	if (!r->failures || (!all_done && now - r->last_ns < RETRY_STEADY_NS))
		return false;
	memset(r, 0, sizeof(*r));
	return true;
}
