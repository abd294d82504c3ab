#include "control/kube/pods/backing.h"

#include "base/err.h"
#include "base/text.h"
#include "control/kube/pods/snapshot.h"

#include <string.h>

static const struct {
	const char *kind, *owner, *group, *resource, *ref, *policy, *prefix;
} types[] = {
    [BACKING_CONTENT] = {"VolumeSnapshotContent", "VolumeSnapshot", KUBE_SNAPSHOT_GROUP, "volumesnapshotcontents",
			 "volumeSnapshotRef", "deletionPolicy", "snapcontent-"},
    [BACKING_VOLUME] = {"PersistentVolume", "claim", "", "persistentvolumes", "claimRef",
			"persistentVolumeReclaimPolicy", "pvc-"},
};

const char *backing_kind(enum backing_type type)
{
	return types[type].kind;
}

const char *backing_owner_kind(enum backing_type type)
{
	return types[type].owner;
}

struct kube_ref backing_ref(enum backing_type type, const char *name)
{
	return (struct kube_ref){.group = types[type].group, .resource = types[type].resource, .name = name};
}

void backing_name(const struct backing_owner *o, char out[KUBE_OBJECT_MAX + 1])
{
	if (o->backing[0])
		text_put(out, KUBE_OBJECT_MAX + 1, o->backing);
	else
		text_format(out, KUBE_OBJECT_MAX + 1, "%s%s", types[o->type].prefix, o->uid);
}

/* Where a volume is: what its driver calls it, or the path that it is. */
static void read_volume(const json_t *o, struct backing_view *v)
{
	const json_t *spec = json_object_get(o, "spec"), *csi = json_object_get(spec, "csi");
	const json_t *notes = json_object_get(json_object_get(o, "metadata"), "annotations");
	const char *path = json_get_text(json_object_get(spec, "local"), "path");

	text_put(v->driver, sizeof(v->driver),
		 csi ? json_get_text(csi, "driver") : json_get_text(notes, "pv.kubernetes.io/provisioned-by"));
	v->by_hand = !v->driver[0];
	if (!*path)
		path = json_get_text(json_object_get(spec, "hostPath"), "path");
	text_put(v->handle, sizeof(v->handle), csi ? json_get_text(csi, "volumeHandle") : path);
	text_put(v->why, sizeof(v->why), json_get_text(json_object_get(o, "status"), "message"));
}

static void read_content(const json_t *o, struct backing_view *v)
{
	const json_t *spec = json_object_get(o, "spec"), *status = json_object_get(o, "status");
	const char *handle = json_get_text(status, "snapshotHandle");

	text_put(v->driver, sizeof(v->driver), json_get_text(spec, "driver"));
	if (!*handle)
		handle = json_get_text(json_object_get(spec, "source"), "snapshotHandle");
	text_put(v->handle, sizeof(v->handle), handle);
	text_put(v->why, sizeof(v->why), json_get_text(json_object_get(status, "error"), "message"));
}

static bool backing_fits(char *out, size_t size, const char *s)
{
	text_put(out, size, s);
	return *s && strlen(s) < size;
}

int backing_view(enum backing_type type, const json_t *o, struct backing_view *out, struct err *e)
{
	const json_t *meta = json_object_get(o, "metadata"), *spec = json_object_get(o, "spec");
	const json_t *ref = json_object_get(spec, types[type].ref);
	struct backing_view v = {.type = type, .owner = {.type = type}};

	if (!backing_fits(v.name, sizeof(v.name), json_get_text(meta, "name")) ||
	    !backing_fits(v.uid, sizeof(v.uid), json_get_text(meta, "uid")) ||
	    strlen(json_get_text(meta, "resourceVersion")) >= sizeof(v.version))
		return err_set(e, ERR_K8S, "the API server's answer is no %s", types[type].kind);
	text_put(v.version, sizeof(v.version), json_get_text(meta, "resourceVersion"));
	text_put(v.policy, sizeof(v.policy), json_get_text(spec, types[type].policy));
	text_put(v.owner.ns, sizeof(v.owner.ns), json_get_text(ref, "namespace"));
	text_put(v.owner.name, sizeof(v.owner.name), json_get_text(ref, "name"));
	text_put(v.owner.uid, sizeof(v.owner.uid), json_get_text(ref, "uid"));
	text_put(v.owner.backing, sizeof(v.owner.backing), v.name);
	v.deleting = *json_get_text(meta, "deletionTimestamp");
	if (type == BACKING_VOLUME)
		read_volume(o, &v);
	else
		read_content(o, &v);
	pod_plain_text(v.driver);
	pod_plain_text(v.handle);
	pod_plain_text(v.why);
	*out = v;
	return 0;
}

bool backing_is_of(const struct backing_view *v, const struct backing_owner *o)
{
	return strcmp(v->owner.ns, o->ns) == 0 && strcmp(v->owner.name, o->name) == 0 &&
	       strcmp(v->owner.uid, o->uid) == 0;
}

bool backing_goes(const struct backing_view *v)
{
	return strcmp(v->policy, "Delete") == 0;
}

json_t *backing_take_over(const struct backing_view *v)
{
	return json_pack("{s:{s:s,s:s},s:{s:s}}", "metadata", "uid", v->uid, "resourceVersion", v->version, "spec",
			 types[v->type].policy, "Delete");
}

void backing_where(const struct backing_view *v, char *out, size_t size)
{
	text_format(out, size, " (%s %s%s%s%s%s)", types[v->type].policy, v->policy[0] ? v->policy : "not set",
		    v->driver[0] ? ", driver " : "", v->driver, v->handle[0] ? ", handle " : "", v->handle);
}
