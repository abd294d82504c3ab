#define LOG_SUBSYS "artifact"
#include "muxd/hub/broker/round_wishes.h"

#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/artifacts/artifact_wish.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"

#include <stdlib.h>
#include <string.h>

void round_wishes_free(struct round_wishes *k)
{
	json_decref(k->wishes);
	json_decref(k->results);
	request_finish(&k->rq);
	free(k);
}

struct wishes *wishes_create(void)
{
	struct wishes *x = calloc(1, sizeof(*x));

	if (x)
		TAILQ_INIT(&x->due);
	return x;
}

void wishes_destroy(struct wishes *x)
{
	struct round_wishes *k;

	while (x && (k = TAILQ_FIRST(&x->due))) {
		TAILQ_REMOVE(&x->due, k, entry);
		round_wishes_free(k);
	}
	free(x);
}

bool wishes_rest(const struct hub *h)
{
	return TAILQ_EMPTY(&hub_wishes(h)->due);
}

void round_wishes_result(struct round_wishes *k, int rc, const char *message, const json_t *row)
{
	struct artifact_wish w;
	json_t *o;

	artifact_wish_read(k->wishes, k->next, &w);
	o = rc ? artifact_wish_failed(w.name, rc, message) : artifact_wish_kept(w.name, row);
	if (rc) {
		struct log_ids ids = {.agent = k->agent, .session = k->id_text};

		log_info(&ids, "artifact %s was not made: %s", w.name, message);
	}
	(void)json_array_set_new(k->results, k->next, o);
	k->next++;
}

static void wishes_on_end(void *arg, struct session *s)
{
	struct round_wishes *k = arg;
	const struct session_result *r = session_result(s);

	if (!r) { /* the hub ends */
		round_wishes_free(k);
	} else if (r->cause == EXIT_NOT_STARTED) {
		while (k->next < json_array_size(k->wishes))
			round_wishes_result(k, ERR_BAD_STATE, "the round did not start", NULL);
		round_wishes_free(k);
	} else {
		TAILQ_INSERT_TAIL(&hub_wishes(k->hub)->due, k, entry);
		hub_stir(k->hub);
	}
}

static int results_make(const json_t *wishes, json_t **out)
{
	json_t *list = json_array();
	struct artifact_wish w;

	for (size_t i = 0; i < json_array_size(wishes); i++) {
		artifact_wish_read(wishes, i, &w);
		if (json_array_append_new(list, artifact_wish_pending(w.name))) {
			json_decref(list);
			return ERR_NOMEM;
		}
	}
	*out = list;
	return list ? 0 : ERR_NOMEM;
}

static bool wants_output(const json_t *wishes)
{
	struct artifact_wish w;

	for (size_t i = 0; i < json_array_size(wishes); i++) {
		artifact_wish_read(wishes, i, &w);
		if (w.stream)
			return true;
	}
	return false;
}

int round_wishes_begin(struct session *s, const struct request *rq, const struct id *sandbox)
{
	struct round_wishes *k = calloc(1, sizeof(*k));

	if (!k || results_make(s->launch.artifacts, &k->results)) {
		free(k);
		return ERR_NOMEM;
	}
	k->hub = s->hub;
	k->rq = *rq;
	k->round = s->id;
	k->sandbox = *sandbox;
	memcpy(k->id_text, s->id_text, sizeof(k->id_text));
	text_put(k->agent, sizeof(k->agent), s->agent->name);
	text_put(k->task, sizeof(k->task), s->launch.task);
	k->wishes = json_incref(s->launch.artifacts);
	s->artifacts = json_incref(k->results);
	if (!wants_output(k->wishes)) /* the token is for the record alone */
		request_finish(&k->rq);
	session_wait(s, &k->waiter, wishes_on_end, k);
	return 0;
}

int round_wishes_restore(struct session *s, const struct id *sandbox)
{
	struct request rq;

	session_request(s, &rq);
	/* The wish was allowed when it was made; that the grant has neither ended nor been revoked is looked at again.
	 */
	rq.grant.scopes = SCOPE_FILES | SCOPE_ROUNDS;
	text_put(rq.grant.agent, sizeof(rq.grant.agent), s->agent->name);
	return round_wishes_begin(s, &rq, sandbox);
}
