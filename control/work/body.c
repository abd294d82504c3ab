#include "control/work/body.h"

#include "base/err.h"
#include "base/json.h"
#include "control/work/workflow.h"

#include <string.h>

static int copy_name(const json_t *o, const char *key, char out[WORK_NAME_MAX + 1], struct err *e)
{
	const char *s;
	int rc = json_need_str(o, key, &s, e);

	if (!rc)
		rc = token_name_check(key, s, e);
	if (!rc)
		memcpy(out, s, strlen(s) + 1); /* 128 at most */
	return rc;
}

static int copy_workflow(const json_t *o, char out[WORK_NAME_MAX + 1], struct err *e)
{
	char name[WORKFLOW_NAME_MAX + 1];
	int64_t version;
	int rc = copy_name(o, "workflowId", out, e);

	return rc ? rc : workflow_id_parse(out, name, &version, e);
}

static int seconds(const json_t *o, const char *key, int64_t max, const char *setting, int64_t *out, struct err *e)
{
	*out = 0;
	if (json_opt_int(o, key, 1, max, out, NULL))
		return err_set(e, ERR_INVAL, "%s must be a number of seconds from 1 to %lld (%s)", key, (long long)max,
			       setting);
	return 0;
}

int lease_body(const json_t *o, const struct work_limits *l, struct lease_row *out, struct err *e)
{
	static const char *const keys[] = {"userId", "workflowId", "requestId", "ttlSeconds", NULL};
	struct lease_row r = *out;
	int rc = json_only_keys(o, keys, e);

	if (rc || (rc = copy_name(o, "userId", r.user, e)) || (rc = copy_workflow(o, r.workflow, e)) ||
	    (rc = copy_name(o, "requestId", r.request, e)) ||
	    (rc = seconds(o, "ttlSeconds", l->ttl_max_s, "leases.ttl_max", &r.asked_ttl_s, e)))
		return rc;
	r.ttl_s = r.asked_ttl_s ? r.asked_ttl_s : l->ttl_s;
	*out = r;
	return 0;
}

static int take_token(const json_t *o, struct run_body *out, struct err *e)
{
	const json_t *v = json_object_get(o, "token");

	if (!json_is_string(v) || !json_string_length(v))
		return err_set(e, ERR_INVAL, v ? "token must be a string that is not empty" : "token is missing");
	if (json_string_length(v) > WORK_TOKEN_MAX)
		return err_set(e, ERR_TOO_LARGE, "token has %zu bytes, %d are allowed", json_string_length(v),
			       WORK_TOKEN_MAX);
	out->token = json_string_value(v);
	out->token_len = json_string_length(v);
	return 0;
}

int run_body(const json_t *o, const struct work_limits *l, struct run_body *out, struct err *e)
{
	static const char *const keys[] = {"leaseId", "workflowId", "runId", "token", "timeoutSeconds", NULL};
	struct run_body r = {0};
	const char *lease;
	struct id id;
	int rc = json_only_keys(o, keys, e);

	if (rc || (rc = json_need_str(o, "leaseId", &lease, e)))
		return rc;
	if (id_parse(lease, &id))
		return err_set(e, ERR_INVAL, "leaseId is not the id of a lease");
	id_format(&id, r.lease);
	if ((rc = copy_workflow(o, r.workflow, e)) || (rc = copy_name(o, "runId", r.run, e)) ||
	    (rc = take_token(o, &r, e)) ||
	    (rc = seconds(o, "timeoutSeconds", l->run_timeout_max_s, "leases.run_timeout_max", &r.asked_timeout_s, e)))
		return rc;
	if (strchr(r.run, '/'))
		return err_set(e, ERR_INVAL, "runId has a slash: it is a part of paths");
	*out = r;
	return 0;
}
