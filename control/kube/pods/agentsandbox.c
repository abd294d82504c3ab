#include "control/kube/pods/agentsandbox.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define ROLE_HOLD "hold"

const char *agentsandbox_version(enum kube_sandbox_api api)
{
	static const char *const names[] = {"", "v1alpha1", "v1beta1"};

	return names[api];
}

enum kube_sandbox_api agentsandbox_served(const json_t *group)
{
	enum kube_sandbox_api best = KUBE_SANDBOX_AUTO;
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)json_object_get(group, "versions"), i, o)
	{
		if (strcmp(json_get_text(o, "version"), "v1beta1") == 0)
			return KUBE_SANDBOX_V1BETA1;
		if (strcmp(json_get_text(o, "version"), "v1alpha1") == 0)
			best = KUBE_SANDBOX_V1ALPHA1;
	}
	return best;
}

void agentsandbox_versions(const json_t *group, char *out, size_t size)
{
	size_t i;
	json_t *o;

	text_put(out, size, "");
	json_array_foreach((json_t *)(uintptr_t)json_object_get(group, "versions"), i, o)
	{
		size_t len = strlen(out);

		text_format(out + len, size - len, "%s%.20s", len ? ", " : "", json_get_text(o, "version"));
	}
	pod_plain_text(out);
}

static enum agentsandbox_verdict verdict_of(const char *type, const char *status, const char *reason)
{
	static const char *const hopeless[] = {"MultiplePods", "SandboxExpired"}, *const ended[] = {"PodFailed",
												    "PodSucceeded"};

	if (strcmp(type, "Finished") == 0)
		return strcmp(status, "True") == 0 ? AGENTSANDBOX_ENDED : AGENTSANDBOX_WAITS;
	if (strcmp(type, "Ready") != 0 || strcmp(status, "False") != 0)
		return AGENTSANDBOX_WAITS;
	for (size_t i = 0; i < sizeof(hopeless) / sizeof(hopeless[0]); i++)
		if (strcmp(reason, hopeless[i]) == 0)
			return AGENTSANDBOX_FAILED;
	for (size_t i = 0; i < sizeof(ended) / sizeof(ended[0]); i++)
		if (strcmp(reason, ended[i]) == 0)
			return AGENTSANDBOX_ENDED;
	return AGENTSANDBOX_WAITS;
}

/* Which words are shown: those of the verdict, then why there is no node for it, then those on Ready. */
static int weight(const char *type, const char *status, enum agentsandbox_verdict verdict)
{
	if (verdict != AGENTSANDBOX_WAITS)
		return 2 + (int)verdict;
	if (strcmp(type, "PodScheduled") == 0)
		return strcmp(status, "False") == 0 ? 2 : 0;
	return strcmp(type, "Ready") == 0;
}

static void read_conditions(const json_t *o, struct agentsandbox_view *v)
{
	const json_t *list = json_object_get(json_object_get(o, "status"), "conditions");
	json_int_t generation = json_integer_value(json_object_get(json_object_get(o, "metadata"), "generation"));
	int best = 0;
	size_t i;
	json_t *c;

	json_array_foreach((json_t *)(uintptr_t)list, i, c)
	{
		const json_t *seen = json_object_get(c, "observedGeneration");
		bool current = json_is_integer(seen) && json_integer_value(seen) >= generation;
		enum agentsandbox_verdict verdict =
		    current
			? verdict_of(json_get_text(c, "type"), json_get_text(c, "status"), json_get_text(c, "reason"))
			: AGENTSANDBOX_WAITS;
		int now = weight(json_get_text(c, "type"), json_get_text(c, "status"), verdict);

		if (now <= best)
			continue;
		best = now;
		v->verdict = verdict;
		text_format(v->why, sizeof(v->why), "%s%s%s%s",
			    current || !seen ? "" : "before its last change: ", json_get_text(c, "reason"),
			    *json_get_text(c, "message") ? ": " : "", json_get_text(c, "message"));
		if (!v->why[0]) /* not one word of a reason */
			text_put(v->why, sizeof(v->why), json_get_text(c, "type"));
		pod_plain_text(v->why);
	}
}

