/*
 * backing.h - what is behind a VolumeSnapshot or a claim, and holds the data: a VolumeSnapshotContent, a
 * PersistentVolume. Pure.
 *
 * Both are of no namespace, name the one object that owns them, and say with a policy whether the data goes with it.
 * "Delete" alone means that it goes; whatever else is said (Retain, Recycle, nothing) means that it stays.
 */
#ifndef CONTROL_KUBE_PODS_BACKING_H
#define CONTROL_KUBE_PODS_BACKING_H

#include "control/kube/client/verbs.h"
#include "control/kube/pods/claim.h"

enum backing_type { BACKING_CONTENT, BACKING_VOLUME };

/* Whose data it is: a VolumeSnapshot, a claim. */
struct backing_owner {
	enum backing_type type;
	char ns[AGENT_NAME_MAX + 1];
	char name[KUBE_OBJECT_MAX + 1], uid[POD_UID_MAX + 1];
	char backing[KUBE_OBJECT_MAX + 1]; /* the name that the owner says; "": it says none (yet) */
};

struct backing_view {
	enum backing_type type;
	char name[KUBE_OBJECT_MAX + 1], uid[POD_UID_MAX + 1], version[64];
	char policy[16];
	char driver[64], handle[96]; /* where the data is, in the driver's own words; "": not said */
	char why[128];               /* the cluster's words for what it did not do; "" */
	bool deleting;
	bool by_hand; /* a volume that no driver made: none deletes what is in it, whatever its policy becomes */
	struct backing_owner owner; /* as it says itself */
};

/* ERR_K8S when this is none. */
int backing_view(enum backing_type type, const json_t *o, struct backing_view *out, struct err *e);
/* Does the backing object name that owner, by namespace, name and uid? */
bool backing_is_of(const struct backing_view *v, const struct backing_owner *o);
/* The data goes with its owner. */
bool backing_goes(const struct backing_view *v);
/* For a merge patch that only this version takes: from then on the data goes with its owner. NULL: no memory. */
json_t *backing_take_over(const struct backing_view *v);

/* The name to look under: what the owner says, else the one that provisioners and the snapshot controller give. */
void backing_name(const struct backing_owner *o, char out[KUBE_OBJECT_MAX + 1]);
struct kube_ref backing_ref(enum backing_type type, const char *name);
const char *backing_kind(enum backing_type type);       /* "VolumeSnapshotContent" */
const char *backing_owner_kind(enum backing_type type); /* "VolumeSnapshot" */
/* " (deletionPolicy Retain, driver D, handle H)" */
void backing_where(const struct backing_view *v, char *out, size_t size);

#endif
