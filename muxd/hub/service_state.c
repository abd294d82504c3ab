/* The states of a service, and which may follow which. */
#include "muxd/hub/service_state.h"

#define TO(s) (1u << SERVICE_##s)
#define ENDS  (TO(ENDING) | TO(BACKING_OFF) | TO(HELD) | TO(DONE) | TO(ABSENT))
static const struct {
	const char *name;
	unsigned to;
} rows[SERVICE_STATES] = {
    [SERVICE_ABSENT] = {"absent", TO(STARTING) | TO(WARMING) | TO(HELD)},
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

bool service_state_leads(enum service_state from, enum service_state to)
{
	return rows[from].to & 1u << to;
}
