// tier: check
/* The pod and the claim of an agent, as the API server gets them. */
#include "control/kube/pods/agentsandbox.h"
#include "control/kube/pods/claim.h"
#include "control/kube/pods/spec.h"

#include "base/err.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kube_pod_spec defaults(void)
{
	return (struct kube_pod_spec){.ns = "agents",
				      .image = "busybox",
				      .workspace = WORKSPACE_EMPTYDIR,
				      .workspace_size = 1 << 30,
				      .request_cpu = "100m",
				      .request_memory = "512Mi",
				      .limit_cpu = "2",
				      .limit_memory = "1Gi",
				      .limit_ephemeral = "5Gi"};
}

static const struct id session = {.b = {1, 2, 3, 4}};

/* The value at a path of keys and indices, as compact JSON: "spec/containers/0/name" is "\"sandbox\"". */
static const char *at(const json_t *o, const char *path)
{
	static char out[4000];
	char keys[200], *key, *save = NULL;
	char *text;

	snprintf(keys, sizeof(keys), "%s", path);
	for (key = strtok_r(keys, "|", &save); key && o; key = strtok_r(NULL, "|", &save))
		o = json_is_array(o) ? json_array_get(o, (size_t)atoi(key)) : json_object_get(o, key);
	if (!o)
		return "-";
	text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	snprintf(out, sizeof(out), "%s", text);
	free(text);
	return out;
}

struct expect {
	const char *path, *value;
};

static void expect_all(json_t *o, const struct expect *x)
{
	assert_non_null(o);
	for (; x->path; x++)
		if (strcmp(at(o, x->path), x->value) != 0)
			fail_msg("%s is %s, not %s", x->path, at(o, x->path), x->value);
	json_decref(o);
}

