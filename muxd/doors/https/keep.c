/* How long recordings are kept, and what is kept whatever that says. */
#include "muxd/doors/https/handlers.h"
#include "muxd/hub/hub.h"

#include <string.h>

static const char *const no_keys[] = {NULL};

static void reply_created(void *arg, int rc, const struct err *e, json_t *result)
{
	struct http_exchange *x = arg;

	if (rc)
		http_reply_error(x, rc, e);
	else
		http_reply_json(x, 201, result);
}

void rest_retention_show(struct http_exchange *x)
{
	struct err e = {0};
	int rc = http_query_only(x, no_keys, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_keeping(x->hub, &x->rq, json_pack("{s:s}", "op", "retention"), NULL, http_reply_result, x);
}

/* The body's members, which the recorder looks at, as a question to it. */
static void ask_with_body(struct http_exchange *x, const char *op, const char *const *keys, broker_json_done *done)
{
	struct err e = {0};
	json_t *q = NULL;
	int rc = http_query_only(x, no_keys, &e);

	if (rc == 0)
		rc = rest_body_object(x, keys, true, &q, &e);
	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	json_object_set_new(q, "op", json_string(op));
	broker_keeping(x->hub, &x->rq, q, NULL, done, x);
}

void rest_retention_apply(struct http_exchange *x)
{
	static const char *const keys[] = {"reason", NULL};

	ask_with_body(x, "retention.apply", keys, http_reply_result);
}

void rest_hold_add(struct http_exchange *x)
{
	static const char *const keys[] = {"session", "agent", "principal", "from", "until", "reason", NULL};

	ask_with_body(x, "hold.add", keys, reply_created);
}

void rest_hold_list(struct http_exchange *x)
{
	static const char *const keys[] = {"all", NULL};
	const char *all = http_query_str(x, "all");
	struct err e = {0};
	int rc = http_query_only(x, keys, &e);

	if (rc == 0 && all && strcmp(all, "true") != 0 && strcmp(all, "false") != 0)
		rc = err_set(&e, ERR_INVAL, "query parameter all is neither true nor false");
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_keeping(x->hub, &x->rq,
			       json_pack("{s:s,s:b}", "op", "holds", "all", (int)(all && strcmp(all, "true") == 0)),
			       "holds", http_reply_result, x);
}

void rest_hold_release(struct http_exchange *x)
{
	static const char *const keys[] = {"reason", NULL};
	const char *reason = http_query_str(x, "reason");
	struct err e = {0};
	struct id id;
	int rc = rest_param_id(x, &id, &e);
	char text[ID_STR_LEN];

	if (rc == 0)
		rc = http_query_only(x, keys, &e);
	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	id_format(&id, text);
	broker_keeping(x->hub, &x->rq,
		       json_pack("{s:s,s:s,s:s}", "op", "hold.release", "hold", text, "reason", reason ? reason : ""),
		       NULL, http_reply_result, x);
}
