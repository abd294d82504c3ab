/* Sandboxes by name: one, the list, the end of one; and the reading of a request's body, for every path. */
#include "muxd/doors/https/handlers.h"

#include "muxd/hub/broker/broker_life.h"
#include "muxd/hub/core/hub.h"

#define LIST_DEFAULT 100

void rest_agent_show(struct http_exchange *x)
{
	broker_agent(x->hub, &x->rq, x->params[0], http_reply_result, x);
}

void rest_agent_list(struct http_exchange *x)
{
	struct life_filter f = {.state = http_query_str(x, "state"),
				.prefix = http_query_str(x, "prefix"),
				.after = http_query_str(x, "after"),
				.app_id = http_query_str(x, "app_id")};
	int64_t limit = LIST_DEFAULT;
	struct err e = {0};
	int rc = http_query_int(x, "limit", 1, BROKER_AGENTS_MAX, &limit, &e);

	f.limit = (size_t)limit;
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_agents(x->hub, &x->rq, &f, http_reply_result, x);
}

void rest_agent_destroy(struct http_exchange *x)
{
	const char *reason = http_query_str(x, "reason");
	bool wipe = false;
	struct err e = {0};
	int rc = http_query_bool(x, "wipe", &wipe, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_destroy(x->hub, &x->rq, x->params[0], reason ? reason : "", wipe, http_reply_result, x);
}

int rest_body_any(struct http_exchange *x, json_t **out, struct err *e)
{
	json_t *o;
	int rc;

	*out = NULL;
	if (buf_len(&x->body) == 0)
		return 0;
	rc = json_parse_values(buf_ptr(&x->body), buf_len(&x->body), hub_conf(x->hub)->api_max_body, JSON_VALUES_BODY,
			       &o, e);
	if (rc)
		return rc;
	if (!json_is_object(o)) {
		json_decref(o);
		return err_set(e, ERR_INVAL, "the body must be a JSON object");
	}
	*out = o;
	return 0;
}

int rest_body_object(struct http_exchange *x, const char *const *keys, bool required, json_t **out, struct err *e)
{
	json_t *o;
	int rc = rest_body_any(x, &o, e);

	*out = NULL;
	if (rc == 0 && !o && required)
		rc = err_set(e, ERR_INVAL, "the body is empty; send a JSON object");
	if (rc == 0 && o)
		rc = json_only_keys(o, keys, e);
	if (rc) {
		json_decref(o);
		return rc;
	}
	*out = o;
	return 0;
}
