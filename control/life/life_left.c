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

/* why: what went wrong; NULL: nothing. */
static int life_left_tell(struct life *l, const struct life_snap *s, const char *name, const char *outcome,
			  const char *why)
{
	char id[ID_STR_LEN];

	id_format(&s->id, id);
	return life_audit(l, "snapshot.drop", s->agent, outcome,
			  json_pack("{s:s,s:s,s:s,s:s*}", "id", id, "cause", CAUSE, "content", name, "message", why));
}

/* What the record cannot hold does not happen. */
static bool left_may_go(void *arg, const struct id *snapshot, const char *name)
{
	const struct life_call *c = arg;
	struct life_snap s = {0};

	return c->life && !c->life->dying && !life_snap_load(c->life, snapshot, &s, NULL) && s.status == SNAP_DROPPED &&
	       !life_left_tell(c->life, &s, name, "intended", NULL);
}

/* Each that was intended has its outcome. */
static void one_swept(struct life *l, const struct sandbox_snapshot *one)
{
	const char *why = one->detail[0] ? one->detail : NULL;
	struct life_snap s = {0};

	if (why)
		log_warn(NULL, "VolumeSnapshotContent %s has outlived its snapshot, and stays: %s", one->name, why);
	if ((!why || one->rc) && !life_snap_load(l, &one->id, &s, NULL))
		(void)life_left_tell(l, &s, one->name, one->rc ? err_name(one->rc) : "ok", why);
}

static void life_left_on_swept(void *arg, const struct sandbox_answer *r)
{
	const struct sandbox_snapshot *list = r->snapshots;
	struct life_call *c = arg;
	struct life *l = c->life;

	if (l)
		LIST_REMOVE(c, entry);
	free(c);
	if (!l || l->dying)
		return;
	if (r->rc)
		log_debug(NULL, "what has outlived its snapshot is not looked for: %s",
			  r->e ? r->e->message : err_name(r->rc));
	for (size_t i = 0; !r->rc && i < r->n; i++)
		one_swept(l, &list[i]);
}

void life_left(struct life *l)
{
	uint64_t now = clock_boot_ns();
	struct life_call *c = sandbox_can(l->inner, SANDBOX_SWEEP) && now >= l->left_at ? calloc(1, sizeof(*c)) : NULL;

	if (!c)
		return;
	l->left_at = now + EACH_NS;
	c->life = l;
	LIST_INSERT_HEAD(&l->calls, c, entry);
	sandbox_ask(l->inner, &(struct sandbox_ask){.op = SANDBOX_SWEEP, .may_go = left_may_go}, life_left_on_swept, c);
}
