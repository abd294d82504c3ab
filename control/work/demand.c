#include "control/work/demand.h"

/* Slots that time has passed over are empty. */
static void move_to(struct demand *d, uint64_t now_ns)
{
	uint64_t now = now_ns / DEMAND_SLOT_NS;

	for (unsigned n = 0; d->slot < now && n < DEMAND_SLOTS; n++)
		d->asked[++d->slot % DEMAND_SLOTS] = 0;
	if (d->slot < now)
		d->slot = now;
}

void demand_note(struct demand *d, uint64_t now_ns)
{
	move_to(d, now_ns);
	if (d->asked[d->slot % DEMAND_SLOTS] < UINT32_MAX)
		d->asked[d->slot % DEMAND_SLOTS]++;
}

uint32_t demand_target(struct demand *d, uint64_t now_ns, uint32_t min, uint32_t max)
{
	uint32_t most = 0;

	move_to(d, now_ns);
	for (unsigned i = 0; i < DEMAND_SLOTS; i++)
		most = d->asked[i] > most ? d->asked[i] : most;
	most = most > max ? max : most;
	return most < min ? min : most;
}
