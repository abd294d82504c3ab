/*
 * A connection's place at the door (muxd/doors/admit.h): who is taken, and who is told that it is too many.
 *
 * SPOKE is a finished TLS handshake, IN a head with a valid grant. What comes over its share gets a handshake and a
 * few seconds for one head: with a valid grant and room it is in, else the answer is 429.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/sock.h"
#include "muxd/doors/https/conn.h"
#include "muxd/hub/hub.h"

#include <stdio.h>

#define OVER_NS      (5 * NS_PER_SEC)
#define PATIENCE     10 /* refused tokens of late; the answers of an address that had more wait */
#define OVER_MESSAGE "too many connections from this address (api.max_per_address, or listen.gateways for a gateway)"

static struct admit_rules rules(const struct rest_door *d)
{
	const struct conf *c = hub_conf(d->hub);

	return (struct admit_rules){.max = c->api_max_connections,
				    .per_address = c->api_max_per_address,
				    .rate = c->api_connect_rate,
				    .gateways = c->listen_gateways,
				    .gateway_max = c->api_max_per_gateway,
				    .tells = true};
}

struct conn *conn_enter(struct rest_door *d, int fd, const struct sockaddr *sa, struct conn **out_victim)
{
	const struct admit_rules r = rules(d);
	uint64_t now = clock_boot_ns();
	struct admit_place *place;
	void *victim = NULL;
	struct conn *c;
	char peer[64];

	*out_victim = NULL;
	if (admit_enter(d->admit, &r, sa, now, &place, &victim)) {
		if (admit_count(d->admit, ADMIT_IN) >= r.max)
			d->metrics.refused_total++;
		else
			d->metrics.refused_address++;
		return NULL;
	}
	*out_victim = victim;
	if (sock_name(fd, 1, peer, sizeof(peer)))
		snprintf(peer, sizeof(peer), "unknown");
	if (conn_create(d, place, peer, &c)) {
		admit_leave(place);
		return NULL;
	}
	admit_own(place, c);
	if (admit_state(place) == ADMIT_OVER && c->deadline_ns > now + OVER_NS)
		c->deadline_ns = now + OVER_NS;
	d->metrics.accepted++;
	return c;
}

int conn_let_in(struct conn *c, const struct grant *g, struct err *e)
{
	const struct admit_rules r = rules(c->door);
	bool staff = g->kind == GRANT_STAFF || g->kind == GRANT_AUDITOR;

	if (admit_in(c->place, &r, staff, clock_boot_ns())) {
		c->in_by = g->id;
		c->in_until = g->expires_ns;
		return 0;
	}
	c->door->metrics.refused_address++;
	return err_set(e, ERR_LIMIT, "%s", OVER_MESSAGE);
}

int conn_judge(struct conn *c, int rc, struct err *e)
{
	if (c->x->authenticated) {
		int full = conn_let_in(c, &c->x->rq.grant, e);

		return full ? full : rc;
	}
	if (admit_state(c->place) != ADMIT_OVER) {
		admit_spoke(c->place, clock_boot_ns());
		return rc;
	}
	c->door->metrics.refused_address++;
	return err_set(e, ERR_LIMIT, "%s", OVER_MESSAGE);
}

/* A connection that asks only what is open to everybody would never show that its grant has ended. */
void conn_check_in(struct conn *c)
{
	if (admit_state(c->place) == ADMIT_IN && !broker_grant_valid(c->door->hub, &c->in_by, c->in_until))
		admit_out(c->place, clock_boot_ns());
}

bool conn_failed(struct conn *c)
{
	uint64_t now = clock_boot_ns();

	admit_out(c->place, now);
	if (admit_failed(c->place, now) <= PATIENCE)
		return false;
	c->door->metrics.delayed++;
	return true;
}