static void a_pod_with_the_defaults(void **state)
{
	struct kube_pod_spec s = defaults();

	(void)state;
	expect_all(
	    kube_spec_pod(&s, "coder", &session, NULL),
	    (const struct expect[]){
		{"apiVersion", "\"v1\""},
		{"kind", "\"Pod\""},
		{"metadata|name", "\"muxd-coder\""},
		{"metadata|namespace", "\"agents\""},
		{"metadata|labels|agent_id", "\"coder\""},
		{"metadata|labels|compute_session_id", "\"01020304-0000-0000-0000-000000000000\""},
		{"metadata|labels|muxd.dev/role", "\"sandbox\""},
		{"metadata|annotations|muxd.dev/agent", "\"coder\""},
		{"spec|restartPolicy", "\"Never\""},
		{"spec|terminationGracePeriodSeconds", "0"},
		{"spec|automountServiceAccountToken", "false"},
		{"spec|enableServiceLinks", "false"},
		{"spec|runtimeClassName", "-"},
		{"spec|initContainers", "-"},
		{"spec|securityContext", "{\"fsGroup\":1000,\"fsGroupChangePolicy\":\"OnRootMismatch\",\"runAsGroup\":"
					 "1000,\"runAsNonRoot\":true,\"runAsUser\":1000,"
					 "\"seccompProfile\":{\"type\":\"RuntimeDefault\"}}"},
		{"spec|containers|0|name", "\"sandbox\""},
		{"spec|containers|0|image", "\"busybox\""},
		{"spec|containers|0|imagePullPolicy", "-"},
		{"spec|containers|0|workingDir", "\"/workspace\""},
		{"spec|containers|0|command|0", "\"/bin/sh\""},
		{"spec|containers|0|resources", "{\"limits\":{\"cpu\":\"2\",\"ephemeral-storage\":\"5Gi\",\"memory\":"
						"\"1Gi\"},\"requests\":{\"cpu\":\"100m\",\"memory\":\"512Mi\"}}"},
		{"spec|containers|0|securityContext", "{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":["
						      "\"ALL\"]},\"privileged\":false}"},
		{"spec|containers|0|volumeMounts", "[{\"mountPath\":\"/workspace\",\"name\":\"workspace\"}]"},
		{"spec|volumes", "[{\"emptyDir\":{\"sizeLimit\":\"1073741824\"},\"name\":\"workspace\"}]"},
		{NULL, NULL}});
}

/* Whatever the configuration and a template say. What is not the pod does not have it: a claim outlives it. */
static void the_app_of_an_agent_is_a_label_of_its_pod(void **state)
{
	const struct kube_label forged[] = {{KUBE_LABEL_APP, "forged"}};
	struct kube_pod_spec s = defaults(), copy;
	json_t *t = json_pack("{s:{s:{s:s}}}", "metadata", "labels", KUBE_LABEL_APP, "forged");

	(void)state;
	expect_all(kube_spec_pod(&s, "coder", &session, NULL),
		   (const struct expect[]){{"metadata|labels|muxd.dev/app-id", "-"}, {NULL, NULL}});
	s.app_id = "billing";
	assert_int_equal(kube_spec_copy(&s, &copy), 0);
	expect_all(kube_spec_pod(&copy, "coder", &session, NULL),
		   (const struct expect[]){{"metadata|labels|muxd.dev/app-id", "\"billing\""}, {NULL, NULL}});
	kube_spec_finish(&copy);
	expect_all(kube_spec_claim(&s, "coder", NULL, NULL),
		   (const struct expect[]){{"metadata|labels|muxd.dev/app-id", "-"}, {NULL, NULL}});
	s.labels = forged;
	s.nlabels = 1;
	s.pod_template = t;
	expect_all(kube_spec_pod(&s, "coder", &session, NULL),
		   (const struct expect[]){{"metadata|labels|muxd.dev/app-id", "\"billing\""}, {NULL, NULL}});
	json_decref(t);
}

static void muxlet_comes_by_an_init_container(void **state)
{
	struct kube_pod_spec s = defaults();

	(void)state;
	s.init_image = "registry.example/muxlet:1";
	s.pull_policy = "Never";
	expect_all(
	    kube_spec_pod(&s, "coder", &session, NULL),
	    (const struct expect[]){
		{"spec|initContainers|0|image", "\"registry.example/muxlet:1\""},
		{"spec|initContainers|0|imagePullPolicy", "\"Never\""},
		{"spec|initContainers|0|command", "[\"/usr/local/bin/muxlet\",\"--install\",\"/muxd/muxlet\"]"},
		{"spec|initContainers|0|securityContext|capabilities|drop", "[\"ALL\"]"},
		{"spec|initContainers|0|securityContext|allowPrivilegeEscalation", "false"},
		{"spec|initContainers|0|volumeMounts", "[{\"mountPath\":\"/muxd\",\"name\":\"muxlet\"}]"},
		{"spec|containers|0|command", "[\"/muxd/muxlet\",\"--pause\"]"},
		{"spec|containers|0|imagePullPolicy", "\"Never\""},
		{"spec|containers|0|volumeMounts|1", "{\"mountPath\":\"/muxd\",\"name\":\"muxlet\",\"readOnly\":true}"},
		{"spec|volumes|1", "{\"emptyDir\":{\"sizeLimit\":\"16Mi\"},\"name\":\"muxlet\"}"},
		{NULL, NULL}});
	s.muxlet_path = "/opt/muxlet";
	expect_all(kube_spec_pod(&s, "coder", &session, NULL),
		   (const struct expect[]){{"spec|initContainers|0|command|0", "\"/opt/muxlet\""}, {NULL, NULL}});
}

static void workspaces(void **state)
{
	struct kube_pod_spec s = defaults();

	(void)state;
	s.workspace = WORKSPACE_CLAIM;
	s.storage_class = "fast";
	s.runtime_class = "gvisor";
	expect_all(
	    kube_spec_pod(&s, "coder", &session, NULL),
	    (const struct expect[]){
		{"spec|volumes", "[{\"name\":\"workspace\",\"persistentVolumeClaim\":{\"claimName\":\"muxd-coder\"}}]"},
		{"spec|runtimeClassName", "\"gvisor\""},
		{NULL, NULL}});
	expect_all(kube_spec_claim(&s, "coder", NULL, NULL),
		   (const struct expect[]){{"kind", "\"PersistentVolumeClaim\""},
					   {"metadata|name", "\"muxd-coder\""},
					   {"metadata|labels|agent_id", "\"coder\""},
					   {"metadata|labels|compute_session_id", "-"},
					   {"spec|accessModes", "[\"ReadWriteOnce\"]"},
					   {"spec|resources", "{\"requests\":{\"storage\":\"1073741824\"}}"},
					   {"spec|storageClassName", "\"fast\""},
					   {NULL, NULL}});
	s.storage_class = "";
	expect_all(kube_spec_claim(&s, "coder", NULL, NULL),
		   (const struct expect[]){{"spec|storageClassName", "-"}, {NULL, NULL}});
	s.workspace = WORKSPACE_MEMORY;
	expect_all(kube_spec_pod(&s, "coder", &session, NULL),
		   (const struct expect[]){{"spec|volumes", "[{\"emptyDir\":{\"medium\":\"Memory\",\"sizeLimit\":"
							    "\"1073741824\"},\"name\":\"workspace\"}]"},
					   {NULL, NULL}});
}

static void configured_labels_never_replace_our_own(void **state)
{
	static const struct kube_label labels[] = {
	    {"team", "a"}, {"agent_id", "another"}, {"muxd.dev/role", "none"}, {"compute_session_id", "x"}};
	struct kube_pod_spec s = defaults();

	(void)state;
	s.labels = labels;
	s.nlabels = 4;
	expect_all(
	    kube_spec_pod(&s, "coder", &session, NULL),
	    (const struct expect[]){{"metadata|labels|team", "\"a\""},
				    {"metadata|labels|agent_id", "\"coder\""},
				    {"metadata|labels|muxd.dev/role", "\"sandbox\""},
				    {"metadata|labels|compute_session_id", "\"01020304-0000-0000-0000-000000000000\""},
				    {NULL, NULL}});
}

static void the_digest_tells_what_a_pod_was_made_from(void **state)
{
	struct kube_pod_spec s = defaults();
	char first[100];
	json_t *o;

	(void)state;
	o = kube_spec_pod(&s, "coder", &session, NULL);
	snprintf(first, sizeof(first), "%s", at(o, "metadata|annotations|muxd.dev/spec"));
	assert_int_equal(strlen(first), 34);
	json_decref(o);
	o = kube_spec_pod(&s, "coder", &(struct id){.b = {9}}, NULL); /* another session of the same */
	assert_string_equal(at(o, "metadata|annotations|muxd.dev/spec"), first);
	json_decref(o);
	s.limit_cpu = "4";
	o = kube_spec_pod(&s, "coder", &session, NULL);
	assert_string_not_equal(at(o, "metadata|annotations|muxd.dev/spec"), first);
	json_decref(o);
}

static void names_of_agents_become_labels(void **state)
{
	static const struct {
		const char *agent, *name;
	} table[] = {
	    {"a", "muxd-a"},
	    {"coder-7", "muxd-coder-7"},
	    {"0198c7a4-5d0e-7000-8000-00000000002a", "muxd-0198c7a4-5d0e-7000-8000-00000000002a"},
	    {"0198C7A4-5D0E-7000-8000-00000000002A", "muxd-0198c7a4-5d0e-7000-8000-00000000002axxxxxx-b6ed3b4e0a"},
	    {"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee",
	     "muxd-aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee"},
	    {"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeef",
	     "muxd-aaaaaaaaaabbbbbbbbbbccccccccccddddddddddee-1e8f9a2b6e"},
	};
	char name[KUBE_NAME_MAX + 1];
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		assert_int_equal(kube_spec_name(table[i].agent, name, &e), 0);
		if (strchr(table[i].name, '-') && strlen(table[i].name) < 58)
			assert_string_equal(name, table[i].name);
		else /* the digest is checked by its place only */
			assert_memory_equal(name, table[i].name, 48);
		assert_true(strlen(name) <= KUBE_NAME_MAX);
		assert_int_equal(agent_name_check(name, &e), 0); /* a DNS label */
	}
}

