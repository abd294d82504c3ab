/* Leases, runs, workflows and the pool: the routes below /sandboxes, each one call of the broker's. */
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/route.h"

#include "base/text.h"
#include "muxd/hub/core/hub.h"

#include <string.h>

/* Filters of a list as the call's object; its keys are the route's. */
static int query_object(const struct http_exchange *x, json_t **out, struct err *e)
{
	json_t *o = x->nquery ? json_object() : NULL;
	int64_t n = 0;
	int rc = http_query_int(x, "limit", INT64_MIN, INT64_MAX, &n, e);

	for (size_t i = 0; !rc && i < x->nquery; i++)
		rc = json_object_set_new(o, x->query[i].key,
					 strcmp(x->query[i].key, "limit") == 0 ? json_integer(n)
									       : json_string(x->query[i].value))
			 ? err_set(e, ERR_INVAL, "query parameter %s is not UTF-8", x->query[i].key)
			 : 0;
	if (rc)
		json_decref(o);
	else
		*out = o;
	return rc;
}

/* The body as it is: its fields are control's question. It may hold a token, so its bytes are wiped. */
static int body_object(struct http_exchange *x, json_t **out, struct err *e)
{
	int rc = json_parse_values(buf_ptr(&x->body), buf_len(&x->body), hub_conf(x->hub)->api_max_body,
				   JSON_VALUES_BODY, out, e);

	if (!rc && !json_is_object(*out))
		rc = err_set(e, ERR_INVAL, "the body must be a JSON object");
	if (buf_len(&x->body))
		explicit_bzero((uint8_t *)(uintptr_t)buf_ptr(&x->body), buf_len(&x->body));
	return rc;
}

static bool starts_run(const struct http_exchange *x)
{
	return strcmp(x->route->call, "run.start") == 0;
}

/* Which lease it is about, as the question or the answer says: for the call's line in the log. */
static void note_ids(struct http_exchange *x, const json_t *o)
{
	struct work_ids *w = &x->about;
	const char *request = strncmp(x->route->call, "run.", 4) == 0 ? "clientRequestId" : "requestId";
	const struct {
		const char *key;
		char *to;
		size_t size;
	} ids[] = {{"leaseId", w->lease, sizeof(w->lease)},
		   {"runId", w->run, sizeof(w->run)},
		   {request, w->request, sizeof(w->request)}};

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		const char *text = json_string_value(json_object_get(o, ids[i].key));

		if (text)
			text_put(ids[i].to, ids[i].size, text);
	}
}

static void work_on_answer(void *arg, int rc, const struct err *e, json_t *result)
{
	struct http_exchange *x = arg;

	note_ids(x, result);
	if (starts_run(x))
		http_reply_accepted(x, rc, e, result);
	else
		http_reply_result(x, rc, e, result);
}

/* The call of the route. */
void rest_work(struct http_exchange *x)
{
	json_t *o = NULL;
	struct err e = {0};
	int rc = x->route->body == BODY_REQUIRED ? body_object(x, &o, &e) : query_object(x, &o, &e);

	if (rc) {
		http_reply_error(x, rc, &e);
	} else {
		note_ids(x, o);
		broker_work(x->hub, &x->rq, x->route->call, x->params[0][0] ? x->params[0] : NULL, o, work_on_answer,
			    x);
	}
	json_decref(o);
}
