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
#include "muxd/hub/core/hub.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define OVER_NS      (5 * NS_PER_SEC)
#define PATIENCE     10 /* refused tokens of late; the answers of an address that had more wait */
#define OVER_MESSAGE "too many connections from this address (api.max_per_address, or listen.gateways for a gateway)"

static struct admit_rules rules(const struct rest_listener *l)
{
	const struct conf *c = hub_conf(l->door->hub);

	return (struct admit_rules){.max = c->api_max_connections,
				    .per_address = c->api_max_per_address,
				    .rate = c->api_connect_rate,
				    .gateways = c->listen_gateways,
				    .gateway_max = c->api_max_per_gateway,
				    .tells = true};
}

/*
 * A uid counts as an address of its own: it stands in a prefix that no network has (RFC 6666), where a table of
 * addresses tells uids apart.
 */
static struct sockaddr_in6 address_of_uid(uid_t uid)
{
	struct sockaddr_in6 sa = {.sin6_family = AF_INET6};

	sa.sin6_addr.s6_addr[0] = 1;
	for (int i = 0; i < 4; i++)
		sa.sin6_addr.s6_addr[4 + i] = (uint8_t)(uid >> (24 - 8 * i));
	return sa;
}

/* Who is at the other end, as the log and the record name it, and as its connections are counted. */
static int who_comes(const struct rest_listener *l, int fd, const struct sockaddr *sa, struct sockaddr_storage *out,
		     char *peer, size_t size)
{
	uid_t uid;
	gid_t gid;
	pid_t pid;

	if (!l->local) {
		memcpy(out, sa, sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
		if (sock_name(fd, 1, peer, size))
			snprintf(peer, size, "unknown");
		return 0;
	}
	if (sock_peer_cred(fd, &pid, &uid, &gid))
		return ERR_SYS;
	snprintf(peer, size, "uid %u:%llu", (unsigned)uid, (unsigned long long)l->door->metrics.accepted + 1);
	*(struct sockaddr_in6 *)out = address_of_uid(uid);
	return 0;
}

struct conn *conn_enter(struct rest_listener *l, int fd, const struct sockaddr *sa, struct conn **out_victim)
{
	const struct admit_rules r = rules(l);
	struct rest_door *d = l->door;
	struct sockaddr_storage from = {0};
	uint64_t now = clock_boot_ns();
	struct admit_place *place;
	void *victim = NULL;
	struct conn *c;
	char peer[64];

	*out_victim = NULL;
	if (who_comes(l, fd, sa, &from, peer, sizeof(peer)))
		return NULL;
	if (admit_enter(l->admit, &r, (struct sockaddr *)&from, now, &place, &victim)) {
		if (admit_count(l->admit, ADMIT_IN) >= r.max)
			d->metrics.refused_total++;
		else
			d->metrics.refused_address++;
		return NULL;
	}
	*out_victim = victim;
	if (conn_create(l, place, peer, &c)) {
		admit_leave(place);
		return NULL;
	}
	admit_own(place, c);
	if (admit_state(place) == ADMIT_OVER && c->deadline_ns > now + OVER_NS)
		c->deadline_ns = now + OVER_NS;
	d->metrics.accepted++;
	return c;
}

static int over_refuse(const struct conn *c, struct err *e)
{
	const struct admit_rules r = rules(c->listener);

	return err_limit(e, ERR_LIMIT, &(struct err_share){"api.max_per_address", "address", r.per_address, 0, 1}, "%s",
			 OVER_MESSAGE);
}

int conn_let_in(struct conn *c, const struct grant *g, struct err *e)
{
	const struct admit_rules r = rules(c->listener);
	bool staff = g->kind == GRANT_STAFF || g->kind == GRANT_AUDITOR;

	if (admit_in(c->place, &r, staff, clock_boot_ns())) {
		c->in_by = grant_line(g);
		return 0;
	}
	c->door->metrics.refused_address++;
	return over_refuse(c, e);
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
	return over_refuse(c, e);
}

/* A connection that asks only what is open to everybody would never show that its grant has ended. */
void conn_check_in(struct conn *c)
{
	if (admit_state(c->place) == ADMIT_IN && broker_grant_check(c->door->hub, &c->in_by, NULL))
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
