/* Shells over HTTPS; what runs in one is a round (rounds.c). */
#include "muxd/doors/https/handlers.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/broker/broker_round.h"

void rest_shell_list(struct http_exchange *x)
{
	broker_shells(x->hub, &x->rq, x->params[0], http_reply_result, x);
}

void rest_shell_end(struct http_exchange *x)
{
	broker_shell_end(x->hub, &x->rq, x->params[0], x->params[1], http_query_str(x, "task_id"), http_reply_result,
			 x);
}
