#define LOG_SUBSYS "audit"
#include "muxd/base/clock.h"
#include "muxd/base/err.h"
#include "muxd/base/log.h"
#include "muxd/hub/internal.h"

static void set_request(json_t *o, const struct request *rq)
{
	char text[ID_STR_LEN];

	json_object_set_new(o, "door", json_string(rq->door));
	json_object_set_new(o, "peer", json_string(rq->peer));
	if (rq->endpoint[0])
		json_object_set_new(o, "endpoint", json_string(rq->endpoint));
	id_format(&rq->id, text);
	json_object_set_new(o, "request_id", json_string(text));
	if (rq->lease[0])
		json_object_set_new(o, "lease_id", json_string(rq->lease));
	if (rq->run[0])
		json_object_set_new(o, "run_id", json_string(rq->run));
	if (id_is_nil(&rq->grant.id))
		return;
	id_format(&rq->grant.id, text);
	json_object_set_new(o, "grant_id", json_string(text));
	json_object_set_new(o, "principal", json_string(rq->grant.principal));
	json_object_set_new(o, "principal_kind", json_string(grant_kind_name(rq->grant.kind)));
	json_object_set_new(o, "reason", json_string(rq->grant.reason));
}

int audit_event(struct hub *h, const char *event, const struct request *rq, const char *agent, const char *outcome,
		json_t *detail)
{
	json_t *o = json_object();
	int rc = ERR_NOMEM;

	if (!o)
		goto out;
	json_object_set_new(o, "event", json_string(event));
	json_object_set_new(o, "wall_ns", json_integer((json_int_t)hub_now_wall(h)));
	json_object_set_new(o, "outcome", json_string(outcome));
	if (agent)
		json_object_set_new(o, "agent", json_string(agent));
	if (rq)
		set_request(o, rq);
	if (detail)
		json_object_set(o, "detail", detail);
	rc = journal_json(h->journal, RING_AUDIT, NULL, o);
	if (rc)
		log_error(NULL, "audit event %s not journaled: %s", event, err_name(rc));
out:
	json_decref(detail);
	json_decref(o);
	return rc;
}

int hub_audit(struct hub *h, const json_t *record)
{
	return journal_json(h->journal, RING_AUDIT, NULL, record);
}
