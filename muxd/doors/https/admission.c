#define LOG_SUBSYS "rest"
#include "muxd/doors/https/admission.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "base/utf8.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/node_path.h"
#include "muxd/hub/core/hub.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define VERSION "admission.k8s.io/v1"
#define KIND    "AdmissionReview"
#define UID_MAX 128

/* Borrowed from the review; "" where nothing is said. */
struct question {
	const char *uid, *user, *operation, *resource, *sub, *ns, *name, *container;
	const json_t *object, *old;
	const char *path; /* NodeProxyOptions; NULL: there are no options to read it from */
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

/* PodExecOptions and its like name the container that is meant; NodeProxyOptions a path, none for the root. */
static int read_options(const json_t *request, struct question *q, struct err *e)
{
	const json_t *o = json_object_get(request, "object");
	const char *s = json_string_value(json_object_get(o, "container"));

	q->object = o;
	q->old = json_object_get(request, "oldObject");

	q->container = s ? s : "";
	if (strcmp(q->resource, "nodes") != 0 || !json_is_object(o))
		return 0;
	q->path = "";
	return json_opt_str(o, "path", &q->path, e);
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
		rc = read_options(request, q, e);
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

static bool about(const struct question *q, const char *operation, const char *resource, const char *sub)
{
	return strcmp(q->resource, resource) == 0 && strcmp(q->operation, operation) == 0 && strcmp(q->sub, sub) == 0;
}

static bool about_pods(const struct question *q, const char *operation, const char *sub)
{
	return about(q, operation, "pods", sub);
}

static bool about_nodes(const struct question *q)
{
	return about(q, "CONNECT", "nodes", "proxy");
}

/* ---- the verdict */

static bool admission_listed(const char *list, const char *name)
{
	for (size_t n; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if (n == strlen(name) && strncasecmp(list, name, n) == 0)
			return true;
	}
	return false;
}

static bool is_for_sandboxes(const struct admission_rules *rules, const char *ns)
{
	return !*rules->namespace_ || admission_listed(rules->namespace_, ns) || admission_listed(rules->more, ns);
}

/* Of a node's proxy: does this path lead past the sandboxes? */
static bool passes_by(const struct admission_rules *rules, const char *path)
{
	char ns[NODE_PATH_NS_MAX + 1];
	enum node_way way = path ? node_path_read(path, ns) : NODE_PATH_UNCLEAR;

	return way == NODE_PATH_OTHER || (way == NODE_PATH_ENTERS && !is_for_sandboxes(rules, ns));
}

/* ---- ephemeral containers */

#define VISITOR_PREFIX "muxd-visitor-" /* control/kube/pods/visitor.h; a test holds both against each other */

static const json_t *ephemerals(const json_t *pod)
{
	return json_object_get(json_object_get(pod, "spec"), "ephemeralContainers");
}

static bool is_named(const json_t *list, const char *name)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)list, i, o)
	{
		const char *s = json_string_value(json_object_get(o, "name"));

		if (s && strcmp(s, name) == 0)
			return true;
	}
	return false;
}

static bool is_hardened(const json_t *security)
{
	const json_t *caps = json_object_get(security, "capabilities"), *drop = json_object_get(caps, "drop");
	const char *all = json_string_value(json_array_get(drop, 0));

	return json_is_false(json_object_get(security, "allowPrivilegeEscalation")) &&
	       json_is_true(json_object_get(security, "readOnlyRootFilesystem")) &&
	       !json_is_true(json_object_get(security, "privileged")) && !json_object_get(caps, "add") && all &&
	       strcmp(all, "ALL") == 0;
}

static bool is_visitor(const struct admission_rules *rules, const json_t *c)
{
	const char *name = json_string_value(json_object_get(c, "name")),
		   *image = json_string_value(json_object_get(c, "image"));
	json_t *command = json_pack("[s,s,s,s]", rules->muxlet, "--visit", "1", "--pause");
	bool same = json_equal(command, json_object_get(c, "command"));

	json_decref(command);
	return same && name && strncmp(name, VISITOR_PREFIX, strlen(VISITOR_PREFIX)) == 0 && image && rules->image &&
	       *rules->image && strcmp(image, rules->image) == 0 && !json_object_get(c, "args") &&
	       !json_object_get(c, "env") && !json_object_get(c, "envFrom") && !json_object_get(c, "lifecycle") &&
	       is_hardened(json_object_get(c, "securityContext"));
}

