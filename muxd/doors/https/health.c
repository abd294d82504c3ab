#include "muxd/doors/https/handlers.h"
#include "muxd/hub/core/hub.h"

#include <string.h>

/* Of each its name, state, lag and what its receipts say: who may look here is not asked. */
static json_t *witnesses_brief(const json_t *list)
{
	json_t *out = json_array();
	const json_t *each;
	size_t i;

	json_array_foreach(list, i, each)
	{
		json_array_append_new(out, json_pack("{s:O?,s:O?,s:O?,s:O?}", "name", json_object_get(each, "name"),
						     "state", json_object_get(each, "state"), "lag_seconds",
						     json_object_get(each, "lag_seconds"), "proof",
						     json_object_get(each, "proof")));
	}
	return out;
}

static void reply_state(struct http_exchange *x, bool good, const char *good_word, const char *bad_word)
{
	enum hub_record_state record = hub_record_state(x->hub);
	json_t *o = json_pack("{s:s,s:s,s:s,s:b}", "status", good ? good_word : bad_word, "record",
			      hub_record_state_name(record), "control",
			      hub_control_state_name(hub_control_state(x->hub)), "ready", (int)hub_ready(x->hub));

	if (o && hub_conf(x->hub)->descriptors[0])
		json_object_set_new(o, "reduced", json_string(hub_conf(x->hub)->descriptors));
	if (o && hub_alarms(x->hub))
		json_object_set(o, "alarms", (json_t *)hub_alarms(x->hub));
	if (o && hub_witnesses(x->hub))
		json_object_set_new(o, "witnesses", witnesses_brief(hub_witnesses(x->hub)));
	if (!good)
		x->retry_after_s = 1;
	if (o)
		http_reply_json(x, good ? 200 : 503, o);
	else
		http_reply_error(x, ERR_NOMEM, NULL);
	json_decref(o);
}

/*
 * Healthy: the record can be written, or is about to be (a restart of the recorder is no illness), what changes of
 * sandboxes and leases is stored, and nothing is known to be wrong with the record.
 */
void rest_healthz(struct http_exchange *x)
{
	enum hub_record_state record = hub_record_state(x->hub);

	enum hub_control_state control = hub_control_state(x->hub);
	bool writes = record == RECORD_OK || record == RECORD_STARTING;
	bool stores = control == CONTROL_OK || control == CONTROL_STARTING;

	reply_state(x, writes && stores && !hub_alarms(x->hub), "ok",
		    !writes   ? "record_unavailable"
		    : !stores ? "control_unavailable"
			      : "record_alarm");
}

void rest_readyz(struct http_exchange *x)
{
	reply_state(x, hub_ready(x->hub), "ready", "not_ready");
}

void rest_websocket(struct http_exchange *x)
{
	struct err e = {0};

	err_set(&e, ERR_INVAL, "%s is a WebSocket with subprotocol muxd.v1: see docs/protocol.md", x->path);
	http_reply_status(x, 426, e.code, &e);
}
