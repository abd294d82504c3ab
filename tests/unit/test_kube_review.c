// tier: check
/*
 * Whose a token is and whether he may exec: what is asked of the API server, and what is made of each of its answers.
 * The server is a fake (tests/lib/fake_apiserver.py); tests/e2e/k8s/stories/deploy.sh asks a real one.
 */
#include "control/kube/pods/review.h"
#include "tests/lib/kube_rig.h"

#define TOKENS "tokenreviews"
#define ACCESS "subjectaccessreviews"

struct outcome {
	bool done;
	int times, rc;
	char message[ERR_MESSAGE_MAX], user[200];
};

static void on_done(void *arg, int rc, const struct err *e, const char *username)
{
	struct outcome *o = arg;

	o->done = true;
	o->times++;
	o->rc = rc;
	assert_int_equal(rc == 0, username != NULL);
	snprintf(o->message, sizeof(o->message), "%s", e ? e->message : "");
	snprintf(o->user, sizeof(o->user), "%s", username ? username : "");
}

static int setup(void **state)
{
	struct kube_rig *r = rig_create();
	struct err e = {0};

	rig_start_with(r, "server.crt", "server.key");
	if (rig_connect_as(r, "{token: muxd}", ", certificate-authority: ca.crt", NULL, NULL, &e) < 0)
		fail_msg("%s", e.message);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	rig_destroy(*state);
	return 0;
}

/* The next POST to this resource is answered so. */
static void answers(struct kube_rig *r, const char *resource, const char *status)
{
	rig_do(r,
	       "{\"do\":\"rule\",\"method\":\"POST\",\"path\":\"/"
	       "%s\",\"times\":1,\"status\":201,\"body\":{\"status\":%s}}",
	       resource, status);
}

static struct outcome review(struct kube_rig *r, const char *audience)
{
	const struct kube_review_wish w = {.token = "abc.def", .audience = audience, .ns = "boxes", .pod = "muxd-demo"};
	struct outcome o = {0};

	assert_int_equal(kube_review_start(r->kube, &w, on_done, &o, NULL, NULL), 0);
	assert_false(o.done);
	rig_until(r, &o.done);
	assert_int_equal(o.times, 1);
	return o;
}

static void refused(const struct outcome *o, int rc, const char *words)
{
	if (o->rc != rc || !strstr(o->message, words))
		fail_msg("%s: %s", err_name(o->rc), o->message);
	assert_string_equal(o->user, "");
}

#define ANNA                                                                                                           \
	"{\"authenticated\":true,\"user\":{\"username\":\"anna\",\"uid\":\"7\",\"groups\":[\"sre\"],"                  \
	"\"extra\":{\"scopes\":[\"a\"]}},\"audiences\":[\"muxd\"]}"

/* A new reference. */
static json_t *body_of(const json_t *seen, size_t i, const char *end)
{
	const json_t *o = json_array_get(seen, i);
	const char *path = json_string_value(json_object_get(o, "path"));

	assert_non_null(path);
	assert_non_null(strstr(path, end));
	assert_string_equal(json_string_value(json_object_get(o, "method")), "POST");
	return json_loads(json_string_value(json_object_get(o, "body")), 0, NULL);
}

static void asked(const json_t *seen, size_t i, const char *end, json_t *wanted)
{
	json_t *body = body_of(seen, i, end);

	assert_true(json_equal(body, wanted));
	json_decref(body);
	json_decref(wanted);
}

static void who_may_both_is_named(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o;
	json_t *seen, *wanted;

	answers(r, TOKENS, ANNA);
	answers(r, ACCESS, "{\"allowed\":true}");
	answers(r, ACCESS, "{\"allowed\":true,\"reason\":\"RBAC\"}");
	rig_do(r, "{\"do\":\"seen\"}");
	o = review(r, "muxd");
	assert_int_equal(o.rc, 0);
	assert_string_equal(o.user, "anna");

	seen = rig_ask(r, "{\"do\":\"seen\"}");
	assert_int_equal(json_array_size(seen), 3);
	wanted = json_pack("{s:s,s:s,s:{s:s,s:[s]}}", "apiVersion", "authentication.k8s.io/v1", "kind", "TokenReview",
			   "spec", "token", "abc.def", "audiences", "muxd");
	asked(seen, 0, "/apis/authentication.k8s.io/v1/tokenreviews", wanted);
	for (size_t i = 1; i <= 2; i++) {
		wanted = json_pack("{s:s,s:s,s:{s:s,s:s,s:[s],s:{s:[s]},s:{s:s,s:s,s:s,s:s,s:s,s:s}}}", "apiVersion",
				   "authorization.k8s.io/v1", "kind", "SubjectAccessReview", "spec", "user", "anna",
				   "uid", "7", "groups", "sre", "extra", "scopes", "a", "resourceAttributes", "verb",
				   i == 1 ? "create" : "get", "version", "v1", "resource", "pods", "subresource",
				   "exec", "namespace", "boxes", "name", "muxd-demo");
		asked(seen, i, "/apis/authorization.k8s.io/v1/subjectaccessreviews", wanted);
	}
	json_decref(seen);
}

