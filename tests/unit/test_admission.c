// tier: check
/* The verdict of the admission webhook: who may enter a sandbox past muxd, and what the others are told. */
#include "base/err.h"
#include "control/kube/pods/visitor.h"
#include "muxd/doors/https/admission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MUXD   "system:serviceaccount:muxd:muxd"
#define BOX    "muxd-sandboxes"
#define UID    "705ab4f5-6393-11e8-b7cc-42010a800002"
#define REVIEW "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":"

#define IMAGE  "registry.example/muxlet:1"
#define MUXLET "/usr/local/bin/muxlet"

static const struct admission_rules rules = {
    .user = MUXD, .namespace_ = BOX, .more = "team-a,team-b", .image = IMAGE, .muxlet = MUXLET};

/* As an API server sends it; what is not looked at is here too. */
static char *review(const char *user, const char *operation, const char *resource, const char *sub,
		    const char *container)
{
	char *text = NULL;

	assert_true(
	    asprintf(
		&text,
		REVIEW
		"{\"uid\":\"" UID "\",\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"PodExecOptions\"},"
		"\"resource\":{\"group\":\"\",\"version\":\"v1\",\"resource\":\"%s\"},\"subResource\":\"%s\","
		"\"name\":\"muxd-demo\",\"namespace\":\"muxd-sandboxes\",\"operation\":\"%s\","
		"\"userInfo\":{\"username\":\"%s\",\"groups\":[\"system:masters\"]},"
		"\"object\":{\"kind\":\"PodExecOptions\",\"apiVersion\":\"v1\",\"stdin\":true,%s\"command\":[\"sh\"]},"
		"\"oldObject\":null,\"dryRun\":false,\"options\":null}}",
		resource, sub, operation, user, container) > 0);
	return text;
}

/* NULL when it is allowed, else the words; both live in answer. */
static const char *verdict(char *text, json_t **answer)
{
	struct admission_verdict v = {0};
	struct err e = {0};
	const json_t *response;
	const char *message;

	assert_int_equal(admission_review(text, strlen(text), 1 << 20, &rules, answer, &v, &e), 0);
	free(text);
	assert_string_equal(json_string_value(json_object_get(*answer, "apiVersion")), "admission.k8s.io/v1");
	assert_string_equal(json_string_value(json_object_get(*answer, "kind")), "AdmissionReview");
	response = json_object_get(*answer, "response");
	assert_string_equal(json_string_value(json_object_get(response, "uid")), UID);
	assert_true(json_is_boolean(json_object_get(response, "allowed")));
	assert_int_equal(json_is_true(json_object_get(response, "allowed")), v.allowed);
	if (v.allowed) {
		assert_null(json_object_get(response, "status"));
		return NULL;
	}
	assert_int_equal(json_integer_value(json_object_get(json_object_get(response, "status"), "code")), 403);
	message = json_string_value(json_object_get(json_object_get(response, "status"), "message"));
	assert_non_null(message);
	return message;
}

static void muxd_itself_may(void **state)
{
	json_t *a;

	(void)state;
	assert_null(verdict(review(MUXD, "CONNECT", "pods", "exec", ""), &a));
	json_decref(a);
}

static void an_administrator_is_told_the_way(void **state)
{
	const char *why;
	json_t *a;

	(void)state;
	why = verdict(review("kubernetes-admin", "CONNECT", "pods", "exec", ""), &a);
	assert_non_null(why);
	assert_non_null(strstr(why, "muxctl exec muxd-sandboxes/muxd-demo -- COMMAND"));
	assert_non_null(strstr(why, "recorded"));
	json_decref(a);
	why = verdict(review("kubernetes-admin", "CONNECT", "pods", "attach", "\"container\":\"tools\","), &a);
	assert_non_null(strstr(why, "ssh -l muxd-sandboxes/muxd-demo/tools to"));
	json_decref(a);
}

