/* Leases, runs, workflows and the pool: the routes below /sandboxes, each one call of the broker's. */
#include "muxd/doors/https/handlers.h"

#include "muxd/hub/hub.h"

#include <stdlib.h>
#include <string.h>

static void reply_with(struct http_exchange *x, int status, int rc, const struct err *e, json_t *result)
{
	if (rc)
		http_reply_error(x, rc, e);
	else
		http_reply_json(x, status, result);
}

static void reply_ok(void *arg, int rc, const struct err *e, json_t *result)
{
	reply_with(arg, 200, rc, e, result);
}

static void reply_accepted(void *arg, int rc, const struct err *e, json_t *result)
{
	reply_with(arg, 202, rc, e, result);
}

/* Filters of a list as the call's object. */
static int query_object(const struct http_exchange *x, const char *const *keys, json_t **out, struct err *e)
{
	json_t *o = NULL;
	int rc = http_query_only(x, keys, e);

	for (; !rc && *keys; keys++) {
		const char *s = http_query_str(x, *keys);
		char *end = NULL;
		long long n;

		if (!s)
			continue;
		if (!o && !(o = json_object()))
			return err_set(e, ERR_NOMEM, "no memory");
		n = strtoll(s, &end, 10);
		if (strcmp(*keys, "limit") != 0)
			rc = json_object_set_new(o, *keys, json_string(s)) ? ERR_INVAL : 0;
		else if (!*s || *end)
			rc = err_set(e, ERR_INVAL, "query parameter limit must be a number");
		else
			json_object_set_new(o, *keys, json_integer(n));
	}
	if (rc)
		json_decref(o);
	else
		*out = o;
	return rc;
}

static void https_work_ask(struct http_exchange *x, const char *call, const char *const *filters,
			   broker_json_done *done)
{
	static const char *const none[] = {NULL};
	json_t *o = NULL;
	struct err e = {0};
	int rc = query_object(x, filters ? filters : none, &o, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_work(x->hub, &x->rq, call, x->params[0][0] ? x->params[0] : NULL, o, done, x);
	json_decref(o);
}

/* The body as it is: its fields are control's question. It may hold a token, so its bytes are wiped. */
static void ask_with_body(struct http_exchange *x, const char *call, broker_json_done *done)
{
	static const char *const none[] = {NULL};
	json_t *o = NULL;
	struct err e = {0};
	int rc = http_query_only(x, none, &e);

	if (!rc)
		rc = json_parse(buf_ptr(&x->body), buf_len(&x->body), hub_conf(x->hub)->api_max_body, &o, &e);
	if (!rc && !json_is_object(o))
		rc = err_set(&e, ERR_INVAL, "the body must be a JSON object");
	if (buf_len(&x->body))
		explicit_bzero((uint8_t *)(uintptr_t)buf_ptr(&x->body), buf_len(&x->body));
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_work(x->hub, &x->rq, call, NULL, o, done, x);
	json_decref(o);
}

void rest_lease_create(struct http_exchange *x)
{
	ask_with_body(x, "lease.create", reply_ok);
}

void rest_lease_list(struct http_exchange *x)
{
	static const char *const filters[] = {"state", "limit", NULL};

	https_work_ask(x, "lease.list", filters, reply_ok);
}

void rest_lease_show(struct http_exchange *x)
{
	https_work_ask(x, "lease.show", NULL, reply_ok);
}

void rest_lease_heartbeat(struct http_exchange *x)
{
	https_work_ask(x, "lease.heartbeat", NULL, reply_ok);
}

void rest_lease_release(struct http_exchange *x)
{
	https_work_ask(x, "lease.release", NULL, reply_ok);
}

void rest_run_start(struct http_exchange *x)
{
	ask_with_body(x, "run.start", reply_accepted);
}

void rest_run_list(struct http_exchange *x)
{
	static const char *const filters[] = {"leaseId", "limit", NULL};

	https_work_ask(x, "run.list", filters, reply_ok);
}

void rest_run_show(struct http_exchange *x)
{
	static const char *const filters[] = {"leaseId", NULL};

	https_work_ask(x, "run.show", filters, reply_ok);
}

void rest_workflow_put(struct http_exchange *x)
{
	ask_with_body(x, "workflow.put", reply_ok);
}

void rest_workflow_list(struct http_exchange *x)
{
	static const char *const filters[] = {"limit", NULL};

	https_work_ask(x, "workflow.list", filters, reply_ok);
}

void rest_workflow_show(struct http_exchange *x)
{
	https_work_ask(x, "workflow.show", NULL, reply_ok);
}

void rest_pool_show(struct http_exchange *x)
{
	https_work_ask(x, "pool.show", NULL, reply_ok);
}
