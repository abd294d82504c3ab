// tier: check
/* A pod template of an agent's own over the configured one: what comes of both, what it may not, and what stays. */
#include "base/yamldoc.h"
#include "control/kube/pods/spec.h"
#include "control/kube/pods/template_own.h"

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

static const struct template_rules rules = {.config_maps = "models",
					    .secrets = "token,pull",
					    .claims = "data",
					    .priority_classes = "low,batch",
					    .muxlet = "/usr/local/bin/muxlet"};

static json_t *yaml(const char *text)
{
	struct yamldoc *doc = NULL;
	struct err e = {0};
	json_t *t = NULL;

	if (yamldoc_parse(text, strlen(text), "t", &doc, &e) || yamldoc_json(doc, 4096, &t, &e))
		fail_msg("%s: %s", text, e.message);
	yamldoc_destroy(doc);
	return t;
}

static int merge(const char *configured, const char *own, json_t **out, struct err *e)
{
	json_t *t = configured ? yaml(configured) : NULL, *o = own ? yaml(own) : NULL;
	char *text = o ? json_dumps(o, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	int rc;

	*out = NULL;
	memset(e, 0, sizeof(*e));
	rc = template_own_merge(t, text, &rules, out, e);
	if (rc)
		assert_null(*out);
	free(text);
	json_decref(o);
	json_decref(t);
	return rc;
}

/* The pod of both, and the pod of what they came to: one and the same. */
static json_t *pod_of(const json_t *t)
{
	struct kube_pod_spec s = {.ns = "agents",
				  .image = "busybox",
				  .workspace = WORKSPACE_EMPTYDIR,
				  .workspace_size = 1 << 30,
				  .request_cpu = "100m",
				  .limit_memory = "1Gi",
				  .node_timeout_s = 60,
				  .pod_template = t};
	struct err e = {0};
	struct id session = {.b = {1}};
	json_t *o = kube_spec_pod(&s, "coder", &session, &e);

	if (!o)
		fail_msg("%s", e.message);
	return o;
}

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

/* ---- each field that a template may have, in neither, in one of the two, in both */

static const struct field {
	const char *path, *first, *second; /* of the pod; what either says */
	const char *neither, *configured, *own, *both;
} fields[] = {
    {"metadata|labels|team", "metadata: {labels: {team: red}}", "metadata: {labels: {team: red}}", "-", "\"red\"",
     "\"red\"", "\"red\""},
    {"metadata|labels|team", "metadata: {labels: {other: x}}", "metadata: {labels: {team: blue}}", "-", "-", "\"blue\"",
     "\"blue\""},
    {"metadata|annotations|note", "metadata: {annotations: {other: x}}", "metadata: {annotations: {note: n}}", "-", "-",
     "\"n\"", "\"n\""},
    {"spec|nodeSelector", "spec: {nodeSelector: {disk: ssd, zone: a}}", "spec: {nodeSelector: {disk: hdd, gpu: x}}",
     "-", "{\"disk\":\"ssd\",\"zone\":\"a\"}", "{\"disk\":\"hdd\",\"gpu\":\"x\"}",
     "{\"disk\":\"hdd\",\"gpu\":\"x\",\"zone\":\"a\"}"},
    {"spec|nodeSelector", "spec: {nodeSelector: {disk: ssd}}", "spec: {nodeSelector: {disk: null}}", "-",
     "{\"disk\":\"ssd\"}", "{}", "{}"},
    {"spec|nodeSelector", "spec: {nodeSelector: {disk: ssd}}", "spec: {nodeSelector: null}", "-", "{\"disk\":\"ssd\"}",
     "-", "-"},
    {"spec|nodeSelector", "spec: {nodeSelector: null}", "spec: {nodeSelector: {disk: ssd}}", "-", "-",
     "{\"disk\":\"ssd\"}", "{\"disk\":\"ssd\"}"},
    {"spec|tolerations|0|key", "spec: {tolerations: [{key: a, operator: Exists}]}",
     "spec: {tolerations: [{key: b, operator: Exists}]}", "\"node.kubernetes.io/not-ready\"", "\"a\"", "\"b\"",
     "\"b\""},
    {"spec|tolerations|2|key", "spec: {tolerations: [{key: a, operator: Exists}]}", "spec: {tolerations: null}", "-",
     "\"node.kubernetes.io/unreachable\"", "-", "-"},
    {"spec|affinity|nodeAffinity|preferredDuringSchedulingIgnoredDuringExecution|0|weight",
     "spec: {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: "
     "{matchExpressions: [{key: a, operator: Exists}]}}]}}}",
     "spec: {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 2, preference: "
     "{matchExpressions: [{key: a, operator: Exists}]}}]}}}",
     "-", "1", "2", "2"},
    {"spec|affinity|podAntiAffinity",
     "spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: h}]}}}",
     "spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z}]}}}", "-",
     "{\"requiredDuringSchedulingIgnoredDuringExecution\":[{\"topologyKey\":\"h\"}]}", "-",
     "{\"requiredDuringSchedulingIgnoredDuringExecution\":[{\"topologyKey\":\"h\"}]}"},
    {"spec|topologySpreadConstraints",
     "spec: {topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}",
     "spec: {topologySpreadConstraints: [{topologyKey: zone, maxSkew: 3}, {topologyKey: host, maxSkew: 2}]}", "-",
     "[{\"maxSkew\":1,\"topologyKey\":\"zone\",\"whenUnsatisfiable\":\"DoNotSchedule\"}]",
     "[{\"maxSkew\":3,\"topologyKey\":\"zone\"},{\"maxSkew\":2,\"topologyKey\":\"host\"}]",
     "[{\"maxSkew\":3,\"topologyKey\":\"zone\",\"whenUnsatisfiable\":\"DoNotSchedule\"},{\"maxSkew\":2,"
     "\"topologyKey\":\"host\"}]"},
    {"spec|priorityClassName", "spec: {priorityClassName: high}", "spec: {priorityClassName: low}", "-", "\"high\"",
     "\"low\"", "\"low\""},
    {"spec|imagePullSecrets", "spec: {imagePullSecrets: [{name: regcred}]}", "spec: {imagePullSecrets: [{name: pull}]}",
     "-", "[{\"name\":\"regcred\"}]", "[{\"name\":\"pull\"}]", "[{\"name\":\"regcred\"},{\"name\":\"pull\"}]"},
    {"spec|hostUsers", "spec: {hostUsers: false}", "spec: {hostUsers: false}", "-", "false", "false", "false"},
    {"spec|volumes|1", "spec: {volumes: [{name: v, emptyDir: {medium: Memory}}]}",
     "spec: {volumes: [{name: w, configMap: {name: models}}]}", "-",
     "{\"emptyDir\":{\"medium\":\"Memory\"},\"name\":\"v\"}", "{\"configMap\":{\"name\":\"models\"},\"name\":\"w\"}",
     "{\"emptyDir\":{\"medium\":\"Memory\"},\"name\":\"v\"}"},
    {"spec|volumes|2|name", "spec: {volumes: [{name: v, secret: {secretName: token}}]}",
     "spec: {volumes: [{name: w, persistentVolumeClaim: {claimName: data}}]}", "-", "-", "-", "\"w\""},
    {"spec|volumes|1|ephemeral|volumeClaimTemplate|spec|storageClassName", "spec: {nodeSelector: {a: b}}",
     "spec: {volumes: [{name: w, ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: null, b: c}}, spec: "
     "{storageClassName: fast}}}}]}",
     "-", "-", "\"fast\"", "\"fast\""},
    {"spec|containers|1|image", "spec: {containers: [{name: a, image: one}]}",
     "spec: {containers: [{name: b, image: two}]}", "-", "\"one\"", "\"two\"", "\"one\""},
    {"spec|containers|2|image", "spec: {containers: [{name: a, image: one}]}",
     "spec: {containers: [{name: b, image: two}]}", "-", "-", "-", "\"two\""},
    {"spec|containers|1|securityContext|privileged", "spec: {nodeSelector: {a: b}}",
     "spec: {containers: [{name: b, image: two}]}", "-", "-", "false", "false"},
    {"spec|containers|1|resources|limits", "spec: {nodeSelector: {a: b}}",
     "spec: {containers: [{name: b, image: two, resources: {limits: {x.y/z: null, cpu: 1}}}]}", "-", "-", "{\"cpu\":1}",
     "{\"cpu\":1}"},
    {"spec|containers|0|resources",
     "spec: {containers: [{name: sandbox, resources: {limits: {memory: 2Gi, x.y/gpu: 1}}}]}",
     "spec: {containers: [{name: sandbox, resources: {limits: {memory: 4Gi}, requests: {cpu: 2}}}]}",
     "{\"limits\":{\"memory\":\"1Gi\"},\"requests\":{\"cpu\":\"100m\"}}",
     "{\"limits\":{\"memory\":\"2Gi\",\"x.y/gpu\":1},\"requests\":{\"cpu\":\"100m\"}}",
     "{\"limits\":{\"memory\":\"4Gi\"},\"requests\":{\"cpu\":2}}",
     "{\"limits\":{\"memory\":\"4Gi\",\"x.y/gpu\":1},\"requests\":{\"cpu\":2}}"},
    {"spec|containers|0|resources|limits|x.y/gpu",
     "spec: {containers: [{name: sandbox, resources: {limits: {x.y/gpu: 1}}}]}",
     "spec: {containers: [{name: sandbox, resources: {limits: {x.y/gpu: null}}}]}", "-", "1", "-", "-"},
    {"spec|containers|0|env|1", "spec: {containers: [{name: sandbox, env: [{name: A, value: x}]}]}",
     "spec: {containers: [{name: sandbox, env: [{name: A, valueFrom: {secretKeyRef: {name: token, key: k}}}]}]}", "-",
     "{\"name\":\"A\",\"value\":\"x\"}",
     "{\"name\":\"A\",\"valueFrom\":{\"secretKeyRef\":{\"key\":\"k\",\"name\":\"token\"}}}",
     "{\"name\":\"A\",\"valueFrom\":{\"secretKeyRef\":{\"key\":\"k\",\"name\":\"token\"}}}"},
    {"spec|containers|0|env|1",
     "spec: {containers: [{name: sandbox, env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]}",
     "spec: {containers: [{name: sandbox, env: [{name: A, value: x}]}]}", "-",
     "{\"name\":\"A\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"metadata.name\"}}}",
     "{\"name\":\"A\",\"value\":\"x\"}", "{\"name\":\"A\",\"value\":\"x\"}"},
    {"spec|containers|0|volumeMounts|1",
     "spec: {containers: [{name: sandbox, volumeMounts: [{mountPath: /d, name: v, subPath: a}]}]}",
     "spec: {containers: [{name: sandbox, volumeMounts: [{mountPath: /d, name: w, readOnly: true}]}]}", "-",
     "{\"mountPath\":\"/d\",\"name\":\"v\",\"subPath\":\"a\"}",
     "{\"mountPath\":\"/d\",\"name\":\"w\",\"readOnly\":true}",
     "{\"mountPath\":\"/d\",\"name\":\"w\",\"readOnly\":true,\"subPath\":\"a\"}"},
    {"spec|containers|0|ports", "spec: {containers: [{name: sandbox, ports: [{containerPort: 80, name: a}]}]}",
     "spec: {containers: [{name: sandbox, ports: [{containerPort: 80, protocol: UDP}, {containerPort: 81}]}]}", "-",
     "[{\"containerPort\":80,\"name\":\"a\"}]", "[{\"containerPort\":80,\"protocol\":\"UDP\"},{\"containerPort\":81}]",
     "[{\"containerPort\":80,\"name\":\"a\",\"protocol\":\"UDP\"},{\"containerPort\":81}]"},
};

static void is(const struct field *f, const char *configured, const char *own, const char *want)
{
	struct err e;
	json_t *t, *pod;

	if (merge(configured, own, &t, &e))
		fail_msg("%s over %s: %s", own, configured, e.message);
	if (!configured && !own)
		assert_null(t);
	pod = pod_of(t);
	if (strcmp(at(pod, f->path), want) != 0)
		fail_msg("%s over %s: %s is %s, not %s", own ? own : "none", configured ? configured : "none", f->path,
			 at(pod, f->path), want);
	json_decref(pod);
	json_decref(t);
}

static void each_field_in_neither_one_and_both(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const struct field *f = &fields[i];

		is(f, NULL, NULL, f->neither);
		is(f, f->first, NULL, f->configured);
		is(f, NULL, f->second, f->own);
		is(f, f->first, f->second, f->both);
	}
}

