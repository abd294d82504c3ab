/* All that the hub has of grants beyond their tokens: whose count, what became of them, until when renewals hold, by
 * which token they ask the record, and the clock that ends them. */
#include "muxd/hub/core/grant_news.h"
#include "base/clock.h"
#include "base/err.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/core/request.h"
#include "policy/grant_known.h"
#include "policy/grant_shared.h"
#include "policy/id_times.h"
#include "policy/time_floor.h"

#include <stdlib.h>
#include <string.h>

struct renewed_token {
	struct renewed_token *next;
	struct id first;
	int64_t until_ns;
	size_t len;
	char text[];
};

struct hub_grants {
	struct grant_public_key *keys;
	struct grant_keyset keyset; /* of these */
	struct grants_known known;
	struct grants_shared shared;
	struct id_times *revoked, *renewed;   /* grants (policy/grant_kin.h) */
	struct renewed_token *renewed_tokens; /* since the start: what goes on asks with them */
	int64_t edge_heard_ns;                /* of an edge: grants_keep_edge() */
	struct time_floor floor;
};

static void renewed_tokens_forget(struct hub_grants *g, int64_t now)
{
	struct renewed_token **at = &g->renewed_tokens, *t;

	while ((t = *at)) {
		if (t->until_ns > now) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		explicit_bzero(t->text, t->len);
		free(t);
	}
}

int hub_grants_create(int64_t floor_ns, struct hub_grants **out)
{
	struct hub_grants *g = calloc(1, sizeof(*g));

	if (!g || id_times_create(&g->revoked) || id_times_create(&g->renewed)) {
		hub_grants_destroy(g);
		return ERR_NOMEM;
	}
	time_floor_init(&g->floor, floor_ns, clock_wall_ns(), clock_boot_ns());
	*out = g;
	return 0;
}

void hub_grants_destroy(struct hub_grants *g)
{
	if (!g)
		return;
	id_times_destroy(g->revoked);
	id_times_destroy(g->renewed);
	renewed_tokens_forget(g, INT64_MAX);
	grants_known_finish(&g->known);
	free(g->keys);
	free(g);
}

struct grant_trust hub_trust(const struct hub *h)
{
	bool edge = hub_params(h)->centre[0];

	return (struct grant_trust){.keys = &hub_grants(h)->keyset,
				    .issuer = edge ? hub_params(h)->centre : hub_params(h)->instance,
				    .edge = edge ? hub_params(h)->instance : NULL,
				    .lease_max_ns = (int64_t)hub_conf(h)->edge_lease_max_ns};
}

int64_t hub_known_until(const struct hub *h)
{
	int64_t heard = hub_grants(h)->edge_heard_ns;

	if (!hub_params(h)->centre[0])
		return 0;
	return heard ? heard + (int64_t)hub_conf(h)->edge_state_max_ns : 1;
}

struct grant_news hub_grant_news(const struct hub *h)
{
	const struct hub_grants *g = hub_grants(h);

	return (struct grant_news){.revoked = g->revoked,
				   .renewed = g->renewed,
				   .known_until_ns = hub_known_until(h),
				   .keys = g->keyset.n ? &g->keyset : NULL};
}

int64_t hub_grant_ends(const struct hub *h, const struct grant_line *l)
{
	struct grant_news news = hub_grant_news(h);

	return grant_line_ends(l, &news);
}

const char *hub_grant_token(const struct hub *h, const struct request *rq)
{
	struct grant_line l = grant_line(&rq->grant);

	/* One that presented none, of the hub's own making, presents none. */
	for (const struct renewed_token *t = rq->token[0] ? hub_grants(h)->renewed_tokens : NULL; t; t = t->next)
		if (id_equal(&t->first, grant_line_first(&l)))
			return t->text;
	return rq->token;
}

static int renewed_token_keep(struct hub_grants *g, const struct hub_renewal *r)
{
	size_t len = strlen(r->token);
	struct renewed_token *t = malloc(sizeof(*t) + len + 1);

	if (!t)
		return ERR_NOMEM;
	*t =
	    (struct renewed_token){.next = g->renewed_tokens, .first = r->first, .until_ns = r->expires_ns, .len = len};
	memcpy(t->text, r->token, len + 1);
	g->renewed_tokens = t; /* ahead of the one before */
	return 0;
}

/* ---- what comes in */

int grants_keep_keys(struct hub *h, const struct grant_public_key *keys, size_t n)
{
	struct grant_public_key *copy = malloc((n ? n : 1) * sizeof(*copy));
	struct hub_grants *g = hub_grants(h);

	if (!copy)
		return ERR_NOMEM;
	memcpy(copy, keys, n * sizeof(*copy));
	free(g->keys);
	g->keys = copy;
	g->keyset = (struct grant_keyset){.keys = copy, .n = n};
	return 0;
}

void grants_keep_edge(struct hub *h, int64_t at_ns)
{
	struct hub_grants *g = hub_grants(h);

	g->edge_heard_ns = at_ns;
	time_floor_raise(&g->floor, at_ns, clock_boot_ns());
}

int grants_keep_revoked(struct hub *h, const struct id *grant, int64_t expires_ns)
{
	return id_times_add(hub_grants(h)->revoked, grant, expires_ns);
}

int grants_keep_renewed(struct hub *h, const struct hub_renewal *r)
{
	struct hub_grants *g = hub_grants(h);
	int rc = id_times_add(g->renewed, &r->first, r->expires_ns);

	return rc == 0 && r->token ? renewed_token_keep(g, r) : rc;
}

void hub_grants_expire(struct hub *h, int64_t now)
{
	struct hub_grants *g = hub_grants(h);

	id_times_expire(g->revoked, now);
	id_times_expire(g->renewed, now);
	renewed_tokens_forget(g, now);
}

/* ---- what they are asked for */

int64_t hub_now_wall(struct hub *h)
{
	return time_floor_now(&hub_grants(h)->floor, clock_wall_ns(), clock_boot_ns());
}

int hub_grant_verify(struct hub *h, const char *token, size_t len, const struct grant_trust *t, int64_t now,
		     struct grant *out, struct err *e)
{
	return grants_known_verify(&hub_grants(h)->known, token, len, t, now, out, e);
}

const struct grant *hub_grant_share(struct hub *h, const struct grant *g)
{
	return grant_share(&hub_grants(h)->shared, g);
}

void hub_grant_unshare(struct hub *h, const struct grant *g)
{
	grant_unshare(&hub_grants(h)->shared, g);
}
