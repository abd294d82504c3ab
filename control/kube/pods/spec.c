#include "control/kube/pods/spec.h"

#include "base/err.h"
#include "base/text.h"
#include "base/utf8.h"
#include "control/kube/pods/claim.h"
#include "control/kube/pods/template.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX      "muxd-"
#define PREFIX_HOLD "investigation-"
#define NAME_LEN    58 /* of one that ends in a digest: longer than any that does not */
#define DIGEST_HEX  10
#define SPEC_HEX    32

/* What holds a container without an init container: any shell will do, and TERM ends it at once. */
#define HOLD "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"

static void sha256_hex(const char *text, size_t digits, char *out)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (!EVP_Digest(text, strlen(text), digest, &n, EVP_sha256(), NULL))
		n = 0;
	memset(digest + n, 0, sizeof(digest) - n);
	for (size_t i = 0; i < digits; i += 2)
		snprintf(out + i, 3, "%02x", digest[i / 2]);
}

static bool is_lower(const char *s)
{
	for (; *s; s++)
		if (isupper((unsigned char)*s))
			return false;
	return true;
}

/* Names of the whole length, 58 characters, end in a digest; whatever is shorter is verbatim. */
static int object_name(const char *prefix, const char *agent, char out[KUBE_NAME_MAX + 1], struct err *e)
{
	size_t head = strlen(prefix), len, cut = NAME_LEN - head - 1 - DIGEST_HEX;
	int rc = agent_name_check(agent, e);
	char *p;

	if (rc)
		return rc;
	if (head + strlen(agent) < NAME_LEN - 2 && is_lower(agent)) {
		text_format(out, KUBE_NAME_MAX + 1, "%s%s", prefix, agent);
		return 0;
	}
	/* Always the full length, so that a short name with capitals is not that of another agent. */
	text_format(out, KUBE_NAME_MAX + 1, "%s%.*s", prefix, (int)cut, agent);
	for (p = out; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	len = strlen(out);
	memset(out + len, 'x', head + cut - len);
	out[head + cut] = '-';
	sha256_hex(agent, DIGEST_HEX, out + head + cut + 1);
	return 0;
}

int kube_spec_name(const char *agent, char out[KUBE_NAME_MAX + 1], struct err *e)
{
	return object_name(PREFIX, agent, out, e);
}

int kube_pod_name(enum kube_hold hold, const char *agent, char out[KUBE_NAME_MAX + 1], struct err *e)
{
	return object_name(hold == KUBE_HOLD_SANDBOX ? PREFIX_HOLD : PREFIX, agent, out, e);
}

/* NULL for "" and NULL: jansson's `s*` leaves the key out. */
static const char *some(const char *s)
{
	return s && *s ? s : NULL;
}

/* {} when nothing is set: Kubernetes takes that as absent. */
static json_t *quantities(const char *cpu, const char *memory, const char *ephemeral)
{
	return json_pack("{s:s*,s:s*,s:s*}", "cpu", some(cpu), "memory", some(memory), "ephemeral-storage",
			 some(ephemeral));
}

static json_t *resources(const struct kube_pod_spec *s)
{
	return json_pack("{s:o,s:o}", "requests", quantities(s->request_cpu, s->request_memory, s->request_ephemeral),
			 "limits", quantities(s->limit_cpu, s->limit_memory, s->limit_ephemeral));
}

static json_t *container_security(void)
{
	return json_pack("{s:b,s:b,s:{s:[s]}}", "allowPrivilegeEscalation", 0, "privileged", 0, "capabilities", "drop",
			 "ALL");
}

static json_t *pod_security(void)
{
	return json_pack("{s:b,s:i,s:i,s:i,s:s,s:{s:s}}", "runAsNonRoot", 1, "runAsUser", KUBE_UID, "runAsGroup",
			 KUBE_UID, "fsGroup", KUBE_UID, "fsGroupChangePolicy", "OnRootMismatch", "seccompProfile",
			 "type", "RuntimeDefault");
}

const char *kube_spec_muxlet(const struct kube_pod_spec *s)
{
	return some(s->muxlet_path) ? s->muxlet_path : KUBE_MUXLET_PATH;
}

/* muxlet copies itself: its image needs neither a shell nor cp. */
static json_t *init_container(const struct kube_pod_spec *s)
{
	return json_pack("{s:s,s:s,s:s*,s:[s,s,s],s:o,s:{s:{s:s,s:s},s:{s:s,s:s}},s:[{s:s,s:s}]}", "name", KUBE_INIT,
			 "image", s->init_image, "imagePullPolicy", some(s->pull_policy), "command",
			 kube_spec_muxlet(s), "--install", KUBE_MUXLET_THERE, "securityContext", container_security(),
			 "resources", "requests", "cpu", "10m", "memory", "16Mi", "limits", "cpu", "1", "memory",
			 "64Mi", "volumeMounts", "name", KUBE_VOLUME_LET, "mountPath", KUBE_MUXLET_DIR);
}

static json_t *command(const struct kube_pod_spec *s)
{
	if (some(s->init_image))
		return json_pack("[s,s]", KUBE_MUXLET_THERE, "--pause");
	return json_pack("[s,s,s]", "/bin/sh", "-c", HOLD);
}

static json_t *mounts(const struct kube_pod_spec *s)
{
	json_t *list = json_pack("[{s:s,s:s,s:o*}]", "name", KUBE_VOLUME_WORK, "mountPath", KUBE_WORKSPACE, "readOnly",
				 s->read_only ? json_true() : NULL);

	if (some(s->init_image) &&
	    json_array_append_new(list, json_pack("{s:s,s:s,s:b}", "name", KUBE_VOLUME_LET, "mountPath",
						  KUBE_MUXLET_DIR, "readOnly", 1))) {
		json_decref(list);
		return NULL;
	}
	return list;
}

static json_t *main_container(const struct kube_pod_spec *s)
{
	return json_pack("{s:s,s:s,s:s*,s:o,s:s,s:[{s:s,s:s}],s:o,s:o,s:o}", "name", KUBE_CONTAINER, "image", s->image,
			 "imagePullPolicy", some(s->pull_policy), "command", command(s), "workingDir", KUBE_WORKSPACE,
			 "env", "name", "HOME", "value", KUBE_WORKSPACE, "resources", resources(s), "securityContext",
			 container_security(), "volumeMounts", mounts(s));
}

static json_t *workspace_volume(const struct kube_pod_spec *s, const char *name)
{
	char size[24];

	snprintf(size, sizeof(size), "%llu", (unsigned long long)s->workspace_size);
	if (s->workspace == WORKSPACE_CLAIM)
		return json_pack("{s:s,s:{s:s}}", "name", KUBE_VOLUME_WORK, "persistentVolumeClaim", "claimName",
				 some(s->claim) ? s->claim : name);
	return json_pack("{s:s,s:{s:s,s:s*}}", "name", KUBE_VOLUME_WORK, "emptyDir", "sizeLimit", size, "medium",
			 s->workspace == WORKSPACE_MEMORY ? "Memory" : NULL);
}

static json_t *volumes(const struct kube_pod_spec *s, const char *name)
{
	json_t *list = json_pack("[o]", workspace_volume(s, name));

	if (some(s->init_image) && json_array_append_new(list, json_pack("{s:s,s:{s:s}}", "name", KUBE_VOLUME_LET,
									 "emptyDir", "sizeLimit", "16Mi"))) {
		json_decref(list);
		return NULL;
	}
	return list;
}

/* NULL: what the cluster does with every pod. */
static json_t *tolerations(const struct kube_pod_spec *s)
{
	static const char *const taints[] = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"};
	json_t *list = s->node_timeout_s ? json_array() : NULL;

	for (size_t i = 0; list && i < sizeof(taints) / sizeof(taints[0]); i++)
		(void)json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:I}", "key", taints[i], "operator", "Exists",
							    "effect", "NoExecute", "tolerationSeconds",
							    (json_int_t)s->node_timeout_s));
	return list;
}

