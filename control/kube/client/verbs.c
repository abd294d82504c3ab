#include "control/kube/client/verbs.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "control/kube/client/url.h"

#include <stdio.h>
#include <string.h>

#define PATH_MAX_BYTES  4096
#define QUERY_MAX_BYTES (64 * 1024) /* a continue token can be long */
#define WHAT_SIZE       200

/* One question being put together. */
struct draft {
	struct kube_request request;
	struct buf path, query;
	char what[WHAT_SIZE], right[WHAT_SIZE];
	int rc;
};

/* --- names */

static int add_part(struct buf *b, const char *part)
{
	if (!*part || strcmp(part, ".") == 0 || strcmp(part, "..") == 0)
		return ERR_INVAL;
	int rc = buf_append_str(b, "/");
	return rc == 0 ? kube_url_escape(b, part) : rc;
}

int kube_ref_path(struct buf *b, const struct kube_ref *r)
{
	bool core = !r->group || !*r->group;
	int rc = buf_append_str(b, core ? "/api" : "/apis");

	if (rc == 0 && !core)
		rc = add_part(b, r->group);
	if (rc == 0)
		rc = add_part(b, r->version ? r->version : "v1");
	if (rc == 0 && r->namespace_)
		rc = buf_append_str(b, "/namespaces");
	if (rc == 0 && r->namespace_)
		rc = add_part(b, r->namespace_);
	if (rc == 0)
		rc = add_part(b, r->resource);
	if (rc == 0 && r->name)
		rc = add_part(b, r->name);
	if (rc == 0 && r->subresource)
		rc = add_part(b, r->subresource);
	return rc;
}

void kube_ref_text(const char *verb, const struct kube_ref *r, char *out, size_t size)
{
	text_format(out, size, "%s %s%s%s%s%s%s%s", verb, r->resource, r->name ? "/" : "", r->name ? r->name : "",
		    r->subresource ? "/" : "", r->subresource ? r->subresource : "", r->namespace_ ? " in " : "",
		    r->namespace_ ? r->namespace_ : "");
}

void kube_ref_right(const char *verb, const struct kube_ref *r, char *out, size_t size)
{
	bool core = !r->group || !*r->group;

	text_format(out, size, "%s %s%s%s%s%s%s%s", verb, r->resource, core ? "" : ".", core ? "" : r->group,
		    r->subresource ? "/" : "", r->subresource ? r->subresource : "", r->namespace_ ? " in " : "",
		    r->namespace_ ? r->namespace_ : "");
}

int kube_query_add(struct buf *b, const char *key, const char *value)
{
	if (!value || !*value)
		return 0;
	int rc = buf_printf(b, "%s%s=", buf_len(b) ? "&" : "", key);
	return rc == 0 ? kube_url_escape(b, value) : rc;
}

/* --- drafts */

static void draft_init(struct draft *d, const char *method, const char *verb, const struct kube_ref *r)
{
	*d = (struct draft){.request = {.method = method}};
	buf_init(&d->path, PATH_MAX_BYTES);
	buf_init(&d->query, QUERY_MAX_BYTES);
	kube_ref_text(verb, r, d->what, sizeof(d->what));
	kube_ref_right(verb, r, d->right, sizeof(d->right));
	d->rc = kube_ref_path(&d->path, r);
}

static void draft_query(struct draft *d, const char *key, const char *value)
{
	if (d->rc == 0)
		d->rc = kube_query_add(&d->query, key, value);
}

static void draft_number(struct draft *d, const char *key, int64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)n);
	draft_query(d, key, text);
}

static int draft_send(struct draft *d, struct kube *k, kube_done *done, void *arg, struct kube_call **out,
		      struct err *e)
{
	d->request.path = buf_cstr(&d->path);
	d->request.query = buf_cstr(&d->query);
	d->request.what = d->what;
	d->request.right = d->right;
	if (d->rc == 0 && (!d->request.path || !d->request.query))
		d->rc = ERR_NOMEM;
	if (d->rc < 0)
		err_set(e, d->rc, "%s: a name or a selector is empty, or too long", d->what);
	else
		d->rc = kube_request(k, &d->request, done, arg, out, e);
	buf_finish(&d->path);
	buf_finish(&d->query);
	return d->rc;
}

/* --- verbs */

int kube_get(struct kube *k, const struct kube_ref *r, kube_done *done, void *arg, struct kube_call **out,
	     struct err *e)
{
	struct draft d;

	draft_init(&d, "GET", "get", r);
	d.request.answer = r->subresource ? KUBE_ANSWER_JSON : KUBE_ANSWER_OBJECT;
	return draft_send(&d, k, done, arg, out, e);
}

