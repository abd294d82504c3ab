/* /v1/grants: a grant for whom the cluster would let exec, for a token of an outside issuer, or made from the caller's
 * own; renewal, list, end. */
#include "base/clock.h"
#include "base/schema.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/hub/broker/broker_grant.h"
#include "muxd/hub/core/hub.h"

#include <string.h>

#define ISSUER_NAME_MAX 32

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

static void create_by_cluster(struct http_exchange *x)
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

/* ---- a holder's own */

/* As the monitor describes it, in the API's words; token NULL: not shown. */
static json_t *grant_shown(const json_t *o, const char *token)
{
	static const char *const kept[] = {"id",        "principal",  "kind",       "scopes", "reason",
					   "issued_at", "expires_at", "read",       "write",  "file_max",
					   "first",     "above",      "revoked",    "edge",   "task_asked",
					   "uses",      "used",       "operations", NULL};
	json_t *shown = json_pack("{s:s*,s:O*,s:O*}", "token", token, "target", json_object_get(o, "agent"), "task_id",
				  json_object_get(o, "task"));

	for (size_t i = 0; shown && kept[i]; i++)
		if (json_object_get(o, kept[i]))
			json_object_set(shown, kept[i], json_object_get(o, kept[i]));
	return shown;
}

static void grants_on_made(void *arg, int rc, const struct err *e, json_t *result)
{
	json_t *o =
	    rc ? NULL
	       : grant_shown(json_object_get(result, "grant"), json_string_value(json_object_get(result, "token")));

	http_reply_created(arg, rc, e, o);
	json_decref(o);
}

struct child_fields {
	struct child_wish w;
	const char *scopes, *operations, *ttl, *issuer;
	const json_t *read, *write;
	int64_t file_max, uses;
};
static const struct schema_field child_fields[] = {
    {"reason", SCHEMA_TEXT, false, 0, 0, NULL, SCHEMA_TO(struct child_fields, w.reason)},
    {"ttl", SCHEMA_TEXT, false, 1, 0, NULL, SCHEMA_TO(struct child_fields, ttl)},
    {"target", SCHEMA_TEXT, false, 1, AGENT_NAME_MAX, NULL, SCHEMA_TO(struct child_fields, w.agent)},
    {"principal", SCHEMA_TEXT, false, 1, GRANT_NAME_MAX, NULL, SCHEMA_TO(struct child_fields, w.principal)},
    {"kind", SCHEMA_TEXT, false, 1, 0, NULL, SCHEMA_TO(struct child_fields, w.kind)},
    {"task_id", SCHEMA_TEXT, false, 1, GRANT_NAME_MAX, NULL, SCHEMA_TO(struct child_fields, w.task)},
    {"scopes", SCHEMA_TEXT, false, 1, 0, NULL, SCHEMA_TO(struct child_fields, scopes)},
    {"read", SCHEMA_LIST, false, 0, 0, NULL, SCHEMA_TO(struct child_fields, read)},
    {"write", SCHEMA_LIST, false, 0, 0, NULL, SCHEMA_TO(struct child_fields, write)},
    {"file_max", SCHEMA_INTEGER, false, 1, INT64_MAX, NULL, SCHEMA_TO(struct child_fields, file_max)},
    {"uses", SCHEMA_INTEGER, false, 1, GRANT_USES_MAX, NULL, SCHEMA_TO(struct child_fields, uses)},
    {"operations", SCHEMA_TEXT, false, 1, 0, NULL, SCHEMA_TO(struct child_fields, operations)},
    {"edge", SCHEMA_TEXT, false, 1, GRANT_NAME_MAX, NULL, SCHEMA_TO(struct child_fields, w.edge)},
};
#define RENEWAL_FIELDS 2                                /* the first of them are of a renewal, too */
#define CHILD_FIELDS   (SCHEMA_COUNT(child_fields) - 1) /* the last is of a lease for an edge alone */

/* The fields of a body that a schema does not read. */
static int take_child(const json_t *body, struct child_fields *out, uint64_t *out_ttl, struct err *e)
{
	int rc;

	if (!out->w.reason)
		return err_set(e, ERR_REASON_REQUIRED, "reason is missing");
	if ((rc = read_ttl(body, out_ttl, e)) || (rc = grant_files_take(body, &out->w.files, e)) ||
	    (rc = grant_bounds_take(body, &out->w.bounds, e)))
		return rc;
	return out->scopes ? grant_scopes_parse(out->scopes, &out->w.scopes, e) : 0;
}

static int read_child(struct http_exchange *x, size_t fields, struct child_fields *out, uint64_t *out_ttl,
		      json_t **body, struct err *e)
{
	struct schema s = {.out = out, .e = e, .null_is_absent = true};
	int rc = rest_body_any(x, body, e);

	rc = rc ? rc : schema_object(&s, NULL, *body, child_fields, fields);
	return rc ? rc : take_child(*body, out, out_ttl, e);
}

