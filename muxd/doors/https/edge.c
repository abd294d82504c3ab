/* /v1/edge: what edges ask of their centre. */
#include "muxd/doors/https/handlers.h"
#include "muxd/hub/broker/broker_edge.h"

void rest_edge_state(struct http_exchange *x)
{
	struct origin from = http_origin(x, "rest");

	broker_edge_state(x->hub, x->token, &from, http_reply_result, x);
}
