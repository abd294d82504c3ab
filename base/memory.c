#include "base/memory.h"

#include "base/clock.h"

#include <malloc.h>

#define ENOUGH   16
#define QUIET_NS (2 * NS_PER_SEC)
#define LATE_NS  (60 * NS_PER_SEC)

void memory_moved(struct memory_rest *m, uint64_t now_ns)
{
	if (!m->moved++)
		m->since_ns = now_ns;
	m->last_ns = now_ns;
}

bool memory_due(struct memory_rest *m, uint64_t now_ns)
{
	if (m->moved < ENOUGH || (now_ns - m->last_ns < QUIET_NS && now_ns - m->since_ns < LATE_NS))
		return false;
	m->moved = 0;
	return true;
}

void memory_give(void)
{
	(void)malloc_trim(0);
}