static void create_child(struct http_exchange *x, size_t fields)
{
	struct child_fields f = {0};
	struct grant_ask a = {.call = GRANT_CHILD, .child = &f.w};
	json_t *body = NULL;
	struct err e = {0};
	int rc = read_child(x, fields, &f, &a.ttl_ns, &body, &e);

	if (rc == 0 && fields > CHILD_FIELDS && !f.w.edge)
		rc = err_set(&e, ERR_INVAL, "edge is missing: the name of one of edge.known");
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_grant(x->hub, &x->rq, &a, grants_on_made, x);
	json_decref(body);
}

/* For a token of an outside issuer, which the body names: whose the bearer token is does not go by what it looks like.
 */
static const struct schema_field exchange_fields[] = {
    {"issuer", SCHEMA_TEXT, true, 1, ISSUER_NAME_MAX, NULL, SCHEMA_TO(struct child_fields, issuer)},
    {"reason", SCHEMA_TEXT, false, 0, 0, NULL, SCHEMA_TO(struct child_fields, w.reason)},
    {"ttl", SCHEMA_TEXT, false, 1, 0, NULL, SCHEMA_TO(struct child_fields, ttl)},
    {"target", SCHEMA_TEXT, false, 1, AGENT_NAME_MAX, NULL, SCHEMA_TO(struct child_fields, w.agent)},
    {"task_id", SCHEMA_TEXT, false, 1, GRANT_NAME_MAX, NULL, SCHEMA_TO(struct child_fields, w.task)},
    {"scopes", SCHEMA_TEXT, false, 1, 0, NULL, SCHEMA_TO(struct child_fields, scopes)},
    {"read", SCHEMA_LIST, false, 0, 0, NULL, SCHEMA_TO(struct child_fields, read)},
    {"write", SCHEMA_LIST, false, 0, 0, NULL, SCHEMA_TO(struct child_fields, write)},
    {"file_max", SCHEMA_INTEGER, false, 1, INT64_MAX, NULL, SCHEMA_TO(struct child_fields, file_max)},
    {"uses", SCHEMA_INTEGER, false, 1, GRANT_USES_MAX, NULL, SCHEMA_TO(struct child_fields, uses)},
    {"operations", SCHEMA_TEXT, false, 1, 0, NULL, SCHEMA_TO(struct child_fields, operations)},
};

static void create_by_issuer(struct http_exchange *x, const json_t *body)
{
	struct child_fields f = {0};
	struct err e = {0};
	struct schema s = {.out = &f, .e = &e, .null_is_absent = true};
	struct origin from = http_origin(x, "rest");
	struct grant_exchange ask = {.token = x->token, .wish = &f.w};
	int rc = schema_object(&s, NULL, body, exchange_fields, SCHEMA_COUNT(exchange_fields));

	if (rc == 0)
		rc = take_child(body, &f, &ask.ttl_ns, &e);
	ask.issuer = f.issuer;
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_exchange(x->hub, &ask, &from, grants_on_made, x);
}

static void create_by_token(struct http_exchange *x)
{
	json_t *body = NULL;
	struct err e = {0};
	int rc = rest_body_any(x, &body, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else if (json_object_get(body, "issuer"))
		create_by_issuer(x, body);
	else
		create_by_cluster(x);
	json_decref(body);
}

void rest_grant_create(struct http_exchange *x)
{
	if (x->authenticated)
		create_child(x, CHILD_FIELDS);
	else
		create_by_token(x);
}

void rest_edge_lease(struct http_exchange *x)
{
	create_child(x, CHILD_FIELDS + 1);
}

void rest_grant_renew(struct http_exchange *x)
{
	struct child_fields f = {0};
	struct grant_ask a = {.call = GRANT_RENEW};
	json_t *body = NULL;
	struct err e = {0};
	int rc = read_child(x, RENEWAL_FIELDS, &f, &a.ttl_ns, &body, &e);

	a.reason = f.w.reason;
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_grant(x->hub, &x->rq, &a, grants_on_made, x);
	json_decref(body);
}

static void grants_on_list(void *arg, int rc, const struct err *e, json_t *result)
{
	json_t *list = rc ? NULL : json_array(), *o = NULL;
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(result, "grants"), i, one)
	    json_array_append_new(list, grant_shown(one, NULL));
	if (list)
		o = json_pack("{s:o,s:b}", "grants", list, "more", json_is_true(json_object_get(result, "more")));
	http_reply_result(arg, rc, e, o);
	json_decref(o);
}

void rest_grant_list(struct http_exchange *x)
{
	struct grant_ask a = {.call = GRANT_LIST, .before = http_query_str(x, "before"), .limit = 100};
	struct err e = {0};
	int rc = http_query_int(x, "limit", 1, 1000, &a.limit, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_grant(x->hub, &x->rq, &a, grants_on_list, x);
}

static void grants_on_revoked(void *arg, int rc, const struct err *e, json_t *result)
{
	json_t *o = rc ? NULL : json_pack("{s:O,s:b}", "id", json_object_get(result, "id"), "revoked", 1);

	http_reply_result(arg, rc, e, o);
	json_decref(o);
}

void rest_grant_revoke(struct http_exchange *x)
{
	struct grant_ask a = {.call = GRANT_REVOKE, .id = x->params[0]};

	broker_grant(x->hub, &x->rq, &a, grants_on_revoked, x);
}
