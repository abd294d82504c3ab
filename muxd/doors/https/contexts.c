/* Code contexts and executions over HTTPS: a body or a query, one call of the broker's, and its answer. */
#include "base/clock.h"
#include "base/schema.h"
#include "base/text.h"
#include "muxd/doors/https/body.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/broker/broker_context.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/hub.h"

#include <stdlib.h>
#include <string.h>

#define MS_MAX (INT64_C(365) * 24 * 3600 * 1000)

struct context_fields {
	const char *language, *code, *task, *exec_id, *cwd;
	const json_t *env;
	int64_t timeout_ms, wait_ms;
};

/* The fields of bodies, by what each is for. */
#define F_TASK                                                                                                         \
	{                                                                                                              \
		"task_id", SCHEMA_TEXT, false, 1, 0, body_check_name, SCHEMA_TO(struct context_fields, task)           \
	}
#define F_ENV                                                                                                          \
	{                                                                                                              \
		"env", SCHEMA_OBJECT, false, 0, 0, body_check_env, SCHEMA_TO(struct context_fields, env)               \
	}
#define F_CWD                                                                                                          \
	{                                                                                                              \
		"cwd", SCHEMA_TEXT, false, 1, 0, NULL, SCHEMA_TO(struct context_fields, cwd)                           \
	}
#define F_CODE                                                                                                         \
	{                                                                                                              \
		"code", SCHEMA_TEXT, true, 1, 0, NULL, SCHEMA_TO(struct context_fields, code)                          \
	}
#define F_TIMEOUT(max, check)                                                                                          \
	{                                                                                                              \
		"timeout_ms", SCHEMA_INTEGER, false, 1, max, check, SCHEMA_TO(struct context_fields, timeout_ms)       \
	}
#define F_ANSWER                                                                                                       \
	{"exec_id", SCHEMA_TEXT, false, 1, 0, body_check_name, SCHEMA_TO(struct context_fields, exec_id)},             \
	{                                                                                                              \
		"yield_ms", SCHEMA_INTEGER, false, 0, MS_MAX, NULL, SCHEMA_TO(struct context_fields, wait_ms)          \
	}

static int check_language(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	enum context_language l;

	return context_language_parse(json_string_value(v), &l)
		   ? schema_fault(s, at, ERR_INVAL, "is none of python, javascript and bash")
		   : 0;
}

static const struct schema_field create_fields[] = {
    {"language", SCHEMA_TEXT, true, 0, 0, check_language, SCHEMA_TO(struct context_fields, language)},
    F_CWD,
    F_ENV,
    F_TASK,
};
static const struct schema_field reset_fields[] = {F_ENV, F_TASK};
static const struct schema_field execute_fields[] = {F_CODE, F_TIMEOUT(MS_MAX, body_check_timeout), F_TASK, F_ANSWER};
static const struct schema_field python_fields[] = {
    F_CODE, F_TIMEOUT(PYTHON_TIMEOUT_MAX_NS / NS_PER_MS, NULL), F_CWD, F_ENV, F_TASK, F_ANSWER,
};

static const struct context_row {
	const char *call;
	const struct schema_field *fields;
	size_t n;
	void (*ask)(struct hub *h, const struct request *rq, const struct context_wish *w, broker_json_done *done,
		    void *arg);
	broker_json_done *reply;
} rows[];

static void executed(void *arg, int rc, const struct err *e, json_t *answer)
{
	struct http_exchange *x = arg;
	bool runs = rc == 0 && strcmp(json_get_text(answer, "state"), "running") == 0;

	if (rc) {
		http_reply_error(x, rc, e);
		return;
	}
	if (runs)
		text_format(x->location, sizeof(x->location), "/v1/executions/%s",
			    json_get_text(answer, "execution_id"));
	http_reply_json(x, runs && x->method == HTTP_POST ? 202 : 200, answer);
}

static const struct context_row rows[] = {
    {"create", SCHEMA_FIELDS(create_fields), broker_context_create, http_reply_created},
    {"reset", SCHEMA_FIELDS(reset_fields), broker_context_reset, http_reply_result},
    {"interrupt", reset_fields + 1, 1, broker_context_interrupt, http_reply_result},
    {"delete", NULL, 0, broker_context_delete, http_reply_result},
    {"show", NULL, 0, broker_context_show, http_reply_result},
    {"execute", SCHEMA_FIELDS(execute_fields), broker_context_execute, executed},
    {"python", SCHEMA_FIELDS(python_fields), broker_python, executed},
};

static int context_body(struct http_exchange *x, const struct context_row *row, struct context_fields *f, json_t **out,
			struct err *e)
{
	struct round_limits limits;
	struct schema s = {.out = f, .limit = &limits, .e = e, .null_is_absent = true};
	int rc = row->fields ? rest_body_any(x, out, e) : 0;

	round_limits_from_conf(hub_conf(x->hub), &limits);
	if (rc || !row->fields)
		return rc;
	if (!*out && !(*out = json_object()))
		return err_set(e, ERR_NOMEM, "out of memory");
	return schema_object(&s, NULL, *out, row->fields, row->n);
}

void rest_context(struct http_exchange *x)
{
	const struct context_row *row = rows;
	struct context_fields f = {.wait_ms = -1};
	struct context_wish w = {.agent = x->params[0], .id = x->object};
	json_t *body = NULL;
	char **env = NULL;
	struct err e = {0};
	int rc;

	while (strcmp(row->call, x->route->call) != 0)
		row++;
	rc = context_body(x, row, &f, &body, &e);
	if (rc == 0 && f.env && body_env(f.env, &env))
		rc = err_set(&e, ERR_NOMEM, "out of memory");
	if (rc) {
		http_reply_error(x, rc, &e);
		goto out;
	}
	w.task = f.task ? f.task : http_query_str(x, "task_id");
	w.exec_id = f.exec_id;
	w.cwd = f.cwd;
	w.env = (const char *const *)env;
	w.code = f.code;
	w.code_len = f.code ? strlen(f.code) : 0;
	w.timeout_ns = (uint64_t)f.timeout_ms * NS_PER_MS;
	w.wait_ns = rest_wait_ns(x, f.wait_ms);
	if (f.language)
		(void)context_language_parse(f.language, &w.language);
	row->ask(x->hub, &x->rq, &w, row->reply, x);
out:
	body_env_free(env);
	json_decref(body);
}

void rest_execution(struct http_exchange *x)
{
	int64_t wait_ms = 0;
	struct err e = {0};
	int rc = http_query_int(x, "yield_ms", 0, MS_MAX, &wait_ms, &e);

	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	x->waits = x->object;
	broker_execution(x->hub, &x->rq, &x->object, rest_wait_ns(x, wait_ms), executed, x);
}