/* A claim's Sandbox is asked more: whose it is, where its pod is, and whether its workspace outlives that. */
static void read_pod(const json_t *o, struct agentsandbox_view *v)
{
	const json_t *meta = json_object_get(o, "metadata"), *spec = json_object_get(o, "spec"),
		     *replicas = json_object_get(spec, "replicas"),
		     *pod = json_object_get(json_object_get(spec, "podTemplate"), "spec");
	const char *name = json_get_text(json_object_get(meta, "annotations"), "agents.x-k8s.io/pod-name"),
		   *volume = "";
	size_t i;
	json_t *e;

	text_put(v->pod, sizeof(v->pod), *name ? name : json_get_text(meta, "name"));
	pod_plain_text(v->pod);
	v->asleep = json_is_integer(replicas) ? json_integer_value(replicas) == 0
					      : strcmp(json_get_text(spec, "operatingMode"), "Suspended") == 0;
	json_array_foreach((json_t *)(uintptr_t)json_object_get(meta, "ownerReferences"), i, e)
	{
		if (json_is_true(json_object_get(e, "controller")))
			text_put(v->owner, sizeof(v->owner), json_get_text(e, "uid"));
	}
	json_array_foreach((json_t *)(uintptr_t)json_object_get(pod, "containers"), i, e)
	{
		if (strcmp(json_get_text(e, "name"), KUBE_CONTAINER) == 0)
			volume = pod_volume_at(e, KUBE_WORKSPACE);
	}
	json_array_foreach((json_t *)(uintptr_t)json_object_get(spec, "volumeClaimTemplates"), i, e)
	{
		if (*volume && strcmp(json_get_text(json_object_get(e, "metadata"), "name"), volume) == 0)
			text_format(v->claim, sizeof(v->claim), "%.63s-%s", volume, json_get_text(meta, "name"));
	}
}

int agentsandbox_view(const json_t *o, struct agentsandbox_view *out, struct err *e)
{
	const json_t *meta = json_object_get(o, "metadata");
	struct agentsandbox_view v = {0};
	const char *agent = json_get_text(json_object_get(meta, "annotations"), KUBE_ANNOTATION_AGENT);

	if (!*json_get_text(meta, "uid") || strlen(json_get_text(meta, "uid")) >= sizeof(v.uid) ||
	    strlen(json_get_text(meta, "resourceVersion")) >= sizeof(v.version) || strlen(agent) >= sizeof(v.agent))
		return err_set(e, ERR_K8S, "the API server's answer is no Sandbox");
	text_put(v.uid, sizeof(v.uid), json_get_text(meta, "uid"));
	text_put(v.version, sizeof(v.version), json_get_text(meta, "resourceVersion"));
	text_put(v.agent, sizeof(v.agent), agent);
	v.deleting = *json_get_text(meta, "deletionTimestamp");
	(void)clock_parse_utc(json_get_text(json_object_get(o, "spec"), "shutdownTime"), &v.shutdown_ns);
	read_conditions(o, &v);
	read_pod(o, &v);
	*out = v;
	return 0;
}

/* Into spec: asleep or awake, in the words of this version. */
static int set_mode(const struct kube_pod_spec *s, json_t *spec, bool awake)
{
	if (s->sandbox_api == KUBE_SANDBOX_V1BETA1)
		return json_object_set_new(spec, "operatingMode", json_string(awake ? "Running" : "Suspended"));
	return json_object_set_new(spec, "replicas", json_integer(awake));
}

/* RFC 3339 in whole seconds, as Kubernetes takes them. */
int agentsandbox_put_end(json_t *spec, int64_t shutdown_ns)
{
	char when[32];

	if (!shutdown_ns)
		return 0;
	clock_format_utc(shutdown_ns, when, sizeof(when));
	snprintf(when + strcspn(when, ".Z"), 2, "Z");
	return json_object_set_new(spec, "shutdownTime", json_string(when)) ||
	       json_object_set_new(spec, "shutdownPolicy", json_string("Delete"));
}

/* {"podTemplate": ..., awake}: the pod's labels and annotations go into the template, its name does not. */
static json_t *awake(const struct kube_pod_spec *s, const char *agent, const struct id *session, int64_t shutdown_ns,
		     struct err *e)
{
	json_t *pod = kube_spec_pod(s, agent, session, e), *meta = json_object_get(pod, "metadata"), *spec;

