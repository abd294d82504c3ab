/* POST /v1/grants: a grant for whom the cluster would let exec. */
#include "base/clock.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/hub/hub.h"

#include <string.h>

static json_t *grants_describe(const struct request *rq)
{
	char id[ID_STR_LEN], scopes[128], ends[32];
	json_t *o;

	id_format(&rq->grant.id, id);
	grant_scopes_format(rq->grant.scopes, scopes, sizeof(scopes));
	clock_format_utc(rq->grant.expires_ns, ends, sizeof(ends));
	o = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "id", id, "token", rq->token, "principal",
		      rq->grant.principal, "kind", grant_kind_name(rq->grant.kind), "target", rq->grant.agent, "scopes",
		      scopes, "task_id", rq->grant.task, "reason", rq->grant.reason, "expires_at", ends);
	if (o && grant_files_put(o, &rq->grant.files)) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static void grants_on_grant(void *arg, int rc, const struct err *e, const struct request *rq)
{
	json_t *o = rc ? NULL : grants_describe(rq);

	http_reply_created(arg, rc, e, o);
	json_decref(o);
}

static int read_ttl(const json_t *o, uint64_t *out, struct err *e)
{
	const char *text = NULL;
	int rc = json_opt_str(o, "ttl", &text, e);

	if (rc || !text)
		return rc;
	if (clock_parse_duration(text, out) || *out == 0)
		return err_set(e, ERR_INVAL, "ttl is \"%.40s\", not a time such as 15m", text);
	return 0;
}

static int read_wish(const json_t *o, struct staff_wish *w, struct err *e)
{
	const char *scopes = NULL;
	int rc;

	if ((rc = json_need_str(o, "target", &w->agent, e)) || (rc = json_opt_str(o, "reason", &w->reason, e)) ||
	    (rc = json_opt_str(o, "task_id", &w->task, e)) || (rc = json_opt_str(o, "scopes", &scopes, e)) ||
	    (rc = read_ttl(o, &w->ttl_ns, e)) || (rc = grant_files_take(o, &w->files, e)))
		return rc;
	if (!w->reason)
		return err_set(e, ERR_REASON_REQUIRED, "reason is missing");
	return scopes ? grant_scopes_parse(scopes, &w->scopes, e) : 0;
}

void rest_grant_create(struct http_exchange *x)
{
	static const char *const keys[] = {"target", "reason", "task_id",  "scopes", "ttl",
					   "read",   "write",  "file_max", NULL};
	struct staff_wish w = {.token = x->token};
	struct origin from = http_origin(x, "rest");
	json_t *body = NULL;
	struct err e = {0};
	int rc = rest_body_object(x, keys, true, &body, &e);

	if (rc == 0)
		rc = read_wish(body, &w, &e);
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_issue_cluster(x->hub, &w, &from, grants_on_grant, x);
	json_decref(body);
}
