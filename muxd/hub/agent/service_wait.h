/*
 * service_wait.h - a connection to the port of a service that is not healthy waits for it, for as long as the service's
 * start_timeout_ms at the most; so a request that wakes a sandbox is answered by the server that it woke.
 *
 * A waiter is told once: 0, also where the service is no more or its sandbox went, as whoever waits looks again;
 * ERR_SERVICE with the service's name and why; ERR_CANCELLED: the hub goes.
 */
#ifndef MUXD_HUB_AGENT_SERVICE_WAIT_H
#define MUXD_HUB_AGENT_SERVICE_WAIT_H

#include "muxd/hub/agent/agent.h"

struct service_waiter {
	TAILQ_ENTRY(service_waiter) entry;
	char agent[AGENT_NAME_MAX + 1];
	uint16_t port;
	uint64_t until_ns; /* boot */
	uint64_t number;   /* by it a walk knows those that came while it went */
	agent_ready_fn *fn;
	void *arg;
};

#define SERVICE_WAITS       1
#define SERVICE_WAITERS_MAX 64 /* of an agent */
/* 0: nothing is to be waited for. SERVICE_WAITS: fn is called. ERR_SERVICE: it is held, or too many wait; ERR_NOMEM. */
int service_wait(struct agent *a, uint16_t port, agent_ready_fn *fn, void *arg, struct err *e);
unsigned service_waiting(const struct hub *h, const char *agent); /* they hold its sandbox awake */
/* [{port, service, state}] of an agent's services that listen; NULL: there is none in memory, or no memory. */
json_t *service_ports(struct hub *h, const char *agent);
/* A service has changed, or time went by. */
void service_wait_look(struct hub *h, uint64_t now);
void service_wait_end(struct hub *h); /* the hub goes */

#endif