static json_t *pod_spec(const struct kube_pod_spec *s, const char *name)
{
	json_t *o =
	    json_pack("{s:s,s:i,s:b,s:b,s:s*,s:o,s:[o],s:o,s:o*}", "restartPolicy", "Never",
		      "terminationGracePeriodSeconds", 0, "automountServiceAccountToken", 0, "enableServiceLinks", 0,
		      "runtimeClassName", some(s->runtime_class), "securityContext", pod_security(), "containers",
		      main_container(s), "volumes", volumes(s, name), "tolerations", tolerations(s));

	if (o && some(s->init_image) && json_object_set_new(o, "initContainers", json_pack("[o]", init_container(s)))) {
		json_decref(o);
		return NULL;
	}
	return o;
}

/* The configured ones first: muxd's own win. */
json_t *kube_spec_labels(const struct kube_pod_spec *s, const char *agent, const char *role)
{
	json_t *o = json_object(), *own;

	for (size_t i = 0; i < s->nlabels && o; i++)
		if (json_object_set_new(o, s->labels[i].key, json_string(s->labels[i].value)))
			goto fail;
	own = json_pack("{s:s,s:s,s:s}", "app.kubernetes.io/managed-by", "muxd", KUBE_LABEL_ROLE, role, "agent_id",
			agent);
	if (!own || json_object_update(o, own)) {
		json_decref(own);
		goto fail;
	}
	json_decref(own);
	return o;
fail:
	json_decref(o);
	return NULL;
}

