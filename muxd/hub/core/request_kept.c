#include "muxd/hub/core/request_kept.h"

#include "muxd/hub/core/grant_news.h"

#include <stdlib.h>
#include <string.h>

struct request_kept {
	struct hub *hub;
	const struct grant *grant; /* shared */
	struct id id;
	const char *door;
	char peer[sizeof(((struct request *)0)->peer)];
	size_t len;
	char token[]; /* with its end */
};

struct request_kept *request_keep(struct hub *h, const struct request *rq)
{
	size_t len = strlen(rq->token) + 1;
	struct request_kept *k = malloc(sizeof(*k) + len);

	if (!k)
		return NULL;
	*k = (struct request_kept){
	    .hub = h, .grant = hub_grant_share(h, &rq->grant), .id = rq->id, .door = rq->door, .len = len};
	memcpy(k->peer, rq->peer, sizeof(k->peer));
	memcpy(k->token, rq->token, len);
	if (k->grant)
		return k;
	request_let_go(k);
	return NULL;
}

void request_again(const struct request_kept *k, const char *endpoint, struct request *out)
{
	*out = (struct request){.grant = *k->grant, .id = k->id, .door = k->door};
	memcpy(out->peer, k->peer, sizeof(out->peer));
	memcpy(out->token, k->token, k->len);
	request_endpoint(out, endpoint);
}

const struct grant *request_kept_grant(const struct request_kept *k)
{
	return k->grant;
}

void request_let_go(struct request_kept *k)
{
	if (!k)
		return;
	hub_grant_unshare(k->hub, k->grant);
	explicit_bzero(k->token, k->len);
	free(k);
}