static void nobody_else_has_another_way(void **state)
{
	static const struct {
		const char *operation, *resource, *sub, *says;
	} asked[] = {
	    {"CONNECT", "pods", "portforward", "takes no connections"},
	    {"CONNECT", "pods", "proxy", "takes no connections"},
	    {"CONNECT", "services", "proxy", "takes no connections"},
	    {"UPDATE", "nodes", "proxy", "asked about UPDATE of nodes/proxy, which"},
	    {"UPDATE", "pods", "ephemeralcontainers", "no further containers"},
	    {"DELETE", "secrets", "", "asked about DELETE of secrets, which"},
	    {"CONNECT", "pods", "exec2", "asked about CONNECT of pods/exec2, which"},
	};
	/* who looks like muxd is not muxd */
	static const char *const users[] = {MUXD "x", "system:serviceaccount:muxd:mux", "",
					    "SYSTEM:serviceaccount:muxd:muxd"};
	json_t *a;

	(void)state;
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		const char *why = verdict(review("eve", asked[i].operation, asked[i].resource, asked[i].sub, ""), &a);

		if (!why || !strstr(why, asked[i].says))
			fail_msg("%s %s/%s: %s", asked[i].operation, asked[i].resource, asked[i].sub,
				 why ? why : "allowed");
		json_decref(a);
	}
	for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
		assert_non_null(verdict(review(users[i], "CONNECT", "pods", "exec", ""), &a));
		json_decref(a);
	}
}

/* ---- ephemeral containers */

static json_t *parse(const char *text)
{
	char copy[1000];
	json_t *o = NULL;

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *p = copy; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	assert_int_equal(json_parse(copy, strlen(copy), sizeof(copy), &o, NULL), 0);
	return o;
}

/* What the provider of pods makes. */
static json_t *made(void)
{
	static const struct visitor_params p = {.target = "main", .image = IMAGE, .muxlet = MUXLET};
	json_t *pod = parse("{'metadata':{},'spec':{'securityContext':{'runAsUser':7},'containers':[{'name':'main',"
			    "'volumeMounts':[{'name':'a','mountPath':'/a'}]}]}}");
	struct visitor_plan plan = {0};

	assert_int_equal(visitor_plan(pod, &p, &plan, NULL), 0);
	json_decref(pod);
	return plan.container;
}

/* UPDATE of pods/ephemeralcontainers that adds c (taken) to a pod which has `old` already. True: it is allowed. */
static bool may_add(const char *user, json_t *c)
{
	json_t *review = json_pack(
	    "{s:s,s:s,s:{s:s,s:{s:s,s:s},s:s,s:s,s:s,s:s,s:{s:s},s:{s:s,s:{s:[{s:s},o]}},s:{s:s,s:{s:[{s:s}]}}}}",
	    "apiVersion", "admission.k8s.io/v1", "kind", "AdmissionReview", "request", "uid", UID, "resource",
	    "version", "v1", "resource", "pods", "subResource", "ephemeralcontainers", "name", "web", "namespace", BOX,
	    "operation", "UPDATE", "userInfo", "username", user, "object", "kind", "Pod", "spec", "ephemeralContainers",
	    "name", "old", c, "oldObject", "kind", "Pod", "spec", "ephemeralContainers", "name", "old");
	json_t *a = NULL;
	const char *why;

	assert_non_null(review);
	why = verdict(json_dumps(review, 0), &a);
	json_decref(review);
	json_decref(a);
	return !why;
}

