#define LOG_SUBSYS "rest"
#include "muxd/doors/rest/admission.h"
#include "muxd/base/err.h"
#include "muxd/base/log.h"
#include "muxd/base/text.h"
#include "muxd/doors/rest/handlers.h"
#include "muxd/hub/hub.h"

#include <stdio.h>
#include <string.h>

#define VERSION "admission.k8s.io/v1"
#define KIND    "AdmissionReview"
#define UID_MAX 128

/* Borrowed from the review; "" where nothing is said. */
struct question {
	const char *uid, *user, *operation, *resource, *sub, *ns, *name, *container;
};

static int read_resource(const json_t *request, struct question *q, struct err *e)
{
	const json_t *r = json_object_get(request, "resource");

	if (!json_is_object(r))
		return err_set(e, ERR_INVAL, "request.resource is missing");
	return json_need_str(r, "resource", &q->resource, e);
}

static int read_user(const json_t *request, struct question *q, struct err *e)
{
	const json_t *u = json_object_get(request, "userInfo");

	if (!json_is_object(u))
		return err_set(e, ERR_INVAL, "request.userInfo is missing");
	return json_need_str(u, "username", &q->user, e);
}

/* PodExecOptions and its like name the container that is meant. */
static void read_container(const json_t *request, struct question *q)
{
	const char *s = json_string_value(json_object_get(json_object_get(request, "object"), "container"));

	q->container = s ? s : "";
}

static int read_request(const json_t *request, struct question *q, struct err *e)
{
	int rc = json_need_str(request, "uid", &q->uid, e);

	if (rc == 0 && (!*q->uid || strlen(q->uid) > UID_MAX))
		rc = err_set(e, ERR_INVAL, "request.uid is empty, or longer than %d bytes", UID_MAX);
	if (rc == 0)
		rc = json_need_str(request, "operation", &q->operation, e);
	if (rc == 0)
		rc = json_opt_str(request, "subResource", &q->sub, e);
	if (rc == 0)
		rc = json_opt_str(request, "namespace", &q->ns, e);
	if (rc == 0)
		rc = json_opt_str(request, "name", &q->name, e);
	if (rc == 0)
		rc = read_resource(request, q, e);
	if (rc == 0)
		rc = read_user(request, q, e);
	if (rc == 0)
		read_container(request, q);
	return rc;
}

static int read_review(const json_t *o, struct question *q, struct err *e)
{
	const char *version = "", *kind = "";
	const json_t *request;
	int rc;

	if (!json_is_object(o))
		return err_set(e, ERR_INVAL, "the body must be a JSON object");
	rc = json_need_str(o, "apiVersion", &version, e);
	if (rc == 0)
		rc = json_need_str(o, "kind", &kind, e);
	if (rc)
		return rc;
	if (strcmp(version, VERSION) != 0 || strcmp(kind, KIND) != 0)
		return err_set(e, ERR_INVAL, "this is %.40s of %.40s; " KIND " of " VERSION " is answered", kind,
			       version);
	request = json_object_get(o, "request");
	if (!json_is_object(request))
		return err_set(e, ERR_INVAL, "request is missing");
	return read_request(request, q, e);
}

static bool about(const struct question *q, const char *operation, const char *sub)
{
	return strcmp(q->resource, "pods") == 0 && strcmp(q->operation, operation) == 0 && strcmp(q->sub, sub) == 0;
}

/* What a person at kubectl reads. */
static void say_why(const struct question *q, char *out, size_t size)
{
	const char *slash = *q->container ? "/" : "";

	if (about(q, "CONNECT", "exec") || about(q, "CONNECT", "attach"))
		text_format(
		    out, size,
		    "%.63s/%.253s is a sandbox, which is entered through muxd, so that it is recorded: muxctl exec "
		    "%.63s/%.253s%s%.63s -- COMMAND, or ssh -l %.63s/%.253s%s%.63s to muxd's SSH door, with a grant",
		    q->ns, q->name, q->ns, q->name, slash, q->container, q->ns, q->name, slash, q->container);
	else if (about(q, "CONNECT", "portforward") || about(q, "CONNECT", "proxy"))
		text_format(
		    out, size,
		    "%.63s/%.253s is a sandbox, which takes no connections: what it has to say goes through muxd, "
		    "where it is recorded",
		    q->ns, q->name);
	else if (about(q, "UPDATE", "ephemeralcontainers"))
		text_format(
		    out, size,
		    "%.63s/%.253s is a sandbox, which gets no further containers; enter it through muxd, where it is "
		    "recorded",
		    q->ns, q->name);
	else
		text_format(out, size,
			    "muxd was asked about %.20s of %.63s%s%.63s, which its webhook is not for: correct the "
			    "ValidatingWebhookConfiguration",
			    q->operation, q->resource, *q->sub ? "/" : "", q->sub);
}

static json_t *make_answer(const struct question *q, bool allowed)
{
	json_t *response = json_pack("{s:s,s:b}", "uid", q->uid, "allowed", (int)allowed);
	char why[1600];

	if (response && !allowed) {
		say_why(q, why, sizeof(why));
		/* cut in the middle of a character, it would be no JSON */
		if (json_object_set_new(response, "status",
					json_pack("{s:i,s:s,s:s}", "code", 403, "reason", "Forbidden", "message",
						  utf8_valid((const uint8_t *)why, strlen(why))
						      ? why
						      : "sandboxes are entered through muxd")))
			goto fail;
	}
	return json_pack("{s:s,s:s,s:o}", "apiVersion", VERSION, "kind", KIND, "response", response);
fail:
	json_decref(response);
	return NULL;
}

int admission_review(const void *text, size_t len, size_t max, const char *user, json_t **out_answer,
		     struct admission_verdict *out, struct err *e)
{
	struct question q = {"", "", "", "", "", "", "", ""};
	json_t *o = NULL, *answer;
	int rc = json_parse(text, len, max, &o, e);

	if (rc == 0)
		rc = read_review(o, &q, e);
	if (rc)
		goto out;
	out->allowed = *user && strcmp(q.user, user) == 0;
	answer = make_answer(&q, out->allowed);
	if (!answer) {
		rc = err_set(e, ERR_NOMEM, "out of memory");
		goto out;
	}
	text_put(out->user, sizeof(out->user), q.user);
	text_format(out->what, sizeof(out->what), "%.20s %.40s%s%.40s %.63s/%.80s", q.operation, q.resource,
		    *q.sub ? "/" : "", q.sub, q.ns, q.name);
	*out_answer = answer;
out:
	json_decref(o);
	return rc;
}

void rest_admission(struct http_exchange *x)
{
	static const char *const keys[] = {"timeout", NULL}; /* the API server says how long it will wait */
	const struct conf *c = hub_conf(x->hub);
	struct admission_verdict v = {0};
	json_t *answer = NULL;
	struct err e = {0};
	int rc = http_query_only(x, keys, &e);

	if (rc == 0 && !*c->kubernetes_admission_user)
		rc = err_set(&e, ERR_UNSUPPORTED,
			     "this daemon is no admission webhook: kubernetes.admission_user is not set");
	if (rc == 0)
		rc = admission_review(buf_ptr(&x->body), buf_len(&x->body), c->api_max_body,
				      c->kubernetes_admission_user, &answer, &v, &e);
	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	log_info(&(struct log_ids){.request = x->id_text, .peer = x->peer}, "admission %s: %s by %s",
		 v.allowed ? "allowed" : "denied", v.what, v.user);
	http_reply_json(x, 200, answer);
	json_decref(answer);
}
