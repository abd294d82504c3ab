// tier: check
/* The pod template: what it may say, what it may not, and what becomes of the pod. */
#include "control/kube/pods/spec.h"
#include "control/kube/pods/template.h"

#include "base/err.h"
#include "base/json.h"
#include "tests/lib/weakenings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct template_rules rules = {
    .config_maps = "models,team.certs", .secrets = "token", .claims = "data", .muxlet = "/usr/local/bin/muxlet"};
static const struct id session = {.b = {1, 2, 3, 4}};

static struct kube_pod_spec defaults(void)
{
	return (struct kube_pod_spec){.ns = "agents",
				      .image = "busybox",
				      .init_image = "muxlet:1",
				      .workspace = WORKSPACE_EMPTYDIR,
				      .workspace_size = 1 << 30,
				      .request_cpu = "100m",
				      .limit_memory = "1Gi",
				      .node_timeout_s = 60};
}

static int parse(const char *text, json_t **out, struct err *e)
{
	*out = NULL;
	memset(e, 0, sizeof(*e));
	return template_parse(text, strlen(text), "pod.yaml", &rules, out, e);
}

static json_t *good(const char *text)
{
	struct err e = {0};
	json_t *t;

	if (parse(text, &t, &e))
		fail_msg("%s: %s", text, e.message);
	return t;
}

/* Compact JSON of what a path of keys and indices leads to; "-" where there is nothing. */
static const char *at(const json_t *o, const char *path)
{
	static char out[4000];
	char keys[200], *key, *save = NULL, *text;

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

static json_t *pod_of(const json_t *t)
{
	struct kube_pod_spec s = defaults();
	struct err e = {0};
	json_t *o;

	s.pod_template = t;
	o = kube_spec_pod(&s, "coder", &session, &e);
	if (!o)
		fail_msg("%s", e.message);
	return o;
}

/* ---- refused */

static void refused(const char *text, const char *pointer)
{
	char want[300];
	struct err e;
	json_t *t;

	if (parse(text, &t, &e) != ERR_CONFIG)
		fail_msg("taken: %s", text);
	assert_null(t);
	snprintf(want, sizeof(want), ": %s ", pointer);
	if (strncmp(e.message, "pod.yaml:", 9) != 0 || !strstr(e.message, want))
		fail_msg("%s: \"%s\" does not name %s", text, e.message, pointer);
}

/* Every field of a PodSpec that Kubernetes knows (1.0 to 1.36); what a template may say is marked. */
static const struct known {
	const char *name;
	bool allowed;
} pod_fields[] = {{"activeDeadlineSeconds", false},
		  {"affinity", true},
		  {"automountServiceAccountToken", false},
		  {"containers", true},
		  {"dnsConfig", false},
		  {"dnsPolicy", false},
		  {"enableServiceLinks", false},
		  {"ephemeralContainers", false},
		  {"hostAliases", false},
		  {"hostIPC", false},
		  {"hostNetwork", false},
		  {"hostPID", false},
		  {"hostUsers", true},
		  {"hostname", false},
		  {"hostnameOverride", false},
		  {"imagePullSecrets", true},
		  {"initContainers", false},
		  {"nodeName", false},
		  {"nodeSelector", true},
		  {"os", false},
		  {"overhead", false},
		  {"preemptionPolicy", false},
		  {"priority", false},
		  {"priorityClassName", true},
		  {"readinessGates", false},
		  {"resourceClaims", false},
		  {"resources", false},
		  {"restartPolicy", false},
		  {"runtimeClassName", false},
		  {"schedulerName", false},
		  {"schedulingGates", false},
		  {"securityContext", false},
		  {"serviceAccount", false},
		  {"serviceAccountName", false},
		  {"setHostnameAsFQDN", false},
		  {"shareProcessNamespace", false},
		  {"subdomain", false},
		  {"terminationGracePeriodSeconds", false},
		  {"tolerations", true},
		  {"topologySpreadConstraints", true},
		  {"volumes", true},
		  {"workloadRef", false}};
/* Likewise of a Container: of ours, and of an additional one. */
static const struct {
	const char *name;
	bool ours, others;
} container_fields[] = {{"args", false, true},
			{"command", false, true},
			{"env", true, true},
			{"envFrom", false, false},
			{"image", false, true},
			{"imagePullPolicy", false, true},
			{"lifecycle", false, false},
			{"livenessProbe", false, true},
			{"ports", true, true},
			{"readinessProbe", false, true},
			{"resizePolicy", false, false},
			{"resources", true, true},
			{"restartPolicy", false, false},
			{"restartPolicyRules", false, false},
			{"securityContext", false, true},
			{"startupProbe", false, true},
			{"stdin", false, false},
			{"stdinOnce", false, false},
			{"terminationMessagePath", false, false},
			{"terminationMessagePolicy", false, true},
			{"tty", false, false},
			{"volumeDevices", false, false},
			{"volumeMounts", true, true},
			{"workingDir", false, true}};
/* ... and of where a volume comes from. */
static const struct known volume_sources[] = {{"awsElasticBlockStore", false},
					      {"azureDisk", false},
					      {"azureFile", false},
					      {"cephfs", false},
					      {"cinder", false},
					      {"configMap", true},
					      {"csi", false},
					      {"downwardAPI", false},
					      {"emptyDir", true},
					      {"ephemeral", true},
					      {"fc", false},
					      {"flexVolume", false},
					      {"flocker", false},
					      {"gcePersistentDisk", false},
					      {"gitRepo", false},
					      {"glusterfs", false},
					      {"hostPath", false},
					      {"image", false},
					      {"iscsi", false},
					      {"nfs", false},
					      {"persistentVolumeClaim", true},
					      {"photonPersistentDisk", false},
					      {"portworxVolume", false},
					      {"projected", false},
					      {"quobyte", false},
					      {"rbd", false},
					      {"scaleIO", false},
					      {"secret", true},
					      {"storageos", false},
					      {"vsphereVolume", false}};
static const char *const security_fields[] = {
    "allowPrivilegeEscalation", "appArmorProfile", "capabilities",  "privileged", "procMount", "runAsNonRoot",
    "seLinuxOptions",           "seccompProfile",  "windowsOptions"};

/* A value that its kind would take is of no use: the field must be refused whatever it says. */
static void field(const char *before, const char *name, const char *after, bool allowed, const char *pointer)
{
	static const char *const values[] = {"true", "1", "\"x\"", "{}", "[]", "null"};
	char text[600], whole[300];
	struct err e;
	json_t *t;

	snprintf(whole, sizeof(whole), "%s/%s", pointer, name);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		snprintf(text, sizeof(text), "%s\"%s\": %s%s", before, name, values[i], after);
		if (!allowed)
			refused(text, whole);
		else if (parse(text, &t, &e) == 0)
			json_decref(t);
		else if (strstr(e.message, "not for a template"))
			fail_msg("%s: %s", text, e.message);
	}
}

