#include "control/kube/pods/sandboxclaim.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "control/kube/pods/agentsandbox.h"

#include <string.h>

#define ROLE_CLAIM "claim"

static const json_t *in(const json_t *o, const char *a, const char *b)
{
	return json_object_get(json_object_get(o, a), b);
}

/* Its controller tries everything else again: AdoptionConflict, SandboxCreatePending, SandboxMissing, SandboxNotReady,
 * ... */
static bool is_final(const char *reason)
{
	static const char *const final[] = {
	    "TemplateNotFound",          "WarmPoolNotFound", "InvalidMetadata", "EnvVarsInjectionRejected",
	    "VolumeClaimTemplatesError", "ClaimExpired",     "SandboxExpired"};

	for (size_t i = 0; i < sizeof(final) / sizeof(final[0]); i++)
		if (strcmp(reason, final[i]) == 0)
			return true;
	return false;
}

static void read_ready(const json_t *o, struct sandboxclaim_view *v)
{
	json_int_t generation = json_integer_value(in(o, "metadata", "generation"));
	size_t i;
	json_t *c;

	json_array_foreach((json_t *)(uintptr_t)in(o, "status", "conditions"), i, c)
	{
		const json_t *seen = json_object_get(c, "observedGeneration");

		if (strcmp(json_get_text(c, "type"), "Ready") != 0)
			continue;
		v->failed = strcmp(json_get_text(c, "status"), "False") == 0 && is_final(json_get_text(c, "reason")) &&
			    json_is_integer(seen) && json_integer_value(seen) >= generation;
		text_format(v->why, sizeof(v->why), "%s%s%s", json_get_text(c, "reason"),
			    *json_get_text(c, "message") ? ": " : "", json_get_text(c, "message"));
		pod_plain_text(v->why);
	}
}

int sandboxclaim_view(const json_t *o, struct sandboxclaim_view *out, struct err *e)
{
	const json_t *meta = json_object_get(o, "metadata");
	const char *agent = json_get_text(json_object_get(meta, "annotations"), KUBE_ANNOTATION_AGENT),
		   *sandbox = json_get_text(in(o, "status", "sandbox"), "name");
	struct sandboxclaim_view v = {0};

	if (!*json_get_text(meta, "uid") || strlen(json_get_text(meta, "uid")) >= sizeof(v.uid) ||
	    strlen(agent) >= sizeof(v.agent) || strlen(sandbox) >= sizeof(v.sandbox))
		return err_set(e, ERR_K8S, "the API server's answer is no SandboxClaim");
	text_put(v.uid, sizeof(v.uid), json_get_text(meta, "uid"));
	text_put(v.agent, sizeof(v.agent), agent);
	text_put(v.sandbox, sizeof(v.sandbox), sandbox);
	pod_plain_text(v.sandbox); /* a status is anybody's text who may write it */
	v.deleting = *json_get_text(meta, "deletionTimestamp");
	(void)clock_parse_utc(json_get_text(in(o, "spec", "lifecycle"), "shutdownTime"), &v.shutdown_ns);
	read_ready(o, &v);
	*out = v;
	return 0;
}

json_t *sandboxclaim_object(const struct kube_pod_spec *s, const char *agent, int64_t shutdown_ns, struct err *e)
{
	json_t *labels = kube_spec_labels(s, agent, ROLE_CLAIM), *life = shutdown_ns ? json_object() : NULL, *o;
	char name[KUBE_NAME_MAX + 1];

	if (kube_pod_name(s->hold, agent, name, e)) {
		json_decref(labels);
		json_decref(life);
		return NULL;
	}
	if (labels)
		(void)json_object_set_new(labels, "thread-id", json_string(agent));
	if (life)
		(void)agentsandbox_put_end(life, shutdown_ns);
	o = json_pack("{s:s,s:s,s:{s:s,s:s,s:o,s:{s:s}},s:{s:{s:s},s:{s:{s:s}},s:o*}}", "apiVersion",
		      SANDBOXCLAIM_GROUP "/" SANDBOXCLAIM_VERSION, "kind", "SandboxClaim", "metadata", "name", name,
		      "namespace", s->ns, "labels", labels, "annotations", KUBE_ANNOTATION_AGENT, agent, "spec",
		      "warmPoolRef", "name", s->warm_pool, "additionalPodMetadata", "annotations",
		      KUBE_ANNOTATION_AGENT, agent, "lifecycle", life);
	if (!o)
		err_set(e, ERR_NOMEM, "no memory for the SandboxClaim of %s", agent);
	return o;
}

json_t *sandboxclaim_end(const struct sandboxclaim_view *v, int64_t shutdown_ns)
{
	json_t *o = json_pack("{s:{s:s},s:{s:{s:n,s:n}}}", "metadata", "uid", v->uid, "spec", "lifecycle",
			      "shutdownTime", "shutdownPolicy");

	if (o && agentsandbox_put_end((json_t *)(uintptr_t)in(o, "spec", "lifecycle"), shutdown_ns)) {
		json_decref(o);
		o = NULL;
	}
	return o;
}
