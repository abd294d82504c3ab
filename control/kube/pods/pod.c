#include "control/kube/pods/pod.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "control/kube/pods/spec.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_CONTAINER "kubectl.kubernetes.io/default-container"

static const char *const state_names[] = {"waiting", "hopeless", "running", "ended"};

const char *pod_state_name(enum pod_state s)
{
	return state_names[s];
}

static const json_t *in(const json_t *o, const char *a, const char *b)
{
	return json_object_get(json_object_get(o, a), b);
}

const json_t *pod_named(const json_t *list, const char *name)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)list, i, o)
	{
		if (strcmp(json_get_text(o, "name"), name) == 0)
			return o;
	}
	return NULL;
}

/* "a, b and c": bounded; what does not fit is cut. */
static void name_list(const json_t *list, char *out, size_t size)
{
	size_t i, n = json_array_size(list), len = 0;
	json_t *o;

	out[0] = '\0';
	json_array_foreach((json_t *)(uintptr_t)list, i, o)
	{
		const char *between = i == 0 ? "" : i + 1 == n ? " and " : ", ";
		int put = snprintf(out + len, size - len, "%s%s", between, json_get_text(o, "name"));

		if (put < 0 || (size_t)put >= size - len)
			return;
		len += (size_t)put;
	}
}

/* The entry of spec, and of status where there is one yet. An ephemeral container's are beside the others'. */
static int find_container(const json_t *pod, const char *name, struct pod_view *v, const json_t **out_spec,
			  struct err *e)
{
	static const char *const lists[] = {"containers", "initContainers", "ephemeralContainers"};
	const json_t *spec = json_object_get(pod, "spec"), *all = json_object_get(spec, "containers");
	const char *chosen =
	    name && *name ? name : json_get_text(in(pod, "metadata", "annotations"), DEFAULT_CONTAINER);
	const json_t *found = NULL;
	char names[ERR_MESSAGE_MAX];

	if (!*chosen && json_array_size(all) == 1)
		chosen = json_get_text(json_array_get(all, 0), "name");
	name_list(all, names, sizeof(names));
	if (!*chosen)
		return err_set(e, ERR_INVAL, "pod %s has the containers %s: name one of them",
			       json_get_text(json_object_get(pod, "metadata"), "name"), names);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && !found; i++)
		found = pod_named(json_object_get(spec, lists[i]), chosen);
	if (!found)
		return err_set(e, ERR_NOT_FOUND, "pod %s has no container %s, only %s",
			       json_get_text(json_object_get(pod, "metadata"), "name"), chosen, names);
	text_put(v->container, sizeof(v->container), chosen);
	*out_spec = found;
	return 0;
}

static const json_t *pod_status_of(const json_t *pod, const char *container)
{
	static const char *const lists[] = {"containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"};
	const json_t *found = NULL;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && !found; i++)
		found = pod_named(in(pod, "status", lists[i]), container);
	return found;
}

/* ---- the cluster's words */

void pod_plain_text(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 32 || (unsigned char)*s > 126)
			*s = '?';
}

/* "who: Reason: message", without what is not there. */
static void pod_say(struct pod_view *v, const char *who, const char *reason, const char *message)
{
	text_format(v->why, sizeof(v->why), "%s%s%s%s%s", who, *who ? ": " : "", reason,
		    *reason && *message ? ": " : "", message);
	pod_plain_text(v->why);
}

static void say_terminated(struct pod_view *v, const char *who, const json_t *t)
{
	char message[200];
	json_int_t code = json_integer_value(json_object_get(t, "exitCode"));
	json_int_t signum = json_integer_value(json_object_get(t, "signal"));

	text_format(message, sizeof(message), signum ? "signal %lld%s%s" : "exit code %lld%s%s",
		    (long long)(signum ? signum : code), *json_get_text(t, "message") ? ", " : "",
		    json_get_text(t, "message"));
	pod_say(v, who, json_get_text(t, "reason"), message);
}

static bool is_hopeless(const char *reason)
{
	return strcmp(reason, "InvalidImageName") == 0 || strcmp(reason, "ErrImageNeverPull") == 0;
}

