/* Services inside sandboxes over HTTPS: their list, their states, their logs. */
#include "muxd/hub/services/services.h"
#include "base/schema.h"
#include "base/text.h"
#include "muxd/doors/https/body.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/match.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/services/broker_services.h"

#include <string.h>

static void services_on_list(void *arg, int rc, const struct err *e, json_t *result)
{
	http_match_tell(arg, rc, result);
	http_reply_result(arg, rc, e, result);
}

void rest_services_set(struct http_exchange *x)
{
	struct service_wish w = {.agent = x->params[0]};
	struct err e = {0};
	json_t *body = NULL;
	int rc = http_match_body(x, "services", &w.version, &body, &w.list, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_services_set(x->hub, &x->rq, &w, services_on_list, x);
	json_decref(body);
}

void rest_services_show(struct http_exchange *x)
{
	struct service_wish w = {.agent = x->params[0]};
	struct err e = {0};
	int rc = http_query_int(x, "version", 1, INT64_MAX, &w.version, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_services_show(x->hub, &x->rq, &w, services_on_list, x);
}

void rest_service_show(struct http_exchange *x)
{
	broker_service_show(x->hub, &x->rq, &(struct service_wish){.agent = x->params[0], .service = x->params[1]},
			    http_reply_result, x);
}

void rest_service_log(struct http_exchange *x)
{
	struct service_wish w = {.agent = x->params[0], .service = x->params[1]};
	int64_t bytes = SERVICE_LOG_MAX;
	struct err e = {0};
	int rc = http_query_int(x, "bytes", 1, SERVICE_LOG_MAX, &bytes, &e);

	w.bytes = (size_t)bytes;
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_service_log(x->hub, &x->rq, &w, http_reply_result, x);
}

struct restart_fields {
	const char *reason;
};
static const struct schema_field restart_fields[] = {
    {"reason", SCHEMA_TEXT, false, 1, 512, NULL, SCHEMA_TO(struct restart_fields, reason)},
};

void rest_service_restart(struct http_exchange *x)
{
	struct service_wish w = {.agent = x->params[0], .service = x->params[1]};
	struct restart_fields f = {0};
	struct err e = {0};
	struct schema s = {.out = &f, .e = &e, .null_is_absent = true};
	json_t *body = NULL;
	int rc = buf_len(&x->body) ? rest_body_any(x, &body, &e) : 0;

	if (!rc && body)
		rc = schema_object(&s, NULL, body, SCHEMA_FIELDS(restart_fields));
	w.reason = f.reason;
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_service_restart(x->hub, &x->rq, &w, http_reply_result, x);
	json_decref(body);
}
