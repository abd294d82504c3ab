/* A request: which door and peer, under which grant. It is made before its grant is known. */
#include "muxd/hub/core/request.h"
#include "base/text.h"

#include <stddef.h>
#include <string.h>

void request_finish(struct request *rq)
{
	explicit_bzero(rq->token, sizeof(rq->token));
}

void request_marked(const struct request *rq, struct request *io)
{
	const struct policy_mark mark = io->policy;

	memcpy(io, rq, offsetof(struct request, token)); /* which is the last */
	io->token[0] = '\0';
	io->policy = mark;
}

void request_endpoint(struct request *rq, const char *endpoint)
{
	text_put(rq->endpoint, sizeof(rq->endpoint), endpoint);
}

void request_begin(struct request *rq, const struct origin *from)
{
	memset(rq, 0, sizeof(*rq));
	rq->door = from->door;
	text_put(rq->peer, sizeof(rq->peer), from->peer);
	request_endpoint(rq, from->endpoint);
	(void)id_new(&rq->id);
}