static void fields_that_are_not_in_the_list(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(pod_fields) / sizeof(pod_fields[0]); i++)
		field("{\"spec\": {", pod_fields[i].name, "}}", pod_fields[i].allowed, "/spec");
	for (size_t i = 0; i < sizeof(container_fields) / sizeof(container_fields[0]); i++) {
		field("{\"spec\": {\"containers\": [{\"name\": \"sandbox\", ", container_fields[i].name, "}]}}",
		      container_fields[i].ours, "/spec/containers/0");
		if (strcmp(container_fields[i].name, "image") != 0)
			field("{\"spec\": {\"containers\": [{\"name\": \"other\", \"image\": \"i\", ",
			      container_fields[i].name, "}]}}", container_fields[i].others, "/spec/containers/0");
	}
	for (size_t i = 0; i < sizeof(volume_sources) / sizeof(volume_sources[0]); i++)
		field("{\"spec\": {\"volumes\": [{\"name\": \"v\", ", volume_sources[i].name, "}]}}",
		      volume_sources[i].allowed, "/spec/volumes/0");
	for (size_t i = 0; i < sizeof(security_fields) / sizeof(security_fields[0]); i++) {
		char text[300], pointer[200];
		/* what loosens; the other direction is what such a container gets anyway */
		bool tightens = strcmp(security_fields[i], "runAsNonRoot") == 0;

		snprintf(text, sizeof(text), "spec: {containers: [{name: o, image: i, securityContext: {%s: %s}}]}",
			 security_fields[i], tightens ? "false" : "true");
		snprintf(pointer, sizeof(pointer), "/spec/containers/0/securityContext/%s", security_fields[i]);
		refused(text, pointer);
	}
	field("{", "status", "}", false, "");
	field("{", "kind", "}", false, "");
	field("{\"metadata\": {", "name", "}}", false, "/metadata");
	field("{\"metadata\": {", "namespace", "}}", false, "/metadata");
	field("{\"metadata\": {", "ownerReferences", "}}", false, "/metadata");
	field("{\"metadata\": {", "finalizers", "}}", false, "/metadata");
}

