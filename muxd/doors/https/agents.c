#include "muxd/doors/https/handlers.h"

#include "muxd/hub/broker_life.h"
#include "muxd/hub/hub.h"

#define LIST_DEFAULT 100

/* Shared by every route that only passes the broker's object on. */
static void reply_object(void *arg, int rc, const struct err *e, json_t *result)
{
	struct http_exchange *x = arg;

	if (rc)
		http_reply_error(x, rc, e);
	else
		http_reply_json(x, 200, result);
}

static int agent_of(struct http_exchange *x, struct err *e)
{
	return target_name_check(x->params[0], e);
}

void rest_agent_show(struct http_exchange *x)
{
	static const char *const no_keys[] = {NULL};
	struct err e = {0};
	int rc = agent_of(x, &e);

	if (rc == 0)
		rc = http_query_only(x, no_keys, &e);
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_agent(x->hub, &x->rq, x->params[0], reply_object, x);
}

void rest_agent_list(struct http_exchange *x)
{
	static const char *const keys[] = {"state", "prefix", "after", "limit", NULL};
	struct life_filter f = {.state = http_query_str(x, "state"),
				.prefix = http_query_str(x, "prefix"),
				.after = http_query_str(x, "after")};
	int64_t limit = LIST_DEFAULT;
	struct err e = {0};
	int rc = http_query_only(x, keys, &e);

	if (rc == 0)
		rc = http_query_int(x, "limit", 1, BROKER_AGENTS_MAX, &limit, &e);
	f.limit = (size_t)limit;
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_agents(x->hub, &x->rq, &f, reply_object, x);
}

static int read_wipe(const struct http_exchange *x, bool *out, struct err *e)
{
	const char *s = http_query_str(x, "wipe");

	*out = s && strcmp(s, "true") == 0;
	return !s || *out || strcmp(s, "false") == 0
		   ? 0
		   : err_set(e, ERR_INVAL, "query parameter wipe must be true or false");
}

void rest_agent_destroy(struct http_exchange *x)
{
	static const char *const keys[] = {"reason", "wipe", NULL};
	const char *reason = http_query_str(x, "reason");
	bool wipe = false;
	struct err e = {0};
	int rc = agent_of(x, &e);

	if (rc == 0)
		rc = http_query_only(x, keys, &e);
	if (rc == 0)
		rc = read_wipe(x, &wipe, &e);
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_destroy(x->hub, &x->rq, x->params[0], reason ? reason : "", wipe, reply_object, x);
}

int rest_param_id(const struct http_exchange *x, struct id *out, struct err *e)
{
	if (id_parse(x->params[0], out))
		return err_set(e, ERR_INVAL, "the id in the path is not a UUID");
	return 0;
}

int rest_body_any(struct http_exchange *x, json_t **out, struct err *e)
{
	json_t *o;
	int rc;

	*out = NULL;
	if (buf_len(&x->body) == 0)
		return 0;
	rc = json_parse(buf_ptr(&x->body), buf_len(&x->body), hub_conf(x->hub)->api_max_body, &o, e);
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