	if (!pod)
		return NULL;
	spec = json_pack("{s:{s:{s:O,s:O},s:O}}", "podTemplate", "metadata", "labels", json_object_get(meta, "labels"),
			 "annotations", json_object_get(meta, "annotations"), "spec", json_object_get(pod, "spec"));
	json_decref(pod);
	if (spec && !set_mode(s, spec, true) && !agentsandbox_put_end(spec, shutdown_ns))
		return spec;
	json_decref(spec);
	err_set(e, ERR_NOMEM, "no memory for the Sandbox of %s", agent);
	return NULL;
}

json_t *agentsandbox_object(const struct kube_pod_spec *s, const char *agent, const struct id *session,
			    int64_t shutdown_ns, struct err *e)
{
	json_t *spec = awake(s, agent, session, shutdown_ns, e), *labels, *o;
	char name[KUBE_NAME_MAX + 1], version[64];

	if (!spec)
		return NULL;
	labels = kube_spec_labels(s, agent, ROLE_HOLD);
	if (labels)
		(void)json_object_set_new(labels, "thread-id", json_string(agent));
	(void)kube_pod_name(s->hold, agent, name, NULL);
	text_format(version, sizeof(version), AGENTSANDBOX_GROUP "/%s", agentsandbox_version(s->sandbox_api));
	o = json_pack("{s:s,s:s,s:{s:s,s:s,s:o,s:{s:s}},s:o}", "apiVersion", version, "kind", "Sandbox", "metadata",
		      "name", name, "namespace", s->ns, "labels", labels, "annotations", KUBE_ANNOTATION_AGENT, agent,
		      "spec", spec);
	if (!o)
		err_set(e, ERR_NOMEM, "no memory for the Sandbox of %s", agent);
	return o;
}

/* A merge leaves alone what it does not name: what was said once and is not any more is taken away by name. */
static int null_absent(json_t *o, const char *const *keys)
{
	int rc = 0;

	for (; *keys; keys++)
		if (!json_object_get(o, *keys))
			rc |= json_object_set_new(o, *keys, json_null());
	return rc;
}

static int name_absent_end(json_t *spec)
{
	static const char *const keys[] = {"shutdownTime", "shutdownPolicy", NULL};

	return null_absent(spec, keys);
}

/* Fields that stand in `there` and not in o any more are taken away by name, at any depth of objects; lists whole. */
static int null_gone(json_t *o, const json_t *there)
{
	const char *key;
	json_t *old;
	int rc = 0;

	json_object_foreach((json_t *)(uintptr_t)there, key, old)
	{
		json_t *now = json_object_get(o, key);

		if (!now)
			rc |= json_object_set_new(o, key, json_null());
		else if (json_is_object(now) && json_is_object(old))
			rc |= null_gone(now, old);
	}
	return rc;
}

static int name_absent(json_t *spec, const json_t *there)
{
	const json_t *old = json_object_get(json_object_get(there, "spec"), "podTemplate");

	return null_gone(json_object_get(spec, "podTemplate"), old) | name_absent_end(spec);
}

json_t *agentsandbox_wake(const struct kube_pod_spec *s, const json_t *there, const struct agentsandbox_view *v,
			  const struct id *session, int64_t shutdown_ns, struct err *e)
{
	json_t *spec = awake(s, v->agent, session, shutdown_ns, e), *o = NULL;

	if (!spec)
		return NULL;
	if (name_absent(spec, there))
		json_decref(spec);
	else
		o = json_pack("{s:{s:s,s:s},s:o}", "metadata", "uid", v->uid, "resourceVersion", v->version, "spec",
			      spec);
	if (!o)
		err_set(e, ERR_NOMEM, "no memory for the Sandbox of %s", v->agent);
	return o;
}

json_t *agentsandbox_mode(const struct kube_pod_spec *s, const struct agentsandbox_view *v, bool awake)
{
	json_t *o = json_pack("{s:{s:s},s:{}}", "metadata", "uid", v->uid, "spec");

	if (o && set_mode(s, json_object_get(o, "spec"), awake)) {
		json_decref(o);
		o = NULL;
	}
	return o;
}

json_t *agentsandbox_end(const struct agentsandbox_view *v, int64_t shutdown_ns)
{
	json_t *o = json_pack("{s:{s:s},s:{}}", "metadata", "uid", v->uid, "spec"), *spec = json_object_get(o, "spec");

	if (o && !agentsandbox_put_end(spec, shutdown_ns) && !name_absent_end(spec))
		return o;
	json_decref(o);
	return NULL;
}
