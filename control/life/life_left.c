/*
 * What has outlived its snapshot in the backend: found at start and each hour, where the backend may look. What was
 * dropped goes, by the row that says so; what no row says was to go is named, and left alone: an administrator's hand
 * may have taken its owner by a slip, and it is all that is left.
 */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/log.h"
#include "control/life/life_state.h"

#include <stdlib.h>
#include <string.h>

#define EACH_NS (3600 * NS_PER_SEC)
#define CAUSE   "its content had outlived it"

static int tell(struct life *l, const struct life_snap *s, const char *name, const char *outcome)
{
	char id[ID_STR_LEN];

	id_format(&s->id, id);
	return life_audit(l, "snapshot.drop", s->agent, outcome,
			  json_pack("{s:s,s:s,s:s}", "id", id, "cause", CAUSE, "content", name));
}

/* What the record cannot hold does not happen. */
static bool may_go(void *arg, const struct id *snapshot, const char *name)
{
	const struct life_call *c = arg;
	struct life_snap s = {0};

	return c->life && !c->life->dying && !life_snap_load(c->life, snapshot, &s, NULL) && s.status == SNAP_DROPPED &&
	       !tell(c->life, &s, name, "intended");
}

static void on_swept(void *arg, int rc, const struct err *e, const struct sandbox_snapshot *list, size_t n)
{
	struct life_call *c = arg;
	struct life *l = c->life;
	struct life_snap s = {0};

	if (l)
		LIST_REMOVE(c, entry);
	free(c);
	if (!l || l->dying)
		return;
	if (rc)
		log_debug(NULL, "what has outlived its snapshot is not looked for: %s", e ? e->message : err_name(rc));
	for (size_t i = 0; !rc && i < n; i++) {
		if (list[i].detail[0])
			log_warn(NULL, "VolumeSnapshotContent %s has outlived its snapshot, and stays: %s",
				 list[i].name, list[i].detail);
		else if (!life_snap_load(l, &list[i].id, &s, NULL))
			(void)tell(l, &s, list[i].name, "ok");
	}
}

void life_left(struct life *l)
{
	uint64_t now = clock_boot_ns();
	struct life_call *c = l->inner->ops->snapshot_sweep && now >= l->left_at ? calloc(1, sizeof(*c)) : NULL;

	if (!c)
		return;
	l->left_at = now + EACH_NS;
	c->life = l;
	LIST_INSERT_HEAD(&l->calls, c, entry);
	l->inner->ops->snapshot_sweep(l->inner, may_go, on_swept, c);
}
