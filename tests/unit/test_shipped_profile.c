// tier: check
/* deploy/profiles: the shipped configuration and policy, and the pods that come of both. */
#include "base/conf.h"
#include "base/slurp.h"
#include "muxd/net/cluster.h"
#include "policy/profile.h"
#include "policy/verdict.h"
#include "tests/lib/provider_rig.h"

static struct conf *conf;
static struct policy *policy;

static int load(void **state)
{
	struct err e = {0};
	char *text = NULL;
	size_t len = 0;

	(void)state;
	if (conf_load("deploy/profiles/muxd.yaml", &conf, &e) ||
	    slurp_file("deploy/profiles/policy.yaml", 0, 1 << 20, &text, &len, &e) ||
	    policy_parse(text, len, "policy.yaml", &policy, &e) || policy_check_conf(policy, conf, &e))
		fail_msg("%s", e.message);
	slurp_free(text, len);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	policy_destroy(policy);
	conf_destroy(conf);
	return 0;
}

static struct policy_question asks(struct resources r)
{
	return (struct policy_question){.op = POLICY_ROUND_START,
					.kind = GRANT_AGENT,
					.principal = "bot",
					.agent = "coder",
					.task = "any",
					.timeout_ns = 60 * NS_PER_SEC,
					.makes = true,
					.resources = r};
}

/* The container, the volumes and the rest of the pod that is made for such a call, as JSON; the caller's. */
static char *pod_for(struct resources r)
{
	struct policy_question q = asks(r);
	struct verdict v = policy_verdict(policy, &q);
	struct kube_pod_spec s;
	struct policy_shape shape;
	struct result done = {0};
	const json_t *spec, *box;
	char *text;

	assert_true(v.allowed);
	verdict_shape(&v, &q, &shape);
	assert_string_equal(shape.image, "");
	cluster_spec(conf, conf->kubernetes_namespace, NULL, &s);
	whole_spec = &s;
	begin();
	ASK(c.p, on_done, &done, .op = SANDBOX_ENSURE, .agent = "coder", .image = shape.image,
	    .resources = shape.resources);
	settle();
	spec = json_object_get(json_object_get(c.pods, "muxd-coder"), "spec");
	assert_non_null(spec);
	box = json_array_get(json_object_get(spec, "containers"), 0);
	json_t *o = json_pack("{s:O, s:O, s:O, s:O, s:O, s:O, s:O}", "restart", json_object_get(spec, "restartPolicy"),
			      "grace", json_object_get(spec, "terminationGracePeriodSeconds"), "volume",
			      json_array_get(json_object_get(spec, "volumes"), 0), "image",
			      json_object_get(box, "image"), "workdir", json_object_get(box, "workingDir"), "requests",
			      json_object_get(json_object_get(box, "resources"), "requests"), "limits",
			      json_object_get(json_object_get(box, "resources"), "limits"));

	text = o ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	json_decref(o);
	end();
	whole_spec = NULL;
	return text;
}

#define POD(requests, limits)                                                                                          \
	"{\"grace\":0,\"image\":\"busybox\",\"limits\":" limits ",\"requests\":" requests                              \
	",\"restart\":\"Never\",\"volume\":{\"emptyDir\":{\"sizeLimit\":\"1073741824\"},\"name\":\"workspace\"},"      \
	"\"workdir\":\"/workspace\"}"

static void who_asks_for_nothing_gets_the_defaults(void **state)
{
	char *text = pod_for((struct resources){0});

	(void)state;
	assert_string_equal(text, POD("{\"cpu\":\"100m\",\"memory\":\"512Mi\"}",
				      "{\"cpu\":\"2\",\"ephemeral-storage\":\"5Gi\",\"memory\":\"1Gi\"}"));
	free(text);
}

static void who_asks_for_less_gets_that(void **state)
{
	char *text = pod_for((struct resources){256 << 20, 50, 0});

	(void)state;
	assert_string_equal(text, POD("{\"cpu\":\"50m\",\"memory\":\"256Mi\"}",
				      "{\"cpu\":\"50m\",\"ephemeral-storage\":\"5Gi\",\"memory\":\"256Mi\"}"));
	free(text);
}

static void more_is_denied_by_name(void **state)
{
	static const struct resources more[] = {{UINT64_C(2) << 30, 0, 0}, {0, 2001, 0}};
	char rule[POLICY_RULE_MAX];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct policy_question q = asks(more[i]);
		struct verdict v = policy_verdict(policy, &q);

		assert_false(v.allowed);
		verdict_rule(&v, &q, rule);
		assert_string_equal(rule, "small/resources");
	}
}

static void other_images_and_long_rounds_are_denied(void **state)
{
	struct policy_question image = asks((struct resources){0}), longer = image;

	(void)state;
	image.image = "python";
	longer.timeout_ns = 3601 * NS_PER_SEC;
	assert_int_equal(policy_verdict(policy, &image).why, VERDICT_IMAGE);
	assert_int_equal(policy_verdict(policy, &longer).why, VERDICT_ROUND_TIME);
}

static void staff_has_what_its_grant_says(void **state)
{
	struct policy_question q = asks((struct resources){0});

	(void)state;
	q.kind = GRANT_STAFF;
	assert_int_equal(policy_verdict(policy, &q).why, VERDICT_AS_GRANTED);
}

static void the_configuration_says_the_rest(void **state)
{
	(void)state;
	assert_string_equal(conf->sandbox_backend, "kubernetes");
	assert_string_equal(conf->kubernetes_namespace, "muxd-sandboxes");
	assert_string_equal(conf->policy_file, "/etc/muxd/policy.yaml");
	assert_true(conf->kubernetes_create_timeout_ns == 120 * NS_PER_SEC);
	assert_true(conf->round_timeout_ns == 600 * NS_PER_SEC);
	assert_true(conf->file_timeout_ns == 600 * NS_PER_SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_asks_for_nothing_gets_the_defaults),
	    cmocka_unit_test(who_asks_for_less_gets_that),
	    cmocka_unit_test(more_is_denied_by_name),
	    cmocka_unit_test(other_images_and_long_rounds_are_denied),
	    cmocka_unit_test(staff_has_what_its_grant_says),
	    cmocka_unit_test(the_configuration_says_the_rest),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
