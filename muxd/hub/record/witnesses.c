#include "muxd/hub/record/witnesses.h"

#include "base/clock.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/session/session_state.h"
#include "recorder/serve/client.h"

#include <stdlib.h>
#include <string.h>

#define ASK_NS (2 * NS_PER_SEC)

struct witness_words {
	json_t *list;      /* as the recorder said last; NULL: none */
	uint64_t asked_ns; /* boot */
};

struct witness_words *witness_words_create(void)
{
	return calloc(1, sizeof(struct witness_words));
}

void witness_words_destroy(struct witness_words *w)
{
	if (w)
		json_decref(w->list);
	free(w);
}

static void witnesses_on_answer(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
				bool end)
{
	json_t *list = rc || !json ? NULL : json_object_get(json, "witnesses");
	struct witness_words *w;

	(void)e, (void)p, (void)n, (void)end;
	if (!json_is_array(list))
		return; /* the last word stays: a recorder that starts again has the same witnesses */
	w = hub_witness_words(arg);
	json_decref(w->list);
	w->list = json_incref(list);
}

void hub_witnesses_tick(struct hub *h)
{
	struct witness_words *w = hub_witness_words(h);
	uint64_t now = clock_boot_ns();
	json_t *q;

	if (!hub_conf(h)->nwitnesses) {
		json_decref(w->list);
		w->list = NULL;
		return;
	}
	if (!hub_is_recovered(h) || hub_stopping(h) || !hub_recorder(h) || now < w->asked_ns + ASK_NS)
		return;
	w->asked_ns = now;
	q = json_pack("{s:s}", "op", "witnesses");
	if (q)
		(void)recorder_client_ask(hub_recorder(h), q, witnesses_on_answer, h);
	json_decref(q);
}

const json_t *hub_witnesses(const struct hub *h)
{
	return hub_witness_words(h)->list;
}
