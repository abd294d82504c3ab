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

static void mark_add(struct policy_mark *io, const char *rule)
{
	size_t i = 0;

	if (strcmp(rule, io->rule) == 0)
		return;
	while (i < POLICY_PARTS_MAX && io->also[i][0] && strcmp(io->also[i], rule) != 0)
		i++;
	if (i < POLICY_PARTS_MAX)
		text_put(io->also[i], sizeof(io->also[i]), rule);
	else
		text_put(io->also[POLICY_PARTS_MAX - 1], sizeof(io->also[0]), "more");
}

void policy_mark_join(struct policy_mark *io, const struct policy_mark *part)
{
	if (!part->version[0])
		return;
	mark_add(io, part->rule);
	for (size_t i = 0; i < POLICY_PARTS_MAX && part->also[i][0]; i++)
		mark_add(io, part->also[i]);
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