/* An init container stands before all others: what it waits for is why. */
static bool init_waits(const json_t *pod, struct pod_view *v)
{
	char who[100];
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)in(pod, "status", "initContainerStatuses"), i, o)
	{
		const json_t *w = in(o, "state", "waiting"), *t = in(o, "state", "terminated");

		text_format(who, sizeof(who), "init container %.63s", json_get_text(o, "name"));
		if (w && strcmp(json_get_text(w, "reason"), "PodInitializing") != 0) {
			pod_say(v, who, json_get_text(w, "reason"), json_get_text(w, "message"));
			v->state = is_hopeless(json_get_text(w, "reason")) ? POD_HOPELESS : POD_WAITING;
			return true;
		}
		if (t && json_integer_value(json_object_get(t, "exitCode"))) {
			say_terminated(v, who, t);
			return true;
		}
	}
	return false;
}

static bool unscheduled(const json_t *pod, struct pod_view *v)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)in(pod, "status", "conditions"), i, o)
	{
		if (strcmp(json_get_text(o, "type"), "PodScheduled") != 0 ||
		    strcmp(json_get_text(o, "status"), "False") != 0)
			continue;
		pod_say(v, "", json_get_text(o, "reason"), json_get_text(o, "message"));
		return true;
	}
	return false;
}

static void say_waiting(const json_t *pod, struct pod_view *v, const json_t *status)
{
	const json_t *w = in(status, "state", "waiting"), *last = in(status, "lastState", "terminated");

	if (unscheduled(pod, v) || init_waits(pod, v))
		return;
	if (w) {
		pod_say(v, "", json_get_text(w, "reason"), json_get_text(w, "message"));
		v->state = is_hopeless(json_get_text(w, "reason")) ? POD_HOPELESS : POD_WAITING;
	} else if (last) {
		say_terminated(v, "restarting", last);
	} else {
		pod_say(v, "", json_get_text(json_object_get(pod, "status"), "phase"),
			"the container has no state yet");
	}
}

/* ---- the state */

static bool restarts(const json_t *pod, const json_t *terminated)
{
	const char *policy = json_get_text(json_object_get(pod, "spec"), "restartPolicy");
	json_int_t code = json_integer_value(json_object_get(terminated, "exitCode"));

	return strcmp(policy, "Never") != 0 && (strcmp(policy, "OnFailure") != 0 || code != 0);
}

static void find_state(const json_t *pod, struct pod_view *v)
{
	const json_t *status = json_object_get(pod, "status"), *mine = pod_status_of(pod, v->container);
	const json_t *ended = in(mine, "state", "terminated");
	const char *phase = json_get_text(status, "phase");

	text_put(v->container_id, sizeof(v->container_id), json_get_text(mine, "containerID"));
	v->started = json_array_size(json_object_get(status, "containerStatuses")) && *v->container_id;
	v->state = POD_WAITING;
	if (strcmp(phase, "Failed") == 0 || strcmp(phase, "Succeeded") == 0) {
		v->state = POD_ENDED;
		if (*json_get_text(status, "reason") || *json_get_text(status, "message"))
			pod_say(v, "", json_get_text(status, "reason"),
				json_get_text(status, "message")); /* Evicted: ... */
		else if (ended)
			say_terminated(v, "", ended);
		else if (!init_waits(pod, v))
			pod_say(v, "", "", phase);
		v->state = POD_ENDED;
	} else if (in(mine, "state", "running")) {
		v->state = POD_RUNNING;
	} else if (ended) {
		say_terminated(v, "", ended);
		v->state = restarts(pod, ended) && !v->deleting ? POD_WAITING : POD_ENDED;
	} else {
		say_waiting(pod, v, mine);
	}
}

/* NULL: none. */
static const json_t *mount_at(const json_t *container, const char *path)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)json_object_get(container, "volumeMounts"), i, o)
	{
		if (strcmp(json_get_text(o, "mountPath"), path) == 0)
			return o;
	}
	return NULL;
}

const char *pod_volume_at(const json_t *container, const char *path)
{
	const json_t *mount = mount_at(container, path);

	return mount ? json_get_text(mount, "name") : "";
}