/* Another image or class than was configured must not be asked for: JSON would carry one with '?' in it. */
static bool configured_is_utf8(const struct kube_pod_spec *s)
{
	const char *const texts[] = {s->image,       s->pull_policy,       s->init_image,    s->muxlet_path,
				     s->request_cpu, s->request_memory,    s->limit_cpu,     s->limit_memory,
				     s->ns,          s->request_ephemeral, s->runtime_class, s->limit_ephemeral,
				     s->claim,       s->storage_class,     s->snapshot_class};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i] && !utf8_valid((const uint8_t *)texts[i], strlen(texts[i])))
			return false;
	return true;
}

static json_t *meta(json_t *o, const char *key)
{
	return json_object_get(json_object_get(o, "metadata"), key);
}

/* Of everything that the object was made from: its spec, and the template over it. */
static int set_digests(json_t *o, const json_t *t)
{
	char *text = json_dumps(json_object_get(o, "spec"), JSON_COMPACT | JSON_SORT_KEYS), *both;
	char digest[SPEC_HEX + 1] = "", of_template[TEMPLATE_DIGEST_HEX + 1];
	size_t size = text ? strlen(text) + sizeof(of_template) : 0;
	int rc = ERR_NOMEM;

	template_digest(t, of_template);
	both = text ? malloc(size) : NULL;
	if (both) {
		text_format(both, size, "%s%s", text, of_template);
		sha256_hex(both, SPEC_HEX, digest);
		rc = json_object_set_new(meta(o, "annotations"), KUBE_ANNOTATION_SPEC, json_string(digest));
	}
	if (!rc && of_template[0])
		rc = json_object_set_new(meta(o, "annotations"), KUBE_ANNOTATION_TEMPLATE, json_string(of_template));
	free(both);
	free(text);
	return rc ? ERR_NOMEM : 0;
}

/* t: merged over it; NULL: nothing. */
static json_t *object(const char *kind, const struct kube_pod_spec *s, const char *name, const char *agent,
		      const char *role, json_t *spec, const json_t *t, struct err *e)
{
	json_t *o = NULL;

	if (spec && configured_is_utf8(s))
		o = json_pack("{s:s,s:s,s:{s:s,s:s,s:o,s:{s:s}},s:O}", "apiVersion", "v1", "kind", kind, "metadata",
			      "name", name, "namespace", s->ns, "labels", kube_spec_labels(s, agent, role),
			      "annotations", KUBE_ANNOTATION_AGENT, agent, "spec", spec);
	json_decref(spec);
	if (o && ((t && template_apply(t, o)) || set_digests(o, t))) {
		json_decref(o);
		o = NULL;
	}
	if (!o)
		err_set(e, ERR_INVAL,
			"no %s can be described for agent %s: out of memory, or a configured text is not UTF-8", kind,
			agent);
	return o;
}

json_t *kube_spec_pod(const struct kube_pod_spec *s, const char *agent, const struct id *session, struct err *e)
{
	char name[KUBE_NAME_MAX + 1], text[ID_STR_LEN];
	json_t *o;

	if (kube_spec_name(agent, name, e))
		return NULL;
	o = object("Pod", s, name, agent, KUBE_ROLE_SANDBOX, pod_spec(s, name), s->pod_template, e);
	id_format(session, text);
	if (o &&
	    (json_object_set_new(meta(o, "labels"), "compute_session_id", json_string(text)) ||
	     (some(s->app_id) && json_object_set_new(meta(o, "labels"), KUBE_LABEL_APP, json_string(s->app_id))))) {
		err_set(e, ERR_NOMEM, "no memory for the pod of %s", agent);
		json_decref(o);
		o = NULL;
	}
	return o;
}