int kube_get_group(struct kube *k, const char *group, kube_done *done, void *arg, struct kube_call **out, struct err *e)
{
	struct draft d = {.request = {.method = "GET", .answer = KUBE_ANSWER_JSON}};

	buf_init(&d.path, PATH_MAX_BYTES);
	buf_init(&d.query, QUERY_MAX_BYTES);
	text_format(d.what, sizeof(d.what), "get the versions of %s", group);
	text_format(d.right, sizeof(d.right), "get /apis/%s", group);
	d.rc = buf_append_str(&d.path, "/apis");
	if (d.rc == 0)
		d.rc = add_part(&d.path, group);
	return draft_send(&d, k, done, arg, out, e);
}

int kube_list(struct kube *k, const struct kube_ref *r, const struct kube_list_options *o, kube_done *done, void *arg,
	      struct kube_call **out, struct err *e)
{
	struct draft d;

	draft_init(&d, "GET", "list", r);
	draft_query(&d, "labelSelector", o->labels);
	draft_query(&d, "fieldSelector", o->fields);
	if (o->limit)
		draft_number(&d, "limit", o->limit);
	draft_query(&d, "continue", o->continue_);
	d.request.answer = KUBE_ANSWER_LIST;
	return draft_send(&d, k, done, arg, out, e);
}

int kube_create(struct kube *k, const struct kube_ref *r, const json_t *object, kube_done *done, void *arg,
		struct kube_call **out, struct err *e)
{
	struct kube_ref to = *r;
	struct draft d;

	if (!to.subresource)
		to.name = NULL;
	draft_init(&d, "POST", "create", &to);
	if (!r->subresource)
		kube_ref_text("create", r, d.what, sizeof(d.what));
	draft_query(&d, "fieldManager", KUBE_FIELD_MANAGER);
	d.request.body = object;
	d.request.answer = KUBE_ANSWER_JSON;
	return draft_send(&d, k, done, arg, out, e);
}

int kube_patch(struct kube *k, const struct kube_ref *r, enum kube_patch_kind kind, const json_t *patch,
	       kube_done *done, void *arg, struct kube_call **out, struct err *e)
{
	static const char *const types[] = {
	    [KUBE_PATCH_JSON] = "application/json-patch+json",
	    [KUBE_PATCH_MERGE] = "application/merge-patch+json",
	    [KUBE_PATCH_STRATEGIC] = "application/strategic-merge-patch+json",
	};
	struct draft d;

	draft_init(&d, "PATCH", "patch", r);
	draft_query(&d, "fieldManager", KUBE_FIELD_MANAGER);
	d.request.body = patch;
	d.request.content_type = types[kind];
	d.request.answer = KUBE_ANSWER_JSON;
	return draft_send(&d, k, done, arg, out, e);
}

static json_t *delete_body(const struct kube_delete_options *o)
{
	json_t *body = json_pack("{s:s, s:s}", "apiVersion", "v1", "kind", "DeleteOptions");

	if (o->uid)
		json_object_set_new(body, "preconditions", json_pack("{s:s}", "uid", o->uid));
	if (o->propagation)
		json_object_set_new(body, "propagationPolicy", json_string(o->propagation));
	if (o->grace_s >= 0)
		json_object_set_new(body, "gracePeriodSeconds", json_integer(o->grace_s));
	return body;
}

int kube_delete(struct kube *k, const struct kube_ref *r, const struct kube_delete_options *o, kube_done *done,
		void *arg, struct kube_call **out, struct err *e)
{
	static const struct kube_delete_options any = {.grace_s = -1};
	json_t *body = delete_body(o ? o : &any);
	struct draft d;

	draft_init(&d, "DELETE", "delete", r);
	d.request.body = body;
	d.request.repeatable = true;
	if (!r->name)
		d.rc = ERR_INVAL; /* it would be the whole collection */
	else if (!body)
		d.rc = ERR_NOMEM;
	int rc = draft_send(&d, k, done, arg, out, e);
	json_decref(body);
	return rc;
}

int kube_logs(struct kube *k, const struct kube_ref *r, const struct kube_log_options *o, kube_done *done, void *arg,
	      struct kube_call **out, struct err *e)
{
	struct kube_ref log = *r;
	struct draft d;

	log.subresource = "log";
	draft_init(&d, "GET", "get", &log);
	draft_query(&d, "container", o->container);
	if (o->tail_lines >= 0)
		draft_number(&d, "tailLines", o->tail_lines);
	if (o->limit_bytes > 0)
		draft_number(&d, "limitBytes", o->limit_bytes);
	if (o->since_s > 0)
		draft_number(&d, "sinceSeconds", o->since_s);
	draft_query(&d, "previous", o->previous ? "true" : NULL);
	draft_query(&d, "timestamps", o->timestamps ? "true" : NULL);
	draft_query(&d, "follow", o->follow && o->data ? "true" : NULL);
	d.request.accept = "*/*";
	d.request.plain = true;
	d.request.data = o->data;
	return draft_send(&d, k, done, arg, out, e);
}
