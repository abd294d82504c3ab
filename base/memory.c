#include "base/memory.h"

#include "base/clock.h"

#include <malloc.h>

#define ENOUGH   16
#define QUIET_NS (5 * NS_PER_SEC)
#define LATE_NS  (60 * NS_PER_SEC)

void memory_went(struct memory_rest *m, uint64_t now_ns)
{
	if (!m->went++)
		m->since_ns = now_ns;
	m->last_ns = now_ns;
}

bool memory_due(struct memory_rest *m, uint64_t now_ns)
{
	if (m->went < ENOUGH || (now_ns - m->last_ns < QUIET_NS && now_ns - m->since_ns < LATE_NS))
		return false;
	m->went = 0;
	return true;
}

void memory_rest(struct memory_rest *m, uint64_t now_ns)
{
	if (memory_due(m, now_ns))
		(void)malloc_trim(0);
}