/* What was there may stay: the server lets nobody change one. */
static bool adds_visitors_only(const struct admission_rules *rules, const struct question *q)
{
	size_t i;
	json_t *o;

	if (!json_is_array(ephemerals(q->object)))
		return false; /* the list of 1.22 and before is another kind of object, and no way of muxd's */
	json_array_foreach((json_t *)(uintptr_t)ephemerals(q->object), i, o)
	{
		const char *name = json_string_value(json_object_get(o, "name"));

		if (!name || (!is_named(ephemerals(q->old), name) && !is_visitor(rules, o)))
			return false;
	}
	return true;
}

static bool is_allowed(const struct admission_rules *rules, const struct question *q)
{
	if (*rules->user && strcmp(q->user, rules->user) == 0)
		return !about_pods(q, "UPDATE", "ephemeralcontainers") || adds_visitors_only(rules, q);
	return about_nodes(q) && passes_by(rules, q->path);
}

static void say_why_not_by_node(const struct question *q, char *out, size_t size)
{
	char ns[NODE_PATH_NS_MAX + 1];

	if (q->path && node_path_read(q->path, ns) == NODE_PATH_ENTERS)
		text_format(out, size,
			    "%.63s holds sandboxes, which are entered through muxd, so that it is recorded, and not "
			    "through the kubelet of %.253s: muxctl exec %.63s/POD -- COMMAND, with a grant",
			    ns, q->name, ns);
	else
		text_format(
		    out, size,
		    "this path at the kubelet of %.253s may lead into a sandbox, which is entered through muxd, so "
		    "that it is recorded: /cri, and paths with escapes, dots or empty steps, are refused to everybody",
		    q->name);
}

/* What a person at kubectl reads. */
static void say_why(const struct question *q, char *out, size_t size)
{
	const char *slash = *q->container ? "/" : "";

	if (about_nodes(q))
		say_why_not_by_node(q, out, size);
	else if (about_pods(q, "CONNECT", "exec") || about_pods(q, "CONNECT", "attach"))
		text_format(
		    out, size,
		    "%.63s/%.253s is a sandbox, which is entered through muxd, so that it is recorded: muxctl exec "
		    "%.63s/%.253s%s%.63s -- COMMAND, or ssh -l %.63s/%.253s%s%.63s to muxd's SSH door, with a grant",
		    q->ns, q->name, q->ns, q->name, slash, q->container, q->ns, q->name, slash, q->container);
	else if (about_pods(q, "CONNECT", "portforward") || about_pods(q, "CONNECT", "proxy") ||
		 about(q, "CONNECT", "services", "proxy"))
		text_format(
		    out, size,
		    "%.63s/%.253s is a sandbox, which takes no connections: what it has to say goes through muxd, "
		    "where it is recorded",
		    q->ns, q->name);
	else if (about_pods(q, "UPDATE", "ephemeralcontainers"))
		text_format(
		    out, size,
		    "%.63s/%.253s is a sandbox, which gets no further containers but muxd's own; enter it through "
		    "muxd, where it is recorded",
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

int admission_review(const void *text, size_t len, size_t max, const struct admission_rules *rules, json_t **out_answer,
		     struct admission_verdict *out, struct err *e)
{
	struct question q = {"", "", "", "", "", "", "", "", NULL, NULL, NULL};
	json_t *o = NULL, *answer;
	int rc = json_parse(text, len, max, &o, e);

	if (rc == 0)
		rc = read_review(o, &q, e);
	if (rc)
		goto out;
	out->allowed = is_allowed(rules, &q);
	answer = make_answer(&q, out->allowed);
	if (!answer) {
		rc = err_set(e, ERR_NOMEM, "out of memory");
		goto out;
	}
	text_put(out->user, sizeof(out->user), q.user);
	text_format(out->what, sizeof(out->what), "%.20s %.40s%s%.40s %.63s/%.80s%s%.100s", q.operation, q.resource,
		    *q.sub ? "/" : "", q.sub, q.ns, q.name, q.path ? " " : "", q.path ? q.path : "");
	*out_answer = answer;
out:
	json_decref(o);
	return rc;
}

void rest_admission(struct http_exchange *x)
{
	const struct conf *c = hub_conf(x->hub);
	const struct admission_rules rules = {.user = c->kubernetes_admission_user,
					      .namespace_ = c->kubernetes_namespace,
					      .more = c->kubernetes_admission_namespaces,
					      .image = c->kubernetes_ephemeral_image,
					      .muxlet = c->kubernetes_muxlet_path};
	struct admission_verdict v = {0};
	json_t *answer = NULL;
	struct err e = {0};
	int rc = admission_review(buf_ptr(&x->body), buf_len(&x->body), c->api_max_body, &rules, &answer, &v, &e);

	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	log_info(&(struct log_ids){.request = x->id_text, .peer = x->peer}, "admission %s: %s by %s",
		 v.allowed ? "allowed" : "denied", v.what, v.user);
	http_reply_json(x, 200, answer);
	json_decref(answer);
}
