/* How long recordings are kept, and what is kept whatever that says. */
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/broker/broker_record.h"
#include "muxd/hub/core/hub.h"

#include <string.h>

void rest_retention_show(struct http_exchange *x)
{
	broker_keeping(x->hub, &x->rq, json_pack("{s:s}", "op", "retention"), NULL, http_reply_result, x);
}

/* The body's members, which the recorder looks at, as a question to it: the route's call. */
void rest_keep(struct http_exchange *x)
{
	static const char *const hold_keys[] = {"session", "agent", "principal", "from", "until", "reason", NULL},
				 *const apply_keys[] = {"reason", NULL};
	bool adds = strcmp(x->route->call, "hold.add") == 0;
	struct err e = {0};
	json_t *q = NULL;
	int rc = rest_body_object(x, adds ? hold_keys : apply_keys, true, &q, &e);

	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	json_object_set_new(q, "op", json_string(x->route->call));
	broker_keeping(x->hub, &x->rq, q, NULL, adds ? http_reply_created : http_reply_result, x);
}

void rest_hold_list(struct http_exchange *x)
{
	bool all = false;
	struct err e = {0};
	int rc = http_query_bool(x, "all", &all, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_keeping(x->hub, &x->rq, json_pack("{s:s,s:b}", "op", "holds", "all", (int)all), "holds",
			       http_reply_result, x);
}

void rest_hold_release(struct http_exchange *x)
{
	const char *reason = http_query_str(x, "reason");
	char id[ID_STR_LEN];

	id_format(&x->object, id);
	broker_keeping(x->hub, &x->rq,
		       json_pack("{s:s,s:s,s:s}", "op", "hold.release", "hold", id, "reason", reason ? reason : ""),
		       NULL, http_reply_result, x);
}