static void what_is_ours_is_not_weakened(void **state)
{
	(void)state;
	assert_true(WEAKENINGS >= 80);
	for (size_t i = 0; i < WEAKENINGS; i++)
		refused(weakenings[i].text, weakenings[i].pointer);
	refused("[]", "the template");
	refused("5", "the template");
}

static void refusals_name_their_place(void **state)
{
	struct err e;
	json_t *t;

	(void)state;
	assert_int_equal(parse("spec:\n  nodeSelector: {disk: ssd}\n  hostNetwork: true\n", &t, &e), ERR_CONFIG);
	assert_string_equal(e.message,
			    "pod.yaml:3:16: /spec/hostNetwork is not for a template; allowed here: nodeSelector, "
			    "tolerations, affinity, topologySpreadConstraints, priorityClassName, imagePullSecrets, "
			    "hostUsers, volumes, containers");
	assert_int_equal(parse("spec: [", &t, &e), ERR_CONFIG);
	assert_memory_equal(e.message, "pod.yaml:2:1:", 13);
	assert_int_equal(parse("spec: {}\nspec: {}\n", &t, &e), ERR_CONFIG);
	assert_non_null(strstr(e.message, "pod.yaml:2:1: spec stands twice"));
	assert_int_equal(parse("a: &a {spec: *a}", &t, &e), ERR_CONFIG); /* in itself: without an end */
	assert_int_equal(parse("a: \"x\\0y\"", &t, &e), ERR_CONFIG);
}

/* ---- merged */

