/* The audit log and its signed heads, and the heads of other daemons that this one is a witness of. */
#include "muxd/doors/https/handlers.h"
#include "muxd/hub/broker/broker_record.h"
#include "muxd/hub/core/hub.h"

#define EVENTS_DEFAULT 200
#define EVENTS_MAX     1000
#define HEADS_DEFAULT  200
#define HEADS_MAX      500

void rest_audit_list(struct http_exchange *x)
{
	struct audit_filter f = {.agent = http_query_str(x, "agent"),
				 .principal = http_query_str(x, "principal"),
				 .event = http_query_str(x, "event"),
				 .session = http_query_str(x, "session"),
				 .lease = http_query_str(x, "lease"),
				 .run = http_query_str(x, "run"),
				 .client_request = http_query_str(x, "client_request")};
	int64_t after = 0, limit = EVENTS_DEFAULT;
	struct err e = {0};
	int rc = 0;

	if (f.agent)
		rc = target_name_check(f.agent, &e);
	if (rc == 0)
		rc = http_query_int(x, "after", 0, INT64_MAX, &after, &e);
	if (rc == 0)
		rc = http_query_int(x, "limit", 1, EVENTS_MAX, &limit, &e);
	f.after = (uint64_t)after;
	f.limit = (size_t)limit;
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_audit(x->hub, &x->rq, &f, http_reply_result, x);
}

void rest_head_show(struct http_exchange *x)
{
	broker_head(x->hub, &x->rq, http_reply_result, x);
}

void rest_witness_keep(struct http_exchange *x)
{
	static const char *const keys[] = {"head", "after", "entries", "signature", NULL};
	struct err e = {0};
	json_t *o = NULL;
	int rc = rest_body_object(x, keys, true, &o, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_witness_keep(x->hub, o, http_reply_result, x);
	json_decref(o);
}

void rest_witness_heads(struct http_exchange *x)
{
	const char *log_id = http_query_str(x, "log_id");
	int64_t limit = HEADS_DEFAULT;
	struct err e = {0};
	struct id id;
	int rc = 0;

	if (!log_id || id_parse(log_id, &id))
		rc = err_set(&e, ERR_INVAL, "query parameter log_id is missing, or no id");
	if (rc == 0)
		rc = http_query_int(x, "limit", 1, HEADS_MAX, &limit, &e);
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_witness_heads(x->hub, log_id, (size_t)limit, http_reply_result, x);
}

void rest_policy_show(struct http_exchange *x)
{
	json_t *o = NULL;
	struct err e = {0};
	int rc = broker_policy_show(x->hub, &x->rq, &o, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		http_reply_json(x, 200, o);
	json_decref(o);
}