json_t *kube_spec_binder(const struct kube_pod_spec *s, const char *agent, const char *claim, struct err *e)
{
	struct kube_pod_spec small = *s;
	char name[KUBE_NAME_MAX + 1], own[KUBE_OBJECT_MAX + 1];
	json_t *placement, *o;

	if (kube_spec_name(agent, name, e))
		return NULL;
	text_format(own, sizeof(own), "%s.bind", name);
	small.init_image = "";
	small.request_cpu = "10m";
	small.request_memory = "16Mi";
	small.request_ephemeral = "";
	small.claim = claim;
	small.read_only = false;
	placement = template_placement(s->pod_template);
	o = placement ? object("Pod", &small, own, agent, KUBE_ROLE_BINDER, pod_spec(&small, name), placement, e)
		      : NULL;
	if (!placement)
		err_set(e, ERR_NOMEM, "no memory for the first consumer of a claim of %s", agent);
	json_decref(placement);
	return o;
}

/* What a claim is beside its spec: its place in the order, and where its content comes from. */
static int annotate(json_t *o, const struct kube_claim_plan *p)
{
	char number[24], hex[ID_STR_LEN];
	int rc;

	snprintf(number, sizeof(number), "%llu", (unsigned long long)(p ? p->generation : 1));
	rc = json_object_set_new(meta(o, "annotations"), KUBE_ANNOTATION_GENERATION, json_string(number));
	rc |= json_object_set_new(meta(o, "labels"), KUBE_LABEL_WORKSPACE,
				  json_string(claim_state_name(p && p->snapshot ? CLAIM_NEXT : CLAIM_CURRENT)));
	if (p && p->snapshot) {
		id_format(p->snapshot, hex);
		rc |= json_object_set_new(meta(o, "annotations"), KUBE_ANNOTATION_SNAPSHOT, json_string(hex));
	}
	if (p && p->read_only)
		rc |= json_object_set_new(meta(o, "annotations"), KUBE_ANNOTATION_READ_ONLY, json_string("true"));
	return rc;
}

json_t *kube_spec_claim(const struct kube_pod_spec *s, const char *agent, const struct kube_claim_plan *p,
			struct err *e)
{
	uint64_t bytes = p && p->size_min > s->workspace_size ? p->size_min : s->workspace_size;
	char name[KUBE_NAME_MAX + 1], size[24];
	json_t *o, *source = NULL;

	if (kube_spec_name(agent, name, e))
		return NULL;
	snprintf(size, sizeof(size), "%llu", (unsigned long long)bytes);
	if (p && p->snapshot)
		source = json_pack("{s:s,s:s,s:s}", "apiGroup", "snapshot.storage.k8s.io", "kind", "VolumeSnapshot",
				   "name", p->source);
	o = object("PersistentVolumeClaim", s, p ? p->name : name, agent, KUBE_ROLE_SANDBOX,
		   json_pack("{s:[s],s:{s:{s:s}},s:s*,s:o*}", "accessModes", "ReadWriteOnce", "resources", "requests",
			     "storage", size, "storageClassName", some(s->storage_class), "dataSource", source),
		   NULL, e);
	if (o && annotate(o, p)) {
		err_set(e, ERR_NOMEM, "no memory for the claim of %s", agent);
		json_decref(o);
		o = NULL;
	}
	return o;
}

/* ---- copies */

static const size_t strings[] = {offsetof(struct kube_pod_spec, ns),
				 offsetof(struct kube_pod_spec, image),
				 offsetof(struct kube_pod_spec, pull_policy),
				 offsetof(struct kube_pod_spec, init_image),
				 offsetof(struct kube_pod_spec, muxlet_path),
				 offsetof(struct kube_pod_spec, ephemeral_image),
				 offsetof(struct kube_pod_spec, runtime_class),
				 offsetof(struct kube_pod_spec, request_cpu),
				 offsetof(struct kube_pod_spec, request_memory),
				 offsetof(struct kube_pod_spec, request_ephemeral),
				 offsetof(struct kube_pod_spec, limit_cpu),
				 offsetof(struct kube_pod_spec, limit_memory),
				 offsetof(struct kube_pod_spec, limit_ephemeral),
				 offsetof(struct kube_pod_spec, storage_class),
				 offsetof(struct kube_pod_spec, snapshot_class),
				 offsetof(struct kube_pod_spec, claim),
				 offsetof(struct kube_pod_spec, warm_pool),
				 offsetof(struct kube_pod_spec, app_id),
				 offsetof(struct kube_pod_spec, template_config_maps),
				 offsetof(struct kube_pod_spec, template_secrets),
				 offsetof(struct kube_pod_spec, template_claims),
				 offsetof(struct kube_pod_spec, template_priorities)};