static void a_template_is_merged(void **state)
{
	static const struct attempt want[] = {
	    {"metadata|labels|team", "\"red\""},
	    {"metadata|labels|agent_id", "\"coder\""},
	    {"metadata|annotations|note", "\"hello\""},
	    {"metadata|annotations|muxd.dev/agent", "\"coder\""},
	    {"spec|nodeSelector", "{\"disk\":\"ssd\"}"},
	    {"spec|priorityClassName", "\"low\""},
	    {"spec|hostUsers", "false"},
	    {"spec|imagePullSecrets", "[{\"name\":\"regcred\"}]"},
	    {"spec|restartPolicy", "\"Never\""},
	    {"spec|automountServiceAccountToken", "false"},
	    {"spec|tolerations|0", "{\"key\":\"gpu\",\"operator\":\"Exists\"}"},
	    {"spec|tolerations|1|key", "\"node.kubernetes.io/not-ready\""},
	    {"spec|tolerations|2|tolerationSeconds", "60"},
	    {"spec|tolerations|3", "-"},
	    {"spec|containers|0|name", "\"sandbox\""},
	    {"spec|containers|0|image", "\"busybox\""},
	    {"spec|containers|0|command", "[\"/muxd/muxlet\",\"--pause\"]"},
	    {"spec|containers|0|resources",
	     "{\"limits\":{\"memory\":\"4Gi\",\"nvidia.com/gpu\":1},\"requests\":{\"cpu\":\"100m\"}}"},
	    {"spec|containers|0|env",
	     "[{\"name\":\"HOME\",\"value\":\"/workspace\"},{\"name\":\"A\",\"value\":\"b\"}]"},
	    {"spec|containers|0|volumeMounts|0", "{\"mountPath\":\"/workspace\",\"name\":\"workspace\"}"},
	    {"spec|containers|0|volumeMounts|2|mountPath", "\"/data\""},
	    {"spec|containers|0|securityContext|privileged", "false"},
	    {"spec|containers|1|name", "\"proxy\""},
	    {"spec|containers|1|securityContext",
	     "{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":[\"ALL\"]},\"privileged\":false,"
	     "\"runAsUser\":2000}"},
	    {"spec|initContainers|0|name", "\"muxlet\""},
	    {"spec|volumes|0|name", "\"workspace\""},
	    {"spec|volumes|1|name", "\"muxlet\""},
	    {"spec|volumes|2", "{\"name\":\"data\",\"persistentVolumeClaim\":{\"claimName\":\"data\"}}"}};
	json_t *t = good("metadata:\n"
			 "  labels: {team: red}\n"
			 "  annotations: {note: hello}\n"
			 "spec:\n"
			 "  nodeSelector: {disk: ssd}\n"
			 "  priorityClassName: low\n"
			 "  hostUsers: false\n"
			 "  imagePullSecrets: [{name: regcred}]\n"
			 "  tolerations: [{key: gpu, operator: Exists}]\n"
			 "  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n"
			 "  containers:\n"
			 "  - name: sandbox\n"
			 "    env: [{name: A, value: b}]\n"
			 "    resources: {limits: {memory: 4Gi, nvidia.com/gpu: 1}}\n"
			 "    volumeMounts: [{mountPath: /data, name: data}]\n"
			 "  - {name: proxy, image: envoy, securityContext: {runAsUser: 2000}}\n");
	json_t *pod = pod_of(t), *plain = pod_of(NULL);
	char digest[TEMPLATE_DIGEST_HEX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		if (strcmp(at(pod, want[i].text), want[i].pointer) != 0)
			fail_msg("%s is %s, not %s", want[i].text, at(pod, want[i].text), want[i].pointer);
	template_digest(t, digest);
	assert_int_equal(strlen(digest), TEMPLATE_DIGEST_HEX);
	assert_non_null(strstr(at(pod, "metadata|annotations|muxd.dev/pod-template"), digest));
	assert_string_equal(at(plain, "metadata|annotations|muxd.dev/pod-template"), "-");
	assert_false(json_equal(
	    json_object_get(json_object_get(json_object_get(pod, "metadata"), "annotations"), KUBE_ANNOTATION_SPEC),
	    json_object_get(json_object_get(json_object_get(plain, "metadata"), "annotations"), KUBE_ANNOTATION_SPEC)));
	json_decref(pod);
	json_decref(plain);
	json_decref(t);
}

/* Whatever a template says, these of our pod are as without one. */
static void what_a_merge_leaves(void **state)
{
	static const char *const texts[] = {"{}",
					    "",
					    "spec: {}",
					    "spec: {tolerations: null, nodeSelector: null, affinity: null}",
					    "spec: {tolerations: []}",
					    "metadata: {labels: {a: null}, annotations: {b: null}}",
					    "spec: {containers: [{name: sandbox, resources: {limits: {x.y/z: null}}}]}",
					    "spec: {containers: [{name: a, image: b, volumeMounts: [{mountPath: /w, "
					    "name: workspace, readOnly: true}]}]}"};
	static const char *const same[] = {"spec|securityContext",
					   "spec|initContainers",
					   "spec|restartPolicy",
					   "spec|automountServiceAccountToken",
					   "spec|enableServiceLinks",
					   "spec|tolerations",
					   "spec|volumes",
					   "spec|containers|0|command",
					   "spec|containers|0|image",
					   "spec|containers|0|securityContext",
					   "spec|containers|0|volumeMounts",
					   "spec|containers|0|resources",
					   "metadata|labels",
					   "metadata|annotations|muxd.dev/agent"};
	json_t *plain = pod_of(NULL);

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *t = good(texts[i]), *pod = pod_of(t);

		for (size_t k = 0; k < sizeof(same) / sizeof(same[0]); k++) {
			char was[4000];

			snprintf(was, sizeof(was), "%s", at(plain, same[k]));
			if (strcmp(was, at(pod, same[k])) != 0)
				fail_msg("%s: %s became %s", texts[i], was, at(pod, same[k]));
		}
		json_decref(pod);
		json_decref(t);
	}
	json_decref(plain);
}

static void a_first_consumer_runs_where_the_pod_will(void **state)
{
	struct kube_pod_spec s = defaults();
	json_t *t = good("spec: {nodeSelector: {disk: ssd}, tolerations: [{operator: Exists}], containers: [{name: o, "
			 "image: i}]}"),
	       *o;

	(void)state;
	s.workspace = WORKSPACE_CLAIM;
	s.pod_template = t;
	o = kube_spec_binder(&s, "coder", "claim", NULL);
	assert_string_equal(at(o, "spec|nodeSelector"), "{\"disk\":\"ssd\"}");
	assert_string_equal(at(o, "spec|tolerations|0"), "{\"operator\":\"Exists\"}");
	assert_string_equal(at(o, "spec|containers|1"), "-");
	json_decref(o);
	json_decref(t);
}

/* ---- what the server kept */

static void drop(json_t *o, const char *path)
{
	char keys[200], *key, *save = NULL, *next;

	snprintf(keys, sizeof(keys), "%s", path);
	key = strtok_r(keys, "|", &save);
	while ((next = strtok_r(NULL, "|", &save))) {
		o = json_is_array(o) ? json_array_get(o, (size_t)atoi(key)) : json_object_get(o, key);
		key = next;
	}
	if (json_is_array(o))
		assert_int_equal(json_array_remove(o, (size_t)atoi(key)), 0);
	else
		assert_int_equal(json_object_del(o, key), 0);
}

static void a_dropped_field_is_named(void **state)
{
	static const struct attempt table[] = {
	    {"spec|hostUsers", "/spec/hostUsers"},
	    {"spec|nodeSelector|disk", "/spec/nodeSelector/disk"},
	    {"spec|nodeSelector", "/spec/nodeSelector"},
	    {"spec|priorityClassName", "/spec/priorityClassName"},
	    {"spec|tolerations|0", "/spec/tolerations/0"},
	    {"spec|tolerations|0|tolerationSeconds", "/spec/tolerations/0/tolerationSeconds"},
	    {"spec|topologySpreadConstraints|0|minDomains", "/spec/topologySpreadConstraints/0/minDomains"},
	    {"spec|containers|1", "/spec/containers/1"},
	    {"spec|containers|1|startupProbe", "/spec/containers/1/startupProbe"},
	    {"spec|containers|0|resources|limits|nvidia.com/gpu",
	     "/spec/containers/0/resources/limits/nvidia.com~1gpu"},
	    {"spec|volumes|2|ephemeral", "/spec/volumes/0/ephemeral"},
	    {"metadata|labels|team", "/metadata/labels/team"},
	    {"spec|affinity|podAntiAffinity|requiredDuringSchedulingIgnoredDuringExecution|0|namespaceSelector",
	     "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/namespaceSelector"}};
	json_t *t =
	    good("metadata: {labels: {team: red}}\n"
		 "spec:\n"
		 "  hostUsers: false\n"
		 "  nodeSelector: {disk: ssd}\n"
		 "  priorityClassName: low\n"
		 "  tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 7}]\n"
		 "  topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: "
		 "DoNotSchedule, minDomains: 2}]\n"
		 "  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: "
		 "h, namespaceSelector: {matchLabels: {a: b}}}]}}\n"
		 "  volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: "
		 "[ReadWriteOnce]}}}}]\n"
		 "  containers:\n"
		 "  - {name: sandbox, resources: {limits: {nvidia.com/gpu: 1}}, volumeMounts: [{mountPath: /s, "
		 "name: scratch, readOnly: false}]}\n"
		 "  - {name: side, image: i, startupProbe: {tcpSocket: {port: 1}}}\n");
	char where[TEMPLATE_PATH_MAX];
	json_t *pod = pod_of(t);

	(void)state;
	assert_true(template_kept(t, pod, where));
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		json_t *less = json_deep_copy(pod);

		drop(less, table[i].text);
		if (template_kept(t, less, where))
			fail_msg("%s is missed by nobody", table[i].text);
		assert_string_equal(where, table[i].pointer);
		json_decref(less);
	}
	/* What a server says in other words, adds or puts elsewhere is no loss. */
	json_object_set_new(json_object_get(json_object_get(pod, "spec"), "nodeSelector"), "disk", json_string("SSD"));
	json_array_insert_new(json_object_get(json_object_get(pod, "spec"), "tolerations"), 0,
			      json_pack("{s:s}", "operator", "Exists"));
	json_array_insert_new(json_object_get(json_object_get(pod, "spec"), "containers"), 0,
			      json_pack("{s:s}", "name", "injected"));
	drop(pod, "spec|containers|1|volumeMounts|2|readOnly");
	assert_true(template_kept(t, pod, where));
	json_decref(pod);
	json_decref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(fields_that_are_not_in_the_list),
					   cmocka_unit_test(what_is_ours_is_not_weakened),
					   cmocka_unit_test(refusals_name_their_place),
					   cmocka_unit_test(a_template_is_merged),
					   cmocka_unit_test(what_a_merge_leaves),
					   cmocka_unit_test(a_first_consumer_runs_where_the_pod_will),
					   cmocka_unit_test(a_dropped_field_is_named)};

	return cmocka_run_group_tests_name("kube_template", tests, NULL, NULL);
}
