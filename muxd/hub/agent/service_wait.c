/* Connections that wait for a service's port. */
#define LOG_SUBSYS "service"
#include "muxd/hub/agent/service_wait.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/agent/service_state.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"

#include <stdlib.h>
#include <string.h>

static const struct service *by_port(const struct hub *h, const char *agent, uint16_t port)
{
	const struct service *x;

	TAILQ_FOREACH(x, &hub_services(h)->all, entry)
	if (!x->dropped && x->def.port == port && strcmp(x->agent, agent) == 0)
		return x;
	return NULL;
}

static int held(const struct service *x, struct err *e)
{
	return err_set(e, ERR_SERVICE, "service %s of %.100s, which listens on port %d, is held: %s", x->name, x->agent,
		       (int)x->def.port, x->why);
}

static int crowded(const struct service *x, struct err *e)
{
	return err_set(e, ERR_SERVICE,
		       "service %s of %.100s, which listens on port %d, is %s, and %d requests wait for services of "
		       "this agent already: try again when it is healthy",
		       x->name, x->agent, (int)x->def.port, service_state_name(x->state), SERVICE_WAITERS_MAX);
}

/* 0: who wants its port may go on; SERVICE_WAITS; or why it is in vain. */
static int service_verdict(const struct hub *h, const struct agent *a, uint16_t port, struct err *e)
{
	const struct service *x = by_port(h, a->name, port);

	if (!x || x->state == SERVICE_HEALTHY || x->state == SERVICE_DONE || a->state != AGENT_UP || a->stopping ||
	    a->info.backend == SANDBOX_PLAIN)
		return 0;
	return x->state == SERVICE_HELD ? held(x, e) : SERVICE_WAITS;
}

int service_wait(struct agent *a, uint16_t port, agent_ready_fn *fn, void *arg, struct err *e)
{
	struct hub *h = a->hub;
	int rc = service_verdict(h, a, port, e);
	struct service_waiter *w;

	if (rc != SERVICE_WAITS)
		return rc;
	if (service_waiting(h, a->name) >= SERVICE_WAITERS_MAX)
		return crowded(by_port(h, a->name, port), e);
	w = malloc(sizeof(*w));
	if (!w)
		return err_set(e, ERR_NOMEM, "no memory");
	*w = (struct service_waiter){.port = port,
				     .until_ns = clock_boot_ns() +
						 (uint64_t)by_port(h, a->name, port)->def.start_timeout_ms * NS_PER_MS,
				     .fn = fn,
				     .arg = arg};
	text_put(w->agent, sizeof(w->agent), a->name);
	w->number = ++hub_services(h)->waited;
	TAILQ_INSERT_TAIL(&hub_services(h)->waiters, w, entry);
	hub_stir(h);
	return SERVICE_WAITS;
}

unsigned service_waiting(const struct hub *h, const char *agent)
{
	const struct service_waiter *w;
	unsigned n = 0;

	TAILQ_FOREACH(w, &hub_services(h)->waiters, entry)
	n += strcmp(w->agent, agent) == 0;
	return n;
}

static int late(const struct hub *h, const struct service_waiter *w, struct err *e)
{
	const struct service *x = by_port(h, w->agent, w->port);

	return x ? err_set(e, ERR_SERVICE, "service %s of %.100s was waited for in vain: it is %s%s%s", x->name,
			   x->agent, service_state_name(x->state), x->why[0] ? ": " : "", x->why)
		 : 0;
}

static int look(struct hub *h, const struct service_waiter *w, uint64_t now, struct err *e)
{
	const struct agent *a = agent_find(h, w->agent);
	int rc = a ? service_verdict(h, a, w->port, e) : 0;

	return rc == SERVICE_WAITS && now >= w->until_ns ? late(h, w, e) : rc;
}

/*
 * A waiter that is told may begin or end anything, and others may come: each of those that are here at the beginning is
 * looked at once, and whoever goes on waiting stands behind the others, in the order of before.
 */
void service_wait_look(struct hub *h, uint64_t now)
{
	struct service_waiters *all = &hub_services(h)->waiters;
	struct service_waiter *w;
	uint64_t last = hub_services(h)->waited;

	while ((w = TAILQ_FIRST(all)) && w->number <= last) {
		struct err e = {0};
		int rc = look(h, w, now, &e);

		TAILQ_REMOVE(all, w, entry);
		if (rc == SERVICE_WAITS) {
			w->number = ++hub_services(h)->waited;
			TAILQ_INSERT_TAIL(all, w, entry);
			continue;
		}
		w->fn(w->arg, rc, rc ? &e : NULL);
		free(w);
	}
}

void service_wait_end(struct hub *h)
{
	struct service_waiter *w;
	struct err e = {0};

	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	while ((w = TAILQ_FIRST(&hub_services(h)->waiters))) {
		TAILQ_REMOVE(&hub_services(h)->waiters, w, entry);
		w->fn(w->arg, e.code, &e);
		free(w);
	}
}

json_t *service_ports(struct hub *h, const char *agent)
{
	const struct service *x;
	json_t *list = NULL;

	TAILQ_FOREACH(x, &hub_services(h)->all, entry)
	if (!x->dropped && x->def.port && strcmp(x->agent, agent) == 0 && (list || (list = json_array())))
		json_array_append_new(list, json_pack("{s:i,s:s,s:s}", "port", (int)x->def.port, "service", x->name,
						      "state", service_state_name(x->state)));
	return list;
}
