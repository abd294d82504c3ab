/* Lifecycle over HTTPS: what the paths and bodies say goes to the broker; docs/openapi.yaml has the shapes. */
#include "base/clock.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/route.h"
#include "muxd/doors/life_args.h"

#include <string.h>

#define LOG_DEFAULT (64 * 1024)

/* The verb of the route, of an agent or (fork) of a session. */
void rest_life(struct http_exchange *x)
{
	bool of_session = !id_is_nil(&x->object);
	enum life_verb v = VERB_RESUME;
	struct life_call c;
	json_t *body = NULL;
	struct err e = {0};
	int rc = rest_body_any(x, &body, &e);

	while (strcmp(life_verb_name(v), x->route->call) != 0)
		v++;
	if (!rc)
		rc = life_args_read(v, body, of_session, &c, &e);
	if (rc) {
		http_reply_error(x, rc, &e);
	} else {
		c.agent = of_session ? NULL : x->params[0];
		c.session = x->object;
		broker_life(x->hub, &x->rq, v, &c,
			    v == VERB_SNAPSHOT || v == VERB_FORK ? http_reply_created : http_reply_result, x);
	}
	json_decref(body);
}

void rest_snapshot_list(struct http_exchange *x)
{
	broker_snapshots(x->hub, &x->rq, x->params[0], http_reply_result, x);
}

void rest_snapshot_drop(struct http_exchange *x)
{
	struct life_call c;
	struct err e = {0};

	life_call_init(&c);
	c.agent = x->params[0];
	c.reason = http_query_str(x, "reason");
	c.snapshot = x->object;
	if (id_is_nil(&c.snapshot))
		http_reply_error(x, err_set(&e, ERR_INVAL, "the id in the path is not that of a snapshot"), &e);
	else
		broker_life(x->hub, &x->rq, VERB_DROP, &c, http_reply_result, x);
}

void rest_agent_logs(struct http_exchange *x)
{
	int64_t bytes = LOG_DEFAULT;
	struct err e = {0};
	int rc = http_query_int(x, "bytes", 1, BROKER_LOG_MAX, &bytes, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_log(x->hub, &x->rq, x->params[0], (size_t)bytes, http_reply_result, x);
}

void rest_agent_moment(struct http_exchange *x)
{
	const char *opened = http_query_str(x, "opened_at"), *snapshot = http_query_str(x, "snapshot_id");
	json_t *result = NULL;
	int64_t wall = 0;
	struct err e = {0};
	int rc = 0;

	if (!opened || clock_parse_utc(opened, &wall))
		rc = err_set(&e, ERR_INVAL, "query parameter opened_at must be a time as 2026-11-21T08:01:40Z");
	if (!rc)
		rc = broker_moment(x->hub, &x->rq, x->params[0], wall, snapshot ? snapshot : "", &result, &e);
	http_reply_result(x, rc, &e, result);
	json_decref(result);
}
