/* The workspace before and after a session: the snapshot that was current at its opening, and the next one. */
#include "base/clock.h"
#include "base/err.h"
#include "control/life/life.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/broker/agent_json.h"
#include "muxd/hub/broker/broker_life.h"
#include "muxd/hub/core/hub_ground.h"

#include <string.h>

static const char *moment_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

/* Of a list, newest first: the oldest that is whole and was begun after `when`. */
static const char *next_of(const json_t *snapshots, const char *when)
{
	const char *found = "";
	const json_t *each;
	size_t i;

	json_array_foreach(snapshots, i, each)
	{
		if (strcmp(moment_text(each, "created_at"), when) <= 0)
			break;
		if (strcmp(moment_text(each, "status"), "ready") == 0)
			found = moment_text(each, "id");
	}
	return found;
}

void moment_add(struct hub *h, json_t *o, const char *agent, int64_t opened_wall_ns, const char *snapshot, json_t *seen)
{
	json_t *of = json_object_get(seen, agent);
	char when[40];
	const char *next;

	if (!o)
		return;
	if (!of && hub_life(h) && !target_is_pod(agent) && life_snapshots(hub_life(h), agent, &of, NULL) == 0)
		json_object_set_new(seen, agent, of);
	clock_format_utc(opened_wall_ns, when, sizeof(when));
	next = next_of(json_object_get(of, "snapshots"), when);
	json_object_set_new(o, "snapshot_id", *snapshot ? json_string(snapshot) : json_null());
	json_object_set_new(o, "next_snapshot_id", *next ? json_string(next) : json_null());
}

int broker_moment(struct hub *h, const struct request *rq, const char *agent, int64_t wall_ns, const char *snapshot,
		  json_t **out, struct err *e)
{
	json_t *seen = json_object();
	const struct policy_question q = {.op = POLICY_SANDBOX_READ, .agent = agent};
	int rc = broker_check(h, rq, &q, 0, "moment", NULL, e);

	if (!rc && !(*out = json_object()))
		rc = ERR_NOMEM;
	if (!rc)
		moment_add(h, *out, agent, wall_ns, snapshot, seen);
	json_decref(seen);
	return rc;
}