/* muxd adds what it makes; anything else about it, and anybody else, is refused. */
static void muxds_own_container_and_no_other(void **state)
{
	static const struct {
		const char *key, *value; /* NULL: it is missing */
	} other[] = {
	    {"name", "\"debug\""},
	    {"name", NULL},
	    {"image", "\"busybox\""},
	    {"image", "\"" IMAGE "1\""},
	    {"image", NULL},
	    {"command", "[\"sh\"]"},
	    {"command", "[\"" MUXLET "\",\"--visit\",\"1\",\"--pause\",\"x\"]"},
	    {"command", NULL},
	    {"args", "[\"x\"]"},
	    {"env", "[{\"name\":\"LD_PRELOAD\",\"value\":\"/a/x\"}]"},
	    {"envFrom", "[]"},
	    {"lifecycle", "{}"},
	    {"securityContext", NULL},
	    {"securityContext", "{\"privileged\":true,\"allowPrivilegeEscalation\":false,\"readOnlyRootFilesystem\":"
				"true,\"capabilities\":{\"drop\":[\"ALL\"]}}"},
	    {"securityContext", "{\"allowPrivilegeEscalation\":true,\"readOnlyRootFilesystem\":true,\"capabilities\":"
				"{\"drop\":[\"ALL\"]}}"},
	    {"securityContext", "{\"allowPrivilegeEscalation\":false,\"readOnlyRootFilesystem\":true,\"capabilities\":"
				"{\"drop\":[\"ALL\"],\"add\":[\"SYS_PTRACE\"]}}"},
	    {"securityContext", "{\"allowPrivilegeEscalation\":false,\"readOnlyRootFilesystem\":true}"},
	};

	(void)state;
	assert_true(may_add(MUXD, made()));
	assert_false(may_add("eve", made()));
	assert_false(may_add(MUXD "x", made()));
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		json_t *c = made();

		if (other[i].value)
			json_object_set_new(c, other[i].key, json_loads(other[i].value, JSON_DECODE_ANY, NULL));
		else
			json_object_del(c, other[i].key);
		if (may_add(MUXD, c))
			fail_msg("%s %s", other[i].key, other[i].value ? other[i].value : "missing");
	}
}

/* A node has no namespace; options: what stands in request.object, NULL for none. */
static char *node_review(const char *user, const char *options)
{
	char *text = NULL;

	assert_true(asprintf(&text,
			     REVIEW
			     "{\"uid\":\"" UID "\",\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":"
			     "\"NodeProxyOptions\"},\"resource\":{\"group\":\"\",\"version\":\"v1\",\"resource\":"
			     "\"nodes\"},\"subResource\":\"proxy\",\"name\":\"node-1\",\"operation\":\"CONNECT\","
			     "\"userInfo\":{\"username\":\"%s\"},\"object\":%s}}",
			     user, options ? options : "null") > 0);
	return text;
}

#define OPTIONS(path) "{\"kind\":\"NodeProxyOptions\",\"apiVersion\":\"v1\",\"path\":\"" path "\"}"

static void a_kubelet_is_no_way_in(void **state)
{
	static const struct {
		const char *options, *says; /* NULL: it is allowed */
	} asked[] = {
	    {OPTIONS("/run/" BOX "/muxd-demo/sandbox"), BOX " holds sandboxes, which are entered through muxd"},
	    {OPTIONS("/exec/" BOX "/muxd-demo/sandbox"), "muxctl exec " BOX "/POD -- COMMAND"},
	    {OPTIONS("/attach/team-b/p/c"), "team-b holds sandboxes"},
	    {OPTIONS("/portForward/team-a/p"), "kubelet of node-1"},
	    {OPTIONS("/run/default/p/c"), NULL},
	    {OPTIONS("/cri/exec/abc"), "/cri"},
	    {OPTIONS("/a/../run/" BOX "/p/c"), "may lead into a sandbox"},
	    {OPTIONS("/metrics"), NULL},
	    {OPTIONS("/"), NULL},
	    {"{\"kind\":\"NodeProxyOptions\",\"apiVersion\":\"v1\"}", NULL}, /* the root */
	    {NULL, "may lead into a sandbox"},
	};
	json_t *a;

	(void)state;
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		const char *why = verdict(node_review("eve", asked[i].options), &a);

		if (!why != !asked[i].says || (why && !strstr(why, asked[i].says)))
			fail_msg("%s: %s", asked[i].options, why ? why : "allowed");
		json_decref(a);
		assert_null(verdict(node_review(MUXD, asked[i].options), &a));
		json_decref(a);
	}
}

