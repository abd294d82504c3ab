/* MCP servers inside sandboxes over HTTPS: their list, what they offer, and requests to them. */
#include "base/clock.h"
#include "base/schema.h"
#include "base/text.h"
#include "muxd/doors/https/body.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/match.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/inside/broker_inside.h"

#include <string.h>

/* ---- the list, and each of them */

struct server_fields {
	const char *task, *fingerprint;
};

static const struct schema_field refresh_fields[] = {
    {"task_id", SCHEMA_TEXT, false, 1, 0, body_check_name, SCHEMA_TO(struct server_fields, task)},
};
static const struct schema_field approve_fields[] = {
    {"fingerprint", SCHEMA_TEXT, true, 64, 64, NULL, SCHEMA_TO(struct server_fields, fingerprint)},
};

static void servers_on_list(void *arg, int rc, const struct err *e, json_t *result)
{
	http_match_tell(arg, rc, result);
	http_reply_result(arg, rc, e, result);
}

void rest_servers_set(struct http_exchange *x)
{
	struct inside_wish w = {.agent = x->params[0]};
	struct err e = {0};
	json_t *body = NULL;
	int rc = http_match_body(x, "servers", &w.version, &body, &w.list, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_servers_set(x->hub, &x->rq, &w, servers_on_list, x);
	json_decref(body);
}

void rest_servers_show(struct http_exchange *x)
{
	struct inside_wish w = {.agent = x->params[0]};
	struct err e = {0};
	int rc = http_query_int(x, "version", 1, INT64_MAX, &w.version, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_servers_show(x->hub, &x->rq, &w, servers_on_list, x);
}

/* One of them: shown, looked at anew, approved. */
void rest_server(struct http_exchange *x)
{
	bool approves = strcmp(x->route->call, "approve") == 0, shows = strcmp(x->route->call, "show") == 0;
	struct server_fields f = {0};
	struct err e = {0};
	struct schema s = {.out = &f, .e = &e, .null_is_absent = true};
	json_t *body = NULL;
	int rc = !shows && (approves || buf_len(&x->body)) ? rest_body_any(x, &body, &e) : 0;

	if (!rc && body)
		rc = schema_object(&s, NULL, body, approves ? approve_fields : refresh_fields, 1);
	if (rc) {
		http_reply_error(x, rc, &e);
	} else {
		const struct inside_wish w = {
		    .agent = x->params[0], .server = x->params[1], .task = f.task, .fingerprint = f.fingerprint};

		(approves ? broker_server_approve
		 : shows  ? broker_server_show
			  : broker_server_refresh)(x->hub, &x->rq, &w, http_reply_result, x);
	}
	json_decref(body);
}

/* ---- a request */

struct request_fields {
	const char *server, *method, *task, *exec_id;
	const json_t *params;
	int64_t timeout_ms;
};

static const struct schema_field request_fields[] = {
    {"server", SCHEMA_TEXT, true, 1, 64, NULL, SCHEMA_TO(struct request_fields, server)},
    {"method", SCHEMA_TEXT, true, 1, 128, NULL, SCHEMA_TO(struct request_fields, method)},
    {"params", SCHEMA_OBJECT, false, 0, 0, NULL, SCHEMA_TO(struct request_fields, params)},
    {"timeout_ms", SCHEMA_INTEGER, false, 1, INSIDE_LONGEST_NS / NS_PER_MS, NULL,
     SCHEMA_TO(struct request_fields, timeout_ms)},
    {"task_id", SCHEMA_TEXT, false, 1, 0, body_check_name, SCHEMA_TO(struct request_fields, task)},
    {"exec_id", SCHEMA_TEXT, false, 1, 0, body_check_name, SCHEMA_TO(struct request_fields, exec_id)},
};

/* An error of the server's own is its answer. What the record has of a failure is named in the details. */
static void servers_on_answer(void *arg, int rc, const struct err *e, const json_t *answer, const char *round)
{
	json_t *details = rc && *round ? json_pack("{s:s}", "round_id", round) : NULL;

	if (rc)
		http_reply_error_with(arg, rc, e, details);
	else
		http_reply_json(arg, 200, answer);
	json_decref(details);
}

void rest_mcp_request(struct http_exchange *x)
{
	static const struct inside_ops ops = {.done = servers_on_answer};
	struct request_fields f = {0};
	struct err e = {0};
	struct schema s = {.out = &f, .e = &e, .null_is_absent = true};
	json_t *body = NULL;
	struct inside_job *job;
	int rc = rest_body_any(x, &body, &e);

	if (!rc)
		rc = schema_object(&s, NULL, body, SCHEMA_FIELDS(request_fields));
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_inside_request(x->hub, &x->rq,
				      &(struct inside_request){.agent = x->params[0],
							       .server = f.server,
							       .method = f.method,
							       .params = f.params,
							       .task = f.task,
							       .exec_id = f.exec_id,
							       .timeout_ns = (uint64_t)f.timeout_ms * NS_PER_MS},
				      &ops, x, &job);
	json_decref(body);
}
