/* The states of a service, and which may follow which. */
#include "muxd/hub/agent/service_state.h"

#include "base/clock.h"

#define TO(s) (1u << SERVICE_##s)
#define ENDS  (TO(ENDING) | TO(BACKING_OFF) | TO(HELD) | TO(DONE) | TO(ABSENT))
static const struct {
	const char *name;
	unsigned to;
} rows[SERVICE_STATES] = {
    [SERVICE_ABSENT] = {"absent", TO(STARTING) | TO(WARMING) | TO(UNHEALTHY) | TO(BACKING_OFF) | TO(HELD) | TO(DONE)},
    [SERVICE_STARTING] = {"starting", TO(WARMING) | ENDS},
    [SERVICE_WARMING] = {"warming", TO(HEALTHY) | ENDS},
    [SERVICE_HEALTHY] = {"healthy", TO(UNHEALTHY) | ENDS},
    [SERVICE_UNHEALTHY] = {"unhealthy", TO(HEALTHY) | ENDS},
    [SERVICE_BACKING_OFF] = {"backing_off", TO(ABSENT)},
    [SERVICE_HELD] = {"held", TO(ABSENT)},
    [SERVICE_DONE] = {"done", TO(ABSENT)},
    [SERVICE_ENDING] = {"ending", TO(BACKING_OFF) | TO(HELD) | TO(ABSENT)},
};

const char *service_state_name(enum service_state s)
{
	return rows[s].name;
}

#define NEWS_NS   (60 * NS_PER_SEC)
#define NEWS_MOST 6

bool service_news_take(struct service_news *n, uint64_t now)
{
	if (now >= n->until_ns)
		*n = (struct service_news){.until_ns = now + NEWS_NS, .untold = n->untold};
	if (n->told >= NEWS_MOST) {
		n->untold++;
		return false;
	}
	n->told++;
	return true;
}

bool service_news_rest(struct service_news *n, uint64_t now)
{
	if (!n->untold || now < n->until_ns)
		return false;
	n->untold--; /* the one that is told now */
	return service_news_take(n, now);
}

bool service_had_its_time(uint64_t begun_ns, const struct service_def *d, uint64_t now)
{
	return now - begun_ns >= (uint64_t)d->start_timeout_ms * NS_PER_MS;
}

bool service_state_leads(enum service_state from, enum service_state to)
{
	return rows[from].to & 1u << to;
}