static void one_verb_is_not_enough(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o;

	answers(r, TOKENS, ANNA);
	answers(r, ACCESS, "{\"allowed\":false}");
	o = review(r, "muxd");
	refused(&o, ERR_FORBIDDEN, "anna may not exec into boxes/muxd-demo by the cluster's rules (create pods/exec)");
	answers(r, TOKENS, ANNA);
	answers(r, ACCESS, "{\"allowed\":true}");
	answers(r, ACCESS, "{\"allowed\":true,\"denied\":true,\"reason\":\"not at night\"}");
	o = review(r, "muxd");
	refused(&o, ERR_FORBIDDEN, "(get pods/exec): not at night");
}

static void a_token_for_others_is_none(void **state)
{
	static const char *const answered[] = {
	    "{\"authenticated\":false,\"error\":\"invalid bearer token\"}",
	    "{\"error\":\"authenticated is not even there\"}",
	    "{\"authenticated\":\"true\",\"user\":{\"username\":\"anna\"},\"audiences\":[\"muxd\"]}",
	    "{\"authenticated\":true,\"audiences\":[\"muxd\"]}",
	    "{\"authenticated\":true,\"user\":{\"username\":\"\"},\"audiences\":[\"muxd\"]}",
	    "{\"authenticated\":true,\"user\":{\"username\":\"anna\"},\"audiences\":[\"other\"]}",
	    "{\"authenticated\":true,\"user\":{\"username\":\"anna\"}}", /* a server that ignores audiences */
	    "7",
	};
	struct kube_rig *r = *state;

	for (size_t i = 0; i < sizeof(answered) / sizeof(answered[0]); i++) {
		struct outcome o;

		answers(r, TOKENS, answered[i]);
		o = review(r, "muxd");
		if (o.rc != ERR_UNAUTHENTICATED)
			fail_msg("%s: %s %s", answered[i], err_name(o.rc), o.message);
	}
	assert_int_equal(rig_seen(r, "POST", ACCESS), 0);
}

static void without_an_audience_the_servers_own_counts(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o;

	answers(r, TOKENS, "{\"authenticated\":true,\"user\":{\"username\":\"anna\"}}");
	answers(r, ACCESS, "{\"allowed\":true}");
	answers(r, ACCESS, "{\"allowed\":true}");
	o = review(r, "");
	assert_int_equal(o.rc, 0);
	assert_string_equal(o.user, "anna");
}

static void muxd_without_the_right_to_ask_says_so(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o;

	rig_do(r, "{\"do\":\"rule\",\"method\":\"POST\",\"path\":\"/tokenreviews\",\"times\":1,\"status\":403,\"body\":"
		  "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"Forbidden\","
		  "\"message\":\"muxd cannot create resource tokenreviews\",\"code\":403}}");
	o = review(r, "muxd");
	refused(&o, ERR_K8S_FORBIDDEN, "cannot create resource tokenreviews");
}

static void the_end_of_the_client_is_an_answer(void **state)
{
	const struct kube_review_wish w = {.token = "t", .audience = "muxd", .ns = "n", .pod = "p"};
	struct kube_rig *r = *state;
	struct outcome o = {0};

	rig_do(r, "{\"do\":\"rule\",\"method\":\"POST\",\"path\":\"/tokenreviews\",\"times\":1,\"hang\":true}");
	assert_int_equal(kube_review_start(r->kube, &w, on_done, &o, NULL, NULL), 0);
	kube_client_destroy(r->kube);
	r->kube = NULL;
	assert_true(o.done);
	refused(&o, ERR_CANCELLED, "");
}

static void a_review_can_be_taken_back(void **state)
{
	const struct kube_review_wish w = {.token = "t", .audience = "muxd", .ns = "n", .pod = "p"};
	struct kube_rig *r = *state;
	struct kube_review *v = NULL;
	struct outcome o = {0};

	rig_do(r, "{\"do\":\"rule\",\"method\":\"POST\",\"path\":\"/tokenreviews\",\"times\":1,\"hang\":true}");
	assert_int_equal(kube_review_start(r->kube, &w, on_done, &o, &v, NULL), 0);
	kube_review_cancel(v);
	assert_true(o.done);
	refused(&o, ERR_CANCELLED, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(who_may_both_is_named, setup, teardown),
	    cmocka_unit_test_setup_teardown(one_verb_is_not_enough, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_token_for_others_is_none, setup, teardown),
	    cmocka_unit_test_setup_teardown(without_an_audience_the_servers_own_counts, setup, teardown),
	    cmocka_unit_test_setup_teardown(muxd_without_the_right_to_ask_says_so, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_review_can_be_taken_back, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_end_of_the_client_is_an_answer, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