/* Every field of the pod's own table and of our container's stands in the table above. */
static void no_field_is_forgotten(void **state)
{
	const struct template_field *spec = template_field_find(template_root, "spec")->fields;

	(void)state;
	for (const struct template_field *f = spec; f->name; f++) {
		bool found = false;

		for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
			found = found || strstr(fields[i].second, f->name);
		if (!found)
			fail_msg("%s is merged by no test", f->name);
	}
	for (const struct template_field *f = template_own_fields; f->name; f++) {
		bool found = strcmp(f->name, "name") == 0;

		for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
			found =
			    found || (strstr(fields[i].second, "name: sandbox") && strstr(fields[i].second, f->name));
		if (!found)
			fail_msg("%s of our container is merged by no test", f->name);
	}
}

/* ---- refused */

static void refused(const char *configured, const char *own, const char *pointer)
{
	struct err e;
	json_t *t;
	size_t n = strlen(pointer);

	if (merge(configured, own, &t, &e) != ERR_INVAL)
		fail_msg("taken: %s", own);
	if (strncmp(e.message, pointer, n) != 0 || e.message[n] != ' ')
		fail_msg("%s: \"%s\" does not begin with %s", own, e.message, pointer);
}

static void nothing_of_ours_is_weakened_by_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < WEAKENINGS; i++) {
		refused(NULL, weakenings[i].text, weakenings[i].pointer);
		refused("spec: {nodeSelector: {a: b}, containers: [{name: sandbox, env: [{name: A, value: b}]}]}",
			weakenings[i].text, weakenings[i].pointer);
	}
}

