#include "control/kube/pods/visitor.h"

#include "base/err.h"
#include "base/text.h"
#include "control/kube/pods/pod.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS "/var/run/secrets/" /* the account's, which is the target's alone */

/* ---- what it is made from */

static int visitor_fits(const json_t *pod, const char *target, const json_t **out, struct err *e)
{
	const json_t *spec = json_object_get(pod, "spec");

	if (!json_is_object(spec))
		return err_set(e, ERR_K8S, "the API server's answer is no pod");
	*out = pod_named(json_object_get(spec, "containers"), target);
	if (!*out)
		return err_set(e, ERR_UNSUPPORTED, "%.63s is no container that lasts as long as its pod", target);
	if (json_is_true(json_object_get(spec, "shareProcessNamespace")) ||
	    json_is_true(json_object_get(spec, "hostPID")))
		return err_set(e, ERR_UNSUPPORTED,
			       "the pod's containers share their processes, and nothing tells which is the target's");
	return 0;
}

/* The container's, else the pod's; NULL: neither says. */
static json_t *secure(const json_t *pod, const json_t *target, const char *key)
{
	json_t *own = json_object_get(json_object_get(target, "securityContext"), key);

	return own ? own : json_object_get(json_object_get(json_object_get(pod, "spec"), "securityContext"), key);
}

static json_t *security(const json_t *pod, const json_t *target)
{
	static const char *const same[] = {"runAsUser", "runAsGroup", "seLinuxOptions"};
	json_t *o = json_pack("{s:b,s:b,s:b,s:{s:[s]},s:{s:s}}", "privileged", 0, "allowPrivilegeEscalation", 0,
			      "readOnlyRootFilesystem", 1, "capabilities", "drop", "ALL", "seccompProfile", "type",
			      "RuntimeDefault");

	for (size_t i = 0; o && i < sizeof(same) / sizeof(same[0]); i++)
		if (secure(pod, target, same[i]))
			json_object_set(o, same[i], secure(pod, target, same[i]));
	if (o && json_integer_value(secure(pod, target, "runAsUser")) > 0)
		json_object_set_new(o, "runAsNonRoot", json_true());
	return o;
}

/* An ephemeral container may not mount by subPath; and nothing of it is to reach further than the mount itself. */
static json_t *mounts(const json_t *target)
{
	json_t *list = json_array(), *o;
	size_t i;

	json_array_foreach(json_object_get(target, "volumeMounts"), i, o)
	{
		json_t *m;

		if (*json_get_text(o, "subPath") || *json_get_text(o, "subPathExpr") ||
		    strncmp(json_get_text(o, "mountPath"), TOKENS, strlen(TOKENS)) == 0)
			continue;
		m = json_pack("{s:s,s:s}", "name", json_get_text(o, "name"), "mountPath",
			      json_get_text(o, "mountPath"));
		if (m && json_is_true(json_object_get(o, "readOnly")))
			json_object_set_new(m, "readOnly", json_true());
		json_array_append_new(list, m);
	}
	return list;
}

static json_t *visitor_make(const json_t *pod, const json_t *target, const struct visitor_params *p)
{
	return json_pack("{s:s,s:s*,s:s,s:[s,s,s,s],s:s,s:o,s:o}", "image", p->image, "imagePullPolicy",
			 p->pull_policy && *p->pull_policy ? p->pull_policy : NULL, "targetContainerName", p->target,
			 "command", p->muxlet, "--visit", "1", "--pause", "terminationMessagePolicy",
			 "FallbackToLogsOnError", "securityContext", security(pod, target), "volumeMounts",
			 mounts(target));
}

static int digest(const json_t *container, char out[11])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	char *dump = json_dumps(container, JSON_COMPACT | JSON_SORT_KEYS);
	unsigned n = 0;
	int ok = dump && EVP_Digest(dump, strlen(dump), sum, &n, EVP_sha256(), NULL);

	for (size_t i = 0; ok && i < 5; i++)
		snprintf(out + 2 * i, 3, "%02x", sum[i]);
	free(dump);
	return ok ? 0 : ERR_NOMEM;
}

/* ---- what is there */

