/* News of grants that the hub has beyond their tokens: until when renewals hold, and by which token they ask the
 * record.
 */
#include "muxd/hub/core/grant_news.h"
#include "base/err.h"
#include "muxd/hub/core/hub_state.h"
#include "muxd/hub/core/request.h"

#include <stdlib.h>
#include <string.h>

struct grant_trust hub_trust(const struct hub *h)
{
	bool edge = hub_params(h)->centre[0];

	return (struct grant_trust){.keys = &h->keyset,
				    .issuer = edge ? hub_params(h)->centre : hub_params(h)->instance,
				    .edge = edge ? hub_params(h)->instance : NULL,
				    .lease_max_ns = (int64_t)hub_conf(h)->edge_lease_max_ns};
}

int64_t hub_known_until(const struct hub *h)
{
	if (!hub_params(h)->centre[0])
		return 0;
	return h->edge_heard_ns ? h->edge_heard_ns + (int64_t)hub_conf(h)->edge_state_max_ns : 1;
}

struct grant_news hub_grant_news(const struct hub *h)
{
	return (struct grant_news){.revoked = h->revoked,
				   .renewed = h->renewed,
				   .known_until_ns = hub_known_until(h),
				   .keys = h->keyset.n ? &h->keyset : NULL};
}

int64_t hub_grant_ends(const struct hub *h, const struct grant_line *l)
{
	struct grant_news news = hub_grant_news(h);

	return grant_line_ends(l, &news);
}

struct renewed_token {
	struct renewed_token *next;
	struct id first;
	int64_t until_ns;
	size_t len;
	char text[];
};

void grants_forget_tokens(struct hub *h, int64_t now)
{
	struct renewed_token **at = &h->renewed_tokens, *t;

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

const char *hub_grant_token(const struct hub *h, const struct request *rq)
{
	struct grant_line l = grant_line(&rq->grant);

	/* One that presented none, of the hub's own making, presents none. */
	for (const struct renewed_token *t = rq->token[0] ? h->renewed_tokens : NULL; t; t = t->next)
		if (id_equal(&t->first, grant_line_first(&l)))
			return t->text;
	return rq->token;
}

int grants_keep_token(struct hub *h, const struct hub_renewal *r)
{
	size_t len = strlen(r->token);
	struct renewed_token *t = malloc(sizeof(*t) + len + 1);

	if (!t)
		return ERR_NOMEM;
	*t =
	    (struct renewed_token){.next = h->renewed_tokens, .first = r->first, .until_ns = r->expires_ns, .len = len};
	memcpy(t->text, r->token, len + 1);
	h->renewed_tokens = t; /* ahead of the one before */
	return 0;
}
