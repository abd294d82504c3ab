#include "muxd/hub/broker/round_artifacts.h"

#include "base/err.h"
#include "base/ring.h"
#include "control/artifacts/artifact_wish.h"
#include "muxd/hub/broker/broker_artifact.h"
#include "muxd/hub/broker/round_wishes.h"
#include "muxd/hub/core/hub_rooms.h"

#include <string.h>

static void keep_next(struct round_wishes *k);

static void keep_on_taken(void *arg, int rc, const struct err *e, json_t *row)
{
	struct round_wishes *k = arg;

	round_wishes_result(k, rc, rc ? e->message : NULL, row);
	if (rc == ERR_CANCELLED)
		round_wishes_free(k); /* the hub ends */
	else
		keep_next(k);
}

static void keep_next(struct round_wishes *k)
{
	struct artifact_take take = {.task = k->task, .made_by = k->id_text, .sandbox = k->sandbox};
	struct artifact_wish w;

	if (k->next == json_array_size(k->wishes)) {
		round_wishes_free(k);
		return;
	}
	artifact_wish_read(k->wishes, k->next, &w);
	take.name = w.name;
	if (w.path) {
		take.agent = k->agent;
		take.path = w.path;
	} else {
		take.round = k->round;
		take.stream = strcmp(w.stream, "stderr") == 0 ? STREAM_STDERR : STREAM_OUTPUT;
	}
	broker_artifact_take(k->hub, &k->rq, &take, keep_on_taken, k);
}

void round_artifacts_tick(struct hub *h)
{
	struct wishes *all = hub_wishes(h);
	struct round_wishes *k;

	while ((k = TAILQ_FIRST(&all->due))) {
		TAILQ_REMOVE(&all->due, k, entry);
		keep_next(k);
	}
}