static void two_agents_never_share_a_name(void **state)
{
	static const char *const agents[] = {
	    "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeef",
	    "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeg", "0198c7a4-5d0e-7000-8000-00000000002a",
	    "0198C7A4-5D0E-7000-8000-00000000002A", "0198c7A4-5d0e-7000-8000-00000000002a"};
	enum { COUNT = sizeof(agents) / sizeof(agents[0]) };
	char names[COUNT + 1][KUBE_NAME_MAX + 1];

	(void)state;
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(kube_spec_name(agents[i], names[i], NULL), 0);
	/* One that is called like the digest form of another, without the prefix: 53 characters, so digested itself. */
	assert_int_equal(kube_spec_name(names[0] + 5, names[COUNT], NULL), 0);
	for (int i = 0; i <= COUNT; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(names[i], names[j]);
}

static void hostile_names_are_refused(void **state)
{
	static const char *const hostile[] = {
	    "",         "-",    "a/b",   "a.b",
	    "../x",     "A",    "a b",   "a\n",
	    "\xc3\xa4", "a\"b", "a%2fb", "a-",
	    "ns/pod",   "a_b",  "a:b",   "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg"};
	struct kube_pod_spec s = defaults();
	char name[KUBE_NAME_MAX + 1];
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		assert_int_equal(kube_spec_name(hostile[i], name, &e), ERR_INVAL);
		assert_null(kube_spec_pod(&s, hostile[i], &session, &e));
		assert_null(kube_spec_claim(&s, hostile[i], NULL, &e));
	}
	s.image = "bad\xff";
	assert_null(kube_spec_pod(&s, "coder", &session, &e));
	assert_int_equal(e.code, ERR_INVAL);
}