#define CONFIGURED                                                                                                     \
	"metadata: {labels: {team: red, net: closed}, annotations: {note: n}}\n"                                       \
	"spec:\n"                                                                                                      \
	"  priorityClassName: low-prio\n"                                                                              \
	"  imagePullSecrets: [{name: regcred}]\n"                                                                      \
	"  volumes: [{name: keys, secret: {secretName: token}}]\n"                                                     \
	"  containers: [{name: proxy, image: envoy, volumeMounts: [{mountPath: /k, name: keys}]}]\n"

static void what_the_configured_one_says_stays(void **state)
{
	static const struct attempt table[] = {
	    {"metadata: {labels: {net: open}}", "/metadata/labels/net"},
	    {"metadata: {labels: {net: null}}", "/metadata/labels/net"},
	    {"metadata: {annotations: {note: x}}", "/metadata/annotations/note"},
	    {"metadata: {annotations: {note: null}}", "/metadata/annotations/note"},
	    {"spec: {priorityClassName: system-node-critical}", "/spec/priorityClassName"},
	    {"spec: {priorityClassName: lo}", "/spec/priorityClassName"},
	    {"spec: {priorityClassName: 'low,batch'}", "/spec/priorityClassName"},
	    {"spec: {priorityClassName: null}", "/spec/priorityClassName"},
	    {"spec: {imagePullSecrets: [{name: other}]}", "/spec/imagePullSecrets/0"},
	    {"spec: {imagePullSecrets: [{name: pull}, {name: other}]}", "/spec/imagePullSecrets/1"},
	    {"spec: {containers: [{name: proxy, image: evil}]}", "/spec/containers/0"},
	    {"spec: {containers: [{name: a, image: i}, {name: proxy, image: envoy}]}", "/spec/containers/1"},
	    {"spec: {volumes: [{name: keys, emptyDir: {}}]}", "/spec/volumes/0"},
	    {"spec: {volumes: [{name: keys, secret: {secretName: pull}}]}", "/spec/volumes/0"},
	    {"spec: {volumes: [{name: v, secret: {secretName: other}}]}", "/spec/volumes/0/secret/secretName"}};
	struct err e;
	json_t *t;

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		refused(CONFIGURED, table[i].text, table[i].pointer);
	assert_int_equal(merge(CONFIGURED,
			       "{metadata: {labels: {net: closed, mine: x}}, spec: {priorityClassName: "
			       "low-prio, imagePullSecrets: [{name: regcred}]}}",
			       &t, &e),
			 0);
	assert_string_equal(at(t, "metadata|labels"), "{\"mine\":\"x\",\"net\":\"closed\",\"team\":\"red\"}");
	json_decref(t);
}