/* A server of 1.33 and later writes procMount: Default into what says nothing of it. */
static bool visitor_is_same(const json_t *there, const json_t *value)
{
	bool same;
	json_t *o;

	if (!json_is_object(there) || strcmp(json_get_text(there, "procMount"), "Default") != 0)
		return json_equal(there, value);
	o = json_copy((json_t *)(uintptr_t)there);
	(void)json_object_del(o, "procMount");
	same = json_equal(o, value);
	json_decref(o);
	return same;
}

/* Every field of ours as we would make it; the server adds fields of its own. */
static bool visitor_is_ours(const json_t *there, const json_t *made)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)made, key, value)
	{
		const json_t *t = json_object_get(there, key);

		if (!visitor_is_same(t, value) && !(json_is_array(value) && !json_array_size(value) && !t))
			return false;
	}
	return true;
}

static void visitor_say(struct visitor_plan *out, const char *what, const json_t *o)
{
	text_format(out->why, sizeof(out->why), "%s%s%s%s%s", what, *json_get_text(o, "reason") ? ": " : "",
		    json_get_text(o, "reason"), *json_get_text(o, "message") ? ": " : "", json_get_text(o, "message"));
	pod_plain_text(out->why);
}

/* True: ended from outside, as a node that drains or somebody inside does; the next one may do better. */
static bool was_ended(const json_t *terminated)
{
	json_int_t code = json_integer_value(json_object_get(terminated, "exitCode"));

	return code == 0 || code > 128;
}

static void visitor_look(const json_t *pod, struct visitor_plan *out, bool *out_next)
{
	static const char *const hopeless[] = {"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError",
					       "CreateContainerError", "RunContainerError"};
	const json_t *status =
	    pod_named(json_object_get(json_object_get(pod, "status"), "ephemeralContainerStatuses"), out->name);
	const json_t *state = json_object_get(status, "state"), *ended = json_object_get(state, "terminated"),
		     *waiting = json_object_get(state, "waiting");

	out->state = VISITOR_WAITING;
	*out_next = false;
	if (json_object_get(state, "running")) {
		out->state = VISITOR_RUNNING;
	} else if (ended) {
		out->state = VISITOR_ENDED;
		*out_next = was_ended(ended);
		visitor_say(out, "it has ended", ended);
	} else {
		visitor_say(out, "it waits", waiting);
		for (size_t i = 0; i < sizeof(hopeless) / sizeof(hopeless[0]); i++)
			if (strcmp(json_get_text(waiting, "reason"), hopeless[i]) == 0)
				out->state = VISITOR_ENDED;
	}
}

static int visitor_find(const json_t *pod, json_t *made, struct visitor_plan *out, struct err *e)
{
	const json_t *list = json_object_get(json_object_get(pod, "spec"), "ephemeralContainers"), *there;
	char hex[11];
	bool next = true;

	if (digest(made, hex))
		return err_set(e, ERR_NOMEM, "no memory for an ephemeral container");
	for (int i = 1; i <= VISITOR_TRIES && next; i++) {
		text_format(out->name, sizeof(out->name), VISITOR_PREFIX "%s-%d", hex, i);
		there = pod_named(list, out->name);
		if (!there) {
			out->state = VISITOR_ABSENT;
			out->why[0] = '\0';
			json_object_set_new(made, "name", json_string(out->name));
			out->container = json_incref(made);
			return 0;
		}
		if (!visitor_is_ours(there, made))
			return err_set(e, ERR_UNSUPPORTED, "%s in the pod is not as muxd makes it", out->name);
		visitor_look(pod, out, &next);
	}
	return 0;
}

int visitor_plan(const json_t *pod, const struct visitor_params *p, struct visitor_plan *out, struct err *e)
{
	struct visitor_plan plan = {.state = VISITOR_ABSENT};
	const json_t *target = NULL;
	int rc = visitor_fits(pod, p->target, &target, e);
	json_t *made;

	if (rc)
		return rc;
	made = visitor_make(pod, target, p);
	rc = made ? visitor_find(pod, made, &plan, e) : err_set(e, ERR_NOMEM, "no memory for an ephemeral container");
	json_decref(made);
	if (!rc)
		*out = plan;
	return rc;
}

json_t *visitor_patch(json_t *container)
{
	return json_pack("{s:{s:[o]}}", "spec", "ephemeralContainers", container);
}