/* muxd in a cluster that says the namespace itself: the door does not know it. */
static void without_a_namespace_nobody_gets_into_any(void **state)
{
	static const struct admission_rules anywhere = {.user = MUXD, .namespace_ = "", .more = ""};
	char *text = node_review("eve", OPTIONS("/run/default/p/c"));
	struct admission_verdict v = {0};
	json_t *a = NULL;

	(void)state;
	assert_int_equal(admission_review(text, strlen(text), 1 << 20, &anywhere, &a, &v, NULL), 0);
	assert_false(v.allowed);
	assert_string_equal(v.what, "CONNECT nodes/proxy /node-1 /run/default/p/c");
	json_decref(a);
	free(text);
}

static void without_a_user_of_its_own_nobody_may(void **state)
{
	static const struct admission_rules nobody = {.user = "", .namespace_ = BOX, .more = ""};
	char *text = review("", "CONNECT", "pods", "exec", "");
	struct admission_verdict v = {0};
	struct err e = {0};
	json_t *a = NULL;

	(void)state;
	assert_int_equal(admission_review(text, strlen(text), 1 << 20, &nobody, &a, &v, &e), 0);
	assert_false(v.allowed);
	json_decref(a);
	free(text);
}

/* No answer is a refusal, by the webhook's failurePolicy. */
static void what_is_no_review_gets_no_answer(void **state)
{
	static const struct {
		const char *text, *says;
	} wrong[] = {
	    {"", ""},
	    {"[]", "object"},
	    {"{}", "apiVersion"},
	    {"{\"apiVersion\":\"admission.k8s.io/v1beta1\",\"kind\":\"AdmissionReview\",\"request\":{}}", "v1beta1"},
	    {"{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}", "Pod of v1"},
	    {"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\"}", "request is missing"},
	    {REVIEW "{}}", "uid"},
	    {REVIEW "{\"uid\":\"\",\"operation\":\"CONNECT\"}}", "uid"},
	    {REVIEW "{\"uid\":\"a\"}}", "operation"},
	    {REVIEW "{\"uid\":\"a\",\"operation\":\"CONNECT\"}}", "resource"},
	    {REVIEW "{\"uid\":\"a\",\"operation\":\"CONNECT\",\"resource\":{}}}", "resource"},
	    {REVIEW "{\"uid\":\"a\",\"operation\":\"CONNECT\",\"resource\":{\"resource\":\"pods\"}}}", "userInfo"},
	    {REVIEW "{\"uid\":\"a\",\"operation\":\"CONNECT\",\"resource\":{\"resource\":\"pods\"},\"userInfo\":{}}}",
	     "username"},
	    {REVIEW "{\"uid\":\"a\",\"operation\":\"CONNECT\",\"resource\":{\"resource\":\"nodes\"},\"userInfo\":"
		    "{\"username\":\"eve\"},\"object\":{\"path\":7}}}",
	     "path"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct admission_verdict v = {0};
		struct err e = {0};
		json_t *a = NULL;
		int rc = admission_review(wrong[i].text, strlen(wrong[i].text), 1 << 20, &rules, &a, &v, &e);

		if (rc != ERR_INVAL || a || v.allowed || !strstr(e.message, wrong[i].says))
			fail_msg("%s: %s", wrong[i].text, e.message);
	}
}

static void a_review_that_is_too_long_is_not_read(void **state)
{
	char *text = review(MUXD, "CONNECT", "pods", "exec", "");
	struct admission_verdict v = {0};
	struct err e = {0};
	json_t *a = NULL;

	(void)state;
	assert_int_equal(admission_review(text, strlen(text), strlen(text) - 1, &rules, &a, &v, &e), ERR_TOO_LARGE);
	assert_null(a);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(muxds_own_container_and_no_other),
	    cmocka_unit_test(muxd_itself_may),
	    cmocka_unit_test(an_administrator_is_told_the_way),
	    cmocka_unit_test(nobody_else_has_another_way),
	    cmocka_unit_test(a_kubelet_is_no_way_in),
	    cmocka_unit_test(without_a_namespace_nobody_gets_into_any),
	    cmocka_unit_test(without_a_user_of_its_own_nobody_may),
	    cmocka_unit_test(what_is_no_review_gets_no_answer),
	    cmocka_unit_test(a_review_that_is_too_long_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
