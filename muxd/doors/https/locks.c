/* /v1/agents/{agent}/locks: take, renew, release, list. */
#include "base/clock.h"
#include "base/schema.h"
#include "muxd/doors/https/body.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/broker/broker_lock.h"

#include <stdlib.h>
#include <string.h>

#define LABEL_MAX   128
#define TTL_DEFAULT INT64_C(300000)
#define TTL_MAX     INT64_C(86400000)

struct lock_fields {
	const json_t *path;
	const char *label, *task;
	int64_t ttl_ms;
};

static const struct schema_field lock_fields[] = {
    {"ttl_ms", SCHEMA_INTEGER, false, 1000, TTL_MAX, NULL, SCHEMA_TO(struct lock_fields, ttl_ms)},
    {"task_id", SCHEMA_TEXT, false, 1, 0, NULL, SCHEMA_TO(struct lock_fields, task)},
    {"path", SCHEMA_ANY, true, 0, 0, NULL, SCHEMA_TO(struct lock_fields, path)},
    {"label", SCHEMA_TEXT, false, 1, LABEL_MAX, NULL, SCHEMA_TO(struct lock_fields, label)},
};

/* A conflict names the lock that is in the way. */
static void locks_on_answer(void *arg, int rc, const struct err *e, json_t *result)
{
	if (rc == ERR_LOCKED)
		http_reply_error_with(arg, rc, e, result);
	else
		http_reply_created(arg, rc, e, result);
}

static void locks_on_changed(void *arg, int rc, const struct err *e, json_t *result)
{
	http_reply_result(arg, rc, e, result);
}

/* The first `fields` of the table are of a renewal, too. */
static int read_lock(struct http_exchange *x, size_t fields, struct lock_fields *out, json_t **body, struct err *e)
{
	struct schema s = {.out = out, .e = e, .null_is_absent = true};
	int rc = rest_body_any(x, body, e);

	out->ttl_ms = TTL_DEFAULT;
	return rc ? rc : schema_object(&s, NULL, *body, lock_fields, fields);
}

void rest_lock_take(struct http_exchange *x)
{
	struct lock_call c = {.agent = x->params[0]};
	struct lock_fields f = {0};
	struct err e = {0};
	json_t *body = NULL;
	char *path = NULL;
	int rc = read_lock(x, SCHEMA_COUNT(lock_fields), &f, &body, &e);

	if (rc == 0 && body_path(f.path, &path))
		rc = err_set(&e, ERR_INVAL, "/path: is neither a text without NUL nor {\"base64\": ...}");
	c.path = path;
	c.label = f.label;
	c.task = f.task;
	c.ttl_ns = (uint64_t)f.ttl_ms * NS_PER_MS;
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_lock(x->hub, &x->rq, &c, locks_on_answer, x);
	free(path);
	json_decref(body);
}

void rest_lock_renew(struct http_exchange *x)
{
	struct lock_call c = {.agent = x->params[0], .id = x->params[1]};
	struct lock_fields f = {.ttl_ms = TTL_DEFAULT};
	struct err e = {0};
	json_t *body = NULL;
	int rc = buf_len(&x->body) ? read_lock(x, 2, &f, &body, &e) : 0;

	c.task = f.task;
	c.ttl_ns = (uint64_t)f.ttl_ms * NS_PER_MS;
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_lock(x->hub, &x->rq, &c, locks_on_changed, x);
	json_decref(body);
}

void rest_lock_release(struct http_exchange *x)
{
	const struct lock_call c = {
	    .agent = x->params[0], .id = x->params[1], .task = http_query_str(x, "task_id"), .ttl_ns = 0};

	broker_lock(x->hub, &x->rq, &c, locks_on_changed, x);
}

void rest_lock_list(struct http_exchange *x)
{
	broker_locks(x->hub, &x->rq, x->params[0], http_reply_result, x);
}
