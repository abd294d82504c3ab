#define LOG_SUBSYS "review"
#include "control/kube/pods/review.h"

#include "base/err.h"
#include "base/log.h"
#include "control/kube/client/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum review_state { REVIEW_TOKEN, REVIEW_CREATE, REVIEW_GET, REVIEW_DONE };

struct kube_review {
	enum review_state state;
	struct kube *kube;
	char *audience, *ns, *pod;
	json_t *user; /* status.user of the TokenReview */
	struct kube_call *call;
	kube_review_done *done;
	void *arg;
};

static void review_set_state(struct kube_review *r, enum review_state s)
{
	static const char *const names[] = {"token", "create", "get", "done"};

	log_debug(NULL, "review for %s/%s: %s -> %s", r->ns, r->pod, names[r->state], names[s]);
	r->state = s;
}

static void review_destroy(struct kube_review *r)
{
	json_decref(r->user);
	free(r->audience);
	free(r->ns);
	free(r->pod);
	free(r);
}

static const char *username(const struct kube_review *r)
{
	return json_string_value(json_object_get(r->user, "username"));
}

static void review_finish(struct kube_review *r, int rc, const struct err *e)
{
	review_set_state(r, REVIEW_DONE);
	r->done(r->arg, rc, rc ? e : NULL, rc ? NULL : username(r));
	review_destroy(r);
}

static void review_on_access(void *arg, int rc, const struct err *e, const struct kube_reply *reply);

static const char *verb(const struct kube_review *r)
{
	return r->state == REVIEW_CREATE ? "create" : "get";
}

/* Everything the cluster's rules may go by: groups and extra are as important as the name. */
static json_t *access_review(const struct kube_review *r)
{
	json_t *o =
	    json_pack("{s:s,s:s,s:{s:s,s:{s:s,s:s,s:s,s:s,s:s,s:s}}}", "apiVersion", "authorization.k8s.io/v1", "kind",
		      "SubjectAccessReview", "spec", "user", username(r), "resourceAttributes", "verb", verb(r),
		      "version", "v1", "resource", "pods", "subresource", "exec", "namespace", r->ns, "name", r->pod);
	static const char *const more[] = {"uid", "groups", "extra"};
	json_t *spec = json_object_get(o, "spec");

	for (size_t i = 0; o && i < sizeof(more) / sizeof(more[0]); i++) {
		json_t *v = json_object_get(r->user, more[i]);

		if (v && json_object_set(spec, more[i], v)) {
			json_decref(o);
			return NULL;
		}
	}
	return o;
}

static int ask_access(struct kube_review *r, enum review_state next, struct err *e)
{
	static const struct kube_ref ref = {.group = "authorization.k8s.io", .resource = "subjectaccessreviews"};
	json_t *o;
	int rc;

	review_set_state(r, next);
	o = access_review(r);
	rc = o ? kube_create(r->kube, &ref, o, review_on_access, r, &r->call, e)
	       : err_set(e, ERR_NOMEM, "no memory for a review");
	json_decref(o);
	return rc;
}

static int judge_access(const struct kube_review *r, const json_t *body, struct err *e)
{
	const json_t *status = json_object_get(body, "status");
	const char *reason = json_string_value(json_object_get(status, "reason"));

	if (json_is_true(json_object_get(status, "allowed")) && !json_is_true(json_object_get(status, "denied")))
		return 0;
	return err_set(e, ERR_FORBIDDEN,
		       "%.128s may not exec into %.63s/%.120s by the cluster's rules (%s pods/exec)%s%.60s",
		       username(r), r->ns, r->pod, verb(r), reason && *reason ? ": " : "", reason ? reason : "");
}

static void review_on_access(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kube_review *r = arg;
	struct err here = {0};

	if (rc) {
		review_finish(r, rc, e);
		return;
	}
	rc = judge_access(r, reply->body, &here);
	if (rc == 0 && r->state == REVIEW_CREATE) {
		rc = ask_access(r, REVIEW_GET, &here);
		if (rc == 0)
			return;
	}
	review_finish(r, rc, &here);
}

static bool holds(const json_t *list, const char *text)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		if (json_is_string(v) && strcmp(json_string_value(v), text) == 0)
			return true;
	}
	return false;
}

/*
 * An API server that knows nothing of audiences leaves status.audiences out: then the token is for the API server
 * itself, and not what was asked for.
 */
static int judge_token(struct kube_review *r, const json_t *body, struct err *e)
{
	const json_t *status = json_object_get(body, "status");
	const char *error = json_string_value(json_object_get(status, "error"));
	json_t *user = json_object_get(status, "user");
	const char *name = json_string_value(json_object_get(user, "username"));

	if (!json_is_true(json_object_get(status, "authenticated")))
		return err_set(e, ERR_UNAUTHENTICATED, "the cluster does not know this token%s%.200s",
			       error && *error ? ": " : "", error ? error : "");
	if (!name || !*name)
		return err_set(e, ERR_UNAUTHENTICATED, "the cluster knows this token, and not whose it is");
	if (*r->audience && !holds(json_object_get(status, "audiences"), r->audience))
		return err_set(e, ERR_UNAUTHENTICATED, "the token is not meant for audience %.100s", r->audience);
	r->user = json_incref(user);
	return 0;
}

static void review_on_token(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct kube_review *r = arg;
	struct err here = {0};

	if (rc) {
		review_finish(r, rc, e);
		return;
	}
	rc = judge_token(r, reply->body, &here);
	if (rc == 0)
		rc = ask_access(r, REVIEW_CREATE, &here);
	if (rc)
		review_finish(r, rc, &here);
}

static int ask_token(struct kube_review *r, const char *token, struct err *e)
{
	static const struct kube_ref ref = {.group = "authentication.k8s.io", .resource = "tokenreviews"};
	json_t *o = json_pack("{s:s,s:s,s:{s:s}}", "apiVersion", "authentication.k8s.io/v1", "kind", "TokenReview",
			      "spec", "token", token);
	json_t *audiences = o && *r->audience ? json_pack("[s]", r->audience) : NULL;
	int rc;

	if (!o || (*r->audience && json_object_set_new(json_object_get(o, "spec"), "audiences", audiences)))
		rc = err_set(e, ERR_NOMEM, "no memory for a review");
	else
		rc = kube_create(r->kube, &ref, o, review_on_token, r, &r->call, e);
	json_decref(o);
	return rc;
}

int kube_review_start(struct kube *k, const struct kube_review_wish *w, kube_review_done *done, void *arg,
		      struct kube_review **out, struct err *e)
{
	struct kube_review *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return err_set(e, ERR_NOMEM, "no memory for a review");
	*r = (struct kube_review){.kube = k, .done = done, .arg = arg};
	r->audience = strdup(w->audience ? w->audience : "");
	r->ns = strdup(w->ns);
	r->pod = strdup(w->pod);
	if (r->audience && r->ns && r->pod)
		rc = ask_token(r, w->token, e);
	else
		rc = err_set(e, ERR_NOMEM, "no memory for a review");
	if (rc)
		review_destroy(r);
	else if (out)
		*out = r;
	return rc;
}

void kube_review_cancel(struct kube_review *r)
{
	kube_cancel(r->call);
}
