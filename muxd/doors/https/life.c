/* Lifecycle over HTTPS: what the paths and bodies say goes to the broker; docs/openapi.yaml has the shapes. */
#include "base/clock.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/life_args.h"

#include <string.h>

#define LOG_DEFAULT (64 * 1024)

static void reply(struct http_exchange *x, int rc, const struct err *e, int status, const json_t *result)
{
	if (rc)
		http_reply_error(x, rc, e);
	else
		http_reply_json(x, status, result);
}

static void reply_ok(void *arg, int rc, const struct err *e, json_t *result)
{
	reply(arg, rc, e, 200, result);
}

static void reply_made(void *arg, int rc, const struct err *e, json_t *result)
{
	reply(arg, rc, e, 201, result);
}

static const char *const no_keys[] = {NULL};

static void call(struct http_exchange *x, enum life_verb v)
{
	struct life_call c;
	json_t *body = NULL;
	struct err e = {0};
	int rc = target_name_check(x->params[0], &e);

	if (!rc)
		rc = http_query_only(x, no_keys, &e);
	if (!rc)
		rc = rest_body_any(x, &body, &e);
	if (!rc)
		rc = life_args_read(v, body, false, &c, &e);
	if (rc) {
		http_reply_error(x, rc, &e);
	} else {
		c.agent = x->params[0];
		broker_life(x->hub, &x->rq, v, &c, v == VERB_SNAPSHOT || v == VERB_FORK ? reply_made : reply_ok, x);
	}
	json_decref(body);
}

void rest_agent_resume(struct http_exchange *x)
{
	call(x, VERB_RESUME);
}

void rest_agent_stop(struct http_exchange *x)
{
	call(x, VERB_STOP);
}

void rest_agent_terminate(struct http_exchange *x)
{
	call(x, VERB_TERMINATE);
}

void rest_agent_kill(struct http_exchange *x)
{
	call(x, VERB_KILL);
}

void rest_snapshot_take(struct http_exchange *x)
{
	call(x, VERB_SNAPSHOT);
}

void rest_agent_restore(struct http_exchange *x)
{
	call(x, VERB_RESTORE);
}

void rest_agent_fork(struct http_exchange *x)
{
	call(x, VERB_FORK);
}

void rest_session_fork(struct http_exchange *x)
{
	struct life_call c;
	json_t *body = NULL;
	struct err e = {0};
	struct id session;
	int rc = rest_param_id(x, &session, &e);

	if (!rc)
		rc = http_query_only(x, no_keys, &e);
	if (!rc)
		rc = rest_body_any(x, &body, &e);
	if (!rc)
		rc = life_args_read(VERB_FORK, body, true, &c, &e);
	if (rc) {
		http_reply_error(x, rc, &e);
	} else {
		c.session = session;
		broker_life(x->hub, &x->rq, VERB_FORK, &c, reply_made, x);
	}
	json_decref(body);
}

void rest_snapshot_list(struct http_exchange *x)
{
	struct err e = {0};
	int rc = target_name_check(x->params[0], &e);

	if (!rc)
		rc = http_query_only(x, no_keys, &e);
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_snapshots(x->hub, &x->rq, x->params[0], reply_ok, x);
}

void rest_snapshot_drop(struct http_exchange *x)
{
	static const char *const keys[] = {"reason", NULL};
	struct life_call c;
	struct err e = {0};
	int rc = target_name_check(x->params[0], &e);

	life_call_init(&c);
	if (!rc)
		rc = http_query_only(x, keys, &e);
	if (!rc && (id_parse(x->params[1], &c.snapshot) || id_is_nil(&c.snapshot)))
		rc = err_set(&e, ERR_INVAL, "the id in the path is not that of a snapshot");
	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	c.agent = x->params[0];
	c.reason = http_query_str(x, "reason");
	broker_life(x->hub, &x->rq, VERB_DROP, &c, reply_ok, x);
}

void rest_agent_logs(struct http_exchange *x)
{
	static const char *const keys[] = {"bytes", NULL};
	int64_t bytes = LOG_DEFAULT;
	struct err e = {0};
	int rc = target_name_check(x->params[0], &e);

	if (!rc)
		rc = http_query_only(x, keys, &e);
	if (!rc)
		rc = http_query_int(x, "bytes", 1, BROKER_LOG_MAX, &bytes, &e);
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_log(x->hub, &x->rq, x->params[0], (size_t)bytes, reply_ok, x);
}

void rest_agent_moment(struct http_exchange *x)
{
	static const char *const keys[] = {"opened_at", "snapshot_id", NULL};
	const char *opened = http_query_str(x, "opened_at"), *snapshot = http_query_str(x, "snapshot_id");
	json_t *result = NULL;
	int64_t wall = 0;
	struct err e = {0};
	int rc = target_name_check(x->params[0], &e);

	if (!rc)
		rc = http_query_only(x, keys, &e);
	if (!rc && (!opened || clock_parse_utc(opened, &wall)))
		rc = err_set(&e, ERR_INVAL, "query parameter opened_at must be a time as 2026-11-21T08:01:40Z");
	if (!rc)
		rc = broker_moment(x->hub, &x->rq, x->params[0], wall, snapshot ? snapshot : "", &result, &e);
	reply(x, rc, &e, 200, result);
	json_decref(result);
}