static void texts_that_are_no_template(void **state)
{
	char *large = malloc(TEMPLATE_OWN_MAX + 64);
	struct err e = {0};
	json_t *t = NULL;

	(void)state;
	assert_int_equal(template_own_merge(NULL, "{", &rules, &t, &e), ERR_INVAL);
	assert_int_equal(template_own_merge(NULL, "[]", &rules, &t, &e), ERR_INVAL);
	assert_int_equal(template_own_merge(NULL, "null", &rules, &t, &e), ERR_INVAL);
	assert_int_equal(template_own_merge(NULL, "{\"spec\":{},\"spec\":{}}", &rules, &t, &e), ERR_INVAL);
	memset(large, ' ', TEMPLATE_OWN_MAX + 63);
	memcpy(large, "{}", 2);
	large[TEMPLATE_OWN_MAX + 63] = '\0';
	assert_int_equal(template_own_merge(NULL, large, &rules, &t, &e), ERR_TOO_LARGE);
	large[TEMPLATE_OWN_MAX] = '\0';
	assert_int_equal(template_own_merge(NULL, large, &rules, &t, &e), 0);
	json_decref(t);
	t = NULL;
	assert_int_equal(template_own_merge(NULL, "", &rules, &t, &e), 0);
	assert_null(t);
	free(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_field_in_neither_one_and_both), cmocka_unit_test(no_field_is_forgotten),
	    cmocka_unit_test(nothing_of_ours_is_weakened_by_it), cmocka_unit_test(what_the_configured_one_says_stays),
	    cmocka_unit_test(texts_that_are_no_template)};

	return cmocka_run_group_tests_name("kube_template_own", tests, NULL, NULL);
}
