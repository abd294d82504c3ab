#include "control/kube/pods/snapshot.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "control/kube/pods/spec.h"

#include <stdio.h>
#include <string.h>

static int snapshot_copy(char *out, size_t size, const char *s)
{
	return snprintf(out, size, "%s", s) < (int)size ? 0 : ERR_K8S;
}

void snapshot_name(const struct id *id, char out[KUBE_OBJECT_MAX + 1])
{
	char hex[ID_STR_LEN];

	id_format(id, hex);
	text_format(out, KUBE_OBJECT_MAX + 1, KUBE_SNAPSHOT_PREFIX "%s", hex);
}

static void read_status(const json_t *status, struct snapshot_view *v)
{
	const json_t *ready = json_object_get(status, "readyToUse"), *error = json_object_get(status, "error");

	if (json_is_boolean(ready))
		v->ready = json_is_true(ready) ? SNAPSHOT_READY : SNAPSHOT_NOT_READY;
	if (kube_quantity(json_get_text(status, "restoreSize"), &v->restore_size))
		v->restore_size = 0;
	if (json_is_object(error)) {
		text_put(v->error, sizeof(v->error),
			 *json_get_text(error, "message") ? json_get_text(error, "message")
							  : "an error without a message");
		pod_plain_text(v->error);
	}
	(void)clock_parse_utc(json_get_text(status, "creationTime"), &v->created_ns);
}

int snapshot_view(const json_t *o, struct snapshot_view *out, struct err *e)
{
	const json_t *meta = json_object_get(o, "metadata"), *notes = json_object_get(meta, "annotations");
	const json_t *status = json_object_get(o, "status"),
		     *source = json_object_get(json_object_get(o, "spec"), "source");
	struct snapshot_view v = {0};

	if (!*json_get_text(meta, "name") || !*json_get_text(meta, "uid") ||
	    snapshot_copy(v.name, sizeof(v.name), json_get_text(meta, "name")) ||
	    snapshot_copy(v.uid, sizeof(v.uid), json_get_text(meta, "uid")) ||
	    snapshot_copy(v.agent, sizeof(v.agent), json_get_text(notes, KUBE_ANNOTATION_AGENT)) ||
	    snapshot_copy(v.claim, sizeof(v.claim), json_get_text(source, "persistentVolumeClaimName")) ||
	    snapshot_copy(v.content, sizeof(v.content), json_get_text(status, "boundVolumeSnapshotContentName")))
		return err_set(e, ERR_K8S, "the API server's answer is no VolumeSnapshot");
	if (id_parse(json_get_text(notes, KUBE_ANNOTATION_SNAPSHOT), &v.id) || agent_name_check(v.agent, NULL) ||
	    strcmp(json_get_text(json_object_get(meta, "labels"), KUBE_LABEL_ROLE), KUBE_ROLE_SNAPSHOT) != 0)
		return err_set(e, ERR_K8S, "VolumeSnapshot %.100s was not made by muxd", v.name);
	v.deleting = *json_get_text(meta, "deletionTimestamp");
	(void)clock_parse_utc(json_get_text(meta, "creationTimestamp"), &v.created_ns);
	read_status(status, &v);
	*out = v;
	return 0;
}

void snapshot_describe(const struct snapshot_view *v, struct sandbox_snapshot *out)
{
	*out = (struct sandbox_snapshot){.id = v->id, .size = v->restore_size, .created_wall_ns = v->created_ns};
	text_put(out->agent, sizeof(out->agent), v->agent);
	text_put(out->name, sizeof(out->name), v->name);
	snprintf(out->how, sizeof(out->how), "VolumeSnapshot");
	out->ready = v->ready == SNAPSHOT_READY && *v->content && !v->deleting;
	if (out->ready)
		return;
	if (v->deleting)
		snprintf(out->detail, sizeof(out->detail), "it is being deleted");
	else if (*v->error)
		text_put(out->detail, sizeof(out->detail), v->error);
	else
		text_format(out->detail, sizeof(out->detail), "readyToUse is %s",
			    v->ready == SNAPSHOT_UNKNOWN ? "not set yet"
			    : *v->content                ? "false"
							 : "set without a content");
}

int snapshot_is_content_of(const json_t *content, const struct snapshot_view *v, const char *ns, struct err *e)
{
	const json_t *ref = json_object_get(json_object_get(content, "spec"), "volumeSnapshotRef");

	if (strcmp(json_get_text(ref, "name"), v->name) == 0 && strcmp(json_get_text(ref, "namespace"), ns) == 0 &&
	    strcmp(json_get_text(ref, "uid"), v->uid) == 0)
		return 0;
	return err_set(e, ERR_SNAPSHOT, "content %.80s of VolumeSnapshot %.80s belongs to %.63s/%.80s (uid %.40s)",
		       v->content, v->name, json_get_text(ref, "namespace"), json_get_text(ref, "name"),
		       *json_get_text(ref, "uid") ? json_get_text(ref, "uid") : "none");
}

json_t *snapshot_object(const struct kube_pod_spec *s, const char *agent, const struct id *id, const char *claim,
			struct err *e)
{
	char name[KUBE_OBJECT_MAX + 1], hex[ID_STR_LEN];
	const char *class = s->snapshot_class && *s->snapshot_class ? s->snapshot_class : NULL;
	json_t *labels = kube_spec_labels(s, agent, KUBE_ROLE_SNAPSHOT), *o;

	snapshot_name(id, name);
	id_format(id, hex);
	o = json_pack("{s:s,s:s,s:{s:s,s:s,s:o,s:{s:s,s:s}},s:{s:s*,s:{s:s}}}", "apiVersion", KUBE_SNAPSHOT_GROUP "/v1",
		      "kind", "VolumeSnapshot", "metadata", "name", name, "namespace", s->ns, "labels", labels,
		      "annotations", KUBE_ANNOTATION_AGENT, agent, KUBE_ANNOTATION_SNAPSHOT, hex, "spec",
		      "volumeSnapshotClassName", class, "source", "persistentVolumeClaimName", claim);
	if (!o)
		err_set(e, ERR_INVAL,
			"no VolumeSnapshot can be described for agent %s: out of memory, or a configured text is "
			"not UTF-8",
			agent);
	return o;
}
