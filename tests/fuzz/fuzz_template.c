// tier: check
/*
 * A pod template, YAML or JSON. One that is refused says where and is no template; whatever one is taken, the pod that
 * it is merged over keeps what is ours, and has each field that was asked for.
 */
#include "base/err.h"
#include "base/json.h"
#include "control/kube/pods/spec.h"
#include "control/kube/pods/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static const struct kube_pod_spec base = {.ns = "agents",
					  .image = "busybox",
					  .init_image = "muxlet",
					  .workspace = WORKSPACE_EMPTYDIR,
					  .workspace_size = 1 << 30,
					  .node_timeout_s = 60};

static json_t *spec_of(json_t *pod, const char *key)
{
	return json_object_get(json_object_get(pod, "spec"), key);
}

static json_t *find(json_t *list, const char *name)
{
	size_t i;
	json_t *o;

	json_array_foreach(list, i, o)
	{
		const char *s = json_string_value(json_object_get(o, "name"));

		if (s && strcmp(s, name) == 0)
			return o;
	}
	return NULL;
}

static void same(json_t *a, json_t *b, const char *key)
{
	must(json_equal(json_object_get(a, key), json_object_get(b, key)));
}

static void is_confined(json_t *containers)
{
	size_t i;
	json_t *o;

	json_array_foreach(containers, i, o)
	{
		json_t *s = json_object_get(o, "securityContext");

		must(json_is_false(json_object_get(s, "privileged")));
		must(json_is_false(json_object_get(s, "allowPrivilegeEscalation")));
		must(json_array_size(json_object_get(json_object_get(s, "capabilities"), "drop")) == 1);
		must(!json_object_get(json_object_get(s, "capabilities"), "add"));
	}
}

static void is_ours_still(json_t *pod, json_t *plain)
{
	static const char *const keys[] = {"securityContext", "initContainers", "restartPolicy", "enableServiceLinks",
					   "automountServiceAccountToken"},
				 *const never[] = {"hostNetwork",           "hostPID",          "hostIPC",
						   "shareProcessNamespace", "runtimeClassName", "serviceAccountName"},
				 *const in_ours[] = {"image", "command", "securityContext", "workingDir"};
	json_t *ours = find(spec_of(pod, "containers"), KUBE_CONTAINER),
	       *was = find(spec_of(plain, "containers"), KUBE_CONTAINER);

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		same(json_object_get(pod, "spec"), json_object_get(plain, "spec"), keys[i]);
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		must(!spec_of(pod, never[i]));
	for (size_t i = 0; i < sizeof(in_ours) / sizeof(in_ours[0]); i++)
		same(ours, was, in_ours[i]);
	for (size_t i = 0; i < 2; i++) {
		must(json_equal(json_array_get(spec_of(pod, "volumes"), i),
				json_array_get(spec_of(plain, "volumes"), i)));
		must(json_equal(json_array_get(json_object_get(ours, "volumeMounts"), i),
				json_array_get(json_object_get(was, "volumeMounts"), i)));
	}
	is_confined(spec_of(pod, "containers"));
}

static void merged(const json_t *t)
{
	struct kube_pod_spec with = base;
	char at[TEMPLATE_PATH_MAX], digest[TEMPLATE_DIGEST_HEX + 1];
	struct id session = {0};
	json_t *pod, *plain = kube_spec_pod(&base, "a", &session, NULL);

	with.pod_template = t;
	pod = kube_spec_pod(&with, "a", &session, NULL);
	must(pod && plain);
	is_ours_still(pod, plain);
	must(template_kept(t, pod, at));
	(void)template_kept(t, plain, at);
	must(strlen(at) < sizeof(at));
	template_digest(t, digest);
	must(!digest[0] == !json_object_size(t));
	json_decref(pod);
	json_decref(plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct template_rules rules = {.config_maps = "models", .secrets = "token", .claims = "data"};
	json_t *t = NULL;
	struct err e = {0};
	int rc = template_parse((const char *)data, size, "t", &rules, &t, &e);

	if (rc) {
		must(!t && e.code == rc && e.message[0]);
		return 0;
	}
	merged(t);
	json_decref(t);
	return 0;
}