static const char **string_at(struct kube_pod_spec *s, size_t i)
{
	return (const char **)(void *)((char *)s + strings[i]);
}

static void drop(const char *s)
{
	free((char *)(uintptr_t)s);
}

static struct kube_label *pairs_copy(const struct kube_label *from, size_t n, bool *good)
{
	struct kube_label *to = calloc(n + 1, sizeof(*to));

	for (size_t i = 0; to && i < n; i++) {
		to[i] = (struct kube_label){strdup(from[i].key), strdup(from[i].value)};
		*good = *good && to[i].key && to[i].value;
	}
	*good = *good && to;
	return to;
}

static void pairs_free(const struct kube_label *pairs, size_t n)
{
	for (size_t i = 0; pairs && i < n; i++) {
		drop(pairs[i].key);
		drop(pairs[i].value);
	}
	free((struct kube_label *)(uintptr_t)pairs);
}

int kube_spec_copy(const struct kube_pod_spec *from, struct kube_pod_spec *out)
{
	struct kube_pod_spec s = *from, source = *from;
	bool good = true;

	s.labels = pairs_copy(from->labels, from->nlabels, &good);
	s.images = pairs_copy(from->images, from->nimages, &good);
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		const char *text = *string_at(&source, i);

		*string_at(&s, i) = strdup(text ? text : "");
		good = good && *string_at(&s, i);
	}
	s.pod_template = from->pod_template ? json_deep_copy(from->pod_template) : NULL;
	good = good && (s.pod_template || !from->pod_template);
	if (!good) {
		kube_spec_finish(&s);
		return ERR_NOMEM;
	}
	*out = s;
	return 0;
}

/* Of strings: those of which calls and policies know by the configuration of now. */
static const size_t quantities_of[] = {
    offsetof(struct kube_pod_spec, request_cpu),       offsetof(struct kube_pod_spec, request_memory),
    offsetof(struct kube_pod_spec, request_ephemeral), offsetof(struct kube_pod_spec, limit_cpu),
    offsetof(struct kube_pod_spec, limit_memory),      offsetof(struct kube_pod_spec, limit_ephemeral)};
#define QUANTITIES (sizeof(quantities_of) / sizeof(quantities_of[0]))

static const char **quantity_at(struct kube_pod_spec *s, size_t i)
{
	return (const char **)(void *)((char *)s + quantities_of[i]);
}

int kube_spec_renew(struct kube_pod_spec *s, const struct kube_pod_spec *from)
{
	struct kube_pod_spec source = *from;
	const char *text[QUANTITIES];
	bool good = true;
	struct kube_label *images = pairs_copy(from->images, from->nimages, &good);

	for (size_t i = 0; i < QUANTITIES; i++) {
		text[i] = strdup(*quantity_at(&source, i) ? *quantity_at(&source, i) : "");
		good = good && text[i];
	}
	if (!good) {
		pairs_free(images, from->nimages);
		for (size_t i = 0; i < QUANTITIES; i++)
			drop(text[i]);
		return ERR_NOMEM;
	}
	pairs_free(s->images, s->nimages);
	s->images = images;
	s->nimages = from->nimages;
	for (size_t i = 0; i < QUANTITIES; i++) {
		drop(*quantity_at(s, i));
		*quantity_at(s, i) = text[i];
	}
	return 0;
}

void kube_spec_finish(struct kube_pod_spec *s)
{
	pairs_free(s->labels, s->nlabels);
	pairs_free(s->images, s->nimages);
	json_decref((json_t *)(uintptr_t)s->pod_template);
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		drop(*string_at(s, i));
	memset(s, 0, sizeof(*s));
}
