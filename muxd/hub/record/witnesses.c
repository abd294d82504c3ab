/* What the recorder says of the record's witnesses: asked every few seconds, for /healthz and /metrics. */
#include "base/clock.h"
#include "muxd/hub/core/hub_state.h"
#include "muxd/hub/session/session_state.h"
#include "recorder/serve/client.h"

#include <string.h>

#define ASK_NS (2 * NS_PER_SEC)

static void witnesses_on_answer(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
				bool end)
{
	struct hub *h = arg;
	json_t *list = rc || !json ? NULL : json_object_get(json, "witnesses");

	(void)e, (void)p, (void)n, (void)end;
	if (!json_is_array(list))
		return; /* the last word stays: a recorder that starts again has the same witnesses */
	json_decref(h->witnesses);
	h->witnesses = json_incref(list);
}

void hub_witnesses_tick(struct hub *h)
{
	uint64_t now = clock_boot_ns();
	json_t *q;

	if (!hub_conf(h)->nwitnesses) {
		json_decref(h->witnesses);
		h->witnesses = NULL;
	}
	if (!hub_conf(h)->nwitnesses || !hub_is_recovered(h) || hub_stopping(h) || !hub_recorder(h) ||
	    now < h->witnesses_ns + ASK_NS)
		return;
	h->witnesses_ns = now;
	q = json_pack("{s:s}", "op", "witnesses");
	if (q)
		(void)recorder_client_ask(hub_recorder(h), q, witnesses_on_answer, h);
	json_decref(q);
}

const json_t *hub_witnesses(const struct hub *h)
{
	return h->witnesses;
}
