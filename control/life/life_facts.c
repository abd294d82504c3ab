/* Facts about snapshots, from the store and from the provider; and events, on their way to the audit log. */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <string.h>

struct id life_fresh_id(void)
{
	struct id id = {0};

	if (id_new(&id))
		log_error(NULL, "no random bytes for an id");
	return id;
}

static int snap_read(struct sqlite3 *db, void *job, struct err *e)
{
	struct life_snap *s = job;

	return snap_get(db, &s->id, s, e);
}

int life_snap_load(struct life *l, const struct id *id, struct life_snap *out, struct err *e)
{
	out->id = *id;
	return store_read(l->store, snap_read, out, e);
}

void life_snap_new(struct life_agent *a, struct life_row *next, const char *cause)
{
	struct life_snap *s = &a->run->snap;

	*s = (struct life_snap){.id = life_fresh_id(),
				.status = SNAP_TAKING,
				.previous = a->row.snapshot,
				.created_wall_ns = clock_wall_ns()};
	memcpy(s->agent, a->name, sizeof(s->agent));
	text_format(s->cause, sizeof(s->cause), "%.190s", cause);
	next->next = s->id;
}

void life_snap_whole(struct life_snap *s, const struct sandbox_snapshot *copy)
{
	s->status = SNAP_READY;
	s->size = copy->size;
	memcpy(s->name, copy->name, sizeof(s->name));
	memcpy(s->how, copy->how, sizeof(s->how));
	memcpy(s->digest, copy->digest, sizeof(s->digest));
	s->stored = copy->stored;
	s->mtime_ns = copy->mtime_ns;
}

int life_audit(struct life *l, const char *event, const char *agent, const char *outcome, json_t *detail)
{
	json_t *o;
	int rc;

	if (!l->host.audit) {
		json_decref(detail);
		return 0;
	}
	o = json_pack("{s:s,s:s,s:s,s:o*}", "event", event, "agent", agent, "outcome", outcome, "detail", detail);
	if (!o)
		return ERR_NOMEM;
	rc = l->host.audit(l->host.ctx, o);
	if (rc)
		log_error(&(struct log_ids){.agent = agent}, "%s is not in the audit log: %s", event, err_name(rc));
	return rc;
}