/* A merge takes away only what it names: what was asked for once and is not any more, whatever it was. */
static void waking_takes_away_what_is_not_configured_any_more(void **state)
{
	static const char *const gone[] = {"spec|podTemplate|spec|initContainers",
					   "spec|podTemplate|spec|runtimeClassName",
					   "spec|podTemplate|spec|tolerations",
					   "spec|podTemplate|spec|nodeSelector|disk",
					   "spec|podTemplate|spec|hostUsers",
					   "spec|podTemplate|metadata|labels|team",
					   "spec|podTemplate|metadata|annotations|note",
					   "spec|shutdownTime",
					   "spec|shutdownPolicy"};
	struct agentsandbox_view v = {.uid = "u", .version = "7", .agent = "coder"};
	struct kube_pod_spec s = defaults(), rich = defaults();
	json_t *o, *there, *less = json_pack("{s:{s:{s:s}}}", "spec", "nodeSelector", "zone", "a");
	json_t *t =
	    json_pack("{s:{s:{s:s},s:{s:s}},s:{s:{s:s,s:s},s:b}}", "metadata", "labels", "team", "red", "annotations",
		      "note", "x", "spec", "nodeSelector", "disk", "ssd", "zone", "b", "hostUsers", 0);
	struct err e = {0};

	(void)state;
	rich.init_image = "muxlet";
	rich.runtime_class = "gvisor";
	rich.node_timeout_s = 60;
	rich.pod_template = t;
	s.pod_template = less;
	there = agentsandbox_object(&rich, "coder", &session, 1, &e);
	o = agentsandbox_wake(&s, there, &v, &session, 0, &e);
	assert_non_null(o);
	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
		assert_string_equal(at(o, gone[i]), "null");
	assert_string_equal(at(o, "spec|podTemplate|spec|nodeSelector|zone"), "\"a\"");
	json_decref(o);
	json_decref(there);
	there = agentsandbox_object(&s, "coder", &session, 0, &e);
	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
		assert_string_equal(at(there, gone[i]), "-");
	o = agentsandbox_wake(&rich, there, &v, &session, 1, &e);
	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
		assert_string_not_equal(at(o, gone[i]), "null");
		assert_string_not_equal(at(o, gone[i]), "-");
	}
	assert_string_equal(at(o, "metadata"), "{\"resourceVersion\":\"7\",\"uid\":\"u\"}");
	json_decref(o);
	json_decref(there);
	json_decref(t);
	json_decref(less);
}

static void quantities(void **state)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t bytes;
	} table[] = {{"0", 0, 0},
		     {"1073741824", 0, 1073741824},
		     {"18446744073709551615", 0, UINT64_MAX},
		     {"1Gi", 0, 1 << 30},
		     {"1.5Gi", 0, 3 << 29},
		     {"128974848", 0, 128974848},
		     {"129M", 0, 129000000},
		     {"129e6", 0, 129000000},
		     {"123Mi", 0, 123 << 20},
		     {"1500m", 0, 2},
		     {"1E", 0, 1000000000000000000},
		     {"1Ei", 0, UINT64_C(1) << 60},
		     {"16Ei", ERR_TOO_LARGE, 0},
		     {"99999999999999999999", ERR_TOO_LARGE, 0},
		     {"1e99", ERR_TOO_LARGE, 0},
		     {"", ERR_INVAL, 0},
		     {"-1", ERR_INVAL, 0},
		     {"1.", ERR_INVAL, 0},
		     {"Gi", ERR_INVAL, 0},
		     {"1GB", ERR_INVAL, 0},
		     {"1e", ERR_INVAL, 0},
		     {"1 Gi", ERR_INVAL, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		uint64_t n = 0;
		int rc = kube_quantity(table[i].text, &n);

		if (rc != table[i].rc || n != table[i].bytes)
			fail_msg("%s: %d, %llu", table[i].text, rc, (unsigned long long)n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(quantities),
	    cmocka_unit_test(a_pod_with_the_defaults),
	    cmocka_unit_test(the_app_of_an_agent_is_a_label_of_its_pod),
	    cmocka_unit_test(muxlet_comes_by_an_init_container),
	    cmocka_unit_test(workspaces),
	    cmocka_unit_test(configured_labels_never_replace_our_own),
	    cmocka_unit_test(the_digest_tells_what_a_pod_was_made_from),
	    cmocka_unit_test(waking_takes_away_what_is_not_configured_any_more),
	    cmocka_unit_test(names_of_agents_become_labels),
	    cmocka_unit_test(two_agents_never_share_a_name),
	    cmocka_unit_test(hostile_names_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
