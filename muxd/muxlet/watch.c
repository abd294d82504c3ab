/*
 * What must not go on for ever: a hub that is silent, a muxlet in somebody else's container that nobody needs. And what
 * the kernel ended for want of memory.
 */
#include "muxd/muxlet/muxlet.h"

#include <stdio.h>

#define WATCH_NS  (15000 * MS_NS)
#define SILENT_NS (60000 * MS_NS)              /* the hub pings each 10 s */
#define KEEP_NS   (UINT64_C(86400000) * MS_NS) /* for what ended and was not fetched */

static unsigned long oom_count(void)
{
	/* A container's own group, version 2 or 1. In a local sandbox neither is seen: the monitor knows there. */
	static const char *const files[] = {"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"};
	unsigned long n = 0;
	char line[128];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		FILE *f = fopen(files[i], "re");

		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "oom_kill %lu", &n) == 1)
				break;
		if (f) {
			fclose(f);
			break;
		}
	}
	return n;
}

static bool is_alone(const struct muxlet *m)
{
	for (int i = 0; i < STREAMS_PENDING; i++)
		if (m->pending[i])
			return false;
	return !m->stream && m->living == 0;
}

static void watch_tick(struct timer *t)
{
	struct muxlet *m = container_of(t, struct muxlet, watch_timer);
	uint64_t now = m->loop.now_ns, limit = m->finished && m->leave_ns < KEEP_NS ? KEEP_NS : m->leave_ns;

	if (m->stream && now - m->stream->heard_ns > SILENT_NS) {
		muxlet_note(m, "the hub has been silent for a minute");
		m->stream->broken = true;
	}
	if (!is_alone(m))
		m->alone_ns = 0;
	else if (!m->alone_ns)
		m->alone_ns = now;
	else if (m->leave_ns && now - m->alone_ns >= limit)
		m->done = true;
	timer_arm(&m->loop, t, now + (m->leave_ns && m->leave_ns < WATCH_NS ? m->leave_ns : WATCH_NS));
}

void watch_open(struct muxlet *m)
{
	(void)watch_oom_count(m);
	m->watch_timer.fire = watch_tick;
	timer_arm(&m->loop, &m->watch_timer, monotonic_ns() + MS_NS);
}

uint64_t watch_oom_count(struct muxlet *m)
{
	kill_tally_heard(&m->oom, oom_count());
	return m->oom.count;
}

bool watch_out_of_memory(struct muxlet *m, uint64_t since)
{
	(void)watch_oom_count(m);
	return kill_tally_take(&m->oom, since);
}