static void find_workspace(const json_t *pod, const json_t *container, struct pod_view *v)
{
	const json_t *mount = mount_at(container, KUBE_WORKSPACE),
		     *volume = mount ? pod_named(in(pod, "spec", "volumes"), json_get_text(mount, "name")) : NULL;

	v->has_workspace = mount != NULL;
	v->read_only = mount && json_is_true(json_object_get(mount, "readOnly"));
	text_put(v->claim, sizeof(v->claim),
		 json_get_text(json_object_get(volume, "persistentVolumeClaim"), "claimName"));
}

int pod_view(const json_t *pod, const char *container, struct pod_view *out, struct err *e)
{
	const json_t *meta = json_object_get(pod, "metadata"), *notes = json_object_get(meta, "annotations"),
		     *spec = NULL;
	struct pod_view v = {.state = POD_WAITING};
	int rc;

	if (!*json_get_text(meta, "uid") || strlen(json_get_text(meta, "uid")) > POD_UID_MAX ||
	    !json_is_array(in(pod, "spec", "containers")))
		return err_set(e, ERR_K8S, "the API server's answer is no pod");
	rc = find_container(pod, container, &v, &spec, e);
	if (rc)
		return rc;
	v.deleting = *json_get_text(meta, "deletionTimestamp");
	(void)clock_parse_utc(json_get_text(meta, "deletionTimestamp"), &v.delete_ns);
	text_put(v.uid, sizeof(v.uid), json_get_text(meta, "uid"));
	text_put(v.agent, sizeof(v.agent), json_get_text(notes, KUBE_ANNOTATION_AGENT));
	text_put(v.spec, sizeof(v.spec), json_get_text(notes, KUBE_ANNOTATION_SPEC));
	text_put(v.pod_template, sizeof(v.pod_template), json_get_text(notes, KUBE_ANNOTATION_TEMPLATE));
	(void)clock_parse_utc(json_get_text(meta, "creationTimestamp"), &v.created_ns);
	v.memory_limit = *json_get_text(in(spec, "resources", "limits"), "memory");
	v.cpu_limit = *json_get_text(in(spec, "resources", "limits"), "cpu");
	v.muxlet_dir = mount_at(spec, KUBE_MUXLET_DIR) != NULL;
	find_workspace(pod, spec, &v);
	text_put(v.node, sizeof(v.node), json_get_text(json_object_get(pod, "spec"), "nodeName"));
	find_state(pod, &v);
	*out = v;
	return 0;
}

static bool pod_is_of(const json_t *pod, const char *role, const char *agent)
{
	return strcmp(json_get_text(in(pod, "metadata", "labels"), KUBE_LABEL_ROLE), role) == 0 &&
	       strcmp(json_get_text(in(pod, "metadata", "annotations"), KUBE_ANNOTATION_AGENT), agent) == 0;
}

bool pod_is_owned_by(const json_t *pod, const char *uid)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)in(pod, "metadata", "ownerReferences"), i, o)
	{
		if (json_is_true(json_object_get(o, "controller")) && strcmp(json_get_text(o, "uid"), uid) == 0)
			return true;
	}
	return false;
}

bool pod_has_role(const json_t *pod)
{
	return strcmp(json_get_text(in(pod, "metadata", "labels"), KUBE_LABEL_ROLE), KUBE_ROLE_SANDBOX) == 0;
}

bool pod_is_sandbox_of(const json_t *pod, const char *agent)
{
	return pod_is_of(pod, KUBE_ROLE_SANDBOX, agent);
}

bool pod_is_binder_of(const json_t *pod, const char *agent)
{
	return pod_is_of(pod, KUBE_ROLE_BINDER, agent);
}

void pod_incarnation(const struct pod_view *v, struct id *out)
{
	char both[POD_UID_MAX + POD_CID_MAX + 3];
	unsigned char digest[EVP_MAX_MD_SIZE] = {0};
	unsigned n;

	text_format(both, sizeof(both), "%s|%s", v->uid, v->container_id);
	(void)EVP_Digest(both, strlen(both), digest, &n, EVP_sha256(), NULL);
	memcpy(out->b, digest, sizeof(out->b));
	out->b[6] = (uint8_t)(0x80 | (out->b[6] & 0x0f));
	out->b[8] = (uint8_t)(0x80 | (out->b[8] & 0x3f));
}
