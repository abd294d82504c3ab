/* Asked and told beside any run: what the store says of a snapshot, what the audit log is to have. */
#define LOG_SUBSYS "life"
#include "base/log.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

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
